//! Plots of rocesim runs.
//!
//! [`run_svg`] draws queues, pauses and throughput over time into one self-contained SVG;
//! [`write_run_svg`] writes it to a file. [`busbw_svg`] and [`links_svg`] show collectives and
//! links of a run; [`study`] has what compares many runs: heat maps, lines with error bars,
//! Pareto fronts and bars.

mod busbw;
mod curve;
mod decimate;
mod error;
mod font;
mod legend;
mod link;
mod links;
mod marker;
mod panel;
mod run;
mod scale;
pub mod study;
mod style;

use std::path::Path;

use models::report::{CollectiveReport, Report, Series};

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

/// One SVG of 1200 x 620: busbw in GB/s over message size, one line for each name of a
/// collective, and algbw if there is but one. Runs that did not finish are hollow marks at 0.
/// The ceiling is a dashed line: the payload that the NICs carry, in the terms of busbw.
pub fn busbw_svg(
    title: &str,
    collectives: &[CollectiveReport],
    ceiling_gbytes_per_s: Option<f64>,
) -> Result<String, PlotError> {
    busbw::draw(title, collectives, ceiling_gbytes_per_s)
}

/// One SVG, 1200 wide: the utilisation of each directed link as a bar, the 40 busiest first, the
/// others counted. The colour is the share of time that its sender was paused; beside it stand
/// ECN marks of the sender, and drops of its frames as they arrived at the peer.
pub fn links_svg(title: &str, report: &Report) -> Result<String, PlotError> {
    links::draw(title, report)
}
