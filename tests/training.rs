//! Training jobs through the program: the answer, the files, stragglers, placements.

mod common;

use common::{json_report, rocesim, text};
use serde_json::Value;

const DDP: &str = "training-dp-ddp";

#[test]
fn a_straggler_is_named_and_its_steps_are_the_longest() {
    let folder = tempfile::tempdir().unwrap();
    let output = rocesim(&["run", DDP, "--out", "run"], folder.path());
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    // rank 19 of four hosts of eight
    let told = "straggler: rank 19 (host2 GPU 3) computes 1.3";
    assert!(printed.contains(told) && printed.contains("in 2 of 5 steps"), "{printed}");
    assert!(printed.contains("its slowest rank is 19 (host2 GPU 3)"), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() < 130), "{printed}");
    let csv = std::fs::read_to_string(folder.path().join("run/training.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 6);
    let times: Vec<f64> = rows.iter().map(|row| row[column("time_s")].parse().unwrap()).collect();
    let slow: Vec<bool> = rows.iter().map(|row| &row[column("slowest_rank")] == "19").collect();
    // 0.3 x 27 ms longer
    for (time, slow) in times.iter().zip(&slow).skip(1) {
        assert_eq!(*time > 0.034, *slow, "{times:?}");
    }
    assert_eq!(slow[4..], [true, true]);
    // a step begins where the one before has ended for its last rank
    let ends: Vec<f64> = rows.iter().map(|row| row[column("end_s")].parse().unwrap()).collect();
    assert!((ends[5] - times.iter().sum::<f64>()).abs() < 1e-9);
    let report: Value = serde_json::from_str(
        &std::fs::read_to_string(folder.path().join("run/report.json")).unwrap(),
    )
    .unwrap();
    let job = &report["trainings"][0];
    assert_eq!(job["by_rank"].as_array().unwrap().len(), 32);
    assert_eq!(job["stragglers"][0]["rank"], 19);
    assert_eq!(report["collectives"].as_array().unwrap().len(), 0);
}

#[test]
fn one_key_changes_a_step_as_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let step = |set: &[&str]| {
        let base = [
            "expect={}",
            "traffic.resnet.steps=1",
            "traffic.resnet.warmup=0",
            "traffic.resnet.jitter.relative=0",
        ];
        let sets: Vec<&str> = base.iter().chain(set).flat_map(|set| ["--set", set]).collect();
        let report = json_report(&[&["--threads", "1", DDP][..], &sets].concat(), folder.path());
        let job = &report["trainings"][0];
        ["step_time_s", "compute_s", "dp_wait_s"].map(|field| job[field].as_f64().unwrap())
    };
    let [time, compute, exposed] = step(&[]);
    assert!((compute - 27.5e-3).abs() < 1e-9 && (time - compute - exposed).abs() < 1e-4);
    // without overlap all of it is exposed: 1.9375 x 102.4 MB at 24.5 GB/s are 8.1 ms
    let [_, _, all] = step(&["traffic.resnet.overlap=false"]);
    assert!((8.0e-3..11e-3).contains(&all), "{all}");
    // the last part is 25 of 102 MB at most
    assert!(exposed < 0.4 * all, "{exposed} of {all}");
    // one part: nothing can be hidden
    let [_, _, whole] = step(&["traffic.resnet.bucket=1GB", "traffic.resnet.first_bucket=1GB"]);
    assert!(whole > 0.85 * all, "{whole}");
    // as much is sent by ReduceScatter and AllGather, the second half after the optimizer
    let [_, _, zero] = step(&["traffic.resnet.zero=1"]);
    assert!(zero > 0.5 * all && zero < 0.8 * all, "{zero} of {all}");
}

#[test]
fn tenants_and_threads_agree() {
    let folder = tempfile::tempdir().unwrap();
    let run = |threads: &str| {
        let set = ["--set", "traffic.a.warmup=0", "--set", "traffic.b.warmup=0"];
        json_report(
            &[&["training-two-tenants", "--threads", threads][..], &set].concat(),
            folder.path(),
        )
    };
    let one = run("1");
    assert_eq!(one, run("3"));
    let hosts = |job: usize| {
        let ranks = one["trainings"][job]["by_rank"].as_array().unwrap();
        let mut hosts: Vec<&str> =
            ranks.iter().map(|rank| rank["host"].as_str().unwrap()).collect();
        hosts.dedup();
        hosts
    };
    let (a, b) = (hosts(0), hosts(1));
    assert_eq!((a.len(), b.len()), (8, 8));
    assert!(a.iter().all(|host| !b.contains(host)), "{a:?} {b:?}");
}

const CLUSTER: &str = r#"
[topology]
kind = "rail"
hosts = 3
rails = 2
spines = 1
link = { rate = "100Gbps", delay = "100ns" }
[host]
gpus = 2
[nccl]
IB_TC = 106
"#;

#[test]
fn a_rank_file_seats_ranks_and_goes_into_the_run_directory() {
    let folder = tempfile::tempdir().unwrap();
    let job = "[[traffic]]\nkind = \"collective\"\nop = \"all_reduce\"\nbytes = \"1MiB\"\n";
    let scenario = format!("{CLUSTER}{job}ranks = \"mine.txt\"\n");
    std::fs::write(folder.path().join("s.toml"), scenario).unwrap();
    std::fs::write(folder.path().join("mine.txt"), "host2:1\nhost0 slots=2 # both\n").unwrap();
    let output = rocesim(&["run", "s.toml", "--out", "first"], folder.path());
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    // host by host, in the order of the file
    let seats: Vec<&str> = printed.lines().filter(|line| line.contains("Rank ")).collect();
    let at = |line: &str, host: &str, device: &str| {
        line.contains(host) && line.contains(&format!("device  {device} "))
    };
    assert_eq!(seats.len(), 3, "{printed}");
    assert!(at(seats[0], "host2", "1") && at(seats[1], "host0", "0") && at(seats[2], "host0", "1"));
    let again = rocesim(&["run", "first/scenario.toml", "--out", "second"], folder.path());
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    let report = |run: &str| -> Value {
        let path = folder.path().join(run).join("report.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    assert_eq!(report("first")["fingerprint"], report("second")["fingerprint"]);
    // a line that names what is not there
    std::fs::write(folder.path().join("mine.txt"), "host2:1\n\nhost0:2\n").unwrap();
    let output = rocesim(&["run", "s.toml"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("mine.txt:3: there is no GPU 2: host0 has 2 GPUs"), "{error}");
}
