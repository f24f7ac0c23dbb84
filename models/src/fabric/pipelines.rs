//! Frames wait for the pipelines of switches that forward so many a second and no more.

use super::{Event, Fabric, Queue};
use crate::counters::DropReason;
use crate::packet::Packet;
use crate::probe::Probe;
use crate::switch::Turn;

impl<P: Probe> Fabric<P> {
    /// A frame has arrived at a switch; true if it is not forwarded now.
    #[cold]
    pub(super) fn waits_for_pipeline(
        &mut self,
        port: u32,
        packet: &Packet,
        agenda: &mut Queue,
    ) -> bool {
        let rx = &self.ports[port as usize].rx;
        let Some(number) = self.switches[rx.owner as usize].pipeline_of(rx.index) else {
            return false;
        };
        match self.pipelines[number].offer(agenda.now(), port, packet) {
            Turn::Now => return false,
            Turn::At(time) => agenda.at(time, Event::Pipeline(number as u32)),
            Turn::Later => {}
            Turn::Full => {
                let (_, pg) = self.classifiers[usize::from(rx.classifier)].of(packet);
                let group = rx.base as usize + usize::from(pg);
                let lossless = self.mmus[rx.mmu as usize].is_lossless(group);
                self.drop(agenda.now(), port, packet, DropReason::PacketRate, lossless);
            }
        }
        true
    }

    /// The next frame that waits for a pipeline is forwarded.
    pub(super) fn pipeline_due(&mut self, number: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let Some((port, packet, next)) = self.pipelines[number as usize].next(now) else { return };
        if let Some(next) = next {
            agenda.at(next, Event::Pipeline(number));
        }
        self.tally.last_activity = now;
        self.arrive_at_switch(port, &mut { packet }, agenda);
    }
}
