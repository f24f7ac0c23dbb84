//! What goes wrong while a fabric runs: how much it costs, worked out by hand, on any number of shards.

mod common;

use common::{json_report, rocesim, text};
use models::fabric::{Shards, plan, run};
use models::report::{FlowStatus, OutcomeKind, Report, make};
use scenarios::resolve::{LoadOptions, load};
use serde_json::Value;

/// A report of a scenario with these keys set; on two shards it is the same.
fn report(scenario: &str, set: &[&str]) -> Report {
    let set: Vec<String> = set.iter().map(|key| (*key).to_owned()).collect();
    let [one, two] = [1, 2].map(|shards| {
        let options = LoadOptions { set: set.clone(), ..LoadOptions::default() };
        let loaded = load(scenario, &options).unwrap();
        let plan = plan(loaded.spec, Shards::Exactly(shards)).unwrap();
        let outcome = run(&plan, |_| true).unwrap();
        assert_eq!(outcome.violations(), Vec::<String>::new(), "{set:?}");
        make(&outcome, &plan, "")
    });
    assert_eq!(one, two, "{set:?}");
    one
}

fn of_text(scenario: &str, set: &[&str]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, scenario).unwrap();
    report(path.to_str().unwrap(), set)
}

/// One flow from leaf to leaf at 100 Gb/s, measured in the last millisecond of three.
const PAIR: &str = r#"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 1
link = { rate = "100Gbps", delay = "1us" }

[[traffic]]
kind = "flows"
flows = [{ source = 0, target = 1, bytes = "unlimited" }]

[stop]
after = "3ms"

[measure]
from = "2ms"
"#;

/// Payload in Gb/s in the measured window.
fn goodput(report: &Report) -> f64 {
    report.flows.iter().map(|flow| flow.measured_bytes as f64 * 8.0 / 1e6).sum()
}

#[test]
fn go_back_0_gets_nothing_through_and_go_back_n_nearly_all() {
    let back_to_0 = report("livelock", &[]);
    assert!(back_to_0.flows.iter().all(|flow| flow.status != FlowStatus::Completed));
    assert_eq!((goodput(&back_to_0), back_to_0.totals.lossless_drops), (0.0, 0));
    let back_to_n = report(
        "livelock",
        &["nic.transport.recovery=go-back-n", "expect={ outcome = 'completed' }"],
    );
    // 40 Gb/s x 1024 / 1106 = 37.04 Gb/s of payload for 40 ms; each loss costs a round trip of
    // about 1.5 us each 256 frames of 221 ns: 2.6 %
    let share = goodput(&back_to_n) / (37.035 * 40.0);
    assert!((0.95..1.0).contains(&share), "{share}");
    // of the frames that leave the NIC, one in 256
    for report in [&back_to_0, &back_to_n] {
        let sent = report.totals.data_packets;
        let dropped = report.totals.drops["drop_rule"];
        assert!(dropped.abs_diff(sent / 256) <= 1, "{dropped} of {sent}");
    }
}

#[test]
fn a_receiver_that_drains_slowly_holds_its_senders_to_its_rate() {
    let slow = |rate: &str, until: &str| {
        let fault = format!(
            "fault=[{{ kind = 'slow-receiver', nic = 'host1', at = '1ms', until = '{until}', rate = \
             '{rate}' }}]"
        );
        of_text(PAIR, &[&fault])
    };
    // 10 Gb/s of payload, though not always XOFF to XON falls into the window: 256 KiB of 1.25 MB
    let held = goodput(&slow("10Gbps", "3ms"));
    assert!((9.9..10.1).contains(&held), "{held} Gb/s");
    // it hangs: what it had taken in by then was delivered before
    let hung = slow("0bps", "2.9ms");
    let free = goodput(&of_text(PAIR, &[]));
    assert!((97.9..98.1).contains(&free), "{free} Gb/s");
    // and goes on: 1 MiB at most at once, then 0.1 ms of line rate
    let after = goodput(&hung);
    assert!((9.0..19.0).contains(&after), "{after} Gb/s");
    assert_eq!(hung.totals.drops.len(), 0);
    assert!(hung.totals.pfc_xoff_frames > 0 && hung.totals.retransmitted_packets == 0);
}

#[test]
fn a_cable_that_runs_slower_carries_so_much_and_loses_nothing() {
    let at = |link: &str, rate: &str, direction: &str| {
        let fault = format!(
            "fault=[{{ kind = 'rate', link = '{link}', at = '1ms', rate = '{rate}', direction = \
             '{direction}' }}]"
        );
        of_text(PAIR, &[&fault])
    };
    // 4096 B of payload are 4178 B on the wire; 33 Gb/s does not divide a picosecond
    for (rate, gbps) in [("25Gbps", 25.0), ("33Gbps", 33.0)] {
        for link in ["host0/nic0", "leaf0:1", "leaf1:0"] {
            let slower = at(link, rate, "both");
            let share = goodput(&slower) / (gbps * 4096.0 / 4178.0);
            assert!((0.999..1.001).contains(&share), "{link} at {rate}: {share}");
            assert_eq!((slower.totals.drops.len(), slower.totals.retransmitted_packets), (0, 0));
        }
    }
    // the other way only ACKs go
    let other = goodput(&at("leaf0:1", "25Gbps", "rx"));
    assert!((97.9..98.1).contains(&other), "{other} Gb/s");
    // and back at full rate
    let back = "fault=[{ kind = 'rate', link = 'leaf0:1', at = '1ms', until = '1.5ms', rate = \
                '25Gbps' }]";
    let back = goodput(&of_text(PAIR, &[back]));
    assert!((97.9..98.1).contains(&back), "{back} Gb/s");
}

#[test]
fn bit_errors_lose_long_frames() {
    let fault = "fault=[{ kind = 'loss', link = 'leaf0:1', at = '0s', ber = 1e-7 }]";
    let report = of_text(PAIR, &[fault]);
    // 1 - (1 - 1e-7)^(8 x 4158) = 0.3321 %
    let lost = report.totals.drops["corrupt"] as f64;
    let expected = report.totals.data_packets as f64 * 0.003321;
    assert!((lost - expected).abs() < 5.0 * expected.sqrt(), "{lost}, {expected} expected");
}

/// Two pairs of hosts with small frames at a switch.
const SMALL: &str = r#"
[topology]
kind = "star"
hosts = 4
link = { rate = "100Gbps", delay = "100ns" }

[nic]
mtu = 256
[nic.transport]
window = "32KB"

[[traffic]]
kind = "flows"
flows = [
    { source = 0, target = 1, bytes = "unlimited" },
    { source = 2, target = 3, bytes = "unlimited" },
]

[stop]
after = "1.2ms"

[measure]
from = "0.2ms"
"#;

#[test]
fn a_switch_forwards_so_many_frames_and_no_more() {
    let with = |pipeline: &str, more: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scenario.toml"), SMALL).unwrap();
        let pipeline = format!("switch.pipeline={{ packet_rate = '10Mpps', {pipeline} }}");
        let mut arguments = vec!["scenario.toml", "--set", &pipeline];
        more.iter().for_each(|set| arguments.extend(["--set", set]));
        json_report(&arguments, folder.path())
    };
    let gbps = |report: &Value| -> Vec<f64> {
        let flows = report["flows"].as_array().unwrap().iter();
        flows.map(|flow| flow["measured_bytes"].as_f64().unwrap() * 8.0 / 1e6).collect()
    };
    let kinds = |report: &Value| -> Vec<String> {
        let findings = report["findings"].as_array().unwrap().iter();
        findings.map(|finding| finding["kind"].as_str().unwrap().to_owned()).collect()
    };
    // 10 million frames of 256 B are 20.48 Gb/s, and some 3 % of the frames are ACKs; a window of 125
    // frames of 318 B fits the buffer
    let two = with("count = 2", &[]);
    assert!(gbps(&two).iter().all(|rate| (19.5..20.48).contains(rate)), "{:?}", gbps(&two));
    // one pipeline for both pairs
    let one = with("buffer = '1MB'", &[]);
    assert!(gbps(&one).iter().all(|rate| (9.75..10.24).contains(rate)), "{:?}", gbps(&one));
    for report in [&two, &one] {
        assert_eq!(report["totals"]["drops"], serde_json::json!({}));
        assert!(kinds(report).contains(&"packet_rate_limited".to_owned()), "{:?}", kinds(report));
    }
    // without a window what comes at 37 Mpps is dropped, although the class is lossless
    let open = with("count = 2", &["nic.transport.window='1MB'"]);
    let dropped = open["totals"]["drops"]["packet_rate"].as_u64().unwrap();
    assert_eq!(open["totals"]["lossless_drops"], dropped);
    assert!(dropped > 1000, "{dropped}");
}

#[test]
fn a_cable_that_stays_down_ends_a_collective_when_its_retries_are_used_up() {
    let folder = tempfile::tempdir().unwrap();
    let sets = [
        "traffic.allreduce.bytes=256MiB",
        "nccl.IB_TIMEOUT=8",
        "nccl.IB_RETRY_CNT=3",
        "fault=[{ kind = 'link-down', link = 'host1/nic0:0', at = '2ms' }]",
        "expect={ outcome = 'qp_error' }",
    ];
    let mut arguments = vec!["allreduce-4x8-a100"];
    sets.iter().for_each(|set| arguments.extend(["--set", set]));
    let report = json_report(&arguments, folder.path());
    assert_eq!(report["outcome"], "qp_error");
    let findings = report["findings"].as_array().unwrap();
    let error = findings.iter().find(|finding| finding["kind"] == "qp_error").unwrap();
    let number = |key: &str| error["evidence"][key].as_f64().unwrap();
    // (3 + 1) x 4.096 us x 2^8 = 4.194304 ms after the last progress, which was a slice or so before
    // the cable went down
    assert_eq!(number("took_s"), 4.194304e-3);
    let after = number("failed_at_s") - 2e-3;
    assert!((4.1e-3..4.2e-3).contains(&after), "{after} s after the cable went down");
    let words = error["text"].as_str().unwrap();
    let line = "NET/IB : Got completion from peer host";
    assert!(words.contains(line), "{words}");
    assert!(words.contains("status=12") && words.contains("vendor err 129 (Send)"), "{words}");
    assert!(words.contains("hca mlx5_0") && words.contains("link_down"), "{words}");
    let down = findings.iter().find(|finding| finding["kind"] == "link_down").unwrap();
    assert!(down["evidence"]["lost"].as_u64().unwrap() > 0);
    assert!(error["evidence"]["qps"].as_array().unwrap().len() > 1);
}

#[test]
fn faults_are_named_and_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scenario.toml"), PAIR).unwrap();
    let fault = "fault=[{ kind = 'slow-receiver', nic = 'host1/nic0', at = '1ms', rate = '5Gbps' }, \
                 { kind = 'rate', link = 'leaf0:1', at = '1ms', until = '2ms', rate = '50Gbps' }]";
    let report = json_report(&["scenario.toml", "--set", fault], folder.path());
    let findings = report["findings"].as_array().unwrap();
    let kinds: Vec<&str> = findings.iter().map(|f| f["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"slow_receiver") && kinds.contains(&"degraded_link"), "{kinds:?}");
    // which is not found a second time without its cause
    assert!(!kinds.contains(&"receiver_limited"), "{kinds:?}");
    for (fault, message) in [
        ("kind = 'rate', link = 'leaf0:11', at = '0s', rate = '1Gbps'", "did you mean `leaf0:1`?"),
        ("kind = 'rate', link = 'leaf0:1', at = '0s', rate = '200Gbps'", "fault[0].rate: 200 Gbps"),
        (
            "kind = 'slow-receiver', nic = 'hots1', at = '0s', rate = '1Gbps'",
            "did you mean `host1`?",
        ),
        ("kind = 'slow-receiver', nic = 'leaf0', at = '0s', rate = '1Gbps'", "there is no NIC"),
        ("kind = 'loss', link = 'leaf0:1', at = '0s'", "one of `loss`, `ber` and `rule`"),
        (
            "kind = 'loss', link = 'leaf0:1', at = '0s', ber = 2.0",
            "fault[0].ber: 2 is out of range",
        ),
        (
            "kind = 'loss', link = 'leaf0:1', at = '0s', rule = { ip_id_low_byte = 255 }",
            "leaf0:1 is no cable of a host",
        ),
    ] {
        let set = format!("fault=[{{ {fault} }}]");
        let output = rocesim(&["run", "scenario.toml", "--set", &set], folder.path());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{fault}: {said}");
        assert!(said.contains(message), "{said}");
    }
}

/// Four senders that fill a buffer, from 1 us on.
const FULL: &str = r#"
[topology]
kind = "star"
hosts = 5
link = { rate = "100Gbps", delay = "1us" }

[switch.buffer]
size = "4MB"
[nic.congestion]
algorithm = "dcqcn"

[[traffic]]
kind = "incast"
senders = "0..4"
receiver = 4
bytes = "10MB"
start = "1us"
"#;

#[test]
fn settings_of_the_first_instant_are_those_of_the_scenario() {
    let ecn = "{ kmin = '20KB', kmax = '80KB', pmax = 0.3 }";
    let settings = [
        ("switch.ecn.3", ecn),
        ("switch.buffer.lossless.dynamic_th", "-7"),
        ("switch.buffer.lossless.static_th", "'50KB'"),
        ("switch.qos.dscp_to_tc", "{ 26 = 0, 48 = 6 }"),
        ("nic.qos.dscp_to_priority", "{ 26 = 2, 48 = 6 }"),
        ("nic.pfc.priorities", "[2]"),
    ];
    let plain = of_text(FULL, &[]);
    for (key, value) in settings {
        let fixed = of_text(FULL, &[&format!("{key}={value}")]);
        let fault = format!("fault=[{{ kind = 'set', at = '0s', set = {{ '{key}' = {value} }} }}]");
        let later = of_text(FULL, &[&fault]);
        assert_eq!(fixed.fingerprint, later.fingerprint, "{key}");
        assert_ne!(fixed.fingerprint, plain.fingerprint, "{key} changes something");
        // and after the run has ended, nothing
        let after = fault.replace("'0s'", "'100ms'");
        assert_eq!(of_text(FULL, &[&after]).fingerprint, plain.fingerprint, "{key}");
    }
}

#[test]
fn settings_hold_for_as_long_as_they_are_to() {
    let set = |key: &str, value: &str| {
        format!(
            "fault=[{{ kind = 'set', nodes = ['sw0'], at = '1ms', until = '2ms', set = {{ '{key}' = \
             {value} }} }}]"
        )
    };
    let base = ["nic.congestion.algorithm=none", "traffic[0].bytes=50MB"];
    // everything is marked for 1 ms: 4096 B of payload take 334.24 ns, 2992 frames
    let marked = set("switch.ecn.3", "{ kmin = '1B', kmax = '2B', pmax = 1.0 }");
    let marked = of_text(FULL, &[base[0], base[1], &marked]);
    assert!(marked.totals.ecn_marked_packets.abs_diff(2992) <= 2, "{:?}", marked.totals);
    // without PFC frames are dropped for that time, and it is no lossless class then
    let off = of_text(FULL, &[base[0], base[1], &set("switch.pfc.priorities", "[]")]);
    assert!(off.totals.drops["ingress_headroom_full"] > 0, "{:?}", off.totals);
    // but when it is back, headroom is full: four senders have a round trip of 2.7 us, 8 frames
    // each, on the way
    assert!(off.totals.lossless_drops <= 32, "{:?}", off.totals);
    assert_eq!(off.outcome, OutcomeKind::Completed);
    let on = of_text(FULL, &base);
    assert!(on.totals.drops.is_empty());
    assert!(on.totals.pfc_xoff_frames > 0 && off.totals.pfc_xoff_frames > 0);
}

#[test]
fn what_cannot_change_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scenario.toml"), FULL).unwrap();
    for (fault, message) in [
        (
            "set = { 'switch.buffer.size' = '8MB' }",
            "does not change while it runs; what can: switch",
        ),
        ("set = { 'nic.mtu' = 1024 }", "what can: nic.qos.dscp_to_priority and nic.pfc.priorities"),
        ("set = { 'switch.pfc.priorities' = [3, 4] }", "priority 4 has no headroom"),
        ("set = { 'switch.ecn.3.kmim' = '1KB' }", "did you mean `kmin`?"),
        ("set = { 'host.gpus' = 1 }", "a fault sets keys of `switch` or `nic`"),
        (
            "nodes = ['sw1'], set = { 'switch.ecn' = {} }",
            "there is no node `sw1`; did you mean `sw0`?",
        ),
    ] {
        let set = format!("fault=[{{ kind = 'set', at = '1us', {fault} }}]");
        let output = rocesim(&["run", "scenario.toml", "--set", &set], folder.path());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{fault}: {said}");
        assert!(said.contains(message), "{said}");
    }
}
