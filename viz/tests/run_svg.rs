//! Plots of made-up runs.

mod common;

use common::assert_sound;
use models::report::{FlowSeries, PortSeries, Report, Series};
use serde_json::{Value, json};
use viz::{PlotError, run_svg, write_run_svg};

fn port(name: &str, peer: &str, paused_s: f64, max_queue_bytes: u64) -> Value {
    let mut port = common::port(name, peer);
    port["paused_s"] = json!(paused_s);
    port["max_queue_bytes"] = json!(max_queue_bytes);
    port
}

fn flow(id: usize) -> Value {
    json!({
        "id": id, "source": format!("host{id}"), "target": "host99", "source_port": 10000,
        "priority": 3, "bytes": 1_000_000, "start_s": 0.0, "fct_s": null, "acked_s": null,
        "ideal_fct_s": null, "slowdown": null, "delivered_bytes": 1_000_000 - id,
        "measured_bytes": 0, "goodput_bps": 0.0, "status": "completed", "retransmitted_bytes": 0
    })
}

fn report(ports: Vec<Value>, flows: usize, paused_s: f64) -> Report {
    common::report(ports, (0..flows).map(flow).collect(), paused_s)
}

/// An incast of `flows` flows over `samples` samples.
fn incast(flows: usize, samples: usize) -> (Report, Series) {
    let x = |i: usize| i as f64 / samples as f64;
    let column = |value: &dyn Fn(f64) -> f64| (0..samples).map(|i| value(x(i))).collect();
    let names: Vec<String> = (0..6).map(|i| format!("sw0:{i}")).collect();
    let mut ports: Vec<PortSeries> = Vec::new();
    for (slot, name) in names.iter().enumerate() {
        let depth = |x: f64| (1.0 - x) * 700e3 / (slot + 1) as f64 * (1.0 + (x * 60.0).sin() / 4.0);
        let queue: Vec<f64> = column(&depth);
        ports.push(PortSeries {
            port: name.clone(),
            rate_bps: 100_000_000_000,
            queue_bytes: queue.iter().map(|bytes| *bytes as u64).collect(),
            tx_bps: column(&|_| 100e9),
            paused_share: column(&|_| 0.0),
        });
    }
    for host in 0..3 {
        ports.push(PortSeries {
            port: format!("host{host}/nic0"),
            paused_share: column(&|x| ((x * 9.0 + host as f64).sin() * 0.7).max(0.0)),
            queue_bytes: vec![7_000_000; samples],
            ..PortSeries::default()
        });
    }
    let flow = |id: usize| FlowSeries {
        id: id as u32,
        source: format!("host{id}"),
        target: "host99".to_owned(),
        goodput_bps: column(&|x| (8.0 + id as f64 / 3.0 + (x * 20.0 + id as f64).sin()) * 1e9),
        ..FlowSeries::default()
    };
    let series = Series {
        time_s: (0..samples).map(|i| x(i) * 1.2e-3).collect(),
        ports,
        flows: (0..flows).map(flow).collect(),
        lanes: vec![],
    };
    let named = |series: &PortSeries| match series.port.strip_suffix("/nic0") {
        Some(_) => port(&series.port, "sw0:1", 0.4e-3, 0),
        None => port(&series.port, "a-host-with-a-very-long-name/nic0", 0.0, 910_000),
    };
    (report(series.ports.iter().map(named).collect(), flows, 1.2e-3), series)
}

#[test]
fn three_panels_with_titles_units_and_legends() {
    let (report, series) = incast(12, 300);
    let svg = run_svg(&report, &series).unwrap();
    assert_sound(&svg);
    for text in [
        "12-to-1 &lt;incast&gt; &amp; pauses",
        "completed · 1.23 ms simulated · seed 7 · 300 samples",
        "Queue depth of the busiest switch ports",
        "Queue depth (KB)",
        "Share of time paused (PFC), most paused ports, means over 8 us",
        "Time paused (%)",
        "at most 910 KB",
        "host2/nic0 → sw0",
        "400 us in all",
        "Goodput of the largest 8 flows, means over 8 us",
        "Goodput (Gb/s)",
        "7: host7 → host99",
        "sum of all 12 flows",
        "Time (ms)",
    ] {
        assert!(svg.contains(text), "{text} is missing");
    }
    // the fifth and sixth port, the ninth flow
    for text in ["sw0:4", "sw0:5", "8: host8"] {
        assert!(!svg.contains(text), "{text} is there");
    }
}

#[test]
fn long_runs_are_thinned_out() {
    let (report, series) = incast(2, 200_000);
    let svg = run_svg(&report, &series).unwrap();
    assert_sound(&svg);
    assert!(svg.len() < 300_000, "{} bytes", svg.len());
}

#[test]
fn samples_after_the_end_are_left_out() {
    let (mut report, series) = incast(2, 1000);
    report.simulated_time_s = 0.1195e-3; // after the sample at 0.1188 ms, before 0.12 ms
    let svg = run_svg(&report, &series).unwrap();
    assert!(svg.contains(" · 101 samples") && svg.contains("Time (us)"), "{svg}");
}

#[test]
fn no_samples_is_an_error_that_names_the_key() {
    let error = run_svg(&report(vec![], 0, 0.0), &Series::default()).unwrap_err();
    assert!(matches!(error, PlotError::NoSamples));
    assert!(error.to_string().contains("sample.interval"), "{error}");
}

#[test]
fn degenerate_series_do_not_panic() {
    for samples in [1, 2, 3] {
        let (report, series) = incast(3, samples);
        assert_sound(&run_svg(&report, &series).unwrap());
    }
    // nothing but times
    let empty = Series { time_s: vec![0.0, 1.0], ..Series::default() };
    let svg = run_svg(&report(vec![], 0, 0.0), &empty).unwrap();
    assert_sound(&svg);
    for note in ["no switch port was sampled", "no pauses", "no flow was sampled"] {
        assert!(svg.contains(note), "{note} is missing");
    }
    // all zero, not numbers, columns of different lengths, one instant
    let flat = |value: f64, queue: u64| Series {
        time_s: vec![2.0; 3],
        ports: vec![PortSeries {
            port: "sw0:0".to_owned(),
            queue_bytes: vec![queue; 2],
            paused_share: vec![value; 5],
            ..PortSeries::default()
        }],
        flows: vec![FlowSeries { goodput_bps: vec![value; 3], ..FlowSeries::default() }; 9],
        lanes: vec![],
    };
    for value in [0.0, f64::NAN, f64::INFINITY, 1e300, -1.0] {
        for queue in [0, u64::MAX] {
            let report = report(vec![port("sw0:0", "", value.min(1.0), 0)], 0, 0.0);
            assert_sound(&run_svg(&report, &flat(value, queue)).unwrap());
        }
    }
}

#[test]
fn a_file_is_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (report, series) = incast(3, 10);
    let path = folder.path().join("run.svg");
    write_run_svg(&path, &report, &series).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), run_svg(&report, &series).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file is left");
    let error = write_run_svg(&folder.path().join("no/run.svg"), &report, &series).unwrap_err();
    assert!(error.to_string().contains("run.svg"), "{error}");
}
