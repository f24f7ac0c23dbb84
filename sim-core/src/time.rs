//! Instants and spans in integer picoseconds: 213 days of range, and a whole number of picoseconds
//! per byte at every Ethernet rate up to 800 Gb/s.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// An instant: picoseconds since the start of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A span of time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delta(u64);

impl Time {
    /// The start of the simulation.
    pub const ZERO: Time = Time(0);
    /// Later than every event; also "never".
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `ps` picoseconds after the start.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        Time(ps)
    }

    /// Picoseconds since the start.
    #[inline]
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Seconds since the start; for reports only.
    #[inline]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The span since `earlier`, or zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Time) -> Delta {
        Delta(self.0.saturating_sub(earlier.0))
    }

    /// Adds a span; "never" stays "never".
    #[inline]
    pub const fn saturating_add(self, span: Delta) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Delta {
    /// No time at all.
    pub const ZERO: Delta = Delta(0);
    /// Longer than every span; also "for ever".
    pub const MAX: Delta = Delta(u64::MAX);

    /// A span of `ps` picoseconds.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        Delta(ps)
    }

    /// A span of `ns` nanoseconds.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Delta(ns * 1_000)
    }

    /// A span of `us` microseconds.
    #[inline]
    pub const fn from_us(us: u64) -> Self {
        Delta(us * 1_000_000)
    }

    /// A span of `ms` milliseconds.
    #[inline]
    pub const fn from_ms(ms: u64) -> Self {
        Delta(ms * 1_000_000_000)
    }

    /// Picoseconds.
    #[inline]
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Seconds; for reports only.
    #[inline]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The span without `other`, or zero.
    #[inline]
    pub const fn saturating_sub(self, other: Delta) -> Delta {
        Delta(self.0.saturating_sub(other.0))
    }

    /// True if no time passes.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Delta> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Delta) -> Time {
        Time(self.0 + span.0)
    }
}

impl AddAssign<Delta> for Time {
    #[inline]
    fn add_assign(&mut self, span: Delta) {
        self.0 += span.0;
    }
}

impl Sub for Time {
    type Output = Delta;
    #[inline]
    fn sub(self, earlier: Time) -> Delta {
        Delta(self.0 - earlier.0)
    }
}

impl Add for Delta {
    type Output = Delta;
    #[inline]
    fn add(self, other: Delta) -> Delta {
        Delta(self.0 + other.0)
    }
}

impl AddAssign for Delta {
    #[inline]
    fn add_assign(&mut self, other: Delta) {
        self.0 += other.0;
    }
}

impl Mul<u64> for Delta {
    type Output = Delta;
    #[inline]
    fn mul(self, factor: u64) -> Delta {
        Delta(self.0 * factor)
    }
}

impl Div<u64> for Delta {
    type Output = Delta;
    #[inline]
    fn div(self, divisor: u64) -> Delta {
        Delta(self.0 / divisor)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Delta(self.0).fmt(f)
    }
}

impl fmt::Display for Delta {
    /// Three significant decimals in the largest unit that leaves at least one: `1.25 us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = match self.0 {
            0 => return f.pad("0 s"),
            1..1_000 => ("ps", 1.0),
            1_000..1_000_000 => ("ns", 1e3),
            1_000_000..1_000_000_000 => ("us", 1e6),
            1_000_000_000..1_000_000_000_000 => ("ms", 1e9),
            _ => ("s", 1e12),
        };
        f.pad(&format!("{} {unit}", crate::units::trimmed(self.0 as f64 / size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_in_their_natural_unit() {
        assert_eq!(Delta::from_ps(334_240).to_string(), "334.24 ns");
        assert_eq!(Delta::from_us(55).to_string(), "55 us");
        assert_eq!(Delta::from_ms(1500).to_string(), "1.5 s");
        assert_eq!(Delta::ZERO.to_string(), "0 s");
    }

    #[test]
    fn never_stays_never() {
        assert_eq!(Time::MAX.saturating_add(Delta::from_ms(1)), Time::MAX);
    }
}
