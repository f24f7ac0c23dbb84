//! `rocesim replay` over kernel TCP on this machine; tests/replay.sh has RDMA.

mod common;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{rocesim, text};
use serde_json::Value;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn local(more: &[&str], folder: &Path) -> Output {
    let base = ["replay", "replay-tcp", "--transport", "tcp", "--launch", "local", "--check"];
    rocesim(&[&base[..], more].concat(), folder)
}

fn measurement(folder: &Path) -> Value {
    let file = std::fs::read(folder.join("measurement.json")).unwrap();
    serde_json::from_slice(&file).unwrap()
}

#[test]
fn collectives_are_right_on_two_three_and_four_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = "traffic.allreduce.bytes={ from = \"3000B\", to = \"3000000B\", factor = 1000 }";
    let few = ["--iters", "3", "--warmup", "1", "--set", sizes];
    let run = |ranks: u32, more: &[&str]| {
        let hosts = format!("topology.hosts={ranks}");
        let output = local(&[&few[..], &["--set", &hosts], more].concat(), folder.path());
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{more:?} {printed}{}", text(&output.stderr));
        assert!(printed.contains("# Out of bounds values : 0 OK"), "{printed}");
        measurement(folder.path())
    };
    for ranks in [2, 3, 4] {
        let found = run(ranks, &[]);
        assert_eq!(found["measurement"], 1);
        let of_size = |what: &str| found[what].as_array().unwrap().clone();
        assert_eq!(of_size("collectives").len(), 2);
        assert_eq!(of_size("ranks").len(), ranks as usize);
        for (row, size) in of_size("collectives").iter().zip(of_size("sizes")) {
            let time = row["time_s"].as_f64().unwrap();
            let busbw = row["busbw_gbytes_per_s"].as_f64().unwrap();
            let (bytes, n) = (row["bytes"].as_f64().unwrap(), f64::from(ranks));
            let wanted = bytes / time / 1e9 * 2.0 * (n - 1.0) / n;
            assert!((busbw / wanted - 1.0).abs() < 1e-9);
            assert_eq!(size["wrong"], 0);
            assert_eq!(size["time_by_rank_s"].as_array().unwrap().len(), ranks as usize);
            assert!(size["shortest_s"].as_f64() <= size["longest_s"].as_f64());
            // 2 (n - 1) + 1 steps of a ring's loop, timed one by one
            let lane = &size["steps"][0];
            assert_eq!(lane["steps"], 2 * (ranks - 1) + 1);
            assert_eq!(lane["begin_end_s"].as_array().unwrap().len() as u32, 2 * ranks - 1);
        }
        let samples = &found["ranks"][0]["counters"]["samples"];
        assert_eq!(samples.as_array().unwrap().len(), 3, "before, and after each size");
    }
    // the others once, in other types; messages over two connections, split
    let op = |name: &str| format!("traffic.allreduce.op={name}");
    for name in ["all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv"] {
        run(3, &["--set", &op(name), "--set", "traffic.allreduce.dtype=\"bfloat16\""]);
    }
    let tree = ["--set", "nccl.ALGO=Tree", "--set", "nccl.IB_DISABLE=0", "--qps", "2", "--split"];
    run(4, &tree);
    let halving = ["--set", "traffic.allreduce.algorithm=halving-doubling"];
    run(4, &[&halving[..], &["--set", "traffic.allreduce.dtype=\"int64\""]].concat());
    let ll = ["--set", "nccl.PROTO=LL", "--set", "host.gpus=2"];
    run(4, &ll);
    let printed = text(&rocesim(&["measured", "measurement.json"], folder.path()).stdout);
    assert!(printed.contains("replay of replay-tcp over kernel TCP"), "{printed}");
}

/// Ranks that are started one by one.
fn ranks(world: u32, address: &str, folder: &Path) -> Vec<Child> {
    let start = |rank: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocesim"));
        command.args(["replay", "replay-tcp", "--transport", "tcp", "--iters", "1000000"]);
        command.args(["--set", "traffic.allreduce.bytes=\"1MiB\"", "--timeout", "20s"]);
        command.args(["--set", &format!("topology.hosts={world}"), "--rendezvous", address]);
        command.args(["--rank", &rank.to_string(), "--world", &world.to_string()]);
        command.env("ROCESIM_TOKEN", TOKEN).current_dir(folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    (0..world).map(start).collect()
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn when_a_rank_is_killed_the_others_say_so() {
    for victim in [2, 0] {
        let folder = tempfile::tempdir().unwrap();
        let mut all = ranks(3, &free_address(), folder.path());
        std::thread::sleep(Duration::from_millis(1500));
        let killed = all.remove(victim);
        let begin = Instant::now();
        kill(killed);
        for rank in all {
            let output = rank.wait_with_output().unwrap();
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{message}");
            let named = format!("rank {victim} is gone");
            assert!(message.starts_with("error: rank ") && message.contains(&named), "{message}");
        }
        assert!(begin.elapsed() < Duration::from_secs(20));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], named: &[&str]| {
        let output = rocesim(arguments, folder.path());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {message}");
        named.iter().for_each(|word| assert!(message.contains(word), "{message}"));
    };
    let replay = ["replay", "replay-tcp", "--transport", "tcp"];
    let with = |more: &[&'static str]| [&replay[..], more].concat();
    refused(&with(&[]), &["which rank is this?", "--launch local"]);
    refused(&with(&["--rank", "0", "--world", "3"]), &["the scenario has 2 ranks", "3"]);
    refused(&with(&["--rank", "0"]), &["--rendezvous HOST:PORT"]);
    refused(&with(&["--rank", "0", "--rendezvous", "127.0.0.1:1"]), &["ROCESIM_TOKEN", "openssl"]);
    refused(&with(&["--launch", "local", "--device", "nic9"]), &["no network device nic9", "lo"]);
    let nvls = ["replay", "allreduce-16x8-h100-rail", "--launch", "local", "--set"];
    let tree = "traffic.allreduce.algorithm=nvls-tree";
    refused(&[&nvls[..], &[tree]].concat(), &["NVSwitch", "nccl.ALGO=Ring"]);
    refused(&["replay", "incast", "--launch", "local"], &["0 [[traffic]] of kind"]);
    // over RDMA: without libibverbs, or without devices
    let rdma = ["replay", "replay-ring", "--launch", "local", "--device", "no_such_device"];
    let output = rocesim(&rdma, folder.path());
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    let why = ["libibverbs is not here", "no RDMA device", "ib_uverbs"];
    assert!(why.iter().any(|why| message.contains(why)), "{message}");
    let hosts = ["--launch", "ssh", "--hosts", "a,b", "--device", "eth0"];
    let lines = text(&rocesim(&with(&hosts), folder.path()).stdout);
    assert!(lines.contains("--rank 1 --world 2 --device eth0"), "{lines}");
    assert!(lines.contains("ssh b") && lines.contains("--rendezvous a:18515"), "{lines}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
}
