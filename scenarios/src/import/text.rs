//! Lines, words and numbers of text files, with errors that name file and line.

use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

use serde::Serialize;

use super::ImportError;
use crate::packed;

/// The greatest message of a scenario: 1000000TB.
const SIZE_MAX: u64 = 1_000_000_000_000_000_000;

/// A text file, read whole.
pub(super) struct TextFile {
    name: String,
    text: String,
}

/// A line with something on it.
#[derive(Clone)]
pub(super) struct Line<'t> {
    file: &'t TextFile,
    pub(super) number: usize,
    /// Its words; none begins with `#`, which begins a comment.
    pub(super) words: Vec<&'t str>,
}

impl TextFile {
    /// Reads a file, or the same compressed by gzip if only that is there; `expected` says what is
    /// missing if neither is.
    pub(super) fn read(path: &Path, expected: &str) -> Result<Self, ImportError> {
        let path = packed::find(path);
        let mut file = TextFile { name: path.display().to_string(), text: String::new() };
        let bytes = packed::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => file.error(format!("there is no such file; {expected}")),
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

    /// Its name without its folder.
    pub(super) fn short_name(&self) -> String {
        let name = Path::new(&self.name).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// A text that is at hand.
    pub(super) fn of(name: &str, text: &str) -> Self {
        TextFile { name: name.to_owned(), text: text.to_owned() }
    }

    /// All of it.
    pub(super) fn text(&self) -> &str {
        &self.text
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

    pub(super) fn error_at(&self, line: usize, message: impl Into<String>) -> ImportError {
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

    /// A whole number in digits. Simulators take the 1 of `1e6`, so that is refused.
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
}

/// A word as it stands in messages.
pub(super) fn quoted(word: &str) -> String {
    match word.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}", format!("{}…", &word[..end])),
        None => format!("{word:?}"),
    }
}

/// A quantity with its unit, or a text, as it stands in TOML without its quotes.
pub(super) fn exact(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        other => other.map_or_else(|error| error.to_string(), |value| value.to_string()),
    }
}

/// Lines of TOML, each with its comment, all of which begin in one column.
pub(super) fn aligned(lines: &[(String, String)]) -> String {
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    lines.iter().map(|(line, comment)| format!("{line:<width$} # {comment}\n")).collect()
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
    pub(super) mantissa: u128,
    pub(super) exponent: i32,
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
    pub(super) fn nearest(self, power: i32) -> Option<u128> {
        Some(self.floor(power + 1)?.checked_add(5)? / 10)
    }
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
}
