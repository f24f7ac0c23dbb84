//! The plot of collectives: bandwidth over message size.

use std::fmt::Display;
use std::ops::Range;

use models::report::CollectiveReport;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::curve::{Curve, Place, curves, name};
use crate::error::PlotError;
use crate::font;
use crate::legend::{self, Entry};
use crate::marker::{Marker, Shape};
use crate::panel::{BOTTOM, LEFT, MARGIN};
use crate::scale::{binary_size, counted, short, tick};
use crate::style::{
    Area, DASH, FADED, HEADER, INK, WIDTH, dashed, draw_header, draw_note, style_mesh, text, width,
};

const HEIGHT: u32 = 620;
/// Space below everything.
const BELOW: u32 = 8;
/// Space for the legend.
const RIGHT: u32 = 270;
/// Space above the plot.
const TOP: u32 = HEADER + 12;
/// Message sizes that there is room for at the axis.
const LABELS: usize = 14;
/// Part of the height above the greatest value, with room for the label of the ceiling.
const HEADROOM: f64 = 0.1;

pub(crate) fn draw(
    title: &str,
    collectives: &[CollectiveReport],
    ceiling: Option<f64>,
) -> Result<String, PlotError> {
    font::register();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        draw_header(&root, title, &subtitle(collectives))?;
        Plot::new(collectives, ceiling).draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}

/// What all collectives have in common.
fn subtitle(collectives: &[CollectiveReport]) -> String {
    let hosts = |c: &CollectiveReport| {
        format!("{} on {}", counted(c.ranks.into(), "GPU"), counted(c.nodes.into(), "host"))
    };
    let parts = [
        common(collectives, name),
        common(collectives, |c| &c.op).filter(|op| name(&collectives[0]) != op),
        common(collectives, |c| &c.algorithm),
        common(collectives, |c| &c.protocol),
        common(collectives, |c| &c.dtype),
        common(collectives, hosts),
        common(collectives, |c| counted(c.channels.into(), "channel")),
        common(collectives, |c| counted(c.qps.into(), "QP")),
    ];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// A property, if all collectives share it.
fn common<'a, T: PartialEq + Display>(
    collectives: &'a [CollectiveReport],
    property: impl Fn(&'a CollectiveReport) -> T,
) -> Option<String> {
    let mut properties = collectives.iter().map(property);
    let first = properties.next()?;
    properties.all(|other| other == first).then(|| first.to_string())
}

struct Plot {
    /// Most important first.
    curves: Vec<Curve>,
    /// GB/s.
    ceiling: Option<f64>,
    /// Sizes shown, as powers of two.
    sizes: Range<f64>,
    /// GB/s shown.
    values: Range<f64>,
}

impl Plot {
    fn new(collectives: &[CollectiveReport], ceiling: Option<f64>) -> Self {
        let curves = curves(collectives);
        let ceiling = ceiling.filter(|value| value.is_finite() && *value > 0.0);
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let values = points().flat_map(|point| point.values.iter().copied());
        let greatest = values.chain(ceiling).fold(0.0, f64::max);
        let top = greatest * (1.0 + HEADROOM);
        let top = if top > 0.0 && top.is_finite() { top } else { 1.0 };
        let sizes = size_range(points().map(|point| point.power()));
        Plot { curves, ceiling, sizes, values: 0.0..top }
    }

    fn draw(&self, root: &Area<'_>) -> Result<(), PlotError> {
        let mut chart = ChartBuilder::on(root)
            .margin_top(TOP)
            .margin_left(MARGIN)
            .margin_right(RIGHT)
            .margin_bottom(BELOW)
            .set_label_area_size(LabelAreaPosition::Left, LEFT - MARGIN)
            .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM)
            .build_cartesian_2d(Sizes(self.sizes.clone()), self.values.clone())?;
        let thin = self.curves.iter().any(|curve| curve.thin);
        let y_label = |value: &f64| tick(*value, &self.values);
        let mut mesh = chart.configure_mesh();
        style_mesh(&mut mesh);
        mesh.y_labels(9)
            .x_desc("Message size (bytes in binary units, logarithmic)")
            .y_desc(if thin { "busbw, algbw (GB/s)" } else { "busbw (GB/s)" })
            .x_label_formatter(&|power| binary_size(power.exp2()))
            .y_label_formatter(&y_label)
            .draw()?;
        let place = |size: f64, value: f64| chart.backend_coord(&(size, value));
        self.draw_ceiling(root, &place)?;
        // the first curve is the most important: it comes last, on top
        for (index, curve) in self.curves.iter().enumerate().rev() {
            curve.draw(root, index, &place)?;
        }
        self.draw_single_values(root, &place)?;
        self.draw_legend(root)?;
        if self.curves.is_empty() {
            let middle = |range: &Range<f64>| (range.start + range.end) / 2.0;
            let centre = place(middle(&self.sizes), middle(&self.values));
            draw_note(root, "no collective to show", centre)?;
        }
        Ok(())
    }

    /// A dashed line, and what it means where it hides no curve.
    fn draw_ceiling(&self, root: &Area<'_>, place: &Place<'_>) -> Result<(), PlotError> {
        let Some(ceiling) = self.ceiling else { return Ok(()) };
        let (left, y) = place(self.sizes.start, ceiling);
        let (right, _) = place(self.sizes.end, ceiling);
        dashed(root, [(left, y), (right, y)], INK.stroke_width(1), DASH)?;
        let label = format!("payload the NICs carry: {} GB/s", short(ceiling));
        let centred = Pos::new(HPos::Center, VPos::Center);
        let style = text(15.0, INK, FontStyle::Normal).pos(centred);
        let half = width(&label, &style) / 2;
        let busy: Vec<(i32, i32)> =
            self.curves.iter().flat_map(|curve| curve.pixels(place)).collect();
        let hidden = |x: i32, y: i32| {
            let near =
                |pixel: &&(i32, i32)| (pixel.0 - x).abs() < half + 8 && (pixel.1 - y).abs() < 15;
            busy.iter().filter(near).count()
        };
        let columns = [left + half + 12, right - half - 12, (left + right) / 2];
        let spots = [y - 13, y + 13].into_iter().flat_map(|y| columns.map(|x| (x, y)));
        let best = spots.min_by_key(|(x, y)| hidden(*x, *y)).unwrap_or((columns[0], y - 13));
        root.draw_text(&label, &style, best)?;
        Ok(())
    }

    /// The numbers beside a point that is alone.
    fn draw_single_values(&self, root: &Area<'_>, place: &Place<'_>) -> Result<(), PlotError> {
        if self.curves.iter().filter(|curve| !curve.thin).count() != 1 {
            return Ok(());
        }
        let middle = Pos::new(HPos::Left, VPos::Center);
        for curve in &self.curves {
            let color = if curve.thin { FADED } else { INK };
            let style = text(15.0, color, FontStyle::Normal).pos(middle);
            let [point] = curve.points.as_slice() else { continue };
            let [value] = point.values.as_slice() else { continue };
            let (x, y) = place(point.power(), *value);
            root.draw_text(&format!("{} GB/s", short(*value)), &style, (x + 12, y))?;
        }
        Ok(())
    }

    fn draw_legend(&self, root: &Area<'_>) -> Result<(), PlotError> {
        let curves = self.curves.iter().enumerate();
        let mut entries: Vec<Entry> = curves.map(|(index, curve)| curve.entry(index)).collect();
        if self.curves.iter().flat_map(|curve| &curve.points).any(|point| point.unfinished) {
            let marker = Marker { shape: Shape::Circle, color: FADED, hollow: true };
            let label = "did not finish".to_owned();
            let detail = String::new();
            entries.push(Entry { line: None, marker: Some(marker), label, detail });
        }
        let extent = [TOP as i32 + 10, (HEIGHT - BOTTOM) as i32];
        legend::draw(root, &entries, (WIDTH - RIGHT) as i32 + 20, extent)
    }
}

/// The powers of two to show: a little more than the sizes, and two powers at least.
fn size_range(powers: impl Iterator<Item = f64>) -> Range<f64> {
    let ends = powers.fold(None, |ends: Option<(f64, f64)>, power| {
        let (from, to) = ends.unwrap_or((power, power));
        Some((from.min(power), to.max(power)))
    });
    let (from, to) = ends.unwrap_or((20.0, 30.0));
    let margin = (0.03 * (to - from)).max(1.2 - (to - from) / 2.0);
    from - margin..to + margin
}

/// The axis of message sizes, as powers of two.
#[derive(Clone)]
struct Sizes(Range<f64>);

impl Ranged for Sizes {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> Range<f64> {
        self.0.clone()
    }

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.0.clone()).map(value, limit)
    }

    /// Whole powers only.
    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let (first, last) = (self.0.start.ceil().max(0.0) as i32, self.0.end.floor() as i32);
        let named = |step: i32| (first..=last).filter(move |power| power.rem_euclid(step) == 0);
        // each of the steps meets 1 KiB, 1 MiB and 1 GiB
        let step = [1, 2, 5].into_iter().find(|step| named(*step).count() <= LABELS);
        named(step.unwrap_or(10)).map(f64::from).collect()
    }
}
