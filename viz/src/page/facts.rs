//! The numbers at the head of a page, and of a comparison.

use models::report::{FlowReport, FlowStatus, Report, stats};
use sim_core::units::grouped;

use crate::scale::{percent, rate, short, size, time};

/// What a number measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Time,
    Bytes,
    GBytes,
    Rate,
    Count,
    Share,
    Ratio,
}

/// Which values are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    High,
    Low,
    Neither,
}

/// A number of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fact {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) kind: Kind,
    pub(crate) wanted: Wanted,
}

impl Kind {
    /// The value as it is read.
    pub(crate) fn words(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "–".to_owned(),
            Kind::Time => time(value),
            Kind::Bytes => size(value),
            Kind::GBytes => format!("{} GB/s", short(value)),
            Kind::Rate => rate(value),
            Kind::Count => grouped(value.max(0.0) as u64),
            Kind::Share => percent(value),
            Kind::Ratio => format!("{}×", short(value)),
        }
    }
}

/// The numbers of a run, most important first; those of things that it has.
pub(crate) fn facts(report: &Report) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |label: &str, value: f64, kind, wanted| {
        facts.push(Fact { label: label.to_owned(), value, kind, wanted });
    };
    use Kind::{Bytes, Count, GBytes, Ratio, Share, Time};
    use Wanted::{High, Low, Neither};
    let done = report.collectives.iter().filter(|one| one.status == FlowStatus::Completed);
    let busbw = done.clone().filter_map(|one| one.busbw_gbytes_per_s);
    if !report.collectives.is_empty() {
        add("bus bandwidth, greatest", busbw.fold(f64::NAN, f64::max), GBytes, High);
        if let [one] = report.collectives.as_slice() {
            add("time of the collective", one.time_s.unwrap_or(f64::NAN), Time, Low);
        }
        if report.collectives.len() > 1 {
            let count = done.count() as f64;
            add("collectives completed", count, Count, High);
        }
    }
    for training in &report.trainings {
        add("step time", training.step_time_s.unwrap_or(f64::NAN), Time, Low);
        add("exposed communication", training.exposed_share, Share, Low);
    }
    flow_facts(report, &mut add);
    let totals = &report.totals;
    let drops: u64 = totals.drops.values().sum();
    let paused = report.ports.iter().map(|port| port.paused_s).fold(0.0, f64::max);
    let deepest = report.ports.iter().map(|port| port.max_queue_bytes).max().unwrap_or(0);
    let marked = totals.ecn_marked_packets as f64;
    add("simulated time", report.simulated_time_s, Time, Neither);
    add("pauses (PFC)", totals.pause_episodes as f64, Count, Low);
    add("longest time paused, of a port", paused, Time, Low);
    add("deepest queue", deepest as f64, Bytes, Low);
    add("ECN marks", marked, Count, Neither);
    if totals.data_packets > 0 {
        add("marks per data packet", marked / totals.data_packets as f64, Share, Neither);
    }
    add("CNPs", totals.cnp_sent as f64, Count, Neither);
    add("drops", drops as f64, Count, Low);
    if drops > 0 {
        add("lossless drops", totals.lossless_drops as f64, Count, Low);
    }
    add("packets sent again", totals.retransmitted_packets as f64, Count, Low);
    if totals.timeouts > 0 {
        add("time-outs", totals.timeouts as f64, Count, Low);
    }
    let slow = report.flows.iter().filter_map(|flow| flow.slowdown).fold(f64::NAN, f64::max);
    if slow.is_finite() {
        add("slowdown, greatest", slow, Ratio, Low);
    }
    facts
}

fn flow_facts(report: &Report, add: &mut impl FnMut(&str, f64, Kind, Wanted)) {
    let points: Vec<&FlowReport> = report.flows.iter().filter(|flow| flow.is_point()).collect();
    if points.is_empty() {
        return;
    }
    let finite: Vec<_> = points.iter().filter(|flow| flow.bytes.is_some()).collect();
    let mut fcts: Vec<f64> = finite.iter().filter_map(|flow| flow.fct_s).collect();
    fcts.sort_by(f64::total_cmp);
    if !finite.is_empty() {
        let share = fcts.len() as f64 / finite.len() as f64;
        add("flows", points.len() as f64, Kind::Count, Wanted::Neither);
        if share < 1.0 {
            add("flows completed", share, Kind::Share, Wanted::High);
        }
    }
    if !fcts.is_empty() {
        add("FCT, median", stats::quantile(&fcts, 0.5), Kind::Time, Wanted::Low);
        add("FCT, 99th percentile", stats::quantile(&fcts, 0.99), Kind::Time, Wanted::Low);
    }
    let slowdowns = finite.iter().filter_map(|flow| flow.slowdown).collect::<Vec<_>>();
    if !slowdowns.is_empty() {
        add("slowdown, mean", stats::mean(&slowdowns), Kind::Ratio, Wanted::Low);
    }
    if finite.len() < points.len() {
        let sum: f64 = points.iter().map(|flow| flow.goodput_bps).sum();
        add("goodput of all flows", sum, Kind::Rate, Wanted::High);
    }
}
