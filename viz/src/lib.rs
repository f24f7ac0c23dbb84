//! Plots of rocesim runs.
//!
//! [`run_svg`] draws queues, pauses and throughput over time into one self-contained SVG;
//! [`write_run_svg`] writes it to a file.

mod decimate;
mod error;
mod font;
mod panel;
mod run;
mod scale;

use std::path::Path;

use models::report::{Report, Series};

pub use error::PlotError;

/// One SVG of 1200 x 900 with three panels over the same time axis: queue depth of the busiest
/// switch ports, share of time paused of the most paused ports, goodput of flows.
pub fn run_svg(report: &Report, series: &Series) -> Result<String, PlotError> {
    run::draw(report, series)
}

/// Writes [`run_svg`] to `path`. The file appears complete or not at all.
pub fn write_run_svg(path: &Path, report: &Report, series: &Series) -> Result<(), PlotError> {
    let svg = run_svg(report, series)?;
    let failed = |source| PlotError::Write { path: path.to_owned(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    std::fs::write(&temporary, svg).and_then(|()| std::fs::rename(&temporary, path)).map_err(
        |source| {
            // the error that counts is the first one
            let _ = std::fs::remove_file(&temporary);
            failed(source)
        },
    )
}
