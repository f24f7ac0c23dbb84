//! Flowlet switching: a burst of a flow keeps its port, and the next one, after a gap longer than the
//! paths differ by, takes another by chance (LetFlow: Vanini et al., "Let It Flow: Resilient Asymmetric
//! Load Balancing with Flowlet Switching", NSDI 2017). What RDMA paces has few gaps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::Delta;
use sim_core::rng::Stream;

use super::{Asked, FlowTable, any};

/// `[switch.flowlet]`: with `load_balance = "flowlet"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowletConfig {
    /// A flow that pauses for longer than this may take another port.
    pub gap: Delta,
}

impl Default for FlowletConfig {
    /// That of ConWeave's model; the paper has 500 us, for TCP.
    fn default() -> Self {
        FlowletConfig { gap: Delta::from_us(100) }
    }
}

/// The state of one switch.
#[derive(Clone, Debug)]
pub struct Flowlet {
    gap: Delta,
    random: Stream,
    flows: FlowTable,
}

impl Flowlet {
    /// It has seen no flow.
    pub fn new(config: FlowletConfig, random: Stream) -> Self {
        Flowlet { gap: config.gap, random, flows: FlowTable::default() }
    }

    /// The port of a packet.
    pub fn choose(&mut self, asked: &Asked<'_>) -> u16 {
        let known = self.flows.get(asked.flow);
        let kept = known
            .filter(|(port, last)| asked.now.since(*last) <= self.gap && asked.hops.contains(port));
        let port = kept.map_or_else(|| any(asked.hops, &mut self.random), |(port, _)| port);
        self.flows.set(asked.flow, port, asked.now);
        port
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, stream};
    use super::*;

    #[test]
    fn a_gap_lets_a_flow_move() {
        let mut flowlet = Flowlet::new(FlowletConfig { gap: Delta::from_us(10) }, stream());
        let hops: Vec<u16> = (0..64).collect();
        // packets 10 us apart keep their port; gaps of 11 us draw one of 64 each time
        let steady: Vec<u16> = (0..20).map(|n| flowlet.choose(&asked(n * 10, 1, &hops))).collect();
        assert!(steady.iter().all(|port| *port == steady[0]));
        let mut moved: Vec<u16> =
            (0..20).map(|n| flowlet.choose(&asked(1000 + n * 11, 1, &hops))).collect();
        moved.dedup();
        assert!(moved.len() > 15, "{moved:?}");
        // a port that is no next hop any more is left at once
        let last = *moved.last().unwrap();
        let others: Vec<u16> = hops.iter().copied().filter(|hop| *hop != last).collect();
        assert_ne!(flowlet.choose(&asked(1000 + 19 * 11, 1, &others)), last);
    }
}
