//! `--quick` against full runs: the answer is right within the error that it states.

mod common;

use common::say;
use models::report::{CollectiveReport, Report};
use scenarios::resolve::{self, LoadOptions, Loaded};
use scenarios::simulate::{self, Finished, How, Verdict};

fn load(name: &str, set: &[&str]) -> Loaded {
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    resolve::load(name, &LoadOptions { set, seed: None }).unwrap()
}

fn run(loaded: &Loaded, threads: usize, quick: bool) -> Finished {
    let plans = simulate::plans(loaded, threads).unwrap();
    let how = How { remedies: false, quick };
    simulate::run_all(loaded, plans, threads, how, &|_| Verdict::GoOn).unwrap()
}

/// All that may not depend on the machine.
fn stable(mut report: Report) -> Report {
    report.performance = models::report::Performance::default();
    report
}

/// Runs a sweep quickly and as a whole, prints both, and checks every size; how many sizes were
/// extrapolated.
fn compare(title: &str, loaded: &Loaded) -> usize {
    let (quick, full) = (run(loaded, 1, true), run(loaded, 1, false));
    let mut lines = format!(
        "{title}\n  {:>10} {:>10} {:>10} {:>9} {:>9} {:>10}\n",
        "MiB", "full GB/s", "quick GB/s", "off by", "stated", "simulated"
    );
    let mut extrapolated = 0;
    let rows = full.report.collectives.iter().zip(&quick.report.collectives);
    let busbw = |report: &CollectiveReport| report.busbw_gbytes_per_s.unwrap();
    let mut failed = false;
    for (full, quick) in rows {
        let off = (busbw(quick) / busbw(full) - 1.0).abs();
        let stated = quick.estimated_error.unwrap_or(0.0);
        lines += &format!(
            "  {:>10} {:>10.3} {:>10.3} {:>7.3} % {:>7.3} % {:>8.1} %{}\n",
            full.bytes >> 20,
            busbw(full),
            busbw(quick),
            off * 100.0,
            stated * 100.0,
            quick.simulated_share.unwrap_or(1.0) * 100.0,
            if quick.extrapolated { " ~" } else { "" }
        );
        failed |= off > stated;
        extrapolated += usize::from(quick.extrapolated);
    }
    for note in &quick.notes {
        lines += &format!("  {note}\n");
    }
    let hops = [&quick, &full].map(|run| run.report.performance.packet_hops as f64 / 1e6);
    lines += &format!("  {:.1} M packet-hops of {:.1} M\n", hops[0], hops[1]);
    say(&lines);
    assert!(!failed, "{lines}");
    extrapolated
}

const SIZES: &str = "traffic.allreduce.bytes={ from = \"512MiB\", to = \"4GiB\", factor = 2 }";

#[test]
#[ignore = "takes minutes"]
fn sixteen_servers_on_rails() {
    let loaded = load("allreduce-4x8-a100", &["topology.hosts=16", SIZES]);
    assert_eq!(compare("16 x 8 A100, 2 x 100GbE on rails", &loaded), 4);
    let sizes = "traffic.allreduce.bytes={ from = \"128MiB\", to = \"1GiB\", factor = 2 }";
    let loaded = load("allreduce-16x8-h100-rail", &[sizes, "sample.interval=\"1ms\""]);
    assert_eq!(compare("16 x 8 H100, 8 x 400GbE on rails", &loaded), 4);
}

const OVERSUBSCRIBED: &str = "topology={ kind = \"leaf-spine\", leaves = 4, spines = 2, \
    hosts_per_leaf = 5, ports_per_host = 2, link = { rate = \"100Gbps\", delay = \"50ns\" }, \
    uplink = { rate = \"100Gbps\", delay = \"150ns\" } }";
const MEMBERS: &str = "traffic.allreduce.hosts=[0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18]";
const INCAST: [&str; 2] = ["traffic.storage.senders=[9, 14, 19]", "traffic.storage.receiver=4"];

#[test]
#[ignore = "takes minutes"]
fn sixteen_servers_beside_an_incast() {
    let ecn = "switch.ecn.3={ kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }";
    let base = [OVERSUBSCRIBED, MEMBERS, INCAST[0], INCAST[1], SIZES];
    let loaded = load("allreduce-4x8-a100-congested", &[&base[..], &[ecn]].concat());
    compare("16 x 8 A100, oversubscribed, beside an incast, DCQCN", &loaded);
    let loaded = load("allreduce-4x8-a100-congested", &base);
    compare("16 x 8 A100, oversubscribed, beside an incast, PFC only", &loaded);
}
