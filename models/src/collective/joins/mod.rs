//! Which lanes of a job are joined, by which devices: one file a pattern.

mod blocks;
mod exchanges;
mod pairs;
mod rings;
mod trees;

use std::sync::Arc;

use super::channels::{Found, HostView, distance};
use super::connection::Striping;
use super::job::{Connection, Link, Pattern, Rank};
use super::plan::{Member, QPS_MAX, Setting, views};
use super::protocol::{Buffers, Protocol};
use crate::error::BuildError;
use crate::host::Device;
use crate::ids::PortId;

pub use self::trees::Place;

/// What joins are made of.
pub(super) struct Joins<'a> {
    pub members: &'a [Member<'a>],
    pub ranks: &'a [Rank],
    pub setting: Setting<'a>,
    /// What the search for channels found.
    pub found: &'a Found,
    /// How a GPU knows that data has come.
    pub protocol: Protocol,
    /// Size of the buffer.
    pub bytes: u64,
}

/// How a job is joined.
pub(super) struct Joined {
    pub pattern: Pattern,
    pub channels: u32,
    pub lanes: Vec<Arc<[u32]>>,
    pub connections: Vec<Connection>,
    pub buffers: Buffers,
}

/// Connections as they are made.
struct Wires {
    connections: Vec<Connection>,
    /// By lane and rank: how many it sends to, and receives from.
    peers: Vec<[Vec<u32>; 2]>,
}

impl Wires {
    fn new(lanes: usize, ranks: usize) -> Self {
        Wires { connections: Vec::new(), peers: vec![[vec![0; ranks], vec![0; ranks]]; lanes] }
    }

    /// Joins two lanes of two ranks; `positions` are the places of these ranks on them.
    fn join(
        &mut self,
        channel: u32,
        [from, to]: [u32; 2],
        lanes: [u32; 2],
        positions: [u32; 2],
        link: Link,
    ) {
        let mut next = |side: usize, rank: u32| {
            let count = &mut self.peers[lanes[side] as usize][side][rank as usize];
            *count += 1;
            *count - 1
        };
        let peers = [next(0, from), next(1, to)];
        self.connections.push(Connection { channel, from, to, lanes, peers, positions, link });
    }
}

impl Joins<'_> {
    fn buffsize(&self) -> u64 {
        self.setting.nccl.buffsize.get()
    }

    /// Channels of a ring, or of another pattern, for a buffer of this size.
    fn channels(&self, ring: bool) -> u32 {
        let least = self.protocol.least(ring, self.ranks.len() as u32);
        self.found.count_for(self.bytes, least)
    }

    pub(super) fn views(&self) -> Vec<HostView<'_>> {
        views(self.members)
    }

    fn check_count(&self, connections: u64) -> Result<(), BuildError> {
        let qps = u64::from(self.setting.nccl.ib_qps_per_connection);
        if connections * qps > QPS_MAX {
            let message = format!("this makes more than {QPS_MAX} QPs");
            return Err(BuildError::new("nccl.IB_QPS_PER_CONNECTION", message));
        }
        Ok(())
    }

    /// The member that a rank belongs to.
    fn member(&self, rank: u32) -> usize {
        let after = self.members.partition_point(|member| member.first_rank <= rank);
        after.saturating_sub(1)
    }

    /// How two ranks reach each other on a channel, rings apart: by the device next to the receiving
    /// GPU and, with PXN, the one next to that GPU's neighbour at the sender, so that data stays on
    /// its rail (NCCL transport/net.cc, NCCL_P2P_PXN_LEVEL 2).
    fn pair(&self, [from, to]: [u32; 2], channel: u32) -> Result<Link, BuildError> {
        let [a, b] = [from, to].map(|rank| &self.members[self.member(rank)]);
        if a.host == b.host {
            return Ok(Link::Local);
        }
        let (own, other) = (from - a.first_rank, to - b.first_rank);
        let enters = device_of(b, other, channel);
        let nccl = self.setting.nccl;
        let number = b.numbers[other as usize];
        let same = a.numbers.iter().position(|gpu| *gpu == number);
        let stays = same.filter(|_| nccl.pxn_disable == 0 && nccl.sockets().is_none());
        let relay = stays.map_or(own, |gpu| gpu as u32);
        let leaves = device_of(a, relay, channel);
        // nothing is gained where the own GPU is as near
        let pxn = !near(a, own).contains(&leaves);
        self.link([from, to], [leaves, enters], pxn.then_some(relay))
    }

    /// How the rank `from` reaches the rank `to` by these devices; `relay` is the GPU next to the
    /// first, if data goes by another one than its own.
    fn link(
        &self,
        [from, to]: [u32; 2],
        devices: [u32; 2],
        relay: Option<u32>,
    ) -> Result<Link, BuildError> {
        let [a, b] = [from, to].map(|rank| &self.members[self.member(rank)]);
        if a.host == b.host {
            return Ok(Link::Local);
        }
        let leaves = &a.devices[devices[0] as usize];
        let enters = &b.devices[devices[1] as usize];
        let nccl = self.setting.nccl;
        let width = leaves.links.len().max(enters.links.len()) as u32;
        let sockets = nccl.sockets();
        let qps = sockets.unwrap_or(nccl.ib_qps_per_connection) * width;
        if qps > 128 {
            let message = format!(
                "{} QPs on each of {width} merged ports are {qps}: NCCL has room for 128 a connection",
                nccl.ib_qps_per_connection
            );
            return Err(BuildError::new("nccl.IB_QPS_PER_CONNECTION", message));
        }
        let split = nccl.ib_split_data_on_qps != 0 || sockets.is_some();
        let parts = if split { qps } else { width };
        let topology = self.setting.topology;
        let port = |member: &Member<'_>, index: u32| {
            let first = topology.ports_of(member.host).next().map_or(0, |port| port.0);
            PortId(first + index)
        };
        let ends = (0..qps as usize).map(|qp| {
            let source = &leaves.links[qp % leaves.links.len()];
            let target = &enters.links[qp % enters.links.len()];
            let source = source.iter().map(|index| port(a, *index)).collect();
            (source, port(b, target[0]))
        });
        let gdr = |member: &Member<'_>, device: &Device, gpu: u32| {
            let path = distance(&member.nics, device, gpu);
            sockets.is_none() && member.config.gdr && path.of_nccl() <= nccl.net_gdr_level.0
        };
        let (own, other) = (from - a.first_rank, to - b.first_rank);
        let latency = |member: &Member<'_>, device: &Device| match sockets {
            Some(_) => member.config.socket.latency,
            None => member.nics[device.nic as usize].pcie.latency,
        };
        Ok(Link::Remote {
            qps: ends.collect(),
            striping: Striping { qps, parts },
            ports: width,
            // LL is sent from host memory (NCCL transport/net.cc)
            gdr: [
                self.protocol != Protocol::Ll && gdr(a, leaves, relay.unwrap_or(own)),
                gdr(b, enters, other),
            ],
            pcie_latency: [latency(a, leaves), latency(b, enters)],
            pxn: relay.is_some(),
            sockets: sockets.is_some(),
        })
    }
}

/// The devices nearest to a GPU.
fn near(member: &Member<'_>, gpu: u32) -> Vec<u32> {
    let path = |device: u32| distance(&member.nics, &member.devices[device as usize], gpu);
    let all = 0..member.devices.len() as u32;
    let nearest = all.clone().map(path).min();
    all.filter(|device| Some(path(*device)) == nearest).collect()
}

/// The device of a GPU on a channel: of those next to it, GPUs that share them begin at different
/// ones, and channels take what is left for each in turn (`ncclTopoGetLocalNet`).
fn device_of(member: &Member<'_>, gpu: u32, channel: u32) -> u32 {
    let devices = near(member, gpu);
    let sharing: Vec<u32> =
        (0..member.gpus).filter(|other| near(member, *other) == devices).collect();
    let place = sharing.iter().position(|other| *other == gpu).unwrap_or(0);
    let each = devices.len().div_ceil(sharing.len().max(1));
    devices[(place * each + channel as usize % each) % devices.len()]
}
