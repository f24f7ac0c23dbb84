//! Algorithms of MSCCL: what every thread block of every GPU does.

use super::Op;
use super::protocol::Protocol;

/// A program for all GPUs of a job, as an MSCCL XML file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MscclAlgorithm {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub op: Op,
    /// NCCL's protocol.
    pub protocol: Protocol,
    /// Input and output are one buffer.
    pub in_place: bool,
    /// Equal chunks that the buffer is cut into.
    pub chunks: u32,
    /// Channels.
    pub channels: u32,
    /// Sizes of the buffer that MSCCL uses it for, in bytes.
    pub sizes: (u64, u64),
    /// By rank.
    pub gpus: Vec<Gpu>,
}

/// What one GPU does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Chunks of its input, output and scratch buffer: see [`Buffer`].
    pub chunks: [u32; 3],
    /// Its thread blocks, which run side by side.
    pub blocks: Vec<Block>,
    /// Line of the file.
    pub line: u32,
}

/// A thread block: steps, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its channel.
    pub channel: u32,
    /// The rank that it sends to,
    pub send: Option<u32>,
    /// and the one that it receives from.
    pub recv: Option<u32>,
    /// What it does.
    pub steps: Vec<Move>,
    /// Line of the file.
    pub line: u32,
}

impl Block {
    /// The blocks that its steps wait for, each once.
    pub fn leaders(&self) -> Vec<u32> {
        let steps = self.steps.iter();
        let mut leaders: Vec<u32> = steps.filter_map(|step| Some(step.after?.0)).collect();
        leaders.sort_unstable();
        leaders.dedup();
        leaders
    }
}

/// One step of a thread block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// What is done.
    pub kind: MoveKind,
    /// What is read of the GPU's own, if something is.
    pub source: Place,
    /// What is written, if something is.
    pub target: Place,
    /// So many chunks.
    pub count: u32,
    /// It waits until this block of its GPU has done this step.
    pub after: Option<(u32, u32)>,
    /// Others wait for it.
    pub awaited: bool,
    /// Line of the file.
    pub line: u32,
}

/// A place in a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The buffer.
    pub buffer: Buffer,
    /// Its chunk.
    pub chunk: u32,
}

/// A buffer of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Buffer {
    /// What is given.
    Input,
    /// What is asked for.
    Output,
    /// Room for what is between.
    Scratch,
}

/// What a step does, under MSCCL's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveKind {
    /// `nop`: waits.
    Nop,
    /// `s`
    Send,
    /// `r`
    Recv,
    /// `rcs`: receives, keeps, and sends on.
    RecvCopySend,
    /// `rrs`: receives, adds what it has, and sends on.
    RecvReduceSend,
    /// `rrc`: receives, adds what it has, and keeps the sum.
    RecvReduceCopy,
    /// `rrcs`: both.
    RecvReduceCopySend,
    /// `cpy`: from a buffer to another.
    Copy,
    /// `re`: adds a buffer to another.
    Reduce,
}

use MoveKind::{
    Copy as Cpy, Nop, Recv, RecvCopySend, RecvReduceCopy, RecvReduceCopySend, RecvReduceSend,
    Reduce, Send,
};

impl MoveKind {
    /// All of them, as `type` calls them.
    pub const NAMES: [(&'static str, MoveKind); 9] = [
        ("nop", Nop),
        ("s", Send),
        ("r", Recv),
        ("rcs", RecvCopySend),
        ("rrs", RecvReduceSend),
        ("rrc", RecvReduceCopy),
        ("rrcs", RecvReduceCopySend),
        ("cpy", Cpy),
        ("re", Reduce),
    ];

    /// Takes chunks from the block's peer.
    pub fn receives(self) -> bool {
        matches!(self, Recv | RecvCopySend | RecvReduceSend | RecvReduceCopy | RecvReduceCopySend)
    }

    /// Gives chunks to the block's peer.
    pub fn sends(self) -> bool {
        matches!(self, Send | RecvCopySend | RecvReduceSend | RecvReduceCopySend)
    }

    /// Reads `source`.
    pub fn reads(self) -> bool {
        matches!(self, Send | RecvReduceSend | RecvReduceCopy | RecvReduceCopySend | Cpy | Reduce)
    }

    /// Writes `target`.
    pub fn writes(self) -> bool {
        matches!(self, Recv | RecvCopySend | RecvReduceCopy | RecvReduceCopySend | Cpy | Reduce)
    }

    /// Adds up.
    pub fn reduces(self) -> bool {
        matches!(self, RecvReduceSend | RecvReduceCopy | RecvReduceCopySend | Reduce)
    }
}

/// Two thread blocks, the second of which receives what the first sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The channel.
    pub channel: u32,
    /// Rank and block that send,
    pub from: (u32, u32),
    /// and those that receive.
    pub to: (u32, u32),
}

impl MscclAlgorithm {
    /// All pairs of blocks that are joined, by sending rank and block.
    pub fn joins(&self) -> Vec<Join> {
        let mut joins = Vec::new();
        for (rank, gpu) in (0..).zip(&self.gpus) {
            for (number, block) in (0..).zip(&gpu.blocks) {
                let Some(peer) = block.send else { continue };
                if !block.steps.iter().any(|step| step.kind.sends()) {
                    continue;
                }
                let receives =
                    |other: &Block| other.channel == block.channel && other.recv == Some(rank);
                let others = &self.gpus[peer as usize].blocks;
                if let Some(other) = others.iter().position(receives) {
                    let (from, to) = ((rank, number), (peer, other as u32));
                    joins.push(Join { channel: block.channel, from, to });
                }
            }
        }
        joins
    }

    /// Where a place really is: in place, input and output are one buffer, or a part of one.
    pub fn alias(&self, rank: u32, place: Place) -> Place {
        let ranks = self.gpus.len() as u32;
        let part = rank * (self.chunks / ranks.max(1));
        let Place { buffer, chunk } = place;
        match (self.op, buffer) {
            _ if !self.in_place => place,
            (Op::AllGather, Buffer::Input) => Place { buffer: Buffer::Output, chunk: chunk + part },
            (Op::AllGather | Op::Custom, _) => place,
            (Op::ReduceScatter, Buffer::Output) => {
                Place { buffer: Buffer::Input, chunk: chunk + part }
            }
            (_, Buffer::Output) => Place { buffer: Buffer::Input, chunk },
            _ => place,
        }
    }
}
