//! A thread block of an MSCCL algorithm, as the steps of a lane.
//!
//! MSCCL goes over the buffer in loops: of each chunk one piece, as much as a chunk of NCCL's holds,
//! passes the whole program. Where chunks are small, several of a step go in one call (microsoft/msccl:
//! `runInterpreter` in collectives/device/msccl_interpreter.h, `mscclMaxAllowedCount` in enqueue.cc).

use std::sync::Arc;

use super::msccl::{Block, MscclAlgorithm};
use super::program::{Part, Peers, Primitive, Stepped};

/// A step that another block of the same rank has to have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// The block.
    pub block: u32,
    /// So many steps of its program have to be done.
    pub steps: u64,
}

/// One call of a primitive.
#[derive(Clone, Copy, Debug)]
struct Call {
    recv: bool,
    send: bool,
    reduce: bool,
    copy: bool,
    /// Chunks that it takes.
    chunks: u32,
    /// What it waits for in each loop: a block, its calls of a loop, and those up to the awaited
    /// step's end.
    after: Option<(u32, u64, u64)>,
}

/// The steps of a thread block: those of a loop, so many times.
#[derive(Clone, Debug)]
pub struct BlockSteps {
    calls: Arc<[Call]>,
    /// Bytes of a chunk,
    chunk: u64,
    /// and most of them in a loop.
    piece: u64,
    slices: u64,
}

/// How a buffer is cut for an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// Bytes of a chunk,
    pub chunk: u64,
    /// and most of them in a loop.
    pub piece: u64,
    /// Chunks that go in one call.
    pub at_once: u32,
    /// Slices of a call.
    pub slices: u64,
}

/// MSCCL_MAX_COUNT - 1.
const COUNT_MAX: u64 = 71;

impl Cuts {
    /// For a buffer of `bytes` in `chunks`, where NCCL handles `piece` bytes at once.
    pub fn new(bytes: u64, chunks: u32, piece: u64, slices: u64) -> Self {
        let chunk = bytes / u64::from(chunks);
        let at_once = (piece / chunk.max(1)).clamp(1, COUNT_MAX) as u32;
        Cuts { chunk, piece, at_once, slices }
    }
}

impl BlockSteps {
    /// A block of a rank.
    pub fn new(algorithm: &MscclAlgorithm, rank: u32, block: u32, cuts: Cuts) -> Self {
        let blocks = &algorithm.gpus[rank as usize].blocks;
        let Cuts { chunk, piece, at_once, slices } = cuts;
        let mut calls = Vec::new();
        for step in &blocks[block as usize].steps {
            let mut after = step.after.map(|(block, step)| {
                let other = &blocks[block as usize];
                let steps = other.steps.len();
                (
                    block,
                    calls_of(other, steps, at_once),
                    calls_of(other, step as usize + 1, at_once),
                )
            });
            for call in 0..step.count.div_ceil(at_once).max(1) {
                calls.push(Call {
                    recv: step.kind.receives(),
                    send: step.kind.sends(),
                    reduce: step.kind.reduces(),
                    copy: step.kind.writes(),
                    chunks: (step.count - call * at_once).min(at_once),
                    after: after.take(),
                });
            }
        }
        BlockSteps { calls: calls.into(), chunk, piece, slices }
    }

    fn call(&self, step: u64) -> (&Call, u64) {
        let calls = self.calls.len() as u64;
        (&self.calls[(step % calls) as usize], step / calls)
    }
}

/// Calls of the first `steps` steps of a block.
fn calls_of(block: &Block, steps: usize, at_once: u32) -> u64 {
    let calls = block.steps.iter().take(steps).map(|step| step.count.div_ceil(at_once).max(1));
    calls.map(u64::from).sum()
}

impl Stepped for BlockSteps {
    fn slices(&self) -> u64 {
        self.slices
    }

    fn len(&self) -> u64 {
        self.calls.len() as u64 * self.chunk.div_ceil(self.piece)
    }

    fn step(&self, step: u64) -> Primitive {
        let (call, turn) = self.call(step);
        let piece = Part { offset: 0, bytes: self.chunk }.piece(turn, self.piece);
        Primitive {
            recv: Peers::first_if(call.recv),
            reduce: call.reduce,
            copy: call.copy,
            send: Peers::first_if(call.send),
            offset: piece.offset,
            bytes: piece.bytes * u64::from(call.chunks),
            other: None,
            multicast: false,
        }
    }

    fn after(&self, step: u64) -> Option<After> {
        let (call, turn) = self.call(step);
        call.after.map(|(block, all, calls)| After { block, steps: turn * all + calls })
    }

    fn alone(&self, step: u64) -> bool {
        let (call, _) = self.call(step);
        !call.recv && !call.send
    }
}

#[cfg(test)]
mod tests {
    use super::super::Op;
    use super::super::msccl::{Buffer, Gpu, Move, MoveKind, Place};
    use super::super::protocol::Protocol;
    use super::*;

    fn step(kind: MoveKind, count: u32, after: Option<(u32, u32)>) -> Move {
        let place = Place { buffer: Buffer::Input, chunk: 0 };
        Move { kind, source: place, target: place, count, after, awaited: true, line: 1 }
    }

    #[test]
    fn steps_are_cut_into_calls_and_loops() {
        let block = |steps| Block { channel: 0, send: Some(1), recv: Some(1), steps, line: 1 };
        let first = vec![step(MoveKind::Send, 5, None), step(MoveKind::Recv, 1, None)];
        let second =
            vec![step(MoveKind::Copy, 4, Some((0, 0))), step(MoveKind::Nop, 0, Some((0, 1)))];
        let gpu = Gpu { chunks: [5, 5, 0], blocks: vec![block(first), block(second)], line: 1 };
        let algorithm = MscclAlgorithm {
            name: "a".into(),
            op: Op::Custom,
            protocol: Protocol::Simple,
            in_place: false,
            chunks: 5,
            channels: 1,
            sizes: (0, 1 << 30),
            gpus: vec![gpu],
        };
        // chunks of 400 KiB: 2 of them in a call of 1 MiB
        let cuts = Cuts::new(5 * (400 << 10), 5, 1 << 20, 2);
        assert_eq!(cuts.at_once, 2);
        let [a, b] = [0, 1].map(|block| BlockSteps::new(&algorithm, 0, block, cuts));
        assert_eq!((a.len(), b.len()), (4, 3));
        let bytes: Vec<u64> = (0..4).map(|number| a.step(number).bytes >> 10).collect();
        assert_eq!(bytes, [800, 800, 400, 400]);
        // the copy waits until all three calls of the send are done; its second call waits no more
        let waits = [0, 1, 2].map(|number| b.after(number));
        assert_eq!(
            waits,
            [Some(After { block: 0, steps: 3 }), None, Some(After { block: 0, steps: 4 })]
        );
        assert_eq!([0, 1, 2].map(|number| b.alone(number)), [true; 3]);
        // chunks of 2.5 MiB: three loops, the last one of half a MiB
        let cuts = Cuts::new(5 * (5 << 19), 5, 1 << 20, 2);
        let [a, b] = [0, 1].map(|block| BlockSteps::new(&algorithm, 0, block, cuts));
        assert_eq!((a.len(), b.len(), cuts.at_once), (18, 15, 1));
        assert_eq!((a.step(0).bytes, a.step(17).bytes), (1 << 20, 1 << 19));
        // the copy of the second loop waits for the fifth call of that loop, of six
        assert_eq!(b.after(5), Some(After { block: 0, steps: 6 + 5 }));
    }
}
