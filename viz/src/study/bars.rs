//! Horizontal bars: which key matters, which failure hurts.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::page::{number, page, prepare, usable};
use crate::error::PlotError;
use crate::panel::BOTTOM;
use crate::scale::{PERCENT, percent};
use crate::style::{
    Area, DASH, FADED, HEADER, INK, PALETTE, STRIPE, WIDTH, dashed, draw_note, fit, fit_ends,
    printable, style_mesh, text, width,
};

/// Bars drawn; the others are counted.
const SHOWN: usize = 60;
/// Height of a row.
const ROW: i32 = 24;
/// Height of its bar.
const BAR: i32 = 15;
/// Space above the rows, for what the dashed line means.
const TOP: i32 = HEADER as i32 + 30;
/// Space below everything.
const BELOW: u32 = 8;
/// Space at both sides.
const MARGIN: i32 = 24;
/// Longest label.
const LABEL: i32 = 380;
/// Longest number and note behind a bar.
const NOTE: i32 = 330;
/// A requirement is broken.
const BROKEN: RGBColor = RGBColor(0xB8, 0x35, 0x2A);
/// What is left over.
const REST: RGBColor = RGBColor(0xA8, 0xA8, 0xA8);

/// A row for each value, in the order given.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Above everything.
    pub title: String,
    /// Below the title; may be empty.
    pub subtitle: String,
    /// What the values are, and their unit (`%` with `shares`).
    pub axis: String,
    /// Values are shares of 1, shown in percent.
    pub shares: bool,
    /// From top to bottom; more than 60 are counted.
    pub bars: Vec<Bar>,
    /// A dashed line to compare with.
    pub baseline: Option<Baseline>,
}

/// One bar.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// To the left of it.
    pub label: String,
    /// Its length; without, only `note` is shown.
    pub value: Option<f64>,
    /// Behind the number, such as a confidence interval or `deadlock`; may be empty.
    pub note: String,
    /// Its colour.
    pub kind: BarKind,
}

/// What a bar stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarKind {
    /// Blue.
    #[default]
    Plain,
    /// A requirement is broken: red.
    Broken,
    /// What is left over, such as interplay and noise: grey.
    Rest,
    /// One of several that stand beside each other again and again: its own colour, by its place.
    Of(usize),
}

/// A value to compare with.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// What it is.
    pub label: String,
    /// In the unit of the bars.
    pub value: f64,
}

/// One SVG of horizontal bars from 0 on, 1200 wide.
pub fn bars_svg(input: &Bars) -> Result<String, PlotError> {
    prepare();
    let table = Table::new(input);
    let height = table.bottom() + (BOTTOM + BELOW) as i32;
    page(height, [&input.title, &input.subtitle], |root| table.draw(root))
}

/// Rows as they are drawn.
struct Table<'a> {
    input: &'a Bars,
    shown: &'a [Bar],
    labels: Vec<String>,
    /// Behind the bars.
    notes: Vec<String>,
    axis: Axis,
    /// Where the bars begin, and where the longest may end.
    extent: (i32, i32),
}

impl<'a> Table<'a> {
    fn new(input: &'a Bars) -> Self {
        let shown = &input.bars[..input.bars.len().min(SHOWN)];
        let style = text(14.0, INK, FontStyle::Normal);
        let label = |bar: &Bar| fit_ends(&printable(&bar.label), &style, LABEL);
        let labels: Vec<String> = shown.iter().map(label).collect();
        let notes: Vec<String> =
            shown.iter().map(|bar| fit(&note(input, bar), &style, NOTE)).collect();
        let widest =
            |texts: &[String]| texts.iter().map(|text| width(text, &style)).max().unwrap_or(0);
        let left = MARGIN + widest(&labels) + 10;
        let right = WIDTH as i32 - MARGIN - widest(&notes) - 8;
        let values = shown.iter().filter_map(|bar| value(input, bar.value?));
        let baseline = input.baseline.iter().filter_map(|line| value(input, line.value));
        let axis = Axis::linear(values.chain(baseline).chain([0.0]), true).thinned(right - left);
        Table { input, shown, labels, notes, axis, extent: (left, right) }
    }

    fn bottom(&self) -> i32 {
        let lines = self.shown.len() + usize::from(self.shown.len() < self.input.bars.len());
        TOP + lines.max(2) as i32 * ROW + 6
    }

    fn draw(&self, root: &Area<'_>) -> Result<(), PlotError> {
        for row in (0..self.shown.len()).step_by(2) {
            let y = middle(row);
            let corners = [(MARGIN / 2, y - ROW / 2), (WIDTH as i32 - MARGIN / 2, y + ROW / 2)];
            root.draw(&Rectangle::new(corners, STRIPE.filled()))?;
        }
        let (left, right) = self.extent;
        let mut chart = ChartBuilder::on(root)
            .margin_top(TOP)
            .margin_left(left)
            .margin_bottom(BELOW)
            .margin_right(WIDTH as i32 - right)
            .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM)
            .build_cartesian_2d(self.axis.clone(), 0.0..1.0)?;
        let title = text(15.0, INK, FontStyle::Normal);
        let mut mesh = chart.configure_mesh();
        style_mesh(&mut mesh);
        mesh.disable_y_mesh()
            .disable_y_axis()
            .x_desc(fit(&printable(&self.input.axis), &title, right - left))
            .x_label_formatter(&|at| self.axis.label(*at))
            .draw()?;
        let column = |value: f64| Some(chart.backend_coord(&(self.axis.at(value)?, 0.0)).0);
        self.draw_rows(root, &column)?;
        self.draw_baseline(root, &column)
    }

    fn draw_rows(
        &self,
        root: &Area<'_>,
        column: &impl Fn(f64) -> Option<i32>,
    ) -> Result<(), PlotError> {
        let (left, right) = self.extent;
        let style = text(14.0, INK, FontStyle::Normal);
        let before = style.pos(Pos::new(HPos::Right, VPos::Center));
        let behind = style.pos(Pos::new(HPos::Left, VPos::Center));
        let zero = column(0.0).unwrap_or(left);
        for (row, bar) in self.shown.iter().enumerate() {
            let y = middle(row);
            root.draw_text(&self.labels[row], &before, (left - 10, y))?;
            let end = bar.value.and_then(|bare| column(value(self.input, bare)?));
            if let Some(end) = end {
                let corners = [(zero.min(end), y - BAR / 2), (zero.max(end), y + BAR / 2 + 1)];
                root.draw(&Rectangle::new(corners, color(bar.kind).filled()))?;
            }
            // a dashed line would run through what stands right behind the bars
            let end = match self.input.baseline {
                Some(_) => right,
                None => end.unwrap_or(zero).max(zero),
            };
            root.draw_text(&self.notes[row], &behind, (end + 8, y))?;
        }
        let rest = self.input.bars.len() - self.shown.len();
        if rest > 0 {
            let style = behind.color(&FADED);
            root.draw_text(&format!("and {rest} more"), &style, (left + 8, middle(SHOWN)))?;
        }
        if self.shown.is_empty() {
            draw_note(root, "nothing to show", ((left + right) / 2, (TOP + self.bottom()) / 2))?;
        }
        Ok(())
    }

    /// A dashed line, and what it means above it.
    fn draw_baseline(
        &self,
        root: &Area<'_>,
        column: &impl Fn(f64) -> Option<i32>,
    ) -> Result<(), PlotError> {
        let Some(line) = &self.input.baseline else { return Ok(()) };
        let Some(x) = value(self.input, line.value).and_then(column) else { return Ok(()) };
        dashed(root, [(x, TOP - 6), (x, self.bottom())], INK.stroke_width(1), DASH)?;
        let style = text(14.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Center, VPos::Center));
        let value = shown_number(self.input, line.value);
        let label = match line.label.as_str() {
            "" => value,
            label => format!("{}: {value}", printable(label)),
        };
        let label = fit(&label, &style, WIDTH as i32 - 2 * MARGIN);
        let half = width(&label, &style) / 2;
        let x = x.clamp(MARGIN + half, (WIDTH as i32 - MARGIN - half).max(MARGIN + half));
        root.draw_text(&label, &style, (x, TOP - 16))?;
        Ok(())
    }
}

/// In the unit of the axis, if it can be drawn.
fn value(input: &Bars, value: f64) -> Option<f64> {
    usable(if input.shares { value / PERCENT.size } else { value })
}

fn shown_number(input: &Bars, value: f64) -> String {
    if input.shares { percent(value) } else { number(value) }
}

/// What stands behind a bar.
fn note(input: &Bars, bar: &Bar) -> String {
    let number = bar.value.filter(|bare| value(input, *bare).is_some());
    let number = number.map(|value| shown_number(input, value));
    let parts = [number.unwrap_or_default(), printable(&bar.note)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Height of the middle of a row.
fn middle(row: usize) -> i32 {
    TOP + row as i32 * ROW + ROW / 2 + 2
}

fn color(kind: BarKind) -> RGBColor {
    match kind {
        BarKind::Plain => PALETTE[0],
        BarKind::Broken => BROKEN,
        BarKind::Rest => REST,
        BarKind::Of(place) => PALETTE[place % PALETTE.len()],
    }
}
