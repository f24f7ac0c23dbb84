//! What goes wrong while a fabric runs.
//!
//! A cable that is down loses every frame that would arrive by it, in both directions, and frees
//! both ends of the pauses that they have been told, as a reset link does. Who sends to it goes on
//! doing so, into the void, until routes change.

mod config;
mod loss;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sim_core::{Delta, Rate, Time};

use crate::error::BuildError;
use crate::ids::PortId;
use crate::nic::NicParams;
use crate::routing::Routes;
use crate::topology::{NodeKind, StaticRoute, Topology};

pub use config::{
    Anything, Direction, DropRule, FaultConfig, LinkDownConfig, LossConfig, RateConfig, SetConfig,
    SlowReceiverConfig,
};
pub use loss::{BitErrors, FrameLoss};
pub use settings::{Planned, PortSetting, Settings, check_nic, check_switch};

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
    /// Of what arrives at this port this is lost.
    Loss {
        /// One end of a cable.
        port: PortId,
        /// Which frames.
        loss: FrameLoss,
    },
    /// This port sends at another rate.
    Rate {
        /// One end of a cable.
        port: PortId,
        /// The rate; if absent, that of the cable.
        rate: Option<Rate>,
    },
    /// What a NIC receives by this port goes to memory at another rate.
    Drain {
        /// The port.
        port: PortId,
        /// The rate; if absent, the usual one.
        rate: Option<Rate>,
    },
    /// A port has other settings: at a switch [`Planned::ports`], at a NIC [`Planned::nics`] of this
    /// number.
    Set {
        /// The port.
        port: PortId,
        /// The number.
        number: u32,
    },
    /// Everyone takes other routes: those of this number.
    Routes(u32),
}

impl Change {
    /// The port that changes.
    pub fn port(&self) -> Option<PortId> {
        match self {
            Change::Link { port, .. }
            | Change::Loss { port, .. }
            | Change::Rate { port, .. }
            | Change::Drain { port, .. }
            | Change::Set { port, .. } => Some(*port),
            Change::Routes(_) => None,
        }
    }
}

/// All changes of a run, in order, and the routes that they lead to.
#[derive(Debug, Default)]
pub struct Faults {
    /// When what changes.
    pub changes: Vec<(Time, Change)>,
    /// Routes other than the first ones, from 1 on in [`Change::Routes`].
    pub routes: Vec<Routes>,
    /// What devices take over in [`Change::Set`].
    pub settings: Planned,
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
        let mut made = Made { topology, changes: Vec::new(), notices: Vec::new() };
        for (index, fault) in faults.iter().enumerate() {
            let key = |field: &str| format!("fault[{index}].{field}");
            let (at, until) = fault.span();
            if until.is_some_and(|until| until <= at) {
                return Err(BuildError::new(key("until"), "it ends before it begins"));
            }
            let span = (Time::ZERO + at, until.map(|until| Time::ZERO + until));
            match fault {
                FaultConfig::LinkDown(config) => made.link_down(config, span, &key)?,
                FaultConfig::Loss(config) => made.loss(config, span, &key)?,
                FaultConfig::Rate(config) => made.rate(config, span, &key)?,
                FaultConfig::SlowReceiver(config) => made.slow_receiver(config, span, &key)?,
                // they come as `Settings`
                FaultConfig::Set(_) => {}
            }
            if made.changes.len() > CHANGES_MAX {
                let message = format!("faults make more than {CHANGES_MAX} changes");
                return Err(BuildError::new(key("times"), message));
            }
        }
        let Made { changes, notices, .. } = made;
        let mut faults = Faults { changes, routes: Vec::new(), settings: Planned::default() };
        faults.reroute(notices, topology, fixed)?;
        // at one instant in the order of the scenario, routes last
        faults.changes.sort_by_key(|(time, _)| *time);
        Ok(faults)
    }

    /// Adds a setting of a switch port.
    pub fn set_port(&mut self, at: Time, port: PortId, setting: PortSetting) {
        let number = self.settings.ports.len() as u32;
        self.settings.ports.push(setting);
        self.add(at, Change::Set { port, number });
    }

    /// Adds a setting of some ports of NICs.
    pub fn set_nic(&mut self, at: Time, ports: &[PortId], params: Arc<NicParams>) {
        let number = self.settings.nics.len() as u32;
        self.settings.nics.push(params);
        ports.iter().for_each(|port| self.add(at, Change::Set { port: *port, number }));
    }

    fn add(&mut self, at: Time, change: Change) {
        let place = self.changes.partition_point(|(time, _)| *time <= at);
        self.changes.insert(place, (at, change));
    }

    /// Ports by which frames may be lost for a while.
    pub fn ports(&self) -> BTreeSet<PortId> {
        let port = |(_, change): &(Time, Change)| match change {
            Change::Link { port, .. } | Change::Loss { port, .. } => Some(*port),
            _ => None,
        };
        self.changes.iter().filter_map(port).collect()
    }

    /// Ports of NICs that drain slower for a while.
    pub fn slow_receivers(&self) -> BTreeSet<PortId> {
        let port = |(_, change): &(Time, Change)| match change {
            Change::Drain { port, .. } => Some(*port),
            _ => None,
        };
        self.changes.iter().filter_map(port).collect()
    }

    /// The lowest rate that each of these ports has at some time.
    pub fn lowest_rates(&self) -> BTreeMap<PortId, Rate> {
        let mut lowest: BTreeMap<PortId, Rate> = BTreeMap::new();
        for (_, change) in &self.changes {
            if let Change::Rate { port, rate: Some(rate) } = change {
                let known = lowest.entry(*port).or_insert(*rate);
                *known = (*known).min(*rate);
            }
        }
        lowest
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

/// When a fault begins and ends.
type Span = (Time, Option<Time>);

/// What the faults so far do.
struct Made<'a> {
    topology: &'a Topology,
    changes: Vec<(Time, Change)>,
    notices: Vec<Notice>,
}

impl Made<'_> {
    /// Both ends of a cable, the one that is named first.
    fn ends(&self, link: &str, key: &impl Fn(&str) -> String) -> Result<[PortId; 2], BuildError> {
        let Some(port) = self.topology.find_port(link) else {
            let message = format!("there is no port {link:?}: `leaf0:4` is the fifth of leaf0");
            return Err(BuildError::new(key("link"), message));
        };
        Ok([port, self.topology.port(port).peer])
    }

    /// A change at the start of a fault, and the one that takes it back.
    fn add(&mut self, (at, until): Span, change: Change, back: Change) {
        self.changes.push((at, change));
        self.changes.extend(until.map(|until| (until, back)));
    }

    fn link_down(
        &mut self,
        config: &LinkDownConfig,
        (at, until): Span,
        key: &impl Fn(&str) -> String,
    ) -> Result<(), BuildError> {
        let ends = self.ends(&config.link, key)?;
        flaps(config, at, until, key, |time, down, reroute| {
            self.changes.extend(ends.map(|port| (time, Change::Link { port, down })));
            let notice = |after: Delta| (time + after, ends[0], down);
            self.notices.extend(reroute.map(notice));
        })
    }

    fn loss(
        &mut self,
        config: &LossConfig,
        span: Span,
        key: &impl Fn(&str) -> String,
    ) -> Result<(), BuildError> {
        let ends = self.ends(&config.link, key)?;
        for (field, value) in [("loss", config.loss), ("ber", config.ber)] {
            if let Some(value) = value.filter(|value| !(0.0..=1.0).contains(value)) {
                let message = format!("{value} is out of range: 0 to 1 is expected");
                return Err(BuildError::new(key(field), message));
            }
        }
        let loss = match (config.loss, config.ber, config.rule) {
            (Some(loss), None, None) => FrameLoss::Frame(loss),
            (None, Some(ber), None) => FrameLoss::Bit(ber),
            (None, None, Some(rule)) => FrameLoss::of(rule),
            _ => {
                let message = "one of `loss`, `ber` and `rule` is expected: which frames are lost";
                return Err(BuildError::new(key("loss"), message));
            }
        };
        let is_nic = |port: PortId| {
            let sender = self.topology.port(self.topology.port(port).peer).node;
            self.topology.node(sender).kind == NodeKind::Host
        };
        let by_rule = matches!(loss, FrameLoss::IpId(_));
        let concerned: Vec<PortId> =
            ends.into_iter().filter(|port| !by_rule || is_nic(*port)).collect();
        if concerned.is_empty() {
            let message = format!(
                "{} is no cable of a host: NICs number what they send, and the rule looks at \
                 their numbers; `host0/nic0` is one",
                config.link
            );
            return Err(BuildError::new(key("link"), message));
        }
        for port in concerned {
            let before = FrameLoss::Frame(self.topology.port(port).loss);
            self.add(span, Change::Loss { port, loss }, Change::Loss { port, loss: before });
        }
        Ok(())
    }

    fn rate(
        &mut self,
        config: &RateConfig,
        span: Span,
        key: &impl Fn(&str) -> String,
    ) -> Result<(), BuildError> {
        let [here, there] = self.ends(&config.link, key)?;
        let full = self.topology.port(here).rate;
        // windows of shards are as long as the shortest frame takes at the rate of the cable
        if config.rate > full || config.rate < MIN_RATE {
            let message = format!(
                "{} is out of range: {MIN_RATE} to {full}, the rate of the cable, is expected (one \
                 that carries nothing is a `link-down`)",
                config.rate
            );
            return Err(BuildError::new(key("rate"), message));
        }
        let senders: &[PortId] = match config.direction {
            Direction::Both => &[here, there],
            Direction::Tx => &[here],
            Direction::Rx => &[there],
        };
        for port in senders.iter().copied() {
            let (rate, back) = (Some(config.rate), None);
            self.add(span, Change::Rate { port, rate }, Change::Rate { port, rate: back });
        }
        Ok(())
    }

    fn slow_receiver(
        &mut self,
        config: &SlowReceiverConfig,
        span: Span,
        key: &impl Fn(&str) -> String,
    ) -> Result<(), BuildError> {
        let topology = self.topology;
        let ports: Vec<PortId> = topology
            .hosts()
            .filter(|host| config.nic.starts_with(&topology.node(*host).name))
            .flat_map(|host| topology.ports_of(host).map(move |port| (host, port)))
            .filter(|(host, port)| {
                config.names(&topology.node(*host).name, &topology.port_name(*port))
            })
            .map(|(_, port)| port)
            .collect();
        if ports.is_empty() {
            let message = format!(
                "there is no NIC {:?}: `host3/nic0` is one, `host3` are all of a host",
                config.nic
            );
            return Err(BuildError::new(key("nic"), message));
        }
        for port in ports {
            let (rate, back) = (Some(config.rate), None);
            self.add(span, Change::Drain { port, rate }, Change::Drain { port, rate: back });
        }
        Ok(())
    }
}

/// A rate so low that a frame takes seconds is none.
const MIN_RATE: Rate = Rate::from_mbps(1);

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
                    _ => "else".into(),
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
