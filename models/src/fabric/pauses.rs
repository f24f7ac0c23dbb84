//! Who paused whom: what is noted while a fabric runs.
//!
//! Pauses are rare beside frames, so that each begin, end and XOFF is noted with its time, in the
//! order in which they come. The tree is made of that afterwards (`report/pauses`).

use sim_core::Time;

use super::Fabric;
use crate::ids::PRIORITIES;
use crate::packet::Packet;
use crate::pfc::PauseState;
use crate::port::Port;
use crate::probe::Probe;

/// Marks that are kept: of a million pauses, in at most 72 MB.
pub(crate) const MARKS_MAX: usize = 3_000_000;

/// Why a device began XOFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A switch: what the group holds waits in this queue.
    Queue { port: u32, queue: u8 },
    /// A NIC: its receive buffer is full.
    Receiver,
    /// A NIC that does so whatever it holds.
    Storm,
}

/// What happened at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A queue may not send any more,
    Begin,
    /// and may again; so many bytes wait in it.
    End { bytes: u32 },
    /// XOFF of a priority began, towards the peer.
    Xoff(Cause),
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) time: Time,
    pub(crate) port: u32,
    /// The queue, or for XOFF the priority.
    pub(crate) number: u8,
    pub(crate) what: What,
}

const _: () = assert!(size_of::<Mark>() <= 24);

/// The first marks of a run, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct PauseLog {
    pub(crate) marks: Vec<Mark>,
    /// How many there were.
    pub(crate) count: u64,
}

impl PauseLog {
    /// Adds a mark.
    #[cold]
    pub(super) fn note(&mut self, time: Time, port: u32, number: u8, what: What) {
        self.count += 1;
        if self.marks.len() < MARKS_MAX {
            self.marks.push(Mark { time, port, number, what });
        }
    }

    /// Takes over the marks of another shard: the first ones of both are the first ones of all.
    pub(super) fn absorb(&mut self, other: PauseLog) {
        self.count += other.count;
        self.marks.extend(other.marks);
        // those of one port are in one shard, and stay in their order
        self.marks.sort_by_key(|mark| (mark.time, mark.port));
        self.marks.truncate(MARKS_MAX);
    }
}

impl<P: Probe> Fabric<P> {
    /// Lets `change` change which queues of a port are paused, and notes it; returns how many more
    /// are paused then.
    pub(super) fn change_pause(
        &mut self,
        port: u32,
        now: Time,
        change: impl FnOnce(&mut PauseState),
    ) -> i64 {
        let state = &mut self.ports[port as usize];
        let before = state.paused();
        state.change_pause(change);
        let after = state.paused();
        for queue in 0..PRIORITIES as u8 {
            let bit = 1 << queue;
            if (before ^ after) & bit == 0 {
                continue;
            }
            let bytes = state.queues[usize::from(queue)].bytes();
            let what = match after & bit {
                0 => What::End { bytes: bytes.try_into().unwrap_or(u32::MAX) },
                _ => What::Begin,
            };
            self.pauses.note(now, port, queue, what);
        }
        i64::from(after.count_ones()) - i64::from(before.count_ones())
    }

    /// Why a group of `port` begins XOFF with a frame for `out`: the queue in which what it holds
    /// waits. That is the frame's own queue, or the one of last time, if at least half of what the
    /// group holds could be in it; else all queues of the switch are looked at.
    pub(super) fn xoff_cause(&mut self, port: u32, packet: &Packet, out: u32) -> Cause {
        let Port { rx, aside, .. } = &self.ports[port as usize];
        let switch = &self.switches[rx.owner as usize];
        let mmu = &self.mmus[rx.mmu as usize];
        let (used, headroom) = mmu.ingress_use(rx.base as usize + usize::from(packet.pg));
        let holds = u64::from(used + headroom) * u64::from(mmu.cell);
        let (first, slot) = (rx.place, usize::from(packet.pg));
        let bytes = |port: u32, queue: u8| {
            let own = if (port, queue) == (out, packet.queue) { packet.len } else { 0 };
            self.ports[port as usize].queues[usize::from(queue)].bytes() + u64::from(own)
        };
        let last = aside.blamed[slot];
        let last = (first + u32::from(last / 8), (last % 8) as u8);
        let known = [(out, packet.queue), last];
        let deep = known.into_iter().find(|(port, queue)| 2 * bytes(*port, *queue) >= holds);
        let (cause, queue) = deep.unwrap_or_else(|| {
            let is_one = |other: &Packet| (other.ingress, other.pg) == (rx.index, packet.pg);
            let mut most = (0, (out, packet.queue));
            for port in first..first + switch.places.len() as u32 {
                let state = &self.ports[port as usize];
                for queue in (0..PRIORITIES as u8).filter(|q| state.nonempty() & (1 << q) != 0) {
                    let share = state.queues[usize::from(queue)].share(is_one);
                    if share > most.0 {
                        most = (share, (port, queue));
                    }
                }
            }
            most.1
        });
        self.ports[port as usize].aside.blamed[slot] =
            (cause - first) as u16 * 8 + u16::from(queue);
        Cause::Queue { port: cause, queue }
    }
}
