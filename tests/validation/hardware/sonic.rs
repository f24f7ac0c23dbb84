//! Published configurations of switches through `import sonic`: the MMU that comes of them sends
//! XOFF and drops with the frames at which SONiC's tests see it.

use std::path::Path;

use models::switch::BufferPlan;
use scenarios::import::{SonicOptions, sonic};
use scenarios::resolve::{LoadOptions, load};
use serde_json::{Value, json};

use super::bench::Bench;
use crate::common::{self, say};

/// A configuration and a row of `qos_golden.tsv`.
struct Case {
    file: &'static str,
    asic: &'static str,
    /// Folder of the SKU's table, or the line of it that counts.
    table: Result<&'static str, &'static str>,
    speed: &'static str,
    cable: &'static str,
    /// All ports that have a cable are in use, as in the topology of the test.
    all_ports: bool,
    xoff: u64,
    /// Absent of Tomahawk 2: its row has a frame less after XOFF than its headroom.
    drop: Option<u64>,
}

const TOMAHAWK: Result<&str, &str> = Ok("sonic/th1_7060cx_32s_D48C8");

/// Rows `th topo-any`, `th5 topo-lt2-o128`, and `th2` of sonic-mgmt's `qos_params.th2.yaml`.
const CASES: &[Case] = &[
    Case {
        file: "buffer-arista7060-t0.json",
        asic: "tomahawk",
        table: TOMAHAWK,
        speed: "100Gbps",
        cable: "300m",
        all_ports: false,
        xoff: 6542,
        drop: Some(7835),
    },
    Case {
        file: "buffer-arista7060-t0.json",
        asic: "tomahawk",
        table: TOMAHAWK,
        speed: "50Gbps",
        cable: "300m",
        all_ports: false,
        xoff: 6542,
        drop: Some(7225),
    },
    Case {
        file: "buffers-dell6100.json",
        asic: "tomahawk",
        table: TOMAHAWK,
        speed: "40Gbps",
        cable: "300m",
        all_ports: false,
        xoff: 6542,
        drop: Some(7063),
    },
    Case {
        file: "buffer-frh-b-o128.json",
        asic: "tomahawk5",
        table: Ok("sonic/th5_7060x6_64pe_b_O128"),
        speed: "400Gbps",
        cable: "500m",
        all_ports: true,
        xoff: 108_469,
        drop: Some(112_944),
    },
    Case {
        file: "buffer-arista7260-dualtor.json",
        asic: "tomahawk2",
        table: Err("100000 300m 1248 1248 101088 0 2496"),
        speed: "100Gbps",
        cable: "300m",
        all_ports: false,
        xoff: 19_939,
        drop: None,
    },
];

#[test]
fn imported_configurations_pause_and_drop_where_switches_do() {
    for case in CASES {
        let Some(path) = common::reference(&format!("sonic/rendered/{}", case.file)) else {
            return;
        };
        let text = std::fs::read_to_string(&path).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        rewire(&mut config, case);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("switch.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let table = match case.table {
            Ok(table) => common::reference(table).unwrap(),
            Err(line) => {
                let path = folder.path().join("pg_profile_lookup.ini");
                std::fs::write(&path, line).unwrap();
                path
            }
        };
        let options = SonicOptions {
            asic: Some(case.asic.to_owned()),
            sku_tables: Some(table),
            speed: Some(case.speed.parse().unwrap()),
            ..SonicOptions::default()
        };
        let (xoff, drop) = counts(&file, &options);
        let told =
            format!("{} at {}, {}: XOFF {xoff}, drop {drop}", case.file, case.speed, case.cable);
        say(&told);
        assert!(xoff.abs_diff(case.xoff) <= 1, "{told}; {} is measured", case.xoff);
        if let Some(measured) = case.drop {
            assert!(drop.abs_diff(measured) <= 1, "{told}; {measured} is measured");
        }
    }
}

/// Gives all ports the cable of the row, and those that are to be in use their buffers.
fn rewire(config: &mut Value, case: &Case) {
    let cables = config["CABLE_LENGTH"]["AZURE"].as_object_mut().unwrap();
    cables.values_mut().for_each(|cable| *cable = json!(case.cable));
    let ports: Vec<String> = cables.keys().cloned().collect();
    if case.all_ports {
        for port in ports {
            config["BUFFER_PG"][format!("{port}|0")] =
                json!({ "profile": "ingress_lossy_profile" });
            config["BUFFER_QUEUE"][format!("{port}|3-4")] =
                json!({ "profile": "egress_lossless_profile" });
        }
    }
}

/// The frames of one cell at which a group alone sends XOFF, and loses the first.
fn counts(file: &Path, options: &SonicOptions) -> (u64, u64) {
    let imported = sonic(&[file.to_owned()], options, "ports.csv");
    let imported = imported.unwrap_or_else(|error| panic!("{error}"));
    let scenario = file.with_extension("toml");
    std::fs::write(&scenario, &imported.scenario.toml).unwrap();
    let loaded = load(scenario.to_str().unwrap(), &LoadOptions::default());
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}\n{}", imported.scenario.toml));
    let plans = scenarios::simulate::plans(&loaded, 1).unwrap_or_else(|error| panic!("{error}"));
    let mut bench = Bench::new(BufferPlan::clone(&plans[0].buffers[0]), 0);
    let xoff = bench.trigger(0, 1);
    (xoff, xoff + bench.headroom(0, 1) + 1)
}
