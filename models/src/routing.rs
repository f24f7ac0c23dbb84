//! Shortest paths by hop count: every next hop that is on one, in port order.

use std::collections::BTreeMap;

use petgraph::graph::{NodeIndex, UnGraph};

use crate::error::BuildError;
use crate::ids::{NodeId, PortId};
use crate::topology::{NodeKind, StaticRoute, Topology};

/// For each node and target address, the ports to choose from, as indices within the node.
#[derive(Clone, Debug)]
pub struct Routes {
    /// One for each address.
    columns: usize,
    /// Row of each node but hosts whose addresses have one port each, which have no choice:
    /// `u32::MAX`.
    row: Vec<u32>,
    /// Row-major (node, address): index into `sets`.
    table: Vec<u32>,
    sets: Vec<Box<[u16]>>,
    /// By node without a row: the node at the other end of its first cable, and whether it forwards.
    gate: Vec<(NodeId, bool)>,
}

/// More entries than this are refused before memory is taken.
const ENTRIES_MAX: usize = 1 << 30;

impl Routes {
    /// Computes all shortest paths; hosts do not forward.
    pub fn shortest(topology: &Topology) -> Result<Self, BuildError> {
        let graph = graph_of(topology);
        let addresses = topology.addresses();
        let nodes = topology.nodes().len();
        let mut row = vec![u32::MAX; nodes];
        let mut gate = vec![(NodeId(0), false); nodes];
        let mut rows = 0;
        for node in (0..nodes as u32).map(NodeId) {
            // a host has a choice only among the ports of one address
            let chooses = topology
                .addresses_of(node)
                .any(|address| topology.addresses()[address as usize].ports.len() > 1);
            match (topology.node(node).kind, topology.ports_of(node).next()) {
                (NodeKind::Host, Some(port)) if !chooses => {
                    let neighbour = topology.neighbour(port);
                    let forwards = topology.node(neighbour).kind == NodeKind::Switch;
                    gate[node.index()] = (neighbour, forwards);
                }
                _ => {
                    row[node.index()] = rows;
                    rows += 1;
                }
            }
        }
        let entries = rows as usize * addresses.len();
        if entries > ENTRIES_MAX {
            let count = addresses.len();
            let message = format!("{rows} switches x {count} addresses are too many routes");
            return Err(BuildError::new("topology", message));
        }
        let mut routes = Routes {
            columns: addresses.len(),
            row,
            table: vec![0; entries],
            sets: vec![Box::default(), Box::new([0])],
            gate,
        };
        let mut interned = BTreeMap::from([(Box::default(), 0), (Box::from([0]), 1)]);
        // addresses behind one link share the paths to their switch
        let mut behind: BTreeMap<NodeId, Vec<(u32, u16)>> = BTreeMap::new();
        for (number, address) in (0..).zip(addresses) {
            match *address.ports {
                [port] if topology.node(topology.neighbour(port)).kind == NodeKind::Switch => {
                    let index = topology.index_in_node(topology.port(port).peer) as u16;
                    behind.entry(topology.neighbour(port)).or_default().push((number, index));
                }
                _ => {
                    let distance = distances(topology, &graph, address.host, &address.ports);
                    routes.fill(topology, address.host, &distance, &[number], &mut interned);
                }
            }
        }
        for (switch, entries) in behind {
            let all: Vec<u32> = entries.iter().map(|(number, _)| *number).collect();
            let every: Vec<PortId> = topology.ports_of(switch).collect();
            let distance = distances(topology, &graph, switch, &every);
            routes.fill(topology, switch, &distance, &all, &mut interned);
            for (number, port) in entries {
                let id = routes.intern(Box::new([port]), &mut interned);
                if let Some(slot) = routes.slot(switch, number) {
                    routes.table[slot] = id;
                }
            }
        }
        Ok(routes)
    }

    /// Fills the columns of `addresses` with the next hops towards `target`.
    fn fill(
        &mut self,
        topology: &Topology,
        target: NodeId,
        distance: &[Option<u32>],
        addresses: &[u32],
        interned: &mut BTreeMap<Box<[u16]>, u32>,
    ) {
        let own = |port: &PortId| {
            let [number] = addresses else { return true };
            // the last hop must be one of the ports that answer
            let peer = topology.port(*port).peer;
            topology.port(peer).node != target
                || topology.node(target).kind == NodeKind::Switch
                || topology.addresses()[*number as usize].ports.contains(&peer)
        };
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
                    forwards && distance[neighbour.index()] == Some(here - 1) && own(port)
                })
                .map(|(index, _)| index as u16)
                .collect();
            let id = self.intern(next, interned);
            let hosted = |address: &&u32| topology.addresses()[**address as usize].host == node;
            for address in addresses.iter().filter(|address| !hosted(address)) {
                if let Some(slot) = self.slot(node, *address) {
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
            self.sets.push(route.ports.iter().map(|port| *port as u16).collect());
            let set = self.sets.len() as u32 - 1;
            for address in topology.addresses_of(target) {
                // a node with one port has no choice
                if let Some(slot) = self.slot(node, address) {
                    self.table[slot] = set;
                }
            }
        }
        Ok(())
    }

    /// Whether `node` has next hops of its own; a host without them sends by the port of its address.
    pub fn chooses(&self, node: NodeId) -> bool {
        self.row[node.index()] != u32::MAX
    }

    /// The ports of `node` that lead to `address` (of `host`), as indices within the node; empty if
    /// none does.
    #[inline]
    pub fn next_hops(&self, node: NodeId, host: NodeId, address: u32) -> &[u16] {
        match self.slot(node, address) {
            Some(slot) => &self.sets[self.table[slot] as usize],
            None => {
                let (gate, forwards) = self.gate[node.index()];
                let beyond = || self.slot(gate, address).is_some_and(|slot| self.table[slot] != 0);
                let reachable = gate == host || (forwards && beyond());
                &self.sets[usize::from(reachable)]
            }
        }
    }

    #[inline]
    fn slot(&self, node: NodeId, address: u32) -> Option<usize> {
        let row = self.row[node.index()];
        (row != u32::MAX).then(|| row as usize * self.columns + address as usize)
    }
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

/// Hops from every node to `target`, whose last cable is one of `ports`, through switches only.
fn distances(
    topology: &Topology,
    graph: &UnGraph<NodeId, ()>,
    target: NodeId,
    ports: &[PortId],
) -> Vec<Option<u32>> {
    let mut distance = vec![None; topology.nodes().len()];
    distance[target.index()] = Some(0);
    let mut frontier = std::collections::VecDeque::new();
    for port in ports {
        let next = topology.neighbour(*port);
        if distance[next.index()].is_none() {
            distance[next.index()] = Some(1);
            if topology.node(next).kind == NodeKind::Switch {
                frontier.push_back(next);
            }
        }
    }
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
    use crate::topology::{FatTreeConfig, GraphConfig, GraphLink, LinkConfig, TopologyConfig};
    use sim_core::{Delta, Rate};

    #[test]
    fn a_fat_tree_has_all_equal_cost_paths() {
        let link = LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };
        let tree = FatTreeConfig { k: 4, link, uplink: None };
        let topology = Topology::build(&TopologyConfig::FatTree(tree)).unwrap();
        let routes = Routes::shortest(&topology).unwrap();
        let node = |name: &str| topology.find(name).unwrap();
        let hops = |from: &str, to: &str| {
            let host = node(to);
            routes.next_hops(node(from), host, topology.addresses_of(host).start).to_vec()
        };
        // edge0: ports 0-1 are hosts 0-1, 2-3 go up; towards another pod both are equal
        assert_eq!(hops("edge0", "host1"), [1]);
        assert_eq!(hops("edge0", "host15"), [2, 3]);
        // agg0: ports 0-1 to edge0, edge1; 2-3 to cores
        assert_eq!(hops("agg0", "host2"), [1]);
        assert_eq!(hops("agg0", "host15"), [2, 3]);
        assert_eq!(hops("core0", "host15"), [3]);
        assert_eq!(hops("host0", "host15"), [0]);
    }

    #[test]
    fn hosts_do_not_forward() {
        let link = |a: &str, b: &str| GraphLink {
            a: a.into(),
            b: b.into(),
            rate: Rate::from_gbps(100),
            delay: Delta::from_us(1),
            loss: 0.0,
        };
        let graph = GraphConfig {
            hosts: ["a", "b", "c", "d"].map(String::from).to_vec(),
            switches: vec!["s".into()],
            links: vec![link("a", "b"), link("b", "s"), link("s", "c")],
            numbered: false,
            routes: vec![],
        };
        let topology = Topology::build(&TopologyConfig::Graph(graph)).unwrap();
        let routes = Routes::shortest(&topology).unwrap();
        let hops = |from: &str, to: &str| {
            let host = topology.find(to).unwrap();
            let address = topology.addresses_of(host).start;
            routes.next_hops(topology.find(from).unwrap(), host, address).to_vec()
        };
        // b has two ports and ends traffic at both; a reaches b, and nothing beyond it
        assert_eq!((hops("a", "b"), hops("b", "a")), (vec![0], vec![0]));
        assert_eq!((hops("b", "c"), hops("c", "b"), hops("s", "b")), (vec![1], vec![0], vec![0]));
        assert_eq!((hops("a", "c"), hops("c", "a"), hops("s", "a")), (vec![], vec![], vec![]));
        assert_eq!((hops("a", "d"), hops("d", "a")), (vec![], vec![]));
    }
}
