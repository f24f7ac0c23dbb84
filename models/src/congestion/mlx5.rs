//! Values under mlx5 parameter names: with a unit, or as the bare number that sysfs shows.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use sim_core::{Bytes, Delta, Rate};

/// A time; a bare number counts microseconds.
pub(super) fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Delta, D::Error> {
    bare(deserializer, "a time such as \"300us\", or a number of microseconds", |us| {
        us.checked_mul(1_000_000).map(Delta::from_ps)
    })
}

/// A rate; a bare number counts megabits per second.
pub(super) fn mbps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    bare(deserializer, "a rate such as \"40Mbps\", or a number of megabits per second", |mbps| {
        mbps.checked_mul(1_000_000).map(Rate::from_bps)
    })
}

/// A size; a bare number counts bytes.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    bare(deserializer, "a size such as \"10MB\", or a number of bytes", |n| Some(Bytes::new(n)))
}

/// A fraction from 0 to 1; a whole number above 1 counts 1/1024.
pub(super) fn of_1024<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    struct Fraction;
    impl Visitor<'_> for Fraction {
        type Value = f64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number of 1024ths up to 1024, or a fraction such as 0.5 or 1.0")
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<f64, E> {
            match number {
                0..=1024 => Ok(number as f64 / 1024.0),
                _ => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
            }
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<f64, E> {
            self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
        }
        fn visit_f64<E: de::Error>(self, number: f64) -> Result<f64, E> {
            match number {
                0.0..=1.0 => Ok(number),
                _ => Err(E::invalid_value(de::Unexpected::Float(number), &self)),
            }
        }
    }
    deserializer.deserialize_any(Fraction)
}

/// Text with a unit, or a whole number that `scale` understands.
fn bare<'de, D, T>(
    deserializer: D,
    expected: &'static str,
    scale: fn(u64) -> Option<T>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = sim_core::ParseUnitError>,
{
    struct Form<T>(&'static str, fn(u64) -> Option<T>, PhantomData<T>);
    impl<T: FromStr<Err = sim_core::ParseUnitError>> Visitor<'_> for Form<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            let value = u64::try_from(number).ok().and_then(self.1);
            value.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            (self.1)(number)
                .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
        }
    }
    deserializer.deserialize_any(Form(expected, scale, PhantomData))
}
