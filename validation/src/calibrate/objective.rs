//! From keys to errors: a set of free keys, the points they are fitted to, and what is simulated.

use scenarios::resolve::Complaint;

use super::fit::Model;
use super::keys::Key;
use super::points::Point;
use super::runs::{Ask, Runs};

/// A model of the scenario with some of its keys free.
pub(super) struct Objective<'a> {
    pub runs: &'a Runs<'a>,
    pub points: &'a [Point],
    /// `--set` of what is decided.
    pub set: Vec<String>,
    /// The free keys.
    pub keys: Vec<Key>,
    weights: Vec<f64>,
    bounds: Vec<(f64, f64)>,
}

/// A run that did not end is so much too slow.
const UNFINISHED: f64 = 5.0;

impl<'a> Objective<'a> {
    pub(super) fn new(
        runs: &'a Runs<'a>,
        points: &'a [Point],
        set: Vec<String>,
        keys: Vec<Key>,
    ) -> Self {
        let weights = points.iter().map(|point| point.weight).collect();
        let bounds =
            keys.iter().map(|key| ((key.low / key.start).ln(), (key.high / key.start).ln()));
        let bounds = bounds.collect();
        Objective { runs, points, set, keys, weights, bounds }
    }

    /// All that is set at a vector.
    pub(super) fn settings(&self, at: &[f64]) -> Vec<String> {
        let free = self.keys.iter().zip(at).map(|(key, entry)| key.set(key.start * entry.exp()));
        self.set.iter().cloned().chain(free).collect()
    }
}

/// Simulated times of points, for several settings.
pub(super) fn times(
    runs: &Runs<'_>,
    points: &[Point],
    settings: &[Vec<String>],
) -> Result<Vec<Vec<Option<f64>>>, Complaint> {
    let asks: Vec<Ask> = settings
        .iter()
        .flat_map(|set| {
            points.iter().map(|point| Ask {
                set: set.clone(),
                op: point.op,
                bytes: point.bytes,
                way: None,
            })
        })
        .collect();
    let answers = runs.answers(&asks)?;
    let of = |chunk: &[super::runs::Answer]| chunk.iter().map(|answer| answer.time_s).collect();
    Ok(answers.chunks(points.len().max(1)).map(of).collect())
}

/// ln(simulated / measured).
pub(super) fn error(point: &Point, time_s: Option<f64>) -> f64 {
    time_s.map_or(UNFINISHED, |time_s| (time_s / point.time_s).ln())
}

impl Model for Objective<'_> {
    fn errors(&self, at: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Complaint> {
        let settings: Vec<Vec<String>> = at.iter().map(|at| self.settings(at)).collect();
        let times = times(self.runs, self.points, &settings)?;
        let errors = |times: &Vec<Option<f64>>| {
            self.points.iter().zip(times).map(|(point, time_s)| error(point, *time_s)).collect()
        };
        Ok(times.iter().map(errors).collect())
    }

    fn weights(&self) -> &[f64] {
        &self.weights
    }

    fn bounds(&self) -> &[(f64, f64)] {
        &self.bounds
    }
}
