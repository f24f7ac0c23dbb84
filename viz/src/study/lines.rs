//! Lines with error bars: objectives over one key.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Better;
use super::axis::Axis;
use super::page::{page, prepare, usable};
use crate::error::PlotError;
use crate::legend::{self, Entry};
use crate::marker::{Marker, Shape};
use crate::panel::{BOTTOM, LEFT, MARGIN};
use crate::style::{
    Area, DASH, FADED, HEADER, INK, PALETTE, WIDTH, dashed, draw_note, fit, fit_ends, printable,
    style_mesh, text, width,
};

/// Space for the legend.
const RIGHT: i32 = 250;
/// Longest name in it.
const NAME: i32 = 190;
/// Space above the frame of a panel.
const TOP: i32 = 30;
/// Below everything.
const BELOW: i32 = 8;
/// More panels than this stand in two columns.
const STACKED: usize = 3;
/// Half the width of the ends of an error bar.
const CAP: i32 = 4;
/// Furthest apart that marks of the same name stand.
const APART: f64 = 14.0;

/// Objectives over one key, one panel each, with one legend for all.
#[derive(Clone, Debug, Default)]
pub struct LinePlot {
    /// Above everything.
    pub title: String,
    /// Below the title; may be empty.
    pub subtitle: String,
    /// The key.
    pub x: XAxis,
    /// One for each objective.
    pub panels: Vec<LinePanel>,
    /// The recommended value of the key: a dashed line.
    pub chosen_x: Option<f64>,
    /// Lines without marks at their points, which are many; values need not begin at 0.
    pub bare: bool,
}

/// The axis of a key.
#[derive(Clone, Debug, Default)]
pub struct XAxis {
    /// The key and its unit.
    pub label: String,
    /// Its values.
    pub scale: XScale,
}

/// How values of a key lie on an axis.
#[derive(Clone, Debug)]
pub enum XScale {
    /// By their size.
    Numbers {
        /// Equal factors take equal space; values that are not positive are left out.
        log: bool,
        /// Where there is a tick, and its text. Round numbers if empty.
        ticks: Vec<(f64, String)>,
    },
    /// Side by side: `x` is the place of the name.
    Names(Vec<String>),
}

impl Default for XScale {
    fn default() -> Self {
        XScale::Numbers { log: false, ticks: Vec::new() }
    }
}

/// One objective.
#[derive(Clone, Debug, Default)]
pub struct LinePanel {
    /// Above it, what tells it from others of the same objective; may be empty.
    pub heading: String,
    /// Equal factors of the objective take equal space; values that are not positive are left out.
    pub log: bool,
    /// The objective and its unit.
    pub label: String,
    /// Which values are wanted.
    pub better: Better,
    /// The lines. Those of the same name have the same colour in all panels.
    pub series: Vec<Series>,
}

/// A line.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// In the legend; empty if there is only one.
    pub name: String,
    /// In any order.
    pub points: Vec<LinePoint>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinePoint {
    /// Value of the key, or the place of its name.
    pub x: f64,
    /// Mean of the objective.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval, if known.
    pub half_width: Option<f64>,
}

/// One SVG of lines with error bars, 1200 wide. Over names there are marks only, side by side.
pub fn lines_svg(input: &LinePlot) -> Result<String, PlotError> {
    prepare();
    let plot = Plot::new(input);
    page(plot.height(), [&input.title, &input.subtitle], |root| {
        for index in 0..input.panels.len() {
            plot.draw_panel(root, index)?;
        }
        if input.panels.is_empty() {
            draw_note(root, "nothing to show", (WIDTH as i32 / 2, plot.height() / 2))?;
        }
        let extent = [HEADER as i32 + TOP + 10, plot.height() - BOTTOM as i32];
        legend::draw(root, &plot.entries(), WIDTH as i32 - RIGHT + 20, extent)
    })
}

/// Panels with one axis of the key.
struct Plot<'a> {
    input: &'a LinePlot,
    /// Names of lines, in the order of their colours.
    names: Vec<&'a str>,
    x: Axis,
    columns: usize,
    /// Of a panel, without the title of the key.
    size: (i32, i32),
}

impl<'a> Plot<'a> {
    fn new(input: &'a LinePlot) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for line in input.panels.iter().flat_map(|panel| &panel.series) {
            if !names.contains(&line.name.as_str()) {
                names.push(&line.name);
            }
        }
        let columns = if input.panels.len() > STACKED { 2 } else { 1 };
        let wide = (WIDTH as i32 - RIGHT) / columns as i32;
        let high = match input.panels.len() {
            0 | 1 => 480,
            2 => 320,
            _ => 260,
        };
        let points = input.panels.iter().flat_map(|panel| &panel.series).flat_map(usable_points);
        let keys = points.map(|point| point.x).chain(input.chosen_x.and_then(usable));
        let x = Axis::of_key(&input.x.scale, keys).thinned(wide - LEFT as i32);
        Plot { input, names, x, columns, size: (wide, high) }
    }

    fn height(&self) -> i32 {
        let rows = self.input.panels.len().div_ceil(self.columns).max(1) as i32;
        HEADER as i32 + rows * self.size.1 + BOTTOM as i32 / 2 + BELOW
    }

    fn draw_panel(&self, root: &Area<'_>, index: usize) -> Result<(), PlotError> {
        let panel = &self.input.panels[index];
        let (wide, high) = self.size;
        let row = (index / self.columns) as i32;
        let corner = ((index % self.columns) as i32 * wide, HEADER as i32 + row * high);
        // the lowest panels have the title of the key
        let lowest = index + self.columns >= self.input.panels.len();
        let bottom = BOTTOM / 2 + if lowest { BOTTOM / 2 } else { 0 };
        let size = (wide as u32, high as u32 + bottom - BOTTOM / 2);
        let area = root.clone().shrink((corner.0 as u32, corner.1 as u32), size);
        // a curve's form counts, not its height
        let y = value_axis(panel, !self.input.bare);
        let mut chart = ChartBuilder::on(&area)
            .margin_top(TOP)
            .margin_left(MARGIN)
            .margin_bottom(BELOW)
            .set_label_area_size(LabelAreaPosition::Left, LEFT - MARGIN)
            .set_label_area_size(LabelAreaPosition::Bottom, bottom)
            .build_cartesian_2d(self.x.clone(), y.clone())?;
        let title = text(15.0, INK, FontStyle::Normal);
        let labels: [&dyn Fn(&f64) -> String; 2] = [&|at| self.x.label(*at), &|at| y.label(*at)];
        let mut mesh = chart.configure_mesh();
        style_mesh(&mut mesh);
        mesh.x_label_formatter(labels[0]).y_label_formatter(labels[1]).y_desc(fit(
            &printable(&panel.label),
            &title,
            high - TOP - BELOW,
        ));
        if lowest {
            mesh.x_desc(fit(&printable(&self.input.x.label), &title, wide - LEFT as i32));
        }
        mesh.draw()?;
        let place = |x: f64, value: f64| Some(chart.backend_coord(&(self.x.at(x)?, y.at(value)?)));
        let [[left, right], ends] = [self.x.ends(), y.ends()];
        let from = chart.backend_coord(&(left, ends[1]));
        let to = chart.backend_coord(&(right, ends[0]));
        let chosen = self.input.chosen_x.and_then(|x| self.x.at(x));
        let chosen = chosen.map(|x| chart.backend_coord(&(x, ends[0])).0);
        draw_notes(root, panel, chosen, [from, to])?;
        // the first line comes last, on top
        for line in panel.series.iter().rev() {
            self.draw_line(root, line, to.0 - from.0, &place)?;
        }
        if panel.series.iter().all(|line| usable_points(line).next().is_none()) {
            draw_note(root, "no value", ((from.0 + to.0) / 2, (from.1 + to.1) / 2))?;
        }
        Ok(())
    }

    fn draw_line(
        &self,
        root: &Area<'_>,
        line: &Series,
        length: i32,
        place: &impl Fn(f64, f64) -> Option<(i32, i32)>,
    ) -> Result<(), PlotError> {
        let index = self.names.iter().position(|name| *name == line.name).unwrap_or(0);
        let stroke = color(index).stroke_width(2);
        let mut points: Vec<LinePoint> = usable_points(line).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let mut aside = 0;
        if let XScale::Names(names) = &self.input.x.scale {
            let count = self.names.len() as f64;
            let slot = f64::from(length) / names.len().max(1) as f64;
            let apart = (0.7 * slot / count).min(APART);
            aside = ((index as f64 - (count - 1.0) / 2.0) * apart) as i32;
        } else {
            let pixels: Vec<_> = points.iter().filter_map(|p| place(p.x, p.mean)).collect();
            if pixels.len() > 1 {
                root.draw(&PathElement::new(pixels, stroke))?;
            }
        }
        for point in points {
            let Some((x, y)) = place(point.x, point.mean) else { continue };
            let x = x + aside;
            let half = point.half_width.unwrap_or(0.0);
            let ends = [point.mean - half, point.mean + half].map(|value| place(point.x, value));
            if let ([Some((_, low)), Some((_, high))], true) = (ends, half > 0.0) {
                let bar = color(index).stroke_width(1);
                root.draw(&PathElement::new([(x, low), (x, high)], bar))?;
                for y in [low, high] {
                    root.draw(&PathElement::new([(x - CAP, y), (x + CAP, y)], bar))?;
                }
            }
            if !self.input.bare {
                marker(index).draw(root, (x, y))?;
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<Entry> {
        let lines = !matches!(self.input.x.scale, XScale::Names(_));
        let named = self.names.iter().enumerate().filter(|(_, name)| !name.is_empty());
        let style = text(15.0, INK, FontStyle::Normal);
        let mut entries: Vec<Entry> = named
            .map(|(index, name)| Entry {
                line: lines.then(|| color(index).stroke_width(2)),
                marker: (!self.input.bare).then(|| marker(index)),
                label: fit_ends(&printable(name), &style, NAME),
                detail: String::new(),
            })
            .collect();
        let all = self.input.panels.iter().flat_map(|panel| &panel.series).flat_map(usable_points);
        if all.into_iter().any(|point| point.half_width.is_some()) {
            let label = "bars: 95 % confidence".to_owned();
            entries.push(Entry { line: None, marker: None, label, detail: String::new() });
        }
        entries
    }
}

/// The points that can be drawn; so can their intervals.
fn usable_points(line: &Series) -> impl Iterator<Item = LinePoint> + '_ {
    line.points.iter().filter_map(|point| {
        let (x, mean) = (usable(point.x)?, usable(point.mean)?);
        let half_width = point.half_width.and_then(usable).filter(|half| *half >= 0.0);
        Some(LinePoint { x, mean, half_width })
    })
}

/// The axis of an objective, with room for the intervals; with `zero`, from 0 on where that fits.
fn value_axis(panel: &LinePanel, zero: bool) -> Axis {
    let points = panel.series.iter().flat_map(usable_points);
    let ends = points.flat_map(|point| {
        let half = point.half_width.unwrap_or(0.0);
        [point.mean - half, point.mean + half]
    });
    match panel.log {
        true => Axis::logarithmic(ends.collect::<Vec<_>>()),
        false => Axis::linear(ends.collect::<Vec<_>>(), zero),
    }
}

/// Above a panel: its heading, which values are wanted, and the recommended one, as a dashed line
/// too.
fn draw_notes(
    root: &Area<'_>,
    panel: &LinePanel,
    chosen: Option<i32>,
    [from, to]: [(i32, i32); 2],
) -> Result<(), PlotError> {
    let style = text(14.0, FADED, FontStyle::Normal);
    let y = from.1 - 11;
    // they are kept out of each other's way
    let titled = !panel.heading.is_empty();
    let aside = titled || chosen.is_some_and(|x| x < (from.0 + to.0) / 2);
    let (side, at) = if aside { (HPos::Right, to.0) } else { (HPos::Left, from.0) };
    let note = match panel.better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
        Better::Neither => "",
    };
    root.draw_text(note, &style.pos(Pos::new(side, VPos::Center)), (at, y))?;
    if titled {
        let bold = text(15.0, INK, FontStyle::Bold);
        let room = to.0 - from.0 - width(note, &style) - 12;
        let heading = fit(&printable(&panel.heading), &bold, room);
        root.draw_text(&heading, &bold.pos(Pos::new(HPos::Left, VPos::Center)), (from.0, y))?;
    }
    if let Some(x) = chosen {
        dashed(root, [(x, from.1), (x, to.1)], INK.stroke_width(1), DASH)?;
        let style = text(14.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Center, VPos::Center));
        let half = width("recommended", &style) / 2;
        let x = x.clamp(from.0 + half, (to.0 - half).max(from.0 + half));
        root.draw_text("recommended", &style, (x, y))?;
    }
    Ok(())
}

fn color(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

fn marker(index: usize) -> Marker {
    // another form when the colours begin again
    let shape = Shape::USUAL[index / PALETTE.len() % Shape::USUAL.len()];
    Marker { shape, color: color(index), hollow: false }
}
