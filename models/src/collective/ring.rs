//! AllReduce on a ring (NCCL device/all_reduce.h): 2n - 1 primitives a loop. Every chunk travels
//! once around to be reduced, and once more to be handed out.

use super::program::Primitive;

/// The program of one rank on one ring.
#[derive(Clone, Copy, Debug)]
pub struct RingAllReduce {
    /// Position of the rank on the ring.
    pub index: u32,
    /// Ranks on the ring, at least 2.
    pub ranks: u32,
    /// Part of the buffer that this channel reduces: its start,
    pub offset: u64,
    /// and its length.
    pub bytes: u64,
    /// Largest chunk.
    pub chunk: u64,
}

impl RingAllReduce {
    fn loops(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.ranks) * self.chunk)
    }

    /// Primitives of a loop.
    pub fn steps(&self) -> u64 {
        2 * u64::from(self.ranks) - 1
    }

    /// Number of primitives.
    pub fn len(&self) -> u64 {
        self.loops() * self.steps()
    }

    /// True if there is nothing to reduce.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Primitives in the loops of full chunks, and in the last loop, whose chunks are smaller.
    pub fn stretches(&self) -> [u64; 2] {
        let full = self.bytes / (u64::from(self.ranks) * self.chunk) * self.steps();
        [full, self.len() - full]
    }

    /// Of the primitives before `step`, those that receive: all but the first of each loop.
    pub fn receives_before(&self, step: u64) -> u64 {
        step - step.div_ceil(self.steps())
    }

    /// Of the primitives before `step`, those that send: all but the last of each loop.
    pub fn sends_before(&self, step: u64) -> u64 {
        step - step / self.steps()
    }

    /// The primitive at `step`.
    pub fn step(&self, step: u64) -> Primitive {
        let n = u64::from(self.ranks);
        let (round, step) = (step / self.steps(), step % self.steps());
        let before = round * n * self.chunk;
        let rest = self.bytes - before;
        // the last loop is split evenly, in units of 16 B
        let chunk = self.chunk.min(rest.div_ceil(n).div_ceil(16) * 16);
        let index = u64::from(self.index);
        // the chunk at hand moves one place back with every step
        let number = (index + 2 * n - 1 - step) % n;
        let start = number * chunk;
        Primitive {
            recv: step > 0,
            reduce: step < n,
            copy: step >= n - 1,
            send: step < 2 * n - 2,
            offset: self.offset + before + start.min(rest),
            bytes: rest.saturating_sub(start).min(chunk),
            other: None,
            peer: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_ranks() {
        let ring = RingAllReduce { index: 1, ranks: 4, offset: 1000, bytes: 64, chunk: 1024 };
        // chunks of 16 B; rank 1 sends chunk 0, then handles 3, 2, completes 1, hands on 0, 3, 2
        let steps: Vec<Primitive> = (0..ring.len()).map(|step| ring.step(step)).collect();
        let chunks: Vec<u64> = steps.iter().map(|step| (step.offset - 1000) / 16).collect();
        assert_eq!(chunks, [0, 3, 2, 1, 0, 3, 2]);
        let flags = |flag: fn(&Primitive) -> bool| steps.iter().map(flag).collect::<Vec<_>>();
        let (o, x) = (false, true);
        assert_eq!(flags(|step| step.recv), [o, x, x, x, x, x, x]);
        assert_eq!(flags(|step| step.reduce), [x, x, x, x, o, o, o]);
        assert_eq!(flags(|step| step.copy), [o, o, o, x, x, x, x]);
        assert_eq!(flags(|step| step.send), [x, x, x, x, x, x, o]);
    }

    #[test]
    fn the_last_loop_takes_what_is_left() {
        // 3 ranks x 32 B = 96 B a loop; 200 B: two loops, and 8 B in one chunk of the third
        let ring = RingAllReduce { index: 0, ranks: 3, offset: 0, bytes: 200, chunk: 32 };
        assert_eq!((ring.len(), ring.receives_before(15)), (15, 12));
        assert_eq!((ring.stretches(), ring.sends_before(9)), ([10, 5], 8));
        let sent: u64 =
            (0..ring.len()).map(|s| ring.step(s)).filter(|s| s.send).map(|s| s.bytes).sum();
        // of each full loop 4 x 32 B; of the rest chunk 0 (8 B): sent at steps 2 (own) and not again
        assert_eq!(ring.step(12).bytes + ring.step(11).bytes, 8);
        assert_eq!(sent, 2 * 4 * 32 + 8);
    }
}
