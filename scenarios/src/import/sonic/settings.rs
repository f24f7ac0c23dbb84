//! From switches to keys of a scenario: what holds at each port, and how it is said with the fewest
//! overrides.

use std::collections::{BTreeMap, BTreeSet};

use models::size::Size;
use models::switch::{PoolConfig, ProfileConfig, WredConfig};
use sim_core::Bytes;

use super::buffers::Group;
use super::node::{Switch, SwitchPort};

/// A value as it stands in TOML, and the entry of CONFIG_DB that it is from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setting {
    pub(super) value: String,
    pub(super) from: String,
}

/// Keys below `switch`, and their values.
pub(super) type Settings = BTreeMap<String, Setting>;

/// Marks nothing: no queue is as deep. A preset's thresholds need something to replace them.
const NO_MARKS: &str = "{ kmin = \"1TB\", kmax = \"1TB\", pmax = 0.0 }";

/// What holds at single switches or ports, and not at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Override {
    /// Switches, or ports of switches.
    pub(super) is_nodes: bool,
    pub(super) names: Vec<String>,
    pub(super) settings: Settings,
}

/// The settings of a fabric.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    pub(super) base: Settings,
    pub(super) overrides: Vec<Override>,
}

/// A switch with the ports that are simulated, in their order.
pub(super) struct Used<'s> {
    pub(super) switch: &'s Switch,
    pub(super) ports: Vec<usize>,
}

/// Layers the settings of all switches.
pub(super) fn layers(used: &[Used<'_>]) -> Layers {
    let present = Present::of(used);
    let nodes: Vec<Settings> = used.iter().map(|used| node_settings(used)).collect();
    let ports: Vec<Vec<Settings>> = used
        .iter()
        .map(|used| {
            let settings =
                |port: &usize| port_settings(used.switch, &used.switch.ports[*port], &present);
            used.ports.iter().map(settings).collect()
        })
        .collect();
    let mut layers = Layers { base: most_common(nodes.iter()), overrides: Vec::new() };
    layers.base.extend(most_common(ports.iter().flatten()));
    let mut by_node: BTreeMap<Settings, Vec<String>> = BTreeMap::new();
    let mut by_port: BTreeMap<Settings, Vec<String>> = BTreeMap::new();
    for (number, one) in used.iter().enumerate() {
        let usual = most_common(ports[number].iter());
        let mut own = differing(&nodes[number], &layers.base);
        own.extend(differing(&usual, &layers.base));
        if !own.is_empty() {
            by_node.entry(own).or_default().push(one.switch.name.clone());
        }
        for (index, settings) in ports[number].iter().enumerate() {
            let own = differing(settings, &usual);
            if !own.is_empty() {
                by_port.entry(own).or_default().push(format!("{}:{index}", one.switch.name));
            }
        }
    }
    for (is_nodes, found) in [(true, by_node), (false, by_port)] {
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(settings, names)| Override { is_nodes, names, settings })
            .collect();
        found.sort_by(|a, b| a.names.cmp(&b.names));
        layers.overrides.extend(found);
    }
    layers
}

/// Of each key the value that most have; of equally many the first.
fn most_common<'s>(all: impl Iterator<Item = &'s Settings>) -> Settings {
    let mut counts: BTreeMap<&str, Vec<(&Setting, usize)>> = BTreeMap::new();
    for settings in all {
        for (key, setting) in settings {
            let known = counts.entry(key).or_default();
            match known.iter_mut().find(|(other, _)| other.value == setting.value) {
                Some((_, count)) => *count += 1,
                None => known.push((setting, 1)),
            }
        }
    }
    let first_of_most = |values: Vec<(&Setting, usize)>| {
        let most = values.iter().map(|(_, count)| *count).max().unwrap_or(0);
        values.into_iter().find(|(_, count)| *count == most).map(|(setting, _)| setting.clone())
    };
    counts
        .into_iter()
        .filter_map(|(key, values)| Some((key.to_owned(), first_of_most(values)?)))
        .collect()
}

fn differing(own: &Settings, base: &Settings) -> Settings {
    let differs = |(key, setting): &(&String, &Setting)| {
        base.get(*key).map(|b| &b.value) != Some(&setting.value)
    };
    let own = own.iter().filter(differs);
    own.map(|(key, setting)| (key.clone(), setting.clone())).collect()
}

/// Queues and groups that have a key of their own at some port: since an override cannot take a key
/// away, every port then has one.
#[derive(Default)]
struct Present {
    ecn: BTreeSet<u8>,
    groups: BTreeSet<u8>,
    queues: BTreeSet<u8>,
}

impl Present {
    fn of(used: &[Used<'_>]) -> Self {
        // the presets mark in queue 3
        let mut present = Present { ecn: BTreeSet::from([3]), ..Present::default() };
        for one in used {
            for port in one.ports.iter().map(|port| &one.switch.ports[*port]) {
                let wred = port.qos.wred.iter().filter(|(_, wred)| wred.marks.is_some());
                present.ecn.extend(wred.map(|(queue, _)| *queue));
                let sides = [
                    (&port.buffers.groups, &mut present.groups),
                    (&port.buffers.queues, &mut present.queues),
                ];
                for (found, own) in sides {
                    let classes = classes(found, &port.qos.pfc);
                    own.extend(found.iter().filter_map(|(number, group)| {
                        let usual = classes[usize::from(!port.qos.pfc.contains(number))]?;
                        (usual.profile != group.profile).then_some(*number)
                    }));
                }
            }
        }
        present
    }
}

/// The profile of the lossless and of the lossy class: that of their first group.
pub(super) fn classes<'g>(found: &'g BTreeMap<u8, Group>, pfc: &[u8]) -> [Option<&'g Group>; 2] {
    [true, false].map(|lossless| {
        let mut all = found.iter().filter(|(number, _)| pfc.contains(number) == lossless);
        all.next().map(|(_, group)| group)
    })
}

fn set(settings: &mut Settings, key: impl Into<String>, value: String, from: &str) {
    settings.insert(format!("switch.{}", key.into()), Setting { value, from: from.to_owned() });
}

fn bytes(size: Size) -> String {
    format!("\"{}B\"", size.to_bytes(Bytes::new(1)))
}

/// The keys of the device itself.
fn node_settings(used: &Used<'_>) -> Settings {
    let mut settings = Settings::new();
    let switch = used.switch;
    set(&mut settings, "preset", format!("\"{}\"", switch.preset()), &switch.asic_from);
    let slices = switch.slices().min(used.ports.len().max(1) as u64);
    // a part of the slices has a part of the memory
    let part = |size: u64| match slices == switch.slices() {
        true => size,
        false => size / switch.slices() * slices,
    };
    if let Some(asic) = switch.asic.filter(|asic| asic.preset == "generic") {
        let from = format!("{}: {}", asic.name, switch.asic_from);
        set(&mut settings, "latency", format!("\"{}ns\"", asic.latency()), &from);
        set(&mut settings, "buffer.cell", format!("\"{}B\"", asic.cell), &from);
    }
    let has_slices = switch.asic.is_some_and(|asic| asic.preset == "generic" && asic.slices > 1);
    if has_slices || slices != switch.slices() {
        let from = format!("{} of the ASIC, one port or more in each", switch.slices());
        set(&mut settings, "buffer.slices", slices.to_string(), &from);
    }
    let buffer = &switch.buffer;
    if let Some(size) = buffer.size {
        set(&mut settings, "buffer.size", format!("\"{}B\"", part(size)), &buffer.size_from);
    }
    for (name, pool) in &buffer.pools {
        let PoolConfig { size, xoff } = *pool;
        let scaled = |size: Size| format!("\"{}B\"", part(size.to_bytes(Bytes::new(1))));
        let mut fields = Vec::new();
        fields.extend(size.map(|size| format!("size = {}", scaled(size))));
        fields.extend(xoff.map(|xoff| format!("xoff = {}", scaled(xoff))));
        if !fields.is_empty() {
            let value = format!("{{ {} }}", fields.join(", "));
            let key = format!("buffer.pools.{}", toml_key(&pool_name(switch, name)));
            set(&mut settings, key, value, &buffer.pools_from[name]);
        }
    }
    settings
}

/// A key of TOML, in quotes if it needs them.
fn toml_key(name: &str) -> String {
    match name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

/// The model calls the pools of lossless traffic so; the others keep their names.
pub(super) fn pool_name(switch: &Switch, name: &str) -> String {
    match &switch.buffer.main {
        [Some(main), _] if main == name => "ingress".to_owned(),
        [_, Some(main)] if main == name => "egress".to_owned(),
        _ => name.to_owned(),
    }
}

fn profile_value(switch: &Switch, profile: &ProfileConfig) -> String {
    let pool = pool_name(switch, &profile.pool);
    let threshold = match (profile.dynamic_th, profile.static_th) {
        (Some(n), _) => format!("dynamic_th = {n}"),
        (None, size) => format!("static_th = {}", bytes(size.unwrap_or(Size::ZERO))),
    };
    format!(
        "{{ pool = {pool:?}, reserve = {}, {threshold}, xon = {}, xon_offset = {} }}",
        bytes(profile.reserve),
        bytes(profile.xon),
        bytes(profile.xon_offset)
    )
}

/// The keys of a port.
fn port_settings(switch: &Switch, port: &SwitchPort, present: &Present) -> Settings {
    let mut settings = Settings::new();
    let pfc = &port.qos.pfc;
    let place = port.qos.place.as_deref();
    let pfc_from = match (switch.has_qos, place) {
        (false, _) => "no PORT_QOS_MAP: queues with a lossless profile".to_owned(),
        (true, Some(_)) => "PORT_QOS_MAP pfc_enable".to_owned(),
        (true, None) => "no PORT_QOS_MAP".to_owned(),
    };
    set(&mut settings, "pfc.priorities", format!("{pfc:?}"), &pfc_from);
    let headroom = port.lossless().next().map(|_| {
        let with = port.lossless().filter_map(|(_, group)| Some((group.xoff?, group)));
        with.min_by_key(|(xoff, _)| *xoff)
    });
    match headroom {
        Some(Some((xoff, group))) => {
            let from = format!("{} xoff", group.name);
            set(&mut settings, "pfc.headroom", format!("\"{xoff}B\""), &from);
        }
        Some(None) => {
            let value = "\"0B\"".to_owned();
            set(&mut settings, "pfc.headroom", value, "the profile of the PG has no xoff");
        }
        None => {}
    }
    let sides = [
        ("", "pg", &port.buffers.groups, &present.groups),
        ("_queue", "queue", &port.buffers.queues, &present.queues),
    ];
    for (end, single, found, own) in sides {
        let classes = classes(found, pfc);
        for (class, group) in [("lossless", classes[0]), ("lossy", classes[1])] {
            if let Some(group) = group {
                let value = profile_value(switch, &group.profile);
                set(&mut settings, format!("buffer.{class}{end}"), value, &group.name);
            }
        }
        for number in own {
            let usual = classes[usize::from(!pfc.contains(number))];
            if let Some(group) = found.get(number).or(usual) {
                let value = profile_value(switch, &group.profile);
                set(&mut settings, format!("buffer.{single}.{number}"), value, &group.name);
            }
        }
    }
    if switch.has_qos {
        class_settings(port, present, &mut settings);
    }
    settings
}

fn class_settings(port: &SwitchPort, present: &Present, settings: &mut Settings) {
    let qos = &port.qos;
    for queue in &present.ecn {
        let wred = qos.wred.get(queue);
        let (value, from) = match wred.and_then(|wred| Some((wred, wred.marks?))) {
            Some((wred, marks)) => (wred_value(&marks), wred.name.as_str()),
            None => (NO_MARKS.to_owned(), "no ECN here"),
        };
        set(settings, format!("ecn.{queue}"), value, from);
    }
    let from = |field| qos.from.get(field).map_or("no map", String::as_str);
    // the preset of all switches has 26 and 48
    let mut dscp_to_tc = qos.maps.dscp_to_tc.clone();
    dscp_to_tc.retain(|_, tc| *tc > 0);
    for dscp in [26, 48] {
        dscp_to_tc.entry(dscp).or_insert(0);
    }
    let trust = match qos.maps.trust {
        models::switch::Trust::Dscp => "\"dscp\"",
        models::switch::Trust::Pcp => "\"pcp\"",
    };
    set(settings, "qos.trust", trust.to_owned(), "PORT_QOS_MAP");
    set(settings, "qos.dscp_to_tc", map_value(&dscp_to_tc), from("dscp_to_tc_map"));
    let others = [
        ("qos.pcp_to_tc", &qos.maps.pcp_to_tc, "dot1p_to_tc_map"),
        ("qos.tc_to_queue", &qos.maps.tc_to_queue, "tc_to_queue_map"),
        ("qos.tc_to_pg", &qos.maps.tc_to_pg, "tc_to_pg_map"),
        ("qos.pfc_to_queue", &qos.maps.pfc_to_queue, "pfc_to_queue_map"),
    ];
    for (key, map, field) in others {
        let map = map.iter().filter(|(a, b)| a != b).map(|(a, b)| (*a, *b)).collect();
        set(settings, key, map_value(&map), from(field));
    }
    if !qos.scheduled_by.is_empty() {
        let by = &qos.scheduled_by;
        set(settings, "scheduler.strict", format!("{:?}", qos.scheduler.strict), by);
        let weights = (0..8).filter(|queue| !qos.scheduler.strict.contains(queue));
        let weights: BTreeMap<u8, u32> = weights
            .map(|queue| (queue, qos.scheduler.weights.get(&queue).copied().unwrap_or(1)))
            .collect();
        set(settings, "scheduler.weights", map_value(&weights), by);
    }
}

fn wred_value(marks: &WredConfig) -> String {
    format!(
        "{{ kmin = {}, kmax = {}, pmax = {:?} }}",
        bytes(marks.kmin),
        bytes(marks.kmax),
        marks.pmax
    )
}

fn map_value<V: std::fmt::Display>(map: &BTreeMap<u8, V>) -> String {
    if map.is_empty() {
        return "{}".to_owned();
    }
    let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", pairs.join(", "))
}
