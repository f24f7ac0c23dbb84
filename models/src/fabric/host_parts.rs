//! The servers of a fabric: executors of collectives, and NICs that PCIe holds back.

use super::spec::Spec;
use super::wiring::{DmaInfo, QpInfo, Role};
use crate::collective::{Executor, Job, LaneInfo, Link, Remote};
use crate::error::BuildError;
use crate::host::nics;
use crate::ids::NodeId;

/// An executor for each host that takes part in a collective; the QPs learn to which of its ends
/// they belong.
pub(super) fn executors(spec: &Spec, jobs: &[Job], qps: &mut [QpInfo]) -> Vec<Option<Executor>> {
    let mut executors: Vec<Option<Executor>> = vec![None; spec.topology.nodes().len()];
    let is_cts = |qp: &QpInfo| matches!(qp.role, Role::Cts { .. });
    let mut data = qps.iter().position(|qp| matches!(qp.role, Role::Data { .. })).unwrap_or(0);
    let mut cts = qps.iter().position(is_cts).unwrap_or(qps.len());
    for (number, job) in (0..).zip(jobs) {
        for rank in &job.ranks {
            let executor = &mut executors[rank.host.index()];
            if let (None, Some(config)) = (&executor, &spec.hosts[rank.host.index()]) {
                *executor = Some(Executor::new(config.clone()));
            }
        }
        let lanes = add_lanes(&mut executors, number, job);
        for joined in &job.connections {
            let lane = |side: usize, rank: u32| lanes[joined.lanes[side] as usize][rank as usize];
            let (from, to) = (lane(0, joined.from), lane(1, joined.to));
            let host = |rank: u32| job.ranks[rank as usize].host.index();
            match &joined.link {
                Link::Local => {
                    if let Some(executor) = &mut executors[host(joined.from)] {
                        executor.join(from, to);
                    }
                }
                Link::Remote { qps: made, striping, ports, gdr, pcie_latency, pxn } => {
                    let width = *ports as usize;
                    let numbers = |first: usize, count: usize| {
                        (first as u32..(first + count) as u32).collect::<Vec<u32>>()
                    };
                    let remote = |side: usize| Remote {
                        striping: *striping,
                        qps: numbers(data, made.len()),
                        cts: numbers(cts, width),
                        gdr: gdr[side],
                        pcie_latency: pcie_latency[side],
                        pxn: *pxn && side == 0,
                    };
                    let mut ends = [0; 2];
                    if let Some(executor) = &mut executors[host(joined.from)] {
                        ends[0] = executor.add_send(from, remote(0));
                    }
                    if let Some(executor) = &mut executors[host(joined.to)] {
                        ends[1] = executor.add_recv(to, remote(1));
                    }
                    for (first, count) in [(data, made.len()), (cts, width)] {
                        for (index, qp) in (0..).zip(&mut qps[first..first + count]) {
                            (qp.ends, qp.index) = (ends, index);
                        }
                    }
                    data += made.len();
                    cts += width;
                }
            }
        }
    }
    executors
}

/// Adds the lanes of a job; returns their numbers by lane and rank.
fn add_lanes(executors: &mut [Option<Executor>], number: u32, job: &Job) -> Vec<Vec<u32>> {
    const NONE: u32 = u32::MAX;
    let mut lanes = vec![vec![0; job.ranks.len()]; job.lanes.len()];
    // by rank and thread block
    let mut blocks = vec![vec![NONE; job.blocks() as usize]; job.ranks.len()];
    for (lane, ranks) in (0..).zip(&job.lanes) {
        for (position, rank) in (0..).zip(ranks) {
            let place = job.ranks[*rank as usize];
            let Some(executor) = &mut executors[place.host.index()] else { continue };
            let block = &mut blocks[*rank as usize][job.block(lane) as usize];
            if *block == NONE {
                *block = executor.add_block();
            }
            let info = LaneInfo {
                job: number,
                rank: *rank,
                gpu: place.gpu,
                program: job.program(lane, position),
                repeats: job.repeats()[0],
                start: job.start,
                slot: job.slots.0,
                slots: job.slots.1,
                block: *block,
            };
            lanes[lane as usize][*rank as usize] = executor.add_lane(info);
        }
    }
    lanes
}

/// The NICs whose PCIe is slower than their ports together.
pub(super) fn dmas(spec: &Spec) -> Result<Vec<DmaInfo>, BuildError> {
    let topology = &spec.topology;
    let mut dmas = Vec::new();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    for host in hosts {
        let Some(config) = spec.hosts[host.index()].as_deref() else { continue };
        let ports: Vec<u32> = topology.ports_of(host).map(|port| port.0).collect();
        for nic in nics(config, ports.len() as u32)? {
            let first = nic.first_port as usize;
            let ports = ports[first..first + nic.ports as usize].to_vec();
            let rate = |port: &u32| topology.ports()[*port as usize].rate.bps();
            if nic.pcie.rate.bps() < ports.iter().map(rate).sum() {
                dmas.push(DmaInfo { ports, rate: nic.pcie.rate });
            }
        }
    }
    Ok(dmas)
}
