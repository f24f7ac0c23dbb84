//! Shortest paths by hop count: every next hop that is on one, in port order.
//!
//! Paths to two addresses that hang on the same switches differ in the last hop only. So there is
//! one column of next hops for each such set of switches, and the last hops stand beside it.

use std::collections::BTreeMap;

use crate::error::BuildError;
use crate::ids::{NodeId, PortId};
use crate::topology::{NodeKind, StaticRoute, Topology};

/// For each node and target address, the ports to choose from, as indices within the node.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Row of each node but hosts whose addresses have one port each, which have no choice:
    /// `u32::MAX`.
    row: Vec<u32>,
    rows: usize,
    /// By address.
    targets: Vec<Target>,
    /// Column by column, an entry a row: index into `sets`.
    table: Vec<u32>,
    /// The last hops: nodes with a cable to an address, and the set that leads over it.
    last: Vec<(NodeId, u32)>,
    sets: Vec<Box<[u16]>>,
    /// By node without a row: the node at the other end of its first cable, and whether it forwards.
    gate: Vec<(NodeId, bool)>,
}

/// How an address is reached.
#[derive(Clone, Copy, Debug)]
struct Target {
    /// Its host, which sends nothing to itself.
    host: NodeId,
    column: u32,
    /// Its part of `Routes::last`.
    last: [u32; 2],
}

/// More entries than this are refused before memory is taken.
const ENTRIES_MAX: usize = 1 << 30;

/// Far from everything.
const FAR: u32 = u32::MAX;

impl Routes {
    /// Computes all shortest paths; hosts do not forward.
    pub fn shortest(topology: &Topology) -> Result<Self, BuildError> {
        Self::shortest_without(topology, &[])
    }

    /// The same where the cables of some ports (both ends are given) carry nothing.
    pub fn shortest_without(topology: &Topology, cut: &[PortId]) -> Result<Self, BuildError> {
        let (row, gate) = rows(topology);
        let chooses: Vec<NodeId> =
            (0..).map(NodeId).zip(&row).filter(|(_, row)| **row != u32::MAX).map(|n| n.0).collect();
        let mut sets = Sets::default();
        let mut last = Vec::new();
        let mut columns: BTreeMap<Box<[NodeId]>, u32> = BTreeMap::new();
        let mut targets = Vec::with_capacity(topology.addresses().len());
        for address in topology.addresses() {
            let from = last.len() as u32;
            let alive = address.ports.iter().filter(|port| !cut.contains(port));
            let mut near: Vec<NodeId> = alive.map(|port| topology.neighbour(*port)).collect();
            near.sort_unstable();
            near.dedup();
            for node in near.iter().filter(|node| row[node.index()] != u32::MAX) {
                let answers = |port: &PortId| {
                    address.ports.contains(&topology.port(*port).peer) && !cut.contains(port)
                };
                let hops = slots(topology, *node, answers);
                last.push((*node, sets.number(&hops)));
            }
            near.retain(|node| topology.node(*node).kind == NodeKind::Switch);
            let next = columns.len() as u32;
            let column = match columns.get(&*near) {
                Some(column) => *column,
                None => *columns.entry(near.into()).or_insert(next),
            };
            targets.push(Target { host: address.host, column, last: [from, last.len() as u32] });
        }
        let (rows, width) = (chooses.len(), columns.len());
        bounded(rows, width)?;
        let mut table = vec![0; rows * width];
        let mut search = Search::new(topology, &row, &chooses, cut);
        for (near, column) in &columns {
            let from = *column as usize * rows;
            let near = near.iter().map(|node| row[node.index()]);
            search.fill(near, &mut sets, &mut table[from..from + rows]);
        }
        Ok(Routes { row, rows, targets, table, last, sets: sets.all, gate })
    }

    /// Routes once these ports, each with its peer, are known to carry nothing; static routes lose
    /// the ports that are cut.
    pub fn without(
        topology: &Topology,
        fixed: &[StaticRoute],
        cut: &[PortId],
    ) -> Result<Self, BuildError> {
        let mut routes = Self::shortest_without(topology, cut)?;
        let lost = |route: &StaticRoute, index: &u32| {
            let node = topology.find(&route.node);
            cut.iter().any(|port| {
                Some(topology.port(*port).node) == node && topology.index_in_node(*port) == *index
            })
        };
        let left = fixed.iter().map(|route| StaticRoute {
            ports: route.ports.iter().filter(|index| !lost(route, index)).copied().collect(),
            ..route.clone()
        });
        let left: Vec<StaticRoute> = left.filter(|route| !route.ports.is_empty()).collect();
        routes.apply(topology, &left)?;
        Ok(routes)
    }

    /// Replaces computed next hops by static ones.
    pub fn apply(&mut self, topology: &Topology, routes: &[StaticRoute]) -> Result<(), BuildError> {
        if routes.is_empty() {
            return Ok(());
        }
        let nodes = topology.nodes().iter().enumerate();
        let by_name: BTreeMap<&str, NodeId> =
            nodes.map(|(id, node)| (node.name.as_str(), NodeId(id as u32))).collect();
        let mut users = vec![0u32; self.table.len() / self.rows.max(1)];
        self.targets.iter().for_each(|target| users[target.column as usize] += 1);
        for (number, route) in routes.iter().enumerate() {
            let key = |field: &str| format!("topology.routes[{number}].{field}");
            let find = |field: &str, name: &str| {
                by_name.get(name).copied().ok_or_else(|| {
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
            // a node with one port has no choice
            if self.chooses(node) {
                for address in topology.addresses_of(target) {
                    self.replace(node, address, &mut users)?;
                }
            }
        }
        Ok(())
    }

    /// Lets `node` reach an address by the newest set; `users` counts the addresses of each column.
    fn replace(
        &mut self,
        node: NodeId,
        address: u32,
        users: &mut Vec<u32>,
    ) -> Result<(), BuildError> {
        let set = self.sets.len() as u32 - 1;
        let Target { column, last: [from, to], .. } = self.targets[address as usize];
        let last = &mut self.last[from as usize..to as usize];
        if let Some((_, known)) = last.iter_mut().find(|(near, _)| *near == node) {
            *known = set;
            return Ok(());
        }
        let mut from = column as usize * self.rows;
        if users[column as usize] > 1 {
            // others keep the column
            bounded(self.rows, users.len() + 1)?;
            users[column as usize] -= 1;
            self.targets[address as usize].column = users.len() as u32;
            users.push(1);
            self.table.extend_from_within(from..from + self.rows);
            from = self.table.len() - self.rows;
        }
        self.table[from + self.row[node.index()] as usize] = set;
        Ok(())
    }

    /// What tells the ways to an address from those to others, but for the last hop to its host:
    /// its column, and the switches beside its host that do not hand over to it.
    pub fn group(&self, topology: &Topology, address: u32) -> (u32, Vec<(NodeId, u32)>) {
        let Target { host, column, last: [from, to] } = self.targets[address as usize];
        let strays = |near: &&(NodeId, u32)| {
            let ports: Vec<PortId> = topology.ports_of(near.0).collect();
            let hops = self.sets[near.1 as usize].iter();
            near.0 != host
                && hops.map(|hop| ports[usize::from(*hop)]).any(|p| topology.neighbour(p) != host)
        };
        let last = &self.last[from as usize..to as usize];
        (column, last.iter().filter(strays).copied().collect())
    }

    /// Whether `node` has next hops of its own; a host without them sends by the port of its address.
    pub fn chooses(&self, node: NodeId) -> bool {
        self.row[node.index()] != u32::MAX
    }

    /// The ports of `node` that lead to `address` (of `host`), as indices within the node; empty if
    /// none does.
    #[inline]
    pub fn next_hops(&self, node: NodeId, host: NodeId, address: u32) -> &[u16] {
        match self.set(node, address) {
            Some(set) => &self.sets[set as usize],
            None => {
                let (gate, forwards) = self.gate[node.index()];
                let beyond = || self.set(gate, address).is_some_and(|set| set != 0);
                let reachable = gate == host || (forwards && beyond());
                &self.sets[usize::from(reachable)]
            }
        }
    }

    /// What switches choose from on the ways to `addresses`.
    pub fn choices(&self, addresses: &[u32]) -> Choices<'_> {
        let targets = || addresses.iter().map(|address| self.targets[*address as usize]);
        let mut columns: Vec<u32> = targets().map(|target| target.column).collect();
        columns.sort_unstable();
        columns.dedup();
        let last = |target: Target| &self.last[target.last[0] as usize..target.last[1] as usize];
        let several = |last: &&(NodeId, u32)| self.sets[last.1 as usize].len() > 1;
        let mut last: Vec<(NodeId, u32)> =
            targets().flat_map(|target| last(target).iter().filter(several).copied()).collect();
        last.sort_unstable();
        last.dedup();
        Choices { routes: self, columns, last }
    }

    /// The set of ports by which a node with a row reaches an address.
    #[inline]
    fn set(&self, node: NodeId, address: u32) -> Option<u32> {
        let row = self.row[node.index()];
        let Target { host, column, last: [from, to] } = self.targets[address as usize];
        if row == u32::MAX {
            return None;
        }
        if node == host {
            return Some(0);
        }
        let last = &self.last[from as usize..to as usize];
        let near = last.iter().find(|(near, _)| *near == node);
        Some(near.map_or_else(
            || self.table[column as usize * self.rows + row as usize],
            |(_, set)| *set,
        ))
    }
}

/// See [`Routes::choices`].
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    routes: &'a Routes,
    columns: Vec<u32>,
    /// Last hops over several ports, sorted.
    last: Vec<(NodeId, u32)>,
}

impl<'a> Choices<'a> {
    /// The different sets of several ports from which a switch chooses, sorted.
    pub fn of(&self, switch: NodeId) -> Vec<&'a [u16]> {
        let routes = self.routes;
        let row = routes.row[switch.index()] as usize;
        let mut seen: Vec<u32> = Vec::new();
        for column in &self.columns {
            let set = routes.table[*column as usize * routes.rows + row];
            // neighbours often share theirs
            if routes.sets[set as usize].len() > 1 && seen.last() != Some(&set) {
                seen.push(set);
            }
        }
        let from = self.last.partition_point(|(node, _)| *node < switch);
        let own = self.last[from..].iter().take_while(|(node, _)| *node == switch);
        seen.extend(own.map(|(_, set)| *set));
        seen.sort_unstable();
        seen.dedup();
        let mut sets: Vec<&[u16]> = seen.iter().map(|set| &*routes.sets[*set as usize]).collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }
}

fn bounded(rows: usize, columns: usize) -> Result<(), BuildError> {
    if rows.saturating_mul(columns) > ENTRIES_MAX {
        let message = format!("{rows} switches x {columns} groups of hosts are too many routes");
        return Err(BuildError::new("topology", message));
    }
    Ok(())
}

/// See `Routes::row` and `Routes::gate`.
fn rows(topology: &Topology) -> (Vec<u32>, Vec<(NodeId, bool)>) {
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
    (row, gate)
}

/// The ports of a node that are `wanted`, as indices within it.
fn slots(topology: &Topology, node: NodeId, wanted: impl Fn(&PortId) -> bool) -> Vec<u16> {
    let ports = topology.ports_of(node).zip(0..);
    ports.filter(|(port, _)| wanted(port)).map(|(_, slot)| slot).collect()
}

/// Sets of ports, equal ones once.
struct Sets {
    all: Vec<Box<[u16]>>,
    numbers: BTreeMap<Box<[u16]>, u32>,
}

impl Default for Sets {
    fn default() -> Self {
        let all: Vec<Box<[u16]>> = vec![Box::default(), Box::new([0])];
        let numbers = all.iter().cloned().zip(0..).collect();
        Sets { all, numbers }
    }
}

impl Sets {
    /// The number of a set.
    fn number(&mut self, ports: &[u16]) -> u32 {
        if let Some(number) = self.numbers.get(ports) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.all.push(ports.into());
        self.numbers.insert(ports.into(), number);
        number
    }
}

/// Searches shortest paths among the nodes that have rows.
struct Search {
    /// By row: a switch.
    forwards: Vec<bool>,
    /// By row: where its cables end in `cables`; those before it, where they begin.
    ends: Vec<u32>,
    /// Row at the other end, and port there.
    cables: Vec<(u32, u16)>,
    /// By row: how far away it is.
    distance: Vec<u32>,
    /// Where the cables of a row stand, its next hops, and by row how many there are.
    hops: Vec<u16>,
    found: Vec<u32>,
    queue: Vec<u32>,
}

impl Search {
    fn new(topology: &Topology, row: &[u32], nodes: &[NodeId], cut: &[PortId]) -> Self {
        let (mut ends, mut cables) = (Vec::with_capacity(nodes.len()), Vec::new());
        for node in nodes {
            for port in topology.ports_of(*node).filter(|port| !cut.contains(port)) {
                let peer = topology.port(port).peer;
                // a node without a row is never asked
                let far = row[topology.port(peer).node.index()];
                cables.push((far, topology.index_in_node(peer) as u16));
            }
            ends.push(cables.len() as u32);
        }
        let is_switch = |node: &NodeId| topology.node(*node).kind == NodeKind::Switch;
        Search {
            forwards: nodes.iter().map(is_switch).collect(),
            ends,
            distance: vec![FAR; nodes.len()],
            hops: vec![0; cables.len()],
            found: vec![0; nodes.len()],
            queue: Vec::with_capacity(nodes.len()),
            cables,
        }
    }

    fn cables_of(&self, row: usize) -> std::ops::Range<usize> {
        let from = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        from as usize..self.ends[row] as usize
    }

    /// Fills a column: the next hops from everywhere to something that is one hop from the switches
    /// in the rows `near`, whose own last hop stands elsewhere.
    fn fill(&mut self, near: impl Iterator<Item = u32>, sets: &mut Sets, column: &mut [u32]) {
        self.distance.fill(FAR);
        self.found.fill(0);
        self.queue.clear();
        self.queue.extend(near);
        self.queue.iter().for_each(|row| self.distance[*row as usize] = 1);
        let mut served = 0;
        while let Some(row) = self.queue.get(served).copied() {
            served += 1;
            let beyond = self.distance[row as usize] + 1;
            for (far, port) in &self.cables[self.cables_of(row as usize)] {
                let Some(distance) = self.distance.get_mut(*far as usize) else { continue };
                if *distance == FAR {
                    *distance = beyond;
                    if self.forwards[*far as usize] {
                        self.queue.push(*far);
                    }
                }
                if *distance == beyond {
                    let found = &mut self.found[*far as usize];
                    let from = far.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
                    self.hops[(from + *found) as usize] = *port;
                    *found += 1;
                }
            }
        }
        let mut before = 0;
        for (row, set) in column.iter_mut().enumerate() {
            let from = self.cables_of(row).start;
            let hops = &mut self.hops[from..from + self.found[row] as usize];
            if !hops.is_sorted() {
                hops.sort_unstable();
            }
            // neighbours of the same tier often have the same
            if *sets.all[before as usize] != *hops {
                before = sets.number(hops);
            }
            *set = before;
        }
    }
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
