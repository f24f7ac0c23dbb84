//! `rocesim study` through the binary: nothing is lost, nothing is run twice, and what is
//! recommended holds.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{rocesim, text};
use scenarios::library::{Kind, names};
use scenarios::resolve::LoadOptions;
use scenarios::study::design;

/// A hundred points of a small scenario, some of which cannot be built or break a requirement.
const HUNDRED: &str = r#"
title = "a hundred points"
base = "incast"
seeds = 2
maximize = "flows.goodput_mean"
minimize = ["flows.fct_p99"]
require = { lossless_drops = 0, "flows.fct_p99" = { below = "900us" } }

[axes]
"switch.ecn.3.kmin" = { from = "20KB", to = "200KB", count = 10 }
"switch.ecn.3.kmax" = { times = "switch.ecn.3.kmin", of = [0.5, 1, 2, 4, 8] }
"switch.ecn.3.pmax" = [0.05, 0.5]
"#;

/// Runs what must work; what it prints.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = rocesim(arguments, folder);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs what must be refused; the message.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = rocesim(arguments, folder);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn study(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The tables of a study, byte by byte.
fn tables(folder: &Path) -> Vec<Vec<u8>> {
    let names = ["points.csv", "runs.csv", "points.parquet", "runs.parquet"];
    names.iter().map(|name| fs::read(folder.join(name)).unwrap()).collect()
}

/// The rows of a CSV table as maps would be: header, and cells.
fn csv(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let header = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let row = |record: csv::StringRecord| record.iter().map(str::to_owned).collect();
    (header, reader.records().map(|record| row(record.unwrap())).collect())
}

/// One column of a table.
fn column(path: &Path, name: &str) -> Vec<String> {
    let (header, rows) = csv(path);
    let at = header.iter().position(|known| known == name);
    let at = at.unwrap_or_else(|| panic!("no {name} among {header:?}"));
    rows.into_iter().map(|row| row[at].clone()).collect()
}

#[test]
fn killed_at_any_time_nothing_is_lost_and_nothing_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    study(folder, "hundred.toml", HUNDRED);
    done(folder, &["study", "hundred.toml", "--out", "whole", "--threads", "2"]);
    let begin = Instant::now();
    done(folder, &["study", "hundred.toml", "--out", "timed", "--threads", "1"]);
    let whole = begin.elapsed();
    assert_eq!(tables(&folder.join("whole")), tables(&folder.join("timed")), "threads");

    // twenty moments, from before the first run to after the last
    let mut killed = 0;
    let mut moment = 12_345_u64;
    for _ in 0..20 {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = (moment >> 33) as f64 / (1u64 << 31) as f64;
        let arguments = ["study", "hundred.toml", "--out", "torn", "--threads", "1", "--resume"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocesim"));
        command.current_dir(folder).args(arguments).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * share / 6.0));
        // SIGKILL
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
    }
    common::say(&format!("killed {killed} of 20 times"));
    assert!(killed >= 5, "the moments were too late: {killed}");
    done(folder, &["study", "hundred.toml", "--out", "torn", "--threads", "2", "--resume"]);
    assert_eq!(tables(&folder.join("whole")), tables(&folder.join("torn")));

    // each run has one line
    let lines = fs::read_to_string(folder.join("torn/results/local.jsonl")).unwrap();
    let mut runs: Vec<String> = lines
        .lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {}", record["point"], record["seed"])
        })
        .collect();
    let all = runs.len();
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), all, "some run was repeated");
    assert_eq!(column(&folder.join("torn/runs.csv"), "seed").len(), all);
}

#[test]
fn parts_that_ran_anywhere_make_the_same_tables() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    study(folder, "hundred.toml", HUNDRED);
    done(folder, &["study", "hundred.toml", "--out", "whole"]);
    for part in ["2/3", "0/3", "1/3"] {
        done(folder, &["study", "hundred.toml", "--out", "parts", "--shard", part]);
    }
    done(folder, &["study", "hundred.toml", "--out", "parts", "--resume"]);
    assert_eq!(tables(&folder.join("whole")), tables(&folder.join("parts")));
    // nothing was left for the last call to run
    let own = fs::read_to_string(folder.join("parts/results/local.jsonl")).unwrap();
    assert_eq!(own, "");

    assert!(refused(folder, &["study", "hundred.toml", "--out", "whole"]).contains("--resume"));
    study(folder, "hundred.toml", &HUNDRED.replace("0.05, 0.5", "0.05, 0.6"));
    let message = refused(folder, &["study", "hundred.toml", "--out", "whole", "--resume"]);
    assert!(
        message.contains("the study has changed since")
            && message.contains("[0.05, 0.5]")
            && message.contains("[0.05, 0.6]"),
        "{message}"
    );
    let message = refused(folder, &["study", "hundred.toml", "--shard", "3/3"]);
    assert!(message.contains("from 0 to 2"), "{message}");
}

#[test]
fn points_that_fail_are_results() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = r#"
base = "incast"
maximize = "flows.goodput_mean"
give_up = 3.0

[axes]
"switch.ecn.3.kmin" = ["100KB", "300KB"]
"switch.ecn.3.kmax" = ["200KB", "400KB"]
"nic.congestion.algorithm" = ["dcqcn"]
"topology.link.rate" = ["100Gbps", "10Gbps"]
"#;
    study(folder, "some.toml", file);
    let answer = done(folder, &["study", "some.toml", "--out", "some"]);
    let points = folder.join("some/points.csv");
    let outcomes = column(&points, "outcome");
    // the base, then 2 x 2 x 2: kmin 300 KB above kmax 200 KB cannot be built, and at a tenth of
    // the rate a run takes ten times as long
    let expected = [
        "completed",
        "completed",
        "given_up",
        "completed",
        "given_up",
        "refused",
        "refused",
        "completed",
        "given_up",
    ];
    assert_eq!(outcomes, expected, "{answer}");
    assert!(column(&points, "error")[5].contains("kmin"));
    assert!(answer.contains("2 x could not be built"), "{answer}");
    assert!(answer.contains("3 x given up"), "{answer}");
}

#[test]
fn what_is_recommended_holds_when_it_is_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    study(folder, "hundred.toml", HUNDRED);
    let answer = done(folder, &["study", "hundred.toml", "--out", "whole"]);
    let again = done(folder, &["report", "whole"]);
    // a study's file has its whole path there
    let but_alone = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains("alone:")).map(str::to_owned).collect()
    };
    assert_eq!(but_alone(&answer), but_alone(&again));
    let alone = answer.lines().find_map(|line| line.trim().strip_prefix("alone: rocesim "));
    let alone = alone.unwrap_or_else(|| panic!("{answer}")).replace('\'', "");
    let mut arguments: Vec<&str> = alone.split(' ').collect();
    arguments.extend(["--json", "--no-out"]);
    let report: serde_json::Value = serde_json::from_str(&done(folder, &arguments)).unwrap();
    let number = answer.lines().find_map(|line| line.strip_prefix("recommended: point "));
    let number = number.unwrap().trim();
    let runs = folder.join("whole/runs.csv");
    let row = column(&runs, "point").iter().position(|point| point == number).unwrap();
    assert_eq!(column(&runs, "seed")[row], "1");
    assert_eq!(column(&runs, "fingerprint")[row], report["fingerprint"].as_str().unwrap());
    // the best of all that are good
    let points = folder.join("whole/points.csv");
    let goodput = column(&points, "flows_goodput_mean_bps");
    let good = column(&points, "good");
    let best = goodput
        .iter()
        .zip(&good)
        .skip(1)
        .filter(|(_, good)| *good == "true")
        .map(|(value, _)| value.parse::<f64>().unwrap())
        .fold(0.0, f64::max);
    let chosen: f64 = goodput[number.parse::<usize>().unwrap()].parse().unwrap();
    assert!(chosen >= 0.99 * best, "{chosen} beside {best}");
    assert!(good.contains(&"false".to_owned()), "some point should break a requirement");
    for name in ["heat.svg", "pareto.svg", "sensitivity.svg", "report.html"] {
        assert!(folder.join("whole").join(name).is_file(), "{name}");
    }
}

#[test]
fn all_methods_run_and_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for method in ["random", "latin-hypercube", "tpe"] {
        let text = format!(
            r#"
base = "incast"
method = "{method}"
samples = 24
minimize = "flows.fct_mean"

[axes]
"switch.ecn.3.kmin" = {{ from = "10KB", to = "1MB", scale = "log" }}
"nic.congestion.rpg_ai_rate" = {{ from = "5Mbps", to = "500Mbps", scale = "log" }}
entropy = {{ variants = {{ one = {{}}, random = {{ "nic.entropy" = "random" }} }} }}
"#
        );
        // kmax must not be below kmin
        let text = text.replace("[axes]", "[set]\n\"switch.ecn.3.kmax\" = \"2MB\"\n\n[axes]");
        study(folder, "m.toml", &text);
        for (out, threads) in [("a", "1"), ("b", "2")] {
            let out = format!("{method}-{out}");
            done(folder, &["study", "m.toml", "--out", &out, "--threads", threads]);
        }
        let [a, b] = ["a", "b"].map(|out| tables(&folder.join(format!("{method}-{out}"))));
        assert_eq!(a, b, "{method}");
        let points = folder.join(format!("{method}-a/points.csv"));
        assert_eq!(column(&points, "point").len(), 25);
        assert!(column(&points, "outcome").iter().all(|outcome| outcome == "completed"));
    }
    let message = refused(folder, &["study", "m.toml", "--shard", "0/2", "--out", "c"]);
    assert!(message.contains("tpe"), "{message}");
}

#[test]
fn failures_of_a_scenario_worst_first() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let scenario = r#"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 2
link = { rate = "100Gbps", delay = "50ns" }
uplink = { rate = "100Gbps", delay = "50ns" }
[host]
gpus = 2
[nccl]
IB_TC = 106
[[traffic]]
kind = "collective"
op = "all_reduce"
bytes = "4MiB"
"#;
    study(folder, "s.toml", scenario);
    let answer = done(folder, &["study", "failures", "s.toml", "--out", "f"]);
    // nothing; 4 cables between switches, 4 NICs, 2 leaves, 2 spines
    let labels = column(&folder.join("f/points.csv"), "failure");
    assert_eq!(labels.len(), 1 + 13, "{labels:?}");
    let lines: Vec<&str> = answer.lines().collect();
    let place = |what: &str| {
        lines
            .iter()
            .position(|line| line.trim_start().starts_with(what))
            .unwrap_or_else(|| panic!("no {what} in {answer}"))
    };
    // a host that is cut off is worse than a spine that is gone
    assert!(place("nic host0/nic0") < place("spine spine0"), "{answer}");
    assert!(place("leaf leaf0") < place("link leaf0:2-spine0:0"), "{answer}");
    assert!(folder.join("f/failures.svg").is_file());
    assert_eq!(answer, done(folder, &["report", "f"]));
}

#[test]
fn what_is_wrong_with_a_study_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let head = "base = \"incast\"\nmaximize = \"flows.goodput_mean\"\n\n[axes]\n";
    let cases = [
        ("\"switch.ecn.3.kmin\" = [\"50QB\"]", ":5", "no point with this value can be built"),
        ("\"switch.ecn.3.kmim\" = [\"50KB\"]", ":5", "did you mean `kmin`?"),
        ("x = { variats = {} }", ":5", "did you mean `variants`?"),
        ("\"a.b\" = { from = \"1KB\", to = \"9us\", step = \"1KB\" }", ":5", "a size such as"),
        ("\"a.b\" = { from = \"1KB\", to = \"9KB\" }", ":4", "`count`, `step` or `factor`"),
        ("\"a.b\" = { times = \"c\", of = [1] }", ":5", "no axis of numbers above this one"),
        ("f = { failures = [\"spine\"] }", ":5", "did you mean `spines`?"),
        ("\"a.b\" = []", ":5", "at least one value"),
        ("\"switch.ecn.3.pmax\" = [1, 1]", ":5", "there twice"),
        ("\"seed\" = [1, 2]", "", "`seeds = 5`"),
        ("good = { variants = { a = {} } }", "", "not its own"),
    ];
    for (axis, line, expected) in cases {
        study(folder, "bad.toml", &format!("{head}{axis}\n"));
        let message = refused(folder, &["study", "bad.toml"]);
        assert!(message.contains(expected), "{axis}: {message}");
        assert!(message.contains(&format!("bad.toml{line}")), "{axis}: {message}");
    }
    let text = format!("{head}\"switch.ecn.3.pmax\" = [0.1, 0.2]\n");
    for (change, expected) in [
        (("flows.goodput_mean", "flows.godput_mean"), "did you mean `goodput`?"),
        (("maximize", "maximise"), "did you mean `maximize`?"),
        (("base = \"incast\"", "base = \"incats\""), "did you mean `incast`?"),
        (("base = \"incast\"", "method = \"grit\"\nbase = \"incast\""), "grid"),
        (("base = \"incast\"", "samples = 3\nbase = \"incast\""), "a grid takes all points"),
        (
            ("base = \"incast\"", "across = [\"switch.ecn.3.pmx\"]\nbase = \"incast\""),
            "did you mean `switch.ecn.3.pmax`?",
        ),
        (("base = \"incast\"", ""), "`base` names one, `[scenario]` is one"),
    ] {
        study(folder, "bad.toml", &text.replace(change.0, change.1));
        let message = refused(folder, &["study", "bad.toml"]);
        assert!(message.contains(expected), "{change:?}: {message}");
        assert!(message.contains("bad.toml"), "{message}");
    }
    assert!(refused(folder, &["study", "incast"]).contains("a study has `[axes]`"));
    assert!(refused(folder, &["report", "."]).contains("there is no run and no study here"));
    let left: Vec<_> = fs::read_dir(folder).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing was written");
}

/// Two congestion controls and none under background traffic, with and without an incast.
const COMPARISON: &str = r#"
title = "which congestion control?"
seeds = 2
minimize = ["flows.background.slowdown_p99", "queue_p99", "paused_s"]
columns = ["flows.10KB.slowdown_mean", "flows.incast.completed", "flows.background.0B-100KB.fct_p99"]
given = ["load", "incast"]

[axes]
congestion = { variants = { dcqcn = { "nic.congestion.preset" = "hpcc-ns3" }, mlx5 = { "nic.congestion.preset" = "mlx5-default" }, none = {} } }
load = { zip = { "traffic.background.load" = [0.2, 0.4, 0.6] }, names = ["20 %", "40 %", "60 %"] }
incast = { variants = { without = { "traffic.incast.repeat.count" = 0 }, with = {} } }

[scenario.topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
link = { rate = "100Gbps", delay = "500ns" }
uplink = { rate = "200Gbps", delay = "500ns" }
[scenario.switch]
preset = "generic-32mb"
[scenario.switch.buffer]
size = "4MiB"
[scenario.switch.ecn.3]
kmin = "100KB"
kmax = "400KB"
pmax = 0.2
[[scenario.traffic]]
name = "background"
kind = "poisson"
sizes = "ali-storage"
load = 0.4
for = "200us"
[[scenario.traffic]]
name = "incast"
kind = "incast"
senders = "0..6"
receiver = 7
bytes = "200KB"
repeat = { every = "100us", count = 2 }
[scenario.sample]
interval = "2us"
flows = 0
[scenario.measure]
to = "200us"
"#;

#[test]
fn congestion_controls_are_compared_by_size_queues_and_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    study(folder, "cc.toml", COMPARISON);
    let answer = done(folder, &["study", "cc.toml", "--out", "cc"]);
    insta::assert_snapshot!("comparison", answer);
    let out = folder.join("cc");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();

    // 3 x 3 x 2 points and the base; a bin has the same edges everywhere
    let slowdown = out.join("slowdown.csv");
    let of = |name: &str| column(&slowdown, name);
    let rows: Vec<(String, String, String)> = of("point")
        .into_iter()
        .zip(of("traffic"))
        .zip(of("to_bytes"))
        .map(|((point, traffic), to)| (point, traffic, to))
        .collect();
    let distinct = |values: Vec<String>| values.into_iter().collect::<BTreeSet<String>>();
    assert_eq!(distinct(of("point")).len(), 19);
    assert_eq!(distinct(of("traffic")).len(), 3, "all, background, incast");
    let edges = distinct(of("to_bytes"));
    assert!(edges.iter().all(|edge| edge.trim_end_matches('0').len() == 1), "{edges:?}");
    // point 1 has no incast, point 2 has 2 seeds x 2 rounds x 6 senders of 200 KB
    let incast = |point: &str| {
        let at = rows.iter().position(|row| (&*row.0, &*row.1) == (point, "incast"));
        at.map(|at| (rows[at].2.clone(), of("flows")[at].clone()))
    };
    assert_eq!(incast("1"), None);
    assert_eq!(incast("2"), Some(("200000".to_owned(), "24".to_owned())));

    // a share of 1 is the longest queue: of this table as of the points
    let queues = out.join("queues.csv");
    let shares = column(&queues, "share");
    assert_eq!(shares.len(), 19 * 57);
    let lengths: Vec<f64> =
        column(&queues, "queue_bytes").iter().map(|cell| cell.parse().unwrap()).collect();
    assert!(lengths.chunks(57).all(|of_point| of_point.is_sorted()));

    let plots = ["slowdown.svg", "queues.svg", "pauses.svg"].map(read);
    for plot in &plots {
        assert!(plot.contains("mlx5") && plot.contains("load = 60 %, incast = with"), "{plot}");
    }
    // no line for the base, and a legend
    assert!(plots[0].contains("flows of traffic background") && plots[0].contains("slowdown, p99"));
    assert!(plots[1].contains("queue length (KB)"));
    assert!(read("report.html").contains("slowdown, p99"));
    assert_eq!(answer, done(folder, &["report", "cc"]));

    // one run, as any other program reads it
    let arguments = ["run", "cc.toml", "--out", "run", "--json"];
    let report: serde_json::Value = serde_json::from_str(&done(folder, &arguments)).unwrap();
    let bins = report["slowdown_by_size"].as_array().unwrap();
    let flows = |traffic: Option<&str>| -> u64 {
        let own = bins.iter().filter(|bin| bin["traffic"].as_str() == traffic);
        own.map(|bin| bin["flows"].as_u64().unwrap()).sum()
    };
    assert_eq!(flows(None), report["flows"].as_array().unwrap().len() as u64);
    assert_eq!(flows(Some("incast")), 12);
    assert_eq!(flows(None), flows(Some("incast")) + flows(Some("background")));
    let queue = &report["queue_bytes"];
    // two leaves with 4 + 2 ports and two spines with 2; each 2 us from 0 to 200 us
    assert_eq!(queue["samples"].as_u64(), Some(16 * 101));
    assert!(queue["p50"].as_u64() <= queue["p99"].as_u64());
    assert!(folder.join("run/queues.csv").is_file() && folder.join("run/slowdown.csv").is_file());
}

#[test]
fn keys_of_some_flows_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (key, expected) in [
        ("flows.backgroud.slowdown_p99", "did you mean `background`?"),
        ("flows.1KB-1QB.slowdown_p99", "nor a size such as 10KB or 0B-100KB"),
        ("flows.10KB.slowdwn_p99", "did you mean `slowdown`?"),
        ("queue_p98", "did you mean `queue_p9"),
    ] {
        study(folder, "bad.toml", &COMPARISON.replace("flows.10KB.slowdown_mean", key));
        let message = refused(folder, &["study", "bad.toml"]);
        assert!(message.contains(expected), "{key}: {message}");
    }
}

/// Every study of the library loads, and each of its values can be built (`study::load` tries).
#[test]
fn studies_of_the_library_load() {
    for name in names(Kind::Study) {
        let study = scenarios::study::load(name, &LoadOptions::default());
        let study = study.unwrap_or_else(|error| panic!("{name}: {error}"));
        let points = design::points(&study).unwrap();
        assert!(!study.config.title.is_empty() && !study.config.description.is_empty(), "{name}");
        assert!(points.len() >= 12, "{name}: {} points", points.len());
        // each scenario can be run by itself
        scenarios::simulate::plans(&study.base, 1)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// The smallest headroom without loss stands below the formula, and not far below.
#[test]
fn the_smallest_headroom_found_is_just_below_the_formula() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, &["study", "headroom-vs-cable", "--out", "h"]);
    let cells = column(&folder.join("h/points.csv"), "switch_pfc_headroom_cells");
    let study = scenarios::study::load("headroom-vs-cable", &LoadOptions::default()).unwrap();
    let cell = 254.0;
    let bound = 2.0 * 4096.0 + cell;
    common::say("rate cable frames: formula, found, below (bytes)");
    for (point, cells) in design::points(&study).unwrap().iter().zip(&cells[1..]) {
        // `headroom = "auto"` is the scenario's own
        let loaded = study.load_point(point, None, 1).unwrap();
        let plan = scenarios::simulate::plan(&loaded, 1).unwrap();
        let tiers = scenarios::check::tiers(&plan);
        let formula = tiers[0].needed_bytes.unwrap() as f64;
        let found = cells.parse::<f64>().unwrap() * cell;
        let labels: Vec<&str> = point.levels.iter().map(|level| &*level.label).take(3).collect();
        common::say(&format!("{}: {formula}, {found}, {}", labels.join(" "), formula - found));
        assert!(found <= formula, "the formula is too small");
        assert!(formula - found <= bound, "{} above {bound}", formula - found);
    }
}
