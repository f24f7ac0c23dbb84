//! `--quick` against full runs: the answer is right within the error that it states.

mod common;

use common::{json_report, rocesim, say, text};
use models::report::{CollectiveReport, Performance, Report};
use scenarios::resolve::{self, LoadOptions, Loaded};
use scenarios::simulate::{self, Finished, How, Verdict};

fn load(name: &str, set: &[&str]) -> Loaded {
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    resolve::load(name, &LoadOptions { set, ..LoadOptions::default() }).unwrap()
}

fn run(loaded: &Loaded, threads: usize, quick: bool) -> Finished {
    let plans = simulate::plans(loaded, threads).unwrap();
    let how = How { remedies: false, quick };
    simulate::run_all(loaded, plans, threads, how, &|_| Verdict::GoOn).unwrap()
}

/// All that may not depend on the machine.
fn stable(run: Finished) -> Report {
    Report { performance: Performance::default(), ..run.report }
}

fn busbw(report: &CollectiveReport) -> f64 {
    report.busbw_gbytes_per_s.unwrap()
}

/// Runs a sweep quickly and as a whole, prints both, and checks every size; how many sizes were
/// extrapolated.
fn compare(title: &str, loaded: &Loaded) -> usize {
    let (quick, full) = (run(loaded, 1, true), run(loaded, 1, false));
    let mut lines = format!(
        "{title}\n  {:>8} {:>10} {:>10} {:>9} {:>9} {:>10}\n",
        "MiB", "full GB/s", "quick GB/s", "off by", "stated", "simulated"
    );
    let (mut extrapolated, mut within) = (0, true);
    for (full, quick) in full.report.collectives.iter().zip(&quick.report.collectives) {
        let off = (busbw(quick) / busbw(full) - 1.0).abs();
        let stated = quick.estimated_error.unwrap_or(0.0);
        let percent = |share: f64| format!("{:.3} %", share * 100.0);
        lines += &format!(
            "  {:>8} {:>10.3} {:>10.3} {:>9} {:>9} {:>10}{}\n",
            full.bytes >> 20,
            busbw(full),
            busbw(quick),
            percent(off),
            percent(stated),
            percent(quick.simulated_share.unwrap_or(1.0)),
            if quick.extrapolated { " ~" } else { "" }
        );
        within &= off <= stated;
        extrapolated += usize::from(quick.extrapolated);
    }
    for note in &quick.notes {
        lines += &format!("  {note}\n");
    }
    let hops = [&quick, &full].map(|run| run.report.performance.packet_hops as f64 / 1e6);
    lines += &format!("  {:.1} M packet-hops, {:.1} M in full\n", hops[0], hops[1]);
    say(&lines);
    assert!(within, "{lines}");
    extrapolated
}

const SIZES: &str = "traffic.allreduce.bytes={ from = \"512MiB\", to = \"4GiB\", factor = 2 }";

#[test]
fn one_size_over_sixteen_servers() {
    let one = "traffic.allreduce.bytes=512MiB";
    let loaded = load("allreduce-4x8-a100", &["topology.hosts=16", one]);
    assert_eq!(compare("16 x 8 A100, 2 x 100GbE on rails", &loaded), 1);
}

#[test]
#[ignore = "takes minutes"]
fn sixteen_servers_on_rails() {
    let loaded = load("allreduce-4x8-a100", &["topology.hosts=16", SIZES]);
    assert_eq!(compare("16 x 8 A100, 2 x 100GbE on rails", &loaded), 4);
    let sizes = "traffic.allreduce.bytes={ from = \"128MiB\", to = \"1GiB\", factor = 2 }";
    let loaded = load("allreduce-16x8-h100-rail", &[sizes]);
    assert!(compare("16 x 8 H100, 8 x 400GbE on rails", &loaded) >= 2);
}

/// Four servers on each of four leaves; 8 x 100 Gb/s below a leaf, 2 x 100 Gb/s above it, and every
/// edge of the ring passes a spine. Rings of 16 GPUs; buffers of 1 MiB, so that loops are short.
fn over_a_spine(sizes: &str, control: &str, more: &[&str]) -> Loaded {
    let topology = "topology={ kind = \"leaf-spine\", leaves = 4, spines = 2, hosts_per_leaf = 4, \
         ports_per_host = 2, link = { rate = \"100Gbps\", delay = \"50ns\" }, \
         uplink = { rate = \"100Gbps\", delay = \"150ns\" } }";
    let hosts = "traffic.allreduce.hosts=[0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]";
    let gpus = "traffic.allreduce.gpus=1";
    let sizes = format!("traffic.allreduce.bytes={sizes}");
    let control = format!("nic.congestion={{ algorithm = \"{control}\" }}");
    let set = [topology, hosts, gpus, "nccl.BUFFSIZE=1048576", &sizes, &control];
    load("allreduce-4x8-a100", &[&set[..], more].concat())
}

/// 16 servers on rails, each of which reads from a storage server of its own without end.
fn all_read(gpus: u32, sizes: &str, more: &[&str]) -> Loaded {
    let reads: String = (0..16)
        .map(|host| {
            format!(
                ", {{ name = \"read{host}\", kind = \"incast\", senders = [{}], \
                 receiver = {host}, bytes = \"unlimited\", qps = 2 }}",
                host + 16
            )
        })
        .collect();
    let members: Vec<String> = (0..16).map(|host| host.to_string()).collect();
    let traffic = format!(
        "traffic=[{{ name = \"allreduce\", kind = \"collective\", op = \"all_reduce\", \
         bytes = {sizes}, gpus = {gpus}, hosts = [{}] }}{reads}]",
        members.join(", ")
    );
    let control = "nic.congestion={ algorithm = \"none\" }";
    let set = ["topology.hosts=32", &traffic, control, "stop.after_last_flow=10us"];
    load("allreduce-4x8-a100", &[&set[..], more].concat())
}

const SMALL_BUFFERS: &str = "nccl.BUFFSIZE=131072";

#[test]
fn one_size_where_flows_collide_on_a_spine() {
    let loaded = over_a_spine("\"64MiB\"", "none", &[SMALL_BUFFERS]);
    assert_eq!(compare("16 A100 servers, 4:1 oversubscribed, PFC only", &loaded), 1);
}

const FOUR: &str = "{ from = \"256MiB\", to = \"2GiB\", factor = 2 }";

#[test]
#[ignore = "takes minutes"]
fn sixteen_servers_whose_flows_collide_on_a_spine() {
    let loaded = over_a_spine(FOUR, "none", &[]);
    assert_eq!(compare("16 A100 servers, 4:1 oversubscribed, PFC only", &loaded), 4);
}

#[test]
#[ignore = "takes minutes"]
fn sixteen_servers_that_all_read_from_storage() {
    let loaded = all_read(1, FOUR, &["nccl.BUFFSIZE=1048576"]);
    assert_eq!(compare("16 A100 servers on rails, each reads from storage, PFC only", &loaded), 4);
}

#[test]
#[ignore = "takes minutes"]
fn sixteen_servers_of_eight_gpus_that_all_read_from_storage() {
    let loaded = all_read(8, "{ from = \"512MiB\", to = \"4GiB\", factor = 2 }", &[]);
    assert_eq!(compare("16 x 8 A100 on rails, each reads from storage, PFC only", &loaded), 4);
}

#[test]
#[ignore = "takes minutes"]
fn sixteen_servers_whose_flows_collide_on_a_spine_under_dcqcn() {
    let loaded = over_a_spine(FOUR, "dcqcn", &[]);
    compare("16 A100 servers, 4:1 oversubscribed, DCQCN", &loaded);
}

/// One server more sends to the fourth without end.
fn beside_storage(hosts: u32, bytes: &str, control: &str) -> Loaded {
    let members: Vec<String> = (0..hosts).map(|host| host.to_string()).collect();
    let traffic = format!(
        "traffic=[{{ name = \"allreduce\", kind = \"collective\", op = \"all_reduce\", \
         bytes = {bytes}, hosts = [{}] }}, {{ name = \"storage\", kind = \"incast\", \
         senders = [{hosts}], receiver = 3, bytes = \"unlimited\", qps = 2 }}]",
        members.join(", ")
    );
    let hosts = format!("topology.hosts={}", hosts + 1);
    let control = format!("nic.congestion={{ algorithm = \"{control}\" }}");
    load("allreduce-4x8-a100", &[&hosts, &traffic, &control, "stop.after_last_flow=10us"])
}

#[test]
#[ignore = "takes minutes"]
fn servers_that_storage_slows_by_pfc() {
    let sizes = "{ from = \"512MiB\", to = \"4GiB\", factor = 2 }";
    let loaded = beside_storage(16, sizes, "none");
    assert!(compare("16 x 8 A100 on rails, storage to one of them, PFC only", &loaded) >= 1);
    let loaded = beside_storage(4, sizes, "none");
    assert!(compare("4 x 8 A100 on rails, storage to one of them, PFC only", &loaded) >= 1);
    let loaded = beside_storage(4, sizes, "dcqcn");
    compare("the same under DCQCN", &loaded);
}

#[test]
#[ignore = "takes minutes"]
fn four_servers_beside_an_incast() {
    let sizes = "traffic.allreduce.bytes={ from = \"1GiB\", to = \"8GiB\", factor = 2 }";
    let loaded = load("allreduce-4x8-a100-congested", &[sizes]);
    compare("4 x 8 A100, oversubscribed, beside an incast, PFC only", &loaded);
}

/// Two hosts of two GPUs, and small chunks: 128 loops of 7 steps.
const SMALL: [&str; 4] = [
    "topology.hosts=2",
    "traffic.allreduce.gpus=2",
    "nccl.BUFFSIZE=131072",
    "traffic.allreduce.bytes=64MiB",
];

#[test]
fn the_answer_does_not_depend_on_threads() {
    let loaded = load("allreduce-4x8-a100", &SMALL);
    let alone = stable(run(&loaded, 1, true));
    assert!(alone.collectives[0].extrapolated);
    assert!(stable(run(&loaded, 2, true)) == alone);
    // and is not that of a full run, which does not know of it
    let full = stable(run(&loaded, 1, false));
    assert!(full.collectives[0].estimated_error.is_none() && full.fingerprint != alone.fingerprint);
    let off = busbw(&alone.collectives[0]) / busbw(&full.collectives[0]) - 1.0;
    assert!(off.abs() <= alone.collectives[0].estimated_error.unwrap(), "{off}");
}

#[test]
fn a_small_last_loop_is_extrapolated_by_itself() {
    // 64 MiB and a fraction of a loop; three repetitions, the first a warm-up
    let bytes = "traffic.allreduce.bytes=64.1MiB";
    let repeats = ["traffic.allreduce.iterations=2", "traffic.allreduce.warmup=1"];
    let loaded = load("allreduce-4x8-a100", &[&SMALL[..3], &[bytes], &repeats].concat());
    let [quick, full] = [true, false].map(|quick| stable(run(&loaded, 1, quick)));
    let (quick, full) = (&quick.collectives[0], &full.collectives[0]);
    assert!(quick.extrapolated && !full.extrapolated);
    let off = (busbw(quick) / busbw(full) - 1.0).abs();
    assert!(off <= quick.estimated_error.unwrap(), "{off} {:?}", quick.estimated_error);
}

#[test]
fn where_it_cannot_apply_all_is_run_and_one_line_says_why() {
    let flow = "{ kind = \"incast\", senders = [0], receiver = 1, bytes = \"1MB\" }";
    let collective = |name: &str, hosts: &str| {
        format!(
            "{{ name = \"{name}\", kind = \"collective\", op = \"all_reduce\", gpus = 2, \
             bytes = \"64MiB\", hosts = {hosts} }}"
        )
    };
    let small = ["topology.hosts=4", "nccl.BUFFSIZE=131072"];
    let beside = format!("traffic=[{}, {}]", collective("a", "[0, 1]"), flow);
    let two = format!("traffic=[{}, {}]", collective("a", "[0, 1]"), collective("b", "[2, 3]"));
    let bare = format!("traffic=[{flow}]");
    let alone = format!("traffic=[{}]", collective("a", "[0, 1]"));
    let cases: [(&[&str], &str); 6] = [
        (&[&beside], "64 MiB: flows beside it end"),
        (&[&two], "64 MiB: several collectives share the fabric"),
        (&[&alone, "topology.link.loss=0.000001"], "64 MiB: links lose frames at random"),
        (&[&alone, "stop.limit=3ms"], "64 MiB: the run is to stop before it ends"),
        (&[&alone, "traffic.a.bytes=256KiB"], "256 KiB: too short to be extrapolated"),
        (&[&bare], "there is no collective"),
    ];
    for (set, expected) in cases {
        let loaded = load("allreduce-4x8-a100", &[&small[..], set].concat());
        let quick = run(&loaded, 1, true);
        let note = quick.notes.join("\n");
        assert!(note.contains(expected) && note.ends_with("all of it is run"), "{note}");
        assert_eq!(note.lines().count(), 1, "{note}");
        assert!(stable(quick) == stable(run(&loaded, 1, false)), "{expected}");
    }
}

#[test]
fn rows_are_marked_and_the_error_is_stated_below() {
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<&str> = SMALL.iter().flat_map(|set| ["--set", set]).collect();
    let arguments = [&["run", "allreduce-4x8-a100", "--quick"][..], &sets].concat();
    let printed = text(&rocesim(&arguments, folder.path()).stdout);
    let row = printed.lines().find(|line| line.starts_with(' ')).unwrap();
    let fields: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((fields.len(), fields[13]), (14, "~"), "{row}");
    for part in ["# ~ 64 MiB: extrapolated from ", " % of its steps; busbw is right within "] {
        assert!(printed.contains(part), "{printed}");
    }
    assert!(printed.contains("are those of the part that was simulated"), "{printed}");
    let csv = folder.path().join("runs/allreduce-4x8-a100/collectives.csv");
    let csv = std::fs::read_to_string(csv).unwrap();
    let column = csv.lines().next().unwrap().split(',').position(|name| name == "extrapolated");
    assert_eq!(csv.lines().nth(1).unwrap().split(',').nth(column.unwrap()), Some("true"), "{csv}");
    let report =
        json_report(&[&["allreduce-4x8-a100", "--quick"][..], &sets].concat(), folder.path());
    let collective = &report["collectives"][0];
    assert_eq!(collective["extrapolated"], true);
    let [error, share] = ["estimated_error", "simulated_share"].map(|key| collective[key].as_f64());
    assert!((0.0..0.02).contains(&error.unwrap()) && (0.0..0.5).contains(&share.unwrap()));
    // nccl-test has the flag too
    let flags =
        ["nccl-test", "all_reduce", "allreduce-4x8-a100", "-b", "64M", "-e", "64M", "--quick"];
    let tested = text(&rocesim(&[&flags[..], &sets[..6]].concat(), folder.path()).stdout);
    let rows = |text: &str| text.lines().find(|line| line.starts_with(' ')).map(str::to_owned);
    assert_eq!(rows(&tested), rows(&printed));
}

#[test]
#[ignore = "half a minute; in a release build"]
fn a_thousand_gpus() {
    let one = ["topology.hosts=128", "traffic.allreduce.bytes=1GiB"];
    let loaded = load("allreduce-16x8-h100-rail", &one);
    let quick = run(&loaded, 1, true);
    let collective = &quick.report.collectives[0];
    let Performance { wall_time_s, cpu_time_s, packet_hops, .. } = quick.report.performance;
    say(&format!(
        "{} GPUs, 1 GiB: {:.2} GB/s within {:.2} %, {:.1} % simulated, {:.1} M packet-hops, \
         {wall_time_s:.1} s, {cpu_time_s:.1} s of CPU",
        collective.ranks,
        busbw(collective),
        collective.estimated_error.unwrap() * 100.0,
        collective.simulated_share.unwrap() * 100.0,
        packet_hops as f64 / 1e6
    ));
    assert!(collective.extrapolated && collective.ranks == 1024);
    assert!(packet_hops <= 60_000_000 && cpu_time_s < 60.0);
}
