//! Deadlocks: found before a run and while it goes on, and avoided by a change of priority.

mod common;

use common::{report, rocesim, text};
use models::report::{OutcomeKind, Report};
use serde_json::Value;

/// What `check --json` says, and its last line.
fn check(scenario: &str, set: &[&str]) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let set: Vec<&str> = set.iter().flat_map(|key| ["--set", key]).collect();
    let of = |arguments: &[&str]| {
        let output = rocesim(&[&["check", scenario], &set[..], arguments].concat(), folder.path());
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let json: Value = serde_json::from_str(&of(&["--json"])).unwrap();
    let lines = of(&[]);
    let last = lines.lines().rev().find(|line| line.contains("deadlock:")).unwrap();
    (json["notes"].as_array().unwrap().clone(), last.trim().to_owned())
}

const TWO_PRIORITIES: &str = "switch.qos.bounce.dscp={26=27}";

#[test]
fn a_second_priority_after_the_bounce_keeps_a_clos_going() {
    let [one, two] = [&[][..], &[TWO_PRIORITIES]].map(|set| report("tagger-bounce", set, 1));
    assert_eq!(one.outcome, OutcomeKind::Deadlock);
    let [stuck] = &one.deadlocks[..] else { panic!("{:?}", one.deadlocks) };
    let mut ports: Vec<&str> = stuck.cycle.iter().map(String::as_str).collect();
    ports.sort_unstable();
    // up to a spine and down to a leaf, in turn
    assert_eq!(ports, ["l0:2", "l1:1", "s0:0", "s1:1"]);
    assert_eq!(stuck.flows, [0, 1, 2, 3]);
    assert_eq!(two.outcome, OutcomeKind::Completed);
    assert_eq!((two.deadlocks.len(), two.totals.lossless_drops), (0, 0));
    // each of the links in the circle carries two flows, so that each flow gets about a half
    for flow in &two.flows {
        assert!(flow.goodput_bps > 3e9, "flow {}: {} Gb/s", flow.id, flow.goodput_bps / 1e9);
    }
    // frames that have bounced are in queue 4 on the way up, and XOFF for them is of priority 4
    let used = |report: &Report, port: &str| -> Vec<u8> {
        let port = report.ports.iter().find(|found| &*found.port == port).unwrap();
        port.priorities.iter().map(|priority| priority.priority).collect()
    };
    assert_eq!(used(&one, "l0:2"), [3]);
    assert_eq!(used(&two, "l0:2"), [3, 4]);
    assert_eq!(report("tagger-bounce", &[TWO_PRIORITIES], 3), two);
}

#[test]
fn check_sees_the_circle_and_how_another_priority_opens_it() {
    let circles = |notes: &[Value]| {
        let texts = notes.iter().map(|note| note["text"].as_str().unwrap().to_owned());
        texts.filter(|text| text.contains("a deadlock is possible")).collect::<Vec<_>>()
    };
    let (notes, last) = check("tagger-bounce", &[]);
    assert_eq!(last, "deadlock: possible, once routes have changed after a fault");
    // one each way around, as ECMP may choose
    let [found, _] = &circles(&notes)[..] else { panic!("{notes:?}") };
    assert!(found.contains("once routes have changed after a fault"), "{found}");
    let (notes, last) = check("tagger-bounce", &[TWO_PRIORITIES]);
    assert!(last.starts_with("deadlock: impossible"), "{last}");
    assert_eq!(circles(&notes), Vec::<String>::new());
    // a turn into a priority without PFC is no cure
    let (notes, _) = check("tagger-bounce", &["switch.qos.bounce.dscp={26=10}"]);
    let lossy = notes.iter().find(|note| note["key"] == "switch.qos.bounce.dscp").unwrap();
    assert!(lossy["text"].as_str().unwrap().contains("dropped under congestion"), "{lossy}");
    // HotNets 2016: the circle is there whether or not it closes
    let third = "traffic.third.flows[0].";
    for set in [vec![], vec![format!("{third}bytes=1B")], vec![format!("{third}rate=2Gbps")]] {
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let (notes, last) = check("deadlock-ring", &set);
        let [found] = &circles(&notes)[..] else { panic!("{notes:?}") };
        assert!(found.contains("s0 -> s1 -> s2 -> s3 -> s0"), "{found}");
        assert!(found.contains("necessary and not sufficient"), "{found}");
        assert_eq!(last, "deadlock: possible");
    }
}

#[test]
fn a_watchdog_breaks_the_circle_in_time() {
    let watchdog = "switch.pfc_wd={ detection_time = '1ms', restoration_time = '1ms', \
                    poll_interval = '0.5ms', action = 'drop' }";
    let goes_on = ["stop.deadlock=go-on", "stop.stall=100us", watchdog];
    let freed = report("tagger-bounce", &goes_on, 1);
    // found while it lasts, and told although it is over
    assert_eq!(freed.outcome, OutcomeKind::Deadlock);
    let found = freed.deadlocks[0].time_s;
    let storms = freed.pfc_wd.iter().flat_map(|queue| &queue.storms);
    let first = storms.map(|storm| storm.detected_s).fold(f64::INFINITY, f64::min);
    // the circle has closed up to 200 us before it was found
    assert!(first > found && first <= found + 1.5e-3, "found at {found} s, broken at {first} s");
    let counted: u64 =
        freed.pfc_wd.iter().map(|queue| queue.total.tx_drop + queue.total.rx_drop).sum();
    assert!(counted > 0 && freed.totals.drops["watchdog"] == counted, "{:?}", freed.totals.drops);
    let stuck = report("tagger-bounce", &[], 1);
    let delivered = |report: &Report| report.flows.iter().map(|f| f.delivered_bytes).sum::<u64>();
    assert!(delivered(&freed) > 2 * delivered(&stuck), "traffic goes on");
    for shards in [2, 3] {
        assert_eq!(report("tagger-bounce", &goes_on, shards), freed, "{shards} shards");
    }
}

/// The ring of HotNets 2016, and beside it two hosts that talk over one of its switches.
fn with_bystanders(more: &[&'static str]) -> Vec<&'static str> {
    let cable = "topology.links=[
        { a = 's0', b = 's1', rate = '40Gbps', delay = '1us' },
        { a = 's1', b = 's2', rate = '40Gbps', delay = '1us' },
        { a = 's2', b = 's3', rate = '40Gbps', delay = '1us' },
        { a = 's3', b = 's0', rate = '40Gbps', delay = '1us' },
        { a = 'h0', b = 's0', rate = '40Gbps', delay = '1us' },
        { a = 'h1', b = 's1', rate = '40Gbps', delay = '1us' },
        { a = 'h2', b = 's2', rate = '40Gbps', delay = '1us' },
        { a = 'h3', b = 's3', rate = '40Gbps', delay = '1us' },
        { a = 'h4', b = 's0', rate = '40Gbps', delay = '1us' },
        { a = 'h5', b = 's0', rate = '40Gbps', delay = '1us' }]";
    let flows = "traffic.third.flows=[
        { source = 'h1', target = 'h2', bytes = 'unlimited' },
        { source = 'h4', target = 'h5', bytes = 'unlimited', rate = '1Gbps' }]";
    let keys = ["topology.hosts=['h[0..6]']", cable, flows, "stop.after=20ms", "stop.stall=1ms"];
    [&keys, more].concat()
}

#[test]
fn a_deadlock_of_a_part_is_found_while_the_rest_goes_on() {
    let all = report("deadlock-ring", &with_bystanders(&[]), 1);
    assert_eq!(all.outcome, OutcomeKind::Deadlock);
    let [stuck] = &all.deadlocks[..] else { panic!("{:?}", all.deadlocks) };
    assert_eq!((stuck.cycle.len(), &stuck.flows[..]), (4, &[0, 1, 2][..]));
    assert!(all.simulated_time_s < 0.019 && stuck.time_s == all.simulated_time_s);
    // the flow beside it got its 1 Gb/s of the wire all the time: 1000 of 1082 B are payload
    let beside = all.flows[3].delivered_bytes as f64 * 8.0 / all.simulated_time_s;
    assert!((0.9e9..1e9).contains(&beside), "{beside}");
    let on = report("deadlock-ring", &with_bystanders(&["stop.deadlock=go-on"]), 1);
    assert_eq!((on.outcome, on.simulated_time_s), (OutcomeKind::Deadlock, 0.02));
    let [told] = &on.deadlocks[..] else { panic!("found once: {:?}", on.deadlocks) };
    assert_eq!((told.time_s, &told.flows), (stuck.time_s, &stuck.flows));
    assert_eq!(told.bytes_stuck, stuck.bytes_stuck);
    // each waits for the next
    let next = |port: &String| format!("s{}", (port[1..2].parse::<u32>().unwrap() + 1) % 4);
    for (place, port) in told.cycle.iter().enumerate() {
        assert!(told.cycle[(place + 1) % 4].starts_with(&next(port)), "{:?}", told.cycle);
    }
    for shards in [2, 3] {
        assert_eq!(report("deadlock-ring", &with_bystanders(&[]), shards), all);
        let more = with_bystanders(&["stop.deadlock=go-on"]);
        assert_eq!(report("deadlock-ring", &more, shards), on);
    }
}

#[test]
fn a_run_that_goes_on_needs_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let set = ["--set", "stop.deadlock=go-on"];
    let endless = rocesim(&[&["run", "incast-pfc-only"], &set[..]].concat(), folder.path());
    assert_eq!(endless.status.code(), Some(2));
    let message = text(&endless.stderr);
    assert!(message.contains("stop.deadlock") && message.contains("stop.after"), "{message}");
    // and says so by its exit code
    let arguments = ["run", "deadlock-ring", "--set", "stop.stall=1ms", "--set", "stop.after=20ms"];
    let goes_on = rocesim(&[&arguments, &set[..]].concat(), folder.path());
    let output = text(&goes_on.stdout);
    assert_eq!(goes_on.status.code(), Some(1), "{output}");
    assert!(output.contains("was found deadlocked at"), "{output}");
}

#[test]
fn mistakes_of_bounces_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (set, says) in [
        ("switch.qos.bounce={}", "no DSCP is changed"),
        ("switch.qos.bounce.dscp={26=64}", "64 is out of range"),
        ("switch.qos.bounce={ dscp = {26=27}, turns = [[0, 9]] }", "has no port 9"),
        ("switch.qos.bounce={ dscp = {26=27}, turn = [[0, 1]] }", "`turns`"),
        ("switch.qos={ trust = 'pcp', bounce = { dscp = {26=27} } }", "trust"),
        ("traffic.between.flows[0].rate=10kbps", "at least 1Mbps"),
    ] {
        let run = rocesim(&["run", "tagger-bounce", "--set", set], folder.path());
        assert_eq!(run.status.code(), Some(2), "{set}");
        assert!(text(&run.stderr).contains(says), "{set}: {}", text(&run.stderr));
    }
}
