//! What the plots of studies share: the page, numbers, outlines.

use plotters::prelude::*;

use crate::error::PlotError;
use crate::font;
use crate::scale::tick;
use crate::style::{Area, WIDTH, draw_header};

/// Greater values are taken for mistakes.
const GREATEST: f64 = 1e100;

/// A page of this height with a heading, and what `draw` adds.
pub(super) fn page(
    height: i32,
    [title, subtitle]: [&str; 2],
    draw: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        draw_header(&root, title, subtitle)?;
        draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}

/// Makes text measurable. Comes before any layout.
pub(super) fn prepare() {
    font::register();
}

/// The value, if it can be drawn.
pub(super) fn usable(value: f64) -> Option<f64> {
    match value.abs() {
        size if size < 1.0 / GREATEST => Some(0.0),
        size if size <= GREATEST => Some(value),
        _ => None,
    }
}

/// Least and greatest of the values.
pub(super) fn extent(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let ends = |ends: Option<(f64, f64)>, value: f64| {
        let (from, to) = ends.unwrap_or((value, value));
        Some((from.min(value), to.max(value)))
    };
    values.into_iter().fold(None, ends)
}

/// The power of ten that numbers up to `greatest` are divided by, and how it is written.
pub(super) fn power(greatest: f64) -> (f64, String) {
    if greatest == 0.0 || (0.01..1e4).contains(&greatest) {
        return (1.0, String::new());
    }
    let exponent = (greatest.log10() / 3.0).floor() as i32 * 3;
    let suffix = match exponent {
        3 => "k".to_owned(),
        6 => "M".to_owned(),
        9 => "G".to_owned(),
        12 => "T".to_owned(),
        _ => format!("e{exponent}"),
    };
    (10f64.powi(exponent), suffix)
}

/// A number of any size in three significant digits: `22.0`, `12.3k`. Below 10 000, all digits of
/// its whole part.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        // so that the numbers of a table are equally long
        _ if size < 0.1 || value.fract() == 0.0 => brief(value),
        _ if size < 0.9995 => format!("{value:.3}"),
        _ if size < 9.995 => format!("{value:.2}"),
        _ if size < 99.95 => format!("{value:.1}"),
        _ => brief(value),
    }
}

/// [`number`] without zeros at its end.
pub(super) fn brief(value: f64) -> String {
    // rounded first: 999 999 is 1 M, not 1000 k
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    if rounded == 0.0 {
        return "0".to_owned();
    }
    let (size, suffix) = power(rounded.abs());
    let value = if suffix.is_empty() { value } else { rounded };
    format!("{}{suffix}", tick(value / size, &(0.0..rounded.abs() / size)))
}

/// The outline of a rectangle.
pub(super) fn outline(
    area: &Area<'_>,
    [(left, top), (right, bottom)]: [(i32, i32); 2],
    style: ShapeStyle,
) -> Result<(), PlotError> {
    // one side more closes the last corner
    let corners =
        [(left, top), (right, top), (right, bottom), (left, bottom), (left, top), (right, top)];
    area.draw(&PathElement::new(corners.to_vec(), style))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let numbers = [
            (0.0, "0"),
            (24.456, "24.5"),
            (-0.123_45, "-0.123"),
            (4138.4, "4138"),
            (9_999.9, "10k"),
            (999_999.0, "1M"),
            (12_345.0, "12.3k"),
            (-7.654e9, "-7.65G"),
            (1.234e-5, "12.3e-6"),
            (3e40, "30e39"),
            (9.996, "10.0"),
            (21.97, "22.0"),
            (22.0, "22"),
            (99.96, "100"),
            (0.5, "0.500"),
            (0.02, "0.02"),
            (0.01, "0.01"),
        ];
        for (value, text) in numbers {
            assert_eq!(number(value), text, "{value}");
        }
        assert_eq!([0.5, 9.996, 12_345.0].map(brief), ["0.5", "10", "12.3k"]);
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        for value in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e101, -f64::MAX] {
            assert_eq!(usable(value), None);
        }
        assert_eq!([1e-320, -2.0, 1e99].map(usable), [Some(0.0), Some(-2.0), Some(1e99)]);
        assert_eq!(extent([]), None);
        assert_eq!(extent([2.0, -1.0, 3.0]), Some((-1.0, 3.0)));
    }
}
