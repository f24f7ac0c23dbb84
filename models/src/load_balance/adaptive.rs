//! Adaptive routing by the switch's own queues: each packet, or each burst of a flow, takes the port
//! with the fewest bytes queued, as adaptive routing of NVIDIA's and dynamic load balancing of
//! Broadcom's switches do (per packet, or with an inactivity interval).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::Delta;
use sim_core::rng::Stream;

use super::{Asked, FlowTable, least};

/// `[switch.adaptive]`: with `load_balance = "adaptive"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptiveConfig {
    /// A flow keeps its port unless it has paused for longer than this; 0: each packet chooses.
    pub gap: Delta,
    /// Queues that differ by less count as equal: bytes are divided by this first.
    #[schemars(range(min = 1))]
    pub grade: u64,
}

impl Default for AdaptiveConfig {
    /// Each packet, by queues of a few packets.
    fn default() -> Self {
        AdaptiveConfig { gap: Delta::ZERO, grade: 4096 }
    }
}

/// The state of one switch.
#[derive(Clone, Debug)]
pub struct Adaptive {
    config: AdaptiveConfig,
    random: Stream,
    flows: FlowTable,
}

impl Adaptive {
    /// It has seen no flow.
    pub fn new(config: AdaptiveConfig, random: Stream) -> Self {
        Adaptive { config, random, flows: FlowTable::default() }
    }

    /// The port of a packet.
    pub fn choose(&mut self, asked: &Asked<'_>, queued: impl Fn(u16) -> u64) -> u16 {
        let AdaptiveConfig { gap, grade } = self.config;
        let best =
            |random: &mut Stream| least(asked.hops, random, |hop| queued(hop) / grade.max(1));
        if gap.is_zero() {
            return best(&mut self.random);
        }
        let known = self.flows.get(asked.flow);
        let kept =
            known.filter(|(port, last)| asked.now.since(*last) <= gap && asked.hops.contains(port));
        let port = kept.map_or_else(|| best(&mut self.random), |(port, _)| port);
        self.flows.set(asked.flow, port, asked.now);
        port
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, stream};
    use super::*;

    #[test]
    fn the_shortest_queue_is_taken_by_packet_or_burst() {
        let queues = |short: u16| move |hop: u16| if hop == short { 100 } else { 50_000 };
        let mut by_packet = Adaptive::new(AdaptiveConfig::default(), stream());
        assert_eq!(by_packet.choose(&asked(0, 1, &[4, 5, 6]), queues(5)), 5);
        assert_eq!(by_packet.choose(&asked(0, 1, &[4, 5, 6]), queues(6)), 6);
        let config = AdaptiveConfig { gap: Delta::from_us(5), ..AdaptiveConfig::default() };
        let mut by_burst = Adaptive::new(config, stream());
        let at = |burst: &mut Adaptive, us, short| {
            burst.choose(&asked(us, 1, &[4, 5, 6]), queues(short))
        };
        let taken = [(0, 5), (5, 6), (10, 4), (16, 4)].map(|(us, q)| at(&mut by_burst, us, q));
        assert_eq!(taken, [5, 5, 5, 4]);
    }
}
