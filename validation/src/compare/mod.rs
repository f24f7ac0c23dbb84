//! rocesim against a reference.

pub(crate) mod flows;
mod measure;
mod rename;
mod series;
mod shape;
mod sizes;

use std::collections::BTreeMap;

use serde::Serialize;

pub use flows::{Comparison, FlowError, SizeBin, SlowdownPercentiles, Summary, compare_flows};
pub use measure::{Item, Measure, Pair};
pub use series::{Sample, SeriesComparison};
pub use shape::{LossSign, Shape, ShapeKind};
pub use sizes::{SizeComparison, SizePair, compare_sizes};

use crate::run::{Run, Writer};
use rename::rename;

/// How far a run is from a reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunComparison {
    /// What the reference is called: `ns-3`, or `reference`.
    pub reference: &'static str,
    /// Completion times; absent if either side lists no flows.
    pub flows: Option<Comparison>,
    /// Collectives that ended in both: time in seconds.
    pub collectives: Vec<Item>,
    /// Counters that both have.
    pub totals: Vec<Item>,
    /// XOFF frames received, by port; absent if the reference does not say.
    pub pauses: Option<Measure>,
    /// Seconds paused, by port.
    pub paused_s: Option<Measure>,
    /// Bytes in egress queues over time, by port.
    pub queues: Option<SeriesComparison>,
    /// Rate in bits per second over time, by flow.
    pub rates: Option<SeriesComparison>,
    /// What could not be compared, and how it could be.
    pub notes: Vec<String>,
}

/// Compares two finished runs.
pub fn compare_runs(here: &Run, there: &Run) -> RunComparison {
    let mut there = there.clone();
    rename(&mut there, here);
    let reference = match there.writer {
        Writer::Ns3 => "ns-3",
        Writer::Rocesim | Writer::Unknown => "reference",
    };
    let mut notes: Vec<String> = here.notes.iter().map(|note| format!("rocesim: {note}")).collect();
    notes.extend(there.notes.iter().map(|note| format!("{reference}: {note}")));
    let lists = here.flows.as_deref().zip(there.flows.as_deref());
    let (flows, matched_ahead_s) = match lists {
        Some((here, there)) => {
            let (flows, ahead_s) = flows::compare(reference, here, there);
            (Some(flows), ahead_s)
        }
        None => (None, None),
    };
    if there.flows.is_none() && there.notes.is_empty() {
        notes.push(format!("{reference} lists no flows: completion times are not compared"));
    }
    let started = there.first_start_s.zip(here.first_start_s);
    let ahead_s = match there.writer {
        // two runs of the same program count from the same instant
        Writer::Rocesim => Some(0.0),
        _ => matched_ahead_s.or(started.map(|(there, here)| there - here)),
    };
    let ports = |of: fn(&crate::run::Port) -> f64| {
        let values = |run: &Run| -> Option<BTreeMap<String, f64>> {
            Some(run.ports.as_ref()?.iter().map(|port| (port.name.clone(), of(port))).collect())
        };
        Some(Measure::over(&values(here)?, &values(&there)?))
    };
    RunComparison {
        reference,
        flows,
        collectives: collectives(here, &there),
        totals: totals(here, &there),
        pauses: ports(|port| port.pauses),
        paused_s: ports(|port| port.paused_s),
        queues: series::compare(
            "queues",
            there.writer,
            [&here.queues, &there.queues],
            ahead_s,
            &mut notes,
        ),
        rates: series::compare(
            "rates",
            there.writer,
            [&here.rates, &there.rates],
            ahead_s,
            &mut notes,
        ),
        notes,
    }
}

impl RunComparison {
    /// Whether the mean FCT (or, of collectives, each time) is off by at most this share, and no
    /// flow that finished on one side is missing on the other.
    pub fn is_within(&self, tolerance: f64) -> bool {
        let collectives = self.collectives.iter().all(|item| item.value.error().abs() <= tolerance);
        let flows = self.flows.as_ref().is_none_or(|flows| {
            let summary = flows.summary.as_ref();
            (flows.missing_here, flows.missing_there) == (0, 0)
                && summary.is_none_or(|summary| summary.mean_fct_error.abs() <= tolerance)
        });
        let compared = self.flows.as_ref().is_some_and(|flows| flows.matched > 0);
        collectives && flows && (compared || !self.collectives.is_empty())
    }
}

fn collectives(here: &Run, there: &Run) -> Vec<Item> {
    let mut items = Vec::new();
    for here in &here.collectives {
        let mut same = there.collectives.iter();
        let same = same.find(|other| other.name == here.name && other.bytes == here.bytes);
        if let Some((here_s, there_s)) = here.time_s.zip(same.and_then(|other| other.time_s)) {
            items.push(Item {
                name: format!("{}, {} B", here.name, here.bytes),
                value: Pair { here: here_s, there: there_s },
            });
        }
    }
    items
}

fn totals(here: &Run, there: &Run) -> Vec<Item> {
    let (here, there) = (&here.totals, &there.totals);
    let all = [
        ("packet-hops", here.packet_hops, there.packet_hops),
        ("CE marks", here.ce_marks, there.ce_marks),
        ("CNPs at senders", here.cnps, there.cnps),
        ("PFC frames sent", here.pfc_frames, there.pfc_frames),
        ("drops", here.drops, there.drops),
        ("NAKs at senders", here.naks, there.naks),
    ];
    let both = all.into_iter().filter_map(|(name, here, there)| {
        let value = Pair { here: here?, there: there? };
        Some(Item { name: name.to_owned(), value })
    });
    both.collect()
}

#[cfg(test)]
mod tests;
