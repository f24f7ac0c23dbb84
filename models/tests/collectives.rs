//! Collectives: what every ring must do, whatever its size.

mod common;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use models::collective::{
    Collective, CollectiveConfig, DataType, Job, MessageSizes, NcclConfig, Op, Program,
};
use models::fabric::{self, Outcome, Plan, Role, Spec};
use models::host::{HostConfig, NicMode, nics};
use models::nic::NicConfig;
use models::report::{FlowStatus, Report};
use models::switch::SwitchConfig;
use models::topology::{NicLayout, NodeKind, RailConfig, TopologyConfig};
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
        bytes: MessageSizes::One(Bytes::new(case.bytes)),
        dtype: DataType::Float,
        hosts: None,
        gpus: None,
        iterations: case.iterations,
        warmup: 0,
        start: Delta::ZERO,
    };
    let mut host = HostConfig { gpus: case.gpus, ..host };
    (host.nic.ports, host.nic.mode) = (case.ports, case.mode);
    host.nic.pcie.rate = Rate::from_gbps(case.pcie_gbps);
    let layout: Vec<NicLayout> =
        nics(&host, case.ports).unwrap().iter().map(|nic| nic.layout()).collect();
    let host = Arc::new(host);
    let hosts = spec.topology.nodes().iter();
    spec.hosts = hosts.map(|node| (node.kind == NodeKind::Host).then(|| host.clone())).collect();
    Arc::make_mut(&mut spec.topology).set_nics(|_| Some(&layout));
    spec.nccl = nccl(case);
    spec.collectives =
        vec![Collective { config: Arc::new(config), bytes: case.bytes, section: 0, cut: None }];
    spec
}

fn run(case: &Case, host: HostConfig) -> (Plan, Outcome, Report) {
    let plan = fabric::plan(spec(case, host.clone()), fabric::Shards::Exactly(1)).unwrap();
    let (outcome, report) = common::run(spec(case, host), 1);
    (plan, outcome, report)
}

/// A part of a buffer, and whose contributions it holds, a bit a rank.
type Piece = (u64, u64, u128);

/// Runs the programs of one channel on sets of contributions instead of numbers.
fn reduce(job: &Job, channel: u32) -> Vec<BTreeMap<u64, Piece>> {
    let n = job.ranks.len();
    let ring = &job.rings[channel as usize];
    let programs: Vec<Program> =
        (0..n as u32).map(|position| job.program(channel, position)).collect();
    let mut mail: Vec<VecDeque<Piece>> = vec![VecDeque::new(); n];
    let mut outputs = vec![BTreeMap::new(); n];
    let mut steps = vec![0; n];
    loop {
        let mut moved = false;
        for position in 0..n {
            let (program, before) = (&programs[position], (position + n - 1) % n);
            if steps[position] == program.len() {
                continue;
            }
            let primitive = program.step(steps[position]);
            let mut set = 0;
            if primitive.recv {
                let Some((offset, bytes, from)) = mail[before].pop_front() else { continue };
                assert_eq!((offset, bytes), (primitive.offset, primitive.bytes));
                set = from;
            }
            moved = true;
            if primitive.reduce {
                let own = 1 << ring[position];
                assert_eq!(set & own, 0, "a contribution is added twice");
                set |= own;
            }
            let piece = (primitive.offset, primitive.bytes, set);
            if primitive.copy && primitive.bytes > 0 {
                assert_eq!(outputs[position].insert(primitive.offset, piece), None);
            }
            if primitive.send {
                mail[position].push_back(piece);
            }
            steps[position] += 1;
        }
        if !moved {
            break;
        }
    }
    assert!(mail.iter().all(VecDeque::is_empty), "what is sent is received");
    assert!(steps.iter().zip(&programs).all(|(step, program)| *step == program.len()));
    outputs
}

/// Every rank's output is whole, and holds every contribution once.
fn check_result(job: &Job) {
    let all = (1u128 << job.ranks.len()) - 1;
    let mut parts = vec![BTreeMap::new(); job.ranks.len()];
    for channel in 0..job.channels {
        for (position, output) in reduce(job, channel).into_iter().enumerate() {
            let rank = job.rings[channel as usize][position] as usize;
            parts[rank].extend(output);
        }
    }
    for pieces in parts {
        let mut end = 0;
        for (offset, bytes, set) in pieces.into_values() {
            assert_eq!((offset, set), (end, all));
            end = offset + bytes;
        }
        assert_eq!(end, job.bytes);
    }
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
