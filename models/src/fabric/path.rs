//! The way of a QP's data through a fabric, without running it.

use sim_core::rng::{Domain, Stream};

use super::build::Plan;
use crate::ids::NodeId;
use crate::load_balance::{Ecmp, LoadBalance};

impl Plan {
    /// The egress ports of a QP's data on its way, the NIC's first; where a switch sprays one of its
    /// ways, that of the hash.
    pub fn path(&self, qp: usize) -> Vec<u32> {
        let ecmp = |node: u32| {
            let config = self.spec.switches[node as usize].as_ref()?;
            Some(Ecmp::new(&config.ecmp, self.wiring.topology.node(NodeId(node)).number))
        };
        self.wiring.way(qp, false, ecmp)
    }

    /// True if some switch sprays.
    pub fn sprays_somewhere(&self) -> bool {
        self.spec.switches.iter().flatten().any(|config| config.load_balance == LoadBalance::Spray)
    }

    /// The random streams of the switches that spray; empty if none does.
    pub(super) fn spray_streams(&self) -> Vec<Option<Stream>> {
        if !self.sprays_somewhere() {
            return Vec::new();
        }
        let stream = |node: NodeId| Stream::new(self.spec.seed, Domain::Spray, node.0.into());
        let of = |node: NodeId| self.sprays(node).then(|| stream(node));
        self.spec.topology.switches().map(of).collect()
    }

    /// Whether a switch sprays.
    pub fn sprays(&self, switch: NodeId) -> bool {
        let config = self.spec.switches[switch.index()].as_deref();
        config.is_some_and(|config| config.load_balance == LoadBalance::Spray)
    }

    /// All egress ports that a QP's data may pass, the NIC's first: those of its path, and of others
    /// where switches spray.
    pub fn ports_of(&self, qp: usize) -> Vec<u32> {
        let path = self.path(qp);
        if !self.sprays_somewhere() {
            return path;
        }
        let (wiring, info) = (&self.wiring, &self.wiring.qps[qp]);
        let mut ports = path[..1].to_vec();
        let mut next = 0;
        while let Some(port) = ports.get(next) {
            next += 1;
            let arrival = &wiring.wires[wiring.wires[*port as usize].peer as usize];
            let node = NodeId(arrival.node);
            if !arrival.is_switch {
                continue;
            }
            let hops = wiring.routes.next_hops(node, NodeId(info.target), info.target_address);
            let on_path = |port: &u32| self.sprays(node) || path.contains(port) || hops.len() == 1;
            let beyond = hops.iter().map(|hop| arrival.first_port + u32::from(*hop));
            let new: Vec<u32> =
                beyond.filter(on_path).filter(|port| !ports.contains(port)).collect();
            ports.extend(new);
        }
        ports
    }
}
