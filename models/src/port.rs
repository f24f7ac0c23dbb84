//! The sending side of a port: queues, pause state, transmitter, counters.

use std::collections::VecDeque;
use std::sync::Arc;

use sim_core::Time;
use sim_core::rng::Stream;

use crate::counters::PortCounters;
use crate::ids::PRIORITIES;
use crate::packet::Packet;
use crate::pfc::{PauseState, PfcSender};
use crate::scheduler::Scheduler;
use crate::switch::wred::Wred;

/// A FIFO of frames that knows its depth over time.
#[derive(Debug, Default)]
pub struct Queue {
    packets: VecDeque<Packet>,
    bytes: u64,
    max_bytes: u64,
    /// Integral of bytes over time up to `changed`, in byte picoseconds.
    integral: u128,
    changed: Time,
}

impl Queue {
    /// Bytes queued.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Greatest depth so far.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Integral of the depth up to `now`, in byte picoseconds.
    pub fn integral(&self, now: Time) -> u128 {
        self.integral + u128::from(self.bytes) * u128::from(now.since(self.changed).ps())
    }

    /// The frames, the next one first.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }

    #[inline]
    fn head_len(&self) -> u16 {
        self.packets.front().map_or(0, |packet| packet.len)
    }

    #[inline]
    fn account(&mut self, now: Time) {
        if self.bytes > 0 {
            self.integral = self.integral(now);
        }
        self.changed = now;
    }

    #[inline]
    fn push(&mut self, now: Time, packet: Packet) {
        self.account(now);
        self.bytes += u64::from(packet.len);
        self.max_bytes = self.max_bytes.max(self.bytes);
        self.packets.push_back(packet);
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.account(now);
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }
}

/// Marking of the eight queues of a port.
pub type PortWred = Arc<[Option<Wred>; PRIORITIES]>;

/// One port's sending side. At a NIC the queues hold ACKs, NAKs and CNPs; data comes from QPs.
#[derive(Debug)]
pub struct Port {
    /// The transmitter is busy up to here.
    pub(crate) busy_until: Time,
    /// When the live `Depart` event fires; [`Time::MAX`] if there is none.
    pub(crate) wake_at: Time,
    /// Queues with frames (a bit each).
    nonempty: u8,
    /// Priorities told to pause, from downstream.
    pub(crate) pause: PauseState,
    /// When the live `PauseExpire` event fires.
    pub(crate) expire_at: Time,
    /// PFC frames that have arrived and take effect after the response time.
    pub(crate) pfc_in: VecDeque<(Time, u8, u16)>,
    /// When the live `PfcRefresh` event fires.
    pub(crate) refresh_at: Time,
    /// XOFF state towards upstream.
    pub(crate) pfc: PfcSender,
    /// PFC frames that leave next: priority and quanta.
    pub(crate) pfc_out: VecDeque<(u8, u16)>,
    pub(crate) queues: [Queue; PRIORITIES],
    scheduler: Scheduler,
    /// ECN marking (switches).
    pub(crate) wred: PortWred,
    pub(crate) random: Stream,
    /// Everything that is counted here.
    pub counters: PortCounters,
}

impl Port {
    pub(crate) fn new(
        scheduler: Scheduler,
        pfc: PfcSender,
        wred: PortWred,
        random: Stream,
    ) -> Self {
        Port {
            busy_until: Time::ZERO,
            wake_at: Time::MAX,
            nonempty: 0,
            pause: PauseState::default(),
            expire_at: Time::MAX,
            pfc_in: VecDeque::new(),
            refresh_at: Time::MAX,
            pfc,
            pfc_out: VecDeque::new(),
            queues: Default::default(),
            scheduler,
            wred,
            random,
            counters: PortCounters::default(),
        }
    }

    /// Queues (a bit each) that have frames.
    #[inline]
    pub fn nonempty(&self) -> u8 {
        self.nonempty
    }

    /// Puts a frame into its queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: Time, packet: Packet) {
        self.nonempty |= 1 << packet.queue;
        self.queues[usize::from(packet.queue)].push(now, packet);
    }

    /// Takes the next frame from the `allowed` queues (a bit each).
    #[inline]
    pub(crate) fn dequeue(&mut self, now: Time, allowed: u8) -> Option<Packet> {
        let eligible = self.nonempty & allowed;
        if eligible == 0 {
            return None;
        }
        let queue = self.scheduler.pick(eligible, |queue| self.queues[queue].head_len());
        let packet = self.queues[queue].pop(now);
        if self.queues[queue].packets.is_empty() {
            self.nonempty &= !(1 << queue);
        }
        packet
    }

    /// Bytes in all queues.
    pub fn queued_bytes(&self) -> u64 {
        self.queues.iter().map(Queue::bytes).sum()
    }
}
