//! Random streams: one per stochastic component, so that no component's draws move another's.

use rand::distr::Distribution;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The kinds of component that draw random numbers. A new kind goes at the end: the number is
/// part of the stream's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// ECN marking at one egress port.
    Marking = 0,
    /// Frame loss on one link.
    Loss = 1,
    /// Traffic generation of one traffic section.
    Traffic = 2,
    /// UDP source ports.
    Entropy = 3,
    /// Next hops of a switch that sprays.
    Spray = 4,
    /// Compute times of one rank of a training job.
    Compute = 5,
    /// Hosts of one traffic section.
    Placement = 6,
}

/// One reproducible stream of random numbers (PCG-64 MCG, pinned).
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream of component `index` of `domain` under the scenario's `seed`.
    pub fn new(seed: u64, domain: Domain, index: u64) -> Self {
        let key = mix(mix(mix(seed) ^ domain as u64) ^ index);
        Stream(Pcg64Mcg::seed_from_u64(key))
    }

    /// True with probability `p`; nothing is drawn for `p <= 0` or `p >= 1`.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.0.random::<f64>() < p)
    }

    /// A value of a distribution, which must not depend on the platform's mathematical functions.
    pub fn draw<T>(&mut self, distribution: &impl Distribution<T>) -> T {
        distribution.sample(&mut self.0)
    }

    /// A uniform number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound)
    }

    /// A uniform number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// An exponential number with mean 1.
    ///
    /// By von Neumann's comparisons ("Various techniques used in connection with random digits",
    /// 1951), which are exact. Others, `rand_distr` among them, take a logarithm or an exponential
    /// now and then, whose last digit differs between platforms.
    pub fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.unit();
            if self.survives(first) {
                return whole + first;
            }
            whole += 1.0;
        }
    }

    /// True with probability exp(-x), for x from 0 to 1.
    fn survives(&mut self, x: f64) -> bool {
        // The length of a falling run from x on is at least n with probability
        // x^(n-1) / (n-1)!, hence odd with probability exp(-x).
        let (mut last, mut odd) = (x, true);
        loop {
            let next = self.unit();
            if next >= last {
                return odd;
            }
            (last, odd) = (next, !odd);
        }
    }

    /// A normal number with mean 0 and standard deviation 1.
    ///
    /// By comparisons alone, as [`Stream::exponential`], and exact: algorithm N of Karney,
    /// "Sampling exactly from the normal distribution" (ACM TOMS 42, 2016). A whole part k is drawn
    /// with probability in proportion to exp(-k^2 / 2), and a fraction x is kept with probability
    /// exp(-x (2k + x) / 2).
    pub fn normal(&mut self) -> f64 {
        loop {
            let mut whole = 0u32;
            while self.survives(0.5) {
                whole += 1;
            }
            // exp(-k / 2) so far; k (k - 1) times more is exp(-k^2 / 2)
            let more = whole * whole.saturating_sub(1);
            if !(0..more).all(|_| self.survives(0.5)) {
                continue;
            }
            let (k, x) = (f64::from(whole), self.unit());
            let part = x * (2.0 * k + x) / (2.0 * k + 2.0);
            if (0..=whole).all(|_| self.survives(part)) {
                let size = k + x;
                return if self.chance(0.5) { -size } else { size };
            }
        }
    }
}

/// SplitMix64's finaliser: spreads close keys over the whole range.
fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, domain, index| {
            let mut stream = Stream::new(seed, domain, index);
            [stream.below(1 << 32), stream.below(1 << 32)]
        };
        assert_eq!(draw(1, Domain::Marking, 7), draw(1, Domain::Marking, 7));
        assert_ne!(draw(1, Domain::Marking, 7), draw(1, Domain::Marking, 8));
        assert_ne!(draw(1, Domain::Marking, 7), draw(2, Domain::Marking, 7));
        assert_ne!(draw(1, Domain::Marking, 7), draw(1, Domain::Loss, 7));
    }

    #[test]
    fn chance_is_fair() {
        let mut stream = Stream::new(1, Domain::Marking, 0);
        let hits = (0..100_000).filter(|_| stream.chance(0.2)).count();
        // binomial: 20,000 +- 126 (one sigma)
        assert!((19_400..20_600).contains(&hits), "{hits}");
    }

    #[test]
    fn exponential_numbers_have_their_moments_and_tail() {
        let mut stream = Stream::new(1, Domain::Traffic, 0);
        let draws: Vec<f64> = (0..1_000_000).map(|_| stream.exponential()).collect();
        let mean = |of: &dyn Fn(f64) -> f64| draws.iter().map(|x| of(*x)).sum::<f64>() / 1e6;
        // one sigma: 0.001 of the mean, 0.0045 of the mean square (variance 4! - 2!^2 = 20)
        assert!((mean(&|x| x) - 1.0).abs() < 0.004, "{}", mean(&|x| x));
        assert!((mean(&|x| x * x) - 2.0).abs() < 0.018, "{}", mean(&|x| x * x));
        for (beyond, share) in [(0.5, 0.606_531), (1.0, 0.367_879), (3.0, 0.049_787)] {
            let found = mean(&|x| f64::from(x > beyond));
            // binomial: at most 0.0005 (one sigma)
            assert!((found - share).abs() < 0.002, "{found}, {share} is expected");
        }
    }

    #[test]
    fn normal_numbers_have_their_moments_and_tails() {
        let mut stream = Stream::new(1, Domain::Compute, 0);
        let draws: Vec<f64> = (0..1_000_000).map(|_| stream.normal()).collect();
        let mean = |of: &dyn Fn(f64) -> f64| draws.iter().map(|x| of(*x)).sum::<f64>() / 1e6;
        // one sigma: 0.001; 0.0014 (variance 2); 0.0098 (variance 8! / (2^4 4!) - 9 = 96)
        assert!(mean(&|x| x).abs() < 0.004, "{}", mean(&|x| x));
        assert!((mean(&|x| x * x) - 1.0).abs() < 0.006, "{}", mean(&|x| x * x));
        assert!((mean(&|x| x * x * x * x) - 3.0).abs() < 0.04, "{}", mean(&|x| x * x * x * x));
        for (beyond, share) in [(0.5, 0.308_538), (1.0, 0.158_655), (2.0, 0.022_750)] {
            let found = mean(&|x| f64::from(x > beyond));
            // binomial: at most 0.0005 (one sigma)
            assert!((found - share).abs() < 0.002, "{found}, {share} is expected");
        }
    }
}
