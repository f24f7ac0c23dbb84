//! Whole fabrics: packet-hops per second of CPU (each frame that leaves a port is one), and bytes
//! of payload simulated in it.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use models::fabric;
use scenarios::import::{Fabric, HtsimOptions, htsim};
use scenarios::resolve::{LoadOptions, Loaded, load};
use scenarios::simulate::{self, Verdict};
use sim_core::{Delta, Rate};

mod matrices;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A matrix as the importer reads it, with its conventions: as little per frame as can be.
fn imported(matrix: &str, gbps: u64) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let [cm, toml, csv] = ["a.cm", "a.toml", "a.csv"].map(|name| folder.path().join(name));
    std::fs::write(&cm, matrix).unwrap();
    let options = HtsimOptions {
        fabric: Fabric::FatTree,
        link: Rate::from_gbps(gbps),
        delay: Delta::from_us(1),
        mtu: 4096,
    };
    let imported = htsim(&cm, &options, "a.csv").unwrap();
    std::fs::write(&toml, imported.toml).unwrap();
    std::fs::write(csv, &imported.files[0].1).unwrap();
    load(toml.to_str().unwrap(), &LoadOptions::default()).unwrap()
}

/// A scenario beside this file: ECN, DCQCN and the figures of a real NIC.
fn connectx(name: &str) -> Loaded {
    let path = format!("{}/benches/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    load(&path, &LoadOptions::default()).unwrap()
}

/// Runs it once for its counts and its CPU time, then as often as criterion likes.
fn bench(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, loaded: &Loaded) {
    let plan = || simulate::plan(loaded, 1).unwrap();
    let run = simulate::run(loaded, plan(), |_| Verdict::GoOn).unwrap();
    let performance = &run.report.performance;
    let payload: u64 = run.report.flows.iter().map(|flow| flow.delivered_bytes).sum();
    eprintln!(
        "{name}: {} packet-hops, {:.2} million hops/CPU-s, {:.1} MB of payload/CPU-s, {:.0} MB peak",
        performance.packet_hops,
        performance.packet_hops_per_cpu_s / 1e6,
        payload as f64 / 1e6 / performance.cpu_time_s,
        performance.peak_rss_bytes as f64 / 1e6,
    );
    group.throughput(Throughput::Elements(performance.packet_hops));
    let plan = plan();
    group.bench_function(name, |bencher| {
        bencher.iter(|| fabric::run(&plan, |_| true).unwrap().fabric.packet_hops());
    });
}

fn fabrics(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fabric");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(4));
    for matrix in matrices::all() {
        for gbps in [100, 400] {
            let name = format!("{}/{gbps}G", matrix.name);
            bench(&mut group, &name, &imported(&matrix.text, gbps));
        }
    }
    for name in ["permutation-128", "incast-32"] {
        bench(&mut group, &format!("{name}/100G-connectx"), &connectx(name));
    }
    group.finish();
}

criterion_group!(benches, fabrics);
criterion_main!(benches);
