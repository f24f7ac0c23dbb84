//! Plots of the links of made-up reports.

mod common;

use common::{assert_sound, port, texts};
use models::report::Report;
use serde_json::{Value, json};
use viz::links_svg;

fn report(ports: Vec<Value>) -> Report {
    common::report(ports, vec![], 0.0)
}

/// A port that sent frames of 4138 B on `share` of the time of its link:
/// 1.2345 ms x 100 Gb/s = 15 431 250 B, and each frame takes 20 B more.
fn busy(name: &str, peer: &str, share: f64) -> Value {
    let packets = (share * 15_431_250.0 / 4158.0) as u64;
    let mut port = port(name, peer);
    port["tx_packets"] = json!(packets);
    port["tx_bytes"] = json!(packets * 4138);
    port
}

/// Both ends of `cables` cables, ever less busy.
fn fabric(leaf: &str, host: &str, cables: usize) -> Vec<Value> {
    let cable = |i: usize| {
        let (leaf, host) = (format!("{leaf}{}:{}", i / 32, i % 32), format!("{host}{i}/nic0"));
        let share = 1.0 - i as f64 / cables as f64;
        [busy(&host, &leaf, share * 0.5), busy(&leaf, &host, share)]
    };
    (0..cables).flat_map(cable).collect()
}

fn bars(svg: &str) -> usize {
    svg.matches("height=\"12\"").count()
}

/// Height of a text of which there is one.
fn height(svg: &str, text: &str) -> i32 {
    let all = texts(svg);
    let found: Vec<_> = all.iter().filter(|other| other.2 == text).collect();
    assert_eq!(found.len(), 1, "{text} in {all:?}");
    found[0].1
}

#[test]
fn every_link_has_a_bar_with_its_utilisation() {
    let mut ports = fabric("leaf", "host", 8);
    // 15 107 194 of 15 431 250 B are 97.9 %
    ports[15]["tx_packets"] = json!(3000);
    ports[15]["tx_bytes"] = json!(15_107_194 - 3000 * 20);
    let svg = links_svg("16 ports <of one leaf>", &report(ports.clone())).unwrap();
    assert_sound(&svg);
    for text in [
        "16 ports &lt;of one leaf&gt;",
        "16 links of 100 Gb/s · one for each direction · completed · 1.23 ms simulated",
        "Utilisation over the whole run, with preamble and inter-frame gap (%)",
        "Share of time paused (PFC, sum of priorities):",
    ] {
        assert!(svg.contains(text), "{text} is missing");
    }
    assert_eq!(bars(&svg), 16);
    assert_eq!(height(&svg, "leaf0:7 → host7/nic0"), height(&svg, "97.9 %"));
    // nothing happened, so there is no column for it
    for text in ["rate", "paused", "ECN marks (of frames)", "dropped by the peer"] {
        assert!(texts(&svg).iter().all(|other| other.2 != text), "{text} is there");
    }
    assert!(!svg.contains(" more"));
    assert_eq!(svg, links_svg("16 ports <of one leaf>", &report(ports)).unwrap());
}

#[test]
fn the_busiest_come_first_and_equal_ones_in_order() {
    let shares = [("a", 0.2), ("b", 0.9), ("c", 0.2), ("d", 0.0)];
    let ports = shares.map(|(name, share)| busy(name, "sw0:0", share)).to_vec();
    let svg = links_svg("", &report(ports)).unwrap();
    let heights = ["b", "a", "c", "d"].map(|name| height(&svg, &format!("{name} → sw0:0")));
    assert!(heights.is_sorted_by(|a, b| a < b), "{heights:?}");
    assert_eq!(height(&svg, "0 %"), heights[3]);
}

#[test]
fn what_happened_to_a_link_stands_beside_it() {
    let mut ports = fabric("leaf", "host", 2);
    // marked by the sender: 300 of floor(15 431 250 / 4158) = 3711 frames are 8.1 %
    ports[1]["ecn_marked_packets"] = json!(300);
    // a quarter of 1.2345 ms
    ports[1]["paused_s"] = json!(0.000_308_625);
    // counted by the receiver
    ports[0]["drops"] = json!({"corrupt": 1234});
    ports[1]["drops"] = json!({"ttl": 2, "no_route": 3});
    ports[2]["rate_bps"] = json!(400_000_000_000_u64);
    let svg = links_svg("", &report(ports)).unwrap();
    assert_sound(&svg);
    let down = height(&svg, "leaf0:0 → host0/nic0");
    for text in ["300 (8.1 %)", "25.0 %", "1 234 corrupt"] {
        // 25.0 % is a utilisation too
        assert!(texts(&svg).iter().any(|other| (other.1, &*other.2) == (down, text)), "{text}");
    }
    let up = height(&svg, "host0/nic0 → leaf0:0");
    assert_eq!(height(&svg, "5 (2 reasons)"), up);
    assert_eq!(height(&svg, "400 Gb/s"), height(&svg, "host1/nic0 → leaf0:1"));
    assert!(svg.contains("4 links · one for each direction"));
    // up to 30 %: its bar and the legend
    assert_eq!(svg.matches("#D55E00").count(), 2);
}

#[test]
fn the_coolest_of_many_links_are_counted() {
    let mut ports =
        fabric("a-leaf-with-a-rather-long-name-in-pod", "a-host-with-a-long-name", 1000);
    // the last ones are idle but were paused all the time
    for port in &mut ports[1990..] {
        port["paused_s"] = json!(0.001_234_5);
        port["ecn_marked_packets"] = json!(1);
    }
    ports[1999]["drops"] = json!({"corrupt": 1});
    let svg = links_svg("", &report(ports)).unwrap();
    assert_sound(&svg);
    assert_eq!(bars(&svg), 40);
    // the 41st leaf port has 1 - 40/1000, and no host comes before it
    let rest = "and 1 960 more, at most 96.0 % · 10 paused (at most 100.0 %) · \
                10 with ECN marks · 1 with drops";
    assert!(svg.contains(rest), "{svg}");
    let names = texts(&svg).into_iter().filter(|text| text.2.contains(" → "));
    let names: Vec<String> = names.map(|text| text.2).collect();
    assert_eq!(names.len(), 40);
    for (index, name) in names.iter().enumerate() {
        let (leaf, host) = name.split_once(" → ").unwrap();
        assert!(
            leaf.starts_with("a-leaf") && leaf.ends_with(&format!(":{}", index % 32)),
            "{name}"
        );
        assert!(host.starts_with("a-host") && host.ends_with(&format!("{index}/nic0")), "{name}");
    }
}

#[test]
fn degenerate_reports_do_not_panic() {
    let svg = links_svg("", &report(vec![])).unwrap();
    assert_sound(&svg);
    assert!(svg.contains("0 links") && svg.contains("no links"));
    for time_s in [0.0, -1.0, 1e-300, 1e300, f64::NAN, f64::INFINITY] {
        for rate_bps in [0, 1, u64::MAX] {
            for bytes in [0, 1, u64::MAX] {
                let long = "a\u{1}".repeat(100);
                let mut report = report(vec![port(&long, "sw0:0"), port("sw0:0", &long)]);
                report.simulated_time_s = time_s;
                report.ports[0].rate_bps = rate_bps;
                report.ports[0].tx_bytes = bytes;
                report.ports[0].tx_packets = bytes;
                report.ports[0].ecn_marked_packets = bytes;
                report.ports[0].paused_s = time_s;
                report.ports[1].drops = [("a".to_owned(), bytes), ("b".to_owned(), bytes)].into();
                assert_sound(&links_svg("\u{2}", &report).unwrap());
            }
        }
    }
}
