//! Scripts of training steps, played where each operation takes a time of its own from the moment
//! that all its ranks are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sim_core::{Bytes, Delta, Rate, Time};

use super::{Dimension, JitterConfig, JitterKind, StragglerConfig};
use super::{Schedule, Shape, Training, TrainingConfig, TrainingPlan, plan};
use crate::collective::{DataType, Rank};
use crate::error::BuildError;
use crate::ids::NodeId;
use crate::script::{Act, Comm, Player, Record, TaskId, Workload};
use crate::topology::{LinkConfig, StarConfig, Topology, TopologyConfig};

fn ms(ms: u64) -> Delta {
    Delta::from_ms(ms)
}

fn mib(mib: u64) -> Option<Bytes> {
    Some(Bytes::new(mib << 20))
}

/// 10 ms forward, 60 ms backward; 60 MiB of gradients in parts of 1, 25, 25 and 9 MiB.
fn config() -> TrainingConfig {
    TrainingConfig {
        name: String::new(),
        hosts: None,
        gpus: None,
        ranks: None,
        placement: None,
        start: Delta::ZERO,
        tp: 1,
        pp: 1,
        dp: None,
        order: vec![Dimension::Tp, Dimension::Dp, Dimension::Pp],
        steps: 1,
        warmup: 0,
        microbatches: 1,
        schedule: Schedule::OneForwardOneBackward,
        forward: ms(10),
        backward: Some(ms(60)),
        layers: 1,
        tp_collectives: 2,
        tp_bytes: mib(1),
        activations: mib(1),
        overlap_p2p: false,
        gradients: mib(60),
        parameters: None,
        algorithm: None,
        dtype: DataType::Float,
        bucket: Bytes::new(25 << 20),
        first_bucket: Bytes::new(1 << 20),
        overlap: true,
        zero: 0,
        optimizer: Delta::ZERO,
        jitter: None,
        stragglers: vec![],
    }
}

fn planned(config: TrainingConfig, ranks: u32) -> Result<(TrainingPlan, Workload), BuildError> {
    let link = LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };
    let star = StarConfig { hosts: ranks, link, ports_per_host: 1 };
    let topology = Topology::build(&TopologyConfig::Star(star)).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let ranks = hosts.into_iter().map(|host| Rank { host, gpu: 0 }).collect();
    plan(&Training { config: Arc::new(config), section: 0 }, ranks, &topology, 7, 0)
}

/// By rank: its steps. `cost` is the time of an operation of so many MiB.
fn play(
    config: TrainingConfig,
    ranks: u32,
    cost: impl Fn(&Comm, u64) -> Delta,
) -> Vec<Vec<Record>> {
    let (_, workload) = planned(config, ranks).unwrap();
    let mut players: Vec<Player> = workload.scripts.iter().cloned().map(Player::new).collect();
    let mut agenda: BTreeSet<(Time, u32, Option<TaskId>)> =
        (0..ranks).map(|rank| (Time::ZERO, rank, None)).collect();
    let mut joined: BTreeMap<u32, Vec<(u32, TaskId)>> = BTreeMap::new();
    while let Some((now, rank, task)) = agenda.pop_first() {
        let mut acts = Vec::new();
        match task {
            Some(task) => players[rank as usize].finished(now, task, &mut acts),
            None => players[rank as usize].due(now, &mut acts),
        }
        for act in acts {
            match act {
                Act::Compute(end) => drop(agenda.insert((end, rank, None))),
                Act::Collective { task, comm, size } => {
                    let there = joined.entry(comm).or_default();
                    there.push((rank, task));
                    let comm = &workload.comms[comm as usize];
                    if there.len() == comm.ranks.len() {
                        let end = now + cost(comm, comm.sizes[size as usize] >> 20);
                        agenda.extend(there.drain(..).map(|(rank, task)| (end, rank, Some(task))));
                    }
                }
                Act::Done => {}
                Act::Send { .. } | Act::Recv { .. } => unreachable!("it has communicators only"),
            }
        }
    }
    assert!(players.iter().all(Player::is_done), "nobody waits for ever");
    players.iter().map(|player| player.records().to_vec()).collect()
}

/// Of the first step of a rank: its time, compute time and waits for tp, pp and dp, in ms.
fn times(records: &[Record]) -> [u64; 5] {
    let Record { begin, end, compute, waits, .. } = records[0];
    let ms = |span: Delta| span.ps() / 1_000_000_000;
    [ms(end.since(begin)), ms(compute), ms(waits[1]), ms(waits[2]), ms(waits[3])]
}

#[test]
fn the_bubble_of_a_pipeline() {
    for schedule in [Schedule::OneForwardOneBackward, Schedule::Gpipe] {
        for (stages, microbatches) in [(4, 8), (3, 1), (2, 5), (4, 2)] {
            let config = TrainingConfig {
                pp: stages,
                microbatches,
                schedule,
                forward: ms(1),
                backward: Some(ms(2)),
                steps: 2,
                ..config()
            };
            let records = play(config, stages, |_, _| Delta::ZERO);
            // (m + p - 1)(f + b), of which p - 1 parts are idle: 3 of 11 for 4 stages and 8
            let (idle, work) = (u64::from(stages - 1) * 3, u64::from(microbatches) * 3);
            // later stages end sooner, and wait for it in the next step
            for rank in &records {
                assert_eq!(
                    times(&rank[1..]),
                    [idle + work, work, 0, idle, 0],
                    "{schedule:?} {stages}"
                );
            }
        }
    }
}

#[test]
fn what_stages_send_is_waited_for() {
    // F 10 | send 3 | F 10, B 60 | send 3 | B 60
    let two = TrainingConfig { pp: 2, ..config() };
    let records = play(two.clone(), 2, |_, _| ms(3));
    assert_eq!(times(&records[0]), [146, 70, 0, 76, 0]);
    // the last stage is done when what it sends has come
    assert_eq!(times(&records[1]), [76 + 10, 70, 0, 16, 0]);
    // two micro-batches: stage 1 computes F0 B0 F1 B1 from 13 on, and sends after B0 and B1; F1 has
    // come meanwhile, or is asked for after B0
    let [blocking, overlapped] = [false, true].map(|overlap_p2p| TrainingConfig {
        overlap_p2p,
        microbatches: 2,
        ..two.clone()
    });
    assert_eq!(times(&play(blocking, 2, |_, _| ms(3))[1])[0], 13 + 2 * 73);
    assert_eq!(times(&play(overlapped, 2, |_, _| ms(3))[1])[0], 13 + 2 * 70 + 3);
}

#[test]
fn gradients_are_reduced_behind_the_backward_pass() {
    let step = |config: TrainingConfig, cost: u64| times(&play(config, 4, |_, _| ms(cost))[2]);
    // ready at 10 + 1, 26, 51 and 60: only the last is exposed
    assert_eq!(step(config(), 2), [72, 70, 0, 0, 2]);
    // 11..31, 36..56, 61..81, 81..101
    assert_eq!(step(config(), 20), [101, 70, 0, 0, 31]);
    // 11 + 4 x 50
    assert_eq!(step(config(), 50), [211, 70, 0, 0, 141]);
    let after = TrainingConfig { overlap: false, ..config() };
    assert_eq!(step(after, 20), [150, 70, 0, 0, 80]);
    // of several micro-batches only the last one's pass has gradients to reduce
    let more = TrainingConfig { microbatches: 3, ..config() };
    assert_eq!(step(more, 20), [210 + 31, 210, 0, 0, 31]);
    // the optimizer waits, and computes
    let slow = TrainingConfig { optimizer: ms(5), ..config() };
    assert_eq!(step(slow, 20), [106, 75, 0, 0, 31]);
}

#[test]
fn shares_of_the_state_are_gathered() {
    let step = |config: TrainingConfig, cost: u64| times(&play(config, 4, |_, _| ms(cost))[2]);
    // four parts more after the optimizer
    let one = TrainingConfig { zero: 1, optimizer: ms(5), ..config() };
    assert_eq!(step(one, 2), [72 + 5 + 8, 75, 0, 0, 2 + 8]);
    // layers of 5 and of 30 ms: the first gather (4) and the last reduction (4) are exposed
    let three = TrainingConfig { zero: 3, layers: 2, ..config() };
    assert_eq!(step(three.clone(), 4), [4 + 70 + 4, 70, 0, 0, 8]);
    // 7 ms: gathers end at 7, 14, 21 and 28, forward layers run 7..12, 14..19, and backward ones
    // 21..51 and 51..81; reductions end at 58 and 88
    assert_eq!(step(three, 7), [88, 70, 0, 0, 18]);
}

#[test]
fn operations_among_tensors_stop_the_pass() {
    let tensor = |comm: &Comm, _| if comm.class == 1 { ms(1) } else { ms(2) };
    // 3 x (forward, backward) x 4 layers x 2
    let two = TrainingConfig { tp: 2, layers: 4, microbatches: 3, ..config() };
    let records = play(TrainingConfig { gradients: None, ..two.clone() }, 2, tensor);
    assert_eq!(times(&records[1]), [210 + 48, 210, 48, 0, 0]);
    // beside data parallelism: the last part is ready when the last operation begins (1), and its
    // reduction takes 2, which are all its own as it ends last
    let records = play(two, 4, tensor);
    assert_eq!(times(&records[1]), [210 + 48 + 1, 210, 47, 0, 2]);
}

#[test]
fn the_slowest_rank_sets_the_pace() {
    let slow = StragglerConfig { ranks: vec![1], hosts: None, factor: 2.0, from: 1, to: Some(2) };
    let config = TrainingConfig { steps: 3, stragglers: vec![slow], ..config() };
    let records = play(config, 4, |_, _| ms(2));
    let compute = |rank: usize| records[rank].iter().map(|r| r.compute.ps() / 1_000_000_000);
    assert_eq!(compute(1).collect::<Vec<_>>(), [70, 140, 70]);
    assert_eq!(compute(2).collect::<Vec<_>>(), [70, 70, 70]);
    // the others wait for its gradients: 140 + 2 - 70
    assert_eq!(records[2][1].waits[3], ms(72));
    assert_eq!(records[1][1].waits[3], ms(2));
}

#[test]
fn jitter_is_each_ranks_own() {
    let jittered = |kind, relative| {
        let jitter = Some(JitterConfig { kind, relative });
        let config = TrainingConfig { steps: 2000, jitter, gradients: None, ..config() };
        let records = play(TrainingConfig { tp: 2, tp_collectives: 0, ..config }, 2, |_, _| ms(0));
        let compute = |rank: usize| {
            let times = records[rank].iter().map(|r| r.compute.as_secs() / 0.07 - 1.0);
            times.collect::<Vec<f64>>()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let [a, b] = [compute(0), compute(1)];
        let products: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
        let squares: Vec<f64> = a.iter().map(|a| a * a).collect();
        (mean(&a), mean(&squares), mean(&products))
    };
    // one sigma of the mean: 0.1 / sqrt(2000) = 0.0022; of the square 0.01 x sqrt(2 / 2000)
    let (mean, square, product) = jittered(JitterKind::Normal, 0.1);
    assert!(mean.abs() < 0.008 && (square - 0.01).abs() < 0.0012 && product.abs() < 0.001);
    // E[x] = 0.1, E[x^2] = 0.02; the product of two independent ones 0.01
    let (mean, square, product) = jittered(JitterKind::Exponential, 0.1);
    assert!((mean - 0.1).abs() < 0.008 && (square - 0.02).abs() < 0.004, "{mean} {square}");
    assert!((product - 0.01).abs() < 0.0015, "{product}");
}

fn shape(config: TrainingConfig, ranks: u32) -> Shape {
    planned(config, ranks).unwrap().0.shape
}

#[test]
fn ranks_count_as_in_megatron() {
    let base = TrainingConfig { tp: 2, pp: 2, ..config() };
    let groups = |config: TrainingConfig, class: u8| {
        let (_, workload) = planned(config, 8).unwrap();
        let mut groups: Vec<Vec<u32>> =
            workload.comms.into_iter().filter(|c| c.class == class).map(|c| c.ranks).collect();
        groups.sort_unstable();
        groups
    };
    // Megatron-LM, core/parallel_state.py: tensor groups [0, 1] .., data groups [0, 2], [1, 3],
    // [4, 6], [5, 7], pipelines [0, 4] ..
    assert_eq!(groups(base.clone(), 1), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(groups(base.clone(), 3), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(
        groups(base.clone(), 2),
        [[0, 4], [1, 5], [2, 6], [3, 7], [4, 0], [5, 1], [6, 2], [7, 3]]
    );
    let other =
        TrainingConfig { order: vec![Dimension::Pp, Dimension::Tp, Dimension::Dp], ..base.clone() };
    assert_eq!(groups(other.clone(), 1), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(groups(other.clone(), 3), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    for config in [base, other] {
        let shape = shape(config, 8);
        assert!((0..8).all(|rank| shape.rank(shape.place(rank)) == rank));
    }
}

#[test]
fn bad_trainings_name_their_key() {
    let key = |config: TrainingConfig| planned(config, 8).unwrap_err().key;
    let base = config;
    assert_eq!(key(TrainingConfig { tp: 3, ..base() }), "traffic[0].tp");
    assert_eq!(key(TrainingConfig { tp: 2, pp: 3, ..base() }), "traffic[0].pp");
    assert_eq!(key(TrainingConfig { tp: 2, dp: Some(2), ..base() }), "traffic[0].dp");
    assert_eq!(key(TrainingConfig { order: vec![Dimension::Tp], ..base() }), "traffic[0].order");
    assert_eq!(key(TrainingConfig { gradients: None, ..base() }), "traffic[0].gradients");
    assert_eq!(
        key(TrainingConfig { pp: 2, activations: None, ..base() }),
        "traffic[0].activations"
    );
    assert_eq!(key(TrainingConfig { tp: 2, tp_bytes: None, ..base() }), "traffic[0].tp_bytes");
    assert_eq!(key(TrainingConfig { zero: 4, ..base() }), "traffic[0].zero");
    assert_eq!(key(TrainingConfig { bucket: Bytes::new(1), ..base() }), "traffic[0].bucket");
    let many = TrainingConfig { microbatches: 65_536, tp: 2, layers: 60, ..base() };
    assert_eq!(key(many), "traffic[0].microbatches");
    let jitter = Some(JitterConfig { kind: JitterKind::Normal, relative: f64::NAN });
    assert_eq!(key(TrainingConfig { jitter, ..base() }), "traffic[0].jitter.relative");
    let slow =
        |straggler: StragglerConfig| key(TrainingConfig { stragglers: vec![straggler], ..base() });
    let known = StragglerConfig { ranks: vec![7], hosts: None, factor: 2.0, from: 3, to: None };
    assert_eq!(
        slow(StragglerConfig { ranks: vec![8], ..known.clone() }),
        "traffic[0].stragglers[0].ranks"
    );
    assert_eq!(
        slow(StragglerConfig { ranks: vec![], ..known.clone() }),
        "traffic[0].stragglers[0]"
    );
    assert_eq!(
        slow(StragglerConfig { to: Some(3), ..known.clone() }),
        "traffic[0].stragglers[0].to"
    );
    assert_eq!(slow(StragglerConfig { factor: 0.0, ..known }), "traffic[0].stragglers[0].factor");
}
