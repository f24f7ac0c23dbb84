//! The ways of frames: which QP leaves which switch by which port.
//!
//! Routes and hashes do not change during a run, so each is followed once, when its first frame
//! asks, and kept as a list of ports. Where they change, or where a switch chooses otherwise than by the
//! hash, each frame looks them up at each switch.

use sim_core::Time;

use super::wiring::Wiring;
use crate::ids::{NodeId, PortId};
use crate::load_balance::{Asked, Balancer, Ecmp};
use crate::note::{Note, Notes};
use crate::packet::{Kind, Packet};
use crate::port::Port;
use crate::routing::Routes;
use crate::switch::Switch;

/// The ways of all QPs, there and back.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// By QP: where its ways there and back begin in `ports`.
    first: Vec<[u32; 2]>,
    /// Egress ports, switch by switch.
    ports: Vec<u32>,
    /// Where routes change during the run, or a switch does not leave the choice to the hash, no way is
    /// kept: the number of those that hold now.
    routes: Option<u32>,
    /// By switch: what chooses the next hop of its data packets, if it is not the hash; empty if it is
    /// everywhere.
    balancers: Vec<Option<Balancer>>,
}

/// Not followed yet (in `first`); no next hop (in `ports`).
const NONE: u32 = u32::MAX;

/// What a choice of the next hop may look at.
pub(super) struct Around<'a> {
    pub(super) now: Time,
    pub(super) wiring: &'a Wiring,
    pub(super) switches: &'a [Switch],
    pub(super) ports: &'a [Port],
    pub(super) notes: &'a mut Notes,
}

impl Ways {
    /// No way is known yet.
    pub(super) fn new(qps: usize, reroutes: bool, balancers: Vec<Option<Balancer>>) -> Self {
        let routes = (reroutes || !balancers.is_empty()).then_some(0);
        Ways { first: vec![[NONE; 2]; qps], ports: Vec::new(), routes, balancers }
    }

    /// From now on these routes hold.
    pub(super) fn change(&mut self, routes: u32) {
        self.routes = Some(routes);
    }

    /// The egress port of a frame at the switch that it has reached, if its way is kept.
    #[inline(always)]
    pub(super) fn kept(&self, packet: &Packet, wiring: &Wiring) -> Option<Option<u32>> {
        let back = packet.kind != Kind::Data;
        let first = self.first[packet.qp as usize][usize::from(back)];
        (first != NONE).then(|| self.known(first, packet, wiring))
    }

    #[inline(always)]
    fn known(&self, first: u32, packet: &Packet, wiring: &Wiring) -> Option<u32> {
        let passed = wiring.frames.ttl - packet.ttl;
        self.ports.get(first as usize + usize::from(passed)).copied().filter(|port| *port != NONE)
    }

    /// The same where no way is kept yet, or ever; the frame has come by `port`.
    pub(super) fn find(
        &mut self,
        port: u32,
        packet: &mut Packet,
        around: Around<'_>,
    ) -> Option<u32> {
        let Some(routes) = self.routes else {
            let back = packet.kind != Kind::Data;
            self.follow(packet.qp, back, around.wiring, around.switches);
            let first = self.first[packet.qp as usize][usize::from(back)];
            return self.known(first, packet, around.wiring);
        };
        let routes = around.wiring.routes_after(routes);
        step(port, packet, routes, &mut self.balancers, around)
    }

    /// A frame with a note leaves a switch by `port` at `now`.
    pub(super) fn leaves(
        &mut self,
        port: u32,
        packet: &Packet,
        now: Time,
        wiring: &Wiring,
        note: &mut Note,
    ) {
        let wire = &wiring.wires[port as usize];
        if let Some(Some(Balancer::Conga(conga))) = self.balancers.get_mut(wire.owner as usize) {
            let bytes = wiring.frames.wire_len(packet.len);
            let level = conga.leaves(now, wire.index, bytes, wire.clock.rate());
            note.path.congestion = note.path.congestion.max(level);
        }
    }

    /// That port, if the way is known.
    #[inline]
    pub(super) fn foresee(&self, packet: &Packet, ttl: u8) -> Option<u32> {
        let back = packet.kind != Kind::Data;
        let first = self.first.get(packet.qp as usize)?[usize::from(back)];
        self.ports.get((first as usize).checked_add(usize::from(ttl - packet.ttl))?).copied()
    }

    fn follow(&mut self, qp: u32, back: bool, wiring: &Wiring, switches: &[Switch]) {
        let way = wiring.way(qp as usize, back, |node| ecmp_of(node, wiring, switches));
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
    packet: &mut Packet,
    routes: &Routes,
    balancers: &mut [Option<Balancer>],
    around: Around<'_>,
) -> Option<u32> {
    let Around { now, wiring, switches, ports, notes } = around;
    let info = &wiring.qps[packet.qp as usize];
    let is_data = packet.kind == Kind::Data;
    let (target, address, tuple) = match is_data {
        true => (info.target, info.target_address, info.tuple),
        false => (info.source, info.source_address, info.tuple.reversed()),
    };
    let arrival = &wiring.wires[port as usize];
    let node = NodeId(arrival.node);
    let balancer = balancers.get_mut(arrival.owner as usize).and_then(Option::as_mut);
    let queued = |hop: u16| ports[(arrival.first_port + u32::from(hop)) as usize].queued_bytes();
    let hash = |count| switches[arrival.owner as usize].ecmp.choose(&tuple, count);
    let leaf = || leaf_of(wiring, address);
    let hop = match (routes.next_hops(node, NodeId(target), address), balancer) {
        ([], _) => return None,
        ([only], Some(Balancer::Conga(conga))) => {
            if leaf() == arrival.owner && packet.has_note() {
                let note = notes.get_mut(packet.note());
                if note.path.from != 0 {
                    conga.exits(now, &std::mem::take(&mut note.path));
                }
                if note.wanted.is_none() {
                    notes.free(packet.note());
                    packet.set_note(0);
                }
            }
            *only
        }
        ([only], _) => *only,
        (hops, Some(balancer)) => {
            let asked = || Asked { now, flow: packet.qp, leaf: leaf(), hops };
            let hop = match is_data {
                true => balancer.choose(&asked(), queued),
                false => hops[hash(hops.len())],
            };
            let from_host = !wiring.wires[arrival.peer as usize].is_switch;
            if let (Balancer::Conga(conga), true) = (balancer, from_host) {
                let path = conga.enters(now, arrival.owner, leaf(), hop);
                match packet.note() {
                    0 => packet.set_note(notes.add(Note { path, ..Note::default() })),
                    number => notes.get_mut(number).path = path,
                }
            }
            hop
        }
        (hops, None) => hops[hash(hops.len())],
    };
    Some(arrival.first_port + u32::from(hop))
}

/// What a switch hashes by; none of other nodes.
pub(super) fn ecmp_of(node: u32, wiring: &Wiring, switches: &[Switch]) -> Option<Ecmp> {
    let port = wiring.topology.ports_of(NodeId(node)).next()?;
    switches.get(wiring.wires[port.index()].owner as usize).map(|switch| switch.ecmp.clone())
}

/// The number of the switch that an address is joined to.
fn leaf_of(wiring: &Wiring, address: u32) -> u32 {
    let port: PortId = wiring.topology.addresses()[address as usize].ports[0];
    wiring.wires[wiring.wires[port.index()].peer as usize].owner
}

impl Wiring {
    /// The egress ports of a QP's frames on their way, the NIC's first, `back` those of its
    /// answers; `ecmp` is the chooser of a node.
    pub(crate) fn way(
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
