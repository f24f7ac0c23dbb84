//! ECN marking by queue depth (WRED): nothing up to `kmin`, a probability that rises to `pmax` at
//! `kmax`, everything above.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::Bytes;
use sim_core::rng::Stream;

use crate::error::BuildError;
use crate::ids::PRIORITIES;
use crate::size::Size;

/// Marking of one queue: `[switch.ecn.3]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WredConfig {
    /// Up to this depth nothing is marked.
    pub kmin: Size,
    /// Above this depth everything is marked.
    pub kmax: Size,
    /// Probability at `kmax`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub pmax: f64,
    /// When the depth is looked at.
    #[serde(default)]
    pub mark_at: MarkAt,
}

/// When the queue's depth is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkAt {
    /// When the frame leaves; it counts no more. What switch ASICs do.
    #[default]
    Dequeue,
    /// When the frame arrives; it counts.
    Enqueue,
}

/// Marking of one queue, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wred {
    kmin: u64,
    kmax: u64,
    slope: f64,
    /// When the depth is looked at.
    pub mark_at: MarkAt,
}

/// Marking of the eight queues of a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortWred {
    /// By queue.
    pub queues: [Option<Wred>; PRIORITIES],
    /// Some of them look at frames that arrive.
    pub at_enqueue: bool,
}

impl Wred {
    /// Marking as `config` says, on a switch with cells of `cell` bytes.
    pub fn new(config: &WredConfig, cell: Bytes, key: &str) -> Result<Self, BuildError> {
        let WredConfig { kmin, kmax, pmax, mark_at } = *config;
        let (kmin, kmax) = (kmin.to_bytes(cell), kmax.to_bytes(cell));
        if !(0.0..=1.0).contains(&pmax) {
            let message = format!("{pmax} is no probability: 0 to 1 is expected");
            return Err(BuildError::new(format!("{key}.pmax"), message));
        }
        if kmin > kmax {
            let message = format!("kmax is below kmin ({})", Bytes::new(kmin));
            return Err(BuildError::new(format!("{key}.kmax"), message));
        }
        let slope = if kmax > kmin { pmax / (kmax - kmin) as f64 } else { 0.0 };
        Ok(Wred { kmin, kmax, slope, mark_at })
    }

    /// True if a frame that meets `depth` bytes in the queue is marked.
    #[inline]
    pub fn marks(&self, depth: u64, random: &mut Stream) -> bool {
        if depth <= self.kmin {
            return false;
        }
        depth > self.kmax || random.chance((depth - self.kmin) as f64 * self.slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_core::rng::Domain;

    fn rate(depth: u64) -> f64 {
        let config = WredConfig {
            kmin: Size::bytes(100_000),
            kmax: Size::Cells(400),
            pmax: 0.2,
            mark_at: MarkAt::Dequeue,
        };
        let wred = Wred::new(&config, Bytes::new(1000), "ecn").unwrap();
        let mut random = Stream::new(1, Domain::Marking, 0);
        (0..20_000).filter(|_| wred.marks(depth, &mut random)).count() as f64 / 20_000.0
    }

    #[test]
    fn probability_rises_from_kmin_to_kmax_and_jumps_to_one() {
        assert_eq!(rate(100_000), 0.0);
        // half way between 100 KB and 400 KB: 0.2 x 150/300 = 0.1; sigma 0.0021
        assert!((rate(250_000) - 0.1).abs() < 0.01);
        assert!((rate(400_000) - 0.2).abs() < 0.012);
        assert_eq!(rate(400_001), 1.0);
    }

    #[test]
    fn kmin_above_kmax_is_refused() {
        let (kmin, kmax) = (Size::bytes(2), Size::bytes(1));
        let config = WredConfig { kmin, kmax, pmax: 1.0, mark_at: MarkAt::Enqueue };
        assert_eq!(
            Wred::new(&config, Bytes::new(1), "switch.ecn.3").unwrap_err().key,
            "switch.ecn.3.kmax"
        );
    }
}
