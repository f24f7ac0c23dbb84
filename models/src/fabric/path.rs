//! The way of a QP's data through a fabric, without running it.

use super::build::Plan;
use crate::ids::NodeId;
use crate::load_balance::Ecmp;

/// Longer ways are loops of static routes.
const HOPS_MAX: usize = 64;

impl Plan {
    /// The egress ports of a QP's data on its way, the NIC's first.
    pub fn path(&self, qp: usize) -> Vec<u32> {
        let wiring = &self.wiring;
        let info = &wiring.qps[qp];
        let mut ports = vec![info.source_port];
        while ports.len() <= HOPS_MAX {
            let last = &wiring.wires[ports[ports.len() - 1] as usize];
            let arrival = &wiring.wires[last.peer as usize];
            if arrival.node == info.target {
                break;
            }
            let hop = match wiring.next_hops(arrival.node, info.target, info.target_address) {
                [] => break,
                [only] => *only,
                several => match &self.spec.switches[arrival.node as usize] {
                    Some(config) => {
                        let number = wiring.topology.node(NodeId(arrival.node)).number;
                        let ecmp = Ecmp::new(&config.ecmp, number);
                        several[ecmp.choose(&info.tuple, several.len())]
                    }
                    None => several[0],
                },
            };
            ports.push(arrival.first_port + u32::from(hop));
        }
        ports
    }
}
