//! The ways of frames: which QP leaves which switch by which port.
//!
//! Routes and hashes do not change during a run, so each is followed once, when its first frame
//! asks, and kept as a list of ports. Where they change, or where a switch sprays, each frame looks
//! them up at each switch.

use sim_core::rng::Stream;

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
    /// Where routes change during the run, or a switch sprays, no way is kept: the number of those
    /// that hold now.
    routes: Option<u32>,
    /// By switch: what chooses the next hop of its data packets, if it sprays; empty if none does.
    sprays: Vec<Option<Stream>>,
}

/// Not followed yet (in `first`); no next hop (in `ports`).
const NONE: u32 = u32::MAX;

impl Ways {
    /// No way is known yet.
    pub(super) fn new(qps: usize, reroutes: bool, sprays: Vec<Option<Stream>>) -> Self {
        let routes = (reroutes || !sprays.is_empty()).then_some(0);
        Ways { first: vec![[NONE; 2]; qps], ports: Vec::new(), routes, sprays }
    }

    /// From now on these routes hold.
    pub(super) fn change(&mut self, routes: u32) {
        self.routes = Some(routes);
    }

    /// The egress port of a frame at the switch that it has reached, by `port`.
    #[inline(always)]
    pub(super) fn next(
        &mut self,
        port: u32,
        packet: &Packet,
        wiring: &Wiring,
        switches: &[Switch],
    ) -> Option<u32> {
        let back = packet.kind != Kind::Data;
        let first = self.first[packet.qp as usize][usize::from(back)];
        if first == NONE {
            return self.find(port, packet, wiring, switches);
        }
        let passed = wiring.frames.ttl - packet.ttl;
        self.ports.get(first as usize + usize::from(passed)).copied().filter(|port| *port != NONE)
    }

    /// The same where no way is kept yet, or ever.
    #[cold]
    fn find(
        &mut self,
        port: u32,
        packet: &Packet,
        wiring: &Wiring,
        switches: &[Switch],
    ) -> Option<u32> {
        if let Some(routes) = self.routes {
            let routes = wiring.routes_after(routes);
            return step(port, packet, wiring, routes, switches, &mut self.sprays);
        }
        self.follow(packet.qp, packet.kind != Kind::Data, wiring, switches);
        self.next(port, packet, wiring, switches)
    }

    /// That port, if the way is known.
    #[inline]
    pub(super) fn foresee(&self, packet: &Packet, ttl: u8) -> Option<u32> {
        let back = packet.kind != Kind::Data;
        let first = self.first.get(packet.qp as usize)?[usize::from(back)];
        self.ports.get((first as usize).checked_add(usize::from(ttl - packet.ttl))?).copied()
    }

    fn follow(&mut self, qp: u32, back: bool, wiring: &Wiring, switches: &[Switch]) {
        let ecmp = |node: u32| {
            let port = wiring.topology.ports_of(NodeId(node)).next()?;
            switches.get(wiring.wires[port.index()].owner as usize).map(|s| s.ecmp.clone())
        };
        let way = wiring.way(qp as usize, back, ecmp);
        let first = self.ports.len() as u32;
        self.ports.extend(&way[1..]);
        self.ports.push(NONE);
        self.first[qp as usize][usize::from(back)] = first;
    }
}

/// The egress port of a frame that has come to a switch by `port`, looked up.
#[cold]
fn step(
    port: u32,
    packet: &Packet,
    wiring: &Wiring,
    routes: &Routes,
    switches: &[Switch],
    sprays: &mut [Option<Stream>],
) -> Option<u32> {
    let info = &wiring.qps[packet.qp as usize];
    let (target, address, tuple) = match packet.kind {
        Kind::Data => (info.target, info.target_address, info.tuple),
        _ => (info.source, info.source_address, info.tuple.reversed()),
    };
    let arrival = &wiring.wires[port as usize];
    let node = NodeId(arrival.node);
    let hops = routes.next_hops(node, NodeId(target), address);
    let hop = match hops {
        [] => return None,
        [only] => *only,
        several => match sprays.get_mut(arrival.owner as usize) {
            Some(Some(spray)) if packet.kind == Kind::Data => {
                several[spray.below(several.len() as u64) as usize]
            }
            _ => several[switches[arrival.owner as usize].ecmp.choose(&tuple, several.len())],
        },
    };
    Some(arrival.first_port + u32::from(hop))
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
