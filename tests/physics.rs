//! Whole scenarios against what theory says.

mod common;

use common::json_report;
use serde_json::Value;

/// Runs a scenario given as text; the report.
fn run(scenario: &str, arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
    json_report(&[&["scenario.toml"], arguments].concat(), folder.path())
}

fn numbers(report: &Value, field: &str) -> Vec<f64> {
    let flows = report["flows"].as_array().unwrap();
    flows.iter().map(|flow| flow[field].as_f64().unwrap()).collect()
}

const PFC_ONLY: &str = r#"
[topology]
kind = "star"
hosts = 9
link = { rate = "100Gbps", delay = "1us" }

[switch.buffer]
size = "4MiB"

[[traffic]]
name = "all"
kind = "incast"
senders = "0..8"
receiver = 8
bytes = "unlimited"

[stop]
after = "10ms"

[measure]
from = "1ms"
"#;

#[test]
fn pfc_alone_is_lossless_and_fair_to_ingress_ports() {
    let report = run(PFC_ONLY, &[]);
    assert_eq!(report["totals"]["lossless_drops"], 0);
    assert_eq!(report["totals"]["drops"], serde_json::json!({}));
    let measured = numbers(&report, "measured_bytes");
    let (least, most) = measured.iter().fold((f64::INFINITY, 0.0f64), |(least, most), bytes| {
        (least.min(*bytes), most.max(*bytes))
    });
    assert!(most / least < 1.02, "{measured:?}");
    // every pause has ended but those that are named
    let totals = &report["totals"];
    let open = report["open_pauses"].as_array().unwrap().len() as u64;
    let ended = totals["pfc_xon_frames"].as_u64().unwrap();
    assert!(totals["pause_episodes"].as_u64().unwrap() <= ended + open + 1);
    assert!(open <= 8);
}

#[test]
fn a_third_of_the_headroom_drops_frames_and_go_back_n_brings_them() {
    // auto is 41,662 B: see `rocesim check`
    let arguments = [
        ["--set", "switch.pfc.headroom=13887B"],
        ["--set", "traffic.all.bytes=10MB"],
        ["--set", "stop={}"],
        ["--set", "measure={}"],
    ];
    let report = run(PFC_ONLY, arguments.as_flattened());
    assert!(report["totals"]["drops"]["ingress_headroom_full"].as_u64().unwrap() > 0);
    assert_eq!(
        report["totals"]["lossless_drops"],
        report["totals"]["drops"]["ingress_headroom_full"]
    );
    assert_eq!(report["outcome"], "completed");
    assert_eq!(numbers(&report, "delivered_bytes"), [10_000_000.0; 8]);
    let kinds: Vec<&Value> =
        report["findings"].as_array().unwrap().iter().map(|finding| &finding["kind"]).collect();
    assert!(kinds.contains(&&Value::from("lossless_drops")), "{kinds:?}");
}

#[test]
fn no_qp_sleeps_through_a_stale_gap() {
    let folder = tempfile::tempdir().unwrap();
    for seed in ["1", "2", "3"] {
        let report = json_report(&["incast", "--seed", seed], folder.path());
        let last = numbers(&report, "fct_s").into_iter().fold(0.0, f64::max);
        // 8 x 1 MB, 82 B for each of 245 packets, one RETH, two links of 1 us at 100 Gb/s
        let ideal = 8.0 * (1_000_000.0 + 245.0 * 82.0 + 16.0) * 80e-12 + 2.3e-6;
        assert!(last < 3.0 * ideal, "{last} s, ideal {ideal} s");
    }
}

/// DCQCN cuts the windows while packets are under way that were not the last ones let out.
#[test]
fn no_qp_waits_for_its_timer_behind_a_window_that_has_shrunk() {
    let keys = [
        "stop={}",
        "measure={}",
        "switch.buffer.size=\"32MiB\"",
        "switch.ecn.3={ kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }",
        "nic.congestion={ algorithm = \"dcqcn\" }",
        "nic.transport={ window = \"128KB\", window_follows_rate = true }",
        "traffic.all.bytes=1MB",
    ];
    let set: Vec<&str> = keys.iter().flat_map(|key| ["--set", key]).collect();
    let report = run(PFC_ONLY, &set);
    assert_eq!(report["outcome"], "completed");
    assert_eq!(report["totals"]["timeouts"], 0);
}
