//! Faults take effect.

use sim_core::{Delta, Time};

use super::{Event, Fabric, Queue};
use crate::counters::DropReason;
use crate::fault::Change;
use crate::ids::PRIORITIES;
use crate::packet::Packet;
use crate::probe::Probe;

impl<P: Probe> Fabric<P> {
    /// Puts the changes that concern this shard into the agenda.
    pub(super) fn plant_faults(&self, agenda: &mut Queue) {
        for (index, (time, change)) in (0..).zip(&self.wiring.faults.changes) {
            let concerned = match change {
                Change::Link { port, .. } | Change::Loss { port, .. } => {
                    let node = self.wiring.wires[port.index()].node;
                    self.wiring.shard_of[node as usize] == self.shard
                }
                Change::Routes(_) => true,
            };
            if concerned {
                agenda.at(*time, Event::Fault(index));
            }
        }
    }

    /// A change is due.
    #[cold]
    pub(super) fn fault(&mut self, index: u32, agenda: &mut Queue) {
        match self.wiring.faults.changes[index as usize].1 {
            Change::Link { port, down } => {
                self.ports[port.index()].rx.pipe.set_down(down);
                if down {
                    self.forget_pauses(port.0, agenda);
                }
            }
            Change::Loss { port, probability } => {
                self.ports[port.index()].rx.pipe.set_loss(probability);
            }
            Change::Routes(number) => self.ways.change(number),
        }
    }

    /// A link that is reset pauses nobody.
    fn forget_pauses(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        if self.ports[port as usize].tx.lazy() {
            // departures of this instant come before
            self.catch_up(port, now + Delta::from_ps(1), agenda);
        }
        let state = &mut self.ports[port as usize];
        for queue in 0..PRIORITIES as u8 {
            self.tally.live += state.change_pause(|pause| pause.apply(now, queue, now));
        }
        self.kick(port, agenda);
    }

    /// A frame was lost on its way to `port`.
    #[cold]
    pub(super) fn lost(&mut self, now: Time, port: u32, packet: &Packet) {
        let down = self.ports[port as usize].rx.pipe.is_down();
        let reason = if down { DropReason::LinkDown } else { DropReason::Corrupt };
        self.drop(now, port, packet, reason, false);
    }
}
