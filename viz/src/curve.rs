//! A bandwidth over message sizes.

use std::collections::BTreeMap;

use models::report::{CollectiveReport, FlowStatus};
use plotters::prelude::*;

use crate::error::PlotError;
use crate::legend::Entry;
use crate::marker::{Marker, Shape};
use crate::scale::{binary_size, short};
use crate::style::{Area, FADED, PALETTE};

/// One bandwidth of one collective.
#[derive(Debug, PartialEq)]
pub(crate) struct Curve {
    /// In the legend.
    pub(crate) label: String,
    /// Drawn to stand back.
    pub(crate) thin: bool,
    /// Of ascending sizes.
    pub(crate) points: Vec<Point>,
}

/// What was measured at one size.
#[derive(Debug, PartialEq)]
pub(crate) struct Point {
    /// The size.
    pub(crate) bytes: u64,
    /// GB/s of each run that finished.
    pub(crate) values: Vec<f64>,
    /// Some run did not finish.
    pub(crate) unfinished: bool,
}

/// From the power of two of a size and GB/s to a pixel.
pub(crate) type Place<'a> = dyn Fn(f64, f64) -> (i32, i32) + 'a;

/// The busbw of each collective in the order of the names; if there is but one, its algbw too.
pub(crate) fn curves(collectives: &[CollectiveReport]) -> Vec<Curve> {
    let mut groups: Vec<(&str, Vec<&CollectiveReport>)> = Vec::new();
    for collective in collectives {
        let name = name(collective);
        match groups.iter_mut().find(|group| group.0 == name) {
            Some(group) => group.1.push(collective),
            None => groups.push((name, vec![collective])),
        }
    }
    let busbw = |(name, runs): &(&str, Vec<_>)| curve(name, runs, |run| run.busbw_gbytes_per_s);
    let mut curves: Vec<Curve> = groups.iter().map(busbw).collect();
    if let [(_, runs)] = groups.as_slice() {
        let mut algbw = curve("algbw", runs, |run| run.algbw_gbytes_per_s);
        algbw.thin = true;
        algbw.points.iter_mut().for_each(|point| point.unfinished = false);
        let finished = algbw.points.iter().any(|point| !point.values.is_empty());
        let differs = curves[0].points.iter().zip(&algbw.points).any(|(a, b)| a.values != b.values);
        curves[0].label = if differs || !finished { "busbw" } else { "busbw = algbw" }.to_owned();
        if differs && finished {
            curves.push(algbw);
        }
    }
    curves
}

/// The name of a collective: its operation if it was given none.
pub(crate) fn name(collective: &CollectiveReport) -> &str {
    if collective.name.is_empty() { &collective.op } else { &collective.name }
}

fn curve(
    label: &str,
    runs: &[&CollectiveReport],
    bandwidth: impl Fn(&CollectiveReport) -> Option<f64>,
) -> Curve {
    let mut sizes: BTreeMap<u64, Point> = BTreeMap::new();
    for run in runs {
        let empty = Point { bytes: run.bytes, values: Vec::new(), unfinished: false };
        let point = sizes.entry(run.bytes).or_insert(empty);
        let value = bandwidth(run).filter(|value| value.is_finite() && *value >= 0.0);
        match value.filter(|_| run.status == FlowStatus::Completed) {
            Some(value) => point.values.push(value),
            None => point.unfinished = true,
        }
    }
    Curve { label: label.to_owned(), thin: false, points: sizes.into_values().collect() }
}

impl Curve {
    /// Draws a line through the means of what finished, broken where nothing did, and all marks.
    pub(crate) fn draw(
        &self,
        root: &Area<'_>,
        index: usize,
        place: &Place<'_>,
    ) -> Result<(), PlotError> {
        for piece in self.pieces() {
            if piece.len() > 1 {
                let pixels: Vec<_> =
                    piece.iter().map(|(size, value)| place(*size, *value)).collect();
                root.draw(&PathElement::new(pixels, self.stroke(index)))?;
            }
        }
        let marker = self.marker(index);
        for point in &self.points {
            if point.unfinished {
                Marker { hollow: true, ..marker }.draw(root, place(point.power(), 0.0))?;
            }
            for value in &point.values {
                marker.draw(root, place(point.power(), *value))?;
            }
        }
        Ok(())
    }

    /// Pixels that lie on it, close to each other.
    pub(crate) fn pixels(&self, place: &Place<'_>) -> Vec<(i32, i32)> {
        let values = |point: &Point| -> Vec<(f64, f64)> {
            point.values.iter().map(|value| (point.power(), *value)).collect()
        };
        let mut points: Vec<(f64, f64)> = self.points.iter().flat_map(values).collect();
        for pair in self.pieces().iter().flat_map(|piece| piece.windows(2)) {
            let between =
                |from: f64, to: f64, step: u32| from + (to - from) * f64::from(step) / 50.0;
            points.extend((1..50).map(|step| {
                (between(pair[0].0, pair[1].0, step), between(pair[0].1, pair[1].1, step))
            }));
        }
        points.into_iter().map(|(size, value)| place(size, value)).collect()
    }

    /// Its line, mark and greatest value.
    pub(crate) fn entry(&self, index: usize) -> Entry {
        Entry {
            line: Some(self.stroke(index)),
            marker: Some(self.marker(index)),
            label: self.label.clone(),
            detail: self.peak(),
        }
    }

    /// Means at successive sizes that finished.
    fn pieces(&self) -> Vec<Vec<(f64, f64)>> {
        let mean = |point: &Point| {
            let sum: f64 = point.values.iter().sum();
            (point.power(), sum / point.values.len() as f64)
        };
        let pieces = self.points.split(|point| point.values.is_empty());
        pieces.map(|piece| piece.iter().map(mean).collect()).collect()
    }

    fn peak(&self) -> String {
        let values = |point: &Point| -> Vec<(f64, u64)> {
            point.values.iter().map(|value| (*value, point.bytes)).collect()
        };
        let all: Vec<(f64, u64)> = self.points.iter().flat_map(values).collect();
        let greatest = all.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a });
        let Some((value, bytes)) = greatest else { return "nothing finished".to_owned() };
        let peak = if all.len() > 1 { "peak " } else { "" };
        format!("{peak}{} GB/s at {}", short(value), binary_size(bytes as f64))
    }

    fn color(&self, index: usize) -> RGBColor {
        if self.thin { FADED } else { PALETTE[index % PALETTE.len()] }
    }

    fn stroke(&self, index: usize) -> ShapeStyle {
        self.color(index).stroke_width(if self.thin { 1 } else { 2 })
    }

    fn marker(&self, index: usize) -> Marker {
        let shape = match self.thin {
            true => Shape::Dot,
            // another form when the colours begin again
            false => Shape::USUAL[index / PALETTE.len() % Shape::USUAL.len()],
        };
        Marker { shape, color: self.color(index), hollow: false }
    }
}

impl Point {
    /// Its size as a power of two.
    pub(crate) fn power(&self) -> f64 {
        (self.bytes.max(1) as f64).log2()
    }
}
