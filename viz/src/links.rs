//! The plot of links: how busy the busiest ones were.

use std::ops::Range;

use models::report::Report;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::PlotError;
use crate::font;
use crate::link::{Link, links, rest_text};
use crate::panel::BOTTOM;
use crate::run::outcome;
use crate::scale::{self, PERCENT, counted, percent, rate, tick, value_range};
use crate::style::{
    Area, FADED, HEADER, INK, STRIPE, WIDTH, draw_header, draw_note, fit, fit_ends, printable,
    style_mesh, text, width,
};

/// Links drawn; the others are counted.
const SHOWN: usize = 40;
/// Height of a link.
const ROW: i32 = 18;
/// Height of its bar.
const BAR: i32 = 12;
/// Space for the legend, and for the heads of the columns.
const TOP: i32 = HEADER as i32 + 48;
/// Height of the heads of the columns.
const HEADS: i32 = TOP - 10;
/// Space below everything.
const BELOW: u32 = 8;
/// Space at both sides.
const MARGIN: i32 = 24;
/// Longest names of the two ends of a link together.
const NAMES: i32 = 380;
/// Widest column.
const COLUMN: i32 = 220;
/// Space before a column.
const GAP: i32 = 22;
/// Space for the number at the end of a bar.
const NUMBER: i32 = 60;

/// Colours of bars: the greatest share of time paused that each stands for.
const PAUSED: [(f64, RGBColor, &str); 5] = [
    (0.0, RGBColor(0x7A, 0xA6, 0xC9), "never"),
    (0.01, RGBColor(0xF3, 0xD3, 0x7A), "up to 1 %"),
    (0.1, RGBColor(0xEE, 0x9F, 0x35), "up to 10 %"),
    (0.3, RGBColor(0xD5, 0x5E, 0x00), "up to 30 %"),
    (f64::INFINITY, RGBColor(0x96, 0x12, 0x12), "over 30 %"),
];
/// Frames marked.
const MARKS: RGBColor = RGBColor(0x33, 0x22, 0x88);
/// Frames dropped.
const DROPS: RGBColor = RGBColor(0xB0, 0x10, 0x10);

pub(crate) fn draw(title: &str, report: &Report) -> Result<String, PlotError> {
    font::register();
    let links = links(report);
    let table = Table::new(&links);
    let mut svg = String::new();
    {
        let size = (WIDTH, table.bottom() as u32 + BOTTOM + BELOW);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        draw_header(&root, title, &subtitle(report, &links))?;
        draw_legend(&root)?;
        table.draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}

fn subtitle(report: &Report, links: &[Link<'_>]) -> String {
    let count = counted(links.len() as u64, "link");
    let links = match one_rate(links) {
        Some(rate_bps) => format!("{count} of {}", rate(rate_bps as f64)),
        None => count,
    };
    let (outcome, time) = (outcome(report.outcome), scale::time(report.simulated_time_s));
    format!("{links} · one for each direction · {outcome} · {time} simulated")
}

/// The rate of all links, if they have the same.
fn one_rate(links: &[Link<'_>]) -> Option<u64> {
    let first = links.first()?.port.rate_bps;
    links.iter().all(|link| link.port.rate_bps == first).then_some(first)
}

/// The colours of bars.
fn draw_legend(root: &Area<'_>) -> Result<(), PlotError> {
    let style = text(14.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Left, VPos::Center));
    let (mut x, y) = (MARGIN, HEADER as i32 + 12);
    let head = "Share of time paused (PFC, sum of priorities):";
    root.draw_text(head, &style, (x, y))?;
    x += width(head, &style) + 12;
    for (_, color, label) in PAUSED {
        root.draw(&Rectangle::new([(x, y - 6), (x + 13, y + 7)], color.filled()))?;
        root.draw_text(label, &style, (x + 20, y))?;
        x += 20 + width(label, &style) + 20;
    }
    Ok(())
}

/// A row for each link: its name, its bar, and columns with what happened to it.
struct Table<'a> {
    rows: &'a [Link<'a>],
    rest: &'a [Link<'a>],
    /// The names of the rows' links.
    names: Vec<String>,
    /// Those with anything in them.
    columns: Vec<Column>,
    /// Utilisations shown, in percent.
    range: Range<f64>,
}

/// Texts to the right of the bars.
struct Column {
    head: &'static str,
    color: RGBColor,
    cells: Vec<String>,
}

impl<'a> Table<'a> {
    fn new(links: &'a [Link<'a>]) -> Self {
        let (rows, rest) = links.split_at(links.len().min(SHOWN));
        let column = |head, color, cell: &dyn Fn(&Link<'a>) -> String| Column {
            head,
            color,
            cells: rows.iter().map(cell).collect(),
        };
        let mixed = one_rate(links).is_none();
        let rates =
            |link: &Link<'_>| if mixed { rate(link.port.rate_bps as f64) } else { String::new() };
        let mut columns = vec![
            column("rate", INK, &rates),
            column("paused", INK, &Link::paused_text),
            column("ECN marks (of frames)", MARKS, &Link::marks_text),
            column("dropped by the peer", DROPS, &Link::drops_text),
        ];
        columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
        let greatest = links.first().map_or(0.0, |link| link.utilisation);
        // up to 100 % where that leaves the longest bar a quarter of the width
        let range = match greatest == 0.0 || (0.25..=1.0).contains(&greatest) {
            true => 0.0..100.0,
            false => value_range(greatest / PERCENT.size),
        };
        Table { rows, rest, names: rows.iter().map(name).collect(), columns, range }
    }

    /// Where the rows end.
    fn bottom(&self) -> i32 {
        let lines = self.rows.len() + usize::from(!self.rest.is_empty());
        TOP + lines.max(3) as i32 * ROW + 4
    }

    fn draw(&self, root: &Area<'_>) -> Result<(), PlotError> {
        let left = self.draw_names(root)?;
        let right = self.draw_columns(root)? - NUMBER;
        let mut chart = ChartBuilder::on(root)
            .margin_top(TOP)
            .margin_left(left)
            .margin_bottom(BELOW)
            .margin_right(WIDTH as i32 - right)
            .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM)
            .build_cartesian_2d(self.range.clone(), 0.0..1.0)?;
        let x_label = |value: &f64| tick(*value, &self.range);
        let mut mesh = chart.configure_mesh();
        style_mesh(&mut mesh);
        mesh.disable_y_mesh()
            .disable_y_axis()
            .x_labels(6)
            .x_desc("Utilisation over the whole run, with preamble and inter-frame gap (%)")
            .x_label_formatter(&x_label)
            .draw()?;
        let style = text(14.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Left, VPos::Center));
        for (index, link) in self.rows.iter().enumerate() {
            let y = middle(index);
            let (end, _) = chart.backend_coord(&(link.utilisation / PERCENT.size, 0.0));
            let corners = [(left, y - BAR / 2), (end.max(left), y - BAR / 2 + BAR)];
            root.draw(&Rectangle::new(corners, color(link.paused).filled()))?;
            root.draw_text(&percent(link.utilisation), &style, (end + 6, y))?;
        }
        if !self.rest.is_empty() {
            let style = style.color(&FADED);
            let room = WIDTH as i32 - left - MARGIN;
            let rest = fit(&rest_text(self.rest), &style, room);
            root.draw_text(&rest, &style, (left + 6, middle(self.rows.len())))?;
        }
        if self.rows.is_empty() {
            draw_note(root, "no links", ((left + right) / 2, (TOP + self.bottom()) / 2))?;
        }
        Ok(())
    }

    /// Draws stripes and names, and returns where the bars begin.
    fn draw_names(&self, root: &Area<'_>) -> Result<i32, PlotError> {
        let style = text(14.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Right, VPos::Center));
        let widest = self.names.iter().map(|name| width(name, &style)).max().unwrap_or(0);
        let right = MARGIN + widest;
        for (index, name) in self.names.iter().enumerate() {
            let y = middle(index);
            if index % 2 == 0 {
                let corners = [(MARGIN / 2, y - ROW / 2), (WIDTH as i32 - MARGIN / 2, y + ROW / 2)];
                root.draw(&Rectangle::new(corners, STRIPE.filled()))?;
            }
            root.draw_text(name, &style, (right, y))?;
        }
        let head = text(14.0, FADED, FontStyle::Normal).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw_text("utilisation", &head, (right + 8, HEADS))?;
        Ok(right + 8)
    }

    /// Draws the columns from the right, and returns where the leftmost begins.
    fn draw_columns(&self, root: &Area<'_>) -> Result<i32, PlotError> {
        let right_aligned = Pos::new(HPos::Right, VPos::Center);
        let mut right = WIDTH as i32 - MARGIN;
        for column in self.columns.iter().rev() {
            let style = text(14.0, column.color, FontStyle::Normal).pos(right_aligned);
            let head = text(14.0, FADED, FontStyle::Normal).pos(right_aligned);
            root.draw_text(column.head, &head, (right, HEADS))?;
            let cells: Vec<String> =
                column.cells.iter().map(|cell| fit(&printable(cell), &style, COLUMN)).collect();
            for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
                root.draw_text(cell, &style, (right, middle(index)))?;
            }
            let widest = cells.iter().map(|cell| width(cell, &style)).max().unwrap_or(0);
            right -= widest.max(width(column.head, &head)) + GAP;
        }
        Ok(right)
    }
}

/// Height of the middle of a row.
fn middle(row: usize) -> i32 {
    TOP + row as i32 * ROW + ROW / 2 + 2
}

fn color(paused: f64) -> RGBColor {
    let most = PAUSED.iter().find(|(most, ..)| paused <= *most);
    most.unwrap_or(&PAUSED[PAUSED.len() - 1]).1
}

/// `leaf0:3 → host3/nic0`, both shortened if need be.
fn name(link: &Link<'_>) -> String {
    let style = text(14.0, INK, FontStyle::Normal);
    let [from, to] = [&link.port.port, &link.port.peer].map(|name| printable(name));
    let arrow = " → ";
    let room = NAMES - width(arrow, &style);
    let [from_width, to_width] = [&from, &to].map(|name| width(name, &style));
    let from = fit_ends(&from, &style, (room - to_width).max(room / 2));
    let to = fit_ends(&to, &style, (room - from_width).max(room / 2));
    format!("{from}{arrow}{to}")
}
