//! Collectives: what every ring, every exchange and every AllToAll must do, whatever its size.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::programs::{check_result, equip};
use models::collective::{
    Collective, CollectiveAlgorithm, CollectiveConfig, DataType, Job, MessageSizes, NcclConfig, Op,
};
use models::fabric::{self, Outcome, Plan, Role, Spec};
use models::host::{HostConfig, NicMode};
use models::nic::NicConfig;
use models::report::{FlowStatus, Report};
use models::switch::SwitchConfig;
use models::topology::{RailConfig, TopologyConfig};
use proptest::prelude::*;
use sim_core::{Bytes, Delta, Rate};

/// An AllReduce over hosts with one NIC.
#[derive(Clone, Debug)]
struct Case {
    hosts: u32,
    gpus: u32,
    ports: u32,
    mode: NicMode,
    channels: u32,
    qps: u32,
    split: u8,
    bytes: u64,
    iterations: u32,
    /// Rate of PCIe: below 100 or 200 it holds the ports back.
    pcie_gbps: u64,
    /// NCCL_IB_TIMEOUT: at 7 (0.5 ms) some packets are sent again.
    timeout: u32,
}

fn nccl(case: &Case) -> NcclConfig {
    NcclConfig {
        min_nchannels: Some(case.channels),
        max_nchannels: Some(case.channels),
        ib_qps_per_connection: case.qps,
        ib_split_data_on_qps: case.split,
        ib_tc: Some(106),
        ib_timeout: case.timeout,
        ..NcclConfig::default()
    }
}

fn spec(case: &Case, host: HostConfig) -> Spec {
    let topology = TopologyConfig::Rail(RailConfig {
        hosts: case.hosts,
        rails: case.ports,
        hosts_per_group: None,
        link: common::link(100, 500),
        spines: 0,
        uplink: None,
        uplinks_per_spine: 1,
    });
    let nic = NicConfig { mtu: 4096, ..NicConfig::default() };
    let mut spec = common::spec(topology, SwitchConfig::default(), nic, &[], 1);
    let config = CollectiveConfig {
        name: "allreduce".to_owned(),
        op: Op::AllReduce,
        algorithm: None,
        root: 0,
        bytes: MessageSizes::One(Bytes::new(case.bytes)),
        dtype: DataType::Float,
        hosts: None,
        gpus: None,
        ranks: None,
        placement: None,
        iterations: case.iterations,
        warmup: 0,
        start: Delta::ZERO,
    };
    let mut host = HostConfig { gpus: case.gpus, ..host };
    (host.nic.ports, host.nic.mode) = (case.ports, case.mode);
    host.nic.pcie.rate = Rate::from_gbps(case.pcie_gbps);
    equip(&mut spec, host, case.ports);
    spec.nccl = nccl(case);
    spec.collectives = vec![Collective {
        config: Arc::new(config),
        bytes: case.bytes,
        section: 0,
        cut: None,
        algorithm: None,
    }];
    spec
}

/// The same hosts with another collective.
fn other(case: &Case, host: HostConfig, op: Op) -> (Plan, Outcome, Report) {
    let spec = || {
        let mut spec = spec(case, host.clone());
        let algorithm = (op == Op::AllReduce).then_some(CollectiveAlgorithm::HalvingDoubling);
        let config = CollectiveConfig::clone(&spec.collectives[0].config);
        spec.collectives[0].config = Arc::new(CollectiveConfig { op, algorithm, ..config });
        spec
    };
    let plan = fabric::plan(spec(), fabric::Shards::Exactly(1)).unwrap();
    let (outcome, report) = common::run(spec(), 1);
    (plan, outcome, report)
}

fn run(case: &Case, host: HostConfig) -> (Plan, Outcome, Report) {
    let plan = fabric::plan(spec(case, host.clone()), fabric::Shards::Exactly(1)).unwrap();
    let (outcome, report) = common::run(spec(case, host), 1);
    (plan, outcome, report)
}

/// Payload over each connection between hosts.
fn edges(plan: &Plan, outcome: &Outcome) -> Vec<u64> {
    let mut edges = BTreeMap::new();
    for (flow, qp) in plan.wiring.qps.iter().enumerate() {
        if let Role::Data { connection, .. } = qp.role {
            let joined = &plan.wiring.jobs[0].connections[connection as usize];
            *edges.entry((joined.from, joined.to, joined.channel)).or_insert(0) +=
                outcome.delivered_bytes(flow);
        }
    }
    edges.into_values().collect()
}

prop_compose! {
    fn cases()(
        hosts in 2u32..=9,
        gpus in 1u32..=8,
        ports in 1u32..=2,
        merged in any::<bool>(),
        channels in 1u32..=4,
        qps in 1u32..=4,
        split in 0u8..=1,
        share in 1u64..=80,
        odd in 0u64..=300,
        iterations in 1u32..=2,
        pcie_gbps in prop::sample::select(vec![1000, 150, 90, 30]),
        timeout in prop::sample::select(vec![20, 20, 7]),
    ) -> (Case, bool) {
        let unit = u64::from(hosts * gpus * channels) * 16;
        // enough for all channels (32 KiB each); of one case in two the size is even for all chunks
        let even = odd < 150;
        let bytes = (u64::from(channels) * 32768).next_multiple_of(unit) + share * unit;
        let bytes = if even { bytes } else { bytes + odd * 4 };
        let mode = if merged { NicMode::Merged } else { NicMode::Rails };
        let case = Case {
            hosts,
            gpus,
            ports,
            mode,
            channels,
            qps,
            split,
            bytes,
            iterations,
            pcie_gbps,
            timeout,
        };
        (case, even)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_edge_carries_its_share_and_every_contribution_counts_once((case, even) in cases()) {
        let (plan, outcome, report) = run(&case, HostConfig::default());
        let job = &plan.wiring.jobs[0];
        prop_assert_eq!(job.channels, case.channels);
        check_result(job);
        prop_assert_eq!(report.collectives[0].status, FlowStatus::Completed);
        let n = u64::from(case.hosts * case.gpus);
        let (bytes, repeats) = (job.bytes, u64::from(case.iterations));
        let edges = edges(&plan, &outcome);
        prop_assert_eq!(edges.len() as u32, case.hosts * case.channels);
        if even {
            // 2(n - 1)/n S over all channels of an edge
            for edge in edges {
                prop_assert_eq!(edge * n * u64::from(case.channels), 2 * (n - 1) * bytes * repeats);
            }
        } else if case.gpus == 1 {
            // chunks differ, but on all edges together each is sent 2(n - 1) times
            prop_assert_eq!(edges.iter().sum::<u64>(), 2 * (n - 1) * bytes * repeats);
        }
    }
}

#[test]
fn a_long_ring_reaches_the_payload_that_its_nics_carry() {
    let case = Case {
        hosts: 4,
        gpus: 8,
        ports: 2,
        mode: NicMode::Merged,
        channels: 2,
        qps: 1,
        split: 0,
        bytes: 1 << 30,
        iterations: 1,
        pcie_gbps: 1000,
        timeout: 20,
    };
    let mut host = HostConfig::default();
    host.nvlink.rate = Rate::from_bps(1_000_000_000_000_000);
    let (.., report) = run(&case, host);
    let busbw = report.collectives[0].busbw_gbytes_per_s.unwrap();
    // 2 x 100 Gb/s x 4096 / 4178 = 24.51 GB/s
    let ceiling = 25.0 * 4096.0 / 4178.0;
    println!("busbw {busbw:.3} GB/s of {ceiling:.3}");
    assert!(busbw > 0.97 * ceiling && busbw < ceiling, "{busbw}");
}

#[test]
fn repetitions_are_timed_without_the_warm_up() {
    let case = Case {
        hosts: 2,
        gpus: 2,
        ports: 1,
        mode: NicMode::Rails,
        channels: 2,
        qps: 1,
        split: 0,
        bytes: 8 << 20,
        iterations: 3,
        pcie_gbps: 1000,
        timeout: 20,
    };
    let time = |warmup| {
        let mut spec = spec(&case, HostConfig::default());
        let mut config = CollectiveConfig::clone(&spec.collectives[0].config);
        config.warmup = warmup;
        spec.collectives[0].config = Arc::new(config);
        let (_, report) = common::run(spec, 2);
        report.collectives[0].time_s.unwrap()
    };
    let (cold, warm) = (time(0), time(2));
    assert!((cold - warm).abs() < 0.02 * cold, "{cold} {warm}");
}

#[test]
fn a_port_behind_slow_pcie_sends_at_its_rate_and_ports_take_turns() {
    let case = Case {
        hosts: 2,
        gpus: 2,
        ports: 2,
        mode: NicMode::Rails,
        channels: 2,
        qps: 1,
        split: 0,
        bytes: 64 << 20,
        iterations: 1,
        pcie_gbps: 50,
        timeout: 20,
    };
    let (plan, outcome, report) = run(&case, HostConfig::default());
    let busbw = report.collectives[0].busbw_gbytes_per_s.unwrap();
    // 50 Gb/s of payload: 6.25 GB/s, for both rails together
    assert!((5.9..=6.25).contains(&busbw), "{busbw}");
    let edges = edges(&plan, &outcome);
    assert_eq!(edges.iter().min(), edges.iter().max());
}

/// Bytes that the programs of a job send, by pair of ranks.
fn by_pair(job: &Job) -> BTreeMap<(u32, u32), u64> {
    let mut pairs = BTreeMap::new();
    for joined in &job.connections {
        let program = job.program(joined.lanes[0], joined.positions[0]);
        let sent = program.sent_to(joined.peers[0]);
        *pairs.entry((joined.from, joined.to)).or_insert(0) += sent;
    }
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// That each connection carried what its programs send is checked in `run`.
    #[test]
    fn every_exchange_halves_and_doubles((case, _) in cases(), hosts in 0u32..=3, gpus in 0u32..=3) {
        let (hosts, gpus) = (1 << hosts.max(u32::from(gpus == 0)), 1 << gpus);
        let n = u64::from(hosts * gpus);
        // halves come out even
        let bytes = case.bytes.next_multiple_of(16 * n * u64::from(case.channels));
        let case = Case { hosts, gpus, bytes, ..case };
        let (plan, outcome, report) = other(&case, HostConfig::default(), Op::AllReduce);
        let job = &plan.wiring.jobs[0];
        prop_assert_eq!(report.collectives[0].status, FlowStatus::Completed);
        prop_assert_eq!(&report.collectives[0].algorithm, "HalvingDoubling");
        check_result(job);
        let mut sent = vec![0; n as usize];
        let mut remote = 0;
        for ((from, to), bytes) in by_pair(job) {
            sent[from as usize] += bytes;
            let host = |rank: u32| job.ranks[rank as usize].host;
            remote += if host(from) == host(to) { 0 } else { bytes };
        }
        // each rank sends 2 (n - 1) / n S
        let repeats = u64::from(case.iterations);
        prop_assert!(sent.iter().all(|sent| sent * n == 2 * (n - 1) * job.bytes), "{:?}", sent);
        prop_assert_eq!(edges(&plan, &outcome).iter().sum::<u64>(), remote * repeats);
    }

    #[test]
    fn every_pair_exchanges_its_part((case, _) in cases()) {
        let (plan, outcome, report) = other(&case, HostConfig::default(), Op::AllToAll);
        let job = &plan.wiring.jobs[0];
        prop_assert_eq!(report.collectives[0].status, FlowStatus::Completed);
        let n = u64::from(case.hosts * case.gpus);
        let pairs = by_pair(job);
        prop_assert_eq!(pairs.len() as u64, n * (n - 1));
        // a whole number of elements for each rank
        let part = case.bytes / n / 4 * 4;
        prop_assert_eq!((job.bytes, job.count), (part * n, part / 4));
        prop_assert!(pairs.values().all(|bytes| *bytes == part));
        // (n - g) / n S leave each rank of a host of g
        let remote = n * (n - u64::from(case.gpus)) * part * u64::from(case.iterations);
        prop_assert_eq!(edges(&plan, &outcome).iter().sum::<u64>(), remote);
    }
}

/// Eight hosts of one GPU with one port of 100 Gb/s on one switch.
fn eight(bytes: u64) -> Case {
    Case {
        hosts: 8,
        gpus: 1,
        ports: 1,
        mode: NicMode::Rails,
        channels: 4,
        qps: 1,
        split: 0,
        bytes,
        iterations: 1,
        pcie_gbps: 1000,
        timeout: 20,
    }
}

#[test]
fn exchanges_take_the_time_of_what_they_send() {
    // 2 x 7/8 x 256 MiB = 469.8 MB at 12.5 GB/s x 4096 / 4178 = 12.255 GB/s: 38.33 ms; each of six
    // rounds also fills and empties its pipeline, with some 0.1 ms
    let (.., report) = other(&eight(256 << 20), HostConfig::default(), Op::AllReduce);
    let time = report.collectives[0].time_s.unwrap() * 1e3;
    println!("halving and doubling: {time:.3} ms");
    assert!((38.33..38.33 * 1.04).contains(&time), "{time}");
    // 7/8 x 64 MiB = 58.72 MB: 4.791 ms
    let (.., report) = other(&eight(64 << 20), HostConfig::default(), Op::AllToAll);
    let time = report.collectives[0].time_s.unwrap() * 1e3;
    println!("AllToAll: {time:.3} ms");
    assert!((4.791..4.791 * 1.05).contains(&time), "{time}");
    let busbw = report.collectives[0].busbw_gbytes_per_s.unwrap();
    assert!((busbw - 58.72 / time).abs() < 0.01, "{busbw}");
}

#[test]
fn small_exchanges_take_fewer_steps_than_a_ring() {
    // 8 ranks: 6 rounds against 14 steps; but a round sends and receives one after the other
    let (.., ring) = run(&eight(128 << 10), HostConfig::default());
    let (.., halving) = other(&eight(128 << 10), HostConfig::default(), Op::AllReduce);
    let [ring, halving] = [&ring, &halving].map(|report| report.collectives[0].time_s.unwrap());
    println!("ring {ring} s, halving and doubling {halving} s");
    assert!(halving < 0.7 * ring && halving > 6.0 / 14.0 * ring);
}

#[test]
fn a_rank_sends_by_the_rail_of_its_peer() {
    // two hosts of two GPUs with a NIC each, on rails without spines: GPU 0 reaches GPU 1 of the
    // other host by way of its neighbour
    let case = Case { hosts: 2, gpus: 2, ports: 2, ..eight(1 << 20) };
    let with = |pxn_disable| {
        let mut spec = spec(&case, HostConfig::default());
        let mut host = HostConfig { gpus: 2, ..HostConfig::default() };
        host.nic.ports = 1;
        equip(&mut spec, host, 2);
        spec.nccl.pxn_disable = pxn_disable;
        let config = CollectiveConfig::clone(&spec.collectives[0].config);
        spec.collectives[0].config = Arc::new(CollectiveConfig { op: Op::AllToAll, ..config });
        spec
    };
    let (_, report) = common::run(with(0), 1);
    // of the three quarters that a rank sends two go over NVLink, one to the neighbour and one by
    // way of it: 4 ranks x 2 x 256 KiB
    assert_eq!(report.collectives[0].nvlink_bytes, 4 * 2 * (256 << 10));
    let error = fabric::plan(with(1), fabric::Shards::Exactly(1)).unwrap_err().to_string();
    assert!(error.contains("PXN_DISABLE"), "{error}");
}

#[test]
fn odd_numbers_of_ranks_are_refused() {
    let mut spec = spec(&Case { hosts: 3, ..eight(1 << 20) }, HostConfig::default());
    let config = CollectiveConfig::clone(&spec.collectives[0].config);
    let algorithm = Some(CollectiveAlgorithm::HalvingDoubling);
    spec.collectives[0].config = Arc::new(CollectiveConfig { algorithm, ..config });
    let error = fabric::plan(spec, fabric::Shards::Exactly(1)).unwrap_err().to_string();
    assert!(error.starts_with("traffic[0].algorithm: halving-doubling needs a power"), "{error}");
    assert!(error.contains("there are 3: 2 or 4 are expected"), "{error}");
}
