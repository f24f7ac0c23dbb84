//! Goes through an algorithm before it is simulated: are sends and receives in pairs, can it come
//! to its end, and does it deliver what `coll` promises?

use std::collections::VecDeque;

use models::collective::msccl::{Block, Join, Move, MscclAlgorithm};

use super::deliver::Memory;
use super::{Fault, fault};

/// How an algorithm is cut and buffered for a size of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Chunks that are handled by one call; a step of more takes several.
    pub(super) at_once: u32,
    /// Calls that a sender may be ahead of its receiver.
    pub(super) slots: u64,
}

impl Room {
    /// All of a step at once, and no end of buffers.
    pub(super) const ENDLESS: Room = Room { at_once: u32::MAX, slots: u64::MAX };
}

/// Checks all that can be checked without a size.
pub(super) fn check(algorithm: &MscclAlgorithm) -> Result<(), Fault> {
    let joins = pairs(algorithm)?;
    dependencies(algorithm)?;
    let mut memory = Memory::new(algorithm);
    let mut walk = Walk::new(algorithm, &joins, Room::ENDLESS);
    walk.run(1, |at, step, calls| memory.step(at, step, calls))?;
    memory.judge()
}

/// Whether an algorithm comes to its end with this room: senders wait for free slots.
pub(super) fn fits(algorithm: &MscclAlgorithm, room: Room) -> Result<(), Fault> {
    let joins = algorithm.joins();
    // a second and a third loop, as blocks may be a loop apart
    Walk::new(algorithm, &joins, room).run(3, |_, _, _| ())
}

/// The joins, if each send has its receive.
fn pairs(algorithm: &MscclAlgorithm) -> Result<Vec<Join>, Fault> {
    for (rank, gpu) in (0..).zip(&algorithm.gpus) {
        for (number, block) in (0u32..).zip(&gpu.blocks) {
            for sends in [true, false] {
                one_of_its_kind(algorithm, rank, number, block, sends)?;
            }
        }
    }
    let joins = algorithm.joins();
    for join in &joins {
        let [from, to] = [join.from, join.to]
            .map(|(rank, block)| &algorithm.gpus[rank as usize].blocks[block as usize]);
        same_counts(join, from, to)?;
    }
    Ok(joins)
}

/// A channel joins two ranks once in each direction, and nobody sends or receives alone.
fn one_of_its_kind(
    algorithm: &MscclAlgorithm,
    rank: u32,
    number: u32,
    block: &Block,
    sends: bool,
) -> Result<(), Fault> {
    let used = |step: &&Move| if sends { step.kind.sends() } else { step.kind.receives() };
    let peer_of = |block: &Block| if sends { block.send } else { block.recv };
    let (Some(peer), Some(first)) = (peer_of(block), block.steps.iter().find(used)) else {
        return Ok(());
    };
    let channel = block.channel;
    let (verb, towards) = if sends { ("sends", "to") } else { ("receives", "from") };
    let twins = algorithm.gpus[rank as usize].blocks.iter().take(number as usize);
    if let Some(twin) = twins.into_iter().find(|twin| {
        twin.channel == channel
            && peer_of(twin) == Some(peer)
            && twin.steps.iter().any(|step| used(&step))
    }) {
        let message = format!(
            "tb {number} of gpu {rank} {verb} {towards} gpu {peer} on channel {channel}, as the tb of \
             line {} does; another `chan` is expected for one of them",
            twin.line
        );
        return Err(fault(block.line, message));
    }
    let answers = |other: &Block| {
        let back = if sends { other.recv } else { other.send };
        let kind = |step: &Move| if sends { step.kind.receives() } else { step.kind.sends() };
        other.channel == channel && back == Some(rank) && other.steps.iter().any(kind)
    };
    if algorithm.gpus[peer as usize].blocks.iter().any(answers) {
        return Ok(());
    }
    let (other, back) = if sends { ("receives", "recv") } else { ("sends", "send") };
    let message = format!(
        "gpu {rank} {verb} {towards} gpu {peer} on channel {channel}, but no tb of gpu {peer} {other} \
         there: one with {back}=\"{rank}\" chan=\"{channel}\" is expected, or the program would wait \
         for ever"
    );
    Err(fault(first.line, message))
}

fn same_counts(join: &Join, from: &Block, to: &Block) -> Result<(), Fault> {
    let sends: Vec<&Move> = from.steps.iter().filter(|step| step.kind.sends()).collect();
    let recvs: Vec<&Move> = to.steps.iter().filter(|step| step.kind.receives()).collect();
    let ((a, _), (b, _), channel) = (join.from, join.to, join.channel);
    for (number, (send, recv)) in (1..).zip(sends.iter().zip(&recvs)) {
        if send.count != recv.count {
            let message = format!(
                "gpu {a} sends {} chunks to gpu {b} on channel {channel} (its send {number} there), \
                 and the receive of line {} takes {}; the same `cnt` is expected",
                send.count, recv.line, recv.count
            );
            return Err(fault(send.line, message));
        }
    }
    let (alone, what) = match sends.len().cmp(&recvs.len()) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Greater => (sends[recvs.len()], "send has no receive"),
        std::cmp::Ordering::Less => (recvs[sends.len()], "receive has no send"),
    };
    let message = format!(
        "this {what}: gpu {a} sends {} times to gpu {b} on channel {channel}, which receives {} \
         times; the program would wait for ever",
        sends.len(),
        recvs.len()
    );
    Err(fault(alone.line, message))
}

/// What steps wait for is there, and says that it is waited for.
fn dependencies(algorithm: &MscclAlgorithm) -> Result<(), Fault> {
    for gpu in &algorithm.gpus {
        for step in gpu.blocks.iter().flat_map(|block| &block.steps) {
            let Some((block, number)) = step.after else { continue };
            let Some(found) = gpu.blocks.get(block as usize) else {
                let message = format!(
                    "depid = {block}; a tb of this gpu, 0 to {}, is expected",
                    gpu.blocks.len() - 1
                );
                return Err(fault(step.line, message));
            };
            let Some(awaited) = found.steps.get(number as usize) else {
                let message = format!(
                    "deps = {number}; a step of tb {block}, which has {}, is expected",
                    found.steps.len()
                );
                return Err(fault(step.line, message));
            };
            if !awaited.awaited {
                let message = format!(
                    "it waits for step {number} of tb {block} (line {}), which has hasdep=\"0\" and \
                     so tells nobody; hasdep=\"1\" is expected there",
                    awaited.line
                );
                return Err(fault(step.line, message));
            }
        }
    }
    Ok(())
}

/// Why a block cannot go on, and the block that could help it.
#[derive(Clone, Copy)]
enum Stop {
    Nothing(usize),
    Full(usize),
    Step(usize, u32),
}

/// All blocks on their way through the program.
struct Walk<'a> {
    algorithm: &'a MscclAlgorithm,
    /// The blocks, rank by rank.
    lanes: Vec<(u32, u32)>,
    /// By rank: its first one.
    first: Vec<usize>,
    /// By lane: the join that it sends by, and the one that it receives by.
    by: Vec<[Option<usize>; 2]>,
    /// By join: its two lanes, and calls that were sent and taken.
    ends: Vec<[usize; 2]>,
    calls: Vec<[u64; 2]>,
    /// By lane: loop, step and call that come next.
    at: Vec<(u32, u32, u32)>,
    room: Room,
}

impl<'a> Walk<'a> {
    fn new(algorithm: &'a MscclAlgorithm, joins: &[Join], room: Room) -> Self {
        let (mut lanes, mut first) = (Vec::new(), Vec::new());
        for (rank, gpu) in (0..).zip(&algorithm.gpus) {
            first.push(lanes.len());
            lanes.extend((0..gpu.blocks.len() as u32).map(|block| (rank, block)));
        }
        let lane = |(rank, block): (u32, u32)| first[rank as usize] + block as usize;
        let mut by = vec![[None; 2]; lanes.len()];
        for (number, join) in joins.iter().enumerate() {
            by[lane(join.from)][0] = Some(number);
            by[lane(join.to)][1] = Some(number);
        }
        let ends: Vec<[usize; 2]> = joins.iter().map(|j| [lane(j.from), lane(j.to)]).collect();
        let (calls, at) = (vec![[0; 2]; ends.len()], vec![(0, 0, 0); lanes.len()]);
        Walk { algorithm, lanes, first, by, ends, calls, at, room }
    }

    fn block(&self, lane: usize) -> &'a Block {
        let (rank, block) = self.lanes[lane];
        &self.algorithm.gpus[rank as usize].blocks[block as usize]
    }

    /// The step that a lane is at, if it is not done.
    fn step(&self, lane: usize, loops: u32) -> Option<&'a Move> {
        let (turn, step, _) = self.at[lane];
        self.block(lane).steps.get(step as usize).filter(|_| turn < loops)
    }

    /// What keeps a lane from doing the call that it is at.
    fn stop(&self, lane: usize, step: &Move) -> Option<Stop> {
        let (turn, _, call) = self.at[lane];
        if let Some((block, number)) = step.after.filter(|_| call == 0) {
            let other = self.first[self.lanes[lane].0 as usize] + block as usize;
            let (their_turn, their_step, _) = self.at[other];
            if (their_turn, their_step) <= (turn, number) {
                return Some(Stop::Step(other, number));
            }
        }
        let [send, recv] = self.by[lane];
        if let Some(join) = recv.filter(|_| step.kind.receives()) {
            let [sent, taken] = self.calls[join];
            if sent == taken {
                return Some(Stop::Nothing(self.ends[join][0]));
            }
        }
        let join = send.filter(|_| step.kind.sends())?;
        let [sent, taken] = self.calls[join];
        (sent - taken >= self.room.slots).then_some(Stop::Full(self.ends[join][1]))
    }

    /// Goes on until nothing moves; `effect` is told of every call of the first loop: the lane as
    /// (rank, block), the step, and its chunks.
    fn run(
        &mut self,
        loops: u32,
        mut effect: impl FnMut((u32, u32), &Move, std::ops::Range<u32>),
    ) -> Result<(), Fault> {
        let mut waiting: VecDeque<usize> = (0..self.lanes.len()).collect();
        let mut idle = 0;
        while let Some(lane) = waiting.pop_front() {
            let mut moved = false;
            while let Some(step) = self.step(lane, loops) {
                if self.stop(lane, step).is_some() {
                    break;
                }
                moved = true;
                let (turn, _, call) = self.at[lane];
                let begin = call.saturating_mul(self.room.at_once);
                let end = step.count.min(begin.saturating_add(self.room.at_once));
                if turn == 0 {
                    effect(self.lanes[lane], step, begin..end);
                }
                self.done(lane, step, end == step.count);
            }
            if self.step(lane, loops).is_none() {
                idle = 0;
                continue;
            }
            idle = if moved { 0 } else { idle + 1 };
            waiting.push_back(lane);
            if idle > waiting.len() {
                return Err(self.stuck(lane, loops));
            }
        }
        Ok(())
    }

    /// A call is done; `last` if its step is.
    fn done(&mut self, lane: usize, step: &Move, last: bool) {
        let [send, recv] = self.by[lane];
        if let Some(join) = recv.filter(|_| step.kind.receives()) {
            self.calls[join][1] += 1;
        }
        if let Some(join) = send.filter(|_| step.kind.sends()) {
            self.calls[join][0] += 1;
        }
        let steps = self.block(lane).steps.len() as u32;
        let (turn, number, call) = &mut self.at[lane];
        *call = if last { 0 } else { *call + 1 };
        *number += u32::from(last);
        if *number == steps {
            (*turn, *number) = (*turn + 1, 0);
        }
    }

    /// Says who waits for whom, from a lane that cannot go on.
    fn stuck(&self, from: usize, loops: u32) -> Fault {
        // a lane that waits for one that is done cannot be: there are as many sends as receives
        let next = |lane: usize| {
            let step = self.step(lane, loops)?;
            let stop = self.stop(lane, step)?;
            Some((step, stop))
        };
        let mut chain: Vec<usize> = vec![from];
        let mut circle = 0;
        while let Some((_, Stop::Nothing(to) | Stop::Full(to) | Stop::Step(to, _))) =
            chain.last().and_then(|lane| next(*lane))
        {
            if let Some(place) = chain.iter().position(|lane| *lane == to) {
                circle = place;
                break;
            }
            chain.push(to);
        }
        const SHOWN: usize = 4;
        let chain = &chain[circle..];
        let line = next(chain[0]).map_or(0, |(step, _)| step.line);
        let mut text = Vec::new();
        for lane in chain.iter().take(SHOWN) {
            let ((rank, block), Some((step, stop))) = (self.lanes[*lane], next(*lane)) else {
                continue;
            };
            let place = format!("gpu {rank} tb {block} (line {})", step.line);
            let other = |lane: usize| {
                let (rank, block) = self.lanes[lane];
                format!("gpu {rank} tb {block}")
            };
            text.push(match stop {
                Stop::Nothing(lane) => format!("{place} waits for a chunk from {}", other(lane)),
                Stop::Full(lane) => format!("{place} waits until {} takes a chunk", other(lane)),
                Stop::Step(lane, step) => {
                    format!("{place} waits for step {step} of {}", other(lane))
                }
            });
        }
        if chain.len() > SHOWN {
            text.push(format!("and {} more", chain.len() - SHOWN));
        }
        let slots = match self.room.slots {
            u64::MAX => String::new(),
            slots => format!(
                " (at this size {} chunks go at once, and {slots} sends have room)",
                self.room.at_once
            ),
        };
        let text = text.join("; ");
        fault(line, format!("the program would wait for ever{slots}: {text}"))
    }
}
