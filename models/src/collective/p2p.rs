//! NCCL's point-to-point operations, of which AllToAll is made: who meets whom in which round, on
//! which channels, in chunks of which size (init.cc, enqueue.cc, include/channel.h, graph/paths.cc).

use std::sync::Arc;

use super::program::{Part, Peers, Primitive, Stepped};

/// Works that a channel does at a time (NCCL_MAX_DEV_WORK_P2P_PER_BATCH).
pub(super) const BATCH: u32 = 8;
/// Slots of a connection: NCCL_STEPS, of a chunk each.
pub(super) const SLOTS: u64 = 8;
/// Chunks between hosts (NCCL_P2P_NET_CHUNKSIZE), and over NVLink where there is one host
/// (NCCL_P2P_NVL_CHUNKSIZE).
const CHUNK: [u64; 2] = [128 << 10, 512 << 10];

/// From a rank to the one that it sends to in a round; it receives from the one as far the other
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    /// In groups of ranks.
    groups: u32,
    /// Within the group.
    local: u32,
}

impl Shift {
    /// The rank that `rank` sends to, of `ranks` in groups of `size`.
    pub(super) fn target(self, rank: u32, ranks: u32, size: u32) -> u32 {
        let group = (rank / size + self.groups) % (ranks / size);
        group * size + (rank % size + self.local) % size
    }
}

/// The rounds among `ranks` in groups of `size`, the one in which each meets itself the first.
/// Groups are at distance 0, 1, 3, 6 ... (mod a power of two, in which those beyond are left out).
pub(super) fn rounds(ranks: u32, size: u32) -> Vec<Shift> {
    let groups = ranks / size;
    let mask = groups.next_power_of_two() - 1;
    let mut rounds = Vec::with_capacity(ranks as usize);
    let mut distance = 0;
    for turn in 1..=mask + 1 {
        if distance < groups {
            rounds.extend((0..size).map(|local| Shift { groups: distance, local }));
        }
        distance = (distance + turn) & mask;
    }
    rounds
}

/// Ranks of a group: as many as all hosts can be cut into, at most a batch.
pub(super) fn group_size(gpus: impl Iterator<Item = u32>) -> u32 {
    let gcd = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let common = gpus.fold(0, gcd).max(1);
    (1..=common.min(BATCH)).rev().find(|size| common.is_multiple_of(*size)).unwrap_or(1)
}

/// How P2P operations use the channels of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channels {
    /// Channels in all: a power of two.
    pub all: u32,
    /// Channels of a pair of ranks, at most.
    pub per_peer: u32,
    /// The job has several hosts.
    pub across: bool,
}

impl Channels {
    /// Those of `ranks`, where the rings have `rings` channels. `nearest` is the least over all
    /// pairs of ranks of the channels that their way could use; `given` is NCCL_NCHANNELS_PER_NET_PEER.
    pub(super) fn new(
        rings: u32,
        nearest: u32,
        ranks: u32,
        across: bool,
        given: Option<u32>,
    ) -> Self {
        let all = rings.next_power_of_two();
        let mut per_peer = given.filter(|_| across).unwrap_or(nearest).max(1).next_power_of_two();
        if across && given.is_none() {
            // all peers are to fit into one batch
            while per_peer > 1 && per_peer * ranks.div_ceil(BATCH) > all {
                per_peer /= 2;
            }
        }
        Channels { all, per_peer: per_peer.min(all), across }
    }

    /// Parts that an operation of `bytes` is cut into: as many as there is room for at once, more
    /// while they are larger than a chunk.
    pub(super) fn parts(&self, bytes: u64, ranks: u32) -> u32 {
        let mut least = self.per_peer;
        while least > 1 && least * ranks > self.all {
            least /= 2;
        }
        let step = self.step();
        let [smallest, largest] =
            if self.across { [step / 2, step] } else { [step / 8, step * 32] };
        let (mut parts, mut size) = (least, bytes.div_ceil(u64::from(least)).max(smallest));
        while size > largest && parts <= self.per_peer / 2 {
            parts *= 2;
            size = bytes.div_ceil(u64::from(parts));
        }
        parts
    }

    fn step(&self) -> u64 {
        CHUNK[usize::from(!self.across)]
    }

    /// Bytes of a chunk of an operation of `bytes`: smaller ones between hosts where it is short.
    pub(super) fn chunk(&self, bytes: u64) -> u64 {
        let step = self.step();
        match self.across {
            true if bytes < step => step / 4,
            true if bytes < 8 * step => step / 2,
            _ => step,
        }
    }

    /// Size of a slot.
    pub(super) fn slot(&self) -> u64 {
        self.step()
    }

    /// The channel of one of `parts` in round `number` of ranks in groups of `size`: the rounds of a
    /// group share theirs. (NCCL reverses the bits of both numbers; here channels are all alike.)
    pub(super) fn of(&self, number: u32, size: u32, part: u32, parts: u32) -> u32 {
        let base = match self.across {
            true => number / size * size.div_ceil(BATCH) + number % size / BATCH,
            false => number,
        };
        base.wrapping_mul(parts).wrapping_add(part) & (self.all - 1)
    }
}

/// Part `number` of `parts` of `bytes`: in units of 4 KiB, the last ones what is left.
pub(super) fn part_of(bytes: u64, parts: u32, number: u32) -> Part {
    let size = bytes.div_ceil(u64::from(parts)).next_multiple_of(4096);
    let offset = (u64::from(number) * size).min(bytes);
    Part { offset, bytes: (bytes - offset).min(size) }
}

/// What a lane sends to one peer, or receives from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Chunks of the legs before.
    pub before: u64,
    /// Its part of what the two ranks exchange.
    pub part: Part,
}

/// The program of one lane: its peers one after the other. All ranks have the same legs.
#[derive(Clone, Debug)]
pub struct PeerToPeer {
    /// It sends; otherwise it receives.
    pub sends: bool,
    /// One for each peer.
    pub legs: Arc<[Leg]>,
    /// Largest chunk.
    pub chunk: u64,
}

impl PeerToPeer {
    /// The legs with these parts.
    pub fn legs(parts: impl Iterator<Item = Part>, chunk: u64) -> Arc<[Leg]> {
        let mut before = 0;
        let legs = parts.map(|part| {
            let leg = Leg { before, part };
            before += part.bytes.div_ceil(chunk);
            leg
        });
        legs.collect()
    }
}

impl Stepped for PeerToPeer {
    fn len(&self) -> u64 {
        self.legs.last().map_or(0, |leg| leg.before + leg.part.bytes.div_ceil(self.chunk))
    }

    fn receives_from(&self, peer: u32) -> u64 {
        let leg = self.legs.get(peer as usize).filter(|_| !self.sends);
        leg.map_or(0, |leg| leg.part.bytes.div_ceil(self.chunk))
    }

    fn step(&self, step: u64) -> Primitive {
        let peer = self.legs.partition_point(|leg| leg.before <= step) - 1;
        let Leg { before, part } = self.legs[peer];
        let Part { offset, bytes } = part.piece(step - before, self.chunk);
        let [peer, nobody] = [Peers::one(peer as u32), Peers::NONE];
        let (recv, send) = if self.sends { (nobody, peer) } else { (peer, nobody) };
        let copy = !self.sends;
        let (reduce, multicast) = (false, false);
        Primitive { recv, reduce, copy, send, offset, bytes, other: None, multicast }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_meets_every_other_one_once() {
        for (ranks, size) in [(8, 1), (6, 1), (16, 8), (24, 8), (12, 4), (2, 2), (1, 1)] {
            let rounds = rounds(ranks, size);
            for rank in 0..ranks {
                let targets = rounds.iter().map(|shift| shift.target(rank, ranks, size));
                let mut targets: Vec<u32> = targets.collect();
                assert_eq!(targets[0], rank);
                targets.sort_unstable();
                assert_eq!(targets, (0..ranks).collect::<Vec<_>>(), "{ranks} {size}");
            }
        }
        // hosts at distance 0, 1, 3, 2 (6 mod 4), their GPUs in turn
        let groups: Vec<u32> = rounds(8, 2).iter().map(|shift| shift.groups).collect();
        assert_eq!(groups, [0, 0, 1, 1, 3, 3, 2, 2]);
        // three hosts: 3 is left out
        let groups: Vec<u32> = rounds(3, 1).iter().map(|shift| shift.groups).collect();
        assert_eq!(groups, [0, 1, 2]);
        assert_eq!([group_size([8, 8].into_iter()), group_size([6, 4].into_iter())], [8, 2]);
        assert_eq!(group_size([12].into_iter()), 6);
    }

    #[test]
    fn channels_of_pairs() {
        // 8 hosts of 8 GPUs and 400 Gb/s each: ceil(50 / 14) = 4; 4 x 64 / 8 > 16 channels, so 2
        let wide = Channels::new(16, 4, 64, true, None);
        assert_eq!((wide.all, wide.per_peer), (16, 2));
        // two hosts of 8: 4 x 2 <= 16
        assert_eq!(Channels::new(16, 4, 16, true, None).per_peer, 4);
        assert_eq!(Channels::new(16, 4, 16, true, Some(1)).per_peer, 1);
        // 6 channels are 8
        assert_eq!(
            Channels::new(6, 3, 8, true, None),
            Channels { all: 8, per_peer: 4, across: true }
        );
        // 16 MiB a peer: 2 parts of 8 MiB; 64 KiB: one (2 x 64 > 16, and less than a chunk)
        assert_eq!([wide.parts(16 << 20, 64), wide.parts(64 << 10, 64)], [2, 1]);
        assert_eq!(
            [wide.chunk(1 << 20), wide.chunk(1000 << 10), wide.chunk(100 << 10)],
            [128 << 10, 64 << 10, 32 << 10]
        );
        // round 8 is the first of the second distance: its two parts have channels 2 and 3
        assert_eq!([wide.of(7, 8, 0, 2), wide.of(8, 8, 0, 2), wide.of(8, 8, 1, 2)], [0, 2, 3]);
        assert_eq!(Channels::new(1, 1, 2, true, None).of(5, 1, 0, 1), 0);
        // no channel has more than a batch
        let mut works = [0; 16];
        (0..64).for_each(|n| (0..2).for_each(|part| works[wide.of(n, 8, part, 2) as usize] += 1));
        assert_eq!(works, [8; 16]);
    }

    #[test]
    fn parts_and_chunks() {
        // 10,000 B in 2: 5000 up to 8192, and 1808
        assert_eq!([0, 1].map(|n| part_of(10_000, 2, n).bytes), [8192, 1808]);
        let legs =
            PeerToPeer::legs([300, 0, 100].map(|bytes| Part { offset: 7, bytes }).into_iter(), 128);
        let lane = |sends| PeerToPeer { sends, legs: legs.clone(), chunk: 128 };
        let (send, recv) = (lane(true), lane(false));
        let steps: Vec<(u32, u64, u64)> = (0..send.len())
            .map(|s| send.step(s))
            .map(|p| (p.send.first, p.offset, p.bytes))
            .collect();
        assert_eq!(steps, [(0, 7, 128), (0, 135, 128), (0, 263, 44), (2, 7, 100)]);
        assert_eq!([0, 1, 2].map(|peer| recv.receives_from(peer)), [3, 0, 1]);
        assert_eq!([0, 1, 2].map(|peer| send.receives_from(peer)), [0; 3]);
    }
}
