//! Which lanes of a job are joined, by which devices: rings, halving and doubling, AllToAll.

use std::sync::Arc;

use super::channels::{HostView, channels, distance};
use super::connection::Striping;
use super::p2p::{BATCH, Channels, Leg, PeerToPeer, group_size, part_of, rounds};
use super::plan::{Connection, Link, Member, Pattern, QPS_MAX, Rank, Setting};
use crate::error::BuildError;
use crate::host::Device;
use crate::ids::PortId;

/// What joins are made of.
pub(super) struct Joins<'a> {
    pub members: &'a [Member<'a>],
    pub ranks: &'a [Rank],
    pub setting: Setting<'a>,
    /// Size of the buffer.
    pub bytes: u64,
}

/// How a job is joined.
pub(super) struct Joined {
    pub pattern: Pattern,
    pub channels: u32,
    pub lanes: Vec<Vec<u32>>,
    pub connections: Vec<Connection>,
}

impl Joins<'_> {
    fn views(&self) -> Vec<HostView<'_>> {
        let views = self.members.iter().map(|member| HostView {
            config: member.config,
            nics: &member.nics,
            devices: &member.devices,
            rates: &member.rates,
            gpus: member.gpus,
        });
        views.collect()
    }

    /// Rings: the ranks host after host, and each joined to the next.
    pub(super) fn rings(&self) -> Result<Joined, BuildError> {
        let routes = channels(&self.views(), self.setting.nccl, self.bytes);
        let channels = routes[0].len() as u32;
        let ring = |channel: u32| {
            let within = self.members.iter().zip(&routes).flat_map(|(member, routes)| {
                let gpus = routes[channel as usize].gpus.iter();
                gpus.map(move |gpu| member.first_rank + gpu)
            });
            within.collect()
        };
        let lanes: Vec<Vec<u32>> = (0..channels).map(ring).collect();
        self.check_count(u64::from(channels) * self.ranks.len() as u64)?;
        let mut connections = Vec::new();
        for (channel, ring) in (0..).zip(&lanes) {
            let device = |member: usize, of: fn(&super::Route) -> Option<u32>| {
                of(&routes[member][channel as usize]).unwrap_or(0)
            };
            for (position, from) in (0..).zip(ring) {
                let to = ring[(position as usize + 1) % ring.len()];
                let [a, b] = [*from, to].map(|rank| self.member(rank));
                let devices = [device(a, |route| route.leaves), device(b, |route| route.enters)];
                connections.push(Connection {
                    channel,
                    from: *from,
                    to,
                    lanes: [channel; 2],
                    peer: 0,
                    position,
                    link: self.link([*from, to], devices, None)?,
                });
            }
        }
        Ok(Joined { pattern: Pattern::Ring, channels, lanes, connections })
    }

    /// Halving and doubling: each rank and those whose numbers differ from its own in one bit.
    pub(super) fn halving_doubling(&self) -> Result<Joined, BuildError> {
        let channels = channels(&self.views(), self.setting.nccl, self.bytes)[0].len() as u32;
        let ranks = self.ranks.len() as u32;
        let rounds = ranks.trailing_zeros();
        self.check_count(u64::from(channels) * u64::from(rounds) * u64::from(ranks))?;
        let mut connections = Vec::new();
        // the peers of a lane are joined to it in the order of bits, at both ends
        for channel in 0..channels {
            for (peer, from) in (0..rounds).flat_map(|bit| (0..ranks).map(move |r| (bit, r))) {
                let to = from ^ 1 << peer;
                connections.push(Connection {
                    channel,
                    from,
                    to,
                    lanes: [channel; 2],
                    peer,
                    position: from,
                    link: self.pair([from, to], channel)?,
                });
            }
        }
        let lanes = vec![(0..ranks).collect(); channels as usize];
        Ok(Joined { pattern: Pattern::HalvingDoubling, channels, lanes, connections })
    }

    /// AllToAll: every rank and every other one, each by as many connections as they exchange
    /// parts. A channel has at most a batch of pairs of lanes, which take its operations in turn.
    pub(super) fn all_to_all(&self) -> Result<Joined, BuildError> {
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
        let mut connections = Vec::new();
        for (channel, operations) in (0..).zip(&operations) {
            for slot in 0..operations.len().min(BATCH as usize) {
                let line = lines.len() as u32;
                let own = || operations.iter().skip(slot).step_by(BATCH as usize);
                let cut = own().map(|(_, part)| part_of(bytes, parts, *part));
                lines.push((channel, PeerToPeer::legs(cut, chunk)));
                for (peer, (number, _)) in (0..).zip(own()) {
                    for from in 0..ranks {
                        let to = rounds[*number as usize].target(from, ranks, size);
                        connections.push(Connection {
                            channel,
                            from,
                            to,
                            lanes: [2 * line, 2 * line + 1],
                            peer,
                            position: from,
                            link: self.pair([from, to], channel)?,
                        });
                    }
                }
            }
        }
        let lanes = vec![(0..ranks).collect(); 2 * lines.len()];
        let pattern = Pattern::PeerToPeer { lines, chunk, slot: p2p.slot() };
        Ok(Joined { pattern, channels: p2p.all, lanes, connections })
    }

    /// How the pairs of ranks share channels (NCCL graph/paths.cc).
    fn p2p_channels(&self) -> Channels {
        const PER_CHANNEL: f64 = 14.0;
        const NVLINK: f64 = 20.0;
        let across = self.members.len() > 1;
        let rings = channels(&self.views(), self.setting.nccl, u64::MAX)[0].len() as u32;
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
        let [own, other] = [from, to].map(|rank| self.ranks[rank as usize].gpu);
        let enters = device_of(b, other, channel);
        let stays = self.setting.nccl.pxn_disable == 0 && other < a.gpus;
        let relay = if stays { other } else { own };
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
        let qps = nccl.ib_qps_per_connection * width;
        if qps > 128 {
            let message = format!(
                "{} QPs on each of {width} merged ports are {qps}: NCCL has room for 128 a connection",
                nccl.ib_qps_per_connection
            );
            return Err(BuildError::new("nccl.IB_QPS_PER_CONNECTION", message));
        }
        let parts = if nccl.ib_split_data_on_qps != 0 { qps } else { width };
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
            member.config.gdr && path.of_nccl() <= nccl.net_gdr_level.0
        };
        let [own, other] = [from, to].map(|rank| self.ranks[rank as usize].gpu);
        let latency =
            |member: &Member<'_>, device: &Device| member.nics[device.nic as usize].pcie.latency;
        Ok(Link::Remote {
            qps: ends.collect(),
            striping: Striping { qps, parts },
            ports: width,
            gdr: [gdr(a, leaves, relay.unwrap_or(own)), gdr(b, enters, other)],
            pcie_latency: [latency(a, leaves), latency(b, enters)],
            pxn: relay.is_some(),
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
