//! The plots of a study: what its table says, in the forms that `viz` draws.

use scenarios::study::answer;
use scenarios::study::axis::{Axis, Domain, Level};
use scenarios::study::judge::Verdict;
use scenarios::study::quantity::Unit;
use scenarios::study::scale::{Scaled, fitting};
use scenarios::study::table::{Row, Stat, Table};
use scenarios::study::{Objective, Study};
use viz::PlotError;
use viz::study::{
    Bar, BarKind, Bars, Baseline, Better, HeatMap, HeatPanel, LinePanel, LinePlot, LinePoint,
    Pareto, ParetoAxis, ParetoPoint, Series, Ticks, XAxis, XScale, bars_svg, heat_svg, lines_svg,
    pareto_svg,
};

use super::study_curves;

/// Points whose numbers stand in the picture.
const LABELS: usize = 40;
/// Panels of a picture.
const PANELS: usize = 3;

/// All plots of a study, as (file name, SVG).
pub(super) fn all(
    study: &Study,
    table: &Table,
    verdict: &Verdict,
) -> Result<Vec<(String, String)>, PlotError> {
    let mut plots = Vec::new();
    let pictures = Pictures { study, table, verdict };
    if study.is_about_failures() {
        if let Some(bars) = pictures.failures() {
            plots.push(("failures.svg".to_owned(), bars_svg(&bars)?));
        }
        return Ok(plots);
    }
    if let Some((first, second)) = pictures.main_axes() {
        plots.push(("heat.svg".to_owned(), heat_svg(&pictures.heat(first, second))?));
    }
    for axis in pictures.ranked().into_iter().take(PANELS) {
        if let Some(lines) = pictures.lines(axis) {
            let name = format!("lines-{}.svg", study.axes[axis].column());
            plots.push((name, lines_svg(&lines)?));
        }
    }
    if let Some(pareto) = pictures.pareto() {
        plots.push(("pareto.svg".to_owned(), pareto_svg(&pareto)?));
    }
    if let Some(bars) = pictures.sensitivity() {
        plots.push(("sensitivity.svg".to_owned(), bars_svg(&bars)?));
    }
    plots.extend(study_curves::all(&pictures)?);
    Ok(plots)
}

/// Where a row is on an axis.
type Place<'a> = Box<dyn Fn(&Row) -> Option<f64> + 'a>;

pub(super) struct Pictures<'a> {
    pub(super) study: &'a Study,
    pub(super) table: &'a Table,
    verdict: &'a Verdict,
}

fn better(objective: &Objective) -> Better {
    if objective.larger { Better::Higher } else { Better::Lower }
}

impl Pictures<'_> {
    pub(super) fn title(&self) -> String {
        answer::title(self.study).to_owned()
    }

    pub(super) fn scaled(&self, index: usize) -> Scaled<'_> {
        Scaled::new(self.study, self.table, index)
    }

    /// The axes that points differ in, the one that matters most first.
    fn ranked(&self) -> Vec<usize> {
        let axes = &self.study.axes;
        let order = match self.verdict.effects.first() {
            Some(effects) => effects.ranked(),
            None => (0..axes.len()).collect(),
        };
        let differs = |axis: &usize| {
            axes[*axis].ladder().is_none() && axes[*axis].domain.count().is_none_or(|n| n > 1)
        };
        order.into_iter().filter(differs).collect()
    }

    /// The two axes of the heat map: the two of a grid that matter most.
    fn main_axes(&self) -> Option<(usize, usize)> {
        if self.study.objectives.is_empty() {
            return None;
        }
        let listed = |axis: &usize| self.study.axes[*axis].domain.count().is_some();
        let mut ranked = self.ranked().into_iter().filter(listed);
        let (first, second) = (ranked.next()?, ranked.next()?);
        // in the order of the study
        Some((first.min(second), first.max(second)))
    }

    /// The row that slices of the space go through: the recommended one, or the first.
    pub(super) fn anchor(&self) -> Option<&Row> {
        let chosen = self.verdict.choices.first().and_then(|choice| choice.rows.first());
        self.table.rows.get(chosen.copied().unwrap_or(0))
    }

    /// The rows that have the anchor's values on all axes but these.
    pub(super) fn slice(&self, but: &[usize]) -> Vec<&Row> {
        let Some(anchor) = self.anchor() else { return Vec::new() };
        let same = |row: &&Row| {
            (0..self.study.axes.len())
                .filter(|axis| !but.contains(axis))
                .all(|axis| self.key(axis, row) == self.key(axis, anchor))
        };
        self.table.rows.iter().filter(same).collect()
    }

    pub(super) fn key(&self, axis: usize, row: &Row) -> String {
        self.study.axes[axis].key_of(&row.point.levels[axis])
    }

    /// The names of an axis' values, in order.
    pub(super) fn names(&self, axis: usize) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for row in &self.table.rows {
            let name = self.key(axis, row);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// What the slice holds fixed, in words.
    pub(super) fn fixed(&self, but: &[usize]) -> String {
        let Some(anchor) = self.anchor() else { return String::new() };
        let others = (0..self.study.axes.len())
            .filter(|axis| !but.contains(axis) && self.study.axes[*axis].ladder().is_none());
        let parts: Vec<String> = others
            .map(|axis| {
                self.study.axes[axis].in_words(&anchor.point.levels[axis], &self.study.axes)
            })
            .collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!("at {}", parts.join(", ")),
        }
    }

    fn heat(&self, first: usize, second: usize) -> HeatMap {
        let rows = self.slice(&[first, second]);
        let (xs, ys) = (self.names(first), self.names(second));
        let at = |row: &Row| {
            let x = xs.iter().position(|name| *name == self.key(first, row));
            let y = ys.iter().position(|name| *name == self.key(second, row));
            x.zip(y)
        };
        let objectives = self.study.objectives.iter().take(PANELS);
        let panels = objectives.map(|objective| {
            let scaled = self.scaled(objective.column);
            let mut cells = vec![vec![None; xs.len()]; ys.len()];
            let mut crossed = vec![vec![false; xs.len()]; ys.len()];
            for row in &rows {
                let Some((x, y)) = at(row) else { continue };
                cells[y][x] = scaled.of(row).map(|stat| stat.mean);
                crossed[y][x] = !row.good;
            }
            HeatPanel { title: label(&scaled), better: better(objective), cells, crossed }
        });
        let panels = panels.collect();
        let label = |axis: usize| axis_label(&self.study.axes[axis]);
        let subtitle = self.fixed(&[first, second]);
        HeatMap {
            title: self.title(),
            subtitle,
            panels,
            chosen: self.anchor().filter(|_| !self.verdict.choices.is_empty()).and_then(at),
            base: None,
            x: Ticks { label: label(first), names: xs },
            y: Ticks { label: label(second), names: ys },
        }
    }

    /// All columns that are drawn: objectives, or what a search found.
    fn drawn(&self) -> Vec<(Scaled<'_>, Better)> {
        let objectives = &self.study.objectives;
        objectives.iter().take(PANELS).map(|o| (self.scaled(o.column), better(o))).collect()
    }

    fn lines(&self, axis: usize) -> Option<LinePlot> {
        if let Some(ladder) = self.study.axes.iter().position(|axis| axis.ladder().is_some()) {
            return self.found(axis, ladder);
        }
        let of = &self.study.axes[axis];
        let sampled = matches!(of.domain, Domain::Range { .. });
        // the lines of another axis, the one that matters most of the rest
        let other = self.ranked().into_iter().find(|other| {
            *other != axis && self.study.axes[*other].domain.count().is_some_and(|n| n <= 8)
        });
        let other = other.filter(|_| !sampled);
        let free: Vec<usize> = std::iter::once(axis).chain(other).collect();
        let rows: Vec<&Row> = match sampled {
            true => self.table.rows.iter().collect(),
            false => self.slice(&free),
        };
        let drawn = self.drawn();
        if drawn.is_empty() || rows.len() < 2 {
            return None;
        }
        let (x, place) = self.scale(axis);
        let panels = drawn.iter().map(|(scaled, better)| {
            let series = self.series(&rows, other, |row| Some((place(row)?, scaled.of(row)?)));
            LinePanel { label: label(scaled), better: *better, series, ..LinePanel::default() }
        });
        Some(LinePlot {
            title: self.title(),
            subtitle: if sampled { "all points".to_owned() } else { self.fixed(&free) },
            panels: panels.collect(),
            chosen_x: self.anchor().filter(|_| !self.verdict.choices.is_empty()).and_then(&place),
            x,
            bare: false,
        })
    }

    /// The smallest value found, over another axis.
    fn found(&self, axis: usize, ladder: usize) -> Option<LinePlot> {
        let (x, place) = self.scale(axis);
        let number = |row: &Row| row.found.as_ref()?.1.quantity;
        let largest = self.table.rows.iter().filter_map(number).map(|q| q.number);
        let largest = largest.fold(0.0, f64::max);
        let of = &self.study.axes[ladder];
        let (unit, size) = fitting(of.unit.map_or("", Unit::suffix), largest);
        let unit = if of.unit == Some(Unit::Cells) { "cells" } else { unit };
        let other: Vec<usize> =
            self.ranked().into_iter().filter(|other| *other != axis && *other != ladder).collect();
        let name = |row: &Row| {
            let parts: Vec<String> = other.iter().map(|other| self.key(*other, row)).collect();
            parts.join(", ")
        };
        let point = |row: &Row| {
            let mean = number(row)?.number / size;
            Some((place(row)?, Stat { mean, ci95: None }))
        };
        let rows: Vec<&Row> = self.table.rows.iter().collect();
        let series = series_by(&rows, name, point);
        let label = format!("smallest {} ({unit})", of.name);
        Some(LinePlot {
            title: self.title(),
            subtitle: String::new(),
            panels: vec![LinePanel { label, series, ..LinePanel::default() }],
            chosen_x: None,
            x,
            bare: false,
        })
    }

    fn series(
        &self,
        rows: &[&Row],
        other: Option<usize>,
        point: impl Fn(&Row) -> Option<(f64, Stat)>,
    ) -> Vec<Series> {
        let name = |row: &Row| match other {
            Some(other) => {
                let axis = &self.study.axes[other];
                format!("{} = {}", answer::short(&axis.name), self.key(other, row))
            }
            None => String::new(),
        };
        series_by(rows, name, point)
    }

    /// The scale of an axis, and where a row is on it.
    fn scale(&self, axis: usize) -> (XAxis, Place<'_>) {
        let of = &self.study.axes[axis];
        let label = axis_label(of);
        let number = move |row: &Row| Some(level(row, axis)?.quantity?.number);
        if of.unit.is_none() {
            let names = self.names(axis);
            let at = names.clone();
            let place = move |row: &Row| {
                Some(at.iter().position(|name| *name == self.key(axis, row))? as f64)
            };
            return (XAxis { label, scale: XScale::Names(names) }, Box::new(place));
        }
        let mut ticks: Vec<(f64, String)> = Vec::new();
        if of.domain.count().is_some() {
            for row in &self.table.rows {
                let tick = number(row).map(|number| (number, self.key(axis, row)));
                ticks.extend(tick.filter(|tick| !ticks.contains(tick)));
            }
        }
        (XAxis { label, scale: XScale::Numbers { log: of.log, ticks } }, Box::new(number))
    }

    fn pareto(&self) -> Option<Pareto> {
        let [first, second, ..] = &self.study.objectives[..] else { return None };
        let (x, y) = (self.scaled(first.column), self.scaled(second.column));
        let rows: Vec<&Row> = self.table.rows.iter().chain(&self.table.base).collect();
        let mut places = Vec::new();
        let mut points: Vec<ParetoPoint> = Vec::new();
        for row in rows {
            let (Some(x), Some(y)) = (x.of(row), y.of(row)) else { continue };
            places.push(row.point.number);
            let feasible = row.good && row.point.number > 0;
            points.push(ParetoPoint { x: x.mean, y: y.mean, feasible, ..ParetoPoint::default() });
        }
        // the front of these two objectives, whatever others there are
        let no_worse = |objective: &Objective, a: f64, b: f64| match objective.larger {
            true => a >= b,
            false => a <= b,
        };
        let on_front: Vec<bool> = points
            .iter()
            .map(|mine| {
                let beats = |other: &&ParetoPoint| {
                    other.feasible
                        && no_worse(first, other.x, mine.x)
                        && no_worse(second, other.y, mine.y)
                        && (other.x, other.y) != (mine.x, mine.y)
                };
                mine.feasible && !points.iter().any(|other| beats(&other))
            })
            .collect();
        let few = on_front.iter().filter(|on_front| **on_front).count() <= LABELS;
        for ((point, on_front), number) in points.iter_mut().zip(on_front).zip(&places) {
            point.on_front = on_front;
            point.label = (on_front && few).then(|| number.to_string());
        }
        let find = |number: u32| places.iter().position(|place| *place == number);
        let chosen = self.anchor().filter(|_| !self.verdict.choices.is_empty());
        Some(Pareto {
            title: self.title(),
            subtitle: String::new(),
            x: ParetoAxis { label: label(&x), better: better(first) },
            y: ParetoAxis { label: label(&y), better: better(second) },
            points,
            chosen: chosen.and_then(|row| find(row.point.number)),
            base: find(0),
        })
    }

    fn sensitivity(&self) -> Option<Bars> {
        let effects = self.verdict.effects.first()?;
        let objective = self.study.objectives.first()?;
        let column = &self.study.columns[objective.column];
        let bar = |label: String, share: f64, kind| Bar {
            label,
            value: Some(share),
            note: String::new(),
            kind,
        };
        let ranked = effects.ranked().into_iter();
        let mut bars: Vec<Bar> = ranked
            .map(|axis| (axis, effects.axes[axis]))
            .map(|(axis, share)| bar(self.study.axes[axis].name.clone(), share, BarKind::Plain))
            .collect();
        bars.push(bar("interplay and noise".to_owned(), effects.rest, BarKind::Rest));
        Some(Bars {
            title: self.title(),
            subtitle: format!("what {} depends on", column.key),
            axis: "share of variance".to_owned(),
            shares: true,
            bars,
            baseline: None,
        })
    }

    fn failures(&self) -> Option<Bars> {
        let objective = self.study.objectives.first()?;
        let scaled = self.scaled(objective.column);
        let mean = |row: &Row| scaled.of(row).map(|stat| stat.mean);
        let whole = self.table.rows.first().and_then(mean);
        let mut rows: Vec<&Row> = self.table.rows.iter().skip(1).collect();
        let value = |row: &Row| match (row.outcome(), mean(row)) {
            ("completed", Some(mean)) if objective.larger => mean,
            ("completed", Some(mean)) => -mean,
            _ => f64::NEG_INFINITY,
        };
        rows.sort_by(|a, b| value(a).total_cmp(&value(b)));
        let bar = |row: &&Row| {
            let label = row.point.levels.iter().map(|level| level.label.as_str());
            let done = row.outcome() == "completed";
            Bar {
                label: label.collect::<Vec<_>>().join(", "),
                value: mean(row),
                note: if done { String::new() } else { row.outcome().replace('_', " ") },
                kind: if row.good { BarKind::Plain } else { BarKind::Broken },
            }
        };
        Some(Bars {
            title: self.title(),
            subtitle: "one failure at a time, the worst first".to_owned(),
            axis: label(&scaled),
            shares: false,
            bars: rows.iter().map(bar).collect(),
            baseline: whole.map(|value| Baseline { label: "nothing fails".to_owned(), value }),
        })
    }
}

/// Rows as lines, one for each name.
fn series_by(
    rows: &[&Row],
    name: impl Fn(&Row) -> String,
    point: impl Fn(&Row) -> Option<(f64, Stat)>,
) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let Some((x, stat)) = point(row) else { continue };
        let (name, point) = (name(row), LinePoint { x, mean: stat.mean, half_width: stat.ci95 });
        match series.iter_mut().find(|known| known.name == name) {
            Some(known) => known.points.push(point),
            None => series.push(Series { name, points: vec![point] }),
        }
    }
    series
}

/// What stands beside an axis of a plot.
fn label(scaled: &Scaled<'_>) -> String {
    scaled.with_unit(&scaled.column.key)
}

fn level(row: &Row, axis: usize) -> Option<&Level> {
    row.point.levels.get(axis)
}

fn axis_label(axis: &Axis) -> String {
    match &axis.domain {
        Domain::Times { .. } => format!("{} (times)", axis.name),
        _ => axis.name.clone(),
    }
}
