//! Curves over sizes: what a measurement of a collective says, one row a size.
//!
//! A [`Table`] is one table of nccl-tests, or what a run of rocesim or a replay says in its place.

use models::collective::Op;
use models::report::CollectiveReport;
use serde::{Deserialize, Serialize};

/// Rows of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The file.
    pub source: String,
    /// The line of its header, of its first row if it has none; from 1.
    pub line: u64,
    /// The operation, where it is told or follows from the rows.
    pub op: Option<Op>,
    /// Its name as the file has it: `all_reduce_perf`.
    pub name: Option<String>,
    /// GPUs that take part.
    pub ranks: Option<u32>,
    /// Hosts that take part.
    pub hosts: Option<u32>,
    /// Version of nccl-tests, as `2.17.6`.
    pub tests_version: Option<String>,
    /// Version of NCCL, as `2.28.7`.
    pub nccl_version: Option<String>,
    /// Iterations that were timed.
    pub iterations: Option<u32>,
    /// Iterations before those.
    pub warmup: Option<u32>,
    /// In the order of the file.
    pub rows: Vec<Row>,
    /// Mean of all `busbw`, in GB/s, as the file states it.
    pub average_busbw: Option<f64>,
    /// Values out of bounds, as the file states it.
    pub out_of_bounds: Option<u64>,
    /// What was damaged, left out or assumed.
    pub warnings: Vec<Warning>,
}

/// What a reader should know about one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// From 1.
    pub line: u64,
    /// What is the matter.
    pub message: String,
}

/// One size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// From 1.
    pub line: u64,
    /// Size of the buffer.
    pub bytes: u64,
    /// Elements, as nccl-tests counts them.
    pub count: u64,
    /// Type of an element: `float`.
    pub dtype: Option<String>,
    /// What reduces: `sum`; `none` where nothing is reduced.
    pub redop: Option<String>,
    /// Rank of the root; -1 where there is none.
    pub root: Option<i32>,
    /// From one buffer to another; absent if it was not measured.
    pub out_of_place: Option<Timing>,
    /// Within one buffer; absent if it was not measured.
    pub in_place: Option<Timing>,
    /// Only a part was simulated.
    pub extrapolated: bool,
}

/// What one size took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Time of one iteration.
    pub time_s: f64,
    /// Bytes over time.
    pub algbw_gbytes_per_s: f64,
    /// That times the factor of the operation.
    pub busbw_gbytes_per_s: f64,
    /// Elements that were wrong, or the largest error (until 2022); absent if not checked.
    pub wrong: Option<f64>,
}

impl Table {
    /// Mean of all `busbw` out of place and in place, as nccl-tests computes it; none of no row.
    pub fn mean_busbw(&self) -> Option<f64> {
        let timings = self.rows.iter().flat_map(|row| [row.out_of_place, row.in_place]);
        let busbw: Vec<f64> = timings.flatten().map(|timing| timing.busbw_gbytes_per_s).collect();
        (!busbw.is_empty()).then(|| busbw.iter().sum::<f64>() / busbw.len() as f64)
    }

    /// The tables of simulated or replayed collectives: one for each section and operation.
    pub fn of_reports(source: &str, reports: &[CollectiveReport]) -> Vec<Table> {
        let mut tables: Vec<Table> = Vec::new();
        for report in reports {
            let same = |table: &&mut Table| {
                table.name.as_deref() == Some(&report.name)
                    && table.op == op(report)
                    && table.ranks == Some(report.ranks)
            };
            let row = Row::of_report(report);
            match tables.iter_mut().find(same) {
                Some(table) => table.rows.push(row),
                None => tables.push(Table {
                    source: source.to_owned(),
                    line: 1,
                    op: op(report),
                    name: Some(report.name.clone()),
                    ranks: Some(report.ranks),
                    hosts: Some(report.nodes),
                    iterations: Some(report.iterations),
                    rows: vec![row],
                    ..Table::default()
                }),
            }
        }
        tables
    }
}

fn op(report: &CollectiveReport) -> Option<Op> {
    Op::ALL.into_iter().find(|op| op.name() == report.op)
}

impl Row {
    /// The row of a simulated collective. It has one timing, out of place; a row that did not end
    /// has none.
    fn of_report(report: &CollectiveReport) -> Row {
        let timing = |time_s: f64| Timing {
            time_s,
            algbw_gbytes_per_s: report.algbw_gbytes_per_s.unwrap_or(0.0),
            busbw_gbytes_per_s: report.busbw_gbytes_per_s.unwrap_or(0.0),
            wrong: None,
        };
        Row {
            line: 1,
            bytes: report.bytes,
            count: report.count,
            dtype: Some(report.dtype.clone()),
            redop: None,
            root: report.root.and_then(|root| i32::try_from(root).ok()),
            out_of_place: report.time_s.map(timing),
            in_place: None,
            extrapolated: report.extrapolated,
        }
    }

    /// The time to compare with: out of place, in place if that is all there is.
    pub fn timing(&self) -> Option<Timing> {
        self.out_of_place.or(self.in_place)
    }
}
