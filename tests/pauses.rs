//! Who paused whom, as the program tells it.

mod common;

use std::collections::BTreeMap;

use common::{json_report, rocesim, text};
use scenarios::diagnose::KINDS;
use serde_json::Value;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Findings of a kind.
fn findings<'a>(report: &'a Value, kind: &str) -> Vec<&'a str> {
    assert!(KINDS.contains(&kind));
    let all = report["findings"].as_array().unwrap().iter();
    all.filter(|finding| finding["kind"] == kind).map(|f| f["text"].as_str().unwrap()).collect()
}

#[test]
fn a_run_tells_whom_pauses_stopped_and_where_they_began() {
    let folder = folder();
    let run = ["run", "dumbbell-victim", "--out", "r", "--quiet", "--pauses", "2ms..2.5ms"];
    let output = rocesim(&run, folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    // the answer has the tree of the whole run, and then that of the window
    let [whole, window] = &said.split("pauses from 2 ms to 2.5 ms").collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    for tree in [whole, window] {
        let place = |line: &str| tree.find(line).unwrap_or_else(|| panic!("{line} in {said}"));
        let root = place("sw1:0 (receiver's link full)");
        let trunk = place("\n    sw0:8 ");
        assert!(root < trunk && trunk < place("\n      host"), "{said}");
    }
    // report.json, flows.csv and pauses.csv agree
    let report = std::fs::read_to_string(folder.path().join("r/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let [found] = findings(&report, "pause_victims")[..] else { panic!("{}", report["findings"]) };
    assert!(found.starts_with("flow 4 (host4 -> host9) lost "), "{found}");
    assert!(found.contains("sw1:0 paused sw0:8"), "{found}");
    let mut rows = csv::Reader::from_path(folder.path().join("r/pauses.csv")).unwrap();
    let mut paused: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows.deserialize::<BTreeMap<String, String>>() {
        let row = row.unwrap();
        let end = report["simulated_time_s"].as_f64().unwrap();
        let number = |key: &str| row[key].parse::<f64>().unwrap_or(end);
        *paused.entry(row["port"].clone()).or_default() += number("to_s") - number("from_s");
        assert_eq!(row["root"], "sw1:0", "{row:?}");
    }
    let ports = report["ports"].as_array().unwrap();
    for port in ports {
        let sum = paused.remove(port["port"].as_str().unwrap()).unwrap_or(0.0);
        assert!((sum - port["paused_s"].as_f64().unwrap()).abs() < 1e-9, "{port}");
    }
    assert!(paused.is_empty());
}

#[test]
fn a_window_that_cannot_be_is_refused() {
    let folder = folder();
    for (window, why) in [
        ("1ms", "two times such as 1ms..2ms are expected"),
        ("2ms..1ms", "the first time is not before the second"),
        ("1..2ms", "unit"),
    ] {
        let output = rocesim(&["run", "incast", "--no-out", "--pauses", window], folder.path());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}

/// Two jobs share a fabric; a host of one hangs.
const TWO_JOBS: &str = r#"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 3
link = { rate = "100Gbps", delay = "1us" }
[[traffic]]
name = "train"
kind = "flows"
flows = [{ source = 0, target = 3, bytes = "5MB" }]
[[traffic]]
name = "serve"
kind = "flows"
flows = [
    { source = 1, target = 4, bytes = "5MB" },
    { source = 2, target = 5, bytes = "5MB" },
]
[[override]]
nodes = ["host3"]
set = { "nic.pause_storm" = { from = "50us", until = "3ms" } }
"#;

#[test]
fn a_job_hears_that_a_host_of_another_stopped_it() {
    let folder = folder();
    std::fs::write(folder.path().join("jobs.toml"), TWO_JOBS).unwrap();
    let report = json_report(&["jobs.toml"], folder.path());
    let [found] = findings(&report, "job_paused_by_other")[..] else {
        panic!("{}", report["findings"])
    };
    assert!(found.starts_with("traffic serve lost up to "), "{found}");
    let way = "host3/nic0 paused leaf1:0, which paused spine0:1";
    assert!(
        found.contains("(pause storm), a host of traffic train") && found.contains(way),
        "{found}"
    );
    let shares = |flow: usize| report["flows"][flow]["victim_share"].as_f64().unwrap_or(0.0);
    assert!(shares(0) == 0.0 && shares(1) > 0.5 && shares(2) > 0.5, "{}", report["flows"]);
    // a storm that a watchdog lets pass is no pause
    let watchdog = "switch.pfc_wd={ detection_time = '0.3ms', restoration_time = '1ms', \
                    poll_interval = '0.1ms', action = 'forward' }";
    let report = json_report(&["jobs.toml", "--set", watchdog], folder.path());
    let root = &report["pauses"]["roots"][0];
    let leaf = &root["edges"][0];
    assert_eq!((&root["kind"], &leaf["port"]), (&"pause_storm".into(), &"leaf1:0".into()));
    assert!(leaf["paused_s"].as_f64().unwrap() < 0.6e-3, "{leaf}");
}

#[test]
fn a_deadlock_is_told_in_its_order_with_the_time_it_closed() {
    let report = json_report(&["deadlock-ring"], folder().path());
    let deadlock = &report["deadlocks"][0];
    let chain = deadlock["chain"].as_array().unwrap();
    assert_eq!(chain.len(), 4);
    let closed = deadlock["closed_s"].as_f64().unwrap();
    assert!(closed > 0.0 && closed < 0.01, "{closed}");
    // each waits for a queue of the switch that its cable leads to
    let peer = |port: &Value| {
        let ports = report["ports"].as_array().unwrap();
        let found = ports.iter().find(|other| other["port"] == *port).unwrap();
        found["peer"].as_str().unwrap().split(':').next().unwrap().to_owned()
    };
    for (port, next) in chain.iter().zip(chain.iter().cycle().skip(1)) {
        assert!(next.as_str().unwrap().starts_with(&peer(port)), "{chain:?}");
    }
    let [found] = findings(&report, "deadlock")[..] else { panic!() };
    assert!(found.contains("closed at ") && found.contains(" waits for "), "{found}");
    assert_eq!(report["pauses"]["roots"][0]["kind"], "circular");
}
