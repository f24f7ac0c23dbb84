//! `routes.txt`: the next hops of each switch in the order in which ns-3's hash chooses.

use std::collections::BTreeSet;

use super::topology::{ROWS_MAX, Topology};
use crate::import::ImportError;
use crate::import::text::TextFile;

/// Next hops at one node towards one host.
pub(super) struct Route {
    pub(super) node: u32,
    pub(super) target: u32,
    /// Ports, counted from 0.
    pub(super) ports: Vec<u32>,
}

/// Reads the file: those routes that differ from all shortest paths in the order of ports, which
/// is what a scenario has without them.
pub(super) fn read(file: &TextFile, topology: &Topology) -> Result<Vec<Route>, ImportError> {
    let mut routes = Vec::new();
    let mut seen = BTreeSet::new();
    for line in file.lines() {
        let [node, target, words @ ..] = line.words.as_slice() else {
            return Err(line.error("1 column; `switch host port port ...` is expected"));
        };
        let (node, target) = (topology.node(&line, node)?, topology.host(&line, target)?);
        if !topology.is_switch[node as usize] {
            return Err(line.error(format!("node {node} is a host; a switch is expected")));
        }
        if !seen.insert((node, target)) {
            let message = format!("next hops of switch {node} to host {target} are there twice");
            return Err(line.error(message + "; once is expected"));
        }
        if words.is_empty() {
            return Err(line.error("no ports; `switch host port port ...` is expected"));
        }
        let count = topology.ports[node as usize].len() as u32;
        let mut ports = Vec::new();
        for word in words {
            let port: u32 = line.number("port", word)?;
            if !(1..=count).contains(&port) {
                let message = format!("there is no port {port}; switch {node} has 1 to {count}");
                return Err(line.error(message));
            }
            ports.push(port - 1);
        }
        routes.push(Route { node, target, ports });
        if routes.len() > ROWS_MAX as usize {
            return Err(line.error(format!("too many routes; at most {ROWS_MAX} are expected")));
        }
    }
    routes.sort_by_key(|route| route.target);
    let mut kept = Vec::new();
    for routes in routes.chunk_by_mut(|a, b| a.target == b.target) {
        let distance = topology.distances(routes[0].target);
        for Route { node, target, ports } in routes {
            if *ports != shortest(topology, &distance, *node, *target) {
                kept.push(Route { node: *node, target: *target, ports: std::mem::take(ports) });
            }
        }
    }
    kept.sort_by_key(|route| (route.node, route.target));
    Ok(kept)
}

/// The ports of `node` on shortest paths to `target`, ascending.
fn shortest(topology: &Topology, distance: &[Option<u32>], node: u32, target: u32) -> Vec<u32> {
    let Some(next) = distance[node as usize].and_then(|hops| hops.checked_sub(1)) else {
        return Vec::new();
    };
    let forwards = |far: u32| far == target || topology.is_switch[far as usize];
    let ports = topology.ports[node as usize].iter().zip(0..);
    ports
        .filter(|(far, _)| forwards(**far) && distance[**far as usize] == Some(next))
        .map(|(_, port)| port)
        .collect()
}
