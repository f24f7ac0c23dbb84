//! Where the panels of a heat map are, and how large their cells.

use plotters::style::{FontStyle, FontTransform};

use super::heat::{HeatMap, HeatPanel, Ticks};
use super::heat_cells;
use super::page::number;
use crate::style::{HEADER, INK, WIDTH, fit_ends, printable, text, width};

/// Space at both sides.
pub(super) const MARGIN: i32 = 24;
/// Height of a panel's heading.
pub(super) const HEAD: i32 = 54;
/// Height of the line that explains cells.
pub(super) const KEYS: i32 = 40;
/// Text that runs upwards.
pub(super) const ROTATED: FontTransform = FontTransform::Rotate270;
/// Panels side by side.
const BESIDE: usize = 3;
/// Space between panels.
const GAP: i32 = 26;
/// Largest cell.
const LARGEST: (i32, i32) = (130, 52);
/// A panel with narrow cells is as wide as this, for its heading.
const NARROWEST: i32 = 320;
/// Longest names of columns and rows.
const NAME: i32 = 130;
/// Most columns and rows of cells.
const MOST: (usize, usize) = (300, 150);
/// Sizes of the numbers in cells, the best first.
const FONTS: [f64; 5] = [15.0, 14.0, 13.0, 12.0, 11.0];

/// The same for all panels.
pub(super) struct Layout {
    /// Panels side by side.
    pub(super) columns: usize,
    /// Columns of cells in a panel.
    pub(super) columns_of_cells: usize,
    /// Rows of cells in a panel.
    pub(super) rows: usize,
    /// Width and height of a cell.
    pub(super) cell: (i32, i32),
    /// Where the cells of the first panel begin.
    pub(super) left: i32,
    /// Space for a panel.
    pub(super) pitch: i32,
    /// Height of names and label below the cells.
    pub(super) foot: i32,
    /// The names of columns run upwards.
    pub(super) turned: bool,
    /// Size of numbers, if they fit.
    pub(super) font: Option<f64>,
    /// Names that fit.
    pub(super) x_names: Vec<String>,
    pub(super) y_names: Vec<String>,
    /// Keys, with how many of their values are shown if not all.
    pub(super) x_label: String,
    pub(super) y_label: String,
    panels: usize,
}

impl Layout {
    pub(super) fn new(input: &HeatMap) -> Self {
        let (all_columns, all_rows) = heat_cells::size(input);
        let columns_of_cells = all_columns.min(MOST.0);
        let rows = all_rows.min(MOST.1);
        let style = text(14.0, INK, FontStyle::Normal);
        let names = |ticks: &Ticks, shown: usize| -> Vec<String> {
            let names = ticks.names.iter().take(shown);
            names.map(|name| fit_ends(&printable(name), &style, NAME)).collect()
        };
        let (x_names, y_names) = (names(&input.x, columns_of_cells), names(&input.y, rows));
        let widest = |names: &[String]| names.iter().map(|name| width(name, &style)).max();
        let left = MARGIN + 22 + widest(&y_names).unwrap_or(0) + 8;
        let high = (440 / rows.max(1) as i32).clamp(22, LARGEST.1);
        let high = if rows > 40 { (900 / rows as i32).max(4) } else { high };
        let (columns, wide, font) = fit_panels(input, (columns_of_cells, rows), left, high);
        let cells = wide * columns_of_cells as i32;
        let widest = widest(&x_names).unwrap_or(0);
        let turned = widest + 6 > wide;
        let foot = if turned { widest + 12 } else { 24 } + 26;
        // wide headings where there is room for them
        let room = (WIDTH as i32 - left - MARGIN + GAP) / columns as i32;
        let pitch = (cells.max(NARROWEST) + GAP).min(room.max(cells + GAP));
        Layout {
            columns,
            columns_of_cells,
            rows,
            cell: (wide, high),
            left,
            pitch,
            foot,
            turned,
            font,
            x_names,
            y_names,
            x_label: label(&input.x, columns_of_cells, all_columns),
            y_label: label(&input.y, rows, all_rows),
            panels: if rows * columns_of_cells == 0 { 0 } else { input.panels.len() },
        }
    }

    /// Corner of the cells of a panel.
    pub(super) fn corner(&self, panel: usize) -> (i32, i32) {
        let (row, column) = ((panel / self.columns) as i32, (panel % self.columns) as i32);
        let top = HEADER as i32 + 12 + row * self.panel_height() + HEAD;
        (self.left + column * self.pitch, top)
    }

    pub(super) fn height(&self) -> i32 {
        let rows = self.panels.div_ceil(self.columns).max(1) as i32;
        HEADER as i32 + 12 + rows * self.panel_height() + KEYS
    }

    pub(super) fn columns_width(&self) -> i32 {
        self.columns_of_cells as i32 * self.cell.0
    }

    /// All cells of a panel.
    pub(super) fn cells(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.columns_of_cells;
        (0..self.rows).flat_map(move |y| (0..columns).map(move |x| (x, y)))
    }

    /// The cell, if it is there.
    pub(super) fn shown(&self, cell: Option<(usize, usize)>) -> Option<(usize, usize)> {
        cell.filter(|(x, y)| *x < self.columns_of_cells && *y < self.rows)
    }

    /// There is no cell at all.
    pub(super) fn is_empty(&self) -> bool {
        self.panels == 0
    }

    /// One of so many columns is named.
    pub(super) fn every_x(&self) -> usize {
        let needed = if self.turned { 15 } else { 1 };
        needed / self.cell.0 as usize + 1
    }

    /// One of so many rows is named.
    pub(super) fn every_y(&self) -> usize {
        15 / self.cell.1 as usize + 1
    }

    fn panel_height(&self) -> i32 {
        HEAD + self.rows as i32 * self.cell.1 + self.foot + 14
    }
}

/// The label of an axis of which not all is shown.
fn label(ticks: &Ticks, shown: usize, all: usize) -> String {
    let label = printable(&ticks.label);
    if shown < all { format!("{label} (the first {shown} of {all})") } else { label }
}

/// Panels side by side, the width of cells, and the size of their numbers: fewer panels rather
/// than no numbers.
fn fit_panels(
    input: &HeatMap,
    (columns, rows): (usize, usize),
    left: i32,
    high: i32,
) -> (usize, i32, Option<f64>) {
    let cells = || (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y)));
    let numbers = |panel: &HeatPanel| -> Vec<String> {
        cells().filter_map(|(x, y)| heat_cells::value(panel, x, y)).map(number).collect()
    };
    // digits are equally wide: the number with most characters is about the widest
    let length = |text: &String| text.chars().count();
    let longest = input.panels.iter().flat_map(numbers).max_by_key(length).unwrap_or_default();
    let most = input.panels.len().clamp(1, BESIDE);
    let wide = |beside: usize| {
        let room = (WIDTH as i32 - left - MARGIN + GAP) / beside as i32 - GAP;
        (room / columns.max(1) as i32).clamp(1, LARGEST.0)
    };
    let font = |wide: i32| {
        let fits = |size: &f64| {
            let style = text(*size, INK, FontStyle::Normal);
            width(&longest, &style) + 6 <= wide && *size as i32 + 4 <= high
        };
        FONTS.into_iter().find(fits)
    };
    let choices = || (1..=most).rev().map(|beside| (beside, wide(beside), font(wide(beside))));
    let numbered = choices().find(|(_, _, font)| font.is_some());
    let wide_enough = || choices().find(|(_, wide, _)| *wide >= 10);
    numbered.or_else(wide_enough).unwrap_or((1, wide(1), None))
}
