//! Run directories, as `rocesim run` writes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use models::report::{
    FlowSeries, LaneSpan, Name, PauseRow, PortSeries, Report, RootKind, SCHEMA, Series,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Run;
use crate::error::ReadError;

/// What a run directory holds.
#[derive(Clone, Debug)]
pub struct RunDir {
    /// Its path.
    pub path: PathBuf,
    /// What it is called beside others.
    pub name: String,
    /// `report.json`
    pub report: Report,
    /// `series/` and `timeline.csv`, as far as they are there.
    pub series: Series,
    /// `pauses.csv`, if it is there.
    pub pauses: Vec<PauseRow>,
    /// The keys of `scenario.toml`, for whoever reads that.
    pub keys: BTreeMap<String, String>,
}

impl RunDir {
    /// Reads a directory; only `report.json` must be there.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let file = path.join("report.json");
        if !file.is_file() {
            return Err(ReadError::NoRun { path: path.to_owned() });
        }
        let report = report(&file)?;
        let mut series = series(&path.join("series"), &report)?;
        series.lanes = rows(&path.join("timeline.csv"))?;
        let pauses = pauses(&path.join("pauses.csv"))?;
        let name = path.file_name().or_else(|| path.parent()?.file_name());
        let name = name.map_or(String::from("run"), |name| name.to_string_lossy().into_owned());
        let (path, keys) = (path.to_owned(), BTreeMap::new());
        Ok(RunDir { path, name, report, series, pauses, keys })
    }

    /// The run in it.
    pub fn run(&self) -> Run<'_> {
        let RunDir { name, report, series, pauses, keys, .. } = self;
        Run { name, report, series, pauses, keys }
    }
}

fn report(file: &Path) -> Result<Report, ReadError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let text = std::fs::read_to_string(file).map_err(|source| unreadable(file, source))?;
    let wrong = |error: serde_json::Error| ReadError::Malformed {
        path: file.to_owned(),
        line: error.line() as u64,
        message: format!("a report of rocesim was expected: {error}"),
    };
    if let Ok(version) = serde_json::from_str::<Version>(&text)
        && version.schema != SCHEMA
    {
        let message = format!("layout {SCHEMA} was expected, this is {}", version.schema);
        return Err(ReadError::Malformed { path: file.to_owned(), line: 1, message });
    }
    serde_json::from_str(&text).map_err(wrong)
}

fn unreadable(path: &Path, source: std::io::Error) -> ReadError {
    ReadError::Unreadable { path: path.to_owned(), source }
}

/// Calls `each` with the rows of a CSV file, if that is there.
fn each_row<T: DeserializeOwned>(
    file: &Path,
    mut each: impl FnMut(T) -> Result<(), String>,
) -> Result<(), ReadError> {
    if !file.is_file() {
        return Ok(());
    }
    let opened = File::open(file).map_err(|source| unreadable(file, source))?;
    let mut reader = csv::Reader::from_reader(BufReader::with_capacity(1 << 16, opened));
    let wrong =
        |line: u64, message: String| ReadError::Malformed { path: file.to_owned(), line, message };
    let headers = reader.headers().map_err(|error| wrong(1, error.to_string()))?.clone();
    let mut record = csv::StringRecord::new();
    loop {
        let more = reader.read_record(&mut record).map_err(|error| {
            wrong(error.position().map_or(0, csv::Position::line), error.to_string())
        })?;
        if !more {
            return Ok(());
        }
        let line = record.position().map_or(0, csv::Position::line);
        let row: T =
            record.deserialize(Some(&headers)).map_err(|error| wrong(line, error.to_string()))?;
        each(row).map_err(|message| wrong(line, message))?;
    }
}

fn rows(file: &Path) -> Result<Vec<LaneSpan>, ReadError> {
    let mut rows = Vec::new();
    each_row(file, |row: LaneSpan| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// Names that are many times the same are kept once.
#[derive(Default)]
struct Names(BTreeMap<String, Name>);

impl Names {
    fn get(&mut self, text: String) -> Name {
        self.0.entry(text).or_insert_with_key(|text| Name::from(text.as_str())).clone()
    }
}

fn pauses(file: &Path) -> Result<Vec<PauseRow>, ReadError> {
    #[derive(Deserialize)]
    struct Row {
        port: String,
        priority: u8,
        from_s: f64,
        to_s: Option<f64>,
        by: String,
        cause_port: Option<String>,
        cause_priority: Option<u8>,
        root: String,
        root_kind: RootKind,
    }
    let mut names = Names::default();
    let mut pauses = Vec::new();
    each_row(file, |row: Row| {
        pauses.push(PauseRow {
            port: names.get(row.port),
            priority: row.priority,
            from_s: row.from_s,
            to_s: row.to_s,
            by: names.get(row.by),
            cause: row.cause_port.map(|port| names.get(port)).zip(row.cause_priority),
            root: names.get(row.root),
            kind: row.root_kind,
        });
        Ok(())
    })?;
    Ok(pauses)
}

fn series(folder: &Path, report: &Report) -> Result<Series, ReadError> {
    #[derive(Deserialize)]
    struct PortRow {
        time_s: f64,
        port: String,
        queue_bytes: u64,
        tx_bps: f64,
        paused_share: f64,
    }
    #[derive(Deserialize)]
    struct FlowRow {
        time_s: f64,
        flow: u32,
        rate_bps: u64,
        target_rate_bps: u64,
        alpha: f64,
        goodput_bps: f64,
    }
    let mut series = Series::default();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let rates: BTreeMap<&str, u64> =
        report.ports.iter().map(|port| (port.port.as_str(), port.rate_bps)).collect();
    each_row(&folder.join("ports.csv"), |row: PortRow| {
        instant(&mut series.time_s, row.time_s);
        let all = &mut series.ports;
        let place = *places.entry(row.port).or_insert_with_key(|port| {
            let rate_bps = rates.get(port.as_str()).copied().unwrap_or(0);
            all.push(PortSeries { port: port.clone(), rate_bps, ..PortSeries::default() });
            all.len() - 1
        });
        let port = &mut all[place];
        port.queue_bytes.push(row.queue_bytes);
        port.tx_bps.push(row.tx_bps);
        port.paused_share.push(row.paused_share);
        complete(port.tx_bps.len(), series.time_s.len(), &port.port)
    })?;
    let samples = series.time_s.len();
    let short = series.ports.iter().find(|port| port.tx_bps.len() < samples);
    if let Some(port) = short {
        return Err(cut(&folder.join("ports.csv"), &port.port));
    }
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    let mut seen = 0;
    each_row(&folder.join("flows.csv"), |row: FlowRow| {
        if series.ports.is_empty() {
            instant(&mut series.time_s, row.time_s);
        }
        let all = &mut series.flows;
        let place = *places.entry(row.flow).or_insert_with_key(|id| {
            let flow = report.flows.get(*id as usize);
            all.push(FlowSeries {
                id: *id,
                source: flow.map_or(String::new(), |flow| flow.source.to_string()),
                target: flow.map_or(String::new(), |flow| flow.target.to_string()),
                ..FlowSeries::default()
            });
            all.len() - 1
        });
        let flow = &mut all[place];
        flow.rate_bps.push(row.rate_bps);
        flow.target_rate_bps.push(row.target_rate_bps);
        flow.alpha.push(row.alpha);
        flow.goodput_bps.push(row.goodput_bps);
        seen = seen.max(flow.alpha.len());
        complete(flow.alpha.len(), seen, "the flow")
    })?;
    let samples = series.time_s.len();
    if let Some(flow) = series.flows.iter().find(|flow| flow.alpha.len() != samples) {
        return Err(cut(&folder.join("flows.csv"), &format!("flow {}", flow.id)));
    }
    Ok(series)
}

/// A file of samples that ends too soon.
fn cut(file: &Path, of: &str) -> ReadError {
    let lines = std::fs::read_to_string(file).map_or(0, |text| text.lines().count());
    let message = format!("{of} was expected in each sample: rows are missing");
    ReadError::Malformed { path: file.to_owned(), line: lines as u64, message }
}

/// Notes the time of a row, if it is a new one.
fn instant(time_s: &mut Vec<f64>, time: f64) {
    if time_s.last() != Some(&time) {
        time_s.push(time);
    }
}

/// Each sample has a row for each port.
fn complete(values: usize, samples: usize, of: &str) -> Result<(), String> {
    match values == samples {
        true => Ok(()),
        false => Err(format!("{of} was expected once in each sample, and in the same order")),
    }
}
