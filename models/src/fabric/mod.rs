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
mod faults;
mod followers;
mod foresee;
mod host_parts;
mod jobs;
mod lazy;
mod notes;
mod observe;
mod open;
mod path;
mod pauses;
mod pipelines;
mod ports;
mod qps;
mod reads;
mod ready;
mod run;
mod settings;
mod shards;
mod spec;
pub(crate) mod standstill;
mod tally;
mod unwatched;
mod watchdog;
mod ways;
mod wiring;

use std::sync::Arc;

use sim_core::{Agenda, Delta, Model, Time};

pub use build::{Plan, plan};
pub use conduct::{StopReason, Timeline};
pub use event::Event;
pub use followers::Followers;
pub use observe::{PortSample, QpSample, Sample};
pub(crate) use pauses::{Cause, MARKS_MAX, Mark, PauseLog, What};
pub use run::{Outcome, Owner, Running, run, run_probed, run_watched};
pub use shards::Shards;
pub use spec::{MeasureConfig, OnDeadlock, SampleConfig, Spec, StopConfig};
pub use standstill::Circle;
pub use tally::Tally;
pub use wiring::{DmaInfo, QpInfo, Role, Wire, Wiring};

use crate::collective::{Executor, Output};
use crate::counters::DropReason;
use crate::ids::PortId;
use crate::nic::{Dma, Nic, Receiver, Senders};
use crate::note::{Note, Notes};
use crate::packet::{Kind, Packet};
use crate::port::Port;
use crate::probe::Probe;
use crate::switch::{Classifier, Mmu, Pipeline, PipelineCounters, PortWred, Switch};
use open::Opener;
use standstill::{Standing, Standstill};
use ways::Ways;
use wiring::SharedWiring;

/// The components of one shard. Vectors are dense over the whole fabric; only what belongs to
/// this shard is used.
#[derive(Debug)]
pub struct Fabric<P: Probe = ()> {
    pub(crate) wiring: SharedWiring,
    pub(crate) shard: u16,
    /// Memory is worth looking ahead for.
    pub(crate) large: bool,
    /// Preamble and gap, in bytes.
    pub(crate) gap: u64,
    pub(crate) ports: Vec<Port>,
    pub(crate) switches: Vec<Switch>,
    /// Of all switches, slice by slice.
    pub(crate) mmus: Vec<Mmu>,
    /// Of all switches that forward so many frames a second and no more.
    pub(crate) pipelines: Vec<Pipeline>,
    /// There are some.
    pub(crate) limited: bool,
    /// What ports classify and mark by; equal ones stand here once.
    pub(crate) classifiers: Vec<Classifier>,
    pub(crate) wreds: Vec<PortWred>,
    pub(crate) ways: Ways,
    /// What frames carry beside their headers,
    pub(crate) notes: Notes,
    /// and what ports remember of it; empty if none does.
    pub(crate) smoothed: Vec<notes::Smoothed>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) dmas: Vec<Dma>,
    /// By node: the hosts that run collectives, and when their live event fires.
    pub(crate) executors: Vec<Option<Executor>>,
    pub(crate) host_at: Vec<Time>,
    /// Scratch.
    pub(crate) outputs: Vec<Output>,
    pub(crate) senders: Senders,
    /// What they are made of.
    pub(crate) opener: Opener,
    pub(crate) receivers: Vec<Receiver>,
    /// By flow: how many others it still waits for; empty if none does.
    pub(crate) waits_for: Vec<u32>,
    pub(crate) tally: Tally,
    /// Queues that are paused and have not moved.
    pub(crate) standing: Standing,
    pub(crate) samples: Vec<Sample>,
    /// Time between two of them by now.
    pub(crate) sample_every: Delta,
    /// Who paused whom.
    pub(crate) pauses: PauseLog,
    /// Queue integrals at the start of the measured window, by port and priority.
    pub(crate) integrals: [Option<Vec<[u128; 8]>>; 2],
    pub(crate) probe: P,
}

/// What shards tell each other at the edge of a window.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Sums.
    pub tally: Tally,
    /// What stood still at the last look, if anything.
    pub(crate) standstill: Option<Arc<Standstill>>,
}

/// A frame for a port of another shard, and its note.
#[derive(Clone, Debug)]
pub struct Crossing {
    port: u32,
    arrival: Time,
    packet: Packet,
    note: Option<Box<Note>>,
}

pub(crate) type Queue = Agenda<Event, Crossing>;

impl<P: Probe> Model for Fabric<P> {
    type Event = Event;
    type Message = Crossing;
    type Status = Status;

    #[inline(always)]
    fn handle(&mut self, event: Event, agenda: &mut Queue) {
        // nearly all of them
        if let Event::Deliver(port) = event {
            return self.deliver(port, agenda);
        }
        match event {
            Event::Deliver(_) => {}
            Event::PfcApply(port) => self.pfc_apply(port, agenda),
            Event::PauseExpire(port) => self.pause_expire(port, agenda),
            Event::Depart(port) => self.depart(port, agenda),
            Event::PfcRefresh(port) => self.pfc_refresh(port, agenda),
            Event::Drain(port) => self.drain(port, agenda),
            Event::Timeout(port) => self.timeout(port, agenda),
            Event::FlowStart(port) => self.flow_start(port, agenda),
            Event::Host(node) => self.host_due(node, agenda),
            Event::Fault(change) => self.fault(change, agenda),
            Event::Watch(port) => self.watch_due(port, agenda),
            Event::PauseStorm(port) => self.pause_storm(port, agenda),
            Event::Pipeline(pipeline) => self.pipeline_due(pipeline, agenda),
        }
    }

    fn crowded(&self) -> bool {
        self.large
    }

    #[inline(always)]
    fn foresee(&self, event: Event, calls: usize) {
        match event {
            Event::Deliver(port) => self.foresee_delivery(port, calls),
            Event::Depart(port) => self.foresee_departure(port, calls),
            _ => {}
        }
    }

    fn due(crossing: &Crossing) -> Time {
        crossing.arrival
    }

    fn accept(&mut self, crossing: Crossing, agenda: &mut Queue) {
        let Crossing { port, arrival, mut packet, note } = crossing;
        if let Some(note) = note {
            packet.set_note(self.notes.add(*note));
        }
        if let Some(time) = self.ports[port as usize].rx.pipe.push(arrival, &packet) {
            agenda.at(time, Event::Deliver(port));
        }
    }

    fn global(&mut self, time: Time, agenda: &mut Queue) {
        self.settle(time, agenda);
        self.look_for_standstill(time);
        self.observe(time);
    }

    fn settle(&mut self, time: Time, agenda: &mut Queue) {
        for port in 0..self.ports.len() as u32 {
            if self.ports[port as usize].tx.lazy() {
                self.catch_up(port, time, agenda);
            }
        }
    }

    fn status(&self) -> Status {
        Status { tally: self.tally, standstill: self.standing.found.clone() }
    }
}

/// The classifier of NICs, which have none.
const NO_CLASSIFIER: u16 = u16::MAX;

impl<P: Probe> Fabric<P> {
    /// The MMUs of a switch, by index.
    pub(crate) fn mmus_of(&self, switch: usize) -> std::ops::Range<usize> {
        let first = |switch: usize| {
            self.switches.get(switch).map_or(self.mmus.len(), |switch| switch.first_mmu as usize)
        };
        first(switch)..first(switch + 1)
    }

    /// The pipelines of a switch with a limit of frames, by index.
    pub fn pipelines_of(&self, switch: usize) -> std::ops::Range<usize> {
        let Some(config) = self.switches[switch].pipeline else { return 0..0 };
        let first = self.switches[switch].first_pipeline as usize;
        first..first + config.count as usize
    }

    /// What a pipeline has counted.
    pub fn pipeline(&self, pipeline: usize) -> PipelineCounters {
        self.pipelines[pipeline].counters
    }

    /// Frames that have left a port.
    pub fn packet_hops(&self) -> u64 {
        self.tally.packet_hops
    }

    /// Payload delivered so far.
    pub fn delivered_bytes(&self) -> u64 {
        self.tally.delivered_bytes
    }

    /// The frame at the head of a port's pipe has arrived.
    #[inline(always)]
    fn deliver(&mut self, port: u32, agenda: &mut Queue) {
        let rx = &mut self.ports[port as usize].rx;
        let Some(&(mut packet)) = rx.pipe.next() else { return };
        let next = rx.pipe.advance();
        if let Some(next) = next {
            agenda.at(next, Event::Deliver(port));
        }
        let now = agenda.now();
        self.tally.last_activity = now;
        rx.bytes += u64::from(packet.len);
        let is_switch = rx.classifier != NO_CLASSIFIER;
        let lost = rx.pipe.loses(&packet);
        if next.is_none() {
            let peer = rx.peer;
            self.last_in_sight(peer, agenda);
        }
        if let Some(reason) = lost {
            return self.drop(now, port, &packet, reason, false);
        }
        self.probe.receive(now, PortId(port), &packet);
        if packet.kind == Kind::Pfc {
            self.pfc_arrives(port, &packet, agenda);
        } else if is_switch {
            if self.limited && self.waits_for_pipeline(port, &packet, agenda) {
                return;
            }
            self.arrive_at_switch(port, &mut packet, agenda);
        } else {
            self.arrive_at_nic(port, packet, agenda);
        }
    }

    /// Counts a frame that is dropped on its arrival at `port`.
    #[cold]
    fn drop(&mut self, now: Time, port: u32, packet: &Packet, reason: DropReason, lossless: bool) {
        self.tally.live -= 1;
        let counters = &mut self.ports[port as usize].aside.counters;
        counters.drops[reason as usize] += 1;
        counters.lossless_drops += u32::from(lossless);
        if packet.kind != Kind::Pfc {
            self.tally.dropped += 1;
            self.tally.dropped_bytes += u64::from(packet.len);
        }
        self.notes.free(packet.note());
        self.probe.dropped(now, PortId(port), packet, reason);
    }

    /// Something was queued at `port`: sends it at once if the port is idle.
    #[inline]
    pub(crate) fn kick(&mut self, port: u32, agenda: &mut Queue) {
        let busy_until = self.ports[port as usize].tx.busy_until;
        if agenda.now() > busy_until {
            self.send_next(port, agenda.now(), agenda);
        } else {
            self.look_after(port, agenda);
        }
    }

    /// Makes sure that `port` looks for something to send at `time`, or earlier.
    #[inline]
    pub(crate) fn wake(&mut self, port: u32, time: Time, agenda: &mut Queue) {
        let tx = &mut self.ports[port as usize].tx;
        if time < tx.wake_at {
            tx.wake_at = time;
            agenda.at(time, Event::Depart(port));
        }
    }

    #[inline]
    fn depart(&mut self, port: u32, agenda: &mut Queue) {
        let tx = &mut self.ports[port as usize].tx;
        let now = agenda.now();
        if tx.wake_at != now {
            return;
        }
        tx.wake_at = Time::MAX;
        if now < tx.busy_until {
            return self.look_after(port, agenda);
        }
        self.send_next(port, now, agenda);
    }

    /// Sends the next frame of a port that is idle at `start`, if there is one.
    #[inline(always)]
    fn send_next(&mut self, port: u32, start: Time, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        if state.pfc_waits()
            && let Some((priority, quanta)) = state.pop_pfc()
        {
            return self.send_pfc(port, priority, quanta, start, agenda);
        }
        if state.rx.classifier != NO_CLASSIFIER {
            self.send_from_switch(port, start, agenda);
        } else {
            self.send_from_nic(port, agenda);
        }
    }

    /// Puts a frame on the wire.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, port: u32, packet: &Packet, now: Time, agenda: &mut Queue) {
        let wire_len = u64::from(packet.len) + self.gap;
        let Port { tx, aside, .. } = &mut self.ports[port as usize];
        let time = match tx.ps_per_byte {
            0 => aside.clock.time(wire_len),
            ps => Delta::from_ps(wire_len * u64::from(ps)),
        };
        tx.busy_until = now + time;
        tx.bytes += u64::from(packet.len);
        tx.packets += 1;
        self.tally.packet_hops += 1;
        if packet.kind != Kind::Pfc {
            self.tally.last_progress = self.tally.last_progress.max(now);
        }
        let arrival = tx.busy_until + tx.arrival_delay;
        let peer = tx.peer;
        let special = tx.is_special();
        self.probe.transmit(now, PortId(port), packet);
        if special {
            return self.arrives_specially(port, packet, now, agenda);
        }
        if let Some(time) = self.ports[peer as usize].rx.pipe.push(arrival, packet) {
            agenda.at(time, Event::Deliver(peer));
        }
    }

    /// A frame that `port` began to send at `now` goes to another shard, or to a switch that cuts
    /// through.
    #[inline(never)]
    fn arrives_specially(&mut self, port: u32, packet: &Packet, now: Time, agenda: &mut Queue) {
        let Port { tx, aside, .. } = &self.ports[port as usize];
        let seen = match tx.cuts() {
            true => now + aside.head_time(u64::from(packet.len) + self.gap),
            false => tx.busy_until,
        };
        let (arrival, peer) = (seen + tx.arrival_delay, tx.peer);
        if tx.crosses() {
            let note = self.notes.take(packet.note());
            let crossing = Crossing { port: peer, arrival, packet: *packet, note };
            agenda.send(usize::from(self.wiring.wires[port as usize].peer_shard), crossing);
        } else if let Some(time) = self.ports[peer as usize].rx.pipe.push(arrival, packet) {
            agenda.at(time, Event::Deliver(peer));
        }
    }

    /// Sends a PFC frame; anything else that waits goes after it.
    #[inline(never)]
    fn send_pfc(&mut self, port: u32, priority: u8, quanta: u16, start: Time, agenda: &mut Queue) {
        let mut packet = Packet::new(Kind::Pfc, 0, 0, self.wiring.frames.pfc);
        packet.queue = priority;
        packet.arg = quanta;
        let counters = &mut self.ports[port as usize].aside.counters;
        if quanta > 0 {
            counters.tx_pause[usize::from(priority)] += 1;
        } else {
            counters.tx_resume[usize::from(priority)] += 1;
        }
        self.transmit(port, &packet, start, agenda);
        let tx = &self.ports[port as usize].tx;
        if !tx.lazy() || tx.has_next() {
            self.look_after(port, agenda);
        }
    }

    /// XOFF begins at `port` for `priority`, towards upstream.
    pub(crate) fn assert_xoff(
        &mut self,
        port: u32,
        priority: u8,
        cause: Cause,
        agenda: &mut Queue,
    ) {
        self.pauses.note(agenda.now(), port, priority, What::Xoff(cause));
        self.count_xoff(port, 1);
        let state = &self.ports[port as usize];
        if state.aside.silent & (1 << priority) == 0 {
            self.send_xoff(port, priority, agenda);
        }
    }

    /// Sends XOFF, and repeats it.
    fn send_xoff(&mut self, port: u32, priority: u8, agenda: &mut Queue) {
        let quanta = self.xoff_quanta(port);
        let state = &mut self.ports[port as usize];
        state.aside.pfc.xoff(agenda.now(), priority);
        state.push_pfc(priority, quanta);
        self.tally.live += 1;
        self.watch_refresh(port, agenda);
        self.kick(port, agenda);
    }

    /// XOFF ends at `port` for `priority`.
    pub(crate) fn release_xoff(&mut self, port: u32, priority: u8, agenda: &mut Queue) {
        self.count_xoff(port, -1);
        let state = &self.ports[port as usize];
        if state.aside.silent & (1 << priority) == 0 {
            self.send_xon(port, priority, agenda);
        }
    }

    /// Sends XON.
    fn send_xon(&mut self, port: u32, priority: u8, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize];
        state.aside.pfc.xon(priority);
        state.push_pfc(priority, 0);
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
        let state = &mut self.ports[port as usize].aside;
        let next = state.pfc.next_refresh();
        if next < state.refresh_at {
            state.refresh_at = next;
            agenda.at(next, Event::PfcRefresh(port));
        }
    }

    fn pfc_refresh(&mut self, port: u32, agenda: &mut Queue) {
        let quanta = self.xoff_quanta(port);
        let state = &mut self.ports[port as usize];
        if state.aside.refresh_at != agenda.now() {
            return;
        }
        state.aside.refresh_at = Time::MAX;
        let due = state.aside.pfc.refresh(agenda.now());
        for priority in (0..8).filter(|priority| due & (1 << priority) != 0) {
            state.push_pfc(priority, quanta);
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
        let state = &mut self.ports[port as usize].aside;
        if packet.arg > 0 {
            state.counters.rx_pause[usize::from(packet.queue)] += 1;
        }
        let effective = agenda.now() + wire.pfc_response;
        state.pfc_in.push((effective, packet.queue, packet.arg));
        if wire.pfc_response.is_zero() {
            self.pfc_apply(port, agenda);
        } else if state.pfc_in.len() == 1 {
            agenda.at(effective, Event::PfcApply(port));
        }
    }

    fn pfc_apply(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let state = &mut self.ports[port as usize].aside;
        let Some((_, priority, quanta)) = state.pfc_in.pop() else { return };
        self.tally.live -= 1;
        if let Some((next, ..)) = state.pfc_in.front() {
            agenda.at(*next, Event::PfcApply(port));
        }
        let wire = &self.wiring.wires[port as usize];
        let Some(queue) = self.obeyed_queue(wire, priority) else { return };
        let until = match (quanta, wire.pfc_quanta) {
            (0, _) => now,
            (_, 0) => Time::MAX,
            (quanta, _) => now + self.ports[port as usize].aside.clock.quanta(quanta),
        };
        self.catch_up_switch_port(port, agenda);
        self.tally.live += self.change_pause(port, now, |pause| pause.apply(now, queue, until));
        self.watch_expiry(port, agenda);
        self.watch_pauses(port, agenda);
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
        let state = &mut self.ports[port as usize].aside;
        let next = state.pause.next_expiry();
        if next < state.expire_at {
            state.expire_at = next;
            agenda.at(next, Event::PauseExpire(port));
        }
    }

    fn pause_expire(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let state = &mut self.ports[port as usize];
        if state.aside.expire_at != now {
            return;
        }
        state.aside.expire_at = Time::MAX;
        self.catch_up_switch_port(port, agenda);
        let more = self.change_pause(port, now, |pause| pause.expire(now));
        self.watch_expiry(port, agenda);
        if more < 0 {
            self.tally.live += more;
            self.tally.last_activity = now;
            self.kick(port, agenda);
        }
    }
}
