//! Runs the programs of all lanes of one host: GPUs, NVLink, the way through host memory, and the
//! CPU threads (proxies) that drive the NICs. It knows no events: inputs are calls with `now`,
//! outputs are messages to post, and the deadline of what comes next.

mod notes;
mod scripts;
mod setup;
mod slices;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use sim_core::{Delta, Time};

pub use self::notes::{LaneNotes, Noted, Posted, StepSpan};
use super::comms::Calls;
use super::connection::{RecvEnd, SendEnd, Striping};
use super::program::{Primitive, Program};
use super::protocol::Protocol;
use crate::host::{HostConfig, ProtocolLatency};
use crate::script::{Act, Player, TaskId};

/// What never changes of a lane.
#[derive(Clone, Debug)]
pub struct LaneInfo {
    /// Its job.
    pub job: u32,
    /// Its rank within the job.
    pub rank: u32,
    /// Its number among those of the job.
    pub lane: u32,
    /// Its GPU.
    pub gpu: u32,
    /// What it does, once.
    pub program: Program,
    /// How often.
    pub repeats: u32,
    /// When the job starts.
    pub start: Time,
    /// Size of a buffer slot, and slots of each of its connections.
    pub slot: u64,
    /// See `slot`.
    pub slots: u64,
    /// How slices lie in the buffers.
    pub protocol: Protocol,
    /// Ranks of its job.
    pub ranks: u32,
    /// Channels of its job.
    pub channels: u32,
    /// So many lanes of a channel have warps of their own, and so that part of its rate.
    pub groups: u32,
    /// The thread block that it runs on, which others may share: see [`Executor::add_block`].
    pub block: u32,
    /// Of a communicator: what it does at each of its sizes, if anything. It begins when a script
    /// says so, and `start` does not count. Empty for collectives.
    pub sizes: Vec<Option<Program>>,
}

impl LaneInfo {
    /// What is written for slice `number` of a chunk of `bytes`.
    fn wire(&self, number: u64, bytes: u64) -> u64 {
        self.protocol.wire(self.program.slice(bytes, number, self.slot))
    }
}

/// The latencies of a protocol.
fn latency(config: &HostConfig, protocol: Protocol) -> ProtocolLatency {
    match protocol {
        Protocol::Ll => config.ll,
        Protocol::Ll128 => config.ll128,
        Protocol::Simple => ProtocolLatency {
            slice: config.slice_latency,
            nvlink: config.nvlink.latency,
            proxy: config.proxy_latency,
            rate: None,
        },
    }
}

/// How an end reaches the other one, on another host.
#[derive(Clone, Debug)]
pub struct Remote {
    /// How messages use the QPs.
    pub striping: Striping,
    /// The QPs of data.
    pub qps: Vec<u32>,
    /// The QPs of CTS messages.
    pub cts: Vec<u32>,
    /// NIC and GPU memory talk directly.
    pub gdr: bool,
    /// Of the PCIe path.
    pub pcie_latency: Delta,
    /// Data goes over NVLink to the GPU next to the NIC first (PXN).
    pub pxn: bool,
    /// A CPU thread copies it into and out of TCP sockets.
    pub sockets: bool,
}

/// The other end of a connection's end.
#[derive(Clone, Debug)]
enum Peer {
    /// Over NVLink: the end of that kind at the same host.
    Local(u32),
    /// Over QPs.
    Remote(Remote),
}

/// An end and what it belongs to.
#[derive(Clone, Debug)]
struct Attached<E> {
    end: E,
    lane: u32,
    peer: Peer,
}

/// What a lane is doing.
#[derive(Clone, Debug)]
struct Lane {
    info: LaneInfo,
    /// Its ends, by peer.
    recvs: Vec<u32>,
    sends: Vec<u32>,
    repeat: u32,
    /// Of a communicator: the size of the repetition at hand.
    size: u32,
    step: u64,
    slice: u64,
    /// The primitive at hand; `None` between repetitions.
    primitive: Option<Primitive>,
    /// It stays within the GPU.
    alone: bool,
    /// What it waits for beside its peers: steps of another lane.
    after: Option<(u32, u64)>,
    /// Lanes of the rank by the numbers of their blocks, if any wait for another,
    blocks: Vec<u32>,
    /// and those of them that wait for this one.
    followers: Vec<u32>,
    /// The next mark of the program.
    mark: u32,
    busy: bool,
    /// What it waits for, and since when: 0 a slice to come, 1 a slot to send by.
    blocked: Option<(usize, Time)>,
    /// Time that it has waited so.
    waited: [Delta; 2],
    /// By repetition that has begun: when, and how long it took.
    spans: Vec<Span>,
    /// What it does in detail, if that is asked for.
    notes: Option<Box<LaneNotes>>,
}

/// One repetition of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub begin: Time,
    /// When it was done; [`Time::MAX`] if it was not.
    pub end: Time,
    /// Time spent waiting for slices to come, and for slots to send by.
    pub waited: [Delta; 2],
}

impl Lane {
    /// Looks at the step that comes next.
    fn enter_step(&mut self) {
        let program = &self.info.program;
        self.primitive = (self.step < program.len()).then(|| program.step(self.step));
        if self.blocks.is_empty() {
            return;
        }
        self.alone = self.primitive.is_some() && program.alone(self.step);
        let after = self.primitive.and_then(|_| program.after(self.step));
        self.after = after.map(|after| (self.blocks[after.block as usize], after.steps));
    }
}

/// Something that happens at a host at a known time. The order decides ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    /// A repetition of this lane begins.
    Begin(u32),
    /// The lane has handled a slice.
    Handled(u32),
    /// A slice is ready for the lane of this receiving end.
    Arrive(u32),
    /// A slot of this sending end is free again.
    Free(u32),
    /// The proxy sees a slice in the send buffer of this sending end.
    Send(u32),
    /// The proxy sees a CTS for this sending end.
    Granted(u32),
    /// The proxy sees that a slot of this receiving end is empty.
    Grant(u32),
    /// This script begins, or a computation of it ends.
    Script(u32),
    /// A message of this line has come to its receiver,
    Came(u32),
    /// or had come before it was waited for;
    There(u32),
    /// one of this line is acknowledged.
    Sent(u32),
}

/// What the host wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A message for this QP.
    Post {
        /// The QP.
        qp: u32,
        /// Payload.
        bytes: u64,
    },
    /// A rank has finished all repetitions of its job, or of its script.
    RankDone,
}

/// A CTS: one element of NCCL's `ncclIbSendFifo`.
const CTS_BYTES: u64 = 64;

/// A job's ranks on this host.
#[derive(Clone, Debug, Default)]
struct JobState {
    /// By rank: lanes that are still busy with the repetition at hand.
    running: Vec<(u32, u32)>,
    /// As `running`.
    seats: Vec<Seat>,
    /// End of each repetition, over the ranks of this host.
    ends: Vec<Time>,
    /// As `running`: when the last lane of the rank was at each mark of its last repetition.
    marks: Vec<Vec<Time>>,
    /// Bytes that went over NVLink.
    nvlink_bytes: u64,
}

/// A rank of a job on this host.
#[derive(Clone, Debug)]
struct Seat {
    gpu: u32,
    lanes: Vec<u32>,
    /// The script and the task that its repetition belongs to.
    caller: Option<(u32, TaskId)>,
}

/// A rank of a workload.
#[derive(Clone, Debug)]
struct Scripted {
    workload: u32,
    rank: u32,
    gpu: u32,
    player: Player,
    calls: Arc<Calls>,
    /// Lines of the workload that begin here, and those that end here: their numbers, and the ends.
    lines: [Vec<(u32, u32)>; 2],
}

impl Scripted {
    /// The end of a line that begins (0) or ends (1) here.
    fn end(&self, side: usize, line: u32) -> u32 {
        let found = self.lines[side].iter().find(|(number, _)| *number == line);
        found.map_or(0, |(_, end)| *end)
    }
}

/// How a line's sender reaches its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a QP.
    Qp(u32),
    /// Over NVLink to the receiving end of this number, on the same host.
    Local(u32),
}

/// The sending end of a line.
#[derive(Clone, Debug)]
struct LineOut {
    script: u32,
    way: Way,
    /// Tasks whose messages are under way, the oldest first.
    pending: VecDeque<TaskId>,
}

/// The receiving end of a line.
#[derive(Clone, Debug)]
struct LineIn {
    script: u32,
    /// Messages that have come.
    arrived: u32,
    /// Those that are waited for: number and task.
    waiting: Vec<(u32, TaskId)>,
}

/// All lanes of one host.
#[derive(Clone, Debug)]
pub struct Executor {
    config: Arc<HostConfig>,
    lanes: Vec<Lane>,
    sends: Vec<Attached<SendEnd>>,
    recvs: Vec<Attached<RecvEnd>>,
    /// By thread block: when it is free.
    blocks: Vec<Time>,
    /// By GPU: when its NVLink egress is free,
    nvlink: Vec<Time>,
    /// By GPU: when the NVSwitch has done what it was asked to add up or hand out.
    nvls: Vec<Time>,
    /// and its ways to and from host memory.
    to_host: Vec<Time>,
    from_host: Vec<Time>,
    /// By GPU: when the thread that copies into and out of its sockets is free.
    sockets: Vec<Time>,
    jobs: Vec<JobState>,
    scripts: Vec<Scripted>,
    outs: Vec<LineOut>,
    ins: Vec<LineIn>,
    /// What a script wants to begin, for a moment.
    acts: Vec<Act>,
    agenda: BinaryHeap<Reverse<(Time, Action)>>,
}

impl Executor {
    fn latency_of(&self, lane: u32) -> ProtocolLatency {
        latency(&self.config, self.lanes[lane as usize].info.protocol)
    }

    /// When something happens next; [`Time::MAX`] for never.
    pub fn next_deadline(&self) -> Time {
        self.agenda.peek().map_or(Time::MAX, |Reverse((time, _))| *time)
    }

    /// Does all that is due at `now`; false if it had no effect, as what is left when all lanes are
    /// done.
    pub fn advance(&mut self, now: Time, out: &mut Vec<Output>) -> bool {
        let mut effect = false;
        while let Some(Reverse((time, action))) = self.agenda.peek().copied() {
            if time > now {
                break;
            }
            self.agenda.pop();
            use Action::{Begin, Came, Handled, Sent, There};
            effect |= matches!(
                action,
                Begin(_) | Handled(_) | Action::Script(_) | Came(_) | There(_) | Sent(_)
            );
            match action {
                Action::Begin(lane) => self.begin(now, lane, out),
                Action::Handled(lane) => self.handled(now, lane, out),
                Action::Arrive(recv) => {
                    let recv = &mut self.recvs[recv as usize];
                    recv.end.available += 1;
                    let lane = recv.lane;
                    self.try_slice(now, lane);
                }
                Action::Free(send) => {
                    let send = &mut self.sends[send as usize];
                    send.end.free += 1;
                    let lane = send.lane;
                    self.try_slice(now, lane);
                }
                Action::Send(send) => {
                    self.sends[send as usize].end.see_slice();
                    self.post(now, send, out);
                }
                Action::Granted(send) => {
                    self.sends[send as usize].end.see_grant();
                    self.post(now, send, out);
                }
                Action::Grant(recv) => {
                    self.recvs[recv as usize].end.consume();
                    self.post_cts(recv, out);
                }
                Action::Came(end) => {
                    self.ins[end as usize].arrived += 1;
                    self.receive(now, end, out);
                }
                Action::There(end) => self.receive(now, end, out),
                Action::Sent(end) => {
                    let LineOut { script, pending, .. } = &mut self.outs[end as usize];
                    let script = *script;
                    if let Some(task) = pending.pop_front() {
                        self.scripts[script as usize].player.finished(now, task, &mut self.acts);
                        self.act(now, script, out);
                    }
                }
                Action::Script(number) => {
                    let script = &mut self.scripts[number as usize];
                    script.player.due(now, &mut self.acts);
                    self.act(now, number, out);
                }
            }
        }
        effect || !out.is_empty()
    }

    /// A message of a receiving end has come by the QP at `index` of its connection.
    pub fn delivered(&mut self, now: Time, recv: u32, index: u32) {
        let Attached { end, peer, lane } = &mut self.recvs[recv as usize];
        let Peer::Remote(Remote { gdr, pcie_latency, qps, .. }) = peer else { return };
        if let Some(notes) = &mut self.lanes[*lane as usize].notes {
            notes.came(now, qps[index as usize]);
        }
        let protocol = self.lanes[*lane as usize].info.protocol;
        // flags tell that data has come, fences do not: only Simple flushes
        let way = match (*gdr, protocol) {
            (false, _) => self.config.host_memory.latency,
            (true, Protocol::Simple) => self.config.gdr_flush,
            (true, _) => Delta::ZERO,
        };
        let at = now + *pcie_latency + latency(&self.config, protocol).proxy + way;
        for _ in 0..end.arrived(index) {
            self.agenda.push(Reverse((at, Action::Arrive(recv))));
        }
    }

    /// A message of a sending end is acknowledged on the QP at `index` of its connection.
    pub fn acknowledged(&mut self, now: Time, send: u32, index: u32) {
        let at = now + self.latency_of(self.sends[send as usize].lane).proxy;
        for _ in 0..self.sends[send as usize].end.acknowledged(index) {
            self.agenda.push(Reverse((at, Action::Free(send))));
        }
    }

    /// A CTS has come for a sending end.
    pub fn granted(&mut self, now: Time, send: u32, index: u32) {
        let proxy = self.latency_of(self.sends[send as usize].lane).proxy;
        let Attached { end, peer, .. } = &mut self.sends[send as usize];
        let Peer::Remote(Remote { pcie_latency, .. }) = peer else { return };
        end.grant(index);
        let at = now + *pcie_latency + proxy;
        self.agenda.push(Reverse((at, Action::Granted(send))));
    }

    /// A repetition of a lane begins: its proxies grant what there is room for.
    fn begin(&mut self, now: Time, lane: u32, out: &mut Vec<Output>) {
        let state = &mut self.lanes[lane as usize];
        if !state.info.sizes.is_empty() {
            match &state.info.sizes[state.size as usize] {
                Some(program) => state.info.program = program.clone(),
                None => return self.lane_done(now, lane, out),
            }
        }
        (state.step, state.slice, state.mark) = (0, 0, 0);
        if state.info.sizes.is_empty() {
            // what it had waited before is taken off at its end
            state.spans.push(Span { begin: now, end: Time::MAX, waited: state.waited });
        }
        state.enter_step();
        let empty = state.primitive.is_none();
        for peer in 0..state.recvs.len() {
            let state = &self.lanes[lane as usize];
            let (recv, slices) = (state.recvs[peer], state.info.program.receives(peer as u32));
            let attached = &mut self.recvs[recv as usize];
            attached.end.expected += slices;
            if matches!(attached.peer, Peer::Remote(_)) {
                self.post_cts(recv, out);
            }
        }
        if empty {
            self.lane_done(now, lane, out);
        } else {
            self.try_slice(now, lane);
        }
    }

    /// A lane has come to marks of its program.
    fn note_marks(&mut self, now: Time, lane: u32) {
        let Lane { info, step, mark, .. } = &mut self.lanes[lane as usize];
        let job = &mut self.jobs[info.job as usize];
        let Some(rank) = job.running.iter().position(|(rank, _)| *rank == info.rank) else {
            return;
        };
        let times = &mut job.marks[rank];
        while info.program.mark(*mark).is_some_and(|at| at <= *step) {
            let number = *mark as usize;
            times.resize(times.len().max(number + 1), Time::ZERO);
            times[number] = now.max(times[number]);
            *mark += 1;
        }
    }

    /// A lane has finished a repetition; its rank goes on when all its lanes have.
    fn lane_done(&mut self, now: Time, lane: u32, out: &mut Vec<Output>) {
        let Lane { info, repeat, spans, waited, .. } = &mut self.lanes[lane as usize];
        if let Some(span) = spans.last_mut().filter(|span| span.end == Time::MAX) {
            span.end = now;
            span.waited = [0, 1].map(|reason| waited[reason].saturating_sub(span.waited[reason]));
        }
        let (of_job, of_rank, repeats, repeat) =
            (info.job, info.rank, info.repeats, std::mem::replace(repeat, *repeat + 1));
        let job = &mut self.jobs[of_job as usize];
        let end = &mut job.ends[repeat as usize];
        *end = now.max(*end);
        let Some(seat) = job.running.iter().position(|(rank, _)| *rank == of_rank) else { return };
        let left = &mut job.running[seat].1;
        *left -= 1;
        if *left > 0 {
            return;
        }
        if let Some((script, task)) = job.seats[seat].caller.take() {
            self.scripts[script as usize].player.finished(now, task, &mut self.acts);
            return self.act(now, script, out);
        }
        if repeat + 1 == repeats {
            return out.push(Output::RankDone);
        }
        self.begin_rank(now, of_job, seat);
    }

    /// Posts what is ready and granted.
    fn post(&mut self, now: Time, send: u32, out: &mut Vec<Output>) {
        let Attached { end, peer, lane } = &mut self.sends[send as usize];
        let Peer::Remote(Remote { qps, .. }) = peer else { return };
        let first = out.len();
        while let Some(parts) = end.post() {
            out.extend(parts.map(|(qp, bytes)| Output::Post { qp: qps[qp as usize], bytes }));
        }
        if let Some(notes) = &mut self.lanes[*lane as usize].notes {
            notes.posts(now, &out[first..]);
        }
    }

    /// Sends a CTS for every free slot.
    fn post_cts(&mut self, recv: u32, out: &mut Vec<Output>) {
        let Attached { end, peer, .. } = &mut self.recvs[recv as usize];
        let Peer::Remote(Remote { cts, .. }) = peer else { return };
        while let Some(qp) = end.post_cts() {
            out.push(Output::Post { qp: cts[qp as usize], bytes: CTS_BYTES });
        }
    }

    /// Time at which the last rank of this host finished each repetition of a job.
    pub fn ends(&self, job: u32) -> &[Time] {
        self.jobs.get(job as usize).map_or(&[], |job| &job.ends)
    }

    /// By rank of this host: when its last lane was at each mark of a job's program, in its last
    /// repetition; nothing where all of the program is run.
    pub fn marks(&self, job: u32) -> &[Vec<Time>] {
        self.jobs.get(job as usize).map_or(&[], |job| &job.marks)
    }

    /// The lanes of a job here, with what their repetitions took.
    pub fn spans(&self, job: u32) -> impl Iterator<Item = (&LaneInfo, &[Span])> {
        let lanes = self.lanes.iter().filter(move |lane| lane.info.job == job);
        lanes.map(|lane| (&lane.info, &lane.spans[..]))
    }

    /// Bytes of a job that went over NVLink here.
    pub fn nvlink_bytes(&self, job: u32) -> u64 {
        self.jobs.get(job as usize).map_or(0, |job| job.nvlink_bytes)
    }

    /// True if every rank of this host has finished all repetitions of a job.
    pub fn finished(&self, job: u32) -> bool {
        let of_job = |lane: &&Lane| lane.info.job == job;
        self.lanes.iter().filter(of_job).all(|lane| lane.repeat == lane.info.repeats)
    }

    /// Of a job's lanes here, up to `now`: time spent waiting for slices, and for slots to send by.
    pub fn waits(&self, job: u32, now: Time) -> [Delta; 2] {
        let mut waits = [Delta::ZERO; 2];
        for lane in self.lanes.iter().filter(|lane| lane.info.job == job) {
            for (sum, waited) in waits.iter_mut().zip(lane.waited) {
                *sum += waited;
            }
            if let Some((reason, since)) = lane.blocked {
                waits[reason] += now.since(since);
            }
        }
        waits
    }
}
