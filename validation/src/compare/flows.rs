//! Flow completion times.

use std::collections::{BTreeMap, VecDeque};

use models::report::Report;
use serde::Serialize;

use super::Pair;
use super::rename::rename;
use crate::read::Ns3Flow;
use crate::read::ns3;
use crate::read::report::of_report;
use crate::run::{Flow, Run, Writer};

/// How far rocesim is from a reference in its flows. Errors are relative to the reference: 0.01 is
/// 1 %.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the reference is called: `ns-3`, or `reference`.
    pub reference: &'static str,
    /// Flows that finished in both.
    pub matched: usize,
    /// Flows that finished in the reference, and are not in the report or did not finish there.
    pub missing_here: usize,
    /// Flows that finished in the report, and are not in the reference or did not finish there.
    pub missing_there: usize,
    /// Matched flows whose sizes differ: if there are any, the inputs were not the same.
    pub different_size: usize,
    /// Over the matched flows; absent if there are none.
    pub summary: Option<Summary>,
    /// Slowdowns by size, without empty bins.
    pub bins: Vec<SizeBin>,
}

/// Figures over all matched flows. FCT is from start to the last ACK at the sender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Mean FCT in seconds.
    pub mean_fct_s: Pair,
    /// Greatest FCT in seconds.
    pub max_fct_s: Pair,
    /// Mean of FCT over the reference's standalone FCT, of flows that have one; 0 if none has.
    pub mean_slowdown: Pair,
    /// Error of the mean FCT, with sign.
    pub mean_fct_error: f64,
    /// Error of the greatest FCT, with sign.
    pub max_fct_error: f64,
    /// Mean over the flows of the error's absolute value.
    pub mean_abs_error: f64,
    /// The flow with the greatest error.
    pub worst: FlowError,
}

/// The error of one flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowError {
    /// Sending node.
    pub source: String,
    /// Receiving node.
    pub target: String,
    /// UDP source port.
    pub source_port: u16,
    /// FCT in seconds.
    pub fct_s: Pair,
    /// Relative error, with sign.
    pub error: f64,
}

/// Slowdowns of flows of similar size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeBin {
    /// `1-10 KB`: more than 1000 bytes, up to 10000.
    pub label: &'static str,
    /// Flows in it.
    pub flows: usize,
    /// rocesim.
    pub here: SlowdownPercentiles,
    /// The reference.
    pub there: SlowdownPercentiles,
}

/// The least slowdown that at least this share of the flows does not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SlowdownPercentiles {
    /// 50 %
    pub p50: f64,
    /// 95 %
    pub p95: f64,
    /// 99 %
    pub p99: f64,
}

/// Labels of the bins and the greatest size in each.
const BINS: [(&str, u64); 5] = [
    ("0-1 KB", 1_000),
    ("1-10 KB", 10_000),
    ("10-100 KB", 100_000),
    ("100 KB-1 MB", 1_000_000),
    ("> 1 MB", u64::MAX),
];

/// Matches flows by sending node, receiving node and source port, and compares their FCTs. A
/// node's number is the digits at the end of its name: `n7`, `host7`. Where several flows have
/// the same key, they are matched in the order of their start.
pub fn compare_flows(report: &Report, reference: &[Ns3Flow]) -> Comparison {
    let here = of_report(report);
    let mut there = Run { flows: Some(ns3::flows(reference)), ..Run::empty(Writer::Ns3) };
    rename(&mut there, &here);
    let flows = |run: &Run| run.flows.clone().unwrap_or_default();
    compare("ns-3", &flows(&here), &flows(&there)).0
}

/// Compares flows under the same names. Also the time from here to there: what the reference's
/// start times are ahead.
pub(super) fn compare(
    reference: &'static str,
    here: &[Flow],
    there: &[Flow],
) -> (Comparison, Option<f64>) {
    let finished = |flows: &[Flow]| flows.iter().filter(|flow| flow.fct_s.is_some()).count();
    let (finished_here, finished_there) = (finished(here), finished(there));
    let mut here = by_key(here);
    let mut matched = Vec::new();
    for (key, there) in by_key(there) {
        for there in there {
            let next = here.get_mut(&key).and_then(VecDeque::pop_front);
            matched.extend(next.map(|(here, fct)| Match {
                here,
                there: there.0,
                fct_s: Pair { here: fct, there: there.1 },
            }));
        }
    }
    let mut ahead: Vec<f64> =
        matched.iter().map(|pair| pair.there.start_s - pair.here.start_s).collect();
    ahead.sort_by(f64::total_cmp);
    let comparison = Comparison {
        reference,
        matched: matched.len(),
        missing_here: finished_there - matched.len(),
        missing_there: finished_here - matched.len(),
        different_size: matched.iter().filter(|pair| pair.here.bytes != pair.there.bytes).count(),
        summary: summary(&matched),
        bins: bins(&matched),
    };
    (comparison, ahead.get(ahead.len() / 2).copied())
}

/// A flow on both sides, with its FCTs.
struct Match<'a> {
    here: &'a Flow,
    there: &'a Flow,
    fct_s: Pair,
}

impl Match<'_> {
    fn slowdown(&self) -> Option<Pair> {
        let standalone_s = self.there.standalone_s?;
        Some(Pair { here: self.fct_s.here / standalone_s, there: self.fct_s.there / standalone_s })
    }
}

type Key<'a> = (&'a str, &'a str, u16);

/// Flows that finished, with their FCT, in the order of their start.
fn by_key(flows: &[Flow]) -> BTreeMap<Key<'_>, VecDeque<(&Flow, f64)>> {
    let mut flows: Vec<&Flow> = flows.iter().collect();
    flows.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    let mut by_key = BTreeMap::<Key<'_>, VecDeque<_>>::new();
    for flow in flows {
        let key = (flow.source.as_str(), flow.target.as_str(), flow.source_port);
        if let Some(fct_s) = flow.fct_s {
            by_key.entry(key).or_default().push_back((flow, fct_s));
        }
    }
    by_key
}

fn summary(matched: &[Match<'_>]) -> Option<Summary> {
    let error = |flow: &&Match<'_>| flow.fct_s.error().abs();
    let worst = matched.iter().max_by(|a, b| error(a).total_cmp(&error(b)))?;
    let slowdowns: Vec<Pair> = matched.iter().filter_map(Match::slowdown).collect();
    let mean_fct_s = mean(matched.iter().map(|flow| flow.fct_s));
    let max_fct_s =
        matched.iter().map(|flow| flow.fct_s).fold(Pair { here: 0.0, there: 0.0 }, |max, fct| {
            Pair { here: max.here.max(fct.here), there: max.there.max(fct.there) }
        });
    Some(Summary {
        mean_fct_s,
        max_fct_s,
        mean_slowdown: match slowdowns.is_empty() {
            true => Pair::default(),
            false => mean(slowdowns.into_iter()),
        },
        mean_fct_error: mean_fct_s.error(),
        max_fct_error: max_fct_s.error(),
        mean_abs_error: matched.iter().map(|flow| error(&flow)).sum::<f64>() / matched.len() as f64,
        worst: FlowError {
            source: worst.here.source.clone(),
            target: worst.here.target.clone(),
            source_port: worst.here.source_port,
            fct_s: worst.fct_s,
            error: worst.fct_s.error(),
        },
    })
}

/// Mean of pairs, of which there is at least one.
fn mean(pairs: impl ExactSizeIterator<Item = Pair>) -> Pair {
    let count = pairs.len() as f64;
    let sum = pairs.fold(Pair { here: 0.0, there: 0.0 }, |sum, pair| Pair {
        here: sum.here + pair.here,
        there: sum.there + pair.there,
    });
    Pair { here: sum.here / count, there: sum.there / count }
}

fn bins(matched: &[Match<'_>]) -> Vec<SizeBin> {
    let mut slowdowns: [Vec<Pair>; BINS.len()] = Default::default();
    for flow in matched {
        let bytes = flow.there.bytes.unwrap_or(u64::MAX);
        let bin = BINS.iter().position(|(_, greatest)| bytes <= *greatest);
        slowdowns[bin.unwrap_or(BINS.len() - 1)].extend(flow.slowdown());
    }
    let named = BINS.iter().zip(&slowdowns).filter(|(_, pairs)| !pairs.is_empty());
    named
        .map(|((label, _), pairs)| SizeBin {
            label,
            flows: pairs.len(),
            here: percentiles(pairs.iter().map(|pair| pair.here).collect()),
            there: percentiles(pairs.iter().map(|pair| pair.there).collect()),
        })
        .collect()
}

/// Nearest rank, of at least one value.
fn percentiles(mut values: Vec<f64>) -> SlowdownPercentiles {
    values.sort_by(f64::total_cmp);
    let rank = |percent: usize| values[(values.len() * percent).div_ceil(100) - 1];
    SlowdownPercentiles { p50: rank(50), p95: rank(95), p99: rank(99) }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A flow of a report.
    pub(crate) fn flow(
        source: &str,
        target: &str,
        source_port: u16,
        bytes: u64,
        acked_s: Option<f64>,
    ) -> Value {
        json!({
            "id": 0, "source": source, "target": target, "source_port": source_port,
            "priority": 3, "bytes": bytes, "start_s": 2.0, "fct_s": null, "acked_s": acked_s,
            "ideal_fct_s": null, "slowdown": null, "delivered_bytes": bytes, "measured_bytes": 0,
            "goodput_bps": 0.0, "status": "completed", "retransmitted_bytes": 0
        })
    }

    /// A report with nothing but flows.
    pub(crate) fn report(flows: Vec<Value>) -> Report {
        let totals = json!({
            "data_packets": 0, "ecn_marked_packets": 0, "pfc_xoff_frames": 0,
            "pfc_xon_frames": 0, "pause_episodes": 0, "paused_s": 0.0, "cnp_sent": 0,
            "cnp_handled": 0, "nak_sent": 0, "retransmitted_packets": 0, "timeouts": 0,
            "drops": {}, "lossless_drops": 0
        });
        let report = json!({
            "schema": 1, "rocesim": "", "scenario": "", "seed": 1, "outcome": "completed",
            "simulated_time_s": 0.0, "fingerprint": "",
            "performance": {
                "wall_time_s": 0.0, "cpu_time_s": 0.0, "events": 0, "packet_hops": 0,
                "packet_hops_per_cpu_s": 0.0, "peak_rss_bytes": 0, "threads": 1
            },
            "packet_hops": 0, "flows": flows, "ports": [], "nics": [], "totals": totals,
            "open_pauses": [], "deadlocks": [], "findings": []
        });
        serde_json::from_value(report).expect("a report")
    }

    /// A flow of the reference.
    pub(crate) fn ns3(
        [source, target]: [u32; 2],
        source_port: u16,
        bytes: u64,
        fct_ns: u64,
        standalone_ns: u64,
    ) -> Ns3Flow {
        let start_ns = 2_000_000_000;
        let target_port = 100;
        Ns3Flow { source, target, source_port, target_port, bytes, start_ns, fct_ns, standalone_ns }
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    /// Three flows in both, one only here, one only there, one that did not finish here.
    pub(crate) fn example() -> Comparison {
        let flows = vec![
            flow("n0", "n8", 10000, 1000, Some(2.2e-6)),
            flow("n1", "n8", 10000, 10_000, Some(3.8e-6)),
            flow("n1", "n8", 10001, 10_000, Some(6e-6)),
            flow("n2", "n8", 10000, 10_000, Some(1e-6)),
            flow("n3", "n8", 10000, 10_000, None),
        ];
        let reference = [
            ns3([1, 8], 10001, 10_000, 6000, 2000),
            ns3([1, 8], 10000, 10_000, 4000, 2000),
            ns3([0, 8], 10000, 1000, 2000, 1000),
            ns3([3, 8], 10000, 10_000, 4000, 2000),
            ns3([4, 8], 10000, 10_000, 4000, 2000),
        ];
        compare_flows(&report(flows), &reference)
    }

    #[test]
    fn counts() {
        let found = example();
        assert_eq!(found.matched, 3);
        assert_eq!(found.missing_here, 2); // n3 (unfinished) and n4
        assert_eq!(found.missing_there, 1); // n2
        assert_eq!(found.different_size, 0);
    }

    #[test]
    fn summary_of_three_flows() {
        let summary = example().summary.unwrap();
        // here 2.2, 3.8, 6.0 us: mean 4.0; there 2, 4, 6 us: mean 4.0
        near(summary.mean_fct_s.here * 1e6, 4.0);
        near(summary.mean_fct_s.there * 1e6, 4.0);
        near(summary.mean_fct_error, 0.0);
        near(summary.max_fct_s.here * 1e6, 6.0);
        near(summary.max_fct_error, 0.0);
        // errors +10 %, -5 %, 0: mean of absolute values 5 %
        near(summary.mean_abs_error, 0.05);
        near(summary.worst.error, 0.1);
        assert_eq!((&*summary.worst.source, &*summary.worst.target), ("n0", "n8"));
        near(summary.worst.fct_s.here * 1e6, 2.2);
        // here 2.2, 1.9, 3.0: mean 7.1 / 3; there 2, 2, 3: mean 7 / 3
        near(summary.mean_slowdown.here, 7.1 / 3.0);
        near(summary.mean_slowdown.there, 7.0 / 3.0);
    }

    #[test]
    fn bins_by_size() {
        let found = example().bins;
        let labels: Vec<_> = found.iter().map(|bin| (bin.label, bin.flows)).collect();
        assert_eq!(labels, [("0-1 KB", 1), ("1-10 KB", 2)]);
        near(found[0].here.p50, 2.2);
        near(found[0].there.p99, 2.0);
        // two values: p50 is the lesser, p95 and p99 the greater
        near(found[1].here.p50, 1.9);
        near(found[1].here.p95, 3.0);
        near(found[1].there.p50, 2.0);
        near(found[1].there.p99, 3.0);
    }

    #[test]
    fn edges_of_bins() {
        let sizes = [0, 1000, 1001, 10_001, 100_000, 100_001, 1_000_000, 1_000_001];
        let reference: Vec<Ns3Flow> =
            (0..).zip(sizes).map(|(i, bytes)| ns3([i, 9], 1, bytes, 1000, 1000)).collect();
        let flows =
            reference.iter().map(|f| flow(&format!("n{}", f.source), "n9", 1, f.bytes, Some(1e-6)));
        let found = compare_flows(&report(flows.collect()), &reference);
        let counts: Vec<_> = found.bins.iter().map(|bin| bin.flows).collect();
        assert_eq!(counts, [2, 1, 2, 2, 1]);
    }

    #[test]
    fn nearest_rank() {
        // of 1..=200: ranks 100, 190, 198
        let found = percentiles((1..=200).rev().map(f64::from).collect());
        assert_eq!(found, SlowdownPercentiles { p50: 100.0, p95: 190.0, p99: 198.0 });
        let found = percentiles(vec![7.0]);
        assert_eq!(found, SlowdownPercentiles { p50: 7.0, p95: 7.0, p99: 7.0 });
    }

    #[test]
    fn nothing_in_common() {
        let found = compare_flows(&report(vec![]), &[]);
        assert_eq!((found.matched, found.missing_here, found.missing_there), (0, 0, 0));
        assert_eq!(found.summary, None);
        let flows = vec![flow("storage", "n1", 1, 10, Some(1e-6)), flow("a", "b", 1, 10, None)];
        let found = compare_flows(&report(flows), &[ns3([0, 1], 1, 10, 1, 1)]);
        assert_eq!((found.matched, found.missing_here, found.missing_there), (0, 1, 1));
    }

    #[test]
    fn same_key_twice_and_other_sizes() {
        let mut flows =
            vec![flow("n0", "n1", 5, 100, Some(3e-6)), flow("n0", "n1", 5, 200, Some(1e-6))];
        flows[0]["start_s"] = json!(2.5);
        let mut late = ns3([0, 1], 5, 100, 3000, 1000);
        late.start_ns += 500_000_000;
        let early = ns3([0, 1], 5, 201, 1000, 1000);
        let found = compare_flows(&report(flows), &[late, early]);
        // each with its own: no error, but 200 is not 201
        assert_eq!((found.matched, found.different_size), (2, 1));
        near(found.summary.unwrap().mean_abs_error, 0.0);
    }
}
