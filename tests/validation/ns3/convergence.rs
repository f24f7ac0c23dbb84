//! Long flows that share a link: what they reach in the second half of 20 ms.

use std::path::Path;

use super::{mean, reports, runs};
use crate::table::{Row, section};

const RUNS: [&str; 7] = [
    "f_conv_2to1",
    "f_conv_2to1_paper",
    "f_conv_2to1_staggered_paper",
    "f_conv_8to1",
    "f_step_conv_2to1",
    "f_step_conv_8to1",
    "f_step_conv_8to1_paper",
];

/// The mean queue in KB of a run that ns-3's model has with 8 sequences of independent numbers.
const REPLAYED: (&str, f64) = ("f_conv_2to1", 185.7);

/// Payload in Gb/s of all flows, Jain's index, mean queue in KB.
type Shares = [f64; 3];

/// As the summary of ns-3's runs has it.
fn of_ns3(summary: &str, name: &str) -> Shares {
    let line = summary.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
    ["total ", "Jain ", "queue KB mean "].map(|label| {
        let (_, rest) = line.split_once(label).unwrap();
        rest.split([' ', ';']).next().unwrap().parse().unwrap()
    })
}

/// Ours, as means over seeds.
fn of_rocesim(folder: &Path, seeds: &str) -> Shares {
    let arguments = ["--seeds", seeds, "--set", "measure={ from = \"10ms\", to = \"20ms\" }"];
    let shares: Vec<Shares> = reports(folder, &arguments)
        .iter()
        .map(|report| {
            let rates: Vec<f64> =
                report.flows.iter().map(|flow| flow.measured_bytes as f64 * 8.0 / 10e-3).collect();
            let sum: f64 = rates.iter().sum();
            let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
            let queues = report.ports.iter().map(|port| port.mean_queue_bytes);
            let deepest = queues.fold(0.0, f64::max);
            [sum / 1e9, sum * sum / squares / rates.len() as f64, deepest / 1e3]
        })
        .collect();
    [0, 1, 2].map(|index| mean(shares.iter().map(|share| share[index])))
}

#[test]
fn long_flows() {
    let Some(folder) = runs() else { return };
    let summary = std::fs::read_to_string(folder.join("F_CONVERGENCE_SUMMARY.txt")).unwrap();
    let mut rows = Vec::new();
    for name in RUNS {
        let seeds = if name.starts_with("f_step") { "1" } else { "20" };
        let (theirs, ours) = (of_ns3(&summary, name), of_rocesim(&folder.join(name), seeds));
        let case = if seeds == "1" { name.to_owned() } else { format!("{name}: {seeds} seeds") };
        let show = [
            |value: f64| format!("{value:.2} Gb/s"),
            |value: f64| format!("{value:.4}"),
            |value: f64| format!("{value:.1} KB"),
        ];
        for (index, quantity) in ["goodput", "Jain's index", "mean queue"].iter().enumerate() {
            let pair = (theirs[index], ours[index]);
            let row = Row::relative([&case, quantity], pair.0, pair.1, show[index], 0.05);
            rows.push(if name == REPLAYED.0 && index == 2 { row.explained() } else { row });
        }
        if name == REPLAYED.0 {
            let case = format!("{name}, ns-3's model with 8 independent sequences");
            let row = Row::relative([&case, "mean queue"], REPLAYED.1, ours[2], show[2], 0.05);
            rows.push(row);
        }
    }
    section("ns-3, long flows", &rows);
}
