//! The way of a QP's data through a fabric, without running it.

use super::build::Plan;
use crate::ids::NodeId;
use crate::load_balance::Ecmp;

impl Plan {
    /// The egress ports of a QP's data on its way, the NIC's first.
    pub fn path(&self, qp: usize) -> Vec<u32> {
        let ecmp = |node: u32| {
            let config = self.spec.switches[node as usize].as_ref()?;
            Some(Ecmp::new(&config.ecmp, self.wiring.topology.node(NodeId(node)).number))
        };
        self.wiring.way(qp, false, ecmp)
    }
}
