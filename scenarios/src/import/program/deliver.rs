//! What an MSCCL algorithm delivers: which contributions are in each chunk at its end.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use models::collective::Op;
use models::collective::msccl::{Block, Buffer, Move, MoveKind, MscclAlgorithm, Place};

use super::{Fault, fault};

/// Contributions that are added up in a chunk: (rank, chunk of its input), in order.
type Sum = Rc<[(u32, u32)]>;

/// What is in all buffers.
pub(super) struct Memory<'a> {
    algorithm: &'a MscclAlgorithm,
    /// By rank and buffer.
    chunks: Vec<[Vec<Sum>; 3]>,
    /// By sending rank, receiving rank and channel: what is on its way.
    on_way: BTreeMap<(u32, u32, u32), VecDeque<Vec<Sum>>>,
}

impl<'a> Memory<'a> {
    pub(super) fn new(algorithm: &'a MscclAlgorithm) -> Self {
        let nothing: Sum = Rc::new([]);
        let ranks = algorithm.gpus.len() as u32;
        let mut memory = Memory { algorithm, chunks: Vec::new(), on_way: BTreeMap::new() };
        for gpu in &algorithm.gpus {
            let whole = |chunks: u32| vec![nothing.clone(); chunks.max(algorithm.chunks) as usize];
            let [input, output, scratch] = gpu.chunks;
            let scratch = vec![nothing.clone(); scratch as usize];
            memory.chunks.push([whole(input), whole(output), scratch]);
        }
        let input = match algorithm.op {
            Op::AllGather => algorithm.chunks / ranks,
            _ => algorithm.chunks,
        };
        for (rank, chunk) in (0..ranks).flat_map(|r| (0..input).map(move |c| (r, c))) {
            let place = Place { buffer: Buffer::Input, chunk };
            memory.write(rank, place, 0, Rc::new([(rank, chunk)]));
        }
        memory
    }

    fn cell(&mut self, rank: u32, place: Place, plus: u32) -> &mut Sum {
        let Place { buffer, chunk } = place;
        let place = self.algorithm.alias(rank, Place { buffer, chunk: chunk + plus });
        &mut self.chunks[rank as usize][place.buffer as usize][place.chunk as usize]
    }

    fn write(&mut self, rank: u32, place: Place, plus: u32, sum: Sum) {
        *self.cell(rank, place, plus) = sum;
    }

    /// A call of a step.
    pub(super) fn step(
        &mut self,
        (rank, block): (u32, u32),
        step: &Move,
        calls: std::ops::Range<u32>,
    ) {
        let Block { channel, send, recv, .. } =
            self.algorithm.gpus[rank as usize].blocks[block as usize];
        let mut taken = match recv.filter(|_| step.kind.receives()) {
            Some(peer) => self.on_way.entry((peer, rank, channel)).or_default().pop_front(),
            None => None,
        }
        .unwrap_or_default()
        .into_iter();
        let mut given = Vec::new();
        for chunk in calls {
            let mut sum: Sum = taken.next().unwrap_or_else(|| Rc::new([]));
            if step.kind.reads() {
                let own = self.cell(rank, step.source, chunk).clone();
                sum = if sum.is_empty() { own } else { added(&sum, &own) };
            }
            if step.kind == MoveKind::Reduce {
                sum = added(&sum, self.cell(rank, step.target, chunk));
            }
            if step.kind.writes() {
                self.write(rank, step.target, chunk, sum.clone());
            }
            given.push(sum);
        }
        if let Some(peer) = send.filter(|_| step.kind.sends()) {
            self.on_way.entry((rank, peer, channel)).or_default().push_back(given);
        }
    }

    /// Whether the output is right.
    pub(super) fn judge(&mut self) -> Result<(), Fault> {
        let ranks = self.algorithm.gpus.len() as u32;
        let chunks = self.algorithm.chunks;
        let part = chunks / ranks;
        let all = |chunk: u32| (0..ranks).map(|from| (from, chunk)).collect::<Vec<_>>();
        match self.algorithm.op {
            Op::Custom | Op::SendRecv | Op::Send => Ok(()),
            Op::AllReduce => self.expect_all(chunks, |_, chunk| all(chunk)),
            Op::AllGather => self.expect_all(chunks, |_, chunk| vec![(chunk / part, chunk % part)]),
            Op::ReduceScatter => self.expect_all(part, |rank, chunk| all(rank * part + chunk)),
            Op::AllToAll => self
                .expect_all(chunks, |rank, chunk| vec![(chunk / part, rank * part + chunk % part)]),
            // the file does not name the root: any will do
            Op::Broadcast => {
                let root = (0..ranks).find(|root| {
                    (0..ranks).filter(|rank| rank != root).all(|rank| {
                        let place = Place { buffer: Buffer::Output, chunk: 0 };
                        self.cell(rank, place, 0)[..] == [(*root, 0)]
                    })
                });
                let root = root.unwrap_or(0);
                let receive = |rank: u32| rank != root;
                self.expect(chunks, receive, |_, chunk| vec![(root, chunk)])
            }
            Op::Reduce => {
                let place = Place { buffer: Buffer::Output, chunk: 0 };
                let root = (0..ranks).find(|rank| self.cell(*rank, place, 0)[..] == all(0));
                let root = root.unwrap_or(0);
                self.expect(chunks, |rank| rank == root, |_, chunk| all(chunk))
            }
        }
    }

    fn expect_all(
        &mut self,
        chunks: u32,
        right: impl Fn(u32, u32) -> Vec<(u32, u32)>,
    ) -> Result<(), Fault> {
        self.expect(chunks, |_| true, right)
    }

    fn expect(
        &mut self,
        chunks: u32,
        which: impl Fn(u32) -> bool,
        right: impl Fn(u32, u32) -> Vec<(u32, u32)>,
    ) -> Result<(), Fault> {
        let ranks = 0..self.algorithm.gpus.len() as u32;
        for rank in ranks.filter(|rank| which(*rank)) {
            for chunk in 0..chunks {
                let place = Place { buffer: Buffer::Output, chunk };
                let (found, right) = (self.cell(rank, place, 0).clone(), right(rank, chunk));
                if found[..] != right[..] {
                    return Err(self.wrong(rank, chunk, &found, &right));
                }
            }
        }
        Ok(())
    }

    fn wrong(&self, rank: u32, chunk: u32, found: &[(u32, u32)], right: &[(u32, u32)]) -> Fault {
        let (name, _) = super::msccl::OPS
            .into_iter()
            .find(|(_, op)| *op == self.algorithm.op)
            .unwrap_or(("custom", Op::Custom));
        let missing = right.iter().find(|one| !found.contains(one));
        let twice = found.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        let foreign = found.iter().find(|one| !right.contains(one)).copied();
        let why = match (found.is_empty(), missing, twice.or(foreign)) {
            (true, ..) => "nothing is ever written there".to_owned(),
            (_, Some((from, of)), _) => format!("chunk {of} of gpu {from}'s input is not in it"),
            (_, None, Some((from, of))) if twice.is_some() => {
                format!("chunk {of} of gpu {from}'s input is in it twice")
            }
            (_, None, other) => {
                let (from, of) = other.unwrap_or_default();
                format!("chunk {of} of gpu {from}'s input is in it, and does not belong there")
            }
        };
        let message = format!(
            "this is no {name}: output chunk {chunk} of gpu {rank} is wrong: {why} \
             (coll=\"custom\" is not checked)"
        );
        fault(self.algorithm.gpus[rank as usize].line, message)
    }
}

fn added(a: &Sum, b: &Sum) -> Sum {
    let mut sum: Vec<(u32, u32)> = a.iter().chain(b.iter()).copied().collect();
    sum.sort_unstable();
    sum.into()
}
