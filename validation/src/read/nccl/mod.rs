//! Logs of nccl-tests and rccl-tests, of all versions, with whatever else stands in them.
//!
//! What a log says of a table comes before it (the test, its parameters, its ranks) and after it
//! (averages, and from 2025 on the test once more). Rows are known by themselves, so that a cut-out
//! of a log is read too. The formats are those of nccl-tests' `src/util.cu` and `src/common.cu`.

mod deduce;
mod json;
mod row;
mod words;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use json::{is as is_json, parse as parse_json};
use row::{Draft, Layout, Line};
use words::untagged;

use super::text::head;
use crate::curve::{Table, Warning};

/// A row's end is looked for in so many lines.
const APART_MAX: u64 = 64;

/// Whether this is a log of nccl-tests: a header, a row, or a line that only it writes.
pub(super) fn is(text: &str) -> bool {
    text.lines().any(|line| {
        let line = untagged(line);
        Layout::of_header(&line).is_some()
            || SIGNS.iter().any(|sign| line.contains(sign))
            || matches!(row::parse(1, &line), Line::Row(draft) if draft.is_whole(None))
    })
}

/// Only nccl-tests writes these.
const SIGNS: [&str; 6] = [
    "# nccl-tests version",
    "Collective test starting:",
    "Collective test concluded:",
    "Avg bus bandwidth",
    "Test NCCL failure",
    "validation: 1 graph:",
];

/// Its tables. One without rows is there if a test began and printed none.
pub(super) fn parse(source: &str, text: &str) -> Vec<Table> {
    let mut reader = Reader { source: source.to_owned(), ..Reader::default() };
    let mut last = 0;
    for (line, number) in text.lines().zip(1..) {
        reader.line(number, &untagged(line));
        last = number;
    }
    reader.close(last);
    reader.tables
}

/// What was read of the table that comes, or is being read.
#[derive(Default)]
struct Reader {
    source: String,
    tables: Vec<Table>,
    table: Table,
    layout: Option<Layout>,
    /// Rank and its host, with the number of lines that name it.
    ranks: BTreeMap<u32, (String, u32)>,
    /// The test that a command line or a path named.
    mentioned: Option<String>,
    /// Its footer was read: what comes belongs to another table.
    ended: bool,
    /// A row whose end is to come.
    draft: Option<Draft>,
    /// Problems that stand many times are said once.
    said: BTreeSet<&'static str>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &str) {
        if let Some(layout) = Layout::of_header(line) {
            return self.header(number, layout);
        }
        match row::parse(number, line) {
            Line::Row(draft) => self.row(draft),
            Line::Numbers(cells) => {
                let layout = self.layout.as_ref();
                let near = self.draft.as_mut().filter(|draft| number - draft.line() <= APART_MAX);
                if near.is_some_and(|draft| draft.extend(&cells, layout)) {
                    self.row_may_end();
                } else if cells.len() >= 4 {
                    self.warn(number, "the end of a row, without its size: left out".to_owned());
                }
            }
            Line::Bad(message) => self.warn(number, format!("{message}: the row is left out")),
            Line::Other => self.other(number, line),
        }
    }

    fn header(&mut self, number: u64, layout: Layout) {
        if self.ended || !self.table.rows.is_empty() || self.draft.is_some() {
            self.close(number);
        }
        self.layout = Some(layout);
        self.table.line = number;
    }

    fn row(&mut self, draft: Draft) {
        self.row_ends();
        if self.ended {
            self.close(draft.line());
        }
        if self.table.line == 0 {
            self.table.line = draft.line();
        }
        self.draft = Some(draft);
        self.row_may_end();
    }

    fn row_may_end(&mut self) {
        if self.draft.as_ref().is_some_and(|draft| draft.is_whole(self.layout.as_ref())) {
            self.row_ends();
        }
    }

    fn row_ends(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        let finished = draft.finish(self.layout.as_ref());
        for complaint in finished.complaints {
            self.warn(finished.row.line, complaint);
        }
        self.table.rows.push(finished.row);
    }

    fn warn(&mut self, line: u64, message: String) {
        self.table.warnings.push(Warning { line, message });
    }

    /// A line that is no row and no header.
    fn other(&mut self, number: u64, line: &str) {
        if let Some(name) = after(line, "Collective test starting:") {
            self.begin(number);
            self.table.name = Some(first(name).to_owned());
        } else if let Some(name) = after(line, "Collective test concluded:") {
            self.row_ends();
            let target = match (self.table.rows.is_empty(), self.tables.last_mut()) {
                (true, Some(last)) if last.name.is_none() => last,
                _ => &mut self.table,
            };
            target.name.get_or_insert_with(|| first(name).to_owned());
        } else if let Some(rest) = after(line, "nccl-tests version") {
            self.begin(number);
            self.table.tests_version = Some(first(rest).to_owned());
            let library = after(rest, "nccl-library=").map(|text| deduce::version(first(text)));
            self.table.nccl_version = library.or(self.table.nccl_version.take());
        } else if line.contains("minBytes") && line.contains("maxBytes") {
            self.begin(number);
            self.parameters(line);
        } else if let Some(rest) = after(line, "NCCL version").or(after(line, "RCCL version")) {
            // 2.28.9+cuda13.1, or : 2.22.3-develop
            let version = first(rest.trim_start_matches([' ', ':']));
            let version = version.split(['+', '-']).next().unwrap_or("").to_owned();
            if version.starts_with(|c: char| c.is_ascii_digit()) {
                self.table.nccl_version = Some(version);
            }
        } else if let Some((rank, host)) = rank(line) {
            self.rank(number, rank, host);
        } else if let Some(rest) = after(line, "Out of bounds values") {
            self.row_ends();
            self.bounds(number, rest);
        } else if let Some(rest) = after(line, "Avg bus bandwidth") {
            self.row_ends();
            self.table.average_busbw = first(rest.trim_start_matches([' ', ':'])).parse().ok();
            if rest.contains("FAILED") {
                self.warn(number, "the average is below what the test was to reach".to_owned());
            }
            self.ended = true;
        } else {
            self.trouble(number, line);
        }
    }

    /// Another test begins, if the last one has printed rows or its end.
    fn begin(&mut self, number: u64) {
        if self.ended || !self.table.rows.is_empty() || self.draft.is_some() {
            self.close(number);
        }
        if self.table.line == 0 {
            self.table.line = number;
        }
        self.ranks.clear();
    }

    fn parameters(&mut self, line: &str) {
        // warmup iters: 5 iters: 20 agg iters: 1
        let mut iters = line.split("iters:").skip(1).map(|rest| first(rest).parse().ok());
        self.table.warmup = iters.next().flatten();
        self.table.iterations = iters.next().flatten();
    }

    fn rank(&mut self, number: u64, rank: u32, host: &str) {
        if self.ended || !self.table.rows.is_empty() {
            self.begin(number);
        }
        if self.table.line == 0 {
            self.table.line = number;
        }
        let known = self.ranks.entry(rank).or_insert_with(|| (host.to_owned(), 0));
        known.1 += 1;
        if known.1 == 2 && self.said.insert("twice") {
            let message = format!(
                "rank {rank} is there twice: tests that were built without MPI run side by side, each \
                 alone"
            );
            self.warn(number, message);
        }
    }

    fn bounds(&mut self, number: u64, rest: &str) {
        let count = first(rest.trim_start_matches([' ', ':'])).parse().ok();
        // a later footer is of a table whose rows are lost
        if self.ended {
            self.close(number);
        }
        self.table.out_of_bounds = count;
        if count.is_some_and(|count| count > 0) {
            self.warn(number, format!("{} values out of bounds", count.unwrap_or(0)));
        }
        if self.table.line == 0 {
            self.table.line = number;
        }
    }

    /// Errors, and what else a line may tell.
    fn trouble(&mut self, number: u64, line: &str) {
        let signs = ["Test NCCL failure", "Test CUDA failure", "Test failure", "NCCL WARN"];
        let signs = signs.into_iter().chain(["# error:", "ncclSystemError", "ncclRemoteError"]);
        if let Some(sign) = signs.into_iter().find(|sign| line.contains(sign)) {
            if self.said.insert(sign) {
                self.warn(number, head(line.trim(), 160).to_owned());
            }
            return;
        }
        // a command line or the path of a program
        let named = line.split_whitespace().find_map(|word| {
            let name = word.rsplit('/').next().unwrap_or(word);
            let known = name.strip_suffix("_perf").is_some_and(|name| !name.is_empty());
            known.then_some(name)
        });
        if let Some(name) = named {
            self.mentioned = Some(name.to_owned());
        }
    }

    /// Puts the table away; the next one begins.
    fn close(&mut self, number: u64) {
        if let Some(draft) = &self.draft
            && draft.junk
        {
            let line = draft.line();
            self.warn(line, "other output stands within the row, and its end was not found".into());
        }
        self.row_ends();
        let mut table = std::mem::take(&mut self.table);
        let ranks = std::mem::take(&mut self.ranks);
        let ended = std::mem::take(&mut self.ended);
        self.layout = None;
        self.said.clear();
        let empty = table.rows.is_empty();
        if empty && ranks.is_empty() && table.name.is_none() && table.average_busbw.is_none() {
            // only what stands between tables: it is said with the next one
            self.table = table;
            return;
        }
        table.source = self.source.clone();
        table.line = table.line.max(1);
        match (empty, ended) {
            (true, false) => {
                let message = "no row follows: the test did not finish its first size".to_owned();
                table.warnings.push(Warning { line: number.max(1), message });
            }
            (true, true) => {
                let message = "an average without rows: they are not in this file".to_owned();
                table.warnings.push(Warning { line: table.line, message });
            }
            (false, false) if table.out_of_bounds.is_none() => {
                let message = "the table ends without its averages".to_owned();
                table.warnings.push(Warning { line: number.max(1), message });
            }
            _ => {}
        }
        deduce::complete(&mut table, &ranks, self.mentioned.as_deref());
        self.tables.push(table);
    }
}

/// What follows these words.
fn after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    line.split_once(words).map(|(_, rest)| rest)
}

fn first(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or("")
}

/// `#  Rank  0 Group  0 Pid   1164 on     node01 device  0 [0x10] ...`; the group is missing until
/// 2022.
fn rank(line: &str) -> Option<(u32, &str)> {
    let rest = after(line, "Rank ").filter(|_| line.contains('#'))?;
    let mut words = rest.split_whitespace();
    let rank = words.next()?.parse().ok()?;
    words.find(|word| *word == "on")?;
    let host = words.next()?;
    words.any(|word| word == "device").then_some((rank, host))
}

#[cfg(test)]
mod tests;
