//! AllReduce in three parts: a ReduceScatter on a ring within each host, an AllReduce of what each
//! GPU then has among the GPUs of the same number, on a ring or a tree between hosts, and an
//! AllGather within each host. (NCCL's rings pass through all GPUs of all hosts instead; this is how
//! hierarchical and two-dimensional rings of other libraries do it.)

use super::program::{Part, Peers, Primitive, Stepped};
use super::ring::Halves;

/// Between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    /// On a ring.
    Ring,
    /// On a tree: the one above and the number of those below this host. They stand after the one
    /// within the host among those that a lane receives from and sends to, the one above first.
    Tree {
        /// It is not the root.
        parent: bool,
        /// Hosts below.
        children: u32,
    },
}

/// The program of one rank on one channel.
#[derive(Clone, Copy, Debug)]
pub struct Hierarchical {
    /// The GPU, its place on the ring within the host.
    pub gpu: u32,
    /// GPUs of each host.
    pub gpus: u32,
    /// The host.
    pub host: u32,
    /// Hosts, at least 2.
    pub hosts: u32,
    /// Between hosts.
    pub across: Across,
    /// What this channel does of the buffer.
    pub part: Part,
    /// Largest chunk.
    pub chunk: u64,
    /// Slices of a chunk.
    pub slices: u64,
}

/// Chunks of a GPU in a loop where there is a tree between hosts.
const TREE_CHUNKS: u64 = 4;

impl Hierarchical {
    /// Chunks that each GPU reduces in a loop.
    fn chunks(&self) -> u64 {
        match self.across {
            Across::Ring => u64::from(self.hosts),
            Across::Tree { .. } => TREE_CHUNKS,
        }
    }

    /// Steps of a ReduceScatter or an AllGather within the host.
    fn within(&self) -> u64 {
        if self.gpus > 1 { u64::from(self.gpus) * self.chunks() } else { 0 }
    }

    /// Steps between hosts.
    fn between(&self) -> u64 {
        match self.across {
            Across::Ring => 2 * u64::from(self.hosts) - 1,
            Across::Tree { .. } => 2 * self.chunks(),
        }
    }

    fn of_loop(&self) -> u64 {
        u64::from(self.gpus) * self.chunks() * self.chunk
    }

    /// Of the loop that begins at `before`: its chunk `number`.
    fn piece(&self, before: u64, number: u64) -> Part {
        let rest = self.part.bytes - before;
        let pieces = u64::from(self.gpus) * self.chunks();
        let size = self.chunk.min(rest.div_ceil(pieces).div_ceil(16) * 16);
        Part { offset: self.part.offset + before, bytes: rest }.piece(number, size)
    }

    /// A step within the host: all steps of a ring for one chunk of each GPU, then for the next. (A
    /// step for all chunks at once would fill all slots before anyone takes a slice.)
    fn local(&self, halves: Halves, step: u64, before: u64) -> Primitive {
        let (chunk, step) = (step / u64::from(self.gpus), step % u64::from(self.gpus));
        let (number, primitive) = halves.step(u64::from(self.gpus), u64::from(self.gpu), step);
        let Part { offset, bytes } = self.piece(before, number * self.chunks() + chunk);
        Primitive { offset, bytes, copy: halves == Halves::HandOut, ..primitive }
    }

    /// A step between hosts.
    fn remote(&self, step: u64, before: u64) -> Primitive {
        // the peer within the host, if there is one, is number 0
        let first = u32::from(self.gpus > 1);
        let own = u64::from(self.gpu) * self.chunks();
        let Across::Tree { parent, children } = self.across else {
            let (number, primitive) =
                Halves::Both.step(u64::from(self.hosts), u64::from(self.host), step);
            let Part { offset, bytes } = self.piece(before, own + number);
            let shift = |peers: Peers| Peers { first, ..peers };
            let [recv, send] = [primitive.recv, primitive.send].map(shift);
            return Primitive { recv, send, offset, bytes, ..primitive };
        };
        let (up, chunk) = (step < self.chunks(), step % self.chunks());
        let Part { offset, bytes } = self.piece(before, own + chunk);
        let above = if parent { Peers::one(first) } else { Peers::NONE };
        let below = Peers { first: first + u32::from(parent), count: children };
        let (recv, send) = if up { (below, above) } else { (above, below) };
        let copy = up != parent;
        Primitive { recv, reduce: up, copy, send, offset, bytes, other: None, multicast: false }
    }
}

impl Stepped for Hierarchical {
    fn slices(&self) -> u64 {
        self.slices
    }

    fn len(&self) -> u64 {
        self.part.bytes.div_ceil(self.of_loop()) * self.loop_steps()
    }

    fn loop_steps(&self) -> u64 {
        2 * self.within() + self.between()
    }

    fn step(&self, step: u64) -> Primitive {
        let before = step / self.loop_steps() * self.of_loop();
        let step = step % self.loop_steps();
        let [scattered, reduced] = [self.within(), self.within() + self.between()];
        if step < scattered {
            return self.local(Halves::Reduce, step, before);
        }
        if step < reduced {
            return self.remote(step - scattered, before);
        }
        self.local(Halves::HandOut, step - reduced, before)
    }
}
