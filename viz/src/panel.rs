//! One panel: lines over time, with a legend to the right of them.

use std::ops::Range;

use plotters::prelude::*;

use crate::decimate::decimate;
use crate::error::PlotError;
use crate::legend::{self, Entry};
use crate::scale::{Unit, tick};
use crate::style::{self, Area, INK, PALETTE, style_mesh, text};

/// Lines of sums.
const SUM: RGBColor = RGBColor(0x11, 0x11, 0x11);

/// More points than this are thinned out: a few per pixel are enough.
const POINTS: usize = 1500;
/// Space left of everything.
pub(crate) const MARGIN: u32 = 16;
/// Space for that, and the numbers and the title of the value axis.
pub(crate) const LEFT: u32 = 88;
/// Space for the legend.
const RIGHT: u32 = 250;
/// Space for the heading.
const TOP: u32 = 30;
/// Space for the numbers and the title of the time axis.
pub(crate) const BOTTOM: u32 = 48;
/// Space below the lower panels' frames.
const GAP: u32 = 10;

/// What is drawn in a panel.
pub(crate) struct Panel {
    /// Above it.
    pub(crate) heading: String,
    /// Quantity of the value axis, without its unit.
    pub(crate) quantity: &'static str,
    /// Unit of the value axis.
    pub(crate) unit: Unit,
    /// Values shown, in that unit.
    pub(crate) range: Range<f64>,
    /// The lines, most important first.
    pub(crate) lines: Vec<Line>,
    /// Instead of lines.
    pub(crate) note: Option<String>,
}

/// A line and its entry in the legend.
pub(crate) struct Line {
    /// In the legend.
    pub(crate) label: String,
    /// Below it, if anything.
    pub(crate) detail: String,
    /// A sum of others, drawn to stand out.
    pub(crate) sum: bool,
    /// Time in seconds and value in base units.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The time axis of all panels.
pub(crate) struct TimeAxis {
    /// Times shown, in `unit`.
    pub(crate) range: Range<f64>,
    /// Its unit.
    pub(crate) unit: Unit,
}

impl Line {
    fn style(&self, index: usize) -> ShapeStyle {
        match self.sum {
            true => SUM.stroke_width(3),
            false => PALETTE[index % PALETTE.len()].stroke_width(2),
        }
    }
}

impl Panel {
    /// Draws the panel; the lowest one has the numbers of the time axis.
    pub(crate) fn draw(
        &self,
        area: &Area<'_>,
        time: &TimeAxis,
        lowest: bool,
    ) -> Result<(), PlotError> {
        area.draw_text(&self.heading, &text(17.0, INK, FontStyle::Bold), (LEFT as i32, 8))?;
        let bottom = if lowest { BOTTOM } else { 0 };
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_left(MARGIN)
            .margin_right(RIGHT)
            .margin_bottom(if lowest { 0 } else { GAP })
            .set_label_area_size(LabelAreaPosition::Left, LEFT - MARGIN)
            .set_label_area_size(LabelAreaPosition::Bottom, bottom)
            .build_cartesian_2d(time.range.clone(), self.range.clone())?;
        let mut mesh = chart.configure_mesh();
        style_mesh(&mut mesh);
        mesh.x_labels(10).y_labels(7);
        mesh.y_desc(format!("{} ({})", self.quantity, self.unit.name));
        if lowest {
            mesh.x_desc(format!("Time ({})", time.unit.name));
        }
        mesh.x_label_formatter(&|value| tick(*value, &time.range))
            .y_label_formatter(&|value| tick(*value, &self.range))
            .draw()?;
        // the first line is the most important: it comes last, on top
        for (index, line) in self.lines.iter().enumerate().rev() {
            let points = line.scaled(time.unit, self.unit);
            let style = line.style(index);
            match points.as_slice() {
                [] => {}
                [point] => {
                    chart.draw_series([Circle::new(*point, 4, style.filled())])?;
                }
                _ => {
                    chart.draw_series(LineSeries::new(points, style))?;
                }
            }
        }
        self.draw_legend(area)?;
        self.draw_note(area, lowest)
    }

    fn draw_legend(&self, area: &Area<'_>) -> Result<(), PlotError> {
        let (width, height) = area.dim_in_pixel();
        let entry = |(index, line): (usize, &Line)| Entry {
            line: Some(line.style(index).stroke_width(4)),
            marker: None,
            label: line.label.clone(),
            detail: line.detail.clone(),
        };
        let entries: Vec<Entry> = self.lines.iter().enumerate().map(entry).collect();
        let extent = [TOP as i32 + 10, height as i32];
        legend::draw(area, &entries, (width - RIGHT) as i32 + 16, extent)
    }

    fn draw_note(&self, area: &Area<'_>, lowest: bool) -> Result<(), PlotError> {
        let Some(note) = &self.note else { return Ok(()) };
        let (width, height) = area.dim_in_pixel();
        let below = if lowest { BOTTOM } else { GAP };
        let centre = ((LEFT + width - RIGHT) / 2, (TOP + height - below) / 2);
        style::draw_note(area, note, (centre.0 as i32, centre.1 as i32))
    }
}

impl Line {
    /// The points to draw, in the units of the axes.
    fn scaled(&self, time: Unit, value: Unit) -> Vec<(f64, f64)> {
        let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
        let points: Vec<(f64, f64)> = self
            .points
            .iter()
            .filter(finite)
            .map(|p| (p.0 / time.size, p.1 / value.size))
            .collect();
        decimate(&points, POINTS)
    }
}
