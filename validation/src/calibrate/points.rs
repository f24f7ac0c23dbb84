//! What is fitted, and what is held out: rows of measured tables, checked against the scenario.

use models::collective::Op;
use scenarios::resolve::Complaint;
use serde::Serialize;

use crate::curve::{Row, Table};

/// A size that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Number of its table, from 0.
    pub table: usize,
    /// The operation.
    pub op: Op,
    /// Size of the buffer.
    pub bytes: u64,
    /// Time of one iteration out of place; in place if that is all there is.
    pub time_s: f64,
    /// The other of the two.
    pub other_time_s: Option<f64>,
    /// It was left out of the fit, to see what that predicts.
    pub held_out: bool,
    /// busbw / algbw.
    #[serde(skip)]
    pub factor: f64,
    /// It counts so much in the fit.
    #[serde(skip)]
    pub weight: f64,
    /// Sizes from here on have the same busbw.
    #[serde(skip)]
    pub plateau: bool,
}

/// Two timings of a size that differ by more are told: they were measured with the same work.
pub(super) const UNSTEADY: f64 = 0.25;
/// Sizes whose busbw is so near that of the largest one are a plateau.
const PLATEAU: f64 = 0.03;

impl Point {
    /// In GB/s, if it takes this long.
    pub fn busbw(&self, time_s: f64) -> f64 {
        self.bytes as f64 / time_s / 1e9 * self.factor
    }

    /// The two timings of an operation that does the same in place differ so much that one of them
    /// says little.
    pub fn is_unsteady(&self) -> bool {
        self.difference() > UNSTEADY
    }

    fn difference(&self) -> f64 {
        self.other_time_s.map_or(0.0, |other| (other / self.time_s).ln().abs())
    }
}

/// The ranks and hosts of the scenario's job, and its operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub op: Op,
    pub ranks: u32,
    pub hosts: u32,
}

/// The points of all tables; of each table every so many sizes are held out, so that `holdout` of
/// them are: the smallest is fitted always.
pub(super) fn points(
    tables: &[Table],
    shape: Shape,
    holdout: f64,
) -> Result<(Vec<Point>, Vec<String>), Complaint> {
    let (mut points, mut notes) = (Vec::new(), Vec::new());
    for (number, table) in tables.iter().enumerate() {
        let place = format!("{}:{}", table.source, table.line);
        let op = fits(table, shape, &place, &mut notes)?;
        let mut of_table: Vec<Point> =
            table.rows.iter().filter_map(|row| point(number, op, shape.ranks, row)).collect();
        of_table.sort_by_key(|point| point.bytes);
        of_table.dedup_by_key(|point| point.bytes);
        if of_table.is_empty() {
            return Err(Complaint(format!(
                "error: {place}: no row of it has a size and a time: nothing can be fitted to it"
            )));
        }
        for (index, point) in of_table.iter_mut().enumerate() {
            let out = |count: usize| (count as f64 * holdout + 1e-9).floor();
            point.held_out = out(index + 1) > out(index);
        }
        mark_plateau(&mut of_table);
        points.append(&mut of_table);
    }
    if points.iter().all(|point| point.held_out) {
        return Err(Complaint("error: no size is left to be fitted".to_owned()));
    }
    Ok((points, notes))
}

/// The operation of a table that was measured on the job of the scenario.
fn fits(
    table: &Table,
    shape: Shape,
    place: &str,
    notes: &mut Vec<String>,
) -> Result<Op, Complaint> {
    let counts = [("ranks", table.ranks, shape.ranks), ("hosts", table.hosts, shape.hosts)];
    for (what, measured, ours) in counts {
        if let Some(measured) = measured.filter(|measured| *measured != ours) {
            return Err(Complaint(format!(
                "error: {place}: it was measured with {measured} {what}, and the scenario's \
                 collective has {ours}; a scenario of as many is expected"
            )));
        }
    }
    let factor = shape.op.bus_factor(shape.ranks);
    let told = factor_of(table).filter(|told| (told / factor - 1.0).abs() > OTHER_FACTOR);
    if let (None, Some(told)) = (table.op, told) {
        return Err(Complaint(format!(
            "error: {place}: it does not say which operation it is of, and its busbw is {told:.3} of \
             algbw, where {} on {} ranks has {factor:.3}; --set traffic[N].op to the operation that \
             was measured",
            shape.op.name(),
            shape.ranks
        )));
    }
    if table.op.is_none() {
        notes.push(format!(
            "{place}: it does not say which operation it is of; it is taken for the scenario's, {}",
            shape.op.name()
        ));
    }
    Ok(table.op.unwrap_or(shape.op))
}

/// Printed figures differ from the true factor by less.
const OTHER_FACTOR: f64 = 0.05;

/// busbw / algbw of the row with the largest algbw.
fn factor_of(table: &Table) -> Option<f64> {
    let timings = table.rows.iter().filter_map(Row::timing);
    let largest = timings.max_by(|a, b| a.algbw_gbytes_per_s.total_cmp(&b.algbw_gbytes_per_s))?;
    let known = largest.algbw_gbytes_per_s >= 1.0 && largest.busbw_gbytes_per_s > 0.0;
    known.then(|| largest.busbw_gbytes_per_s / largest.algbw_gbytes_per_s)
}

fn point(table: usize, op: Op, ranks: u32, row: &Row) -> Option<Point> {
    let usable = |time_s: &f64| time_s.is_finite() && *time_s > 0.0;
    let out = row.out_of_place.map(|timing| timing.time_s).filter(usable);
    let within = row.in_place.map(|timing| timing.time_s).filter(usable);
    let time_s = out.or(within)?;
    if row.bytes == 0 {
        return None;
    }
    let mut point = Point {
        table,
        op,
        bytes: row.bytes,
        time_s,
        other_time_s: out.and(within),
        held_out: false,
        factor: op.bus_factor(ranks),
        weight: 1.0,
        plateau: false,
    };
    // what cannot be repeated counts for less
    point.weight = (UNSTEADY / point.difference().max(UNSTEADY)).powi(2);
    Some(point)
}

/// Marks the largest sizes that have the same busbw.
fn mark_plateau(points: &mut [Point]) {
    let Some(last) = points.last().map(|last| last.busbw(last.time_s)) else { return };
    for point in points.iter_mut().rev() {
        if (point.busbw(point.time_s) / last - 1.0).abs() > PLATEAU {
            return;
        }
        point.plateau = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Timing;

    fn row(bytes: u64, out: Option<f64>, within: Option<f64>) -> Row {
        let timing = |time_s| Timing { time_s, ..Timing::default() };
        Row { bytes, out_of_place: out.map(timing), in_place: within.map(timing), ..Row::default() }
    }

    fn table(rows: Vec<Row>) -> Table {
        Table { source: "log".to_owned(), line: 3, ranks: Some(4), rows, ..Table::default() }
    }

    const SHAPE: Shape = Shape { op: Op::AllReduce, ranks: 4, hosts: 2 };

    #[test]
    fn every_second_size_is_held_out_and_the_smallest_is_not() {
        let rows = (0..5).map(|power| row(1 << power, Some(1e-6), None)).collect();
        let (points, _) = points(&[table(rows)], SHAPE, 0.5).unwrap();
        let held: Vec<bool> = points.iter().map(|point| point.held_out).collect();
        assert_eq!(held, [false, true, false, true, false]);
    }

    #[test]
    fn rows_without_size_or_time_are_left_out_and_doubles_too() {
        let rows = vec![
            row(0, Some(1e-6), None),
            row(8, None, Some(2e-6)),
            row(8, Some(3e-6), None),
            row(16, Some(0.0), None),
            row(32, Some(4e-6), Some(8e-6)),
        ];
        let (points, notes) = points(&[table(rows)], SHAPE, 0.0).unwrap();
        let sizes: Vec<(u64, f64)> = points.iter().map(|p| (p.bytes, p.time_s)).collect();
        assert_eq!(sizes, [(8, 2e-6), (32, 4e-6)]);
        // twice the time in place: (0.25 / ln 2)^2
        assert!((points[1].weight - 0.13).abs() < 1e-3 && points[1].is_unsteady());
        assert!(notes[0].contains("does not say which operation"), "{notes:?}");
        // busbw of 32 B in 4 us over 4 ranks: 32 / 4000 x 2 x 3 / 4 GB/s
        assert!((points[1].busbw(4e-6) - 0.012).abs() < 1e-12);
    }

    #[test]
    fn a_table_of_another_operation_is_refused() {
        // 4 ranks: busbw of an AllReduce is 1.5 algbw, of an AllGather 0.75
        let mut one = row(1 << 30, Some(1e-3), None);
        if let Some(timing) = &mut one.out_of_place {
            (timing.algbw_gbytes_per_s, timing.busbw_gbytes_per_s) = (100.0, 75.0);
        }
        let error = points(&[table(vec![one])], SHAPE, 0.5).unwrap_err();
        assert!(error.0.contains("its busbw is 0.750 of algbw"), "{error}");
    }

    #[test]
    fn another_job_is_refused() {
        let other = Table { ranks: Some(8), ..table(vec![row(8, Some(1e-6), None)]) };
        let error = points(&[other], SHAPE, 0.5).unwrap_err();
        assert!(error.0.contains("log:3: it was measured with 8 ranks"), "{error}");
    }
}
