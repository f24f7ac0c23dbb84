//! What a calibration has found, as `calibration.json` has it.

use scenarios::resolve::{Complaint, Loaded};
use serde::Serialize;

use super::fit::{Model, slopes};
use super::keys::{Key, Unit};
use super::known::{Known, Slopes};
use super::objective::Objective;
use super::points::{Point, UNSTEADY};
use super::select::{Choice, Search};
use super::{Request, text};
use crate::curve::Table;

/// A calibration. Errors are those of busbw, simulated over measured, less one.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// Version of this form.
    pub schema: u32,
    /// Version of the program.
    pub rocesim: String,
    /// The scenario.
    pub scenario: String,
    /// Its title.
    pub title: String,
    /// The measured tables.
    pub tables: Vec<Measured>,
    /// The share of sizes that was to be held out.
    pub holdout: f64,
    /// What the calibrated scenario sets, as `--set` takes it.
    pub set: Vec<String>,
    /// All keys that were looked at, those that were fitted first.
    pub keys: Vec<FittedKey>,
    /// Of the sizes that were fitted.
    pub fitted: Option<Errors>,
    /// Of those that were held out.
    pub held_out: Option<Errors>,
    /// By table and size.
    pub rows: Vec<SizeRow>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// A table that was fitted to.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The file.
    pub source: String,
    /// The line of its header.
    pub line: u64,
    /// The operation, as nccl-tests calls it.
    pub op: String,
}

/// A key that may be fitted, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct FittedKey {
    /// Its path.
    pub path: String,
    /// Its value in the given scenario; absent where the model has its own.
    pub before: Option<String>,
    /// Its value in the calibrated one.
    pub after: Option<String>,
    /// In s, bit/s or without unit, if it was fitted.
    pub value: Option<f64>,
    /// What is known of it.
    #[serde(flatten)]
    pub known: Known,
    #[serde(skip)]
    pub(super) unit: Unit,
}

/// Errors over some sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Sizes.
    pub sizes: usize,
    /// Mean of the sizes' errors without their signs, of the given scenario.
    pub before: f64,
    /// The same of the calibrated one.
    pub after: f64,
    /// The largest of the calibrated one.
    pub largest: f64,
    /// Sizes whose two timings agree, and their mean error after.
    pub steady: Option<(usize, f64)>,
}

/// A size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeRow {
    /// What was measured.
    #[serde(flatten)]
    pub point: Point,
    /// Measured busbw, in GB/s.
    pub measured_busbw_gbytes_per_s: f64,
    /// Simulated with the given scenario; absent if it did not end.
    pub before_time_s: Option<f64>,
    /// Simulated with the calibrated one.
    pub after_time_s: Option<f64>,
    /// Error of busbw of the given scenario.
    pub before_error: Option<f64>,
    /// Error of busbw of the calibrated one.
    pub after_error: Option<f64>,
}

/// One row a point, from the times that were simulated before and after.
pub(super) fn rows(points: &[Point], found: &[Vec<Option<f64>>]) -> Vec<SizeRow> {
    let row = |(index, point): (usize, &Point)| {
        let [before, after] = [0, 1].map(|side: usize| found[side][index]);
        let error = |time_s: Option<f64>| time_s.map(|time_s| point.time_s / time_s - 1.0);
        SizeRow {
            point: point.clone(),
            measured_busbw_gbytes_per_s: point.busbw(point.time_s),
            before_time_s: before,
            after_time_s: after,
            before_error: error(before),
            after_error: error(after),
        }
    };
    points.iter().enumerate().map(row).collect()
}

/// A held-out error that is so many times the fitted one, and beyond [`WORSE_FROM`], is worth a word.
const WORSE: f64 = 2.0;
const WORSE_FROM: f64 = 0.05;

/// What the rows say of themselves.
pub(super) fn remarks(rows: &[SizeRow]) -> Vec<String> {
    let mut notes = Vec::new();
    let unsteady = rows.iter().filter(|row| row.point.is_unsteady()).count();
    if unsteady > 0 {
        notes.push(format!(
            "{unsteady} of {} sizes were measured with two times, out of place and in place, that \
             differ by more than {:.0} %: they count for less, and no error there is to be trusted",
            rows.len(),
            UNSTEADY.exp_m1() * 100.0
        ));
    }
    let of = |held: bool| Errors::of(rows, |row| row.point.held_out == held);
    if let (Some(fitted), Some(held)) = (of(false), of(true))
        && held.after > WORSE_FROM
        && held.after > WORSE * fitted.after
    {
        notes.push(format!(
            "the sizes that were held out are off by {:.1} %, those that were fitted by {:.1} %: \
             what was fitted does not carry over; fewer keys (--free) or more sizes would",
            held.after * 100.0,
            fitted.after * 100.0
        ));
    }
    notes
}

impl Errors {
    /// Over the rows that `which` takes; none of no row.
    pub fn of(rows: &[SizeRow], which: impl Fn(&SizeRow) -> bool) -> Option<Errors> {
        let taken: Vec<&SizeRow> = rows.iter().filter(|row| which(row)).collect();
        if taken.is_empty() {
            return None;
        }
        // a run that did not end is as wrong as can be
        let off = |error: Option<f64>| error.unwrap_or(-1.0).abs();
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let before: Vec<f64> = taken.iter().map(|row| off(row.before_error)).collect();
        let after: Vec<f64> = taken.iter().map(|row| off(row.after_error)).collect();
        let steady: Vec<f64> = taken
            .iter()
            .filter(|row| !row.point.is_unsteady())
            .map(|row| off(row.after_error))
            .collect();
        Some(Errors {
            sizes: taken.len(),
            before: mean(&before),
            after: mean(&after),
            largest: after.iter().copied().fold(0.0, f64::max),
            steady: (!steady.is_empty() && steady.len() < taken.len())
                .then(|| (steady.len(), mean(&steady))),
        })
    }
}

/// All candidates, with what is known of each at the end.
pub(super) fn fitted_keys(
    search: &Search<'_>,
    choice: &Choice,
    together: &[(String, String)],
) -> Result<Vec<FittedKey>, Complaint> {
    let objective = search.objective(choice);
    let at = &choice.fitted.at;
    let found = slopes(&objective, at, 0.05)?;
    let of_fitted = Slopes::new(&found, objective.weights());
    let halves = of_fitted.halves(choice.fitted.loss, search.count).unwrap_or_default();
    let names: Vec<String> = choice.keys.iter().map(|key| key.path.clone()).collect();
    let mut keys = Vec::new();
    for key in search.candidates {
        let place = choice.keys.iter().position(|free| free.path == key.path);
        let (value, known) = match place {
            Some(place) => {
                let value = key.start * at[place].exp();
                let half = halves.get(place).map_or(f64::INFINITY, |half| half.exp());
                (Some(value), Known::Fitted { low: value / half, high: value * half })
            }
            None => (None, other(search, choice, key, &of_fitted, &names, together)?),
        };
        keys.push(FittedKey {
            path: key.path.clone(),
            before: key.given.clone(),
            after: value.map(|value| key.text(value)).or_else(|| key.given.clone()),
            value,
            known,
            unit: key.unit,
        });
    }
    Ok(keys)
}

/// What is known of a key that was not fitted.
fn other(
    search: &Search<'_>,
    choice: &Choice,
    key: &Key,
    of_fitted: &Slopes,
    names: &[String],
    together: &[(String, String)],
) -> Result<Known, Complaint> {
    if let Some((_, with)) = together.iter().find(|(dropped, _)| *dropped == key.path) {
        return Ok(Known::Together { with: vec![with.clone()] });
    }
    let mut keys = choice.keys.clone();
    keys.push(key.clone());
    let with = Objective::new(search.runs, search.points, choice.set.clone(), keys);
    let mut at = choice.fitted.at.clone();
    let own = at.len();
    at.push(0.0);
    let moved = [0.05, -0.05].map(|step| {
        let mut at = at.clone();
        at[own] = step;
        at
    });
    let errors = with.errors(&moved)?;
    let slope: Vec<f64> =
        errors[0].iter().zip(&errors[1]).map(|(up, down)| (up - down) / 0.1).collect();
    Ok(of_fitted.other(&slope, with.weights(), names))
}

/// Version of `calibration.json`.
const SCHEMA: u32 = 1;

impl Calibration {
    pub(super) fn new(
        loaded: &Loaded,
        tables: &[Table],
        request: &Request,
        set: Vec<String>,
        keys: Vec<FittedKey>,
        rows: Vec<SizeRow>,
        notes: Vec<String>,
    ) -> Self {
        let measured = |(number, table): (usize, &Table)| Measured {
            source: table.source.clone(),
            line: table.line,
            op: rows
                .iter()
                .find(|row| row.point.table == number)
                .map_or(String::new(), |row| row.point.op.name().to_owned()),
        };
        let tables = tables.iter().enumerate().map(measured).collect();
        let of = |held: bool| Errors::of(&rows, |row: &SizeRow| row.point.held_out == held);
        Calibration {
            schema: SCHEMA,
            rocesim: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: loaded.name.clone(),
            title: loaded.scenario.title.clone(),
            tables,
            holdout: request.holdout,
            set,
            keys,
            fitted: of(false),
            held_out: of(true),
            rows,
            notes,
        }
    }

    /// What a person reads.
    pub fn text(&self) -> String {
        text::summary(self)
    }
}
