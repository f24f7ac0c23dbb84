//! Shortest paths by hop count: every next hop that is on one, in port order.

use std::collections::BTreeMap;

use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::unionfind::UnionFind;

use crate::error::BuildError;
use crate::ids::NodeId;
use crate::topology::{NodeKind, StaticRoute, Topology};

/// For each node and target host, the ports to choose from, as indices within the node.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Column of each node that is a host.
    column: Vec<u32>,
    columns: usize,
    /// Row of each node with several ports; `u32::MAX` for a node with one, which has no choice.
    row: Vec<u32>,
    /// Row-major (node, host): index into `sets`.
    table: Vec<u32>,
    sets: Vec<Box<[u16]>>,
    /// By host: the part of the graph that it is in, for nodes without a row.
    part: Vec<u32>,
}

/// More entries than this are refused before memory is taken.
const ENTRIES_MAX: usize = 1 << 30;

impl Routes {
    /// Computes all shortest paths; hosts do not forward.
    pub fn shortest(topology: &Topology) -> Result<Self, BuildError> {
        let graph = graph_of(topology);
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let mut column = vec![u32::MAX; topology.nodes().len()];
        for (index, host) in hosts.iter().enumerate() {
            column[host.index()] = index as u32;
        }
        let nodes = topology.nodes().len();
        let mut row = vec![u32::MAX; nodes];
        let mut rows = 0;
        for node in (0..nodes as u32).map(NodeId) {
            if topology.ports_of(node).count() != 1 {
                row[node.index()] = rows;
                rows += 1;
            }
        }
        let entries = rows as usize * hosts.len();
        if entries > ENTRIES_MAX {
            let message = format!("{rows} switches x {} hosts are too many routes", hosts.len());
            return Err(BuildError::new("topology", message));
        }
        let mut routes = Routes {
            column,
            columns: hosts.len(),
            row,
            table: vec![0; entries],
            sets: vec![Box::default(), Box::new([0])],
            part: parts(&graph),
        };
        let mut interned = BTreeMap::from([(Box::default(), 0), (Box::from([0]), 1)]);
        // hosts behind one link share the paths to their switch
        let mut behind: BTreeMap<NodeId, Vec<(NodeId, u16)>> = BTreeMap::new();
        for host in hosts {
            let mut ports = topology.ports_of(host);
            let (Some(port), None) = (ports.next(), ports.next()) else {
                routes.fill(topology, &graph, host, &[host], &mut interned);
                continue;
            };
            let switch = topology.neighbour(port);
            if topology.node(switch).kind == NodeKind::Switch {
                let index = topology.index_in_node(topology.port(port).peer) as u16;
                behind.entry(switch).or_default().push((host, index));
            }
        }
        for (switch, hosts) in behind {
            let all: Vec<NodeId> = hosts.iter().map(|(host, _)| *host).collect();
            routes.fill(topology, &graph, switch, &all, &mut interned);
            for (host, port) in hosts {
                let id = routes.intern(Box::new([port]), &mut interned);
                if let Some(slot) = routes.slot(switch, host) {
                    routes.table[slot] = id;
                }
            }
        }
        Ok(routes)
    }

    /// Fills the columns of `hosts` with the next hops towards `target`.
    fn fill(
        &mut self,
        topology: &Topology,
        graph: &UnGraph<NodeId, ()>,
        target: NodeId,
        hosts: &[NodeId],
        interned: &mut BTreeMap<Box<[u16]>, u32>,
    ) {
        let distance = distances(topology, graph, target);
        for node in (0..topology.nodes().len() as u32).map(NodeId) {
            if self.row[node.index()] == u32::MAX {
                continue;
            }
            let Some(here) = distance[node.index()].filter(|hops| *hops > 0) else { continue };
            let next: Box<[u16]> = topology
                .ports_of(node)
                .enumerate()
                .filter(|(_, port)| {
                    let neighbour = topology.neighbour(*port);
                    let forwards =
                        neighbour == target || topology.node(neighbour).kind == NodeKind::Switch;
                    forwards && distance[neighbour.index()] == Some(here - 1)
                })
                .map(|(index, _)| index as u16)
                .collect();
            let id = self.intern(next, interned);
            for host in hosts.iter().filter(|host| **host != node) {
                if let Some(slot) = self.slot(node, *host) {
                    self.table[slot] = id;
                }
            }
        }
    }

    fn intern(&mut self, set: Box<[u16]>, interned: &mut BTreeMap<Box<[u16]>, u32>) -> u32 {
        *interned.entry(set).or_insert_with_key(|set| {
            self.sets.push(set.clone());
            self.sets.len() as u32 - 1
        })
    }

    /// Replaces the next hops that `routes` name.
    pub fn apply(&mut self, topology: &Topology, routes: &[StaticRoute]) -> Result<(), BuildError> {
        for (number, route) in routes.iter().enumerate() {
            let key = |field: &str| format!("topology.routes[{number}].{field}");
            let find = |field: &str, name: &str| {
                topology.find(name).ok_or_else(|| {
                    BuildError::new(key(field), format!("there is no node {name:?}"))
                })
            };
            let node = find("node", &route.node)?;
            let target = find("target", &route.target)?;
            if topology.node(target).kind != NodeKind::Host {
                return Err(BuildError::new(key("target"), "the target is no host"));
            }
            let ports = topology.ports_of(node).count() as u32;
            if route.ports.is_empty() || route.ports.iter().any(|port| *port >= ports) {
                let message = format!("{} has ports 0 to {}", route.node, ports.saturating_sub(1));
                return Err(BuildError::new(key("ports"), message));
            }
            // a node with one port has no choice
            let Some(slot) = self.slot(node, target) else { continue };
            self.sets.push(route.ports.iter().map(|port| *port as u16).collect());
            self.table[slot] = self.sets.len() as u32 - 1;
        }
        Ok(())
    }

    /// The ports of `node` that lead to `host`, as indices within the node; empty if none does.
    #[inline]
    pub fn next_hops(&self, node: NodeId, host: NodeId) -> &[u16] {
        match self.slot(node, host) {
            Some(slot) => &self.sets[self.table[slot] as usize],
            None if self.part[node.index()] == self.part[host.index()] => &self.sets[1],
            None => &self.sets[0],
        }
    }

    #[inline]
    fn slot(&self, node: NodeId, host: NodeId) -> Option<usize> {
        let row = self.row[node.index()];
        (row != u32::MAX).then(|| row as usize * self.columns + self.column[host.index()] as usize)
    }
}

/// Number of the connected part that each node is in.
fn parts(graph: &UnGraph<NodeId, ()>) -> Vec<u32> {
    let mut parts = UnionFind::new(graph.node_count());
    for edge in graph.edge_indices() {
        if let Some((a, b)) = graph.edge_endpoints(edge) {
            parts.union(a.index() as u32, b.index() as u32);
        }
    }
    parts.into_labeling()
}

fn graph_of(topology: &Topology) -> UnGraph<NodeId, ()> {
    let mut graph = UnGraph::with_capacity(topology.nodes().len(), topology.ports().len() / 2);
    for id in 0..topology.nodes().len() as u32 {
        graph.add_node(NodeId(id));
    }
    for (index, port) in topology.ports().iter().enumerate() {
        if index < port.peer.index() {
            let far = topology.port(port.peer).node;
            graph.add_edge(NodeIndex::new(port.node.index()), NodeIndex::new(far.index()), ());
        }
    }
    graph
}

/// Hops from every node to `target`, through switches only.
fn distances(topology: &Topology, graph: &UnGraph<NodeId, ()>, target: NodeId) -> Vec<Option<u32>> {
    let mut distance = vec![None; topology.nodes().len()];
    distance[target.index()] = Some(0);
    let mut frontier = std::collections::VecDeque::from([target]);
    while let Some(node) = frontier.pop_front() {
        let hops = distance[node.index()].map(|hops| hops + 1);
        for next in graph.neighbors(NodeIndex::new(node.index())) {
            let next = graph[next];
            if distance[next.index()].is_none() {
                distance[next.index()] = hops;
                if topology.node(next).kind == NodeKind::Switch {
                    frontier.push_back(next);
                }
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{FatTreeConfig, LinkConfig, TopologyConfig};
    use sim_core::{Delta, Rate};

    #[test]
    fn a_fat_tree_has_all_equal_cost_paths() {
        let link = LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };
        let tree = FatTreeConfig { k: 4, link, uplink: None };
        let topology = Topology::build(&TopologyConfig::FatTree(tree)).unwrap();
        let routes = Routes::shortest(&topology).unwrap();
        let node = |name: &str| topology.find(name).unwrap();
        // edge0: ports 0-1 are hosts 0-1, 2-3 go up; towards another pod both are equal
        assert_eq!(routes.next_hops(node("edge0"), node("host1")), [1]);
        assert_eq!(routes.next_hops(node("edge0"), node("host15")), [2, 3]);
        // agg0: ports 0-1 to edge0, edge1; 2-3 to cores
        assert_eq!(routes.next_hops(node("agg0"), node("host2")), [1]);
        assert_eq!(routes.next_hops(node("agg0"), node("host15")), [2, 3]);
        assert_eq!(routes.next_hops(node("core0"), node("host15")), [3]);
        assert_eq!(routes.next_hops(node("host0"), node("host15")), [0]);
    }
}
