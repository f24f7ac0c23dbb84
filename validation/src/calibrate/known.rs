//! What the sizes tell about each key: its interval, or why there is none.

use nalgebra::{DMatrix, DVector};
use serde::Serialize;

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Known {
    /// It was fitted: with 95 % it is between these, in s, bit/s or without unit.
    Fitted {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// None of the sizes depends on it.
    NoEffect,
    /// What it does, these do as well: it is only known together with them.
    Together {
        /// Keys that were fitted.
        with: Vec<String>,
    },
    /// It was not needed: with it, the errors would not be enough smaller.
    NotNeeded,
}

/// A slope below this at all sizes is no effect: a key that is twice as large changes times by less
/// than 0.2 %.
const EFFECT: f64 = 0.003;
/// Of a column that the others make up to here, nothing is left.
const ALIKE: f64 = 0.15;
/// Two keys with a larger correlation are only known together.
const CORRELATED: f64 = 0.98;
/// A key that is not known within this factor is not known.
const WIDE: f64 = 3.0;

/// Slopes of errors at the end of a fit: by key, then by point, already weighted.
#[derive(Clone, Debug)]
pub(super) struct Slopes {
    columns: Vec<DVector<f64>>,
}

/// Why a fit is not to be trusted with all its keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Doubt {
    /// This one has no effect, or is not known within a factor of 3.
    Unknown(usize),
    /// The second is only known together with the first.
    Together(usize, usize),
}

impl Slopes {
    pub(super) fn new(slopes: &[Vec<f64>], weights: &[f64]) -> Self {
        let column = |slopes: &Vec<f64>| {
            let weighted = slopes.iter().zip(weights).map(|(slope, weight)| slope * weight.sqrt());
            DVector::from_iterator(slopes.len(), weighted)
        };
        Slopes { columns: slopes.iter().map(column).collect() }
    }

    /// Covariance of the logarithms for errors of this variance.
    fn covariance(&self, variance: f64) -> Option<DMatrix<f64>> {
        let slopes = DMatrix::from_columns(&self.columns);
        Some((slopes.transpose() * slopes).try_inverse()? * variance)
    }

    /// By key: half of the interval of its logarithm.
    pub(super) fn halves(&self, loss: f64, points: usize) -> Option<Vec<f64>> {
        if self.columns.is_empty() {
            return Some(Vec::new());
        }
        let keys = self.columns.len();
        let left = points.saturating_sub(keys);
        let variance = (loss / left.max(1) as f64).max(LEAST * LEAST);
        let covariance = self.covariance(variance)?;
        let factor = student(left);
        Some((0..keys).map(|key| factor * covariance[(key, key)].max(0.0).sqrt()).collect())
    }

    /// What speaks against the fit, if something does.
    pub(super) fn doubt(&self, loss: f64, points: usize) -> Option<Doubt> {
        if let Some(key) = self.columns.iter().position(|column| column.amax() < EFFECT) {
            return Some(Doubt::Unknown(key));
        }
        let keys = self.columns.len();
        let pairs = (0..keys).flat_map(|a| (a + 1..keys).map(move |b| (a, b)));
        let alike = |(a, b): &(usize, usize)| {
            let (a, b) = (&self.columns[*a], &self.columns[*b]);
            (a.dot(b) / (a.norm() * b.norm())).abs() > CORRELATED
        };
        if let Some((a, b)) = pairs.clone().find(alike) {
            return Some(Doubt::Together(a, b));
        }
        let Some(halves) = self.halves(loss, points) else {
            return (keys > 1).then(|| Doubt::Together(0, keys - 1));
        };
        let widest = (0..keys).max_by(|a, b| halves[*a].total_cmp(&halves[*b]))?;
        if halves[widest] <= WIDE.ln() {
            return None;
        }
        let covariance = self.covariance(1.0)?;
        let correlation = |(a, b): &(usize, usize)| {
            let both = covariance[(*a, *a)] * covariance[(*b, *b)];
            covariance[(*a, *b)].abs() / both.sqrt()
        };
        let mut of_widest = pairs.filter(|(a, b)| [*a, *b].contains(&widest));
        match of_widest.find(|pair| correlation(pair) > CORRELATED) {
            Some((a, b)) => Some(Doubt::Together(if a == widest { b } else { a }, widest)),
            None => Some(Doubt::Unknown(widest)),
        }
    }

    /// What is known of a key that is not among these, from its own slopes.
    pub(super) fn other(&self, slopes: &[f64], weights: &[f64], names: &[String]) -> Known {
        let Slopes { mut columns } = Slopes::new(&[slopes.to_vec()], weights);
        let Some(column) = columns.pop().filter(|column| column.amax() >= EFFECT) else {
            return Known::NoEffect;
        };
        if self.columns.is_empty() {
            return Known::NotNeeded;
        }
        let all = DMatrix::from_columns(&self.columns);
        let size = all.ncols();
        let square = all.transpose() * &all + DMatrix::identity(size, size) * 1e-12;
        let Some(inverse) = square.try_inverse() else { return Known::NotNeeded };
        let made = inverse * all.transpose() * &column;
        let left = (&column - &all * &made).norm() / column.norm();
        if left > ALIKE {
            return Known::NotNeeded;
        }
        let share = |key: usize| (made[key] * self.columns[key].norm()).abs() / column.norm();
        let with = (0..size).filter(|key| share(*key) > 0.1).map(|key| names[key].clone());
        Known::Together { with: with.collect() }
    }
}

/// Errors vary by at least so much.
const LEAST: f64 = 0.01;

/// 97.5 % quantile of Student's t with so many degrees of freedom.
fn student(degrees: usize) -> f64 {
    const FIRST: [f64; 10] = [12.7, 12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    FIRST.get(degrees).copied().unwrap_or(1.96 + 2.7 / degrees as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: [f64; 4] = [1.0; 4];

    #[test]
    fn intervals_follow_from_slopes() {
        // four points with slope 1: variance 0.04 / 3, of the mean a quarter of it
        let slopes = Slopes::new(&[vec![1.0; 4]], &WEIGHTS);
        let halves = slopes.halves(0.04, 4).unwrap();
        assert!((halves[0] - 3.18 * (0.04f64 / 3.0 / 4.0).sqrt()).abs() < 1e-9);
        assert_eq!(slopes.doubt(0.04, 4), None);
    }

    #[test]
    fn keys_that_do_the_same_are_only_known_together() {
        let both = [vec![1.0, 0.5, 0.2, 0.1], vec![2.0, 1.01, 0.4, 0.2]];
        assert_eq!(Slopes::new(&both, &WEIGHTS).doubt(0.01, 4), Some(Doubt::Together(0, 1)));
        let one = Slopes::new(&both[..1], &WEIGHTS);
        let with = vec!["a".to_owned()];
        assert_eq!(one.other(&both[1], &WEIGHTS, &with), Known::Together { with: with.clone() });
        assert_eq!(one.other(&[0.001; 4], &WEIGHTS, &with), Known::NoEffect);
        assert_eq!(one.other(&[0.0, 0.1, 0.5, 1.0], &WEIGHTS, &with), Known::NotNeeded);
    }

    #[test]
    fn a_key_without_effect_is_doubted() {
        let slopes = [vec![1.0; 4], vec![0.0; 4]];
        assert_eq!(Slopes::new(&slopes, &WEIGHTS).doubt(0.01, 4), Some(Doubt::Unknown(1)));
    }
}
