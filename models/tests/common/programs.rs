//! Servers, and the programs of collectives on sets of contributions.

use std::collections::VecDeque;
use std::sync::Arc;

use models::collective::{Job, Op, Primitive, Program};
use models::fabric::Spec;
use models::host::{HostConfig, nics};
use models::topology::{NicLayout, NodeKind};

/// Makes all hosts such servers, with so many ports.
pub(crate) fn equip(spec: &mut Spec, host: HostConfig, ports: u32) {
    let layout: Vec<NicLayout> =
        nics(&host, ports).unwrap().iter().map(|nic| nic.layout()).collect();
    let host = Arc::new(host);
    let hosts = spec.topology.nodes().iter();
    spec.hosts = hosts.map(|node| (node.kind == NodeKind::Host).then(|| host.clone())).collect();
    Arc::make_mut(&mut spec.topology).set_nics(|_| Some(&layout));
}

/// Runs all programs of a job on sets of contributions instead of numbers, a bit a rank, one for
/// each 16 B: what ranks have in the end. `begin` gives what they have at first.
pub(crate) fn run_programs(job: &Job, begin: impl Fn(usize) -> Vec<u128>) -> Vec<Vec<u128>> {
    let n = job.ranks.len();
    let mut buffers: Vec<Vec<u128>> = (0..n).map(begin).collect();
    let cells = buffers[0].len();
    // an empty chunk may lie at an end that is no multiple of 16
    let range = |offset: u64, bytes: u64| {
        let (from, to) = (offset / 16, (offset + bytes).div_ceil(16));
        let to = if bytes == 0 { from } else { to };
        from as usize..(to as usize).min(cells)
    };
    // by lane and position: connections to those that it sends to, and from those that it takes from
    let mut ends = vec![[vec![Vec::new(); n], vec![Vec::new(); n]]; job.lanes.len()];
    for (number, joined) in job.connections.iter().enumerate() {
        for side in 0..2 {
            let own = &mut ends[joined.lanes[side] as usize][side];
            let list: &mut Vec<usize> = &mut own[joined.positions[side] as usize];
            assert_eq!(list.len(), joined.peers[side] as usize);
            list.push(number);
        }
    }
    struct Running {
        lane: usize,
        position: usize,
        program: Program,
        step: u64,
        sent: bool,
    }
    let mut running = Vec::new();
    for (lane, ranks) in job.lanes.iter().enumerate() {
        for position in 0..ranks.len() {
            let program = job.program(lane as u32, position as u32);
            running.push(Running { lane, position, program, step: 0, sent: false });
        }
    }
    // as many chunks may be under way as a connection has room for
    let room = (job.buffers.slots / job.buffers.slices) as usize;
    let mut mail: Vec<VecDeque<Vec<u128>>> = vec![VecDeque::new(); job.connections.len()];
    loop {
        let mut moved = false;
        for own in &mut running {
            if own.step == own.program.len() {
                continue;
            }
            let rank = job.lanes[own.lane][own.position] as usize;
            let primitive: Primitive = own.program.step(own.step);
            let [to, from] = [0, 1].map(|side| &ends[own.lane][side][own.position]);
            let (to, from) = (&to[primitive.send.numbers()], &from[primitive.recv.numbers()]);
            let full = to.iter().any(|connection| mail[*connection].len() >= room);
            if full && !own.sent {
                continue;
            }
            // in an exchange the other chunk goes out before one comes
            if primitive.other.is_some() && !std::mem::replace(&mut own.sent, true) {
                let part = primitive.sent();
                let chunk = &buffers[rank][range(part.offset, part.bytes)];
                to.iter().for_each(|connection| mail[*connection].push_back(chunk.to_vec()));
                moved = true;
            }
            if from.iter().any(|connection| mail[*connection].is_empty()) {
                continue;
            }
            let place = range(primitive.offset, primitive.bytes);
            let mut value = vec![0; place.len()];
            let mut add = |chunk: &[u128]| {
                assert_eq!(value.len(), chunk.len());
                for (sum, other) in value.iter_mut().zip(chunk) {
                    assert_eq!(*sum & other, 0, "a contribution is added twice");
                    *sum |= other;
                }
            };
            for connection in from {
                add(&mail[*connection].pop_front().unwrap());
            }
            // by the NVSwitch all GPUs of the host take part
            let host = job.ranks[rank].host;
            let all = (0..n).filter(|other| {
                *other == rank || primitive.multicast && job.ranks[*other].host == host
            });
            let all: Vec<usize> = all.collect();
            if primitive.reduce || from.is_empty() {
                let add_own = all.iter().filter(|other| primitive.reduce || **other == rank);
                add_own.for_each(|other| add(&buffers[*other][place.clone()]));
            }
            let writers = if primitive.copy { &all[..] } else { &all[..0] };
            for other in writers.iter().chain(primitive.reduce.then_some(&rank)) {
                buffers[*other][place.clone()].copy_from_slice(&value);
            }
            if primitive.other.is_none() {
                to.iter().for_each(|connection| mail[*connection].push_back(value.clone()));
            }
            (own.step, own.sent, moved) = (own.step + 1, false, true);
        }
        if !moved {
            break;
        }
    }
    assert!(mail.iter().all(VecDeque::is_empty), "what is sent is received");
    assert!(running.iter().all(|own| own.step == own.program.len()), "lanes wait for each other");
    buffers
}

/// Every rank has, where it should, every contribution once.
pub(crate) fn check_result(job: &Job) {
    let n = job.ranks.len();
    let all = (1u128 << n) - 1;
    let op = job.config.op;
    let cells = job.bytes.div_ceil(16) as usize;
    // parts of ranks begin at whole cells, or there is but one
    let part = |cell: usize| cell as u64 * 16 / (job.bytes / op.parts(n as u32)).max(1);
    let begin = |rank: usize| {
        let own = |cell| op != Op::AllGather || part(cell) == rank as u64;
        (0..cells).map(|cell| if own(cell) { 1 << rank } else { 0 }).collect()
    };
    let buffers = run_programs(job, begin);
    let root = job.config.root as usize;
    for (rank, buffer) in buffers.iter().enumerate() {
        for (cell, set) in buffer.iter().enumerate() {
            let wanted = match op {
                Op::AllReduce => all,
                Op::AllGather => 1 << part(cell),
                Op::ReduceScatter if part(cell) == rank as u64 => all,
                Op::Broadcast => 1 << root,
                Op::Reduce if rank == root => all,
                _ => continue,
            };
            assert_eq!(*set, wanted, "{op:?} rank {rank} cell {cell}");
        }
    }
}
