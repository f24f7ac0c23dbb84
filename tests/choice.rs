//! What NCCL would take for a size, and all the collectives that nccl-tests knows, through the
//! program.

mod common;

use common::{json_report, rocesim, say, text};
use serde_json::Value;

/// 8 servers of 8 A100.
const CLUSTER: &str = "ring-or-tree";
/// 8 KiB to 128 MiB.
const SIZES: &str = "traffic[0].bytes={from=\"8KiB\", to=\"128MiB\", factor=4}";

/// By size: algorithm and protocol that were taken, and the time that it took.
fn times(algorithms: &str) -> Vec<(u64, String, f64)> {
    let folder = tempfile::tempdir().unwrap();
    let only = format!("nccl.ALGO={algorithms}");
    let sets = ["--set", SIZES, "--set", &only, "--set", "expect={}", "--no-out"];
    let report = json_report(&[&[CLUSTER][..], &sets].concat(), folder.path());
    let row = |row: &Value| {
        let word = |key: &str| row[key].as_str().unwrap().to_owned();
        let how = format!("{} {}", word("algorithm"), word("protocol"));
        (row["bytes"].as_u64().unwrap(), how, row["time_s"].as_f64().unwrap() * 1e6)
    };
    report["collectives"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn nccl_takes_the_faster_of_rings_and_trees_at_each_size() {
    let [auto, rings, trees] = ["Ring,Tree", "Ring", "Tree"].map(times);
    let mut lines = String::new();
    let mut first = Vec::new();
    for ((auto, ring), tree) in auto.iter().zip(&rings).zip(&trees) {
        let (bytes, taken, time) = auto;
        lines += &format!(
            "  {bytes:>10} B  {taken:<12} {time:>8.1} us; {:<12} {:>8.1}, {:<12} {:>8.1}\n",
            ring.1, ring.2, tree.1, tree.2
        );
        assert!(*time <= 1.1 * ring.2.min(tree.2), "{lines}");
        first.push(if ring.2 < tree.2 { 'r' } else { 't' });
    }
    say(&format!("AllReduce on 8 servers of 8 A100, NCCL's choice against both:\n{lines}"));
    // trees win where messages are small, rings where they are large, and it changes once
    assert_eq!((first.first(), first.last()), (Some(&'t'), Some(&'r')), "{lines}");
    assert_eq!(first.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1, "{lines}");
}

#[test]
fn every_operation_has_its_table() {
    let folder = tempfile::tempdir().unwrap();
    // name, count of 1 MiB of floats over 64 ranks, redop, root, busbw / algbw
    let rows = [
        ("all_reduce", "262144", "sum", "-1", 126.0 / 64.0),
        ("all_gather", "4096", "none", "-1", 63.0 / 64.0),
        ("reduce_scatter", "4096", "sum", "-1", 63.0 / 64.0),
        ("broadcast", "262144", "none", "3", 1.0),
        ("reduce", "262144", "sum", "3", 1.0),
        ("alltoall", "4096", "none", "-1", 63.0 / 64.0),
        ("sendrecv", "262144", "none", "-1", 1.0),
    ];
    for (op, count, redop, root, factor) in rows {
        let mut arguments =
            vec!["nccl-test", op, CLUSTER, "-b", "1M", "-e", "1M", "--set", "expect={}"];
        if root != "-1" {
            arguments.extend(["-r", root]);
        }
        let output = rocesim(&arguments, folder.path());
        let printed = text(&output.stdout);
        let row = printed.lines().find(|line| line.starts_with(' ')).unwrap_or("");
        let fields: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(fields.len(), 13, "{op}: {printed}{}", text(&output.stderr));
        assert_eq!(fields[..5], ["1048576", count, "float", redop, root], "{op}");
        let [algbw, busbw] = [6, 7].map(|field| fields[field].parse::<f64>().unwrap());
        assert!((busbw / algbw / factor - 1.0).abs() < 0.02, "{op}: {row}");
    }
    let output = rocesim(&["nccl-test", "broadcast", CLUSTER, "-r", "64"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is no rank 64: ranks 0 to 63"));
}

#[test]
fn variables_that_change_nothing_are_ignored_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let check = |set: &str| {
        let output = rocesim(&["check", CLUSTER, "--set", set], folder.path());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for (set, truth) in [
        ("nccl.NCCL_IB_CUDA_SUPPORT=1", "NCCL removed IB_CUDA_SUPPORT in 2.4"),
        ("nccl.NCCL_SOCKET_IFNAME=eth0", "the interface of the bootstrap"),
        ("nccl.IB_GID_INDEX=3", "switches no header off"),
        ("nccl.IB_SL=3", "selects no priority where DSCP is"),
        ("nccl.IB_ADAPTIVE_ROUTING=1", "configures no switch"),
        ("nccl.DEBUG=INFO", "it changes messages only"),
    ] {
        let printed = check(set).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(printed.contains(truth), "{set}: {printed}");
    }
}

#[test]
fn a_run_directory_has_the_timeline_of_lanes() {
    let folder = tempfile::tempdir().unwrap();
    let sets = ["--set", "traffic[0].iterations=2", "--set", "expect={}", "--out", "run"];
    let output = rocesim(&[&["run", CLUSTER][..], &sets].concat(), folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut reader = csv::Reader::from_path(folder.path().join("run/timeline.csv")).unwrap();
    let rows: Vec<Vec<f64>> = reader
        .records()
        .map(|row| {
            let row = row.unwrap();
            // rank, channel, repetition, begin, end
            [1, 4, 6, 7, 8].iter().map(|field| row[*field].parse().unwrap()).collect()
        })
        .collect();
    let ranks: std::collections::BTreeSet<u64> = rows.iter().map(|row| row[0] as u64).collect();
    assert_eq!(ranks.len(), 64);
    for rank in rows.chunk_by(|a, b| a[0] == b[0]) {
        let of = |repetition: f64| rank.iter().filter(move |row| row[2] == repetition);
        // a repetition of a rank begins after all of its lanes have done the one before
        let done = of(0.0).map(|row| row[4]).fold(0.0, f64::max);
        assert!(of(1.0).all(|row| row[3] > done && row[4] > row[3]));
    }
}
