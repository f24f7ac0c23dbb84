//! Whole calibrations of small scenarios, to what the simulator itself has measured.

use std::sync::atomic::{AtomicUsize, Ordering};

use scenarios::resolve::{LoadOptions, Loaded, load};

use super::*;
use crate::curve::{Row, Timing};

/// Two hosts of two GPUs, one NIC each.
const SCENARIO: &str = r#"
title = "two hosts"
[topology]
kind = "rail"
hosts = 2
rails = 2
link = { rate = "100Gbps", delay = "50ns" }
[nic]
preset = "connectx-6-dx"
[host]
gpus = 2 # of each
nics = [{ affinity = [0] }, { affinity = [1] }]
[nccl]
IB_TC = 106
ALGO = "Ring"
PROTO = "Simple"
[[traffic]]
name = "test"
kind = "collective"
op = "all_reduce"
bytes = "1MiB"
"#;

fn scenario(set: &[&str]) -> (tempfile::TempDir, Loaded) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.toml");
    std::fs::write(&path, SCENARIO).unwrap();
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    let options = LoadOptions { set, ..LoadOptions::default() };
    let loaded = load(path.to_str().unwrap(), &options).unwrap();
    (folder, loaded)
}

const ENDLESS: Owner<'static> = Owner { verdict: &|| true, told: &|_, _| {} };

/// What the scenario with these keys would measure, from 1 KiB to 64 MiB.
fn measured(set: &[&str]) -> Table {
    let (_folder, loaded) = scenario(set);
    let runs = Runs::new(&loaded, 0, 2, None, &ENDLESS).unwrap();
    let sizes: Vec<u64> = (10..=26).map(|power| 1 << power).collect();
    let ask = |bytes: &u64| Ask {
        set: Vec::new(),
        op: models::collective::Op::AllReduce,
        bytes: *bytes,
        way: None,
    };
    let answers = runs.answers(&sizes.iter().map(ask).collect::<Vec<Ask>>()).unwrap();
    let row = |(bytes, answer): (&u64, &runs::Answer)| Row {
        bytes: *bytes,
        out_of_place: answer.time_s.map(|time_s| Timing { time_s, ..Timing::default() }),
        ..Row::default()
    };
    Table {
        source: "measured".to_owned(),
        line: 1,
        op: Some(models::collective::Op::AllReduce),
        ranks: Some(4),
        hosts: Some(2),
        rows: sizes.iter().zip(&answers).map(row).collect(),
        ..Table::default()
    }
}

fn request(free: &[&str], threads: usize) -> Request {
    let free = Some(free.iter().map(|key| (*key).to_owned()).collect());
    Request { free, holdout: 0.5, threads }
}

#[test]
fn keys_are_found_again_within_their_intervals() {
    let table = measured(&["host.proxy_latency=9us", "host.nic.pcie.rate=80Gbps"]);
    let (_folder, loaded) = scenario(&[]);
    // host.gdr_flush does what the proxy does; nothing goes by sockets
    let free = ["host.proxy_latency", "host.nic.pcie.rate", "host.socket.latency"];
    let found = calibrate(&loaded, &[table], &request(&free, 2), None, &ENDLESS).unwrap();
    for (path, truth) in [("host.proxy_latency", 9e-6), ("host.nic.pcie.rate", 80e9)] {
        let key = found.keys.iter().find(|key| key.path == path).unwrap();
        let Known::Fitted { low, high } = key.known else { panic!("{path}: {}", found.text()) };
        assert!((low..=high).contains(&truth), "{path}: {low} to {high}\n{}", found.text());
    }
    let silent = found.keys.iter().find(|key| key.path == "host.socket.latency").unwrap();
    assert_eq!(silent.known, Known::NoEffect);
    assert!(found.held_out.unwrap().after < 0.02, "{}", found.text());
    assert!(found.text().contains("not identifiable from these sizes, held: host.socket.latency"));
}

#[test]
fn a_calibrated_scenario_loads_and_keeps_the_rest() {
    let table = measured(&["host.proxy_latency=9us"]);
    let (folder, loaded) = scenario(&["seed=7"]);
    let found =
        calibrate(&loaded, &[table], &request(&["host.proxy_latency"], 1), None, &ENDLESS).unwrap();
    write(folder.path(), &loaded, &found).unwrap();
    let path = folder.path().join("calibrated.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("gpus = 2 # of each") && text.contains("calibrated; it was 3us"),
        "{text}"
    );
    let again = load(path.to_str().unwrap(), &LoadOptions::default()).unwrap();
    let wanted = loaded.with(&found.set).unwrap();
    assert_eq!(again.resolved, wanted.resolved);
}

#[test]
fn threads_change_nothing_and_what_was_stopped_goes_on() {
    let table = measured(&["host.proxy_latency=9us"]);
    let free = ["host.proxy_latency", "host.launch_latency"];
    let (folder, loaded) = scenario(&[]);
    let json = |found: &Calibration| serde_json::to_string(found).unwrap();
    let tables = [table];
    let whole = calibrate(&loaded, &tables, &request(&free, 1), None, &ENDLESS).unwrap();
    let side = calibrate(&loaded, &tables, &request(&free, 3), None, &ENDLESS).unwrap();
    assert_eq!(json(&whole), json(&side));
    // stopped after 40 simulations, with a torn line at the end
    let count = AtomicUsize::new(0);
    let verdict = || count.load(Ordering::Relaxed) < 40;
    let told = |done: usize, _: usize| count.store(done, Ordering::Relaxed);
    let owner = Owner { verdict: &verdict, told: &told };
    let stopped = calibrate(&loaded, &tables, &request(&free, 1), Some(folder.path()), &owner);
    assert_eq!(stopped.unwrap_err().0, runs::STOPPED);
    let path = folder.path().join(EVALUATIONS);
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept.lines().count() > 30, "{kept}");
    std::fs::write(&path, kept + "{\"ask\":{\"se").unwrap();
    let more = AtomicUsize::new(0);
    let told = |done: usize, _: usize| more.store(done, Ordering::Relaxed);
    let owner = Owner { verdict: &|| true, told: &told };
    let resumed = calibrate(&loaded, &tables, &request(&free, 2), Some(folder.path()), &owner);
    assert_eq!(json(&resumed.unwrap()), json(&whole));
    let first = more.load(Ordering::Relaxed);
    // all is known now
    more.store(0, Ordering::Relaxed);
    calibrate(&loaded, &tables, &request(&free, 2), Some(folder.path()), &owner).unwrap();
    assert_eq!(more.load(Ordering::Relaxed), 0, "{first} the time before");
}

#[test]
fn a_key_that_is_not_there_has_a_near_miss() {
    let table = measured(&[]);
    let (_folder, loaded) = scenario(&[]);
    let found = calibrate(&loaded, &[table], &request(&["host.proxy_latancy"], 1), None, &ENDLESS);
    let error = found.unwrap_err().0;
    assert!(error.contains("did you mean `host.proxy_latency`?"), "{error}");
}
