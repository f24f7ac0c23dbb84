//! Broadcast and Reduce: a ring that is used as a pipeline, from the root to the rank before it, or
//! from the rank after it to the root (NCCL device/broadcast.h, reduce.h).

use super::program::{Part, Peers, Primitive, Stepped};

/// The program of one rank on one ring.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Chunks are reduced on their way to the root; otherwise they come from it.
    pub reduces: bool,
    /// Ranks before this one on the way.
    pub before: u32,
    /// Ranks on the ring, at least 2.
    pub ranks: u32,
    /// What this channel does of the buffer.
    pub part: Part,
    /// Largest chunk.
    pub chunk: u64,
}

impl Chain {
    /// The place of a rank on the way, from its place on the ring and that of the root.
    pub fn place(reduces: bool, index: u32, root: u32, ranks: u32) -> u32 {
        (index + ranks - root + if reduces { ranks - 1 } else { 0 }) % ranks
    }

    fn is_last(&self) -> bool {
        self.before + 1 == self.ranks
    }
}

impl Stepped for Chain {
    fn len(&self) -> u64 {
        self.part.bytes.div_ceil(self.chunk)
    }

    fn stretches(&self) -> [u64; 2] {
        let full = self.part.bytes / self.chunk;
        [full, self.len() - full]
    }

    fn loop_steps(&self) -> u64 {
        1
    }

    fn receives_from(&self, _: u32) -> u64 {
        self.receives_before(self.len())
    }

    fn receives_before(&self, step: u64) -> u64 {
        if self.before > 0 { step } else { 0 }
    }

    fn sends_before(&self, step: u64) -> u64 {
        if self.is_last() { 0 } else { step }
    }

    fn step(&self, step: u64) -> Primitive {
        let Part { offset, bytes } = self.part.piece(step, self.chunk);
        Primitive {
            recv: Peers::first_if(self.before > 0),
            reduce: self.reduces,
            copy: if self.reduces { self.is_last() } else { self.before > 0 },
            send: Peers::first_if(!self.is_last()),
            offset,
            bytes,
            other: None,
            multicast: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_begins_at_the_root_and_a_reduce_ends_there() {
        // four ranks, root at position 2: 2, 3, 0, 1 and 3, 0, 1, 2
        let places = |reduces| [0, 1, 2, 3].map(|index| Chain::place(reduces, index, 2, 4));
        assert_eq!((places(false), places(true)), ([2, 3, 0, 1], [1, 2, 3, 0]));
        let chain = |reduces, before| {
            let part = Part { offset: 100, bytes: 70 };
            Chain { reduces, before, ranks: 4, part, chunk: 32 }
        };
        let root = chain(true, 3);
        let steps: Vec<Primitive> = (0..root.len()).map(|step| root.step(step)).collect();
        assert_eq!(
            steps.iter().map(|s| (s.offset, s.bytes)).collect::<Vec<_>>(),
            [(100, 32), (132, 32), (164, 6)]
        );
        assert!(steps.iter().all(|s| s.recv.any() && s.reduce && s.copy && !s.send.any()));
        let first = chain(true, 0).step(0);
        assert!(!first.recv.any() && first.send.any() && !first.copy);
        let [root, last] = [0, 3].map(|before| chain(false, before).step(1));
        assert!(!root.recv.any() && root.send.any() && last.copy && !last.send.any());
        assert_eq!([0, 3].map(|before| chain(false, before).receives_from(0)), [0, 3]);
    }
}
