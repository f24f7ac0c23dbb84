//! Parts of a fabric by themselves. What an event costs in a whole one is more: caches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use models::congestion::{CongestionConfig, DcqcnConfig, RateControl, RateController, Way, cost};
use models::fabric;
use models::load_balance::{Ecmp, EcmpConfig, EcmpFunction, FiveTuple};
use models::switch::{Mmu, Pool, Profile, Threshold};
use scenarios::resolve::{LoadOptions, load};
use scenarios::simulate;
use sim_core::{Agenda, Delta, Rate, Time};

/// A small generator of its own (xorshift64*): draws take the same time in all that is compared.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Up to 1.05 us: from a frame of 64 B at 400 Gb/s to a link's delay.
    fn delay(&mut self) -> u64 {
        1_280 + self.next() % (1 << 20)
    }
}

/// The hold model: the earliest of n pending events goes, and another comes a random time later.
fn event_queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hold");
    group.throughput(Throughput::Elements(1));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    for pending in [1_000, 10_000, 100_000, 1_000_000u32] {
        let mut draws = Draws(7);
        let mut agenda: Agenda<u32, ()> = Agenda::default();
        for event in 0..pending {
            agenda.at(Time::from_ps(draws.delay()), event);
        }
        group.bench_function(BenchmarkId::new("agenda", pending), |bencher| {
            bencher.iter(|| {
                let event = agenda.pop_before(Time::MAX).expect("as many as ever");
                agenda.at(agenda.now() + Delta::from_ps(draws.delay()), event);
                event
            });
        });
        let mut draws = Draws(7);
        let mut heap: BinaryHeap<Reverse<(u64, u32)>> =
            (0..pending).map(|event| Reverse((draws.delay(), event))).collect();
        group.bench_function(BenchmarkId::new("binary-heap", pending), |bencher| {
            bencher.iter(|| {
                let Reverse((time, event)) = heap.pop().expect("as many as ever");
                heap.push(Reverse((time + draws.delay(), event)));
                event
            });
        });
    }
    group.finish();
}

/// A frame into the buffer of a switch of 32 ports and out again.
fn mmu(criterion: &mut Criterion) {
    let group_profile = Profile {
        pool: 0,
        lossless: true,
        reserve: 4,
        threshold: Threshold::Dynamic(-3),
        headroom: 500,
        xon: 0,
        xon_offset: 10,
    };
    let queue_profile = Profile { pool: 1, threshold: Threshold::Static(1 << 20), ..group_profile };
    let pools = vec![Pool::new(100_000, None), Pool::new(200_000, None)];
    let mut mmu = Mmu::new(pools, vec![group_profile; 256], vec![queue_profile; 256]);
    let mut group = criterion.benchmark_group("mmu");
    group.throughput(Throughput::Elements(1));
    let mut draws = Draws(7);
    group.bench_function("admit-and-release", |bencher| {
        bencher.iter(|| {
            let draw = draws.next();
            // priority 3 of two ports
            let [ingress, egress] =
                [draw >> 32, draw >> 48].map(|port| (port % 32 * 8 + 3) as usize);
            let cells = 17;
            let admitted = mmu.egress_admits(egress, cells);
            let xoff = admitted.and_then(|()| mmu.charge_ingress(ingress, cells));
            mmu.charge_egress(egress, cells);
            mmu.release_egress(egress, cells);
            (xoff, mmu.release_ingress(ingress, cells))
        });
    });
    group.finish();
    assert!(mmu.is_empty());
}

fn ecmp(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ecmp");
    group.throughput(Throughput::Elements(1));
    for (name, function) in [
        ("murmur3", EcmpFunction::Murmur3),
        ("crc32", EcmpFunction::Crc32),
        ("crc16", EcmpFunction::Crc16),
        ("xor", EcmpFunction::Xor),
    ] {
        let ecmp = Ecmp::new(&EcmpConfig { function, ..EcmpConfig::default() }, 7);
        let mut tuple = FiveTuple {
            source: 0x0a00_0001,
            destination: 0x0a00_0201,
            source_port: 49_152,
            destination_port: 4791,
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                tuple.source_port = tuple.source_port.wrapping_add(1);
                ecmp.choose(black_box(&tuple), 8)
            });
        });
    }
    group.finish();
}

/// A CNP and the 16 frames of 4178 B that are sent before the next one.
fn dcqcn(criterion: &mut Criterion) {
    let config = Arc::new(CongestionConfig::Dcqcn(DcqcnConfig::default()));
    let way = Way { line_rate: Rate::from_gbps(100), base_rtt: Delta::ZERO, hops: 0, mtu: 4096 };
    let fresh = || (RateControl::new(&config, &way, 3), Time::ZERO);
    let mut group = criterion.benchmark_group("dcqcn");
    group.throughput(Throughput::Elements(17));
    group.bench_function("cnp-and-16-sends", |bencher| {
        let step = |(mut control, mut now): (RateControl, Time)| {
            control.on_cnp(now, None);
            for _ in 0..16 {
                control.on_send(now, 4178);
                let next = control.ready_at(now, cost(4178));
                control.advance(now, next);
                now = next;
            }
            (control, now)
        };
        // from a rate that has settled
        let mut settled = fresh();
        for _ in 0..100 {
            settled = step(settled);
        }
        bencher.iter_batched(|| settled.clone(), step, BatchSize::SmallInput);
    });
    group.finish();
}

/// Two hosts, one switch, one flow: all that a frame needs, with everything in cache.
fn hop(criterion: &mut Criterion) {
    let text = "[topology]\nkind = \"star\"\nhosts = 2\n\
                link = { rate = \"100Gbps\", delay = \"1us\" }\n\
                [nic.transport]\nack_every = 1\n\
                [[traffic]]\nkind = \"incast\"\nsenders = \"0..1\"\nreceiver = 1\nbytes = \"20MB\"\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hop.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = load(path.to_str().unwrap(), &LoadOptions::default()).unwrap();
    let plan = simulate::plan(&loaded, 1).unwrap();
    let run = || fabric::run(&plan, |_| true).unwrap().fabric.packet_hops();
    let mut group = criterion.benchmark_group("hop");
    // 4883 packets and their ACKs, each over two links
    assert_eq!(run(), 4 * 4883);
    group.throughput(Throughput::Elements(run()));
    group.bench_function("two-hosts-one-switch", |bencher| bencher.iter(run));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = event_queue, mmu, ecmp, dcqcn, hop
}
criterion_main!(benches);
