//! Double binary trees between hosts; within a host a chain, or the NVSwitch.

use std::sync::Arc;

use super::{Joined, Joins, Wires, device_of, near};
use crate::collective::channels::{ChannelPlan, Route};
use crate::collective::job::Pattern;
use crate::collective::protocol::{Buffers, Protocol};
use crate::collective::tree::{self, double_binary};
use crate::error::BuildError;

/// A rank of a tree: what is above, and how many are below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// It is not the root.
    pub parent: bool,
    /// Ranks below.
    pub children: u32,
}

impl Joins<'_> {
    /// Trees: on each channel the hosts are a binary tree, joined at the head of a chain of the GPUs
    /// of each host. (NCCL may give the second child to the second GPU of the chain: balanced trees.)
    pub(in crate::collective) fn trees(&self) -> Result<Joined, BuildError> {
        let channels = self.channels(false);
        let routes = self.found.trees(&self.views(), channels);
        let ranks = self.ranks.len();
        self.check_count(u64::from(channels) * 2 * ranks as u64)?;
        let mut wires = Wires::new(2 * channels as usize, ranks);
        let mut places = Vec::new();
        for channel in 0..channels {
            let tree = self.found.tree(channel);
            let of_channel = self.tree(channel, tree, &routes, &mut wires)?;
            places.push(of_channel);
        }
        let all: Arc<[u32]> = (0..ranks as u32).collect();
        let mut buffers = self.protocol.by_steps(self.buffsize());
        if self.protocol == Protocol::Ll128 {
            buffers.chunk = self.tree_chunk(channels, buffers.chunk);
        }
        Ok(Joined {
            pattern: Pattern::Tree { places },
            channels,
            lanes: vec![all; 2 * channels as usize],
            connections: wires.connections,
            buffers,
        })
    }

    /// Joins one channel; returns the place of each rank.
    fn tree(
        &self,
        channel: u32,
        tree: u32,
        routes: &[ChannelPlan],
        wires: &mut Wires,
    ) -> Result<Vec<Place>, BuildError> {
        let nodes = self.members.len() as u32;
        let route = |node: u32| -> &Route { &routes[node as usize][channel as usize] };
        let rank = |node: u32, place: usize| {
            self.members[node as usize].first_rank + route(node).gpus[place]
        };
        let device = |node: u32| route(node).enters.unwrap_or(0);
        let mut places = vec![Place { parent: false, children: 0 }; self.ranks.len()];
        // the chains first, as NCCL lists who is below; then what is between hosts
        let mut edges = Vec::new();
        for node in 0..nodes {
            let chain = 1..route(node).gpus.len();
            edges.extend(chain.map(|place| (rank(node, place - 1), rank(node, place), [0; 2])));
        }
        for [above, below] in tree::edges(nodes, tree) {
            edges.push((rank(above, 0), rank(below, 0), [device(above), device(below)]));
        }
        for (above, below, _) in &edges {
            places[*above as usize].children += 1;
            places[*below as usize].parent = true;
        }
        let is_root = |rank: u32| !places[rank as usize].parent;
        for (above, below, [at, from]) in edges {
            let [up, down] = [2 * channel, 2 * channel + 1];
            // the root gives back on the lane that takes
            let back = if is_root(above) { up } else { down };
            let link = self.link([below, above], [from, at], None)?;
            wires.join(channel, [below, above], [up, up], [below, above], link);
            let link = self.link([above, below], [at, from], None)?;
            wires.join(channel, [above, below], [back, down], [above, below], link);
        }
        Ok(places)
    }

    /// A chunk of LL128 on trees: halved while there are too few to fill the way (enqueue.cc).
    fn tree_chunk(&self, channels: u32, mut chunk: u64) -> u64 {
        let per_node = self.ranks.len() as f64 / self.members.len() as f64;
        let steps = 1.0 + f64::from(self.members.len().ilog2()) + 0.1 * per_node;
        let chunks = |chunk: u64| (self.bytes / (u64::from(channels) * chunk)) as f64;
        for (share, least) in [(64.0, 131_072), (16.0, 32_768)] {
            while chunks(chunk) < steps * share / per_node && chunk > least {
                chunk /= 2;
            }
        }
        chunk / 120 * 120
    }

    /// NVLSTree (NVLS on one host): for each channel and each NIC the GPU next to it is the head of
    /// a part of the buffer, which the NVSwitch adds up for it; the heads of all hosts are a tree.
    pub(in crate::collective) fn nvls_trees(&self) -> Result<Joined, BuildError> {
        let channels = self.channels(false);
        let heads = self.heads();
        let nodes = self.members.len() as u32;
        let lanes = 2 * channels as usize * heads.len();
        self.check_count(lanes as u64 * u64::from(nodes))?;
        let mut wires = Wires::new(lanes, self.ranks.len());
        let (mut places, mut order) = (Vec::new(), Vec::new());
        for (channel, gpu) in (0..channels).flat_map(|c| heads.iter().map(move |gpu| (c, *gpu))) {
            let up = order.len() as u32;
            let ranks: Arc<[u32]> =
                self.members.iter().map(|member| member.first_rank + gpu).collect();
            let branch = |node| double_binary(nodes, node, self.found.tree(channel));
            let of_lane: Vec<Place> = (0..nodes)
                .map(branch)
                .map(|b| Place { parent: b.parent.is_some(), children: b.children.len() as u32 })
                .collect();
            for [node, below] in tree::edges(nodes, self.found.tree(channel)) {
                let [a, b] = [node, below].map(|node| ranks[node as usize]);
                let device = |node: u32| device_of(&self.members[node as usize], gpu, channel);
                let [at, from] = [node, below].map(device);
                let back = if of_lane[node as usize].parent { up + 1 } else { up };
                let link = self.link([b, a], [from, at], None)?;
                wires.join(channel, [b, a], [up, up], [below, node], link);
                let link = self.link([a, b], [at, from], None)?;
                wires.join(channel, [a, b], [back, up + 1], [node, below], link);
            }
            places.push(of_lane);
            order.extend([ranks.clone(), ranks]);
        }
        let pattern = Pattern::NvlsTree { places, heads: heads.len() as u32 };
        let chunk = self.nvls_chunk(channels, heads.len() as u64);
        let buffers = Buffers { chunk, slot: chunk, ..self.protocol.by_steps(self.buffsize()) };
        Ok(Joined { pattern, channels, lanes: order, connections: wires.connections, buffers })
    }

    /// The GPUs that are heads: on all hosts the same numbers, each the first next to a NIC.
    pub(in crate::collective) fn heads(&self) -> Vec<u32> {
        let mut heads: Vec<u32> = Vec::new();
        let member = &self.members[0];
        if self.members.len() == 1 {
            return (0..member.gpus).collect();
        }
        for device in 0..member.devices.len() as u32 {
            let gpu = (0..member.gpus).find(|gpu| near(member, *gpu).contains(&device));
            heads.extend(gpu.filter(|gpu| !heads.contains(gpu)));
        }
        heads.retain(|gpu| self.members.iter().all(|member| *gpu < member.gpus));
        heads.sort_unstable();
        heads
    }

    /// A chunk of NVLSTree: 256 KiB, less while there are too few of them (enqueue.cc); of NVLS
    /// 128 KiB.
    fn nvls_chunk(&self, channels: u32, heads: u64) -> u64 {
        let mut chunk = if self.members.len() == 1 { 128 << 10 } else { 256 << 10 };
        let at_once = u64::from(channels) * heads;
        for (turns, size) in [(16, 128 << 10), (4, 64 << 10), (1, 32 << 10)] {
            if self.bytes < turns * at_once * chunk && chunk > size {
                chunk = size;
            }
        }
        chunk
    }
}
