//! From `[[traffic]]` of `kind = "collective"`, `[host]` and `[nccl]` to jobs: ranks, lanes and the
//! connections between them.

use std::sync::Arc;

use sim_core::{Rate, Time};

use super::channels::{Found, HostView};
use super::choice::{Choice, choose};
use super::config::{CollectiveAlgorithm, CollectiveConfig, Op};
use super::job::{Job, Rank};
use super::joins::{Joined, Joins};
use super::msccl::MscclAlgorithm;
use super::nccl::NcclConfig;
use super::program::Cut;
use super::protocol::Protocol;
use crate::error::BuildError;
use crate::host::{Device, HostConfig, NicPlan, devices, nics};
use crate::ids::{NodeId, PortId};
use crate::placement::RANKS_MAX;
use crate::topology::Topology;

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
    /// What its ranks do, instead of an algorithm of NCCL's.
    pub algorithm: Option<Arc<MscclAlgorithm>>,
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

/// Plans all collectives, whose ranks have these GPUs.
pub fn jobs(
    collectives: &[Collective],
    seats: &[Vec<Rank>],
    setting: Setting<'_>,
) -> Result<Vec<Job>, BuildError> {
    let planned = collectives.iter().zip(seats);
    planned.map(|(collective, ranks)| plan(collective, ranks, setting)).collect()
}

/// A host of a job.
pub(super) struct Member<'a> {
    pub(super) host: NodeId,
    pub(super) config: &'a HostConfig,
    pub(super) nics: Vec<NicPlan>,
    pub(super) devices: Vec<Device>,
    pub(super) rates: Vec<Rate>,
    /// GPUs that take part. Within a job they are numbered from 0, as NCCL does it: in the affinity
    /// of `nics` too.
    pub(super) gpus: u32,
    /// Their numbers on the host.
    pub(super) numbers: Vec<u32>,
    pub(super) first_rank: u32,
}

/// More QPs or repetitions than this are refused before memory is taken.
pub(super) const QPS_MAX: u64 = 8_000_000;
const REPEATS_MAX: u32 = 100_000;

/// Plans a collective of ranks that have these GPUs.
pub(super) fn plan(
    collective: &Collective,
    ranks: &[Rank],
    setting: Setting<'_>,
) -> Result<Job, BuildError> {
    let Collective { config, bytes, section, cut, algorithm } = collective;
    let key = |field: &str| format!("traffic[{section}].{field}");
    if config.warmup > REPEATS_MAX {
        let message = format!("at most {REPEATS_MAX} are expected");
        return Err(BuildError::new(key("warmup"), message));
    }
    if config.iterations == 0 || config.iterations > REPEATS_MAX {
        let message = format!("at least 1 and at most {REPEATS_MAX} iterations are expected");
        return Err(BuildError::new(key("iterations"), message));
    }
    let members = members(ranks, setting)?;
    let at = |member: &Member<'_>| {
        let host = member.host;
        member.numbers.iter().map(move |gpu| Rank { host, gpu: *gpu }).collect::<Vec<Rank>>()
    };
    let asked = ranks;
    let ranks: Vec<Rank> = members.iter().flat_map(at).collect();
    if ranks.len() < 2 {
        let message = "a collective over one rank: NCCL would copy the buffer and send nothing (nccl-tests \
                       prints busbw 0); more hosts or GPUs are expected";
        let field = match (&config.ranks, &config.hosts) {
            (Some(_), _) => "ranks",
            (None, Some(_)) => "hosts",
            (None, None) => "gpus",
        };
        return Err(BuildError::new(key(field), message));
    }
    let total = ranks.len() as u32;
    let count = config.op.count(bytes / config.dtype.size(), total);
    let bytes = count * config.op.parts(total) * config.dtype.size();
    if config.op.has_root() && config.root >= total {
        let message =
            format!("there is no rank {}: ranks 0 to {} are there", config.root, total - 1);
        return Err(BuildError::new(key("root"), message));
    }
    let mut config = config.clone();
    if let Some(root) = ranks.iter().position(|rank| Some(rank) == asked.get(config.root as usize))
        && root as u32 != config.root
    {
        // ranks count host by host from here on
        Arc::make_mut(&mut config).root = root as u32;
    }
    let config = &config;
    let nccl = setting.nccl;
    let found = Found::new(&views(&members), nccl);
    let protocol = Protocol::Simple;
    let mut job =
        Joins { members: &members, ranks: &ranks, setting, found: &found, protocol, bytes };
    if algorithm.is_some() && ranks != asked {
        let message = "ranks of an algorithm are numbered host by host: all of a host one after the \
                       other are expected";
        return Err(BuildError::new(key("ranks"), message));
    }
    let choice = match algorithm {
        Some(algorithm) => given(algorithm, &job, config.dtype.size(), &key)?,
        None => choose(config, &job, &key)?,
    };
    job.protocol = choice.protocol;
    let Joined { pattern, channels, lanes, connections, buffers } = match algorithm {
        Some(algorithm) => job.blocks(algorithm)?,
        None => join(config, &job, &choice, &key)?,
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
        buffers,
        choice,
        start: Time::ZERO + config.start,
        cut: *cut,
        called: None,
    })
}

/// An algorithm of MSCCL, if it is one for so many ranks and bytes.
fn given(
    algorithm: &MscclAlgorithm,
    job: &Joins<'_>,
    element: u64,
    key: &impl Fn(&str) -> String,
) -> Result<Choice, BuildError> {
    let (ranks, wanted) = (job.ranks.len(), algorithm.gpus.len());
    if ranks != wanted {
        let message = format!(
            "{:?} is for {wanted} GPUs (ngpus), and {ranks} take part: hosts and gpus that make \
             {wanted} are expected",
            algorithm.name
        );
        return Err(BuildError::new(key("file"), message));
    }
    let chunks = u64::from(algorithm.chunks);
    // chunks are of whole elements
    let unit = chunks * element;
    if job.bytes == 0 || !job.bytes.is_multiple_of(unit) {
        let next = job.bytes.max(1).next_multiple_of(unit);
        let message = format!(
            "{} B are not {chunks} equal chunks (nchunksperloop): MSCCL would not use {:?}; {next} B \
             would be",
            job.bytes, algorithm.name
        );
        return Err(BuildError::new(key("bytes"), message));
    }
    let protocol = algorithm.protocol;
    Ok(Choice {
        algorithm: CollectiveAlgorithm::Auto,
        protocol,
        candidates: Vec::new(),
        missed: None,
    })
}

/// Joins the lanes of a job as was chosen.
fn join(
    config: &CollectiveConfig,
    job: &Joins<'_>,
    choice: &Choice,
    key: &impl Fn(&str) -> String,
) -> Result<Joined, BuildError> {
    let refuse = |field: &str, message: String| Err(BuildError::new(key(field), message));
    let total = job.ranks.len() as u32;
    match config.op {
        Op::AllToAll => return job.all_to_all(),
        Op::SendRecv => return job.send_recv(),
        Op::Send => return job.send(),
        _ => {}
    }
    match choice.algorithm {
        CollectiveAlgorithm::Ring | CollectiveAlgorithm::Auto => job.rings(config.op.has_root()),
        CollectiveAlgorithm::Tree => job.trees(),
        CollectiveAlgorithm::NvlsTree if job.heads().len() < 2 => {
            let message = "NVLSTree needs hosts whose GPUs are joined by an NVSwitch that adds up, \
                           and two or more GPUs with a NIC each; \"tree\" or \"ring\" is expected";
            refuse("algorithm", message.to_owned())
        }
        CollectiveAlgorithm::NvlsTree => job.nvls_trees(),
        by @ (CollectiveAlgorithm::HierarchicalRing | CollectiveAlgorithm::HierarchicalTree) => {
            let gpus = job.members[0].gpus;
            if job.members.len() < 2 || job.members.iter().any(|member| member.gpus != gpus) {
                let message = format!(
                    "{} needs two or more hosts of as many GPUs each: \"ring\" or \"tree\" is expected",
                    by.name()
                );
                return refuse("algorithm", message);
            }
            job.hierarchical(by == CollectiveAlgorithm::HierarchicalTree)
        }
        CollectiveAlgorithm::HalvingDoubling if total.is_power_of_two() => job.halving_doubling(),
        CollectiveAlgorithm::HalvingDoubling => {
            let below = total.next_power_of_two() / 2;
            let message = format!(
                "halving-doubling needs a power of two of ranks, and there are {total}: {below} or {} \
                 are expected (hosts, gpus), or \"ring\"",
                below * 2
            );
            refuse("algorithm", message)
        }
    }
}

/// What the search for channels sees of hosts.
pub(super) fn views<'a>(members: &'a [Member<'a>]) -> Vec<HostView<'a>> {
    let views = members.iter().map(|member| HostView {
        config: member.config,
        nics: &member.nics,
        devices: &member.devices,
        rates: &member.rates,
        gpus: member.gpus,
    });
    views.collect()
}

/// The hosts of these ranks, in the order in which they first appear.
fn members<'a>(ranks: &[Rank], setting: Setting<'a>) -> Result<Vec<Member<'a>>, BuildError> {
    let mut hosts: Vec<(NodeId, Vec<u32>)> = Vec::new();
    let mut place = vec![None; setting.topology.nodes().len()];
    for rank in ranks {
        let place = place[rank.host.index()].get_or_insert_with(|| {
            hosts.push((rank.host, Vec::new()));
            hosts.len() - 1
        });
        hosts[*place].1.push(rank.gpu);
    }
    // it filters RDMA devices; sockets go by all ports
    let filter = setting.nccl.hca_filter()?.filter(|_| setting.nccl.sockets().is_none());
    let mut members: Vec<Member<'a>> = Vec::new();
    let across = hosts.len() > 1;
    let mut first_rank = 0;
    for (host, numbers) in hosts {
        let name = &setting.topology.node(host).name;
        let Some(config) = setting.hosts[host.index()].as_deref() else {
            unreachable!("ranks are on servers")
        };
        let ports: Vec<PortId> = setting.topology.ports_of(host).collect();
        let mut nics = nics(config, ports.len() as u32)?;
        let devices = devices(&nics, setting.nccl.ib_merge_nics != 0, filter.as_ref());
        if devices.is_empty() && across {
            let names: Vec<&str> =
                nics.iter().flat_map(|nic| &nic.names).map(String::as_str).collect();
            let message = format!(
                "no device of {name} is left ({}): NCCL would fall back to sockets",
                names.join(", ")
            );
            return Err(BuildError::new("nccl.IB_HCA", message));
        }
        for nic in &mut nics {
            let near = |gpu: &u32| nic.affinity.contains(gpu);
            let own = (0..).zip(&numbers).filter(|(_, gpu)| near(gpu)).map(|(own, _)| own);
            nic.affinity = own.collect();
            nic.paths = numbers.iter().map(|gpu| nic.path(*gpu)).collect();
        }
        let port_rate = |port: &u32| setting.topology.port(ports[*port as usize]).rate.bps();
        let rate = |device: &Device| {
            Rate::from_bps(device.links.iter().flatten().map(port_rate).sum::<u64>())
        };
        let rates = devices.iter().map(rate).collect();
        let gpus = numbers.len() as u32;
        members.push(Member { host, config, nics, devices, rates, gpus, numbers, first_rank });
        first_rank += gpus;
        if first_rank > RANKS_MAX {
            let message = format!("a job can have at most {RANKS_MAX} ranks");
            return Err(BuildError::new("traffic", message));
        }
    }
    Ok(members)
}
