//! The way of a QP's data through a fabric, without running it.

use sim_core::rng::{Domain, Stream};

use super::build::Plan;
use crate::ids::NodeId;
use crate::load_balance::{Balancer, Ecmp, LoadBalance};

impl Plan {
    /// The egress ports of a QP's data on its way, the NIC's first; where a switch spreads packets over
    /// several ways, that of the hash.
    pub fn path(&self, qp: usize) -> Vec<u32> {
        let ecmp = |node: u32| {
            let config = self.spec.switches[node as usize].as_ref()?;
            Some(Ecmp::new(&config.ecmp, self.wiring.topology.node(NodeId(node)).number))
        };
        self.wiring.way(qp, false, ecmp)
    }

    /// What each switch chooses by.
    fn balancing(&self) -> impl Iterator<Item = LoadBalance> {
        self.spec.switches.iter().flatten().map(|config| config.load_balance)
    }

    /// True if some switch does not leave the choice of next hops to the hash.
    pub fn spreads_somewhere(&self) -> bool {
        self.balancing().any(|balance| balance != LoadBalance::Ecmp)
    }

    /// True if packets of a QP may come out of order.
    pub fn reorders(&self) -> bool {
        self.balancing().any(LoadBalance::reorders)
    }

    /// By switch: what chooses next hops, if it is not the hash; empty if it is everywhere.
    pub(super) fn balancers(&self) -> Vec<Option<Balancer>> {
        if !self.spreads_somewhere() {
            return Vec::new();
        }
        let topology = &self.spec.topology;
        let of = |node: NodeId| {
            let config = self.spec.switches[node.index()].as_deref()?;
            let random = Stream::new(self.spec.seed, Domain::Spray, node.0.into());
            Balancer::new(config, topology.ports_of(node).count(), random)
        };
        topology.switches().map(of).collect()
    }

    /// Whether a switch does not leave the choice of next hops to the hash.
    pub fn spreads(&self, switch: NodeId) -> bool {
        self.balance(switch) != LoadBalance::Ecmp
    }

    /// What a switch chooses by.
    pub fn balance(&self, switch: NodeId) -> LoadBalance {
        let config = self.spec.switches[switch.index()].as_deref();
        config.map_or(LoadBalance::Ecmp, |config| config.load_balance)
    }

    /// All egress ports that a QP's data may pass, the NIC's first: those of its path, and of others
    /// where switches do not leave the choice to the hash.
    pub fn ports_of(&self, qp: usize) -> Vec<u32> {
        let path = self.path(qp);
        if !self.spreads_somewhere() {
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
            let on_path = |port: &u32| self.spreads(node) || path.contains(port) || hops.len() == 1;
            let beyond = hops.iter().map(|hop| arrival.first_port + u32::from(*hop));
            let new: Vec<u32> =
                beyond.filter(on_path).filter(|port| !ports.contains(port)).collect();
            ports.extend(new);
        }
        ports
    }
}
