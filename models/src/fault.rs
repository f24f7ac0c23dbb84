//! What goes wrong while a fabric runs.
//!
//! A cable that is down loses every frame that would arrive by it, in both directions, and frees
//! both ends of the pauses that they have been told, as a reset link does. Who sends to it goes on
//! doing so, into the void, until routes change.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Delta, Time};

use crate::error::BuildError;
use crate::ids::PortId;
use crate::routing::Routes;
use crate::topology::{StaticRoute, Topology};

/// `[[fault]]`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultConfig {
    /// A cable carries nothing for a while.
    LinkDown(LinkDownConfig),
    /// A cable loses frames for a while.
    Loss(LossConfig),
}

/// `kind = "link-down"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDownConfig {
    /// One end of the cable, such as `leaf0:4`.
    pub link: String,
    /// When it goes down.
    pub at: Delta,
    /// When it is up again; never if absent.
    pub until: Option<Delta>,
    /// It goes down so many times (a flapping link),
    #[serde(default = "once")]
    #[schemars(range(min = 1))]
    pub times: u32,
    /// each so much after the one before.
    pub every: Option<Delta>,
    /// How long after each change all routes have changed too; if absent they never do.
    pub reroute: Option<Delta>,
}

/// `kind = "loss"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LossConfig {
    /// One end of the cable, such as `leaf0:4`.
    pub link: String,
    /// From here,
    pub at: Delta,
    /// to here; to the end of the run if absent.
    pub until: Option<Delta>,
    /// Probability that a frame is lost, per direction.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub loss: f64,
}

fn once() -> u32 {
    1
}

/// Changes that all faults of a scenario may make together.
const CHANGES_MAX: usize = 100_000;

/// Something changes at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// What arrives at this port is lost from now on, or no longer.
    Link {
        /// One end of a cable.
        port: PortId,
        /// Its state.
        down: bool,
    },
    /// What arrives at this port is lost with this probability.
    Loss {
        /// One end of a cable.
        port: PortId,
        /// The probability.
        probability: f64,
    },
    /// Everyone takes other routes: those of this number.
    Routes(u32),
}

/// All changes of a run, in order, and the routes that they lead to.
#[derive(Debug, Default)]
pub struct Faults {
    /// When what changes.
    pub changes: Vec<(Time, Change)>,
    /// Routes other than the first ones, from 1 on in [`Change::Routes`].
    pub routes: Vec<Routes>,
}

/// A change of a cable: when it is noticed by routing, one end, and its state.
type Notice = (Time, PortId, bool);

impl Faults {
    /// What the faults of a scenario do.
    pub fn new(
        faults: &[FaultConfig],
        topology: &Topology,
        fixed: &[StaticRoute],
    ) -> Result<Self, BuildError> {
        let mut changes = Vec::new();
        let mut notices: Vec<Notice> = Vec::new();
        for (index, fault) in faults.iter().enumerate() {
            let key = |field: &str| format!("fault[{index}].{field}");
            let (FaultConfig::LinkDown(LinkDownConfig { link, at, until, .. })
            | FaultConfig::Loss(LossConfig { link, at, until, .. })) = fault;
            let Some(port) = topology.find_port(link) else {
                let message = format!("there is no port {link:?}: `leaf0:4` is the fifth of leaf0");
                return Err(BuildError::new(key("link"), message));
            };
            if until.is_some_and(|until| until <= *at) {
                return Err(BuildError::new(key("until"), "it ends before it begins"));
            }
            let ends = [port, topology.port(port).peer];
            let at = Time::ZERO + *at;
            let until = until.map(|until| Time::ZERO + until);
            match fault {
                FaultConfig::LinkDown(down) => {
                    flaps(down, at, until, &key, |time, down, reroute| {
                        changes.extend(ends.map(|port| (time, Change::Link { port, down })));
                        notices.extend(reroute.map(|after: Delta| (time + after, port, down)));
                    })?;
                }
                FaultConfig::Loss(LossConfig { loss, .. }) => {
                    if !(0.0..=1.0).contains(loss) {
                        let message = format!("{loss} is out of range: 0 to 1 is expected");
                        return Err(BuildError::new(key("loss"), message));
                    }
                    for port in ends {
                        let change = |probability| Change::Loss { port, probability };
                        changes.push((at, change(*loss)));
                        let before = topology.port(port).loss;
                        changes.extend(until.map(|until| (until, change(before))));
                    }
                }
            }
            if changes.len() > CHANGES_MAX {
                let message = format!("faults make more than {CHANGES_MAX} changes");
                return Err(BuildError::new(key("times"), message));
            }
        }
        let mut faults = Faults { changes, routes: Vec::new() };
        faults.reroute(notices, topology, fixed)?;
        // at one instant in the order of the scenario, routes last
        faults.changes.sort_by_key(|(time, _)| *time);
        Ok(faults)
    }

    /// Ports by which frames may be lost for a while.
    pub fn ports(&self) -> BTreeSet<PortId> {
        let port = |(_, change): &(Time, Change)| match change {
            Change::Link { port, .. } | Change::Loss { port, .. } => Some(*port),
            Change::Routes(_) => None,
        };
        self.changes.iter().filter_map(port).collect()
    }

    /// Adds the changes of routes: as cables are noticed to be down or up.
    fn reroute(
        &mut self,
        mut notices: Vec<Notice>,
        topology: &Topology,
        fixed: &[StaticRoute],
    ) -> Result<(), BuildError> {
        notices.sort_by_key(|(time, ..)| *time);
        let mut known: BTreeMap<Vec<PortId>, u32> = BTreeMap::from([(Vec::new(), 0)]);
        let mut dead: BTreeSet<PortId> = BTreeSet::new();
        for (place, (time, port, down)) in notices.iter().enumerate() {
            for end in [*port, topology.port(*port).peer] {
                let _ = if *down { dead.insert(end) } else { dead.remove(&end) };
            }
            if notices.get(place + 1).is_some_and(|(next, ..)| next == time) {
                continue;
            }
            let cut: Vec<PortId> = dead.iter().copied().collect();
            let next = known.len() as u32;
            let number = *known.entry(cut).or_insert(next);
            if number == next {
                let cut: Vec<PortId> = dead.iter().copied().collect();
                self.routes.push(Routes::without(topology, fixed, &cut)?);
            }
            self.changes.push((*time, Change::Routes(number)));
        }
        Ok(())
    }
}

/// Calls back with each change of a cable that goes down, perhaps several times.
fn flaps(
    config: &LinkDownConfig,
    at: Time,
    until: Option<Time>,
    key: &impl Fn(&str) -> String,
    mut call: impl FnMut(Time, bool, Option<Delta>),
) -> Result<(), BuildError> {
    let every = match (config.times, config.every, until) {
        (0, ..) => return Err(BuildError::new(key("times"), "0 is out of range: at least 1")),
        (1, ..) => Delta::ZERO,
        (_, Some(every), Some(until)) if at + every > until => every,
        (_, None, _) => return Err(BuildError::new(key("every"), "with `times` it is needed")),
        (_, _, None) => return Err(BuildError::new(key("until"), "with `times` it is needed")),
        (_, Some(_), Some(_)) => {
            let message = "it must be up again before it goes down the next time";
            return Err(BuildError::new(key("every"), message));
        }
    };
    if config.times as usize > CHANGES_MAX {
        let message = format!("{} is out of range: at most {CHANGES_MAX}", config.times);
        return Err(BuildError::new(key("times"), message));
    }
    let mut later = Delta::ZERO;
    for _ in 0..config.times {
        call(at.saturating_add(later), true, config.reroute);
        if let Some(until) = until {
            call(until.saturating_add(later), false, config.reroute);
        }
        later = Delta::from_ps(later.ps().saturating_add(every.ps()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{LeafSpineConfig, LinkConfig, TopologyConfig};
    use sim_core::Rate;

    fn leaf_spine() -> Topology {
        let link = LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };
        Topology::build(&TopologyConfig::LeafSpine(LeafSpineConfig {
            leaves: 2,
            spines: 2,
            hosts_per_leaf: 1,
            link,
            uplink: None,
            uplinks_per_spine: 1,
            ports_per_host: 1,
        }))
        .unwrap()
    }

    fn down(times: u32) -> LinkDownConfig {
        LinkDownConfig {
            link: "leaf0:1".into(),
            at: Delta::from_us(10),
            until: Some(Delta::from_us(12)),
            times,
            every: (times > 1).then(|| Delta::from_us(5)),
            reroute: Some(Delta::from_us(3)),
        }
    }

    #[test]
    fn a_flapping_link_is_known_later() {
        let topology = leaf_spine();
        let faults = Faults::new(&[FaultConfig::LinkDown(down(2))], &topology, &[]).unwrap();
        let seen: Vec<(u64, String)> = faults
            .changes
            .iter()
            .map(|(time, change)| {
                let what = match change {
                    Change::Link { down: true, .. } => "down".into(),
                    Change::Link { .. } => "up".into(),
                    Change::Routes(number) => format!("routes {number}"),
                    Change::Loss { .. } => "loss".into(),
                };
                (time.ps() / 1_000_000, what)
            })
            .collect();
        // down at 10 and 15 us, up at 12 and 17 us, at both ends; routes follow 3 us later
        let expected = [
            (10, "down"),
            (10, "down"),
            (12, "up"),
            (12, "up"),
            (13, "routes 1"),
            (15, "down"),
            (15, "down"),
            (15, "routes 0"),
            (17, "up"),
            (17, "up"),
            (18, "routes 1"),
            (20, "routes 0"),
        ];
        let expected: Vec<(u64, String)> =
            expected.iter().map(|(time, what)| (*time, (*what).to_owned())).collect();
        assert_eq!(seen, expected);
        assert_eq!(faults.routes.len(), 1);
        let host = topology.find("host1").unwrap();
        let address = topology.addresses_of(host).start;
        // leaf0: port 0 is host0, 1 and 2 lead to the spines
        let leaf = topology.find("leaf0").unwrap();
        assert_eq!(faults.routes[0].next_hops(leaf, host, address), [2]);
    }

    #[test]
    fn mistakes_are_named() {
        let topology = leaf_spine();
        let key = |fault: LinkDownConfig| {
            let faults = Faults::new(&[FaultConfig::LinkDown(fault)], &topology, &[]);
            faults.unwrap_err().key
        };
        assert_eq!(key(LinkDownConfig { link: "leaf9:1".into(), ..down(1) }), "fault[0].link");
        assert_eq!(
            key(LinkDownConfig { until: Some(Delta::from_us(1)), ..down(1) }),
            "fault[0].until"
        );
        assert_eq!(key(LinkDownConfig { every: None, ..down(2) }), "fault[0].every");
        assert_eq!(
            key(LinkDownConfig { every: Some(Delta::from_us(2)), ..down(2) }),
            "fault[0].every"
        );
        assert_eq!(key(LinkDownConfig { until: None, ..down(2) }), "fault[0].until");
    }
}
