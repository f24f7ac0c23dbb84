//! Pages, pictures and traces of real runs.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use common::{rocesim, text};
use scenarios::resolve::{LoadOptions, load};
use serde_json::Value;

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn done(arguments: &[&str], folder: &Path) -> String {
    let output = rocesim(arguments, folder);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_page_can_be_had_with_the_run_and_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // it has no samples of its own
    let run = ["run", "allreduce-4x8-a100-congested", "--set", "traffic[0].bytes=8MiB", "--out"];
    done(&[&run[..], &["plain"]].concat(), folder.path());
    assert!(!at("plain/report.html").exists());
    let said = done(&["report", "plain", "--svg", "pictures", "--png", "points"], folder.path());
    assert!(said.starts_with("report: plain/report.html\n"), "{said}");
    let said = done(&[&run[..], &["sampled", "--report"]].concat(), folder.path());
    assert!(said.contains("report: sampled/report.html\n"), "{said}");
    for page in ["plain/report.html", "sampled/report.html"] {
        let page = std::fs::read_to_string(at(page)).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>"));
        for foreign in ["http://", "https://", "src=", "@import", "url(", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
    let [plain, sampled] = ["plain", "sampled"].map(|run| read_json(&at(run).join("report.json")));
    // to look changes nothing
    assert_eq!(plain["fingerprint"], sampled["fingerprint"]);
    let names = |folder: &str, ending: &str| -> Vec<String> {
        let entries = std::fs::read_dir(at(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.map(|name| name.replace(ending, "")).collect();
        names.sort();
        names
    };
    assert_eq!(names("pictures", ".svg"), names("points", ".png"));
    assert!(names("pictures", ".svg").contains(&"fabric-pauses".to_owned()));
    // samples are few, whatever the length of the run
    let samples = std::fs::read_to_string(at("sampled/series/flows.csv")).unwrap();
    let times: BTreeSet<&str> =
        samples.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert!((200..=600).contains(&times.len()), "{} samples", times.len());
    let scenario = std::fs::read_to_string(at("sampled/scenario.toml")).unwrap();
    assert!(scenario.contains("keep = 600"));
}

#[test]
fn samples_that_are_left_out_are_the_same_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let series = |threads: &str| {
        let set = ["sample.interval=1us", "sample.keep=40"].map(|key| ["--set", key]).concat();
        let run =
            [&["run", "permutation-fat-tree", "--out", threads, "--threads", threads], &set[..]];
        done(&run.concat(), folder.path());
        ["ports", "flows"].map(|name| {
            std::fs::read_to_string(folder.path().join(threads).join(format!("series/{name}.csv")))
                .unwrap()
        })
    };
    let one = series("1");
    let times: Vec<f64> = one[1]
        .lines()
        .skip(1)
        .filter(|line| line.split(',').nth(1) == Some("0"))
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert!((20..40).contains(&times.len()), "{} samples", times.len());
    let step = times[1] - times[0];
    assert!(times.windows(2).all(|pair| (pair[1] - pair[0] - step).abs() < 1e-12), "evenly");
    assert_eq!(one, series("3"));
}

#[test]
fn runs_are_compared_with_the_first() {
    let folder = tempfile::tempdir().unwrap();
    done(&["run", "incast", "--out", "a"], folder.path());
    done(&["run", "incast", "--set", "switch.ecn.3.kmin=50KB", "--out", "b"], folder.path());
    done(&["report", "a", "b"], folder.path());
    let page = std::fs::read_to_string(folder.path().join("comparison.html")).unwrap();
    assert!(page.contains("<code>switch.ecn.3.kmin</code>"), "the key that differs is named");
    assert!(!page.contains("<code>topology.kind</code>"));
}

#[test]
fn folders_without_a_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    done(&["run", "incast", "--out", "run"], folder.path());
    let copy = |name: &str, file: &str, content: &str| {
        let target = folder.path().join(name);
        std::fs::create_dir(&target).unwrap();
        std::fs::copy(folder.path().join("run/report.json"), target.join("report.json")).unwrap();
        std::fs::create_dir(target.join("series")).unwrap();
        std::fs::write(target.join(file), content).unwrap();
    };
    copy("cut", "report.json", "{\n\"schema\": 1,\n\"rocesim\": ");
    copy("other", "report.json", "{\"schema\": 99}");
    copy(
        "pauses",
        "pauses.csv",
        "port,priority,from_s,to_s,by,cause_port,cause_priority,root,root_kind\nleaf0:1,3,x,,a,,,b,unknown\n",
    );
    copy(
        "series",
        "series/ports.csv",
        "time_s,port,queue_bytes,tx_bps,paused_share\n0,a,0,0,0\n0,b,0,0,0\n1,b,0,0,0\n",
    );
    copy("keys", "scenario.toml", "a = 1\nb = [\n");
    let mut messages = String::new();
    let attempts: [&[&str]; 10] = [
        &["report", "empty"],
        &["report", "nowhere"],
        &["report", "run", "empty"],
        &["report", "cut"],
        &["report", "other"],
        &["report", "pauses"],
        &["report", "series"],
        &["report", "keys"],
        &["run", "incast", "--json", "--report"],
        &["run", "incast", "--trace", "--trace-ranks", "4..2"],
    ];
    for attempt in attempts {
        let output = rocesim(attempt, folder.path());
        assert_eq!(output.status.code(), Some(2), "{attempt:?}");
        assert!(output.stdout.is_empty(), "{attempt:?}");
        messages += &format!("---- {}\n{}", attempt.join(" "), text(&output.stderr));
    }
    insta::assert_snapshot!("refused_reports", messages);
    assert!(!folder.path().join("runs").exists(), "nothing was run");
}

/// Slices nest and close, times are in order, arrows have two ends in slices, tracks have names of
/// their own. Returns how many slices of each category there are.
fn well_formed(trace: &Value) -> BTreeMap<String, u64> {
    let events = trace["traceEvents"].as_array().unwrap();
    let ps = |event: &Value, key: &str| (event[key].as_f64().unwrap() * 1000.0).round() as i64;
    let track = |event: &Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
    let (mut names, mut last) = (BTreeSet::new(), 0);
    let mut open: BTreeMap<(u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    let mut arrows: BTreeMap<u64, Vec<(String, i64)>> = BTreeMap::new();
    for event in events {
        let phase = event["ph"].as_str().unwrap();
        if phase == "M" {
            let of =
                (event["pid"].as_u64(), event["name"].as_str(), event["args"]["name"].as_str());
            let process = event["name"] == "process_name";
            let key = (if process { None } else { of.0 }, of.1, of.2);
            assert!(names.insert(key), "{of:?} is named twice");
            continue;
        }
        let at = ps(event, "ts");
        assert!(at >= last, "{event} comes after {last}");
        last = at;
        let stack = open.entry(track(event)).or_default();
        while stack.last().is_some_and(|(_, end)| *end <= at && phase == "X") {
            stack.pop();
        }
        match phase {
            "X" => {
                let end = at + ps(event, "dur");
                if let Some((_, outer)) = stack.last() {
                    assert!(end <= *outer, "{event} ends after the slice around it");
                }
                stack.push((at, end));
                *counts.entry(event["cat"].as_str().unwrap().to_owned()).or_insert(0) += 1;
            }
            "s" | "f" => {
                let within = stack.iter().any(|(begin, end)| (*begin..=*end).contains(&at));
                assert!(within, "{event} is in no slice");
                let id = event["id"].as_u64().unwrap();
                arrows.entry(id).or_default().push((phase.to_owned(), at));
            }
            _ => assert_eq!(phase, "C"),
        }
    }
    for (id, ends) in &arrows {
        let phases: Vec<&str> = ends.iter().map(|(phase, _)| phase.as_str()).collect();
        assert_eq!(phases, ["s", "f"], "arrow {id}");
    }
    counts.insert("arrow".to_owned(), arrows.len() as u64);
    counts
}

#[test]
fn a_trace_has_a_slice_for_each_step_of_a_collective() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = "allreduce-4x8-a100";
    let set = "traffic[0].bytes=128MiB";
    let trace = |threads: &str| {
        let file = format!("trace-{threads}.json");
        let argument = format!("--trace={file}");
        let run =
            ["run", scenario, "--set", set, "--threads", threads, "--out", threads, &argument];
        done(&run, folder.path());
        std::fs::read_to_string(folder.path().join(file)).unwrap()
    };
    let one = trace("1");
    let counts = well_formed(&serde_json::from_str(&one).unwrap());
    let options = LoadOptions { set: vec![set.to_owned()], ..LoadOptions::default() };
    let loaded = load(scenario, &options).unwrap();
    let plan = scenarios::simulate::plan(&loaded, 1).unwrap();
    let job = &plan.wiring.jobs[0];
    let (mut steps, mut handed) = (0, 0);
    for (lane, ranks) in (0..).zip(&job.lanes) {
        for position in 0..ranks.len() as u32 {
            let program = job.program(lane, position);
            steps += program.len();
            handed +=
                (0..program.len()).filter(|step| program.step(*step).recv.any()).count() as u64;
        }
    }
    let repeats = u64::from(job.repeats()[0]);
    // 32 ranks, 2 channels, 2 x 32 - 1 steps of the ring, once
    assert_eq!(steps, 32 * 2 * 63);
    assert_eq!(counts["step"], steps * repeats);
    assert_eq!(counts["arrow"], handed * repeats);
    assert_eq!(counts["repetition"], 32 * u64::from(job.channels) * repeats);
    assert!(counts["message"] > 0);
    let same = |trace: &str| trace.to_owned();
    assert_eq!(same(&one), trace("2"), "threads change nothing");
    let few = ["run", scenario, "--set", set, "--out", "few", "--trace", "--trace-ranks", "8..10"];
    done(&few, folder.path());
    let few = read_json(&folder.path().join("few/trace.json"));
    assert_eq!(well_formed(&few)["step"], steps * repeats / 16);
    let [traced, plain] =
        ["few", "1"].map(|run| read_json(&folder.path().join(run).join("report.json")));
    assert_eq!(traced["fingerprint"], plain["fingerprint"]);
    let small = ["--trace-max-events", "2000", "--set", set, "--out", "small"];
    let said = done(&[&["run", scenario, "--trace"], &small[..]].concat(), folder.path());
    assert!(said.contains("see --trace-max-events"), "{said}");
    let small = read_json(&folder.path().join("small/trace.json"));
    well_formed(&small);
    assert!(small["traceEvents"].as_array().unwrap().len() < 2500);
}

#[test]
fn a_page_of_1024_hosts_is_small_and_soon_there() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = r#"
title = "1024 hosts"
[topology]
kind = "leaf-spine"
leaves = 32
spines = 16
hosts_per_leaf = 32
link = { rate = "100Gbps", delay = "500ns" }
[switch]
preset = "generic-32mb"
pfc.priorities = [3]
[[traffic]]
kind = "permutation"
bytes = "200KB"
[[traffic]]
kind = "incast"
senders = "0..96"
receiver = 1000
bytes = "500KB"
"#;
    std::fs::write(folder.path().join("large.toml"), scenario).unwrap();
    done(&["run", "large.toml", "--report", "--quiet", "--out", "run"], folder.path());
    let begin = Instant::now();
    done(&["report", "run"], folder.path());
    let took = begin.elapsed().as_secs_f64();
    let size = std::fs::metadata(folder.path().join("run/report.html")).unwrap().len();
    common::say(&format!("1024 hosts: {:.2} MB in {took:.2} s", size as f64 / 1e6));
    assert!(size < 10_000_000, "{size} B");
    assert!(took < 10.0, "{took} s");
}
