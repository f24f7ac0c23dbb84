//! Each fault by itself, in the counters that show it.

use scenarios::resolve::{LoadOptions, load};

use super::*;
use crate::counters::{Counter, Counters, Source};

const SWITCH: (Source, &str) = (Source::Switch, "Ethernet8");
const NIC: (Source, &str) = (Source::Ethtool, "eth2");
const RDMA: (Source, &str) = (Source::Rdma, "mlx5_0/1");
const OTHER: (Source, &str) = (Source::Rdma, "mlx5_1/1");

type Given<'a> = ((Source, &'a str), &'a str, u64);

/// `rx_pause_frames.3` is of priority 3.
fn measured(values: &[Given<'_>]) -> Measured {
    let mut measured = Measured::default();
    for ((source, place), name, value) in values {
        let counter = match name.split_once('.') {
            Some((name, priority)) => Counter::of(name, priority.parse().unwrap()),
            None => Counter::whole(name),
        };
        let counters = Counters {
            place: (*place).to_owned(),
            named: true,
            source: *source,
            file: "a.txt".to_owned(),
            values: [(counter, *value)].into(),
        };
        measured.add(counters);
    }
    measured
}

fn kinds(values: &[Given<'_>], setting: &Setting) -> Vec<String> {
    let found = diagnose(&measured(values), setting).symptoms;
    found.into_iter().map(|symptom| symptom.finding.kind).collect()
}

#[test]
fn each_fault_is_found_and_nothing_else() {
    let cases: &[(&[Given<'_>], &[&str])] = &[
        (
            &[(NIC, "tx_pause_frames.3", 5), (RDMA, "np_ecn_marked_roce_packets", 1)],
            &["receiver_limited"],
        ),
        (&[(NIC, "rx_pause_frames.3", 5)], &["paused_by_network"]),
        (&[(SWITCH, "rx_pause_frames.3", 5)], &["paused_from_outside"]),
        (
            &[(SWITCH, "rx_pause_frames.3", 0), (SWITCH, "tx_pause_frames.3", 5)],
            &["switch_congested"],
        ),
        (&[(NIC, "rx_pause_frames.0", 7)], &["unexpected_priority", "paused_by_network"]),
        (&[(NIC, "rx_global_pause", 7)], &["global_pause"]),
        (&[(NIC, "rx_pause_ctrl_phy", 7)], &["global_pause"]),
        (&[(SWITCH, "pfcwd_storms.3", 1)], &["pause_storm"]),
        (&[(NIC, "tx_pause_storm_warning_events", 1)], &["nic_stalled"]),
        (&[(SWITCH, "headroom_watermark_bytes.3", 4096)], &["headroom_used"]),
        (&[(SWITCH, "drops.3", 1)], &["lossless_drops"]),
        (&[(SWITCH, "pg_drops.4", 1)], &["lossless_drops"]),
        (&[(SWITCH, "drops.0", 1)], &["lossy_drops"]),
        (&[(NIC, "rx_discards_phy", 1)], &["nic_drops"]),
        (&[(RDMA, "out_of_sequence", 1)], &["out_of_sequence"]),
        (&[(RDMA, "packet_seq_err", 1)], &["out_of_sequence"]),
        (&[(RDMA, "local_ack_timeout_err", 1)], &["ack_timeouts"]),
        (&[(RDMA, "roce_adp_retrans", 1)], &["adaptive_retransmission"]),
        (&[(RDMA, "duplicate_request", 1)], &["duplicate_requests"]),
        (&[(RDMA, "out_of_buffer", 1)], &["receiver_not_ready"]),
        (&[(RDMA, "np_ecn_marked_roce_packets", 9), (RDMA, "np_cnp_sent", 0)], &["no_cnps"]),
        (&[(RDMA, "rp_cnp_ignored", 9)], &["cnps_ignored"]),
        (
            &[(RDMA, "np_cnp_sent", 9), (RDMA, "rp_cnp_handled", 0), (OTHER, "rp_cnp_handled", 4)],
            &["cnps_lost"],
        ),
        // one device alone may be a receiver
        (&[(RDMA, "np_cnp_sent", 9), (RDMA, "rp_cnp_handled", 0)], &[]),
        (
            &[(RDMA, "np_ecn_marked_roce_packets", 0), (NIC, "rx_pause_frames.3", 9)],
            &["ecn_after_pfc", "paused_by_network"],
        ),
        (
            &[
                (NIC, "rx_vport_rdma_unicast_bytes", 100),
                (NIC, "rx_bytes.3", 49),
                (NIC, "rx_bytes.0", 51),
            ],
            &["wrong_priority"],
        ),
        (&[(NIC, "rx_vport_rdma_unicast_bytes", 100), (NIC, "rx_bytes.3", 50)], &[]),
        (&[(RDMA, "rx_icrc_encapsulated", 1)], &["icrc_errors"]),
        // the first is the start of the driver
        (&[(NIC, "link_down_events_phy", 2)], &["link_flaps"]),
        (&[(NIC, "link_down_events_phy", 1)], &[]),
        (&[(NIC, "rx_crc_errors_phy", 1)], &["bit_errors"]),
        // depth and use of the pool are no fault
        (
            &[
                (SWITCH, "max_queue_bytes.3", 900_000),
                (SWITCH, "shared_watermark_bytes.3", 900_000),
            ],
            &[],
        ),
    ];
    for (values, expected) in cases {
        assert_eq!(kinds(values, &Setting::default()), *expected, "{values:?}");
    }
}

#[test]
fn what_is_known_beside_counters_changes_the_verdict() {
    let severity = |values: &[Given<'_>], setting: &Setting| {
        diagnose(&measured(values), setting).symptoms[0].finding.severity
    };
    let headroom = |bytes| Setting { headroom: Some(Bytes::new(bytes)), ..Setting::default() };
    let used = [(SWITCH, "headroom_watermark_bytes.3", 40_000)];
    assert_eq!(severity(&used, &headroom(100_000)), Severity::Info);
    // 40 000 of 49 152 are 81 %
    assert_eq!(severity(&used, &headroom(49_152)), Severity::Warning);
    assert_eq!(severity(&used, &headroom(40_000)), Severity::Error);

    // 1.2 million frames in 100 s are 12 000 a second; 2 s of 100 s are 2 %
    let over = Setting { over: Some(Delta::from_us(100_000_000)), ..Setting::default() };
    let pauses = [(NIC, "rx_pause_frames.3", 1_200_000), (NIC, "paused_us.3", 2_000_000)];
    let found = diagnose(&measured(&pauses), &over).symptoms;
    let kinds_of = found.iter().map(|symptom| symptom.finding.kind.as_str());
    assert_eq!(kinds_of.collect::<Vec<_>>(), ["paused_by_network", "pause_rate"]);
    assert!(found[0].finding.text.ends_with("2.000 s in all, 2.0 % of the time"));
    let slower = [(NIC, "rx_pause_frames.3", 900_000)];
    assert_eq!(kinds(&slower, &over), ["paused_by_network"]);
    assert_eq!(severity(&slower, &over), Severity::Info, "nothing says for how long");

    let lossless = Setting { lossless: vec![5], ..Setting::default() };
    assert_eq!(kinds(&[(SWITCH, "drops.3", 1)], &lossless), ["lossy_drops"]);
    assert_eq!(kinds(&[(SWITCH, "drops.5", 1)], &lossless), ["lossless_drops"]);
}

#[test]
fn every_example_is_in_the_library_and_loads() {
    assert!(examples().len() >= 9);
    for example in examples() {
        assert!(scenarios::library::scenario(example.scenario).is_some(), "{example:?}");
        let set = example.set.iter().map(|set| (*set).to_owned()).collect();
        let loaded = load(example.scenario, &LoadOptions { set, ..LoadOptions::default() });
        assert!(loaded.is_ok(), "{example:?}: {:?}", loaded.err());
    }
}

#[test]
fn differences_of_two_snapshots() {
    let before = measured(&[
        (SWITCH, "drops.3", 10),
        (SWITCH, "max_queue_bytes.3", 500),
        (RDMA, "out_of_sequence", 7),
    ]);
    let after = measured(&[
        (SWITCH, "drops.3", 10),
        (SWITCH, "max_queue_bytes.3", 400),
        (RDMA, "out_of_sequence", 5),
        (OTHER, "out_of_sequence", 9),
    ]);
    let (since, notes) = after.since(&before);
    assert_eq!(since.sum("drops"), 0);
    assert_eq!(since.sum("max_queue_bytes"), 400, "a maximum has no difference");
    assert_eq!(since.sum("out_of_sequence"), 5, "cleared in between; the other is left out");
    let expected = [
        "mlx5_0/1 out_of_sequence went from 7 down to 5: it was cleared in between, and counts from \
         there",
        "mlx5_1/1 is not in what was read before: left out",
    ];
    assert_eq!(notes, expected);
}
