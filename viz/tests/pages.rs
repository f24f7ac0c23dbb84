//! What the charts, pages and traces of a made-up run show.

mod common;

use std::collections::BTreeMap;

use common::{assert_sound, port, report};
use models::report::{FlowSeries, LaneSpan, PauseRow, PortSeries, Report, RootKind, Series, Steps};
use serde_json::json;
use viz::Run;

/// Two leaves and a spine; host2 is sent more than its link carries, and pauses spread.
fn made_up() -> (Report, Series, Vec<PauseRow>) {
    let cables = [
        ("host0/nic0", "leaf0:0"),
        ("host1/nic0", "leaf0:1"),
        ("leaf0:2", "spine0:0"),
        ("spine0:1", "leaf1:1"),
        ("leaf1:0", "host2/nic0"),
    ];
    let mut ports = Vec::new();
    for (a, b) in cables {
        ports.extend([port(a, b), port(b, a)]);
    }
    for (index, (tx_bytes, paused_s)) in
        [(8_000_000_u64, 300e-6), (0, 0.0), (4_000_000, 0.0)].iter().enumerate()
    {
        ports[index]["tx_bytes"] = json!(tx_bytes);
        ports[index]["tx_packets"] = json!(tx_bytes / 4096);
        ports[index]["paused_s"] = json!(paused_s);
    }
    ports[8]["ecn_marked_packets"] = json!(40);
    ports[8]["tx_packets"] = json!(1000);
    ports[8]["tx_bytes"] = json!(12_000_000);
    ports[8]["max_queue_bytes"] = json!(90_000);
    let flow = |id: u32, source: &str, bytes: u64, fct_s: f64| {
        json!({
            "id": id, "source": source, "target": "host2", "traffic": "burst <&>", "source_port": 1,
            "priority": 3, "bytes": bytes, "start_s": 0.0, "fct_s": fct_s, "acked_s": fct_s + 2e-6,
            "ideal_fct_s": 1e-4, "slowdown": fct_s / 1e-4, "delivered_bytes": bytes,
            "measured_bytes": bytes, "goodput_bps": 1e9, "status": "completed",
            "retransmitted_bytes": 0
        })
    };
    let flows = vec![flow(0, "host0", 8_000_000, 4e-4), flow(1, "host1", 4_000_000, 2e-4)];
    let mut report = report(ports, flows, 600e-6);
    report.slowdown_by_size = serde_json::from_value(json!([
        { "from_bytes": 2_000_000, "to_bytes": 5_000_000, "flows": 1, "mean": 2.0, "p50": 2.0, "p95": 2.0, "p99": 2.0 },
        { "from_bytes": 5_000_000, "to_bytes": 10_000_000, "flows": 1, "mean": 4.0, "p50": 4.0, "p95": 4.0, "p99": 4.0 }
    ]))
    .unwrap();
    report.queue_bytes = serde_json::from_value(json!({
        "samples": 8, "mean": 20_000.0, "p50": 0, "p95": 80_000, "p99": 80_000, "max": 80_000,
        "cdf": [[0.0, 0], [0.5, 0], [0.75, 40_000], [1.0, 80_000]]
    }))
    .unwrap();
    report.findings = serde_json::from_value(json!([
        { "kind": "victim", "severity": "warning", "text": "host0 <waits>", "evidence": { "share": 0.5 }, "remedy": "less & later", "set": ["a=\"b\""] },
        { "kind": "loss", "severity": "error", "text": "frames are lost", "evidence": {}, "remedy": null }
    ]))
    .unwrap();
    let collective = |bytes: u64, busbw: f64| {
        json!({
            "name": "", "op": "all_reduce", "algorithm": "Ring", "protocol": "Simple", "nodes": 2,
            "ranks": 2, "channels": 1, "qps": 1, "dtype": "float", "count": bytes / 4, "bytes": bytes,
            "iterations": 1, "time_s": bytes as f64 / busbw / 1e9, "algbw_gbytes_per_s": busbw,
            "busbw_gbytes_per_s": busbw, "status": "completed", "nvlink_bytes": 0,
            "waiting_to_receive": 0.0, "waiting_to_send": 0.0
        })
    };
    report.collectives =
        serde_json::from_value(json!([collective(1 << 20, 5.0), collective(1 << 24, 11.5)]))
            .unwrap();
    let lane = |rank: u32, channel: u32| LaneSpan {
        collective: 0,
        rank,
        host: format!("host{rank}").into(),
        gpu: 0,
        channel,
        lane: channel,
        repetition: 0,
        begin_s: 1e-5,
        end_s: Some(1e-3),
        waiting_to_receive_s: Some(2.475e-4),
        waiting_to_send_s: Some(0.0),
    };
    let series = Series {
        time_s: vec![0.0, 4e-4, 8e-4, 1.2e-3],
        ports: vec![PortSeries {
            port: "leaf1:0".to_owned(),
            rate_bps: 100_000_000_000,
            queue_bytes: vec![0, 80_000, 40_000, 0],
            tx_bps: vec![0.0, 9e10, 8e10, 0.0],
            paused_share: vec![0.0; 4],
        }],
        flows: vec![FlowSeries {
            id: 0,
            source: "host0".to_owned(),
            target: "host2".to_owned(),
            rate_bps: vec![100_000_000_000, 50_000_000_000, 25_000_000_000, 30_000_000_000],
            target_rate_bps: vec![100_000_000_000; 4],
            alpha: vec![0.5; 4],
            goodput_bps: vec![0.0, 4e10, 2e10, 0.0],
        }],
        lanes: vec![lane(0, 0), lane(0, 1), lane(1, 0)],
    };
    let pause = |port: &str, by: &str, cause: &str, from_s: f64, to_s: Option<f64>| PauseRow {
        port: port.into(),
        priority: 3,
        from_s,
        to_s,
        by: by.into(),
        cause: Some((cause.into(), 3)),
        root: "leaf1:0".into(),
        kind: RootKind::ReceiverLinkFull,
    };
    let pauses = vec![
        pause("spine0:1", "leaf1:1", "leaf1:0", 1e-4, Some(3e-4)),
        pause("leaf0:2", "spine0:0", "spine0:1", 2e-4, Some(3e-4)),
        pause("host0/nic0", "leaf0:0", "leaf0:2", 2.5e-4, None),
    ];
    (report, series, pauses)
}

fn view<'a>(
    made: &'a (Report, Series, Vec<PauseRow>),
    keys: &'a BTreeMap<String, String>,
) -> Run<'a> {
    Run { name: "made up", report: &made.0, series: &made.1, pauses: &made.2, keys }
}

#[test]
fn charts_show_these_numbers() {
    let (made, keys) = (made_up(), BTreeMap::new());
    let run = view(&made, &keys);
    let mut data: Vec<String> = viz::charts(&run).iter().map(viz::Chart::data).collect();
    data.extend(viz::timelines(&run).iter().map(viz::Timeline::data));
    insta::assert_snapshot!("charts", data.join("\n"));
    for chart in viz::charts(&run) {
        assert_sound(&chart.svg().unwrap());
    }
    for timeline in viz::timelines(&run) {
        assert_sound(&timeline.svg().unwrap());
    }
}

#[test]
fn charts_of_several_runs_have_a_line_for_each() {
    let (made, keys) = (made_up(), BTreeMap::new());
    let mut other = made_up();
    other.0.flows.iter_mut().for_each(|flow| flow.fct_s = flow.fct_s.map(|fct| fct / 2.0));
    let runs = [view(&made, &keys), Run { name: "other", ..view(&other, &keys) }];
    let data: Vec<String> = viz::compared_charts(&runs).iter().map(viz::Chart::data).collect();
    insta::assert_snapshot!("compared", data.join("\n"));
}

/// The JSON of an element of the page's data.
fn data(page: &str, id: &str) -> serde_json::Value {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).expect("the data is there");
    serde_json::from_str(rest.split_once("</script>").expect("it ends").0).expect("it is JSON")
}

#[test]
fn a_page_plays_pauses_and_asks_for_nothing() {
    let (made, keys) = (made_up(), BTreeMap::new());
    let page = viz::report_html(&view(&made, &keys)).unwrap();
    for foreign in ["http://", "https://", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("host0 &lt;waits&gt;") && !page.contains("host0 <waits>"));
    // the worst first
    assert!(page.find("frames are lost").unwrap() < page.find("host0 &lt;waits").unwrap());
    insta::assert_snapshot!(
        "played",
        format!("{}\n{:#}", data(&page, "pause-data"), data(&page, "map-data")["halves"])
    );
    let ports = data(&page, "port-data");
    assert_eq!(ports["rows"].as_array().unwrap().len(), 10);
    // it was paused for 300 of 1234.5 us: 24.3 %
    assert_eq!(ports["rows"][0][0], "host0/nic0");
    assert_eq!(ports["rows"][0][6], 24.3);
}

#[test]
fn a_comparison_says_what_differs() {
    let made = made_up();
    let mut other = made_up();
    other.0.findings.remove(1);
    other.0.totals.pause_episodes = 7;
    let keys = |value: &str| {
        BTreeMap::from([("a.b".to_owned(), value.to_owned()), ("same".to_owned(), "1".to_owned())])
    };
    let (one, two) = (keys("<1>"), keys("2"));
    let runs = [view(&made, &one), Run { name: "other", ..view(&other, &two) }];
    let page = viz::comparison_html(&runs).unwrap();
    assert!(page.contains(
        "<code>a.b</code></td><td class=\"long\">&lt;1&gt;</td><td class=\"long\">2</td>"
    ));
    assert!(!page.contains("<code>same</code>"));
    assert!(page.contains("<td class=\"better\">gone</td>"));
    assert!(page.contains("<td class=\"worse\">7 (from 0)</td>"));
}

#[test]
fn pictures_of_the_fabric_are_sound_and_become_points() {
    let (made, keys) = (made_up(), BTreeMap::new());
    let pictures = viz::fabric_svgs(&view(&made, &keys));
    let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fabric-utilisation", "fabric-pauses", "fabric-marks"]);
    for (_, svg) in &pictures {
        let texts =
            svg.split("<style>").next().unwrap().to_owned() + svg.split("</style>").nth(1).unwrap();
        assert_sound(&texts);
        let png = viz::png(svg).unwrap();
        assert_eq!(png[..8], [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a]);
    }
}

#[test]
fn a_trace_has_flows_pauses_and_samples() {
    let (made, keys) = (made_up(), BTreeMap::new());
    let write = |most: u64| {
        let mut out = Vec::new();
        viz::write_trace(&view(&made, &keys), &Steps::default(), most, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    insta::assert_snapshot!("trace", write(1000));
    let few: serde_json::Value = serde_json::from_str(&write(8)).unwrap();
    assert_eq!(few["otherData"]["flows"], "1 of 2");
    assert_eq!(few["otherData"]["pauses"], "2 of 3");
}
