//! How long the queues of switch ports were, from the samples of a run.

use serde::{Deserialize, Serialize};

use super::stats;
use crate::fabric::{Outcome, Plan};
use crate::probe::Probe;

/// Lengths of the queues of the sampled switch ports, over time and ports alike: each sample of
/// each port in the measured window counts once, those of idle ports too. A percentile is the
/// smallest length that so large a share of samples does not exceed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Samples, of all ports together.
    pub samples: u64,
    /// Mean, in bytes.
    pub mean: f64,
    /// Median, in bytes.
    pub p50: u64,
    /// 95th percentile, in bytes.
    pub p95: u64,
    /// 99th percentile, in bytes.
    pub p99: u64,
    /// The longest that was sampled, in bytes; between samples there may have been longer ones
    /// (`max_queue_bytes` of ports).
    pub max: u64,
    /// The distribution: shares of samples, and the bytes that they do not exceed.
    pub cdf: Vec<(f64, u64)>,
}

/// The shares of the distribution: each 2 %, and closer where queues are long.
const TAIL: [f64; 7] = [0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 1.0];

/// The report; none if no switch port was sampled.
pub(super) fn queues<P: Probe>(outcome: &Outcome<P>, plan: &Plan) -> Option<QueueReport> {
    let wiring = &plan.wiring;
    let of_switch = |port: u32| wiring.wires[port as usize].is_switch;
    let [from, to] = wiring.measure;
    let measured =
        outcome.fabric.samples.iter().filter(|sample| (from..=to).contains(&sample.time));
    let lengths = measured.flat_map(|sample| {
        let ports = wiring.sampled_ports.iter().zip(&sample.ports);
        ports.filter(|(port, _)| of_switch(**port)).map(|(_, sample)| sample.queue_bytes)
    });
    let mut lengths: Vec<u64> = lengths.collect();
    lengths.sort_unstable();
    of_sorted(&lengths)
}

fn of_sorted(lengths: &[u64]) -> Option<QueueReport> {
    let max = *lengths.last()?;
    let at = |share: f64| rank(lengths, share);
    let steps = (0..50).map(|step| f64::from(step) / 50.0);
    Some(QueueReport {
        samples: lengths.len() as u64,
        mean: stats::mean(&lengths.iter().map(|bytes| *bytes as f64).collect::<Vec<f64>>()),
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        max,
        cdf: steps.chain(TAIL).map(|share| (share, at(share))).collect(),
    })
}

/// The smallest of sorted lengths that so large a share of them does not exceed.
fn rank(lengths: &[u64], share: f64) -> u64 {
    // what rounding adds to a product is no further length
    let place = (share * lengths.len() as f64 - 1e-6).ceil().max(1.0) as usize;
    lengths.get(place - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_queues_by_hand() {
        // 90 idle samples, then 1 to 10 KB
        let lengths: Vec<u64> =
            std::iter::repeat_n(0, 90).chain((1..=10).map(|kb| kb * 1000)).collect();
        let report = of_sorted(&lengths).unwrap();
        // (1 + ... + 10) KB / 100
        assert_eq!((report.samples, report.mean), (100, 550.0));
        // the 50th, 95th, 99th and 100th of 100
        assert_eq!([report.p50, report.p95, report.p99, report.max], [0, 5000, 9000, 10_000]);
        let share = |share: f64| report.cdf.iter().find(|point| point.0 == share).unwrap().1;
        assert_eq!(
            [0.0, 0.9, 0.92, 0.98, 0.995, 1.0].map(share),
            [0, 0, 2000, 8000, 10_000, 10_000]
        );
        assert!(report.cdf.is_sorted() && report.cdf.len() == 57);
        assert_eq!(of_sorted(&[]), None);
        assert_eq!(of_sorted(&[7]).unwrap().p50, 7);
    }
}
