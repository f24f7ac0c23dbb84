//! NCCL's protocols: how a chunk lies in the buffers, and what of it is on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::program::SLICES;

/// How a GPU knows that data has come (NCCL include/device.h).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub enum Protocol {
    /// Every 4 B have a flag of 4 B beside them.
    #[serde(rename = "LL")]
    Ll,
    /// Every 120 B have a flag of 8 B.
    #[serde(rename = "LL128")]
    Ll128,
    /// Fences and counters; nothing but data is sent.
    Simple,
}

/// Steps of a connection's buffer (NCCL_STEPS).
const STEPS: u64 = 8;

/// How a protocol's buffers are used by a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Most data that one chunk holds.
    pub chunk: u64,
    /// Slices of a chunk.
    pub slices: u64,
    /// Most data that a slice, and so a slot, holds.
    pub slot: u64,
    /// Slots of a connection.
    pub slots: u64,
}

impl Protocol {
    /// All of them, in NCCL's order.
    pub const ALL: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Ll => "LL",
            Protocol::Ll128 => "LL128",
            Protocol::Simple => "Simple",
        }
    }

    /// Bytes that are written for so much data: whole lines with their flags.
    pub const fn wire(self, bytes: u64) -> u64 {
        match self {
            Protocol::Ll => bytes.div_ceil(8) * 16,
            Protocol::Ll128 => bytes.div_ceil(120) * 128,
            Protocol::Simple => bytes,
        }
    }

    /// The share of data in what is written.
    pub fn efficiency(self) -> f64 {
        // whole lines of both
        let data = 1920;
        data as f64 / self.wire(data) as f64
    }

    /// Data that a channel has at least; with less in each there are fewer of them. Ring or not, of
    /// so many ranks (enqueue.cc: threads of a block x threadThreshold).
    pub fn least(self, ring: bool, ranks: u32) -> u64 {
        let turns = if ring { u64::from(ranks) } else { 1 };
        match self {
            Protocol::Ll => 512 * 8 * turns,
            Protocol::Ll128 => 640 * 8,
            Protocol::Simple => 512 * 64,
        }
    }

    /// Data of one of the steps of a buffer; that of Simple has `buffsize` bytes (init.cc:
    /// NCCL_LL_BUFF_LINES of 512 threads, NCCL_LL128_ELEMS_PER_THREAD of 640).
    fn step(self, buffsize: u64) -> u64 {
        match self {
            // 512 KiB, of which half are flags
            Protocol::Ll => 512 * 8 * 8 * 16 / STEPS / 2,
            // 4,915,200 B, of which a sixteenth are flags
            Protocol::Ll128 => 120 * 640 * 8 * 8 / STEPS / 16 * 15,
            Protocol::Simple => buffsize / STEPS,
        }
    }

    /// Where a chunk passes rings: under Simple 4 steps of a buffer, in slices of 2
    /// (ALLREDUCE_CHUNKSTEPS, ALLREDUCE_SLICESTEPS).
    pub fn on_rings(self, buffsize: u64) -> Buffers {
        match self {
            Protocol::Simple => {
                let (chunk, slot) = (buffsize / 2, buffsize / 4);
                Buffers { chunk, slices: SLICES, slot, slots: STEPS / 2 }
            }
            _ => self.by_steps(buffsize),
        }
    }

    /// Where each chunk has one step: trees, Broadcast, Reduce.
    pub fn by_steps(self, buffsize: u64) -> Buffers {
        let step = self.step(buffsize);
        Buffers { chunk: step, slices: 1, slot: step, slots: STEPS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_on_the_wire() {
        assert_eq!(Protocol::ALL.map(|protocol| protocol.wire(240)), [480, 256, 240]);
        assert_eq!(Protocol::ALL.map(|protocol| protocol.wire(1)), [16, 128, 1]);
    }

    #[test]
    fn buffers_are_those_of_nccl() {
        let steps = Protocol::ALL.map(|protocol| protocol.by_steps(4 << 20).chunk);
        assert_eq!(steps, [32 << 10, 576_000, 512 << 10]);
        let ring = Protocol::Simple.on_rings(4 << 20);
        assert_eq!((ring.chunk, ring.slices, ring.slot, ring.slots), (2 << 20, 2, 1 << 20, 4));
        assert_eq!(Protocol::Ll.least(true, 16), 65536);
    }
}
