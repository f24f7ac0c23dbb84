//! The plot of a run: which lines, and where.

use std::collections::BTreeMap;

use models::report::{FlowSeries, OutcomeKind, PortReport, PortSeries, Report, Series};
use plotters::prelude::*;

use crate::decimate::mean_steps;
use crate::error::PlotError;
use crate::font;
use crate::panel::{BOTTOM, Line, Panel, TimeAxis};
use crate::scale::{self, GIGABITS, PERCENT, size_unit, time_range, time_unit, value_range};
use crate::style::{HEADER, WIDTH, draw_header};

const SIZE: (u32, u32) = (WIDTH, 900);
/// Lines of ports in a panel.
const PORTS: usize = 4;
/// Lines of flows in a panel.
const FLOWS: usize = 8;
/// Steps of a rate over the width of a panel.
const STEPS: usize = 150;
/// Ports whose queue stayed below this share of the deepest one are left out.
const SHALLOW: f64 = 0.01;

/// The reports of ports by name.
type Ports<'a> = BTreeMap<&'a str, &'a PortReport>;

pub(crate) fn draw(report: &Report, series: &Series) -> Result<String, PlotError> {
    if series.time_s.is_empty() {
        return Err(PlotError::NoSamples);
    }
    let time_s = until_end(&series.time_s, report.simulated_time_s);
    font::register();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        draw_header(&root, &report.scenario, &subtitle(report, time_s.len()))?;
        let range = time_range(time_s);
        let unit = time_unit(range.end - range.start);
        let time = TimeAxis { range: range.start / unit.size..range.end / unit.size, unit };
        let ports = report.ports.iter().map(|port| (port.port.as_str(), port)).collect();
        let panels = [
            queues(&ports, series, time_s),
            pauses(report, &ports, series, time_s),
            goodput(report, series, time_s),
        ];
        let height = (SIZE.1 - HEADER - BOTTOM) / panels.len() as u32;
        for (index, panel) in panels.iter().enumerate() {
            let lowest = index + 1 == panels.len();
            let top = HEADER + height * index as u32;
            let extent = (SIZE.0, if lowest { SIZE.1 - top } else { height });
            panel.draw(&root.clone().shrink((0, top), extent), &time, lowest)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// The times up to the first one at or after the end of the run: nothing happens later.
fn until_end(time_s: &[f64], end_s: f64) -> &[f64] {
    let after = time_s.iter().position(|time| *time >= end_s);
    &time_s[..after.map_or(time_s.len(), |index| index + 1)]
}

fn subtitle(report: &Report, samples: usize) -> String {
    format!(
        "{} · {} simulated · seed {} · {} sample{}",
        outcome(report.outcome),
        scale::time(report.simulated_time_s),
        report.seed,
        samples,
        if samples == 1 { "" } else { "s" },
    )
}

/// How the run ended, in words.
pub(crate) fn outcome(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Completed => "completed",
        OutcomeKind::Deadlock => "deadlock",
        OutcomeKind::QpError => "QP in error",
        OutcomeKind::TimeLimit => "stopped at the time limit",
        OutcomeKind::Interrupted => "interrupted",
        OutcomeKind::Stalled => "stalled",
    }
}

fn queues(ports: &Ports<'_>, series: &Series, time_s: &[f64]) -> Panel {
    let on_switch = |port: &&PortSeries| !port.port.contains("/nic");
    let switch_ports: Vec<&PortSeries> = series.ports.iter().filter(on_switch).collect();
    let deepest = |port: &PortSeries| {
        let sampled = port.queue_bytes.iter().copied().max().unwrap_or(0);
        sampled.max(ports.get(port.port.as_str()).map_or(0, |report| report.max_queue_bytes)) as f64
    };
    let mut busiest = greatest(&switch_ports, PORTS, deepest);
    let deepest = busiest.first().map_or(0.0, |(_, bytes)| *bytes);
    busiest.retain(|(_, bytes)| *bytes >= SHALLOW * deepest);
    let lines: Vec<Line> = busiest
        .iter()
        .map(|(port, bytes)| {
            let values = port.queue_bytes.iter().map(|bytes| *bytes as f64);
            Line {
                label: port_label(ports, port),
                detail: format!("at most {}", scale::size(*bytes)),
                sum: false,
                points: time_s.iter().copied().zip(values).collect(),
            }
        })
        .collect();
    let note = match (switch_ports.is_empty(), lines.is_empty()) {
        (true, _) => Some("no switch port was sampled"),
        (_, true) => Some("no queues"),
        _ => None,
    };
    let top = lines.iter().map(Line::greatest).fold(0.0, f64::max);
    let unit = size_unit(top);
    Panel {
        heading: "Queue depth of the busiest switch ports".to_owned(),
        quantity: "Queue depth",
        unit,
        range: value_range(top / unit.size),
        lines,
        note: note.map(str::to_owned),
    }
}

fn pauses(report: &Report, ports: &Ports<'_>, series: &Series, time_s: &[f64]) -> Panel {
    let sampled: Vec<&PortSeries> = series.ports.iter().collect();
    let paused = |port: &PortSeries| {
        let sampled: f64 = port.paused_share.iter().filter(|share| share.is_finite()).sum();
        match ports.get(port.port.as_str()) {
            Some(report) if sampled > 0.0 => report.paused_s,
            _ => sampled,
        }
    };
    let most: Vec<Line> = greatest(&sampled, PORTS, paused)
        .iter()
        .map(|(port, _)| {
            let total = ports.get(port.port.as_str()).map(|report| report.paused_s);
            Line {
                label: port_label(ports, port),
                detail: total
                    .map(|span| format!("{} in all", scale::time(span)))
                    .unwrap_or_default(),
                sum: false,
                points: mean_steps(time_s, &port.paused_share, STEPS),
            }
        })
        .collect();
    let note = match (most.is_empty(), report.totals.paused_s > 0.0) {
        (true, true) => Some("no pauses of the sampled ports at the sampled times"),
        (true, false) => Some("no pauses"),
        _ => None,
    };
    let top = most.iter().map(Line::greatest).fold(0.0, f64::max);
    let means = if most.is_empty() { String::new() } else { interval(time_s) };
    // up to 100 % where that leaves the lines at least half of the height
    let top = if (0.5..1.0).contains(&top) || top == 0.0 { 1.0 } else { top };
    Panel {
        heading: format!("Share of time paused (PFC), most paused ports{means}"),
        quantity: "Time paused",
        unit: PERCENT,
        range: value_range(top / PERCENT.size),
        lines: most,
        note: note.map(str::to_owned),
    }
}

fn goodput(report: &Report, series: &Series, time_s: &[f64]) -> Panel {
    let flows: Vec<&FlowSeries> = series.flows.iter().collect();
    let delivered = |flow: &FlowSeries| {
        let report = report.flows.get(flow.id as usize);
        // flows without payload are shown too where there is room
        report.map_or(0.0, |report| report.delivered_bytes as f64) + 1.0
    };
    let mut lines: Vec<Line> = greatest(&flows, FLOWS, delivered)
        .iter()
        .map(|(flow, _)| Line {
            label: format!("{}: {} → {}", flow.id, flow.source, flow.target),
            detail: String::new(),
            sum: false,
            points: mean_steps(time_s, &flow.goodput_bps, STEPS),
        })
        .collect();
    let mut heading = "Goodput of flows".to_owned();
    if flows.len() > lines.len() {
        heading = format!("Goodput of the largest {} flows", lines.len());
        let at = |i: usize| flows.iter().filter_map(|flow| flow.goodput_bps.get(i)).sum();
        let sums: Vec<f64> = (0..time_s.len()).map(at).collect();
        lines.push(Line {
            label: match flows.len() == report.flows.len() {
                true => format!("sum of all {} flows", flows.len()),
                false => format!("sum of {} sampled flows", flows.len()),
            },
            detail: String::new(),
            sum: true,
            points: mean_steps(time_s, &sums, STEPS),
        });
    }
    if !lines.is_empty() {
        heading.push_str(&interval(time_s));
    }
    let top = lines.iter().map(Line::greatest).fold(0.0, f64::max);
    Panel {
        heading,
        quantity: "Goodput",
        unit: GIGABITS,
        range: value_range(top / GIGABITS.size),
        note: lines.is_empty().then(|| "no flow was sampled".to_owned()),
        lines,
    }
}

impl Line {
    fn greatest(&self) -> f64 {
        self.points
            .iter()
            .map(|point| point.1)
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max)
    }
}

/// The `count` items with the greatest positive values, greatest first; equal ones in order.
fn greatest<'a, T>(items: &[&'a T], count: usize, value: impl Fn(&T) -> f64) -> Vec<(&'a T, f64)> {
    let mut valued: Vec<(&T, f64)> = items.iter().map(|item| (*item, value(item))).collect();
    valued.retain(|(_, value)| *value > 0.0);
    valued.sort_by(|a, b| b.1.total_cmp(&a.1));
    valued.truncate(count);
    valued
}

/// What a step of a rate is a mean over.
fn interval(time_s: &[f64]) -> String {
    match mean_steps(time_s, time_s, STEPS).as_slice() {
        [from, to, ..] if to.0 > from.0 => format!(", means over {}", scale::time(to.0 - from.0)),
        _ => String::new(),
    }
}

/// `sw0:8 → host8`
fn port_label(ports: &Ports<'_>, port: &PortSeries) -> String {
    let peer = ports.get(port.port.as_str()).map(|report| report.peer.as_str()).unwrap_or_default();
    let peer = peer.split(['/', ':']).next().unwrap_or_default();
    match peer.is_empty() {
        true => port.port.clone(),
        false => format!("{} → {peer}", port.port),
    }
}
