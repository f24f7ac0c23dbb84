//! The tables of a study: one row a point, and one row a run.

use std::fmt::Write as _;
use std::path::Path;

use super::axis::{Axis, Level};
use super::config::Method;
use super::design::{self, Point};
use super::journal::{Record, Records, RunId};
use super::quantity::Unit;
use super::tpe::Search;
use super::{Study, curves, judge, parquet, work};
use crate::output::write_file;
use crate::resolve::Complaint;
use crate::stats;

/// A number over the seeds of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    /// Mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; none for one seed.
    pub ci95: Option<f64>,
}

impl Stat {
    /// Of some values, at least one.
    pub fn of(values: &[f64]) -> Stat {
        let mean = stats::mean(values);
        // equal values differ from their mean by rounding alone
        let ci95 = stats::confidence_95(values);
        let ci95 = ci95.map(|ci| if ci < 1e-12 * mean.abs() { 0.0 } else { ci });
        Stat { mean, ci95 }
    }

    /// As a difference it may be chance: its interval has the zero in it.
    pub fn may_be_zero(self) -> bool {
        self.mean == 0.0 || self.ci95.is_some_and(|ci| self.mean.abs() <= ci)
    }

    /// The interval, where it is large enough to be told.
    pub fn spread(self) -> Option<f64> {
        self.ci95.filter(|ci| *ci > 5e-4 * self.mean.abs())
    }
}

/// What came of a point.
#[derive(Clone, Debug)]
pub struct Row {
    /// The point; number 0 is the base.
    pub point: Point,
    /// The smallest value that meets all requirements, and its rung, where one was searched for.
    pub found: Option<(u32, Level)>,
    /// Its runs: of a search, those on the rung that was found.
    pub runs: Vec<Record>,
    /// One for each column of the study.
    pub stats: Vec<Option<Stat>>,
    /// All requirements hold in all runs.
    pub good: bool,
    /// No other good point is better in all objectives.
    pub front: bool,
}

/// All rows.
#[derive(Clone, Debug)]
pub struct Table {
    /// The scenario as it is.
    pub base: Option<Row>,
    /// The points that are done, in order.
    pub rows: Vec<Row>,
    /// The numbers of those that are not.
    pub missing: Vec<u32>,
}

impl Row {
    /// How much more of a column it has than another row: over the seeds that both were run with,
    /// so that what a seed does to both does not count.
    pub fn more_than(&self, other: &Row, column: usize) -> Option<Stat> {
        let differences: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| {
                let same = other.runs.iter().find(|beside| beside.seed == run.seed)?;
                Some(run.values[column]? - same.values[column]?)
            })
            .collect();
        (!differences.is_empty()).then(|| Stat::of(&differences))
    }

    /// How it ended: of several runs, the first that did not complete.
    pub fn outcome(&self) -> &str {
        let ended = self.runs.iter().map(|run| &*run.outcome);
        ended.clone().find(|outcome| *outcome != "completed").unwrap_or("completed")
    }

    /// The requirements that some run breaks.
    pub fn broken(&self) -> Vec<&str> {
        let mut broken: Vec<&str> =
            self.runs.iter().flat_map(|run| run.broken.iter().map(String::as_str)).collect();
        broken.sort_unstable();
        broken.dedup();
        broken
    }

    /// Why it could not be run.
    pub fn error(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.error.as_deref())
    }
}

impl Table {
    /// The table of what is done.
    pub fn new(study: &Study, records: &Records) -> Result<Table, Complaint> {
        let base = row(study, records, &design::base());
        let mut rows = Vec::new();
        let mut missing = Vec::new();
        if study.config.method == Method::Tpe {
            let samples = study.config.samples.unwrap_or(0) as usize;
            let mut search = Search::new(&study.axes, samples, study.config.seed);
            loop {
                let batch = search.next_batch();
                let done: Vec<Row> =
                    batch.iter().filter_map(|point| row(study, records, point)).collect();
                // what follows depends on all of a batch
                let whole = !batch.is_empty() && done.len() == batch.len();
                rows.extend(done);
                if !whole {
                    let done: Vec<u32> = rows.iter().map(|row: &Row| row.point.number).collect();
                    missing.extend((1..=samples as u32).filter(|n| !done.contains(n)));
                    break;
                }
                batch.iter().for_each(|p| search.tell(p, judge::score(study, records, p)));
            }
        } else {
            for point in design::points(study)? {
                match row(study, records, &point) {
                    Some(row) => rows.push(row),
                    None => missing.push(point.number),
                }
            }
        }
        judge::mark_front(study, &mut rows);
        Ok(Table { base, rows, missing })
    }

    /// All rows, the base first.
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.base.iter().chain(&self.rows)
    }
}

/// The runs of a point on a rung, in the order of seeds; none if some are missing.
pub(super) fn runs_of(
    study: &Study,
    records: &Records,
    point: u32,
    rung: Option<u32>,
) -> Option<Vec<Record>> {
    let mut runs = Vec::new();
    for seed in study.seeds() {
        let record = records.get(&RunId { point, rung, seed })?.clone();
        let hopeless = !record.is_good() && point > 0;
        runs.push(record);
        if hopeless && (study.config.early_stop || rung.is_some()) {
            break;
        }
    }
    Some(runs)
}

/// The row of a point; none if it is not done.
fn row(study: &Study, records: &Records, point: &Point) -> Option<Row> {
    let good = |runs: &[Record]| runs.iter().all(Record::is_good);
    let ladder = study.axes.iter().find_map(Axis::ladder).filter(|_| point.number > 0);
    let (found, runs) = match ladder {
        None => (None, runs_of(study, records, point.number, None)?),
        Some(ladder) => {
            let of_rung = |rung| runs_of(study, records, point.number, Some(rung));
            let found = work::climb(ladder.last, |rung| of_rung(rung).map(|runs| good(&runs)))?;
            let rung = found.unwrap_or(ladder.last);
            (found.map(|rung| (rung, ladder.level(rung))), of_rung(rung)?)
        }
    };
    let stats = (0..study.columns.len()).map(|column| stat(&runs, column)).collect();
    let good = good(&runs);
    Some(Row { point: point.clone(), found, runs, stats, good, front: false })
}

fn stat(runs: &[Record], column: usize) -> Option<Stat> {
    let values: Vec<f64> = runs.iter().filter_map(|run| run.values[column]).collect();
    if values.is_empty() {
        return None;
    }
    Some(Stat::of(&values))
}

/// A column of a table for other programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name, with the unit.
    pub name: String,
    /// Its cells.
    pub cells: Cells,
}

/// Cells of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers.
    Number(Vec<Option<f64>>),
    /// Texts.
    Text(Vec<Option<String>>),
    /// Yes or no.
    Flag(Vec<bool>),
}

impl Cells {
    /// The cell of a row, as CSV has it.
    fn text(&self, row: usize) -> String {
        match self {
            Cells::Whole(cells) => cells[row].map_or(String::new(), |cell| cell.to_string()),
            Cells::Number(cells) => cells[row].map_or(String::new(), |cell| cell.to_string()),
            Cells::Text(cells) => cells[row].clone().unwrap_or_default(),
            Cells::Flag(cells) => cells[row].to_string(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Cells::Whole(cells) => cells.len(),
            Cells::Number(cells) => cells.len(),
            Cells::Text(cells) => cells.len(),
            Cells::Flag(cells) => cells.len(),
        }
    }
}

/// One row a point: its number, a column for each axis, how it ended, and mean and confidence
/// interval of each field.
pub fn points(study: &Study, table: &Table) -> Vec<Field> {
    let rows: Vec<&Row> = table.all().collect();
    let mut fields = vec![whole("point", rows.iter().map(|row| i64::from(row.point.number)))];
    fields.extend(axes(study, &rows));
    fields.push(whole("runs", rows.iter().map(|row| row.runs.len() as i64)));
    fields.push(text("outcome", rows.iter().map(|row| Some(row.outcome().to_owned()))));
    fields.push(flag("good", rows.iter().map(|row| row.good)));
    fields.push(flag("front", rows.iter().map(|row| row.front)));
    let broken = |row: &&Row| Some(row.broken().join(" ")).filter(|broken| !broken.is_empty());
    fields.push(text("broken", rows.iter().map(broken)));
    for (index, column) in study.columns.iter().enumerate() {
        let mean = rows.iter().map(|row| row.stats[index].map(|stat| stat.mean));
        let ci95 = rows.iter().map(|row| row.stats[index].and_then(|stat| stat.ci95));
        fields.push(number(&column.name, mean));
        fields.push(number(&format!("{}_ci95", column.name), ci95));
    }
    fields.push(text("error", rows.iter().map(|row| row.error().map(one_line))));
    fields
}

/// One row a run: the seeds of `points`, each for itself.
pub fn runs(study: &Study, table: &Table) -> Vec<Field> {
    let pairs: Vec<(&Row, &Record)> =
        table.all().flat_map(|row| row.runs.iter().map(move |run| (row, run))).collect();
    let rows: Vec<&Row> = pairs.iter().map(|(row, _)| *row).collect();
    let runs = || pairs.iter().map(|(_, run)| *run);
    let mut fields = vec![whole("point", runs().map(|run| i64::from(run.point)))];
    fields.push(whole("seed", runs().map(|run| run.seed as i64)));
    fields.extend(axes(study, &rows));
    fields.push(text("outcome", runs().map(|run| Some(run.outcome.clone()))));
    let broken = |run: &Record| Some(run.broken.join(" ")).filter(|broken| !broken.is_empty());
    fields.push(text("broken", runs().map(broken)));
    for (index, column) in study.columns.iter().enumerate() {
        fields.push(number(&column.name, runs().map(|run| run.values[index])));
    }
    fields.push(text("fingerprint", runs().map(|run| run.fingerprint.clone())));
    fields.push(text("error", runs().map(|run| run.error.as_deref().map(one_line))));
    fields
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or("").to_owned()
}

pub(super) fn whole(name: &str, cells: impl Iterator<Item = i64>) -> Field {
    Field { name: name.to_owned(), cells: Cells::Whole(cells.map(Some).collect()) }
}

pub(super) fn text(name: &str, cells: impl Iterator<Item = Option<String>>) -> Field {
    Field { name: name.to_owned(), cells: Cells::Text(cells.collect()) }
}

pub(super) fn number(name: &str, cells: impl Iterator<Item = Option<f64>>) -> Field {
    Field { name: name.to_owned(), cells: Cells::Number(cells.collect()) }
}

fn flag(name: &str, cells: impl Iterator<Item = bool>) -> Field {
    Field { name: name.to_owned(), cells: Cells::Flag(cells.collect()) }
}

/// A column for each axis: numbers in their unit, or words.
pub(super) fn axes(study: &Study, rows: &[&Row]) -> Vec<Field> {
    let mut fields = Vec::new();
    for (index, axis) in study.axes.iter().enumerate() {
        let level = |row: &&Row| match axis.ladder() {
            Some(_) => row.found.as_ref().map(|(_, level)| level.clone()),
            None => row.point.levels.get(index).cloned(),
        };
        let levels = rows.iter().map(level);
        let of_level = |level: Option<Level>| Some(level?.quantity?.number);
        let cells = match axis.unit {
            Some(Unit::One | Unit::Bytes | Unit::Cells | Unit::Seconds | Unit::BitsPerSecond) => {
                Cells::Number(levels.map(of_level).collect())
            }
            None => Cells::Text(levels.map(|level| Some(level?.label)).collect()),
        };
        fields.push(Field { name: axis.column(), cells });
    }
    fields
}

/// Writes all tables into a directory, each as CSV and as Parquet.
pub fn write(folder: &Path, study: &Study, table: &Table) -> Result<(), Complaint> {
    let of_curves = [
        ("slowdown", curves::slowdown_table(study, table)),
        ("queues", curves::queue_table(study, table)),
    ];
    let tables = [("points", points(study, table)), ("runs", runs(study, table))];
    let of_curves = of_curves.into_iter().filter(|(_, fields)| !curves::is_empty(fields));
    for (name, fields) in tables.into_iter().chain(of_curves) {
        write_file(&folder.join(format!("{name}.csv")), csv(&fields))?;
        let path = folder.join(format!("{name}.parquet"));
        let bytes = parquet::bytes(&fields)
            .map_err(|error| Complaint(format!("error: {}: {error}", path.display())))?;
        write_file(&path, &bytes)?;
    }
    Ok(())
}

/// A table as CSV.
pub fn csv(fields: &[Field]) -> String {
    let mut out = String::new();
    let quoted = |cell: &str| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    };
    let names: Vec<String> = fields.iter().map(|field| quoted(&field.name)).collect();
    let _ = writeln!(out, "{}", names.join(","));
    for row in 0..fields.first().map_or(0, |field| field.cells.len()) {
        let cells: Vec<String> =
            fields.iter().map(|field| quoted(&field.cells.text(row))).collect();
        let _ = writeln!(out, "{}", cells.join(","));
    }
    out
}
