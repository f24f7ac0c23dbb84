//! The programs of all collectives: that they deliver, what they send over each edge, and what is
//! the most that they can reach.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::programs::{check_result, equip};
use models::collective::{
    Allowed, Collective, CollectiveAlgorithm, CollectiveConfig, DataType, Job, Link, MessageSizes,
    NcclConfig, Op, Protocol,
};
use models::fabric::{self, Spec};
use models::host::{Architecture, HostConfig};
use models::nic::NicConfig;
use models::switch::SwitchConfig;
use models::topology::{LinkConfig, RailConfig, TopologyConfig};
use proptest::prelude::*;
use sim_core::{Bytes, Delta, Rate};

/// A collective over hosts with a NIC for each GPU.
#[derive(Clone, Copy, Debug)]
struct Case {
    op: Op,
    algorithm: CollectiveAlgorithm,
    protocol: Protocol,
    hosts: u32,
    gpus: u32,
    channels: Option<u32>,
    bytes: u64,
    root: u32,
    gbps: u64,
    buffsize: u64,
}

impl Case {
    fn new(op: Op, algorithm: CollectiveAlgorithm, hosts: u32, gpus: u32, bytes: u64) -> Self {
        let (protocol, channels, buffsize) = (Protocol::Simple, None, 4 << 20);
        Case { op, algorithm, protocol, hosts, gpus, channels, bytes, root: 0, gbps: 400, buffsize }
    }

    fn ranks(&self) -> u32 {
        self.hosts * self.gpus
    }
}

/// On one switch for each rail, and spines that carry all of it.
fn spec(case: &Case, host: HostConfig) -> Spec {
    let topology = TopologyConfig::Rail(RailConfig {
        hosts: case.hosts,
        rails: case.gpus,
        hosts_per_group: None,
        link: common::link(case.gbps, 500),
        spines: 1,
        uplink: Some(LinkConfig { rate: Rate::from_gbps(case.gbps * 16), ..common::link(1, 500) }),
        uplinks_per_spine: 1,
    });
    let nic = NicConfig { mtu: 4096, ..NicConfig::default() };
    let mut spec = common::spec(topology, SwitchConfig::default(), nic, &[], 1);
    let mut host = HostConfig { gpus: case.gpus, architecture: Architecture::Hopper, ..host };
    // an NVSwitch adds up where there are more than four
    host.nvlink.rate = Rate::from_bps(1_000_000_000_000_000);
    equip(&mut spec, host, case.gpus);
    let only = |protocol: Protocol| -> Allowed<Protocol> { protocol.name().parse().unwrap() };
    spec.nccl = NcclConfig {
        min_nchannels: case.channels,
        max_nchannels: case.channels,
        ib_tc: Some(106),
        proto: Some(only(case.protocol)),
        buffsize: Bytes::new(case.buffsize),
        ..NcclConfig::default()
    };
    let config = CollectiveConfig {
        name: "test".to_owned(),
        op: case.op,
        algorithm: Some(case.algorithm),
        root: case.root,
        bytes: MessageSizes::One(Bytes::new(case.bytes)),
        dtype: DataType::Float,
        hosts: None,
        gpus: None,
        ranks: None,
        placement: None,
        iterations: 1,
        warmup: 0,
        start: Delta::ZERO,
    };
    spec.collectives = vec![Collective {
        config: Arc::new(config),
        bytes: case.bytes,
        section: 0,
        cut: None,
        algorithm: None,
    }];
    spec
}

fn plan(case: &Case) -> Job {
    let plan = fabric::plan(spec(case, HostConfig::default()), fabric::Shards::Exactly(1));
    plan.unwrap_or_else(|error| panic!("{case:?}: {error}")).wiring.jobs[0].clone()
}

/// Data that a job sends: by pair of ranks, and what leaves each host.
fn sent(job: &Job) -> (BTreeMap<(u32, u32), u64>, Vec<u64>) {
    let (mut pairs, mut hosts) = (BTreeMap::new(), BTreeMap::new());
    for joined in &job.connections {
        let program = job.program(joined.lanes[0], joined.positions[0]);
        let bytes = program.sent_to(joined.peers[0]);
        *pairs.entry((joined.from, joined.to)).or_insert(0) += bytes;
        if matches!(joined.link, Link::Remote { .. }) {
            *hosts.entry(job.ranks[joined.from as usize].host).or_insert(0) += bytes;
        }
    }
    (pairs, hosts.into_values().collect())
}

const ALL_REDUCE: [CollectiveAlgorithm; 5] = [
    CollectiveAlgorithm::Ring,
    CollectiveAlgorithm::Tree,
    CollectiveAlgorithm::NvlsTree,
    CollectiveAlgorithm::HierarchicalRing,
    CollectiveAlgorithm::HierarchicalTree,
];
const AROUND: [Op; 4] = [Op::AllGather, Op::ReduceScatter, Op::Broadcast, Op::Reduce];

/// The closed forms of what edges and hosts send, for `n` ranks on `hosts`, where the sizes divide.
fn check_edges(case: &Case, job: &Job) {
    let (pairs, hosts) = sent(job);
    let (n, s) = (u64::from(case.ranks()), job.bytes);
    let nodes = u64::from(case.hosts);
    let least_and_most = |all: &[u64]| (*all.iter().min().unwrap(), *all.iter().max().unwrap());
    let tree = matches!(case.algorithm, CollectiveAlgorithm::Tree | CollectiveAlgorithm::NvlsTree);
    match case.op {
        Op::AllReduce if tree => {
            // 1 S, 1.5 S, 2 S leave the busiest of 2, 3, more hosts; 2 (N - 1) S all together
            let most = [2, 3, 4][nodes.min(4) as usize - 2] * s / 2;
            assert_eq!((least_and_most(&hosts).1, hosts.iter().sum()), (most, 2 * (nodes - 1) * s));
        }
        Op::AllReduce if case.algorithm == CollectiveAlgorithm::HierarchicalTree => {
            assert_eq!(hosts.iter().sum::<u64>(), 2 * (nodes - 1) * s);
        }
        Op::AllReduce if case.algorithm == CollectiveAlgorithm::HierarchicalRing => {
            // each GPU's share of the buffer once around the hosts
            let each = 2 * (nodes - 1) * s / nodes;
            assert_eq!(least_and_most(&hosts), (each, each));
        }
        // around rings: on every edge, and so out of every host, on all channels together
        Op::AllReduce | Op::AllGather | Op::ReduceScatter => {
            let turns = if case.op == Op::AllReduce { 2 } else { 1 };
            let each = turns * (n - 1) * s / n;
            assert_eq!(least_and_most(&hosts), (each, each));
            assert_eq!(pairs.values().sum::<u64>(), each * n);
        }
        Op::Broadcast | Op::Reduce => {
            // over all edges but one of each ring
            assert_eq!(pairs.values().sum::<u64>(), (n - 1) * s);
        }
        Op::AllToAll => {
            assert!(pairs.values().all(|bytes| *bytes == s / n), "{pairs:?}");
            assert_eq!(pairs.len() as u64, n * (n - 1));
        }
        Op::Send => unreachable!("workloads alone have it"),
        Op::Custom => unreachable!("it has no closed form"),
        Op::SendRecv => {
            assert!(
                pairs
                    .iter()
                    .all(|((from, to), bytes)| { (*to, *bytes) == ((from + 1) % case.ranks(), s) })
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_program_delivers_and_sends_what_the_closed_forms_say(
        hosts in 2u32..=9,
        gpus in 1u32..=8,
        choice in 0usize..11,
        channels in 1u32..=4,
        units in 1u64..=40,
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
        root in 0u32..100,
        buffsize in prop::sample::select(vec![128u64 << 10, 1 << 20, 4 << 20]),
        odd in prop::sample::select(vec![0u64, 0, 16, 48, 4096]),
    ) {
        let (op, mut algorithm) = match choice {
            0..5 => (Op::AllReduce, ALL_REDUCE[choice]),
            5..9 => (AROUND[choice - 5], CollectiveAlgorithm::Ring),
            9 => (Op::AllToAll, CollectiveAlgorithm::Auto),
            _ => (Op::SendRecv, CollectiveAlgorithm::Auto),
        };
        let nvls = algorithm == CollectiveAlgorithm::NvlsTree;
        if nvls && gpus <= 4 {
            algorithm = CollectiveAlgorithm::Tree;
        }
        let protocol = if nvls || op.is_p2p() { Protocol::Simple } else { protocol };
        // the channels of trees are those that the search finds, half of them of each tree
        let tree = matches!(algorithm, CollectiveAlgorithm::Tree | CollectiveAlgorithm::NvlsTree);
        let given = (!tree).then_some(channels);
        let channels = match given {
            Some(channels) => channels,
            None => plan(&Case::new(op, algorithm, hosts, gpus, 1 << 30)).channels,
        };
        let n = u64::from(hosts * gpus);
        let least = u64::from(channels) * protocol.least(true, hosts * gpus);
        let unit = 16 * n * u64::from(hosts * gpus * channels);
        let even = least.next_multiple_of(unit) + units * unit;
        let parts = op.parts(hosts * gpus) * 16;
        let bytes = (even + odd * n).next_multiple_of(parts);
        let case = Case {
            protocol,
            channels: given,
            root: root % (hosts * gpus),
            buffsize,
            ..Case::new(op, algorithm, hosts, gpus, bytes)
        };
        let job = plan(&case);
        prop_assert_eq!(job.channels, if op.is_p2p() { job.channels } else { channels });
        if !op.is_p2p() {
            check_result(&job);
        }
        if odd == 0 {
            check_edges(&case, &job);
        }
    }
}

/// busbw over `payload` that leaves and enters each host.
fn share(case: &Case, payload: f64) -> f64 {
    // nothing but the network costs time
    let host = HostConfig {
        channel_rate: Rate::from_bps(1_000_000_000_000_000),
        slice_latency: Delta::from_ns(10),
        proxy_latency: Delta::from_ns(10),
        gdr_flush: Delta::ZERO,
        ..HostConfig::default()
    };
    let (_, report) = common::run(spec(case, host), 1);
    report.collectives[0].busbw_gbytes_per_s.unwrap() / payload
}

#[test]
fn ceilings_are_those_of_the_closed_forms() {
    use CollectiveAlgorithm::{NvlsTree, Ring, Tree};
    // 8 x 10 Gb/s of payload a host: 10 GB/s x 4096 / 4178
    let case = |op, algorithm, hosts, bytes| Case {
        gbps: 10,
        ..Case::new(op, algorithm, hosts, 8, bytes)
    };
    let payload = 10.0 * 4096.0 / 4178.0;
    let mut rows = Vec::new();
    let mut row = |what: &str, case: Case, wanted: f64| {
        let found = share(&case, payload);
        rows.push(format!("{what:>10} {} hosts: {found:.4} of {wanted:.4}", case.hosts));
        assert!((found / wanted - 1.0).abs() < 0.02, "{}", rows.join("\n"));
    };
    let mib = 1 << 20;
    for (hosts, wanted) in [(2, 1.0), (4, 1.0)] {
        row("ring", case(Op::AllReduce, Ring, hosts, 512 * mib), wanted);
    }
    for (hosts, wanted) in [(2, 1.875), (3, 1.278), (4, 0.969), (5, 0.975)] {
        // twice as much, so that filling the tree counts for little
        row("tree", case(Op::AllReduce, Tree, hosts, 1024 * mib), wanted);
    }
    row("NVLSTree", case(Op::AllReduce, NvlsTree, 2, 512 * mib), 1.875);
    for (hosts, wanted) in [(2, 93.75), (4, 64.6), (8, 56.3)] {
        let case = Case {
            gbps: 10,
            ..Case::new(Op::AllToAll, CollectiveAlgorithm::Auto, hosts, 8, 256 * mib)
        };
        // of 50 GB/s a GPU
        row("alltoall", case, wanted / 50.0 / 8.0);
    }
    for op in AROUND {
        row(op.name(), case(op, Ring, 3, if op.has_root() { 1024 } else { 512 } * mib), 1.0);
    }
    println!("{}", rows.join("\n"));
}

#[test]
fn point_to_point_is_bound_by_its_window() {
    // HGX H100 with one, two and four channels to the next rank, 400 Gb/s a GPU
    let with = |channels: u32| {
        let case = Case {
            gbps: 400,
            ..Case::new(Op::SendRecv, CollectiveAlgorithm::Auto, 2, 1, 256 << 20)
        };
        let channel_rate = Rate::from_gbps(320);
        let host = HostConfig { channel_rate, gdr_flush: Delta::ZERO, ..HostConfig::default() };
        let mut spec = spec(&case, host);
        spec.nccl.nchannels_per_net_peer = Some(channels);
        let (_, report) = common::run(spec, 1);
        report.collectives[0].busbw_gbytes_per_s.unwrap()
    };
    let found = [1, 2, 4].map(with);
    println!("{found:.1?} GB/s of 13-15, 24-27, 43-49.5");
    for (found, (least, most)) in found.into_iter().zip([(13.0, 15.0), (24.0, 27.0), (43.0, 49.5)])
    {
        assert!((least..=most).contains(&found), "{found}");
    }
}

#[test]
fn three_hosts_on_isolated_rails_cannot_alternate() {
    let isolated = |hosts: u32, cross_nic: u8| {
        let case = Case::new(Op::AllReduce, CollectiveAlgorithm::Ring, hosts, 2, 1 << 20);
        let topology = TopologyConfig::Rail(RailConfig {
            hosts,
            rails: 2,
            hosts_per_group: None,
            link: common::link(400, 500),
            spines: 0,
            uplink: None,
            uplinks_per_spine: 1,
        });
        let of = spec(&case, HostConfig::default());
        let nic = NicConfig { mtu: 4096, ..NicConfig::default() };
        let mut spec = common::spec(topology, SwitchConfig::default(), nic, &[], 1);
        let host = HostConfig { gpus: 2, architecture: Architecture::Hopper, ..Default::default() };
        equip(&mut spec, host, 2);
        spec.collectives = of.collectives.clone();
        spec.nccl = NcclConfig { cross_nic, ..of.nccl.clone() };
        fabric::plan(spec, fabric::Shards::Exactly(1)).map(|_| ()).map_err(|e| e.to_string())
    };
    let error = isolated(3, 2).unwrap_err();
    assert!(error.contains("CROSS_NIC") && error.contains("odd number of hosts"), "{error}");
    assert_eq!(isolated(3, 0), Ok(()));
    assert_eq!(isolated(4, 2), Ok(()));
}

#[test]
fn every_algorithm_ends() {
    // with real slots, on any pattern: hosts that are no power of two, and one GPU each
    for (hosts, gpus) in [(3, 5), (2, 8), (5, 1)] {
        for algorithm in ALL_REDUCE {
            if algorithm == CollectiveAlgorithm::NvlsTree && gpus < 5 {
                continue;
            }
            for protocol in [Protocol::Simple, Protocol::Ll] {
                let nvls = algorithm == CollectiveAlgorithm::NvlsTree;
                let protocol = if nvls { Protocol::Simple } else { protocol };
                let case =
                    Case { protocol, ..Case::new(Op::AllReduce, algorithm, hosts, gpus, 8 << 20) };
                let busbw = share(&case, 1.0);
                assert!(busbw > 0.0, "{case:?}");
            }
        }
    }
}
