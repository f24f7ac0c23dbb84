//! Plots of rocesim runs.
//!
//! [`run_svg`] draws queues, pauses and throughput over time into one self-contained SVG;
//! [`write_run_svg`] writes it to a file. [`busbw_svg`] and [`links_svg`] show collectives and
//! links of a run; [`study`] has what compares many runs: heat maps, lines with error bars,
//! Pareto fronts and bars.

mod busbw;
mod chart;
mod charts;
mod curve;
mod decimate;
mod error;
mod font;
mod legend;
mod link;
mod links;
mod map;
mod marker;
mod page;
mod panel;
mod png;
mod read;
mod run;
mod scale;
pub mod study;
mod style;
mod trace;

use std::path::Path;

use std::collections::BTreeMap;

use models::report::{CollectiveReport, PauseRow, Report, Series};

pub use chart::Chart;
pub use charts::Timeline;
pub use error::{PlotError, ReadError};
pub use png::png;
pub use read::RunDir;
pub use trace::{TraceCounts, traced_steps, write_trace};

/// A run that has ended, as its directory tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What it is called beside others.
    pub name: &'a str,
    /// Its report.
    pub report: &'a Report,
    /// What was sampled, and what its lanes did.
    pub series: &'a Series,
    /// Its pauses.
    pub pauses: &'a [PauseRow],
    /// Keys of its scenario, presets expanded, as `switch.ecn.3.kmin`.
    pub keys: &'a BTreeMap<String, String>,
}

/// A page about a run: HTML that needs nothing else.
pub fn report_html(run: &Run<'_>) -> Result<String, PlotError> {
    page::of(run)
}

/// A page that compares runs with the first of them.
pub fn comparison_html(runs: &[Run<'_>]) -> Result<String, PlotError> {
    page::comparison(runs)
}

/// The charts of a run.
pub fn charts(run: &Run<'_>) -> Vec<Chart> {
    charts::of_run(run)
}

/// What its ranks did when.
pub fn timelines(run: &Run<'_>) -> Vec<Timeline> {
    charts::timelines(run)
}

/// The charts of several runs.
pub fn compared_charts(runs: &[Run<'_>]) -> Vec<Chart> {
    charts::compared(runs)
}

/// Pictures of the fabric as self-contained SVGs, each with its name: coloured by utilisation, and by
/// pauses, marks and drops where there were any.
pub fn fabric_svgs(run: &Run<'_>) -> Vec<(String, String)> {
    let map = map::build(run.report);
    let numbered = map::MEASURES.iter().enumerate();
    let any = |measure: usize| map.halves.iter().any(|half| half.values[measure] > 0.0);
    let shown = numbered.filter(|(index, _)| *index == 0 || any(*index));
    let svg = |(index, measure): (usize, &map::Measure)| {
        let picture = map::Picture::File(index);
        (format!("fabric-{}", measure.id), map::svg(&map, &run.report.scenario, picture))
    };
    shown.map(svg).collect()
}

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
