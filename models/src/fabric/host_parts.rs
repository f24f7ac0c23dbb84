//! The servers of a fabric: executors of collectives, and NICs that PCIe holds back.

use super::jobs::Planned;
use super::spec::Spec;
use super::wiring::{DmaInfo, QpInfo, Role};
use crate::collective::{Executor, Job, LaneInfo, Link, Pattern, Remote, Way};
use crate::error::BuildError;
use crate::host::nics;
use crate::ids::NodeId;

/// An executor for each host that takes part in a collective or a workload; the QPs learn to which
/// of its ends they belong.
pub(super) fn executors(
    spec: &Spec,
    planned: &Planned,
    qps: &mut [QpInfo],
) -> Vec<Option<Executor>> {
    let mut executors: Vec<Option<Executor>> = vec![None; spec.topology.nodes().len()];
    let is_cts = |qp: &QpInfo| matches!(qp.role, Role::Cts { .. });
    let mut data = qps.iter().position(|qp| matches!(qp.role, Role::Data { .. })).unwrap_or(0);
    let mut cts = qps.iter().position(is_cts).unwrap_or(qps.len());
    let ranks = planned.jobs.iter().flat_map(|job| &job.ranks);
    for rank in ranks.chain(planned.workloads.iter().flat_map(|workload| &workload.ranks)) {
        let executor = &mut executors[rank.host.index()];
        if let (None, Some(config)) = (&executor, &spec.hosts[rank.host.index()]) {
            *executor = Some(Executor::new(config.clone()));
        }
    }
    add_scripts(&mut executors, planned);
    for (number, job) in (0..).zip(&planned.jobs) {
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
                Link::Remote { qps: made, striping, ports, gdr, pcie_latency, pxn, sockets } => {
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
                        sockets: *sockets,
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
    add_lines(&mut executors, planned, qps);
    executors
}

/// Adds the scripts of workloads.
fn add_scripts(executors: &mut [Option<Executor>], planned: &Planned) {
    for (number, (workload, calls)) in (0..).zip(planned.workloads.iter().zip(&planned.calls)) {
        let ranks = (0..).zip(workload.ranks.iter().zip(&workload.scripts));
        for (rank, (place, script)) in ranks {
            if let Some(executor) = &mut executors[place.host.index()] {
                executor.add_script(script.clone(), [number, rank], place.gpu, calls.clone());
            }
        }
    }
}

/// Adds the lines of workloads, by the QPs that were made for them, in their order.
fn add_lines(executors: &mut [Option<Executor>], planned: &Planned, qps: &mut [QpInfo]) {
    let mut made = (0..).zip(qps).filter(|(_, qp)| matches!(qp.role, Role::Line { .. }));
    for (number, workload) in (0..).zip(&planned.workloads) {
        for (line, ends) in (0..).zip(&workload.lines) {
            let [from, to] = [ends.from, ends.to];
            let host = |rank: u32| workload.ranks[rank as usize].host;
            let qp = if host(from) == host(to) { None } else { made.next() };
            let Some(executor) = &mut executors[host(to).index()] else { continue };
            let end_in = executor.add_line_in([number, to], line);
            let way = qp.as_ref().map_or(Way::Local(end_in), |(qp, _)| Way::Qp(*qp));
            let Some(executor) = &mut executors[host(from).index()] else { continue };
            let end_out = executor.add_line_out([number, from], line, way);
            if let Some((_, qp)) = qp {
                qp.ends = [end_out, end_in];
            }
        }
    }
}

/// Adds the lanes of a job; returns their numbers by lane and rank.
fn add_lanes(executors: &mut [Option<Executor>], number: u32, job: &Job) -> Vec<Vec<u32>> {
    const NONE: u32 = u32::MAX;
    let mut lanes = vec![vec![0; job.ranks.len()]; job.lanes.len()];
    // by rank and thread block
    let mut blocks = vec![vec![NONE; job.blocks() as usize]; job.ranks.len()];
    for (lane, ranks) in (0..).zip(&job.lanes) {
        for (position, rank) in (0..).zip(ranks.iter()) {
            let place = job.ranks[*rank as usize];
            let Some(executor) = &mut executors[place.host.index()] else { continue };
            let block = &mut blocks[*rank as usize][job.block(lane) as usize];
            if *block == NONE {
                *block = executor.add_block();
            }
            let info = LaneInfo {
                job: number,
                rank: *rank,
                lane,
                gpu: place.gpu,
                program: job.program(lane, position),
                repeats: job.repeats()[0],
                start: job.start,
                slot: job.buffers.slot,
                slots: job.buffers.slots,
                protocol: job.protocol(),
                ranks: job.ranks.len() as u32,
                channels: job.channels,
                groups: job.groups(),
                block: *block,
                sizes: match job.called {
                    Some(_) => job.programs(lane, position),
                    None => Vec::new(),
                },
            };
            lanes[lane as usize][*rank as usize] = executor.add_lane(info);
        }
    }
    if let Pattern::Msccl(algorithm) = &job.pattern {
        for (rank, (place, gpu)) in job.ranks.iter().zip(&algorithm.gpus).enumerate() {
            let Some(executor) = &mut executors[place.host.index()] else { continue };
            let blocks: Vec<u32> = (0..gpu.blocks.len()).map(|lane| lanes[lane][rank]).collect();
            for (lane, block) in blocks.iter().zip(&gpu.blocks) {
                executor.follow(*lane, &blocks, &block.leaders());
            }
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
