//! A frame at a switch: in, and out again.

use super::{Fabric, Queue};
use crate::counters::DropReason;
use crate::packet::{Kind, Packet};
use crate::probe::Probe;
use crate::switch::{MarkAt, Refusal};

impl<P: Probe> Fabric<P> {
    /// Route, admit, queue.
    pub(super) fn arrive_at_switch(&mut self, port: u32, mut packet: Packet, agenda: &mut Queue) {
        let now = agenda.now();
        let wire = &self.wiring.wires[port as usize];
        if packet.ttl <= 1 {
            return self.drop(now, port, &packet, DropReason::Ttl, false);
        }
        packet.ttl -= 1;
        let qp = &self.wiring.qps[packet.qp as usize];
        let forward = packet.kind == Kind::Data;
        let (target, address) = match forward {
            true => (qp.target, qp.target_address),
            false => (qp.source, qp.source_address),
        };
        let switch = &mut self.switches[wire.owner as usize];
        let egress = match *self.wiring.next_hops(wire.node, target, address) {
            [] => return self.drop(now, port, &packet, DropReason::NoRoute, false),
            [only] => only,
            ref several => {
                let tuple = if forward { qp.tuple } else { qp.tuple.reversed() };
                several[switch.ecmp.choose(&tuple, several.len())]
            }
        };
        let out = wire.first_port + u32::from(egress);
        let (queue, pg) = switch.classifiers[usize::from(wire.index)].of(&packet);
        packet.ingress = wire.index;
        packet.queue = queue;
        packet.pg = pg;
        let cells = switch.cells(packet.len);
        let (in_slice, in_base) = switch.places[usize::from(wire.index)];
        let (out_slice, out_base) = switch.places[usize::from(egress)];
        let out_queue = out_base as usize + usize::from(queue);
        let admitted = switch.mmus[usize::from(out_slice)].egress_admits(out_queue, cells);
        let xoff = admitted.and_then(|()| {
            let group = in_base as usize + usize::from(pg);
            switch.mmus[usize::from(in_slice)].charge_ingress(group, cells)
        });
        let xoff = match xoff {
            Ok(xoff) => xoff,
            Err(refusal) => return self.refuse(port, &packet, refusal, agenda),
        };
        switch.mmus[usize::from(out_slice)].charge_egress(out_queue, cells);
        self.tally.held += 1;
        if xoff {
            self.assert_xoff(port, pg, agenda);
        }
        let state = &mut self.ports[out as usize];
        if let Some(wred) = &state.wred[usize::from(queue)]
            && wred.mark_at == MarkAt::Enqueue
            && packet.ect()
        {
            let depth = state.queues[usize::from(queue)].bytes() + u64::from(packet.len);
            if wred.marks(depth, &mut state.random) {
                state.counters.ecn_marked[usize::from(queue)] += 1;
                packet.mark();
            }
        }
        state.enqueue(now, packet);
        if state.pause.paused() & (1 << queue) == 0 {
            self.kick(out, agenda);
        }
    }

    #[cold]
    fn refuse(&mut self, port: u32, packet: &Packet, refusal: Refusal, agenda: &Queue) {
        let (reason, lossless) = match refusal {
            Refusal::IngressHeadroomFull => (DropReason::IngressHeadroomFull, true),
            Refusal::IngressLossyLimit => (DropReason::IngressLossyLimit, false),
            Refusal::EgressLossyLimit => (DropReason::EgressLossyLimit, false),
            Refusal::EgressLosslessLimit => (DropReason::EgressLosslessLimit, true),
        };
        self.drop(agenda.now(), port, packet, reason, lossless);
    }

    /// Takes the next frame out of the buffer, marks it, and sends it.
    pub(super) fn send_from_switch(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let state = &mut self.ports[port as usize];
        let Some(mut packet) = state.dequeue(now, !state.pause.paused()) else { return };
        let queue = usize::from(packet.queue);
        if let Some(wred) = &state.wred[queue]
            && wred.mark_at == MarkAt::Dequeue
            && packet.ect()
            && wred.marks(state.queues[queue].bytes(), &mut state.random)
        {
            state.counters.ecn_marked[queue] += 1;
            packet.mark();
        }
        let wire = &self.wiring.wires[port as usize];
        let switch = &mut self.switches[wire.owner as usize];
        let cells = switch.cells(packet.len);
        let (out_slice, out_base) = switch.places[usize::from(wire.index)];
        switch.mmus[usize::from(out_slice)].release_egress(out_base as usize + queue, cells);
        let (in_slice, in_base) = switch.places[usize::from(packet.ingress)];
        let group = in_base as usize + usize::from(packet.pg);
        let xon = switch.mmus[usize::from(in_slice)].release_ingress(group, cells);
        self.tally.held -= 1;
        let ingress = wire.first_port + u32::from(packet.ingress);
        // this port counts as busy while the XON goes out (it may go out here)
        self.transmit(port, packet, agenda);
        if xon {
            self.release_xoff(ingress, packet.pg, agenda);
        }
        let state = &self.ports[port as usize];
        if state.nonempty() & !state.pause.paused() != 0 || !state.pfc_out.is_empty() {
            let busy_until = state.busy_until;
            self.wake(port, busy_until, agenda);
        }
    }
}
