//! Which paused queues wait for each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use sim_core::Time;

use super::DeadlockReport;
use crate::fabric::{Circle, Fabric, Outcome, StopReason};
use crate::ids::{PRIORITIES, PortId};
use crate::probe::Probe;

/// The deadlocks of a run: what is stuck at its end, or what it found while it went on.
pub(super) fn deadlocks<P: Probe>(outcome: &Outcome<P>) -> Vec<DeadlockReport> {
    let found = |slots: &[usize]| {
        let members = || outcome.circles.iter().flat_map(|circle| &circle.members);
        slots.iter().any(|slot| members().any(|member| *member as usize == *slot))
    };
    match outcome.reason {
        StopReason::Deadlock => cycles(outcome, |_| true),
        // others may wait for each other for a moment
        StopReason::Circle => cycles(outcome, found),
        _ => outcome.circles.iter().map(|circle| told(outcome, circle)).collect(),
    }
}

/// A circle that was found while the run went on. It had closed when its last queue was first seen
/// to stand still, or a little before.
fn told<P: Probe>(outcome: &Outcome<P>, circle: &Circle) -> DeadlockReport {
    let name = |port: u32| outcome.fabric.wiring.topology.port_name(PortId(port));
    DeadlockReport {
        time_s: circle.found.as_secs(),
        cycle: circle.members.iter().map(|slot| name(slot / PRIORITIES as u32)).collect(),
        chain: circle.chain.iter().map(|(port, _)| name(*port)).collect(),
        closed_s: Some(circle.since.as_secs()),
        flows: circle.flows.clone(),
        bytes_stuck: circle.bytes,
    }
}

/// Cycles in the wait-for graph of paused egress queues, those whose queues `count`.
///
/// A queue that is paused waits for the priority group downstream that asked for the pause, and
/// that group waits for the queues in which its frames are.
fn cycles<P: Probe>(outcome: &Outcome<P>, count: impl Fn(&[usize]) -> bool) -> Vec<DeadlockReport> {
    let fabric = &outcome.fabric;
    let slots = fabric.ports.len() * PRIORITIES;
    let mut graph = DiGraph::<usize, ()>::with_capacity(slots, slots);
    let nodes: Vec<NodeIndex> = (0..slots).map(|slot| graph.add_node(slot)).collect();
    for (port, state) in fabric.ports.iter().enumerate() {
        let wire = &fabric.wiring.wires[port];
        if !wire.is_switch {
            continue;
        }
        for (queue, frames) in state.queues.iter().enumerate() {
            if state.paused() & (1 << queue) == 0 {
                continue;
            }
            // frames here keep their ingress groups full; upstream of each, a queue waits
            for packet in frames.packets() {
                let ingress = wire.first_port + u32::from(packet.ingress);
                let upstream = fabric.wiring.wires[ingress as usize].peer as usize;
                let wire = &fabric.wiring.wires[upstream];
                let Some(above) = fabric.obeyed_queue(wire, packet.pg) else { continue };
                let waiting = upstream * PRIORITIES + usize::from(above);
                if fabric.ports[upstream].paused() & (1 << above) != 0 {
                    graph.update_edge(nodes[waiting], nodes[port * PRIORITIES + queue], ());
                }
            }
        }
    }
    let components = kosaraju_scc(&graph);
    let cyclic = components.into_iter().filter(|members| members.len() > 1);
    let slots = |members: &[NodeIndex]| -> Vec<usize> {
        members.iter().map(|member| graph[*member]).collect()
    };
    let cyclic = cyclic.filter(|members| count(&slots(members)));
    cyclic.map(|members| describe(fabric, outcome, &graph, &members)).collect()
}

fn describe<P: Probe>(
    fabric: &Fabric<P>,
    outcome: &Outcome<P>,
    graph: &DiGraph<usize, ()>,
    members: &[NodeIndex],
) -> DeadlockReport {
    let mut slots: Vec<usize> = members.iter().map(|member| graph[*member]).collect();
    slots.sort_unstable();
    let mut flows = BTreeSet::new();
    let mut bytes_stuck = 0;
    for slot in &slots {
        let queue = &fabric.ports[slot / PRIORITIES].queues[slot % PRIORITIES];
        bytes_stuck += queue.bytes();
        flows.extend(queue.packets().map(|packet| packet.qp));
    }
    let name = |slot: &usize| fabric.wiring.topology.port_name(PortId((slot / PRIORITIES) as u32));
    let chain = circle(graph, members);
    let since = |slot: &usize| fabric.ports[slot / PRIORITIES].aside.pause.since(slot % PRIORITIES);
    DeadlockReport {
        time_s: outcome.end.as_secs(),
        cycle: slots.iter().map(name).collect(),
        chain: chain.iter().map(name).collect(),
        closed_s: chain.iter().filter_map(since).max().map(Time::as_secs),
        flows: flows.into_iter().collect(),
        bytes_stuck,
    }
}

/// Members that a shortest circle is sought from.
const STARTS_MAX: usize = 64;

/// The shortest circle among queues that wait for each other, of equals the one with the first
/// queue, from that queue on.
fn circle(graph: &DiGraph<usize, ()>, members: &[NodeIndex]) -> Vec<usize> {
    let mut starts = members.to_vec();
    starts.sort_unstable();
    let mut best: Vec<usize> = Vec::new();
    for start in starts.iter().take(STARTS_MAX) {
        let found = circle_from(graph, *start);
        if best.is_empty() || (!found.is_empty() && found.len() < best.len()) {
            best = found;
        }
    }
    best
}

/// Breadth first, back to where it began.
fn circle_from(graph: &DiGraph<usize, ()>, start: NodeIndex) -> Vec<usize> {
    let mut before = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for next in graph.neighbors(node) {
            if next == start {
                let back = std::iter::successors(Some(node), |node| before.get(node).copied());
                let mut chain: Vec<usize> = back.map(|node| graph[node]).collect();
                chain.reverse();
                return chain;
            }
            before.entry(next).or_insert_with(|| {
                open.push_back(next);
                node
            });
        }
    }
    Vec::new()
}
