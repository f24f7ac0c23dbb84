//! `rocesim compare`, through the program.

mod common;

use std::path::Path;

use common::{import_ns3, json_report, reference, rocesim, text};
use serde_json::Value;

/// Two senders, with samples.
const SCENARIO: &str = "\
[topology]
kind = \"star\"
hosts = 3
link = { rate = \"100Gbps\", delay = \"1us\" }

[sample]
interval = \"5us\"

[[traffic]]
kind = \"incast\"
senders = \"0..2\"
receiver = 2
bytes = \"100KB\"
";

/// A folder with a run directory `run`.
fn with_run() -> (tempfile::TempDir, Value) {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("s.toml"), SCENARIO).unwrap();
    let report = json_report(&["s.toml", "--out", "run"], work.path());
    (work, report)
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Files of an ns-3 run that went as the one in the report, 2 s later.
fn write_ns3(folder: &Path, report: &Value) {
    let mut fct = String::from("src,dst,sport,dport,size_B,start_ns,fct_ns,standalone_ns\n");
    for flow in report["flows"].as_array().unwrap() {
        let number = |key: &str| flow[key].as_str().unwrap()["host".len()..].to_owned();
        let fct_ns = (flow["acked_s"].as_f64().unwrap() * 1e9).round();
        let (source, target) = (number("source"), number("target"));
        let (port, bytes) = (&flow["source_port"], &flow["bytes"]);
        fct += &format!("{source},{target},{port},100,{bytes},2000000000,{fct_ns},1000\n");
    }
    write(folder, "ns3/fct.csv", &fct);
    let stats = format!("STATS tx_pkts={} ce_marks=5 pfc_sent=0\n", report["packet_hops"]);
    write(folder, "ns3/stats.txt", &stats);
    let rate = &report["flows"][0]["source_port"];
    write(
        folder,
        "ns3/rate.csv",
        &format!("2000005000,0,{rate},100000000000,100000000000,1.0,0,0,0\n"),
    );
    write(folder, "ns3/queue.csv", "2000005000,3,3,1000000,0,0,0,0,0\n");
}

#[test]
fn everything_that_a_folder_of_ns3_has() {
    let (work, report) = with_run();
    write_ns3(work.path(), &report);
    let output = rocesim(&["compare", "run", "ns3", "--json"], work.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["reference"], "ns-3");
    assert_eq!(found["flows"]["matched"], 2);
    // the file has whole nanoseconds
    assert!(found["flows"]["summary"]["mean_abs_error"].as_f64().unwrap() < 1e-4);
    let totals = found["totals"].as_array().unwrap();
    let names: Vec<_> = totals.iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["packet-hops", "CE marks", "PFC frames sent"]);
    assert_eq!(totals[0]["value"]["here"], totals[0]["value"]["there"]);
    assert_eq!(found["pauses"]["items"].as_array().unwrap().len(), 0);
    assert_eq!(found["rates"]["instants"], 1);
    assert_eq!(found["rates"]["mean_abs_error"], 0.0);
    let output = rocesim(&["compare", "run", "ns3"], work.path());
    let table = text(&output.stdout);
    for expected in ["2 flows matched\n", "ns-3", "CE marks", "pauses received  ", "rate over time"]
    {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    // a bare fct.csv may be anybody's
    let table = text(&rocesim(&["compare", "run", "ns3/fct.csv"], work.path()).stdout);
    assert!(table.contains("reference") && !table.contains("ns-3"), "{table}");
}

#[test]
fn another_run_and_seeds() {
    let (work, _) = with_run();
    let table = text(&rocesim(&["compare", "run", "run/report.json"], work.path()).stdout);
    for expected in ["mean FCT", "queue over time", "rate over time", "reference"] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    assert!(!table.contains("note:"), "{table}");
    let seeds = rocesim(&["run", "s.toml", "--seeds", "2", "--out", "seeds"], work.path());
    assert_eq!(seeds.status.code(), Some(0), "{}", text(&seeds.stderr));
    let output = rocesim(&["compare", "run", "seeds", "--tolerance", "5"], work.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("note: reference: means over 2 seeds"));
    // without samples
    let slower = ["s.toml", "--out", "slow", "--set", "topology.link.rate=40Gbps"];
    json_report(&slower, work.path());
    let output = rocesim(&["compare", "slow", "run", "--tolerance", "5"], work.path());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "not within 5 %\n");
    std::fs::remove_dir_all(work.path().join("slow/series")).unwrap();
    let output = rocesim(&["compare", "slow", "run"], work.path());
    assert_eq!(output.status.code(), Some(0));
    let table = text(&output.stdout);
    let note = "note: queues over time are not compared: run with --set sample.interval=5us";
    assert!(table.contains(note), "{table}");
}

#[test]
fn broken_input_is_one_message() {
    let (work, report) = with_run();
    write_ns3(work.path(), &report);
    let refused = |arguments: [&str; 2], expected: &str| {
        let output = rocesim(&["compare", arguments[0], arguments[1]], work.path());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.starts_with("error: ") && message.contains(expected), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    };
    refused(["run", "nowhere"], "cannot read nowhere");
    refused(["nowhere", "run"], "cannot read nowhere");
    refused(["ns3", "run"], "ns3: a run directory of rocesim was expected first");
    for (name, content, expected) in [
        ("queue.csv", "1,2\n", "queue.csv, line 1: 2 columns, but 9 were expected: `time_ns"),
        ("queue.csv", "5,9,1,-3,0,0,0,0,0\n", "line 1: column 4: egress_bytes is `-3`"),
        ("rate.csv", "5,9,99999,3,0,0,0,0,0\n", "rate.csv, line 1: column 3: sport is `99999`"),
        ("pfc.txt", "5 9 1 1 pause\n", "pfc.txt, line 1: column 5: kind is `pause`"),
        ("pfc_summary.csv", "node,port\n1,2\n", "line 1: there is no column `pause_rx`"),
        ("stats.txt", "STATS drops=many\n", "stats.txt, line 1: column 2: drops is `many`"),
        ("fct.csv", "a,b\n", "fct.csv, line 1: there is no column `src`"),
        ("flow.txt", "1\n0 1 3 100 10 soon\n", "flow.txt, line 2: column 6: start is `soon`"),
        ("config.txt", "QSER queue.csv\n", "config.txt, line 1: column 3: QSER is ``"),
    ] {
        let path = work.path().join("ns3").join(name);
        let before = std::fs::read(&path).ok();
        std::fs::write(&path, content).unwrap();
        refused(["run", "ns3"], expected);
        match before {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
    }
    write(work.path(), "ns3/queue.csv", "\u{1f}");
    std::fs::write(work.path().join("ns3/queue.csv"), [0x1f, 0x8b, 8, 0]).unwrap();
    refused(["run", "ns3"], "queue.csv: no whole gzip file");
    std::fs::write(work.path().join("run/report.json"), "{\n\"flows\": 3\n}").unwrap();
    refused(["run", "ns3"], "report.json, line 2: a report of rocesim was expected");
}

/// Imports, runs with samples as often as ns-3's, and compares.
fn compared(folder: &Path, interval: &str) -> Value {
    let work = tempfile::tempdir().unwrap();
    import_ns3(folder, work.path());
    let interval = format!("sample.interval={interval}");
    rocesim(&["run", "scenario.toml", "--out", "run", "--quiet", "--set", &interval], work.path());
    let output = rocesim(&["compare", "run", folder.to_str().unwrap(), "--json"], work.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn marks_pauses_and_series_are_those_of_ns3() {
    let total = |found: &Value, name: &str| {
        let totals = found["totals"].as_array().unwrap();
        let item = totals.iter().find(|item| item["name"] == name).unwrap();
        (item["value"]["here"].as_f64().unwrap(), item["value"]["there"].as_f64().unwrap())
    };
    let error = |found: &Value, what: &str| found[what]["mean_abs_error"].as_f64().unwrap();

    let Some(folder) = reference("ns3/b_step_incast_8") else { return };
    let found = compared(&folder, "5us");
    assert_eq!(total(&found, "CE marks"), (3424.0, 3424.0));
    assert_eq!(total(&found, "packet-hops"), (32000.0, 32000.0));
    assert!(error(&found, "queues") < 1e-3 && error(&found, "rates") < 1e-3, "{found}");

    let Some(folder) = reference("ns3/c_pfc_incast_8") else { return };
    let found = compared(&folder, "5us");
    assert_eq!(total(&found, "PFC frames sent"), (384.0, 384.0));
    assert_eq!(found["pauses"]["items"].as_array().unwrap().len(), 8);
    assert!(error(&found, "paused_s") < 0.02, "{found}");
    assert!(error(&found, "queues") < 0.01, "{found}");

    let Some(folder) = reference("ns3/f_step_conv_2to1") else { return };
    let found = compared(&folder, "20us");
    assert_eq!((&found["flows"]["matched"], &found["flows"]["summary"]), (&0.into(), &Value::Null));
    assert_eq!(total(&found, "CE marks"), (6677.0, 6677.0));
    assert!(error(&found, "queues") < 1e-3 && error(&found, "rates") < 1e-3, "{found}");
}

/// A sweep of SendRecv, and what nccl-tests could have printed: 50 us more at each size.
#[test]
fn a_run_against_a_log_of_nccl_tests() {
    let work = tempfile::tempdir().unwrap();
    let scenario = "[topology]\nkind = \"star\"\nhosts = 2\nlink = { rate = \"100Gbps\", delay = \"1us\" }\n\n\
                    [host]\ngpus = 1\n\n[[traffic]]\nname = \"test\"\nkind = \"collective\"\nop = \"sendrecv\"\n\
                    bytes = { from = \"1MiB\", to = \"16MiB\", factor = 4 }\n";
    write(work.path(), "s.toml", scenario);
    let report = json_report(&["s.toml", "--out", "run"], work.path());
    let mut log = String::from("# Collective test starting: sendrecv_perf\n");
    for collective in report["collectives"].as_array().unwrap() {
        let bytes = collective["bytes"].as_f64().unwrap();
        let us = collective["time_s"].as_f64().unwrap() * 1e6 + 50.0;
        let bandwidth = bytes / us / 1e3;
        let (count, cells) = (bytes / 4.0, format!("{us:.2} {bandwidth:.2} {bandwidth:.2}"));
        log += &format!("{bytes} {count} float sum -1 {cells} 0 {cells} N/A\n");
    }
    log += "1073741824 268435456 float sum -1 100000 10.74 10.74 0 100000 10.74 10.74 N/A\n";
    write(work.path(), "nccl.log", &log);
    let output = rocesim(&["compare", "run", "nccl.log"], work.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("latency-shaped: -50.0"), "{shown}");
    assert!(shown.contains("only measured: 1 GiB"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    let output = rocesim(&["compare", "run", "nccl.log", "--json"], work.path());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found[0]["sizes"].as_array().unwrap().len(), 3);
    assert_eq!(found[0]["shape"]["kind"], "latency");
    // 50 us of 205 at 1 MiB is a quarter
    for (tolerance, code) in [("30", 0), ("5", 1)] {
        let output =
            rocesim(&["compare", "run", "nccl.log", "--tolerance", tolerance], work.path());
        assert_eq!(output.status.code(), Some(code), "{tolerance}");
    }
    let output = rocesim(&["measured", "nccl.log", "run", "--json"], work.path());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["tables"].as_array().unwrap().len(), 2);
    assert_eq!(found["tables"][0]["op"], "sendrecv");
    write(work.path(), "other.log", &log.replace("sendrecv_perf", "all_reduce_perf"));
    let output = rocesim(&["compare", "run", "other.log"], work.path());
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(
        message.contains("other.log measured all_reduce, and run simulated sendrecv"),
        "{message}"
    );
}
