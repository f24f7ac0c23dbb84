//! What an event will need from memory, asked for some events ahead.

use sim_core::prefetch;

use super::{Fabric, NO_CLASSIFIER};
use crate::packet::Kind;
use crate::probe::Probe;

/// The accounts of one port take three lines; this is where RDMA usually goes. The line that a frame
/// needs in truth is known too late.
const PRIORITY: usize = 3;

impl<P: Probe> Fabric<P> {
    /// A frame will arrive at `port`.
    #[inline(always)]
    pub(super) fn foresee_delivery(&self, port: u32, calls: usize) {
        let state = &self.ports[port as usize];
        if calls == 3 {
            return prefetch(&state.rx);
        }
        let rx = &state.rx;
        let at_switch = rx.classifier != NO_CLASSIFIER;
        if calls == 2 {
            rx.pipe.prefetch();
            if at_switch {
                self.mmus[rx.mmu as usize].prefetch_group(rx.base as usize + PRIORITY);
            }
            return;
        }
        let Some(packet) = rx.pipe.next() else { return };
        if !at_switch {
            prefetch(&state.tx);
            match packet.kind {
                Kind::Data => prefetch(&self.receivers[packet.qp as usize]),
                _ => self.senders.prefetch(packet.qp as usize),
            }
            return;
        }
        let Some(out) = self.ways.foresee(packet, self.wiring.frames.ttl) else { return };
        let Some(out) = self.ports.get(out as usize) else { return };
        let (queue, _) = self.classifiers[usize::from(rx.classifier)].of(packet);
        prefetch(&out.tx);
        prefetch(&out.queues[usize::from(queue)]);
    }

    /// A frame will leave `port`.
    #[inline(always)]
    pub(super) fn foresee_departure(&self, port: u32, calls: usize) {
        let state = &self.ports[port as usize];
        if calls == 3 {
            prefetch(&state.rx);
            return prefetch(&state.tx);
        }
        if state.rx.classifier == NO_CLASSIFIER {
            return;
        }
        let queue = &state.queues[state.nonempty().trailing_zeros() as usize & 7];
        if calls == 2 {
            prefetch(queue);
            prefetch(&self.ports[state.tx.peer as usize].rx);
            return;
        }
        queue.prefetch();
        self.ports[state.tx.peer as usize].rx.pipe.prefetch_end();
        self.mmus[state.tx.mmu as usize].prefetch_queue(state.tx.base as usize + PRIORITY);
    }
}
