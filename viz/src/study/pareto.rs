//! Two objectives against each other, and the points that none beats in both.

use std::collections::BTreeSet;

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
    Area, HEADER, INK, PALETTE, WIDTH, draw_note, fit, printable, style_mesh, text, width,
};

const HEIGHT: i32 = 640;
/// Space for the legend.
const RIGHT: i32 = 250;
/// Space above the plot.
const TOP: i32 = HEADER as i32 + 12;
/// Space below everything.
const BELOW: i32 = 8;
/// Longest label of a point.
const LABEL: i32 = 200;

/// None beats them in both.
const FRONT: Marker = Marker { shape: Shape::Circle, color: PALETTE[0], hollow: false };
/// The others that keep the requirements.
const USUAL: Marker = Marker { shape: Shape::Circle, color: PALETTE[5], hollow: true };
/// Those that do not.
const BROKEN: Marker =
    Marker { shape: Shape::Cross, color: RGBColor(0xB0, 0xB0, 0xB0), hollow: false };
const CHOSEN: Marker = Marker { shape: Shape::Ring, color: INK, hollow: true };
const BASE: Marker = Marker { shape: Shape::Diamond, color: PALETTE[3], hollow: true };

/// Two objectives against each other.
#[derive(Clone, Debug, Default)]
pub struct Pareto {
    /// Above everything.
    pub title: String,
    /// Below the title; may be empty.
    pub subtitle: String,
    /// The objective from left to right.
    pub x: ParetoAxis,
    /// The objective from bottom to top.
    pub y: ParetoAxis,
    /// All points of the study that have both.
    pub points: Vec<ParetoPoint>,
    /// Place in `points` of the recommended one.
    pub chosen: Option<usize>,
    /// Place in `points` of the scenario as it is.
    pub base: Option<usize>,
}

/// An objective.
#[derive(Clone, Debug, Default)]
pub struct ParetoAxis {
    /// Its name and unit.
    pub label: String,
    /// Which values are wanted.
    pub better: Better,
}

/// A point of the study.
#[derive(Clone, Debug, Default)]
pub struct ParetoPoint {
    /// First objective.
    pub x: f64,
    /// Second objective.
    pub y: f64,
    /// It keeps all requirements.
    pub feasible: bool,
    /// No other feasible point is better in both: joined with the others of the front.
    pub on_front: bool,
    /// Beside the point, where there is room: usually its number.
    pub label: Option<String>,
}

/// One SVG of two objectives against each other, 1200 wide, with a step line along the front.
pub fn pareto_svg(input: &Pareto) -> Result<String, PlotError> {
    prepare();
    let plot = Plot::new(input);
    page(HEIGHT, [&input.title, &input.subtitle], |root| plot.draw(root))
}

/// The points that can be drawn.
struct Plot<'a> {
    input: &'a Pareto,
    /// Their places in the input.
    points: Vec<usize>,
    x: Axis,
    y: Axis,
}

/// Where a point is.
type Place<'a> = dyn Fn(&ParetoPoint) -> Option<(i32, i32)> + 'a;

impl<'a> Plot<'a> {
    fn new(input: &'a Pareto) -> Self {
        let drawn = |place: &usize| {
            let point = &input.points[*place];
            usable(point.x).and(usable(point.y)).is_some()
        };
        let points: Vec<usize> = (0..input.points.len()).filter(drawn).collect();
        let x =
            Axis::linear(points.iter().filter_map(|place| usable(input.points[*place].x)), true);
        let y =
            Axis::linear(points.iter().filter_map(|place| usable(input.points[*place].y)), true);
        let x = x.thinned(WIDTH as i32 - RIGHT - LEFT as i32);
        Plot { input, points, x, y }
    }

    fn draw(&self, root: &Area<'_>) -> Result<(), PlotError> {
        let mut chart = ChartBuilder::on(root)
            .margin_top(TOP)
            .margin_left(MARGIN)
            .margin_right(RIGHT)
            .margin_bottom(BELOW)
            .set_label_area_size(LabelAreaPosition::Left, LEFT - MARGIN)
            .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let mut mesh = chart.configure_mesh();
        style_mesh(&mut mesh);
        mesh.x_desc(title(&self.input.x, WIDTH as i32 - RIGHT - LEFT as i32))
            .y_desc(title(&self.input.y, HEIGHT - TOP - BOTTOM as i32))
            .x_label_formatter(&|at| self.x.label(*at))
            .y_label_formatter(&|at| self.y.label(*at))
            .draw()?;
        let [[left, right], [bottom, top]] = [self.x.ends(), self.y.ends()];
        let frame = [chart.backend_coord(&(left, top)), chart.backend_coord(&(right, bottom))];
        let place = |point: &ParetoPoint| {
            let at = (self.x.at(usable(point.x)?)?, self.y.at(usable(point.y)?)?);
            Some(chart.backend_coord(&at))
        };
        let front = self.front(&place);
        if front.len() > 1 {
            root.draw(&PathElement::new(front.clone(), FRONT.color.stroke_width(2)))?;
        }
        self.draw_points(root, &place)?;
        self.draw_labels(root, &place, &front, frame)?;
        if self.points.is_empty() {
            let centre = ((frame[0].0 + frame[1].0) / 2, (frame[0].1 + frame[1].1) / 2);
            draw_note(root, "no point has both values", centre)?;
        }
        let extent = [TOP + 10, HEIGHT - BOTTOM as i32];
        legend::draw(root, &self.entries(), WIDTH as i32 - RIGHT + 20, extent)
    }

    fn shown(&self) -> impl DoubleEndedIterator<Item = &'a ParetoPoint> + '_ {
        self.points.iter().map(|place| &self.input.points[*place])
    }

    /// The place of a point, if it is drawn.
    fn special(&self, place: Option<usize>) -> Option<usize> {
        place.filter(|place| self.points.binary_search(place).is_ok())
    }

    /// The edge of what can be had: steps, or straight lines where no direction is better.
    fn front(&self, place: &Place<'_>) -> Vec<(i32, i32)> {
        let mut front: Vec<(i32, i32)> =
            self.shown().filter(|point| point.on_front).filter_map(place).collect();
        front.sort_unstable();
        front.dedup();
        let directed = self.input.y.better != Better::Neither;
        let mut line: Vec<(i32, i32)> = Vec::new();
        for (x, y) in front {
            if let Some((before, height)) = line.last().copied() {
                match self.input.x.better {
                    // what lies between two points is beaten by the one with the better x
                    Better::Lower if directed => line.push((x, height)),
                    Better::Higher if directed => line.push((before, y)),
                    _ => {}
                }
            }
            line.push((x, y));
        }
        line
    }

    /// What matters most comes last, on top.
    fn draw_points(&self, root: &Area<'_>, place: &Place<'_>) -> Result<(), PlotError> {
        for kind in [BROKEN, USUAL, FRONT] {
            let points = self.shown().filter(|point| same(marker(point), kind));
            // many points may share a pixel
            let pixels: BTreeSet<(i32, i32)> = points.filter_map(place).collect();
            for at in pixels {
                kind.draw(root, at)?;
            }
        }
        for (special, marker) in [(self.input.base, BASE), (self.input.chosen, CHOSEN)] {
            let at = self.special(special).and_then(|index| place(&self.input.points[index]));
            if let Some(at) = at {
                marker.draw(root, at)?;
            }
        }
        Ok(())
    }

    /// The labels of the special points and of the front, where there is room.
    fn draw_labels(
        &self,
        root: &Area<'_>,
        place: &Place<'_>,
        front: &[(i32, i32)],
        frame: [(i32, i32); 2],
    ) -> Result<(), PlotError> {
        let marks = |broken: bool| {
            let points = self.shown().filter(move |point| same(marker(point), BROKEN) == broken);
            points.filter_map(place).map(|at| Spot::new(at, 5, 5)).collect::<BTreeSet<Spot>>()
        };
        let level = |ends: &&[(i32, i32)]| ends[0].0 == ends[1].0 || ends[0].1 == ends[1].1;
        let steps = front.windows(2).filter(level).map(|ends| Spot::along([ends[0], ends[1]]));
        let mut taken: Vec<Spot> = marks(false).into_iter().chain(steps).collect();
        let broken: Vec<Spot> = marks(true).into_iter().collect();
        for (index, special) in self.labelled() {
            let weight = if special { FontStyle::Bold } else { FontStyle::Normal };
            let style = text(14.0, INK, weight).pos(Pos::new(HPos::Center, VPos::Center));
            let label = fit(&printable(&self.label(index)), &style, LABEL);
            let at = place(&self.input.points[index]).filter(|_| !label.is_empty());
            let Some(at) = at else { continue };
            let half = width(&label, &style) / 2 + 2;
            let spots = around(at, half).map(|centre| (centre, Spot::new(centre, half, 8)));
            let meets = |spot: &Spot, others: &[Spot]| others.iter().any(|other| spot.meets(other));
            let inside = || spots.iter().filter(|(_, spot)| spot.inside(frame));
            let mut free = inside().filter(|(_, spot)| !meets(spot, &taken));
            let best = free.clone().find(|(_, spot)| !meets(spot, &broken)).or(free.next());
            // the special ones are named even if they hide others
            let best = best.or(inside().next().filter(|_| special)).copied();
            let Some((centre, spot)) = best else { continue };
            if special {
                let ground = [(spot.left, spot.top), (spot.right, spot.bottom)];
                root.draw(&Rectangle::new(ground, WHITE.mix(0.8).filled()))?;
            }
            root.draw_text(&label, &style, centre)?;
            taken.push(spot);
        }
        Ok(())
    }

    /// The points with a label, and whether they are special ones, which come first.
    fn labelled(&self) -> Vec<(usize, bool)> {
        let chosen = self.special(self.input.chosen);
        let base = self.special(self.input.base).filter(|index| Some(*index) != chosen);
        let special: Vec<usize> = chosen.into_iter().chain(base).collect();
        let front = self
            .points
            .iter()
            .copied()
            .filter(|index| self.input.points[*index].on_front && !special.contains(index));
        special
            .iter()
            .map(|index| (*index, true))
            .chain(front.map(|index| (index, false)))
            .collect()
    }

    fn label(&self, index: usize) -> String {
        let own = self.input.points[index].label.clone().unwrap_or_default();
        let what = match (self.input.chosen == Some(index), self.input.base == Some(index)) {
            (true, true) => "recommended, as it is",
            (true, false) => "recommended",
            (false, true) => "as it is",
            (false, false) => return own,
        };
        if own.is_empty() { what.to_owned() } else { format!("{own}: {what}") }
    }

    fn entries(&self) -> Vec<Entry> {
        let any = |kind: Marker| self.shown().any(|point| same(marker(point), kind));
        let front = self.shown().filter(|point| point.on_front).count();
        let line = (front > 1).then(|| FRONT.color.stroke_width(2));
        let used = [
            (any(FRONT), line, FRONT, "front", "no other is better in both"),
            (any(USUAL), None, USUAL, "others", ""),
            (any(BROKEN), None, BROKEN, "a requirement is broken", ""),
            (self.special(self.input.chosen).is_some(), None, CHOSEN, "recommended", ""),
            (self.special(self.input.base).is_some(), None, BASE, "the scenario as it is", ""),
        ];
        let used = used.into_iter().filter(|(used, ..)| *used);
        used.map(|(_, line, marker, label, detail)| Entry {
            line,
            marker: Some(marker),
            label: label.to_owned(),
            detail: detail.to_owned(),
        })
        .collect()
    }
}

/// How a point looks.
fn marker(point: &ParetoPoint) -> Marker {
    match (point.on_front, point.feasible) {
        (true, _) => FRONT,
        (false, true) => USUAL,
        (false, false) => BROKEN,
    }
}

fn same(a: Marker, b: Marker) -> bool {
    a.color == b.color
}

/// The title of an axis, with an arrow to where it is better.
fn title(axis: &ParetoAxis, room: i32) -> String {
    let style = text(15.0, INK, FontStyle::Normal);
    let (before, after) = match axis.better {
        Better::Higher => ("", " · better →"),
        Better::Lower => ("← better · ", ""),
        Better::Neither => ("", ""),
    };
    let room = room - width(before, &style) - width(after, &style);
    format!("{before}{}{after}", fit(&printable(&axis.label), &style, room))
}

/// The space that a mark or a label takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Spot {
    /// Around a centre.
    fn new((x, y): (i32, i32), wide: i32, high: i32) -> Self {
        Spot { left: x - wide, top: y - high, right: x + wide, bottom: y + high }
    }

    /// Of a line along a row or a column.
    fn along([from, to]: [(i32, i32); 2]) -> Self {
        Spot {
            left: from.0.min(to.0) - 1,
            top: from.1.min(to.1) - 1,
            right: from.0.max(to.0) + 1,
            bottom: from.1.max(to.1) + 1,
        }
    }

    fn meets(&self, other: &Spot) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn inside(&self, [from, to]: [(i32, i32); 2]) -> bool {
        self.left >= from.0 && self.right <= to.0 && self.top >= from.1 && self.bottom <= to.1
    }
}

/// Centres of a label beside a point, the best first.
fn around((x, y): (i32, i32), half: i32) -> [(i32, i32); 12] {
    let beside = half + 12;
    [
        (x + beside, y - 10),
        (x + beside, y + 10),
        (x - beside, y - 10),
        (x - beside, y + 10),
        (x + beside, y),
        (x - beside, y),
        (x, y - 19),
        (x, y + 19),
        (x + beside, y - 22),
        (x + beside, y + 22),
        (x - beside, y - 22),
        (x - beside, y + 22),
    ]
}
