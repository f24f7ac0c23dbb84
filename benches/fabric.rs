//! Whole fabrics: packet-hops per second of CPU (each frame that leaves a port is one).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use models::fabric::{self, Plan};
use scenarios::resolve::{LoadOptions, load};
use scenarios::simulate;

fn plan(name: &str) -> Plan {
    let path = format!("{}/benches/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let loaded = load(&path, &LoadOptions::default()).unwrap();
    simulate::plan(&loaded, 1).unwrap()
}

fn fabrics(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fabric");
    group.sample_size(10);
    for name in ["permutation-128", "incast-32"] {
        let plan = plan(name);
        let run = || fabric::run::<(), _>(&plan, |_| true).unwrap().fabric.packet_hops();
        group.throughput(Throughput::Elements(run()));
        group.bench_function(name, |bencher| bencher.iter(run));
    }
    group.finish();
}

criterion_group!(benches, fabrics);
criterion_main!(benches);
