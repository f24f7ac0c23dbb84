//! One panel: lines over time, with a legend to the right of them.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::decimate::decimate;
use crate::error::PlotError;
use crate::font::FAMILY;
use crate::scale::{Unit, tick};

/// Okabe and Ito's colours, told apart by colour-blind readers too. Their yellow is too pale for
/// a white ground: indigo and grey stand in.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0x80, 0x80, 0x80),
];
/// Lines of sums.
const SUM: RGBColor = RGBColor(0x11, 0x11, 0x11);
/// Text.
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Text of less weight.
pub(crate) const FADED: RGBColor = RGBColor(0x66, 0x66, 0x66);
const AXIS: RGBColor = RGBColor(0x99, 0x99, 0x99);
const GRID: RGBColor = RGBColor(0xE6, 0xE6, 0xE6);

/// More points than this are thinned out: a few per pixel are enough.
const POINTS: usize = 1500;
/// Space left of everything.
const MARGIN: u32 = 16;
/// Space for that, and the numbers and the title of the value axis.
const LEFT: u32 = 88;
/// Space for the legend.
const RIGHT: u32 = 250;
/// Space for the heading.
const TOP: u32 = 30;
/// Space for the numbers and the title of the time axis.
pub(crate) const BOTTOM: u32 = 48;
/// Space below the lower panels' frames.
const GAP: u32 = 10;
/// Distance between the lines of a legend.
const LEADING: i32 = 21;

/// A text style of the plot.
pub(crate) fn text(size: f64, color: RGBColor, style: FontStyle) -> TextStyle<'static> {
    let mut text = TextStyle::from(FontDesc::new(FAMILY, size, style));
    text.color = color.to_backend_color();
    text
}

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

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

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
        mesh.axis_style(AXIS)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .label_style(text(14.0, INK, FontStyle::Normal))
            .axis_desc_style(text(15.0, INK, FontStyle::Normal))
            .set_all_tick_mark_size(4)
            .x_labels(10)
            .y_labels(7);
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
        let (width, _) = area.dim_in_pixel();
        let left = (width - RIGHT) as i32 + 16;
        let (swatch, indent) = (22, 30);
        let room = RIGHT as i32 - 16 - indent - 8;
        let middle = Pos::new(HPos::Left, VPos::Center);
        let label_style = text(15.0, INK, FontStyle::Normal).pos(middle);
        let detail_style = text(14.0, FADED, FontStyle::Normal).pos(middle);
        let mut y = TOP as i32 + 10;
        for (index, line) in self.lines.iter().enumerate() {
            let ends = [(left, y), (left + swatch, y)];
            area.draw(&PathElement::new(ends, line.style(index).stroke_width(4)))?;
            let label = fit(&line.label, &label_style, room);
            area.draw_text(&label, &label_style, (left + indent, y))?;
            if !line.detail.is_empty() {
                y += LEADING - 3;
                let detail = fit(&line.detail, &detail_style, room);
                area.draw_text(&detail, &detail_style, (left + indent, y))?;
            }
            y += LEADING;
        }
        Ok(())
    }

    fn draw_note(&self, area: &Area<'_>, lowest: bool) -> Result<(), PlotError> {
        let Some(note) = &self.note else { return Ok(()) };
        let (width, height) = area.dim_in_pixel();
        let below = if lowest { BOTTOM } else { GAP };
        let centre = ((LEFT + width - RIGHT) / 2, (TOP + height - below) / 2);
        let style = text(16.0, FADED, FontStyle::Normal);
        let style = style.pos(Pos::new(HPos::Center, VPos::Center));
        area.draw_text(note, &style, (centre.0 as i32, centre.1 as i32))?;
        Ok(())
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

/// As much of `label` as fits in `room` pixels.
pub(crate) fn fit(label: &str, style: &TextStyle<'_>, room: i32) -> String {
    let width = |text: &str| style.font.layout_box(text).map_or(0, |(from, to)| to.0 - from.0);
    if width(label) <= room {
        return label.to_owned();
    }
    let ends = label.char_indices().map(|(end, _)| end).rev();
    let mut shorter = ends.map(|end| format!("{}…", label[..end].trim_end()));
    shorter.find(|text| width(text) <= room).unwrap_or_default()
}
