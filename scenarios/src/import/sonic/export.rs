//! The way back: buffers, classes, marking and PFC of a scenario's switches as CONFIG_DB, to be
//! merged with `config load` or `sonic-cfggen -j`.

use std::collections::BTreeMap;
use std::path::Path;

use models::fabric::Plan;
use models::ids::{NodeId, PortId};
use models::switch::{
    Headroom, MarkAt, ProfileConfig, SchedulerUnit, SwitchConfig, Trust, WatchdogAction, WredConfig,
};
use sim_core::Delta;

use super::asic::{Asic, PoolSize};
use super::joins::table;
use super::tables::natural;
use crate::import::ImportError;
use crate::import::text::TextFile;
use crate::library::Kind;
use crate::resolve::Loaded;

/// Lanes of a port, by which SONiC numbers them, where no names are given.
const LANES: usize = 4;
const PRIORITIES: u8 = 8;

/// Patches for the switches of a scenario.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The switches that share a patch, and its text.
    pub patches: Vec<(Vec<String>, String)>,
    /// What CONFIG_DB cannot say, or what was assumed.
    pub warnings: Vec<String>,
}

type Tables = BTreeMap<&'static str, BTreeMap<Vec<(String, u64)>, (String, Fields)>>;
type Fields = Vec<(String, String)>;

/// The settings of all switches. `names` is a table switch, port, name (the importer writes one);
/// without it ports are called Ethernet0, Ethernet4 ... `asic` says what the size of a pool means;
/// without it the preset does.
pub fn sonic_patches(
    loaded: &Loaded,
    plan: &Plan,
    names: Option<&Path>,
    asic: Option<&str>,
) -> Result<Exported, ImportError> {
    let fail = |message: String| ImportError { file: loaded.name.clone(), line: None, message };
    let asic = match asic {
        Some(name) => Some(Asic::named(name).map_err(fail)?),
        None => loaded.preset(Kind::SwitchPreset).and_then(|name| Asic::named(name).ok()),
    };
    let mut warnings = Vec::new();
    let names = match names {
        Some(path) => Some(read_names(path)?),
        None => {
            let message = "ports are called Ethernet0, Ethernet4 .. in the order of their cables; \
                           --ports names them as the switch does";
            warnings.push(message.to_owned());
            None
        }
    };
    let mut patches: Vec<(Vec<String>, String)> = Vec::new();
    let topology = &plan.wiring.topology;
    for (index, node) in topology.switches().enumerate() {
        let name = topology.node(node).name.to_string();
        let mut export = Export {
            asic,
            tables: Tables::new(),
            profiles: Named::default(),
            wred: Named::default(),
            schedulers: Named::default(),
            maps: BTreeMap::new(),
            main: plan.spec.switches[node.index()]
                .as_deref()
                .map_or_else(Default::default, main_pools),
            warnings: &mut warnings,
            switch: &name,
        };
        for (slot, port) in topology.ports_of(node).enumerate() {
            let port_name = match &names {
                Some(names) => names.get(&(name.clone(), slot)).cloned().ok_or_else(|| {
                    fail(format!("the table of ports has no name for port {slot} of {name}"))
                })?,
                None => format!("Ethernet{}", LANES * slot),
            };
            export.port(plan, index, slot, port, &port_name).map_err(fail)?;
        }
        export.pools(plan, index, node);
        let text = export.text();
        match patches.iter_mut().find(|(_, known)| *known == text) {
            Some((names, _)) => names.push(name),
            None => patches.push((vec![name], text)),
        }
    }
    warnings.dedup();
    Ok(Exported { patches, warnings })
}

fn read_names(path: &Path) -> Result<BTreeMap<(String, usize), String>, ImportError> {
    let file = TextFile::read(path, "a table switch,port,name is expected")?;
    let mut names = BTreeMap::new();
    for (line, cells) in table(&file, &["switch", "port", "name"], &[])? {
        let Ok(port) = cells[1].parse() else {
            return Err(file.error_at(line, format!("{:?} is no number of a port", cells[1])));
        };
        if names.insert((cells[0].clone(), port), cells[2].clone()).is_some() {
            return Err(file.error_at(line, format!("port {port} of {} stands twice", cells[0])));
        }
    }
    Ok(names)
}

/// Values and the names that they have got.
struct Named<T>(Vec<(T, String)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named(Vec::new())
    }
}

impl<T: PartialEq> Named<T> {
    /// The name of a value, `wish` or `wish_2` if it is new; and whether it is.
    fn name(&mut self, value: T, wish: &str) -> (String, bool) {
        if let Some((_, name)) = self.0.iter().find(|(known, _)| *known == value) {
            return (name.clone(), false);
        }
        let taken = |name: &str| self.0.iter().any(|(_, known)| known == name);
        let mut name = wish.to_owned();
        let mut count = 1;
        while taken(&name) {
            count += 1;
            name = match wish.strip_suffix("_profile") {
                Some(head) => format!("{head}_{count}_profile"),
                None => format!("{wish}_{count}"),
            };
        }
        self.0.push((value, name.clone()));
        (name, true)
    }
}

/// Which side of the switch a profile is for, and whether it is lossless.
type Side = (bool, bool);

struct Export<'a> {
    asic: Option<&'static Asic>,
    tables: Tables,
    profiles: Named<(Side, ProfileConfig, Option<u64>)>,
    wred: Named<WredConfig>,
    schedulers: Named<Option<u32>>,
    maps: BTreeMap<&'static str, Named<BTreeMap<u8, u8>>>,
    /// The pools of lossless groups and queues, by their names in the scenario.
    main: [String; 2],
    warnings: &'a mut Vec<String>,
    switch: &'a str,
}

fn field(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

/// The pools that lossless groups and queues draw on.
fn main_pools(config: &SwitchConfig) -> [String; 2] {
    let or = |name: &str, default: &str| match name {
        "" => default.to_owned(),
        name => name.to_owned(),
    };
    let buffer = &config.buffer;
    [or(&buffer.lossless.pool, "ingress"), or(&buffer.lossless_queue.pool, "egress")]
}

impl Export<'_> {
    /// The name in SONiC: those of lossless traffic have theirs, others keep the scenario's.
    fn pool_name(&self, pool: &str, is_ingress: bool) -> String {
        let side = if is_ingress { "ingress" } else { "egress" };
        let pool = if pool.is_empty() { side } else { pool };
        match pool {
            _ if self.main[0] == pool => "ingress_lossless_pool".to_owned(),
            _ if self.main[1] == pool => "egress_lossless_pool".to_owned(),
            "ingress" | "egress" => format!("{pool}_lossy_pool"),
            other => other.to_owned(),
        }
    }

    fn add(&mut self, table: &'static str, key: &str, fields: Fields) {
        let entries = self.tables.entry(table).or_default();
        entries.insert(natural(key), (key.to_owned(), fields));
    }

    fn warn(&mut self, message: String) {
        let message = format!("{}: {message}", self.switch);
        if !self.warnings.contains(&message) {
            self.warnings.push(message);
        }
    }

    fn port(
        &mut self,
        plan: &Plan,
        switch: usize,
        slot: usize,
        port: PortId,
        name: &str,
    ) -> Result<(), String> {
        let Some(config) = plan.spec.switch_ports[port.index()].as_deref() else { return Ok(()) };
        let info = plan.wiring.topology.port(port);
        let cell = config.buffer.cell;
        let xoff = match config.pfc.headroom {
            Headroom::Size(size) => size.to_bytes(cell),
            _ => plan.buffers[switch].headroom[slot],
        };
        let link = format!("{}_{}m", info.rate.bps() / 1_000_000, info.delay.ps().div_ceil(5000));
        self.groups(config, xoff, &link, name);
        self.queues(config, name)?;
        self.port_maps(config, name);
        self.watchdog(config, name);
        Ok(())
    }

    /// PFC_WD, in whole milliseconds.
    fn watchdog(&mut self, config: &SwitchConfig, name: &str) {
        let Some(watchdog) = &config.pfc_wd else { return };
        let mut ms = |key: &str, time: Delta| {
            let ms = time.ps().div_ceil(Delta::from_ms(1).ps()).max(1);
            if time != Delta::from_ms(ms) {
                self.warn(format!(
                    "pfc_wd.{key} is {time}; PFC_WD has whole milliseconds: {ms} ms"
                ));
            }
            ms
        };
        let action = match watchdog.action {
            WatchdogAction::Drop => "drop",
            WatchdogAction::Forward => "forward",
            WatchdogAction::Alert => "alert",
        };
        let fields = vec![
            field("action", action),
            field("detection_time", ms("detection_time", watchdog.detection_time)),
            field("restoration_time", ms("restoration_time", watchdog.restoration_time)),
        ];
        let poll = vec![field("POLL_INTERVAL", ms("poll_interval", watchdog.poll_interval))];
        self.add("PFC_WD", name, fields);
        self.add("PFC_WD", "GLOBAL", poll);
    }

    /// BUFFER_PG of the groups that traffic can reach.
    fn groups(&mut self, config: &SwitchConfig, xoff: u64, link: &str, name: &str) {
        let qos = &config.qos;
        let tcs = 0..PRIORITIES;
        let reached: Vec<u8> = tcs.map(|tc| qos.tc_to_pg.get(&tc).copied().unwrap_or(tc)).collect();
        let mut runs = Runs::default();
        for number in 0..PRIORITIES {
            let lossless = config.pfc.priorities.contains(&number);
            let own = config.buffer.pg.get(&number);
            if !lossless && own.is_none() && number != 0 && !reached.contains(&number) {
                continue;
            }
            let usual = if lossless { &config.buffer.lossless } else { &config.buffer.lossy };
            let wish = match lossless {
                true => format!("pg_lossless_{link}_profile"),
                false => "ingress_lossy_profile".to_owned(),
            };
            let headroom = lossless.then_some(xoff);
            let profile =
                self.profile((true, lossless), own.unwrap_or(usual), headroom, config, &wish);
            runs.add(number, vec![field("profile", profile)]);
        }
        for (range, fields) in runs.ranges() {
            self.add("BUFFER_PG", &format!("{name}|{range}"), fields);
        }
    }

    /// BUFFER_QUEUE and QUEUE.
    fn queues(&mut self, config: &SwitchConfig, name: &str) -> Result<(), String> {
        let (mut buffers, mut queues) = (Runs::default(), Runs::default());
        for number in 0..PRIORITIES {
            let lossless = config.pfc.priorities.contains(&number);
            let usual = match lossless {
                true => &config.buffer.lossless_queue,
                false => &config.buffer.lossy_queue,
            };
            let own = config.buffer.queue.get(&number).unwrap_or(usual);
            let wish = if lossless { "egress_lossless_profile" } else { "egress_lossy_profile" };
            let profile = self.profile((false, lossless), own, None, config, wish);
            buffers.add(number, vec![field("profile", profile)]);
            let mut fields = vec![field("scheduler", self.scheduler(config, number)?)];
            fields.extend(self.wred(config, number).map(|wred| field("wred_profile", wred)));
            queues.add(number, fields);
        }
        for (range, fields) in buffers.ranges() {
            self.add("BUFFER_QUEUE", &format!("{name}|{range}"), fields);
        }
        for (range, fields) in queues.ranges() {
            self.add("QUEUE", &format!("{name}|{range}"), fields);
        }
        Ok(())
    }

    fn profile(
        &mut self,
        side: Side,
        profile: &ProfileConfig,
        xoff: Option<u64>,
        config: &SwitchConfig,
        wish: &str,
    ) -> String {
        let (name, is_new) = self.profiles.name((side, profile.clone(), xoff), wish);
        if !is_new {
            return name;
        }
        let cell = config.buffer.cell;
        let pool = self.pool_name(&profile.pool, side.0);
        let own = if profile.pool.is_empty() { "ingress" } else { &profile.pool };
        let shares = config.buffer.pools.get(own).is_some_and(|pool| pool.xoff.is_some());
        let reserve = profile.reserve.to_bytes(cell);
        // a headroom of the group's own is part of its size
        let size = reserve + xoff.filter(|_| !shares).unwrap_or(0);
        let mut fields = vec![field("pool", pool), field("size", size)];
        match (profile.dynamic_th, profile.static_th) {
            (Some(n), _) => fields.push(field("dynamic_th", n)),
            (None, size) => {
                fields.push(field("static_th", size.map_or(0, |size| size.to_bytes(cell))));
            }
        }
        if let Some(xoff) = xoff {
            fields.push(field("xon", profile.xon.to_bytes(cell)));
            fields.push(field("xon_offset", profile.xon_offset.to_bytes(cell)));
            fields.push(field("xoff", xoff));
        }
        self.add("BUFFER_PROFILE", &name, fields);
        name
    }

    fn scheduler(&mut self, config: &SwitchConfig, queue: u8) -> Result<String, String> {
        let scheduler = &config.scheduler;
        if !scheduler.strict.is_sorted_by(|a, b| a > b) {
            self.warn("of strict queues SONiC serves the highest number first".to_owned());
        }
        if scheduler.unit == SchedulerUnit::Packets {
            self.warn("switch.scheduler.unit: SONiC's DWRR counts bytes".to_owned());
        }
        if scheduler.strict.contains(&queue) {
            let (name, is_new) = self.schedulers.name(None, "scheduler.strict");
            if is_new {
                self.add("SCHEDULER", &name, vec![field("type", "STRICT")]);
            }
            return Ok(name);
        }
        let weight = scheduler.weights.get(&queue).copied().unwrap_or(1);
        if !(1..=100).contains(&weight) {
            return Err(format!(
                "switch.scheduler.weights.{queue}: SONiC takes 1 to 100, not {weight}"
            ));
        }
        // not scheduler.0 or .1, which images have: a patch must not change what other ports use
        let (name, is_new) = self.schedulers.name(Some(weight), &format!("scheduler.w{weight}"));
        if is_new {
            self.add("SCHEDULER", &name, vec![field("type", "DWRR"), field("weight", weight)]);
        }
        Ok(name)
    }

    /// The WRED profile of a queue, if it ever marks.
    fn wred(&mut self, config: &SwitchConfig, queue: u8) -> Option<String> {
        let marks = config.ecn.get(&queue)?;
        let cell = config.buffer.cell;
        let [kmin, kmax] = [marks.kmin, marks.kmax].map(|size| size.to_bytes(cell));
        if marks.pmax == 0.0 && kmin >= config.buffer.size.get() {
            return None;
        }
        if marks.mark_at == MarkAt::Enqueue {
            self.warn(format!("switch.ecn.{queue}.mark_at: the ASIC decides it, not CONFIG_DB"));
        }
        let percent = (marks.pmax * 100.0).round();
        if (percent - marks.pmax * 100.0).abs() > 1e-9 {
            self.warn(format!(
                "switch.ecn.{queue}.pmax {} becomes {percent} %: SONiC counts whole percents",
                marks.pmax
            ));
        }
        let (name, is_new) = self.wred.name(*marks, "AZURE_LOSSLESS");
        if is_new {
            let mut fields = vec![field("ecn", "ecn_all")];
            for colour in ["green", "yellow", "red"] {
                fields.push(field(&format!("wred_{colour}_enable"), true));
                fields.push(field(&format!("{colour}_min_threshold"), kmin));
                fields.push(field(&format!("{colour}_max_threshold"), kmax));
                fields.push(field(&format!("{colour}_drop_probability"), percent));
            }
            self.add("WRED_PROFILE", &name, fields);
        }
        Some(name)
    }

    /// The maps of a port, whole, and PORT_QOS_MAP.
    fn port_maps(&mut self, config: &SwitchConfig, name: &str) {
        let qos = &config.qos;
        if qos.bounce.is_some() {
            self.warn("switch.qos.bounce: CONFIG_DB remarks in tunnels only; left out".to_owned());
        }
        let whole = |map: &BTreeMap<u8, u8>, count: u8, absent: fn(u8) -> u8| {
            let value = |from: u8| (from, map.get(&from).copied().unwrap_or(absent(from)));
            (0..count).map(value).collect::<BTreeMap<u8, u8>>()
        };
        let by_header = match qos.trust {
            Trust::Dscp => ("dscp_to_tc_map", "DSCP_TO_TC_MAP", whole(&qos.dscp_to_tc, 64, |_| 0)),
            Trust::Pcp => ("dot1p_to_tc_map", "DOT1P_TO_TC_MAP", whole(&qos.pcp_to_tc, 8, |n| n)),
        };
        let maps = [
            by_header,
            ("tc_to_queue_map", "TC_TO_QUEUE_MAP", whole(&qos.tc_to_queue, 8, |n| n)),
            ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP", whole(&qos.tc_to_pg, 8, |n| n)),
            ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE", whole(&qos.pfc_to_queue, 8, |n| n)),
        ];
        let mut fields = Vec::new();
        for (reference, table, map) in maps {
            let (map_name, is_new) = self.maps.entry(table).or_default().name(map.clone(), "AZURE");
            if is_new {
                let pairs = map.iter().map(|(from, to)| field(&from.to_string(), to));
                self.add(table, &map_name, pairs.collect());
            }
            fields.push(field(reference, map_name));
        }
        if !config.pfc.priorities.is_empty() {
            let mut priorities = config.pfc.priorities.clone();
            priorities.sort_unstable();
            let listed: Vec<String> = priorities.iter().map(u8::to_string).collect();
            fields.push(field("pfc_enable", listed.join(",")));
        }
        self.add("PORT_QOS_MAP", name, fields);
    }

    /// BUFFER_POOL of the pools that profiles draw on.
    fn pools(&mut self, plan: &Plan, switch: usize, node: NodeId) {
        let Some(config) = plan.spec.switches[node.index()].as_deref() else { return };
        let buffer = &config.buffer;
        let cell = buffer.cell;
        // of each pool: ingress, a lossless profile with a fixed limit, a profile with another
        let mut drawn: BTreeMap<String, [bool; 3]> = BTreeMap::new();
        for ((side, profile, _), _) in &self.profiles.0 {
            let default = if side.0 { "ingress" } else { "egress" };
            let name = if profile.pool.is_empty() { default } else { &profile.pool };
            let [is_ingress, is_fixed, is_dynamic] = drawn.entry(name.to_owned()).or_default();
            *is_ingress |= side.0;
            *is_fixed |= side.1 && profile.static_th.is_some();
            *is_dynamic |= profile.dynamic_th.is_some();
        }
        let slices = |bytes: u64| match self.asic {
            // a part of the slices has a part of the memory
            Some(asic) if asic.slices > buffer.slices => {
                bytes / u64::from(buffer.slices) * u64::from(asic.slices)
            }
            _ => bytes,
        };
        let planned = plan.buffers[switch].ingress_pool.iter().sum::<u64>();
        let mut found = Vec::new();
        for (name, [is_ingress, is_fixed, is_dynamic]) in drawn {
            let pool = buffer.pools.get(&name);
            let size = pool.and_then(|pool| pool.size).map(|size| size.to_bytes(cell));
            let is_whole = self.asic.is_some_and(|asic| matches!(asic.pool, PoolSize::Whole(_)));
            let size = match (name.as_str(), size) {
                ("ingress", _) if is_whole => buffer.size.get(),
                ("ingress", None) => planned,
                (_, Some(size)) => size,
                (_, None) => buffer.size.get(),
            };
            let is_dynamic = is_ingress || (is_dynamic && !is_fixed);
            let mode = if is_dynamic { "dynamic" } else { "static" };
            let kind = if is_ingress { "ingress" } else { "egress" };
            let mut fields =
                vec![field("type", kind), field("mode", mode), field("size", slices(size))];
            let xoff = pool.and_then(|pool| pool.xoff).map(|xoff| slices(xoff.to_bytes(cell)));
            fields.extend(xoff.map(|xoff| field("xoff", xoff)));
            found.push((self.pool_name(&name, is_ingress), fields));
        }
        for (name, fields) in found {
            self.add("BUFFER_POOL", &name, fields);
        }
    }

    /// The patch as JSON, tables and keys in order.
    fn text(self) -> String {
        use serde_json::{Map, Value};
        let entry = |fields: Fields| {
            let fields = fields.into_iter().map(|(name, value)| (name, Value::String(value)));
            Value::Object(fields.collect())
        };
        let mut all = Map::new();
        for (table, entries) in self.tables {
            let entries: Map<String, Value> =
                entries.into_values().map(|(key, fields)| (key, entry(fields))).collect();
            all.insert(table.to_owned(), Value::Object(entries));
        }
        serde_json::to_string_pretty(&Value::Object(all)).unwrap_or_default() + "\n"
    }
}

/// Numbers with fields; those that follow each other with the same become a range.
#[derive(Default)]
struct Runs(Vec<(u8, u8, Fields)>);

impl Runs {
    fn add(&mut self, number: u8, fields: Fields) {
        match self.0.last_mut() {
            Some((_, last, known)) if *last + 1 == number && *known == fields => *last = number,
            _ => self.0.push((number, number, fields)),
        }
    }

    /// `0-2` or `3`.
    fn ranges(self) -> impl Iterator<Item = (String, Fields)> {
        self.0.into_iter().map(|(first, last, fields)| {
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            (range, fields)
        })
    }
}
