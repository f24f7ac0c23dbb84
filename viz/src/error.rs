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

/// Why a run directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is none.
    #[error(
        "{}: there is no run here: a directory with a report.json is expected, as `rocesim run` \
         makes it",
        path.display()
    )]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file is not as it should be.
    #[error("{}:{line}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        PlotError::Drawing(error.to_string())
    }
}
