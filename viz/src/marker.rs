//! Marks at points.

use plotters::prelude::*;

use crate::error::PlotError;
use crate::style::Area;

/// A mark of about ten pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker {
    /// Its form.
    pub(crate) shape: Shape,
    /// Of its edge, and of its inside unless that is hollow.
    pub(crate) color: RGBColor,
    /// White inside.
    pub(crate) hollow: bool,
}

/// The form of a mark.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// The usual one.
    Circle,
    /// Standing on its side.
    Square,
    /// Standing on a corner.
    Diamond,
    /// Small, of a line that stands back.
    Dot,
    /// Two strokes that cross.
    Cross,
    /// Around another mark.
    Ring,
}

impl Shape {
    /// Told apart easily, in the order of use.
    pub(crate) const USUAL: [Shape; 3] = [Shape::Circle, Shape::Square, Shape::Diamond];
}

impl Marker {
    /// Draws the mark around `at`.
    pub(crate) fn draw(self, area: &Area<'_>, at: (i32, i32)) -> Result<(), PlotError> {
        let inside = if self.hollow { WHITE } else { self.color };
        let edge = self.color.stroke_width(2);
        let corner = |(x, y): (i32, i32)| (at.0 + x, at.1 + y);
        let polygon = |corners: [(i32, i32); 4]| -> Result<(), PlotError> {
            let corners = corners.map(corner);
            area.draw(&Polygon::new(corners, inside.filled()))?;
            let closed = corners.iter().chain(&corners[..2]).copied();
            area.draw(&PathElement::new(closed.collect::<Vec<_>>(), edge))?;
            Ok(())
        };
        match self.shape {
            Shape::Circle if self.hollow => {
                area.draw(&Circle::new(at, 4, inside.filled()))?;
                area.draw(&Circle::new(at, 4, edge))?;
                Ok(())
            }
            Shape::Circle => Ok(area.draw(&Circle::new(at, 5, inside.filled()))?),
            Shape::Dot => Ok(area.draw(&Circle::new(at, 3, inside.filled()))?),
            Shape::Cross => {
                for ends in [[(-4, -4), (4, 4)], [(-4, 4), (4, -4)]] {
                    area.draw(&PathElement::new(ends.map(corner), edge))?;
                }
                Ok(())
            }
            Shape::Ring => Ok(area.draw(&Circle::new(at, 9, edge))?),
            Shape::Square => polygon([(-4, -4), (4, -4), (4, 4), (-4, 4)]),
            Shape::Diamond => polygon([(0, -6), (6, 0), (0, 6), (-6, 0)]),
        }
    }
}
