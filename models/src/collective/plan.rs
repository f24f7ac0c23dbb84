//! From `[[traffic]]` of `kind = "collective"`, `[host]` and `[nccl]` to jobs: ranks, lanes and the
//! connections between them.

use std::sync::Arc;

use sim_core::{Delta, Rate, Time};

use super::channels::{ChannelPlan, HostView, channels, distance};
use super::config::{CollectiveConfig, Op};
use super::connection::Striping;
use super::nccl::NcclConfig;
use super::program::{Cut, Program, Steps};
use super::ring::RingAllReduce;
use crate::error::BuildError;
use crate::host::{Device, HostConfig, NicPlan, devices, nics};
use crate::ids::{NodeId, PortId};
use crate::topology::Topology;
use crate::traffic::Directory;

/// A collective of one size.
#[derive(Clone, Debug)]
pub struct Collective {
    /// Its keys.
    pub config: Arc<CollectiveConfig>,
    /// Size of the buffer.
    pub bytes: u64,
    /// Its place among the traffic sections.
    pub section: u32,
    /// How much of it is simulated, if not all.
    pub cut: Option<Cut>,
}

/// A GPU that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its host.
    pub host: NodeId,
    /// Its number there.
    pub gpu: u32,
}

/// How two lanes are joined.
#[derive(Clone, Debug)]
pub enum Link {
    /// Over NVLink.
    Local,
    /// Over QPs.
    Remote {
        /// The ports by which each QP sends (several for a bond), and the port or ports that it
        /// sends to: the first of them.
        qps: Vec<(Vec<PortId>, PortId)>,
        /// How messages use them.
        striping: Striping,
        /// Ports that they are spread over: so many QPs carry CTS messages back.
        ports: u32,
        /// GPUDirect at the sender and at the receiver.
        gdr: [bool; 2],
        /// Latency of PCIe at the sender and at the receiver.
        pcie_latency: [Delta; 2],
    },
}

/// What carries slices from one lane to the next.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The channel.
    pub channel: u32,
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// How.
    pub link: Link,
}

/// One collective, planned.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its keys.
    pub config: Arc<CollectiveConfig>,
    /// Elements.
    pub count: u64,
    /// Size of the buffer: whole elements.
    pub bytes: u64,
    /// Hosts that take part.
    pub nodes: u32,
    /// The GPUs, host by host.
    pub ranks: Vec<Rank>,
    /// Number of channels.
    pub channels: u32,
    /// The ranks in ring order, by channel.
    pub rings: Vec<Vec<u32>>,
    /// All connections, channel by channel.
    pub connections: Vec<Connection>,
    /// Most that one chunk holds.
    pub chunk: u64,
    /// When it starts.
    pub start: Time,
    /// How much of its programs is run, if not all.
    pub cut: Option<Cut>,
}

impl Job {
    /// Repetitions in all, and how many of them are timed.
    pub fn repeats(&self) -> [u32; 2] {
        [self.config.warmup + self.config.iterations, self.config.iterations]
    }

    /// The hosts that take part, in the order of their ranks.
    pub fn hosts(&self) -> Vec<NodeId> {
        let mut hosts: Vec<NodeId> = self.ranks.iter().map(|rank| rank.host).collect();
        hosts.dedup();
        hosts
    }

    /// The program of the rank at `position` of the ring of `channel`.
    pub fn program(&self, channel: u32, position: u32) -> Program {
        // shares of channels in units of 16 B
        let units = self.bytes.div_ceil(16);
        let cut = |channel: u32| {
            let share = u128::from(units) * u128::from(channel) / u128::from(self.channels);
            (share as u64 * 16).min(self.bytes)
        };
        let (offset, end) = (cut(channel), cut(channel + 1));
        let (index, ranks) = (position, self.ranks.len() as u32);
        let steps = match self.config.op {
            Op::AllReduce => Steps::RingAllReduce(RingAllReduce {
                index,
                ranks,
                offset,
                bytes: end - offset,
                chunk: self.chunk,
            }),
        };
        Program::new(steps, self.cut)
    }
}

/// What jobs are planned from.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The graph.
    pub topology: &'a Topology,
    /// By node: the server.
    pub hosts: &'a [Option<Arc<HostConfig>>],
    /// NCCL's variables.
    pub nccl: &'a NcclConfig,
}

/// Plans all collectives.
pub fn jobs(collectives: &[Collective], setting: Setting<'_>) -> Result<Vec<Job>, BuildError> {
    if collectives.is_empty() {
        return Ok(Vec::new());
    }
    setting.nccl.check()?;
    collectives.iter().map(|collective| plan(collective, setting)).collect()
}

/// A host of a job.
struct Member<'a> {
    host: NodeId,
    config: &'a HostConfig,
    nics: Vec<NicPlan>,
    devices: Vec<Device>,
    rates: Vec<Rate>,
    gpus: u32,
    first_rank: u32,
}

/// More ranks, QPs or repetitions than this are refused before memory is taken.
const RANKS_MAX: u32 = 65_536;
const QPS_MAX: usize = 8_000_000;
const REPEATS_MAX: u32 = 100_000;

fn plan(collective: &Collective, setting: Setting<'_>) -> Result<Job, BuildError> {
    let Collective { config, bytes, section, cut } = collective;
    let key = |field: &str| format!("traffic[{section}].{field}");
    if config.warmup > REPEATS_MAX {
        let message = format!("at most {REPEATS_MAX} are expected");
        return Err(BuildError::new(key("warmup"), message));
    }
    if config.iterations == 0 || config.iterations > REPEATS_MAX {
        let message = format!("at least 1 and at most {REPEATS_MAX} iterations are expected");
        return Err(BuildError::new(key("iterations"), message));
    }
    let members = members(config, setting, &key)?;
    let ranks: Vec<Rank> = members
        .iter()
        .flat_map(|member| (0..member.gpus).map(|gpu| Rank { host: member.host, gpu }))
        .collect();
    if ranks.len() < 2 {
        let message = "a ring over one rank: NCCL would copy the buffer and send nothing (nccl-tests \
                       prints busbw 0); more hosts or GPUs are expected";
        let field = if config.hosts.is_some() { "hosts" } else { "gpus" };
        return Err(BuildError::new(key(field), message));
    }
    let count = bytes / config.dtype.size();
    let bytes = count * config.dtype.size();
    let views: Vec<HostView<'_>> = members
        .iter()
        .map(|member| HostView {
            config: member.config,
            nics: &member.nics,
            devices: &member.devices,
            rates: &member.rates,
            gpus: member.gpus,
        })
        .collect();
    let routes = channels(&views, setting.nccl, bytes);
    let channels = routes[0].len() as u32;
    let rings = rings(&members, &routes, channels);
    let mut connections = Vec::new();
    for (channel, ring) in (0..).zip(&rings) {
        if connections.len() * setting.nccl.ib_qps_per_connection as usize > QPS_MAX {
            let message = format!("this makes more than {QPS_MAX} QPs");
            return Err(BuildError::new("nccl.IB_QPS_PER_CONNECTION", message));
        }
        for (position, from) in ring.iter().enumerate() {
            let to = ring[(position + 1) % ring.len()];
            let link = link(&members, &routes, channel, [*from, to], &ranks, setting)?;
            connections.push(Connection { channel, from: *from, to, link });
        }
    }
    Ok(Job {
        config: config.clone(),
        count,
        bytes,
        nodes: members.len() as u32,
        ranks,
        channels,
        rings,
        connections,
        chunk: setting.nccl.chunk(),
        start: Time::ZERO + config.start,
        cut: *cut,
    })
}

fn members<'a>(
    config: &CollectiveConfig,
    setting: Setting<'a>,
    key: &impl Fn(&str) -> String,
) -> Result<Vec<Member<'a>>, BuildError> {
    let directory = Directory::new(setting.topology);
    let listed = match &config.hosts {
        Some(hosts) => directory.find_all(hosts, &key("hosts"))?,
        None => directory.hosts().to_vec(),
    };
    let filter = setting.nccl.hca_filter()?;
    let mut members: Vec<Member<'a>> = Vec::new();
    let mut ranks = 0;
    for host in &listed {
        let name = &setting.topology.node(*host).name;
        if members.iter().any(|member| member.host == *host) {
            return Err(BuildError::new(key("hosts"), format!("{name} is listed twice")));
        }
        let Some(host_config) = setting.hosts[host.index()].as_deref() else {
            let message = "a collective runs on GPUs, and no server is described: a section [host] \
                           is expected, such as host.preset = \"dgx-a100\"";
            return Err(BuildError::new(key("kind"), message));
        };
        let ports: Vec<PortId> = setting.topology.ports_of(*host).collect();
        let nics = nics(host_config, ports.len() as u32)?;
        let devices = devices(&nics, setting.nccl.ib_merge_nics != 0, filter.as_ref());
        if devices.is_empty() && listed.len() > 1 {
            let names: Vec<&str> =
                nics.iter().flat_map(|nic| &nic.names).map(String::as_str).collect();
            let message = format!(
                "no device of {name} is left ({}): NCCL would fall back to sockets",
                names.join(", ")
            );
            return Err(BuildError::new("nccl.IB_HCA", message));
        }
        let port_rate = |port: &u32| setting.topology.port(ports[*port as usize]).rate.bps();
        let rate = |device: &Device| {
            Rate::from_bps(device.links.iter().flatten().map(port_rate).sum::<u64>())
        };
        let rates = devices.iter().map(rate).collect();
        let gpus = config.gpus.unwrap_or(host_config.gpus);
        if gpus == 0 || gpus > host_config.gpus {
            let message = format!("{gpus} is out of range: {name} has {} GPUs", host_config.gpus);
            return Err(BuildError::new(key("gpus"), message));
        }
        let config = host_config;
        members.push(Member { host: *host, config, nics, devices, rates, gpus, first_rank: ranks });
        ranks += gpus;
        if ranks > RANKS_MAX {
            let message = format!("a job can have at most {RANKS_MAX} ranks");
            return Err(BuildError::new(key("hosts"), message));
        }
    }
    Ok(members)
}

/// The ranks in ring order: host after host.
fn rings(members: &[Member<'_>], routes: &[ChannelPlan], channels: u32) -> Vec<Vec<u32>> {
    let ring = |channel: u32| {
        let within = members.iter().zip(routes).flat_map(|(member, routes)| {
            let gpus = routes[channel as usize].gpus.iter();
            gpus.map(move |gpu| member.first_rank + gpu)
        });
        within.collect()
    };
    (0..channels).map(ring).collect()
}

/// How the rank `from` reaches the rank `to` on a channel.
fn link(
    members: &[Member<'_>],
    routes: &[ChannelPlan],
    channel: u32,
    [from, to]: [u32; 2],
    ranks: &[Rank],
    setting: Setting<'_>,
) -> Result<Link, BuildError> {
    let member = |rank: u32| {
        let after = members.partition_point(|member| member.first_rank <= rank);
        after.saturating_sub(1)
    };
    let (a, b) = (member(from), member(to));
    if a == b {
        return Ok(Link::Local);
    }
    let route = |member: usize| &routes[member][channel as usize];
    let leaves = &members[a].devices[route(a).leaves.unwrap_or(0) as usize];
    let enters = &members[b].devices[route(b).enters.unwrap_or(0) as usize];
    let nccl = setting.nccl;
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
    let port = |member: &Member<'_>, index: u32| {
        let first = setting.topology.ports_of(member.host).next().map_or(0, |port| port.0);
        PortId(first + index)
    };
    let ends = (0..qps as usize).map(|qp| {
        let source = &leaves.links[qp % leaves.links.len()];
        let target = &enters.links[qp % enters.links.len()];
        let source = source.iter().map(|index| port(&members[a], *index)).collect();
        (source, port(&members[b], target[0]))
    });
    let gdr = |member: &Member<'_>, device: &Device, rank: u32| {
        let path = distance(&member.nics, device, ranks[rank as usize].gpu);
        member.config.gdr && path.of_nccl() <= nccl.net_gdr_level.0
    };
    let latency =
        |member: &Member<'_>, device: &Device| member.nics[device.nic as usize].pcie.latency;
    Ok(Link::Remote {
        qps: ends.collect(),
        striping: Striping { qps, parts },
        ports: width,
        gdr: [gdr(&members[a], leaves, from), gdr(&members[b], enters, to)],
        pcie_latency: [latency(&members[a], leaves), latency(&members[b], enters)],
    })
}
