//! From `[[traffic]]` of `kind = "collective"`, `[host]` and `[nccl]` to jobs: ranks, lanes and the
//! connections between them.

use std::sync::Arc;

use sim_core::{Delta, Rate, Time};

use super::config::{AllReduceAlgorithm, CollectiveConfig, Op};
use super::connection::{SLOTS, Striping};
use super::halving_doubling::HalvingDoubling;
use super::joins::{Joined, Joins};
use super::nccl::NcclConfig;
use super::p2p::{self, Leg, PeerToPeer};
use super::program::{Cut, Part, Program, Steps};
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
        /// The sender's GPU hands data over NVLink to the one next to the NIC (PXN).
        pxn: bool,
    },
}

/// What carries slices from one lane to another.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The channel.
    pub channel: u32,
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// The sender's lane and the receiver's.
    pub lanes: [u32; 2],
    /// Which of the peers of its lane each is for the other.
    pub peer: u32,
    /// Place of the sending rank on its lane: see [`Job::lanes`].
    pub position: u32,
    /// How.
    pub link: Link,
}

/// Who sends to whom.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// AllReduce on rings, a lane a channel.
    Ring,
    /// AllReduce by halving and doubling, a lane a channel.
    HalvingDoubling,
    /// AllToAll: pairs of lanes, the first of which sends.
    PeerToPeer {
        /// What each pair does, and on which channel.
        lines: Vec<(u32, Arc<[Leg]>)>,
        /// Largest chunk.
        chunk: u64,
        /// Size of a slot.
        slot: u64,
    },
}

impl Pattern {
    /// What stands in reports for NCCL's algorithm.
    pub fn name(&self) -> &'static str {
        match self {
            Pattern::Ring => "Ring",
            Pattern::HalvingDoubling => "HalvingDoubling",
            Pattern::PeerToPeer { .. } => "P2P",
        }
    }
}

/// One collective, planned.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its keys.
    pub config: Arc<CollectiveConfig>,
    /// Elements, as nccl-tests counts them.
    pub count: u64,
    /// Size of the buffer: whole elements, in as many parts as the operation has.
    pub bytes: u64,
    /// Hosts that take part.
    pub nodes: u32,
    /// The GPUs, host by host.
    pub ranks: Vec<Rank>,
    /// Number of channels.
    pub channels: u32,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// By lane of a rank: the ranks in the order of their positions; of a ring that in which data
    /// passes them.
    pub lanes: Vec<Vec<u32>>,
    /// All connections; of rings channel by channel.
    pub connections: Vec<Connection>,
    /// Most that one chunk holds.
    pub chunk: u64,
    /// Size of a buffer slot, and slots of a connection.
    pub slots: (u64, u64),
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

    /// True if data goes around rings.
    pub fn is_ring(&self) -> bool {
        matches!(self.pattern, Pattern::Ring)
    }

    /// The hosts that take part, in the order of their ranks.
    pub fn hosts(&self) -> Vec<NodeId> {
        let mut hosts: Vec<NodeId> = self.ranks.iter().map(|rank| rank.host).collect();
        hosts.dedup();
        hosts
    }

    /// The thread block of a lane, among those of its rank. P2P operations share that of their
    /// channel, senders and receivers apart.
    pub fn block(&self, lane: u32) -> u32 {
        match &self.pattern {
            Pattern::Ring | Pattern::HalvingDoubling => lane,
            Pattern::PeerToPeer { lines, .. } => lines[lane as usize / 2].0 * 2 + lane % 2,
        }
    }

    /// Thread blocks of a rank.
    pub fn blocks(&self) -> u32 {
        let each = if matches!(self.pattern, Pattern::PeerToPeer { .. }) { 2 } else { 1 };
        each * self.channels
    }

    /// The program of the rank at `position` of a lane.
    pub fn program(&self, lane: u32, position: u32) -> Program {
        let ranks = self.ranks.len() as u32;
        let steps = match &self.pattern {
            Pattern::Ring => {
                let Part { offset, bytes } = self.share(lane);
                let (index, chunk) = (position, self.chunk);
                Steps::RingAllReduce(RingAllReduce { index, ranks, offset, bytes, chunk })
            }
            Pattern::HalvingDoubling => Steps::HalvingDoubling(HalvingDoubling {
                rank: position,
                rounds: ranks.trailing_zeros(),
                part: self.share(lane),
                chunk: self.chunk,
            }),
            Pattern::PeerToPeer { lines, chunk, .. } => Steps::PeerToPeer(PeerToPeer {
                sends: lane.is_multiple_of(2),
                legs: lines[lane as usize / 2].1.clone(),
                chunk: *chunk,
            }),
        };
        Program::new(steps, self.cut)
    }

    /// The part of the buffer that a channel reduces, in units of 16 B.
    fn share(&self, channel: u32) -> Part {
        let units = self.bytes.div_ceil(16);
        let cut = |channel: u32| {
            let share = u128::from(units) * u128::from(channel) / u128::from(self.channels);
            (share as u64 * 16).min(self.bytes)
        };
        let (offset, end) = (cut(channel), cut(channel + 1));
        Part { offset, bytes: end - offset }
    }

    /// What a connection carries in one repetition, in bytes and in slices: of rings the mean.
    pub fn load(&self, connection: &Connection) -> (f64, f64) {
        let program = self.program(connection.lanes[1], connection.position);
        let slices = program.receives(connection.peer) as f64;
        let bytes = match &self.pattern {
            Pattern::Ring => {
                let factor = self.config.op.bus_factor(self.ranks.len() as u32);
                self.bytes as f64 * factor / f64::from(self.channels)
            }
            // S / 2^(bit + 1) each way, twice
            Pattern::HalvingDoubling => {
                let halved = f64::from(connection.peer).exp2();
                self.bytes as f64 / halved / f64::from(self.channels)
            }
            Pattern::PeerToPeer { lines, .. } => {
                let (_, legs) = &lines[connection.lanes[0] as usize / 2];
                legs[connection.peer as usize].part.bytes as f64
            }
        };
        (bytes, slices)
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
pub(super) struct Member<'a> {
    pub(super) host: NodeId,
    pub(super) config: &'a HostConfig,
    pub(super) nics: Vec<NicPlan>,
    pub(super) devices: Vec<Device>,
    pub(super) rates: Vec<Rate>,
    pub(super) gpus: u32,
    pub(super) first_rank: u32,
}

/// More ranks, QPs or repetitions than this are refused before memory is taken.
const RANKS_MAX: u32 = 65_536;
pub(super) const QPS_MAX: u64 = 8_000_000;
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
        let message = "a collective over one rank: NCCL would copy the buffer and send nothing (nccl-tests \
                       prints busbw 0); more hosts or GPUs are expected";
        let field = if config.hosts.is_some() { "hosts" } else { "gpus" };
        return Err(BuildError::new(key(field), message));
    }
    let total = ranks.len() as u32;
    let count = config.op.count(bytes / config.dtype.size(), total);
    let bytes = count * config.op.parts(total) * config.dtype.size();
    let job = Joins { members: &members, ranks: &ranks, setting, bytes };
    let joined = match (config.op, config.algorithm) {
        (Op::AllReduce, None | Some(AllReduceAlgorithm::Ring)) => job.rings()?,
        (Op::AllReduce, Some(AllReduceAlgorithm::HalvingDoubling)) if total.is_power_of_two() => {
            job.halving_doubling()?
        }
        (Op::AllReduce, Some(AllReduceAlgorithm::HalvingDoubling)) => {
            let below = total.next_power_of_two() / 2;
            let message = format!(
                "halving-doubling needs a power of two of ranks, and there are {total}: {below} or {} \
                 are expected (hosts, gpus), or \"ring\"",
                below * 2
            );
            return Err(BuildError::new(key("algorithm"), message));
        }
        (Op::AllToAll, None) => job.all_to_all()?,
        (Op::AllToAll, Some(_)) => {
            let message = "it is for all_reduce: an AllToAll is a SEND and a RECV of each rank with \
                           each other one, and nothing can be chosen; leave it out";
            return Err(BuildError::new(key("algorithm"), message));
        }
    };
    let Joined { pattern, channels, lanes, connections } = joined;
    let slots = match &pattern {
        Pattern::PeerToPeer { slot, .. } => (*slot, p2p::SLOTS),
        _ => (setting.nccl.slot(), SLOTS),
    };
    Ok(Job {
        config: config.clone(),
        count,
        bytes,
        nodes: members.len() as u32,
        ranks,
        channels,
        pattern,
        lanes,
        connections,
        chunk: setting.nccl.chunk(),
        slots,
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
