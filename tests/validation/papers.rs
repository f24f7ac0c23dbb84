//! Experiments of papers: `scenarios/papers/`.

use scenarios::library::{Kind, names};
use serde_json::Value;

use crate::common::{rocesim, text};
use crate::runs::{as_it_stands, flows, queue, with, xoff_frames};
use crate::table::{Row, section};

#[test]
fn every_experiment_meets_its_expectations_and_passes_its_check() {
    for name in names(Kind::Paper) {
        let report = as_it_stands(name);
        let stops = name.starts_with("deadlock") || name == "tagger-bounce";
        let outcome = if stops { "deadlock" } else { "completed" };
        assert_eq!(report["outcome"], outcome, "{name}");
        let folder = tempfile::tempdir().unwrap();
        let check = rocesim(&["check", name], folder.path());
        // a routing loop is an error before anything runs
        let code = i32::from(name == "deadlock-loop");
        assert_eq!(check.status.code(), Some(code), "{name}:\n{}", text(&check.stdout));
    }
}

#[test]
fn papers() {
    let mut rows = unfairness();
    rows.extend(incast());
    rows.extend(ns3_rdma());
    rows.extend(hpcc());
    rows.extend(wire_overhead());
    rows.extend(livelock());
    section("papers", &rows);
}

/// MTU 1024: 1106 bytes on the wire.
const WIRE_1024: f64 = 1106.0 / 1024.0;

fn gbps(value: f64) -> String {
    format!("{value:.2} Gb/s")
}

/// Goodput of each flow in Gb/s on the wire.
fn wire_rates(report: &Value, wire: f64) -> Vec<f64> {
    flows(report, "goodput_bps").into_iter().map(|bps| bps * wire / 1e9).collect()
}

fn spread(values: &[f64]) -> (f64, f64) {
    let (least, most) = (f64::INFINITY, f64::NEG_INFINITY);
    values.iter().fold((least, most), |(least, most), value| (least.min(*value), most.max(*value)))
}

fn unfairness() -> Vec<Row> {
    let mut rows = Vec::new();
    let cases = [
        ("pfc-unfairness", [20.0 / 3.0, 20.0 / 3.0, 20.0 / 3.0, 20.0], 0.05),
        ("pfc-unfairness-ecmp", [40.0 / 3.0, 20.0 / 3.0, 20.0 / 3.0, 40.0 / 3.0], 0.05),
        ("dcqcn-fairness", [10.0; 4], 0.1),
    ];
    for (name, shares, tolerance) in cases {
        let rates = wire_rates(&with(name, &[]), WIRE_1024);
        for (flow, (share, rate)) in shares.into_iter().zip(rates).enumerate() {
            let quantity = format!("H{}", flow + 1);
            rows.push(Row::relative([name, &quantity], share, rate, gbps, tolerance));
        }
    }
    rows
}

/// Recalled: more than 39 Gb/s, no PFC at 10 senders or fewer, a 90th percentile of 76.6 KB at 20.
fn incast() -> Vec<Row> {
    let name = "dcqcn-incast";
    let mut rows = Vec::new();
    for senders in [2, 4, 8, 10, 16, 20] {
        let set = format!("traffic.all.senders=\"0..{senders}\"");
        let report = with(name, &[&set]);
        let case = format!("{name}, {senders} to 1");
        let sum: f64 = wire_rates(&report, WIRE_1024).iter().sum();
        let row = Row::statement([&case, "all flows"], "> 39 Gb/s", &gbps(sum), sum > 39.0);
        rows.push(row.recalled());
        if senders <= 10 {
            let xoff = xoff_frames(&report);
            let found = format!("{xoff} XOFF");
            rows.push(Row::statement([&case, "PFC"], "none", &found, xoff == 0).recalled());
        }
    }
    let mut depths = queue(name, &[], 0.05);
    depths.sort_by(f64::total_cmp);
    let p90 = depths[depths.len() * 9 / 10] / 1e3;
    let kb = |value| format!("{value:.1} KB");
    let case = format!("{name}, 20 to 1");
    rows.push(Row::relative([&case, "queue, p90"], 76.6, p90, kb, 0.2).recalled());
    rows
}

fn ns3_rdma() -> Vec<Row> {
    let name = "ns3-rdma-2-to-1";
    let report = with(name, &[]);
    let (least, most) = spread(&wire_rates(&report, 1082.0 / 1000.0));
    let xoff = xoff_frames(&report);
    vec![
        Row::relative([name, "slower flow"], 20.0, least, gbps, 0.05),
        Row::relative([name, "faster flow"], 20.0, most, gbps, 0.05),
        Row::statement([name, "PFC"], "none", &format!("{xoff} XOFF"), xoff == 0),
    ]
}

fn hpcc() -> Vec<Row> {
    let name = "hpcc-320";
    let window = ["nic.transport.window=153000B", "nic.transport.window_follows_rate=true"];
    let alone = xoff_frames(&with(name, &[]));
    let held = xoff_frames(&with(name, &window));
    let row = |case: &str, expected, xoff: u64, holds| {
        Row::statement([case, "PFC"], expected, &format!("{xoff} XOFF"), holds)
    };
    vec![
        row("hpcc-320, DCQCN", "some", alone, alone > 0),
        row("hpcc-320, DCQCN + window", "none", held, held == 0),
    ]
}

fn wire_overhead() -> Vec<Row> {
    let name = "wire-overhead";
    let percent = |value| format!("{value:.2} %");
    [4096u32, 1024]
        .map(|mtu| {
            let report = with(name, &[&format!("nic.mtu={mtu}")]);
            let share = flows(&report, "goodput_bps")[0] / 400e9 * 100.0;
            let expected = f64::from(mtu) / f64::from(mtu + 82) * 100.0;
            let case = format!("{name}, MTU {mtu}");
            Row::absolute([&case, "payload of the link"], expected, share, percent, 0.1)
        })
        .into()
}

/// Recalled: nothing at all, and nearly the rate of the link.
fn livelock() -> [Row; 2] {
    let goodput = |set: &[&str]| {
        let report = with("livelock", set);
        flows(&report, "measured_bytes").iter().sum::<f64>() * 8.0 / 40e6
    };
    let none = goodput(&[]);
    let anew = "nic.transport.recovery=go-back-n";
    let most = goodput(&[anew, "expect={ outcome = 'completed' }"]);
    let line = 40.0 / WIRE_1024;
    [
        Row::statement(["livelock, go-back-0", "goodput"], "none", &gbps(none), none == 0.0),
        Row::relative(["livelock, go-back-N", "goodput"], line, most, gbps, 0.1),
    ]
    .map(Row::recalled)
}
