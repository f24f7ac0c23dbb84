//! Which keys are fitted: one after the other, the one that explains most, as long as it pays.

use nalgebra::{DMatrix, DVector};
use scenarios::resolve::Complaint;

use super::fit::{Fitted, Model, fit, loss, robust, slopes};
use super::keys::{Key, Unit};
use super::objective::{Objective, error, times};
use super::points::Point;
use super::rules::{RANGES, TUNER, rules};
use super::runs::Runs;

/// A fit with so many keys.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// What is decided, as `--set` takes it.
    pub set: Vec<String>,
    /// How many decisions that are.
    pub decided: usize,
    /// What of that are rules for ways.
    pub rules: usize,
    pub keys: Vec<Key>,
    pub fitted: Fitted,
}

/// Errors below this are not worth a key: timings of the same size differ by as much.
const FLOOR: f64 = 0.004;
/// So many of those that promise most are fitted at each step.
const TRIED: usize = 2;
/// A key is looked at with this logarithm over its start first: a latency is raised and a rate is
/// lowered, as what is not reached yet shows nothing the other way;
const FIRST: f64 = 0.1;
/// and, if something moves, with these to the side that promises more: rates are known better than
/// latencies.
const RATES: [f64; 2] = [0.3, 0.7];
const OTHERS: [f64; 2] = [0.6, 1.7];
/// Times that move by less are not moved by the key.
const MOVED: f64 = 3e-4;
/// Rules for ways that may come before all keys.
const FEW: usize = 2;
/// A decision costs as much as so many keys.
pub(super) const DECISION: usize = 2;

/// What a fit is worth, the less the better (Akaike's criterion with its correction for few
/// points): n ln(loss / n) + 2 k + 2 k (k + 1) / (n - k - 1).
pub(super) fn worth(loss: f64, points: usize, keys: usize) -> f64 {
    let (n, k) = (points as f64, keys as f64);
    let left = (n - k - 1.0).max(1.0);
    n * (loss / n).max(FLOOR * FLOOR).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / left
}

impl Choice {
    pub(super) fn worth(&self, points: usize) -> f64 {
        worth(self.fitted.cost, points, self.keys.len() + self.decided + self.rules)
    }
}

/// What is searched, with the number of all fitted points: some stand for several.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub runs: &'a Runs<'a>,
    pub points: &'a [Point],
    pub count: usize,
    /// Keys that may become free.
    pub candidates: &'a [Key],
    /// Decisions that may be taken, each as `--set`.
    pub decisions: &'a [String],
    /// Whether ways may be ruled.
    pub ways: bool,
}

impl<'a> Search<'a> {
    pub(super) fn objective(&self, choice: &Choice) -> Objective<'a> {
        Objective::new(self.runs, self.points, choice.set.clone(), choice.keys.clone())
    }

    /// Fits these keys with these decisions, from `start` on.
    pub(super) fn fit(
        &self,
        set: Vec<String>,
        [decided, rules]: [usize; 2],
        keys: Vec<Key>,
        start: &[f64],
    ) -> Result<Choice, Complaint> {
        let objective = Objective::new(self.runs, self.points, set.clone(), keys.clone());
        let fitted = fit(&objective, start)?;
        Ok(Choice { set, decided, rules, keys, fitted })
    }

    /// The best choice: keys first, or ways first.
    pub(super) fn best(&self) -> Result<Choice, Complaint> {
        let plain = self.fit(Vec::new(), [0, 0], Vec::new(), &[])?;
        let first = self.improve(plain.clone())?;
        let Some(ruled) = self.ruled(&plain, FEW)? else { return Ok(first) };
        let second = self.improve(ruled)?;
        Ok(if second.worth(self.count) < first.worth(self.count) { second } else { first })
    }

    /// Adds to `choice` what pays, then takes away what does not pay any more.
    fn improve(&self, mut choice: Choice) -> Result<Choice, Complaint> {
        loop {
            while let Some(better) = self.added(&choice)? {
                choice = better;
            }
            match self.ruled(&choice, RANGES)? {
                Some(better) if better.worth(self.count) < choice.worth(self.count) => {
                    choice = better;
                }
                _ => break,
            }
        }
        while let Some(better) = self.without(&choice)? {
            choice = better;
        }
        Ok(choice)
    }

    /// The best of those with one key or decision more, if it is better.
    fn added(&self, choice: &Choice) -> Result<Option<Choice>, Complaint> {
        self.runs.expect(self.price(choice));
        let mut promising = self.promises(choice)?;
        promising.sort_by(|a, b| a.left.total_cmp(&b.left));
        let mut best: Option<Choice> = None;
        let counts = [choice.decided, choice.rules];
        for promise in promising.iter().take(TRIED) {
            let tried = match &promise.what {
                What::Key(key, entry) => {
                    let mut keys = choice.keys.clone();
                    keys.push(key.clone());
                    let mut start = choice.fitted.at.clone();
                    start.push(*entry);
                    self.fit(choice.set.clone(), counts, keys, &start)?
                }
                What::Decision(set) => {
                    let mut all = choice.set.clone();
                    all.push(set.clone());
                    let start = &choice.fitted.at;
                    let counts = [choice.decided + DECISION, choice.rules];
                    self.fit(all, counts, choice.keys.clone(), start)?
                }
            };
            let worth = |choice: &Choice| choice.worth(self.count);
            if best.as_ref().is_none_or(|best| worth(&tried) < worth(best)) {
                best = Some(tried);
            }
        }
        let better = |best: &Choice| best.worth(self.count) < choice.worth(self.count);
        Ok(best.filter(better))
    }

    /// Errors with one key more, at each of these entries.
    fn looks(&self, choice: &Choice, at: &[(&Key, f64)]) -> Result<Vec<Vec<f64>>, Complaint> {
        let objective = self.objective(choice);
        let settings = at.iter().map(|(key, entry)| {
            let mut set = objective.settings(&choice.fitted.at);
            set.push(key.set((key.start * entry.exp()).clamp(key.low, key.high)));
            set
        });
        let found = times(self.runs, self.points, &settings.collect::<Vec<_>>())?;
        let errors = |times: &Vec<Option<f64>>| {
            self.points.iter().zip(times).map(|(point, time_s)| error(point, *time_s)).collect()
        };
        Ok(found.iter().map(errors).collect())
    }

    /// The rules for ways that explain more than those that there are, with these keys.
    fn ruled(&self, choice: &Choice, most: usize) -> Result<Option<Choice>, Complaint> {
        if !self.ways {
            return Ok(None);
        }
        let is_rule = |set: &String| set.starts_with(TUNER);
        let plain = |set: Vec<String>| set.into_iter().filter(|set| !is_rule(set)).collect();
        let at: Vec<String> = plain(self.objective(choice).settings(&choice.fitted.at));
        let keys = choice.keys.len() + choice.decided;
        let found = rules(self.runs, self.points, &at, [self.count, keys, most])?;
        let Some((rule, number)) = found else { return Ok(None) };
        if choice.set.contains(&rule) {
            return Ok(None);
        }
        let mut set: Vec<String> = plain(choice.set.clone());
        set.push(rule);
        let at = &choice.fitted.at;
        self.fit(set, [choice.decided, number], choice.keys.clone(), at).map(Some)
    }

    /// Simulations that the next step takes, about: what promises, fits of those that do, and two
    /// more such steps.
    fn price(&self, choice: &Choice) -> usize {
        let looks = self.candidates.len() * 3 + self.decisions.len();
        let fits = TRIED * 4 * (choice.keys.len() + 2);
        3 * (looks + fits) * self.points.len()
    }

    /// The best of those with one key less, if it is no worse.
    fn without(&self, choice: &Choice) -> Result<Option<Choice>, Complaint> {
        let mut best: Option<Choice> = None;
        if choice.keys.len() < 2 {
            return Ok(None);
        }
        for index in 0..choice.keys.len() {
            let (mut keys, mut start) = (choice.keys.clone(), choice.fitted.at.clone());
            keys.remove(index);
            start.remove(index);
            let tried =
                self.fit(choice.set.clone(), [choice.decided, choice.rules], keys, &start)?;
            if best.as_ref().is_none_or(|best| tried.fitted.cost < best.fitted.cost) {
                best = Some(tried);
            }
        }
        let better = |best: &Choice| best.worth(self.count) <= choice.worth(self.count);
        Ok(best.filter(better))
    }

    /// For each key and decision that is not in: what would be left if the others followed along
    /// their slopes.
    fn promises(&self, choice: &Choice) -> Result<Vec<Promise>, Complaint> {
        let objective = self.objective(choice);
        let at = &choice.fitted.at;
        let follow = Follow::new(&slopes(&objective, at, 0.05)?, objective.weights());
        let mut promises: Vec<Promise> = Vec::new();
        let in_use = |key: &&Key| choice.keys.iter().any(|used| used.path == key.path);
        let here = &choice.fitted.errors;
        let now = follow.left(here);
        let open: Vec<&Key> = self.candidates.iter().filter(|key| !in_use(key)).collect();
        // all of them side by side
        let first = self
            .looks(choice, &open.iter().map(|key| (*key, first_look(key))).collect::<Vec<_>>())?;
        let mut further: Vec<(&Key, f64)> = Vec::new();
        for (key, errors) in open.iter().zip(&first) {
            if errors.iter().zip(here).all(|(there, here)| (there - here).abs() < MOVED) {
                continue;
            }
            let left = follow.left(errors);
            promises.push(Promise { left, what: What::Key((*key).clone(), first_look(key)) });
            let side =
                if left <= now { first_look(key).signum() } else { -first_look(key).signum() };
            let steps = if key.unit == Unit::Rate { RATES } else { OTHERS };
            further.extend([FIRST, steps[0], steps[1]].map(|step| (*key, side * step)));
        }
        further.retain(|(key, entry)| *entry != first_look(key));
        for ((key, entry), errors) in further.iter().zip(self.looks(choice, &further)?) {
            let left = follow.left(&errors);
            let known = promises.iter_mut().find(|promise| promise.is_of(key));
            if let Some(promise) = known.filter(|promise| left < promise.left) {
                *promise = Promise { left, what: What::Key((*key).clone(), *entry) };
            }
        }
        let name = |set: &str| set.split('=').next().map(str::to_owned);
        let open = |set: &&String| !choice.set.iter().any(|taken| name(taken) == name(set));
        for set in self.decisions.iter().filter(open) {
            let mut all = choice.set.clone();
            all.push(set.clone());
            let with = Objective::new(self.runs, self.points, all, choice.keys.clone());
            // what the scenario cannot do is no decision
            let Ok(errors) = with.errors(std::slice::from_ref(at)) else { continue };
            let left = follow.left(&errors[0]);
            promises.push(Promise { left, what: What::Decision(set.clone()) });
        }
        Ok(promises)
    }
}

/// Where a key is looked at first.
fn first_look(key: &Key) -> f64 {
    if key.unit == Unit::Rate { -FIRST } else { FIRST }
}

struct Promise {
    left: f64,
    what: What,
}

impl Promise {
    fn is_of(&self, key: &Key) -> bool {
        matches!(&self.what, What::Key(known, _) if known.path == key.path)
    }
}

enum What {
    /// And the entry that promises so much.
    Key(Key, f64),
    Decision(String),
}

/// How far keys that are free follow.
struct Follow {
    slopes: DMatrix<f64>,
    weights: Vec<f64>,
}

/// Against steps that are far beyond where slopes hold.
const RIDGE: f64 = 1e-3;

impl Follow {
    fn new(slopes: &[Vec<f64>], weights: &[f64]) -> Self {
        let columns: Vec<DVector<f64>> =
            slopes.iter().map(|column| DVector::from_column_slice(column)).collect();
        let slopes = match columns.is_empty() {
            true => DMatrix::zeros(weights.len(), 0),
            false => DMatrix::from_columns(&columns),
        };
        Follow { slopes, weights: weights.to_vec() }
    }

    /// The loss that is left of these errors.
    fn left(&self, errors: &[f64]) -> f64 {
        if self.slopes.ncols() == 0 {
            return loss(errors, &self.weights);
        }
        let mut errors = DVector::from_column_slice(errors);
        // twice, as weights of large errors change
        for _ in 0..2 {
            let weight = |(error, weight): (&f64, &f64)| {
                (robust(*error, *weight) / error.abs().max(1e-9)).abs().max(1e-6)
            };
            let weights: Vec<f64> = errors.iter().zip(&self.weights).map(weight).collect();
            let scale = DMatrix::from_diagonal(&DVector::from_vec(weights));
            let slopes = &scale * &self.slopes;
            let square = slopes.transpose() * &slopes;
            let size = square.nrows();
            let square = square + DMatrix::identity(size, size) * RIDGE;
            let Some(inverse) = square.try_inverse() else { break };
            let step = inverse * slopes.transpose() * (&scale * &errors);
            let step = step.map(|entry| entry.clamp(-0.7, 0.7));
            errors -= &self.slopes * step;
        }
        loss(errors.as_slice(), &self.weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_must_pay() {
        // five points, loss 5 x 0.1^2: the second key must take it to a quarter and less
        // 5 ln 0.01 + 2 + 4 / 3 = -19.7; 5 ln(l / 5) + 4 + 12 / 2 = -19.7 at l = 5 x 0.0026
        assert!(worth(0.05, 5, 1) < worth(5.0 * 0.0027, 5, 2));
        assert!(worth(0.05, 5, 1) > worth(5.0 * 0.0025, 5, 2));
        // nothing is to be had below what timings differ by
        assert!(worth(0.0, 5, 0) < worth(0.0, 5, 1));
    }

    #[test]
    fn others_follow_along_their_slopes() {
        // one free key that moves both points alike: what they have in common goes away
        let follow = Follow::new(&[vec![1.0, 1.0]], &[1.0, 1.0]);
        assert!(follow.left(&[0.02, 0.02]) < 1e-6);
        let left = follow.left(&[0.02, -0.02]);
        assert!((left - 8e-4).abs() < 2e-5, "{left}");
    }
}
