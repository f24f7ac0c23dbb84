//! What is written can be loaded and planned.

use super::*;
use crate::load::{Node, Path, Sources, Value, parse};
use crate::resolve::{self, LoadOptions};
use crate::{check, simulate};
use models::fabric::Plan;
use models::report::Severity;

fn written(options: &InitOptions) -> String {
    scenario(options).unwrap_or_else(|error| panic!("{options:?}: {error}"))
}

/// The plan of what is written, which must be healthy.
fn plan(options: &InitOptions) -> Plan {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    let text = written(options);
    std::fs::write(&file, &text).unwrap();
    let loaded = resolve::load(file.to_str().unwrap(), &LoadOptions::default());
    let plan = loaded.and_then(|loaded| simulate::plan(&loaded, 1));
    let plan = plan.unwrap_or_else(|error| panic!("{text}\n{error}"));
    let notes = check::notes(&plan);
    // a ring of switches can deadlock, as the file says itself
    let ring = |note: &check::Note| options.shape == Shape::Ring && note.key == "topology";
    let healthy = |note: &check::Note| note.severity == Severity::Info || ring(note);
    assert!(notes.iter().all(healthy), "{text}\n{notes:?}");
    plan
}

/// One value of what is written.
fn value(options: &InitOptions, key: &str) -> Node {
    let root = parse(&mut Sources::default(), "s.toml", &written(options)).unwrap();
    root.at(&Path::parse(key).unwrap()).unwrap_or_else(|| panic!("no {key}")).clone()
}

fn number(options: &InitOptions, key: &str) -> i64 {
    match value(options, key).value {
        Value::Integer(number) => number,
        other => panic!("{key} is {}", other.describe()),
    }
}

const SHAPES: [Shape; 6] =
    [Shape::Star, Shape::LeafSpine, Shape::FatTree, Shape::Rail, Shape::Dumbbell, Shape::Ring];

/// Some of what can be asked for, for each shape.
fn cases() -> Vec<InitOptions> {
    let mut cases = Vec::new();
    for shape in SHAPES {
        let plain = InitOptions::new(shape);
        let (slow, fast) = (Rate::from_gbps(25), Rate::from_gbps(800));
        let permutation = Some(Pattern::Permutation);
        let generic = Some("generic".to_owned());
        cases.push(InitOptions { hosts: Some(10), nic: Some(fast), ..plain.clone() });
        let long = Cable { mm: 2_000_000 };
        cases.push(InitOptions { cable: long, pattern: permutation, ..plain.clone() });
        let (nic, switch) = (Some(slow), generic);
        cases.push(InitOptions { hosts: Some(64), nic, switch, ..plain.clone() });
        if matches!(shape, Shape::Star | Shape::LeafSpine | Shape::Rail) {
            let (nics, nic) = (Some(4), Some(fast));
            cases.push(InitOptions { hosts: Some(96), nics, nic, ..plain.clone() });
        }
        if matches!(shape, Shape::LeafSpine | Shape::Rail) {
            let (nics, leaves, oversubscription) = (Some(2), Some(8), Some(3.0));
            cases.push(InitOptions { nics, leaves, oversubscription, ..plain.clone() });
        }
        cases.push(plain);
    }
    // a thousand slow ports: their headroom alone is more than 32 MiB
    let (hosts, nic) = (Some(1000), Some(Rate::from_gbps(10)));
    cases.push(InitOptions { hosts, nic, ..InitOptions::new(Shape::Star) });
    cases
}

/// The same for servers.
fn gpu_cases() -> Vec<InitOptions> {
    let servers = cases().into_iter().filter(|options| options.hosts < Some(1000));
    let two = |options: InitOptions| {
        let (gpus, hosts) = (Some(8), options.hosts.map(|_| 8));
        let eight = InitOptions { gpus, hosts, ..options.clone() };
        let (node, hosts) = (Some("hgx-h100".to_owned()), Some(4));
        let bytes = Some(Sizes::Sweep(Bytes::new(1 << 20), Bytes::new(8 << 20)));
        let (leaves, pattern) = (None, None);
        [eight, InitOptions { node, hosts, bytes, leaves, pattern, ..options }]
    };
    // a ring of an odd number of servers cannot swap rails that do not meet
    let (hosts, gpus) = (Some(5), Some(8));
    let odd = InitOptions { hosts, gpus, ..InitOptions::new(Shape::Rail) };
    servers.flat_map(two).chain([odd]).collect()
}

#[test]
fn every_shape_can_be_planned_and_is_healthy() {
    for options in cases() {
        let plan = plan(&options);
        assert!(!plan.wiring.qps.is_empty());
    }
}

#[test]
fn servers_with_gpus_can_be_planned() {
    for options in gpu_cases() {
        plan(&options);
    }
}

#[test]
fn numbers_are_where_they_belong() {
    // 64 hosts on leaves of 16; 16 down at 2 to 1 are 8 up, on 8 spines
    let (hosts, oversubscription) = (Some(64), Some(2.0));
    let leaf_spine = InitOptions { hosts, oversubscription, ..InitOptions::new(Shape::LeafSpine) };
    assert_eq!(number(&leaf_spine, "topology.leaves"), 4);
    assert_eq!(number(&leaf_spine, "topology.spines"), 8);
    assert_eq!(number(&leaf_spine, "topology.uplinks_per_spine"), 1);
    assert!(written(&leaf_spine).contains("16 ports down, 8 up: oversubscribed 2 to 1\n"));
    // 16 / 5 = 3.2: 4 cables on 3 spines are 2 each; 16 / 6 = 2.67
    let odd = InitOptions { spines: Some(3), oversubscription: Some(5.0), ..leaf_spine };
    assert_eq!(number(&odd, "topology.uplinks_per_spine"), 2);
    assert!(written(&odd).contains("16 ports down, 6 up: oversubscribed 2.67 to 1, 5 asked for"));
    // 250 m at 5 ns/m; 4 x the thresholds of 100 Gb/s
    let cable = "0.25km".parse().unwrap();
    let fast =
        InitOptions { cable, nic: Some(Rate::from_gbps(400)), ..InitOptions::new(Shape::Star) };
    assert_eq!(value(&fast, "topology.link.delay").as_text(), Some("1250ns"));
    assert_eq!(value(&fast, "switch.ecn.3.kmin").as_text(), Some("400KB"));
    assert_eq!(value(&fast, "switch.ecn.3.kmax").as_text(), Some("1600KB"));
    // 128 x 400 Gb/s = 51.2 Tb/s x 3.2 MiB = 163.84 MiB, in steps of 4
    let large = InitOptions { hosts: Some(128), ..fast };
    assert_eq!(value(&large, "switch.buffer.size").as_text(), Some("164MiB"));
}

#[test]
fn gpus_are_divided_among_the_nics() {
    let rail = InitOptions { gpus: Some(8), nics: Some(4), ..InitOptions::new(Shape::Rail) };
    let nics = value(&rail, "host.nics");
    assert_eq!(nics.as_array().unwrap().len(), 4);
    let third = [0, 1].map(|i| number(&rail, &format!("host.nics[2].affinity[{i}]")));
    assert_eq!(third, [4, 5]);
    assert_eq!(number(&rail, "host.nics[3].ports"), 1);
    assert_eq!(value(&rail, "traffic[0].kind").as_text(), Some("collective"));
    assert_eq!(value(&rail, "traffic[0].bytes").as_text(), Some("128MiB"));
    assert_eq!(number(&rail, "nccl.IB_TC"), 106);
    let sweep = InitOptions { bytes: "1MiB..8GiB".parse().ok(), ..rail };
    assert_eq!(value(&sweep, "traffic[0].bytes.to").as_text(), Some("8GiB"));
    for options in gpu_cases() {
        assert_eq!(number(&options, "host.gpus"), 8);
    }
}

#[test]
fn words_are_read_with_care() {
    assert!("hmm".parse::<Cable>().is_err() && "0m".parse::<Cable>().is_err());
    assert!("8MB..1MB".parse::<Sizes>().is_err() && "0B".parse::<Sizes>().is_err());
    assert!("rial".parse::<Shape>().unwrap_err().to_string().contains("did you mean `rail`?"));
    let nan = InitOptions { oversubscription: Some(f64::NAN), ..InitOptions::new(Shape::Rail) };
    assert!(scenario(&nan).unwrap_err().to_string().contains("0.1 to 100 is expected"));
}
