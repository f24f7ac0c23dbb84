//! Counters of an operator and settings of a NIC, as a user hands them over. The files are written
//! for these tests.

mod common;

use std::path::Path;

use common::{json_report, rocesim, text};
use serde_json::Value;

/// `show pfc counters`: Ethernet8 is paused by its host, and the switch passes it on.
const PFC: &str = "\
  Port Rx    PFC0    PFC1    PFC2       PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ---------  ------  ------  ------  ------
Ethernet0       0       0       0          0       0       0       0       0
Ethernet8       0       0       0  1,234,567       0       0       0       0

  Port Tx    PFC0    PFC1    PFC2     PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  -------  ------  ------  ------  ------
Ethernet0       0       0       0   81,920       0       0       0       0
Ethernet8     N/A     N/A     N/A      N/A     N/A     N/A     N/A     N/A
";

const QUEUES: &str = "\
     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes
---------  -----  --------------  ---------------  -----------  ------------
Ethernet8    UC0             120           12,345            0             0
Ethernet8    UC3     987,654,321    4,108,641,975           42       175,644
Ethernet8   MC10               0              N/A          N/A           N/A

      QUEUE       STATUS    STORM DETECTED/RESTORED    TX OK/DROP    RX OK/DROP
-----------  -----------  -------------------------  ------------  ------------
Ethernet8:3  operational                      170/170   1,000/2,000           5/7
";

/// Of the host behind Ethernet8: it takes data too slowly.
const ETHTOOL: &str = "\
NIC statistics:
     rx_packets: 1000
     rx0_packets: 10
     tx_prio3_pause: 1234567
     rx_prio3_pause: 0
     rx_prio3_discards: 0
     rx_discards_phy: 0
     rx_buffer_passed_thres_phy: 4321
     link_down_events_phy: 1
     rx_vport_rdma_unicast_bytes: 5000000
     rx_prio3_bytes: 5000000
";

const RDMA: &str = r#"[{"ifindex":2,"ifname":"mlx5_0","port":1,"out_of_sequence":17,
"packet_seq_err":0,"local_ack_timeout_err":0,"np_ecn_marked_roce_packets":0,"np_cnp_sent":0,
"rp_cnp_handled":0,"rp_cnp_ignored":0,"duplicate_request":0,"out_of_buffer":0,
"roce_adp_retrans":0,"rx_icrc_encapsulated":0}]"#;

fn write(folder: &Path, files: &[(&str, &str)]) {
    files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
}

/// Kinds of findings, and the exit code.
fn measure(folder: &Path, arguments: &[&str]) -> (Vec<String>, i32) {
    let output = rocesim(&[&["measured", "--json"], arguments].concat(), folder);
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let symptoms = found["symptoms"].as_array().unwrap();
    let kinds = symptoms.iter().map(|symptom| symptom["kind"].as_str().unwrap().to_owned());
    (kinds.collect(), output.status.code().unwrap())
}

#[test]
fn counters_of_a_slow_receiver_point_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let files =
        [("pfc.txt", PFC), ("queues.txt", QUEUES), ("eth2.txt", ETHTOOL), ("rdma.json", RDMA)];
    write(folder.path(), &files);
    let (kinds, code) = measure(folder.path(), &["pfc.txt", "queues.txt", "eth2.txt", "rdma.json"]);
    let expected = [
        "pause_storm",
        "lossless_drops",
        "receiver_limited",
        "paused_from_outside",
        "out_of_sequence",
    ];
    assert_eq!((kinds.as_slice(), code), (expected.map(String::from).as_slice(), 1));

    let output = rocesim(&["measured", "pfc.txt", "queues.txt", "eth2.txt"], folder.path());
    insta::assert_snapshot!("slow_receiver", text(&output.stdout));
}

#[test]
fn healthy_counters_point_to_nothing_and_differences_count() {
    let folder = tempfile::tempdir().unwrap();
    let later = PFC.replace("1,234,567", "1,234,667");
    let healthy = "link mlx5_0/1 out_of_sequence 0 packet_seq_err 0 local_ack_timeout_err 0 \
                   np_ecn_marked_roce_packets 51 np_cnp_sent 12 rp_cnp_handled 9 rp_cnp_ignored 0\n";
    write(folder.path(), &[("pfc.txt", PFC), ("later.txt", &later), ("rdma.txt", healthy)]);
    let output = rocesim(&["measured", "rdma.txt"], folder.path());
    assert_eq!(output.status.code(), Some(0));
    let answer = text(&output.stdout);
    assert!(answer.contains("nothing points to trouble"), "{answer}");
    assert!(answer.contains("checked: gaps and NAKs, time-outs"), "{answer}");
    assert!(answer.contains("no counters for: pause storms"), "{answer}");

    let same = measure(folder.path(), &["pfc.txt", "--before", "pfc.txt"]);
    assert_eq!(same, (Vec::new(), 0));
    let output = rocesim(&["measured", "later.txt", "--before", "pfc.txt"], folder.path());
    let answer = text(&output.stdout);
    assert!(
        answer.contains("received 100 pause frames: Ethernet8 (100); and passed none on"),
        "{answer}"
    );
}

#[test]
fn the_examples_show_what_they_are_named_for() {
    let folder = tempfile::tempdir().unwrap();
    let sum = |report: &Value, name: &str| -> u64 {
        let nics = report["nics"].as_array().unwrap().iter();
        nics.filter_map(|nic| nic["counters"][name].as_u64()).sum()
    };
    let slow =
        "nic.receive={ rate = \"60Gbps\", buffer = \"1MiB\", xoff = \"512KiB\", xon = \"256KiB\" }";
    // what the scenario expects of itself need not hold
    let run = |arguments: &[&str]| -> Value {
        let output = rocesim(&[&["run", "--json"], arguments].concat(), folder.path());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    let report = run(&["incast-pfc-only", "--set", slow]);
    let host = report["ports"].as_array().unwrap().iter().filter(|port| {
        port["port"].as_str().unwrap().starts_with("host8")
            && port["tx_pause_frames"].as_u64() > Some(0)
    });
    assert_eq!(host.count(), 1, "the receiver pauses its switch");
    let report = run(&["incast-pfc-only", "--set", "switch.pfc.headroom=2KB"]);
    assert!(report["totals"]["lossless_drops"].as_u64() > Some(0));
    let lossy = ["incast-pfc-only", "--set", "nic.qos.dscp=0", "--set", "traffic.burst.bytes=4MB"];
    let report = run(&lossy);
    for name in ["out_of_sequence", "packet_seq_err"] {
        assert!(sum(&report, name) > 0, "{name}");
    }
    assert_eq!(report["totals"]["lossless_drops"], 0);
    let report = run(&["incast", "--set", "nic.np.priorities=[]"]);
    assert!(sum(&report, "np_ecn_marked_roce_packets") > 0);
    assert_eq!(sum(&report, "np_cnp_sent"), 0);
    let report = run(&["incast", "--set", "nic.congestion.priorities=[]"]);
    assert!(sum(&report, "rp_cnp_ignored") > 0);
    assert_eq!(sum(&report, "rp_cnp_handled"), 0);
    // other priorities than that of the data change nothing
    let usual = run(&["incast"]);
    let only = ["--set", "nic.congestion.priorities=[3]", "--set", "nic.np.priorities=[3]"];
    assert_eq!(run(&[&["incast"], &only[..]].concat())["fingerprint"], usual["fingerprint"]);
    assert_ne!(report["fingerprint"], usual["fingerprint"]);
}

#[test]
fn settings_of_a_nic_become_a_part_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mlxconfig = "Configurations:                 Next Boot\n\
                     NUM_OF_VFS               8\nROCE_CC_PRIO_MASK_P1     8\n\
                     RPG_AI_RATE_P1           50\n";
    let qos = "Priority trust state: dscp\ndscp2prio mapping:\n prio:4 dscp:26,27,\n\
               PFC configuration:\n priority 0 1 2 3 4 5 6 7\n enabled 0 0 0 0 1 0 0 0\n";
    write(folder.path(), &[("mlx.txt", mlxconfig), ("qos.txt", qos), ("odd.txt", "hello\n")]);
    let output = rocesim(&["import", "nic", "mlx.txt", "qos.txt"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stderr),
        "warning: mlx.txt: 1 line of other things passed over: NUM_OF_VFS\n"
    );
    assert_eq!(
        text(&output.stdout),
        "wrote nic.toml; use it with: rocesim run SCENARIO --with nic.toml\n"
    );
    let written = std::fs::read_to_string(folder.path().join("nic.toml")).unwrap();
    assert_eq!(
        written,
        "\
# A part of a scenario, from mlx.txt, qos.txt:
# rocesim run SCENARIO --with THIS_FILE

[nic.pfc]
priorities = [4] # qos.txt:6: PFC enabled

[nic.np]
priorities = [3] # mlx.txt:3: ROCE_CC_PRIO_MASK_P1

[nic.congestion]
algorithm = \"dcqcn\"     # whose parameters these are
preset = \"mlx5-default\" # for what these files do not say
rpg_ai_rate = \"50Mbps\"  # mlx.txt:4: RPG_AI_RATE_P1
priorities = [3]        # mlx.txt:3: ROCE_CC_PRIO_MASK_P1

# all of it, so that no other map of the scenario's is left: qos.txt:3: dscp2prio mapping
[nic.qos.dscp_to_priority]
26 = 4
27 = 4
"
    );
    // priority 4 is not in the mask: no CNP is sent, none would be acted on
    let report = json_report(&["incast", "--with", "nic.toml"], folder.path());
    assert!(report["flows"].as_array().unwrap().iter().all(|flow| flow["priority"] == 4));
    assert_eq!(report["totals"]["cnp_sent"], 0);
    let usual = json_report(&["incast"], folder.path());
    assert!(usual["totals"]["cnp_sent"].as_u64() > Some(0));
    // --set comes after --with
    let set = ["incast", "--with", "nic.toml", "--set", "nic.np.priorities=[4]"];
    let report = json_report(&set, folder.path());
    assert!(report["totals"]["cnp_sent"].as_u64() > Some(0));
}

#[test]
fn files_of_no_known_kind_exit_2_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("odd.txt", "hello\n"), ("bad.toml", "nic.mtuu = 4096\n")]);
    std::fs::write(folder.path().join("eth.txt"), "NIC statistics:\n a_phy: x\n").unwrap();
    let mut messages = String::new();
    let cases: [&[&str]; 8] = [
        &["measured", "odd.txt"],
        &["measured", "none.txt"],
        &["measured", "eth.txt"],
        &["import", "nic", "odd.txt"],
        &["import", "nic", "none.txt"],
        &["import", "nic", "odd.txt", "-o", "odd.txt"],
        &["run", "incast", "--no-out", "--with", "bad.toml"],
        &["run", "incast", "--no-out", "--with", "none.toml"],
    ];
    for arguments in cases {
        let output = rocesim(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        messages +=
            &format!("$ rocesim {}\n{}\n", arguments.join(" "), text(&output.stderr).trim_end());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is written");
    insta::assert_snapshot!("refused", messages);
}
