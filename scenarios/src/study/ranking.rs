//! The answer of a study in which one axis competes and all others are given, such as congestion
//! controls under many kinds of traffic: who is best where, and on the whole.

use super::answer::{WIDTH, short};
use super::judge::Verdict;
use super::scale::Scaled;
use super::table::{Row, Table};
use super::{Objective, Study};
use crate::expect;
use crate::text;

/// Up to so many recommendations are told one by one.
const FEW: usize = 4;
/// Objectives that have a table.
const TABLES: usize = 3;

/// The axis that competes, if there is one and there are too many recommendations to read.
pub(super) fn axis(study: &Study, verdict: &Verdict) -> Option<usize> {
    let config = &study.config;
    let free = |axis: &usize| {
        let axis = &study.axes[*axis];
        !config.given.contains(&axis.name) && axis.domain.count() != Some(1)
    };
    let mut free = (0..study.axes.len()).filter(free);
    let axis = free.next()?;
    let one = free.next().is_none() && study.axes[axis].domain.count().is_some();
    (one && config.across.is_empty() && verdict.choices.len() > FEW).then_some(axis)
}

/// Rows that differ in the axis that competes, in the order of its values.
struct Contest<'a> {
    /// The values of the other axes.
    given: Vec<&'a str>,
    /// One for each value; none where there is no such row.
    rows: Vec<Option<&'a Row>>,
}

/// What is told: the ranking by the first objective, then a table for each.
pub(super) fn told(study: &Study, table: &Table, axis: usize) -> String {
    let (names, contests) = contests(study, table, axis);
    let mut out = String::new();
    if let Some(objective) = study.objectives.first() {
        out += &ranking(study, objective, &names, &contests);
    }
    for objective in study.objectives.iter().take(TABLES) {
        out += &matrix(study, table, objective, axis, (&names, &contests));
    }
    out
}

fn contests<'a>(study: &Study, table: &'a Table, axis: usize) -> (Vec<String>, Vec<Contest<'a>>) {
    let key = |row: &Row| study.axes[axis].key_of(&row.point.levels[axis]);
    let mut names: Vec<String> = Vec::new();
    for name in table.rows.iter().map(key) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut contests: Vec<Contest<'a>> = Vec::new();
    for row in &table.rows {
        let others = row.point.levels.iter().enumerate().filter(|(place, _)| *place != axis);
        let given: Vec<&str> = others.map(|(_, level)| level.label.as_str()).collect();
        let place = contests.iter().position(|contest| contest.given == given);
        let place = place.unwrap_or_else(|| {
            contests.push(Contest { given, rows: vec![None; names.len()] });
            contests.len() - 1
        });
        if let Some(at) = names.iter().position(|name| *name == key(row)) {
            contests[place].rows[at] = Some(row);
        }
    }
    (names, contests)
}

impl Contest<'_> {
    /// By value: the mean of an objective where all requirements hold.
    fn values(&self, objective: &Objective) -> Vec<Option<f64>> {
        let value = |row: &Row| objective.of(row).filter(|_| row.good).map(|stat| stat.mean);
        self.rows.iter().map(|row| row.and_then(value)).collect()
    }

    /// The best of these.
    fn best(&self, objective: &Objective) -> Option<f64> {
        let values = self.values(objective).into_iter().flatten();
        values.reduce(|a, b| if objective.larger { a.max(b) } else { a.min(b) })
    }
}

/// How far each is from the best, the nearest first.
fn ranking(
    study: &Study,
    objective: &Objective,
    names: &[String],
    contests: &[Contest<'_>],
) -> String {
    let standing = |place: usize| {
        let (mut wins, mut logs) = (0, Vec::new());
        for contest in contests {
            let (Some(value), Some(best)) =
                (contest.values(objective)[place], contest.best(objective))
            else {
                continue;
            };
            wins += usize::from(value == best);
            if value > 0.0 && best > 0.0 {
                logs.push((value / best).ln());
            }
        }
        let ratio = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
        (place, ratio, wins, logs.len())
    };
    let mut standings: Vec<_> = (0..names.len()).map(standing).collect();
    let none = |count: usize| count == 0;
    standings.sort_by(|a, b| {
        let order = a.1.total_cmp(&b.1);
        none(a.3).cmp(&none(b.3)).then(if objective.larger { order.reverse() } else { order })
    });
    let key = &study.columns[objective.column].key;
    let mut rows = vec![vec![
        String::new(),
        "x the best".to_owned(),
        "best in".to_owned(),
        "meets requirements in".to_owned(),
    ]];
    for (place, ratio, wins, count) in standings {
        let good = contests.iter().filter(|c| c.rows[place].is_some_and(|row| row.good)).count();
        let ratio = if none(count) { "-".to_owned() } else { format!("{ratio:.2}") };
        let of = |count: usize| format!("{count} of {}", contests.len());
        rows.push(vec![names[place].clone(), ratio, of(wins), of(good)]);
    }
    let head = format!("ranking by {key} (geometric mean over {} cases)", contests.len());
    format!("{head}\n{}", text::table_by(&rows, |column| column > 0))
}

/// An objective: a line for each case, a column for each value.
fn matrix(
    study: &Study,
    table: &Table,
    objective: &Objective,
    axis: usize,
    (names, contests): (&[String], &[Contest<'_>]),
) -> String {
    let scaled = Scaled::new(study, table, objective.column);
    let others = || study.axes.iter().enumerate().filter(|(place, _)| *place != axis);
    let mut header: Vec<String> = others().map(|(_, axis)| short(&axis.name).to_owned()).collect();
    let given = header.len();
    header.extend(names.iter().map(|name| format!("{name} ")));
    let mut rows = vec![header];
    for contest in contests {
        let best = contest.best(objective);
        let mut cells: Vec<String> =
            contest.given.iter().map(|label| (*label).to_owned()).collect();
        cells.extend(contest.rows.iter().map(|row| {
            let stat = row.and_then(|row| Some((row.good, objective.of(row)?)));
            let Some((good, stat)) = stat else { return "- ".to_owned() };
            let mark = match (good, Some(stat.mean) == best) {
                (false, _) => '!',
                (true, true) => '*',
                (true, false) => ' ',
            };
            format!("{}{mark}", expect::written("", scaled.scaled(stat).mean))
        }));
        rows.push(cells);
    }
    let key = scaled.with_unit(&study.columns[objective.column].key);
    let what = short(&study.axes[axis].name);
    let head = format!("{key} by {what}; * is the best of its line, ! breaks a requirement");
    format!("\n{head}\n{}", blocks(&rows, given))
}

/// A table with the first `given` columns again beside each part that a line has room for.
fn blocks(rows: &[Vec<String>], given: usize) -> String {
    let width =
        |column: usize| 2 + rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let all = rows[0].len();
    let room = WIDTH.saturating_sub((0..given).map(width).sum());
    let widest = (given..all).map(width).max().unwrap_or(1);
    let columns: Vec<usize> = (given..all).collect();
    let block = |columns: &[usize]| {
        let part = |row: &Vec<String>| {
            row[..given].iter().chain(columns.iter().map(|at| &row[*at])).cloned().collect()
        };
        text::table_by(&rows.iter().map(part).collect::<Vec<_>>(), |column| column >= given)
    };
    columns.chunks((room / widest).max(1)).map(block).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_is_cut_into_blocks() {
        let row = |load: &str, cell: &str| -> Vec<String> {
            std::iter::once(load).chain(std::iter::repeat_n(cell, 10)).map(str::to_owned).collect()
        };
        let rows = [row("load", "dcqcn-paper "), row("30 %", "12.57*")];
        // 98 - 6 characters, 14 for each of ten: blocks of six and four
        let text = blocks(&rows, 1);
        let counts: Vec<usize> = text.lines().map(|line| line.matches("dcqcn").count()).collect();
        assert_eq!(counts, [6, 0, 0, 4, 0]);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.matches("30 %").count(), 2);
    }
}
