//! The next points where the best ones so far are dense: tree-structured Parzen estimators, one an
//! axis.
//!
//! The first points are a Latin hypercube. Then batch follows batch; within one no result of it is
//! known, so the points are the same on any number of threads.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use tpe::TpeOptimizer;
use tpe::density_estimation::DefaultEstimatorBuilder;

use super::axis::{Axis, Place};
use super::design::{Point, latin_hypercube, point};

/// Points of a batch.
const BATCH: usize = 4;

/// The search over some axes.
pub(super) struct Search<'a> {
    axes: &'a [Axis],
    samples: usize,
    seed: u64,
    rng: Pcg64Mcg,
    optimizers: Vec<TpeOptimizer<DefaultEstimatorBuilder>>,
    /// Places of the points so far.
    places: Vec<Vec<Place>>,
}

impl<'a> Search<'a> {
    /// A search that will look at `samples` points.
    pub(super) fn new(axes: &'a [Axis], samples: usize, seed: u64) -> Self {
        let optimizer = |axis: &Axis| {
            let (estimator, range) = match axis.unit {
                Some(_) => (tpe::parzen_estimator(), tpe::range(0.0, 1.0)),
                None => {
                    let count = axis.domain.count().unwrap_or(1);
                    (tpe::histogram_estimator(), tpe::categorical_range(count))
                }
            };
            let range = range.unwrap_or_else(|_| unreachable!("it is not empty"));
            TpeOptimizer::new(estimator, range)
        };
        let optimizers = axes.iter().map(optimizer).collect();
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7065);
        Search { axes, samples, seed, rng, optimizers, places: Vec::new() }
    }

    /// The next points; none once there are enough.
    pub(super) fn next_batch(&mut self) -> Vec<Point> {
        let known = self.places.len();
        let left = self.samples - known;
        let batch: Vec<Vec<Place>> = if known == 0 {
            let first = (self.samples / 4).max(2 * self.axes.len()).min(self.samples);
            latin_hypercube(self.axes, first, self.seed)
        } else {
            (0..left.min(BATCH)).map(|_| self.ask()).collect()
        };
        self.places.extend(batch);
        let new = (known as u32 + 1..).zip(&self.places[known..]);
        new.map(|(number, places)| point(self.axes, number, places)).collect()
    }

    fn ask(&mut self) -> Vec<Place> {
        let Search { axes, optimizers, rng, .. } = self;
        let place = |(axis, optimizer): (&Axis, &mut TpeOptimizer<DefaultEstimatorBuilder>)| {
            let asked = optimizer.ask(rng).unwrap_or_default();
            match axis.unit {
                Some(_) => Place::Share(asked),
                None => Place::Number(asked as usize),
            }
        };
        axes.iter().zip(optimizers).map(place).collect()
    }

    /// The score of a point; smaller is better.
    pub(super) fn tell(&mut self, point: &Point, score: f64) {
        let places = &self.places[point.number as usize - 1];
        for ((axis, optimizer), place) in self.axes.iter().zip(&mut self.optimizers).zip(places) {
            let value = match (*place, axis.unit) {
                (Place::Share(share), Some(_)) => share,
                // a hypercube has shares of categories too
                (Place::Share(share), None) => {
                    let count = axis.domain.count().unwrap_or(1);
                    ((share * count as f64) as usize).min(count - 1) as f64
                }
                (Place::Number(number), _) => number as f64,
            };
            // it is within the range, and a number
            let _ = optimizer.tell(value, score);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::axis::Domain;
    use crate::study::quantity::{Quantity, Unit};

    fn axes() -> Vec<Axis> {
        let number = |number| Quantity { number, unit: Unit::One, whole: false };
        let axis = |name: &str| Axis {
            name: name.to_owned(),
            unit: Some(Unit::One),
            log: false,
            failures: false,
            domain: Domain::Range { path: name.to_owned(), from: number(-5.0), to: number(5.0) },
        };
        vec![axis("x"), axis("y")]
    }

    /// Distance of the best of 80 points from (1, -2).
    fn best(seed: u64, told: bool) -> f64 {
        let axes = axes();
        let mut search = Search::new(&axes, 80, seed);
        let mut best = f64::MAX;
        loop {
            let batch = search.next_batch();
            if batch.is_empty() {
                return best;
            }
            for point in &batch {
                let at = |axis: usize| point.levels[axis].quantity.unwrap().number;
                let distance = (at(0) - 1.0).hypot(at(1) + 2.0);
                best = best.min(distance);
                search.tell(point, if told { distance } else { 0.0 });
            }
        }
    }

    #[test]
    fn what_is_told_leads_closer() {
        let mean = |told| (0..10).map(|seed| best(seed, told)).sum::<f64>() / 10.0;
        let (with, without) = (mean(true), mean(false));
        assert!(with < 0.5 * without, "{with} beside {without}");
        assert_eq!(best(3, true), best(3, true));
    }
}
