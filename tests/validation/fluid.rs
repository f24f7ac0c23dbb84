//! DCQCN against its fluid model.

use serde_json::Value;

use crate::runs::{deviation, mean, port, queue, seeds, xoff_frames};
use crate::table::{Row, section};

#[test]
fn fluid() {
    let mut rows = fixed_points();
    rows.extend(delay());
    section("fluid", &rows);
}

fn kb(value: f64) -> String {
    format!("{value:.1} KB")
}

/// A case of `dcqcn-fixed-point`, and the fixed point of the fluid model for it.
struct Case {
    name: &'static str,
    senders: u32,
    keys: &'static [&'static str],
    kmin_kb: f64,
    queue_kb: f64,
    /// Share of the frames that are marked.
    marked: f64,
    /// Of `queue_kb`, and of `marked`.
    tolerance: [f64; 2],
}

const PAPER: Case = Case {
    name: "40G, paper",
    senders: 10,
    keys: &[],
    kmin_kb: 5.0,
    queue_kb: 122.6,
    marked: 0.006032,
    tolerance: [0.35, 1.0],
};
const HPCC: Case = Case {
    name: "100G, HPCC's thresholds",
    keys: &[
        "topology.link.rate=100Gbps",
        "nic.congestion.rpg_ai_rate=20Mbps",
        "switch.ecn.3={ kmin = \"400KB\", kmax = \"1600KB\", pmax = 0.2 }",
    ],
    kmin_kb: 400.0,
    ..PAPER
};
const SONIC: Case = Case {
    name: "400G, SONiC's thresholds",
    keys: &[
        "topology.link.rate=400Gbps",
        "nic.mtu=4096",
        "switch.ecn.3={ kmin = \"1MiB\", kmax = \"2MiB\", pmax = 0.05 }",
    ],
    kmin_kb: 1048.6,
    ..PAPER
};
const PAPER_100G: Case =
    Case { name: "100G, paper", keys: &["topology.link.rate=100Gbps"], ..PAPER };

const CASES: [Case; 9] = [
    Case { senders: 2, queue_kb: 20.2, marked: 0.000777, tolerance: [0.35, 0.5], ..PAPER },
    Case { senders: 8, queue_kb: 93.8, marked: 0.004552, ..PAPER },
    PAPER,
    Case { senders: 8, queue_kb: 32.7, marked: 0.001420, tolerance: [0.5; 2], ..PAPER_100G },
    Case { senders: 16, queue_kb: 71.9, marked: 0.003432, tolerance: [0.5; 2], ..PAPER_100G },
    Case { senders: 8, queue_kb: 407.0, marked: 0.001166, tolerance: [0.05, 0.5], ..HPCC },
    Case { senders: 32, queue_kb: 441.1, marked: 0.006846, tolerance: [0.05, 0.5], ..HPCC },
    Case { senders: 8, queue_kb: 1069.1, marked: 0.000977, tolerance: [0.05, 0.5], ..SONIC },
    Case { senders: 32, queue_kb: 1170.1, marked: 0.005794, tolerance: [0.05, 0.5], ..SONIC },
];

const RECEIVER: &str = "sw0:64";

/// Frames that the receiver's port sent, and those of them that were marked.
fn frames(reports: &[Value]) -> [f64; 2] {
    ["tx_packets", "ecn_marked_packets"]
        .map(|field| reports.iter().map(|report| port(report, RECEIVER, field)).sum())
}

fn fixed_points() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut over_kmin = Vec::new();
    for case in &CASES {
        let Case { queue_kb, kmin_kb, tolerance, .. } = *case;
        let senders = format!("traffic.all.senders=\"0..{}\"", case.senders);
        let keys = [&[senders.as_str()], case.keys].concat();
        // the paper's own case by five seeds
        let count = if case.keys.is_empty() { 5 } else { 1 };
        let reports = seeds("dcqcn-fixed-point", &keys, count);
        let queues = reports.iter().map(|report| port(report, RECEIVER, "mean_queue_bytes") / 1e3);
        let found = mean(&queues.collect::<Vec<f64>>());
        let warm_up = [&keys[..], &["stop.after=100ms", "measure={}"]].concat();
        let before = frames(&seeds("dcqcn-fixed-point", &warm_up, count));
        let after = frames(&reports);
        let marked = (after[1] - before[1]) / (after[0] - before[0]);
        let name = format!("{}, N = {}", case.name, case.senders);
        rows.push(Row::relative([&name, "mean queue"], queue_kb, found, kb, tolerance[0]));
        let percent = |value| format!("{:.3} %", value * 100.0);
        let ends = [name.as_str(), "marked"];
        rows.push(Row::relative(ends, case.marked, marked, percent, tolerance[1]));
        over_kmin.push((found - kmin_kb) / (queue_kb - kmin_kb));
        if case.keys.is_empty() {
            let silent = reports.iter().all(|report| xoff_frames(report) == 0);
            assert!(silent, "{name}: PFC");
        }
    }
    let least = over_kmin.iter().copied().fold(f64::INFINITY, f64::min);
    let most = over_kmin.iter().copied().fold(0.0, f64::max);
    let found = format!("{least:.2} to {most:.2}");
    let holds = least > 1.0 && most < 1.5;
    rows.push(Row::statement(
        ["all of these", "queue above kmin, rocesim / fluid"],
        "1",
        &found,
        holds,
    ));
    rows
}

/// The fluid model, integrated: constant at 4 us, and 0 to 234 KB with a mean of 55.2 at 85 us.
fn delay() -> Vec<Row> {
    let far = queue("dcqcn-delay", &[], 0.1);
    let near = queue("dcqcn-delay", &["topology.link.delay=1us"], 0.1);
    let empty = |depths: &[f64]| {
        100.0 * depths.iter().filter(|depth| **depth == 0.0).count() as f64 / depths.len() as f64
    };
    let (far_std, near_std) = (deviation(&far) / 1e3, deviation(&near) / 1e3);
    let most = far.iter().copied().fold(0.0, f64::max) / 1e3;
    let [at_85, at_4] = ["40G, N = 10, 85 us", "40G, N = 10, 4 us"];
    let share = |depths: &[f64]| format!("{:.1} % of the time", empty(depths));
    vec![
        Row::relative([at_85, "mean queue"], 55.2, mean(&far) / 1e3, kb, 0.15),
        Row::relative([at_85, "longest queue"], 234.3, most, kb, 0.2),
        Row::statement([at_85, "queue empty"], "in each cycle", &share(&far), empty(&far) > 5.0),
        Row::statement([at_85, "standard deviation"], "> 30 KB", &kb(far_std), far_std > 30.0),
        Row::statement([at_4, "queue empty"], "never", &share(&near), empty(&near) == 0.0),
        Row::statement(
            [at_4, "standard deviation"],
            "0; see text",
            &kb(near_std),
            near_std < far_std / 2.0,
        ),
    ]
}
