//! One quantity on both sides, in one place or in many.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// The same quantity in rocesim and in the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pair {
    /// rocesim.
    pub here: f64,
    /// The reference.
    pub there: f64,
}

/// A quantity with a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// What it is, or where.
    pub name: String,
    /// Its values.
    pub value: Pair,
}

/// A quantity that many places have, such as ports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Places where it is not 0 on both sides, by name.
    pub items: Vec<Item>,
    /// Sum over places.
    pub sum: Pair,
    /// Mean over places of the difference's absolute value, relative to the reference's mean;
    /// absent if that is 0 and differs.
    pub mean_abs_error: Option<f64>,
    /// The place with the greatest difference; absent if there are no places.
    pub worst: Option<Item>,
}

impl Pair {
    /// Error of rocesim relative to the reference, with sign.
    pub fn error(self) -> f64 {
        match self.here == self.there {
            true => 0.0,
            false => self.here / self.there - 1.0,
        }
    }

    /// The difference's absolute value.
    pub(crate) fn gap(self) -> f64 {
        (self.here - self.there).abs()
    }
}

/// `gap` relative to `reference`; absent where that is 0 and there is a gap.
pub(super) fn relative(gap: f64, reference: f64) -> Option<f64> {
    match (gap, reference) {
        (0.0, _) => Some(0.0),
        (_, 0.0) => None,
        (gap, reference) => Some(gap / reference),
    }
}

impl Measure {
    /// A place that one side does not have counts as 0 there.
    pub(super) fn over(here: &BTreeMap<String, f64>, there: &BTreeMap<String, f64>) -> Self {
        let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
        let at = |side: &BTreeMap<String, f64>, name: &String| side.get(name).copied();
        let items = names.into_iter().map(|name| {
            let [here, there] = [here, there].map(|side| at(side, name).unwrap_or(0.0));
            Item { name: name.clone(), value: Pair { here, there } }
        });
        Measure::of(items.filter(|item| item.value != Pair::default()).collect())
    }

    pub(super) fn of(items: Vec<Item>) -> Self {
        let sum = items.iter().fold(Pair::default(), |sum, Item { value, .. }| Pair {
            here: sum.here + value.here,
            there: sum.there + value.there,
        });
        let gap = items.iter().map(|item| item.value.gap()).sum();
        let worst = items.iter().reduce(|worst, item| match item.value.gap() > worst.value.gap() {
            true => item,
            false => worst,
        });
        Measure { sum, mean_abs_error: relative(gap, sum.there), worst: worst.cloned(), items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn over_ports() {
        let here = side(&[("a", 10.0), ("b", 7.0), ("idle", 0.0)]);
        let there = side(&[("a", 8.0), ("b", 8.0), ("c", 4.0)]);
        let found = Measure::over(&here, &there);
        assert_eq!(found.items.len(), 3);
        assert_eq!(found.sum, Pair { here: 17.0, there: 20.0 });
        // gaps 2, 1, 4, of 20
        assert_eq!(found.mean_abs_error, Some(7.0 / 20.0));
        assert_eq!(found.worst.unwrap().name, "c");
    }

    #[test]
    fn nothing_there() {
        let found = Measure::over(&side(&[("a", 1.0)]), &side(&[]));
        assert_eq!((found.mean_abs_error, found.items.len()), (None, 1));
        let found = Measure::over(&side(&[("a", 0.0)]), &side(&[]));
        assert_eq!((found.mean_abs_error, found.worst), (Some(0.0), None));
    }
}
