//! SENDs and RECVs of pairs of ranks: AllToAll, SendRecv.

use std::sync::Arc;

use super::{Joined, Joins, Wires, near};
use crate::collective::job::Pattern;
use crate::collective::p2p::{
    BATCH, Channels, Leg, PeerToPeer, SLOTS, group_size, part_of, rounds,
};
use crate::collective::plan::Member;
use crate::collective::protocol::Buffers;
use crate::error::BuildError;

/// A job of these lines, which all ranks have.
fn joined(
    p2p: Channels,
    chunk: u64,
    lines: Vec<(u32, Arc<[Leg]>)>,
    ranks: u32,
    wires: Wires,
) -> Joined {
    let all: Arc<[u32]> = (0..ranks).collect();
    let lanes = vec![all; 2 * lines.len()];
    let buffers = Buffers { chunk, slices: 1, slot: p2p.slot(), slots: SLOTS };
    let pattern = Pattern::PeerToPeer { lines };
    Joined { pattern, channels: p2p.all, lanes, connections: wires.connections, buffers }
}

impl Joins<'_> {
    /// AllToAll: every rank and every other one, each by as many connections as they exchange
    /// parts. A channel has at most a batch of pairs of lanes, which take its operations in turn.
    pub(in crate::collective) fn all_to_all(&self) -> Result<Joined, BuildError> {
        let ranks = self.ranks.len() as u32;
        let size = group_size(self.members.iter().map(|member| member.gpus));
        let p2p = self.p2p_channels();
        let bytes = self.bytes / u64::from(ranks);
        let (parts, chunk) = (p2p.parts(bytes, ranks), p2p.chunk(bytes));
        self.check_count(u64::from(ranks) * u64::from(ranks - 1) * u64::from(parts))?;
        // by channel: the operations that it has, each a round and a part
        let rounds = rounds(ranks, size);
        let mut operations: Vec<Vec<(u32, u32)>> = vec![Vec::new(); p2p.all as usize];
        for (number, part) in (1..ranks).flat_map(|n| (0..parts).map(move |part| (n, part))) {
            operations[p2p.of(number, size, part, parts) as usize].push((number, part));
        }
        let mut lines: Vec<(u32, Arc<[Leg]>)> = Vec::new();
        // at most a batch of pairs of lanes for each channel
        let pairs: usize = operations.iter().map(|own| own.len().min(BATCH as usize)).sum();
        let mut wires = Wires::new(2 * pairs, ranks as usize);
        for (channel, operations) in (0..).zip(&operations) {
            for slot in 0..operations.len().min(BATCH as usize) {
                let line = lines.len() as u32;
                let own = || operations.iter().skip(slot).step_by(BATCH as usize);
                let cut = own().map(|(_, part)| part_of(bytes, parts, *part));
                lines.push((channel, PeerToPeer::legs(cut, chunk)));
                for (number, _) in own() {
                    for from in 0..ranks {
                        let to = rounds[*number as usize].target(from, ranks, size);
                        let link = self.pair([from, to], channel)?;
                        wires.join(channel, [from, to], [2 * line, 2 * line + 1], [from, to], link);
                    }
                }
            }
        }
        Ok(joined(p2p, chunk, lines, ranks, wires))
    }

    /// SendRecv: every rank and the next one, by as many connections as they exchange parts.
    pub(in crate::collective) fn send_recv(&self) -> Result<Joined, BuildError> {
        let ranks = self.ranks.len() as u32;
        let p2p = self.p2p_channels();
        let size = group_size(self.members.iter().map(|member| member.gpus));
        let (parts, chunk) = (p2p.parts(self.bytes, ranks), p2p.chunk(self.bytes));
        self.check_count(u64::from(ranks) * u64::from(parts))?;
        let mut wires = Wires::new(2 * parts as usize, ranks as usize);
        let mut lines: Vec<(u32, Arc<[Leg]>)> = Vec::new();
        for part in 0..parts {
            let cut = part_of(self.bytes, parts, part);
            let channel = p2p.of(1, size, part, parts);
            lines.push((channel, PeerToPeer::legs(std::iter::once(cut), chunk)));
            for from in 0..ranks {
                let to = (from + 1) % ranks;
                let link = self.pair([from, to], channel)?;
                wires.join(channel, [from, to], [2 * part, 2 * part + 1], [from, to], link);
            }
        }
        Ok(joined(p2p, chunk, lines, ranks, wires))
    }

    /// One rank that sends to another (ncclSend, ncclRecv): on as many channels as they have for
    /// each other.
    pub(in crate::collective) fn send(&self) -> Result<Joined, BuildError> {
        let p2p = self.p2p_channels();
        let (parts, chunk) = (p2p.parts(self.bytes, 2), p2p.chunk(self.bytes));
        self.check_count(u64::from(parts))?;
        let mut wires = Wires::new(2 * parts as usize, 2);
        let mut lines: Vec<(u32, Arc<[Leg]>)> = Vec::new();
        for part in 0..parts {
            let cut = part_of(self.bytes, parts, part);
            // two ranks meet in round 1
            let channel = p2p.of(1, 1, part, parts);
            lines.push((channel, PeerToPeer::legs(std::iter::once(cut), chunk)));
            let link = self.pair([0, 1], channel)?;
            wires.join(channel, [0, 1], [2 * part, 2 * part + 1], [0, 0], link);
        }
        let mut joined = joined(p2p, chunk, lines, 2, wires);
        // the first rank has but the lanes that send, the other one those that receive
        for (lane, ranks) in joined.lanes.iter_mut().enumerate() {
            *ranks = [lane as u32 % 2].into();
        }
        Ok(joined)
    }

    /// How the pairs of ranks share channels (NCCL graph/paths.cc).
    fn p2p_channels(&self) -> Channels {
        const PER_CHANNEL: f64 = 14.0;
        const NVLINK: f64 = 20.0;
        let across = self.members.len() > 1;
        let rings = self.found.count;
        let gbytes = |bps: u64| bps as f64 / 8e9;
        let of_gpu = |member: &Member<'_>, gpu: u32| {
            let near = near(member, gpu);
            let rate = near.iter().map(|device| member.rates[*device as usize].bps()).sum();
            (near.len() as u32).max((gbytes(rate).floor() / PER_CHANNEL).ceil() as u32)
        };
        let of_member = |member: &Member<'_>| {
            let nvlink = (gbytes(member.config.nvlink.rate.bps()) / NVLINK) as u32;
            let nvlink = (member.gpus > 1).then_some(2 * nvlink.max(1));
            let nics = (0..member.gpus).filter(|_| across).map(|gpu| of_gpu(member, gpu));
            nics.chain(nvlink).min().unwrap_or(1)
        };
        let nearest = self.members.iter().map(of_member).min().unwrap_or(1);
        let given = self.setting.nccl.nchannels_per_net_peer;
        Channels::new(rings, nearest, self.ranks.len() as u32, across, given)
    }
}
