//! `rocesim check`: what is wrong with deliberately broken scenarios, and nothing with others.

mod common;

use std::path::Path;

use common::{rocesim, text};
use serde_json::Value;

/// Two tiers, one class, DCQCN: nothing is wrong with it.
const HEALTHY: &str = r#"[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
link = { rate = "100Gbps", delay = "200ns" }
uplink = { rate = "400Gbps", delay = "1us" }

[nic]
preset = "connectx-6-dx"

[switch.ecn.3]
kmin = "100KB"
kmax = "400KB"
pmax = 0.2

[[traffic]]
kind = "flows"
flows = [{ source = 0, target = 4, bytes = "1MB" }, { source = 1, target = 5, bytes = "1MB" }]
"#;

/// The notes on a scenario above `info`, or all of them, and the exit code.
fn notes(scenario: &str, folder: &Path, all: bool) -> (Vec<Value>, i32) {
    std::fs::write(folder.join("s.toml"), scenario).unwrap();
    let output = rocesim(&["check", "s.toml", "--json"], folder);
    assert!(output.stderr.is_empty(), "{scenario}\n{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let notes = json["notes"].as_array().unwrap().iter();
    let notes = notes.filter(|note| all || note["severity"] != "info").cloned().collect();
    (notes, output.status.code().unwrap())
}

/// The number of the line that begins so.
fn line(scenario: &str, begins: &str) -> usize {
    scenario.lines().position(|line| line.starts_with(begins)).unwrap() + 1
}

/// A change of the healthy scenario, and what must be said of it.
struct Case {
    /// Replaced,
    from: &'static str,
    /// by this.
    to: &'static str,
    severity: &'static str,
    key: &'static str,
    /// How the line begins at which the key was set; empty for one that is a default.
    at: &'static str,
    /// Part of the text: the consequence.
    says: &'static str,
}

const CASES: &[Case] = &[
    // the two ends of a cable
    Case {
        from: "[[traffic]]",
        to: "[[override]]\nnodes = [\"spine1\"]\nset = { \"switch.pfc.priorities\" = [3, 4] }\n[[traffic]]",
        severity: "warning",
        key: "switch.pfc.priorities",
        at: "set = {",
        says: "spine1:0 sends XOFF for priority 4, leaf0:5 does not obey it",
    },
    Case {
        from: "[nic]",
        to: "[nic.pfc]\npriorities = [4]\n[nic]",
        severity: "error",
        key: "nic.qos.dscp_to_priority",
        at: "",
        says: "which does not obey PFC: headroom will overflow",
    },
    // lossless DSCP, lossy group or queue
    Case {
        from: "[[traffic]]",
        to: "[switch.qos.dscp_to_tc]\n26 = 1\n[[traffic]]",
        severity: "error",
        key: "switch.qos.dscp_to_tc",
        at: "[switch.qos.dscp_to_tc]",
        says: "but lossy priority group 1 at leaf0:0: it will be dropped under congestion",
    },
    Case {
        from: "[[traffic]]",
        to: "[switch.qos.tc_to_queue]\n3 = 1\n[[traffic]]",
        severity: "error",
        key: "switch.qos.tc_to_queue",
        at: "[switch.qos.tc_to_queue]",
        says: "in lossless priority group 3 and in queue 1, which PFC of priority 3 does not stop",
    },
    // one switch in the middle has another map
    Case {
        from: "[[traffic]]",
        to: "[[override]]\nnodes = [\"spine0\"]\nset = { \"switch.qos.dscp_to_tc.26\" = 0 }\n[[traffic]]",
        severity: "error",
        key: "switch.qos.dscp_to_tc",
        at: "set = {",
        says: "is lossless (group 3) at leaf0:4 but in lossy priority group 0 at spine0:0",
    },
    // ECN
    Case {
        from: "[switch.ecn.3]",
        to: "[switch.ecn.0]",
        severity: "warning",
        key: "switch.ecn",
        at: "[switch.ecn.0]",
        says: "ECN thresholds are set for queue 0, but data with DSCP 26 is in queue 3",
    },
    Case {
        from: "pmax = 0.2",
        to: "pmax = 0.0",
        severity: "warning",
        key: "switch.ecn.3.pmax",
        at: "pmax",
        says: "marks nothing between them: all marks begin at kmax (400 KB)",
    },
    Case {
        from: "kmax = \"400KB\"",
        to: "kmax = \"30MB\"",
        severity: "warning",
        key: "switch.ecn.3.kmax",
        at: "kmax",
        says: "kmax of queue 3 (30 MB) is not below XOFF of one sender alone (",
    },
    Case {
        from: "kmin = \"100KB\"\nkmax = \"400KB\"",
        to: "kmin = \"20MB\"\nkmax = \"30MB\"",
        severity: "warning",
        key: "switch.ecn.3.kmin",
        at: "kmin",
        says: "alpha 1/8, alpha/(1 + alpha) of ",
    },
    Case {
        from: "[nic]",
        to: "[nic.qos]\ncnp_dscp = 44\n[nic]",
        severity: "warning",
        key: "switch.qos.dscp_to_tc",
        at: "",
        says: "CNPs (DSCP 44) are in queue 0 with everything unclassified",
    },
    Case {
        from: "[nic]",
        to: "[nic.congestion]\nalgorithm = \"dcqcn\"\npriorities = [3, 4]\n[nic]",
        severity: "warning",
        key: "nic.congestion.priorities",
        at: "priorities",
        says: "DCQCN runs in priority 4 too, where PFC is off (it is on in 3)",
    },
    Case {
        from: "[nic]",
        to: "[nic.congestion]\nalgorithm = \"dcqcn\"\npriorities = [4]\n[nic.pfc]\npriorities = [3]\n[nic]",
        severity: "warning",
        key: "nic.congestion.priorities",
        at: "priorities = [4]",
        says: "is priority 3, but DCQCN runs in 4 only: marks slow nobody",
    },
    // buffer
    Case {
        from: "[[traffic]]",
        to: "[switch.pfc]\nheadroom = \"30KB\"\n[[traffic]]",
        severity: "warning",
        key: "switch.pfc.headroom",
        at: "headroom",
        says: "headroom is 30 KB at leaf0:0 (100 Gbps, 40 m of cable)",
    },
    Case {
        from: "[[traffic]]",
        to: "[switch.buffer.pools.ingress]\nxoff = \"100KB\"\n[[traffic]]",
        severity: "warning",
        key: "switch.buffer.pools.ingress.xoff",
        at: "xoff",
        says: "their pool has 100 KB: it cannot hold even one",
    },
    Case {
        from: "[[traffic]]",
        to: "[[override]]\nnodes = [\"host4\"]\nset = { \"nic.mtu\" = 1024 }\n[[traffic]]",
        severity: "warning",
        key: "nic.mtu",
        at: "",
        says: "host0 sends packets of 4096 B of payload to host4, whose MTU is 1024",
    },
    // watchdogs
    Case {
        from: "[[traffic]]",
        to: "[stop]\nstall = \"10s\"\n[switch.pfc_wd]\ndetection_time = \"400ms\"\nrestoration_time = \"400ms\"\n[[traffic]]",
        severity: "warning",
        key: "switch.pfc_wd.detection_time",
        at: "detection_time",
        says: "take 800 ms, but a QP gives up after 536.871 ms (4.096us x 2^14 x 8)",
    },
    Case {
        from: "[[traffic]]",
        to: "[stop]\nstall = \"10s\"\n[switch.pfc_wd]\ndetection_time = \"100ms\"\n[[traffic]]",
        severity: "warning",
        key: "switch.pfc_wd.detection_time",
        at: "detection_time",
        says: "below poll_interval (200 ms): a storm is found after 200 ms at the earliest",
    },
    Case {
        from: "[[traffic]]",
        to: "[switch.pfc_wd]\n[[traffic]]",
        severity: "warning",
        key: "stop.stall",
        at: "",
        says: "counts as deadlocked after 100 ms",
    },
    Case {
        from: "[[traffic]]",
        to: "[switch.pfc_wd]\ndetection_time = \"1ms\"\nrestoration_time = \"50us\"\npoll_interval = \"50us\"\n[[traffic]]",
        severity: "warning",
        key: "switch.pfc_wd.restoration_time",
        at: "restoration_time",
        says: "the queue is restored while the storm lasts",
    },
];

#[test]
fn each_fault_is_found_with_its_key_its_place_and_its_consequence() {
    let folder = tempfile::tempdir().unwrap();
    let (none, code) = notes(HEALTHY, folder.path(), false);
    assert_eq!((none, code), (vec![], 0));
    for Case { from, to, severity, key, at, says } in CASES {
        let scenario = HEALTHY.replacen(from, to, 1);
        assert_ne!(scenario, HEALTHY, "{from}");
        let (found, code) = notes(&scenario, folder.path(), false);
        let said = |note: &&Value| {
            note["key"] == *key && note["text"].as_str().is_some_and(|text| text.contains(says))
        };
        let Some(note) = found.iter().find(said) else {
            panic!("{to}\nlacks {key}: {says}\n{found:#?}");
        };
        assert_eq!(note["severity"], *severity, "{to}");
        let written = note["written"].as_str().unwrap();
        if !at.is_empty() {
            assert_eq!(written, format!("s.toml:{}", line(&scenario, at)), "{to}");
        }
        let errors = found.iter().any(|note| note["severity"] == "error");
        assert_eq!(code, i32::from(errors), "{to}");
    }
}

#[test]
fn short_headroom_comes_with_its_terms() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = HEALTHY.replace("[nic]", "[switch.pfc]\nheadroom = \"30KB\"\n[nic]");
    std::fs::write(folder.path().join("s.toml"), scenario).unwrap();
    let output = text(&rocesim(&["check", "s.toml"], folder.path()).stdout);
    // 2 x 200 ns and 2 x 1 us at 100 and 400 Gb/s; frames of 4174 B and 20 B of preamble and gap
    for term in
        ["4.194 KB  the largest frame being sent", "5 KB  on the cable", "100 KB  on the cable"]
    {
        assert!(output.contains(term), "{term}\n{output}");
    }
    for column in ["needed", "headroom", "margin", "40 m", "200 m"] {
        assert!(output.contains(column), "{column}\n{output}");
    }
    assert!(output.lines().filter(|line| line.starts_with("  leaf")).all(|l| l.len() < 100));
    // verbose tells the same of ports that have enough
    std::fs::write(folder.path().join("s.toml"), HEALTHY).unwrap();
    let quiet = text(&rocesim(&["check", "s.toml"], folder.path()).stdout);
    let verbose = text(&rocesim(&["check", "s.toml", "-v"], folder.path()).stdout);
    let terms = "on the cable, there and back";
    assert!(!quiet.contains(terms) && verbose.contains(terms), "{verbose}");
}

#[test]
fn hashes_collide_as_balls_do_and_tiers_must_differ() {
    let folder = tempfile::tempdir().unwrap();
    let flows: Vec<String> = (0..8)
        .map(|n| format!("{{ source = {n}, target = {}, bytes = \"1MB\" }}", n + 8))
        .collect();
    let wide = format!(
        "[topology]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 8\nhosts_per_leaf = 8\n\
         link = {{ rate = \"100Gbps\", delay = \"1us\" }}\n\
         [[traffic]]\nkind = \"flows\"\nflows = [{}]\n",
        flows.join(", ")
    );
    let (found, _) = notes(&wide, folder.path(), true);
    // 8 over 8: 0.413, with 4 QPs each 0.584, with 32 0.797
    let says = "8 QPs of 8 ports go over 8 links of leaf0; hashed at random, the busiest link lets \
                41 % of the rate through on average (58 % with 4 times as many QPs, 80 % with 32";
    let text = found.iter().find(|note| note["key"] == "switch.ecmp").map(|n| n["text"].clone());
    assert!(text.as_ref().is_some_and(|t| t.as_str().unwrap().contains(says)), "{text:?}");

    let tiers = "[topology]\nkind = \"fat-tree\"\nk = 4\n\
                 link = { rate = \"100Gbps\", delay = \"1us\" }\n\
                 [switch.ecmp]\nseed = 7\n\
                 [[traffic]]\nkind = \"permutation\"\nbytes = \"1MB\"\n";
    let (found, code) = notes(tiers, folder.path(), false);
    assert_eq!(code, 0);
    let [note] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((&note["key"], &note["written"]), (&"switch.ecmp.seed".into(), &"s.toml:6".into()));
    assert!(note["text"].as_str().unwrap().contains("the upper one uses only some of its links"));
    assert_eq!(notes(&tiers.replace("7", "\"node\""), folder.path(), false).0, Vec::<Value>::new());

    let narrow = HEALTHY.replace("400Gbps", "100Gbps");
    let (found, _) = notes(&narrow, folder.path(), true);
    let oversubscribed =
        |n: &Value| n["text"].as_str().unwrap().contains("oversubscribed 2.00 to 1");
    assert!(found.iter().any(oversubscribed), "{found:#?}");
}

#[test]
fn nothing_is_wrong_with_the_library_but_what_is_meant_to_be() {
    use scenarios::library::{Kind, names};
    let folder = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for name in [names(Kind::Scenario), names(Kind::Paper)].concat() {
        let output = rocesim(&["check", name, "--json"], folder.path());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        for note in json["notes"].as_array().unwrap() {
            if note["severity"] != "info" {
                found.push((name, note["key"].as_str().unwrap().to_owned()));
            }
        }
    }
    let meant = [
        ("allreduce-4x8-a100-congested", "switch.ecn.3.kmin"),
        ("deadlock-loop", "topology.routes"),
        ("deadlock-loop", "topology"),
        ("deadlock-ring", "topology"),
        // one each way around
        ("tagger-bounce", "topology"),
        ("tagger-bounce", "topology"),
        ("spray-recovery", "switch.load_balance"),
    ];
    assert_eq!(found, meant.map(|(name, key)| (name, key.to_owned())));
}

#[test]
fn collisions_are_those_of_the_table() {
    let Some(table) = common::reference("analytic/ecmp_balls_bins.tsv") else { return };
    let table = std::fs::read_to_string(table).unwrap();
    let mut rows = 0;
    for row in table.lines().skip(1) {
        let fields: Vec<f64> = row.split('\t').map(|field| field.parse().unwrap()).collect();
        let [connections, links, qps, expected, ..] = fields[..] else { panic!("{row}") };
        let loads = vec![1.0 / qps; (connections * qps) as usize];
        let found = scenarios::check::efficiency(&loads, links as usize);
        // both are drawn
        assert!((found - expected).abs() < 0.015, "{row}: {found}");
        rows += 1;
    }
    assert!(rows > 10);
}
