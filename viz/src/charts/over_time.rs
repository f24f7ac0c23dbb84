//! Charts over time: throughput, queues, pauses, rates.

use std::collections::BTreeMap;

use models::report::{FlowSeries, PauseRow, PortReport, PortSeries};

use super::{LINES, chart, greatest};
use crate::Run;
use crate::chart::{Axis, Chart, Line, Scale};
use crate::decimate::{decimate, mean_steps};
use crate::scale::{self, GIGABITS, PERCENT, Unit, size_unit, time_range, time_unit};

/// Steps of a rate over the width of a chart.
const STEPS: usize = 150;
/// Points of other lines.
const POINTS: usize = 500;

/// The axis of time, and what seconds are divided by.
fn time_axis(time_s: &[f64]) -> (Axis, Unit) {
    let range = time_range(time_s);
    let unit = time_unit(range.end - range.start);
    let range = [range.start / unit.size, range.end / unit.size];
    (Axis { quantity: "Time", unit: unit.name, scale: Scale::Linear, range }, unit)
}

/// The times up to the first one at or after the end of the run: nothing happens later.
fn sampled_times<'a>(run: &Run<'a>) -> &'a [f64] {
    let time_s = &run.series.time_s;
    let after = time_s.iter().position(|time| *time >= run.report.simulated_time_s);
    &time_s[..after.map_or(time_s.len(), |index| index + 1)]
}

fn scaled(points: Vec<(f64, f64)>, time: Unit, value: f64) -> Vec<(f64, f64)> {
    points.into_iter().map(|(at, y)| (at / time.size, y / value)).collect()
}

/// The `most` with the greatest measures above 0, in that order.
fn leading<T>(all: &[T], most: usize, measure: impl Fn(&T) -> f64) -> Vec<(&T, f64)> {
    let mut measured: Vec<(&T, f64)> = all.iter().map(|one| (one, measure(one))).collect();
    measured.retain(|(_, value)| *value > 0.0);
    measured.sort_by(|a, b| b.1.total_cmp(&a.1));
    measured.truncate(most);
    measured
}

fn sampled(time_s: &[f64]) -> String {
    match time_s {
        [first, .., last] => {
            let every = (last - first) / (time_s.len() - 1) as f64;
            format!("sampled every {}", scale::time(every))
        }
        _ => String::new(),
    }
}

/// What the busiest ports send.
pub(super) fn throughput(run: &Run<'_>) -> Option<Chart> {
    let time_s = sampled_times(run);
    let (x, time) = time_axis(time_s);
    let sent = |port: &PortSeries| port.tx_bps.iter().filter(|bps| bps.is_finite()).sum::<f64>();
    let ports = leading(&run.series.ports, LINES, sent);
    let line = |(port, _): &(&PortSeries, f64)| Line {
        detail: format!("link {}", scale::rate(port.rate_bps as f64)),
        ..Line::new(
            with_peer(run, &port.port),
            scaled(mean_steps(time_s, &port.tx_bps, STEPS), time, GIGABITS.size),
        )
    };
    let lines: Vec<Line> = ports.iter().map(line).collect();
    let note = format!("ports that send most, L2 bytes, {}", sampled(time_s));
    let y = Axis::up_to("Sent", GIGABITS, greatest(&lines));
    chart("throughput", "Throughput of ports", &note, [x, y], lines)
}

/// `leaf0:3 → host2`: a port and the node at its other end.
fn with_peer(run: &Run<'_>, port: &str) -> String {
    let peer = run.report.ports.iter().find(|report| report.port == *port);
    let peer = peer.map_or("", |report| report.peer.split([':', '/']).next().unwrap_or(""));
    if peer.is_empty() { port.to_owned() } else { format!("{port} → {peer}") }
}

/// The deepest queues.
pub(super) fn queues(run: &Run<'_>) -> Option<Chart> {
    let time_s = sampled_times(run);
    let (x, time) = time_axis(time_s);
    let reports: BTreeMap<&str, &PortReport> =
        run.report.ports.iter().map(|port| (port.port.as_str(), port)).collect();
    let deepest = |port: &PortSeries| port.queue_bytes.iter().copied().max().unwrap_or(0) as f64;
    let switch: Vec<PortSeries> =
        run.series.ports.iter().filter(|port| !port.port.contains("/nic")).cloned().collect();
    let ports = leading(&switch, LINES, deepest);
    let unit = size_unit(ports.first().map_or(0.0, |(_, bytes)| *bytes));
    let line = |(port, _): &(&PortSeries, f64)| {
        let values = port.queue_bytes.iter().map(|bytes| *bytes as f64);
        let points = time_s.iter().copied().zip(values).collect::<Vec<_>>();
        let most = reports.get(port.port.as_str()).map(|port| port.max_queue_bytes as f64);
        Line {
            detail: most.map_or(String::new(), |most| format!("at most {}", scale::size(most))),
            ..Line::new(
                with_peer(run, &port.port),
                scaled(decimate(&points, POINTS), time, unit.size),
            )
        }
    };
    let lines: Vec<Line> = ports.iter().map(line).collect();
    let note = format!("the deepest of switch ports, all queues of a port, {}", sampled(time_s));
    let y = Axis::up_to("Queue depth", unit, greatest(&lines));
    chart("queues", "Queue depth", &note, [x, y], lines)
}

/// Who was paused when: of each port, the share of time by interval.
pub(super) fn pauses(run: &Run<'_>) -> Option<Chart> {
    let end = run.report.simulated_time_s;
    let (x, time) = time_axis(&[0.0, end]);
    let mut by_port: BTreeMap<(&str, u8), Vec<&PauseRow>> = BTreeMap::new();
    for row in run.pauses {
        by_port.entry((&row.port, row.priority)).or_default().push(row);
    }
    let paused = |rows: &Vec<&PauseRow>| {
        rows.iter().map(|row| row.to_s.unwrap_or(end) - row.from_s).sum::<f64>()
    };
    let all: Vec<_> = by_port.into_iter().collect();
    let most = leading(&all, LINES, |(_, rows)| paused(rows));
    let line = |(((port, priority), rows), total): &(&((&str, u8), Vec<&PauseRow>), f64)| Line {
        detail: format!("priority {priority}, {} in all", scale::time(*total)),
        ..Line::new(with_peer(run, port), scaled(shares(rows, end, STEPS), time, PERCENT.size))
    };
    let lines: Vec<Line> = most.iter().map(line).collect();
    let interval = scale::time(end / STEPS as f64);
    let note = format!("the most paused queues of {}, share of each {interval}", all.len());
    let mut y = Axis::up_to("Time paused", PERCENT, 100.0);
    y.range[1] = 103.0;
    chart("pauses", "Pauses (PFC)", &note, [x, y], lines)
}

/// The share of each of equal intervals that pauses take, as steps.
fn shares(rows: &[&PauseRow], end: f64, steps: usize) -> Vec<(f64, f64)> {
    let width = end / steps as f64;
    let mut shares = vec![0.0; steps];
    for row in rows {
        let to = row.to_s.unwrap_or(end).min(end);
        let first = ((row.from_s / width) as usize).min(steps - 1);
        let last = ((to / width) as usize).min(steps - 1);
        for (index, share) in (first..).zip(&mut shares[first..=last]) {
            let begin = index as f64 * width;
            *share += (to.min(begin + width) - row.from_s.max(begin)).max(0.0) / width;
        }
    }
    let step = |(index, share): (usize, &f64)| {
        [(index as f64 * width, *share), ((index + 1) as f64 * width, *share)]
    };
    shares.iter().enumerate().flat_map(step).collect()
}

/// A flow as it is named in legends.
fn flow_name(flow: &FlowSeries) -> String {
    format!("{}: {} → {}", flow.id, flow.source, flow.target)
}

fn delivered(run: &Run<'_>) -> impl Fn(&FlowSeries) -> f64 {
    |flow| run.report.flows.get(flow.id as usize).map_or(0.0, |flow| flow.delivered_bytes as f64)
}

/// The rates that congestion control allows.
pub(super) fn rates(run: &Run<'_>) -> Option<Chart> {
    let time_s = sampled_times(run);
    let (x, time) = time_axis(time_s);
    let flows = leading(&run.series.flows, LINES, delivered(run));
    let line = |(flow, _): &(&FlowSeries, f64)| {
        let values = flow.rate_bps.iter().map(|bps| *bps as f64);
        let points = time_s.iter().copied().zip(values).collect::<Vec<_>>();
        Line::new(flow_name(flow), scaled(decimate(&points, POINTS), time, GIGABITS.size))
    };
    let lines: Vec<Line> = flows.iter().map(line).collect();
    let note = format!("of the largest flows or QPs, {}", sampled(time_s));
    let y = Axis::up_to("Allowed rate", GIGABITS, greatest(&lines));
    chart("rates", "Rate allowed by congestion control", &note, [x, y], lines)
}

/// What flows deliver.
pub(super) fn goodput(run: &Run<'_>) -> Option<Chart> {
    let time_s = sampled_times(run);
    let (x, time) = time_axis(time_s);
    let flows = leading(&run.series.flows, LINES, delivered(run));
    let line = |(flow, _): &(&FlowSeries, f64)| {
        let points = mean_steps(time_s, &flow.goodput_bps, STEPS);
        Line::new(flow_name(flow), scaled(points, time, GIGABITS.size))
    };
    let mut lines: Vec<Line> = flows.iter().map(line).collect();
    let all = run.series.flows.len();
    if all > lines.len() {
        let at = |i: usize| {
            run.series.flows.iter().filter_map(|flow| flow.goodput_bps.get(i)).sum::<f64>()
        };
        let sums: Vec<f64> = (0..time_s.len()).map(at).collect();
        let points = scaled(mean_steps(time_s, &sums, STEPS), time, GIGABITS.size);
        lines.push(Line { color: Some(7), ..Line::new(format!("sum of {all} sampled"), points) });
    }
    let note = format!("payload of the largest flows or QPs, {}", sampled(time_s));
    let y = Axis::up_to("Goodput", GIGABITS, greatest(&lines));
    chart("goodput", "Goodput", &note, [x, y], lines)
}

#[cfg(test)]
mod tests {
    use models::report::RootKind;

    use super::*;

    #[test]
    fn shares_of_time_by_hand() {
        let row = |from_s: f64, to_s: Option<f64>| PauseRow {
            port: "leaf0:1".into(),
            priority: 3,
            from_s,
            to_s,
            by: "spine0:0".into(),
            cause: None,
            root: "spine0:0".into(),
            kind: RootKind::Unknown,
        };
        // 4 intervals of 1 s: half of the first and of the second; all of the last
        let rows = [row(0.5, Some(1.5)), row(3.0, None)];
        let rows: Vec<&PauseRow> = rows.iter().collect();
        let values: Vec<f64> = shares(&rows, 4.0, 4).chunks(2).map(|step| step[0].1).collect();
        assert_eq!(values, [0.5, 0.5, 0.0, 1.0]);
    }
}
