//! Training jobs on whole fabrics: what must hold whatever their shape.

mod common;

use std::sync::Arc;

use models::collective::{DataType, NcclConfig};
use models::fabric::Spec;
use models::host::{HostConfig, NicMode, nics};
use models::nic::NicConfig;
use models::placement::{PlacementConfig, PlacementKind, PlacementOrder, RankRef, Ranks};
use models::report::{OutcomeKind, Report, TrainingReport};
use models::switch::SwitchConfig;
use models::topology::{NicLayout, NodeKind, RailConfig, TopologyConfig};
use models::traffic::HostRef;
use models::training::{
    Dimension, JitterConfig, JitterKind, Schedule, StragglerConfig, Training, TrainingConfig,
};
use proptest::prelude::*;
use sim_core::{Bytes, Delta, Rate};

/// A job on hosts of `gpus` GPUs with a NIC each.
#[derive(Clone, Debug)]
struct Case {
    tp: u32,
    pp: u32,
    dp: u32,
    gpus: u32,
    microbatches: u32,
    layers: u32,
    gpipe: bool,
    overlap: bool,
    overlap_p2p: bool,
    zero: u8,
    /// KB
    gradients: u64,
    bucket: u64,
    activations: u64,
    tp_bytes: u64,
    jitter: bool,
    straggler: bool,
    /// Ranks take GPUs of all hosts in turn.
    scattered: bool,
    order: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let shape = (1u32..=3, 1u32..=3, 1u32..=3, 1u32..=3);
    let work = (1u32..=3, 1u32..=2, 0u8..=3, 0usize..6);
    let sizes = (1u64..300, 1u64..100, 1u64..100, 1u64..100);
    (shape, work, sizes, any::<[bool; 6]>(), any::<u64>()).prop_filter_map(
        "a job has two ranks or more",
        |((tp, pp, dp, gpus), (microbatches, layers, zero, order), sizes, flags, seed)| {
            let [gpipe, overlap, overlap_p2p, jitter, straggler, scattered] = flags;
            let (gradients, bucket, activations, tp_bytes) = sizes;
            (tp * pp * dp > 1).then_some(Case {
                tp,
                pp,
                dp,
                gpus,
                microbatches,
                layers,
                gpipe,
                overlap,
                overlap_p2p,
                zero,
                gradients,
                bucket,
                activations,
                tp_bytes,
                jitter,
                straggler,
                scattered,
                order,
                seed,
            })
        },
    )
}

fn config(case: &Case) -> TrainingConfig {
    use Dimension::{Dp, Pp, Tp};
    let kb = |kb: u64| Bytes::new(kb * 1000);
    let orders =
        [[Tp, Dp, Pp], [Tp, Pp, Dp], [Dp, Tp, Pp], [Dp, Pp, Tp], [Pp, Tp, Dp], [Pp, Dp, Tp]];
    let ranks = case.tp * case.pp * case.dp;
    let hosts = ranks.div_ceil(case.gpus);
    let seat = |rank: u32| match case.scattered {
        true => RankRef { host: HostRef::Number(rank % hosts), gpu: None },
        false => RankRef { host: HostRef::Number(rank / case.gpus), gpu: Some(rank % case.gpus) },
    };
    let straggler = StragglerConfig { ranks: vec![0], hosts: None, factor: 1.5, from: 1, to: None };
    TrainingConfig {
        name: "job".to_owned(),
        hosts: None,
        gpus: None,
        ranks: Some(Ranks::List((0..ranks).map(seat).collect())),
        placement: None,
        start: Delta::from_us(3),
        tp: case.tp,
        pp: case.pp,
        dp: Some(case.dp),
        order: orders[case.order].to_vec(),
        steps: 2,
        warmup: 1,
        microbatches: case.microbatches,
        schedule: if case.gpipe { Schedule::Gpipe } else { Schedule::OneForwardOneBackward },
        forward: Delta::from_us(20),
        backward: None,
        layers: case.layers,
        tp_collectives: 2,
        tp_bytes: Some(kb(case.tp_bytes)),
        activations: Some(kb(case.activations)),
        overlap_p2p: case.overlap_p2p,
        gradients: Some(kb(case.gradients)),
        parameters: None,
        algorithm: None,
        dtype: DataType::Float,
        bucket: kb(case.bucket).max(Bytes::new(1024)),
        first_bucket: Bytes::new(1024),
        overlap: case.overlap,
        zero: case.zero,
        optimizer: Delta::from_us(2),
        jitter: case
            .jitter
            .then_some(JitterConfig { kind: JitterKind::Exponential, relative: 0.1 }),
        stragglers: if case.straggler { vec![straggler] } else { vec![] },
    }
}

/// Hosts of `gpus` GPUs with a NIC each, on rails that spines join.
fn spec(hosts: u32, gpus: u32, trainings: Vec<TrainingConfig>, seed: u64) -> Spec {
    let topology = TopologyConfig::Rail(RailConfig {
        hosts,
        rails: gpus,
        hosts_per_group: hosts.is_multiple_of(2).then_some(hosts / 2),
        link: common::link(100, 500),
        spines: 2,
        uplink: None,
        uplinks_per_spine: 1,
    });
    let nic = NicConfig { mtu: 4096, ..NicConfig::default() };
    let mut spec = common::spec(topology, SwitchConfig::default(), nic, &[], seed);
    let mut host = HostConfig { gpus, ..HostConfig::default() };
    (host.nic.ports, host.nic.mode) = (1, NicMode::Rails);
    host.nic.pcie.rate = Rate::from_gbps(400);
    let layouts: Vec<NicLayout> =
        nics(&host, gpus).unwrap().iter().map(|nic| nic.layout()).collect();
    let host = Arc::new(host);
    let kinds = spec.topology.nodes().iter().map(|node| node.kind);
    spec.hosts = kinds.map(|kind| (kind == NodeKind::Host).then(|| host.clone())).collect();
    Arc::make_mut(&mut spec.topology).set_nics(|_| Some(&layouts));
    spec.nccl = NcclConfig { ib_tc: Some(106), ..NcclConfig::default() };
    let numbered = (0..).zip(trainings);
    spec.trainings =
        numbered.map(|(section, config)| Training { config: Arc::new(config), section }).collect();
    spec
}

fn simulate(case: &Case, shards: usize) -> Report {
    let hosts = (case.tp * case.pp * case.dp).div_ceil(case.gpus);
    let mut spec = spec(hosts.max(2), case.gpus, vec![config(case)], case.seed);
    // whatever its shape, it ends
    spec.stop.limit = Some(Delta::from_ms(50));
    common::run(spec, shards).1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// Each job ends, with the same report on any number of shards; and no rank's time is lost.
    #[test]
    fn jobs_end_and_shards_agree(case in case()) {
        let report = simulate(&case, 1);
        for shards in [2, 3] {
            prop_assert_eq!(&simulate(&case, shards), &report, "{} shards", shards);
        }
        prop_assert_eq!(report.outcome, OutcomeKind::Completed);
        let job = &report.trainings[0];
        prop_assert_eq!((job.steps, job.series.len()), (2, 3));
        let compute = 60e-6 * f64::from(case.microbatches) + 2e-6;
        if !case.jitter && !case.straggler {
            prop_assert!((job.compute_s - compute).abs() < 1e-9, "{} {compute}", job.compute_s);
            prop_assert!(job.stragglers.is_empty());
        }
        for step in &job.series {
            let waits = step.tp_wait_s + step.pp_wait_s + step.dp_wait_s;
            prop_assert!((waits - step.exposed_mean_s).abs() < 1e-9);
            // what a rank computes and waits for is all that it does
            prop_assert!(step.compute_mean_s + step.exposed_mean_s <= step.end_s - step.begin_s + 1e-9);
        }
        let (tp, pp, dp) = (job.tp_wait_s, job.pp_wait_s, job.dp_wait_s);
        prop_assert!((tp > 0.0) == (case.tp > 1) && (pp > 0.0) == (case.pp > 1));
        // gradients may be there before what tensor parallelism waits for
        let hidden = case.overlap && case.tp > 1;
        prop_assert!(if dp > 0.0 { case.dp > 1 } else { case.dp == 1 || hidden }, "{dp}");
        // jobs of workloads are no collectives of their own
        prop_assert!(report.collectives.is_empty());
    }
}

/// Two hosts of two GPUs, two copies of a model in two parts.
fn plain() -> Case {
    Case {
        tp: 1,
        pp: 1,
        dp: 2,
        gpus: 2,
        microbatches: 1,
        layers: 1,
        gpipe: false,
        overlap: true,
        overlap_p2p: false,
        zero: 0,
        gradients: 4000,
        bucket: 1000,
        activations: 1,
        tp_bytes: 1,
        jitter: false,
        straggler: false,
        scattered: false,
        order: 0,
        seed: 1,
    }
}

/// The second GPU of two hosts.
fn apart() -> Option<Ranks> {
    let rank = |host| RankRef { host: HostRef::Number(host), gpu: Some(1) };
    Some(Ranks::List(vec![rank(0), rank(1)]))
}

fn job(config: TrainingConfig, hosts: u32) -> TrainingReport {
    let report = common::run(spec(hosts, 2, vec![config], 1), 1).1;
    assert_eq!(report.outcome, OutcomeKind::Completed);
    report.trainings.into_iter().next().unwrap()
}

#[test]
fn overlap_hides_what_fits_behind_the_backward_pass() {
    // 4 MB each way at 12.5 GB/s less headers: 0.33 ms and latencies
    let base = TrainingConfig { ranks: apart(), steps: 1, warmup: 0, ..config(&plain()) };
    let long = TrainingConfig { forward: Delta::from_ms(1), ..base.clone() };
    let after = TrainingConfig { overlap: false, ..long.clone() };
    let all = job(after, 2).dp_wait_s;
    assert!((0.33e-3..0.6e-3).contains(&all), "{all}");
    // 2 ms backward: only the last megabyte, of four and a bit, is exposed
    let last = job(long, 2).dp_wait_s;
    assert!(last > 0.2 * all && last < 0.3 * all, "{last} of {all}");
    // 40 us backward hide no more than these
    let short = job(base, 2);
    let hidden = all - short.dp_wait_s;
    assert!(hidden > 10e-6 && hidden < 40e-6, "{hidden}");
    // each GPU has its own NIC
    assert_eq!((short.communicators[0].nodes, short.communicators[0].count), (2, 1));
}

#[test]
fn groups_of_gpus_use_their_own_rails() {
    // both GPUs of four hosts: a group for each GPU (tp fastest), which stays on its rail
    let case = Case { tp: 2, dp: 4, ..plain() };
    let report = common::run(spec(4, 2, vec![config(&case)], 1), 1).1;
    let job = &report.trainings[0];
    let dp = job.communicators.iter().find(|row| row.class == "dp").unwrap();
    assert_eq!((dp.count, dp.ranks, dp.nodes), (2, 4, 4));
    let tp = job.communicators.iter().find(|row| row.class == "tp").unwrap();
    assert_eq!((tp.count, tp.nodes, tp.qps), (4, 1, 0));
    // 2(n - 1)/n of 4 MB from each NIC in each of three steps, and the headers
    for port in report.ports.iter().filter(|port| port.port.contains("nic")) {
        let share = port.tx_bytes as f64 / (3.0 * 1.5 * 4e6);
        assert!((1.0..1.1).contains(&share), "{}: {share}", port.port);
    }
    assert!(report.flows.iter().all(|flow| flow.training == Some(0) && !flow.is_point()));
}

#[test]
fn sizes_of_a_communicator_share_their_connections() {
    // buckets of 1 KiB, 1 MB and what is left: three sizes, one set of QPs
    let config = config(&Case { gradients: 2500, ..plain() });
    let job = job(TrainingConfig { ranks: apart(), ..config }, 2);
    let dp = &job.communicators[0];
    assert_eq!(dp.sizes, [1024, 1_000_000, 498_976]);
    assert_eq!(dp.operations, 4);
    // two ranks, one QP each way for each channel
    assert_eq!(dp.qps, 2 * dp.channels);
}

#[test]
fn tenants_are_placed_beside_each_other() {
    let place = |hosts| {
        let kind = PlacementKind::Packed;
        Some(PlacementConfig { kind, hosts, order: PlacementOrder::Sorted })
    };
    let tenant =
        |placement| TrainingConfig { ranks: None, placement, dp: None, ..config(&plain()) };
    let trainings = vec![tenant(place(3)), tenant(place(1))];
    let report = common::run(spec(4, 2, trainings, 1), 1).1;
    let hosts = |job: usize| {
        let mut hosts: Vec<String> =
            report.trainings[job].by_rank.iter().map(|rank| rank.host.to_string()).collect();
        hosts.dedup();
        hosts.join(" ")
    };
    assert_eq!((hosts(0), hosts(1)), ("host0 host1 host2".to_owned(), "host3".to_owned()));
    assert_eq!(report.outcome, OutcomeKind::Completed);
}
