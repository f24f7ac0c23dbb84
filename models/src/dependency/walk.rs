//! Follows all traffic by all ways that it may take.

use super::{Buffer, RoutingLoop, Traffic};
use crate::ids::{NodeId, PRIORITIES, PortId};
use crate::routing::Routes;
use crate::switch::Classifier;

/// Traffic of one class to addresses that are reached alike.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) dscp: u8,
    pub(super) pcp: u8,
    /// One of the addresses, and its host.
    pub(super) address: u32,
    pub(super) target: NodeId,
    /// The hosts' ports that it leaves by.
    pub(super) ports: Vec<u32>,
}

/// What a switch port does with a class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) classifier: Classifier,
    /// Priority groups that pause their sender, as a mask.
    pub(super) lossless: u8,
    /// Queue that a received priority pauses; 255 for none.
    pub(super) obeys: [u8; PRIORITIES],
}

/// What a walk has seen.
pub(super) struct Walked {
    pub(super) on: Vec<Vec<u32>>,
    pub(super) loops: Vec<RoutingLoop>,
    pub(super) unreachable: u64,
}

/// Loops that are kept.
const LOOPS_MAX: usize = 16;

/// Where a stream has been: not at this port, at it and beyond, done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Not,
    Open,
    Done,
}

/// A port on the way, its next hops, and how many of them are followed.
struct Step<'r> {
    ingress: u32,
    /// What the frames have there.
    dscp: u8,
    hops: &'r [u16],
    next: usize,
}

pub(super) fn walk(traffic: &Traffic<'_>, routes: &[&Routes]) -> Walked {
    let ports = traffic.wiring.wires.len();
    let mut walked =
        Walked { on: vec![Vec::new(); ports * PRIORITIES], loops: Vec::new(), unreachable: 0 };
    // a port is seen anew with each DSCP that frames may get on the way
    let mut seen = vec![Seen::Not; ports * (1 + traffic.dscps.len())];
    let mut touched = Vec::new();
    for stream in &traffic.streams {
        for port in &stream.ports {
            walked.follow(traffic, routes, stream, *port, &mut seen, &mut touched);
        }
        for place in touched.drain(..) {
            seen[place] = Seen::Not;
        }
    }
    walked
}

impl Walked {
    /// Depth first, from a host's port.
    fn follow<'r>(
        &mut self,
        traffic: &Traffic<'_>,
        routes: &[&'r Routes],
        stream: &Stream,
        port: u32,
        seen: &mut [Seen],
        touched: &mut Vec<usize>,
    ) {
        let wires = &traffic.wiring.wires;
        let mut way: Vec<Step<'r>> = Vec::new();
        let place_of = |ingress: u32, dscp: u8| {
            let other = traffic.dscps.binary_search(&dscp).ok().filter(|_| dscp != stream.dscp);
            ingress as usize + other.map_or(0, |other| (1 + other) * wires.len())
        };
        let mut enter = |ingress: u32, dscp: u8, way: &mut Vec<Step<'r>>, lost: &mut u64| {
            let wire = &wires[ingress as usize];
            if !wire.is_switch {
                return false;
            }
            let node = NodeId(wire.node);
            let hops = routes[node.index()].next_hops(node, stream.target, stream.address);
            *lost += u64::from(hops.is_empty());
            touched.push(place_of(ingress, dscp));
            way.push(Step { ingress, dscp, hops, next: 0 });
            true
        };
        let first = wires[port as usize].peer;
        let place = place_of(first, stream.dscp);
        if seen[place] == Seen::Not && enter(first, stream.dscp, &mut way, &mut self.unreachable) {
            seen[place] = Seen::Open;
        }
        while let Some(step) = way.last_mut() {
            let (ingress, next, dscp) = (step.ingress, step.next, step.dscp);
            let Some(hop) = step.hops.get(next) else {
                seen[place_of(ingress, dscp)] = Seen::Done;
                way.pop();
                continue;
            };
            step.next += 1;
            let egress = wires[ingress as usize].first_port + u32::from(*hop);
            let beyond = wires[egress as usize].peer;
            if !wires[beyond as usize].is_switch {
                continue;
            }
            let bounce = traffic.bounces[ingress as usize].as_ref();
            let after = bounce.map_or(dscp, |bounce| bounce.dscp(dscp, *hop));
            self.turn(traffic, stream.pcp, [dscp, after], [ingress, egress, beyond]);
            let place = place_of(beyond, after);
            match seen[place] {
                Seen::Done => {}
                Seen::Open => self.round(traffic, stream.target, &way, (beyond, after)),
                Seen::Not => {
                    if enter(beyond, after, &mut way, &mut self.unreachable) {
                        seen[place] = Seen::Open;
                    }
                }
            }
        }
    }

    /// Notes that what came in by a port, with one DSCP, may leave by another, with the next, if both
    /// ends are lossless.
    fn turn(&mut self, traffic: &Traffic<'_>, pcp: u8, dscps: [u8; 2], ports: [u32; 3]) {
        let [here, out, there] =
            ports.map(|port| &traffic.places[traffic.place_of[port as usize] as usize]);
        let (_, pg) = here.classifier.place(dscps[0], pcp);
        let (queue, _) = here.classifier.place(dscps[1], pcp);
        let (_, beyond) = there.classifier.place(dscps[1], pcp);
        let lossless = here.lossless & (1 << pg) != 0 && there.lossless & (1 << beyond) != 0;
        if !lossless || out.obeys[usize::from(beyond)] != queue {
            return;
        }
        let from = Buffer { port: PortId(ports[0]), pg }.number();
        let to = Buffer { port: PortId(ports[2]), pg: beyond }.number();
        let on = &mut self.on[from as usize];
        if let Err(place) = on.binary_search(&to) {
            on.insert(place, to);
        }
    }

    /// Notes a routing loop: `way` has come to a port, with a DSCP, where it has been before.
    fn round(&mut self, traffic: &Traffic<'_>, target: NodeId, way: &[Step<'_>], at: (u32, u8)) {
        let from = way.iter().position(|step| (step.ingress, step.dscp) == at).unwrap_or(0);
        let node = |step: &Step<'_>| NodeId(traffic.wiring.wires[step.ingress as usize].node);
        let mut switches: Vec<NodeId> = way[from..].iter().map(node).collect();
        // the same round may be entered anywhere
        let least = (0..switches.len()).min_by_key(|place| switches[*place]).unwrap_or(0);
        switches.rotate_left(least);
        let found = RoutingLoop { target, switches };
        if self.loops.len() < LOOPS_MAX && !self.loops.contains(&found) {
            self.loops.push(found);
        }
    }
}
