//! What one rank does of a collective: its lanes run the programs that the simulator runs, on real
//! data. No sockets and no QPs in here: what has come is told, and what is to be sent is answered.

use std::sync::Arc;

use models::collective::{
    Connection, Job, Link, Op, Part, Pattern, Primitive, Program, RecvEnd, SendEnd, Striping,
};
use sim_core::Time;

use super::buffers;
use super::error::ReplayError;

/// The buffers of connections, slot by slot, in memory that the transport can use.
pub(super) trait Slots {
    /// What has come in a slot.
    fn received(&self, recv: usize, slot: usize) -> &[u8];
    /// A slot whose content is to be sent.
    fn to_send(&mut self, send: usize, slot: usize) -> &mut [u8];
}

/// What the transport is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send bytes of a slot into the same place of the receiver's slot.
    Post {
        /// The sending end,
        send: usize,
        /// the QP of the connection,
        qp: u32,
        /// the slot,
        slot: usize,
        /// and what of it.
        part: Part,
    },
    /// Tell the sender that a slot is free, by a CTS.
    Grant {
        /// The receiving end,
        recv: usize,
        /// and the QP of the connection that carries the CTS.
        qp: u32,
    },
}

/// How the two ends of a connection are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wiring {
    /// Number of the connection in the job.
    pub connection: u32,
    /// The rank at the other end.
    pub peer: u32,
    /// How messages use its QPs.
    pub striping: Striping,
    /// Of these, those that carry CTS messages.
    pub cts_qps: u32,
    /// Bytes of a slot, as they are on the wire.
    pub slot: usize,
    /// Slots.
    pub slots: usize,
}

/// The connections that a rank sends by, and those that it receives by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// It sends.
    pub sends: Vec<Wiring>,
    /// It receives.
    pub recvs: Vec<Wiring>,
}

/// A step of the last repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepTime {
    /// From its first slice on,
    pub begin: Time,
    /// until its last one had been handled.
    pub end: Time,
}

struct Lane {
    number: u32,
    channel: u32,
    program: Program,
    /// Ends by peer: numbers in `sends` and `recvs`.
    sends: Vec<usize>,
    recvs: Vec<usize>,
    step: u64,
    slice: u64,
    /// The slice of `other` has been sent.
    exchanged: bool,
    begun: Time,
    times: Vec<StepTime>,
}

struct Sending {
    end: SendEnd,
    wiring: Wiring,
    filled: u64,
    posted: u64,
}

struct Receiving {
    end: RecvEnd,
    wiring: Wiring,
    taken: u64,
}

/// The lanes of a rank.
pub(super) struct Lanes {
    job: Arc<Job>,
    rank: u32,
    lanes: Vec<Lane>,
    sends: Vec<Sending>,
    recvs: Vec<Receiving>,
    /// What point-to-point operations send; nothing where it is the same as `data`.
    input: Vec<u8>,
    /// What the others work on, and the result.
    data: Vec<u8>,
    sum: Vec<u8>,
    /// Sums are kept in the buffer from step to step.
    keeps_sums: bool,
    /// Steps whose times are kept, of each lane.
    most_times: usize,
}

fn striping(link: &Link) -> (Striping, u32) {
    match link {
        Link::Local => (Striping { qps: 1, parts: 1 }, 1),
        Link::Remote { qps, striping, ports, .. } => {
            (Striping { qps: qps.len() as u32, ..*striping }, *ports)
        }
    }
}

/// Why a job cannot be replayed, if it cannot.
pub(super) fn refuse(job: &Job) -> Result<(), ReplayError> {
    let config = &job.config;
    let why = match &job.pattern {
        Pattern::NvlsTree { .. } => {
            "NVLSTree needs an NVSwitch that adds up: choose another \
                                     algorithm, as with nccl.ALGO=Ring"
        }
        Pattern::Msccl(_) => "programs of MSCCL say nothing of elements: choose a collective",
        _ if config.op.reduces() && !buffers::can_add(config.dtype) => {
            "FP8 is not added up on a CPU: choose another dtype"
        }
        _ if job.cut.is_some() => "a part of a program is no collective",
        _ => return Ok(()),
    };
    Err(ReplayError::Scenario(format!("{} cannot be replayed: {why}", config.op.name())))
}

/// The connections of `rank`, lane by lane and peer by peer, in the order of the job.
pub(super) fn ends(job: &Job, rank: u32) -> Ends {
    let wiring = |number: usize, joined: &Connection, peer: u32| {
        let (striping, cts_qps) = striping(&joined.link);
        Wiring {
            connection: number as u32,
            peer,
            striping,
            cts_qps,
            slot: job.protocol().wire(job.buffers.slot) as usize,
            slots: job.buffers.slots as usize,
        }
    };
    let all = || job.connections.iter().enumerate();
    let sends = all().filter(|(_, joined)| joined.from == rank);
    let recvs = all().filter(|(_, joined)| joined.to == rank);
    Ends {
        sends: sends.map(|(number, joined)| wiring(number, joined, joined.to)).collect(),
        recvs: recvs.map(|(number, joined)| wiring(number, joined, joined.from)).collect(),
    }
}

impl Lanes {
    /// The lanes of `rank`, with empty buffers.
    pub(super) fn new(job: Arc<Job>, rank: u32, most_times: usize) -> Self {
        let Ends { sends, recvs } = ends(&job, rank);
        let mut lanes = Vec::new();
        for (number, ranks) in (0..).zip(&job.lanes) {
            let here = (0..).zip(ranks.iter()).filter(|(_, at)| **at == rank);
            for (position, _) in here {
                // ends by peer: they are listed in the order of their numbers
                let own = |all: &[Wiring], side: usize| -> Vec<usize> {
                    let of = |wiring: &Wiring| &job.connections[wiring.connection as usize];
                    let own = all.iter().enumerate().filter(|(_, wiring)| {
                        let joined = of(wiring);
                        joined.lanes[side] == number && joined.positions[side] == position
                    });
                    own.map(|(end, _)| end).collect()
                };
                lanes.push(Lane {
                    number,
                    channel: job.block(number) / job.groups().max(1),
                    program: job.program(number, position),
                    sends: own(&sends, 0),
                    recvs: own(&recvs, 1),
                    step: 0,
                    slice: 0,
                    exchanged: false,
                    begun: Time::ZERO,
                    times: Vec::new(),
                });
            }
        }
        let send = |wiring: Wiring| Sending {
            end: SendEnd::new(wiring.striping, wiring.cts_qps, wiring.slots as u64),
            wiring,
            filled: 0,
            posted: 0,
        };
        let recv = |wiring: Wiring| Receiving {
            end: RecvEnd::new(wiring.striping, wiring.cts_qps, wiring.slots as u64),
            wiring,
            taken: 0,
        };
        let bytes = job.bytes as usize;
        let keeps_sums =
            matches!(job.pattern, Pattern::Hierarchical { .. } | Pattern::HalvingDoubling);
        let input = if job.config.op.is_p2p() { vec![0; bytes] } else { Vec::new() };
        Lanes {
            rank,
            lanes,
            sends: sends.into_iter().map(send).collect(),
            recvs: recvs.into_iter().map(recv).collect(),
            input,
            data: vec![0; bytes],
            sum: Vec::new(),
            keeps_sums,
            most_times,
            job,
        }
    }

    /// Puts in what this rank begins with: numbers that can be checked, or zeros, which stay zeros.
    pub(super) fn fill(&mut self, checked: bool) {
        self.data.fill(0);
        self.input.fill(0);
        let (config, ranks) = (&self.job.config, self.job.ranks.len() as u32);
        let each = (self.job.bytes / config.op.parts(ranks)) as usize;
        let own = self.rank as usize * each;
        if checked {
            let first = (own as u64) / config.dtype.size();
            let (place, first) = match config.op {
                Op::AllGather => (&mut self.data[own..own + each], first),
                op if op.is_p2p() => (&mut self.input[..], 0),
                _ => (&mut self.data[..], 0),
            };
            buffers::fill(config.dtype, place, self.rank, first);
        }
        if config.op == Op::AllToAll {
            // nothing is sent to oneself
            self.data[own..own + each].copy_from_slice(&self.input[own..own + each]);
        }
    }

    /// Elements of the result that are wrong.
    pub(super) fn wrong(&self) -> u64 {
        let (config, ranks) = (&self.job.config, self.job.ranks.len() as u32);
        let size = config.dtype.size();
        let expected =
            buffers::expected(config.op, self.rank, ranks, config.root, self.job.bytes, size);
        buffers::wrong(config.dtype, &self.data, &expected)
    }

    /// Begins one repetition.
    pub(super) fn begin(&mut self, out: &mut Vec<Action>) {
        for lane in &mut self.lanes {
            (lane.step, lane.slice, lane.exchanged) = (0, 0, false);
            lane.times.clear();
            for (peer, recv) in (0..).zip(&lane.recvs) {
                self.recvs[*recv].end.expected += lane.program.receives(peer);
            }
        }
        (0..self.recvs.len()).for_each(|recv| self.grant(recv, out));
    }

    /// All lanes have done all steps.
    pub(super) fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| lane.step == lane.program.len())
    }

    /// Everything that was sent has been acknowledged.
    pub(super) fn is_quiet(&self) -> bool {
        self.sends.iter().all(|send| send.end.free == send.wiring.slots as u64)
    }

    /// A part of a message has come by this QP of a connection.
    pub(super) fn arrived(&mut self, recv: usize, qp: u32) {
        let end = &mut self.recvs[recv].end;
        end.available += u64::from(end.arrived(qp));
    }

    /// A part of a message is with the receiver: its slot may be used again.
    pub(super) fn acknowledged(&mut self, send: usize, qp: u32) {
        let end = &mut self.sends[send].end;
        end.free += u64::from(end.acknowledged(qp));
    }

    /// A CTS has come.
    pub(super) fn granted(&mut self, send: usize, qp: u32, out: &mut Vec<Action>) {
        self.sends[send].end.grant(qp);
        self.sends[send].end.see_grant();
        self.post(send, out);
    }

    /// Does all that can be done now; true if something was.
    pub(super) fn advance<S: Slots>(
        &mut self,
        slots: &mut S,
        clock: impl Fn() -> Time,
        out: &mut Vec<Action>,
    ) -> bool {
        let mut moved = false;
        for lane in 0..self.lanes.len() {
            while self.try_slice(lane, slots, &clock, out) {
                moved = true;
            }
        }
        moved
    }

    fn post(&mut self, send: usize, out: &mut Vec<Action>) {
        let own = &mut self.sends[send];
        while let Some(parts) = own.end.post() {
            let slot = (own.posted % own.wiring.slots as u64) as usize;
            own.posted += 1;
            let mut offset = 0;
            for (qp, bytes) in parts {
                out.push(Action::Post { send, qp, slot, part: Part { offset, bytes } });
                offset += bytes;
            }
        }
    }

    fn grant(&mut self, recv: usize, out: &mut Vec<Action>) {
        while let Some(qp) = self.recvs[recv].end.post_cts() {
            out.push(Action::Grant { recv, qp });
        }
    }

    /// Where a chunk lies in the buffer, seen from the lane's peer.
    fn place(&self, peer: u32, part: Part) -> std::ops::Range<usize> {
        let base = match self.job.config.op {
            Op::AllToAll => u64::from(peer) * (self.job.bytes / self.job.ranks.len() as u64),
            _ => 0,
        };
        let begin = (base + part.offset).min(self.job.bytes);
        begin as usize..(begin + part.bytes).min(self.job.bytes) as usize
    }

    /// Hands a slice to a sending end.
    fn send<S: Slots>(&mut self, end: usize, what: Source, slots: &mut S, out: &mut Vec<Action>) {
        let own = &mut self.sends[end];
        let slot = (own.filled % own.wiring.slots as u64) as usize;
        own.filled += 1;
        own.end.free -= 1;
        let place = slots.to_send(end, slot);
        let data = match what {
            Source::Sum => &self.sum[..],
            Source::Own(range) if self.input.is_empty() => &self.data[range],
            Source::Own(range) => &self.input[range],
        };
        place[..data.len()].copy_from_slice(data);
        // what flags LL and LL128 put beside data are as many bytes more
        own.end.fill(self.job.protocol().wire(data.len() as u64));
        own.end.see_slice();
        self.post(end, out);
    }

    /// Begins and ends the next slice of a lane, if everything that it needs is there.
    fn try_slice<S: Slots>(
        &mut self,
        lane: usize,
        slots: &mut S,
        clock: &impl Fn() -> Time,
        out: &mut Vec<Action>,
    ) -> bool {
        let own = &self.lanes[lane];
        if own.step == own.program.len() {
            return false;
        }
        let primitive = own.program.step(own.step);
        let sends: Vec<usize> = own.sends[primitive.send.numbers()].to_vec();
        let recvs: Vec<usize> = own.recvs[primitive.recv.numbers()].to_vec();
        let room = sends.iter().all(|send| self.sends[*send].end.free > 0);
        let here = recvs.iter().all(|recv| self.recvs[*recv].end.available > 0);
        let exchange = primitive.other.is_some();
        let begins = room && (here || exchange) || own.exchanged;
        if begins && own.slice == 0 && !own.exchanged {
            self.lanes[lane].begun = clock();
        }
        let own = &self.lanes[lane];
        // in an exchange the other chunk goes out before one comes
        if exchange && room && !own.exchanged {
            let slice = self.slice(own, primitive.sent());
            for send in &sends {
                let place = self.place(self.sends[*send].wiring.peer, slice);
                self.send(*send, Source::Own(place), slots, out);
            }
            self.lanes[lane].exchanged = true;
        }
        let exchanged = self.lanes[lane].exchanged;
        if !here || !(room || exchanged) {
            return false;
        }
        let chunk = Part { offset: primitive.offset, bytes: primitive.bytes };
        let slice = self.slice(&self.lanes[lane], chunk);
        let sum = self.take(&primitive, &recvs, slice, slots, out);
        if !exchange {
            for send in &sends {
                let what = match sum {
                    true => Source::Sum,
                    false => Source::Own(self.place(self.sends[*send].wiring.peer, slice)),
                };
                self.send(*send, what, slots, out);
            }
        }
        self.slice_done(lane, clock);
        true
    }

    /// The slice of a chunk that a lane is at.
    fn slice(&self, lane: &Lane, chunk: Part) -> Part {
        let slot = self.job.buffers.slot;
        let bytes = |number: u64| lane.program.slice(chunk.bytes, number, slot);
        let before: u64 = (0..lane.slice).map(bytes).sum();
        Part { offset: chunk.offset + before, bytes: bytes(lane.slice) }
    }

    /// Takes a slice from all peers that it comes from, and adds it up; writes it down where the
    /// primitive says so. True if it is in `sum` then.
    fn take<S: Slots>(
        &mut self,
        primitive: &Primitive,
        recvs: &[usize],
        slice: Part,
        slots: &S,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(first) = recvs.first() else { return false };
        let place = self.place(self.recvs[*first].wiring.peer, slice);
        let dtype = self.job.config.dtype;
        for (number, recv) in recvs.iter().enumerate() {
            let own = &mut self.recvs[*recv];
            let slot = (own.taken % own.wiring.slots as u64) as usize;
            own.taken += 1;
            own.end.available -= 1;
            own.end.consume();
            let data = &slots.received(*recv, slot)[..place.len()];
            if number == 0 {
                self.sum.clear();
                self.sum.extend_from_slice(data);
            } else {
                buffers::add(dtype, &mut self.sum, data);
            }
            self.grant(*recv, out);
        }
        if primitive.reduce {
            buffers::add(dtype, &mut self.sum, &self.data[place.clone()]);
        }
        if primitive.copy || primitive.reduce && self.keeps_sums {
            self.data[place].copy_from_slice(&self.sum);
        }
        true
    }

    fn slice_done(&mut self, lane: usize, clock: &impl Fn() -> Time) {
        let own = &mut self.lanes[lane];
        own.exchanged = false;
        own.slice += 1;
        if own.slice < own.program.slices() {
            return;
        }
        (own.slice, own.step) = (0, own.step + 1);
        if own.times.len() < self.most_times {
            own.times.push(StepTime { begin: own.begun, end: clock() });
        }
    }

    /// Of each lane: its number, its channel, the steps of its program, and the times of the first
    /// ones in the last repetition.
    pub(super) fn times(&self) -> impl Iterator<Item = (u32, u32, u64, &[StepTime])> {
        let lanes = self.lanes.iter();
        lanes.map(|lane| (lane.number, lane.channel, lane.program.len(), &lane.times[..]))
    }

    /// What the first lane that is not done waits for, in words.
    pub(super) fn waits_for(&self) -> Option<String> {
        let lane = self.lanes.iter().find(|lane| lane.step < lane.program.len())?;
        let primitive = lane.program.step(lane.step);
        let at =
            format!("channel {}, step {} of {}", lane.channel, lane.step + 1, lane.program.len());
        for recv in &lane.recvs[primitive.recv.numbers()] {
            let recv = &self.recvs[*recv];
            if recv.end.available == 0 {
                return Some(format!("a slice from rank {} ({at})", recv.wiring.peer));
            }
        }
        let send = lane.sends[primitive.send.numbers()].iter().map(|send| &self.sends[*send]);
        let mut full = send.filter(|send| send.end.free == 0);
        let send = full.next()?;
        let what = match send.end.waiting() {
            0 => "the acknowledgement of what was sent to",
            _ => "a CTS from",
        };
        Some(format!("{what} rank {} ({at})", send.wiring.peer))
    }
}

/// What is sent.
enum Source {
    /// What was added up.
    Sum,
    /// What stands at these bytes of the rank's buffer.
    Own(std::ops::Range<usize>),
}
