//! The RDMA model of ns-3 on its own files. The runs are found through `ROCESIM_REFERENCE`.

mod convergence;
mod exact;
mod random;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use models::report::Report;
use serde_json::Value;

use crate::common::{import_ns3, reference, rocesim, text};

/// The folder of ns-3's runs.
fn runs() -> Option<PathBuf> {
    reference("ns3")
}

/// Imports a folder, and runs it without samples, with one seed or more.
fn reports(folder: &Path, arguments: &[&str]) -> Vec<Report> {
    let work = tempfile::tempdir().unwrap();
    import_ns3(folder, work.path());
    let fixed = ["run", "scenario.toml", "--json", "--no-out", "--quiet", "--set", "sample={}"];
    let output = rocesim(&[&fixed, arguments].concat(), work.path());
    assert_eq!(output.status.code(), Some(0), "{}: {}", folder.display(), text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = |value: Value| serde_json::from_value(value).unwrap();
    match found.get("seeds") {
        Some(Value::Array(all)) => all.iter().cloned().map(report).collect(),
        _ => vec![report(found)],
    }
}

fn report(folder: &Path) -> Report {
    reports(folder, &[]).remove(0)
}

/// Sender, receiver, source port.
type Key = (u32, u32, u16);

/// Completion times in ns of the flows that finished.
fn completion(report: &Report) -> BTreeMap<Key, u64> {
    let number = |name: &str| name[1..].parse::<u32>().unwrap();
    let flow = |flow: &models::report::FlowReport| {
        let key = (number(&flow.source), number(&flow.target), flow.source_port);
        Some((key, (flow.acked_s? * 1e9).round() as u64))
    };
    report.flows.iter().filter_map(flow).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn count(value: f64) -> String {
    format!("{value:.0}")
}

fn us(value: f64) -> String {
    format!("{:.3} us", value / 1e3)
}
