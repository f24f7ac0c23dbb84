//! Rows of nccl-tests, and the headers that name their columns.
//!
//! A row is known by the type of its elements, with size and count before it. After it stand what
//! reduces and the root, in the eras that have them, then one or two groups of columns.

use super::words::{Cell, Word, cell, words};
use crate::curve::{Row, Timing};

/// Types of elements, of all versions of nccl-tests and rccl-tests.
const TYPES: [&str; 22] = [
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
    "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "char", "int", "float16", "float32", "float64",
    "bf16", "fp16", "fp8",
];

/// A column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time,
    Algbw,
    Busbw,
    Wrong,
    Other,
}

/// The columns of numbers of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// Whether there is a column of roots.
    root: bool,
    /// Units of time in a second.
    per_s: f64,
    groups: Vec<Vec<Column>>,
}

impl Layout {
    /// What a header says; none if this is not one.
    pub(super) fn of_header(line: &str) -> Option<Layout> {
        let names: Vec<&str> = line.split_whitespace().collect();
        let first = names.iter().position(|name| is_time(name))?;
        if !names.contains(&"algbw") || !names.contains(&"busbw") {
            return None;
        }
        let (lead, measured) = names.split_at(first);
        let mut groups: Vec<Vec<Column>> = Vec::new();
        for name in measured {
            let column = match *name {
                name if is_time(name) => {
                    groups.push(Vec::new());
                    Column::Time
                }
                "algbw" => Column::Algbw,
                "busbw" => Column::Busbw,
                "#wrong" | "error" | "res" => Column::Wrong,
                // two words, at the end
                "timestamp" => continue,
                _ => Column::Other,
            };
            groups.last_mut()?.push(column);
        }
        groups.truncate(2);
        // until 2018: milliseconds
        let per_s = if lead.contains(&"bytes") { 1e3 } else { 1e6 };
        Some(Layout { root: lead.contains(&"root"), per_s, groups })
    }

    /// What most versions print, for rows of which the header is lost.
    fn guess(numbers: usize, root: bool) -> Layout {
        use Column::{Algbw, Busbw, Other, Time, Wrong};
        let plain = vec![Time, Algbw, Busbw, Wrong];
        let group = match numbers {
            16 => [plain, vec![Other; 4]].concat(),
            6 => vec![Time, Algbw, Busbw],
            _ => plain,
        };
        Layout { root, per_s: 1e6, groups: vec![group; 2] }
    }

    fn width(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }
}

fn is_time(name: &str) -> bool {
    name == "time" || name == "cputime"
}

/// A row as far as it was read.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// All that stands before the numbers.
    row: Row,
    /// Root and numbers.
    cells: Vec<Cell>,
    /// Whether the first number is known to be a root.
    dashed: bool,
    /// The first group was left blank.
    in_place_only: bool,
    /// Whether something else stands on the line after the numbers.
    pub(super) junk: bool,
}

/// What a line is.
pub(super) enum Line {
    /// A row, perhaps only its beginning.
    Row(Draft),
    /// Only numbers: perhaps the rest of a row.
    Numbers(Vec<Cell>),
    /// A row whose size or count cannot be.
    Bad(String),
    /// No row.
    Other,
}

/// What this line is; `line` is without tags.
pub(super) fn parse(number: u64, line: &str) -> Line {
    let words = words(line);
    let place = (2..words.len()).find(|place| {
        let whole = |word: &Word<'_>| word.1.bytes().all(|byte| byte.is_ascii_digit());
        TYPES.contains(&words[*place].1) && whole(&words[place - 1]) && whole(&words[place - 2])
    });
    let Some(place) = place else {
        return without_type(&words);
    };
    let whole = |(_, word): Word<'_>| word.parse::<u64>().map_err(|_| word.to_owned());
    let (bytes, count) = match (whole(words[place - 2]), whole(words[place - 1])) {
        (Ok(bytes), Ok(count)) => (bytes, count),
        (Err(word), _) | (_, Err(word)) => {
            return Line::Bad(format!("`{word}`: a number below 2^64 was expected"));
        }
    };
    let mut row = Row { line: number, bytes, count, ..Row::default() };
    row.dtype = Some(words[place].1.to_owned());
    let mut rest = &words[place + 1..];
    if let Some((first, others)) = rest.split_first()
        && is_word(first.1)
    {
        row.redop = Some(first.1.to_owned());
        rest = others;
    }
    let cells: Vec<Cell> = rest.iter().map_while(|(_, word)| cell(word)).collect();
    let after = &rest[cells.len()..];
    // a timestamp is no junk
    let junk = after.first().is_some_and(|(_, word)| !is_stamp(word) && *word != "~");
    row.extrapolated = after.first().is_some_and(|(_, word)| *word == "~");
    let dashed = rest.first().is_some_and(|(_, word)| *word == "-1");
    let gap = |pair: &[Word<'_>]| pair[1].0 - (pair[0].0 + pair[0].1.len());
    let in_place_only = rest.len() >= 2 && gap(&rest[..2]) >= 32 && cells.len() <= 9;
    Line::Row(Draft { row, cells, dashed, in_place_only, junk })
}

fn without_type(words: &[Word<'_>]) -> Line {
    let cells: Vec<Cell> = words.iter().map_while(|(_, word)| cell(word)).collect();
    if !cells.is_empty() && cells.len() == words.len() {
        return Line::Numbers(cells);
    }
    // a type, and numbers after it, as rows have
    let place = words.iter().position(|(_, word)| TYPES.contains(word));
    if let Some(place) = place.filter(|place| *place >= 2)
        && words[place + 1..].iter().filter(|(_, word)| cell(word).is_some()).count() >= 4
    {
        let bad = [place - 2, place - 1].map(|place| words[place].1);
        let bad = bad.into_iter().find(|word| word.parse::<u64>().is_err()).unwrap_or("");
        return Line::Bad(format!("`{bad}`: a whole number was expected"));
    }
    Line::Other
}

/// `sum`, `none`; not `N/A`.
fn is_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && cell(word).is_none()
}

/// `2026-06-01` or `12:00:00`.
fn is_stamp(word: &str) -> bool {
    word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_digit() || b"-:.T/".contains(&byte))
}

/// A finished row.
pub(super) struct Finished {
    pub(super) row: Row,
    /// What is wrong with it.
    pub(super) complaints: Vec<String>,
}

impl Draft {
    pub(super) fn line(&self) -> u64 {
        self.row.line
    }

    /// Whether it is as long as rows of this table are.
    pub(super) fn is_whole(&self, layout: Option<&Layout>) -> bool {
        let layout = self.layout(layout);
        self.in_place_only || self.cells.len() >= layout.width() + usize::from(layout.root)
    }

    /// Takes what a later line has of this row; false if that is too much to be of it.
    pub(super) fn extend(&mut self, cells: &[Cell], layout: Option<&Layout>) -> bool {
        let layout = self.layout(layout);
        let width = layout.width() + usize::from(layout.root);
        let fits = self.cells.len() + cells.len() <= width;
        if fits {
            self.cells.extend_from_slice(cells);
        }
        fits
    }

    fn layout(&self, known: Option<&Layout>) -> Layout {
        let guess = || Layout::guess(self.cells.len() - usize::from(self.dashed), self.dashed);
        let mut layout = known.cloned().unwrap_or_else(guess);
        let (cells, width) = (self.cells.len(), layout.width());
        if known.is_none() && cells % 4 == 1 {
            layout.root = true;
        }
        if cells == width {
            layout.root = self.dashed;
        }
        layout.root |= self.dashed;
        layout
    }

    /// The row, and what of it cannot be.
    pub(super) fn finish(mut self, known: Option<&Layout>) -> Finished {
        let mut layout = self.layout(known);
        let whole = self.is_whole(known);
        let mut complaints = Vec::new();
        let mut cells = self.cells.as_slice();
        if let Some((first, rest)) = cells.split_first()
            && layout.root
        {
            if let Cell::Number(root) = first {
                self.row.root = Some(*root as i32);
            }
            cells = rest;
        }
        let mut timings = [None, None];
        let first = usize::from(self.in_place_only);
        for (group, timing) in layout.groups.iter().zip(&mut timings[first..]) {
            let Some((these, rest)) = cells.split_at_checked(group.len()) else { break };
            *timing = timed(group, these, layout.per_s, &mut complaints);
            cells = rest;
        }
        if known.is_none()
            && timings.iter().flatten().any(|timing| is_in_ms(self.row.bytes, timing))
        {
            layout.per_s = 1e3;
            timings.iter_mut().flatten().for_each(|timing| timing.time_s *= 1e3);
        }
        if !whole {
            let (there, width) = (self.cells.len(), layout.width() + usize::from(layout.root));
            complaints.push(format!("the row is cut short: {there} of {width} numbers are there"));
        }
        [self.row.out_of_place, self.row.in_place] = timings;
        self.row.check(&mut complaints);
        Finished { row: self.row, complaints }
    }
}

/// Whether the stated bandwidth is that of a time in milliseconds.
fn is_in_ms(bytes: u64, timing: &Timing) -> bool {
    let algbw = bytes as f64 / timing.time_s / 1e9;
    let ratio = algbw / timing.algbw_gbytes_per_s;
    (900.0..1100.0).contains(&ratio)
}

fn timed(
    group: &[Column],
    cells: &[Cell],
    per_s: f64,
    complaints: &mut Vec<String>,
) -> Option<Timing> {
    let of = |column: Column| {
        let place = group.iter().position(|known| *known == column)?;
        match cells[place] {
            Cell::Number(number) => Some(number),
            Cell::Absent => None,
        }
    };
    let (time, algbw, busbw) = (of(Column::Time)?, of(Column::Algbw)?, of(Column::Busbw)?);
    if time < 0.0 || algbw < 0.0 || busbw < 0.0 {
        complaints.push("a time or bandwidth below 0: left out".to_owned());
        return None;
    }
    Some(Timing {
        time_s: time / per_s,
        algbw_gbytes_per_s: algbw,
        busbw_gbytes_per_s: busbw,
        wrong: of(Column::Wrong),
    })
}

impl Row {
    /// Says where a bandwidth is not the size over the time, or results were wrong.
    pub(super) fn check(&self, complaints: &mut Vec<String>) {
        for (name, timing) in [("out of place", self.out_of_place), ("in place", self.in_place)] {
            let Some(Timing { time_s, algbw_gbytes_per_s: stated, wrong, .. }) = timing else {
                continue;
            };
            let computed = self.bytes as f64 / time_s / 1e9;
            // a time has at least two digits, a bandwidth two decimals while they fit
            if time_s > 0.0 && (computed - stated).abs() > 0.03 * computed.max(stated) + 0.011 {
                complaints.push(format!(
                    "{name}: algbw is {stated}, but size over time is {computed:.2} GB/s"
                ));
            }
            // until 2022 it is the largest error of an element
            if let Some(wrong) = wrong.filter(|wrong| *wrong >= 1.0) {
                complaints.push(format!("{name}: {wrong} wrong values"));
            }
        }
    }
}
