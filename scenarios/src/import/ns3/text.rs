//! Times and rates in the notations of ns-3.

use std::path::Path;

use sim_core::{Delta, Rate};

use crate::import::ImportError;
use crate::import::text::{Decimal, Line, TextFile, quoted};

/// No run lasts as long, in seconds.
const END_MAX_S: u64 = 1_000_000;

/// Reads a file of an ns-3 run, or the same compressed.
pub(super) fn read(path: &Path) -> Result<TextFile, ImportError> {
    let expected =
        "topology.txt, flow.txt and config.txt of an ns-3 run are expected in one folder";
    TextFile::read(path, expected)
}

impl Line<'_> {
    /// A number from 0 to 1.
    pub(super) fn fraction(&self, what: &str, word: &str) -> Result<f64, ImportError> {
        let number = word.parse().ok().filter(|number| (0.0..=1.0).contains(number));
        number
            .ok_or_else(|| self.error(format!("{} is no {what}; 0 to 1 is expected", quoted(word))))
    }

    /// Seconds, in picoseconds.
    pub(super) fn seconds(&self, what: &str, word: &str) -> Result<u64, ImportError> {
        let ps = Decimal::parse(word).and_then(|seconds| seconds.nearest(12));
        ps.and_then(|ps| u64::try_from(ps).ok()).ok_or_else(|| {
            self.error(format!(
                "{} is no {what}; seconds are expected, such as 2.000000067",
                quoted(word)
            ))
        })
    }

    /// The end of a run as `seconds`; forks write one that never comes, such as 40000000000000.00.
    pub(super) fn end(&self, what: &str, word: &str) -> Result<u64, ImportError> {
        match Decimal::parse(word).and_then(|seconds| seconds.floor(0)) {
            Some(seconds) if seconds > u128::from(END_MAX_S) => Ok(END_MAX_S * 1_000_000_000_000),
            _ => self.seconds(what, word),
        }
    }

    /// A rate with its unit.
    pub(super) fn rate(&self, what: &str, word: &str) -> Result<Rate, ImportError> {
        rate(word).map(Rate::from_bps).ok_or_else(|| {
            let near = near_rate(word).map_or_else(String::new, did_you_mean);
            self.error(format!(
                "{} is no {what}; a number with its unit is expected, such as 100Gbps or \
                 50Mb/s{near}",
                quoted(word)
            ))
        })
    }

    /// A time with its unit, down to whole nanoseconds, which is what ns-3 counts.
    pub(super) fn delay(&self, what: &str, word: &str) -> Result<Delta, ImportError> {
        delay(word).map(Delta::from_ps).ok_or_else(|| {
            let near = near_delay(word).map_or_else(String::new, did_you_mean);
            self.error(format!(
                "{} is no {what}; a number with its unit is expected, such as 1000ns or \
                 0.001ms{near}",
                quoted(word)
            ))
        })
    }
}

fn split_unit(word: &str) -> (&str, &str) {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    word.split_at(end)
}

/// Bits per second, in ns-3's notation: `100Gbps`, `50Mb/s`, `12GB/s`.
fn rate(word: &str) -> Option<u64> {
    let (number, unit) = split_unit(word);
    let units = [("bps", 1), ("b/s", 1), ("Bps", 8), ("B/s", 8)];
    let (prefix, bits) =
        units.iter().find_map(|(name, bits)| Some((unit.strip_suffix(name)?, *bits)))?;
    let size: u128 = match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    let Decimal { mantissa, exponent } = Decimal::parse(number)?;
    let scaled = Decimal { mantissa: mantissa.checked_mul(size * bits)?, exponent };
    u64::try_from(scaled.floor(0)?).ok()
}

/// A rate that is meant by one in other notation: `100gbps`, `100Gbit/s`, `25000000000.0`.
fn near_rate(word: &str) -> Option<String> {
    let (number, unit) = split_unit(word);
    let unit = unit.to_ascii_lowercase();
    let prefix = ["bps", "bit/s", "b/s", ""].iter().find_map(|end| unit.strip_suffix(end))?;
    let prefix = match prefix {
        "k" | "m" | "g" | "t" | "" => prefix.to_ascii_uppercase(),
        _ => return None,
    };
    // `50` without a unit is hardly 50 bit/s
    let near = format!("{number}{prefix}bps");
    rate(&near).filter(|bps| *bps >= 1_000_000).map(|_| near)
}

/// A delay that is meant by one in other notation: `1US`. Without a unit, ns-3 takes seconds.
fn near_delay(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let seconds = delay(&format!("{word}s")).filter(|ps| *ps <= 1_000_000_000_000);
    match seconds {
        Some(_) => Some(format!("{word}s")),
        None => Some(lower).filter(|lower| delay(lower).is_some()),
    }
}

fn did_you_mean(near: String) -> String {
    format!("; did you mean `{near}`?")
}

/// Picoseconds.
fn delay(word: &str) -> Option<u64> {
    // `1e-6s` is a time for ns-3
    let end = word.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |last| last + 1);
    let (number, unit) = word.split_at(end);
    let power = match unit {
        "s" => 9,
        "ms" => 6,
        "us" => 3,
        "ns" => 0,
        "ps" => -3,
        _ => return None,
    };
    let ns = Decimal::parse(number)?.floor(power)?;
    u64::try_from(ns).ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_of_units() {
        assert_eq!(near_rate("100gbps").as_deref(), Some("100Gbps"));
        assert_eq!(near_rate("100Gbit/s").as_deref(), Some("100Gbps"));
        assert_eq!(near_rate("25000000000.0").as_deref(), Some("25000000000.0bps"));
        assert_eq!(near_rate("100G").as_deref(), Some("100Gbps"));
        assert_eq!(["fast", "nan", "-1Gbps", "50", ""].map(near_rate), [const { None }; 5]);
        assert_eq!(near_delay("1US").as_deref(), Some("1us"));
        assert_eq!(near_delay("0.000001").as_deref(), Some("0.000001s"));
        assert_eq!(["1000", "soon", "-1ns", ""].map(near_delay), [const { None }; 4]);
    }

    #[test]
    fn units_of_rates_and_delays() {
        assert_eq!(rate("100Gbps"), Some(100_000_000_000));
        assert_eq!(rate("1000Mb/s"), rate("1Gbps"));
        assert_eq!(rate("12.5GB/s"), rate("100Gb/s"));
        assert_eq!(rate("1Kib/s"), Some(1024));
        assert_eq!([rate("100"), rate("100G"), rate("Gbps"), rate("1e3bps")], [None; 4]);
        assert_eq!(delay("1000ns"), Some(1_000_000));
        assert_eq!(delay("0.001ms"), Some(1_000_000));
        assert_eq!([delay("1.9ns"), delay("1999ps"), delay("1e-9s")], [Some(1000); 3]);
        assert_eq!([delay("1"), delay("1m"), delay("-1ns"), delay("9e9s")], [None; 4]);
    }
}
