//! Heat maps: objectives over two keys.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Better;
use super::heat_cells::{self, Look, Ramp};
use super::heat_layout::{HEAD, KEYS, Layout, MARGIN, ROTATED};
use super::page::{number, outline, page, prepare};
use crate::error::PlotError;
use crate::style::{Area, FADED, INK, WIDTH, draw_note, fit, printable, text, width};

/// Objectives over two keys, one panel each.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// Above everything.
    pub title: String,
    /// Below the title; may be empty.
    pub subtitle: String,
    /// The key from left to right.
    pub x: Ticks,
    /// The key from bottom to top.
    pub y: Ticks,
    /// One for each objective, three side by side.
    pub panels: Vec<HeatPanel>,
    /// The recommended cell (place in `x`, place in `y`), outlined in all panels.
    pub chosen: Option<(usize, usize)>,
    /// The cell of the scenario as it is (place in `x`, place in `y`), with a dotted outline.
    pub base: Option<(usize, usize)>,
}

/// An axis of cells.
#[derive(Clone, Debug, Default)]
pub struct Ticks {
    /// The key, and the unit of its values unless that stands in `names`.
    pub label: String,
    /// The values, one for each column or row.
    pub names: Vec<String>,
}

/// One objective.
#[derive(Clone, Debug, Default)]
pub struct HeatPanel {
    /// The objective and its unit.
    pub title: String,
    /// Which values get the stronger colour; with `Neither` the higher ones, in blue.
    pub better: Better,
    /// `cells[y][x]`; `None`, like a cell that is missing, is marked as failed.
    pub cells: Vec<Vec<Option<f64>>>,
    /// `crossed[y][x]`: a requirement is broken there. The cell is hatched if it has a value; what
    /// is missing is `false`.
    pub crossed: Vec<Vec<bool>>,
}

/// One SVG of heat maps, 1200 wide: each cell with its number (three significant digits), the
/// better the greener. The colours span the cells that keep the requirements.
pub fn heat_svg(input: &HeatMap) -> Result<String, PlotError> {
    prepare();
    let layout = Layout::new(input);
    page(layout.height(), [&input.title, &input.subtitle], |root| {
        for index in 0..input.panels.len() {
            let panel = Panel::new(input, &layout, index);
            panel.draw_heading(root)?;
            panel.draw_names(root)?;
            panel.draw_cells(root)?;
            panel.draw_outlines(root)?;
        }
        if layout.is_empty() {
            draw_note(root, "nothing to show", (WIDTH as i32 / 2, layout.height() / 2))?;
        }
        draw_keys(root, input, &layout)
    })
}

/// One objective, at its place.
struct Panel<'a> {
    input: &'a HeatMap,
    panel: &'a HeatPanel,
    layout: &'a Layout,
    ramp: Ramp,
    /// Corner of the highest row's first cell.
    left: i32,
    top: i32,
    /// The first of its row: the names of `y` stand beside it.
    first: bool,
}

impl<'a> Panel<'a> {
    fn new(input: &'a HeatMap, layout: &'a Layout, index: usize) -> Self {
        let panel = &input.panels[index];
        let (left, top) = layout.corner(index);
        let first = index.is_multiple_of(layout.columns);
        Panel { input, panel, layout, ramp: Ramp::new(panel), left, top, first }
    }

    /// Two corners of a cell.
    fn cell(&self, (x, y): (usize, usize)) -> [(i32, i32); 2] {
        let (wide, high) = self.layout.cell;
        let left = self.left + x as i32 * wide;
        let top = self.top + (self.layout.rows - 1 - y) as i32 * high;
        [(left, top), (left + wide, top + high)]
    }

    /// The objective, and what the colours mean.
    fn draw_heading(&self, root: &Area<'_>) -> Result<(), PlotError> {
        let style = text(17.0, INK, FontStyle::Bold);
        let title = fit(&printable(&self.panel.title), &style, self.layout.pitch - 12);
        root.draw_text(&title, &style, (self.left, self.top - HEAD + 2))?;
        let style = text(14.0, FADED, FontStyle::Normal).pos(Pos::new(HPos::Left, VPos::Center));
        let y = self.top - 17;
        let Some([from, to]) = self.ramp.ends() else {
            root.draw_text("no value", &style, (self.left, y))?;
            return Ok(());
        };
        let mut x = self.left;
        root.draw_text(&from, &style, (x, y))?;
        x += width(&from, &style) + 6;
        x = self.ramp.draw(root, (x, y))? + 6;
        root.draw_text(&to, &style, (x, y))?;
        x += width(&to, &style) + 12;
        let better = match self.panel.better {
            Better::Higher => "higher is better",
            Better::Lower => "lower is better",
            Better::Neither => "",
        };
        let better = fit(better, &style, self.left + self.layout.pitch - x);
        root.draw_text(&better, &style, (x, y))?;
        Ok(())
    }

    /// Names of columns and rows, and the keys.
    fn draw_names(&self, root: &Area<'_>) -> Result<(), PlotError> {
        let layout = self.layout;
        let label = text(15.0, INK, FontStyle::Normal);
        let name = text(14.0, INK, FontStyle::Normal);
        let (wide, high) = layout.cell;
        let bottom = self.top + layout.rows as i32 * high;
        let below = match layout.turned {
            true => name.pos(Pos::new(HPos::Right, VPos::Center)).transform(ROTATED),
            false => name.pos(Pos::new(HPos::Center, VPos::Center)),
        };
        for (x, text) in layout.x_names.iter().enumerate().step_by(layout.every_x()) {
            let y = bottom + if layout.turned { 6 } else { 13 };
            root.draw_text(text, &below, (self.left + x as i32 * wide + wide / 2, y))?;
        }
        let centre = self.left + layout.columns_width() / 2;
        let text = fit(&layout.x_label, &label, layout.pitch - 12);
        let middle = Pos::new(HPos::Center, VPos::Center);
        // a long label begins where the cells do
        let centre = centre.max(self.left + width(&text, &label) / 2);
        root.draw_text(&text, &label.pos(middle), (centre, bottom + layout.foot - 13))?;
        if !self.first {
            return Ok(());
        }
        let beside = name.pos(Pos::new(HPos::Right, VPos::Center));
        for (y, text) in layout.y_names.iter().enumerate().step_by(layout.every_y()) {
            let [(left, top), _] = self.cell((0, y));
            root.draw_text(text, &beside, (left - 8, top + high / 2))?;
        }
        let room = layout.rows as i32 * high + HEAD + layout.foot - 20;
        let text = fit(&layout.y_label, &label, room);
        // a long label may reach below the cells and above them
        let half = width(&text, &label) / 2;
        let centre = ((self.top + bottom) / 2).max(self.top - HEAD + half + 10);
        let style = label.pos(middle).transform(ROTATED);
        root.draw_text(&text, &style, (MARGIN + 8, centre))?;
        Ok(())
    }

    fn draw_cells(&self, root: &Area<'_>) -> Result<(), PlotError> {
        let layout = self.layout;
        let look = |(x, y): (usize, usize)| {
            let value = heat_cells::value(self.panel, x, y);
            Look {
                color: value.map(|value| self.ramp.color(value)),
                text: value.map(number),
                hatched: value.is_some() && heat_cells::crossed(self.panel, x, y),
                font: layout.font,
            }
        };
        for at in layout.cells() {
            look(at).draw_ground(root, self.cell(at))?;
        }
        let (wide, high) = layout.cell;
        if wide.min(high) >= 8 {
            let (columns, rows) = (layout.columns_of_cells as i32, layout.rows as i32);
            let (right, bottom) = (self.left + columns * wide, self.top + rows * high);
            let white = WHITE.stroke_width(1);
            for x in (0..=columns).map(|column| self.left + column * wide) {
                root.draw(&PathElement::new([(x, self.top), (x, bottom)], white))?;
            }
            for y in (0..=rows).map(|row| self.top + row * high) {
                root.draw(&PathElement::new([(self.left, y), (right, y)], white))?;
            }
        }
        for at in layout.cells() {
            look(at).draw_number(root, self.cell(at))?;
        }
        Ok(())
    }

    fn draw_outlines(&self, root: &Area<'_>) -> Result<(), PlotError> {
        if let Some(base) = self.layout.shown(self.input.base) {
            draw_base(root, self.cell(base))?;
        }
        if let Some(chosen) = self.layout.shown(self.input.chosen) {
            draw_chosen(root, self.cell(chosen))?;
        }
        Ok(())
    }
}

/// A thick frame around a cell.
fn draw_chosen(root: &Area<'_>, [from, to]: [(i32, i32); 2]) -> Result<(), PlotError> {
    let inner = [(from.0 + 2, from.1 + 2), (to.0 - 2, to.1 - 2)];
    outline(root, inner, WHITE.stroke_width(2))?;
    outline(root, [from, to], INK.stroke_width(3))
}

/// A dotted frame inside a cell.
fn draw_base(root: &Area<'_>, [from, to]: [(i32, i32); 2]) -> Result<(), PlotError> {
    let (from, to) = ((from.0 + 3, from.1 + 3), (to.0 - 3, to.1 - 3));
    outline(root, [from, to], WHITE.stroke_width(2))?;
    let sides = [
        [from, (to.0, from.1)],
        [(from.0, to.1), to],
        [from, (from.0, to.1)],
        [(to.0, from.1), to],
    ];
    for side in sides {
        crate::style::dashed(root, side, INK.stroke_width(2), [3, 6])?;
    }
    Ok(())
}

/// What frames, hatching and empty cells mean, in the last line.
fn draw_keys(root: &Area<'_>, input: &HeatMap, layout: &Layout) -> Result<(), PlotError> {
    let look =
        |color: Option<RGBColor>, hatched: bool| Look { color, text: None, hatched, font: None };
    let plain = || look(Some(WHITE), false);
    let any = |found: &dyn Fn(&HeatPanel, usize, usize) -> bool| {
        input.panels.iter().any(|panel| layout.cells().any(|(x, y)| found(panel, x, y)))
    };
    let keys = [
        (layout.shown(input.chosen).is_some(), plain(), "recommended"),
        (layout.shown(input.base).is_some(), plain(), "the scenario as it is"),
        (any(&heat_cells::crossed), look(Some(heat_cells::PALE), true), "a requirement is broken"),
        (
            any(&|panel, x, y| heat_cells::value(panel, x, y).is_none()),
            look(None, false),
            "no value: failed",
        ),
    ];
    let style = text(14.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Left, VPos::Center));
    let (mut x, y) = (layout.left, layout.height() - KEYS / 2 - 4);
    for (index, (used, look, label)) in keys.iter().enumerate() {
        if !used || layout.is_empty() {
            continue;
        }
        let corners = [(x, y - 9), (x + 26, y + 9)];
        look.draw_ground(root, corners)?;
        match index {
            0 => draw_chosen(root, corners)?,
            1 => draw_base(root, corners)?,
            _ => outline(root, corners, heat_cells::EDGE.stroke_width(1))?,
        }
        root.draw_text(label, &style, (x + 34, y))?;
        x += 34 + width(label, &style) + 28;
    }
    Ok(())
}
