//! Colours, text and the heading, the same in all plots.

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::PlotError;
use crate::font::FAMILY;

/// What is drawn on.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Okabe and Ito's colours, told apart by colour-blind readers too. Their yellow is too pale for
/// a white ground: indigo and grey stand in.
pub(crate) const PALETTE: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0x80, 0x80, 0x80),
];
/// Text.
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Text of less weight.
pub(crate) const FADED: RGBColor = RGBColor(0x66, 0x66, 0x66);
/// Axes.
pub(crate) const AXIS: RGBColor = RGBColor(0x99, 0x99, 0x99);
/// Behind every second row.
pub(crate) const STRIPE: RGBColor = RGBColor(0xF6, 0xF6, 0xF6);
/// Lines of the grid.
pub(crate) const GRID: RGBColor = RGBColor(0xE6, 0xE6, 0xE6);

/// Pixels of a dash, and from one to the next.
pub(crate) const DASH: [i32; 2] = [8, 13];

/// Width of a plot.
pub(crate) const WIDTH: u32 = 1200;
/// Space for title and subtitle.
pub(crate) const HEADER: u32 = 72;

/// Title and subtitle, above everything.
pub(crate) fn draw_header(root: &Area<'_>, title: &str, subtitle: &str) -> Result<(), PlotError> {
    let room = WIDTH as i32 - 48;
    let style = text(26.0, INK, FontStyle::Bold);
    root.draw_text(&fit(&printable(title), &style, room), &style, (24, 18))?;
    let style = text(17.0, FADED, FontStyle::Normal);
    root.draw_text(&fit(&printable(subtitle), &style, room), &style, (24, 46))?;
    Ok(())
}

/// In the middle of `centre`, instead of a plot.
pub(crate) fn draw_note(area: &Area<'_>, note: &str, centre: (i32, i32)) -> Result<(), PlotError> {
    let style = text(16.0, FADED, FontStyle::Normal);
    area.draw_text(note, &style.pos(Pos::new(HPos::Center, VPos::Center)), centre)?;
    Ok(())
}

/// A line of dashes, along a row or a column of pixels: `on` pixels of every `period`.
pub(crate) fn dashed(
    area: &Area<'_>,
    [from, to]: [(i32, i32); 2],
    style: ShapeStyle,
    [on, period]: [i32; 2],
) -> Result<(), PlotError> {
    let across = from.1 == to.1;
    let (first, last) = if across { (from.0, to.0) } else { (from.1, to.1) };
    for start in (first..last).step_by(period as usize) {
        let ends = [start, (start + on).min(last)];
        let ends = ends.map(|along| if across { (along, from.1) } else { (from.0, along) });
        area.draw(&PathElement::new(ends, style))?;
    }
    Ok(())
}

/// Axes, grid and labels as in all plots.
pub(crate) fn style_mesh<X: Ranged, Y: Ranged>(mesh: &mut MeshStyle<'_, '_, X, Y, SVGBackend<'_>>) {
    mesh.axis_style(AXIS)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(text(14.0, INK, FontStyle::Normal))
        .axis_desc_style(text(15.0, INK, FontStyle::Normal))
        .set_all_tick_mark_size(4);
}

/// A text style of the plot.
pub(crate) fn text(size: f64, color: RGBColor, style: FontStyle) -> TextStyle<'static> {
    let mut text = TextStyle::from(FontDesc::new(FAMILY, size, style));
    text.color = color.to_backend_color();
    text
}

/// The text without control characters and the like: they have no place in XML.
pub(crate) fn printable(text: &str) -> String {
    let foreign =
        |character: char| character.is_control() || matches!(character, '\u{FFFE}' | '\u{FFFF}');
    text.replace(foreign, " ")
}

/// Pixels that the text takes.
pub(crate) fn width(text: &str, style: &TextStyle<'_>) -> i32 {
    style.font.layout_box(text).map_or(0, |(from, to)| to.0 - from.0)
}

/// As much of the beginning of `label` as fits in `room` pixels.
pub(crate) fn fit(label: &str, style: &TextStyle<'_>, room: i32) -> String {
    if width(label, style) <= room {
        return label.to_owned();
    }
    let ends: Vec<usize> = label.char_indices().map(|(end, _)| end).collect();
    longest(ends.len(), style, room, |kept| format!("{}…", label[..ends[kept]].trim_end()))
}

/// As much of both ends of `label` as fits in `room` pixels: names often differ in their last
/// characters only.
pub(crate) fn fit_ends(label: &str, style: &TextStyle<'_>, room: i32) -> String {
    if width(label, style) <= room {
        return label.to_owned();
    }
    let characters: Vec<char> = label.chars().collect();
    let shorter = |kept: usize| {
        let (head, tail) = (kept / 2, kept - kept / 2);
        let ends = [&characters[..head], &characters[characters.len() - tail..]];
        ends.map(|end| end.iter().collect::<String>()).join("…")
    };
    longest(characters.len(), style, room, shorter)
}

/// The longest of `count` texts, each longer than the one before, that fits in `room` pixels.
fn longest(
    count: usize,
    style: &TextStyle<'_>,
    room: i32,
    text: impl Fn(usize) -> String,
) -> String {
    let (mut fitting, mut end) = (0, count);
    while fitting < end {
        let middle = (fitting + end) / 2;
        match width(&text(middle), style) <= room {
            true => fitting = middle + 1,
            false => end = middle,
        }
    }
    fitting.checked_sub(1).map(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_end_or_their_middle() {
        crate::font::register();
        let style = text(14.0, INK, FontStyle::Normal);
        let name = "a-leaf-switch-with-a-long-name:17";
        for fits in [fit, fit_ends] {
            assert_eq!(fits(name, &style, 10_000), name);
            assert_eq!(fits(name, &style, 0), "");
            for room in [20, 50, 100, 200] {
                let text = fits(name, &style, room);
                assert!(width(&text, &style) <= room && text.contains('…'), "{text}");
            }
        }
        assert!(fit(name, &style, 150).starts_with("a-leaf"));
        let ends = fit_ends(name, &style, 150);
        assert!(ends.starts_with("a-leaf") && ends.ends_with("me:17"), "{ends}");
    }
}
