//! Buffers that can wait for themselves ([`models::dependency`]), in words.

use std::fmt::Write;

use models::dependency::{
    Buffer, Cycle, Dependencies, Failure, LinkFailures, RoutingLoop, Traffic, Turn,
};
use models::fabric::Plan;
use models::ids::NodeId;
use models::report::Severity;
use models::routing::Routes;

use super::{Notes, note};
use crate::text::words;

/// Rounds, turns and failures that are shown in full.
const SHOWN: usize = 4;
/// Changes of routes by faults that are followed.
const ROUTES_MAX: usize = 64;

impl Notes<'_> {
    /// Circles of buffers and routing loops.
    pub(super) fn deadlocks(&mut self) {
        let plan = self.plan;
        let traffic = Traffic::new(&plan.spec, &plan.wiring);
        for (routes, when) in all_routes(plan) {
            let dependencies = traffic.dependencies(routes);
            for found in dependencies.loops().iter().take(SHOWN) {
                let text = format!("{}{when}", routing_loop(plan, found));
                self.add(note(Severity::Error, "topology.routes", text.clone(), None), &text);
            }
            for cycle in dependencies.cycles().iter().take(SHOWN) {
                let text = format!(
                    "a deadlock is possible{when}: lossless buffers wait for each other in a \
                     circle, {}; that is necessary and not sufficient, a run shows whether this \
                     traffic closes it",
                    headline(plan, cycle)
                );
                let mut note = note(Severity::Warning, "topology", text.clone(), None);
                note.details = circle(plan, &dependencies, cycle);
                self.add(note, &text);
            }
        }
    }
}

/// The routes at the start, and those that faults lead to, with the words for when they hold.
fn all_routes(plan: &Plan) -> impl Iterator<Item = (&Routes, &'static str)> {
    let later = plan.wiring.faults.routes.iter().take(ROUTES_MAX);
    let later = later.map(|routes| (routes, ", once routes have changed after a fault"));
    std::iter::once((&plan.wiring.routes, "")).chain(later)
}

/// Whether buffers can wait for themselves, in a line.
pub fn deadlock(plan: &Plan) -> String {
    let traffic = Traffic::new(&plan.spec, &plan.wiring);
    let mut turns = 0;
    for (routes, when) in all_routes(plan) {
        let dependencies = traffic.dependencies(routes);
        if !dependencies.is_acyclic() {
            return format!("deadlock: possible{when}");
        }
        turns = turns.max(dependencies.len());
    }
    match turns {
        0 => "deadlock: impossible; no lossless buffer of a switch waits for another".to_owned(),
        turns => format!(
            "deadlock: impossible; no circle closes in the {turns} turns from one lossless buffer \
             to the next"
        ),
    }
}

/// `s0 -> s1 -> s0 (priority group 3)`
fn headline(plan: &Plan, cycle: &Cycle) -> String {
    let pgs: std::collections::BTreeSet<u8> = cycle.buffers.iter().map(|b| b.pg).collect();
    let pgs: Vec<String> = pgs.iter().map(u8::to_string).collect();
    format!("{} (priority group {})", around(plan, &cycle.round), pgs.join(", "))
}

/// A routing loop in one line.
fn routing_loop(plan: &Plan, found: &RoutingLoop) -> String {
    let topology = &plan.spec.topology;
    let name = |node: &NodeId| topology.node(*node).name.as_str();
    let mut names: Vec<&str> = found.switches.iter().map(name).collect();
    names.extend(names.first().copied());
    format!("routing loop: frames to {} go {}", name(&found.target), names.join(" -> "))
}

/// `s0 -> s1 -> s2 -> s0`
fn around(plan: &Plan, round: &[Turn]) -> String {
    let topology = &plan.spec.topology;
    let name = |turn: &Turn| topology.node(topology.port(turn.from.port).node).name.as_str();
    let mut names: Vec<&str> = round.iter().map(name).collect();
    names.extend(names.first().copied());
    names.join(" -> ")
}

/// `s1, from s0`
fn buffer(plan: &Plan, buffer: Buffer) -> [String; 2] {
    let topology = &plan.spec.topology;
    [topology.port(buffer.port).node, topology.neighbour(buffer.port)]
        .map(|node| topology.node(node).name.clone())
}

/// `s3 -> s0 -> s1`
fn way(plan: &Plan, turn: Turn) -> String {
    let [at, from] = buffer(plan, turn.from);
    let [to, _] = buffer(plan, turn.to);
    format!("{from} -> {at} -> {to}")
}

fn circle(plan: &Plan, dependencies: &Dependencies<'_>, cycle: &Cycle) -> Vec<String> {
    let mut lines = Vec::new();
    let (all, shown) = (cycle.buffers.len(), cycle.round.len());
    if all > shown {
        lines.push(format!("the shortest of the circles among {all} buffers:"));
    }
    let header = ["frames at", "from", "wait for", "turn", "made by"].map(String::from);
    let mut rows = vec![header.to_vec()];
    for (turn, users) in cycle.round.iter().zip(&cycle.users) {
        let [at, from] = buffer(plan, turn.from);
        let [to, _] = buffer(plan, turn.to);
        let kind = if dependencies.is_valley(*turn) { "down and up" } else { "" };
        let mut made: Vec<String> =
            users.first.iter().map(|(qp, back)| user(plan, *qp, *back)).collect();
        match users.count {
            0 => made.push("none now, but ECMP may".to_owned()),
            count if count > made.len() as u64 => {
                made.push(format!("{} more", count - made.len() as u64));
            }
            _ => {}
        }
        rows.push(vec![at, from, to, kind.to_owned(), made.join(", ")]);
    }
    lines.extend(words(&rows).lines().map(|line| line.trim_start().to_owned()));
    lines.extend(cure(plan, cycle));
    lines
}

/// `QP 3 (h0 -> h2)`
fn user(plan: &Plan, qp: u32, back: bool) -> String {
    let topology = &plan.spec.topology;
    let info = &plan.wiring.qps[qp as usize];
    let name = |node: u32| topology.node(NodeId(node)).name.as_str();
    let kind = if back { "ACKs of " } else { "" };
    format!("{kind}QP {qp} ({} -> {})", name(info.source), name(info.target))
}

fn cure(plan: &Plan, cycle: &Cycle) -> Vec<String> {
    let cure = &cycle.cure;
    let shown = cure.turns.iter().take(SHOWN);
    let mut turns: Vec<String> = shown.map(|turn| way(plan, *turn)).collect();
    turns.dedup();
    if cure.turns.len() > SHOWN {
        turns.push(format!("{} more", cure.turns.len() - SHOWN));
    }
    let which = if cure.valleys { "turns down and up again" } else { "turns" };
    let mut lines = vec![format!("opened by forbidding the {which} {}", turns.join(", "))];
    if let Some(priorities) = cure.priorities.filter(|priorities| *priorities > 1) {
        lines.push(format!(
            "or by another lossless priority from each of these turns on ({priorities} in all): \
             switch.qos.bounce"
        ));
    }
    lines
}

/// What the loss of single cables does.
pub fn failures(plan: &Plan, tried: &LinkFailures) -> String {
    let mut text = String::new();
    let count = |bad: fn(&Failure) -> bool| tried.failures.iter().filter(|f| bad(f)).count();
    let settled = count(|failure| !failure.settled.is_empty());
    let transient = count(|failure| !failure.transient.is_empty());
    let cut = count(|failure| failure.unreachable > 0);
    let cables = tried.cables;
    if cables == 0 {
        return "  single failures: there is no cable between switches\n".to_owned();
    }
    let _ = writeln!(text, "  single failures: {cables} cables between switches, one at a time");
    let of = |count: usize| if count == 0 { "none".to_owned() } else { count.to_string() };
    let rows = [
        ("leave hosts without a way", cut),
        ("close a circle of buffers, once all routes have changed", settled),
        ("close one until then (the two switches at the cable bounce frames)", transient),
    ];
    for (what, count) in rows {
        let _ = writeln!(text, "    {:>5} {what}", of(count));
    }
    let worst = tried.failures.iter().find(|failure| !failure.settled.is_empty());
    let first = worst.or_else(|| tried.failures.iter().find(|f| !f.transient.is_empty()));
    if let Some(failure) = first {
        let cycle = failure.settled.first().or(failure.transient.first());
        let Some(cycle) = cycle else { return text };
        let topology = &plan.spec.topology;
        let ends = [failure.port, topology.port(failure.port).peer];
        let _ = writeln!(
            text,
            "    such as {}: {}",
            ends.map(|port| topology.node(topology.port(port).node).name.as_str()).join("-"),
            headline(plan, cycle)
        );
        cure(plan, cycle).iter().for_each(|line| text += &format!("      {line}\n"));
    }
    text
}
