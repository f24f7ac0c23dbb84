//! Least squares: residuals of points as a function of keys in log space, by Levenberg and
//! Marquardt. It knows neither keys nor simulations.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, Owned};
use scenarios::resolve::Complaint;

/// What is fitted. A vector has one entry for each key, the logarithm of its value over that at the
/// start.
pub(super) trait Model {
    /// ln(simulated time / measured time) of each point, for several vectors at once: they may be
    /// found side by side.
    fn errors(&self, at: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Complaint>;
    /// Weight of each point.
    fn weights(&self) -> &[f64];
    /// Bounds of each entry.
    fn bounds(&self) -> &[(f64, f64)];
}

/// Where a fit has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    /// The vector, within its bounds.
    pub at: Vec<f64>,
    /// Errors of the points there.
    pub errors: Vec<f64>,
    /// Their sum of squares, weighted, and of large errors less: see [`robust`].
    pub loss: f64,
    /// That and what the distance from the start costs.
    pub cost: f64,
}

/// Errors beyond this count in proportion, not squared: a size that was measured badly must not
/// bend the others.
const LARGE: f64 = 0.1;
/// A key that is e^`PRIOR_SPAN` times its start costs as much as an error of `PRIOR_ERROR` at one
/// size: of two explanations that are as good, the one nearer to what was known is taken.
const PRIOR_SPAN: f64 = 1.1;
const PRIOR_ERROR: f64 = 0.01;
/// Steps of the difference quotients.
const STEP: f64 = 0.05;
/// At most so many vectors for each key.
const PATIENCE: usize = 8;
const FTOL: f64 = 1e-4;
const XTOL: f64 = 1e-3;

/// The residual of pseudo-Huber: its square is e^2 for small errors, and grows as 2 |e| `LARGE` for
/// large ones.
pub(super) fn robust(error: f64, weight: f64) -> f64 {
    let error = error.clamp(-20.0, 20.0);
    let square = 2.0 * LARGE * LARGE * ((1.0 + (error / LARGE).powi(2)).sqrt() - 1.0);
    (square * weight).sqrt().copysign(error)
}

/// The sum of [`robust`] squares.
pub(super) fn loss(errors: &[f64], weights: &[f64]) -> f64 {
    errors.iter().zip(weights).map(|(error, weight)| robust(*error, *weight).powi(2)).sum()
}

/// What the distance of an entry from the start costs, as a residual; out of bounds it is far.
fn prior(entry: f64, (low, high): (f64, f64)) -> f64 {
    let beyond = entry - entry.clamp(low, high);
    PRIOR_ERROR / PRIOR_SPAN * entry + beyond
}

pub(super) fn within(at: &[f64], bounds: &[(f64, f64)]) -> Vec<f64> {
    at.iter().zip(bounds).map(|(entry, (low, high))| entry.clamp(*low, *high)).collect()
}

/// Fits, from `start` on.
pub(super) fn fit(model: &dyn Model, start: &[f64]) -> Result<Fitted, Complaint> {
    if start.is_empty() {
        return ended(model, Vec::new());
    }
    let mut problem = Problem {
        model,
        at: DVector::from_iterator(start.len(), start.iter().map(|entry| entry + SHIFT)),
        here: None,
        failure: None,
    };
    problem.look();
    let minimiser = LevenbergMarquardt::new()
        .with_ftol(FTOL)
        .with_xtol(XTOL)
        .with_gtol(1e-6)
        .with_stepbound(1.0)
        .with_patience(PATIENCE);
    let (problem, _) = minimiser.minimize(problem);
    if let Some(failure) = problem.failure {
        return Err(failure);
    }
    let at: Vec<f64> = problem.at.iter().map(|entry| entry - SHIFT).collect();
    ended(model, within(&at, model.bounds()))
}

fn ended(model: &dyn Model, at: Vec<f64>) -> Result<Fitted, Complaint> {
    let errors = model.errors(std::slice::from_ref(&at))?.swap_remove(0);
    let loss = loss(&errors, model.weights());
    let far = at.iter().zip(model.bounds()).map(|(entry, bounds)| prior(*entry, *bounds).powi(2));
    let cost = loss + far.sum::<f64>();
    Ok(Fitted { at, errors, loss, cost })
}

/// Central differences of the errors: by key, then by point, each by the logarithm of the key.
pub(super) fn slopes(model: &dyn Model, at: &[f64], step: f64) -> Result<Vec<Vec<f64>>, Complaint> {
    let mut vectors = Vec::new();
    for entry in 0..at.len() {
        for sign in [1.0, -1.0] {
            let mut moved = at.to_vec();
            moved[entry] += sign * step;
            vectors.push(moved);
        }
    }
    let errors = model.errors(&vectors)?;
    let pairs = errors.chunks(2);
    let slope = |pair: &[Vec<f64>]| {
        pair[0].iter().zip(&pair[1]).map(|(up, down)| (up - down) / (2.0 * step)).collect()
    };
    Ok(pairs.map(slope).collect())
}

/// Entries are moved by this, because the minimiser takes steps in proportion to their size.
const SHIFT: f64 = 1.0;

struct Problem<'m> {
    model: &'m dyn Model,
    at: DVector<f64>,
    here: Option<DVector<f64>>,
    failure: Option<Complaint>,
}

impl Problem<'_> {
    fn entries(&self) -> Vec<f64> {
        self.at.iter().map(|entry| entry - SHIFT).collect()
    }

    fn residuals_of(&self, entries: &[f64], errors: &[f64]) -> DVector<f64> {
        let weighted = errors.iter().zip(self.model.weights());
        let of_points = weighted.map(|(error, weight)| robust(*error, *weight));
        let bounds = self.model.bounds();
        let of_keys = entries.iter().zip(bounds).map(|(entry, bounds)| prior(*entry, *bounds));
        DVector::from_vec(of_points.chain(of_keys).collect())
    }

    fn look(&mut self) {
        let entries = self.entries();
        let at = within(&entries, self.model.bounds());
        match self.model.errors(&[at]) {
            Ok(errors) => self.here = Some(self.residuals_of(&entries, &errors[0])),
            Err(complaint) => (self.here, self.failure) = (None, Some(complaint)),
        }
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, at: &DVector<f64>) {
        self.at = at.clone();
        self.look();
    }

    fn params(&self) -> DVector<f64> {
        self.at.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        self.here.clone()
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let here = self.here.as_ref()?;
        let entries = self.entries();
        let bounds = self.model.bounds();
        let moved = |key: usize| {
            let mut moved = entries.clone();
            // into the bounds, not out of them
            let up = moved[key] + STEP <= bounds[key].1;
            moved[key] += if up { STEP } else { -STEP };
            moved
        };
        let vectors: Vec<Vec<f64>> = (0..entries.len()).map(moved).collect();
        let clamped: Vec<Vec<f64>> = vectors.iter().map(|at| within(at, bounds)).collect();
        let errors = self.model.errors(&clamped).ok()?;
        let columns: Vec<DVector<f64>> = (0..entries.len())
            .map(|key| {
                let there = self.residuals_of(&vectors[key], &errors[key]);
                (there - here) / (vectors[key][key] - entries[key])
            })
            .collect();
        Some(DMatrix::from_columns(&columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// time = e^a + size e^b; the third key does nothing.
    pub(super) struct Line {
        pub sizes: Vec<f64>,
        pub measured: Vec<f64>,
        pub weights: Vec<f64>,
        pub bounds: Vec<(f64, f64)>,
    }

    impl Line {
        pub(super) fn new(keys: usize) -> Line {
            let sizes: Vec<f64> = (0..12).map(|power| f64::from(1 << power) * 0.01).collect();
            // a = ln 3, b = ln 0.5
            let measured = sizes.iter().map(|size| 3.0 + 0.5 * size).collect();
            let weights = vec![1.0; sizes.len()];
            Line { sizes, measured, weights, bounds: vec![(-4.6, 4.6); keys] }
        }
    }

    impl Model for Line {
        fn errors(&self, at: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Complaint> {
            let of = |at: &Vec<f64>| {
                let time = |size: &f64| at[0].exp() + size * at[1].exp();
                let pairs = self.sizes.iter().zip(&self.measured);
                pairs.map(|(size, measured)| (time(size) / measured).ln()).collect()
            };
            Ok(at.iter().map(of).collect())
        }

        fn weights(&self) -> &[f64] {
            &self.weights
        }

        fn bounds(&self) -> &[(f64, f64)] {
            &self.bounds
        }
    }

    #[test]
    fn a_line_is_found_and_an_outlier_bends_it_little() {
        let mut line = Line::new(2);
        let found = fit(&line, &[0.0, 0.0]).unwrap();
        let near = |found: &Fitted, within: f64| {
            (found.at[0].exp() / 3.0 - 1.0).abs() < within
                && (found.at[1].exp() / 0.5 - 1.0).abs() < within
        };
        assert!(near(&found, 0.01), "{found:?}");
        // six times the time at one size of twelve
        line.measured[2] *= 6.0;
        assert!(near(&fit(&line, &[0.0, 0.0]).unwrap(), 0.08));
    }

    #[test]
    fn what_has_no_effect_stays_and_has_no_slope() {
        let line = Line::new(3);
        let found = fit(&line, &[0.0, 0.0, 0.5]).unwrap();
        assert!(found.at[2].abs() < 0.5, "{found:?}");
        let slopes = slopes(&line, &found.at, 0.05).unwrap();
        assert!(slopes[2].iter().all(|slope| *slope == 0.0));
        // the smallest size is all latency: d ln t / d a = 3 / (3 + 0.005)
        assert!((slopes[0][0] - 0.998).abs() < 1e-3);
    }

    #[test]
    fn bounds_hold() {
        let line = Line { bounds: vec![(-4.6, 0.5), (-4.6, 4.6)], ..Line::new(2) };
        let found = fit(&line, &[0.0, 0.0]).unwrap();
        assert!(found.at[0] <= 0.5 && found.at[0] > 0.4, "{found:?}");
    }
}
