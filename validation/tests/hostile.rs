//! Every reader on files that are damaged, or are something else: a message or a partial result, in
//! a time that does not grow with the square of the size, and never a panic.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use models::fabric::{Shards, plan, run};
use models::report::make;
use scenarios::resolve::{LoadOptions, load};
use validation::{
    read_any, read_any_bytes, read_capture, read_fct, read_measured, read_measured_tables,
    read_run, read_tables,
};

const NCCL: &str = "\
# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid   1164 on     node01 device  0 [0x10] NVIDIA A800
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
[0]  1000000000     250000000     float     sum      -1[0]    20000   50.00   50.00      0    25000   40.00   40.00    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 45
";
const NCCL_JSON: &str = r#"{"nccl_version":22903,"args":["all_reduce_perf"],"results":[
{"size":8,"count":2,"type":"float","redop":"sum","root":"-1","out_of_place":{"time":2.5,"alg_bw":1.0,"bus_bw":1.0}}],
"average_bus_bandwidth":{"bandwidth":1.0}}"#;
const PERFTEST: &str = "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n Mtu             : 4096[B]\n #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536      5000       98.00            97.50\t\t     0.185966\n";
const PERFTEST_JSON: &str = r#"{"test_info": {"test": "Send_Latency_Test", "Mtu": 4096},
"results": {"MsgSize": 2, "n_iterations": 1000, "t_min": 1.5, "t_avg": 1.8}}"#;
const ETHTOOL: &str =
    "NIC statistics:\n     rx_packets_phy: 12\n     rx_prio3_pause: 17\n     rx3_packets: 1\n";
const RDMA: &str =
    "link mlx5_0/1 out_of_sequence 17 packet_seq_err 0\nlink mlx5_1/1 np_cnp_sent 3\n";
const RDMA_JSON: &str = r#"[{"ifindex":2,"ifname":"mlx5_0","port":1,"out_of_sequence":17}]"#;
const SONIC: &str = "\
  Port Rx    PFC0    PFC1    PFC2       PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ---------  ------  ------  ------  ------
Ethernet8       0       0       0  1,234,567       0       0       0       0
";
const FCT: &str = "src,dst,sport,dport,size_B,start_ns,fct_ns,standalone_ns\n0,1,10000,100,1000,2000000000,5000,1000\n";
const NATIVE: &str = "0b000001 0b000101 10000 100 1000 2000000000 5000 1000\n";

/// pcap of one frame of 60 bytes.
fn pcap() -> Vec<u8> {
    let header = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1, 0, 0, 60, 60];
    let head = header.iter().flat_map(|word| word.to_le_bytes());
    head.chain([0xff; 12]).chain([0x88, 0x08, 1, 1, 0, 8]).chain([0; 42]).collect()
}

/// A report, and a measurement with the same collective.
fn reports() -> [Vec<u8>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    let scenario = "[topology]\nkind = \"star\"\nhosts = 2\nlink = { rate = \"100Gbps\", delay = \"1us\" }\n\n[host]\ngpus = 1\n\n[[traffic]]\nkind = \"collective\"\nop = \"sendrecv\"\nbytes = \"64KiB\"\n";
    std::fs::write(&file, scenario).unwrap();
    let loaded = load(file.to_str().unwrap(), &LoadOptions::default()).unwrap();
    let plan = plan(loaded.spec, Shards::Exactly(1)).unwrap();
    let outcome = run(&plan, |_| true).unwrap();
    let report = make(&outcome, &plan, "");
    assert_eq!(report.collectives.len(), 1);
    let measurement = serde_json::json!({ "measurement": 1, "collectives": report.collectives });
    [serde_json::to_vec(&report).unwrap(), serde_json::to_vec(&measurement).unwrap()]
}

fn goods() -> Vec<(&'static str, Vec<u8>)> {
    let [report, measurement] = reports();
    let texts = [
        ("nccl-tests", NCCL),
        ("nccl-tests -J", NCCL_JSON),
        ("perftest", PERFTEST),
        ("perftest json", PERFTEST_JSON),
        ("ethtool", ETHTOOL),
        ("rdma", RDMA),
        ("rdma -j", RDMA_JSON),
        ("sonic", SONIC),
        ("fct.csv", FCT),
        ("fct.txt", NATIVE),
    ];
    let texts = texts.into_iter().map(|(name, text)| (name, text.as_bytes().to_vec()));
    let others = [("pcap", pcap()), ("report", report), ("measurement", measurement)];
    texts.chain(others).collect()
}

/// Gives a file to all readers; those of which it is none say so.
fn read_by_all(path: &Path) {
    let _ = read_any(path);
    let _ = read_run(path);
    let _ = read_fct(path);
    let _ = read_tables(path);
    let _ = read_measured(&[path]);
    let _ = read_measured_tables(path);
    let _ = read_capture(path, None);
}

/// With each number in turn replaced.
fn with_numbers(good: &[u8], number: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(good);
    let mut result = String::new();
    let mut digits = false;
    for c in text.chars() {
        let number_goes_on = c.is_ascii_digit() || (digits && c == '.');
        if number_goes_on && !digits {
            result.push_str(number);
        }
        if !number_goes_on {
            result.push(c);
        }
        digits = number_goes_on;
    }
    result.into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What is done to a good file.
fn damaged(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let text = String::from_utf8_lossy(good).into_owned();
    let utf16 = |text: &str| -> Vec<u8> {
        [0xfeffu16].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    let first = text.lines().next().unwrap_or("").to_owned();
    let packed = gzip(good);
    let inserted = |at: usize, what: &[u8]| [&good[..at], what, &good[at..]].concat();
    let mut all = vec![
        ("empty", Vec::new()),
        ("blank", b"\n \n\t\n".to_vec()),
        ("binary", (0..20_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()),
        ("twice", [good, good].concat()),
        ("header twice", format!("{first}\n{text}").into_bytes()),
        ("utf-16", utf16(&text)),
        ("utf-16 cut", utf16(&text)[..good.len() | 1].to_vec()),
        ("utf-8 with its mark", [b"\xef\xbb\xbf", good].concat()),
        ("latin-1", inserted(good.len() / 2, b"\xe4\xf6")),
        ("crlf", text.replace('\n', "\r\n").into_bytes()),
        ("no newlines", text.replace('\n', " ").into_bytes()),
        ("nul bytes", inserted(good.len() / 2, &[0; 64])),
        ("gzip", packed.clone()),
        ("gzip cut", packed[..packed.len() - 9].to_vec()),
        ("gzip of garbage", [&packed[..12], &[0x55; 40]].concat()),
        ("reversed", good.iter().rev().copied().collect()),
    ];
    let numbers = [
        "nan",
        "inf",
        "-1",
        "-0.0",
        "1e999",
        "99999999999999999999999",
        "18446744073709551615",
        "",
    ];
    all.extend(numbers.map(|number| ("numbers", with_numbers(good, number))));
    all
}

#[test]
fn damaged_files_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    for (name, good) in goods() {
        for (damage, bytes) in damaged(&good) {
            std::fs::write(&path, &bytes).unwrap();
            let begun = Instant::now();
            read_by_all(&path);
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(2), "{name}, {damage}: {took:?}");
        }
    }
}

#[test]
fn files_cut_at_every_byte_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    for (name, good) in goods() {
        let step = 1 + good.len() / 3000;
        for end in (0..good.len()).step_by(step) {
            let _ = read_any_bytes(Path::new("input"), good[..end].to_vec());
            if name.starts_with("fct") || name == "report" {
                std::fs::write(&path, &good[..end]).unwrap();
                let _ = (read_fct(&path), read_run(&path));
            }
        }
    }
}

#[test]
fn a_line_of_ten_megabytes_takes_less_than_two_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    const LENGTH: usize = 10 << 20;
    let pieces: [&[u8]; 9] =
        [b"1 ", b"a", b"1.", b"[0]", b"0,", b"N/A", b"link a/1 ", b"8 2 float sum ", b"\""];
    for (name, good) in goods() {
        for piece in pieces {
            // on a line of its own after the file, and as the end of its last line
            for begin in [[&good[..], b"\n"].concat(), good.clone()] {
                let long = piece.iter().copied().cycle().take(LENGTH);
                let bytes: Vec<u8> = begin.iter().copied().chain(long).collect();
                let begun = Instant::now();
                let _ = read_any_bytes(Path::new("input"), bytes.clone());
                if name.starts_with("fct") || name == "report" {
                    std::fs::write(&path, &bytes).unwrap();
                    let _ = (read_fct(&path), read_run(&path));
                }
                let took = begun.elapsed();
                let piece = String::from_utf8_lossy(piece);
                assert!(took < Duration::from_secs(2), "{name}, {piece}: {took:?}");
            }
        }
    }
}

/// Of each kind; more find more.
const MUTANTS: u32 = 2000;

/// Numbers that look random: SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed >> 31) % end.max(1) as u64) as usize
    }
}

/// One small damage somewhere.
fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    const PIECES: [&[u8]; 12] = [
        b"\n",
        b" ",
        b"-1",
        b"99999999999999999999",
        b"1e999",
        b"N/A",
        b"[0]",
        b"\xff",
        b"\0",
        b"\"",
        b"float",
        b"#bytes #iterations",
    ];
    let at = dice.below(bytes.len());
    let end = (at + 1 + dice.below(40)).min(bytes.len());
    match dice.below(5) {
        _ if bytes.is_empty() => bytes.extend_from_slice(PIECES[0]),
        0 => bytes[at] ^= 1 << dice.below(8),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copy = bytes[at..end].to_vec();
            let to = dice.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        3 => drop(bytes.splice(at..at, PIECES[dice.below(PIECES.len())].iter().copied())),
        _ => drop(bytes.splice(at..end, PIECES[dice.below(PIECES.len())].iter().copied())),
    }
}

#[test]
fn small_damages_anywhere_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    let mut dice = Dice(1);
    for (name, good) in goods() {
        for _ in 0..MUTANTS {
            let mut bytes = good.clone();
            (0..1 + dice.below(4)).for_each(|_| mutate(&mut bytes, &mut dice));
            let _ = read_any_bytes(Path::new("input"), bytes.clone());
            if name.starts_with("fct") || name == "report" {
                std::fs::write(&path, &bytes).unwrap();
                let _ = (read_fct(&path), read_run(&path));
            }
        }
    }
}
