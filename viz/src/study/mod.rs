//! Plots of what-if studies: many runs of one scenario, in which some keys differ.
//!
//! The caller fills plain structs; each function draws one into a self-contained SVG, 1200 wide.
//! Values that are not finite, or beyond 1e100, are left out as if there were none. Texts that
//! do not fit end in `…`, and what there is no room for is counted or left out.

mod axis;
mod bars;
mod heat;
mod heat_cells;
mod heat_layout;
mod lines;
mod page;
mod pareto;

pub use bars::{Bar, BarKind, Bars, Baseline, bars_svg};
pub use heat::{HeatMap, HeatPanel, Ticks, heat_svg};
pub use lines::{LinePanel, LinePlot, LinePoint, Series, XAxis, XScale, lines_svg};
pub use pareto::{Pareto, ParetoAxis, ParetoPoint, pareto_svg};

/// Which values of an objective are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Better {
    /// Such as bandwidth.
    Higher,
    /// Such as time or drops.
    Lower,
    /// It is only looked at.
    #[default]
    Neither,
}
