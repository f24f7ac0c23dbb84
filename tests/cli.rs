//! The program as a user meets it.

mod common;

use std::path::{Path, PathBuf};

use common::{json_report, rocesim, text};
use serde_json::Value;

fn broken_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken")
}

#[test]
fn each_broken_scenario_gets_one_message_and_writes_nothing() {
    let mut files: Vec<String> = std::fs::read_dir(broken_folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    files.sort();
    assert!(files.len() >= 15);
    let target = tempfile::tempdir().unwrap();
    let out = target.path().join("run");
    let mut messages = String::new();
    for file in files {
        let arguments = ["run", &file, "--out", out.to_str().unwrap()];
        let output = rocesim(&arguments, &broken_folder());
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(output.stdout.is_empty(), "{file}");
        assert!(!out.exists(), "{file}");
        let checked = rocesim(&["check", &file], &broken_folder());
        assert_eq!(checked.stderr, output.stderr, "{file}: check and run must agree");
        messages += &format!("---- {file}\n{}\n", text(&output.stderr).trim_end());
    }
    insta::assert_snapshot!("broken_scenarios", messages);
}

#[test]
fn imports_do_not_overwrite_each_other_or_what_they_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("config.txt", "ENABLE_QCN 0\n");
    write("topology.txt", "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n");
    write("flow.txt", "1\n0 1 3 100 1000 2.0\n");
    std::fs::create_dir(folder.path().join("d.toml")).unwrap();
    let import = |out: &str| rocesim(&["import", "ns3", ".", "-o", out], folder.path());
    let mut messages = String::new();
    for out in ["flow.txt", "none/a.toml", "d.toml", "flows.csv"] {
        let output = import(out);
        assert_eq!(output.status.code(), Some(2), "{out}");
        let stderr = text(&output.stderr);
        messages += stderr.lines().rfind(|line| line.starts_with("error")).unwrap();
        messages.push('\n');
    }
    insta::assert_snapshot!("import_targets", messages);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is written");
    assert_eq!(import("a.toml").status.code(), Some(0));
    write("flow.txt", "2\n0 1 3 100 1000 2.0\n1 0 3 100 1000 2.0\n");
    assert_eq!(import("b.toml").status.code(), Some(0));
    for (name, flows) in [("a.toml", 1), ("b.toml", 2)] {
        let report = json_report(&[name], folder.path());
        assert_eq!(report["flows"].as_array().map(Vec::len), Some(flows));
    }
}

#[test]
fn a_matrix_that_is_no_good_exits_2_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = "Nodes 16\nConnections 2\nTriggers 1\n\
                  0->1 id 1 start 0 size 2000000 send_done_trigger 1\n\
                  1->2 id 2 trigger 1 size 4096\ntrigger id 1 oneshot\n";
    let changes = [
        ("Nodes 16", "Nodes 100"),
        ("Connections 2", "Connections 3"),
        ("Triggers 1", "Trigers 1"),
        ("1->2", "1->16"),
        ("size 4096", "size 4KB"),
        ("trigger 1 size 4096", "trigger 2 size 4096"),
        ("start 0", "trigger 1"),
    ];
    let import = ["import", "htsim", "a.cm", "--link", "100Gbps", "--delay", "1us"];
    let mut messages = String::new();
    let mut refused = |arguments: &[&str], files: usize| {
        let output = rocesim(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), files, "nothing is written");
        let stderr = text(&output.stderr);
        messages += stderr.lines().rfind(|line| line.starts_with("error")).unwrap();
        messages.push('\n');
    };
    refused(&import, 0);
    for (from, to) in changes {
        std::fs::write(folder.path().join("a.cm"), matrix.replacen(from, to, 1)).unwrap();
        refused(&import, 1);
    }
    std::fs::write(folder.path().join("a.cm"), matrix).unwrap();
    refused(&[&import[..], &["--topology", "dragonfly"]].concat(), 1);
    refused(&[&import[..], &["--mtu", "100"]].concat(), 1);
    refused(&import[..5], 1);
    std::fs::rename(folder.path().join("a.cm"), folder.path().join("a.csv")).unwrap();
    refused(&["import", "htsim", "a.csv", "--link", "1Gbps", "--delay", "0s", "-o", "a.toml"], 1);
    insta::assert_snapshot!("matrices", messages);
}

#[test]
fn a_matrix_of_htsim_becomes_a_scenario_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = "Nodes 16\nConnections 2\nTriggers 1\n\
                  0->9 id 1 start 0 size 4096 send_done_trigger 1\n\
                  9->0 id 2 trigger 1 size 4096\ntrigger id 1 oneshot\n";
    std::fs::write(folder.path().join("a.cm"), matrix).unwrap();
    let gzip = std::process::Command::new("gzip").arg("a.cm").current_dir(folder.path()).status();
    // also asked for without its ending, as other compressed files
    let names: &[&str] = if gzip.is_ok() { &["a.cm.gz", "a.cm"] } else { &["a.cm"] };
    for name in names {
        let import =
            ["import", "htsim", name, "--link", "400Gbps", "--delay", "1us", "-o", "b.toml"];
        let output = rocesim(&import, folder.path());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        let report = json_report(&["b.toml"], folder.path());
        // 4160 B at 400 Gb/s are 83.2 ns, over 6 links; the ACK of 64 B 1.28 ns
        let fct = 6.0 * (83.2e-9 + 1.28e-9) + 12e-6;
        let flows = report["flows"].as_array().unwrap();
        for (flow, start) in flows.iter().zip([0.0, fct]) {
            assert!((flow["start_s"].as_f64().unwrap() - start).abs() < 1e-13);
            assert!((flow["acked_s"].as_f64().unwrap() - fct).abs() < 1e-13);
        }
    }
}

#[test]
fn bad_arguments_say_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [&[&str]; 6] = [
        &["run", "incats"],
        &["run", "nowhere/incast.toml"],
        &["run", "incast", "--set", "switch.ecn.3.kmin=50K"],
        &["run", "incast", "--set", "trafic.burst.bytes=2MB"],
        &["run", "incast", "--set", "traffic.brust.bytes=2MB"],
        &["show", "mlx5-defualt"],
    ];
    let mut messages = String::new();
    for arguments in cases {
        let output = rocesim(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        messages += &format!("---- {}\n{}", arguments.join(" "), text(&output.stderr));
    }
    insta::assert_snapshot!("bad_arguments", messages);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
}

#[test]
fn numbers_that_make_no_scenario_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        "star --hosts 0",
        "star --hosts 1",
        "star --hosts 16384 --nics 32",
        "star --spines 2",
        "star --gpus 0",
        "star --gpus 8 --nics 3",
        "star --nic 1Gbps",
        "star --nic 400G",
        "star --cable 30",
        "star --pattern allreduce",
        "star --bytes 1MB..2MB",
        "star --switch generic-32",
        "star --nic-preset generik",
        "star --node hgx-100",
        "leaf-spine --hosts 64 --leaves 5",
        "leaf-spine --hosts 17",
        "leaf-spine --oversubscription 0",
        "leaf-spine --spines 0",
        "rail --leaves 12",
        "rail --leaves 16 --hosts 15",
        "rail --leaves 16 --spines 0",
        "fat-tree --k 5",
        "fat-tree --k 4 --hosts 20",
        "fat-tree --nics 2",
        "ring --hosts 2",
        "ring --leaves 5",
        "rial",
    ];
    let mut messages = String::new();
    for case in cases {
        let arguments: Vec<&str> = std::iter::once("init").chain(case.split(' ')).collect();
        let output = rocesim(&arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{case}");
        assert!(output.stdout.is_empty(), "{case}");
        let error = text(&output.stderr);
        messages += &format!("---- {case}\n{}\n", error.lines().next().unwrap());
    }
    insta::assert_snapshot!("init_refuses", messages);
}

#[test]
fn a_scenario_from_a_few_numbers_runs_as_it_is() {
    for kind in ["star", "leaf-spine", "fat-tree", "rail", "dumbbell", "ring", "rail --gpus 2"] {
        let folder = tempfile::tempdir().unwrap();
        let words = format!("init {kind} --hosts 8 --bytes 200KB -o mine.toml");
        let init: Vec<&str> = words.split(' ').collect();
        assert_eq!(rocesim(&init, folder.path()).status.code(), Some(0), "{kind}");
        let output = rocesim(&["run", "mine.toml"], folder.path());
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{kind}:\n{out}{error}");
        let again = rocesim(&init, folder.path());
        assert_eq!(again.status.code(), Some(2), "{kind}: what is there is not overwritten");
        assert!(text(&again.stderr).contains("mine.toml: it is there already"));
        let forced = rocesim(&[&init[..], &["--force"]].concat(), folder.path());
        assert_eq!(forced.status.code(), Some(0), "{kind}");
    }
}

#[test]
fn every_library_scenario_meets_its_expectations_and_passes_its_check() {
    let names = scenarios::library::names(scenarios::library::Kind::Scenario);
    for name in names {
        let folder = tempfile::tempdir().unwrap();
        let output = rocesim(&["run", name], folder.path());
        assert_eq!(output.status.code(), Some(0), "{name}:\n{}", text(&output.stdout));
        let run = folder.path().join("runs").join(name);
        for file in ["report.json", "scenario.toml", "flows.csv", "ports.csv"] {
            assert!(run.join(file).is_file(), "{name}/{file}");
        }
        let report = std::fs::read_to_string(run.join("report.json")).unwrap();
        assert_eq!(unexpected(name, &report), Vec::<String>::new(), "{name}: a false alarm");
        let scenario = std::fs::read_to_string(run.join("scenario.toml")).unwrap();
        let sampled = scenario.contains("interval = ");
        assert_eq!(run.join("series/ports.csv").is_file(), sampled, "{name}");
        // an algorithm of MSCCL is a collective, too
        let rows = ["kind = \"collective\"", ".xml\""];
        let collective = rows.iter().any(|kind| scenario.contains(kind));
        assert_eq!(run.join("collectives.csv").is_file(), collective, "{name}");
        let check = rocesim(&["check", name], folder.path());
        assert_eq!(check.status.code(), Some(0), "{name}:\n{}", text(&check.stdout));
    }
}

/// What library scenarios are there to show; all others are healthy.
const MEANT: [(&str, &str); 12] = [
    ("permutation-fat-tree", "ecmp_imbalance"),
    ("allreduce-4x8-a100-congested", "ecn_after_pfc"),
    ("allreduce-4x8-a100-congested", "paused_by_others"),
    ("allreduce-4x8-a100-congested", "ecmp_imbalance"),
    ("dumbbell-victim", "pause_victims"),
    ("incast-storage", "pause_victims"),
    ("pause-storm", "job_paused_by_other"),
    ("pause-storm", "pfc_storm"),
    ("pause-storm-watchdog", "pfc_storm"),
    ("training-two-tenants", "ecmp_imbalance"),
    ("replay-tcp", "sockets"),
    ("replay-tcp", "algorithm_forced"),
];

/// Kinds of findings above a note that a scenario is not there to show.
fn unexpected(name: &str, report: &str) -> Vec<String> {
    let report: Value = serde_json::from_str(report).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let severe = findings.filter(|finding| finding["severity"] != "info");
    let kinds = severe.map(|finding| finding["kind"].as_str().unwrap());
    kinds.filter(|kind| !MEANT.contains(&(name, *kind))).map(str::to_owned).collect()
}

#[test]
fn a_run_can_be_repeated_from_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let set = "switch.ecn.3.kmin=80KB";
    let first = rocesim(&["run", "incast", "--set", set, "--seed", "7"], folder.path());
    assert_eq!(first.status.code(), Some(0));
    let read = |path: &str| -> Value {
        let json = std::fs::read(folder.path().join(path)).unwrap();
        serde_json::from_slice(&json).unwrap()
    };
    let original = read("runs/incast/report.json");
    let second = rocesim(&["run", "runs/incast/scenario.toml"], folder.path());
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    let repeated = read("runs/scenario/report.json");
    assert_eq!(original["fingerprint"], repeated["fingerprint"]);
    // what a paper cites: version, commit, presets with the digest of their text, seed
    assert_eq!(original["rocesim"], env!("CARGO_PKG_VERSION"));
    assert!(original["commit"].is_string());
    let presets = original["presets"].as_array().unwrap();
    let named =
        |preset: &Value| preset["key"] == "switch.preset" && preset["name"] == "generic-32mb";
    let preset = presets.iter().find(|preset| named(preset)).expect("incast names its switch");
    assert_eq!(preset["version"].as_str().unwrap().len(), 16);
    assert_eq!(original["seed"], 7);
}

#[test]
fn threads_and_repeats_do_not_change_the_report() {
    for name in ["permutation-fat-tree", "dumbbell-victim", "incast-storage"] {
        let folder = tempfile::tempdir().unwrap();
        let report = |arguments: &[&str]| json_report(arguments, folder.path());
        let alone = report(&[name]);
        assert_eq!(report(&[name]), alone, "{name} repeated");
        for threads in ["2", "3"] {
            assert_eq!(report(&[name, "--threads", threads]), alone, "{name} on {threads}");
        }
    }
}

#[test]
fn a_failed_expectation_exits_1_and_a_plot_is_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let set = ["--set", "expect={lossless_drops={above=5}}"];
    let output = rocesim(&["run", "incast", "--plot", set[0], set[1]], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("expectation failed: lossless_drops"));
    let plot = std::fs::read_to_string(folder.path().join("runs/incast/plot.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.contains("incast"));
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"));
    let readme = readme.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut rest = readme.as_str();
    for name in ["allreduce-4x8-a100", "allreduce-4x8-a100-congested"] {
        let (_, block) = rest.split_once("```\n").unwrap();
        let (shown, after) = block.split_once("\n```\n").unwrap();
        rest = after;
        let output = rocesim(&["run", name, "--plot"], folder.path());
        let printed = text(&output.stdout);
        assert!(printed.contains(shown), "{name} prints\n{printed}");
        let picture = if name.ends_with("congested") { "links.svg" } else { "busbw.svg" };
        let drawn = std::fs::read_to_string(folder.path().join("runs").join(name).join(picture));
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        let kept = std::fs::read_to_string(docs.with_extension("svg"));
        assert!(drawn.unwrap() == kept.unwrap(), "docs/{name}.svg is out of date");
    }
}
