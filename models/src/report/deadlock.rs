//! Which paused queues wait for each other.

use std::collections::BTreeSet;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::DeadlockReport;
use crate::fabric::{Fabric, Outcome};
use crate::ids::{PRIORITIES, PortId};
use crate::probe::Probe;

/// Cycles in the wait-for graph of paused egress queues.
///
/// A queue that is paused waits for the priority group downstream that asked for the pause, and
/// that group waits for the queues in which its frames are.
pub(super) fn cycles<P: Probe>(outcome: &Outcome<P>) -> Vec<DeadlockReport> {
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
    DeadlockReport {
        time_s: outcome.end.as_secs(),
        cycle: slots.iter().map(name).collect(),
        flows: flows.into_iter().collect(),
        bytes_stuck,
    }
}
