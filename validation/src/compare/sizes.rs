//! A run against a measured curve: the same operation, size by size.

use std::fmt;

use models::collective::Op;
use serde::Serialize;

use super::measure::Pair;
use super::shape::{Point, Shape, shape};
use crate::curve::{Row, Table, Timing};
use crate::curve_table::{size, time};
use crate::symptoms::wrapped;
use crate::table::signed;

/// Sizes that differ by at most this share are the same: nccl-tests rounds to multiples of ranks.
const SAME_SIZE: f64 = 0.01;

/// One operation, simulated and measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeComparison {
    /// The file and line of the measurement.
    pub measurement: String,
    /// The operation; absent if the measurement does not say it.
    pub op: Option<Op>,
    /// Sizes that both have, ascending.
    pub sizes: Vec<SizePair>,
    /// Sizes that were only simulated, in bytes.
    pub only_simulated: Vec<u64>,
    /// Sizes that were only measured, in bytes.
    pub only_measured: Vec<u64>,
    /// Mean over sizes of the absolute error of the time, a share of what was measured; absent
    /// without sizes.
    pub mean_abs_error: Option<f64>,
    /// The size with the largest error, in bytes, and that error.
    pub worst: Option<(u64, f64)>,
    /// What the differences look like; absent below three sizes.
    pub shape: Option<Shape>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// A size that was simulated and measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizePair {
    /// As simulated.
    pub bytes: u64,
    /// As measured.
    pub measured_bytes: u64,
    /// Of one iteration; measured is out of place, or in place if that is all there is.
    pub time_s: Pair,
    /// In GB/s.
    pub busbw_gbytes_per_s: Pair,
    /// Of the time, relative to what was measured, with sign.
    pub error: f64,
}

/// Compares every simulated operation with the tables that measured it. A table that does not name
/// its operation is compared if there is but one simulated.
pub fn compare_sizes(simulated: &[Table], measured: &[Table]) -> Vec<SizeComparison> {
    let mut found = Vec::new();
    for there in measured.iter().filter(|table| !table.rows.is_empty()) {
        let same = |here: &&Table| match there.op {
            Some(op) => here.op == Some(op),
            None => simulated.len() == 1,
        };
        found.extend(simulated.iter().filter(same).map(|here| compare(here, there)));
    }
    found
}

fn compare(here: &Table, there: &Table) -> SizeComparison {
    let mut notes = Vec::new();
    if there.op.is_none() {
        notes.push("the measurement does not say its operation: taken for that of the run".into());
    }
    if let Some((here, there)) = here.ranks.zip(there.ranks).filter(|(here, there)| here != there) {
        notes.push(format!("{here} ranks were simulated, {there} measured"));
    }
    let (simulated, left) = (timed(here), timed(there));
    let mut taken = vec![false; left.len()];
    let (mut sizes, mut only_simulated, mut points) = (Vec::new(), Vec::new(), Vec::new());
    for (row, timing) in &simulated {
        let gap = |other: &Row| other.bytes.abs_diff(row.bytes);
        let near = (0..left.len()).filter(|index| !taken[*index]);
        let nearest = near.min_by_key(|index| gap(left[*index].0));
        let within = |index: &usize| gap(left[*index].0) as f64 <= SAME_SIZE * row.bytes as f64;
        let Some(index) = nearest.filter(within) else {
            only_simulated.push(row.bytes);
            continue;
        };
        taken[index] = true;
        let (other, measured) = &left[index];
        let time_s = Pair { here: timing.time_s, there: measured.time_s };
        let busbw = Pair { here: timing.busbw_gbytes_per_s, there: measured.busbw_gbytes_per_s };
        sizes.push(SizePair {
            bytes: row.bytes,
            measured_bytes: other.bytes,
            time_s,
            busbw_gbytes_per_s: busbw,
            error: time_s.error(),
        });
        points.push(Point {
            bytes: row.bytes as f64,
            simulated_s: time_s.here,
            measured_s: time_s.there,
            in_place_s: other.in_place.map(|timing| timing.time_s),
            busbw,
        });
    }
    let only_measured = left.iter().zip(&taken).filter(|(_, taken)| !**taken);
    let only_measured = only_measured.map(|((row, _), _)| row.bytes).collect();
    let curve = left.iter().map(|(row, timing)| (row.bytes as f64, timing.busbw_gbytes_per_s));
    let curve: Vec<(f64, f64)> = curve.collect();
    let errors = sizes.iter().map(|pair| pair.error.abs());
    let mean = errors.sum::<f64>() / sizes.len() as f64;
    let worst = sizes.iter().max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
    SizeComparison {
        measurement: format!("{}, line {}", there.source, there.line),
        op: here.op,
        mean_abs_error: (!sizes.is_empty()).then_some(mean),
        worst: worst.map(|pair| (pair.bytes, pair.error)),
        shape: shape(&points, &curve),
        sizes,
        only_simulated,
        only_measured,
        notes,
    }
}

/// Rows that have a time, by size; of a size that stands several times the first.
fn timed(table: &Table) -> Vec<(&Row, Timing)> {
    let rows = table.rows.iter().filter_map(|row| Some((row, row.timing()?)));
    let mut rows: Vec<(&Row, Timing)> = rows.filter(|(_, timing)| timing.time_s > 0.0).collect();
    rows.sort_by_key(|(row, _)| row.bytes);
    rows.dedup_by_key(|(row, _)| row.bytes);
    rows
}

impl SizeComparison {
    /// Whether there are sizes, and the time of each is off by at most this share.
    pub fn is_within(&self, tolerance: f64) -> bool {
        self.worst.is_some_and(|(_, error)| error.abs() <= tolerance)
    }
}

impl fmt::Display for SizeComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = self.op.map_or("operation not known", |op| op.name());
        writeln!(f, "{op}, against {}", self.measurement)?;
        if !self.sizes.is_empty() {
            let columns = ["measured", "rocesim", "error", "measured", "rocesim"];
            let columns: String = columns.iter().map(|name| format!("{name:>13}")).collect();
            writeln!(f, "{:>14}{:>26}{:>39}", "", "time", "busbw, GB/s")?;
            writeln!(f, "{:>14}{columns}", "size")?;
        }
        for pair in &self.sizes {
            let SizePair { bytes, time_s, busbw_gbytes_per_s: busbw, error, .. } = pair;
            let [there, here] = [time_s.there, time_s.here].map(time);
            let (size, error) = (size(*bytes), signed(*error, 1));
            let Pair { here: bw_here, there: bw_there } = busbw;
            writeln!(
                f,
                "{size:>14}{there:>13}{here:>13}{error:>13}{bw_there:>13.2}{bw_here:>13.2}"
            )?;
        }
        if let Some((mean, (worst, error))) = self.mean_abs_error.zip(self.worst) {
            let (mean, error, worst) = (mean * 100.0, signed(error, 1), size(worst));
            writeln!(f, "  mean |error| {mean:.1} %, worst {error} at {worst}")?;
        }
        if let Some(shape) = &self.shape {
            write!(f, "{}", wrapped("  ", &shape.to_string()))?;
        }
        for (what, sizes) in
            [("only simulated", &self.only_simulated), ("only measured", &self.only_measured)]
        {
            if !sizes.is_empty() {
                let sizes: Vec<String> = sizes.iter().map(|bytes| size(*bytes)).collect();
                write!(f, "{}", wrapped(&format!("  {what}: "), &sizes.join(", ")))?;
            }
        }
        for note in &self.notes {
            write!(f, "{}", wrapped("  note: ", note))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(op: Option<Op>, rows: &[(u64, f64)]) -> Table {
        let row = |(bytes, time_s): &(u64, f64)| {
            let algbw = *bytes as f64 / time_s / 1e9;
            let timing = Timing {
                time_s: *time_s,
                algbw_gbytes_per_s: algbw,
                busbw_gbytes_per_s: algbw,
                wrong: None,
            };
            Row { bytes: *bytes, out_of_place: Some(timing), ..Row::default() }
        };
        let rows = rows.iter().map(row).collect();
        Table { source: "log".into(), line: 3, op, ranks: Some(2), rows, ..Table::default() }
    }

    #[test]
    fn sizes_are_matched_within_a_per_cent() {
        let here = table(Some(Op::AllToAll), &[(1000, 1e-3), (2000, 3e-3), (9000, 1.0)]);
        let there = table(Some(Op::AllToAll), &[(991, 2e-3), (2000, 2e-3), (5000, 1.0)]);
        let found = compare_sizes(std::slice::from_ref(&here), std::slice::from_ref(&there));
        let [found] = found.as_slice() else { panic!("{found:?}") };
        let errors: Vec<f64> = found.sizes.iter().map(|pair| pair.error).collect();
        assert_eq!(errors.len(), 2);
        // 1 ms for 2 ms, 3 ms for 2 ms: -50 % and +50 %
        assert!((errors[0] + 0.5).abs() < 1e-12 && (errors[1] - 0.5).abs() < 1e-12);
        assert_eq!(
            (found.only_simulated.as_slice(), found.only_measured.as_slice()),
            (&[9000][..], &[5000][..])
        );
        assert_eq!(found.mean_abs_error.map(|error| (error * 1e6).round()), Some(5e5));
        assert!(found.is_within(0.51) && !found.is_within(0.49));
        let text = found.to_string();
        assert!(text.starts_with("alltoall, against log, line 3\n"), "{text}");
        assert!(text.contains("mean |error| 50.0 %, worst"), "{text}");
        // of another operation, or of none
        let other = Table { op: Some(Op::AllReduce), ..there.clone() };
        assert_eq!(compare_sizes(std::slice::from_ref(&here), &[other]), []);
        let unknown = Table { op: None, ranks: Some(4), ..there };
        let found = compare_sizes(&[here], &[unknown]);
        assert_eq!((found.len(), found[0].notes.len()), (1, 2));
    }
}
