//! Axes: where values lie, and which of them are written.

use crate::scale::{Unit, binary_size, tick};

/// How an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Evenly.
    Linear,
    /// By powers of ten.
    Log,
    /// By powers of two, as message sizes do.
    Binary,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// What it shows.
    pub(crate) quantity: &'static str,
    /// Its unit, as written.
    pub(crate) unit: &'static str,
    /// How it runs.
    pub(crate) scale: Scale,
    /// What it shows, in that unit.
    pub(crate) range: [f64; 2],
}

/// A value that is written at an axis, and where it lies, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

impl Axis {
    /// From 0 to a little more than `greatest`.
    pub(crate) fn up_to(quantity: &'static str, unit: Unit, greatest: f64) -> Self {
        let top = if greatest > 0.0 && greatest.is_finite() { greatest * 1.06 } else { 1.0 };
        Axis { quantity, unit: unit.name, scale: Scale::Linear, range: [0.0, top] }
    }

    /// Over the logarithms of these values, never empty; values that are not above 0 are left out.
    pub(crate) fn over(
        quantity: &'static str,
        unit: &'static str,
        scale: Scale,
        values: impl Iterator<Item = f64>,
    ) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let (from, to) = positive
            .fold((f64::INFINITY, 0.0_f64), |(from, to), value| (from.min(value), to.max(value)));
        let (from, to) = if from <= to { (from, to) } else { (1.0, 10.0) };
        // a single value stands in the middle
        let margin = (to / from).powf(0.03).max(if to / from < 1.5 { 1.6 } else { 1.0 });
        Axis { quantity, unit, scale, range: [from / margin, to * margin] }
    }

    /// `Queue depth (KB)`
    pub(crate) fn label(&self) -> String {
        match self.unit {
            "" => self.quantity.to_owned(),
            unit => format!("{} ({unit})", self.quantity),
        }
    }

    /// Where a value lies, from 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let [from, to] = self.range;
        match self.scale {
            Scale::Linear => (value - from) / (to - from),
            _ => (value.max(f64::MIN_POSITIVE).ln() - from.ln()) / (to.ln() - from.ln()),
        }
    }

    /// As many ticks as fit: `fits` tells whether labels that lie so far apart at least do, as a
    /// share of the axis.
    pub(crate) fn ticks(&self, fits: impl Fn(&[Tick]) -> bool) -> Vec<Tick> {
        let mut last = Vec::new();
        for step in 0..40 {
            let ticks = match self.scale {
                Scale::Linear => self.linear(step),
                Scale::Log => self.decades(step),
                Scale::Binary => self.powers(step),
            };
            if ticks.is_empty() {
                break;
            }
            let enough = fits(&ticks);
            last = ticks;
            if enough {
                break;
            }
        }
        last
    }

    /// Multiples of 1, 2 or 5 times a power of ten: the larger `coarse`, the fewer.
    fn linear(&self, coarse: i32) -> Vec<Tick> {
        let [from, to] = self.range;
        let power = ((to - from) / 50.0).log10().floor() as i32 + coarse / 3;
        let factor = [1.0, 2.0, 5.0][(coarse % 3) as usize];
        // a power above 0 is exact, and its reciprocal is the best there is below
        let step =
            if power >= 0 { factor * 10f64.powi(power) } else { factor / 10f64.powi(-power) };
        let first = (from / step - 1e-9).ceil() as i64;
        let last = (to / step + 1e-9).floor() as i64;
        let values = (first..=last).take(200).map(|multiple| multiple as f64 * step);
        let range = 0.0..(to - from);
        values.map(|value| self.tick(value, tick(value, &range))).collect()
    }

    /// 1, 2, 5; 1, 3; powers of ten, then fewer of these.
    fn decades(&self, coarse: i32) -> Vec<Tick> {
        let [from, to] = self.range;
        let (factors, every): (&[f64], i32) = match coarse {
            0 if to / from < 5.0 => {
                (&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 1)
            }
            0 | 1 => (&[1.0, 2.0, 5.0], 1),
            2 => (&[1.0, 3.0], 1),
            coarse => (&[1.0], coarse - 2),
        };
        let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        let values = powers.flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)));
        let shown = values.filter(|value| (from * 0.999..=to * 1.001).contains(value));
        shown.map(|value| self.tick(value, plain(value))).collect()
    }

    /// Powers of two.
    fn powers(&self, coarse: i32) -> Vec<Tick> {
        let [from, to] = self.range;
        let every = [1, 2, 5, 10, 20][(coarse as usize).min(4)];
        let (first, last) = (from.log2().ceil() as i32, to.log2().floor() as i32);
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        let values = powers.map(|power| 2f64.powi(power));
        values.map(|value| self.tick(value, binary_size(value))).collect()
    }

    fn tick(&self, value: f64, label: String) -> Tick {
        Tick { at: self.place(value), label }
    }
}

/// `0.05`, `20`, `5k`, `2M`.
fn plain(value: f64) -> String {
    let (size, suffix) = match value {
        value if value >= 0.9999e9 => (1e9, "G"),
        value if value >= 0.9999e6 => (1e6, "M"),
        value if value >= 0.9999e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let value = value / size;
    format!("{}{suffix}", tick(value, &(0.0..value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, range: [f64; 2], most: usize) -> Vec<String> {
        let axis = Axis { quantity: "", unit: "", scale, range };
        axis.ticks(|ticks| ticks.len() <= most).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_numbers_and_as_many_as_fit() {
        assert_eq!(labels(Scale::Linear, [0.0, 1.06], 6), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(Scale::Linear, [0.0, 437.0], 5), ["0", "100", "200", "300", "400"]);
        assert_eq!(labels(Scale::Log, [9.0, 2000.0], 9)[..4], ["10", "20", "50", "100"]);
        assert_eq!(labels(Scale::Log, [0.5, 2e7], 4), ["1", "100", "10k", "1M"]);
        assert_eq!(labels(Scale::Binary, [1024.0, 1_048_576.0], 3), ["1 KiB", "32 KiB", "1 MiB"]);
    }

    #[test]
    fn values_lie_where_they_should() {
        let axis = |scale, range| Axis { quantity: "", unit: "", scale, range };
        assert_eq!(axis(Scale::Linear, [0.0, 4.0]).place(1.0), 0.25);
        assert!((axis(Scale::Log, [1.0, 100.0]).place(10.0) - 0.5).abs() < 1e-12);
        assert!((axis(Scale::Binary, [1.0, 16.0]).place(2.0) - 0.25).abs() < 1e-12);
        let one = Axis::over("", "", Scale::Log, [3.0].into_iter());
        assert!((one.place(3.0) - 0.5).abs() < 1e-12, "a single value is in the middle");
    }
}
