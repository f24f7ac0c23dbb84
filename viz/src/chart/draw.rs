//! How charts of lines look.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Tick;
use super::{Chart, Line, Width};
use crate::decimate::decimate;
use crate::error::PlotError;
use crate::font;
use crate::legend::{self, Entry};
use crate::marker::{Marker, Shape};
use crate::style::{AXIS, Area, FADED, GRID, INK, PALETTE, draw_note, fit, printable, text, width};

/// Points of a line, at most: a few per pixel are enough.
const POINTS: [usize; 2] = [800, 240];
/// Space for the entries of a legend that stands below, each.
const LEADING: i32 = 21;

/// Where things are.
struct Layout {
    width: Width,
    size: (u32, u32),
    /// Left, top, right and bottom edge of the plot.
    plot: [i32; 4],
}

pub(super) fn draw(chart: &Chart, width: Width) -> Result<String, PlotError> {
    font::register();
    let layout = Layout::new(chart, width);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, layout.size).into_drawing_area();
        root.fill(&WHITE)?;
        layout.heading(&root, chart)?;
        layout.axes(&root, chart)?;
        // the first line is the most important: it comes last, on top
        for (index, line) in chart.lines.iter().enumerate().rev() {
            layout.line(&root, chart, index, line)?;
        }
        layout.legend(&root, chart)?;
        if chart.lines.is_empty() {
            let [left, top, right, bottom] = layout.plot;
            draw_note(&root, "nothing to show", ((left + right) / 2, (top + bottom) / 2))?;
        }
        root.present()?;
    }
    Ok(svg)
}

impl Layout {
    fn new(chart: &Chart, width: Width) -> Self {
        let top = if chart.note.is_empty() { 40 } else { 62 };
        match width {
            Width::Wide => Layout { width, size: (1120, 380), plot: [82, top, 860, 324] },
            Width::Narrow => {
                let legend = chart.lines.len().max(1) as i32 * LEADING + 12;
                let bottom = 250;
                let height = (bottom + 54 + legend) as u32;
                Layout { width, size: (380, height), plot: [66, top, 366, bottom] }
            }
        }
    }

    fn heading(&self, root: &Area<'_>, chart: &Chart) -> Result<(), PlotError> {
        let room = self.size.0 as i32 - 16;
        let style = text(18.0, INK, FontStyle::Bold);
        root.draw_text(&fit(&printable(&chart.title), &style, room), &style, (8, 8))?;
        let style = text(14.0, FADED, FontStyle::Normal);
        root.draw_text(&fit(&printable(&chart.note), &style, room), &style, (8, 34))?;
        Ok(())
    }

    fn axes(&self, root: &Area<'_>, chart: &Chart) -> Result<(), PlotError> {
        let [left, top, right, bottom] = self.plot;
        let style = text(14.0, INK, FontStyle::Normal);
        let (across, down) = (f64::from(right - left), f64::from(bottom - top));
        // neighbours: half of each label and a gap
        let beside = |ticks: &[Tick]| {
            ticks.windows(2).all(|pair| {
                let need = (width(&pair[0].label, &style) + width(&pair[1].label, &style)) / 2 + 14;
                (pair[1].at - pair[0].at) * across >= f64::from(need)
            })
        };
        let above =
            |ticks: &[Tick]| ticks.windows(2).all(|pair| (pair[1].at - pair[0].at) * down >= 26.0);
        let centred = style.pos(Pos::new(HPos::Center, VPos::Top));
        for tick in chart.x.ticks(beside) {
            let x = left + (tick.at * across).round() as i32;
            root.draw(&PathElement::new([(x, top), (x, bottom)], GRID))?;
            // the last one stays within the picture
            let half = width(&tick.label, &centred) / 2;
            let x = x.min(self.size.0 as i32 - half - 2);
            root.draw_text(&tick.label, &centred, (x, bottom + 6))?;
        }
        let right_aligned = style.pos(Pos::new(HPos::Right, VPos::Center));
        for tick in chart.y.ticks(above) {
            let y = bottom - (tick.at * down).round() as i32;
            root.draw(&PathElement::new([(left, y), (right, y)], GRID))?;
            root.draw_text(&tick.label, &right_aligned, (left - 7, y))?;
        }
        for ends in [[(left, top), (left, bottom)], [(left, bottom), (right, bottom)]] {
            root.draw(&PathElement::new(ends, AXIS))?;
        }
        let style = text(15.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Center, VPos::Top));
        let label = fit(&chart.x.label(), &style, self.size.0 as i32 - 8);
        let half = width(&label, &style) / 2;
        let middle = ((left + right) / 2).min(self.size.0 as i32 - half - 4);
        root.draw_text(&label, &style, (middle, bottom + 27))?;
        let turned = text(15.0, INK, FontStyle::Normal)
            .transform(FontTransform::Rotate270)
            .pos(Pos::new(HPos::Center, VPos::Top));
        root.draw_text(&chart.y.label(), &turned, (4, (top + bottom) / 2))?;
        Ok(())
    }

    fn line(
        &self,
        root: &Area<'_>,
        chart: &Chart,
        index: usize,
        line: &Line,
    ) -> Result<(), PlotError> {
        let [left, top, right, bottom] = self.plot;
        let shown = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
        let points: Vec<(f64, f64)> = line.points.iter().filter(shown).copied().collect();
        let points = decimate(&points, POINTS[usize::from(self.width == Width::Narrow)]);
        let place = |(x, y): &(f64, f64)| {
            let x = f64::from(left) + chart.x.place(*x) * f64::from(right - left);
            let y = f64::from(bottom) - chart.y.place(*y) * f64::from(bottom - top);
            (x.round().clamp(-9e6, 9e6) as i32, y.round().clamp(-9e6, 9e6) as i32)
        };
        let mut pixels: Vec<(i32, i32)> = points.iter().map(place).collect();
        pixels.dedup();
        let color = line.paint(index);
        if pixels.len() > 1 {
            root.draw(&PathElement::new(pixels.clone(), color.stroke_width(2)))?;
        }
        if line.marks || pixels.len() == 1 {
            for at in pixels {
                line.marker(index).draw(root, at)?;
            }
        }
        Ok(())
    }

    fn legend(&self, root: &Area<'_>, chart: &Chart) -> Result<(), PlotError> {
        let narrow = self.width == Width::Narrow;
        let entry = |(index, line): (usize, &Line)| Entry {
            line: Some(line.paint(index).stroke_width(4)),
            marker: line.marks.then(|| line.marker(index)),
            label: match (narrow, line.detail.is_empty()) {
                (true, false) => format!("{}, {}", line.name, line.detail),
                _ => line.name.clone(),
            },
            detail: if narrow { String::new() } else { line.detail.clone() },
        };
        let entries: Vec<Entry> = chart.lines.iter().enumerate().map(entry).collect();
        let [_, top, right, bottom] = self.plot;
        match self.width {
            Width::Wide => legend::draw(root, &entries, right + 22, [top + 8, bottom]),
            Width::Narrow => {
                legend::draw(root, &entries, 10, [bottom + 64, self.size.1 as i32 + LEADING])
            }
        }
    }
}

impl Line {
    fn place(&self, index: usize) -> usize {
        self.color.unwrap_or(index)
    }

    fn paint(&self, index: usize) -> RGBColor {
        PALETTE[self.place(index) % PALETTE.len()]
    }

    fn marker(&self, index: usize) -> Marker {
        let place = self.place(index);
        Marker { shape: Shape::USUAL[place % 3], color: self.paint(index), hollow: false }
    }
}
