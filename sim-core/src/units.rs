//! Quantities with their units: [`Bytes`], [`Rate`], and the text form of these and of
//! [`Delta`]: a number and a unit (`"50KB"`, `"12MiB"`, `"400Gbps"`, `"600ns"`).
//!
//! Decimal prefixes are powers of 1000, binary ones (`KiB`) powers of 1024. A bare number is
//! refused, and so is a prefix without its unit (`"128M"`), because both have been misread before.

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::time::Delta;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// Packets per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketRate(u64);

/// Why a text is no quantity; the message says what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseUnitError(String);

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);
    /// More than any buffer.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// `count` bytes.
    pub const fn new(count: u64) -> Self {
        Bytes(count)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The difference, or zero.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Rate {
    /// No rate.
    pub const ZERO: Rate = Rate(0);

    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Rate(bps)
    }

    /// `mbps` megabits per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        Rate(mbps * 1_000_000)
    }

    /// `gbps` gigabits per second.
    pub const fn from_gbps(gbps: u64) -> Self {
        Rate(gbps * 1_000_000_000)
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// The time that `bytes` take at this rate, rounded up to a whole picosecond.
    pub const fn time_for(self, bytes: Bytes) -> Delta {
        let bit_ps = bytes.0 as u128 * 8_000_000_000_000;
        Delta::from_ps(bit_ps.div_ceil(self.0 as u128) as u64)
    }

    /// The bytes that pass in `span` at this rate, rounded down.
    pub const fn bytes_in(self, span: Delta) -> Bytes {
        Bytes((self.0 as u128 * span.ps() as u128 / 8_000_000_000_000) as u64)
    }
}

impl PacketRate {
    /// `pps` packets per second.
    pub const fn from_pps(pps: u64) -> Self {
        PacketRate(pps)
    }

    /// Packets per second.
    pub const fn pps(self) -> u64 {
        self.0
    }

    /// From one packet to the next, rounded up to a whole picosecond.
    pub const fn interval(self) -> Delta {
        Delta::from_ps(1_000_000_000_000_u64.div_ceil(self.0))
    }
}

impl fmt::Display for PacketRate {
    /// Decimal units: `600 Mpps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = match self.0 {
            0..1_000 => ("pps", 1.0),
            1_000..1_000_000 => ("Kpps", 1e3),
            1_000_000..1_000_000_000 => ("Mpps", 1e6),
            _ => ("Gpps", 1e9),
        };
        f.pad(&format!("{} {unit}", trimmed(self.0 as f64 / size)))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(parts: I) -> Bytes {
        parts.fold(Bytes::ZERO, Add::add)
    }
}

/// A float with at most three decimals and no trailing zeros.
pub(crate) fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for Bytes {
    /// Decimal units: `1.5 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = match self.0 {
            0..1_000 => ("B", 1.0),
            1_000..1_000_000 => ("KB", 1e3),
            1_000_000..1_000_000_000 => ("MB", 1e6),
            1_000_000_000..1_000_000_000_000 => ("GB", 1e9),
            _ => ("TB", 1e12),
        };
        f.pad(&format!("{} {unit}", trimmed(self.0 as f64 / size)))
    }
}

impl fmt::Display for Rate {
    /// Decimal units: `98.04 Gbps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = match self.0 {
            0..1_000 => ("bps", 1.0),
            1_000..1_000_000 => ("Kbps", 1e3),
            1_000_000..1_000_000_000 => ("Mbps", 1e6),
            1_000_000_000..1_000_000_000_000 => ("Gbps", 1e9),
            _ => ("Tbps", 1e12),
        };
        f.pad(&format!("{} {unit}", trimmed(self.0 as f64 / size)))
    }
}

/// How one kind of quantity is written.
struct Notation {
    /// What it is, for messages.
    what: &'static str,
    /// Accepted units and the size of each in the base unit.
    units: &'static [(&'static str, u64)],
    /// Three good examples, for messages.
    examples: &'static str,
    /// The most that can be written, so that sums of a few cannot overflow.
    max: &'static str,
    max_units: u64,
}

const BYTES: Notation = Notation {
    what: "a size",
    units: &[
        ("B", 1),
        ("KB", 1_000),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ],
    examples: "\"64B\", \"50KB\" or \"12MiB\"",
    max: "1000000TB",
    max_units: 1_000_000_000_000_000_000,
};

const RATE: Notation = Notation {
    what: "a rate",
    units: &[
        ("bps", 1),
        ("Kbps", 1_000),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Mb/s", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Gb/s", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
        ("Tb/s", 1_000_000_000_000),
    ],
    examples: "\"400Gbps\", \"40Mbps\" or \"12.5Gbps\"",
    max: "1000Tbps",
    max_units: 1_000_000_000_000_000,
};

const PACKET_RATE: Notation = Notation {
    what: "a packet rate",
    units: &[
        ("pps", 1),
        ("Kpps", 1_000),
        ("kpps", 1_000),
        ("Mpps", 1_000_000),
        ("Gpps", 1_000_000_000),
    ],
    examples: "\"600Mpps\", \"2.4Gpps\" or \"900Kpps\"",
    max: "1000Gpps",
    max_units: 1_000_000_000_000,
};

const TIME: Notation = Notation {
    what: "a time",
    units: &[
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("µs", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
    ],
    examples: "\"600ns\", \"55us\" or \"1.5ms\"",
    max: "1000000s",
    max_units: 1_000_000_000_000_000_000,
};

impl Notation {
    /// Reads `text` as a count of base units; a fraction of a base unit rounds to the nearest.
    fn parse(&self, text: &str) -> Result<u64, ParseUnitError> {
        let text = text.trim();
        let split = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_' || c == '-' || c == '+'))
            .unwrap_or(text.len());
        let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
        let fail = |why: String| Err(ParseUnitError(why));
        if number.is_empty() {
            return fail(format!("{text:?} is not {}: write {}", self.what, self.examples));
        }
        if number.starts_with('-') {
            return fail(format!("{text:?} is negative: {} is expected", self.what));
        }
        let Some(&(_, size)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return fail(self.unit_hint(text, &number, unit));
        };
        match decimal(&number, size) {
            Some(value) if value <= self.max_units => Ok(value),
            _ => fail(format!("{text:?} is not {} up to {}", self.what, self.max)),
        }
    }

    /// The message for a missing, unknown or half-written unit.
    fn unit_hint(&self, text: &str, number: &str, unit: &str) -> String {
        if unit.is_empty() {
            return format!("{text:?} has no unit: write {}", self.examples);
        }
        let near: Vec<String> = self
            .units
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| {
                if matches!(*name, "kB" | "kbps" | "kpps") {
                    return false;
                }
                let (name, unit) = (name.to_lowercase(), unit.to_lowercase());
                name == unit || name.starts_with(&unit) || name.trim_end_matches("/s") == unit
            })
            .map(|name| format!("\"{number}{name}\""))
            .take(3)
            .collect();
        if near.is_empty() {
            format!("{text:?} has the unknown unit {unit:?}: write {}", self.examples)
        } else {
            format!("{text:?} has the unknown unit {unit:?}: did you mean {}?", near.join(" or "))
        }
    }
}

/// `number` x `size`, exactly where it is whole, else rounded to the nearest.
fn decimal(number: &str, size: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 18 || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: u64 =
        if whole.is_empty() { 0 } else { whole.trim_start_matches('+').parse().ok()? };
    let digits: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scale = 10u128.pow(fraction.len() as u32);
    let rest = (digits * size as u128 * 2 + scale) / (2 * scale);
    whole.checked_mul(size)?.checked_add(u64::try_from(rest).ok()?)
}

/// The shortest exact text of `value` in the units of `notation`: `12MiB`, `50KB`, `1.5us`.
fn exact_text(value: u64, notation: &Notation) -> String {
    let best = notation
        .units
        .iter()
        .filter(|(name, size)| {
            !matches!(*name, "kB" | "kbps" | "kpps") && value.is_multiple_of(*size)
        })
        .min_by_key(|(_, size)| (value / size, std::cmp::Reverse(*size)))
        .expect("the base unit divides everything");
    format!("{}{}", value / best.1, best.0)
}

macro_rules! text_form {
    ($type:ty, $notation:expr, $new:expr, $raw:expr, $name:literal) => {
        impl FromStr for $type {
            type Err = ParseUnitError;
            fn from_str(text: &str) -> Result<Self, ParseUnitError> {
                $notation.parse(text).map($new)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&exact_text($raw(*self), &$notation))
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "{} with its unit, such as {}", $notation.what, $notation.examples)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$type, E> {
                        self.visit_f64(number as f64)
                    }
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$type, E> {
                        self.visit_f64(number as f64)
                    }
                    fn visit_f64<E: de::Error>(self, number: f64) -> Result<$type, E> {
                        let examples = $notation.examples;
                        Err(E::custom(format!("{number} has no unit: write {examples}")))
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let units: Vec<_> = $notation.units.iter().map(|(name, _)| *name).collect();
                let pattern = format!("^[0-9][0-9_.]*\\s*({})$", units.join("|"));
                let description = format!("{} with its unit: {}", $notation.what, $notation.examples);
                json_schema!({ "type": "string", "pattern": pattern, "description": description })
            }
        }
    };
}

text_form!(Bytes, BYTES, Bytes, Bytes::get, "Bytes");
text_form!(Rate, RATE, Rate, Rate::bps, "Rate");
text_form!(PacketRate, PACKET_RATE, PacketRate, PacketRate::pps, "PacketRate");
text_form!(Delta, TIME, Delta::from_ps, Delta::ps, "Time");

/// 1234567 as `1 234 567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_binary_prefixes() {
        assert_eq!("50KB".parse(), Ok(Bytes::new(50_000)));
        assert_eq!("12MiB".parse(), Ok(Bytes::new(12 << 20)));
        assert_eq!("12.5Gbps".parse(), Ok(Rate::from_mbps(12_500)));
        assert_eq!("1.5 us".parse(), Ok(Delta::from_ns(1500)));
        assert_eq!("0.0005ns".parse(), Ok(Delta::from_ps(1)));
    }

    #[test]
    fn half_written_units_are_refused_with_a_hint() {
        let message = |text: &str| text.parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(
            message("128M"),
            "\"128M\" has the unknown unit \"M\": did you mean \"128MB\" or \"128MiB\"?"
        );
        assert!(message("128").contains("has no unit"));
        assert!(message("-1KB").contains("negative"));
        assert_eq!(message("20000000TiB"), "\"20000000TiB\" is not a size up to 1000000TB");
        assert!("5Gbps".parse::<Delta>().is_err());
        assert!("400G".parse::<Rate>().unwrap_err().to_string().contains("\"400Gbps\""));
    }

    #[test]
    fn one_byte_at_100g_takes_80_ps() {
        // 4178 B x 8 bit / 100 Gb/s = 334.24 ns
        assert_eq!(Rate::from_gbps(100).time_for(Bytes::new(4178)), Delta::from_ps(334_240));
        // 1 B at 3 bit/s = 2.666.. s, rounded up
        assert_eq!(Rate::from_bps(3).time_for(Bytes::new(1)), Delta::from_ps(2_666_666_666_667));
    }

    proptest::proptest! {
        #[test]
        fn text_round_trips(value in 0u64..=1_000_000_000_000_000_000) {
            let bytes = exact_text(value, &BYTES);
            proptest::prop_assert_eq!(bytes.parse(), Ok(Bytes::new(value)));
            let span = exact_text(value, &TIME);
            proptest::prop_assert_eq!(span.parse(), Ok(Delta::from_ps(value)));
        }
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
    }
}
