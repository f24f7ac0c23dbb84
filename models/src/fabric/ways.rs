//! The ways of frames: which QP leaves which switch by which port.
//!
//! Routes and hashes do not change during a run, so each is followed once, when its first frame
//! asks, and kept as a list of ports.

use super::wiring::Wiring;
use crate::ids::NodeId;
use crate::load_balance::Ecmp;
use crate::packet::{Kind, Packet};
use crate::routing::Routes;
use crate::switch::Switch;

/// The ways of all QPs, there and back.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// By QP: where its ways there and back begin in `ports`.
    first: Vec<[u32; 2]>,
    /// Egress ports, switch by switch.
    ports: Vec<u32>,
}

/// Not followed yet (in `first`); no next hop (in `ports`).
const NONE: u32 = u32::MAX;

impl Ways {
    /// No way is known yet.
    pub(super) fn new(qps: usize) -> Self {
        Ways { first: vec![[NONE; 2]; qps], ports: Vec::new() }
    }

    /// The egress port of a frame at the switch that it has reached.
    #[inline]
    pub(super) fn next(
        &mut self,
        packet: &Packet,
        wiring: &Wiring,
        switches: &[Switch],
    ) -> Option<u32> {
        let back = packet.kind != Kind::Data;
        let mut first = self.first[packet.qp as usize][usize::from(back)];
        if first == NONE {
            first = self.follow(packet.qp, back, wiring, switches);
        }
        let passed = wiring.frames.ttl - packet.ttl;
        self.ports.get(first as usize + usize::from(passed)).copied().filter(|port| *port != NONE)
    }

    /// That port, if the way is known.
    #[inline]
    pub(super) fn foresee(&self, packet: &Packet, ttl: u8) -> Option<u32> {
        let back = packet.kind != Kind::Data;
        let first = self.first.get(packet.qp as usize)?[usize::from(back)];
        self.ports.get((first as usize).checked_add(usize::from(ttl - packet.ttl))?).copied()
    }

    #[cold]
    fn follow(&mut self, qp: u32, back: bool, wiring: &Wiring, switches: &[Switch]) -> u32 {
        let ecmp = |node: u32| {
            let port = wiring.topology.ports_of(NodeId(node)).next()?;
            switches.get(wiring.wires[port.index()].owner as usize).map(|s| s.ecmp.clone())
        };
        let way = wiring.way(qp as usize, back, ecmp);
        let first = self.ports.len() as u32;
        self.ports.extend(&way[1..]);
        self.ports.push(NONE);
        self.first[qp as usize][usize::from(back)] = first;
        first
    }
}

impl Wiring {
    /// The egress ports of a QP's frames on their way, the NIC's first, `back` those of its
    /// answers; `ecmp` is the chooser of a node.
    pub(super) fn way(
        &self,
        qp: usize,
        back: bool,
        ecmp: impl Fn(u32) -> Option<Ecmp> + Copy,
    ) -> Vec<u32> {
        self.way_by(qp, back, ecmp, |_| &self.routes)
    }

    /// The same where nodes have other routes.
    pub(crate) fn way_by<'r>(
        &self,
        qp: usize,
        back: bool,
        ecmp: impl Fn(u32) -> Option<Ecmp> + Copy,
        routes: impl Fn(NodeId) -> &'r Routes + Copy,
    ) -> Vec<u32> {
        let info = &self.qps[qp];
        let (start, target, address, tuple) = if back {
            let there = self.way_by(qp, false, ecmp, routes);
            // answers leave by the port that the data came in by
            let start = self.wires[there[there.len() - 1] as usize].peer;
            (start, info.source, info.source_address, info.tuple.reversed())
        } else {
            (info.source_port, info.target, info.target_address, info.tuple)
        };
        let mut ports = vec![start];
        while ports.len() <= usize::from(self.frames.ttl) {
            let last = &self.wires[ports[ports.len() - 1] as usize];
            let arrival = &self.wires[last.peer as usize];
            if !arrival.is_switch {
                break;
            }
            let node = NodeId(arrival.node);
            let hop = match routes(node).next_hops(node, NodeId(target), address) {
                [] => break,
                [only] => *only,
                several => {
                    let choice = ecmp(arrival.node).map(|e| e.choose(&tuple, several.len()));
                    several[choice.unwrap_or(0)]
                }
            };
            ports.push(arrival.first_port + u32::from(hop));
        }
        ports
    }
}
