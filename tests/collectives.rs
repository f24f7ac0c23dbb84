//! The main job: an AllReduce on a described cluster, and the table that nccl-tests prints.

mod common;

use std::collections::BTreeMap;

use common::{json_report, rocesim, say, text};
use models::fabric::Role;
use scenarios::resolve::{self, LoadOptions};
use scenarios::simulate;
use serde_json::Value;

const CLUSTER: &str = "allreduce-4x8-a100";

/// Payload share of a full packet at this MTU: 82 B of headers, preamble and gap.
fn payload(mtu: f64) -> f64 {
    mtu / (mtu + 82.0)
}

#[test]
fn one_key_changes_busbw_as_it_should() {
    // two ports of 12.5 GB/s; a GPU writes 9 GB/s to host memory
    let (both, one) = (25.0 * payload(4096.0), 12.5 * payload(4096.0));
    let cases: [(&str, &str, [f64; 2]); 9] = [
        ("two merged ports", "host.nic.mode=merged", [0.98 * both, both]),
        ("one port", "nccl.IB_HCA=mlx5_0", [0.98 * one, one]),
        ("two rails", "host.nic.mode=rails", [0.98 * both, both]),
        // both QPs of some edge hash to one port, and every ring waits for its slowest edge
        ("bond, two QPs hashed", "host.nic.mode=bond", [0.98 * one, one]),
        (
            "bond, QPs take turns",
            "host.nics=[{mode=\"bond\", lag_port_select_mode=\"queue_affinity\", affinity=[0, 1]}]",
            [0.98 * both, both],
        ),
        ("4 QPs on one path", "nccl.IB_QPS_PER_CONNECTION=4", [0.98 * both, both]),
        ("GDR off", "host.gdr=false", [0.93 * 9.0, 9.0]),
        ("MTU 1024", "nic.mtu=1024", [0.98 * 25.0 * payload(1024.0), 25.0 * payload(1024.0)]),
        ("PCIe Gen3", "host.nic.pcie.rate=101Gbps", [0.9 * 12.625, 12.625]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for (name, set, [above, below]) in cases {
        let expect =
            format!("expect={{\"collectives.busbw_min\"={{above={above}, below={below}}}}}");
        let bytes = "traffic.allreduce.bytes=256MiB";
        let sets = ["--set", bytes, "--set", set, "--set", &expect];
        let output = rocesim(&[&["run", CLUSTER, "--no-out"][..], &sets].concat(), folder.path());
        let printed = text(&output.stdout);
        let row = printed.lines().find(|line| line.starts_with(' ')).unwrap_or("");
        let busbw = row.split_whitespace().nth(7).unwrap_or("?");
        lines += &format!("  {name:<22} {busbw:>6} GB/s, {above:.2} to {below:.2} expected\n");
        assert_eq!(output.status.code(), Some(0), "{name}: {printed}{}", text(&output.stderr));
    }
    say(&format!("AllReduce of 256 MiB, one key changed:\n{lines}"));
}

/// Share of its ports that an edge between servers uses, over all edges.
fn ports_used(qps: u32, seed: u64) -> Vec<f64> {
    let set = [
        "host.nic.mode=bond",
        "nic.entropy=random",
        "traffic.allreduce.bytes=256MiB",
        &format!("nccl.MAX_NCHANNELS={qps}"),
    ];
    let set = set.map(str::to_owned).to_vec();
    let loaded =
        resolve::load(CLUSTER, &LoadOptions { set, seed: Some(seed), ..LoadOptions::default() })
            .unwrap();
    let plan = simulate::plan(&loaded, 1).unwrap();
    let mut edges: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for qp in &plan.wiring.qps {
        if let Role::Data { .. } = qp.role {
            edges.entry((qp.source, qp.target)).or_default().push(qp.source_port);
        }
    }
    let share = |mut ports: Vec<u32>| {
        ports.sort_unstable();
        ports.dedup();
        ports.len() as f64 / 2.0
    };
    edges.into_values().map(share).collect()
}

#[test]
fn hashed_qps_of_a_bond_use_the_expected_share_of_its_ports() {
    // Q QPs use both of two ports with probability 1 - 2^(1-Q): 0.5 for one QP, 0.75 for two
    for (qps, expected) in [(1, 0.5), (2, 0.75)] {
        let shares: Vec<f64> = (1..=200).flat_map(|seed| ports_used(qps, seed)).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        say(&format!("bond, {qps} QPs: {mean:.3} of its ports are used, {expected} expected"));
        // 800 edges: three standard deviations are 0.027
        assert!((mean - expected).abs() < 0.027, "{qps}: {mean}");
    }
}

fn busbw(report: &Value) -> f64 {
    let collectives = report["collectives"].as_array().unwrap();
    collectives.last().unwrap()["busbw_gbytes_per_s"].as_f64().unwrap()
}

#[test]
fn the_first_remedy_brings_what_it_promised() {
    let folder = tempfile::tempdir().unwrap();
    let name = "allreduce-4x8-a100-congested";
    let report = json_report(&[name], folder.path());
    let findings = report["findings"].as_array().unwrap();
    let kinds: Vec<&str> = findings.iter().map(|f| f["kind"].as_str().unwrap()).collect();
    for kind in ["ecn_after_pfc", "paused_by_others", "ecmp_imbalance"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    check_against_counters(&report, findings);
    let first = &findings[0];
    let promised = first["promised_busbw_gbytes_per_s"].as_f64().unwrap();
    let mut arguments = vec![name.to_owned()];
    for set in first["set"].as_array().unwrap() {
        arguments.extend(["--set".to_owned(), set.as_str().unwrap().to_owned()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let cured = json_report(&arguments, folder.path());
    let (before, after) = (busbw(&report), busbw(&cured));
    say(&format!("{}: busbw {before:.2} -> {after:.2} GB/s, {promised:.2} promised", kinds[0]));
    assert!(after > 1.1 * before, "{before} {after}");
    assert!((after - promised).abs() < 0.2 * promised, "{after} {promised}");
}

/// What the findings say is what the counters say.
fn check_against_counters(report: &Value, findings: &[Value]) {
    let find = |kind: &str| findings.iter().find(|f| f["kind"] == kind).unwrap();
    let ports = report["ports"].as_array().unwrap();
    let port = |name: &Value| ports.iter().find(|port| port["port"] == *name).unwrap();
    let totals = &report["totals"];
    assert_eq!(totals["ecn_marked_packets"], 0);
    let xoff = &find("ecn_after_pfc")["evidence"]["pfc_xoff_frames"];
    assert!(xoff.as_u64().unwrap() > 1000 && *xoff == totals["pfc_xoff_frames"]);
    let victim = &find("paused_by_others")["evidence"];
    let paused = port(&victim["victim"])["paused_s"].as_f64().unwrap();
    let share = paused / report["simulated_time_s"].as_f64().unwrap();
    assert!((share - victim["paused_share"].as_f64().unwrap()).abs() < 1e-9 && share > 0.1);
    // the root is the client's link, which is full and not paused itself
    let root = port(&victim["root"]);
    assert!(root["peer"].as_str().unwrap().starts_with("host3/"), "{root}");
    let collision = &find("ecmp_imbalance")["evidence"];
    let hot = port(&collision["port"])["tx_bytes"].as_f64().unwrap();
    let ratio = hot / collision["mean_tx_bytes"].as_f64().unwrap();
    assert!((ratio - collision["max_over_mean"].as_f64().unwrap()).abs() < 1e-9 && ratio > 1.3);
}

#[test]
fn one_slow_slot_slows_the_whole_ring_and_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let slow = "override=[{ nodes = [\"host2\"], set = { \"host.nic.pcie.rate\" = \"101Gbps\" } }]";
    let bytes = "traffic.allreduce.bytes=256MiB";
    let report = json_report(&[CLUSTER, "--set", bytes, "--set", slow], folder.path());
    // 101 Gb/s of payload is 12.6 GB/s
    let slowed = busbw(&report);
    assert!((11.4..=12.63).contains(&slowed), "{slowed}");
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["kind"] == "pcie_limited").unwrap();
    assert!(found["text"].as_str().unwrap().contains("host2"), "{found}");
}

#[test]
fn the_table_is_that_of_nccl_tests() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = "traffic.allreduce.bytes={ from = \"32MiB\", to = \"128MiB\" }";
    let output = rocesim(&["run", CLUSTER, "--no-out", "--set", bytes], folder.path());
    let run = text(&output.stdout);
    let flags = ["-b", "32M", "-e", "128M", "-f", "2", "-z", "1"];
    let test =
        rocesim(&[&["nccl-test", "all_reduce", CLUSTER][..], &flags].concat(), folder.path());
    assert!(text(&test.stderr).contains("-z (blocking) has no meaning"), "{}", text(&test.stderr));
    let rows = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(rows(&text(&test.stdout)), rows(&run));
    let mut busbw = Vec::new();
    for (row, mib) in rows(&run).iter().zip([32, 64, 128]) {
        let fields: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(fields.len(), 13, "{row}");
        assert_eq!(fields[0], (mib << 20).to_string());
        let number = |index: usize| fields[index].parse::<f64>().unwrap();
        // 2 x 31 / 32, from numbers of two decimals
        assert!((number(7) / number(6) - 1.9375).abs() < 0.002, "{row}");
        busbw.extend([number(7), number(11)]);
    }
    assert_eq!(busbw.len(), 6);
    let stated = run.split("# Avg bus bandwidth    : ").nth(1).unwrap();
    let stated: f64 = stated.split_whitespace().next().unwrap().parse().unwrap();
    assert!((stated - busbw.iter().sum::<f64>() / 6.0).abs() < 0.01);
    let ranks = run.lines().filter(|line| line.starts_with("#  Rank "));
    assert_eq!(ranks.count(), 32);
}

#[test]
fn a_sweep_gives_the_same_report_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = "traffic.allreduce.bytes={ from = \"1MiB\", to = \"16MiB\", factor = 4 }";
    let report = |threads: &str, bytes: &str| {
        json_report(&[CLUSTER, "--set", bytes, "--threads", threads], folder.path())
    };
    let alone = report("1", bytes);
    assert_eq!(alone["collectives"].as_array().unwrap().len(), 3);
    // sizes side by side, and shards of one size
    assert!(report("3", bytes) == alone);
    let one = "traffic.allreduce.bytes=16MiB";
    assert!(report("2", one) == report("1", one));
}

#[test]
fn two_jobs_share_a_fabric() {
    let folder = tempfile::tempdir().unwrap();
    let half = |name: &str, hosts: &str| {
        format!(
            "{{ name = \"{name}\", kind = \"collective\", op = \"all_reduce\", hosts = {hosts}, \
                 bytes = \"64MiB\" }}"
        )
    };
    let jobs = format!("traffic=[{}, {}]", half("a", "[0, 1]"), half("b", "[2, 3]"));
    let report = json_report(&[CLUSTER, "--set", &jobs], folder.path());
    let alone = format!("traffic=[{}]", half("a", "[0, 1]"));
    let alone = json_report(&[CLUSTER, "--set", &alone], folder.path());
    let of =
        |report: &Value, index: usize| report["collectives"][index]["time_s"].as_f64().unwrap();
    // on different servers below one switch they do not meet
    assert_eq!(of(&report, 0), of(&alone, 0));
    assert_eq!(report["collectives"][1]["ranks"], 16);
}

/// Eight servers of one GPU on two leaves, next to each other on the other one.
const TWO_LEAVES: &str = r#"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 4
hosts_per_leaf = 4
link = { rate = "100Gbps", delay = "50ns" }

[host]
gpus = 1

[nccl]
IB_TC = 106
MAX_NCHANNELS = 2

[[traffic]]
name = "job"
kind = "collective"
op = "all_reduce"
algorithm = "halving-doubling"
hosts = [0, 4, 1, 5, 2, 6, 3, 7]
bytes = "8MiB"
"#;

#[test]
fn exchanges_go_by_hash_or_are_sprayed_and_nics_take_it_or_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("two.toml"), TWO_LEAVES).unwrap();
    let run = |sets: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        json_report(&[&["two.toml", "--no-out"][..], &sets].concat(), folder.path())
    };
    let count = |report: &Value, key: &str| report["totals"][key].as_u64().unwrap();
    let finds = |report: &Value, kind: &str| {
        report["findings"].as_array().unwrap().iter().any(|finding| finding["kind"] == kind)
    };
    let hashed = run(&[]);
    let job = &hashed["collectives"][0];
    assert_eq!((&job["algorithm"], &job["ranks"]), (&"HalvingDoubling".into(), &8.into()));
    assert_eq!(count(&hashed, "reordered_packets"), 0);
    let spray = "switch.load_balance=spray";
    let placed = run(&[spray, "nic.transport.ooo_data_placement=true"]);
    assert!(count(&placed, "reordered_packets") > 0);
    assert_eq!((count(&placed, "nak_sent"), count(&placed, "retransmitted_packets")), (0, 0));
    let strict = run(&[spray]);
    assert!(count(&strict, "nak_sent") > 0 && count(&strict, "retransmitted_packets") > 0);
    assert!(finds(&strict, "sprayed_out_of_order") && !finds(&placed, "sprayed_out_of_order"));
    let busbw = |report: &Value| report["collectives"][0]["busbw_gbytes_per_s"].as_f64().unwrap();
    let [hashed, placed, strict] = [&hashed, &placed, &strict].map(busbw);
    say(&format!(
        "halving-doubling over two leaves, busbw: ECMP {hashed:.2}, spray {placed:.2}, \
                  spray without data placement {strict:.2} GB/s"
    ));
    assert!(strict < 0.7 * placed && hashed < placed);
}

#[test]
fn an_all_to_all_prints_its_part_for_each_rank() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = TWO_LEAVES.replace("algorithm = \"halving-doubling\"\n", "");
    std::fs::write(folder.path().join("two.toml"), scenario).unwrap();
    let output =
        rocesim(&["nccl-test", "alltoall_perf", "two.toml", "-b", "1M", "-e", "1M"], folder.path());
    let printed = text(&output.stdout);
    let row = printed.lines().find(|line| line.starts_with(' ')).unwrap_or("");
    // 1 MiB in 8 parts of 32,768 floats
    let fields: Vec<&str> = row.split_whitespace().take(5).collect();
    assert_eq!(fields, ["1048576", "32768", "float", "none", "-1"], "{printed}");
}
