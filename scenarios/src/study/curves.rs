//! What a number cannot say of a point: slowdown by the size of flows, and how long queues were.

use models::report::{Report, SlowdownReport};
use serde::{Deserialize, Serialize};

use super::Study;
use super::table::{Cells, Field, Row, Stat, Table, axes, number, text, whole};

/// The curves of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// Slowdown by size, as in its report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowdown_by_size: Vec<SlowdownReport>,
    /// Lengths of queues: shares of samples, and the bytes that they do not exceed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_cdf: Vec<(f64, u64)>,
}

impl Curves {
    /// Those of a report.
    pub fn new(report: &Report) -> Curves {
        let cdf = report.queue_bytes.as_ref().map(|queues| queues.cdf.clone());
        let slowdown_by_size = report.slowdown_by_size.clone();
        Curves { slowdown_by_size, queue_cdf: cdf.unwrap_or_default() }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.slowdown_by_size.is_empty() && self.queue_cdf.is_empty()
    }
}

/// Slowdown of the flows of a size, over the seeds of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeBin {
    /// They are larger than this, in bytes,
    pub from_bytes: u64,
    /// and at most this large.
    pub to_bytes: u64,
    /// Flows of all seeds.
    pub flows: u64,
    /// Mean slowdown.
    pub mean: Stat,
    /// Median.
    pub p50: Stat,
    /// 95th percentile.
    pub p95: Stat,
    /// 99th percentile.
    pub p99: Stat,
}

/// Slowdown by size of the flows of a section, or of all, over the seeds of a point.
pub fn slowdown(row: &Row, section: Option<&str>) -> Vec<SizeBin> {
    let all = row.runs.iter().flat_map(|run| &run.curves.slowdown_by_size);
    let mut bins: Vec<&SlowdownReport> =
        all.filter(|bin| bin.traffic.as_deref() == section).collect();
    // those of equal sizes stay in the order of seeds
    bins.sort_by_key(|bin| bin.to_bytes);
    let over_seeds = |bins: &[&SlowdownReport]| {
        let stat = |of: fn(&SlowdownReport) -> f64| {
            Stat::of(&bins.iter().map(|bin| of(bin)).collect::<Vec<f64>>())
        };
        SizeBin {
            from_bytes: bins[0].from_bytes,
            to_bytes: bins[0].to_bytes,
            flows: bins.iter().map(|bin| bin.flows).sum(),
            mean: stat(|bin| bin.mean),
            p50: stat(|bin| bin.p50),
            p95: stat(|bin| bin.p95),
            p99: stat(|bin| bin.p99),
        }
    };
    bins.chunk_by(|a, b| a.to_bytes == b.to_bytes).map(over_seeds).collect()
}

/// The sections that any run has flows of, in the order of the scenario.
pub fn sections(table: &Table) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let runs = table.all().flat_map(|row| &row.runs);
    for name in
        runs.flat_map(|run| &run.curves.slowdown_by_size).filter_map(|b| b.traffic.as_deref())
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Lengths of queues in bytes by share of samples, over the seeds of a point.
pub fn queues(row: &Row) -> Vec<(f64, Stat)> {
    let runs: Vec<&Vec<(f64, u64)>> =
        row.runs.iter().map(|run| &run.curves.queue_cdf).filter(|cdf| !cdf.is_empty()).collect();
    let Some(first) = runs.first() else { return Vec::new() };
    let at = |(index, (share, _)): (usize, &(f64, u64))| {
        let values: Vec<f64> =
            runs.iter().filter_map(|cdf| cdf.get(index)).map(|point| point.1 as f64).collect();
        (*share, Stat::of(&values))
    };
    first.iter().enumerate().map(at).collect()
}

/// One row for each point, section and size; without a section the flows of all.
pub fn slowdown_table(study: &Study, table: &Table) -> Vec<Field> {
    let mut rows: Vec<(&Row, Option<&str>, SizeBin)> = Vec::new();
    let sections = sections(table);
    for row in table.all() {
        for section in std::iter::once(None).chain(sections.iter().copied().map(Some)) {
            rows.extend(slowdown(row, section).into_iter().map(|bin| (row, section, bin)));
        }
    }
    let mut fields = of_points(study, rows.iter().map(|(row, ..)| *row));
    let bins = || rows.iter().map(|(.., bin)| bin);
    fields.push(text("traffic", rows.iter().map(|(_, section, _)| section.map(str::to_owned))));
    fields.push(whole("from_bytes", bins().map(|bin| bin.from_bytes as i64)));
    fields.push(whole("to_bytes", bins().map(|bin| bin.to_bytes as i64)));
    fields.push(whole("flows", bins().map(|bin| bin.flows as i64)));
    let mut column = |name: &str, of: fn(&SizeBin) -> Stat| {
        fields.push(number(name, bins().map(|bin| Some(of(bin).mean))));
    };
    column("slowdown_mean", |bin| bin.mean);
    column("slowdown_p50", |bin| bin.p50);
    column("slowdown_p95", |bin| bin.p95);
    column("slowdown_p99", |bin| bin.p99);
    fields
}

/// One row for each point and share of samples.
pub fn queue_table(study: &Study, table: &Table) -> Vec<Field> {
    let rows: Vec<(&Row, f64, Stat)> = table
        .all()
        .flat_map(|row| queues(row).into_iter().map(move |(share, stat)| (row, share, stat)))
        .collect();
    let mut fields = of_points(study, rows.iter().map(|(row, ..)| *row));
    fields.push(number("share", rows.iter().map(|(_, share, _)| Some(*share))));
    fields.push(number("queue_bytes", rows.iter().map(|(.., stat)| Some(stat.mean))));
    fields
}

fn of_points<'a>(study: &Study, rows: impl Iterator<Item = &'a Row>) -> Vec<Field> {
    let rows: Vec<&Row> = rows.collect();
    let mut fields = vec![whole("point", rows.iter().map(|row| i64::from(row.point.number)))];
    fields.extend(axes(study, &rows));
    fields
}

/// Whether a table has no rows.
pub(super) fn is_empty(fields: &[Field]) -> bool {
    matches!(fields.first(), Some(Field { cells: Cells::Whole(cells), .. }) if cells.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::design;
    use crate::study::journal::Record;

    fn run(seed: u64, bins: &[(u64, u64, f64)], queue: u64) -> Record {
        let bin = |&(to_bytes, flows, p99): &(u64, u64, f64)| SlowdownReport {
            traffic: None,
            from_bytes: to_bytes / 2,
            to_bytes,
            flows,
            mean: 1.0,
            p50: 1.0,
            p95: 1.0,
            p99,
        };
        Record {
            point: 0,
            rung: None,
            seed,
            outcome: "completed".into(),
            error: None,
            broken: Vec::new(),
            values: Vec::new(),
            curves: Curves {
                slowdown_by_size: bins.iter().map(bin).collect(),
                queue_cdf: vec![(0.5, 0), (1.0, queue)],
            },
            fingerprint: None,
        }
    }

    #[test]
    fn seeds_are_put_together_by_size() {
        let runs = vec![
            run(1, &[(1000, 10, 2.0), (2000, 5, 3.0)], 4000),
            run(2, &[(1000, 30, 4.0)], 6000),
        ];
        let point = design::base();
        let row = Row { point, found: None, runs, stats: Vec::new(), good: true, front: false };
        let bins = slowdown(&row, None);
        // (2 + 4) / 2 over both seeds; the larger size is there with the first alone
        let found: Vec<(u64, u64, f64)> =
            bins.iter().map(|bin| (bin.to_bytes, bin.flows, bin.p99.mean)).collect();
        assert_eq!(found, [(1000, 40, 3.0), (2000, 5, 3.0)]);
        assert_eq!(bins[1].p99.ci95, None);
        assert_eq!(slowdown(&row, Some("incast")), []);
        let queues: Vec<(f64, f64)> =
            queues(&row).iter().map(|(share, stat)| (*share, stat.mean)).collect();
        assert_eq!(queues, [(0.5, 0.0), (1.0, 5000.0)]);
    }
}
