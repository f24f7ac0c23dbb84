//! Distributions: completion times, slowdown by size, queue lengths.

use std::collections::BTreeMap;

use models::report::Report;

use super::{LINES, chart};
use crate::chart::{Axis, Chart, Line, Scale};
use crate::scale::{PERCENT, size_unit, time_unit};

/// Points of a distribution.
const POINTS: usize = 200;

/// Completion times in seconds of point traffic, in order.
pub(super) fn fcts<'a>(
    report: &'a Report,
    of: impl Fn(&'a models::report::FlowReport) -> bool,
) -> Vec<f64> {
    let flows = report.flows.iter().filter(|flow| flow.is_point() && of(flow));
    let mut fcts: Vec<f64> = flows.filter_map(|flow| flow.fct_s).collect();
    fcts.sort_by(f64::total_cmp);
    fcts
}

/// The distribution of sorted values: shares of them, in percent, that are not above.
pub(super) fn cdf(sorted: &[f64], unit: f64) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let steps = count.min(POINTS);
    let point = |step: usize| {
        let place = (step * count).div_ceil(steps).max(1);
        (sorted[place - 1] / unit, place as f64 / count as f64 * 100.0)
    };
    let first = sorted.first().map(|first| (first / unit, 0.0));
    first.into_iter().chain((1..=steps).map(point)).collect()
}

pub(super) fn share_axis(quantity: &'static str) -> Axis {
    Axis { quantity, unit: PERCENT.name, scale: Scale::Linear, range: [0.0, 103.0] }
}

/// How long flows took: of all, and of each section that has a name.
pub(super) fn fct_cdf(report: &Report) -> Option<Chart> {
    let all = fcts(report, |_| true);
    let unit = time_unit(all.get(all.len() / 2).copied().unwrap_or(0.0));
    let mut sections: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for flow in report.flows.iter().filter(|flow| flow.is_point()) {
        if let (Some(section), Some(fct)) = (&flow.traffic, flow.fct_s) {
            sections.entry(section).or_default().push(fct);
        }
    }
    let line = |name: &str, sorted: &[f64]| Line {
        detail: format!("{} flows", sim_core::units::grouped(sorted.len() as u64)),
        ..Line::new(name, cdf(sorted, unit.size))
    };
    let mut lines = vec![line("all flows", &all)];
    if sections.len() > 1 || sections.values().any(|fcts| fcts.len() < all.len()) {
        lines.extend(sections.iter_mut().take(LINES - 1).map(|(name, fcts)| {
            fcts.sort_by(f64::total_cmp);
            line(name, fcts)
        }));
    }
    let values = all.iter().map(|fct| fct / unit.size);
    let x = Axis::over("Flow completion time", unit.name, Scale::Log, values);
    chart("fct", "Flow completion time", "", [x, share_axis("Share of flows")], lines)
}

/// Slowdown by size of flows.
pub(super) fn slowdown(report: &Report) -> Option<Chart> {
    let bins: Vec<_> = report.slowdown_by_size.iter().filter(|bin| bin.traffic.is_none()).collect();
    type Of = fn(&models::report::SlowdownReport) -> f64;
    let measures: [(&str, Of); 3] =
        [("median", |bin| bin.p50), ("95th percentile", |bin| bin.p95), ("99th", |bin| bin.p99)];
    let lines: Vec<Line> = measures
        .into_iter()
        .map(|(name, of)| {
            let points = bins.iter().map(|bin| (bin.to_bytes as f64, of(bin)));
            Line { marks: true, ..Line::new(name, points.collect()) }
        })
        .collect();
    let sizes = bins.iter().map(|bin| bin.to_bytes as f64);
    let x = Axis::over("Flow size", "B", Scale::Log, sizes);
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let greatest = values.clone().fold(0.0, f64::max);
    let (quantity, unit) = ("Slowdown", "× ideal");
    let y = match greatest > 20.0 {
        true => Axis::over(quantity, unit, Scale::Log, values.chain([1.0])),
        false => {
            let range = [0.0, greatest.max(1.0) * 1.06];
            Axis { quantity, unit, scale: Scale::Linear, range }
        }
    };
    let note = "completion time over that of the same flow alone; bins up to the size shown";
    chart("slowdown", "Slowdown by flow size", note, [x, y], lines)
}

/// Lengths of queues, over time and ports.
pub(super) fn queue_cdf(report: &Report) -> Option<Chart> {
    let queues = report.queue_bytes.as_ref()?;
    let unit = size_unit(queues.max as f64);
    let points = queues.cdf.iter().map(|(share, bytes)| (*bytes as f64 / unit.size, share * 100.0));
    let line = Line {
        detail: format!("99th percentile {}", crate::scale::size(queues.p99 as f64)),
        ..Line::new("switch ports", points.collect())
    };
    let x = Axis::up_to("Queue length", unit, queues.max as f64 / unit.size);
    let note = "samples of all sampled switch ports, idle ones too";
    chart("queue-cdf", "Queue lengths", note, [x, share_axis("Share of samples")], vec![line])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_end_at_all() {
        assert_eq!(
            cdf(&[1.0, 2.0, 4.0, 8.0], 2.0),
            [(0.5, 0.0), (0.5, 25.0), (1.0, 50.0), (2.0, 75.0), (4.0, 100.0)]
        );
        assert_eq!(cdf(&[], 1.0), []);
        let many: Vec<f64> = (1..=1000).map(f64::from).collect();
        let points = cdf(&many, 1.0);
        assert_eq!((points.len(), points[100], points[200]), (201, (500.0, 50.0), (1000.0, 100.0)));
    }
}
