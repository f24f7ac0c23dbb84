//! What a run costs beside its events grows with the fabric, not with its square.

use std::io;
use std::time::{Duration, Instant};

use models::report::OutcomeKind;
use scenarios::resolve::{LoadOptions, load};
use scenarios::simulate::{self, Verdict};
use scenarios::{expect, output};

/// Loads, plans, runs, reports and writes a fat tree on which hardly anything happens.
fn run(k: u32) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("big.toml");
    let text = format!(
        "[topology]\nkind = \"fat-tree\"\nk = {k}\nlink = {{ rate = \"400Gbps\", delay = \"1us\" }}\n\
         [[traffic]]\nkind = \"permutation\"\nbytes = \"1KB\"\n\
         [[traffic]]\nkind = \"incast\"\nreceiver = 0\nsenders = \"1..9\"\nbytes = \"1KB\"\n\
         [expect]\n\"flows.fct_max\" = {{ below = \"1ms\" }}\n\"ports.paused_sum\" = 0\n"
    );
    std::fs::write(&file, text).unwrap();
    let begin = Instant::now();
    let loaded = load(file.to_str().unwrap(), &LoadOptions::default()).unwrap();
    let plan = simulate::plan(&loaded, 1).unwrap();
    let hops = simulate::estimate(&plan).packet_hops;
    let run = simulate::run(&loaded, plan, |_| Verdict::GoOn).unwrap();
    let verdicts = expect::judge(&loaded.scenario.expect, &run.report);
    output::write_json(&run.report, io::sink()).unwrap();
    let took = begin.elapsed();
    let hosts = (k * k * k / 4) as usize;
    assert_eq!(run.report.outcome, OutcomeKind::Completed);
    assert_eq!((run.report.flows.len(), run.report.ports.len()), (hosts + 8, hosts * 6));
    assert!(hops > hosts as f64 && verdicts.iter().all(|verdict| verdict.passed), "{verdicts:?}");
    took
}

#[test]
fn eight_times_the_hosts_take_about_eight_times_as_long() {
    // 250 and 2000 hosts: what were quadratic would take 64 times as long
    let small = (0..3).map(|_| run(10)).min().unwrap();
    let large = (0..3).map(|_| run(20)).min().unwrap();
    assert!(large < small * 32, "{small:?} for 250 hosts, {large:?} for 2000");
}

/// `cargo test --release -- --ignored`
#[test]
#[ignore = "takes some seconds and some hundred megabytes"]
fn sixteen_thousand_hosts() {
    let took = run(40);
    assert!(took < Duration::from_secs(20), "{took:?}");
}
