//! Why there is no plot.

use std::path::PathBuf;

use plotters::drawing::DrawingAreaErrorKind;

/// Why a run cannot be plotted.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The run was not sampled.
    #[error(
        "the run has no samples to plot: set `sample.interval` in the scenario \
         (for instance \"1us\") and run it again"
    )]
    NoSamples,
    /// The drawing library failed.
    #[error("cannot draw the plot: {0}")]
    Drawing(String),
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        PlotError::Drawing(error.to_string())
    }
}
