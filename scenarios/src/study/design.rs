//! Which points of its space a study looks at.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Study;
use super::axis::{Axis, Level, Place};
use super::config::Method;
use crate::resolve::Complaint;

/// One point: a value for each axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its number, from 1; 0 is the base, which has no values.
    pub number: u32,
    /// One for each axis.
    pub levels: Vec<Level>,
}

/// Points that a study may have.
const POINTS_MAX: usize = 100_000;

/// The base: the scenario as it is.
pub fn base() -> Point {
    Point { number: 0, levels: Vec::new() }
}

/// All points of a method that knows them beforehand.
pub fn points(study: &Study) -> Result<Vec<Point>, Complaint> {
    let axes = &study.axes;
    let samples = study.config.samples.unwrap_or(0) as usize;
    let places = match study.config.method {
        Method::Grid => grid(axes)?,
        Method::Random => random(axes, samples, study.config.seed),
        Method::LatinHypercube => latin_hypercube(axes, samples, study.config.seed),
        Method::Tpe => Vec::new(),
    };
    if places.len() > POINTS_MAX {
        return Err(too_many(places.len()));
    }
    Ok((1..).zip(&places).map(|(number, places)| point(axes, number, places)).collect())
}

fn too_many(count: usize) -> Complaint {
    Complaint(format!("error: {count} points, of {POINTS_MAX} that a study may have"))
}

/// The point at these places.
pub fn point(axes: &[Axis], number: u32, places: &[Place]) -> Point {
    let mut levels: Vec<Level> = Vec::with_capacity(axes.len());
    for (axis, place) in axes.iter().zip(places) {
        let level = axis.level(*place, &levels);
        levels.push(level);
    }
    Point { number, levels }
}

/// All combinations, the last axis fastest.
fn grid(axes: &[Axis]) -> Result<Vec<Vec<Place>>, Complaint> {
    let counts: Vec<usize> = axes.iter().map(|axis| axis.domain.count().unwrap_or(1)).collect();
    let all = counts.iter().try_fold(1usize, |all, count| all.checked_mul(*count));
    let all = all.filter(|all| *all <= POINTS_MAX);
    let all = all.ok_or_else(|| too_many(counts.iter().fold(1, |a, b| a.saturating_mul(*b))))?;
    let places = |mut index: usize| {
        let mut places = vec![Place::Number(0); counts.len()];
        for (place, count) in places.iter_mut().zip(&counts).rev() {
            *place = Place::Number(index % count);
            index /= count;
        }
        places
    };
    Ok((0..all).map(places).collect())
}

fn random(axes: &[Axis], samples: usize, seed: u64) -> Vec<Vec<Place>> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut places = || axes.iter().map(|_| Place::Share(rng.random())).collect();
    (0..samples).map(|_| places()).collect()
}

/// Each axis is cut into as many equal parts as there are samples, and each part has one.
pub(super) fn latin_hypercube(axes: &[Axis], samples: usize, seed: u64) -> Vec<Vec<Place>> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut points = vec![Vec::with_capacity(axes.len()); samples];
    for _ in axes {
        let mut parts: Vec<usize> = (0..samples).collect();
        parts.shuffle(&mut rng);
        for (point, part) in points.iter_mut().zip(parts) {
            let within: f64 = rng.random();
            point.push(Place::Share((part as f64 + within) / samples as f64));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::axis::Domain;

    fn axis(count: usize) -> Axis {
        let level = |n: usize| Level { label: n.to_string(), quantity: None, settings: Vec::new() };
        let domain = Domain::Levels((0..count).map(level).collect());
        Axis { name: "a".into(), unit: None, log: false, failures: false, domain }
    }

    #[test]
    fn a_grid_turns_its_last_axis_fastest() {
        let axes = [axis(2), axis(3)];
        let points = grid(&axes).unwrap();
        let labels: Vec<String> = points
            .iter()
            .map(|places| point(&axes, 1, places).levels.iter().map(|l| &*l.label).collect())
            .collect();
        assert_eq!(labels, ["00", "01", "02", "10", "11", "12"]);
        assert!(grid(&[axis(1000), axis(1000)]).is_err());
    }

    #[test]
    fn a_latin_hypercube_has_one_sample_in_each_part() {
        let axes = [axis(5), axis(10)];
        let points = latin_hypercube(&axes, 20, 7);
        for (index, axis) in axes.iter().enumerate() {
            let mut parts: Vec<usize> = points
                .iter()
                .map(|places| match places[index] {
                    Place::Share(share) => (share * 20.0) as usize,
                    Place::Number(_) => unreachable!(),
                })
                .collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..20).collect::<Vec<usize>>());
            // hence each of 5 (10) values has four (two) of 20 samples
            let count = axis.domain.count().unwrap();
            let mut of_level = vec![0; count];
            for places in &points {
                let level = axis.level(places[index], &[]);
                of_level[level.label.parse::<usize>().unwrap()] += 1;
            }
            assert!(of_level.iter().all(|found| *found == 20 / count));
        }
        assert_eq!(points, latin_hypercube(&axes, 20, 7));
        assert_ne!(points, latin_hypercube(&axes, 20, 8));
    }
}
