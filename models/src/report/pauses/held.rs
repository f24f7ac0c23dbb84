//! What pauses cost QPs.

use sim_core::{Delta, Time};

use super::{Pauses, Root, RootKind};
use crate::fabric::{Outcome, Plan};
use crate::ids::{PRIORITIES, PortId};
use crate::probe::Probe;

/// What pauses on its way did to a QP's data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// From its start to its last byte, or the end of the run.
    pub active: Delta,
    /// The part of it in which a queue on its way was paused.
    pub time: Delta,
    /// Where most of these pauses began.
    pub root: u32,
    /// The part due to pauses that began where its data does not go: it is their victim,
    pub victim_time: Delta,
    /// and where most of these began.
    pub victim_root: u32,
}

impl Held {
    /// Share of its active time in which it was held.
    pub fn share(&self) -> f64 {
        ratio(self.time, self.active)
    }

    /// Share in which it was by pauses that began elsewhere.
    pub fn victim_share(&self) -> f64 {
        ratio(self.victim_time, self.active)
    }
}

fn ratio(part: Delta, of: Delta) -> f64 {
    if of.is_zero() { 0.0 } else { part.ps() as f64 / of.ps() as f64 }
}

/// By QP that is reported.
pub(super) fn held<P: Probe>(pauses: &Pauses, outcome: &Outcome<P>, plan: &Plan) -> Vec<Held> {
    let mut spans = Vec::new();
    (0..plan.wiring.data_qps as usize)
        .map(|qp| held_by(pauses, outcome, plan, qp, &mut spans))
        .collect()
}

/// One QP; `spans` is scratch.
fn held_by<P: Probe>(
    pauses: &Pauses,
    outcome: &Outcome<P>,
    plan: &Plan,
    qp: usize,
    spans: &mut Vec<(Time, Time, u32)>,
) -> Held {
    let (sender, receiver) = (outcome.fabric.senders.record(qp), &outcome.fabric.receivers[qp]);
    let info = &plan.wiring.qps[qp];
    let done = info.bytes == Some(receiver.delivered_bytes);
    let until = if done { receiver.last_delivery } else { outcome.end };
    // beyond, nothing is known
    let until = pauses.truncated_at.map_or(until, |at| until.min(at));
    let from = sender.starts_at.min(until);
    let way = plan.path(qp);
    spans.clear();
    for (index, port) in way.iter().enumerate() {
        let queue = match index.checked_sub(1) {
            None => sender.priority,
            Some(before) => {
                let arrival = plan.wiring.wires[way[before] as usize].peer as usize;
                let classifier = outcome.fabric.ports[arrival].rx.classifier;
                let classifier = &outcome.fabric.classifiers[usize::from(classifier)];
                classifier.place(info.dscp, sender.priority).0
            }
        };
        let all = pauses.of_slot(port * PRIORITIES as u32 + u32::from(queue));
        let first = all.partition_point(|episode| episode.to <= from);
        let during = all[first..].iter().take_while(|episode| episode.from < until);
        spans.extend(during.map(|e| (e.from.max(from), e.to.min(until), e.root)));
    }
    spans.sort_unstable();
    let mut held = Held { active: until.since(from), ..Held::default() };
    let mut sums: Vec<(u32, Delta)> = Vec::new();
    let mut free_from = from;
    for (from, to, root) in spans.iter().copied() {
        // of pauses that overlap, the one that began first counts
        let time = to.since(from.max(free_from));
        free_from = free_from.max(to);
        match sums.iter_mut().find(|(known, _)| *known == root) {
            Some((_, sum)) => *sum += time,
            None => sums.push((root, time)),
        }
    }
    sums.sort_unstable_by_key(|(root, time)| (std::cmp::Reverse(*time), *root));
    held.time = total(&sums);
    held.root = sums.first().map_or(0, |(root, _)| *root);
    sums.retain(|(root, _)| !passes(plan, &way, pauses.root(*root)));
    held.victim_time = total(&sums);
    held.victim_root = sums.first().map_or(0, |(root, _)| *root);
    held
}

fn total(sums: &[(u32, Delta)]) -> Delta {
    sums.iter().fold(Delta::ZERO, |all, (_, time)| all + *time)
}

/// Whether data that takes a way goes where pauses began; also where that is not known.
fn passes(plan: &Plan, way: &[u32], root: Root) -> bool {
    let last = way.last().map(|port| plan.wiring.wires[*port as usize].peer);
    match root.kind {
        RootKind::Circular | RootKind::Unknown => true,
        _ => way.iter().copied().chain(last).any(|port| PortId(port) == root.port),
    }
}
