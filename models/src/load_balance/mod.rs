//! How a switch chooses among equal next hops.
//!
//! A [`Balancer`] is the state of one switch that does not leave the choice to the hash. It is told of a
//! data packet and of the load of ports, and answers with a next hop; ACKs, NAKs and CNPs keep to the
//! hash. To add one: a file, a variant of [`LoadBalance`] and of [`Balancer`], and an arm in
//! [`Balancer::new`] and [`Balancer::choose`].

mod adaptive;
mod conga;
mod drill;
mod ecmp;
mod flow_table;
mod flowlet;
mod pinned;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::Time;
use sim_core::rng::Stream;

pub use adaptive::{Adaptive, AdaptiveConfig};
pub use conga::{Conga, CongaConfig};
pub use drill::{Drill, DrillConfig};
pub use ecmp::{Ecmp, EcmpConfig, EcmpFunction, EcmpSeed, FiveTuple, HashField};
pub use flow_table::FlowTable;
pub use flowlet::{Flowlet, FlowletConfig};
pub use pinned::Pinned;

use crate::switch::SwitchConfig;

/// What chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadBalance {
    /// The hash of `[switch.ecmp]`: one next hop for all packets of a flow.
    #[default]
    Ecmp,
    /// Chance, for each data packet (random packet spraying: Dixit et al., INFOCOM 2013).
    Spray,
    /// Chance, for each burst of a flow (LetFlow: Vanini et al., NSDI 2017).
    Flowlet,
    /// The port with the shortest queue, for each packet or burst.
    Adaptive,
    /// The shorter one of some queues, for each packet (DRILL: Ghorbani et al., SIGCOMM 2017).
    Drill,
    /// The least congested path, for each burst (CONGA: Alizadeh et al., SIGCOMM 2014).
    Conga,
    /// The port that has the fewest flows, for each flow when its first packet comes.
    Static,
}

impl LoadBalance {
    /// Whether packets of a flow may come out of order.
    pub fn reorders(self) -> bool {
        !matches!(self, LoadBalance::Ecmp | LoadBalance::Static)
    }

    /// Whether departures must be known at once: it looks at queues, or at what ports send.
    pub fn is_exact(self) -> bool {
        matches!(self, LoadBalance::Adaptive | LoadBalance::Drill | LoadBalance::Conga)
    }
}

/// A data packet for which a next hop is sought.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// It arrives now,
    pub now: Time,
    /// is part of this QP,
    pub flow: u32,
    /// goes to a host of the switch with this number (for CONGA),
    pub leaf: u32,
    /// and may leave by these ports of the switch.
    pub hops: &'a [u16],
}

/// The state of a switch that chooses otherwise than by the hash.
#[derive(Clone, Debug)]
pub enum Balancer {
    /// By chance.
    Spray(Stream),
    /// By chance for each burst.
    Flowlet(Flowlet),
    /// By queues.
    Adaptive(Adaptive),
    /// By some queues.
    Drill(Drill),
    /// By paths.
    Conga(Box<Conga>),
    /// By flows.
    Static(Pinned),
}

impl Balancer {
    /// That of a switch with so many ports; none if the hash chooses.
    pub fn new(config: &SwitchConfig, ports: usize, random: Stream) -> Option<Self> {
        Some(match config.load_balance {
            LoadBalance::Ecmp => return None,
            LoadBalance::Spray => Balancer::Spray(random),
            LoadBalance::Flowlet => Balancer::Flowlet(Flowlet::new(config.flowlet, random)),
            LoadBalance::Adaptive => Balancer::Adaptive(Adaptive::new(config.adaptive, random)),
            LoadBalance::Drill => Balancer::Drill(Drill::new(config.drill, random)),
            LoadBalance::Conga => {
                Balancer::Conga(Box::new(Conga::new(config.conga, ports, random)))
            }
            LoadBalance::Static => Balancer::Static(Pinned::new(ports)),
        })
    }

    /// The next hop of a packet; `queued` is what a port has in its queues, in bytes.
    pub fn choose(&mut self, asked: &Asked<'_>, queued: impl Fn(u16) -> u64) -> u16 {
        match self {
            Balancer::Spray(random) => any(asked.hops, random),
            Balancer::Flowlet(flowlet) => flowlet.choose(asked),
            Balancer::Adaptive(adaptive) => adaptive.choose(asked, queued),
            Balancer::Drill(drill) => drill.choose(asked, queued),
            Balancer::Conga(conga) => conga.choose(asked),
            Balancer::Static(pinned) => pinned.choose(asked),
        }
    }
}

/// One of the hops, by chance.
fn any(hops: &[u16], random: &mut Stream) -> u16 {
    hops[random.below(hops.len() as u64) as usize]
}

/// One of the hops for which `cost` is least, by chance.
fn least(hops: &[u16], random: &mut Stream, cost: impl Fn(u16) -> u64) -> u16 {
    let best = hops.iter().map(|hop| cost(*hop)).min();
    let count = hops.iter().filter(|hop| Some(cost(**hop)) == best).count() as u64;
    let chosen = if count > 1 { random.below(count) } else { 0 };
    let mut equal = hops.iter().filter(|hop| Some(cost(**hop)) == best);
    equal.nth(chosen as usize).copied().unwrap_or(hops[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_core::rng::Domain;

    pub(super) fn stream() -> Stream {
        Stream::new(1, Domain::Spray, 7)
    }

    /// QP `flow` at `us`.
    pub(super) fn asked(us: u64, flow: u32, hops: &[u16]) -> Asked<'_> {
        Asked { now: Time::from_ps(us * 1_000_000), flow, leaf: 9, hops }
    }

    #[test]
    fn equal_costs_share() {
        let mut random = stream();
        let mut taken = [0; 4];
        (0..300).for_each(|_| {
            let hop = least(&[0, 1, 2, 3], &mut random, |hop| [5, 2, 2, 9][usize::from(hop)]);
            taken[usize::from(hop)] += 1;
        });
        assert!(taken[0] == 0 && taken[3] == 0 && taken[1].min(taken[2]) > 120, "{taken:?}");
    }
}
