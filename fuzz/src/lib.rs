//! Each reader, asked to read bytes that come from anywhere. It must answer or complain; the fuzzer
//! looks for the rest: panics, overflows, memory, time.
//!
//! `fuzz_targets/` has a target for each; `tests/hostile.rs` of the workspace runs the same functions
//! over `seeds/` with a stable compiler.

use std::io::Write;
use std::path::{Path, PathBuf};

use scenarios::import::{
    Fabric, HtsimOptions, SonicOptions, TopoOptions, htsim, nccl_topo, nic, ns3, program, sonic,
};
use scenarios::resolve::{self, LoadOptions};
use scenarios::{simulate, study};
use sim_core::{Delta, Rate};
use tempfile::{NamedTempFile, TempDir};
use validation::{read_any_bytes, read_fct, read_run, read_tables};

/// A reader.
pub type Reader = fn(&[u8]);

/// All of them, by name.
pub const READERS: [(&str, Reader); 20] = [
    ("ethtool", ethtool),
    ("fct", fct),
    ("goal", goal),
    ("htsim_matrix", htsim_matrix),
    ("measurement", measurement),
    ("msccl", msccl),
    ("nccl_tests", nccl_tests),
    ("nccl_topo_xml", nccl_topo_xml),
    ("nic_dump", nic_dump),
    ("ns3_folder", ns3_folder),
    ("pcap", pcap),
    ("perftest", perftest),
    ("rdma", rdma),
    ("report", report),
    ("scenario", scenario),
    ("sonic_config", sonic_config),
    ("sonic_counters", sonic_counters),
    ("sonic_ports", sonic_ports),
    ("study_file", study_file),
    ("topo_m", topo_m),
];

/// A file with this text; its name ends so.
fn file(text: &[u8], ending: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
    file.write_all(text).unwrap();
    file
}

/// Texts of several files in one: between them is a line `=====`.
fn parts(bytes: &[u8]) -> Vec<&[u8]> {
    const BETWEEN: &[u8] = b"\n=====\n";
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        parts.push(&rest[..=at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    parts.push(rest);
    parts
}

fn folder(bytes: &[u8], names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in names.iter().zip(parts(bytes)) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What a message must have, whoever wrote it.
fn complains(message: &str) {
    assert!(!message.trim().is_empty());
    assert!(!message.contains('\0'), "{message:?}");
}

/// A scenario, and, behind `=====`, a line for each `--set`; what loads is planned too.
pub fn scenario(bytes: &[u8]) {
    let parts = parts(bytes);
    let path = file(parts[0], ".toml");
    let set = parts.get(1).map_or(String::new(), |set| String::from_utf8_lossy(set).into_owned());
    let set = set.lines().map(str::to_owned).collect();
    let options = LoadOptions { set, ..LoadOptions::default() };
    match resolve::load(path.path().to_str().unwrap(), &options) {
        Ok(loaded) => {
            // what is written must be read again, as the same
            if loaded.files.is_empty() {
                let again = file(loaded.resolved.as_bytes(), ".toml");
                let again = resolve::load(again.path().to_str().unwrap(), &LoadOptions::default());
                let again = again.unwrap_or_else(|why| panic!("{why}\n{}", loaded.resolved));
                assert_eq!(again.resolved, loaded.resolved);
            }
            if let Err(why) = simulate::plan(&loaded, 1) {
                complains(&why.0);
            }
        }
        Err(why) => complains(&why.0),
    }
}

/// A study.
pub fn study_file(bytes: &[u8]) {
    let path = file(bytes, ".toml");
    match study::load(path.path().to_str().unwrap(), &LoadOptions::default()) {
        Ok(study) => {
            let _ = study::design::points(&study);
        }
        Err(why) => complains(&why.0),
    }
}

/// A folder of ns-3: config, topology, flows, routes.
pub fn ns3_folder(bytes: &[u8]) {
    let folder = folder(bytes, &["config.txt", "topology.txt", "flow.txt", "routes.txt"]);
    if let Err(why) = ns3(folder.path(), "flows.csv") {
        complains(&why.message);
    }
}

/// A connection matrix of htsim.
pub fn htsim_matrix(bytes: &[u8]) {
    let path = file(bytes, ".cm");
    let link = Rate::from_gbps(100);
    let delay: Delta = "1us".parse().unwrap();
    for fabric in [Fabric::FatTree, Fabric::Star] {
        let options = HtsimOptions { fabric, link, delay, mtu: 4096 };
        if let Err(why) = htsim(path.path(), &options, "flows.csv") {
            complains(&why.message);
        }
    }
}

/// CONFIG_DB of a switch.
pub fn sonic_config(bytes: &[u8]) {
    let path = file(bytes, ".json");
    if let Err(why) = sonic(&[path.path().to_owned()], &SonicOptions::default(), "ports.csv") {
        complains(&why.message);
    }
}

/// CONFIG_DB of a switch with a table of its hosts, and what lldp says of its neighbours.
pub fn sonic_ports(bytes: &[u8]) {
    let folder = folder(bytes, &["leaf.json", "hosts.csv", "lldp.txt", "pg_profile_lookup.ini"]);
    let path = |name: &str| Some(folder.path().join(name)).filter(|path| path.exists());
    let options = SonicOptions {
        hosts: path("hosts.csv"),
        lldp: path("lldp.txt").into_iter().collect(),
        sku_tables: path("pg_profile_lookup.ini"),
        partial: true,
        ..SonicOptions::default()
    };
    let leaf: Vec<PathBuf> = path("leaf.json").into_iter().collect();
    if let Err(why) = sonic(&leaf, &options, "ports.csv") {
        complains(&why.message);
    }
}

/// A topology file of NCCL.
pub fn nccl_topo_xml(bytes: &[u8]) {
    topology(&[b"<system".as_slice(), bytes].concat());
}

/// The matrix of `nvidia-smi topo -m`.
pub fn topo_m(bytes: &[u8]) {
    topology(bytes);
}

fn topology(text: &[u8]) {
    let path = file(text, ".txt");
    let options = TopoOptions { gpu: Some("h100".to_owned()), hca: None };
    if let Err(why) = nccl_topo(path.path(), &options) {
        complains(&why.message);
    }
}

/// What a host says of its NIC.
pub fn nic_dump(bytes: &[u8]) {
    let path = file(bytes, ".txt");
    if let Err(why) = nic(&[path.path().to_owned()]) {
        complains(&why.message);
    }
}

/// An algorithm of MSCCL.
pub fn msccl(bytes: &[u8]) {
    program_of(&[b"<algo".as_slice(), bytes].concat());
}

/// A GOAL schedule.
pub fn goal(bytes: &[u8]) {
    program_of(&[b"num_ranks ".as_slice(), bytes].concat());
}

fn program_of(text: &[u8]) {
    let path = file(text, ".txt");
    if let Err(why) = program(path.path()) {
        complains(&why.message);
    }
}

/// A log of nccl-tests.
pub fn nccl_tests(bytes: &[u8]) {
    measured(b"# Collective test starting: all_reduce_perf\n", bytes);
}

/// An output of perftest.
pub fn perftest(bytes: &[u8]) {
    measured(
        b" #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n",
        bytes,
    );
}

/// `ethtool -S`.
pub fn ethtool(bytes: &[u8]) {
    measured(b"NIC statistics:\n", bytes);
}

/// `rdma statistic`.
pub fn rdma(bytes: &[u8]) {
    measured(b"link mlx5_0/1 ", bytes);
}

/// Outputs of `show` on SONiC, and whatever else has counters.
pub fn sonic_counters(bytes: &[u8]) {
    measured(b"", bytes);
}

/// JSON: measurement.json, reports, nccl-tests, perftest.
pub fn measurement(bytes: &[u8]) {
    measured(b"{\"", bytes);
}

/// `head` is there so that the reader of this kind is the one that is asked.
fn measured(head: &[u8], bytes: &[u8]) {
    let _ = read_any_bytes(Path::new("fuzz"), [head, bytes].concat());
}

/// A capture: pcap or pcapng.
pub fn pcap(bytes: &[u8]) {
    let _ = validation::pcap::count_capture(bytes, None);
}

/// A report, and what else may be a run.
pub fn report(bytes: &[u8]) {
    let path = file(bytes, ".json");
    let _ = read_run(path.path());
    let _ = read_tables(path.path());
}

/// Completion times as ns-3 writes them.
pub fn fct(bytes: &[u8]) {
    let path = file(bytes, ".txt");
    let _ = read_fct(path.path());
}
