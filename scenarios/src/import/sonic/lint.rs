//! What is wrong with a configuration: mistakes that operators have reported, each with what comes
//! of it.

use std::collections::BTreeMap;
use std::fmt;

use models::report::Severity;
use models::size::Size;
use sim_core::Bytes;

use super::buffers::Group;
use super::joins::{End, Fabric};
use super::node::{Switch, SwitchPort};
use super::sku::metres;
use super::write::{CNP_DSCP, lossless};
use crate::import::text::counted;

/// MTU of the frames that a lossless profile allows for, unless its name says another.
const PROFILE_MTU: u64 = 9100;

/// A mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What kind of mistake.
    pub rule: Rule,
    /// The file.
    pub file: String,
    /// Table and key, with how many ports are concerned.
    pub place: String,
    /// In plain words, with the consequence.
    pub text: String,
}

/// The kinds of mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A DSCP whose queue is paused and whose group sends no PFC, or that is lossless elsewhere.
    LosslessInLossyGroup,
    /// PFC on a group whose profile has no headroom.
    NoXoff,
    /// A lossless profile with a headroom of nothing.
    HeadroomZero,
    /// Headrooms together exceed the shared pool and its over-subscription.
    HeadroomOversubscribed,
    /// ECN is asked for, and marking is off.
    WredDisabled,
    /// PFC comes before ECN has reached its full strength.
    PfcBeforeEcn,
    /// Frames larger than those that the headroom was made for.
    MtuAboveProfile,
    /// The two ends of a cable differ in PFC.
    PfcAsymmetric,
    /// The watchdog looks less often than it must decide.
    WatchdogPoll,
    /// CNPs wait with everything else.
    CnpBestEffort,
    /// A lossless queue without the marking that the switch has.
    EcnUnbound,
    /// Headroom that the cable outgrows.
    HeadroomShort,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file, self.place, self.text)
    }
}

/// All findings, the worst first.
pub(super) fn lint(switches: &[Switch], fabric: &Fabric) -> Vec<Finding> {
    let mut lint = Lint::default();
    for switch in switches {
        for port in switch.ports.iter().filter(|port| port.is_in_use) {
            lint.classes(switch, port);
            lint.marking(switch, port);
            lint.groups(switch, port);
        }
        lint.elsewhere(switch);
        lint.shared_headroom(switch);
        lint.watchdogs(switch);
    }
    lint.cables(switches, fabric);
    lint.findings()
}

/// Findings, with the ports that share each.
#[derive(Default)]
struct Lint {
    found: BTreeMap<Key, Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    severity: std::cmp::Reverse<Severity>,
    file: String,
    rule: Rule,
    place: String,
    text: String,
}

impl Lint {
    fn add(
        &mut self,
        (severity, rule): (Severity, Rule),
        (file, place): (&str, &str),
        port: Option<&SwitchPort>,
        text: String,
    ) {
        let (file, place) = (file.to_owned(), place.to_owned());
        let key = Key { severity: std::cmp::Reverse(severity), file, rule, place, text };
        let ports = self.found.entry(key).or_default();
        let name = port.map(|port| &port.port.name).filter(|name| !ports.contains(name));
        ports.extend(name.cloned());
    }

    fn findings(self) -> Vec<Finding> {
        let finding = |(key, ports): (Key, Vec<String>)| {
            let Key { severity, file, rule, place, text } = key;
            let ports = match ports.as_slice() {
                [] => String::new(),
                [one] if place.ends_with(one.as_str()) => String::new(),
                [one] => format!(" ({one})"),
                [one, more @ ..] => format!(" ({one} and {})", counted(more.len(), "more port")),
            };
            Finding { severity: severity.0, rule, file, place: place + &ports, text }
        };
        self.found.into_iter().map(finding).collect()
    }

    /// Groups, queues and the DSCPs in them.
    fn classes(&mut self, switch: &Switch, port: &SwitchPort) {
        if !switch.has_qos {
            return;
        }
        let maps = &port.qos.maps;
        let way = |dscp: u8| {
            let tc = maps.dscp_to_tc.get(&dscp).copied().unwrap_or(0);
            let at = |map: &BTreeMap<u8, u8>| map.get(&tc).copied().unwrap_or(tc);
            (at(&maps.tc_to_queue), at(&maps.tc_to_pg))
        };
        let paused: Vec<u8> =
            port.qos.pfc.iter().map(|priority| queue_of(port, *priority)).collect();
        let mut lost: BTreeMap<(u8, u8), Vec<u8>> = BTreeMap::new();
        for dscp in 0..64 {
            let (queue, pg) = way(dscp);
            if paused.contains(&queue) && !port.qos.pfc.contains(&pg) {
                lost.entry((queue, pg)).or_default().push(dscp);
            }
        }
        let from = |field| port.qos.from.get(field).cloned();
        let own = port.qos.place.clone().unwrap_or_else(|| "PORT_QOS_MAP".to_owned());
        let file = port.qos.file.as_str();
        for ((queue, pg), dscps) in lost {
            let text = format!(
                "DSCP {} is in queue {queue}, which PFC pauses, but in priority group {pg}, which \
                 sends none: its senders are never told to stop, and its packets are dropped",
                listed(&dscps)
            );
            let place = from("tc_to_pg_map").unwrap_or_else(|| own.clone());
            let kind = (Severity::Error, Rule::LosslessInLossyGroup);
            self.add(kind, (file, &place), Some(port), text);
        }
        let (queue, pg) = way(CNP_DSCP);
        if queue == way(0).0 && !port.qos.pfc.is_empty() {
            let better: Vec<u8> = (1..64)
                .filter(|dscp| way(*dscp).0 != queue && !port.qos.pfc.contains(&way(*dscp).1))
                .collect();
            let better = match better.as_slice() {
                [] => String::new(),
                dscps => format!("; DSCP {} would not", listed(dscps)),
            };
            let text = format!(
                "DSCP {CNP_DSCP}, the CNPs of ConnectX NICs, is in queue {queue} (group {pg}) with \
                 all that is unclassified: under congestion they come late or are lost, and DCQCN \
                 slows down too late{better}"
            );
            let place = from("dscp_to_tc_map").unwrap_or_else(|| own.clone());
            self.add((Severity::Warning, Rule::CnpBestEffort), (file, &place), Some(port), text);
        }
    }

    /// A DSCP that is lossless at most ports of a switch must be at all of them.
    fn elsewhere(&mut self, switch: &Switch) {
        let ports = || {
            let in_use = switch.ports.iter().filter(|port| port.is_in_use);
            in_use.filter(|port| !port.qos.pfc.is_empty())
        };
        let all = ports().count();
        for dscp in 0..64 {
            let good = ports().filter(|port| lossless(port, dscp).is_some()).count();
            if !switch.has_qos || good == all || 2 * good <= all {
                continue;
            }
            for port in ports().filter(|port| lossless(port, dscp).is_none()) {
                let from = port.qos.from.get("dscp_to_tc_map");
                let place = from.or(port.qos.place.as_ref()).map_or("PORT_QOS_MAP", String::as_str);
                let text = format!(
                    "DSCP {dscp} is lossless at {good} of {all} ports and lossy here: what comes in \
                     here is dropped under congestion"
                );
                let kind = (Severity::Error, Rule::LosslessInLossyGroup);
                self.add(kind, (&port.qos.file, place), Some(port), text);
            }
        }
    }

    /// WRED profiles at the lossless queues.
    fn marking(&mut self, switch: &Switch, port: &SwitchPort) {
        for (queue, wred) in &port.qos.wred {
            if let Some(field) = wred.off {
                let text = format!(
                    "ecn is set, but {field} is not true: queue {queue} marks nothing, and DCQCN \
                     never acts"
                );
                let (kind, place) = ((Severity::Error, Rule::WredDisabled), &wred.name);
                self.add(kind, (&wred.file, place), Some(port), text);
            }
        }
        let (Some(profile), true) = (switch.ecn_profiles.first(), switch.has_qos) else { return };
        for priority in &port.qos.pfc {
            let queue = queue_of(port, *priority);
            if !port.qos.wred.contains_key(&queue) {
                let text = format!(
                    "queue {queue} is lossless and has no wred_profile, though {profile} marks: \
                     PFC alone holds its senders back"
                );
                let kind = (Severity::Error, Rule::EcnUnbound);
                let place = format!("QUEUE|{}|{queue}", port.port.name);
                self.unbound(kind, &port.qos.file, place, port, text);
            }
        }
    }

    /// The place names the queue of the first port only.
    fn unbound(
        &mut self,
        kind: (Severity, Rule),
        file: &str,
        place: String,
        port: &SwitchPort,
        text: String,
    ) {
        let known = self.found.iter_mut().find(|(key, _)| key.text == text && key.file == file);
        match known {
            Some((_, ports)) => ports.push(port.port.name.clone()),
            None => self.add(kind, (file, &place), Some(port), text),
        }
    }

    /// The lossless groups of a port.
    fn groups(&mut self, switch: &Switch, port: &SwitchPort) {
        for (priority, group) in port.lossless() {
            let at = (group.file.as_str(), group.name.as_str());
            match group.xoff {
                None => {
                    let text = format!(
                        "priority group {priority} has PFC, but its profile has no xoff: what comes \
                         in after XOFF is dropped"
                    );
                    self.add((Severity::Error, Rule::NoXoff), at, Some(port), text);
                    continue;
                }
                Some(0) => {
                    let text = format!(
                        "the headroom (xoff) of priority group {priority} is 0: what comes in after \
                         XOFF is dropped"
                    );
                    self.add((Severity::Error, Rule::HeadroomZero), at, Some(port), text);
                }
                Some(xoff) => self.headroom(port, group, xoff),
            }
            self.mtu(port, group);
            self.ecn_order(switch, port, priority, group);
        }
    }

    /// Headroom against the cable, the formula and the table of the SKU.
    fn headroom(&mut self, port: &SwitchPort, group: &Group, xoff: u64) {
        let at = (group.file.as_str(), group.name.as_str());
        let info = &port.port;
        let link = format!("{} and {}", info.rate, info.cable);
        // on the cable both ways, and a frame that each end has begun
        let flight = info.rate.bytes_in(info.delay() * 2).get();
        let least = flight + 2 * info.mtu;
        let made_for = made_for(&group.name);
        let text = if xoff < least {
            format!(
                "the headroom (xoff) is {xoff} B; at {link} a round trip ({flight} B) and two \
                 frames of {} B are {least} B: lossless packets will be dropped",
                info.mtu
            )
        } else if let Some(length) = made_for.filter(|length| *length < info.metres()) {
            format!(
                "the profile is for {length} m, CABLE_LENGTH of the port is {}: lossless packets \
                 may be dropped",
                info.cable
            )
        } else {
            let [formula, table] = port.wanted;
            let wanted = [(table, "the table of the SKU"), (formula, "NVIDIA's formula")];
            // one of both, the table first: SONiC takes it where the model is not dynamic
            let first = wanted.into_iter().find_map(|(bytes, by)| Some((bytes?, by)));
            let Some((bytes, by)) = first.filter(|(bytes, _)| xoff + 1024 < *bytes) else { return };
            format!(
                "the headroom (xoff) is {xoff} B; {by} has {bytes} B for {link}: lossless packets \
                 may be dropped"
            )
        };
        let severity = if xoff < least { Severity::Error } else { Severity::Warning };
        self.add((severity, Rule::HeadroomShort), at, Some(port), text);
    }

    fn mtu(&mut self, port: &SwitchPort, group: &Group) {
        if group.is_made {
            return;
        }
        let (end, made_for) = match group.name.split_once("_mtu") {
            Some((_, rest)) => {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                ("", digits.parse().unwrap_or(PROFILE_MTU))
            }
            None => (" (SONiC's default)", PROFILE_MTU),
        };
        if port.port.mtu > made_for {
            let text = format!(
                "the profile allows for frames of {made_for} B{end}, PORT mtu is {}: the headroom \
                 is too small for the largest frames",
                port.port.mtu
            );
            let at = (group.file.as_str(), group.name.as_str());
            self.add((Severity::Warning, Rule::MtuAboveProfile), at, Some(port), text);
        }
    }

    /// Kmin and Kmax against what one sender alone may have before XOFF.
    fn ecn_order(&mut self, switch: &Switch, port: &SwitchPort, priority: u8, group: &Group) {
        let wred = port.qos.wred.get(&queue_of(port, priority));
        let Some((wred, marks)) = wred.and_then(|wred| Some((wred, wred.marks?))) else { return };
        let Some(limit) = alone(switch, group) else { return };
        let [kmin, kmax] = [marks.kmin, marks.kmax].map(|size| size.to_bytes(Bytes::new(1)));
        let (severity, text) = if kmin >= limit {
            let text = format!(
                "marking begins at {kmin} B, but a sender alone is paused at {limit} B ({}): it is \
                 paused before it is marked, and DCQCN never acts",
                group.name
            );
            (Severity::Error, text)
        } else if kmax > limit {
            let text = format!(
                "Kmax is {kmax} B, but a sender alone is paused at {limit} B ({}): PFC comes \
                 before ECN is at its full strength",
                group.name
            );
            (Severity::Warning, text)
        } else {
            return;
        };
        self.add((severity, Rule::PfcBeforeEcn), (&wred.file, &wred.name), Some(port), text);
    }

    /// All headrooms against the pool that they share.
    fn shared_headroom(&mut self, switch: &Switch) {
        let Some(name) = &switch.buffer.main[0] else { return };
        let Some(at) = switch.config.get("BUFFER_POOL", name) else { return };
        let Ok(Some(pool)) = at.number::<u64>("xoff") else { return };
        let in_use = || switch.ports.iter().filter(|port| port.is_in_use);
        let all = || in_use().flat_map(|port| port.lossless()).filter_map(|(_, group)| group.xoff);
        let (sum, largest) = (all().sum::<u64>(), all().max().unwrap_or(0));
        let place = at.place();
        let at = (at.file(), place.as_str());
        let kind = (Severity::Error, Rule::HeadroomOversubscribed);
        if pool > 0 && largest > pool {
            let text = format!(
                "the headroom of one group is {largest} B, the pool for all (xoff) has {pool} B: \
                 lossless packets will be dropped"
            );
            self.add(kind, at, None, text);
        } else if let Some(ratio) = switch.ratio.filter(|ratio| sum > pool.saturating_mul(*ratio)) {
            let text = format!(
                "the headrooms of all groups are {sum} B, more than xoff {pool} B x \
                 over_subscribe_ratio {ratio}: when many are paused, lossless packets are dropped"
            );
            self.add(kind, at, None, text);
        }
    }

    fn watchdogs(&mut self, switch: &Switch) {
        for watchdog in &switch.watchdogs {
            let at = (watchdog.file.as_str(), watchdog.place.as_str());
            let poll = watchdog.poll;
            let times = [
                ("detection_time", watchdog.detection, "storms are found late"),
                ("restoration_time", watchdog.restoration, "the queue comes back late"),
            ];
            for (field, time, end) in times {
                if time > 0 && time < poll {
                    let text = format!(
                        "{field} is {time} ms, but the watchdog looks every {poll} ms \
                         (POLL_INTERVAL): {end}, or SONiC refuses it"
                    );
                    self.add((Severity::Warning, Rule::WatchdogPoll), at, None, text);
                }
            }
        }
    }

    /// Both ends of a cable must have PFC on the same priorities.
    fn cables(&mut self, switches: &[Switch], fabric: &Fabric) {
        for cable in &fabric.cables {
            let [a, b] = cable.ends.map(|end| match end {
                End::Port { switch, port } => {
                    let switch = &switches[switch];
                    Some((switch, &switch.ports[port]))
                }
                End::Host { .. } => None,
            });
            let (Some((one, a)), Some((two, b))) = (a, b) else { continue };
            if a.qos.pfc == b.qos.pfc || !one.has_qos || !two.has_qos {
                continue;
            }
            let place = format!("PORT_QOS_MAP|{}", a.port.name);
            let (here, there) = (listed(&a.qos.pfc), listed(&b.qos.pfc));
            let text = format!(
                "pfc_enable is {here} here and {there} at {} {} ({}): pauses of a priority that \
                 one end has not are sent in vain, and its packets are dropped",
                two.name,
                b.port.name,
                two.config.files.join(", ")
            );
            let file = one.config.files.join(", ");
            let file = if a.qos.file.is_empty() { file.as_str() } else { a.qos.file.as_str() };
            self.add((Severity::Error, Rule::PfcAsymmetric), (file, &place), None, text);
        }
    }
}

/// The queue that PFC of a priority pauses.
fn queue_of(port: &SwitchPort, priority: u8) -> u8 {
    port.qos.maps.pfc_to_queue.get(&priority).copied().unwrap_or(priority)
}

/// `3, 4` or `none`.
fn listed(numbers: &[u8]) -> String {
    match numbers {
        [] => "none".to_owned(),
        [first, .., last] if numbers.len() > 8 => {
            format!("{first} .. {last} ({} of them)", numbers.len())
        }
        numbers => numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Metres of `pg_lossless_100000_40m_profile`.
fn made_for(name: &str) -> Option<u64> {
    let rest = name.split_once("pg_lossless_")?.1;
    rest.split('_').find_map(metres)
}

/// What a group alone may hold before XOFF, in bytes: alpha S / (1 + alpha) of its slice, and its
/// reserve.
fn alone(switch: &Switch, group: &Group) -> Option<u64> {
    let pool = switch.buffer.pools.get(&group.profile.pool)?.size?;
    let bytes = |size: Size| size.to_bytes(Bytes::new(1));
    let shared = bytes(pool) / switch.slices();
    let limit = match group.profile.dynamic_th {
        // alpha = 2^n: S 2^n / (1 + 2^n)
        Some(n) => {
            let (over, under) = match n >= 0 {
                true => (1u128 << n, 1 + (1u128 << n)),
                false => (1, 1 + (1u128 << -n)),
            };
            u64::try_from(u128::from(shared) * over / under).unwrap_or(u64::MAX)
        }
        None => bytes(group.profile.static_th?),
    };
    Some(limit.saturating_add(bytes(group.profile.reserve)))
}
