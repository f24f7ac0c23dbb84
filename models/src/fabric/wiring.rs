//! What never changes while a fabric runs, shared by all shards.

use std::ops::Add;
use std::sync::Arc;

use sim_core::{Bytes, Delta, Rate, Time};

use super::Followers;
use crate::collective::Job;
use crate::fault::{Change, Faults};
use crate::load_balance::FiveTuple;
use crate::routing::Routes;
use crate::script::Workload;
use crate::topology::Topology;
use crate::traffic::Transport;
use crate::training::TrainingPlan;
use crate::wire::{Frames, LinkClock};

/// The fixed part of a fabric.
#[derive(Debug)]
pub struct Wiring {
    /// The graph.
    pub topology: Arc<Topology>,
    /// Next hops.
    pub routes: Routes,
    /// What goes wrong, and the next hops then.
    pub faults: Faults,
    /// Frame lengths.
    pub frames: Frames,
    /// By port.
    pub wires: Vec<Wire>,
    /// By QP: first those of flows, then those of collectives' data, then those of their CTS.
    pub qps: Vec<QpInfo>,
    /// QPs that are reported: all but those of CTS messages, which are the way back of others.
    pub data_qps: u32,
    /// All collectives, then the communicators of workloads.
    pub jobs: Vec<Job>,
    /// Ranks that follow scripts.
    pub workloads: Vec<Workload>,
    /// Workloads that are training jobs.
    pub trainings: Vec<TrainingPlan>,
    /// Workloads that are GOAL schedules, by their numbers.
    pub schedules: Vec<u32>,
    /// NICs whose PCIe is slower than their ports.
    pub dmas: Vec<DmaInfo>,
    /// Flows that wait for others.
    pub followers: Followers,
    /// By node.
    pub shard_of: Vec<u16>,
    /// The longest time of a full packet and its ACK in an empty fabric, of all QPs, if a NIC asks.
    pub base_rtt: Delta,
    /// The edges of the measured window.
    pub measure: [Time; 2],
    /// Time between samples.
    pub sample_interval: Option<Delta>,
    /// When there are so many samples, every second one is left out, and the interval doubles.
    pub sample_keep: Option<u32>,
    /// Ports that are sampled.
    pub sampled_ports: Vec<u32>,
    /// QPs that are sampled: the first so many.
    pub sampled_qps: u32,
}

impl Wiring {
    /// How long one frame takes along `ports`, if it waits nowhere.
    pub(crate) fn time_along(&self, ports: &[u32], wire_len: u64) -> Delta {
        let times = ports.iter().map(|port| self.wires[*port as usize].reach(wire_len));
        times.fold(Delta::ZERO, Add::add)
    }

    /// Ranks that finish at some time: of collectives, and of workloads.
    pub fn finishing_ranks(&self) -> u64 {
        let plain = self.jobs.iter().filter(|job| job.called.is_none());
        let of_jobs = plain.map(|job| u64::from(job.running())).sum::<u64>();
        let of_workloads = self.workloads.iter().map(|workload| workload.ranks.len() as u64);
        of_jobs + of_workloads.sum::<u64>()
    }

    /// The collectives, without what workloads call; they are the first jobs.
    pub fn collectives(&self) -> &[Job] {
        let called = self.jobs.iter().position(|job| job.called.is_some());
        &self.jobs[..called.unwrap_or(self.jobs.len())]
    }

    /// The workload that a job belongs to; none for a collective.
    pub fn workload_of(&self, job: u32) -> Option<u32> {
        self.jobs[job as usize].called.as_ref().map(|called| called.workload)
    }
}

/// A port's cable and owner.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// The port at the other end.
    pub peer: u32,
    /// The shard of the node there.
    pub peer_shard: u16,
    /// Index within its node.
    pub index: u16,
    /// Its node.
    pub node: u32,
    /// Index of its switch or NIC.
    pub owner: u32,
    /// First port of its node.
    pub first_port: u32,
    /// Its node is a switch.
    pub is_switch: bool,
    /// From the last bit sent to the handling at the other end.
    pub arrival_delay: Delta,
    /// Frame times.
    pub clock: LinkClock,
    /// The switch at the other end handles a frame when so many of its wire bytes have come
    /// (cut-through); 0: when all have.
    pub head: u64,
    /// Effect of a PFC frame after its arrival here.
    pub pfc_response: Delta,
    /// Quanta of XOFF frames sent here; 0: XOFF holds until XON.
    pub pfc_quanta: u16,
}

impl Wire {
    /// From a frame's first bit to when it is handled at the other end.
    pub fn reach(&self, wire_len: u64) -> Delta {
        let seen = if self.head == 0 { wire_len } else { wire_len.min(self.head) };
        self.clock.time(seen) + self.arrival_delay
    }
}

/// A QP as the network sees it.
#[derive(Clone, Copy, Debug)]
pub struct QpInfo {
    /// Sending host.
    pub source: u32,
    /// Receiving host.
    pub target: u32,
    /// Address that it sends from.
    pub source_address: u32,
    /// Address that it sends to.
    pub target_address: u32,
    /// Sending port.
    pub source_port: u32,
    /// DSCP of data.
    pub dscp: u8,
    /// Addresses and UDP ports of data.
    pub tuple: FiveTuple,
    /// What it is for.
    pub role: Role,
    /// RDMA, or a TCP connection.
    pub transport: Transport,
    /// Of a collective or a line: the sending and the receiving end in the executors of the two hosts,
    pub ends: [u32; 2],
    /// and its number among the QPs of that kind of its connection.
    pub index: u32,
    /// Payload of a flow; `None` for unlimited.
    pub bytes: Option<u64>,
    /// When it starts, or how long after the flows that it waits for.
    pub start: Time,
    /// Window of a flow, instead of the NIC's.
    pub window: Option<Bytes>,
    /// Wire rate that a flow never passes.
    pub rate: Option<Rate>,
}

impl QpInfo {
    /// It stands for a TCP connection.
    pub fn is_tcp(&self) -> bool {
        self.transport == Transport::Tcp
    }
}

impl QpInfo {
    /// Whether a collective owns it.
    pub fn is_of_collective(&self) -> bool {
        !matches!(self.role, Role::Flow { .. })
    }
}

/// What a QP is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One message of point traffic.
    Flow {
        /// Its number in the spec.
        number: u32,
    },
    /// Slices of a collective.
    Data {
        /// The collective.
        job: u32,
        /// Its connection there.
        connection: u32,
    },
    /// CTS messages of a collective: the way back of a data QP.
    Cts {
        /// The collective.
        job: u32,
        /// Its connection there.
        connection: u32,
    },
    /// Messages of a line of a workload.
    Line {
        /// The workload.
        workload: u32,
        /// Its line.
        line: u32,
    },
}

/// A NIC whose PCIe is slower than its ports.
#[derive(Clone, Debug)]
pub struct DmaInfo {
    /// Its ports.
    pub ports: Vec<u32>,
    /// Payload that passes, each way.
    pub rate: Rate,
}

impl Wiring {
    /// The next hops of everyone after a [`Change::Routes`] with this number.
    pub fn routes_after(&self, number: u32) -> &Routes {
        match number.checked_sub(1) {
            None => &self.routes,
            Some(index) => &self.faults.routes[index as usize],
        }
    }

    /// Whether routes change during the run.
    pub fn reroutes(&self) -> bool {
        self.faults.changes.iter().any(|(_, change)| matches!(change, Change::Routes(_)))
    }

    /// Samples that memory allows.
    pub fn samples_max(&self) -> usize {
        let width = self.sampled_ports.len() + self.sampled_qps as usize;
        super::conduct::SAMPLED_VALUES_MAX / width.max(1)
    }
}

/// Shared by shards.
pub(super) type SharedWiring = Arc<Wiring>;
