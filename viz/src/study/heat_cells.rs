//! Cells of a heat map: their values and colours.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Better;
use super::heat::{HeatMap, HeatPanel};
use super::page::{extent, number, outline, usable};
use crate::error::PlotError;
use crate::style::{AXIS, Area, INK, text, width};

/// From the worst to the best: one hue, ever darker.
const GREENS: [[u8; 3]; 6] = [
    [0xF3, 0xF8, 0xE9],
    [0xD3, 0xE9, 0xC4],
    [0xA3, 0xD3, 0xA0],
    [0x66, 0xB5, 0x7C],
    [0x24, 0x8E, 0x5A],
    [0x00, 0x5F, 0x3C],
];
/// From the least to the greatest, where neither is better.
const BLUES: [[u8; 3]; 6] = [
    [0xF2, 0xF6, 0xFA],
    [0xD2, 0xE3, 0xF1],
    [0xA3, 0xC7, 0xE3],
    [0x65, 0xA2, 0xCF],
    [0x2B, 0x76, 0xB0],
    [0x0B, 0x47, 0x80],
];
/// A cell without a value.
const EMPTY: RGBColor = RGBColor(0xEE, 0xEE, 0xEE);
/// Over cells that break a requirement.
const HATCH: RGBColor = RGBColor(0xA8, 0x2A, 0x2A);
/// Between cells.
pub(super) const EDGE: RGBColor = RGBColor(0xCC, 0xCC, 0xCC);
/// Under the hatching in the legend.
pub(super) const PALE: RGBColor = RGBColor(0xF3, 0xF8, 0xE9);
/// Size of the bar of colours.
const BAR: (i32, i32) = (84, 12);

/// Columns and rows of a heat map.
pub(super) fn size(input: &HeatMap) -> (usize, usize) {
    let rows = input.panels.iter().flat_map(|panel| &panel.cells);
    let columns = rows.map(Vec::len).max().unwrap_or(0).max(input.x.names.len());
    let rows = input.panels.iter().map(|panel| panel.cells.len()).max().unwrap_or(0);
    (columns, rows.max(input.y.names.len()))
}

/// The value of a cell, if it has one.
pub(super) fn value(panel: &HeatPanel, x: usize, y: usize) -> Option<f64> {
    (*panel.cells.get(y)?.get(x)?).and_then(usable)
}

/// A requirement is broken there.
pub(super) fn crossed(panel: &HeatPanel, x: usize, y: usize) -> bool {
    panel.crossed.get(y).and_then(|row| row.get(x)).copied().unwrap_or(false)
}

/// From values to colours.
pub(super) struct Ramp {
    better: Better,
    /// Least and greatest value of the ends.
    range: Option<(f64, f64)>,
    /// Some values are below or above.
    beyond: (bool, bool),
}

impl Ramp {
    /// Spans the values that keep the requirements, if these differ: one that is far off would
    /// leave the others alike.
    pub(super) fn new(panel: &HeatPanel) -> Self {
        let rows = || panel.cells.iter().enumerate();
        let cells = || rows().flat_map(|(y, row)| (0..row.len()).map(move |x| (x, y)));
        let values = |kept: bool| {
            let shown = cells().filter(move |(x, y)| !(kept && crossed(panel, *x, *y)));
            extent(shown.filter_map(|(x, y)| value(panel, x, y)))
        };
        let all = values(false);
        let range = values(true).filter(|(from, to)| from < to).or(all);
        let beyond = match (range, all) {
            (Some(range), Some(all)) => (all.0 < range.0, all.1 > range.1),
            _ => (false, false),
        };
        Ramp { better: panel.better, range, beyond }
    }

    /// The ends of the bar: the worst on the left.
    pub(super) fn ends(&self) -> Option<[String; 2]> {
        let (from, to) = self.range?;
        let sign = |beyond: bool, sign: &str| if beyond { sign.to_owned() } else { String::new() };
        let least = sign(self.beyond.0, "≤ ") + &number(from);
        let most = sign(self.beyond.1, "≥ ") + &number(to);
        Some(if self.better == Better::Lower { [most, least] } else { [least, most] })
    }

    pub(super) fn color(&self, value: f64) -> RGBColor {
        let (from, to) = self.range.unwrap_or((value, value));
        let share = if to > from { ((value - from) / (to - from)).clamp(0.0, 1.0) } else { 0.5 };
        self.shade(if self.better == Better::Lower { 1.0 - share } else { share })
    }

    /// From the weakest colour at 0 to the strongest at 1.
    fn shade(&self, share: f64) -> RGBColor {
        let stops = if self.better == Better::Neither { &BLUES } else { &GREENS };
        let at = share * (stops.len() - 1) as f64;
        let below = (at as usize).min(stops.len() - 2);
        let part = at - below as f64;
        let mix = |channel: usize| {
            let [from, to] = [stops[below], stops[below + 1]].map(|stop| f64::from(stop[channel]));
            (from + (to - from) * part).round() as u8
        };
        RGBColor(mix(0), mix(1), mix(2))
    }

    /// Draws the bar of colours, and returns where it ends.
    pub(super) fn draw(&self, root: &Area<'_>, (left, y): (i32, i32)) -> Result<i32, PlotError> {
        let (top, bottom) = (y - BAR.1 / 2, y + BAR.1 / 2);
        let step = 3;
        for x in (0..BAR.0).step_by(step as usize) {
            let color = self.shade(f64::from(x) / f64::from(BAR.0 - step));
            let corners = [(left + x, top), (left + x + step, bottom)];
            root.draw(&Rectangle::new(corners, color.filled()))?;
        }
        outline(root, [(left, top), (left + BAR.0, bottom)], AXIS.stroke_width(1))?;
        Ok(left + BAR.0)
    }
}

/// How a cell looks.
pub(super) struct Look {
    /// Without a value it is grey with a cross.
    pub(super) color: Option<RGBColor>,
    /// The number in it.
    pub(super) text: Option<String>,
    /// A requirement is broken.
    pub(super) hatched: bool,
    /// Size of the number; without, it is left out.
    pub(super) font: Option<f64>,
}

impl Look {
    /// Draws the cell without its number.
    pub(super) fn draw_ground(
        &self,
        root: &Area<'_>,
        corners: [(i32, i32); 2],
    ) -> Result<(), PlotError> {
        let [(left, top), (right, bottom)] = corners;
        root.draw(&Rectangle::new(corners, self.color.unwrap_or(EMPTY).filled()))?;
        if self.hatched {
            hatch(root, corners)?;
        }
        if self.color.is_none() {
            let centre = ((left + right) / 2, (top + bottom) / 2);
            let arm = ((right - left).min(bottom - top) / 4).clamp(1, 6);
            for slope in [-1, 1] {
                let ends = [-arm, arm].map(|at| (centre.0 + at, centre.1 + slope * at));
                root.draw(&PathElement::new(ends, AXIS.stroke_width(2)))?;
            }
        }
        Ok(())
    }

    /// Draws the number, if there is one.
    pub(super) fn draw_number(
        &self,
        root: &Area<'_>,
        [(left, top), (right, bottom)]: [(i32, i32); 2],
    ) -> Result<(), PlotError> {
        let (Some(label), Some(size), Some(color)) = (&self.text, self.font, self.color) else {
            return Ok(());
        };
        let centre = ((left + right) / 2, (top + bottom) / 2);
        let ink = if brightness(color) > 0.5 { INK } else { WHITE };
        let style = text(size, ink, FontStyle::Normal).pos(Pos::new(HPos::Center, VPos::Center));
        if self.hatched {
            let (half, tall) = (width(label, &style) / 2 + 3, size as i32 / 2 + 1);
            let ground = [(centre.0 - half, centre.1 - tall), (centre.0 + half, centre.1 + tall)];
            root.draw(&Rectangle::new(ground, color.filled()))?;
        }
        root.draw_text(label, &style, centre)?;
        Ok(())
    }
}

/// Slanting lines over a cell, in one stroke that turns at its edges.
fn hatch(
    root: &Area<'_>,
    [(left, top), (right, bottom)]: [(i32, i32); 2],
) -> Result<(), PlotError> {
    let (wide, high) = (right - left, bottom - top);
    let mut path = Vec::new();
    for offset in (4..wide + high).step_by(8) {
        // from the left or lower edge up to the upper or right one
        let low =
            if offset <= high { (left, top + offset) } else { (left + offset - high, bottom) };
        let up = if offset <= wide { (left + offset, top) } else { (right, top + offset - wide) };
        path.extend(if offset % 16 == 4 { [low, up] } else { [up, low] });
    }
    root.draw(&PathElement::new(path, HATCH.mix(0.75).stroke_width(1)))?;
    Ok(())
}

/// Of a colour as the eye sees it, from 0 to 1.
fn brightness(RGBColor(red, green, blue): RGBColor) -> f64 {
    (0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue)) / 255.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(better: Better, cells: &[f64], crossed: &[bool]) -> Ramp {
        let cells = vec![cells.iter().map(|value| Some(*value)).collect()];
        let crossed = vec![crossed.to_vec()];
        Ramp::new(&HeatPanel { title: String::new(), better, cells, crossed })
    }

    #[test]
    fn the_better_the_darker() {
        for better in [Better::Higher, Better::Lower, Better::Neither] {
            let ramp = ramp(better, &[0.0, 100.0], &[]);
            let mut shades: Vec<f64> =
                (0..=100).map(|value| brightness(ramp.color(value.into()))).collect();
            if better == Better::Lower {
                shades.reverse();
            }
            assert!(shades.windows(2).all(|pair| pair[0] > pair[1]), "{better:?}");
        }
    }

    #[test]
    fn colours_span_what_keeps_the_requirements() {
        let ramp = ramp(Better::Lower, &[1.0, 3.0, 1000.0, 0.5], &[false, false, true, true]);
        assert_eq!(ramp.ends(), Some(["≥ 3".to_owned(), "≤ 1".to_owned()]));
        assert_eq!(ramp.color(1000.0), ramp.color(3.0));
        assert_ne!(ramp.color(1.0), ramp.color(3.0));
        let broken = self::ramp(Better::Lower, &[1.0, 3.0], &[true, true]);
        assert_eq!(broken.ends(), Some(["3".to_owned(), "1".to_owned()]));
    }
}
