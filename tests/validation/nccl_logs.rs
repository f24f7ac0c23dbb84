//! Logs of nccl-tests from real clusters against the same clusters simulated, with presets and
//! defaults as they are. The logs are found through `ROCESIM_REFERENCE`; `nccl_logs/` has the
//! clusters and a row for each table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use models::report::{CollectiveReport, FlowStatus};
use rayon::prelude::*;
use validation::{Table, read_tables};

use crate::common::{reference, report, say};
use crate::table::in_the_docs;

/// Median of the relative errors of busbw, over the logs in which nothing was wrong.
const MEDIAN: f64 = 0.10;
/// An error beyond this wants a remark.
const MISS: f64 = 0.10;

/// A row of `logs.tsv`: cells by the names of their columns.
struct Log(BTreeMap<String, String>);

impl Log {
    fn get(&self, column: &str) -> &str {
        &self.0[column]
    }

    fn number(&self, column: &str) -> Option<f64> {
        self.get(column).parse().ok()
    }

    fn bytes(&self, column: &str) -> Option<u64> {
        self.get(column).parse().ok()
    }

    fn is_healthy(&self) -> bool {
        self.get("healthy") == "yes"
    }

    fn tables(&self, logs: &Path) -> Vec<Table> {
        read_tables(&logs.join(self.get("log"))).unwrap()
    }

    /// busbw out of place that the log has for the size that is run; a table of plateaus has one
    /// figure for all sizes.
    fn measured(&self, logs: &Path) -> f64 {
        let name = self.get("log");
        if name.ends_with(".tsv") {
            let text = std::fs::read_to_string(logs.join(name)).unwrap();
            let plateau = self.get("plateau");
            let stated = text.lines().any(|line| line.rsplit('\t').next() == Some(plateau));
            assert!(stated, "{name} has no {plateau}");
            return plateau.parse().unwrap();
        }
        let run = self.bytes("run").unwrap();
        busbw(&self.tables(logs), self.get("op"), run)
            .unwrap_or_else(|| panic!("{name} has no row of {run} B"))
    }

    /// The cluster with its collective, as this row has it.
    fn simulated(&self) -> CollectiveReport {
        let name = self.get("scenario");
        let scenario = folder().join(format!("{name}.toml"));
        let op = format!("traffic.test.op={}", self.get("op"));
        let bytes = format!("traffic.test.bytes={}B", self.get("run"));
        let mut report = report(scenario.to_str().unwrap(), &[&op, &bytes], 1);
        assert_eq!(report.totals.lossless_drops, 0, "{name}");
        assert_eq!(report.collectives.len(), 1, "{name}");
        let collective = report.collectives.remove(0);
        assert_eq!(collective.status, FlowStatus::Completed, "{name}");
        collective
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/validation/nccl_logs")
}

fn logs() -> Vec<Log> {
    let text = std::fs::read_to_string(folder().join("logs.tsv")).unwrap();
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<String>>();
    let mut lines = text.lines().map(cells);
    let names = lines.next().unwrap();
    let row = |cells: Vec<String>| {
        assert_eq!(cells.len(), names.len(), "{cells:?}");
        Log(names.iter().cloned().zip(cells).collect())
    };
    lines.map(row).collect()
}

/// busbw out of place of a size, in GB/s, as a log has it. A log may have several tables, which then
/// say whose they are.
fn busbw(tables: &[Table], op: &str, size: u64) -> Option<f64> {
    // all_to_all, as scenarios have it, is alltoall to nccl-tests
    let plain = |name: &str| name.replace('_', "");
    let is_of = |table: &&Table| {
        table.name.is_none() || table.op.is_some_and(|known| plain(known.name()) == plain(op))
    };
    let rows = tables.iter().filter(is_of).flat_map(|table| &table.rows);
    let row = rows.into_iter().find(|row| row.bytes == size)?;
    Some(row.out_of_place?.busbw_gbytes_per_s)
}

/// A row that was run.
struct Found<'a> {
    log: &'a Log,
    /// GB/s.
    measured: f64,
    simulated: f64,
    /// `Ring Simple`
    way: String,
}

impl<'a> Found<'a> {
    fn new(log: &'a Log, logs: &Path) -> Self {
        let measured = log.measured(logs);
        let collective = log.simulated();
        let simulated = collective.busbw_gbytes_per_s.unwrap();
        let way = match collective.algorithm.as_str() {
            "P2P" => "P2P".to_owned(),
            algorithm => format!("{algorithm} {}", collective.protocol),
        };
        Found { log, measured, simulated, way }
    }

    fn error(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }

    /// What is out of bounds; nothing if all is as recorded.
    fn complaint(&self) -> Option<String> {
        if !self.log.is_healthy() {
            return None;
        }
        let within = self.log.number("within").expect("a healthy log has a bound") / 100.0;
        let error = self.error();
        let of = || format!("{} {}", self.log.get("scenario"), self.log.get("op"));
        if error.abs() > within {
            let percent = [error, within].map(|share| share * 100.0);
            return Some(format!("{}: {:+.1} %, at most {} %", of(), percent[0], percent[1]));
        }
        let silent = error.abs() > MISS && self.log.get("remark").is_empty();
        silent.then(|| format!("{}: {:+.1} % without a remark", of(), error * 100.0))
    }

    fn cells(&self) -> [String; 8] {
        let log = self.log;
        let size = log.bytes("run").unwrap() as f64 / f64::from(1 << 20);
        [
            log.get("scenario").to_owned(),
            log.get("op").to_owned(),
            format!("{size:.0} MiB"),
            self.way.clone(),
            format!("{:.1}", self.measured),
            format!("{:.1}", self.simulated),
            format!("{:+.1} %", self.error() * 100.0),
            log.get("remark").to_owned(),
        ]
    }
}

/// The middle one; of an even number the larger of two.
fn median(found: &[Found<'_>]) -> f64 {
    let counted = found.iter().filter(|row| row.log.is_healthy());
    let mut errors: Vec<f64> = counted.map(|row| row.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    errors[errors.len() / 2]
}

fn markdown(found: &[Found<'_>]) -> String {
    let mut text = String::from(
        "| cluster | operation | size | taken here | measured, GB/s | rocesim | error | |\n\
         |---|---|--:|---|--:|--:|--:|---|\n",
    );
    for row in found {
        writeln!(text, "| {} |", row.cells().join(" | ")).unwrap();
    }
    let counted: Vec<_> = found.iter().filter(|row| row.log.is_healthy()).collect();
    let near = counted.iter().filter(|row| row.error().abs() <= MISS).count();
    let (median, of) = (median(found) * 100.0, counted.len());
    let miss = MISS * 100.0;
    writeln!(text, "\nMedian error {median:.1} %; {near} of {of} within {miss:.0} %.").unwrap();
    text
}

#[test]
fn plateaus_are_those_of_real_clusters() {
    let Some(folder) = reference("nccl-logs") else { return };
    let logs = logs();
    let run: Vec<&Log> = logs.iter().filter(|log| !log.get("scenario").is_empty()).collect();
    let found: Vec<Found<'_>> = run.par_iter().map(|log| Found::new(log, &folder)).collect();
    let text = markdown(&found);
    say(&format!("nccl-tests logs\n{text}"));
    let complaints: Vec<String> = found.iter().filter_map(Found::complaint).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let median = median(&found);
    assert!(median <= MEDIAN, "the median error is {:.1} %", median * 100.0);
    in_the_docs("nccl-tests logs", &text);
}

/// `logs.tsv` against the logs; it shows too that all kinds of them are read.
#[test]
fn figures_are_those_of_the_logs() {
    let Some(folder) = reference("nccl-logs") else { return };
    let mut checked = 0;
    for log in logs().iter().filter(|log| !log.get("log").ends_with(".tsv")) {
        let tables = log.tables(&folder);
        for [size, figure] in [["bytes", "busbw"], ["plateau_bytes", "plateau"]] {
            let Some(size) = log.bytes(size) else { continue };
            let found = busbw(&tables, log.get("op"), size);
            assert_eq!(found, log.number(figure), "{}, {size} B", log.get("log"));
            checked += 1;
        }
    }
    assert!(checked >= 75, "{checked} figures");
}
