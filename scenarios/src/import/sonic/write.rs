//! The scenario as TOML.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::Rate;

use super::joins::{Cable, End, Fabric};
use super::node::{Switch, SwitchPort};
use super::qos::Watchdog;
use super::settings::{Layers, Settings, Used, layers};
use crate::import::text::{counted, exact};

/// DSCP of RoCE, if the switches leave the choice.
const USUAL_DSCP: u8 = 26;
/// DSCP of the CNPs of ConnectX NICs.
pub(super) const CNP_DSCP: u8 = 48;
/// What a RoCE packet adds to its payload, and the largest payloads that there are.
const ROCE_HEADERS: u64 = 70;
const MTUS: [u64; 5] = [4096, 2048, 1024, 512, 256];

/// What the scenario is written from.
pub(super) struct Parts<'a> {
    pub(super) switches: &'a [Switch],
    pub(super) fabric: &'a Fabric,
    /// Hosts that no table names stand on the ports.
    pub(super) is_bench: bool,
    pub(super) title: String,
}

/// The class that RoCE uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) dscp: u8,
    pub(super) priority: u8,
}

/// A DSCP that is lossless at all ports with hosts: 26, or the lowest.
pub(super) fn lossless_class(parts: &Parts<'_>) -> Option<Class> {
    let mut at_hosts = parts.fabric.cables.iter().filter_map(|cable| match cable.ends {
        [End::Host { .. }, End::Port { switch, port }] => {
            let switch = &parts.switches[switch];
            Some((switch, &switch.ports[port]))
        }
        _ => None,
    });
    let (switch, first) = at_hosts.next()?;
    if !switch.has_qos {
        let priority = *first.qos.pfc.first()?;
        return Some(Class { dscp: USUAL_DSCP, priority });
    }
    let rest: Vec<_> = at_hosts.collect();
    let order = std::iter::once(USUAL_DSCP).chain((0..64).filter(|dscp| *dscp != USUAL_DSCP));
    let mut classes = order.filter_map(|dscp| {
        let priority = lossless(first, dscp)?;
        let everywhere = rest
            .iter()
            .all(|(switch, port)| !switch.has_qos || lossless(port, dscp) == Some(priority));
        everywhere.then_some(Class { dscp, priority })
    });
    classes.next()
}

/// The PFC priority of a DSCP, if both its group and its queue have PFC.
pub(super) fn lossless(port: &SwitchPort, dscp: u8) -> Option<u8> {
    let maps = &port.qos.maps;
    let tc = maps.dscp_to_tc.get(&dscp).copied().unwrap_or(0);
    let at = |map: &BTreeMap<u8, u8>| map.get(&tc).copied().unwrap_or(tc);
    let (queue, pg) = (at(&maps.tc_to_queue), at(&maps.tc_to_pg));
    let paused = maps.pfc_to_queue.get(&pg).copied().unwrap_or(pg);
    (port.qos.pfc.contains(&pg) && paused == queue).then_some(pg)
}

/// The whole file.
pub(super) fn to_toml(parts: &Parts<'_>) -> String {
    let Parts { switches, fabric, .. } = parts;
    let used: Vec<Used<'_>> = switches
        .iter()
        .enumerate()
        .map(|(number, switch)| Used { switch, ports: fabric.ports_of(number) })
        .collect();
    let layers = layers(&used);
    let mut out = format!(
        "# Imported from the CONFIG_DB of {} that {} SONiC.\n\
         # Behind each key of [switch]: the entry that it is from.\n",
        counted(switches.len(), "switch"),
        if switches.len() == 1 { "runs" } else { "run" },
    );
    out += &format!("title = {}\n", toml::Value::from(parts.title.as_str()));
    write_topology(&mut out, parts);
    write_switch(&mut out, &layers.base);
    write_hosts(&mut out, parts);
    write_overrides(&mut out, &layers);
    for (priorities, hosts) in host_priorities(parts).into_iter().skip(1) {
        let names: Vec<String> = hosts.iter().map(|name| format!("{name:?}")).collect();
        out += &format!("\n[[override]]\nnodes = {}\n", list(&names));
        out += &format!("set.\"nic.pfc.priorities\" = {priorities:?} # pfc_enable\n");
    }
    write_watchdogs(&mut out, parts);
    out
}

/// `leaf1 Ethernet0`, `host1 NIC 0`.
fn end_name(parts: &Parts<'_>, end: End) -> String {
    match end {
        End::Host { host, nic } => format!("{} NIC {nic}", parts.fabric.hosts[host]),
        End::Port { switch, port } => {
            let switch = &parts.switches[switch];
            format!("{} {}", switch.name, switch.ports[port].port.name)
        }
    }
}

fn node_name<'a>(parts: &Parts<'a>, end: End) -> &'a str {
    match end {
        End::Host { host, .. } => &parts.fabric.hosts[host],
        End::Port { switch, .. } => &parts.switches[switch].name,
    }
}

fn write_topology(out: &mut String, parts: &Parts<'_>) {
    *out += "\n[topology]\nkind = \"graph\"\n";
    let names = |names: Vec<&str>| names.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>();
    let hosts = names(parts.fabric.hosts.iter().map(String::as_str).collect());
    let switches = names(parts.switches.iter().map(|switch| switch.name.as_str()).collect());
    for (key, names) in [("hosts", hosts), ("switches", switches)] {
        *out += &format!("{key} = {}\n", list(&names));
    }
    *out += "# PORT speed, CABLE_LENGTH at 5 ns/m; a port of the simulator is the number of its \
             cable here\nlinks = [\n";
    for Cable { ends, rate, delay } in &parts.fabric.cables {
        let [a, b] = ends.map(|end| node_name(parts, end));
        let [one, two] = ends.map(|end| end_name(parts, end));
        let (rate, delay) = (exact(rate), exact(delay));
        *out += &format!(
            "    {{ a = {a:?}, b = {b:?}, rate = \"{rate}\", delay = \"{delay}\" }}, # {one} - {two}\n"
        );
    }
    *out += "]\n";
}

/// A list, over several lines if it is long.
fn list(items: &[String]) -> String {
    const PER_LINE: usize = 6;
    if items.len() <= PER_LINE {
        return format!("[{}]", items.join(", "));
    }
    let lines: Vec<String> =
        items.chunks(PER_LINE).map(|line| format!("    {},", line.join(", "))).collect();
    format!("[\n{}\n]", lines.join("\n"))
}

fn write_switch(out: &mut String, base: &Settings) {
    *out += "\n[switch]\n";
    for (key, setting) in sorted(base) {
        let key = key.trim_start_matches("switch.");
        *out += &format!("{key} = {} # {}\n", setting.value, setting.from);
    }
}

/// The preset first.
fn sorted(settings: &Settings) -> Vec<(&str, &super::settings::Setting)> {
    let mut all: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), value)).collect();
    all.sort_by_key(|(key, _)| *key != "switch.preset");
    all
}

/// The PFC priorities that hosts find at their ports, and the hosts; what most have comes first.
fn host_priorities<'a>(parts: &Parts<'a>) -> Vec<(Vec<u8>, Vec<&'a str>)> {
    let mut found: BTreeMap<&str, BTreeSet<u8>> = BTreeMap::new();
    for cable in &parts.fabric.cables {
        if let [End::Host { host, .. }, End::Port { switch, port }] = cable.ends {
            let priorities = &parts.switches[switch].ports[port].qos.pfc;
            found.entry(&parts.fabric.hosts[host]).or_default().extend(priorities);
        }
    }
    let mut kinds: BTreeMap<BTreeSet<u8>, Vec<&str>> = BTreeMap::new();
    found.into_iter().for_each(|(host, all)| kinds.entry(all).or_default().push(host));
    let mut kinds: Vec<_> =
        kinds.into_iter().map(|(all, hosts)| (all.into_iter().collect(), hosts)).collect();
    kinds.sort_by_key(|(_, hosts): &(Vec<u8>, Vec<&str>)| std::cmp::Reverse(hosts.len()));
    kinds
}

/// The keys of a watchdog, and their values.
type Watched = [(&'static str, String); 5];

/// What is written of one watchdog.
fn watchdog(switch: &Switch, one: &Watchdog) -> Watched {
    let Watchdog { detection, restoration, poll, action, .. } = one;
    let ms = |time: u64| format!("\"{time}ms\"");
    let nvidia = switch.asic.is_some_and(|asic| asic.nvidia.is_some());
    [
        ("detection_time", ms(*detection)),
        // without a time of its own a queue is restored at the first look that finds it free
        ("restoration_time", ms(if *restoration == 0 { *poll } else { *restoration })),
        ("poll_interval", ms(*poll)),
        ("action", format!("{action:?}")),
        ("rule", format!("{:?}", if nvidia { "mellanox" } else { "broadcom" })),
    ]
}

/// PFC_WD: for all switches if all their ports are watched alike, by port otherwise.
fn write_watchdogs(out: &mut String, parts: &Parts<'_>) {
    // keys, the entry of the first one, places
    let mut groups: Vec<(Watched, &str, Vec<String>)> = Vec::new();
    let mut ports = 0;
    for (number, switch) in parts.switches.iter().enumerate() {
        for (slot, port) in parts.fabric.ports_of(number).into_iter().enumerate() {
            ports += 1;
            let name = &switch.ports[port].port.name;
            let watches = |one: &&Watchdog| one.ports.contains(name);
            let Some(one) = switch.watchdogs.iter().find(watches) else { continue };
            let keys = watchdog(switch, one);
            let place = format!("{}:{slot}", switch.name);
            match groups.iter_mut().find(|(known, ..)| *known == keys) {
                Some((.., places)) => places.push(place),
                None => groups.push((keys, &one.place, vec![place])),
            }
        }
    }
    let alike = matches!(&groups[..], [(.., places)] if places.len() == ports);
    for (keys, from, places) in groups {
        if alike {
            *out += "\n[switch.pfc_wd]";
        } else {
            let names: Vec<String> = places.iter().map(|name| format!("{name:?}")).collect();
            *out += &format!("\n[[override]]\nports = {}\n", list(&names));
            *out += "[override.set.\"switch.pfc_wd\"]";
        }
        *out += &format!(" # {from}\n");
        keys.iter().for_each(|(key, value)| *out += &format!("{key} = {value}\n"));
    }
    let times = |one: &Watchdog| one.detection + one.restoration + 2 * one.poll;
    if let Some(longest) = parts.switches.iter().flat_map(|s| &s.watchdogs).map(times).max() {
        let stall = 2 * longest;
        *out +=
            &format!("\n[stop]\nstall = \"{stall}ms\" # watchdogs act before a run is given up\n");
    }
}

fn write_hosts(out: &mut String, parts: &Parts<'_>) {
    let rate = host_rate(parts).unwrap_or(Rate::from_gbps(100));
    let class = lossless_class(parts);
    let preset = if rate > Rate::from_gbps(100) { "connectx-7" } else { "connectx-6-dx" };
    let mtu = parts.fabric.cables.iter().flat_map(|cable| cable.ends);
    let mtu = mtu.filter_map(|end| match end {
        End::Port { switch, port } => Some(parts.switches[switch].ports[port].port.mtu),
        End::Host { .. } => None,
    });
    let room = mtu.min().unwrap_or(9100).saturating_sub(ROCE_HEADERS);
    let mtu = MTUS.into_iter().find(|mtu| *mtu <= room).unwrap_or(256);
    *out += &format!("\n[nic]\npreset = \"{preset}\" # assumed: CONFIG_DB knows no NIC\n");
    *out += &format!("mtu = {mtu} # the largest that PORT mtu lets through\n");
    if let Some(Class { dscp, priority }) = class {
        *out += &format!("qos.dscp = {dscp} # lossless at all ports with hosts: DSCP_TO_TC_MAP\n");
        let mut map = BTreeMap::from([(dscp, priority), (CNP_DSCP, 6)]);
        if dscp != USUAL_DSCP {
            map.entry(USUAL_DSCP).or_insert(0);
        }
        let pairs: Vec<String> = map.iter().map(|(a, b)| format!("{a} = {b}")).collect();
        *out += &format!("qos.dscp_to_priority = {{ {} }}\n", pairs.join(", "));
        let usual = host_priorities(parts).first().map_or(vec![priority], |(all, _)| all.clone());
        *out += &format!("pfc.priorities = {usual:?} # pfc_enable of the switches\n");
    }
    let marks = |switch: &Switch| switch.ports.iter().any(|port| !port.qos.wred.is_empty());
    if !parts.switches.iter().any(marks) {
        *out += "congestion = { algorithm = \"none\" } # no WRED_PROFILE is in use\n";
    }
    let hosts = parts.fabric.hosts.len();
    if parts.is_bench {
        *out += &format!(
            "\n# An incast through the switch: all hosts but the last send to it.\n\
             [[traffic]]\nname = \"incast\"\nkind = \"incast\"\nsenders = \"0..{}\"\n\
             receiver = {}\nbytes = \"1MB\"\n",
            hosts - 1,
            hosts - 1
        );
        return;
    }
    let server = if rate > Rate::from_gbps(200) { "hgx-h100" } else { "dgx-a100" };
    *out += &format!("\n[host]\npreset = \"{server}\" # assumed: CONFIG_DB knows no servers\n");
    if let Some(Class { dscp, .. }) = class {
        let tc = u32::from(dscp) << 2;
        *out += &format!("\n[nccl]\nIB_TC = {tc} # DSCP {dscp}\n");
    }
    *out += "\n[[traffic]]\nname = \"allreduce\"\nkind = \"collective\"\nop = \"all_reduce\"\n\
             bytes = \"128MiB\"\n";
}

/// The rate of the first host.
fn host_rate(parts: &Parts<'_>) -> Option<Rate> {
    let cable = parts.fabric.cables.iter().find(|cable| matches!(cable.ends[0], End::Host { .. }));
    cable.map(|cable| cable.rate)
}

fn write_overrides(out: &mut String, layers: &Layers) {
    for one in &layers.overrides {
        let names: Vec<String> = one.names.iter().map(|name| format!("{name:?}")).collect();
        let field = if one.is_nodes { "nodes" } else { "ports" };
        *out += &format!("\n[[override]]\n{field} = {}\n", list(&names));
        for (key, setting) in sorted(&one.settings) {
            *out += &format!("set.{key:?} = {} # {}\n", setting.value, setting.from);
        }
    }
}
