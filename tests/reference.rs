//! Comparison with runs of other simulators. The data is found through `ROCESIM_REFERENCE`.

mod common;

use std::path::{Path, PathBuf};

use common::{json_report, rocesim, say, text};

/// The folder of an ns-3 run; says so loudly if there is no reference data.
fn ns3_run(name: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("ROCESIM_REFERENCE") else {
        say(&format!(
            "*** ROCESIM_REFERENCE IS NOT SET: {name} WAS NOT COMPARED WITH ns-3. Set it to the \
             folder that holds ns3/{name}."
        ));
        return None;
    };
    let folder = Path::new(&root).join("ns3").join(name);
    assert!(folder.is_dir(), "ROCESIM_REFERENCE has no {}", folder.display());
    Some(folder)
}

struct Compared {
    report: serde_json::Value,
    summary: validation::Summary,
}

/// Imports, runs and compares; every flow must be there on both sides.
fn compared(folder: &Path) -> Compared {
    let work = tempfile::tempdir().unwrap();
    let import = rocesim(&["import", "ns3", folder.to_str().unwrap()], work.path());
    assert_eq!(import.status.code(), Some(0), "{}", text(&import.stderr));
    let report = json_report(&["scenario.toml", "--out", "run"], work.path());
    let read = validation::read_report(&work.path().join("run")).unwrap();
    let comparison = validation::compare_flows(&read, &validation::read_fct(folder).unwrap());
    say(&format!("{}\n{comparison}", folder.file_name().unwrap().display()));
    assert_eq!((comparison.missing_here, comparison.missing_there), (0, 0));
    Compared { report, summary: comparison.summary.unwrap() }
}

#[test]
fn single_flow_and_incasts_end_when_they_do_in_ns3() {
    for name in ["a_single_1MB", "c_pfc_incast_8", "b_step_incast_8"] {
        let Some(folder) = ns3_run(name) else { return };
        let Compared { report, summary } = compared(&folder);
        assert_eq!(report["totals"]["lossless_drops"], 0);
        assert!(summary.max_fct_error.abs() < 0.005, "{name}: last {}", summary.max_fct_error);
        assert!(summary.mean_fct_error.abs() < 0.01, "{name}: mean {}", summary.mean_fct_error);
    }
}

#[test]
fn the_public_hpcc_fabric_under_its_own_load() {
    let Some(folder) = ns3_run("e_hpcc320_fbhdp_30_1ms") else { return };
    let Compared { report, summary } = compared(&folder);
    assert_eq!(report["totals"]["lossless_drops"], 0);
    assert_eq!(report["outcome"], "completed");
    // its 14,860,108 packet-hops do not depend on which packets are marked
    assert_eq!(report["packet_hops"], 14_860_108);
    let error = summary.mean_slowdown.error();
    assert!(error.abs() < 0.1, "mean slowdown off by {error}");
}
