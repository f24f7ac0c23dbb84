//! Runs the programs of all lanes of one host: GPUs, NVLink, the way through host memory, and the
//! CPU threads (proxies) that drive the NICs. It knows no events: inputs are calls with `now`,
//! outputs are messages to post, and the deadline of what comes next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use sim_core::{Bytes, Delta, Rate, Time};

use super::connection::{RecvEnd, SendEnd, Striping};
use super::program::{Primitive, Program};
use crate::host::HostConfig;

/// What never changes of a lane.
#[derive(Clone, Debug)]
pub struct LaneInfo {
    /// Its job.
    pub job: u32,
    /// Its rank within the job.
    pub rank: u32,
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
    /// The thread block that it runs on, which others may share: see [`Executor::add_block`].
    pub block: u32,
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
    step: u64,
    slice: u64,
    /// The primitive at hand; `None` between repetitions.
    primitive: Option<Primitive>,
    /// The next mark of the program.
    mark: u32,
    busy: bool,
    /// What it waits for, and since when: 0 a slice to come, 1 a slot to send by.
    blocked: Option<(usize, Time)>,
    /// Time that it has waited so.
    waited: [Delta; 2],
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
    /// A rank has finished all repetitions of its job.
    RankDone,
}

/// A CTS: one element of NCCL's `ncclIbSendFifo`.
const CTS_BYTES: u64 = 64;

/// A job's ranks on this host.
#[derive(Clone, Debug, Default)]
struct JobState {
    /// By rank: lanes that are still busy with the repetition at hand.
    running: Vec<(u32, u32)>,
    /// End of each repetition, over the ranks of this host.
    ends: Vec<Time>,
    /// As `running`: when the last lane of the rank was at each mark of its last repetition.
    marks: Vec<Vec<Time>>,
    /// Bytes that went over NVLink.
    nvlink_bytes: u64,
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
    /// By GPU: when its NVLink egress, and its way to and from host memory, are free.
    nvlink: Vec<Time>,
    to_host: Vec<Time>,
    from_host: Vec<Time>,
    jobs: Vec<JobState>,
    agenda: BinaryHeap<Reverse<(Time, Action)>>,
}

impl Executor {
    /// A host without lanes.
    pub fn new(config: Arc<HostConfig>) -> Self {
        let gpus = config.gpus as usize;
        Executor {
            config,
            lanes: Vec::new(),
            sends: Vec::new(),
            recvs: Vec::new(),
            blocks: Vec::new(),
            nvlink: vec![Time::ZERO; gpus],
            to_host: vec![Time::ZERO; gpus],
            from_host: vec![Time::ZERO; gpus],
            jobs: Vec::new(),
            agenda: BinaryHeap::new(),
        }
    }

    /// Adds a thread block, which takes the slices of its lanes one after the other; returns its
    /// number.
    pub fn add_block(&mut self) -> u32 {
        self.blocks.push(Time::ZERO);
        self.blocks.len() as u32 - 1
    }

    /// Adds a lane; returns its number.
    pub fn add_lane(&mut self, info: LaneInfo) -> u32 {
        let number = self.lanes.len() as u32;
        let job = info.job as usize;
        if self.jobs.len() <= job {
            self.jobs.resize_with(job + 1, JobState::default);
        }
        let state = &mut self.jobs[job];
        state.ends.resize(info.repeats as usize, Time::ZERO);
        match state.running.iter_mut().find(|(rank, _)| *rank == info.rank) {
            Some((_, lanes)) => *lanes += 1,
            None => {
                state.running.push((info.rank, 1));
                state.marks.push(Vec::new());
            }
        }
        let begin = info.start + self.config.launch_latency;
        self.lanes.push(Lane {
            recvs: Vec::new(),
            sends: Vec::new(),
            repeat: 0,
            step: 0,
            slice: 0,
            primitive: None,
            mark: 0,
            busy: false,
            blocked: None,
            waited: [Delta::ZERO; 2],
            info,
        });
        self.agenda.push(Reverse((begin, Action::Begin(number))));
        number
    }

    /// Joins two lanes of this host over NVLink.
    pub fn join(&mut self, from: u32, to: u32) {
        let striping = Striping { qps: 1, parts: 1 };
        let (send, recv) = (self.sends.len() as u32, self.recvs.len() as u32);
        let slots = self.lanes[from as usize].info.slots;
        let end = SendEnd::new(striping, 0, slots);
        self.sends.push(Attached { end, lane: from, peer: Peer::Local(recv) });
        let end = RecvEnd::new(striping, 0, slots);
        self.recvs.push(Attached { end, lane: to, peer: Peer::Local(send) });
        self.lanes[from as usize].sends.push(send);
        self.lanes[to as usize].recvs.push(recv);
    }

    /// Gives a lane a sending end over QPs, to its next peer; returns its number.
    pub fn add_send(&mut self, lane: u32, remote: Remote) -> u32 {
        let number = self.sends.len() as u32;
        let state = &mut self.lanes[lane as usize];
        let end = SendEnd::new(remote.striping, remote.cts.len() as u32, state.info.slots);
        state.sends.push(number);
        self.sends.push(Attached { end, lane, peer: Peer::Remote(remote) });
        number
    }

    /// Gives a lane a receiving end over QPs, from its next peer; returns its number.
    pub fn add_recv(&mut self, lane: u32, remote: Remote) -> u32 {
        let number = self.recvs.len() as u32;
        let state = &mut self.lanes[lane as usize];
        let end = RecvEnd::new(remote.striping, remote.cts.len() as u32, state.info.slots);
        state.recvs.push(number);
        self.recvs.push(Attached { end, lane, peer: Peer::Remote(remote) });
        number
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
            effect |= matches!(action, Action::Begin(_) | Action::Handled(_));
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
                    self.post(send, out);
                }
                Action::Granted(send) => {
                    self.sends[send as usize].end.see_grant();
                    self.post(send, out);
                }
                Action::Grant(recv) => {
                    self.recvs[recv as usize].end.consume();
                    self.post_cts(recv, out);
                }
            }
        }
        effect || !out.is_empty()
    }

    /// A message of a receiving end has come by the QP at `index` of its connection.
    pub fn delivered(&mut self, now: Time, recv: u32, index: u32) {
        let Attached { end, peer, .. } = &mut self.recvs[recv as usize];
        let Peer::Remote(Remote { gdr, pcie_latency, .. }) = peer else { return };
        let way = if *gdr { self.config.gdr_flush } else { self.config.host_memory.latency };
        let at = now + *pcie_latency + self.config.proxy_latency + way;
        for _ in 0..end.arrived(index) {
            self.agenda.push(Reverse((at, Action::Arrive(recv))));
        }
    }

    /// A message of a sending end is acknowledged on the QP at `index` of its connection.
    pub fn acknowledged(&mut self, now: Time, send: u32, index: u32) {
        let at = now + self.config.proxy_latency;
        for _ in 0..self.sends[send as usize].end.acknowledged(index) {
            self.agenda.push(Reverse((at, Action::Free(send))));
        }
    }

    /// A CTS has come for a sending end.
    pub fn granted(&mut self, now: Time, send: u32, index: u32) {
        let Attached { end, peer, .. } = &mut self.sends[send as usize];
        let Peer::Remote(Remote { pcie_latency, .. }) = peer else { return };
        end.grant(index);
        let at = now + *pcie_latency + self.config.proxy_latency;
        self.agenda.push(Reverse((at, Action::Granted(send))));
    }

    /// A repetition of a lane begins: its proxies grant what there is room for.
    fn begin(&mut self, now: Time, lane: u32, out: &mut Vec<Output>) {
        let state = &mut self.lanes[lane as usize];
        (state.step, state.slice, state.mark) = (0, 0, 0);
        let program = &state.info.program;
        state.primitive = (!program.is_empty()).then(|| program.step(0));
        let empty = program.is_empty();
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

    /// Begins the next slice of a lane if everything that it needs is there.
    fn try_slice(&mut self, now: Time, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        let Some(primitive) = state.primitive.filter(|_| !state.busy) else { return };
        if let Some((reason, since)) = state.blocked.take() {
            state.waited[reason] += now.since(since);
        }
        let end = |ends: &[u32]| ends.get(primitive.peer as usize).map_or(0, |end| *end as usize);
        let (recv, send) = (end(&state.recvs), end(&state.sends));
        if primitive.recv && self.recvs[recv].end.available == 0 {
            state.blocked = Some((0, now));
            return;
        }
        if primitive.send && self.sends[send].end.free == 0 {
            state.blocked = Some((1, now));
            return;
        }
        state.busy = true;
        let gpu = state.info.gpu as usize;
        let (slice, slot) = (state.slice, state.info.slot);
        let slice = |bytes| Bytes::new(state.info.program.slice(bytes, slice, slot));
        let sent = slice(primitive.sent().bytes);
        let taken = if primitive.recv { slice(primitive.bytes) } else { Bytes::ZERO };
        let config = &self.config;
        let begun = now + config.slice_latency;
        let mut done = begun;
        // a resource that several lanes share takes their slices one after the other
        let mut pass = |free: &mut Time, rate: Rate, size: Bytes| {
            *free = begun.max(*free) + rate.time_for(size);
            done = done.max(*free);
        };
        let block = &mut self.blocks[state.info.block as usize];
        pass(block, config.channel_rate, sent.max(taken));
        if primitive.recv {
            let recv = &mut self.recvs[recv];
            recv.end.available -= 1;
            if matches!(recv.peer, Peer::Remote(Remote { gdr: false, .. })) {
                pass(&mut self.from_host[gpu], config.host_memory.rate, taken);
            }
        }
        if primitive.send {
            let send = &mut self.sends[send];
            send.end.free -= 1;
            if matches!(send.peer, Peer::Local(_) | Peer::Remote(Remote { pxn: true, .. })) {
                pass(&mut self.nvlink[gpu], config.nvlink.rate, sent);
                self.jobs[state.info.job as usize].nvlink_bytes += sent.get();
            }
            if matches!(send.peer, Peer::Remote(Remote { gdr: false, .. })) {
                pass(&mut self.to_host[gpu], config.host_memory.rate, sent);
            }
        }
        self.agenda.push(Reverse((done, Action::Handled(lane))));
    }

    /// A lane has handled a slice: hands it on, frees its slot, takes the next.
    fn handled(&mut self, now: Time, lane: u32, out: &mut Vec<Output>) {
        let state = &mut self.lanes[lane as usize];
        state.busy = false;
        let Some(primitive) = state.primitive else { return };
        let program = &state.info.program;
        let config = &self.config;
        let across = now + config.nvlink.latency;
        let peer = primitive.peer as usize;
        if primitive.recv {
            let recv = state.recvs[peer];
            let next = match self.recvs[recv as usize].peer {
                Peer::Local(send) => (across, Action::Free(send)),
                Peer::Remote(_) => (now + config.proxy_latency, Action::Grant(recv)),
            };
            self.agenda.push(Reverse(next));
        }
        if primitive.send {
            let number = state.sends[peer];
            let bytes = program.slice(primitive.sent().bytes, state.slice, state.info.slot);
            let send = &mut self.sends[number as usize];
            let next = match &send.peer {
                Peer::Local(recv) => (across, Action::Arrive(*recv)),
                Peer::Remote(Remote { gdr, pcie_latency, pxn, .. }) => {
                    send.end.fill(bytes);
                    let way = if *gdr { Delta::ZERO } else { config.host_memory.latency };
                    let begin = if *pxn { across } else { now };
                    let at = begin + config.proxy_latency + *pcie_latency + way;
                    (at, Action::Send(number))
                }
            };
            self.agenda.push(Reverse(next));
        }
        state.slice += 1;
        if state.slice == program.slices() {
            (state.slice, state.step) = (0, state.step + 1);
            state.primitive = (state.step < program.len()).then(|| program.step(state.step));
            let done = state.primitive.is_none();
            if program.mark(state.mark).is_some_and(|step| step <= state.step) {
                self.note_marks(now, lane);
            }
            if done {
                return self.lane_done(now, lane, out);
            }
        }
        self.try_slice(now, lane);
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
        let Lane { info, repeat, .. } = &mut self.lanes[lane as usize];
        let (of_job, of_rank, repeats, repeat) =
            (info.job, info.rank, info.repeats, std::mem::replace(repeat, *repeat + 1));
        let job = &mut self.jobs[of_job as usize];
        let end = &mut job.ends[repeat as usize];
        *end = now.max(*end);
        let Some((_, left)) = job.running.iter_mut().find(|(rank, _)| *rank == of_rank) else {
            return;
        };
        *left -= 1;
        if *left > 0 {
            return;
        }
        if repeat + 1 == repeats {
            return out.push(Output::RankDone);
        }
        let at = now + self.config.launch_latency;
        for (number, other) in (0..).zip(&self.lanes) {
            if (other.info.job, other.info.rank) == (of_job, of_rank) {
                *left += 1;
                self.agenda.push(Reverse((at, Action::Begin(number))));
            }
        }
    }

    /// Posts what is ready and granted.
    fn post(&mut self, send: u32, out: &mut Vec<Output>) {
        let Attached { end, peer, .. } = &mut self.sends[send as usize];
        let Peer::Remote(Remote { qps, .. }) = peer else { return };
        while let Some(parts) = end.post() {
            out.extend(parts.map(|(qp, bytes)| Output::Post { qp: qps[qp as usize], bytes }));
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
