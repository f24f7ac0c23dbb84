//! What a lane does, step by step. A program is computed as it runs; nothing is stored.

use super::ring::RingAllReduce;

/// One primitive of NCCL's: any of receive, reduce with the own input, copy to the own output, send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primitive {
    /// Takes the chunk from the lane before.
    pub recv: bool,
    /// Adds this rank's input.
    pub reduce: bool,
    /// Writes the chunk to this rank's output.
    pub copy: bool,
    /// Gives the chunk to the lane after.
    pub send: bool,
    /// Where the chunk lies in the buffer.
    pub offset: u64,
    /// Its length, which may be zero.
    pub bytes: u64,
}

/// The program of one lane for one repetition.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    /// AllReduce on a ring.
    RingAllReduce(RingAllReduce),
}

/// Every chunk is cut into so many slices (chunkSteps / sliceSteps of a ring).
pub(super) const SLICES: u64 = 2;

impl Program {
    /// Number of primitives.
    pub fn len(&self) -> u64 {
        match self {
            Program::RingAllReduce(ring) => ring.len(),
        }
    }

    /// True if nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The primitive at `step`, which is below `len`.
    pub fn step(&self, step: u64) -> Primitive {
        match self {
            Program::RingAllReduce(ring) => ring.step(step),
        }
    }

    /// Slices that are received.
    pub fn receives(&self) -> u64 {
        match self {
            Program::RingAllReduce(ring) => ring.receives() * SLICES,
        }
    }

    /// Bytes of slice `index` of a chunk; `largest` is the size of a buffer slot.
    /// NCCL: `sliceSize = max(divUp(nelem, 16 * SlicePerChunk) * 16, sliceSize / 32)`
    /// (device/prims_simple.h).
    pub fn slice(bytes: u64, index: u64, largest: u64) -> u64 {
        let size = (bytes.div_ceil(16 * SLICES) * 16).max(largest / 32).min(largest);
        bytes.saturating_sub(index * size).min(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_into_two_slices() {
        let mib = 1 << 20;
        let slices = |bytes| [0, 1].map(|index| Program::slice(bytes, index, mib));
        assert_eq!(slices(2 * mib), [mib, mib]);
        // 100 B: two slices of 16 x ceil(100 / 32) = 64 B would do, but a slice has at least 32 KiB
        assert_eq!(slices(100), [100, 0]);
        assert_eq!(slices(100 << 10), [50 << 10, 50 << 10]);
        assert_eq!(slices(0), [0, 0]);
    }
}
