//! What a lane does, step by step. A program is computed as it runs; nothing is stored.

use super::blocks::{After, BlockSteps};
use super::chain::Chain;
use super::halving_doubling::HalvingDoubling;
use super::hierarchical::Hierarchical;
use super::p2p::PeerToPeer;
use super::ring::Ring;
use super::tree::TreeHalf;

/// A stretch of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub offset: u64,
    /// Its length, which may be zero.
    pub bytes: u64,
}

impl Part {
    /// Its piece `number` of pieces of `size`, the last one what is left.
    pub(super) fn piece(self, number: u64, size: u64) -> Part {
        let before = number.saturating_mul(size).min(self.bytes);
        Part { offset: self.offset + before, bytes: (self.bytes - before).min(size) }
    }
}

/// Some of a lane's peers, one after the other as they are joined to it. Those that it receives from
/// and those that it sends to are counted apart, each from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// The first,
    pub first: u32,
    /// and how many.
    pub count: u32,
}

impl Peers {
    /// Nobody.
    pub const NONE: Peers = Peers { first: 0, count: 0 };

    /// One of them.
    pub const fn one(peer: u32) -> Peers {
        Peers { first: peer, count: 1 }
    }

    /// The first `count`.
    pub const fn all(count: u32) -> Peers {
        Peers { first: 0, count }
    }

    /// The first one, or nobody.
    pub const fn first_if(there: bool) -> Peers {
        Peers::all(there as u32)
    }

    /// True if there is one.
    pub const fn any(self) -> bool {
        self.count > 0
    }

    /// Whether `peer` is one of them.
    pub const fn contains(self, peer: u32) -> bool {
        peer >= self.first && peer < self.first + self.count
    }

    /// Their numbers.
    pub fn numbers(self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

/// One primitive of NCCL's: any of receive, reduce with what this rank has, copy to the own output,
/// send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primitive {
    /// Takes the chunk from these, and adds up what they have of it.
    pub recv: Peers,
    /// Adds what this rank has of it.
    pub reduce: bool,
    /// Writes the chunk to this rank's output.
    pub copy: bool,
    /// Gives the chunk, or `other`, to these.
    pub send: Peers,
    /// Where the chunk lies in the buffer.
    pub offset: u64,
    /// Its length, which may be zero.
    pub bytes: u64,
    /// Another chunk that is sent while this one is received: an exchange, by two thread blocks.
    pub other: Option<Part>,
    /// The NVSwitch adds up, or hands out, what all GPUs of the host have (NVLS).
    pub multicast: bool,
}

impl Primitive {
    /// What is sent, to each.
    pub fn sent(&self) -> Part {
        let chunk = Part { offset: self.offset, bytes: self.bytes };
        if self.send.any() { self.other.unwrap_or(chunk) } else { Part::default() }
    }
}

/// What a lane does in one repetition, by algorithm: steps that are counted from 0.
pub(super) trait Stepped {
    /// Slices of a chunk.
    fn slices(&self) -> u64 {
        1
    }

    /// Number of steps.
    fn len(&self) -> u64;

    /// Steps in the loops of full chunks, and in the last loop, whose chunks are smaller; where
    /// nothing repeats itself, all is one stretch.
    fn stretches(&self) -> [u64; 2] {
        [0, self.len()]
    }

    /// Steps of a loop.
    fn loop_steps(&self) -> u64 {
        self.len().max(1)
    }

    /// The primitive at `step`, which is below `len`.
    fn step(&self, step: u64) -> Primitive;

    /// Chunks that come from a peer.
    fn receives_from(&self, peer: u32) -> u64 {
        (0..self.len()).filter(|step| self.step(*step).recv.contains(peer)).count() as u64
    }

    /// Of the first `step` steps, those that receive.
    fn receives_before(&self, step: u64) -> u64 {
        (0..step).filter(|step| self.step(*step).recv.any()).count() as u64
    }

    /// Of the first `step` steps, those that send.
    fn sends_before(&self, step: u64) -> u64 {
        (0..step).filter(|step| self.step(*step).send.any()).count() as u64
    }

    /// What a step waits for beside its peers: see [`Program::after`].
    fn after(&self, _: u64) -> Option<After> {
        None
    }

    /// Whether a step is within its GPU: see [`Program::alone`].
    fn alone(&self, _: u64) -> bool {
        false
    }
}

/// The steps of a lane, by algorithm.
#[derive(Clone, Debug)]
pub enum Steps {
    /// AllReduce, AllGather or ReduceScatter on a ring.
    Ring(Ring),
    /// Broadcast or Reduce along a ring.
    Chain(Chain),
    /// One half of an AllReduce on a tree.
    Tree(TreeHalf),
    /// AllReduce within hosts, between them, and within them.
    Hierarchical(Hierarchical),
    /// AllReduce by recursive halving and doubling.
    HalvingDoubling(HalvingDoubling),
    /// Sends to peers, or receives from them, one after the other.
    PeerToPeer(PeerToPeer),
    /// A thread block of an MSCCL algorithm.
    Block(BlockSteps),
}

macro_rules! delegate {
    ($self:ident, $steps:ident => $call:expr) => {
        match $self {
            Steps::Ring($steps) => $call,
            Steps::Chain($steps) => $call,
            Steps::Tree($steps) => $call,
            Steps::Hierarchical($steps) => $call,
            Steps::HalvingDoubling($steps) => $call,
            Steps::PeerToPeer($steps) => $call,
            Steps::Block($steps) => $call,
        }
    };
}

impl Stepped for Steps {
    fn slices(&self) -> u64 {
        delegate!(self, steps => steps.slices())
    }

    fn len(&self) -> u64 {
        delegate!(self, steps => steps.len())
    }

    fn stretches(&self) -> [u64; 2] {
        delegate!(self, steps => steps.stretches())
    }

    fn loop_steps(&self) -> u64 {
        delegate!(self, steps => steps.loop_steps())
    }

    fn step(&self, step: u64) -> Primitive {
        delegate!(self, steps => steps.step(step))
    }

    fn receives_from(&self, peer: u32) -> u64 {
        delegate!(self, steps => steps.receives_from(peer))
    }

    fn receives_before(&self, step: u64) -> u64 {
        delegate!(self, steps => steps.receives_before(step))
    }

    fn sends_before(&self, step: u64) -> u64 {
        delegate!(self, steps => steps.sends_before(step))
    }

    fn after(&self, step: u64) -> Option<After> {
        delegate!(self, steps => steps.after(step))
    }

    fn alone(&self, step: u64) -> bool {
        delegate!(self, steps => steps.alone(step))
    }
}

/// How many steps of a program are run. A program has two stretches: the loops of full chunks, and
/// the last loop, whose chunks are smaller. Of each the first steps are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Steps in loops of full chunks,
    pub full: u64,
    /// and in the last loop.
    pub last: u64,
}

/// The program of one lane for one repetition: all steps, or the first ones of each stretch.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Steps,
    /// Steps of both stretches that are run,
    run: [u64; 2],
    /// and those of the first stretch that are not.
    skipped: u64,
    /// Marks of each stretch; none if all steps are run.
    marks: u32,
}

/// Marks of each stretch of a program that is cut: places whose time is noted.
pub const MARKS: u32 = 16;

/// Every chunk of a ring under Simple is cut into so many slices (chunkSteps / sliceSteps).
pub(super) const SLICES: u64 = 2;

impl Program {
    /// The program of these steps, or what `cut` leaves of it.
    pub fn new(steps: Steps, cut: Option<Cut>) -> Self {
        let all = steps.stretches();
        let run = cut.map_or(all, |cut| [cut.full.min(all[0]), cut.last.min(all[1])]);
        let marks = if cut.is_some() { MARKS } else { 0 };
        Program { steps, run, skipped: all[0] - run[0], marks }
    }

    /// Number of primitives.
    pub fn len(&self) -> u64 {
        self.run[0] + self.run[1]
    }

    /// True if nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The primitive at `step`, which is below `len`.
    pub fn step(&self, step: u64) -> Primitive {
        let [full, _] = self.run;
        let mut primitive = self.steps.step(if step < full { step } else { step + self.skipped });
        // what is sent at one step is received at the next: nobody takes it where it is not run
        let cut = self.marks > 0 && (step + 1 == full || step + 1 == self.len());
        if cut {
            primitive.send = Peers::NONE;
        }
        primitive
    }

    /// Slices of a chunk.
    pub fn slices(&self) -> u64 {
        self.steps.slices()
    }

    /// What another thread block of the rank has to have done before a step begins.
    pub fn after(&self, step: u64) -> Option<After> {
        self.steps.after(step)
    }

    /// Whether a step neither receives nor sends, but copies or adds up within its GPU, in one go.
    pub fn alone(&self, step: u64) -> bool {
        self.steps.alone(step)
    }

    /// Slices that are received from a peer.
    pub fn receives(&self, peer: u32) -> u64 {
        if self.marks == 0 {
            return self.steps.receives_from(peer) * self.slices();
        }
        let of = |step: u64| self.steps.receives_before(step);
        let [full, _] = self.run;
        let second = full + self.skipped;
        (of(full) + of(self.len() + self.skipped) - of(second)) * self.slices()
    }

    /// Of both stretches: all steps, run or not.
    pub fn stretches(&self) -> [u64; 2] {
        self.steps.stretches()
    }

    /// Steps of a loop.
    pub fn loop_steps(&self) -> u64 {
        self.steps.loop_steps()
    }

    /// Of the first `steps` steps of a stretch, those that send.
    fn sends_within(&self, stretch: usize, steps: u64) -> u64 {
        let begin = [0, self.stretches()[0]][stretch];
        self.steps.sends_before(begin + steps) - self.steps.sends_before(begin)
    }

    /// Of both stretches: steps that send, were all of them run.
    pub fn sends(&self) -> [u64; 2] {
        [0, 1].map(|stretch| self.sends_within(stretch, self.stretches()[stretch]))
    }

    /// Of both stretches: steps that send, of those that are run; the last one never does.
    pub fn sends_run(&self) -> [u64; 2] {
        [0, 1].map(|stretch| self.sends_within(stretch, self.run[stretch].saturating_sub(1)))
    }

    /// Of the steps up to mark `number` of a stretch (from 0), those that send.
    pub fn sends_to_mark(&self, stretch: usize, number: u32) -> u64 {
        self.sends_within(stretch, self.steps_to_mark(stretch, number))
    }

    fn steps_to_mark(&self, stretch: usize, number: u32) -> u64 {
        self.run[stretch] * u64::from(number + 1) / u64::from(MARKS)
    }

    /// Steps that are done when mark `number` of both stretches' is reached; none beyond the last.
    pub(super) fn mark(&self, number: u32) -> Option<u64> {
        let stretch = (number / MARKS) as usize;
        let before = if stretch == 0 { 0 } else { self.run[0] };
        (number < 2 * self.marks).then(|| before + self.steps_to_mark(stretch, number % MARKS))
    }

    /// Bytes that are sent to a peer.
    pub fn sent_to(&self, peer: u32) -> u64 {
        let steps = (0..self.len()).map(|step| self.step(step));
        steps.filter(|step| step.send.contains(peer)).map(|step| step.sent().bytes).sum()
    }

    /// Bytes of slice `index` of a chunk; `largest` is the size of a buffer slot.
    /// NCCL: `sliceSize = max(divUp(nelem, 16 * SlicePerChunk) * 16, sliceSize / 32)`
    /// (device/prims_simple.h).
    pub fn slice(&self, bytes: u64, index: u64, largest: u64) -> u64 {
        let size = (bytes.div_ceil(16 * self.slices()) * 16).max(largest / 32).min(largest);
        bytes.saturating_sub(index * size).min(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::ring::Around;

    #[test]
    fn chunks_are_cut_into_two_slices() {
        let mib = 1 << 20;
        let program = ring(0, None);
        let slices = |bytes| [0, 1].map(|index| program.slice(bytes, index, mib));
        assert_eq!(slices(2 * mib), [mib, mib]);
        // 100 B: two slices of 16 x ceil(100 / 32) = 64 B would do, but a slice has at least 32 KiB
        assert_eq!(slices(100), [100, 0]);
        assert_eq!(slices(100 << 10), [50 << 10, 50 << 10]);
        assert_eq!(slices(0), [0, 0]);
    }

    /// 3 ranks x 32 B a loop; 200 B: two loops of 5 steps, and a third of 5 with what is left.
    fn ring(index: u32, cut: Option<Cut>) -> Program {
        let (ranks, offset, bytes, chunk) = (3, 0, 200, 32);
        let part = Part { offset, bytes };
        let around = Around::AllReduce;
        Program::new(Steps::Ring(Ring { around, index, ranks, part, chunk, slices: 2 }), cut)
    }

    #[test]
    fn a_cut_leaves_the_first_steps_of_each_stretch() {
        let whole = ring(1, None);
        assert_eq!((whole.len(), whole.stretches(), whole.sends()), (15, [10, 5], [8, 4]));
        let cut = ring(1, Some(Cut { full: 7, last: 3 }));
        assert_eq!(cut.len(), 10);
        // steps 0 to 6 and 10 to 12; the last of each hands nothing on
        let from = [0, 1, 2, 3, 4, 5, 6, 10, 11, 12];
        for (step, origin) in (0..10).zip(from) {
            let mut expected = whole.step(origin);
            if step == 6 || step == 9 {
                expected.send = Peers::NONE;
            }
            assert_eq!(cut.step(step), expected, "{step}");
        }
        // sends: 0 1 2 3, 5 (4 is the end of a loop, 6 of the stretch), and 10 11 of the last loop
        assert_eq!(cut.sends_run(), [5, 2]);
        let counted = |flag: fn(&Primitive) -> bool| {
            (0..10).map(|step| cut.step(step)).filter(flag).count() as u64
        };
        assert_eq!(counted(|step| step.send.any()), 7);
        // receives: all but 0, 5 and 10
        assert_eq!((cut.receives(0), counted(|step| step.recv.any()) * SLICES), (14, 14));
    }

    #[test]
    fn what_is_sent_is_received_wherever_the_cut_is() {
        for (full, last) in (0..12).flat_map(|full| (0..7).map(move |last| (full, last))) {
            let program = |index| ring(index, Some(Cut { full, last }));
            let (from, to) = (program(1), program(2));
            let sent = (0..from.len()).map(|step| from.step(step)).filter(|step| step.send.any());
            let taken = (0..to.len()).map(|step| to.step(step)).filter(|step| step.recv.any());
            let chunk = |step: Primitive| (step.offset, step.bytes);
            assert!(sent.map(chunk).eq(taken.map(chunk)), "{full} {last}");
            assert_eq!(from.sends_run().iter().sum::<u64>() * SLICES, to.receives(0));
        }
    }

    #[test]
    fn marks_part_each_stretch_evenly() {
        let all = ring(0, None);
        assert_eq!(all.mark(0), None);
        let cut = ring(0, Some(Cut { full: 8, last: 4 }));
        // mark 1 of 16: one step of 8; the last of the first stretch; the eighth and last of the other
        let marks = [1, 15, 23, 31, 32].map(|number| cut.mark(number));
        assert_eq!(marks, [Some(1), Some(8), Some(10), Some(12), None]);
        // of the first 7 steps step 4 does not send
        assert_eq!((cut.sends_to_mark(0, 13), cut.sends_to_mark(1, 7)), (6, 2));
    }
}
