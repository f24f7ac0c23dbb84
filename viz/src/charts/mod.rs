//! Which charts a run has, and what they show.

mod compare;
mod flows;
mod over_time;
mod timeline;

use models::report::{CollectiveReport, FlowStatus, Report};

use crate::Run;
use crate::chart::{Axis, Chart, Line, Scale};
use crate::curve::name;
use crate::scale::Unit;

pub(crate) use compare::compared;
pub use timeline::Timeline;
pub(crate) use timeline::of_run as timelines;

/// Lines of a chart.
pub(crate) const LINES: usize = 6;

/// All charts of a run that have anything to show, in the order of a page.
pub(crate) fn of_run(run: &Run<'_>) -> Vec<Chart> {
    let charts = [
        busbw(run.report),
        over_time::throughput(run),
        over_time::queues(run),
        over_time::pauses(run),
        over_time::rates(run),
        over_time::goodput(run),
        flows::fct_cdf(run.report),
        flows::slowdown(run.report),
        flows::queue_cdf(run.report),
    ];
    charts.into_iter().flatten().collect()
}

/// A chart, if it has lines.
fn chart(id: &str, title: &str, note: &str, axes: [Axis; 2], lines: Vec<Line>) -> Option<Chart> {
    let [x, y] = axes;
    let (id, title, note) = (id.to_owned(), title.to_owned(), note.to_owned());
    let any = lines.iter().any(|line| !line.points.is_empty());
    any.then_some(Chart { id, title, note, x, y, lines })
}

/// Greatest value of all lines.
fn greatest(lines: &[Line]) -> f64 {
    lines.iter().map(Line::greatest).fold(0.0, f64::max)
}

const GBYTES: Unit = Unit { name: "GB/s", size: 1e9 };

/// Bus bandwidth over message size.
fn busbw(report: &Report) -> Option<Chart> {
    let mut lines = busbw_lines(&report.collectives);
    if let [line] = lines.as_mut_slice()
        && let [(_, value)] = line.points.as_slice()
    {
        line.detail = format!("{} GB/s", crate::scale::short(*value));
    }
    let axes = busbw_axes(&lines);
    chart("busbw", "Bus bandwidth by message size", "", axes, lines)
}

fn busbw_axes(lines: &[Line]) -> [Axis; 2] {
    let sizes = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let x = Axis::over("Message size, bytes in binary units", "", Scale::Binary, sizes);
    [x, Axis::up_to("Bus bandwidth", GBYTES, greatest(lines))]
}

/// A line for each name of a collective: means of what finished.
fn busbw_lines(collectives: &[CollectiveReport]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for collective in collectives {
        let value = collective.busbw_gbytes_per_s.filter(|value| value.is_finite());
        let Some(value) = value.filter(|_| collective.status == FlowStatus::Completed) else {
            continue;
        };
        let index = lines.iter().position(|line| line.name == name(collective));
        let index = index.unwrap_or_else(|| {
            lines.push(Line { marks: true, ..Line::new(name(collective), Vec::new()) });
            lines.len() - 1
        });
        lines[index].points.push((collective.bytes as f64, value));
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        // several of one size: their mean
        let mut means: Vec<(f64, f64, f64)> = Vec::new();
        for (bytes, value) in line.points.drain(..) {
            match means.last_mut().filter(|mean| mean.0 == bytes) {
                Some(mean) => (mean.1, mean.2) = (mean.1 + value, mean.2 + 1.0),
                None => means.push((bytes, value, 1.0)),
            }
        }
        line.points.extend(means.into_iter().map(|(bytes, sum, count)| (bytes, sum / count)));
    }
    lines.truncate(8);
    lines
}
