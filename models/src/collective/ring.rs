//! AllReduce, AllGather and ReduceScatter on a ring (NCCL device/all_reduce.h, all_gather.h,
//! reduce_scatter.h). Every chunk travels once around to be reduced, and once more to be handed out:
//! an AllReduce does both, 2n - 1 primitives a loop; the others do one half, n primitives a loop.

use std::sync::Arc;

use super::program::{Part, Peers, Primitive, Stepped};

/// Which way around.
#[derive(Clone, Debug)]
pub enum Around {
    /// Both: the buffer is cut into chunks for all ranks, loop by loop.
    AllReduce,
    /// Once, to hand out the part of each rank; by position on the ring: which part is its own, of
    /// so many bytes.
    AllGather(Arc<[u32]>, u64),
    /// Once, to reduce them.
    ReduceScatter(Arc<[u32]>, u64),
}

/// The halves of an AllReduce that a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halves {
    /// To reduce, and to hand out.
    Both,
    /// To reduce.
    Reduce,
    /// To hand out.
    HandOut,
}

impl Halves {
    /// Steps of an AllReduce among `ranks` that are the first one and the last one.
    fn ends(self, ranks: u64) -> [u64; 2] {
        let once = ranks - 1;
        match self {
            Halves::Both => [0, 2 * once],
            Halves::Reduce => [0, once],
            Halves::HandOut => [once, 2 * once],
        }
    }

    /// Steps among `ranks`.
    pub(super) fn steps(self, ranks: u64) -> u64 {
        let [first, last] = self.ends(ranks);
        last - first + 1
    }

    /// Step `step` of the rank at `index`: the number of the chunk at hand, and what is done with it.
    pub(super) fn step(self, ranks: u64, index: u64, step: u64) -> (u64, Primitive) {
        let [first, last] = self.ends(ranks);
        let step = first + step;
        // the chunk at hand moves one place back with every step
        let number = (index + 2 * ranks - 1 - step) % ranks;
        let primitive = Primitive {
            recv: Peers::first_if(step > first),
            reduce: step < ranks && first == 0,
            copy: step >= ranks - 1,
            send: Peers::first_if(step < last),
            offset: 0,
            bytes: 0,
            other: None,
            multicast: false,
        };
        (number, primitive)
    }
}

/// The program of one rank on one ring.
#[derive(Clone, Debug)]
pub struct Ring {
    /// What for.
    pub around: Around,
    /// Position of the rank on the ring.
    pub index: u32,
    /// Ranks on the ring, at least 2.
    pub ranks: u32,
    /// What this channel does of the buffer, or of the part of each rank.
    pub part: Part,
    /// Largest chunk.
    pub chunk: u64,
    /// Slices of a chunk.
    pub slices: u64,
}

impl Ring {
    /// The ranks that share what a loop does.
    fn sharers(&self) -> u64 {
        if matches!(self.around, Around::AllReduce) { u64::from(self.ranks) } else { 1 }
    }

    /// Bytes of a loop.
    fn of_loop(&self) -> u64 {
        self.sharers() * self.chunk
    }

    fn halves(&self) -> Halves {
        match self.around {
            Around::AllReduce => Halves::Both,
            Around::ReduceScatter(..) => Halves::Reduce,
            Around::AllGather(..) => Halves::HandOut,
        }
    }

    /// Primitives of a loop.
    pub fn steps(&self) -> u64 {
        self.halves().steps(u64::from(self.ranks))
    }
}

impl Stepped for Ring {
    fn slices(&self) -> u64 {
        self.slices
    }

    fn len(&self) -> u64 {
        self.part.bytes.div_ceil(self.of_loop()) * self.steps()
    }

    fn stretches(&self) -> [u64; 2] {
        let full = self.part.bytes / self.of_loop() * self.steps();
        [full, self.len() - full]
    }

    fn loop_steps(&self) -> u64 {
        self.steps()
    }

    fn receives_from(&self, _: u32) -> u64 {
        self.receives_before(self.len())
    }

    /// All but the first of each loop.
    fn receives_before(&self, step: u64) -> u64 {
        step - step.div_ceil(self.steps())
    }

    /// All but the last of each loop.
    fn sends_before(&self, step: u64) -> u64 {
        step - step / self.steps()
    }

    fn step(&self, step: u64) -> Primitive {
        let n = u64::from(self.ranks);
        let (round, step) = (step / self.steps(), step % self.steps());
        let (number, primitive) = self.halves().step(n, u64::from(self.index), step);
        let before = round * self.of_loop();
        let rest = self.part.bytes - before;
        let (offset, bytes) = match &self.around {
            Around::AllReduce => {
                // the last loop is split evenly, in units of 16 B
                let chunk = self.chunk.min(rest.div_ceil(n).div_ceil(16) * 16);
                let start = number * chunk;
                (start.min(rest), rest.saturating_sub(start).min(chunk))
            }
            Around::AllGather(own, size) | Around::ReduceScatter(own, size) => {
                (u64::from(own[number as usize]) * size, rest.min(self.chunk))
            }
        };
        Primitive { offset: self.part.offset + before + offset, bytes, ..primitive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(around: Around, index: u32, ranks: u32, part: Part, chunk: u64) -> Ring {
        Ring { around, index, ranks, part, chunk, slices: 2 }
    }

    fn flags(steps: &[Primitive], flag: fn(&Primitive) -> bool) -> Vec<bool> {
        steps.iter().map(flag).collect()
    }

    #[test]
    fn four_ranks() {
        let part = Part { offset: 1000, bytes: 64 };
        let ring = ring(Around::AllReduce, 1, 4, part, 1024);
        // chunks of 16 B; rank 1 sends chunk 0, then handles 3, 2, completes 1, hands on 0, 3, 2
        let steps: Vec<Primitive> = (0..ring.len()).map(|step| ring.step(step)).collect();
        let chunks: Vec<u64> = steps.iter().map(|step| (step.offset - 1000) / 16).collect();
        assert_eq!(chunks, [0, 3, 2, 1, 0, 3, 2]);
        let (o, x) = (false, true);
        assert_eq!(flags(&steps, |step| step.recv.any()), [o, x, x, x, x, x, x]);
        assert_eq!(flags(&steps, |step| step.reduce), [x, x, x, x, o, o, o]);
        assert_eq!(flags(&steps, |step| step.copy), [o, o, o, x, x, x, x]);
        assert_eq!(flags(&steps, |step| step.send.any()), [x, x, x, x, x, x, o]);
    }

    #[test]
    fn the_halves_of_an_all_reduce() {
        // a ring of ranks 0, 2, 1: the one at position 1 is rank 2; parts of 100 B, of which this
        // channel does the 40 B from 8 on, in chunks of 32 and 8
        let (order, part): (Arc<[u32]>, _) = ([0, 2, 1].into(), Part { offset: 8, bytes: 40 });
        let gather = ring(Around::AllGather(order.clone(), 100), 1, 3, part, 32);
        let steps: Vec<Primitive> = (0..gather.len()).map(|step| gather.step(step)).collect();
        // it sends its own, hands on that of position 0, takes that of position 2
        let offsets: Vec<(u64, u64)> = steps.iter().map(|s| (s.offset, s.bytes)).collect();
        assert_eq!(offsets, [(208, 32), (8, 32), (108, 32), (240, 8), (40, 8), (140, 8)]);
        let (o, x) = (false, true);
        assert_eq!(flags(&steps, |step| step.recv.any()), [o, x, x, o, x, x]);
        assert_eq!(flags(&steps, |step| step.send.any()), [x, x, o, x, x, o]);
        assert_eq!(flags(&steps, |step| step.reduce), [o; 6]);
        let scatter = ring(Around::ReduceScatter(order, 100), 1, 3, part, 32);
        let steps: Vec<Primitive> = (0..scatter.len()).map(|step| scatter.step(step)).collect();
        let offsets: Vec<u64> = steps.iter().map(|step| step.offset).collect();
        // first that of position 0; its own one last, which it keeps
        assert_eq!(offsets, [8, 108, 208, 40, 140, 240]);
        assert_eq!(flags(&steps, |step| step.copy), [o, o, x, o, o, x]);
        assert_eq!(flags(&steps, |step| step.send.any()), [x, x, o, x, x, o]);
        assert_eq!((scatter.stretches(), scatter.receives_from(0)), ([3, 3], 4));
    }

    #[test]
    fn the_last_loop_takes_what_is_left() {
        // 3 ranks x 32 B = 96 B a loop; 200 B: two loops, and 8 B in one chunk of the third
        let ring = ring(Around::AllReduce, 0, 3, Part { offset: 0, bytes: 200 }, 32);
        assert_eq!((ring.len(), ring.receives_before(15)), (15, 12));
        assert_eq!((ring.stretches(), ring.sends_before(9)), ([10, 5], 8));
        let sent: u64 = (0..ring.len()).map(|s| ring.step(s).sent().bytes).sum();
        // of each full loop 4 x 32 B; of the rest chunk 0 (8 B): sent at steps 2 (own) and not again
        assert_eq!(ring.step(12).bytes + ring.step(11).bytes, 8);
        assert_eq!(sent, 2 * 4 * 32 + 8);
    }
}
