//! Columns in a unit that fits their values, for tables and plots.

use super::table::{Row, Stat, Table};
use super::{Column, Study};

/// A column in the unit that fits its values.
#[derive(Clone, Debug)]
pub struct Scaled<'a> {
    /// The column.
    pub column: &'a Column,
    index: usize,
    /// The unit; empty for plain numbers.
    pub unit: &'static str,
    size: f64,
}

impl<'a> Scaled<'a> {
    /// The column at this place.
    pub fn new(study: &'a Study, table: &Table, index: usize) -> Self {
        let column = &study.columns[index];
        let values = table.all().filter_map(|row| row.stats[index]);
        let largest = values.map(|stat| stat.mean.abs()).fold(0.0, f64::max);
        let (unit, size) = fitting(column.unit, largest);
        Scaled { column, index, unit, size }
    }

    /// A name with the unit behind it.
    pub fn with_unit(&self, name: &str) -> String {
        match self.unit {
            "" => name.to_owned(),
            unit => format!("{name} ({unit})"),
        }
    }

    /// The value of a row in this unit.
    pub fn of(&self, row: &Row) -> Option<Stat> {
        row.stats[self.index].map(|stat| self.scaled(stat))
    }

    /// A value of the column in this unit.
    pub fn scaled(&self, stat: Stat) -> Stat {
        Stat { mean: stat.mean / self.size, ci95: stat.ci95.map(|ci| ci / self.size) }
    }
}

/// A unit that fits numbers up to `largest`: its name, and how many base units it is.
pub fn fitting(unit: &str, largest: f64) -> (&'static str, f64) {
    let units: &[(&str, f64)] = match unit {
        "_s" => &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)],
        "_bytes" => &[("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("B", 1.0)],
        "_bps" => &[("Tbps", 1e12), ("Gbps", 1e9), ("Mbps", 1e6), ("bps", 1.0)],
        "_gbytes_per_s" => &[("GB/s", 1.0)],
        _ => &[("", 1.0)],
    };
    let whole = if largest == 0.0 { units.first() } else { None };
    let fits = whole.or(units.iter().find(|(_, size)| largest >= *size)).or(units.last());
    fits.map_or(("", 1.0), |(name, size)| (*name, *size))
}
