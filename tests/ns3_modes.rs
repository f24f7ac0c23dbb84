//! Runs of ns-3 with other congestion controls than DCQCN, and of ConWeave: imported, run, and what is
//! not understood named.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{rocesim, text};
use serde_json::Value;

fn inputs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ns3").join(name)
}

/// A copy of a run whose config is changed; nothing is done to the others.
fn copy(name: &str, folder: &Path, change: impl Fn(String) -> String) -> PathBuf {
    let copy = folder.join("run");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir(&copy).unwrap();
    for file in ["topology.txt", "flow.txt"] {
        fs::copy(inputs(name).join(file), copy.join(file)).unwrap();
    }
    let config = fs::read_to_string(inputs(name).join("config.txt")).unwrap();
    fs::write(copy.join("config.txt"), change(config)).unwrap();
    copy
}

/// Imports a run and runs it: its report, and the warnings.
fn report(run: &Path, folder: &Path) -> (Value, String) {
    let arguments = ["import", "ns3", run.to_str().unwrap(), "-o", "scenario.toml"];
    let import = rocesim(&arguments, folder);
    assert_eq!(import.status.code(), Some(0), "{}", text(&import.stderr));
    let run = rocesim(&["run", "scenario.toml", "--json"], folder);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    (serde_json::from_slice(&run.stdout).unwrap(), text(&import.stderr))
}

#[test]
fn hpcc_keeps_the_queue_of_an_incast_short_and_others_do_what_they_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut queues = Vec::new();
    for mode in ["1", "3", "7", "8", "10"] {
        let dcqcn = "RP_TIMER 300\nEWMA_GAIN 0.00390625\n";
        let change = |config: String| {
            format!("{}{dcqcn}", config.replace("CC_MODE 3", &format!("CC_MODE {mode}")))
        };
        let (report, warnings) =
            report(&copy("hpcc-incast-8", folder.path(), change), folder.path());
        assert_eq!(report["outcome"], "completed", "mode {mode}");
        assert_eq!(report["totals"]["lossless_drops"], 0);
        assert_eq!(warnings.contains("INT_MULTI"), mode == "3", "{warnings}");
        let ports = report["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["port"] == "n9:8").unwrap();
        queues.push(port["mean_queue_bytes"].as_f64().unwrap());
    }
    let [dcqcn, hpcc, timely, dctcp, pint] = queues[..] else { panic!() };
    println!("mean queues: {queues:?}");
    assert!(hpcc < dcqcn / 2.0 && pint < dcqcn / 2.0, "HPCC's queues are short: {queues:?}");
    assert!(timely > hpcc && dctcp > hpcc, "{queues:?}");
}

#[test]
fn conweave_without_pfc_loses_packets_and_irn_brings_them() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ["0", "2", "3", "6"] {
        let change = |config: String| config.replace("LB_MODE 3", &format!("LB_MODE {mode}"));
        let (report, warnings) =
            report(&copy("conweave-irn", folder.path(), change), folder.path());
        assert!(warnings.contains("LB_MODE is a key of ConWeave"), "{warnings}");
        assert_eq!(report["outcome"], "completed", "mode {mode}");
        assert_eq!(report["totals"]["pfc_xoff_frames"], 0);
        let flows = report["flows"].as_array().unwrap();
        assert!(flows.iter().all(|flow| flow["status"] == "completed"), "mode {mode}");
    }
}

#[test]
fn what_is_not_modelled_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("LB_MODE 3", "LB_MODE 9", "LB_MODE 9 (ConWeave itself) is not modelled"),
        ("CC_MODE 1", "CC_MODE 5", "CC_MODE 5 is not modelled"),
        ("HAS_WIN 0", "SAMPLE_FEEDBACK 1\nCC_MODE 3", "SAMPLE_FEEDBACK 1 is not understood"),
        ("CC_MODE 1", "CC_MODE 10\nPINT_LOG_BASE 7", "\"7\" is no PINT_LOG_BASE"),
        ("CC_MODE 1", "CC_MODE 3", "HPCC divides by its window: HAS_WIN 1 is expected"),
    ];
    for (from, to, expected) in cases {
        let window = |config: String| match expected.contains("HAS_WIN") {
            true => config,
            false => format!("{config}HAS_WIN 1\n"),
        };
        let run = copy("conweave-irn", folder.path(), |config| window(config.replace(from, to)));
        let import = rocesim(&["import", "ns3", run.to_str().unwrap()], folder.path());
        assert_eq!(import.status.code(), Some(2), "{expected}");
        assert!(text(&import.stderr).contains(expected), "{}", text(&import.stderr));
    }
    // a key that nobody knows is left out, and said so
    let run = copy("conweave-irn", folder.path(), |config| format!("{config}LB_MODES 3\n"));
    let import = rocesim(&["import", "ns3", run.to_str().unwrap()], folder.path());
    assert_eq!(import.status.code(), Some(0));
    assert!(
        text(&import.stderr)
            .contains("\"LB_MODES\" is unknown and was left out; did you mean `LB_MODE`?")
    );
}
