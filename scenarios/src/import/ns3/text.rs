//! Lines, words and numbers, with errors that name file and line.

use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

use sim_core::{Delta, Rate};

use crate::import::ImportError;
use crate::packed;

/// The greatest message of a scenario: 1000000TB.
const SIZE_MAX: u64 = 1_000_000_000_000_000_000;

/// No run lasts as long, in seconds.
const END_MAX_S: u64 = 1_000_000;

/// A text file, read whole.
pub(super) struct TextFile {
    name: String,
    text: String,
}

/// A line with something on it.
#[derive(Clone)]
pub(super) struct Line<'t> {
    file: &'t TextFile,
    number: usize,
    /// Its words; none begins with `#`, which begins a comment.
    pub(super) words: Vec<&'t str>,
}

impl TextFile {
    /// Reads a file, or the same compressed by gzip if only that is there.
    pub(super) fn read(path: &Path) -> Result<Self, ImportError> {
        let path = packed::find(path);
        let mut file = TextFile { name: path.display().to_string(), text: String::new() };
        let bytes = packed::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => file.error(
                "there is no such file; topology.txt, flow.txt and config.txt of an ns-3 run \
                 are expected in one folder",
            ),
            _ => file.error(format!("cannot be read: {error}")),
        })?;
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => file.text = text,
            Ok(_) => return Err(file.error("this is no UTF-8; plain text is expected")),
            Err(error) => {
                let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
                return Err(file.error_at(line, "this is no UTF-8; plain text is expected"));
            }
        }
        Ok(file)
    }

    /// The lines that say something: neither blank nor comments.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        text.lines().zip(1..).filter_map(move |(line, number)| {
            let words: Vec<_> =
                line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            (!words.is_empty()).then_some(Line { file: self, number, words })
        })
    }

    /// An error about the file as a whole.
    pub(super) fn error(&self, message: impl Into<String>) -> ImportError {
        ImportError { file: self.name.clone(), line: None, message: message.into() }
    }

    /// An error at the end of the file, where something is missing.
    pub(super) fn error_at_end(&self, message: impl Into<String>) -> ImportError {
        self.error_at(self.text.lines().count().max(1), message)
    }

    fn error_at(&self, line: usize, message: impl Into<String>) -> ImportError {
        ImportError { line: Some(line), ..self.error(message) }
    }
}

impl<'t> Line<'t> {
    /// An error about this line.
    pub(super) fn error(&self, message: impl Into<String>) -> ImportError {
        self.file.error_at(self.number, message)
    }

    /// A warning about this line.
    pub(super) fn note(&self, message: impl Into<String>) -> String {
        self.error(message).to_string()
    }

    /// The words, if there are as many as `names` (`a b rate`) has.
    pub(super) fn columns<const N: usize>(&self, names: &str) -> Result<[&'t str; N], ImportError> {
        self.words.as_slice().try_into().map_err(|_| {
            let count = counted(self.words.len(), "column");
            self.error(format!("{count}; {N} are expected: {names}"))
        })
    }

    /// A whole number. ns-3 reads digits only: of `1e6` it takes the 1, so that is refused.
    pub(super) fn number<T: FromStr>(&self, what: &str, word: &str) -> Result<T, ImportError> {
        word.parse().map_err(|_| {
            let digits = Decimal::parse(word).and_then(Decimal::whole).map(|n| n.to_string());
            let digits = digits.filter(|digits| digits.parse::<T>().is_ok() && digits != word);
            let bits = 8 * size_of::<T>();
            let expected = match digits {
                Some(digits) => format!("digits only are expected: {digits}"),
                None => format!("a whole number of at most {bits} bits is expected"),
            };
            self.error(format!("{} is no {what}; {expected}", quoted(word)))
        })
    }

    /// The size of a message.
    pub(super) fn size(&self, word: &str) -> Result<u64, ImportError> {
        let bytes = self.number("size in bytes", word)?;
        match (1..=SIZE_MAX).contains(&bytes) {
            true => Ok(bytes),
            false => Err(self.error(format!("{bytes} bytes; 1 to 10^18 are expected"))),
        }
    }

    /// How many of something follow.
    pub(super) fn count(&self, what: &str, word: &str, most: u32) -> Result<u32, ImportError> {
        let count = self.number(&format!("number of {what}"), word)?;
        if count > most {
            let message = format!("{count} {what} are announced; at most {most} can be");
            return Err(self.error(message));
        }
        Ok(count)
    }

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

/// A word as it stands in messages.
pub(super) fn quoted(word: &str) -> String {
    match word.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}", format!("{}…", &word[..end])),
        None => format!("{word:?}"),
    }
}

/// `1 flow`, `2 flows`.
pub(super) fn counted(count: usize, what: &str) -> String {
    let plural = match count {
        1 => "",
        _ if what.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}

/// A number written in decimal, exactly: `mantissa` x 10^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    mantissa: u128,
    exponent: i32,
}

impl Decimal {
    /// Reads `12`, `0.5`, `2e-6`; nothing negative.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let number = number.strip_prefix('+').unwrap_or(number);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut decimal = Decimal { mantissa: 0, exponent };
        for (digits, step) in [(whole, 0), (fraction, -1)] {
            for digit in digits.chars() {
                let digit = digit.to_digit(10)?;
                // beyond 37 digits nothing matters but their number
                if decimal.mantissa < 10u128.pow(37) {
                    decimal.mantissa = 10 * decimal.mantissa + u128::from(digit);
                    decimal.exponent = decimal.exponent.saturating_add(step);
                } else {
                    decimal.exponent = decimal.exponent.saturating_add(step + 1);
                }
            }
        }
        Some(decimal)
    }

    /// The value, if it is a whole number.
    fn whole(self) -> Option<u128> {
        let whole = self.floor(0)?;
        let back = Decimal { mantissa: whole, exponent: 0 };
        (0..=37).all(|power| back.floor(power) == self.floor(power)).then_some(whole)
    }

    /// This times 10^`power`, rounded down; `None` if that is too large.
    pub(super) fn floor(self, power: i32) -> Option<u128> {
        let exponent = self.exponent.saturating_add(power);
        let scale = 10u128.checked_pow(exponent.unsigned_abs());
        match (self.mantissa, exponent >= 0) {
            (0, _) => Some(0),
            (mantissa, true) => mantissa.checked_mul(scale?),
            (mantissa, false) => Some(scale.map_or(0, |scale| mantissa / scale)),
        }
    }

    /// This times 10^`power`, rounded to the nearest.
    fn nearest(self, power: i32) -> Option<u128> {
        Some(self.floor(power + 1)?.checked_add(5)? / 10)
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

    fn ps(text: &str) -> Option<u128> {
        Decimal::parse(text).and_then(|seconds| seconds.nearest(12))
    }

    #[test]
    fn seconds_are_converted_exactly() {
        // 2.000000067 is no binary fraction: f64 arithmetic would give ...066.9
        assert_eq!(ps("2.000000067"), Some(2_000_000_067_000));
        assert_eq!(ps("+2."), Some(2_000_000_000_000));
        assert_eq!(ps(".5"), Some(500_000_000_000));
        assert_eq!(ps("2.5e-6"), Some(2_500_000));
        assert_eq!(ps("1E+1"), Some(10_000_000_000_000));
        // half a picosecond rounds up, less rounds down
        assert_eq!([ps("5e-13"), ps("4.999e-13"), ps("1e-99999")], [Some(1), Some(0), Some(0)]);
        assert_eq!(ps(&format!("0.{}7", "0".repeat(400))), Some(0));
        assert_eq!(ps(&format!("1.{}7", "0".repeat(400))), Some(1_000_000_000_000));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", ".", "-1", "1.2.3", "1e", "e5", "0x10", "1_0", "nan", "inf", "+-1", "²"] {
            assert_eq!(ps(text), None, "{text:?}");
        }
        for large in ["1e40", "1e2147483647", &"9".repeat(60)] {
            assert_eq!(ps(large), None, "{large}");
        }
        assert_eq!(ps("0e2147483647"), Some(0));
    }

    #[test]
    fn whole_numbers_in_other_notation() {
        let whole = |text: &str| Decimal::parse(text).and_then(Decimal::whole);
        assert_eq!(["1e6", "1000000.0", "0.1e7"].map(whole), [Some(1_000_000); 3]);
        assert_eq!(["1.5", "15e-1", "1e-30", "1e99"].map(whole), [None; 4]);
        assert_eq!(["0", "0e9", "0.0e-9"].map(whole), [Some(0); 3]);
    }

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
