//! A frame at a switch: in, and out again.

use sim_core::{Time, prefetch};

use super::{Fabric, Queue};
use crate::counters::DropReason;
use crate::ids::PRIORITIES;
use crate::packet::Packet;
use crate::port::Port;
use crate::probe::Probe;
use crate::switch::{MarkAt, Refusal};

impl<P: Probe> Fabric<P> {
    /// Route, admit, queue.
    #[inline(always)]
    pub(super) fn arrive_at_switch(&mut self, port: u32, mut packet: Packet, agenda: &mut Queue) {
        let now = agenda.now();
        if packet.ttl <= 1 {
            return self.drop(now, port, &packet, DropReason::Ttl, false);
        }
        let Some(out) = self.ways.next(port, &packet, &self.wiring, &self.switches) else {
            return self.drop(now, port, &packet, DropReason::NoRoute, false);
        };
        packet.ttl -= 1;
        self.catch_up(out, now, agenda);
        let rx = &self.ports[port as usize].rx;
        let classifier = &self.classifiers[usize::from(rx.classifier)];
        (packet.queue, packet.pg) = classifier.of(&packet);
        if classifier.turns() {
            classifier.turn(&mut packet, self.ports[out as usize].rx.index);
        }
        packet.ingress = rx.index;
        let owner = rx.owner;
        let cells = self.switches[owner as usize].cells(packet.len);
        let (in_mmu, group) = (rx.mmu as usize, rx.base as usize + usize::from(packet.pg));
        let tx = &self.ports[out as usize].tx;
        let queue = usize::from(packet.queue);
        let (out_mmu, out_queue, wred) = (tx.mmu as usize, tx.base as usize + queue, tx.wred);
        if self.large {
            prefetch(&self.ports[tx.peer as usize].rx);
        }
        let calm = self.mmus[out_mmu].egress_admits(out_queue, cells).is_ok()
            && self.mmus[in_mmu].is_calm(group, cells);
        let state = &mut self.ports[out as usize];
        let marking = &self.wreds[usize::from(wred)];
        if calm && !marking.at_enqueue && state.passes(now, &packet) {
            // it would be charged and released at once, and leave no queue that could mark it
            return self.transmit(out, packet, now, agenda);
        }
        let mut xoff = false;
        if calm {
            self.mmus[in_mmu].charge_calm(group, cells);
        } else {
            self.make_exact(owner, port, agenda);
            let stormed = self.switches[owner as usize].storms > 0;
            if stormed && self.storm_drops(port, out, &packet, agenda) {
                return;
            }
            let admitted = self.mmus[out_mmu].egress_admits(out_queue, cells);
            xoff = match admitted.and_then(|()| self.mmus[in_mmu].charge_ingress(group, cells)) {
                Ok(xoff) => xoff,
                Err(refusal) => return self.refuse(port, &packet, refusal, agenda),
            };
            if stormed {
                self.storm_admits(port, out, &packet);
            }
        }
        self.mmus[out_mmu].charge_egress(out_queue, cells);
        self.tally.held += 1;
        if xoff {
            let cause = self.xoff_cause(port, &packet, out);
            self.assert_xoff(port, packet.pg, cause, agenda);
        }
        self.queue(out, packet, agenda);
    }

    /// Puts a frame that is charged into its egress queue.
    #[inline]
    fn queue(&mut self, port: u32, mut packet: Packet, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        let queue = usize::from(packet.queue);
        if let Some(wred) = &self.wreds[usize::from(state.tx.wred)].queues[queue]
            && wred.mark_at == MarkAt::Enqueue
            && packet.ect()
        {
            let depth = state.queues[queue].bytes() + u64::from(packet.len);
            if wred.marks(depth, &mut state.aside.random) {
                state.aside.counters.ecn_marked[queue] += 1;
                packet.mark();
            }
        }
        state.enqueue(agenda.now(), packet);
        if state.paused() & (1 << queue) == 0 {
            self.kick(port, agenda);
        }
    }

    #[cold]
    fn refuse(&mut self, port: u32, packet: &Packet, refusal: Refusal, agenda: &Queue) {
        // a port that may send no PFC is not lossless
        let silent = self.ports[port as usize].aside.silent & (1 << packet.pg) != 0;
        let (reason, lossless) = match refusal {
            Refusal::IngressHeadroomFull => (DropReason::IngressHeadroomFull, !silent),
            Refusal::IngressLossyLimit => (DropReason::IngressLossyLimit, false),
            Refusal::EgressLossyLimit => (DropReason::EgressLossyLimit, false),
            Refusal::EgressLosslessLimit => (DropReason::EgressLosslessLimit, true),
        };
        self.drop(agenda.now(), port, packet, reason, lossless);
    }

    /// Takes the next frame out of its queue, marks it, and sends it.
    #[inline]
    pub(super) fn send_from_switch(&mut self, port: u32, start: Time, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        let Some(mut packet) = state.dequeue(start, !state.paused()) else { return };
        let queue = usize::from(packet.queue);
        if let Some(wred) = &self.wreds[usize::from(state.tx.wred)].queues[queue]
            && wred.mark_at == MarkAt::Dequeue
            && packet.ect()
            && wred.marks(state.queues[queue].bytes(), &mut state.aside.random)
        {
            state.aside.counters.ecn_marked[queue] += 1;
            packet.mark();
        }
        self.release(port, packet, start, agenda);
    }

    /// Takes a frame that was in a queue of `port` out of the buffer; true, and the port that it came
    /// in by, if XON is due there.
    #[inline(always)]
    pub(super) fn uncharge(&mut self, port: u32, packet: &Packet) -> (bool, u32) {
        let Port { tx, rx, .. } = &self.ports[port as usize];
        let switch = &self.switches[rx.owner as usize];
        let ingress = rx.place + u32::from(packet.ingress);
        let cells = switch.cells(packet.len);
        let (out_mmu, queue) = (tx.mmu as usize, tx.base as usize + usize::from(packet.queue));
        let (in_mmu, base) = match switch.slices {
            1 => (out_mmu, usize::from(packet.ingress) * PRIORITIES),
            _ => switch.place(packet.ingress),
        };
        let group = base + usize::from(packet.pg);
        self.mmus[out_mmu].release_egress(queue, cells);
        let xon = self.mmus[in_mmu].release_ingress(group, cells);
        self.tally.held -= 1;
        (xon, ingress)
    }

    /// Takes a frame out of the buffer and sends it.
    #[inline]
    fn release(&mut self, port: u32, packet: Packet, start: Time, agenda: &mut Queue) {
        let (xon, ingress) = self.uncharge(port, &packet);
        // this port counts as busy while the XON goes out (it may go out here)
        self.transmit(port, packet, start, agenda);
        if xon {
            self.release_xoff(ingress, packet.pg, agenda);
        }
        if self.ports[port as usize].tx.has_next() {
            self.look_after(port, agenda);
        }
    }
}
