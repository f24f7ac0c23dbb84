//! The graph of a fabric: nodes, ports and cables.

mod config;
mod generate;

use sim_core::{Delta, Rate};

pub use config::{
    DumbbellConfig, FatTreeConfig, GraphConfig, GraphLink, LeafSpineConfig, LinkConfig, RailConfig,
    RingConfig, StarConfig, StaticRoute, ThreeTierConfig, TopologyConfig,
};

use crate::error::BuildError;
use crate::ids::{NodeId, PortId};

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// Ends traffic.
    Host,
    /// Forwards traffic.
    Switch,
}

/// A host or a switch.
#[derive(Clone, Debug)]
pub struct Node {
    /// `host3`, `leaf0`, `n7`.
    pub name: String,
    /// Host or switch.
    pub kind: NodeKind,
    /// Number of the node in ECMP seeds and addresses (its index, but for imported graphs).
    pub number: u32,
    first_port: u32,
    ports: u32,
    first_address: u32,
    addresses: u32,
}

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The node that it belongs to.
    pub node: NodeId,
    /// The other end.
    pub peer: PortId,
    /// Rate of the link.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Delta,
    /// Probability that a frame is lost on the way, per direction.
    pub loss: f64,
    /// Its NIC within the host, and its number there if that NIC has several ports.
    nic: (u16, Option<u16>),
}

/// An IP address of a host, and the ports that answer to it.
#[derive(Clone, Debug)]
pub struct Address {
    /// The host.
    pub host: NodeId,
    /// Its number among the addresses of the host.
    pub index: u32,
    /// One port, or the ports of a bond.
    pub ports: Vec<PortId>,
}

/// A NIC of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicLayout {
    /// Its ports, which follow those of the NIC before it.
    pub ports: u32,
    /// All ports have one address (a bond).
    pub bond: bool,
}

/// A fabric's graph; parallel cables are separate links.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    nodes: Vec<Node>,
    ports: Vec<Port>,
    addresses: Vec<Address>,
}

/// A cable to be, between two nodes given by index.
#[derive(Clone, Debug)]
pub(crate) struct Cable {
    pub(crate) ends: [usize; 2],
    pub(crate) rate: Rate,
    pub(crate) delay: Delta,
    pub(crate) loss: f64,
}

impl Topology {
    /// Builds the topology that `config` describes.
    pub fn build(config: &TopologyConfig) -> Result<Self, BuildError> {
        generate::generate(config)
    }

    /// Numbers the ports of each node in the order of `cables`.
    pub(crate) fn assemble(nodes: Vec<(String, NodeKind, u32)>, cables: &[Cable]) -> Self {
        let mut nodes: Vec<Node> = nodes
            .into_iter()
            .map(|(name, kind, number)| Node {
                name,
                kind,
                number,
                first_port: 0,
                ports: 0,
                first_address: 0,
                addresses: 0,
            })
            .collect();
        for cable in cables {
            for end in cable.ends {
                nodes[end].ports += 1;
            }
        }
        let mut first = 0;
        for node in &mut nodes {
            node.first_port = first;
            first += node.ports;
        }
        let mut next: Vec<u32> = nodes.iter().map(|node| node.first_port).collect();
        let blank = Port {
            node: NodeId(0),
            peer: PortId(0),
            rate: Rate::ZERO,
            delay: Delta::ZERO,
            loss: 0.0,
            nic: (0, None),
        };
        let mut ports = vec![blank; first as usize];
        for cable in cables {
            let ends = cable.ends.map(|node| {
                let port = next[node];
                next[node] += 1;
                port
            });
            for (this, other) in [(0, 1), (1, 0)] {
                ports[ends[this] as usize] = Port {
                    node: NodeId(cable.ends[this] as u32),
                    peer: PortId(ends[other]),
                    rate: cable.rate,
                    delay: cable.delay,
                    loss: cable.loss,
                    nic: (0, None),
                };
            }
        }
        let mut topology = Topology { nodes, ports, addresses: Vec::new() };
        topology.set_nics(|_| None);
        topology
    }

    /// Gives the hosts their NICs. Without a layout each port is a NIC of its own, and all of them
    /// share one address. A layout must hold all ports of its host.
    pub fn set_nics<'a>(&mut self, layout: impl Fn(NodeId) -> Option<&'a [NicLayout]>) {
        self.addresses.clear();
        let hosts: Vec<NodeId> = self.hosts().collect();
        for host in hosts {
            let all: Vec<PortId> = self.ports_of(host).collect();
            let first = self.addresses.len() as u32;
            let add = |addresses: &mut Vec<Address>, ports: &[PortId]| {
                let index = addresses.len() as u32 - first;
                addresses.push(Address { host, index, ports: ports.to_vec() });
            };
            match layout(host) {
                None => {
                    for (nic, port) in all.iter().enumerate() {
                        self.ports[port.index()].nic = (nic as u16, None);
                    }
                    add(&mut self.addresses, &all);
                }
                Some(nics) => {
                    debug_assert_eq!(
                        nics.iter().map(|nic| nic.ports as usize).sum::<usize>(),
                        all.len()
                    );
                    let mut rest = &all[..];
                    for (number, nic) in nics.iter().enumerate() {
                        let (ports, after) = rest.split_at((nic.ports as usize).min(rest.len()));
                        rest = after;
                        for (index, port) in ports.iter().enumerate() {
                            let index = (nic.ports > 1).then_some(index as u16);
                            self.ports[port.index()].nic = (number as u16, index);
                        }
                        let size = if nic.bond { ports.len().max(1) } else { 1 };
                        ports.chunks(size).for_each(|ports| add(&mut self.addresses, ports));
                    }
                }
            }
            let node = &mut self.nodes[host.index()];
            node.first_address = first;
            node.addresses = self.addresses.len() as u32 - first;
        }
    }

    /// All addresses, host by host.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The numbers of the addresses of a host.
    pub fn addresses_of(&self, host: NodeId) -> std::ops::Range<u32> {
        let node = &self.nodes[host.index()];
        node.first_address..node.first_address + node.addresses
    }

    /// The number of the address that a host's port answers to.
    pub fn address_of(&self, port: PortId) -> u32 {
        let mut addresses = self.addresses_of(self.port(port).node);
        let first = addresses.start;
        addresses
            .find(|address| self.addresses[*address as usize].ports.contains(&port))
            .unwrap_or(first)
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// All ports.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// One port.
    pub fn port(&self, id: PortId) -> &Port {
        &self.ports[id.index()]
    }

    /// The ports of a node, in order.
    pub fn ports_of(&self, id: NodeId) -> impl Iterator<Item = PortId> + use<> {
        let node = &self.nodes[id.index()];
        (node.first_port..node.first_port + node.ports).map(PortId)
    }

    /// The number of a port within its node.
    pub fn index_in_node(&self, id: PortId) -> u32 {
        id.0 - self.node(self.port(id).node).first_port
    }

    /// The node at the other end of a port's cable.
    pub fn neighbour(&self, id: PortId) -> NodeId {
        self.port(self.port(id).peer).node
    }

    /// `leaf0:33` for a switch; `host3/nic0` for a host, `host3/nic0:1` if the NIC has more ports.
    pub fn port_name(&self, id: PortId) -> String {
        let node = self.node(self.port(id).node);
        let index = self.index_in_node(id);
        match (node.kind, self.port(id).nic) {
            (NodeKind::Host, (nic, None)) => format!("{}/nic{nic}", node.name),
            (NodeKind::Host, (nic, Some(port))) => format!("{}/nic{nic}:{port}", node.name),
            (NodeKind::Switch, _) => format!("{}:{index}", node.name),
        }
    }

    /// The hosts, in order.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.of_kind(NodeKind::Host)
    }

    /// The switches, in order.
    pub fn switches(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.of_kind(NodeKind::Switch)
    }

    fn of_kind(&self, kind: NodeKind) -> impl Iterator<Item = NodeId> + '_ {
        let numbered = self.nodes.iter().enumerate();
        numbered.filter(move |(_, node)| node.kind == kind).map(|(id, _)| NodeId(id as u32))
    }

    /// By node: how many cables it is to the nearest host; 0 for hosts.
    pub fn levels(&self) -> Vec<u32> {
        let mut level = vec![u32::MAX; self.nodes().len()];
        let mut queue: Vec<NodeId> = self.hosts().collect();
        queue.iter().for_each(|host| level[host.index()] = 0);
        let mut served = 0;
        while let Some(node) = queue.get(served).copied() {
            served += 1;
            for port in self.ports_of(node) {
                let far = self.neighbour(port);
                if level[far.index()] == u32::MAX {
                    level[far.index()] = level[node.index()] + 1;
                    queue.push(far);
                }
            }
        }
        level
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.name == name).map(|id| NodeId(id as u32))
    }

    /// The port of this name.
    pub fn find_port(&self, name: &str) -> Option<PortId> {
        let nodes = (0..).map(NodeId).zip(&self.nodes);
        let near = nodes.filter(|(_, node)| {
            name.strip_prefix(&*node.name).is_some_and(|rest| rest.starts_with([':', '/']))
        });
        let mut ports = near.flat_map(|(id, _)| self.ports_of(id));
        ports.find(|port| self.port_name(*port) == name)
    }
}
