//! htsim's RoCE on its own matrices: completion times as distributions, since the hashes of ECMP
//! differ. What htsim made of them is found through `ROCESIM_REFERENCE`.

use std::path::{Path, PathBuf};

use models::report::Report;
use serde_json::Value;

use crate::common::{reference, rocesim, text};
use crate::matrices;
use crate::table::{Row, section};

/// Imports a matrix and runs it with some seeds.
fn reports(matrix: &Path, link: &str, seeds: u32) -> Vec<Report> {
    let work = tempfile::tempdir().unwrap();
    let file = matrix.to_str().unwrap();
    let import = ["import", "htsim", file, "--link", link, "--delay", "1us"];
    let output = rocesim(&import, work.path());
    assert_eq!(output.status.code(), Some(0), "{file}: {}", text(&output.stderr));
    let seeds = seeds.to_string();
    let run = ["run", "scenario.toml", "--json", "--no-out", "--quiet", "--seeds", &seeds];
    let output = rocesim(&run, work.path());
    assert_eq!(output.status.code(), Some(0), "{file}: {}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = found["seeds"].as_array().unwrap();
    all.iter().map(|report| serde_json::from_value(report.clone()).unwrap()).collect()
}

/// Mean, 99th percentile and maximum of completion times, in microseconds.
fn distribution(report: &Report) -> [f64; 3] {
    let acked = report.flows.iter().map(|flow| flow.acked_s.expect("all are done") * 1e6);
    let mut acked: Vec<f64> = acked.collect();
    acked.sort_by(f64::total_cmp);
    let count = acked.len();
    let rank = (count * 99).div_ceil(100) - 1;
    [acked.iter().sum::<f64>() / count as f64, acked[rank], acked[count - 1]]
}

/// Data and ACK frames that left a port.
fn packet_hops(report: &Report) -> f64 {
    (report.packet_hops - report.totals.pfc_xoff_frames - report.totals.pfc_xon_frames) as f64
}

/// What is run of each matrix: its name in htsim's table, seeds, and how far mean, 99th percentile
/// and maximum may be off.
const MATRICES: [(&str, u32, [f64; 3]); 6] = [
    ("perm_128n_2MB", 20, [0.10, 0.15, 0.15]),
    ("perm_1024n_2MB", 2, [0.05, 0.10, 0.10]),
    ("incast_32to1_128n_2MB", 20, [0.05, 0.005, 0.005]),
    ("incast_128to1_1024n_2MB", 10, [0.05, 0.005, 0.005]),
    ("ring AllReduce, 128 hosts, 64 KB chunks", 2, [0.01, 0.02, 0.10]),
    ("alltoall_serial_128n_64KB", 3, [0.01, 0.02, 0.10]),
];

/// A row of htsim's table.
struct Measured {
    matrix: String,
    speed: String,
    packet_hops: f64,
    fct: [f64; 3],
}

/// The table of the README beside the matrices: `| matrix | speed | .. | 0.716 M | .. | a / b / c |`.
fn measured(folder: &Path) -> Vec<Measured> {
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let [matrix, speed, _, hops, .., fct, _] = cells[..] else { return None };
        let fct: Vec<f64> = fct.split('/').filter_map(|word| word.trim().parse().ok()).collect();
        Some(Measured {
            matrix: matrix.to_owned(),
            speed: speed.to_owned(),
            packet_hops: hops.strip_suffix(" M")?.parse::<f64>().ok()? * 1e6,
            fct: fct.try_into().ok()?,
        })
    };
    readme.lines().filter_map(row).collect()
}

/// The file of a matrix; the ring is made by rule.
fn file_of(folder: &Path, name: &str, work: &Path) -> PathBuf {
    if name.starts_with("ring") {
        let order = matrices::ring_order();
        let path = work.join("ring.cm");
        std::fs::write(&path, matrices::rings(&order, order.len(), 65_536)).unwrap();
        return path;
    }
    let plain = folder.join(format!("{name}.cm"));
    if plain.is_file() { plain } else { folder.join(format!("{name}.cm.gz")) }
}

#[test]
fn completion_times_are_those_of_htsim() {
    let Some(folder) = reference("speed") else { return };
    let work = tempfile::tempdir().unwrap();
    let us = |value: f64| format!("{value:.1} us");
    let millions = |value: f64| format!("{:.3} M", value / 1e6);
    let mut rows = Vec::new();
    for theirs in measured(&folder) {
        let found = MATRICES.iter().find(|matrix| theirs.matrix.starts_with(matrix.0));
        let Some((name, seeds, tolerances)) = found else { panic!("{}", theirs.matrix) };
        let matrix = file_of(&folder, name, work.path());
        let ours = reports(&matrix, &format!("{}bps", theirs.speed), *seeds);
        let case = format!("{name}, {}, {seeds} seeds", theirs.speed);
        let hops = packet_hops(&ours[0]);
        for report in &ours {
            assert_eq!(report.totals.lossless_drops, 0, "{case}");
            assert_eq!(packet_hops(report), hops, "{case}");
        }
        // the table has three digits
        let quantity = "packet-hops without pauses";
        rows.push(Row::relative([&case, quantity], theirs.packet_hops, hops, millions, 0.005));
        let ours: Vec<_> = ours.iter().map(distribution).collect();
        for (index, quantity) in ["mean FCT", "99 % FCT", "longest FCT"].into_iter().enumerate() {
            let mean = ours.iter().map(|all| all[index]).sum::<f64>() / ours.len() as f64;
            let (theirs, tolerance) = (theirs.fct[index], tolerances[index]);
            rows.push(Row::relative([&case, quantity], theirs, mean, us, tolerance));
        }
    }
    assert_eq!(rows.len(), 4 * 8, "rows of htsim's table");
    section("htsim", &rows);
}

#[test]
fn one_flow_is_that_of_htsim() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("one.cm");
    std::fs::write(&path, "Nodes 128\nConnections 1\n0->127 id 1 start 0 size 2000000\n").unwrap();
    let us = |value: f64| format!("{value:.5} us");
    let row = |(link, reference)| {
        let [fct, ..] = distribution(&reports(&path, link, 1)[0]);
        let case = format!("2 MB over 6 links, {link}");
        // both in whole picoseconds
        Row::absolute([&case, "FCT"], reference, (fct * 1e6).round() / 1e6, us, 0.0)
    };
    // 489 s + 5 s + 6 us + 6 a + 6 us: s = 4160 B, a = 64 B
    let rows = [("100Gbps", 176.43392), ("400Gbps", 53.10848)].map(row);
    section("htsim, one flow", &rows);
}

#[test]
fn the_matrices_of_the_benches_are_those_that_htsim_was_measured_with() {
    let Some(folder) = reference("speed") else { return };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    // without the numbers of flows, whose order differs
    let flows = |text: &str| {
        let mut lines: Vec<String> = text
            .lines()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let id = words.iter().position(|word| *word == "id");
                id.map_or(line.to_owned(), |at| [&words[..at], &words[at + 2..]].concat().join(" "))
            })
            .collect();
        lines.sort();
        lines
    };
    let matrices = matrices::all();
    for (name, file) in [
        ("permutation-128", "perm_128n_2MB.cm"),
        ("permutation-1024", "perm_1024n_2MB.cm"),
        ("incast-32", "incast_32to1_128n_2MB.cm"),
        ("incast-128", "incast_128to1_1024n_2MB.cm"),
    ] {
        let ours = matrices.iter().find(|matrix| matrix.name == name).unwrap();
        assert!(flows(&ours.text) == flows(&read(file)), "{name} is not {file}");
    }
    let order = matrices::ring_order();
    let ours = matrices::rings(&order, 16, 1 << 20);
    assert!(ours == read("allreduce_ring_16x8_1MB_128n.cm"), "the rule of rings");
}
