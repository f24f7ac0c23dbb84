//! Runs a plan from start to end.

use sim_core::{Delta, Engine, Stop, Time};

use super::build::Plan;
use super::conduct::{StopReason, Timeline};
use super::{Circle, Fabric, Role, Tally};
use crate::collective::{Link, Program};
use crate::error::BuildError;
use crate::ids::NodeId;
use crate::packet::Kind;
use crate::probe::Probe;
use crate::script::Player;

/// What the owner of a run sees from time to time.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// Simulated time reached.
    pub now: Time,
    /// Events handled.
    pub events: u64,
    /// Totals so far.
    pub tally: Tally,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Outcome<P: Probe = ()> {
    /// All components, merged from all shards.
    pub fabric: Fabric<P>,
    /// The observers of the shards.
    pub probes: Vec<P>,
    /// Why it ended.
    pub reason: StopReason,
    /// Simulated time at the end.
    pub end: Time,
    /// Events handled.
    pub events: u64,
    /// Circles of paused queues that stood still while the run went on.
    pub circles: Vec<Circle>,
}

/// Runs `plan`; `owner` is asked now and then whether to go on.
pub fn run(
    plan: &Plan,
    mut owner: impl FnMut(&Running) -> bool + Send,
) -> Result<Outcome, BuildError> {
    // no type is left open here, so that the hot path is compiled in this crate, whole
    run_unwatched(plan, &mut owner)
}

fn run_unwatched(plan: &Plan, owner: Owner<'_>) -> Result<Outcome, BuildError> {
    run_watched(plan, owner)
}

/// Who is asked now and then whether to go on.
pub type Owner<'a> = &'a mut (dyn FnMut(&Running) -> bool + Send);

/// The same, with an observer of each frame.
pub fn run_watched<P: Probe>(plan: &Plan, owner: Owner<'_>) -> Result<Outcome<P>, BuildError> {
    run_probed(plan, (0..plan.shards).map(|_| P::default()).collect(), owner)
}

/// The same, with the observers of all shards, which may know what they look for.
pub fn run_probed<P: Probe>(
    plan: &Plan,
    probes: Vec<P>,
    owner: Owner<'_>,
) -> Result<Outcome<P>, BuildError> {
    let with = |(shard, probe): (usize, P)| {
        plan.build::<P>(shard).map(|fabric| Fabric { probe, ..fabric })
    };
    let shards = probes.into_iter().enumerate().map(with).collect::<Result<Vec<_>, _>>()?;
    debug_assert!(shards.len() == plan.shards, "each shard has its observer");
    let mut engine = Engine::new(shards, plan.lookahead());
    engine.plant(|fabric, agenda| fabric.plant(agenda));
    let timeline = Timeline::new(plan);
    let (stop, timeline) = engine.run(&timeline, |control| {
        owner(&Running { now: control.now, events: control.events, tally: control.status.tally })
    });
    let events = engine.events();
    let mut shards = engine.into_models();
    let probes = shards.iter_mut().map(|shard| std::mem::take(&mut shard.probe)).collect();
    let mut shards = shards.into_iter();
    let Some(mut fabric) = shards.next() else { unreachable!("there is a shard") };
    shards.for_each(|shard| fabric.absorb(shard));
    let reason = match stop {
        Stop::Owner => StopReason::Owner,
        Stop::Conductor(code) => StopReason::from_code(code),
    };
    let end = timeline.end_of(reason, &fabric.tally);
    fabric.samples.retain(|sample| sample.time <= end);
    fabric.free_state();
    let circles = timeline.circles().to_vec();
    Ok(Outcome { fabric, probes, reason, end, events, circles })
}

impl<P: Probe> Outcome<P> {
    /// What it is without its observers, and these.
    pub fn unwatched(self) -> (Outcome, Vec<P>) {
        let Outcome { fabric, probes, reason, end, events, circles } = self;
        let fabric = fabric.unwatched();
        (Outcome { fabric, probes: Vec::new(), reason, end, events, circles }, probes)
    }

    /// Payload that a QP has delivered.
    pub fn delivered_bytes(&self, qp: usize) -> u64 {
        self.fabric.receivers[qp].delivered_bytes
    }

    /// When a QP has failed: its retries were used up.
    pub fn failed_at(&self, qp: usize) -> Option<Time> {
        self.finished_at(qp).filter(|_| self.has_failed(qp))
    }

    /// The local ACK timeout of a QP that has failed, and the time-outs without progress that it survived.
    pub fn retries(&self, qp: usize) -> (Delta, u8) {
        let failed = self.fabric.senders.record(qp).failed.as_ref();
        match &self.fabric.receivers[qp].read {
            Some(read) => read.retries(),
            None => failed.map_or((Delta::MAX, 0), |retries| **retries),
        }
    }

    /// When a QP had nothing more to do: acknowledged, read, or failed.
    pub fn finished_at(&self, qp: usize) -> Option<Time> {
        match &self.fabric.receivers[qp].read {
            Some(read) => read.finished_at,
            None => self.fabric.senders.record(qp).finished_at(),
        }
    }

    /// A QP is in the error state.
    pub fn has_failed(&self, qp: usize) -> bool {
        match &self.fabric.receivers[qp].read {
            Some(read) => read.failed,
            None => self.fabric.senders.record(qp).failed.is_some(),
        }
    }

    /// Number of samples taken.
    pub fn samples(&self) -> usize {
        self.fabric.samples.len()
    }

    /// Everything that must hold at the end of every run; each text is a bug.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = Vec::new();
        let tally = &self.fabric.tally;
        let on_cables = || {
            let frames = self.fabric.ports.iter().flat_map(|port| port.rx.pipe.frames());
            frames.filter(|packet| packet.kind != Kind::Pfc)
        };
        let switch_ports = || {
            let wires = self.fabric.wiring.wires.iter().zip(&self.fabric.ports);
            wires.filter(|(wire, _)| wire.is_switch)
        };
        let buffered = || {
            let buffers = self.fabric.nics.iter().filter_map(|nic| nic.receive.as_ref());
            buffers.flat_map(|buffer| buffer.packets())
        };
        let queued = || switch_ports().flat_map(|(_, p)| p.queues.iter()).flat_map(|q| q.packets());
        let waiting = || self.fabric.pipelines.iter().flat_map(|pipeline| pipeline.packets());
        let in_flight = || on_cables().chain(queued()).chain(buffered()).chain(waiting());
        let frames = in_flight().count() as u64;
        let bytes: u64 = in_flight().map(|packet| u64::from(packet.len)).sum();
        let accounted = tally.arrived + tally.dropped + frames;
        let accounted_bytes = tally.arrived_bytes + tally.dropped_bytes + bytes;
        if (tally.injected, tally.injected_bytes) != (accounted, accounted_bytes) {
            violations.push(format!(
                "{} frames ({} B) entered the network; {} arrived, {} were dropped, {frames} are \
                 in flight ({accounted_bytes} B in all)",
                tally.injected, tally.injected_bytes, tally.arrived, tally.dropped
            ));
        }
        let of_ports = || {
            let all = self.fabric.ports.iter().flat_map(|port| port.queues.iter());
            all.flat_map(|queue| queue.packets())
        };
        let elsewhere = on_cables().chain(buffered()).chain(waiting());
        let noted = of_ports().chain(elsewhere).filter(|packet| packet.has_note()).count();
        if noted != self.fabric.notes.in_use() {
            let in_use = self.fabric.notes.in_use();
            violations.push(format!("{noted} frames have notes, and {in_use} notes are in use"));
        }
        if tally.held != queued().count() as u64 {
            let found = queued().count();
            violations.push(format!("switches hold {found} frames, {} are counted", tally.held));
        }
        let mut holds = vec![false; self.fabric.switches.len()];
        for (wire, _) in switch_ports().filter(|(_, port)| port.nonempty() != 0) {
            holds[wire.owner as usize] = true;
        }
        for (index, holds) in holds.into_iter().enumerate() {
            let mut mmus = self.fabric.mmus_of(index);
            if !holds && !mmus.all(|mmu| self.fabric.mmus[mmu].is_empty()) {
                violations.push(format!("switch {index} is drained, but its MMU is not empty"));
            }
        }
        for (qp, info) in self.fabric.wiring.qps.iter().enumerate() {
            let receiver = &self.fabric.receivers[qp];
            let complete = self.finished_at(qp).is_some() && !self.has_failed(qp);
            let Some(bytes) = info.bytes else { continue };
            if receiver.delivered_bytes > bytes || (complete && receiver.delivered_bytes != bytes) {
                let delivered = receiver.delivered_bytes;
                violations.push(format!("a flow of {bytes} B delivered {delivered} B"));
            }
        }
        for job in 0..self.fabric.wiring.jobs.len() as u32 {
            violations.extend(self.collective_violations(job));
        }
        violations
    }

    /// True if all ranks of a collective have finished.
    pub fn finished(&self, job: u32) -> bool {
        let executors = &self.fabric.executors;
        let done = |host: &NodeId| {
            executors[host.index()].as_ref().is_some_and(|executor| executor.finished(job))
        };
        self.fabric.wiring.jobs[job as usize].hosts().iter().all(done)
    }

    /// By rank of a workload: what it has done.
    pub fn players(&self, workload: u32) -> Vec<&Player> {
        let planned = &self.fabric.wiring.workloads[workload as usize];
        let mut hosts: Vec<NodeId> = planned.ranks.iter().map(|rank| rank.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let executors =
            hosts.iter().filter_map(|host| self.fabric.executors[host.index()].as_ref());
        let mut players: Vec<(u32, &Player)> =
            executors.flat_map(|executor| executor.players(workload)).collect();
        players.sort_by_key(|(rank, _)| *rank);
        players.into_iter().map(|(_, player)| player).collect()
    }

    /// By rank of a collective whose programs are cut: when it was at each of their marks.
    pub fn marks(&self, job: u32) -> Vec<&[Time]> {
        let hosts = self.fabric.wiring.jobs[job as usize].hosts();
        let executors =
            hosts.iter().filter_map(|host| self.fabric.executors[host.index()].as_ref());
        executors.flat_map(|executor| executor.marks(job)).map(Vec::as_slice).collect()
    }

    /// A collective that has ended has carried what its programs send over each connection.
    fn collective_violations(&self, number: u32) -> Vec<String> {
        if !self.finished(number) {
            return Vec::new();
        }
        let wiring = &self.fabric.wiring;
        let job = &wiring.jobs[number as usize];
        let mut delivered = vec![0; job.connections.len()];
        for (qp, info) in wiring.qps.iter().enumerate() {
            if let Role::Data { job, connection } = info.role
                && job == number
            {
                delivered[connection as usize] += self.delivered_bytes(qp);
            }
        }
        let mut violations = Vec::new();
        for (index, connection) in job.connections.iter().enumerate() {
            if matches!(connection.link, Link::Local) {
                continue;
            }
            let sent = |program: &Program| -> u64 {
                (0..program.len())
                    .map(|step| program.step(step))
                    .filter(|primitive| primitive.send.contains(connection.peers[0]))
                    .map(|primitive| {
                        let slices = 0..program.slices();
                        let slice = |number| {
                            program.slice(primitive.sent().bytes, number, job.buffers.slot)
                        };
                        slices.map(|number| job.protocol().wire(slice(number))).sum::<u64>()
                    })
                    .sum()
            };
            let programs = job.programs(connection.lanes[0], connection.positions[0]);
            let times = job.at_sizes().map(|(_, times)| u64::from(times));
            let sizes = programs.iter().zip(times);
            let expected: u64 =
                sizes.map(|(program, times)| program.as_ref().map_or(0, sent) * times).sum();
            if delivered[index] != expected {
                violations.push(format!(
                    "channel {} from rank {} to rank {} carried {} B of {expected} B",
                    connection.channel, connection.from, connection.to, delivered[index]
                ));
            }
        }
        violations
    }
}
