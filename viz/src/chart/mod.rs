//! Charts of lines: what they show, apart from how that is drawn.
//!
//! A chart holds the numbers that it shows, in the units of its axes: tests look at these.

mod axis;
mod draw;

use std::fmt::Write;

use crate::error::PlotError;

pub(crate) use axis::{Axis, Scale};

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Its name among those of a page, and the name of its file.
    pub id: String,
    /// Above it.
    pub title: String,
    /// Below the title: what its values are means of, what is left out.
    pub note: String,
    /// From left to right.
    pub(crate) x: Axis,
    /// From bottom to top.
    pub(crate) y: Axis,
    /// The lines, most important first.
    pub(crate) lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// Its name.
    pub(crate) name: String,
    /// More about it, in the legend.
    pub(crate) detail: String,
    /// Points have marks: they are all that is known.
    pub(crate) marks: bool,
    /// Its place in the palette; that in the chart if absent.
    pub(crate) color: Option<usize>,
    /// In the units of the axes.
    pub(crate) points: Vec<(f64, f64)>,
}

/// How wide a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// On a screen: the legend stands to the right.
    Wide,
    /// On a phone: below.
    Narrow,
}

impl Line {
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        let (name, detail) = (name.into(), String::new());
        Line { name, detail, marks: false, color: None, points }
    }

    /// The greatest value.
    pub(crate) fn greatest(&self) -> f64 {
        self.points
            .iter()
            .map(|point| point.1)
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max)
    }
}

impl Chart {
    /// The chart as a self-contained SVG.
    pub fn svg(&self) -> Result<String, PlotError> {
        draw::draw(self, Width::Wide)
    }

    /// The same for a narrow screen.
    pub(crate) fn narrow_svg(&self) -> Result<String, PlotError> {
        draw::draw(self, Width::Narrow)
    }

    /// All that it shows, as text: axes with units, then each line with its points.
    pub fn data(&self) -> String {
        let mut text = format!("{}: {}\n", self.id, self.title);
        if !self.note.is_empty() {
            let _ = writeln!(text, "({})", self.note);
        }
        for (name, axis) in [("x", &self.x), ("y", &self.y)] {
            let [from, to] = axis.range.map(number);
            let _ = writeln!(text, "{name}: {}, {:?} {from} to {to}", axis.label(), axis.scale);
        }
        for line in &self.lines {
            let detail =
                if line.detail.is_empty() { String::new() } else { format!(" ({})", line.detail) };
            let points: Vec<String> =
                line.points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
            let _ = writeln!(text, "- {}{detail}: {}", line.name, points.join(" "));
        }
        text
    }
}

/// A number in at most six digits.
fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    format!("{rounded}")
}
