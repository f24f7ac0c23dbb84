//! Classes of a port: maps, PFC, marking, scheduling, and the watchdog.

use std::collections::BTreeMap;

use models::size::Size;
use models::switch::{MarkAt, SchedulerConfig, SchedulerUnit, SwitchQosConfig, Trust, WredConfig};

use super::asic::Asic;
use super::tables::{At, Config, list_of_numbers};
use crate::import::ImportError;
use crate::import::text::quoted;

/// Traffic classes, groups and queues that are simulated.
const CLASSES: u8 = 8;

/// The classes of one port, and where each is from.
#[derive(Clone, Debug, Default)]
pub(super) struct PortQos {
    /// Priorities with PFC.
    pub(super) pfc: Vec<u8>,
    pub(super) maps: SwitchQosConfig,
    /// By queue: marking as the switch does it, and the WRED profile.
    pub(super) wred: BTreeMap<u8, Wred>,
    pub(super) scheduler: SchedulerConfig,
    /// `PORT_QOS_MAP|Ethernet0`, where there is one.
    pub(super) place: Option<String>,
    pub(super) file: String,
    /// The maps by the field that names each.
    pub(super) from: BTreeMap<&'static str, String>,
    /// The entries of SCHEDULER in use.
    pub(super) scheduled_by: String,
}

/// A WRED profile at a queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wred {
    pub(super) name: String,
    pub(super) file: String,
    /// `None`: it marks nothing.
    pub(super) marks: Option<WredConfig>,
    /// `ecn` is set.
    pub(super) wants_ecn: bool,
    /// The switch that is off, if `ecn` is set and nothing is marked.
    pub(super) off: Option<&'static str>,
}

/// The classes of all ports: each PORT_QOS_MAP and QUEUE is looked up by port.
pub(super) struct QosTables<'c> {
    config: &'c Config,
    maps: BTreeMap<&'c str, At<'c>>,
    global: Option<At<'c>>,
    queues: BTreeMap<(&'c str, u8), At<'c>>,
    /// What the model has no room for, in words, once each.
    pub(super) notes: Vec<String>,
}

impl<'c> QosTables<'c> {
    pub(super) fn new(config: &'c Config) -> Result<Self, ImportError> {
        let mut maps = BTreeMap::new();
        let mut entries: Vec<At<'_>> = config.entries("PORT_QOS_MAP").collect();
        entries.sort_by_key(|at| at.entry.file);
        for at in entries {
            maps.extend(at.members()?.0.into_iter().map(|port| (port, at)));
        }
        let queues = config.by_number("QUEUE")?;
        let global = maps.remove("global");
        Ok(QosTables { config, maps, global, queues, notes: Vec::new() })
    }

    /// Whether the files speak of classes at all.
    pub(super) fn are_there(&self) -> bool {
        !self.maps.is_empty() || self.global.is_some()
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What holds at this port.
    pub(super) fn port(&mut self, name: &str, asic: Option<&Asic>) -> Result<PortQos, ImportError> {
        let own = self.maps.get(name).copied();
        let mut qos = PortQos::default();
        if let Some(at) = own {
            qos.pfc = list_of_numbers(&at, "pfc_enable")?;
            qos.place = Some(at.place());
            qos.file = at.file().to_owned();
        }
        let sources = [own, self.global];
        let mut map = |field: &'static str, table: &'static str, most: u8| {
            for at in sources.into_iter().flatten() {
                if let Some(found) = at.refers(field, table)? {
                    qos.from.insert(field, found.place());
                    return Ok::<_, ImportError>(Some(pairs(&found, most)?));
                }
            }
            Ok(None)
        };
        let dscp_to_tc = map("dscp_to_tc_map", "DSCP_TO_TC_MAP", 63)?;
        let pcp_to_tc = map("dot1p_to_tc_map", "DOT1P_TO_TC_MAP", 7)?;
        let tc_to_queue = map("tc_to_queue_map", "TC_TO_QUEUE_MAP", 15)?;
        let tc_to_pg = map("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP", 15)?;
        let pfc_to_queue = map("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE", 7)?;
        let pfc_to_pg =
            map("pfc_to_pg_map", "MAP_PFC_PRIORITY_TO_PRIORITY_GROUP", 7)?.unwrap_or_default();
        if let Some((priority, pg)) = pfc_to_pg.iter().find(|(priority, pg)| priority != pg) {
            self.note(format!(
                "{}: PFC priority {priority} stands for priority group {pg}; in the simulator each \
                 group has the priority of its number",
                qos.from["pfc_to_pg_map"]
            ));
        }
        // without a map every frame is class 0; a port without one in a file of buffers is another
        // matter, and its caller knows
        qos.maps = SwitchQosConfig {
            trust: if dscp_to_tc.is_none() && pcp_to_tc.is_some() {
                Trust::Pcp
            } else {
                Trust::Dscp
            },
            dscp_to_tc: dscp_to_tc.unwrap_or_default(),
            pcp_to_tc: pcp_to_tc.unwrap_or_default(),
            tc_to_queue: tc_to_queue.unwrap_or_default(),
            tc_to_pg: tc_to_pg.unwrap_or_default(),
            pfc_to_queue: pfc_to_queue.unwrap_or_default(),
            bounce: None,
        };
        self.fit(&mut qos);
        self.queues_of(name, asic, &mut qos)?;
        Ok(qos)
    }

    /// Classes above 7 become one below that goes the same way.
    fn fit(&mut self, qos: &mut PortQos) {
        let maps = &mut qos.maps;
        let way = |maps: &SwitchQosConfig, tc: u8| {
            let at = |map: &BTreeMap<u8, u8>| map.get(&tc).copied().unwrap_or(tc);
            (at(&maps.tc_to_queue), at(&maps.tc_to_pg))
        };
        let high: Vec<u8> = maps.dscp_to_tc.values().copied().filter(|tc| *tc >= CLASSES).collect();
        for tc in high {
            let wanted = way(maps, tc);
            let twin = (0..CLASSES).find(|low| way(maps, *low) == wanted);
            if twin.is_none() {
                let from = qos.from.get("dscp_to_tc_map").map_or("", String::as_str);
                self.note(format!(
                    "{from}: class {tc} has no room in the simulator: it is class 0"
                ));
            }
            for class in maps.dscp_to_tc.values_mut().filter(|class| **class == tc) {
                *class = twin.unwrap_or(0);
            }
        }
        for map in [&mut maps.tc_to_queue, &mut maps.tc_to_pg] {
            map.retain(|tc, to| *tc < CLASSES && *to < CLASSES);
        }
        maps.dscp_to_tc.retain(|_, tc| *tc < CLASSES);
        maps.pcp_to_tc.retain(|_, tc| *tc < CLASSES);
        maps.pfc_to_queue.retain(|_, queue| *queue < CLASSES);
    }

    fn queues_of(
        &mut self,
        name: &str,
        asic: Option<&Asic>,
        qos: &mut PortQos,
    ) -> Result<(), ImportError> {
        let mut strict = Vec::new();
        let mut weights = BTreeMap::new();
        let mut named: Vec<String> = Vec::new();
        for queue in 0..CLASSES {
            let Some(at) = self.queues.get(&(name, queue)).copied() else { continue };
            if let Some(profile) = at.refers("wred_profile", "WRED_PROFILE")? {
                let marks_red = asic.is_some_and(|asic| asic.marks_red);
                qos.wred.insert(queue, wred(&profile, marks_red)?);
            }
            let Some(scheduler) = at.refers("scheduler", "SCHEDULER")? else { continue };
            if !named.contains(&scheduler.place()) {
                named.push(scheduler.place());
            }
            match scheduler.must("type")? {
                "STRICT" => strict.push(queue),
                "DWRR" | "WRR" => {
                    let weight = scheduler.number::<u32>("weight")?.unwrap_or(1);
                    if !(1..=100).contains(&weight) {
                        let message = format!("weight: {weight} is out of range: 1 to 100");
                        return Err(scheduler.error(message));
                    }
                    weights.insert(queue, weight);
                }
                other => {
                    let other = quoted(other);
                    let message = format!("type: {other} is none of DWRR, WRR, STRICT");
                    return Err(scheduler.error(message));
                }
            }
            if scheduler.field("type") == Some("WRR") {
                self.note(format!(
                    "{}: WRR counts frames; the simulator's weights count bytes",
                    scheduler.place()
                ));
            }
        }
        // of strict queues the highest goes first
        strict.reverse();
        qos.scheduler = SchedulerConfig { strict, weights, unit: SchedulerUnit::Bytes };
        qos.scheduled_by = named.join(", ");
        Ok(())
    }

    /// The WRED profiles that want ECN, whether queues use them or not.
    pub(super) fn ecn_profiles(&self) -> Result<Vec<String>, ImportError> {
        let mut found = Vec::new();
        for at in self.config.entries("WRED_PROFILE") {
            if wred(&at, false)?.wants_ecn {
                found.push(at.place());
            }
        }
        Ok(found)
    }
}

/// A map of numbers to numbers.
fn pairs(at: &At<'_>, most: u8) -> Result<BTreeMap<u8, u8>, ImportError> {
    let mut map = BTreeMap::new();
    for (from, to) in &at.entry.fields {
        if from == "NULL" {
            continue;
        }
        match (from.parse(), to.parse()) {
            (Ok(from), Ok(to)) if from <= most && to <= 15 => map.insert(from, to),
            _ => {
                let (from, to) = (quoted(from), quoted(to));
                let message = format!("{from}: {to}: numbers up to {most} and 15 are expected");
                return Err(at.error(message));
            }
        };
    }
    Ok(map)
}

/// What a WRED profile does to packets that can be marked: green ones, or red ones on DNX.
fn wred(at: &At<'_>, marks_red: bool) -> Result<Wred, ImportError> {
    let colour = if marks_red { "red" } else { "green" };
    let ecn = at.field("ecn").unwrap_or("ecn_none");
    let words =
        ["none", "all", "green", "yellow", "red", "green_yellow", "green_red", "yellow_red"];
    let Some(colours) = ecn.strip_prefix("ecn_").filter(|rest| words.contains(rest)) else {
        let message = format!("ecn: {} is no mode; ecn_all or ecn_none is expected", quoted(ecn));
        return Err(at.error(message));
    };
    let wants_ecn = colours != "none";
    let has_colour = colours == "all" || colours.split('_').any(|word| word == colour);
    let enable = if marks_red { "wred_red_enable" } else { "wred_green_enable" };
    let is_on = matches!(at.field(enable), Some("true" | "True" | "1"));
    let off = match (wants_ecn, has_colour, is_on) {
        (true, false, _) => Some("ecn"),
        (true, true, false) => Some(enable),
        _ => None,
    };
    let mut marks = None;
    if wants_ecn && has_colour && is_on {
        let size = |end: &str| {
            let field = format!("{colour}_{end}_threshold");
            at.bytes(&field)?.ok_or_else(|| {
                at.error(format!("`{field}` is missing; bytes are expected, such as \"1048576\""))
            })
        };
        let (kmin, kmax) = (size("min")?, size("max")?);
        if kmin > kmax {
            let message = format!("{colour}_min_threshold {kmin} is above max {kmax}");
            return Err(at.error(message));
        }
        let field = format!("{colour}_drop_probability");
        let percent = at.number::<u8>(&field)?.unwrap_or(100);
        if percent > 100 {
            return Err(at.error(format!("{field}: {percent} is no percentage")));
        }
        marks = Some(WredConfig {
            kmin: Size::bytes(kmin),
            kmax: Size::bytes(kmax),
            pmax: f64::from(percent) / 100.0,
            mark_at: MarkAt::Dequeue,
        });
    }
    let (name, file) = (at.place(), at.file().to_owned());
    Ok(Wred { name, file, marks, wants_ecn, off })
}

/// The watchdog of some ports, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watchdog {
    pub(super) detection: u64,
    pub(super) restoration: u64,
    pub(super) poll: u64,
    pub(super) action: String,
    pub(super) place: String,
    pub(super) file: String,
    pub(super) ports: Vec<String>,
}

/// SONiC's own interval, where PFC_WD|GLOBAL has none.
const POLL_MS: u64 = 100;

/// PFC_WD, one for each kind of entry.
pub(super) fn watchdogs(config: &Config) -> Result<Vec<Watchdog>, ImportError> {
    let global = config.get("PFC_WD", "GLOBAL");
    let poll = match global {
        Some(at) => at.number("POLL_INTERVAL")?.unwrap_or(POLL_MS),
        None => POLL_MS,
    };
    let mut found: Vec<Watchdog> = Vec::new();
    for at in config.entries("PFC_WD").filter(|at| at.key != "GLOBAL") {
        let Some(detection) = at.number("detection_time")? else {
            return Err(at.error("`detection_time` is missing; milliseconds are expected"));
        };
        let action = at.field("action").unwrap_or("drop");
        if !["drop", "forward", "alert"].contains(&action) {
            let action = quoted(action);
            return Err(at.error(format!("action: {action} is none of drop, forward, alert")));
        }
        let watchdog = Watchdog {
            detection,
            // without a time of its own it stays until the storm ends
            restoration: at.number("restoration_time")?.unwrap_or(0),
            poll,
            action: action.to_owned(),
            place: at.place(),
            file: at.file().to_owned(),
            ports: Vec::new(),
        };
        let ports = at.members()?.0.into_iter().map(str::to_owned);
        let alike = |other: &&mut Watchdog| {
            (other.detection, other.restoration, &other.action)
                == (watchdog.detection, watchdog.restoration, &watchdog.action)
        };
        match found.iter_mut().find(alike) {
            Some(known) => known.ports.extend(ports),
            None => found.push(Watchdog { ports: ports.collect(), ..watchdog }),
        }
    }
    Ok(found)
}
