//! Real logs of nccl-tests, as the reader has them, against a recount that knows of rows alone. The
//! logs are found through `ROCESIM_REFERENCE`.

mod common;

use std::path::{Path, PathBuf};

use common::{reference, say};
use validation::{Row, Table, Timing, read_tables};

/// One row: size, count, then time in microseconds, algbw, busbw and what was wrong, twice.
#[derive(Debug, PartialEq)]
struct Plain {
    size: u64,
    count: u64,
    numbers: [Option<f64>; 8],
}

/// Every row ends in eight cells of numbers, and has its type after size and count.
fn recount(text: &str) -> Vec<Plain> {
    let number = |word: &&str| word.parse::<f64>().ok();
    let row = |line: &str| {
        let line = line.replace("[0]", " ");
        let words: Vec<&str> = line.split_whitespace().collect();
        let kind = words.iter().position(|word| matches!(*word, "float" | "double" | "half"))?;
        let (head, tail) = (words.get(kind.checked_sub(2)?..kind)?, &words[kind + 1..]);
        let cells = tail.get(tail.len().checked_sub(8)?..)?;
        let numbers: Vec<Option<f64>> = cells.iter().map(number).collect();
        let valid = cells.iter().all(|word| *word == "N/A" || number(word).is_some());
        valid.then_some(())?;
        let [size, count] = [head[0].parse().ok()?, head[1].parse().ok()?];
        Some(Plain { size, count, numbers: numbers.try_into().ok()? })
    };
    text.lines().filter_map(row).collect()
}

/// The same of what was read.
fn plain(row: &Row) -> Plain {
    let cells = |timing: Option<Timing>| match timing {
        None => [None; 4],
        Some(timing) => [
            // as printed: at most two decimals
            Some((timing.time_s * 1e8).round() / 100.0),
            Some(timing.algbw_gbytes_per_s),
            Some(timing.busbw_gbytes_per_s),
            timing.wrong,
        ],
    };
    let numbers = [cells(row.out_of_place), cells(row.in_place)].concat();
    Plain { size: row.bytes, count: row.count, numbers: numbers.try_into().unwrap() }
}

fn logs(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "log" || end == "txt"))
        .collect();
    files.sort();
    files
}

/// busbw / algbw is that of the operation, within half of the last of two decimals.
fn check_factor(table: &Table, name: &str) -> usize {
    let Some((op, ranks)) = table.op.zip(table.ranks) else { return 0 };
    let timings = table.rows.iter().flat_map(|row| [row.out_of_place, row.in_place]).flatten();
    let factor = op.bus_factor(ranks);
    timings
        .inspect(|timing| {
            let off = timing.busbw_gbytes_per_s - factor * timing.algbw_gbytes_per_s;
            let most = if timing.algbw_gbytes_per_s < 1000.0 { 0.0051 } else { 0.051 };
            assert!(off.abs() <= most * (1.0 + factor), "{name}: {timing:?}, factor {factor}");
        })
        .count()
}

/// The mean of the rows is what the log states, unless some of its rows are not there.
fn check_average(table: &Table, name: &str) -> bool {
    let Some((stated, mean)) = table.average_busbw.zip(table.mean_busbw()) else { return false };
    let is_cut = ["trunc", "1row", "fragments"].iter().any(|sign| name.contains(sign));
    assert!(is_cut || (stated - mean).abs() <= 0.006, "{name}: {stated}, but the mean is {mean}");
    !is_cut
}

#[test]
fn rows_factors_and_averages_are_those_of_real_logs() {
    let Some(folder) = reference("nccl-logs") else { return };
    let (mut files, mut rows, mut factors, mut averages) = (0, 0, 0, 0);
    for path in logs(&folder).into_iter().chain(logs(&folder.join("fragments"))) {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let tables = read_tables(&path).unwrap_or_else(|error| panic!("{error}"));
        let read: Vec<Plain> = tables.iter().flat_map(|table| &table.rows).map(plain).collect();
        assert_eq!(read, recount(&text), "{name}");
        for table in &tables {
            factors += check_factor(table, &name);
            averages += usize::from(check_average(table, &name));
            let op = table.op.map_or("?", |op| op.name());
            say(&format!("{name}: {op} {:?} {:?}", table.ranks, table.hosts));
            table.warnings.iter().for_each(|warning| say(&format!("  {warning:?}")));
        }
        (files, rows) = (files + 1, rows + read.len());
    }
    say(&format!("{files} files, {rows} rows, {factors} factors, {averages} averages"));
    assert!(files >= 34 && rows >= 450 && factors >= 700 && averages >= 20);
}
