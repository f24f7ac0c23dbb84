//! PFC watchdogs: what they free, what they cost, and that they change nothing where they only look.

mod common;

use std::path::Path;

use common::{json_report, report};
use models::report::{OutcomeKind, WatchdogReport, WatchdogStatus};

fn watchdog(action: &str, rule: &str) -> String {
    format!(
        "switch.pfc_wd={{ detection_time = '1ms', restoration_time = '1ms', \
         poll_interval = '0.5ms', action = '{action}', rule = '{rule}' }}"
    )
}

#[test]
fn a_storm_is_found_and_restored_when_it_should_be() {
    let found = report("pause-storm-watchdog", &[], 1);
    let [queue] = &found.pfc_wd[..] else { panic!("{:?}", found.pfc_wd) };
    let WatchdogReport { port, peer, priority, status, storms, total, last, .. } = queue;
    assert_eq!((&**port, &**peer, *priority), ("leaf1:3", "host7/nic0", 3));
    assert_eq!(*status, WatchdogStatus::Operational);
    assert_eq!((queue.storm_detected, queue.storm_restored), (1, 1));
    // the pause begins just after 0.5 ms: polls at 1 ms (nothing to compare with), 1.5 and 2 ms.
    // XOFF is repeated up to 20 ms: 20.5 and 21 are quiet
    let storm = storms[0];
    assert_eq!((storm.detected_s, storm.restored_s), (0.002, Some(0.021)));
    // everything that was dropped, was dropped here
    let dropped = found.totals.drops["watchdog"];
    assert_eq!((dropped, total.tx_ok), (total.tx_drop + total.rx_drop, 0));
    assert_eq!(total, last);
    assert!(dropped > 100 && found.totals.lossless_drops == 0);
    // and the victims go on when it acts: 10 MB take 0.82 ms, and 3 flows share a link
    let stuck = report("pause-storm", &[], 1);
    for victim in 3..6 {
        let [free, held] = [&found, &stuck].map(|report| report.flows[victim].fct_s.unwrap());
        assert!(free < 0.006 && held > 0.02, "flow {victim}: {free} s, {held} s without");
    }
    assert_eq!((stuck.outcome, found.outcome), (OutcomeKind::Completed, OutcomeKind::Completed));
}

#[test]
fn it_is_the_same_on_any_number_of_shards_and_by_either_rule() {
    for action in ["drop", "forward", "alert"] {
        let runs = ["broadcom", "mellanox"].map(|rule| {
            let set = watchdog(action, rule);
            let [one, two] = [1, 2].map(|shards| report("pause-storm", &[&set], shards));
            assert_eq!(one, two, "{action} {rule}");
            one
        });
        // a pause without a break is a storm by both
        assert_eq!(runs[0], runs[1], "{action}");
        assert!(!runs[0].pfc_wd.is_empty(), "{action}");
    }
}

#[test]
fn who_only_looks_changes_nothing() {
    let fast = "switch.pfc_wd={ detection_time = '20us', restoration_time = '40us', \
                poll_interval = '10us', action = 'alert' }";
    for scenario in ["pause-storm", "incast-pfc-only", "pfc-unfairness", "permutation-fat-tree"] {
        let [plain, watched] = [&[][..], &[fast]].map(|set| report(scenario, set, 1));
        assert_eq!(plain.fingerprint, watched.fingerprint, "{scenario}");
        assert_eq!(plain.simulated_time_s, watched.simulated_time_s, "{scenario}");
        assert!(plain.pfc_wd.is_empty());
        assert!(watched.pfc_wd.iter().all(|queue| queue.total.tx_drop + queue.total.rx_drop == 0));
    }
}

#[test]
fn forward_ignores_the_pause_and_sends() {
    let found = report("pause-storm", &[&watchdog("forward", "broadcom")], 1);
    let queue = found.pfc_wd.iter().find(|queue| &*queue.port == "leaf1:3").unwrap();
    // all of the 60 MB that had not come before go to the host that asks for none
    assert!(queue.total.tx_ok > 9000 && queue.total.tx_drop == 0, "{queue:?}");
    assert!(!found.totals.drops.contains_key("watchdog"));
}

#[test]
fn a_deadlock_is_broken() {
    let ring = report("deadlock-ring", &[], 1);
    assert_eq!(ring.outcome, OutcomeKind::Deadlock);
    let broken = report("deadlock-ring", &[&watchdog("drop", "broadcom")], 1);
    assert_ne!(broken.outcome, OutcomeKind::Deadlock);
    assert!(broken.totals.drops["watchdog"] > 0);
}

#[test]
fn the_diagnosis_names_port_priority_and_times() {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str, folder: &Path| {
        let report = json_report(&[name], folder);
        let findings = report["findings"].as_array().unwrap().clone();
        let storm = findings.iter().find(|finding| finding["kind"] == "pfc_storm").unwrap().clone();
        storm["text"].as_str().unwrap().to_owned()
    };
    let found = text("pause-storm-watchdog", folder.path());
    let says =
        "host7/nic0 paused priority 3 of leaf1:3 for so long that the watchdog found 1 storms";
    assert!(found.contains(says) && found.contains("2 ms to 21 ms"), "{found}");
    let unseen = text("pause-storm", folder.path());
    assert!(unseen.contains("holds XOFF of priority 3 from 500 us to 20 ms"), "{unseen}");
}

/// SONiC's default times, to the poll.
#[test]
fn defaults_find_a_storm_after_200_to_400_ms_and_restore_after_200() {
    let found = report("pfcwd-default", &[], 1);
    let [queue] = &found.pfc_wd[..] else { panic!("{:?}", found.pfc_wd) };
    assert_eq!((&*queue.peer, queue.storm_detected, queue.storm_restored), ("host2/nic0", 1, 1));
    let storm = &queue.storms[0];
    let (began, ended) = (0.25, 1.1);
    let (after, over) = (storm.detected_s - began, storm.restored_s.unwrap() - ended);
    common::say(&format!(
        "pfcwd-default: found {:.0} ms after its beginning, restored {:.0} ms after its end",
        after * 1e3,
        over * 1e3
    ));
    assert!((0.2..=0.4).contains(&after) && (0.2..=0.4).contains(&over), "{storm:?}");
    assert_eq!((storm.detected_s, storm.restored_s), (0.6, Some(1.4)));
    // wherever in the interval it begins
    for (from, detected) in [("201ms", 0.6), ("399ms", 0.6), ("401ms", 0.8)] {
        let storm = format!("override[0].set.\"nic.pause_storm\".from={from}");
        let found = report("pfcwd-default", &[&storm], 1);
        assert_eq!(found.pfc_wd[0].storms[0].detected_s, detected, "{from}");
    }
    assert_eq!(found.totals.drops["watchdog"], queue.total.tx_drop + queue.total.rx_drop);
}

/// A receiver that pauses for as long as frames come.
#[test]
fn a_permanent_storm_is_found_and_restored_every_600_ms() {
    let found = report("pfcwd-cycle", &[], 1);
    let [queue] = &found.pfc_wd[..] else { panic!("{:?}", found.pfc_wd) };
    let detected: Vec<f64> = queue.storms.iter().map(|storm| storm.detected_s).collect();
    let cycles: Vec<f64> = detected.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let restored = queue.storms.iter().filter_map(|s| Some(s.restored_s? - s.detected_s));
    let lasted: Vec<f64> = restored.collect();
    let ms = |times: &[f64]| {
        times.iter().map(|time| format!("{:.0}", time * 1e3)).collect::<Vec<_>>().join(", ")
    };
    common::say(&format!(
        "pfcwd-cycle: {} storms in 5 s; from one to the next {} ms; each lasted {} ms",
        detected.len(),
        ms(&cycles),
        ms(&lasted)
    ));
    assert!(detected.len() >= 7, "{detected:?}");
    assert!(cycles.iter().all(|cycle| (cycle - 0.6).abs() < 1e-9), "{cycles:?}");
    assert!(lasted.iter().all(|lasted| (lasted - 0.2).abs() < 1e-9), "{lasted:?}");
}

/// Flows that get less than half of what they ask for while a NIC pauses for ever.
#[test]
fn the_blast_radius_of_a_storm_with_a_watchdog_and_without() {
    let hosts: Vec<String> =
        (0..8).map(|host| format!("'leaf{}:{}'", host / 4, host % 4)).collect();
    let storm =
        "{ nodes = ['host7'], set = { 'nic.pause_storm' = { from = '50ms', until = '10s' } } }";
    let guarded = |watchdog: &str| {
        format!(
            "override=[{storm}, {{ ports = [{}], set = {{ 'switch.pfc_wd' = {watchdog} }} }}]",
            hosts.join(", ")
        )
    };
    let fast = "{ detection_time = '10ms', restoration_time = '10ms', poll_interval = '5ms' }";
    let slowed = |set: &[&str]| {
        let found = report("nic-storm-cascade", set, 1);
        // 50 Mb/s on the wire; 1024 of 1106 B are payload
        let half = 50e6 * 1024.0 / 1106.0 / 2.0;
        let slow = found.flows.iter().filter(|flow| flow.goodput_bps < half);
        (slow.map(|flow| flow.id).collect::<Vec<u32>>(), found)
    };
    let (without, stuck) = slowed(&[]);
    let (with_defaults, freed) = slowed(&[&guarded("{}")]);
    let (with_fast, _) = slowed(&[&guarded(fast)]);
    let of = |flows: &[u32]| flows.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    common::say(&format!(
        "nic-storm-cascade, 100 to 800 ms: flows below half of their rate: {} of {} without a \
         watchdog ({}), {} with SONiC's times ({}), {} with times of 10 ms ({})",
        without.len(),
        stuck.flows.len(),
        of(&without),
        with_defaults.len(),
        of(&with_defaults),
        with_fast.len(),
        of(&with_fast)
    ));
    // 0 and 1 are for the NIC that pauses; 2 shares the uplink, 3 the sender with them
    assert_eq!(without, [0, 1, 2, 3]);
    assert_eq!(with_fast, [0, 1]);
    // SONiC's times: the pause of 50 ms is found at 400 ms, half of the time that is measured
    assert_eq!(freed.pfc_wd.iter().map(|q| q.storms[0].detected_s).collect::<Vec<_>>(), [0.4]);
    assert!(with_defaults.len() <= without.len());
    assert_eq!(freed.outcome, OutcomeKind::Completed);
}
