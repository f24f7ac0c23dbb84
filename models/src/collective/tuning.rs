//! NCCL's tuning model: which algorithm and protocol it takes for a size (graph/tuning.cc).
//!
//! time = latency + bytes / bandwidth, of constants that NVIDIA measured; the smallest wins. The
//! numbers are those of NCCL 2.30. What is simulated does not depend on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::Op;
use super::protocol::Protocol;
use crate::host::{Architecture, CpuVendor};

/// An algorithm of NCCL's.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub enum Algorithm {
    /// Double binary tree between hosts, chains within.
    Tree,
    /// Rings.
    Ring,
    /// Within one host, by the NVSwitch.
    #[serde(rename = "NVLS")]
    Nvls,
    /// Trees between hosts, the NVSwitch within.
    #[serde(rename = "NVLSTree")]
    NvlsTree,
}

impl Algorithm {
    /// All of them, in NCCL's order.
    pub const ALL: [Algorithm; 4] =
        [Algorithm::Tree, Algorithm::Ring, Algorithm::Nvls, Algorithm::NvlsTree];

    /// Its name, as NCCL_ALGO has it.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Tree => "Tree",
            Algorithm::Ring => "Ring",
            Algorithm::Nvls => "NVLS",
            Algorithm::NvlsTree => "NVLSTree",
        }
    }
}

/// What the model sees of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// GPUs.
    pub ranks: u32,
    /// Hosts.
    pub nodes: u32,
    /// Channels of rings and trees.
    pub channels: u32,
    /// Bandwidth of all of them that the search found, in GB/s.
    pub bandwidth: f64,
    /// Generation of the GPUs.
    pub architecture: Architecture,
    /// Maker of the hosts' CPUs.
    pub cpu: CpuVendor,
    /// GPUs of a host are joined by NVLink.
    pub nvlink: bool,
    /// GPUs of a host that have a NIC of their own, where an NVSwitch adds up; 0 where none does.
    pub heads: u32,
    /// LL128 may be used: NVLink within hosts, and NICs next to GPUs (PXB), or it was asked for.
    pub ll128: bool,
}

/// One way to do it, and the time that the model expects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Algorithm.
    pub algorithm: Algorithm,
    /// Protocol.
    pub protocol: Protocol,
    /// In us.
    pub time_us: f64,
}

/// By algorithm (Tree, Ring) and protocol (LL, LL128, Simple), in us; NVLS and NVLSTree under Simple.
const BASE_LATENCY: [[f64; 3]; 2] = [[6.8, 14.0, 8.4], [6.6, 14.0, 8.4]];
const NVLINK_LATENCY: [[f64; 3]; 2] = [[0.6, 1.25, 4.0], [0.6, 1.9, 3.4]];
const PCI_LATENCY: [[f64; 3]; 2] = [[1.0, 1.9, 4.0], [1.0, 2.5, 5.7]];
const NET_LATENCY: [[f64; 3]; 2] = [[5.0, 8.5, 14.0], [2.7, 4.0, 14.0]];
/// NVLink and network.
const NVLS_LATENCY: [f64; 2] = [25.0, 18.0];
const NVLS_TREE_LATENCY: [f64; 2] = [25.0, 20.9];
const TREE: usize = 0;
const RING: usize = 1;

/// By generation, and 1, 2, more nodes: most that LL carries, in GB/s,
const LL_MAX: [[f64; 3]; 4] =
    [[39.0, 39.0, 20.4], [87.7, 22.5, 19.0], [141.0, 45.0, 35.0], [282.0, 90.0, 70.0]];
/// and what a channel does.
const RING_LL128: [[f64; 3]; 4] = [[20.0; 3], [20.0; 3], [36.7; 3], [40.0; 3]];
const TREE_LL128: [[f64; 3]; 4] = [[20.0; 3], [20.0; 3], [36.7, 36.7, 29.0], [55.6, 31.67, 20.0]];
const TREE_ANY: [[f64; 3]; 4] =
    [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [38.7, 41.4, 36.0], [70.0, 42.8, 24.0]];
/// Hopper and Blackwell.
const NVLS_TREE: [[f64; 3]; 2] = [[f64::INFINITY, 57.7, 45.5], [f64::INFINITY, 96.0, 80.0]];
/// What the search finds for a head, and what of it is reached.
const NVLS_SPEED: [f64; 2] = [60.0, 120.0];
const NVLS_EFFICIENCY: [f64; 2] = [0.85, 0.74];

/// What a tree reaches of its bandwidth, from 64 B up by powers of two.
const TREE_CORRECTION: [[f64; 24]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9,
        0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8,
        0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
    ],
];

fn generation(architecture: Architecture) -> usize {
    match architecture {
        Architecture::Volta => 0,
        // RCCL's own tables are not known here: AMD's GPUs take the row of Ampere
        Architecture::Ampere
        | Architecture::Cdna
        | Architecture::Cdna2
        | Architecture::Cdna3
        | Architecture::Cdna4 => 1,
        Architecture::Hopper => 2,
        Architecture::Blackwell => 3,
    }
}

impl Cluster {
    /// 1, 2, more nodes.
    fn size(&self) -> usize {
        self.nodes.clamp(1, 3) as usize - 1
    }

    /// GPUs of a host, on the mean.
    fn per_node(&self) -> u32 {
        self.ranks / self.nodes.max(1)
    }

    /// All that NCCL would consider, the fastest first; of equals the first in its order.
    pub fn candidates(&self, op: Op, bytes: u64) -> Vec<Candidate> {
        let all = Algorithm::ALL.into_iter().flat_map(|a| Protocol::ALL.map(|p| (a, p)));
        let timed = all.filter_map(|(algorithm, protocol)| {
            let time_us = self.time(op, algorithm, protocol, bytes)?;
            Some(Candidate { algorithm, protocol, time_us })
        });
        let mut candidates: Vec<Candidate> = timed.collect();
        candidates.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        candidates
    }

    /// Time in us; `None` where NCCL has no such way.
    pub fn time(
        &self,
        op: Op,
        algorithm: Algorithm,
        protocol: Protocol,
        bytes: u64,
    ) -> Option<f64> {
        if op.is_p2p() || (op != Op::AllReduce && algorithm != Algorithm::Ring) {
            return None;
        }
        let mut bandwidth = self.bandwidth(op, algorithm, protocol)?;
        let mut latency = self.latency(op, algorithm, protocol);
        if algorithm == Algorithm::Tree
            && let Some(log) = (bytes >> 6).checked_ilog2()
            && let Some(factor) = TREE_CORRECTION[protocol as usize][..23].get(log as usize)
        {
            bandwidth *= factor;
        }
        let each = bytes / u64::from(self.channels * self.ranks);
        let ring = (algorithm, protocol) == (Algorithm::Ring, Protocol::Simple);
        if ring && self.nodes > 1 && op == Op::AllReduce && each >= 64 {
            latency *= if self.architecture == Architecture::Volta { 1.9 } else { 1.4 };
        }
        Some(latency + bytes as f64 / (1000.0 * bandwidth))
    }

    /// Bus bandwidth by the NVSwitch: twice for an AllReduce, which does two operations at once.
    fn nvls_within(&self, row: usize) -> f64 {
        2.0 * f64::from(self.heads - 1) * NVLS_SPEED[row] * NVLS_EFFICIENCY[row]
    }

    /// Primitives, one after the other.
    fn steps(&self, op: Op) -> f64 {
        let n = f64::from(self.ranks);
        match op {
            Op::AllReduce => 2.0 * (n - 1.0),
            Op::AllGather | Op::ReduceScatter => n - 1.0,
            _ => n,
        }
    }

    /// GB/s of the buffer.
    fn bandwidth(&self, op: Op, algorithm: Algorithm, protocol: Protocol) -> Option<f64> {
        let (row, size) = (generation(self.architecture), self.size());
        let channels = f64::from(self.channels);
        // between hosts the rows of LL go by the maker of the CPU
        let ll_row = match (self.nodes, self.cpu) {
            (1, _) => row,
            (_, CpuVendor::Amd) => 1,
            _ => 0,
        };
        let ll_max = LL_MAX[ll_row][size];
        if protocol == Protocol::Ll128 && !self.ll128 {
            return None;
        }
        let of_nvls = row.checked_sub(2).filter(|_| self.heads > 1);
        let bus = match (algorithm, protocol) {
            (Algorithm::Ring, Protocol::Ll) => ll_max.min(0.5 * self.bandwidth),
            (Algorithm::Ring, Protocol::Ll128) => {
                (0.92 * self.bandwidth).min(channels * RING_LL128[row][size])
            }
            (Algorithm::Ring, Protocol::Simple) => self.bandwidth,
            (Algorithm::Tree, protocol) => {
                let all = (0.92 * self.bandwidth).min(channels * TREE_ANY[row][size]);
                // what NCCL takes off where all that other hosts send comes to one GPU of a host, as in
                // the trees here (its balanced trees bring it to two)
                0.85 * match protocol {
                    Protocol::Ll => (all / 3.8).min(ll_max),
                    Protocol::Ll128 => {
                        let share = if self.nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                        (all * share).min(channels * TREE_LL128[row][size])
                    }
                    Protocol::Simple => all,
                }
            }
            (Algorithm::Nvls | Algorithm::NvlsTree, Protocol::Ll | Protocol::Ll128) => return None,
            (Algorithm::Nvls, _) if self.nodes == 1 => {
                let row = of_nvls?;
                self.nvls_within(row)
            }
            (Algorithm::NvlsTree, _) if self.nodes > 1 => {
                let row = of_nvls?;
                let heads = f64::from(self.heads);
                let within = self.nvls_within(row);
                let between = if self.nodes == 2 { 2.0 } else { 1.0 } * self.bandwidth;
                within.min(between).min(heads * NVLS_TREE[row][size])
            }
            (Algorithm::Nvls | Algorithm::NvlsTree, _) => return None,
        };
        let ratio = match algorithm {
            Algorithm::Tree => 0.5,
            _ => f64::from(self.ranks) / self.steps(op),
        };
        Some(bus * ratio)
    }

    /// In us.
    fn latency(&self, op: Op, algorithm: Algorithm, protocol: Protocol) -> f64 {
        let number = protocol as usize;
        let within = if self.nvlink { NVLINK_LATENCY } else { PCI_LATENCY };
        let log = f64::from(self.nodes.max(1).ilog2());
        let hops = f64::from(self.per_node().max(1) - 1);
        match algorithm {
            Algorithm::Ring => {
                let base = BASE_LATENCY[RING][number];
                // with one GPU a host nothing hides the network
                let net = if self.per_node() == 1 { TREE } else { RING };
                let [within, between] = [within[RING][number], NET_LATENCY[net][number]];
                let across = self.nodes > 1;
                if matches!(op, Op::Broadcast | Op::Reduce) {
                    return base + if across { NET_LATENCY[RING][number] } else { within };
                }
                let overhead = match (across, self.cpu, protocol) {
                    (false, ..) => 0.0,
                    (_, cpu, Protocol::Simple) => 3.0 * cpu.net_overhead_us(),
                    (_, cpu, _) => cpu.net_overhead_us(),
                };
                let twice = if op == Op::AllReduce { 2.0 } else { 1.0 };
                let between_steps = twice * (f64::from(self.nodes) - 1.0);
                let steps = self.steps(op) - between_steps;
                base + steps * within.max(overhead) + between_steps * between
            }
            Algorithm::Tree => {
                let [within, between] = [within[TREE][number], NET_LATENCY[TREE][number]];
                BASE_LATENCY[TREE][number] + 2.0 * (hops * within + log * between)
            }
            Algorithm::Nvls => NVLS_LATENCY[0],
            Algorithm::NvlsTree => NVLS_TREE_LATENCY[0] + 2.0 * log * NVLS_TREE_LATENCY[1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        Cluster {
            ranks: 32,
            nodes: 4,
            channels: 16,
            bandwidth: 192.0,
            architecture: Architecture::Ampere,
            cpu: CpuVendor::Amd,
            nvlink: true,
            heads: 0,
            ll128: true,
        }
    }

    #[test]
    fn times_by_hand() {
        let cluster = cluster();
        let time = |algorithm, protocol, bytes| {
            cluster.time(Op::AllReduce, algorithm, protocol, bytes).unwrap()
        };
        // Ring Simple, 8 B: 8.4 + (62 - 6) x max(3.4, 3 x 2) + 6 x 14 = 428.4 us
        assert!((time(Algorithm::Ring, Protocol::Simple, 8) - 428.4).abs() < 0.01);
        // 1 GiB: 1.4 x 428.4 + 2^30 / (192000 x 32 / 62)
        let large = 1.4 * 428.4 + 1_073_741_824.0 / (192_000.0 * 32.0 / 62.0);
        assert!((time(Algorithm::Ring, Protocol::Simple, 1 << 30) - large).abs() < 0.1);
        // Tree LL, 8 B: 6.8 + 2 (7 x 0.6 + 2 x 5) = 35.2 us
        assert!((time(Algorithm::Tree, Protocol::Ll, 8) - 35.2).abs() < 0.01);
        // Tree LL128 128 B: correction 1 (64 B x 2^1), 120/128 x .92 x 192 x .85 / 2 = 70.4 GB/s
        let small = 14.0 + 2.0 * (7.0 * 1.25 + 2.0 * 8.5) + 128.0 / 70_380.0;
        assert!((time(Algorithm::Tree, Protocol::Ll128, 128) - small).abs() < 0.001);
        assert_eq!(cluster.time(Op::AllReduce, Algorithm::NvlsTree, Protocol::Simple, 8), None);
        assert_eq!(cluster.time(Op::AllGather, Algorithm::Tree, Protocol::Ll, 8), None);
    }

    #[test]
    fn small_sizes_take_trees_and_large_ones_rings() {
        let cluster = cluster();
        let first = |bytes| {
            let best = cluster.candidates(Op::AllReduce, bytes)[0];
            (best.algorithm, best.protocol)
        };
        assert_eq!(first(8), (Algorithm::Tree, Protocol::Ll));
        assert_eq!(first(8 << 30), (Algorithm::Ring, Protocol::Simple));
        // two hosts: a tree leaves each once, and its bandwidth is that of both
        let hopper = Cluster {
            nodes: 2,
            ranks: 16,
            architecture: Architecture::Hopper,
            heads: 8,
            bandwidth: 360.0,
            ..cluster
        };
        let best = hopper.candidates(Op::AllReduce, 8 << 30)[0];
        assert_eq!(best.algorithm, Algorithm::NvlsTree);
        assert_eq!(hopper.candidates(Op::ReduceScatter, 8 << 30)[0].protocol, Protocol::Simple);
        assert!(hopper.candidates(Op::AllToAll, 8).is_empty());
    }
}
