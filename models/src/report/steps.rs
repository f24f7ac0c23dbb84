//! What lanes of collectives did, step by step and message by message: what a trace shows.

use std::collections::BTreeMap;
use std::ops::Range;

use sim_core::Time;

use crate::collective::{Job, LaneNotes, Link, Noted, Primitive};
use crate::fabric::{Outcome, Plan};
use crate::ids::NodeId;
use crate::probe::Probe;
use crate::report::Name;

/// What lanes did, and how they are joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// What was to be noted.
    pub noted: Noted,
    /// By collective, rank and lane.
    pub lanes: Vec<LaneSteps>,
    /// What was handed from step to step, by the time at which the sender began.
    pub arrows: Vec<Arrow>,
    /// By QP: messages, in the order in which they were posted.
    pub messages: Vec<QpMessages>,
}

/// A lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneSteps {
    /// Number of the collective.
    pub collective: u32,
    /// Rank,
    pub rank: u32,
    /// its host,
    pub host: Name,
    /// and its GPU there.
    pub gpu: u32,
    /// Channel.
    pub channel: u32,
    /// Lane.
    pub lane: u32,
    /// Begin and end of each repetition.
    pub repetitions: Vec<[Option<Time>; 2]>,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// A step of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The repetition, from 0,
    pub repetition: u32,
    /// and the step in it, from 0.
    pub step: u64,
    /// What it does, in NCCL's words: `recvReduceSend`.
    pub what: &'static str,
    /// Its chunk.
    pub bytes: u64,
    /// When its first slice was taken.
    pub begin: Time,
    /// When its last slice had been handled; absent if it was not.
    pub end: Option<Time>,
}

/// A chunk that one step hands to another: numbers of lanes and of steps in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// The lane and the step that send it,
    pub from: [u32; 2],
    /// and those that receive it.
    pub to: [u32; 2],
    /// It goes over NVLink.
    pub local: bool,
}

/// The messages of a QP.
#[derive(Clone, Debug, PartialEq)]
pub struct QpMessages {
    /// Its number.
    pub qp: u32,
    /// Sending host,
    pub source: Name,
    /// and receiving one.
    pub target: Name,
    /// When each was posted, and had come; their payload.
    pub messages: Vec<(Time, Option<Time>, u64)>,
}

impl Plan {
    /// Makes collectives note the steps of `ranks`, from the first on while there is room for
    /// `most` steps; where the first alone has more, the beginning of its lanes.
    pub fn note_steps(&mut self, ranks: &Range<u32>, most: u64) {
        let mut noted = Noted { most, ..Noted::default() };
        let mut left = most;
        let wiring = self.wiring.clone();
        for (number, job) in (0..).zip(&wiring.jobs).filter(|(_, job)| job.called.is_none()) {
            let steps = steps_of_ranks(job);
            for rank in ranks.start..ranks.end.min(job.ranks.len() as u32) {
                let host = job.ranks[rank as usize].host;
                let (all, lanes) = steps[rank as usize];
                noted.of_ranks += 1;
                noted.steps += all;
                let first = noted.ranks == 0;
                if all > left && !first {
                    left = 0;
                    continue;
                }
                let Some(executor) = &mut self.executors[host.index()] else { continue };
                let each = if all > left { left / lanes.max(1) } else { all };
                let each = u32::try_from(each).unwrap_or(u32::MAX);
                executor.take_notes(number, rank, each, each.saturating_mul(2));
                left = left.saturating_sub(all);
                noted.ranks += 1;
            }
        }
        self.noted = noted;
    }
}

/// By rank: the steps of all its lanes and repetitions, and how many lanes it has.
fn steps_of_ranks(job: &Job) -> Vec<(u64, u64)> {
    let mut steps = vec![(0, 0); job.ranks.len()];
    for (lane, ranks) in (0..).zip(&job.lanes) {
        for (position, rank) in (0..).zip(ranks.iter()) {
            let of_rank = &mut steps[*rank as usize];
            of_rank.0 += job.program(lane, position).len() * u64::from(job.repeats()[0]);
            of_rank.1 += 1;
        }
    }
    steps
}

/// What was noted in a run.
pub fn steps<P: Probe>(outcome: &Outcome<P>, plan: &Plan) -> Steps {
    let mut all = Steps { noted: plan.noted, ..Steps::default() };
    if plan.noted.ranks == 0 {
        return all;
    }
    let mut posted: BTreeMap<u32, Vec<(Time, Option<Time>, u64)>> = BTreeMap::new();
    let mut came: BTreeMap<u32, Vec<Time>> = BTreeMap::new();
    for (number, job) in (0..).zip(&plan.wiring.jobs) {
        let first = all.lanes.len();
        for host in job.hosts() {
            let Some(executor) = &outcome.fabric.executors[host.index()] else { continue };
            let spans: BTreeMap<_, _> = executor
                .spans(number)
                .map(|(info, spans)| ((info.rank, info.lane), spans))
                .collect();
            let name = Name::from(plan.wiring.topology.node(host).name.as_str());
            for (info, notes) in executor.notes(number) {
                for message in &notes.posted {
                    let messages = posted.entry(message.qp).or_default();
                    messages.push((message.at, None, message.bytes));
                }
                for (qp, at) in &notes.came {
                    came.entry(*qp).or_default().push(*at);
                }
                let ended = |time: Time| (time < Time::MAX).then_some(time);
                let repetitions = spans.get(&(info.rank, info.lane)).copied().unwrap_or_default();
                let repetitions =
                    repetitions.iter().map(|span| [ended(span.begin), ended(span.end)]);
                all.lanes.push(LaneSteps {
                    collective: number,
                    rank: info.rank,
                    host: name.clone(),
                    gpu: info.gpu,
                    channel: job.block(info.lane) / job.groups(),
                    lane: info.lane,
                    repetitions: repetitions.collect(),
                    steps: steps_of(job, info.lane, info.rank, notes),
                });
            }
        }
        all.lanes[first..].sort_by_key(|lane| (lane.rank, lane.lane));
        add_arrows(job, first, &mut all);
    }
    let lanes = &all.lanes;
    let begin = |[lane, step]: [u32; 2]| lanes[lane as usize].steps[step as usize].begin;
    all.arrows.sort_by_cached_key(|arrow| (begin(arrow.from), arrow.from, arrow.to));
    for (qp, mut messages) in posted {
        for (message, at) in messages.iter_mut().zip(came.get(&qp).into_iter().flatten()) {
            message.1 = Some(*at);
        }
        let info = &plan.wiring.qps[qp as usize];
        let name = |node: u32| plan.wiring.topology.node(NodeId(node)).name.as_str().into();
        let (source, target) = (name(info.source), name(info.target));
        all.messages.push(QpMessages { qp, source, target, messages });
    }
    all
}

fn steps_of(job: &Job, lane: u32, rank: u32, notes: &LaneNotes) -> Vec<Step> {
    let place = job.lanes[lane as usize].iter().position(|of_lane| *of_lane == rank);
    let Some(place) = place else { return Vec::new() };
    let program = job.program(lane, place as u32);
    let step = |span: &crate::collective::StepSpan| {
        let primitive = program.step(span.step);
        Step {
            repetition: span.repetition,
            step: span.step,
            what: what(&primitive),
            bytes: primitive.bytes.max(primitive.sent().bytes),
            begin: span.begin,
            end: (span.end < Time::MAX).then_some(span.end),
        }
    };
    notes.steps.iter().map(step).collect()
}

/// NCCL's name of a primitive (`src/device/primitives.h`).
fn what(primitive: &Primitive) -> &'static str {
    let Primitive { recv, reduce, copy, send, multicast, .. } = primitive;
    match (recv.any(), *reduce, *copy, send.any()) {
        _ if *multicast => "multicast",
        (true, true, true, true) => "recvReduceCopySend",
        (true, true, false, true) => "recvReduceSend",
        (true, true, _, false) => "recvReduceCopy",
        (true, false, true, true) => "recvCopySend",
        (true, false, _, false) => "recv",
        (true, false, false, true) => "recvSend",
        (false, _, true, true) => "copySend",
        (false, _, false, true) => "send",
        (false, true, _, false) => "reduce",
        (false, false, _, false) => "copy",
    }
}

/// Pairs what the lanes of a job, from number `first` on, have sent and received.
fn add_arrows(job: &Job, first: usize, all: &mut Steps) {
    let lanes = (first as u32..).zip(&all.lanes[first..]);
    let lanes: BTreeMap<(u32, u32), u32> =
        lanes.map(|(number, lane)| ((lane.lane, lane.rank), number)).collect();
    let mut arrows = Vec::new();
    for connection in &job.connections {
        let ends = [(connection.lanes[0], connection.from), (connection.lanes[1], connection.to)];
        let [Some(from), Some(to)] = ends.map(|end| lanes.get(&end).copied()) else { continue };
        let program = |side: usize| job.program(connection.lanes[side], connection.positions[side]);
        let (sender, receiver) = (program(0), program(1));
        let [sends, receives] = connection.peers;
        let of = |lane: u32, mine: &dyn Fn(&Step) -> bool| -> Vec<u32> {
            let steps = (0..).zip(&all.lanes[lane as usize].steps);
            steps.filter(|(_, step)| mine(step)).map(|(number, _)| number).collect()
        };
        let sent = of(from, &|step| sender.step(step.step).send.contains(sends));
        let received = of(to, &|step| receiver.step(step.step).recv.contains(receives));
        let local = matches!(connection.link, Link::Local);
        let pairs = sent.into_iter().zip(received);
        arrows.extend(pairs.map(|(send, recv)| Arrow {
            from: [from, send],
            to: [to, recv],
            local,
        }));
    }
    all.arrows.append(&mut arrows);
}
