//! Charts that show several runs.

use super::flows::{cdf, fcts, share_axis};
use super::{busbw_axes, busbw_lines, chart};
use crate::Run;
use crate::chart::{Axis, Chart, Line, Scale};
use crate::scale::{self, time_unit};

/// Charts of runs side by side.
pub(crate) fn compared(runs: &[Run<'_>]) -> Vec<Chart> {
    [busbw(runs), fct(runs), slowdown(runs)].into_iter().flatten().collect()
}

/// A line for each run, or for each of its collectives.
fn busbw(runs: &[Run<'_>]) -> Option<Chart> {
    let of_run = |run: &Run<'_>| {
        let lines = busbw_lines(&run.report.collectives);
        let several = lines.len() > 1;
        lines.into_iter().map(move |line| (several, line)).collect::<Vec<_>>()
    };
    let lines: Vec<Line> = runs
        .iter()
        .flat_map(|run| {
            let named = of_run(run).into_iter().map(|(several, line)| {
                let name = match several {
                    true => format!("{}: {}", run.name, line.name),
                    false => run.name.to_owned(),
                };
                let peak = scale::short(line.greatest());
                Line { name, detail: format!("at most {peak} GB/s"), ..line }
            });
            named.collect::<Vec<_>>()
        })
        .collect();
    let axes = busbw_axes(&lines);
    chart("busbw", "Bus bandwidth by message size", "", axes, lines)
}

fn fct(runs: &[Run<'_>]) -> Option<Chart> {
    let all: Vec<Vec<f64>> = runs.iter().map(|run| fcts(run.report, |_| true)).collect();
    let longest =
        all.iter().filter_map(|fcts| fcts.get(fcts.len() / 2).copied()).fold(0.0, f64::max);
    let unit = time_unit(longest);
    let lines: Vec<Line> = runs
        .iter()
        .zip(&all)
        .enumerate()
        .filter(|(_, (_, fcts))| !fcts.is_empty())
        .map(|(index, (run, fcts))| Line {
            detail: format!("{} flows", sim_core::units::grouped(fcts.len() as u64)),
            color: Some(index),
            ..Line::new(run.name, cdf(fcts, unit.size))
        })
        .collect();
    let values = all.iter().flatten().map(|fct| fct / unit.size);
    let x = Axis::over("Flow completion time", unit.name, Scale::Log, values);
    chart("fct", "Flow completion time", "", [x, share_axis("Share of flows")], lines)
}

/// 99th percentiles by size.
fn slowdown(runs: &[Run<'_>]) -> Option<Chart> {
    let lines: Vec<Line> = runs
        .iter()
        .enumerate()
        .map(|(index, run)| {
            let bins = run.report.slowdown_by_size.iter().filter(|bin| bin.traffic.is_none());
            let points = bins.map(|bin| (bin.to_bytes as f64, bin.p99));
            Line { marks: true, color: Some(index), ..Line::new(run.name, points.collect()) }
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::over("Flow size", "B", Scale::Log, points().map(|point| point.0));
    let values = points().map(|point| point.1).chain([1.0]);
    let y = Axis::over("Slowdown, 99th percentile", "× ideal", Scale::Log, values);
    chart("slowdown", "Slowdown by flow size", "", [x, y], lines)
}
