//! Which algorithm and protocol a collective takes.

use super::channels::nvlink;
use super::config::{CollectiveAlgorithm, CollectiveConfig, Op};
use super::joins::Joins;
use super::nccl::NcclConfig;
use super::protocol::Protocol;
use super::tuning::{Algorithm, Candidate, Cluster};
use crate::error::BuildError;
use crate::host::PathType;

/// What was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// How.
    pub algorithm: CollectiveAlgorithm,
    /// Protocol.
    pub protocol: Protocol,
    /// What NCCL's tuning model says of all that it might have taken, the fastest first; nothing if
    /// it was not asked.
    pub candidates: Vec<Candidate>,
    /// What it would rather have taken, if `nccl.ALGO` and `nccl.PROTO` had left it.
    pub missed: Option<Candidate>,
}

/// What NCCL's tuning model sees.
fn cluster(joins: &Joins<'_>) -> Cluster {
    let found = joins.found;
    // channels end at GPUs next to NICs
    let near = joins.members.iter().all(|member| {
        let near = |gpu| member.nics.iter().any(|nic| nic.path(gpu) <= PathType::Pxb);
        (0..member.gpus).any(near)
    });
    let config = joins.members[0].config;
    let local = joins.views().iter().map(nvlink).fold(f64::INFINITY, f64::min);
    let bandwidth = match found.across {
        true => found.speed * f64::from(found.base()),
        false => local,
    };
    Cluster {
        ranks: joins.ranks.len() as u32,
        nodes: joins.members.len() as u32,
        channels: found.count,
        bandwidth,
        architecture: found.architecture,
        cpu: config.cpu,
        nvlink: config.has_nvlink(),
        heads: if config.has_nvswitch_sums() { joins.heads().len() as u32 } else { 0 },
        // who asks for LL128 gets it
        ll128: joins.setting.nccl.proto.is_some()
            || (near && (config.has_nvlink() || config.gpus == 1)),
    }
}

/// Chooses. `key` makes the name of a key of the section, for messages.
pub(super) fn choose(
    config: &CollectiveConfig,
    joins: &Joins<'_>,
    key: &impl Fn(&str) -> String,
) -> Result<Choice, BuildError> {
    use CollectiveAlgorithm::{
        Auto, HalvingDoubling, HierarchicalRing, HierarchicalTree, NvlsTree, Ring, Tree,
    };
    let (op, nccl) = (config.op, joins.setting.nccl);
    let plain =
        |algorithm, protocol| Choice { algorithm, protocol, candidates: Vec::new(), missed: None };
    let refuse = |message: String| Err(BuildError::new(key("algorithm"), message));
    if op.is_p2p() {
        if config.algorithm.is_some_and(|given| given != Auto) {
            return refuse(format!(
                "it is for collectives that have one: {} is a SEND and a RECV of each rank, and \
                 nothing can be chosen; leave it out",
                op.name()
            ));
        }
        return Ok(plain(Ring, Protocol::Simple));
    }
    let only_all_reduce = matches!(
        config.algorithm,
        Some(Tree | NvlsTree | HierarchicalRing | HierarchicalTree | HalvingDoubling)
    );
    if op != Op::AllReduce && only_all_reduce {
        let name = config.algorithm.map_or("", CollectiveAlgorithm::name);
        return refuse(format!(
            "{name} is for all_reduce: NCCL does {} on rings; \"ring\" or \"auto\" is expected",
            op.name()
        ));
    }
    let wanted = match config.algorithm {
        Some(Ring) => Some(&[Algorithm::Ring][..]),
        Some(Tree) => Some(&[Algorithm::Tree][..]),
        Some(NvlsTree) => Some(&[Algorithm::NvlsTree, Algorithm::Nvls][..]),
        Some(other @ (HierarchicalRing | HierarchicalTree | HalvingDoubling)) => {
            let protocol = nccl.proto.as_ref().map_or(Protocol::Simple, |allowed| {
                let mut all = Protocol::ALL.into_iter().rev();
                all.find(|word| allowed.allows(op, *word)).unwrap_or(Protocol::Simple)
            });
            return Ok(plain(other, protocol));
        }
        Some(Auto) => None,
        None if nccl.algo.is_none() && nccl.proto.is_none() => {
            return Ok(plain(Ring, Protocol::Simple));
        }
        None => None,
    };
    // an algorithm that is given, under Simple where nothing is said of protocols
    if let (Some([algorithm, ..]), None) = (wanted, &nccl.proto) {
        return Ok(plain(of(*algorithm), Protocol::Simple));
    }
    let allowed = |candidate: &Candidate| {
        let Candidate { algorithm, protocol, .. } = *candidate;
        let by_algo = match wanted {
            Some(wanted) => wanted.contains(&algorithm),
            None => nccl.algo.as_ref().is_none_or(|allowed| allowed.allows(op, algorithm)),
        };
        by_algo && nccl.proto.as_ref().is_none_or(|allowed| allowed.allows(op, protocol))
    };
    let cluster = cluster(joins);
    let mut candidates = cluster.candidates(op, joins.bytes);
    let first = candidates.first().copied();
    candidates.retain(allowed);
    let Some(best) = candidates.first() else {
        let key = if nccl.proto.is_some() { "nccl.PROTO" } else { "nccl.ALGO" };
        let message = format!(
            "nothing is left that NCCL could take for {} on {} hosts of {} GPUs ({:?}): with ALGO \
             and PROTO another choice is expected, such as Ring and Simple",
            op.name(),
            cluster.nodes,
            cluster.ranks / cluster.nodes.max(1),
            cluster.architecture
        );
        return Err(BuildError::new(key, message));
    };
    let best = ruled(nccl, op, joins.bytes, &candidates).unwrap_or(best);
    let missed = first.filter(|first| first.time_us < best.time_us && wanted.is_none());
    let (algorithm, protocol) = (of(best.algorithm), best.protocol);
    Ok(Choice { algorithm, protocol, candidates, missed })
}

/// What `nccl.tuner` says, if it says something that can be done.
fn ruled<'a>(
    nccl: &NcclConfig,
    op: Op,
    bytes: u64,
    candidates: &'a [Candidate],
) -> Option<&'a Candidate> {
    let rule = nccl.tuner.iter().find(|rule| {
        rule.op.is_none_or(|of| of == op) && rule.max_bytes.is_none_or(|most| bytes <= most.get())
    })?;
    candidates.iter().find(|candidate| {
        rule.algorithm.is_none_or(|algorithm| algorithm == candidate.algorithm)
            && rule.protocol.is_none_or(|protocol| protocol == candidate.protocol)
    })
}

/// How NCCL's algorithm is called here.
fn of(algorithm: Algorithm) -> CollectiveAlgorithm {
    match algorithm {
        Algorithm::Ring => CollectiveAlgorithm::Ring,
        Algorithm::Tree => CollectiveAlgorithm::Tree,
        Algorithm::Nvls | Algorithm::NvlsTree => CollectiveAlgorithm::NvlsTree,
    }
}
