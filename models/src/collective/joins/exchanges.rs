//! Halving and doubling, and rings or trees of what each GPU of a host has.

use std::sync::Arc;

use super::{Joined, Joins, Wires};
use crate::collective::hierarchical::Across;
use crate::collective::job::{Link, Pattern};
use crate::collective::tree::{double_binary, edges};
use crate::error::BuildError;

impl Joins<'_> {
    /// Halving and doubling: each rank and those whose numbers differ from its own in one bit.
    pub(in crate::collective) fn halving_doubling(&self) -> Result<Joined, BuildError> {
        let channels = self.channels(true);
        let ranks = self.ranks.len() as u32;
        let rounds = ranks.trailing_zeros();
        self.check_count(u64::from(channels) * u64::from(rounds) * u64::from(ranks))?;
        let mut wires = Wires::new(channels as usize, ranks as usize);
        // the peers of a lane are joined to it in the order of bits, at both ends
        for channel in 0..channels {
            for (bit, from) in (0..rounds).flat_map(|bit| (0..ranks).map(move |r| (bit, r))) {
                let to = from ^ 1 << bit;
                let link = self.pair([from, to], channel)?;
                wires.join(channel, [from, to], [channel; 2], [from, to], link);
            }
        }
        let all: Arc<[u32]> = (0..ranks).collect();
        Ok(Joined {
            pattern: Pattern::HalvingDoubling,
            channels,
            lanes: vec![all; channels as usize],
            connections: wires.connections,
            buffers: self.protocol.on_rings(self.buffsize()),
        })
    }

    /// Rings within hosts of as many GPUs each, and a ring or a tree of the GPUs of the same number.
    pub(in crate::collective) fn hierarchical(&self, tree: bool) -> Result<Joined, BuildError> {
        let channels = self.channels(true);
        let (hosts, gpus) = (self.members.len() as u32, self.members[0].gpus);
        self.check_count(u64::from(channels) * 2 * self.ranks.len() as u64)?;
        let mut wires = Wires::new(channels as usize, self.ranks.len());
        let mut across = vec![vec![Across::Ring; hosts as usize]; channels as usize];
        for channel in 0..channels {
            let mut join = |from: u32, to: u32, link: Link| {
                wires.join(channel, [from, to], [channel; 2], [from, to], link);
            };
            // the peer within the host is the first one
            for (host, gpu) in (0..hosts).flat_map(|host| (0..gpus).map(move |gpu| (host, gpu))) {
                if gpus > 1 {
                    join(host * gpus + gpu, host * gpus + (gpu + 1) % gpus, Link::Local);
                }
            }
            // then the one above, and then those below
            let edges = if tree { edges(hosts, self.found.tree(channel)) } else { Vec::new() };
            for gpu in 0..gpus {
                let rank = |host: u32| host * gpus + gpu;
                let mut joined = |from: u32, to: u32| -> Result<(), BuildError> {
                    join(rank(from), rank(to), self.pair([rank(from), rank(to)], channel)?);
                    Ok(())
                };
                for [above, below] in &edges {
                    joined(*above, *below)?;
                    joined(*below, *above)?;
                }
                let ring = if tree { 0 } else { hosts };
                (0..ring).try_for_each(|host| joined(host, (host + 1) % hosts))?;
            }
            for host in 0..if tree { hosts } else { 0 } {
                let branch = double_binary(hosts, host, self.found.tree(channel));
                let (parent, children) = (branch.parent.is_some(), branch.children.len() as u32);
                across[channel as usize][host as usize] = Across::Tree { parent, children };
            }
        }
        let all: Arc<[u32]> = (0..self.ranks.len() as u32).collect();
        Ok(Joined {
            pattern: Pattern::Hierarchical { across, gpus },
            channels,
            lanes: vec![all; channels as usize],
            connections: wires.connections,
            buffers: self.protocol.on_rings(self.buffsize()),
        })
    }
}
