//! Axes of any quantity: what is shown, and where the ticks are.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::lines::XScale;
use super::page::{brief, extent, power};
use crate::scale::tick;
use crate::style::{INK, fit, printable, text, width};

/// Space between the labels of ticks.
const BETWEEN: i32 = 10;
/// Longest label of a tick.
const LONGEST: i32 = 150;
/// Most ticks that are found, not given.
const MOST: usize = 9;
/// A range of numbers is at least this part of the greatest: differences below are flat.
const FLAT: f64 = 1e-3;

/// An axis. Its coordinates are values, or their logarithms to base 10.
#[derive(Clone)]
pub(super) struct Axis {
    log: bool,
    range: Range<f64>,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// For numbers. With `zero`, it begins at 0 unless the values are close to each other.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, zero: bool) -> Self {
        let (mut from, mut to) = extent(values).unwrap_or((0.0, 1.0));
        if (from, to) == (0.0, 0.0) {
            to = 1.0;
        }
        let greatest = from.abs().max(to.abs());
        let few = (FLAT * greatest - (to - from)).max(0.0) / 2.0;
        (from, to) = (from - few, to + few);
        let margin = 0.08 * (to - from);
        let range = match zero {
            true if from >= 0.0 && from <= 0.6 * to => 0.0..to + margin,
            true if to <= 0.0 && to >= 0.6 * from => from - margin..0.0,
            _ => from - margin..to + margin,
        };
        let ticks = linear_ticks(&range);
        Axis { log: false, range, ticks }
    }

    /// For positive numbers that differ by factors.
    pub(super) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        let logs = values.into_iter().filter(|value| *value > 0.0).map(f64::log10);
        let (from, to) = extent(logs).unwrap_or((0.0, 1.0));
        let margin = (0.05 * (to - from)).max(0.15 - (to - from) / 2.0);
        let range = from - margin..to + margin;
        let ticks = log_ticks(&range);
        Axis { log: true, range, ticks }
    }

    /// For the values of a key.
    pub(super) fn of_key(scale: &XScale, values: impl IntoIterator<Item = f64>) -> Self {
        let (log, ticks) = match scale {
            XScale::Names(names) => {
                let range = -0.5..names.len().max(1) as f64 - 0.5;
                let names = names.iter().enumerate();
                let ticks = names.map(|(place, name)| (place as f64, name.clone())).collect();
                return Axis { log: false, range, ticks };
            }
            XScale::Numbers { log, ticks } => (*log, ticks),
        };
        let mut axis = match log {
            true => Axis::logarithmic(values),
            false => Axis::linear(values, false),
        };
        if !ticks.is_empty() {
            let place = |(value, label): &(f64, String)| Some((axis.at(*value)?, label.clone()));
            axis.ticks = ticks.iter().filter_map(place).collect();
            axis.ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        axis
    }

    /// The coordinate of a value that is shown.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let at = if self.log { value.log10() } else { value };
        (self.range.start..=self.range.end).contains(&at).then_some(at)
    }

    /// First and last coordinate.
    pub(super) fn ends(&self) -> [f64; 2] {
        [self.range.start, self.range.end]
    }

    /// Leaves out ticks whose labels would overlap on an axis of `length` pixels, and shortens
    /// long ones.
    pub(super) fn thinned(mut self, length: i32) -> Self {
        let style = text(14.0, INK, FontStyle::Normal);
        let slot = length / self.ticks.len().max(1) as i32 - BETWEEN;
        let span = self.range.end - self.range.start;
        let mut free = i32::MIN;
        self.ticks.retain_mut(|(at, label)| {
            *label = fit(&printable(label), &style, slot.clamp(50, LONGEST));
            let half = width(label, &style) / 2;
            let centre = ((*at - self.range.start) / span * f64::from(length)) as i32;
            let fits = centre - half >= free;
            if fits {
                free = centre + half + BETWEEN;
            }
            fits
        });
        self
    }

    /// The label of a tick.
    pub(super) fn label(&self, at: f64) -> String {
        let found = self.ticks.iter().find(|tick| tick.0 == at);
        found.map_or_else(String::new, |tick| tick.1.clone())
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|tick| tick.0).collect()
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(range: &Range<f64>) -> Vec<(f64, String)> {
    let least = (range.end - range.start) / MOST as f64;
    let decade = 10f64.powi(least.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    let step = steps.into_iter().find(|step| *step >= least).unwrap_or(steps[3]);
    let (first, last) = ((range.start / step).ceil() as i64, (range.end / step).floor() as i64);
    let (size, suffix) = power(range.start.abs().max(range.end.abs()));
    let scaled = range.start / size..range.end / size;
    let label = |at: f64| match tick(at / size, &scaled) {
        text if text == "0" => text,
        text => format!("{text}{suffix}"),
    };
    (first..=last).map(|index| index as f64 * step).map(|at| (at, label(at))).collect()
}

/// Powers of ten, with 2 and 5 times or all multiples if these are few.
fn log_ticks(range: &Range<f64>) -> Vec<(f64, String)> {
    let (first, last) = (range.start.floor() as i32, range.end.ceil() as i32);
    let ticks = |factors: &[f64], step: i32| -> Vec<(f64, String)> {
        let decades = (first..=last).filter(|decade| decade.rem_euclid(step) == 0);
        let values = decades.flat_map(|decade| {
            factors.iter().map(move |factor| (factor, decade, factor.log10() + f64::from(decade)))
        });
        let shown = values.filter(|(_, _, at)| range.contains(at));
        let label = |factor: &f64, decade| brief(factor * 10f64.powi(decade));
        shown.map(|(factor, decade, at)| (at, label(factor, decade))).collect()
    };
    let every = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    let choices = [(&every[..], 1), (&[1.0, 2.0, 5.0], 1), (&[1.0], 1), (&[1.0], 3), (&[1.0], 10)];
    let mut choices = choices.into_iter().map(|(factors, step)| ticks(factors, step));
    choices.find(|ticks| ticks.len() <= MOST).unwrap_or_else(|| ticks(&[1.0], 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.1.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&Axis::linear([0.0, 10.0], true)), ["0", "2", "4", "6", "8", "10"]);
        let close = Axis::linear([24.1, 24.5], true);
        assert_eq!(labels(&close), ["24.1", "24.2", "24.3", "24.4", "24.5"]);
        assert_eq!(labels(&Axis::linear([0.0, 4e5], true))[..2], ["0", "50k"]);
        assert_eq!(labels(&Axis::logarithmic([1e3, 1e6])), ["1000", "10k", "100k", "1M"]);
        assert_eq!(labels(&Axis::logarithmic([1.0, 10.0])), ["1", "2", "5", "10"]);
    }

    #[test]
    fn axes_are_never_empty() {
        for values in [&[][..], &[0.0], &[-1e100], &[1e-99], &[7.0, 7.0], &[-1e100, 1e100]] {
            for axis in [
                Axis::linear(values.iter().copied(), true),
                Axis::linear(values.iter().copied(), false),
                Axis::logarithmic(values.iter().copied()),
            ] {
                let [from, to] = axis.ends();
                assert!(from < to && from.is_finite() && to.is_finite(), "{values:?}");
                assert!((2..=20).contains(&axis.ticks.len()), "{values:?}: {:?}", axis.ticks);
            }
        }
    }

    #[test]
    fn labels_of_ticks_do_not_overlap() {
        crate::font::register();
        let names: Vec<String> = (0..40).map(|name| format!("variant number {name}")).collect();
        let axis = Axis::of_key(&XScale::Names(names), []).thinned(900);
        assert!((5..20).contains(&axis.ticks.len()), "{:?}", axis.ticks);
        assert_eq!(axis.at(39.0), Some(39.0));
        assert_eq!(axis.at(40.0), None);
    }
}
