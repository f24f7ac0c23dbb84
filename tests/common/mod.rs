//! Runs the program and reads what it prints.

#![allow(dead_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use models::fabric::{Shards, plan, run};
use models::report::{Report, make};
use scenarios::resolve::{LoadOptions, load};
use serde_json::Value;

pub(crate) fn rocesim(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocesim"));
    command.args(arguments).current_dir(folder).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What `run --json` prints, without what may differ between repeats.
pub(crate) fn json_report(arguments: &[&str], folder: &Path) -> Value {
    let output = rocesim(&[&["run", "--json"], arguments].concat(), folder);
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report.as_object_mut().unwrap().remove("performance");
    report
}

/// A report of a scenario with these keys set, on so many shards; checks what must hold always.
pub(crate) fn report(scenario: &str, set: &[&str], shards: usize) -> Report {
    let set = set.iter().map(|key| (*key).to_owned()).collect();
    let loaded = load(scenario, &LoadOptions { set, ..LoadOptions::default() }).unwrap();
    let plan = plan(loaded.spec, Shards::Exactly(shards)).unwrap();
    assert_eq!(plan.shards, shards, "{scenario} is cut");
    let outcome = run(&plan, |_| true).unwrap();
    assert_eq!(outcome.violations(), Vec::<String>::new(), "{scenario} {:?}", outcome.reason);
    make(&outcome, &plan, "")
}

/// Prints past the test harness, which shows the output of failed tests only.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("\n{text}\n").as_bytes());
}

/// A file or folder of the reference data; says loudly what is skipped if there is none.
pub(crate) fn reference(path: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("ROCESIM_REFERENCE") else {
        say(&format!(
            "*** ROCESIM_REFERENCE IS NOT SET: NOTHING WAS COMPARED WITH {path}. Set it to the \
             folder that holds it."
        ));
        return None;
    };
    Some(Path::new(&root).join(path))
}

/// Makes a scenario of the folder of an ns-3 run.
pub(crate) fn import_ns3(run: &Path, folder: &Path) {
    let import = rocesim(&["import", "ns3", run.to_str().unwrap()], folder);
    assert_eq!(import.status.code(), Some(0), "{}", text(&import.stderr));
}
