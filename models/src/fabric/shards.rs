//! Which part of a fabric each thread runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sim_core::Delta;

use super::spec::Spec;
use super::wiring::{QpInfo, Wire};
use crate::ids::NodeId;
use crate::topology::Topology;
use crate::traffic::Transport;
use crate::wire::Frames;

/// How many shards a fabric is to be cut into: one if it cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// So many.
    Exactly(usize),
    /// So many, or one if that is likely to be faster.
    AtMost(usize),
}

/// The wires of a fabric in `shards`, which `wires` makes, and the shard of each node.
pub(super) fn split(
    spec: &Spec,
    frames: &Frames,
    qps: &[QpInfo],
    shards: Shards,
    wires: impl Fn(&Spec, &[u16]) -> Vec<Wire>,
) -> (Vec<Wire>, Vec<u16>) {
    let whole = vec![0; spec.topology.nodes().len()];
    // windows of several shards are no longer than this
    let close = spec.stop.after_last_flow.is_some_and(|after| after < Delta::from_us(1));
    let (Shards::Exactly(count) | Shards::AtMost(count)) = shards;
    if count > 1 && !close {
        let shard_of = partition(&spec.topology, count);
        let made = wires(spec, &shard_of);
        let window = lookahead(&made, &shard_of, frames);
        // neither a link nor a start that takes no time can be cut
        let possible = !window.is_zero() && !flows_tie(spec, &shard_of);
        let exactly = shards == Shards::Exactly(count);
        if possible && (exactly || hops_in(window, spec, &made, qps) >= HOPS_MIN) {
            return (made, shard_of);
        }
    }
    (wires(spec, &whole), whole)
}

/// Shards meet at the end of each window, which takes some microseconds: fewer hops in it than this
/// (were all senders at line rate; about a fifth is what a permutation comes to) are faster on one
/// thread.
const HOPS_MIN: f64 = 8000.0;

/// Hops of a window if all sources send, or all targets receive, what they can.
fn hops_in(window: Delta, spec: &Spec, wires: &[Wire], qps: &[QpInfo]) -> f64 {
    let sources: BTreeSet<u32> = qps.iter().map(|qp| qp.source_port).collect();
    let targets: BTreeSet<u32> = qps.iter().map(|qp| qp.target_address).collect();
    let mtu = |port: &u32| {
        let node = wires[*port as usize].node as usize;
        spec.nics[node].as_ref().map_or(4096, |nic| nic.mtu)
    };
    let frames_of = |port: &u32| {
        let rate = wires[*port as usize].clock.rate();
        rate.bytes_in(window).get() as f64 / f64::from(mtu(port))
    };
    let frames: f64 = sources.iter().map(frames_of).sum();
    let share = (targets.len() as f64 / sources.len().max(1) as f64).min(1.0);
    let tiers = tiers(&spec.topology).into_iter().max().unwrap_or(0);
    // up and down, data and ACKs
    frames * share * (2 * tiers) as f64 * 2.0
}

/// Whether a flow waits for one of another shard, which it must learn of at once.
fn flows_tie(spec: &Spec, shard_of: &[u16]) -> bool {
    let shard = |flow: usize| {
        let flow = &spec.flows[flow];
        // of a READ, the host that asks
        let begins = if flow.transport == Transport::RcRead { flow.target } else { flow.source };
        shard_of[begins.index()]
    };
    let mut flows = spec.flows.iter().enumerate();
    flows.any(|(number, flow)| flow.after.iter().any(|n| shard(*n as usize) != shard(number)))
}

/// The least time from a frame's first bit on a cut link to its handling at the other end.
pub(super) fn lookahead(wires: &[Wire], shard_of: &[u16], frames: &Frames) -> Delta {
    let shortest = frames.wire_len(frames.shortest());
    let cut = wires.iter().filter(|wire| wire.peer_shard != shard_of[wire.node as usize]);
    cut.map(|wire| wire.reach(shortest)).min().unwrap_or(Delta::MAX)
}

/// Splits the nodes into parts of about equally many switches; hosts go with their first switch.
///
/// Each tier is split by itself, so that every part has its share of all, and switches of
/// neighbouring numbers (a pod's, say) stay together.
fn partition(topology: &Topology, shards: usize) -> Vec<u16> {
    let mut part = vec![0; topology.nodes().len()];
    let tier = tiers(topology);
    let count = topology.switches().count();
    let shards = shards.clamp(1, count.clamp(1, 64));
    for number in 0..=tier.iter().copied().max().unwrap_or(0) {
        let group = topology.switches().filter(|switch| tier[switch.index()] == number);
        let group: Vec<NodeId> = group.collect();
        for (index, switch) in group.iter().enumerate() {
            part[switch.index()] = (index * shards / group.len()) as u16;
        }
    }
    for host in topology.hosts() {
        if let Some(port) = topology.ports_of(host).next() {
            part[host.index()] = part[topology.neighbour(port).index()];
        }
    }
    compact(part)
}

/// By node: how many cables away the next host is.
fn tiers(topology: &Topology) -> Vec<usize> {
    let mut tier = vec![usize::MAX; topology.nodes().len()];
    let mut frontier: VecDeque<NodeId> = topology.hosts().collect();
    frontier.iter().for_each(|host| tier[host.index()] = 0);
    while let Some(node) = frontier.pop_front() {
        for port in topology.ports_of(node) {
            let next = topology.neighbour(port);
            if tier[next.index()] == usize::MAX {
                tier[next.index()] = tier[node.index()] + 1;
                frontier.push_back(next);
            }
        }
    }
    // switches that no host reaches
    tier.iter_mut().filter(|tier| **tier == usize::MAX).for_each(|tier| *tier = 0);
    tier
}

/// Renumbers parts so that none is empty.
fn compact(part: Vec<u16>) -> Vec<u16> {
    let mut numbers = BTreeMap::new();
    let mut sorted = part.clone();
    sorted.sort_unstable();
    sorted.dedup();
    for (number, old) in sorted.into_iter().enumerate() {
        numbers.insert(old, number as u16);
    }
    part.into_iter().map(|old| numbers[&old]).collect()
}
