//! The axes of a study: what differs from point to point.
//!
//! ```toml
//! [axes]
//! "switch.ecn.3.kmin" = ["50KB", "100KB"]                                     # a list
//! "nic.congestion.rpg_ai_rate" = { from = "5Mbps", to = "80Mbps", factor = 2 } # or step, or count
//! "switch.ecn.3.pmax" = { from = 0.01, to = 1.0, scale = "log" }              # no list: sampled
//! "switch.ecn.3.kmax" = { times = "switch.ecn.3.kmin", of = [2, 4, 8] }       # so many times it
//! cable = { zip = { "topology.link.delay" = ["25ns", "1.5us"] }, names = ["5 m", "300 m"] }
//! design = { variants = { off = { "nic.congestion.algorithm" = "none" }, on = {} } }
//! down = { failures = ["links", "spines"] }                                    # one at a time
//! "switch.pfc.headroom" = { smallest = { from = "0B", to = "1MB", step = "1KB" } } # searched for
//! ```

use super::failures::{self, Broken};
use super::quantity::{Quantity, Unit};
use crate::load::{LoadError, Node, Path, Value, suggestion, to_inline};
use crate::resolve::Loaded;

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its key in the study: the scenario's key, or a name.
    pub name: String,
    /// What its numbers count; `None` if its values are words.
    pub unit: Option<Unit>,
    /// Its values are spread by factors.
    pub log: bool,
    /// It is about what may fail.
    pub failures: bool,
    /// Where its values come from.
    pub domain: Domain,
}

/// Where the values of an axis come from.
#[derive(Clone, Debug)]
pub enum Domain {
    /// A list.
    Levels(Vec<Level>),
    /// Any number between two.
    Range {
        /// The key.
        path: String,
        /// The smallest.
        from: Quantity,
        /// The largest.
        to: Quantity,
    },
    /// So many times the value of another axis, an earlier one.
    Times {
        /// The key.
        path: String,
        /// The place of the other axis.
        of: usize,
        /// How many times.
        factors: Vec<f64>,
    },
    /// The smallest value that meets all requirements is searched for.
    Smallest(Ladder),
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// As a person reads it.
    pub label: String,
    /// Its number, if it has one.
    pub quantity: Option<Quantity>,
    /// The keys that it sets and their values, as TOML.
    pub settings: Vec<(String, String)>,
}

/// The values among which the smallest that will do is searched for.
#[derive(Clone, Debug)]
pub struct Ladder {
    path: String,
    from: Quantity,
    step: f64,
    /// Its rungs are numbered from 0 to here.
    pub last: u32,
}

impl Ladder {
    /// The value of a rung.
    pub fn level(&self, rung: u32) -> Level {
        let quantity = self.from.with(self.from.number + self.step * f64::from(rung), false);
        of_number(&self.path, quantity)
    }
}

impl Domain {
    /// How many values it has; `None` for a range.
    pub fn count(&self) -> Option<usize> {
        match self {
            Domain::Levels(levels) => Some(levels.len()),
            Domain::Times { factors, .. } => Some(factors.len()),
            Domain::Range { .. } => None,
            Domain::Smallest(_) => Some(1),
        }
    }
}

impl Axis {
    /// The value at a place, beside the values of the axes before it: a number of a list, or a
    /// share (0 to 1) of a range.
    pub fn level(&self, place: Place, before: &[Level]) -> Level {
        match (&self.domain, place) {
            (Domain::Levels(levels), Place::Number(number)) => levels[number].clone(),
            (Domain::Levels(levels), Place::Share(share)) => {
                levels[at_share(share, levels.len())].clone()
            }
            (Domain::Times { path, of, factors }, place) => {
                let number = match place {
                    Place::Number(number) => number,
                    Place::Share(share) => at_share(share, factors.len()),
                };
                let factor = factors[number];
                let other = before.get(*of).and_then(|level| level.quantity);
                let other =
                    other.unwrap_or(Quantity { number: 1.0, unit: Unit::One, whole: false });
                let scaled = other.with(other.number * factor, false);
                let quantity = Quantity { number: factor, unit: Unit::One, whole: false };
                Level {
                    label: format!("{factor} x = {}", scaled.shown()),
                    quantity: Some(quantity),
                    settings: vec![(path.clone(), scaled.toml())],
                }
            }
            (Domain::Range { path, from, to }, place) => {
                let share = match place {
                    Place::Number(_) => 0.5,
                    Place::Share(share) => share,
                };
                let number = match self.log {
                    true => from.number * (to.number / from.number).powf(share),
                    false => from.number + (to.number - from.number) * share,
                };
                of_number(path, from.with(number, true))
            }
            (Domain::Smallest(ladder), _) => Level {
                label: format!("from {}", ladder.from.shown()),
                quantity: None,
                settings: Vec::new(),
            },
        }
    }

    /// What tells a value from the others of this axis: its label; of multiples, the factor.
    pub fn key_of(&self, level: &Level) -> String {
        match (&self.domain, level.quantity) {
            (Domain::Times { .. }, Some(factor)) => factor.shown(),
            _ => level.label.clone(),
        }
    }

    /// A value with the name of the axis; `axes` are all of the study's.
    pub fn in_words(&self, level: &Level, axes: &[Axis]) -> String {
        match &self.domain {
            Domain::Times { of, .. } => {
                format!("{} = {} x {}", self.name, self.key_of(level), axes[*of].name)
            }
            _ => format!("{} = {}", self.name, level.label),
        }
    }

    /// The ladder, if it is one to be searched.
    pub fn ladder(&self) -> Option<&Ladder> {
        match &self.domain {
            Domain::Smallest(ladder) => Some(ladder),
            _ => None,
        }
    }
}

/// Where on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// So many values from the first.
    Number(usize),
    /// From 0, the first, to 1, the last.
    Share(f64),
}

fn at_share(share: f64, count: usize) -> usize {
    ((share * count as f64) as usize).min(count.saturating_sub(1))
}

fn of_number(path: &str, quantity: Quantity) -> Level {
    let settings = vec![(path.to_owned(), quantity.toml())];
    Level { label: quantity.shown(), quantity: Some(quantity), settings }
}

/// Reads the axes of a study, in the order of writing; `base` is the scenario that they change.
pub fn read(table: &Node, base: &Loaded) -> Result<Vec<Axis>, LoadError> {
    let mut axes: Vec<Axis> = Vec::new();
    for entry in table.as_table().into_iter().flatten() {
        let within = |error: LoadError| {
            let name = Path::parse(&format!("\"{}\"", entry.key.replace('"', "\\\"")));
            let name = name.map_or_else(|_| entry.key.clone(), |name| name.to_string());
            error.at(entry.node.origin).within(&name).within("axes")
        };
        axes.push(axis(&entry.key, &entry.node, &axes, base).map_err(within)?);
    }
    if axes.is_empty() {
        let message = "no axis: expected something that differs, as in \
                       \"switch.ecn.3.kmin\" = [\"50KB\", \"100KB\"]";
        return Err(LoadError::new(message).at(table.origin).within("axes"));
    }
    let searched = axes.iter().filter(|axis| axis.ladder().is_some()).count();
    if searched > 1 {
        let message = "only one axis can be searched for its smallest value";
        return Err(LoadError::new(message).at(table.origin).within("axes"));
    }
    Ok(axes)
}

/// The forms of an axis that are tables, by the key that tells them apart.
const FORMS: [&str; 6] = ["from", "zip", "variants", "times", "failures", "smallest"];

fn axis(name: &str, node: &Node, before: &[Axis], base: &Loaded) -> Result<Axis, LoadError> {
    if let Some(values) = node.as_array() {
        return list(name, values);
    }
    let Some(table) = node.as_table() else {
        let message = format!("{} is no axis: a list of values is expected", node.value.describe());
        return Err(LoadError::new(message));
    };
    let form = FORMS.into_iter().find(|form| table.get(form).is_some());
    let allow = |keys: &[&str]| match table.iter().find(|entry| !keys.contains(&&*entry.key)) {
        None => Ok(()),
        Some(entry) => {
            let hint = suggestion(&entry.key, keys);
            let message = format!("unknown key `{}`{hint}", entry.key);
            Err(LoadError::new(message).at(entry.key_origin))
        }
    };
    match form {
        Some("from") => {
            allow(&["from", "to", "step", "factor", "count", "scale"])?;
            range(name, node)
        }
        Some("zip") => {
            allow(&["zip", "names"])?;
            zip(name, node)
        }
        Some("variants") => {
            allow(&["variants"])?;
            variants(name, required(node, "variants")?)
        }
        Some("times") => {
            allow(&["times", "of"])?;
            times(name, node, before)
        }
        Some("failures") => {
            allow(&["failures", "at", "reroute"])?;
            Ok(failures::axis(name, &Broken::read(node)?, base))
        }
        Some(_) => {
            allow(&["smallest"])?;
            smallest(name, required(node, "smallest")?)
        }
        None => {
            let keys: Vec<&str> = table.keys().collect();
            let near = keys.first().map_or(String::new(), |key| suggestion(key, &FORMS));
            let forms = FORMS.join(", ");
            Err(LoadError::new(format!("no axis: one of the keys {forms} is expected{near}")))
        }
    }
}

fn required<'a>(node: &'a Node, key: &str) -> Result<&'a Node, LoadError> {
    node.get(key).ok_or_else(|| LoadError::new(format!("`{key}` is missing")))
}

/// The number of a value, if it has one.
fn quantity(node: &Node) -> Option<Quantity> {
    let number = |number, whole| Some(Quantity { number, unit: Unit::One, whole });
    match &node.value {
        Value::Integer(value) => number(*value as f64, true),
        Value::Float(value) => number(*value, false),
        Value::Text(text) => Quantity::of_text(text),
        _ => None,
    }
}

/// A value of a list: what is written is what is set.
fn level(path: &str, node: &Node) -> Level {
    let written = to_inline(node);
    let label = node.as_text().map_or_else(|| written.clone(), str::to_owned);
    let settings = vec![(path.to_owned(), written)];
    Level { label, quantity: quantity(node), settings }
}

/// The unit that all levels share.
fn common_unit(levels: &[Level]) -> Option<Unit> {
    let unit = levels.first()?.quantity?.unit;
    levels.iter().all(|level| level.quantity.is_some_and(|q| q.unit == unit)).then_some(unit)
}

fn of_levels(name: &str, levels: Vec<Level>) -> Result<Axis, LoadError> {
    if levels.is_empty() {
        return Err(LoadError::new("an empty list: at least one value is expected"));
    }
    for (index, level) in levels.iter().enumerate() {
        if levels[..index].iter().any(|earlier| earlier.label == level.label) {
            return Err(LoadError::new(format!("`{}` is there twice", level.label)));
        }
    }
    let unit = common_unit(&levels);
    let numbers: Vec<f64> =
        levels.iter().filter_map(|level| Some(level.quantity?.number)).collect();
    let log = unit.is_some() && is_spread_by_factors(&numbers);
    Ok(Axis { name: name.to_owned(), unit, log, failures: false, domain: Domain::Levels(levels) })
}

/// Whether numbers grow by factors rather than by steps: the last step is much more than the first.
fn is_spread_by_factors(numbers: &[f64]) -> bool {
    let [first, second, .., last] = numbers else { return false };
    let before = numbers[numbers.len() - 2];
    let much = if numbers.len() == 3 { 1.9 } else { 3.0 };
    let positive = numbers.iter().all(|number| *number > 0.0);
    positive && second > first && (last - before) > much * (second - first)
}

fn list(name: &str, values: &[Node]) -> Result<Axis, LoadError> {
    Path::parse(name)?;
    of_levels(name, values.iter().map(|node| level(name, node)).collect())
}

/// A number of one end, in the unit of the other.
fn bound(node: &Node, key: &str, like: Option<Quantity>) -> Result<Quantity, LoadError> {
    let value = required(node, key)?;
    let found = quantity(value);
    let expected = like.map_or("a number, or a quantity such as \"50KB\"", |l| l.unit.example());
    match found {
        Some(found) if like.is_none_or(|like| like.unit == found.unit) => Ok(found),
        _ => {
            let message = format!("{}: {expected} is expected", value.value.describe());
            Err(LoadError::new(message).at(value.origin).within(key))
        }
    }
}

fn range(path: &str, node: &Node) -> Result<Axis, LoadError> {
    Path::parse(path)?;
    let from = bound(node, "from", None)?;
    let to = bound(node, "to", Some(from))?;
    let whole = from.whole && to.whole;
    let (from, to) = (Quantity { whole, ..from }, Quantity { whole, ..to });
    if to.number <= from.number {
        return Err(LoadError::new("`to` must be more than `from`").within("to"));
    }
    let ways = ["step", "factor", "count"].into_iter().filter(|key| node.get(key).is_some());
    let ways: Vec<&str> = ways.collect();
    if ways.len() > 1 {
        return Err(LoadError::new(format!("`{}` beside `{}`: one is expected", ways[0], ways[1])));
    }
    let log = match node.get("scale").map(|scale| (scale, scale.as_text())) {
        None => ways.first() == Some(&"factor"),
        Some((_, Some("log"))) => true,
        Some((_, Some("linear"))) => false,
        Some((scale, word)) => {
            let hint = suggestion(word.unwrap_or(""), &["linear", "log"]);
            let message = format!("{} is no scale{hint}", scale.value.describe());
            return Err(LoadError::new(message).at(scale.origin).within("scale"));
        }
    };
    if log && from.number <= 0.0 {
        return Err(LoadError::new("a log scale cannot begin at 0").within("from"));
    }
    let numbers = match ways.first() {
        None => {
            let domain = Domain::Range { path: path.to_owned(), from, to };
            return Ok(Axis {
                name: path.to_owned(),
                unit: Some(from.unit),
                log,
                failures: false,
                domain,
            });
        }
        Some(way) => spaced(node, way, from, to, log)?,
    };
    let level = |number: &f64| of_number(path, from.with(*number, *way_of(&ways) == "count"));
    let mut axis = of_levels(path, numbers.iter().map(level).collect())?;
    axis.log = log;
    Ok(axis)
}

fn way_of<'a>(ways: &'a [&'a str]) -> &'a &'a str {
    ways.first().unwrap_or(&"")
}

/// Values that an axis may have.
const LEVELS_MAX: usize = 1000;

/// The numbers from one to another, by `way`.
fn spaced(
    node: &Node,
    way: &str,
    from: Quantity,
    to: Quantity,
    log: bool,
) -> Result<Vec<f64>, LoadError> {
    let value = required(node, way)?;
    let refuse = |message: String| Err(LoadError::new(message).at(value.origin).within(way));
    // a last value that rounding puts beyond the end belongs to it
    let end = to.number * (1.0 + 1e-12);
    let mut numbers = vec![from.number];
    match (way, quantity(value)) {
        ("count", Some(count)) if count.whole && count.unit == Unit::One && count.number >= 2.0 => {
            let steps = count.number - 1.0;
            for index in 1..(count.number as usize).min(LEVELS_MAX + 1) {
                let share = index as f64 / steps;
                numbers.push(match log {
                    true => from.number * (to.number / from.number).powf(share),
                    false => from.number + (to.number - from.number) * share,
                });
            }
        }
        ("factor", Some(factor)) if factor.unit == Unit::One && factor.number > 1.0 => {
            while let Some(next) = numbers.last().map(|last| last * factor.number)
                && next <= end
                && numbers.len() <= LEVELS_MAX
            {
                numbers.push(next);
            }
        }
        ("step", Some(step)) if step.unit == from.unit && step.number > 0.0 => {
            while let next = from.number + step.number * numbers.len() as f64
                && next <= end
                && numbers.len() <= LEVELS_MAX
            {
                numbers.push(next);
            }
        }
        _ => {
            let expected = match way {
                "count" => "a whole number of at least 2",
                "factor" => "a number above 1",
                _ => from.unit.example(),
            };
            return refuse(format!("{}: {expected} is expected", value.value.describe()));
        }
    }
    if numbers.len() > LEVELS_MAX {
        return refuse(format!("an axis can have at most {LEVELS_MAX} values"));
    }
    Ok(numbers)
}

fn zip(name: &str, node: &Node) -> Result<Axis, LoadError> {
    let keys = required(node, "zip")?;
    let Some(table) = keys.as_table().filter(|table| !table.is_empty()) else {
        return Err(LoadError::new("keys with a list each are expected").within("zip"));
    };
    let mut levels: Vec<Level> = Vec::new();
    for (index, entry) in table.iter().enumerate() {
        let fail = |message: String| {
            Err(LoadError::new(message).at(entry.node.origin).within(&entry.key).within("zip"))
        };
        Path::parse(&entry.key)?;
        let Some(values) = entry.node.as_array() else {
            return fail(format!("{}: a list is expected", entry.node.value.describe()));
        };
        if index > 0 && values.len() != levels.len() {
            return fail(format!("{} values beside {} of the first", values.len(), levels.len()));
        }
        for (at, value) in values.iter().enumerate() {
            let one = level(&entry.key, value);
            match levels.get_mut(at) {
                Some(level) => {
                    level.label += &format!(", {}", one.label);
                    level.settings.extend(one.settings);
                }
                None => levels.push(one),
            }
        }
    }
    if let Some(names) = node.get("names") {
        let texts: Vec<&str> =
            names.as_array().into_iter().flatten().filter_map(Node::as_text).collect();
        if texts.len() != levels.len() {
            let message = format!("{} names are expected, one for each value", levels.len());
            return Err(LoadError::new(message).at(names.origin).within("names"));
        }
        for (level, name) in levels.iter_mut().zip(texts) {
            level.label = name.to_owned();
            level.quantity = None;
        }
    }
    of_levels(name, levels)
}

fn variants(name: &str, node: &Node) -> Result<Axis, LoadError> {
    let Some(table) = node.as_table() else {
        return Err(LoadError::new("names with keys each are expected").within("variants"));
    };
    let variant = |entry: &crate::load::Entry| {
        let Some(keys) = entry.node.as_table() else {
            let message = format!("{}: keys are expected", entry.node.value.describe());
            return Err(LoadError::new(message).at(entry.node.origin).within(&entry.key));
        };
        let settings = keys.iter().map(|key| (key.key.clone(), to_inline(&key.node)));
        Ok(Level { label: entry.key.clone(), quantity: None, settings: settings.collect() })
    };
    let levels: Result<Vec<Level>, LoadError> = table.iter().map(variant).collect();
    of_levels(name, levels.map_err(|error| error.within("variants"))?)
}

fn times(path: &str, node: &Node, before: &[Axis]) -> Result<Axis, LoadError> {
    Path::parse(path)?;
    let other = required(node, "times")?;
    let named = other.as_text().unwrap_or("");
    let numeric = |axis: &Axis| axis.unit.is_some() && axis.ladder().is_none();
    let of = before.iter().position(|axis| axis.name == named && numeric(axis));
    let Some(of) = of else {
        let names: Vec<&str> =
            before.iter().filter(|axis| numeric(axis)).map(|axis| &*axis.name).collect();
        let hint = suggestion(named, &names);
        let message = format!("no axis of numbers above this one is called {named:?}{hint}");
        return Err(LoadError::new(message).at(other.origin).within("times"));
    };
    let list = required(node, "of")?;
    let factors: Option<Vec<f64>> = list.as_array().map(|values| {
        let number = |value: &Node| quantity(value).filter(|q| q.unit == Unit::One);
        values.iter().filter_map(number).map(|q| q.number).collect()
    });
    let factors = factors.unwrap_or_default();
    if factors.is_empty() || factors.len() != list.as_array().map_or(0, <[Node]>::len) {
        let message = "a list of numbers is expected, as in of = [2, 4, 8]";
        return Err(LoadError::new(message).at(list.origin).within("of"));
    }
    let log = is_spread_by_factors(&factors);
    let domain = Domain::Times { path: path.to_owned(), of, factors };
    Ok(Axis { name: path.to_owned(), unit: Some(Unit::One), log, failures: false, domain })
}

fn smallest(path: &str, node: &Node) -> Result<Axis, LoadError> {
    Path::parse(path)?;
    let within = |error: LoadError| error.at(node.origin).within("smallest");
    let from = bound(node, "from", None).map_err(within)?;
    let to = bound(node, "to", Some(from)).map_err(within)?;
    let step = bound(node, "step", Some(from)).map_err(within)?;
    let rungs = (to.number - from.number) / step.number;
    if !(step.number > 0.0 && (1.0..1e9).contains(&rungs)) {
        let message = "`from` below `to`, and a `step` that fits between, are expected";
        return Err(within(LoadError::new(message)));
    }
    let whole = from.whole && step.whole;
    let from = Quantity { whole, ..from };
    let last = (rungs + 1e-9).floor() as u32;
    let ladder = Ladder { path: path.to_owned(), from, step: step.number, last };
    let (name, unit) = (path.to_owned(), Some(from.unit));
    Ok(Axis { name, unit, log: false, failures: false, domain: Domain::Smallest(ladder) })
}
