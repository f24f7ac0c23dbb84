//! What the lines and marks of a plot mean.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::PlotError;
use crate::marker::Marker;
use crate::style::{Area, FADED, INK, fit, printable, text};

/// Distance between the lines of a legend.
const LEADING: i32 = 21;
/// The same within an entry.
const CLOSE: i32 = LEADING - 3;
/// Length of the sample of a line.
const SWATCH: i32 = 22;
/// Space for that and the gap after it.
const INDENT: i32 = 30;

/// A line or a mark, and what it is.
pub(crate) struct Entry {
    /// The line, if it is one.
    pub(crate) line: Option<ShapeStyle>,
    /// The mark, if there is one.
    pub(crate) marker: Option<Marker>,
    /// What it is.
    pub(crate) label: String,
    /// Below that, if anything.
    pub(crate) detail: String,
}

/// Draws as many of `entries` as fit between `top` and `bottom`, from `left` on; details only if
/// there is room for all of them.
pub(crate) fn draw(
    area: &Area<'_>,
    entries: &[Entry],
    left: i32,
    [top, bottom]: [i32; 2],
) -> Result<(), PlotError> {
    let room = area.dim_in_pixel().0 as i32 - left - INDENT - 8;
    let middle = Pos::new(HPos::Left, VPos::Center);
    let label_style = text(15.0, INK, FontStyle::Normal).pos(middle);
    let detail_style = text(14.0, FADED, FontStyle::Normal).pos(middle);
    let details = entries.iter().filter(|entry| !entry.detail.is_empty()).count() as i32;
    let height = entries.len() as i32 * LEADING;
    let detailed = top + height + details * CLOSE <= bottom;
    let fitting = ((bottom - top) / LEADING).max(1) as usize;
    // the last line is for the number of those that do not fit
    let shown = if entries.len() > fitting { fitting - 1 } else { entries.len() };
    let mut y = top;
    for entry in &entries[..shown] {
        if let Some(line) = entry.line {
            area.draw(&PathElement::new([(left, y), (left + SWATCH, y)], line))?;
        }
        if let Some(marker) = entry.marker {
            marker.draw(area, (left + SWATCH / 2, y))?;
        }
        let label = fit(&printable(&entry.label), &label_style, room);
        area.draw_text(&label, &label_style, (left + INDENT, y))?;
        if detailed && !entry.detail.is_empty() {
            y += CLOSE;
            let detail = fit(&entry.detail, &detail_style, room);
            area.draw_text(&detail, &detail_style, (left + INDENT, y))?;
        }
        y += LEADING;
    }
    if shown < entries.len() {
        let more = format!("and {} more", entries.len() - shown);
        area.draw_text(&more, &detail_style, (left + INDENT, y))?;
    }
    Ok(())
}
