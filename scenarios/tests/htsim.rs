//! Matrices of htsim, imported and run: what its conventions make of one flow, in closed form.

use models::report::Report;
use scenarios::import::{Fabric, HtsimOptions, htsim};
use scenarios::resolve::{LoadOptions, load};
use scenarios::simulate::{self, Verdict};
use sim_core::{Delta, Rate};

const OPTIONS: HtsimOptions = HtsimOptions {
    fabric: Fabric::FatTree,
    link: Rate::from_gbps(100),
    delay: Delta::from_us(1),
    mtu: 4096,
};

fn report(matrix: &str, options: &HtsimOptions) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let [cm, toml] = ["a.cm", "a.toml"].map(|name| folder.path().join(name));
    std::fs::write(&cm, matrix).unwrap();
    let imported = htsim(&cm, options, "a.csv").unwrap();
    std::fs::write(&toml, imported.toml).unwrap();
    for (name, text) in imported.files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let loaded = load(toml.to_str().unwrap(), &LoadOptions::default()).unwrap();
    let plan = simulate::plan(&loaded, 1).unwrap();
    simulate::run(&loaded, plan, |_| Verdict::GoOn).unwrap().report
}

/// When each flow starts, and how long it takes until it is acknowledged, in picoseconds.
fn run(matrix: &str, options: &HtsimOptions) -> Vec<[u64; 2]> {
    let report = report(matrix, options);
    let ps = |seconds: Option<f64>| (seconds.unwrap() * 1e12).round() as u64;
    report.flows.iter().map(|flow| [ps(flow.start_s), ps(flow.acked_s)]).collect()
}

#[test]
fn one_flow_over_six_links_is_exact_to_the_picosecond() {
    // 2 MB are 489 packets of 4096 B, of s = 4160 B on the wire; a = 64 B. The last packet is sent
    // after 489 s, stored and forwarded by 5 switches, and acknowledged over 6 links:
    // 489 s + 5 s + 6 us + 6 a + 6 us
    let matrix = "Nodes 128\nConnections 1\n0->127 id 1 start 0 size 2000000\n";
    // 100 Gb/s: s = 332,800 ps, a = 5,120 ps; 400 Gb/s: s = 83,200 ps, a = 1,280 ps
    for (gbps, s, a, us) in [(100, 332_800, 5_120, 176.434), (400, 83_200, 1_280, 53.1085)] {
        let options = HtsimOptions { link: Rate::from_gbps(gbps), ..OPTIONS };
        let [[_, acked]] = run(matrix, &options)[..] else { panic!("one flow") };
        assert_eq!(acked, 494 * s + 12_000_000 + 6 * a);
        // as published, to the last digit
        let unit = if gbps == 100 { 1e-3 } else { 1e-4 };
        assert!((acked as f64 / 1e6 - us).abs() <= unit / 2.0, "{acked}");
    }
}

#[test]
fn a_trigger_starts_its_flows_at_the_last_ack_of_the_last_that_fires_it() {
    let matrix = "Nodes 16\nConnections 4\nTriggers 2\n\
                  0->1 id 1 start 0 size 1 send_done_trigger 1\n\
                  2->3 id 2 start 0 size 4097 send_done_trigger 1\n\
                  1->0 id 3 trigger 1 size 4096 send_done_trigger 2\n\
                  3->2 id 4 trigger 2 size 4096\n\
                  trigger id 1 barrier count 2\ntrigger id 2 oneshot\n";
    // within a ToR: n packets take n s + s + 2 us + 2 a + 2 us
    let fct = |packets: u64| (packets + 1) * 332_800 + 4_000_000 + 2 * 5_120;
    let starts = [0, 0, fct(2), fct(2) + fct(1)];
    let packets = [1, 2, 1, 1];
    let expected: Vec<_> = (0..4).map(|flow| [starts[flow], fct(packets[flow])]).collect();
    assert_eq!(run(matrix, &OPTIONS), expected);
}

#[test]
fn a_pause_begins_above_fifteen_packets_of_one_ingress() {
    let options = HtsimOptions { fabric: Fabric::Star, ..OPTIONS };
    // both send at line rate into one link: when n packets of each have come, some n of 2 n wait,
    // n / 2 of each. 14 frames of 4160 B are below 61,440 B, 15 are above
    for (packets, pauses) in [(26, 0), (32, 2)] {
        let size = packets * 4096;
        let matrix = format!(
            "Nodes 3\nConnections 2\n1->0 id 1 start 0 size {size}\n2->0 id 2 start 0 size {size}\n"
        );
        let report = report(&matrix, &options);
        assert_eq!(report.totals.pfc_xoff_frames, pauses, "{packets}");
        assert_eq!(report.totals.pfc_xon_frames, pauses, "{packets}");
        // the link to host 0 is never idle
        let acked = |flow: &models::report::FlowReport| (flow.acked_s.unwrap() * 1e12).round();
        let last = report.flows.iter().map(acked).fold(0.0, f64::max) as u64;
        assert_eq!(last, (2 * packets + 1) * 332_800 + 4_000_000 + 2 * 5_120);
    }
}
