//! Values of axes: what kind of quantity a text is, and the text of a number between two others.

use sim_core::{Bytes, Delta, Rate};

/// What the numbers of an axis count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things, or a ratio.
    One,
    /// Bytes.
    Bytes,
    /// Cells of a switch's buffer.
    Cells,
    /// Seconds.
    Seconds,
    /// Bits per second.
    BitsPerSecond,
}

impl Unit {
    /// The end of a column's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::One => "",
            Unit::Bytes => "_bytes",
            Unit::Cells => "_cells",
            Unit::Seconds => "_s",
            Unit::BitsPerSecond => "_bps",
        }
    }

    /// What texts of it look like, for messages.
    pub fn example(self) -> &'static str {
        match self {
            Unit::One => "a number",
            Unit::Bytes => "a size such as \"50KB\"",
            Unit::Cells => "cells such as \"200 cells\"",
            Unit::Seconds => "a time such as \"55us\"",
            Unit::BitsPerSecond => "a rate such as \"100Gbps\"",
        }
    }
}

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// In the unit's base.
    pub number: f64,
    /// Its unit.
    pub unit: Unit,
    /// It was written without a point, or its unit has no parts.
    pub whole: bool,
}

impl Quantity {
    /// Reads a text with a unit; `None` if it has none that is known.
    pub fn of_text(text: &str) -> Option<Quantity> {
        let quantity = |number, unit, whole| Some(Quantity { number, unit, whole });
        if let Some(cells) = text.strip_suffix("cells").or(text.strip_suffix("cell")) {
            return quantity(cells.trim().parse::<u64>().ok()? as f64, Unit::Cells, true);
        }
        if let Ok(bytes) = text.parse::<Bytes>() {
            return quantity(bytes.get() as f64, Unit::Bytes, true);
        }
        if let Ok(span) = text.parse::<Delta>() {
            return quantity(span.as_secs(), Unit::Seconds, false);
        }
        let rate = text.parse::<Rate>().ok()?;
        quantity(rate.bps() as f64, Unit::BitsPerSecond, true)
    }

    /// The same kind of quantity with another number, of four digits at most where `rounded`.
    pub fn with(self, number: f64, rounded: bool) -> Quantity {
        let mut number = if rounded { four_digits(number) } else { number };
        if self.whole {
            number = number.round();
        }
        Quantity { number, ..self }
    }

    /// As it is written in a scenario.
    pub fn toml(self) -> String {
        let Quantity { number, unit, whole } = self;
        match unit {
            Unit::One if whole => format!("{number:.0}"),
            Unit::One => format!("{number:?}"),
            Unit::Bytes => format!("\"{number:.0}B\""),
            Unit::Cells => format!("\"{number:.0} cells\""),
            Unit::Seconds => format!("\"{:.0}ps\"", number * 1e12),
            Unit::BitsPerSecond => format!("\"{number:.0}bps\""),
        }
    }

    /// As a person reads it.
    pub fn shown(self) -> String {
        match self.unit {
            Unit::One => format!("{}", self.number),
            Unit::Bytes => Bytes::new(self.number as u64).to_string(),
            Unit::Cells => format!("{:.0} cells", self.number),
            Unit::Seconds => Delta::from_ps((self.number * 1e12).round() as u64).to_string(),
            Unit::BitsPerSecond => Rate::from_bps(self.number as u64).to_string(),
        }
    }
}

fn four_digits(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_quantities_and_back() {
        for (text, number, unit, toml) in [
            ("50KB", 50e3, Unit::Bytes, "\"50000B\""),
            ("200 cells", 200.0, Unit::Cells, "\"200 cells\""),
            ("55us", 55e-6, Unit::Seconds, "\"55000000ps\""),
            ("100Gbps", 100e9, Unit::BitsPerSecond, "\"100000000000bps\""),
        ] {
            let quantity = Quantity::of_text(text).unwrap();
            assert_eq!((quantity.number, quantity.unit), (number, unit));
            assert_eq!(quantity.toml(), toml);
            let again = Quantity::of_text(toml.trim_matches('"')).unwrap();
            assert_eq!(again.number, number, "{toml} reads back as {text}");
        }
        assert_eq!(Quantity::of_text("dcqcn"), None);
    }

    #[test]
    fn numbers_between_are_short() {
        let kb = Quantity::of_text("50KB").unwrap();
        // 123 456.7 B has four digits and whole bytes
        assert_eq!(kb.with(123_456.7, true).toml(), "\"123500B\"");
        let ratio = Quantity { number: 0.1, unit: Unit::One, whole: false };
        assert_eq!(ratio.with(0.123_456, true).toml(), "0.1235");
    }
}
