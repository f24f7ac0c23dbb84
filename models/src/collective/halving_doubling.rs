//! AllReduce by recursive halving and doubling (Rabenseifner; Thakur, Rabenseifner and Gropp,
//! "Optimization of collective communication operations in MPICH", 2005): log2 n rounds of exchange
//! that halve what a rank reduces, then log2 n that double what it has of the result.
//!
//! In round s of the first half a rank meets the one whose number differs in bit s: neighbours
//! first, which exchange the most, and the distance doubles. The second half goes back. NCCL has no
//! such algorithm; chunks, slices and slots are those of its rings.

use super::program::{Part, Peers, Primitive, Stepped};

/// The program of one rank on one channel.
#[derive(Clone, Copy, Debug)]
pub struct HalvingDoubling {
    /// The rank.
    pub rank: u32,
    /// log2 of the number of ranks, at least 1.
    pub rounds: u32,
    /// Part of the buffer that this channel reduces.
    pub part: Part,
    /// Largest chunk.
    pub chunk: u64,
    /// Slices of a chunk.
    pub slices: u64,
}

/// One round: what is exchanged with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round {
    /// The bit in which the two ranks differ.
    bit: u32,
    /// What is sent,
    out: Part,
    /// and what is received.
    into: Part,
    /// Chunks of the longer one of the two.
    chunks: u64,
}

impl Round {
    /// Chunk j is sent while chunk j - 1 is received, so that two are under way.
    fn steps(&self) -> u64 {
        if self.chunks == 0 { 0 } else { self.chunks + 1 }
    }
}

impl HalvingDoubling {
    /// The halves of what this rank still works on before round `bit` of the first half: the one
    /// that it keeps, and the other one. Halves are in units of 16 B.
    fn halves(&self, bit: u32) -> [Part; 2] {
        let mut region = self.part;
        let mut halves = [region; 2];
        for bit in 0..=bit {
            let lower = region.bytes.div_ceil(32) * 16;
            let lower = Part { offset: region.offset, bytes: lower.min(region.bytes) };
            let upper =
                Part { offset: region.offset + lower.bytes, bytes: region.bytes - lower.bytes };
            halves = if self.rank >> bit & 1 == 0 { [lower, upper] } else { [upper, lower] };
            region = halves[0];
        }
        halves
    }

    /// Round `number` of 2 log2 n.
    fn round(&self, number: u32) -> Round {
        let halves = number < self.rounds;
        let bit = if halves { number } else { 2 * self.rounds - 1 - number };
        let [kept, other] = self.halves(bit);
        // first the half that the other one keeps is sent; then the half that this one has
        let (out, into) = if halves { (other, kept) } else { (kept, other) };
        Round { bit, out, into, chunks: out.bytes.max(into.bytes).div_ceil(self.chunk) }
    }
}

impl Stepped for HalvingDoubling {
    fn slices(&self) -> u64 {
        self.slices
    }

    fn len(&self) -> u64 {
        (0..2 * self.rounds).map(|number| self.round(number).steps()).sum()
    }

    /// Chunks are exchanged with the rank that differs in this bit, twice.
    fn receives_from(&self, bit: u32) -> u64 {
        2 * self.round(bit).chunks
    }

    fn step(&self, step: u64) -> Primitive {
        let (mut number, mut step) = (0, step);
        let mut round = self.round(0);
        while step >= round.steps() {
            step -= round.steps();
            number += 1;
            round = self.round(number);
        }
        let of = |part: Part, chunk: u64| part.piece(chunk, self.chunk);
        let peer = |there: bool| if there { Peers::one(round.bit) } else { Peers::NONE };
        let (send, recv) = (step < round.chunks, step > 0);
        let reduces = recv && number < self.rounds;
        let out = of(round.out, step);
        let chunk = if recv { of(round.into, step - 1) } else { out };
        Primitive {
            recv: peer(recv),
            reduce: reduces,
            // the last round of the first half completes what this rank has
            copy: recv && number + 1 >= self.rounds,
            send: peer(send),
            offset: chunk.offset,
            bytes: chunk.bytes,
            other: (send && recv).then_some(out),
            multicast: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, bytes: u64) -> Part {
        Part { offset, bytes }
    }

    fn steps(rank: u32, bytes: u64, chunk: u64) -> Vec<Primitive> {
        let program =
            HalvingDoubling { rank, rounds: 2, part: part(1000, bytes), chunk, slices: 2 };
        (0..program.len()).map(|step| program.step(step)).collect()
    }

    #[test]
    fn four_ranks() {
        // 64 B in cells of 16: rank 2 (bits 0, 1 = 0, 1) keeps cells 0 and 1 against rank 3, then
        // cell 1 against rank 0; it gives cell 1 to rank 0 and gets cell 0, then cells 0 and 1 to
        // rank 3 and gets 2 and 3
        let steps = steps(2, 64, 1024);
        let sent: Vec<(u32, Part)> =
            steps.iter().filter(|s| s.send.any()).map(|s| (s.send.first, s.sent())).collect();
        assert_eq!(
            sent,
            [(0, part(1032, 32)), (1, part(1000, 16)), (1, part(1016, 16)), (0, part(1000, 32))]
        );
        let taken: Vec<(u32, u64, u64)> = steps
            .iter()
            .filter(|s| s.recv.any())
            .map(|s| (s.recv.first, s.offset, s.bytes))
            .collect();
        assert_eq!(taken, [(0, 1000, 32), (1, 1016, 16), (1, 1000, 16), (0, 1032, 32)]);
        let flags = |flag: fn(&Primitive) -> bool| steps.iter().map(flag).collect::<Vec<_>>();
        let (o, x) = (false, true);
        assert_eq!(flags(|step| step.reduce), [o, x, o, x, o, o, o, o]);
        assert_eq!(flags(|step| step.copy), [o, o, o, x, o, x, o, x]);
    }

    #[test]
    fn a_chunk_is_sent_while_the_one_before_is_received() {
        // 200 B: halves of 112 and 88; chunks of 48: 3 and 2 of them, so 3, one of which is empty
        let steps = steps(0, 200, 48);
        let exchanges = &steps[..4];
        let out: Vec<u64> = exchanges.iter().map(|step| step.sent().bytes).collect();
        assert_eq!(out, [48, 40, 0, 0]);
        let taken: Vec<u64> = exchanges.iter().filter(|s| s.recv.any()).map(|s| s.bytes).collect();
        assert_eq!(taken, [48, 48, 16]);
        assert_eq!(
            exchanges.iter().map(|s| s.other.is_some()).collect::<Vec<_>>(),
            [false, true, true, false]
        );
        // then 112 B in halves of 64 and 48: 2 chunks; and both rounds again
        let program =
            HalvingDoubling { rank: 0, rounds: 2, part: part(1000, 200), chunk: 48, slices: 2 };
        assert_eq!((program.len(), program.receives_from(0), program.receives_from(1)), (14, 6, 4));
    }
}
