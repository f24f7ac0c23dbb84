//! What the loss of a cable does to the dependencies of buffers.

use std::collections::BTreeSet;

use super::{Cycle, Dependencies, RoutingLoop, Traffic};
use crate::error::BuildError;
use crate::ids::{NodeId, PortId};
use crate::routing::Routes;
use crate::topology::{NodeKind, StaticRoute};

/// The loss of one cable between switches.
#[derive(Clone, Debug)]
pub struct Failure {
    /// One end of the cable; the other is its peer.
    pub port: PortId,
    /// Rounds that were not there before, once all routes have changed.
    pub settled: Vec<Cycle>,
    /// Rounds that were not there before, as long as the two switches at its ends have changed
    /// theirs and the others have not.
    pub transient: Vec<Cycle>,
    /// Routing loops of that time.
    pub loops: Vec<RoutingLoop>,
    /// Pairs of a sending port and a destination that have no way left once routes have changed.
    pub unreachable: u64,
}

/// The loss of each cable between switches, one at a time.
#[derive(Clone, Debug)]
pub struct LinkFailures {
    /// How many cables there are.
    pub cables: usize,
    /// Those whose loss makes buffers wait for themselves, or cuts hosts off.
    pub failures: Vec<Failure>,
}

/// Tries the loss of each cable between switches; `told` is called after each of so many.
pub fn link_failures(
    traffic: &Traffic<'_>,
    routes: &[StaticRoute],
    mut told: impl FnMut(usize, usize),
) -> Result<LinkFailures, BuildError> {
    let topology = &traffic.spec.topology;
    let is_switch = |port: PortId| topology.node(topology.port(port).node).kind == NodeKind::Switch;
    let all = (0..topology.ports().len() as u32).map(PortId);
    let cables: Vec<PortId> = all
        .filter(|port| *port < topology.port(*port).peer)
        .filter(|port| is_switch(*port) && is_switch(topology.port(*port).peer))
        .collect();
    let before = &traffic.wiring.routes;
    let known = pairs(&traffic.dependencies(before));
    let mut failures = Vec::new();
    for (tried, port) in cables.iter().enumerate() {
        let after = Routes::without(topology, routes, &[*port, topology.port(*port).peer])?;
        let ends = [*port, topology.port(*port).peer].map(|port| topology.port(port).node);
        let new = |dependencies: &Dependencies<'_>| -> Vec<Cycle> {
            if pairs(dependencies).is_subset(&known) {
                return Vec::new();
            }
            let mut cycles = dependencies.cycles();
            cycles.retain(|cycle| cycle.buffers.iter().any(|b| !known.contains(&b.number())));
            cycles
        };
        let settled = traffic.dependencies(&after);
        let choose = |node: NodeId| if ends.contains(&node) { &after } else { before };
        let transient = traffic.dependencies_by(choose);
        let failure = Failure {
            port: *port,
            settled: new(&settled),
            transient: new(&transient),
            loops: transient.loops().to_vec(),
            unreachable: settled.unreachable(),
        };
        if !failure.settled.is_empty() || !failure.transient.is_empty() || failure.unreachable > 0 {
            failures.push(failure);
        }
        told(tried + 1, cables.len());
    }
    Ok(LinkFailures { cables: cables.len(), failures })
}

/// The buffers that can wait for themselves.
fn pairs(dependencies: &Dependencies<'_>) -> BTreeSet<u32> {
    dependencies.components().into_iter().flatten().collect()
}
