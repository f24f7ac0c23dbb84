//! When PFC deadlocks: the theory of HotNets 2016.

use serde_json::Value;

use crate::runs::{with, xoff_frames};
use crate::table::{Row, section};

#[test]
fn deadlock() {
    let mut rows = Vec::new();
    for (switches, ttl) in [(2, 16), (3, 16), (4, 16), (2, 32), (3, 32), (4, 32), (2, 15), (3, 15)]
    {
        rows.extend(loop_of(switches, ttl));
    }
    rows.extend(avoided());
    rows.extend(ring());
    section("deadlock", &rows);
}

fn outcome(report: &Value) -> &'static str {
    match report["outcome"].as_str().unwrap() {
        "deadlock" => "deadlock",
        "completed" => "none",
        other => panic!("{other}"),
    }
}

fn verdict(case: &str, quantity: &str, expected: &str, report: &Value) -> Row {
    let found = outcome(report);
    Row::statement([case, quantity], expected, found, found == expected)
}

/// The loop of `deadlock-loop` with this many switches.
fn topology(switches: usize) -> Vec<String> {
    let cable = |a: String, b: String| {
        format!("{{ a = \"{a}\", b = \"{b}\", rate = \"40Gbps\", delay = \"1us\" }}")
    };
    let last = switches - 1;
    let mut links = vec![cable("a".into(), "s0".into()), cable(format!("s{last}"), "b".into())];
    links.extend((0..last).map(|i| cable(format!("s{i}"), format!("s{}", i + 1))));
    if switches > 2 {
        links.push(cable(format!("s{last}"), "s0".into()));
    }
    // onwards for b: the last switch by its third cable (or its second), the others by their second
    let route = |i: usize| {
        let port = if i == last && switches > 2 { 2 } else { 1 };
        format!("{{ node = \"s{i}\", target = \"b\", ports = [{port}] }}")
    };
    let routes: Vec<String> = (0..switches).map(route).collect();
    vec![
        format!("topology.switches=[\"s[0..{switches}]\"]"),
        format!("topology.links=[{}]", links.join(", ")),
        format!("topology.routes=[{}]", routes.join(", ")),
    ]
}

/// A loop entered 2 % more slowly, and 2 % faster than what fills its first link: a frame is sent
/// TTL - 1 times, so `ceil((TTL - 1) / n)` times by that link. That is n B / TTL where n divides
/// the TTL.
fn loop_of(switches: usize, ttl: usize) -> [Row; 2] {
    let limit = 40.0 / (ttl - 1).div_ceil(switches) as f64;
    let case = format!("loop of {switches}, TTL {ttl}: {limit:.2} Gb/s");
    [(0.98, "none"), (1.02, "deadlock")].map(|(factor, expected)| {
        let rate = limit * factor;
        let mut keys = topology(switches);
        keys.push(format!("wire.ttl={ttl}"));
        keys.push(format!("nic.congestion.rate={:.0}kbps", rate * 1e6));
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        verdict(&case, &format!("{rate:.2} Gb/s"), expected, &with("deadlock-loop", &keys))
    })
}

/// 6 Gb/s deadlock two switches at TTL 16; with TTL 12 the limit is 6.67.
fn avoided() -> [Row; 2] {
    let row = |case, keys: &[&str], expected| {
        verdict(case, "6 Gb/s", expected, &with("deadlock-loop", keys))
    };
    [row("deadlock-loop", &[], "deadlock"), row("deadlock-loop, TTL 12", &["wire.ttl=12"], "none")]
}

fn ring() -> Vec<Row> {
    let name = "deadlock-ring";
    let two = with(name, &["traffic.third.flows[0].bytes=1B"]);
    let paused = xoff_frames(&two);
    let case = format!("{name}, flows 1 and 2");
    vec![
        verdict(&case, "", "none", &two),
        Row::statement([&case, "PFC"], "some", &format!("{paused} XOFF"), paused > 1000),
        verdict(&format!("{name}, all three"), "", "deadlock", &with(name, &[])),
        verdict(
            &format!("{name}, flow 3 at 2 Gb/s"),
            "",
            "none",
            &with(name, &["traffic.third.flows[0].rate=2Gbps"]),
        )
        .recalled(),
    ]
}
