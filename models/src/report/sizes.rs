//! Slowdown of point traffic by the size of its flows.
//!
//! The edges of bins are fixed: 1, 2 and 5 times each power of ten from 1 KB on. So a bin is the
//! same in all runs of a study, whatever flows chance has made, and keys can name it. Bins of
//! equally many flows, as the percentiles of the HPCC paper's plots, would differ from run to run.

use serde::{Deserialize, Serialize};

use super::stats::{mean, quantile, sorted};
use super::{FlowReport, Name};

/// Flows up to this are not told apart: one frame, or about as much.
const SMALLEST_BYTES: u64 = 1000;

/// Slowdown of the flows of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowdownReport {
    /// The traffic section that they belong to; absent where all sections count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Name>,
    /// They are larger than this,
    pub from_bytes: u64,
    /// and at most this large.
    pub to_bytes: u64,
    /// How many there are. Only those that all data of has arrived count, and none of TCP, whose
    /// slow start has no ideal to compare with.
    pub flows: u64,
    /// Mean of `slowdown`.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile,
    pub p95: f64,
    /// and 99th, between neighbours by straight lines: of fewer than 100 flows, about the greatest.
    pub p99: f64,
}

/// The bin of flows of this size: they are larger than the first, and at most as large as the
/// second, in bytes.
pub fn size_bin(bytes: u64) -> (u64, u64) {
    let (mut from, mut to) = (0, SMALLEST_BYTES);
    let mut factors = [(2, 1), (5, 2), (2, 1)].into_iter().cycle();
    while bytes > to {
        from = to;
        let next = factors.next().and_then(|(by, over)| (to / over).checked_mul(by));
        to = next.unwrap_or(u64::MAX);
    }
    (from, to)
}

/// All bins that have flows, in the order of sizes: of all sections together, then of each section
/// that has a name.
pub(super) fn by_size(flows: &[FlowReport], sections: &[Option<Name>]) -> Vec<SlowdownReport> {
    let mut points: Vec<(u64, f64, Option<&Name>)> = flows
        .iter()
        .filter(|flow| flow.is_point())
        .filter_map(|flow| Some((flow.bytes?, flow.slowdown?, flow.traffic.as_ref())))
        .collect();
    points.sort_by_key(|(bytes, ..)| *bytes);
    let mut reports = bins(&points, None);
    for section in sections.iter().flatten() {
        let is_own = |point: &&(u64, f64, Option<&Name>)| point.2 == Some(section);
        let own: Vec<_> = points.iter().filter(is_own).copied().collect();
        reports.extend(bins(&own, Some(section)));
    }
    reports
}

/// The bins of flows in the order of sizes.
fn bins(points: &[(u64, f64, Option<&Name>)], section: Option<&Name>) -> Vec<SlowdownReport> {
    let same = |a: &(u64, f64, Option<&Name>), b: &(u64, f64, Option<&Name>)| {
        size_bin(a.0) == size_bin(b.0)
    };
    let bin = |points: &[(u64, f64, Option<&Name>)]| {
        let (from_bytes, to_bytes) = size_bin(points[0].0);
        let values = sorted(points.iter().map(|point| point.1));
        SlowdownReport {
            traffic: section.cloned(),
            from_bytes,
            to_bytes,
            flows: values.len() as u64,
            mean: mean(&values),
            p50: quantile(&values, 0.5),
            p95: quantile(&values, 0.95),
            p99: quantile(&values, 0.99),
        }
    };
    points.chunk_by(same).map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_1_2_and_5_times_powers_of_ten() {
        for (bytes, bin) in [
            (0, (0, 1000)),
            (1000, (0, 1000)),
            (1001, (1000, 2000)),
            (5000, (2000, 5000)),
            (5001, (5000, 10_000)),
            (10_000, (5000, 10_000)),
            (15_000, (10_000, 20_000)),
            (500_000, (200_000, 500_000)),
            (30_000_000, (20_000_000, 50_000_000)),
            // 1, 2, 5 x 10^18 and 10^19 fit into 64 bits, 2 x 10^19 does not
            (u64::MAX, (10_000_000_000_000_000_000, u64::MAX)),
        ] {
            assert_eq!(size_bin(bytes), bin, "{bytes}");
        }
    }

    #[test]
    fn percentiles_of_bins_by_hand() {
        let incast = Name::from("incast");
        // two flows up to 1 KB; five of 8 KB, of which one is another section's
        let points = [
            (200, 1.0, None),
            (1000, 3.0, None),
            (8000, 5.0, None),
            (8000, 1.0, None),
            (8000, 2.0, Some(&incast)),
            (8000, 3.0, None),
            (8000, 4.0, None),
        ];
        let found = bins(&points, None);
        let edges: Vec<(u64, u64, u64)> =
            found.iter().map(|bin| (bin.from_bytes, bin.to_bytes, bin.flows)).collect();
        // nothing between 1 and 5 KB: no bin
        assert_eq!(edges, [(0, 1000, 2), (5000, 10_000, 5)]);
        // 1 and 3: places 0 and 1, so p95 is at 0.95 and p99 at 0.99 of the way
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
        near(found[0].mean, 2.0);
        near(found[0].p50, 2.0);
        near(found[0].p95, 2.9);
        near(found[0].p99, 2.98);
        // 1 to 5: places 0 to 4; p95 is at place 3.8, p99 at 3.96
        near(found[1].mean, 3.0);
        near(found[1].p50, 3.0);
        near(found[1].p95, 4.8);
        near(found[1].p99, 4.96);
        let own = bins(&points[4..5], Some(&incast));
        assert_eq!((own[0].flows, own[0].p99, own[0].traffic.as_ref()), (1, 2.0, Some(&incast)));
    }
}
