//! The run directory: everything from which a run can be read, plotted and repeated.

use std::fmt::{self, Display, Write as _};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use models::report::{Pauses, QueueReport, Report, RootKind, Series, SlowdownReport};
use serde::Serialize;

use crate::resolve::{Complaint, Loaded};

/// Writes a run directory: first beside it, then renamed, so that it is never half written.
/// A directory that is already there is replaced if it holds a run, and left alone if not.
pub fn write_run(
    target: &Path,
    loaded: &Loaded,
    report: &Report,
    series: &Series,
    pauses: &Pauses,
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
    let fresh = readable_folder(tempfile::Builder::new().prefix(".rocesim-")).tempdir_in(&parent);
    let fresh = fresh.map_err(|error| fail(&parent, error))?;
    let write = |name: &str, text: &str| {
        let path = fresh.path().join(name);
        fs::write(&path, text).map_err(|error| fail(&path, error))
    };
    let stream = |name: &str, fill: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
        let path = fresh.path().join(name);
        let file = fs::File::create(&path).map_err(|error| fail(&path, error))?;
        let mut file = io::BufWriter::with_capacity(1 << 16, file);
        fill(&mut file).and_then(|()| file.flush()).map_err(|error| fail(&path, error))
    };
    stream("report.json", &|file| write_json(report, file))?;
    write("scenario.toml", &loaded.resolved)?;
    stream("flows.csv", &|file| flows_csv(report, file))?;
    stream("ports.csv", &|file| ports_csv(report, file))?;
    if !report.slowdown_by_size.is_empty() {
        stream("slowdown.csv", &|file| slowdown_csv(report, file))?;
    }
    if let Some(queues) = &report.queue_bytes {
        stream("queues.csv", &|file| queues_csv(queues, file))?;
    }
    if !pauses.is_empty() {
        stream("pauses.csv", &|file| pauses_csv(pauses, file))?;
    }
    if !report.collectives.is_empty() {
        write("collectives.csv", &crate::collectives::csv(&report.collectives))?;
    }
    if !series.lanes.is_empty() {
        stream("timeline.csv", &|file| {
            let mut writer = csv::Writer::from_writer(file);
            series.lanes.iter().try_for_each(|lane| writer.serialize(lane))?;
            writer.flush()
        })?;
    }
    if !report.trainings.is_empty() {
        write("training.csv", &crate::trainings::csv(&report.trainings))?;
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
        stream("series/ports.csv", &|file| port_series_csv(series, file))?;
        stream("series/flows.csv", &|file| flow_series_csv(series, file))?;
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

/// Writes a value as JSON, as a person can read it.
pub fn write_json(value: &impl Serialize, mut file: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut file, value)?;
    file.write_all(b"\n")
}

/// Writes a file: first beside it, then renamed.
pub fn write_file(target: &Path, text: impl AsRef<[u8]>) -> Result<(), Complaint> {
    stream_file(target, |file| file.write_all(text.as_ref()))
}

/// The same, piece by piece.
pub fn stream_file(
    target: &Path,
    fill: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> Result<(), Complaint> {
    let fail = |error: std::io::Error| Complaint(format!("error: {}: {error}", target.display()));
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        return Err(Complaint(format!("error: {}: there is no such folder", parent.display())));
    }
    let mut file = readable(&mut tempfile::Builder::new()).tempfile_in(parent).map_err(fail)?;
    fill(file.as_file_mut()).map_err(fail)?;
    file.persist(target).map_err(|error| fail(error.error))?;
    Ok(())
}

/// With the rights of any new file: a temporary one would be its owner's alone.
#[cfg(unix)]
pub(crate) fn readable<'a, 'b, 'c>(
    builder: &'c mut tempfile::Builder<'a, 'b>,
) -> &'c mut tempfile::Builder<'a, 'b> {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(0o666))
}

/// The same for a directory.
#[cfg(unix)]
pub(crate) fn readable_folder<'a, 'b, 'c>(
    builder: &'c mut tempfile::Builder<'a, 'b>,
) -> &'c mut tempfile::Builder<'a, 'b> {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(0o777))
}

/// Elsewhere rights are inherited.
#[cfg(not(unix))]
pub(crate) use self::{same as readable, same as readable_folder};

#[cfg(not(unix))]
fn same<T>(builder: T) -> T {
    builder
}

/// Writes CSV cell by cell.
struct Cells<'a> {
    writer: csv::Writer<&'a mut dyn Write>,
    cell: String,
}

impl<'a> Cells<'a> {
    fn new(file: &'a mut dyn Write, header: &[&str]) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(file);
        writer.write_record(header)?;
        Ok(Cells { writer, cell: String::new() })
    }

    fn row(&mut self, cells: &[&dyn Display]) -> io::Result<()> {
        for cell in cells {
            self.cell.clear();
            // a String takes everything
            let _ = write!(self.cell, "{cell}");
            self.writer.write_field(&self.cell)?;
        }
        Ok(self.writer.write_record(None::<&[u8]>)?)
    }
}

/// A cell that may be empty.
struct Maybe<T>(Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |value| value.fmt(f))
    }
}

fn flows_csv(report: &Report, file: &mut dyn Write) -> io::Result<()> {
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
        "reordered_packets",
        "paused_share",
        "victim_share",
        "paused_by",
        "training",
        "traffic",
    ];
    let mut cells = Cells::new(file, &names)?;
    for flow in &report.flows {
        let status = serde_json::to_value(flow.status).unwrap_or_default();
        cells.row(&[
            &flow.id,
            &flow.source,
            &flow.target,
            &Maybe(flow.collective),
            &flow.source_port,
            &flow.priority,
            &Maybe(flow.bytes),
            &Maybe(flow.start_s),
            &Maybe(flow.fct_s),
            &Maybe(flow.acked_s),
            &Maybe(flow.ideal_fct_s),
            &Maybe(flow.slowdown),
            &flow.delivered_bytes,
            &flow.measured_bytes,
            &flow.goodput_bps,
            &status.as_str().unwrap_or(""),
            &flow.retransmitted_bytes,
            &flow.reordered_packets,
            &flow.paused_share,
            &flow.victim_share,
            &Maybe(flow.paused_by.as_ref()),
            &Maybe(flow.training),
            &Maybe(flow.traffic.as_ref()),
        ])?;
    }
    cells.writer.flush()
}

fn slowdown_csv(report: &Report, file: &mut dyn Write) -> io::Result<()> {
    let names = ["traffic", "from_bytes", "to_bytes", "flows", "mean", "p50", "p95", "p99"];
    let mut cells = Cells::new(file, &names)?;
    for bin in &report.slowdown_by_size {
        let SlowdownReport { from_bytes, to_bytes, flows, mean, p50, p95, p99, .. } = bin;
        let traffic = Maybe(bin.traffic.as_ref());
        cells.row(&[&traffic, from_bytes, to_bytes, flows, mean, p50, p95, p99])?;
    }
    cells.writer.flush()
}

fn queues_csv(queues: &QueueReport, file: &mut dyn Write) -> io::Result<()> {
    let mut cells = Cells::new(file, &["share", "queue_bytes"])?;
    queues.cdf.iter().try_for_each(|(share, bytes)| cells.row(&[share, bytes]))?;
    cells.writer.flush()
}

fn ports_csv(report: &Report, file: &mut dyn Write) -> io::Result<()> {
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
    let mut cells = Cells::new(file, &names)?;
    for port in &report.ports {
        cells.row(&[
            &port.port,
            &port.peer,
            &port.rate_bps,
            &port.tx_bytes,
            &port.rx_bytes,
            &port.tx_packets,
            &port.ecn_marked_packets,
            &port.rx_pause_frames,
            &port.tx_pause_frames,
            &port.pause_episodes,
            &port.paused_s,
            &port.max_queue_bytes,
            &port.mean_queue_bytes,
            &port.drops.values().sum::<u64>(),
        ])?;
    }
    cells.writer.flush()
}

fn pauses_csv(pauses: &Pauses, file: &mut dyn Write) -> io::Result<()> {
    let names = [
        "port",
        "priority",
        "from_s",
        "to_s",
        "by",
        "cause_port",
        "cause_priority",
        "root",
        "root_kind",
    ];
    let mut cells = Cells::new(file, &names)?;
    for row in pauses.rows() {
        let (cause, priority) = row.cause.unzip();
        cells.row(&[
            &row.port,
            &row.priority,
            &row.from_s,
            &Maybe(row.to_s),
            &row.by,
            &Maybe(cause),
            &Maybe(priority),
            &row.root,
            &kind_name(row.kind),
        ])?;
    }
    cells.writer.flush()
}

/// As in `report.json`.
fn kind_name(kind: RootKind) -> String {
    let value = serde_json::to_value(kind).unwrap_or_default();
    value.as_str().unwrap_or("").to_owned()
}

fn port_series_csv(series: &Series, file: &mut dyn Write) -> io::Result<()> {
    let names = ["time_s", "port", "queue_bytes", "tx_bps", "paused_share"];
    let mut cells = Cells::new(file, &names)?;
    for (i, time) in series.time_s.iter().enumerate() {
        for port in &series.ports {
            let (queue, rate, paused) =
                (&port.queue_bytes[i], &port.tx_bps[i], &port.paused_share[i]);
            cells.row(&[time, &port.port, queue, rate, paused])?;
        }
    }
    cells.writer.flush()
}

fn flow_series_csv(series: &Series, file: &mut dyn Write) -> io::Result<()> {
    let names = ["time_s", "flow", "rate_bps", "target_rate_bps", "alpha", "goodput_bps"];
    let mut cells = Cells::new(file, &names)?;
    for (i, time) in series.time_s.iter().enumerate() {
        for flow in &series.flows {
            cells.row(&[
                time,
                &flow.id,
                &flow.rate_bps[i],
                &flow.target_rate_bps[i],
                &flow.alpha[i],
                &flow.goodput_bps[i],
            ])?;
        }
    }
    cells.writer.flush()
}
