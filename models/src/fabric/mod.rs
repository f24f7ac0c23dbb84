//! The fabric: all components of one shard, and the only place where events are told apart.
//!
//! It routes and never decides. Decisions live in the plain structs that it owns: [`Mmu`],
//! [`Wred`](crate::switch::Wred), [`PfcSender`](crate::pfc::PfcSender),
//! [`Requester`](crate::nic::Requester), [`RateControl`](crate::congestion::RateControl) ...
//!
//! [`Mmu`]: crate::switch::Mmu

mod at_host;
mod at_nic;
mod at_switch;
mod build;
mod check;
mod conduct;
mod event;
mod followers;
mod host_parts;
mod observe;
mod path;
mod qps;
mod run;
mod spec;
mod wiring;

use sim_core::{Agenda, Model, Time};

pub use build::{Plan, plan};
pub use conduct::{StopReason, Timeline};
pub use event::Event;
pub use followers::Followers;
pub use observe::{PortSample, QpSample, Sample};
pub use run::{Outcome, Running, run};
pub use spec::{MeasureConfig, SampleConfig, Spec, StopConfig};
pub use wiring::{DmaInfo, QpInfo, Role, Wire, Wiring};

use crate::collective::{Executor, Output};
use crate::counters::DropReason;
use crate::ids::PortId;
use crate::link::Pipe;
use crate::nic::{Dma, Nic, Receiver, Sender};
use crate::packet::{Kind, Packet};
use crate::port::Port;
use crate::probe::Probe;
use crate::switch::Switch;
use wiring::SharedWiring;

/// The components of one shard. Vectors are dense over the whole fabric; only what belongs to
/// this shard is used.
#[derive(Debug)]
pub struct Fabric<P: Probe = ()> {
    pub(crate) wiring: SharedWiring,
    pub(crate) shard: u16,
    pub(crate) ports: Vec<Port>,
    /// By receiving port.
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) dmas: Vec<Dma>,
    /// By node: the hosts that run collectives, and when their live event fires.
    pub(crate) executors: Vec<Option<Executor>>,
    pub(crate) host_at: Vec<Time>,
    /// Scratch.
    pub(crate) outputs: Vec<Output>,
    pub(crate) senders: Vec<Sender>,
    pub(crate) receivers: Vec<Receiver>,
    /// By flow: how many others it still waits for; empty if none does.
    pub(crate) waits_for: Vec<u32>,
    pub(crate) tally: Tally,
    pub(crate) samples: Vec<Sample>,
    /// Queue integrals at the start of the measured window, by port and priority.
    pub(crate) integrals: [Option<Vec<[u128; 8]>>; 2],
    pub(crate) probe: P,
}

/// What is summed over a shard as it runs.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Frames that left a port.
    pub packet_hops: u64,
    /// Frames other than PFC that entered the network at a NIC, and their bytes.
    pub injected: u64,
    /// See `injected`.
    pub injected_bytes: u64,
    /// Frames other than PFC that reached their host.
    pub arrived: u64,
    /// See `arrived`.
    pub arrived_bytes: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// See `dropped`.
    pub dropped_bytes: u64,
    /// Frames that switches hold.
    pub held: u64,
    /// Flows that are acknowledged or have failed, and ranks that are done with their collective.
    pub finished: u64,
    /// When the last of them was.
    pub last_finish: Time,
    /// When the last frame other than PFC left a port.
    pub last_progress: Time,
    /// When something last happened.
    pub last_activity: Time,
    /// Payload delivered.
    pub delivered_bytes: u64,
    /// QPs in the error state.
    pub failed: u64,
    /// When the first QP of a collective failed.
    pub collective_failed_at: Time,
    /// Frames that exist, waiting or on their way (PFC included), and pauses that are open.
    /// A shard's part may be negative: frames are made in one and used up in another.
    pub live: i64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            packet_hops: 0,
            injected: 0,
            injected_bytes: 0,
            arrived: 0,
            arrived_bytes: 0,
            dropped: 0,
            dropped_bytes: 0,
            held: 0,
            finished: 0,
            last_finish: Time::ZERO,
            last_progress: Time::ZERO,
            last_activity: Time::ZERO,
            delivered_bytes: 0,
            failed: 0,
            collective_failed_at: Time::MAX,
            live: 0,
        }
    }
}

/// A frame for a port of another shard.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    port: u32,
    arrival: Time,
    packet: Packet,
}

pub(crate) type Queue = Agenda<Event, Crossing>;

impl<P: Probe> Model for Fabric<P> {
    type Event = Event;
    type Message = Crossing;
    type Status = Tally;

    #[inline]
    fn handle(&mut self, event: Event, agenda: &mut Queue) {
        match event {
            Event::Deliver(port) => self.deliver(port, agenda),
            Event::PfcApply(port) => self.pfc_apply(port, agenda),
            Event::PauseExpire(port) => self.pause_expire(port, agenda),
            Event::Depart(port) => self.depart(port, agenda),
            Event::PfcRefresh(port) => self.pfc_refresh(port, agenda),
            Event::Drain(port) => self.drain(port, agenda),
            Event::Timeout(port) => self.timeout(port, agenda),
            Event::FlowStart(port) => self.flow_start(port, agenda),
            Event::Host(node) => self.host_due(node, agenda),
        }
    }

    fn accept(&mut self, crossing: Crossing, agenda: &mut Queue) {
        let Crossing { port, arrival, packet } = crossing;
        if let Some(time) = self.pipes[port as usize].push(arrival, packet) {
            agenda.at(time, Event::Deliver(port));
        }
    }

    fn global(&mut self, time: Time, _agenda: &mut Queue) {
        self.observe(time);
    }

    fn status(&self) -> Tally {
        self.tally
    }
}

impl<P: Probe> Fabric<P> {
    /// Frames that have left a port.
    pub fn packet_hops(&self) -> u64 {
        self.tally.packet_hops
    }

    /// Payload delivered so far.
    pub fn delivered_bytes(&self) -> u64 {
        self.tally.delivered_bytes
    }

    /// The frame at the head of a port's pipe has arrived.
    #[inline]
    fn deliver(&mut self, port: u32, agenda: &mut Queue) {
        let pipe = &mut self.pipes[port as usize];
        let Some((packet, next)) = pipe.pop() else { return };
        if let Some(next) = next {
            agenda.at(next, Event::Deliver(port));
        }
        let now = agenda.now();
        self.tally.last_activity = now;
        let counters = &mut self.ports[port as usize].counters;
        counters.rx_bytes += u64::from(packet.len);
        if pipe.loses() {
            return self.drop(now, port, &packet, DropReason::Corrupt, false);
        }
        self.probe.receive(now, PortId(port), &packet);
        if packet.kind == Kind::Pfc {
            self.pfc_arrives(port, &packet, agenda);
        } else if self.wiring.wires[port as usize].is_switch {
            self.arrive_at_switch(port, packet, agenda);
        } else {
            self.arrive_at_nic(port, packet, agenda);
        }
    }

    /// Counts a frame that is dropped on its arrival at `port`.
    #[cold]
    fn drop(&mut self, now: Time, port: u32, packet: &Packet, reason: DropReason, lossless: bool) {
        self.tally.live -= 1;
        let counters = &mut self.ports[port as usize].counters;
        counters.drops[reason as usize] += 1;
        counters.lossless_drops += u32::from(lossless);
        if packet.kind != Kind::Pfc {
            self.tally.dropped += 1;
            self.tally.dropped_bytes += u64::from(packet.len);
        }
        self.probe.dropped(now, PortId(port), packet, reason);
    }

    /// Something was queued at `port`: sends it at once if the port is idle.
    #[inline]
    pub(crate) fn kick(&mut self, port: u32, agenda: &mut Queue) {
        let busy_until = self.ports[port as usize].busy_until;
        if agenda.now() > busy_until {
            self.send_next(port, agenda);
        } else {
            self.wake(port, busy_until, agenda);
        }
    }

    /// Makes sure that `port` looks for something to send at `time`, or earlier.
    #[inline]
    pub(crate) fn wake(&mut self, port: u32, time: Time, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        if time < state.wake_at {
            state.wake_at = time;
            agenda.at(time, Event::Depart(port));
        }
    }

    #[inline]
    fn depart(&mut self, port: u32, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        let now = agenda.now();
        if state.wake_at != now {
            return;
        }
        state.wake_at = Time::MAX;
        if now < state.busy_until {
            let busy_until = state.busy_until;
            return self.wake(port, busy_until, agenda);
        }
        self.send_next(port, agenda);
    }

    /// Sends the next frame of an idle port, if there is one.
    #[inline]
    fn send_next(&mut self, port: u32, agenda: &mut Queue) {
        if let Some((priority, quanta)) = self.ports[port as usize].pfc_out.pop_front() {
            return self.send_pfc(port, priority, quanta, agenda);
        }
        if self.wiring.wires[port as usize].is_switch {
            self.send_from_switch(port, agenda);
        } else {
            self.send_from_nic(port, agenda);
        }
    }

    /// Puts a frame on the wire.
    #[inline]
    pub(crate) fn transmit(&mut self, port: u32, packet: Packet, agenda: &mut Queue) {
        let now = agenda.now();
        let wire = &self.wiring.wires[port as usize];
        let state = &mut self.ports[port as usize];
        state.busy_until = now + wire.clock.time(self.wiring.frames.wire_len(packet.len));
        state.counters.tx_bytes += u64::from(packet.len);
        state.counters.tx_packets += 1;
        self.tally.packet_hops += 1;
        if packet.kind != Kind::Pfc {
            self.tally.last_progress = now;
        }
        let arrival = state.busy_until + wire.arrival_delay;
        self.probe.transmit(now, PortId(port), &packet);
        if wire.peer_shard == self.shard {
            if let Some(time) = self.pipes[wire.peer as usize].push(arrival, packet) {
                agenda.at(time, Event::Deliver(wire.peer));
            }
        } else {
            let crossing = Crossing { port: wire.peer, arrival, packet };
            agenda.send(usize::from(wire.peer_shard), crossing);
        }
    }

    /// Sends a PFC frame; anything else that waits goes after it.
    fn send_pfc(&mut self, port: u32, priority: u8, quanta: u16, agenda: &mut Queue) {
        let mut packet = Packet::new(Kind::Pfc, 0, 0, self.wiring.frames.pfc);
        packet.queue = priority;
        packet.arg = quanta;
        let counters = &mut self.ports[port as usize].counters;
        if quanta > 0 {
            counters.tx_pause[usize::from(priority)] += 1;
        } else {
            counters.tx_resume[usize::from(priority)] += 1;
        }
        self.transmit(port, packet, agenda);
        let busy_until = self.ports[port as usize].busy_until;
        self.wake(port, busy_until, agenda);
    }

    /// XOFF begins at `port` for `priority`, towards upstream.
    pub(crate) fn assert_xoff(&mut self, port: u32, priority: u8, agenda: &mut Queue) {
        let quanta = self.xoff_quanta(port);
        let state = &mut self.ports[port as usize];
        state.pfc.xoff(agenda.now(), priority);
        state.pfc_out.push_back((priority, quanta));
        self.tally.live += 1;
        self.watch_refresh(port, agenda);
        self.kick(port, agenda);
    }

    /// XOFF ends at `port` for `priority`.
    pub(crate) fn release_xoff(&mut self, port: u32, priority: u8, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        state.pfc.xon(priority);
        state.pfc_out.push_back((priority, 0));
        self.tally.live += 1;
        self.kick(port, agenda);
    }

    /// Quanta of an XOFF frame; the most that there are where pauses do not expire.
    fn xoff_quanta(&self, port: u32) -> u16 {
        match self.wiring.wires[port as usize].pfc_quanta {
            0 => u16::MAX,
            quanta => quanta,
        }
    }

    /// Keeps one live refresh event for a port that holds XOFF.
    fn watch_refresh(&mut self, port: u32, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        let next = state.pfc.next_refresh();
        if next < state.refresh_at {
            state.refresh_at = next;
            agenda.at(next, Event::PfcRefresh(port));
        }
    }

    fn pfc_refresh(&mut self, port: u32, agenda: &mut Queue) {
        let quanta = self.xoff_quanta(port);
        let state = &mut self.ports[port as usize];
        if state.refresh_at != agenda.now() {
            return;
        }
        state.refresh_at = Time::MAX;
        let due = state.pfc.refresh(agenda.now());
        for priority in (0..8).filter(|priority| due & (1 << priority) != 0) {
            state.pfc_out.push_back((priority, quanta));
            self.tally.live += 1;
        }
        self.watch_refresh(port, agenda);
        if due != 0 {
            self.kick(port, agenda);
        }
    }

    /// A PFC frame has arrived; it takes effect after the response time.
    fn pfc_arrives(&mut self, port: u32, packet: &Packet, agenda: &mut Queue) {
        let wire = &self.wiring.wires[port as usize];
        let state = &mut self.ports[port as usize];
        if packet.arg > 0 {
            state.counters.rx_pause[usize::from(packet.queue)] += 1;
        }
        let effective = agenda.now() + wire.pfc_response;
        state.pfc_in.push_back((effective, packet.queue, packet.arg));
        if wire.pfc_response.is_zero() {
            self.pfc_apply(port, agenda);
        } else if state.pfc_in.len() == 1 {
            agenda.at(effective, Event::PfcApply(port));
        }
    }

    fn pfc_apply(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let state = &mut self.ports[port as usize];
        let Some((_, priority, quanta)) = state.pfc_in.pop_front() else { return };
        self.tally.live -= 1;
        if let Some((next, ..)) = state.pfc_in.front() {
            agenda.at(*next, Event::PfcApply(port));
        }
        let wire = &self.wiring.wires[port as usize];
        let Some(queue) = self.obeyed_queue(wire, priority) else { return };
        let until = match (quanta, wire.pfc_quanta) {
            (0, _) => now,
            (_, 0) => Time::MAX,
            (quanta, _) => now + wire.clock.quanta(quanta),
        };
        let pause = &mut self.ports[port as usize].pause;
        let before = pause.paused().count_ones();
        pause.apply(now, queue, until);
        self.tally.live += i64::from(pause.paused().count_ones()) - i64::from(before);
        self.watch_expiry(port, agenda);
        if until <= now {
            self.kick(port, agenda);
        }
    }

    /// The queue that a PFC frame of this priority pauses at this port, if it is obeyed.
    pub(crate) fn obeyed_queue(&self, wire: &Wire, priority: u8) -> Option<u8> {
        if wire.is_switch {
            let map = &self.switches[wire.owner as usize].pfc_to_queue[usize::from(wire.index)];
            Some(map[usize::from(priority & 7)]).filter(|queue| *queue < 8)
        } else {
            let obeyed = self.nics[wire.owner as usize].params.pfc_priorities;
            (obeyed & (1 << priority) != 0).then_some(priority)
        }
    }

    /// Keeps one live expiry event for the earliest expiry of a port.
    fn watch_expiry(&mut self, port: u32, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        let next = state.pause.next_expiry();
        if next < state.expire_at {
            state.expire_at = next;
            agenda.at(next, Event::PauseExpire(port));
        }
    }

    fn pause_expire(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let state = &mut self.ports[port as usize];
        if state.expire_at != now {
            return;
        }
        state.expire_at = Time::MAX;
        let resumed = state.pause.expire(now);
        self.watch_expiry(port, agenda);
        if resumed > 0 {
            self.tally.live -= i64::from(resumed);
            self.tally.last_activity = now;
            self.kick(port, agenda);
        }
    }
}
