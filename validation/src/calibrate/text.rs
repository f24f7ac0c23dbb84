//! A calibration for a person.

use std::fmt::Write as _;

use super::keys::Unit;
use super::known::Known;
use super::result::{Calibration, Errors, FittedKey, SizeRow};

/// Keys, errors, sizes, and what the sizes do not tell.
pub(super) fn summary(found: &Calibration) -> String {
    let mut text = String::new();
    let title = if found.title.is_empty() { &found.scenario } else { &found.title };
    let _ = writeln!(text, "{title}");
    for table in &found.tables {
        let _ = writeln!(text, "  {} of {}:{}", table.op, table.source, table.line);
    }
    text += "\n";
    text += &keys(found);
    text += "\n";
    text += &errors(found);
    text += "\n";
    text += &sizes(&found.rows);
    let held = held(found);
    if !held.is_empty() {
        text += "\n";
        text += &held;
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn keys(found: &Calibration) -> String {
    let mut table = Grid::new(&["key", "before", "after", "95 % interval"]);
    for key in &found.keys {
        if let Known::Fitted { low, high } = key.known {
            let text = |value: &Option<String>| value.clone().unwrap_or("-".to_owned());
            let interval = match high.is_finite() {
                true => format!("{} to {}", shown(key, low), shown(key, high)),
                false => "as many keys as sizes: none".to_owned(),
            };
            table.row([key.path.clone(), text(&key.before), text(&key.after), interval]);
        }
    }
    for set in decided(found) {
        if let Some((key, value)) = set.split_once('=') {
            let why = "of what was tried".to_owned();
            table.row([key.to_owned(), "-".to_owned(), value.to_owned(), why]);
        }
    }
    if table.is_empty() {
        return "No key is changed: none would make the errors enough smaller.\n".to_owned();
    }
    table.to_string()
}

/// What was set and is no key with a value of its own.
fn decided(found: &Calibration) -> impl Iterator<Item = &String> {
    found.set.iter().filter(|set| {
        let key = set.split('=').next();
        !found.keys.iter().any(|fitted| Some(fitted.path.as_str()) == key)
    })
}

/// A value with three digits, in a unit of its own.
fn shown(key: &FittedKey, value: f64) -> String {
    match key.unit {
        Unit::Time => sim_core::Delta::from_ps((value * 1e12).round() as u64).to_string(),
        Unit::Rate => sim_core::Rate::from_bps(value.round() as u64).to_string(),
        Unit::Number | Unit::Count => format!("{value:.3}"),
    }
}

fn errors(found: &Calibration) -> String {
    let mut table = Grid::new(&["mean error of busbw", "sizes", "before", "after", "largest"]);
    let mut row = |name: &str, errors: &Option<Errors>| {
        if let Some(errors) = errors {
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            let cells = [errors.before, errors.after, errors.largest].map(percent);
            let [before, after, largest] = cells;
            table.row([name.to_owned(), errors.sizes.to_string(), before, after, largest]);
        }
    };
    row("fitted", &found.fitted);
    row("held out", &found.held_out);
    table.to_string()
}

fn sizes(rows: &[SizeRow]) -> String {
    let mut table = Grid::new(&[
        "size",
        "",
        "measured, us",
        "busbw, GB/s",
        "before, us",
        "error",
        "after, us",
        "error",
    ]);
    let mut last = None;
    for row in rows {
        if last.replace(row.point.table).is_some_and(|last| last != row.point.table) {
            table.row(["", "", "", "", "", "", "", ""].map(str::to_owned));
        }
        let us = |time_s: Option<f64>| {
            time_s.map_or("unfinished".to_owned(), |time_s| format!("{:.1}", time_s * 1e6))
        };
        let percent = |error: Option<f64>| {
            error.map_or("-".to_owned(), |error| format!("{:+.1} %", error * 100.0))
        };
        let mark = match (row.point.held_out, row.point.is_unsteady()) {
            (true, true) => "held out, unsteady",
            (true, false) => "held out",
            (false, true) => "unsteady",
            (false, false) => "",
        };
        table.row([
            row.point.bytes.to_string(),
            mark.to_owned(),
            us(Some(row.point.time_s)),
            format!("{:.3}", row.measured_busbw_gbytes_per_s),
            us(row.before_time_s),
            percent(row.before_error),
            us(row.after_time_s),
            percent(row.after_error),
        ]);
    }
    table.to_string()
}

/// The keys that keep their values, and why.
fn held(found: &Calibration) -> String {
    let mut text = String::new();
    let named = |which: &dyn Fn(&Known) -> bool| {
        let taken = found.keys.iter().filter(|key| which(&key.known));
        let named = taken.map(|key| match &key.before {
            Some(value) => format!("{} ({value})", key.path),
            None => key.path.clone(),
        });
        named.collect::<Vec<String>>()
    };
    let silent = named(&|known| *known == Known::NoEffect);
    if !silent.is_empty() {
        let _ = writeln!(text, "not identifiable from these sizes, held: {}", silent.join(", "));
    }
    for key in &found.keys {
        if let Known::Together { with } = &key.known {
            let before = key.before.as_deref().unwrap_or("the model's own");
            let _ = writeln!(
                text,
                "{} is only known together with {}; held at {before}",
                key.path,
                with.join(" and ")
            );
        }
    }
    let idle = named(&|known| *known == Known::NotNeeded);
    if !idle.is_empty() {
        let _ = writeln!(text, "not needed, held: {}", idle.join(", "));
    }
    text
}

/// A table whose columns are as wide as they need to be; the first two are text, the others
/// numbers.
struct Grid {
    rows: Vec<Vec<String>>,
    /// So many columns stand to the left.
    left: usize,
}

impl Grid {
    fn new(head: &[&str]) -> Grid {
        let left = if head.len() == 4 { 4 } else { 1 };
        Grid { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()], left }
    }

    fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                if column < self.left {
                    let _ = write!(line, "{gap}{cell:<width$}");
                } else {
                    let _ = write!(line, "{gap}{cell:>width$}");
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
