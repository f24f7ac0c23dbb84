//! Programs of other tools, run.

use std::fs;
use std::path::Path;

use models::fabric::{Shards, plan, run};
use models::report::{Report, make};
use scenarios::resolve::{LoadOptions, load};

fn report(folder: &Path, traffic: &str, set: &[&str], shards: usize) -> Report {
    let path = folder.join("s.toml");
    let text = format!(
        "[topology]\nkind = \"star\"\nhosts = 4\nlink = {{ rate = \"100Gbps\", delay = \"1us\" }}\n\
         [nic]\npreset = \"connectx-6-dx\"\n[switch]\npreset = \"generic-32mb\"\n\
         [host]\npreset = \"generic\"\ngpus = 2\n[nccl]\nIB_TC = 106\n\
         [[traffic]]\nname = \"it\"\n{traffic}"
    );
    fs::write(&path, text).unwrap();
    let set = set.iter().map(|key| (*key).to_owned()).collect();
    let loaded = load(path.to_str().unwrap(), &LoadOptions { set, ..LoadOptions::default() });
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    let plan = plan(loaded.spec, Shards::Exactly(shards)).unwrap();
    let outcome = run(&plan, |_| true).unwrap();
    assert_eq!(outcome.violations(), Vec::<String>::new());
    make(&outcome, &plan, "")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/program")).unwrap()
    {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

fn msccl(file: &str, bytes: &str) -> String {
    format!(
        "kind = \"program\"\nfile = \"{file}\"\nbytes = \"{bytes}\"\niterations = 2\nwarmup = 1\n"
    )
}

#[test]
fn a_ring_of_msccl_is_as_fast_as_the_ring_of_nccl() {
    let folder = folder();
    for bytes in ["64KiB", "1MiB", "16MiB"] {
        let ring = format!(
            "kind = \"collective\"\nop = \"all_reduce\"\nbytes = \"{bytes}\"\niterations = 2\nwarmup = 1\ngpus = 1\n"
        );
        let one = ["nccl.MAX_NCHANNELS=1", "nccl.MIN_NCHANNELS=1"];
        let built_in = report(folder.path(), &ring, &one, 1);
        let program = report(folder.path(), &(msccl("ring-4.xml", bytes) + "gpus = 1\n"), &[], 1);
        let [a, b] = [&program, &built_in].map(|report| report.collectives[0].clone());
        let ratio = a.time_s.unwrap() / b.time_s.unwrap();
        println!("{bytes}: {ratio} {:?} {:?}", a.busbw_gbytes_per_s, b.busbw_gbytes_per_s);
        assert!((0.98..1.02).contains(&ratio), "{bytes}: {ratio}");
        assert_eq!(a.algorithm, "MSCCL");
    }
}

#[test]
fn programs_run_to_their_end_on_any_number_of_shards() {
    let folder = folder();
    // bytes that leave each host: 2 x 3/4 of the buffer; with two hosts of two GPUs S/2 a GPU
    for (file, place, hosts, share) in [
        ("allpairs-4.xml", "gpus = 1\n", 4.0, 1.5),
        ("hierarchical-2x2.xml", "hosts = [0, 1]\n", 2.0, 1.0),
        ("allgather-4.xml", "gpus = 1\n", 4.0, 0.75),
    ] {
        let traffic = msccl(file, "12MiB") + place;
        let runs = [1, 2, 3].map(|shards| report(folder.path(), &traffic, &[], shards));
        assert!(runs.iter().all(|run| run.fingerprint == runs[0].fingerprint), "{file}");
        println!("{file} {:?} {:?}", runs[0].outcome, runs[0].collectives[0].busbw_gbytes_per_s);
        let sent: u64 = runs[0].flows.iter().map(|flow| flow.delivered_bytes).sum();
        // LL128 has 8 B of flags for 120 B of data; three repetitions
        let wire = if file == "allgather-4.xml" { 128.0 / 120.0 } else { 1.0 };
        let expected = 3.0 * share * f64::from(12 << 20) * hosts * wire;
        assert!((sent as f64 / expected - 1.0).abs() < 1e-3, "{file}: {sent} of {expected}");
    }
}

#[test]
fn a_schedule_takes_the_time_that_is_counted_by_hand() {
    let folder = folder();
    let goal = "kind = \"program\"\nfile = \"relay.goal\"\nhosts = [0, 1, 2]\ngpus = 1\n";
    let runs = [1, 2, 3].map(|shards| report(folder.path(), goal, &[], shards));
    assert!(runs.iter().all(|run| run.fingerprint == runs[0].fingerprint));
    let program = &runs[0].programs[0];
    println!("{program:?}");
    assert_eq!((program.messages, program.bytes), (3, 151_000));
    // a message of B bytes at 100 Gb/s in packets of 4096 B with 82 B around each, through a switch
    // that takes each packet as a whole: all of it, its last packet once more, and two cables of
    // 1 us; the latencies of switch and NIC come on top
    let frame = |payload: f64| (payload + 82.0) * 8.0 / 100e9;
    let message = |bytes: f64| {
        let full = (bytes / 4096.0).floor();
        full * frame(4096.0) + 2.0 * frame(bytes - full * 4096.0) + 2e-6
    };
    let at = |rank: usize| program.rank_time_s[rank].unwrap();
    // rank 2 answers when its calc of 10 us begins
    let got = 5e-6 + message(100_000.0) + 3e-6 + message(50_000.0);
    let close = |found: f64, expected: f64| {
        println!("{found} {expected}");
        assert!(found > expected && found < expected + 6e-6, "{found} s, {expected} s by hand");
    };
    close(at(2), got + 10e-6);
    close(at(0), got + message(1000.0) + 2e-6);
    // rank 1 is done when its message is acknowledged
    assert!(at(1) > got && at(1) < got + 10e-6, "{} s", at(1));
    assert!((program.rank_calc_s[2] - 10e-6).abs() < 1e-12);
}
