//! Made-up reports, and what holds for every plot.

#![allow(dead_code)]

pub(crate) mod studies;

use models::report::Report;
use serde_json::{Value, json};

/// A port at 100 Gb/s that counted nothing.
pub(crate) fn port(name: &str, peer: &str) -> Value {
    json!({
        "node": name.split([':', '/']).next(), "port": name, "peer": peer,
        "rate_bps": 100_000_000_000_u64, "tx_bytes": 0, "rx_bytes": 0, "tx_packets": 0,
        "ecn_marked_packets": 0, "rx_pause_frames": 0, "tx_pause_frames": 0, "pause_episodes": 0,
        "paused_s": 0.0, "max_queue_bytes": 0, "mean_queue_bytes": 0.0,
        "drops": {}, "priorities": []
    })
}

/// A report of 1.23 ms with these ports and flows.
pub(crate) fn report(ports: Vec<Value>, flows: Vec<Value>, paused_s: f64) -> Report {
    let totals = json!({
        "data_packets": 0, "ecn_marked_packets": 0, "pfc_xoff_frames": 0, "pfc_xon_frames": 0,
        "pause_episodes": 0, "paused_s": paused_s, "cnp_sent": 0, "cnp_handled": 0, "nak_sent": 0,
        "retransmitted_packets": 0, "timeouts": 0, "drops": {}, "lossless_drops": 0
    });
    let report = json!({
        "schema": 1, "rocesim": "0.1.0", "scenario": "12-to-1 <incast> & pauses", "seed": 7,
        "outcome": "completed", "simulated_time_s": 0.0012345, "fingerprint": "",
        "performance": {
            "wall_time_s": 0.0, "cpu_time_s": 0.0, "events": 0, "packet_hops": 0,
            "packet_hops_per_cpu_s": 0.0, "peak_rss_bytes": 0, "threads": 1
        },
        "packet_hops": 0, "flows": flows, "ports": ports,
        "nics": [], "totals": totals, "open_pauses": [], "deadlocks": [], "findings": []
    });
    serde_json::from_value(report).expect("a report")
}

/// Every tag is closed in its order, no coordinate is NaN or infinite, and every character has a
/// place in XML.
pub(crate) fn assert_sound(svg: &str) {
    assert!(!svg.contains("NaN") && !svg.contains("inf,") && !svg.contains("=\"inf"), "{svg}");
    assert!(!svg.contains(|character: char| character.is_control() && character != '\n'));
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "not escaped: {text}");
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).expect("a tag has a name");
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
    }
    assert!(open.is_empty(), "{open:?} not closed");
}

/// Left edge or other anchor, height and text of each text of a plot.
pub(crate) fn texts(svg: &str) -> Vec<(i32, i32, String)> {
    let text = |element: &str| {
        let number = |name: &str| {
            let (_, value) = element.split_once(&format!("{name}=\""))?;
            value.split_once('"')?.0.parse::<i32>().ok()
        };
        let (_, content) = element.split_once('>')?;
        Some((number(" x")?, number(" y")?, content.split_once('<')?.0.trim().to_owned()))
    };
    svg.split("<text").skip(1).map(|element| text(element).expect("a text")).collect()
}
