//! Runs of built-in scenarios.

use serde_json::Value;

use crate::common::{json_report, rocesim, text};

/// The report of a run as the scenario stands there; what it expects must hold.
pub(crate) fn as_it_stands(name: &str) -> Value {
    json_report(&[name], tempfile::tempdir().unwrap().path())
}

/// The report of a run with other keys, for which the scenario's expectations need not hold.
pub(crate) fn with(name: &str, keys: &[&str]) -> Value {
    let arguments = [&[name][..], &set(keys)].concat();
    json_report(&arguments, tempfile::tempdir().unwrap().path())
}

/// The reports of seeds 1 to `count`.
pub(crate) fn seeds(name: &str, keys: &[&str], count: u32) -> Vec<Value> {
    let count = count.to_string();
    let arguments = [&["run", name, "--json", "--seeds", &count][..], &set(keys)].concat();
    let output = rocesim(&arguments, tempfile::tempdir().unwrap().path());
    assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    all["seeds"].as_array().unwrap().clone()
}

/// The depth of the sampled port's queue in bytes, sample by sample from `from_s` on.
pub(crate) fn queue(name: &str, keys: &[&str], from_s: f64) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    json_report(&[&[name, "--out", "run"][..], &set(keys)].concat(), folder.path());
    let csv = std::fs::read_to_string(folder.path().join("run/series/ports.csv")).unwrap();
    let rows = csv.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].parse::<f64>().unwrap(), cells[2].parse::<f64>().unwrap())
    });
    rows.filter(|(time, _)| *time >= from_s).map(|(_, queue)| queue).collect()
}

fn set<'a>(keys: &[&'a str]) -> Vec<&'a str> {
    keys.iter().chain([&"expect={}"]).flat_map(|key| ["--set", key]).collect()
}

/// A field of each flow.
pub(crate) fn flows(report: &Value, field: &str) -> Vec<f64> {
    let flows = report["flows"].as_array().unwrap();
    flows.iter().map(|flow| flow[field].as_f64().unwrap()).collect()
}

/// A field of a port.
pub(crate) fn port(report: &Value, name: &str, field: &str) -> f64 {
    let ports = report["ports"].as_array().unwrap();
    ports.iter().find(|port| port["port"] == name).unwrap()[field].as_f64().unwrap()
}

pub(crate) fn xoff_frames(report: &Value) -> u64 {
    report["totals"]["pfc_xoff_frames"].as_u64().unwrap()
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean) * (value - mean));
    (squares.sum::<f64>() / values.len() as f64).sqrt()
}
