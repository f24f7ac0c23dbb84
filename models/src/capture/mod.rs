//! Captures: what leaves and reaches ports, as real frames in files that other tools open.
//!
//! [`Tap`] is a [`Probe`]; a fabric that is built without one knows nothing of captures. It needs all
//! frames of a run in the order of time, so a run that is captured has one shard.

mod file;
mod frames;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use sim_core::{Delta, Time};

pub use file::{Direction, File, Format, Interface};

use crate::counters::DropReason;
use crate::fabric::{Plan, Wiring};
use crate::ids::PortId;
use crate::packet::Packet;
use crate::probe::Probe;
use crate::wire::FCS;
use frames::Framer;

/// Bytes kept of a frame unless less is wanted: all, as tcpdump has it.
pub const SNAPLEN: u32 = 0x4_0000;

/// A file to be written: which ports, and where to.
pub struct Target {
    /// The ports, of one node.
    pub ports: Vec<PortId>,
    /// Where it goes.
    pub out: Box<dyn Write + Send>,
    /// What it looks like.
    pub format: Format,
    /// Bytes kept of each frame.
    pub snaplen: u32,
}

/// What is in a file that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Frames.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames whose real headers are longer than what the simulation counts (`[wire]` of other
    /// simulators).
    pub longer: u64,
}

/// Writes captures while a fabric runs.
#[derive(Default)]
pub struct Tap {
    framer: Framer,
    recorders: Vec<Recorder>,
    /// By port: the files that it is in, and its number there.
    watched: Vec<Vec<(u32, u32)>>,
    /// By port: the latency of its device, after which a frame that has arrived is handled.
    latency: Vec<Delta>,
    /// By port: until a frame's end has come, if it is handled before (cut-through).
    wires: Option<std::sync::Arc<Wiring>>,
    frame: Vec<u8>,
}

/// One file.
struct Recorder {
    /// `Err` once it could not be written.
    file: io::Result<File<Box<dyn Write + Send>>>,
    /// The longest latency of its ports: frames that arrived are told of so late.
    lag: Delta,
    waiting: BinaryHeap<Reverse<Waiting>>,
    number: u64,
    captured: Captured,
}

/// A frame that is to be written when nothing earlier can come.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    time: Time,
    number: u64,
    interface: u32,
    arrives: bool,
    frame: Vec<u8>,
}

impl Tap {
    /// Begins all files.
    pub fn new(plan: &Plan, targets: Vec<Target>) -> Self {
        let wiring = &plan.wiring;
        let topology = &wiring.topology;
        let mut watched = vec![Vec::new(); topology.ports().len()];
        let latency = |port: usize| {
            let info = &topology.ports()[port];
            let peer = &wiring.wires[info.peer.index()];
            peer.arrival_delay.saturating_sub(info.delay)
        };
        let latency: Vec<Delta> = (0..topology.ports().len()).map(latency).collect();
        let record = |(number, target): (u32, Target)| {
            for (interface, port) in (0..).zip(&target.ports) {
                watched[port.index()].push((number, interface));
            }
            let interface = |port: &PortId| Interface {
                name: topology.port_name(*port),
                rate: topology.port(*port).rate,
            };
            let interfaces: Vec<Interface> = target.ports.iter().map(interface).collect();
            let lag = target.ports.iter().map(|port| latency[port.index()]).max();
            Recorder {
                file: File::begin(target.out, target.format, target.snaplen, &interfaces),
                lag: lag.unwrap_or(Delta::ZERO),
                waiting: BinaryHeap::new(),
                number: 0,
                captured: Captured::default(),
            }
        };
        let recorders = (0..).zip(targets).map(record).collect();
        Tap {
            framer: Framer::new(plan),
            recorders,
            watched,
            latency,
            wires: Some(plan.wiring.clone()),
            frame: Vec::new(),
        }
    }

    /// Writes what still waits; says of each file what is in it, or why it could not be written.
    pub fn end(self) -> Vec<io::Result<Captured>> {
        let end = |mut recorder: Recorder| {
            recorder.write_until(Time::MAX);
            recorder.file?.end()?;
            Ok(recorder.captured)
        };
        self.recorders.into_iter().map(end).collect()
    }

    fn is_watched(&self, port: PortId) -> bool {
        self.watched.get(port.index()).is_some_and(|files| !files.is_empty())
    }

    /// Keeps a frame of `port` that leaves or has arrived at `time`.
    fn keep(&mut self, now: Time, time: Time, port: PortId, way: Direction, packet: &Packet) {
        self.frame.clear();
        let sender = match (way, &self.wires) {
            (Direction::In, Some(wiring)) => wiring.topology.port(port).peer,
            _ => port,
        };
        self.framer.write(sender, now, packet, &mut self.frame);
        // the simulation may count more: a frame of the least length, telemetry
        let counted = usize::from(packet.len).saturating_sub(FCS);
        let longer = self.frame.len() > counted;
        self.frame.resize(self.frame.len().max(counted), 0);
        for (file, interface) in &self.watched[port.index()] {
            let recorder = &mut self.recorders[*file as usize];
            recorder.captured.frames += 1;
            recorder.captured.bytes += self.frame.len() as u64;
            recorder.captured.longer += u64::from(longer);
            recorder.number += 1;
            recorder.waiting.push(Reverse(Waiting {
                time,
                number: recorder.number,
                interface: *interface,
                arrives: way == Direction::In,
                frame: self.frame.clone(),
            }));
            recorder.write_until(Time::from_ps(now.ps().saturating_sub(recorder.lag.ps())));
        }
    }
}

impl Recorder {
    /// Writes all that came before `time`, or then.
    fn write_until(&mut self, time: Time) {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.time <= time) {
            let Some(Reverse(first)) = self.waiting.pop() else { return };
            let Ok(file) = &mut self.file else { continue };
            let direction = if first.arrives { Direction::In } else { Direction::Out };
            let written = file.frame(first.time, first.interface, direction, &first.frame);
            if let Err(error) = written {
                self.file = Err(error);
            }
        }
    }
}

impl Probe for Tap {
    fn post(&mut self, qp: u32, bytes: u64, mtu: u16) {
        self.framer.post(qp, bytes, mtu);
    }

    fn transmit(&mut self, now: Time, port: PortId, packet: &Packet) {
        self.framer.leaves(port, packet);
        if self.is_watched(port) {
            self.keep(now, now, port, Direction::Out, packet);
        }
    }

    fn receive(&mut self, now: Time, port: PortId, packet: &Packet) {
        if self.is_watched(port) {
            let time = self.arrived_at(now, port, packet);
            self.keep(now, time, port, Direction::In, packet);
        }
        self.framer.reaches(port, packet);
    }

    fn dropped(&mut self, _now: Time, _port: PortId, packet: &Packet, _reason: DropReason) {
        self.framer.is_gone(packet);
    }
}

impl Tap {
    /// When the last bit of a frame that is handled now has come.
    fn arrived_at(&self, now: Time, port: PortId, packet: &Packet) -> Time {
        let begun = Time::from_ps(now.ps().saturating_sub(self.latency[port.index()].ps()));
        let Some(wiring) = &self.wires else { return begun };
        let wire = &wiring.wires[wiring.topology.port(port).peer.index()];
        let len = wiring.frames.wire_len(packet.len);
        if wire.head == 0 || wire.head >= len {
            return begun;
        }
        // it was handled when its head had come
        begun + wire.clock.time(len).saturating_sub(wire.clock.time(wire.head))
    }
}
