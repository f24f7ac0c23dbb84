//! A frame at a switch: in, and out again.

use sim_core::{Time, prefetch};

use super::ways::Around;
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
    pub(super) fn arrive_at_switch(&mut self, port: u32, packet: &mut Packet, agenda: &mut Queue) {
        let now = agenda.now();
        if packet.ttl <= 1 {
            return self.drop(now, port, packet, DropReason::Ttl, false);
        }
        let out = match self.ways.kept(packet, &self.wiring) {
            Some(out) => out,
            None => self.find_way(port, packet, now),
        };
        let Some(out) = out else {
            return self.drop(now, port, packet, DropReason::NoRoute, false);
        };
        packet.ttl -= 1;
        self.catch_up(out, now, agenda);
        let rx = &self.ports[port as usize].rx;
        let classifier = &self.classifiers[usize::from(rx.classifier)];
        (packet.queue, packet.pg) = classifier.of(packet);
        if classifier.turns() {
            classifier.turn(packet, self.ports[out as usize].rx.index);
        }
        packet.ingress = rx.index;
        let (owner, in_mmu) = (rx.owner, rx.mmu as usize);
        let group = rx.base as usize + usize::from(packet.pg);
        let tx = &self.ports[out as usize].tx;
        let (out_mmu, queue) = (tx.mmu as usize, tx.base as usize + usize::from(packet.queue));
        // it would be charged and released at once, and leave no queue that could mark it
        let passes = tx.passes(now, packet.queue);
        if self.large {
            prefetch(&self.ports[tx.peer as usize].rx);
        }
        let mmu = &mut self.mmus[out_mmu];
        let cells = mmu.cells(packet.len);
        let calm = if in_mmu == out_mmu {
            mmu.admit_calm(group, queue, cells, passes)
        } else {
            self.admit_calm([in_mmu, out_mmu], [group, queue], cells, passes)
        };
        if calm && passes {
            self.ports[out as usize].pass(packet);
            if packet.has_note() {
                self.write_note(out, packet, now);
            }
            return self.transmit(out, packet, now, agenda);
        }
        if !calm {
            self.make_exact(owner, port, agenda);
            let stormed = self.switches[owner as usize].storms > 0;
            if stormed && self.storm_drops(port, out, packet, agenda) {
                return;
            }
            let admitted = self.mmus[out_mmu].egress_admits(queue, cells);
            let xoff = match admitted.and_then(|()| self.mmus[in_mmu].charge_ingress(group, cells))
            {
                Ok(xoff) => xoff,
                Err(refusal) => return self.refuse(port, packet, refusal, agenda),
            };
            if stormed {
                self.storm_admits(port, out, packet);
            }
            self.mmus[out_mmu].charge_egress(queue, cells);
            if xoff {
                let cause = self.xoff_cause(port, packet, out);
                self.assert_xoff(port, packet.pg, cause, agenda);
            }
        }
        self.tally.held += 1;
        self.queue(out, packet, agenda);
    }

    /// The egress port of a frame where no way is kept yet, or ever.
    #[cold]
    #[inline(never)]
    fn find_way(&mut self, port: u32, packet: &mut Packet, now: Time) -> Option<u32> {
        let around = Around {
            now,
            wiring: &self.wiring,
            switches: &self.switches,
            ports: &self.ports,
            notes: &mut self.notes,
        };
        self.ways.find(port, packet, around)
    }

    /// [`Mmu::admit_calm`](crate::switch::Mmu::admit_calm) where the group and the queue are in
    /// different slices.
    fn admit_calm(
        &mut self,
        [in_mmu, out_mmu]: [usize; 2],
        [group, queue]: [usize; 2],
        cells: u32,
        passes: bool,
    ) -> bool {
        let calm = self.mmus[out_mmu].egress_admits(queue, cells).is_ok()
            && self.mmus[in_mmu].is_calm(group, cells);
        if calm && !passes {
            self.mmus[in_mmu].charge_calm(group, cells);
            self.mmus[out_mmu].charge_egress(queue, cells);
        }
        calm
    }

    /// Puts a frame that is charged into its egress queue.
    #[inline]
    fn queue(&mut self, port: u32, packet: &mut Packet, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        let queue = usize::from(packet.queue & 7);
        if state.tx.marks_early()
            && let Some(wred) = &self.wreds[usize::from(state.tx.wred)].queues[queue]
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
    #[inline(never)]
    pub(super) fn send_from_switch(&mut self, port: u32, start: Time, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        let Some(queue) = state.choose(!state.paused()) else { return };
        let behind = state.queues[queue].bytes();
        let Some(frame) = state.queues[queue].head() else { return };
        if frame.ect()
            && let Some(wred) = &self.wreds[usize::from(state.tx.wred)].queues[queue]
            && wred.mark_at == MarkAt::Dequeue
            && wred.marks(behind - u64::from(frame.len), &mut state.aside.random)
        {
            state.aside.counters.ecn_marked[queue] += 1;
            frame.mark();
        }
        let packet = state.take(start, queue);
        if packet.has_note() {
            self.write_note(port, &packet, start);
        }
        let (xon, ingress) = self.uncharge(port, &packet);
        // this port counts as busy while the XON goes out (it may go out here)
        self.transmit(port, &packet, start, agenda);
        if xon {
            self.release_xoff(ingress, packet.pg, agenda);
        }
        if self.ports[port as usize].tx.has_next() {
            self.look_after(port, agenda);
        }
    }

    /// Takes a frame that was in a queue of `port` out of the buffer; true, and the port that it came
    /// in by, if XON is due there.
    #[inline(never)]
    pub(super) fn uncharge(&mut self, port: u32, packet: &Packet) -> (bool, u32) {
        let Port { tx, rx, .. } = &self.ports[port as usize];
        let ingress = rx.place + u32::from(packet.ingress);
        let mmu = &mut self.mmus[tx.mmu as usize];
        let cells = mmu.cells(packet.len);
        mmu.release_egress(tx.base as usize + usize::from(packet.queue), cells);
        let pg = usize::from(packet.pg);
        let xon = if mmu.slices == 1 {
            // the ports of a single slice have their places in order
            mmu.release_ingress(usize::from(packet.ingress) * PRIORITIES + pg, cells)
        } else {
            let (in_mmu, base) = self.switches[rx.owner as usize].place(packet.ingress);
            self.mmus[in_mmu].release_ingress(base + pg, cells)
        };
        self.tally.held -= 1;
        (xon, ingress)
    }
}
