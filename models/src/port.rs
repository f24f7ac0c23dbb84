//! A port: queues, transmitter, pause state, arrivals, counters.
//!
//! What every frame touches stands together in cache lines of its own, wiring included: on a large
//! fabric the time of a hop is that of the lines which it must fetch.

use sim_core::rng::Stream;
use sim_core::{Delta, Time};

use crate::counters::PortCounters;
use crate::fifo::Fifo;
use crate::ids::PRIORITIES;
use crate::link::Pipe;
use crate::packet::Packet;
use crate::pfc::{PauseState, PfcSender};
use crate::scheduler::{Scheduler, Turn};
use crate::switch::{PortWred, QueueWatch, WatchdogConfig};
use crate::wire::LinkClock;

/// Frames of a queue that are looked at to know whose they are.
const LOOKED_AT: u32 = 32;

/// A FIFO of frames that knows its depth over time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Queue {
    packets: Fifo<Packet>,
    bytes: u64,
    max_bytes: u64,
    /// Length times time, in byte picoseconds and modulo 2^128: of all frames that have left,
    /// when they did, less that of all that have come.
    moment: u128,
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
        let integral = self.moment.wrapping_add(u128::from(self.bytes) * u128::from(now.ps()));
        // a run that was interrupted may end just before the last frame came
        if integral > u128::MAX / 2 { 0 } else { integral }
    }

    /// The frames, the next one first.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }

    /// Estimates how many bytes of its frames `is_one` picks, from at most [`LOOKED_AT`] of them.
    pub(crate) fn share(&self, is_one: impl Fn(&Packet) -> bool) -> u64 {
        let frames = self.packets.len() as u32;
        let step = frames.div_ceil(LOOKED_AT).max(1);
        let looked = (0..frames).step_by(step as usize).filter_map(|at| self.packets.get(at));
        let (all, found) =
            looked.fold((0, 0), |(all, found), frame| (all + 1, found + u64::from(is_one(frame))));
        self.bytes * found / all.max(1)
    }

    /// The frame that leaves next, and its place.
    pub(crate) fn mark(&self) -> Option<(u32, Packet)> {
        self.packets.mark()
    }

    /// Asks for the memory of the next frame.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.packets.prefetch();
    }

    #[inline]
    fn head_len(&self) -> u16 {
        self.packets.front().map_or(0, |packet| packet.len)
    }

    #[inline]
    fn push(&mut self, now: Time, packet: &Packet) {
        let len = u64::from(packet.len);
        self.moment = self.moment.wrapping_sub(u128::from(len) * u128::from(now.ps()));
        self.bytes += len;
        self.max_bytes = self.max_bytes.max(self.bytes);
        *self.packets.add() = *packet;
    }

    /// The frame at its head.
    #[inline]
    pub(crate) fn head(&mut self) -> Option<&mut Packet> {
        self.packets.front_mut()
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Packet {
        let packet = *self.packets.front().expect("the queue has a frame");
        self.packets.advance();
        let len = u64::from(packet.len);
        self.moment = self.moment.wrapping_add(u128::from(len) * u128::from(now.ps()));
        self.bytes -= len;
        packet
    }

    /// A frame of this length comes and leaves at once.
    #[inline]
    fn pass(&mut self, len: u16) {
        self.max_bytes = self.max_bytes.max(u64::from(len));
    }
}

/// What every frame that leaves touches.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Transmitter {
    /// The transmitter is busy up to here.
    pub(crate) busy_until: Time,
    /// When the live `Depart` event fires; [`Time::MAX`] if there is none.
    pub(crate) wake_at: Time,
    /// See [`Wire`](crate::fabric::Wire), like `peer`.
    pub(crate) arrival_delay: Delta,
    /// L2 bytes sent, PFC included.
    pub(crate) bytes: u64,
    /// Frames sent, PFC included.
    pub(crate) packets: u64,
    /// See [`LinkClock::ps_per_byte`](crate::wire::LinkClock::ps_per_byte).
    pub(crate) ps_per_byte: u32,
    pub(crate) peer: u32,
    /// The MMU that charges frames which wait here, and the first of this port's queues there.
    pub(crate) mmu: u32,
    pub(crate) base: u32,
    /// Its marking.
    pub(crate) wred: u16,
    /// Queues with frames (a bit each).
    nonempty: u8,
    /// Queues told to pause, from downstream: as in [`Aside`].
    paused: u8,
    /// [`CROSSES`], [`PFC_WAITS`], [`LAZY`], [`MARKS_EARLY`], [`CUTS`].
    flags: u8,
    turn: Turn,
}

/// What every frame that arrives touches.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Arrivals {
    /// Frames on their way.
    pub(crate) pipe: Pipe,
    /// L2 bytes received, PFC included.
    pub(crate) bytes: u64,
    /// See [`Wire`](crate::fabric::Wire), like the next two.
    pub(crate) peer: u32,
    pub(crate) owner: u32,
    pub(crate) index: u16,
    /// The first port of its switch; of a NIC, its node.
    pub(crate) place: u32,
    /// How a switch sorts what arrives here; none at a NIC.
    pub(crate) classifier: u16,
    /// The MMU that charges frames which came by this port, and the first of its groups there.
    pub(crate) mmu: u32,
    pub(crate) base: u32,
}

/// The peer belongs to another shard.
const CROSSES: u8 = 1;
/// PFC frames wait to be sent.
const PFC_WAITS: u8 = 2;
/// What waits here need not be looked after while frames are on their way: see
/// [`fabric::lazy`](crate::fabric).
const LAZY: u8 = 4;
/// Frames that come may be marked.
const MARKS_EARLY: u8 = 8;
/// The peer cuts through.
const CUTS: u8 = 16;

impl Transmitter {
    /// An idle one; its wiring is for the caller to set.
    pub(crate) fn new(turn: Turn, crosses: bool, lazy: bool) -> Self {
        Transmitter {
            busy_until: Time::ZERO,
            wake_at: Time::MAX,
            arrival_delay: Delta::ZERO,
            bytes: 0,
            packets: 0,
            ps_per_byte: 0,
            peer: 0,
            mmu: 0,
            base: 0,
            wred: 0,
            nonempty: 0,
            paused: 0,
            flags: if crosses { CROSSES } else { 0 } | if lazy { LAZY } else { 0 },
            turn,
        }
    }

    /// From now on it marks so: the number of `wred`, and what it is.
    pub(crate) fn set_marking(&mut self, number: u16, wred: &PortWred) {
        self.wred = number;
        self.flags = self.flags & !MARKS_EARLY | if wred.at_enqueue { MARKS_EARLY } else { 0 };
    }

    /// The peer belongs to another shard, or handles frames before they have come as a whole.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.flags & (CROSSES | CUTS) != 0
    }

    /// The peer handles frames before they have come as a whole.
    #[inline]
    pub(crate) fn cuts(&self) -> bool {
        self.flags & CUTS != 0
    }

    /// True if frames that come may be marked.
    #[inline]
    pub(crate) fn marks_early(&self) -> bool {
        self.flags & MARKS_EARLY != 0
    }

    /// True if a frame for this queue that comes now would leave at once, before any other.
    #[inline]
    pub(crate) fn passes(&self, now: Time, queue: u8) -> bool {
        let Transmitter { busy_until, nonempty, paused, flags, turn, .. } = self;
        now > *busy_until
            && flags & (PFC_WAITS | MARKS_EARLY) == 0
            && nonempty & !paused == 0
            && paused & (1 << (queue & 7)) == 0
            && turn.is_plain()
    }

    /// True if what waits need not always be looked after.
    #[inline]
    pub(crate) fn lazy(&self) -> bool {
        self.flags & LAZY != 0
    }

    /// True if something waits that may be sent.
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        self.nonempty & !self.paused != 0 || self.flags & PFC_WAITS != 0
    }

    /// True if something waits that may be sent before `time`.
    #[inline]
    pub(crate) fn is_behind(&self, time: Time) -> bool {
        self.busy_until < time && self.has_next()
    }

    /// True if the peer belongs to another shard.
    #[inline]
    pub(crate) fn crosses(&self) -> bool {
        self.flags & CROSSES != 0
    }
}

const _: () = assert!(size_of::<Transmitter>() == 64 && size_of::<Arrivals>() == 64);
const _: () = assert!(size_of::<Queue>() == 64);

/// What few frames touch.
#[derive(Debug)]
pub(crate) struct Aside {
    /// Priorities told to pause, from downstream.
    pub(crate) pause: PauseState,
    /// When the live `PauseExpire` event fires.
    pub(crate) expire_at: Time,
    /// PFC frames that have arrived and take effect after the response time.
    pub(crate) pfc_in: Fifo<(Time, u8, u16)>,
    /// When the live `PfcRefresh` event fires.
    pub(crate) refresh_at: Time,
    /// XOFF state towards upstream.
    pub(crate) pfc: PfcSender,
    /// The PFC watchdog, where there is one.
    pub(crate) watchdog: Option<Box<PortWatchdog>>,
    /// Queues (a bit each) that send although they are told to pause.
    pub(crate) unheeded: u8,
    /// Priorities (a bit each) for which no PFC is sent.
    pub(crate) silent: u8,
    /// By priority group of a switch: where most of what it held was when XOFF last began, as
    /// index of the port there x 8 + queue.
    pub(crate) blamed: [u16; PRIORITIES],
    /// The time of frames that are sent.
    pub(crate) clock: LinkClock,
    /// See [`Wire`](crate::fabric::Wire).
    pub(crate) head: u64,
    /// PFC frames that leave next: priority and quanta.
    pfc_out: Fifo<(u8, u16)>,
    scheduler: Scheduler,
    /// For marking.
    pub(crate) random: Stream,
    /// Everything else that is counted here.
    pub(crate) counters: PortCounters,
}

impl Aside {
    /// From a frame's first bit to where the peer, which cuts through, begins to handle it.
    pub(crate) fn head_time(&self, wire_len: u64) -> Delta {
        self.clock.time(wire_len.min(self.head))
    }
}

/// The PFC watchdog of a switch port.
#[derive(Clone, Debug)]
pub(crate) struct PortWatchdog {
    pub(crate) config: WatchdogConfig,
    /// When the live `Watch` event fires.
    pub(crate) poll_at: Time,
    pub(crate) queues: Vec<Watched>,
}

/// A queue that is watched.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// The priority of the PFC frames that pause it, and of the group that is watched with it.
    pub(crate) priority: u8,
    pub(crate) queue: u8,
    pub(crate) watch: QueueWatch,
}

/// One port. At a NIC the queues hold ACKs, NAKs and CNPs; data comes from QPs.
#[derive(Debug)]
pub struct Port {
    pub(crate) tx: Transmitter,
    pub(crate) rx: Arrivals,
    pub(crate) queues: [Queue; PRIORITIES],
    pub(crate) aside: Box<Aside>,
}

impl Port {
    /// Gives the room for frames back where there are none.
    pub(crate) fn shrink(&mut self) {
        self.rx.pipe.shrink();
        self.queues.iter_mut().for_each(|queue| queue.packets.shrink());
    }

    pub(crate) fn new(
        tx: Transmitter,
        rx: Arrivals,
        scheduler: Scheduler,
        pfc: PfcSender,
        random: Stream,
        clock: LinkClock,
    ) -> Self {
        let aside = Aside {
            pause: PauseState::default(),
            expire_at: Time::MAX,
            pfc_in: Fifo::default(),
            refresh_at: Time::MAX,
            pfc,
            watchdog: None,
            unheeded: 0,
            silent: 0,
            blamed: [0; PRIORITIES],
            clock,
            head: 0,
            pfc_out: Fifo::default(),
            scheduler,
            random,
            counters: PortCounters::default(),
        };
        let mut port = Port { tx, rx, queues: Default::default(), aside: Box::new(aside) };
        port.set_clock(clock);
        port
    }

    /// Its peer handles a frame when so many wire bytes of it have come, if not 0.
    pub(crate) fn set_head(&mut self, head: u64) {
        self.aside.head = head;
        self.tx.flags |= if head > 0 { CUTS } else { 0 };
    }

    /// Frames that are sent from now on take these times.
    pub(crate) fn set_clock(&mut self, clock: LinkClock) {
        self.aside.clock = clock;
        // a rate so low that it does not fit takes the general way
        self.tx.ps_per_byte = u32::try_from(clock.ps_per_byte()).unwrap_or(0);
    }

    /// Queues (a bit each) that have frames.
    #[inline]
    pub fn nonempty(&self) -> u8 {
        self.tx.nonempty
    }

    /// Queues (a bit each) that are told to pause.
    #[inline]
    pub fn paused(&self) -> u8 {
        self.tx.paused
    }

    /// True if a PFC frame waits to be sent.
    #[inline]
    pub(crate) fn pfc_waits(&self) -> bool {
        self.tx.flags & PFC_WAITS != 0
    }

    /// Lets `change` change the pause state.
    pub(crate) fn change_pause(&mut self, change: impl FnOnce(&mut PauseState)) {
        change(&mut self.aside.pause);
        self.tx.paused = self.aside.pause.paused() & !self.aside.unheeded;
    }

    /// A PFC frame leaves as soon as it can: priority and quanta.
    pub(crate) fn push_pfc(&mut self, priority: u8, quanta: u16) {
        self.aside.pfc_out.push((priority, quanta));
        self.tx.flags |= PFC_WAITS;
    }

    /// Takes the PFC frame that leaves next.
    pub(crate) fn pop_pfc(&mut self) -> Option<(u8, u16)> {
        let frame = self.aside.pfc_out.pop();
        if self.aside.pfc_out.is_empty() {
            self.tx.flags &= !PFC_WAITS;
        }
        frame
    }

    /// Puts a frame into its queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: Time, packet: &Packet) {
        let queue = packet.queue & 7;
        self.tx.nonempty |= 1 << queue;
        self.queues[usize::from(queue)].push(now, packet);
    }

    /// A frame passes ([`Transmitter::passes`]): it counts as having been queued, and is not.
    #[inline]
    pub(crate) fn pass(&mut self, packet: &Packet) {
        self.tx.turn.only(1 << (packet.queue & 7));
        self.queues[usize::from(packet.queue & 7)].pass(packet.len);
    }

    /// The queue among the `allowed` ones (a bit each) whose turn it is.
    #[inline(always)]
    pub(crate) fn choose(&mut self, allowed: u8) -> Option<usize> {
        let eligible = self.tx.nonempty & allowed;
        if eligible == 0 {
            return None;
        }
        let queue = self.tx.turn.only(eligible).unwrap_or_else(|| {
            let head = |queue: usize| self.queues[queue].head_len();
            self.aside.scheduler.pick(&mut self.tx.turn, eligible, head)
        });
        Some(queue % PRIORITIES)
    }

    /// Takes the frame at the head of a queue, which has one.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Time, queue: usize) -> Packet {
        let waiting = &mut self.queues[queue % PRIORITIES];
        let packet = waiting.pop(now);
        if waiting.packets.is_empty() {
            self.tx.nonempty &= !(1 << queue);
        }
        packet
    }

    /// Takes the next frame from the `allowed` queues (a bit each).
    #[inline]
    pub(crate) fn dequeue(&mut self, now: Time, allowed: u8) -> Option<Packet> {
        let queue = self.choose(allowed)?;
        Some(self.take(now, queue))
    }

    /// Frames in a queue.
    pub(crate) fn waiting(&self, queue: u8) -> u64 {
        self.queues[usize::from(queue)].packets.len() as u64
    }

    /// Bytes in all queues.
    pub fn queued_bytes(&self) -> u64 {
        self.queues.iter().map(Queue::bytes).sum()
    }
}
