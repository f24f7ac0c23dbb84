//! What a lane does, step by step. A program is computed as it runs; nothing is stored.

use super::halving_doubling::HalvingDoubling;
use super::p2p::PeerToPeer;
use super::ring::RingAllReduce;

/// A stretch of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub offset: u64,
    /// Its length, which may be zero.
    pub bytes: u64,
}

/// One primitive of NCCL's: any of receive, reduce with what this rank has, copy to the own output,
/// send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primitive {
    /// Takes the chunk from another lane.
    pub recv: bool,
    /// Adds what this rank has of it.
    pub reduce: bool,
    /// Writes the chunk to this rank's output.
    pub copy: bool,
    /// Gives the chunk, or `other`, to another lane.
    pub send: bool,
    /// Where the chunk lies in the buffer.
    pub offset: u64,
    /// Its length, which may be zero.
    pub bytes: u64,
    /// Another chunk that is sent while this one is received: an exchange, by two thread blocks.
    pub other: Option<Part>,
    /// Which of the lane's peers it receives from and sends to; a ring has one for each.
    pub peer: u32,
}

impl Primitive {
    /// What is sent.
    pub fn sent(&self) -> Part {
        let chunk = Part { offset: self.offset, bytes: self.bytes };
        if self.send { self.other.unwrap_or(chunk) } else { Part::default() }
    }
}

/// What a lane does in one repetition, by algorithm.
#[derive(Clone, Debug)]
pub enum Steps {
    /// AllReduce on a ring.
    RingAllReduce(RingAllReduce),
    /// AllReduce by recursive halving and doubling.
    HalvingDoubling(HalvingDoubling),
    /// Sends to peers, or receives from them, one after the other.
    PeerToPeer(PeerToPeer),
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

/// Every chunk of a ring is cut into so many slices (chunkSteps / sliceSteps).
pub(super) const SLICES: u64 = 2;

impl Steps {
    /// Slices of a chunk: P2P sends each chunk whole.
    fn slices(&self) -> u64 {
        match self {
            Steps::RingAllReduce(_) | Steps::HalvingDoubling(_) => SLICES,
            Steps::PeerToPeer(_) => 1,
        }
    }

    /// Only a ring repeats itself: all that others do is one stretch.
    fn stretches(&self) -> [u64; 2] {
        match self {
            Steps::RingAllReduce(ring) => ring.stretches(),
            Steps::HalvingDoubling(steps) => [0, steps.len()],
            Steps::PeerToPeer(steps) => [0, steps.len()],
        }
    }

    fn step(&self, step: u64) -> Primitive {
        match self {
            Steps::RingAllReduce(ring) => ring.step(step),
            Steps::HalvingDoubling(steps) => steps.step(step),
            Steps::PeerToPeer(steps) => steps.step(step),
        }
    }

    fn count_before(&self, step: u64, which: fn(&Primitive) -> bool) -> u64 {
        (0..step).map(|step| self.step(step)).filter(which).count() as u64
    }

    fn receives_before(&self, step: u64) -> u64 {
        match self {
            Steps::RingAllReduce(ring) => ring.receives_before(step),
            _ => self.count_before(step, |primitive| primitive.recv),
        }
    }

    fn sends_before(&self, step: u64) -> u64 {
        match self {
            Steps::RingAllReduce(ring) => ring.sends_before(step),
            _ => self.count_before(step, |primitive| primitive.send),
        }
    }

    fn loop_steps(&self) -> u64 {
        match self {
            Steps::RingAllReduce(ring) => ring.steps(),
            _ => self.stretches()[1].max(1),
        }
    }
}

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
        primitive.send &= !cut;
        primitive
    }

    /// Slices of a chunk.
    pub fn slices(&self) -> u64 {
        self.steps.slices()
    }

    /// Slices that are received from a peer.
    pub fn receives(&self, peer: u32) -> u64 {
        match &self.steps {
            Steps::RingAllReduce(_) => self.ring_receives(),
            Steps::HalvingDoubling(steps) => steps.chunks_with(peer) * SLICES,
            Steps::PeerToPeer(steps) => steps.chunks_from(peer),
        }
    }

    fn ring_receives(&self) -> u64 {
        let of = |step: u64| self.steps.receives_before(step);
        let [full, _] = self.run;
        let second = full + self.skipped;
        (of(full) + of(self.len() + self.skipped) - of(second)) * SLICES
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
        Program::new(
            Steps::RingAllReduce(RingAllReduce { index, ranks, offset, bytes, chunk }),
            cut,
        )
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
            expected.send &= step != 6 && step != 9;
            assert_eq!(cut.step(step), expected, "{step}");
        }
        // sends: 0 1 2 3, 5 (4 is the end of a loop, 6 of the stretch), and 10 11 of the last loop
        assert_eq!(cut.sends_run(), [5, 2]);
        let counted = |flag: fn(&Primitive) -> bool| {
            (0..10).map(|step| cut.step(step)).filter(flag).count() as u64
        };
        assert_eq!(counted(|step| step.send), 7);
        // receives: all but 0, 5 and 10
        assert_eq!((cut.receives(0), counted(|step| step.recv) * SLICES), (14, 14));
    }

    #[test]
    fn what_is_sent_is_received_wherever_the_cut_is() {
        for (full, last) in (0..12).flat_map(|full| (0..7).map(move |last| (full, last))) {
            let program = |index| ring(index, Some(Cut { full, last }));
            let (from, to) = (program(1), program(2));
            let sent = (0..from.len()).map(|step| from.step(step)).filter(|step| step.send);
            let taken = (0..to.len()).map(|step| to.step(step)).filter(|step| step.recv);
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
