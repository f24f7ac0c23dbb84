//! Runs without randomness, one by one.

use std::path::Path;

use models::report::Report;

use super::{completion, count, mean, report, runs, us};
use crate::common::say;
use crate::table::{Row, section};

/// Those of the table.
const RUNS: [&str; 18] = [
    "a_single_1MB",
    "a_single_10MB",
    "b_step_incast_2",
    "b_step_incast_4",
    "b_step_incast_8",
    "b_step_incast_16",
    "c_pfc_incast_2",
    "c_pfc_incast_4",
    "c_pfc_incast_8",
    "c_pfc_incast_32",
    "d_fattree_k4_perm_1MB_noECN_buf4",
    "f_step_conv_2to1",
    "f_step_conv_8to1",
    "f_step_conv_8to1_paper",
    "g_headroom_short_link_4",
    "i_vwin_step_incast_8",
    "k_bidir_incast_ackprio0_paper_step",
    "ring_allreduce_16_16MB",
];

/// Our counters under ns-3's names.
struct Counters {
    hops: f64,
    marks: f64,
    pauses: f64,
    drops: f64,
    naks: f64,
}

fn counters(report: &Report) -> Counters {
    Counters {
        hops: report.packet_hops as f64,
        marks: report.totals.ecn_marked_packets as f64,
        pauses: report.totals.pfc_xoff_frames as f64,
        drops: report.totals.drops.values().sum::<u64>() as f64,
        naks: report.nics.iter().filter_map(|nic| nic.counters.get("packet_seq_err")).sum::<u64>()
            as f64,
    }
}

/// What may differ. Lost packets are sent again with all that follow: where there are some, a
/// tie that goes the other way moves everything.
struct Bounds {
    counts: f64,
    mean_fct: f64,
    each_fct: f64,
    pauses: f64,
    losses: f64,
}

const BOUNDS: Bounds =
    Bounds { counts: 0.005, mean_fct: 0.005, each_fct: 0.015, pauses: 0.07, losses: 0.1 };
const WITH_LOSSES: Bounds = Bounds { counts: 0.05, mean_fct: 0.05, each_fct: 0.05, ..BOUNDS };

/// The rows of a run; what is 0 on both sides is left out.
fn rows(name: &str, folder: &Path) -> Vec<Row> {
    let ours = report(folder);
    let theirs = validation::read_run(folder).unwrap().totals;
    let Counters { hops, marks, pauses, drops, naks } = counters(&ours);
    let bounds = if theirs.drops > Some(0.0) { WITH_LOSSES } else { BOUNDS };
    let mut rows = Vec::new();
    // a PAUSE and its RESUME are two frames in ns-3's count; pauses that are open at the end
    // leave one more of the first
    let their_pauses = theirs.pfc_frames.map(|frames| (frames / 2.0).ceil());
    for (quantity, theirs, ours, bound) in [
        ("packet-hops", theirs.packet_hops, hops, bounds.counts),
        ("CE marks", theirs.ce_marks, marks, bounds.counts),
        ("PAUSE frames", their_pauses, pauses, bounds.pauses),
        ("drops", theirs.drops, drops, bounds.losses),
        ("NAKs", theirs.naks, naks, bounds.losses),
    ] {
        let theirs = theirs.unwrap_or_else(|| panic!("{name}: stats.txt has no {quantity}"));
        if theirs != 0.0 || ours != 0.0 {
            rows.push(Row::relative([name, quantity], theirs, ours, count, bound));
        }
    }
    rows.extend(completion_rows(name, folder, &ours, &bounds));
    rows
}

fn completion_rows(name: &str, folder: &Path, ours: &Report, bounds: &Bounds) -> Vec<Row> {
    let ours = completion(ours);
    let theirs = validation::read_fct(folder).unwrap();
    assert_eq!(ours.len(), theirs.len(), "{name}: flows that finished");
    if theirs.is_empty() {
        return Vec::new();
    }
    let pairs: Vec<(f64, f64)> = theirs
        .iter()
        .map(|flow| {
            let key = (flow.source, flow.target, flow.source_port);
            (flow.fct_ns as f64, ours[&key] as f64)
        })
        .collect();
    let means = [mean(pairs.iter().map(|pair| pair.0)), mean(pairs.iter().map(|pair| pair.1))];
    let errors = pairs.iter().map(|(theirs, ours)| (ours / theirs - 1.0).abs());
    let equal = pairs.iter().filter(|(theirs, ours)| theirs == ours).count();
    let flows = format!("{equal} of {} equal to the ns", pairs.len());
    let error = mean(errors);
    vec![
        Row::relative([name, "mean FCT"], means[0], means[1], us, bounds.mean_fct),
        Row::statement(
            [name, "FCT of each flow, mean of errors"],
            "",
            &flows,
            error <= bounds.each_fct,
        )
        .differing(&format!("{:.3} %", error * 100.0), &format!("{} %", bounds.each_fct * 100.0)),
    ]
}

#[test]
fn runs_without_randomness() {
    let Some(folder) = runs() else { return };
    let all: Vec<Row> = RUNS.iter().flat_map(|name| rows(name, &folder.join(name))).collect();
    section("ns-3, run for run", &all);
}

/// Runs that are in the folder and not in the table must hold too.
#[test]
fn further_runs_without_randomness() {
    let Some(folder) = runs() else { return };
    let mut failed = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if RUNS.contains(&&*name) || !is_free_of_randomness(&path) {
            continue;
        }
        if !path.join("stats.txt").is_file() {
            say(&format!("{name}: it imports and runs; ns-3's results are not there"));
            report(&path);
            continue;
        }
        let rows = rows(&name, &path);
        say(&format!("{name}: {} quantities beside the table", rows.len()));
        failed.extend(rows.iter().filter(|row| !row.holds()).map(Row::line));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Nothing is marked, or everything above one depth.
fn is_free_of_randomness(folder: &Path) -> bool {
    let Ok(config) = std::fs::read_to_string(folder.join("config.txt")) else { return false };
    let value = |key: &str| {
        config.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim().to_owned())
    };
    value("KMIN_MAP") == value("KMAX_MAP")
        || validation::read_run(folder).is_ok_and(|run| run.totals.ce_marks == Some(0.0))
}

/// What an independent replay of ns-3's model finds that breaks ties as rocesim does.
struct Replayed {
    name: String,
    /// Packet-hops, CE marks, PAUSE frames, drops, NAKs.
    counts: [u64; 5],
    paused_ns: u64,
    flows: usize,
    /// Sum of completion times in ns, plain and by the flow's place (from 1) in the order of
    /// sender, receiver, source port.
    sums: [u64; 2],
}

fn replayed() -> Vec<Replayed> {
    let table = include_str!("../../../validation/data/ns3_replay.csv");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let (name, numbers) = line.split_once(',').unwrap();
        let numbers: Vec<u64> = numbers.split(',').map(|cell| cell.parse().unwrap()).collect();
        let [hops, marks, pauses, paused_ns, drops, naks, flows, sum, weighted] = numbers[..]
        else {
            panic!("9 numbers are expected: {line}")
        };
        Replayed {
            name: name.to_owned(),
            counts: [hops, marks, pauses, drops, naks],
            paused_ns,
            flows: flows as usize,
            sums: [sum, weighted],
        }
    })
    .collect()
}

#[test]
fn ties_broken_alike_leave_no_difference() {
    let Some(folder) = runs() else { return };
    let mut rows = Vec::new();
    for expected in replayed() {
        let report = report(&folder.join(&expected.name));
        let Counters { hops, marks, pauses, drops, naks } = counters(&report);
        let counts = [hops, marks, pauses, drops, naks].map(|value| value as u64);
        let ours = completion(&report);
        let sum: u64 = ours.values().sum();
        let weighted: u64 = (1..).zip(ours.values()).map(|(place, fct)| place * fct).sum();
        let paused_ns = (report.totals.paused_s * 1e9).round() as u64;
        let theirs = (expected.counts, expected.paused_ns, expected.flows, expected.sums);
        let ours = (counts, paused_ns, ours.len(), [sum, weighted]);
        let show = |(counts, paused, flows, sums): ([u64; 5], u64, usize, [u64; 2])| {
            let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
            format!("{}; {paused}; {flows}: {}", counts.join(" / "), sums[0])
        };
        rows.push(
            Row::statement(
                [&expected.name, "counts; paused ns; flows: sum of FCTs in ns"],
                &show(theirs),
                &show(ours),
                ours == theirs,
            )
            .differing("", "equal"),
        );
    }
    section("ns-3's model, ties as here", &rows);
}
