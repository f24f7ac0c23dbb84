//! The best point, how far each key may move from it, and which axis matters.

use std::cmp::Ordering;

use super::axis::{Axis, Domain};
use super::config::Method;
use super::design::Point;
use super::journal::{Record, Records};
use super::table::{Row, Stat, Table, runs_of};
use super::{Objective, Study};
use crate::stats;

/// What is said of a study.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What is recommended: once, or for each value of the axes that are given.
    pub choices: Vec<Choice>,
    /// For each objective, the share of its variance that each axis explains.
    pub effects: Vec<Effects>,
}

/// A recommendation.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The place of a row for each given axis that tells this choice from others; the labels.
    pub given: Vec<String>,
    /// The places of the recommended rows: one, or one for each value of the axes across.
    pub rows: Vec<usize>,
    /// Candidates as good as the best in the first objective, the chosen one among them.
    pub ties: usize,
    /// Of these, the recommended one among them, those that seeds cannot tell from it.
    pub alike: usize,
    /// The objective, by its place, that decided between those that were as good.
    pub decided: Option<usize>,
    /// Values of the axes across for which nothing meets the requirements: they do not count.
    pub hopeless: Vec<Vec<String>>,
    /// For each axis of a grid how far it may move, the others staying.
    pub margins: Vec<Option<Margin>>,
}

/// How far one axis may move from the recommended value.
#[derive(Clone, Debug, PartialEq)]
pub struct Margin {
    /// The first and the last value that will do.
    pub within: [String; 2],
    /// What happens at the next value below and above; none at the end of the axis.
    pub beyond: [Option<Beyond>; 2],
}

/// What happens at a value that will not do.
#[derive(Clone, Debug, PartialEq)]
pub struct Beyond {
    /// The value.
    pub label: String,
    /// The requirements that it breaks; else the objective is worse.
    pub broken: Vec<String>,
    /// The first objective there, as a share of that at the recommended point.
    pub ratio: Option<f64>,
}

/// Shares of variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// One for each axis: correlation ratio of the objective on the axis (first-order effect).
    pub axes: Vec<f64>,
    /// What no axis explains alone: interplay, and noise.
    pub rest: f64,
}

/// A value within this share of the recommended one will do.
const WILL_DO: f64 = 0.05;

impl Objective {
    /// Whether `a` is better than `b`.
    fn better(&self, a: f64, b: f64) -> bool {
        if self.larger { a > b } else { a < b }
    }

    /// The mean of a row.
    pub fn of(&self, row: &Row) -> Option<Stat> {
        row.stats[self.column]
    }

    /// The worst of some rows.
    pub fn worst(&self, table: &Table, rows: &[usize]) -> Option<Stat> {
        let stats = rows.iter().map(|row| self.of(&table.rows[*row]));
        stats.reduce(|a, b| Some(if self.better(a?.mean, b?.mean) { b? } else { a? })).flatten()
    }

    fn mean(&self, row: &Row) -> Option<f64> {
        self.of(row).map(|stat| stat.mean)
    }
}

/// How bad a point is, for a search that minimises: whatever breaks a requirement is worse than
/// all that does not.
pub(super) fn score(study: &Study, records: &Records, point: &Point) -> f64 {
    const WORST: f64 = 1e300;
    let Some(runs) = runs_of(study, records, point.number, None) else { return WORST };
    let Some(objective) = study.objectives.first() else { return WORST };
    let broken: usize = runs.iter().map(|run| run.broken.len()).sum();
    if !runs.iter().all(Record::is_good) {
        return WORST * (1.0 + broken as f64);
    }
    let values: Vec<f64> = runs.iter().filter_map(|run| run.values[objective.column]).collect();
    match (values.is_empty(), objective.larger) {
        (true, _) => WORST,
        (false, true) => -stats::mean(&values),
        (false, false) => stats::mean(&values),
    }
}

/// Marks the good rows that no other good row beats in all objectives.
pub(super) fn mark_front(study: &Study, rows: &mut [Row]) {
    let values: Vec<Option<Vec<f64>>> = rows
        .iter()
        .map(|row| match row.good && !study.objectives.is_empty() {
            true => study.objectives.iter().map(|objective| objective.mean(row)).collect(),
            false => None,
        })
        .collect();
    for (index, row) in rows.iter_mut().enumerate() {
        let Some(mine) = &values[index] else { continue };
        let beaten = values.iter().flatten().any(|other| {
            let pairs = || study.objectives.iter().zip(other.iter().zip(mine));
            pairs().all(|(objective, (other, mine))| !objective.better(*mine, *other))
                && pairs().any(|(objective, (other, mine))| objective.better(*other, *mine))
        });
        row.front = !beaten;
    }
}

impl Verdict {
    /// Judges a table.
    pub fn new(study: &Study, table: &Table) -> Verdict {
        let mut choices = Vec::new();
        let all: Vec<usize> = (0..table.rows.len()).collect();
        for (given, rows) in grouped(study, table, &study.config.given, &all) {
            let Some(mut choice) = choose(study, table, &rows) else { continue };
            if let ([row], Method::Grid) = (&choice.rows[..], study.config.method) {
                let margin = |axis: usize| margin(study, table, *row, axis);
                choice.margins = (0..study.axes.len()).map(margin).collect();
            }
            choices.push(Choice { given, ..choice });
        }
        let effects =
            study.objectives.iter().map(|objective| effects(study, table, objective)).collect();
        Verdict { choices, effects }
    }

    /// Whether a row is among the recommended ones.
    pub fn recommends(&self, row: usize) -> bool {
        self.choices.iter().any(|choice| choice.rows.contains(&row))
    }
}

/// The places of some rows, grouped by the values that they have on the axes of these names.
fn grouped(
    study: &Study,
    table: &Table,
    names: &[String],
    rows: &[usize],
) -> Vec<(Vec<String>, Vec<usize>)> {
    let axes: Vec<usize> =
        (0..study.axes.len()).filter(|axis| names.contains(&study.axes[*axis].name)).collect();
    let mut groups: Vec<(Vec<String>, Vec<usize>)> = Vec::new();
    for &index in rows {
        let row = &table.rows[index];
        let labels: Vec<String> =
            axes.iter().map(|axis| study.axes[*axis].key_of(&row.point.levels[*axis])).collect();
        match groups.iter_mut().find(|(known, _)| *known == labels) {
            Some((_, rows)) => rows.push(index),
            None => groups.push((labels, vec![index])),
        }
    }
    groups
}

/// The best candidate among some rows: by the first objective; among those within the tolerance of
/// it by the next, and so on.
fn choose(study: &Study, table: &Table, rows: &[usize]) -> Option<Choice> {
    let across = &study.config.across;
    let names = study.axes.iter().map(|axis| axis.name.clone());
    let others: Vec<String> = names.filter(|name| !across.contains(name)).collect();
    let good = |row: &usize| table.rows[*row].good;
    // what nothing helps against says nothing about what helps
    let of_across = grouped(study, table, across, rows);
    let (hopeless, rest): (Vec<_>, Vec<_>) =
        of_across.into_iter().partition(|(_, rows)| !rows.iter().any(good));
    let mut rest: Vec<usize> = rest.into_iter().flat_map(|(_, rows)| rows).collect();
    rest.sort_unstable();
    let candidates = grouped(study, table, &others, &rest);
    let candidates = candidates.into_iter().map(|(_, rows)| rows);
    let mut left: Vec<Vec<usize>> = candidates.filter(|rows| rows.iter().all(good)).collect();
    let (mut ties, mut decided) = (0, None);
    for (index, objective) in study.objectives.iter().enumerate() {
        let value = |rows: &Vec<usize>| objective.worst(table, rows).map(|stat| stat.mean);
        let values = left.iter().filter_map(value);
        let best = values.reduce(|a, b| if objective.better(b, a) { b } else { a })?;
        let slack = study.config.tolerance * best.abs();
        let before = left.len();
        left.retain(|rows| value(rows).is_some_and(|value| (value - best).abs() <= slack));
        match index {
            0 => ties = left.len(),
            _ if left.len() < before => decided = Some(index),
            _ => {}
        }
    }
    let rows = left.into_iter().next().filter(|_| !study.objectives.is_empty())?;
    let alike = match rows[..] {
        [row] => alike(study, table, row, &rest),
        _ => 0,
    };
    let hopeless = hopeless.into_iter().map(|(labels, _)| labels).collect();
    let margins = vec![None; study.axes.len()];
    Some(Choice { given: Vec::new(), rows, ties, alike, decided, hopeless, margins })
}

/// How many good rows cannot be told from the chosen one by the first objective: over the seeds that
/// both have, the difference is within its confidence interval.
fn alike(study: &Study, table: &Table, chosen: usize, rows: &[usize]) -> usize {
    let column = study.objectives[0].column;
    let chosen = &table.rows[chosen];
    let is_alike = |row: &&usize| {
        let row = &table.rows[**row];
        row.good && chosen.more_than(row, column).is_some_and(Stat::may_be_zero)
    };
    rows.iter().filter(is_alike).count()
}

/// How far an axis may move from the chosen row.
fn margin(study: &Study, table: &Table, chosen: usize, axis: usize) -> Option<Margin> {
    if study.axes[axis].ladder().is_some() {
        return None;
    }
    let objective = study.objectives.first()?;
    let mine = &table.rows[chosen];
    let value = objective.mean(mine)?;
    let factor = |row: &Row| study.axes[axis].key_of(&row.point.levels[axis]);
    // the rows that differ in this axis alone, in its order
    let line: Vec<&Row> = table
        .rows
        .iter()
        .filter(|row| {
            let others = (0..study.axes.len()).filter(|other| *other != axis);
            others.into_iter().all(|o| {
                study.axes[o].key_of(&row.point.levels[o])
                    == study.axes[o].key_of(&mine.point.levels[o])
            })
        })
        .collect();
    let at = line.iter().position(|row| factor(row) == factor(mine))?;
    let will_do = |row: &Row| {
        let near = objective.mean(row).is_some_and(|other| {
            let worse = if objective.larger { value - other } else { other - value };
            worse <= WILL_DO * value.abs()
        });
        row.good && near
    };
    let (mut first, mut last) = (at, at);
    while first > 0 && will_do(line[first - 1]) {
        first -= 1;
    }
    while last + 1 < line.len() && will_do(line[last + 1]) {
        last += 1;
    }
    let label = |row: &Row| row.point.levels[axis].label.clone();
    let beyond = |row: &&Row| Beyond {
        label: label(row),
        broken: row.broken().into_iter().map(str::to_owned).collect(),
        ratio: objective.mean(row).filter(|_| value != 0.0).map(|other| other / value),
    };
    let below = first.checked_sub(1).map(|below| beyond(&line[below]));
    let within = [label(line[first]), label(line[last])];
    Some(Margin { within, beyond: [below, line.get(last + 1).map(beyond)] })
}

/// Bins of an axis without a list of values.
const BINS: usize = 5;

/// The group of each row on an axis: its value, or of a range a fifth of the rows.
fn groups(axis: &Axis, rows: &[&Row], index: usize) -> Vec<String> {
    if !matches!(axis.domain, Domain::Range { .. }) {
        return rows.iter().map(|row| axis.key_of(&row.point.levels[index])).collect();
    }
    let number = |row: &Row| row.point.levels[index].quantity.map_or(0.0, |q| q.number);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| number(rows[*a]).total_cmp(&number(rows[*b])));
    let mut groups = vec![String::new(); rows.len()];
    for (rank, row) in order.into_iter().enumerate() {
        groups[row] = (rank * BINS / rows.len()).to_string();
    }
    groups
}

/// The share of an objective's variance between the groups of each axis: the correlation ratio,
/// which is the first-order sensitivity index where the points are a grid.
fn effects(study: &Study, table: &Table, objective: &Objective) -> Effects {
    let rows: Vec<&Row> = table.rows.iter().filter(|row| objective.mean(row).is_some()).collect();
    let values: Vec<f64> = rows.iter().filter_map(|row| objective.mean(row)).collect();
    let mean = stats::mean(&values);
    let total: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let share = |(index, axis): (usize, &Axis)| {
        if total <= 0.0 {
            return 0.0;
        }
        let groups = groups(axis, &rows, index);
        let mut names: Vec<&String> = groups.iter().collect();
        names.sort_unstable();
        names.dedup();
        let between: f64 = names
            .into_iter()
            .map(|name| {
                let of: Vec<f64> = groups
                    .iter()
                    .zip(&values)
                    .filter(|(group, _)| *group == name)
                    .map(|(_, value)| *value)
                    .collect();
                of.len() as f64 * (stats::mean(&of) - mean).powi(2)
            })
            .sum();
        between / total
    };
    let axes: Vec<f64> = study.axes.iter().enumerate().map(share).collect();
    let rest = if total > 0.0 { (1.0 - axes.iter().sum::<f64>()).max(0.0) } else { 0.0 };
    Effects { axes, rest }
}

impl Effects {
    /// The places of the axes, the one that matters most first.
    pub fn ranked(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        let by_share = |a: &usize, b: &usize| {
            self.axes[*b].partial_cmp(&self.axes[*a]).unwrap_or(Ordering::Equal)
        };
        order.sort_by(by_share);
        order
    }
}
