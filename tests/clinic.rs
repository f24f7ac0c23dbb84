//! The clinic: every case and each of its variants is run and held to its `[expect]`, and
//! `docs/clinic.md` to what they measure. `ROCESIM_WRITE_CLINIC=1 cargo test --release --test clinic`
//! writes the file anew.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::say;
use models::report::{Report, Severity};
use rayon::prelude::*;
use scenarios::clinic::{Case, Clinic, Variant, VariantKind, cases};
use scenarios::expect::{self, Expected};
use scenarios::resolve::{LoadOptions, load};
use scenarios::simulate::{self, How, Verdict};

/// One run of a case: the ill fabric, or a variant.
struct Ward {
    report: Report,
    /// Keys that `check` warns of, before the run.
    warned: Vec<String>,
    /// What its `[expect]` says and does not hold.
    failed: Vec<String>,
    /// The keys of its `[expect]`.
    expected: Vec<String>,
}

/// A case with all of its runs, the ill one first.
struct Treated {
    case: Case,
    runs: Vec<Ward>,
}

fn treat(case: Case) -> Treated {
    let names = case.clinic.variant.iter().map(|variant| Some(variant.name.clone()));
    let all: Vec<Option<String>> = std::iter::once(None).chain(names).collect();
    let runs = all.into_iter().map(|variant| ward(case.name, variant)).collect();
    Treated { case, runs }
}

fn ward(name: &str, variant: Option<String>) -> Ward {
    let options = LoadOptions { variant, ..LoadOptions::default() };
    let loaded = load(name, &options).unwrap_or_else(|complaint| panic!("{complaint}"));
    let plans = simulate::plans(&loaded, 1).unwrap();
    let notes = scenarios::check::notes(&plans[0]);
    let severe = notes.into_iter().filter(|note| note.severity > Severity::Info);
    let mut warned: Vec<String> = severe.map(|note| note.key).collect();
    warned.dedup();
    let how = How::default();
    let run = simulate::run_all(&loaded, plans, 1, how, &|_| Verdict::GoOn).unwrap();
    let expected: Vec<(&String, &Expected)> = loaded.scenario.expect.iter().collect();
    let verdicts = expect::judge(expected, &run.report);
    let failed = verdicts.iter().filter(|verdict| !verdict.passed);
    Ward {
        warned,
        failed: failed.map(|verdict| format!("{}: {}", loaded.name, verdict.text)).collect(),
        expected: loaded.scenario.expect.keys().cloned().collect(),
        report: run.report,
    }
}

/// Kinds of findings above a note, without repeats.
fn complaints(report: &Report) -> Vec<&str> {
    let severe = report.findings.iter().filter(|finding| finding.severity > Severity::Info);
    let mut kinds: Vec<&str> = severe.map(|finding| finding.kind.as_str()).collect();
    kinds.dedup();
    kinds
}

#[test]
fn every_case_is_diagnosed_and_cured_and_docs_clinic_md_says_so() {
    let treated: Vec<Treated> = cases().into_par_iter().with_max_len(1).map(treat).collect();
    let mut wrong = Vec::new();
    let mut costs = String::new();
    for Treated { case, runs } in &treated {
        let cost = runs.iter().map(|run| run.report.performance.cpu_time_s);
        writeln!(
            costs,
            "  {:<28} {:.2} s of CPU, {} runs",
            case.name,
            cost.sum::<f64>(),
            runs.len()
        )
        .unwrap();
        wrong.extend(runs.iter().flat_map(|run| run.failed.clone()));
        wrong.extend(undiagnosed(case, runs));
    }
    let all = treated.iter().flat_map(|treated| &treated.runs);
    let sum: f64 = all.map(|run| run.report.performance.cpu_time_s).sum();
    say(&format!("the clinic\n{costs}  {:<28} {sum:.2} s of CPU", "all"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    in_the_docs(&document(&treated));
}

/// What is wrong with the diagnosis of a case: of the ill fabric, and of the cured ones.
fn undiagnosed(case: &Case, runs: &[Ward]) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = case.name;
    if case.findings.is_empty() && runs[0].warned.is_empty() {
        wrong.push(format!("{name}: no finding under [expect] diagnoses it, nor does check"));
    }
    if !case.clinic.variant.iter().any(is_cure) {
        wrong.push(format!("{name}: no variant cures it"));
    }
    if case.clinic.wrong_advice.is_some() && case.clinic.variant.iter().all(is_cure) {
        wrong.push(format!("{name}: no variant shows that the wrong advice does not help"));
    }
    for (variant, run) in case.clinic.variant.iter().zip(&runs[1..]) {
        let listed = |kind: &str| run.expected.iter().any(|key| *key == format!("findings.{kind}"));
        for kind in
            complaints(&run.report).into_iter().filter(|kind| is_cure(variant) && !listed(kind))
        {
            wrong
                .push(format!("{name}, {}: cured, and still has the finding {kind}", variant.name));
        }
        if run.expected.is_empty() {
            wrong.push(format!("{name}, {}: nothing is expected of it", variant.name));
        }
    }
    wrong
}

fn is_cure(variant: &Variant) -> bool {
    variant.kind == VariantKind::Cure
}

/// `docs/clinic.md`.
fn document(treated: &[Treated]) -> String {
    let mut text = HEAD.to_owned();
    text += "| case | what is seen | ill | cured |\n|---|---|--:|--:|\n";
    for Treated { case, runs } in treated {
        let Clinic { symptom, measure, variant, .. } = &case.clinic;
        let cure = variant.iter().position(is_cure).map_or(0, |index| index + 1);
        let [ill, cured] = [0, cure].map(|run| match measure.first() {
            Some(first) => expect::measured(&runs[run].report, &first.key),
            None => String::new(),
        });
        let what = measure.first().and_then(|first| first.label.clone()).unwrap_or_default();
        let name = case.name;
        writeln!(text, "| [{name}](#{name}) | {symptom} | {what} {ill} | {cured} |").unwrap();
    }
    for Treated { case, runs } in treated {
        text += &section(case, runs);
    }
    text
}

const HEAD: &str = "\
# The clinic

What operators see, why, and what helps: each case is a scenario (`rocesim run NAME`), and so is each
cure (`--variant cure`). `rocesim list clinic --symptom \"pause drops\"` finds the case that fits. Most
links are of 10 Gb/s and timers scaled, so that every case runs in a second: what is to be compared is
one column with the next, not with a cluster. Where a report states numbers, they stand beside ours;
R29 and the like say which of the sources they are from.

This file is written by `ROCESIM_WRITE_CLINIC=1 cargo test --release --test clinic`, from
`scenarios/clinic/*.toml` and their runs; the test holds it to them.

";

fn section(case: &Case, runs: &[Ward]) -> String {
    let Clinic { symptom, cause, cure, wrong_advice, source, variant, .. } = &case.clinic;
    let name = case.name;
    let mut text = format!("\n## {name}\n\n{}.\n\n", case.title);
    let mut add = |label: &str, words: &str| writeln!(text, "- **{label}**: {words}").unwrap();
    add("symptom", symptom);
    add("cause", cause);
    add("cure", cure);
    if let Some(advice) = wrong_advice {
        add("wrong advice", advice);
    }
    if !source.is_empty() {
        add("source", &source.join("; "));
    }
    text.push('\n');
    text += &measures(&case.clinic, runs);
    write!(text, "\n    rocesim run {name}\n").unwrap();
    for Variant { name: variant, title, .. } in variant {
        writeln!(text, "    rocesim run {name} --variant {variant}   # {title}").unwrap();
    }
    text
}

fn measures(clinic: &Clinic, runs: &[Ward]) -> String {
    let reported = clinic.measure.iter().any(|measure| measure.reported.is_some());
    let mut head = "| | ill |".to_owned();
    let mut rule = "|---|--:|".to_owned();
    for variant in &clinic.variant {
        let helps =
            if is_cure(variant) { String::new() } else { format!(" ({})", variant.kind.name()) };
        write!(head, " {}{helps} |", variant.name).unwrap();
        rule += "--:|";
    }
    if reported {
        head += " reported |";
        rule += "---|";
    }
    let mut text = format!("{head}\n{rule}\n");
    for measure in &clinic.measure {
        write!(text, "| {} |", measure.label.as_ref().unwrap_or(&measure.key)).unwrap();
        for run in runs {
            write!(text, " {} |", expect::measured(&run.report, &measure.key)).unwrap();
        }
        if reported {
            write!(text, " {} |", measure.reported.as_deref().unwrap_or("")).unwrap();
        }
        text.push('\n');
    }
    let list = |words: &[&str]| match words {
        [] => "nothing".to_owned(),
        words => words.join(", "),
    };
    let mut row = |label: &str, words: &dyn Fn(&Ward) -> String| {
        write!(text, "| {label} |").unwrap();
        runs.iter().for_each(|run| write!(text, " {} |", words(run)).unwrap());
        text += if reported { " |\n" } else { "\n" };
    };
    row("found after the run", &|run| list(&complaints(&run.report)));
    row("`check` warns of", &|run| {
        list(&run.warned.iter().map(String::as_str).collect::<Vec<_>>())
    });
    text
}

fn in_the_docs(text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/clinic.md");
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    if file == text {
        return;
    }
    let write = "ROCESIM_WRITE_CLINIC";
    if std::env::var_os(write).is_none() {
        let differ = text.lines().zip(file.lines()).find(|(new, old)| new != old);
        panic!("docs/clinic.md is out of date: set {write}=1 to write it; {differ:?}");
    }
    std::fs::write(&path, text).unwrap();
}

/// Case, kind of finding, words of it, and its remedy as an assignment.
const CAUSES: [(&str, &str, &str, &str); 14] = [
    ("chunk-too-small", "step_limited", "a slice of 128 KiB takes", "nccl.BUFFSIZE=4194304"),
    ("long-distance-window", "window_limited", "have 16.777 MB between", "nccl.BUFFSIZE=16777216"),
    (
        "ring-order-crosses-racks",
        "uplinks_full",
        "8 of 8 edges of the ring leave their rack; in order of racks 2",
        "traffic.step.hosts=[0, 1, 2, 3, 4, 5, 6, 7]",
    ),
    ("rails-crossed", "uplinks_full", "48 of 48 connections leave by one rail", "nccl.CROSS_NIC=0"),
    (
        "dcqcn-on-another-priority",
        "cnp_ignored",
        "data has priority 3 and DCQCN runs for 0",
        "nic.congestion.priorities=[3]",
    ),
    ("one-nic-of-four", "idle_ports", "3 of 4 ports of host0 send nothing", "nccl.IB_HCA=mlx5"),
    ("flows-on-half-of-the-nics", "idle_ports", "its 4 flows use no more", ""),
    (
        "hash-without-ports",
        "ecmp_imbalance",
        "does not hash the UDP source port",
        "switch.ecmp.fields=[\"source-ip\", \"destination-ip\", \"source-port\", \"destination-port\"]",
    ),
    ("ecmp-constant-port", "ecmp_imbalance", "have one UDP source port", "nic.entropy=qpn"),
    ("hash-polarised", "ecmp_imbalance", "below it does", "switch.ecmp.seed=node"),
    (
        "ecn-on-wrong-queue",
        "ecn_after_pfc",
        "thresholds are at queue 0, data is in queue 3",
        "switch.ecn.3={ kmin = \"100 KB\", kmax = \"400 KB\", pmax = 0.2 }",
    ),
    (
        "too-few-channels",
        "few_channels",
        "2 channels reduce at most 80.0 GB/s",
        "nccl.MIN_NCHANNELS=4",
    ),
    (
        "switch-dscp-map-wrong",
        "lossy_drops",
        "leaf1 has DSCP 4 in class 0, which PFC does not protect, spine0 before it in class 4",
        "",
    ),
    ("nic-priority-map-missing", "lossy_drops", "host3 sends DSCP 26 with priority 0", ""),
];

#[test]
fn findings_name_the_cause_and_what_to_set() {
    CAUSES.into_par_iter().for_each(|(case, kind, words, set)| {
        let report = ward(case, None).report;
        let found = report.findings.iter().find(|finding| finding.kind == kind);
        let found = found.unwrap_or_else(|| panic!("{case}: no {kind}"));
        assert!(found.text.contains(words), "{case}: {}", found.text);
        assert_eq!(found.set.first().map_or("", String::as_str), set, "{case}");
    });
    // an ordinary case of chance keeps the ordinary remedy
    let lottery = ward("ecmp-lottery", None).report;
    let found = lottery.findings.iter().find(|finding| finding.kind == "ecmp_imbalance").unwrap();
    assert!(!found.text.contains("hash"), "{}", found.text);
    // 40 ms of detection and restoration: 4.096 us x 2^11 x 8 = 67 ms are enough, 2^10 are not
    let slow = ward("watchdog-slower-than-retries", None).report;
    let failed = slow.findings.iter().find(|finding| finding.kind == "qp_error").unwrap();
    assert_eq!(failed.set, ["nic.transport.timeout=11"]);
    assert!(failed.remedy.as_ref().unwrap().contains("takes 40 ms"), "{:?}", failed.remedy);
}

/// 1 MB under way over 100 us each way: 40 Gb/s of 100 at most.
const FAR: &str = r#"
title = "Far"
[topology]
kind = "dumbbell"
left = 1
right = 1
link = { rate = "100Gbps", delay = "1us" }
trunk = { rate = "100Gbps", delay = "98us" }
[nic.transport]
window = "1MB"
[switch.buffer]
size = "256MiB"
[[traffic]]
name = "far"
kind = "flows"
flows = [{ source = 0, target = 1, bytes = "20MB" }]
"#;

#[test]
fn windows_that_are_shorter_than_the_way_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let loaded = load(path.to_str().unwrap(), &LoadOptions::default());
        let loaded = loaded.unwrap_or_else(|complaint| panic!("{complaint}"));
        let plans = simulate::plans(&loaded, 1).unwrap();
        let how = How::default();
        let run = simulate::run_all(&loaded, plans, 1, how, &|_| Verdict::GoOn).unwrap();
        run.report
            .findings
            .into_iter()
            .map(|found| (found.kind, found.evidence))
            .collect::<Vec<_>>()
    };
    let found = kinds("far.toml", FAR);
    let [(kind, evidence)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(kind, "window_limited");
    assert_eq!(evidence["window_bytes"], 1_000_000);
    let bdp = evidence["bdp_bytes"].as_f64().unwrap();
    // 100 us each way, and what devices add
    assert!((2.5e6..2.7e6).contains(&bdp), "{bdp}");
    assert_eq!(kinds("enough.toml", &FAR.replace("1MB", "4MB")), []);
    assert_eq!(kinds("none.toml", &FAR.replace("window = \"1MB\"\n", "")), []);
}

/// A case of a user's own.
const OWN: &str = r#"
title = "Two senders"
[topology]
kind = "star"
hosts = 3
link = { rate = "10Gbps", delay = "1us" }
[[traffic]]
kind = "incast"
senders = [0, 1]
receiver = 2
bytes = "100KB"
[expect]
"flows.fct_max" = { above = "100us" }
[clinic]
symptom = "slow"
cause = "two at once"
cure = "one"
[[clinic.variant]]
name = "cure"
title = "one sender"
set = { "traffic[0].senders" = [0] }
expect = { "flows.fct_max" = { below = "100us" } }
"#;

#[test]
fn variants_of_a_file_run_and_the_answer_ends_with_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("own.toml"), OWN).unwrap();
    let run = |arguments: &[&str]| common::rocesim(arguments, folder.path());
    let ill = common::text(&run(&["run", "own.toml"]).stdout);
    let end = "cure         one\n  rocesim run own.toml --variant cure  (cure)\n";
    assert!(ill.ends_with(end), "{ill}");
    let cured = run(&["run", "own.toml", "--variant", "cure"]);
    let text = common::text(&cured.stdout);
    assert_eq!(cured.status.code(), Some(0), "{text}");
    assert!(text.starts_with("Two senders [cure]\n"), "{text}");
    assert!(text.contains("\nvariant      cure (cure): one sender\n"), "{text}");
    assert!(text.ends_with("  rocesim run own.toml  (ill)\n"), "{text}");
    assert!(folder.path().join("runs/own/report.json").is_file());
    // what was run can be run again
    let kept = folder.path().join("runs/own-cure/scenario.toml");
    let again = run(&["run", kept.to_str().unwrap(), "--no-out"]);
    assert_eq!(again.status.code(), Some(0), "{}", common::text(&again.stdout));
    // --set is laid over the variant
    let both = ["run", "own.toml", "--variant", "cure", "--set", "traffic[0].senders=[0,1]"];
    assert_eq!(run(&both).status.code(), Some(1));
}

#[test]
fn names_that_are_not_known_are_refused_with_the_near_miss() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("own.toml"), OWN).unwrap();
    let message = |arguments: &[&str]| {
        let output = common::rocesim(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        common::text(&output.stderr).trim_end().to_owned()
    };
    let near = message(&["run", "own.toml", "--variant", "cur"]);
    assert_eq!(near, "error: own.toml has no variant `cur`; did you mean `cure`?");
    let none = message(&["check", "incast", "--variant", "cure"]);
    assert!(none.contains("incast.toml (built in) has no variants"), "{none}");
    let near = message(&["run", "ecn-to-low"]);
    assert!(near.ends_with("did you mean `ecn-too-low`?"), "{near}");
}

#[test]
fn list_clinic_finds_what_fits_a_symptom() {
    let listed = |arguments: &[&str]| {
        let output = common::rocesim(&[&["list"], arguments].concat(), Path::new("."));
        assert_eq!(output.status.code(), Some(0), "{}", common::text(&output.stderr));
        common::text(&output.stdout)
    };
    let first = |symptom: &str| {
        let text = listed(&["clinic", "--symptom", symptom]);
        text.lines().nth(1).unwrap_or("").split_whitespace().next().unwrap_or("").to_owned()
    };
    assert_eq!(first("the fabric is deadlocked"), "buffer-cycle");
    assert_eq!(first("GPUDirect"), "gdr-off");
    assert_eq!(first("pause storm"), "nic-pause-storm");
    assert_eq!(first("discards in a lossless priority at one port"), "nic-ignores-pfc");
    let all = listed(&["clinic"]);
    let none = listed(&["clinic", "--symptom", "xylophone"]);
    assert!(none.starts_with("no case has a word of \"xylophone\""));
    assert_eq!(none.lines().count(), all.lines().count());
    assert!(all.lines().all(|line| line.chars().count() < 100), "{all}");
    assert!(listed(&[]).contains("rocesim list clinic"));
}
