//! Plots of made-up collectives.

mod common;

use common::{assert_sound, texts};
use models::report::CollectiveReport;
use serde_json::json;
use viz::busbw_svg;

/// An AllReduce of 16 ranks: busbw is 30/16 of algbw.
fn run(name: &str, bytes: u64, busbw: Option<f64>) -> CollectiveReport {
    let status = if busbw.is_some() { "completed" } else { "unfinished" };
    let report = json!({
        "name": name, "op": "all_reduce", "algorithm": "Ring", "protocol": "Simple", "nodes": 2,
        "ranks": 16, "channels": 1, "qps": 8, "dtype": "float", "count": bytes / 4,
        "bytes": bytes, "iterations": 1, "time_s": null,
        "algbw_gbytes_per_s": null, "busbw_gbytes_per_s": null, "status": status,
        "nvlink_bytes": 0, "waiting_to_receive": 0.0, "waiting_to_send": 0.0
    });
    let mut report: CollectiveReport = serde_json::from_value(report).expect("a collective");
    // not by way of JSON, which has no infinities
    report.busbw_gbytes_per_s = busbw;
    report.algbw_gbytes_per_s = busbw.map(|busbw| busbw * 16.0 / 30.0);
    report
}

/// Sizes of 2^20 to 2^27 bytes, of growing busbw.
fn sweep(name: &str) -> Vec<CollectiveReport> {
    (0..8).map(|i| run(name, 1 << (20 + i), Some(12.0 + 1.5 * i as f64))).collect()
}

fn count(svg: &str, tag: &str, attributes: &[&str]) -> usize {
    let tags = svg.split('<').filter(|element| element.starts_with(tag));
    tags.filter(|element| attributes.iter().all(|attribute| element.contains(attribute))).count()
}

#[test]
fn one_collective_shows_busbw_algbw_and_the_ceiling() {
    let svg = busbw_svg("Two hosts <8 rails>", &sweep("ring"), Some(24.5)).unwrap();
    assert_sound(&svg);
    for text in [
        "Two hosts &lt;8 rails&gt;",
        "ring · all_reduce · Ring · Simple · float · 16 GPUs on 2 hosts · 1 channel · 8 QPs",
        "Message size (bytes in binary units, logarithmic)",
        "busbw, algbw (GB/s)",
        "1 MiB",
        "128 MiB",
        // 12 + 7 x 1.5 = 22.5; x 16/30 = 12
        "peak 22.5 GB/s at 128 MiB",
        "peak 12 GB/s at 128 MiB",
        "payload the NICs carry: 24.5 GB/s",
    ] {
        assert!(svg.contains(text), "{text} is missing");
    }
    assert!(!svg.contains("did not finish"));
    // a mark for each size and one in the legend
    assert_eq!(count(&svg, "circle", &["r=\"5\""]), 9);
    assert_eq!(count(&svg, "circle", &["r=\"3\""]), 9);
    assert_eq!(svg, busbw_svg("Two hosts <8 rails>", &sweep("ring"), Some(24.5)).unwrap());
}

#[test]
fn an_unfinished_size_is_a_hollow_mark_and_a_gap() {
    let mut runs = sweep("ring");
    runs[3] = run("ring", 1 << 23, None);
    let svg = busbw_svg("", &runs, None).unwrap();
    assert_sound(&svg);
    assert!(svg.contains("did not finish") && !svg.contains("payload"));
    // one before and one after the gap, and one in the legend
    assert_eq!(count(&svg, "polyline", &["#0072B2"]), 3);
    assert_eq!(count(&svg, "circle", &["r=\"5\""]), 8);
    let hollow = |color| count(&svg, "circle", &["r=\"4\"", "fill=\"none\"", color]);
    assert_eq!((hollow("#0072B2"), hollow("#666666")), (1, 1));
}

#[test]
fn each_name_has_its_line() {
    let names = ["pfc", "dcqcn & pfc", "a-name-that-is-much-too-long-for-the-legend", ""];
    let mut runs: Vec<CollectiveReport> = names.iter().flat_map(|name| sweep(name)).collect();
    // a second run of a size is a mark of its own, not a corner of the line
    runs.push(run("pfc", 1 << 20, Some(8.0)));
    let svg = busbw_svg("", &runs, Some(24.5)).unwrap();
    assert_sound(&svg);
    assert!(svg.contains("busbw (GB/s)") && !svg.contains("algbw"));
    assert!(svg.contains("dcqcn &amp; pfc") && svg.contains("a-name-that-is-much-too-"));
    // without a name: the operation, here and in the subtitle
    assert_eq!(texts(&svg).iter().filter(|text| text.2 == "all_reduce").count(), 1);
    assert_eq!(count(&svg, "circle", &["r=\"5\""]), 4 * 9 + 1);
    let line = svg.lines().find(|line| line.contains("polyline") && line.contains("#0072B2"));
    assert_eq!(line.unwrap().matches(',').count(), 8, "{line:?}");
}

#[test]
fn more_names_than_the_legend_holds_are_counted() {
    let runs: Vec<CollectiveReport> = (0..40).flat_map(|i| sweep(&format!("job{i}"))).collect();
    let svg = busbw_svg("", &runs, None).unwrap();
    assert_sound(&svg);
    let named = texts(&svg).iter().filter(|text| text.2.starts_with("job")).count();
    assert!((10..40).contains(&named) && svg.contains(&format!("and {} more", 40 - named)));
}

#[test]
fn a_single_size_is_a_point_with_its_value() {
    let svg = busbw_svg("", &[run("ring", 1 << 30, Some(24.0))], Some(24.5)).unwrap();
    assert_sound(&svg);
    let texts = texts(&svg);
    let find = |text: &str| texts.iter().find(|other| other.2 == text).expect(text);
    // 24 x 16/30 = 12.8
    for text in ["24 GB/s", "12.8 GB/s", "24 GB/s at 1 GiB", "512 MiB", "2 GiB"] {
        find(text);
    }
    assert_eq!(find("24 GB/s").0, find("1 GiB").0 + 12);
}

#[test]
fn equal_bandwidths_are_one_line() {
    let mut runs = sweep("broadcast");
    runs.iter_mut().for_each(|run| run.algbw_gbytes_per_s = run.busbw_gbytes_per_s);
    let svg = busbw_svg("", &runs, None).unwrap();
    assert!(svg.contains("busbw = algbw") && svg.contains(">\nbusbw (GB/s)\n<"), "{svg}");
    assert_eq!(count(&svg, "circle", &[]), 9);
}

#[test]
fn degenerate_collectives_do_not_panic() {
    let svg = busbw_svg("", &[], Some(24.5)).unwrap();
    assert_sound(&svg);
    assert!(svg.contains("no collective to show"));
    let values = [0.0, 1e-9, 1e300, f64::MAX, f64::NAN, f64::INFINITY, -1.0];
    for value in values {
        for bytes in [0, 1, 3, u64::MAX] {
            let runs = [run("a\u{1}b", bytes, Some(value)), run("c", 1 << 20, None)];
            for runs in [&runs[..1], &runs[1..], &runs] {
                assert_sound(&busbw_svg("\u{2}", runs, Some(value)).unwrap());
            }
        }
    }
}
