//! DRILL(d, m) (Ghorbani et al., "DRILL: Micro Load Balancing for Low-latency Data Center Networks",
//! SIGCOMM 2017): each packet takes the shortest one of d queues chosen by chance and the m that were
//! shortest for the last packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::rng::Stream;

use super::Asked;

/// `[switch.drill]`: with `load_balance = "drill"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DrillConfig {
    /// Queues that are looked at (d).
    #[schemars(range(min = 1, max = 64))]
    pub samples: u32,
    /// The shortest ones are remembered (m).
    #[schemars(range(min = 0, max = 8))]
    pub memory: u32,
}

impl Default for DrillConfig {
    /// What the paper recommends.
    fn default() -> Self {
        DrillConfig { samples: 2, memory: 1 }
    }
}

/// The state of one switch.
#[derive(Clone, Debug)]
pub struct Drill {
    config: DrillConfig,
    random: Stream,
    /// By the first of its next hops: what was shortest. Destinations with equal hops share it.
    memory: Vec<(u16, Vec<u16>)>,
}

impl Drill {
    /// It remembers nothing.
    pub fn new(config: DrillConfig, random: Stream) -> Self {
        Drill { config, random, memory: Vec::new() }
    }

    /// The port of a packet.
    pub fn choose(&mut self, asked: &Asked<'_>, queued: impl Fn(u16) -> u64) -> u16 {
        let Drill { config, random, memory } = self;
        let hops = asked.hops;
        let place = memory.iter().position(|(first, _)| *first == hops[0]);
        let place = place.unwrap_or_else(|| {
            memory.push((hops[0], Vec::new()));
            memory.len() - 1
        });
        let best = &mut memory[place].1;
        best.retain(|port| hops.contains(port));
        // what is remembered stands first, and wins where queues are equal
        let samples = (config.samples as usize).min(hops.len());
        let mut drawn = 0;
        while drawn < samples {
            let hop = hops[random.below(hops.len() as u64) as usize];
            drawn += 1;
            if !best.contains(&hop) {
                best.push(hop);
            }
        }
        best.sort_by_key(|hop| queued(*hop));
        let port = best[0];
        best.truncate(config.memory as usize);
        port
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, stream};
    use super::*;

    #[test]
    fn the_memory_finds_the_shortest_queue_among_many() {
        let hops: Vec<u16> = (0..32).collect();
        let mut drill = Drill::new(DrillConfig::default(), stream());
        // queue n holds 1000 n bytes: what is remembered only becomes shorter
        let taken: Vec<u16> = (0..100)
            .map(|n| drill.choose(&asked(n, 1, &hops), |hop| u64::from(hop) * 1000))
            .collect();
        assert!(taken.windows(2).all(|pair| pair[1] <= pair[0]) && taken[99] == 0, "{taken:?}");
        // without memory two of 32 are looked at: the shortest is one of them in 6 % of all cases
        let config = DrillConfig { memory: 0, ..DrillConfig::default() };
        let mut drill = Drill::new(config, stream());
        let mut queue = |n| drill.choose(&asked(n, 1, &hops), |hop| u64::from(hop) * 1000);
        let shortest = (0..1000).filter(|n| queue(*n) == 0).count();
        assert!((30..100).contains(&shortest), "{shortest}");
    }
}
