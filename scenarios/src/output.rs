//! The run directory: everything from which a run can be read, plotted and repeated.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use models::report::{Report, Series};

use crate::resolve::{Complaint, Loaded};

/// Writes a run directory: first beside it, then renamed, so that it is never half written.
/// A directory that is already there is replaced if it holds a run, and left alone if not.
pub fn write_run(
    target: &Path,
    loaded: &Loaded,
    report: &Report,
    series: &Series,
    extra: &[(String, String)],
) -> Result<(), Complaint> {
    let fail = |path: &Path, error: std::io::Error| {
        Complaint(format!("error: {}: {error}", path.display()))
    };
    check_target(target)?;
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    fs::create_dir_all(&parent).map_err(|error| fail(&parent, error))?;
    let fresh = tempfile::Builder::new().prefix(".rocesim-").tempdir_in(&parent);
    let fresh = fresh.map_err(|error| fail(&parent, error))?;
    let write = |name: &str, text: &str| {
        let path = fresh.path().join(name);
        fs::write(&path, text).map_err(|error| fail(&path, error))
    };
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    write("report.json", &(json + "\n"))?;
    write("scenario.toml", &loaded.resolved)?;
    write("flows.csv", &flows_csv(report))?;
    write("ports.csv", &ports_csv(report))?;
    if !report.collectives.is_empty() {
        write("collectives.csv", &crate::collectives::csv(&report.collectives))?;
    }
    if !loaded.files.is_empty() {
        let folder = fresh.path().join("inputs");
        fs::create_dir(&folder).map_err(|error| fail(&folder, error))?;
    }
    for (name, text) in loaded.files.iter().chain(extra) {
        write(name, text)?;
    }
    if !series.time_s.is_empty() {
        let folder = fresh.path().join("series");
        fs::create_dir(&folder).map_err(|error| fail(&folder, error))?;
        write("series/ports.csv", &port_series_csv(series))?;
        write("series/flows.csv", &flow_series_csv(series))?;
    }
    let fresh = fresh.keep();
    if target.exists() {
        fs::remove_dir_all(target).map_err(|error| fail(target, error))?;
    }
    fs::rename(&fresh, target).map_err(|error| fail(target, error))
}

/// Refuses a target that holds anything but a run.
pub fn check_target(target: &Path) -> Result<(), Complaint> {
    let occupied = target.exists()
        && !target.join("report.json").is_file()
        && fs::read_dir(target).map_or(true, |mut entries| entries.next().is_some());
    if occupied {
        let message = "it is there and holds no run: give another directory with --out";
        return Err(Complaint(format!("error: {}: {message}", target.display())));
    }
    Ok(())
}

/// Writes a file: first beside it, then renamed.
pub fn write_file(target: &Path, text: &str) -> Result<(), Complaint> {
    let fail = |error: std::io::Error| Complaint(format!("error: {}: {error}", target.display()));
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        return Err(Complaint(format!("error: {}: there is no such folder", parent.display())));
    }
    let mut file = tempfile::NamedTempFile::new_in(parent).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    file.persist(target).map_err(|error| fail(error.error))?;
    Ok(())
}

/// A CSV text of these rows, the first one the header.
fn csv(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        // a Vec takes everything
        let _ = writer.write_record(&row);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn flows_csv(report: &Report) -> String {
    let names = [
        "id",
        "source",
        "target",
        "collective",
        "source_port",
        "priority",
        "bytes",
        "start_s",
        "fct_s",
        "acked_s",
        "ideal_fct_s",
        "slowdown",
        "delivered_bytes",
        "measured_bytes",
        "goodput_bps",
        "status",
        "retransmitted_bytes",
    ];
    let row = |flow: &models::report::FlowReport| {
        let status = serde_json::to_value(flow.status).unwrap_or_default();
        vec![
            flow.id.to_string(),
            flow.source.clone(),
            flow.target.clone(),
            optional(flow.collective),
            flow.source_port.to_string(),
            flow.priority.to_string(),
            optional(flow.bytes),
            optional(flow.start_s),
            optional(flow.fct_s),
            optional(flow.acked_s),
            optional(flow.ideal_fct_s),
            optional(flow.slowdown),
            flow.delivered_bytes.to_string(),
            flow.measured_bytes.to_string(),
            flow.goodput_bps.to_string(),
            status.as_str().unwrap_or("").to_owned(),
            flow.retransmitted_bytes.to_string(),
        ]
    };
    csv(std::iter::once(header(&names)).chain(report.flows.iter().map(row)))
}

fn ports_csv(report: &Report) -> String {
    let names = [
        "port",
        "peer",
        "rate_bps",
        "tx_bytes",
        "rx_bytes",
        "tx_packets",
        "ecn_marked_packets",
        "rx_pause_frames",
        "tx_pause_frames",
        "pause_episodes",
        "paused_s",
        "max_queue_bytes",
        "mean_queue_bytes",
        "drops",
    ];
    let row = |port: &models::report::PortReport| {
        vec![
            port.port.clone(),
            port.peer.clone(),
            port.rate_bps.to_string(),
            port.tx_bytes.to_string(),
            port.rx_bytes.to_string(),
            port.tx_packets.to_string(),
            port.ecn_marked_packets.to_string(),
            port.rx_pause_frames.to_string(),
            port.tx_pause_frames.to_string(),
            port.pause_episodes.to_string(),
            port.paused_s.to_string(),
            port.max_queue_bytes.to_string(),
            port.mean_queue_bytes.to_string(),
            port.drops.values().sum::<u64>().to_string(),
        ]
    };
    csv(std::iter::once(header(&names)).chain(report.ports.iter().map(row)))
}

fn port_series_csv(series: &Series) -> String {
    let names = header(&["time_s", "port", "queue_bytes", "tx_bps", "paused_share"]);
    let rows = series.time_s.iter().enumerate().flat_map(|(i, time)| {
        series.ports.iter().map(move |port| {
            vec![
                time.to_string(),
                port.port.clone(),
                port.queue_bytes[i].to_string(),
                port.tx_bps[i].to_string(),
                port.paused_share[i].to_string(),
            ]
        })
    });
    csv(std::iter::once(names).chain(rows))
}

fn flow_series_csv(series: &Series) -> String {
    let columns = ["time_s", "flow", "rate_bps", "target_rate_bps", "alpha", "goodput_bps"];
    let rows = series.time_s.iter().enumerate().flat_map(|(i, time)| {
        series.flows.iter().map(move |flow| {
            vec![
                time.to_string(),
                flow.id.to_string(),
                flow.rate_bps[i].to_string(),
                flow.target_rate_bps[i].to_string(),
                flow.alpha[i].to_string(),
                flow.goodput_bps[i].to_string(),
            ]
        })
    });
    csv(std::iter::once(header(&columns)).chain(rows))
}
