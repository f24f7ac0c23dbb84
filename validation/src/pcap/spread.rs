//! Quantiles of times that are too many to keep.

/// Steps of each power of two.
const STEPS: u32 = 64;

/// Counts of times, in steps of at most a sixty-fourth.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Spread {
    pub(super) fn add(&mut self, value: u64) {
        let step = step_of(value);
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// The value that this share is at or below, to the upper end of its step.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(step).min(self.max);
            }
        }
        self.max
    }
}

fn step_of(value: u64) -> usize {
    let power = value.checked_ilog2().unwrap_or(0);
    let shift = power.saturating_sub(STEPS.ilog2());
    (shift * STEPS) as usize + (value >> shift) as usize
}

/// The largest value of a step.
fn upper(step: usize) -> u64 {
    let step = step as u64;
    let steps = u64::from(STEPS);
    if step < 2 * steps {
        return step;
    }
    let shift = step / steps - 1;
    let mantissa = step - shift * steps;
    ((mantissa + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_a_step_that_is_not_wide() {
        let values = (0..200).chain((7..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + 1, power + power / 3]
        }));
        for value in values.chain([u64::MAX]) {
            let high = upper(step_of(value));
            assert!(high >= value && high - value <= value / 64, "{value}: {high}");
        }
    }

    #[test]
    fn quantiles_of_a_hundred() {
        let mut spread = Spread::default();
        (1..=100).for_each(|value| spread.add(value));
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| spread.quantile(share)), [1, 50, 99, 100]);
        assert_eq!(Spread::default().quantile(0.5), 0);
    }
}
