//! `import sonic` and `export sonic` as a user meets them.

mod common;

use std::path::{Path, PathBuf};

use common::{json_report, rocesim, text};

fn fabric() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sonic/fabric")
}

/// Imports a folder of switches; what is printed to stderr.
fn import(source: &Path, folder: &Path, out: &str) -> String {
    let hosts = fabric().join("hosts.csv");
    let arguments =
        ["import", "sonic", source.to_str().unwrap(), "--hosts", hosts.to_str().unwrap()];
    let output = rocesim(&[&arguments[..], &["-o", out]].concat(), folder);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn a_folder_of_switches_becomes_a_fabric_that_runs_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let notes = import(&fabric(), folder.path(), "fabric.toml");
    assert!(notes.contains("  LOOPBACK_INTERFACE (12 rows)\n"), "{notes}");
    assert!(notes.ends_with("lint: nothing to complain about\n"), "{notes}");
    assert!(notes.lines().all(|line| line.chars().count() < 100), "{notes}");
    let scenario = std::fs::read_to_string(folder.path().join("fabric.toml")).unwrap();
    let watchdog = "[switch.pfc_wd] # PFC_WD|Ethernet0\ndetection_time = \"200ms\"\n\
                    restoration_time = \"200ms\"\npoll_interval = \"200ms\"\naction = \"drop\"\n\
                    rule = \"broadcom\"\n";
    assert!(scenario.contains(watchdog), "{scenario}");
    let report = json_report(&["fabric.toml"], folder.path());
    assert_eq!(report["outcome"], "completed");
    assert_eq!(report["totals"]["lossless_drops"], 0);
    let ports = std::fs::read_to_string(folder.path().join("fabric.ports.csv")).unwrap();
    assert!(ports.contains("\nleaf1,4,Ethernet192\n"), "{ports}");
}

/// The lines of a scenario without what is behind `#`.
fn settings(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let bare = text.lines().map(|line| line.split(" # ").next().unwrap().trim_end().to_owned());
    bare.filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn a_patch_of_each_switch_changes_what_was_set_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    import(&fabric(), folder.path(), "fabric.toml");
    let export = |set: &[&str]| {
        let arguments = ["export", "sonic", "fabric.toml", "--ports", "fabric.ports.csv"];
        let output = rocesim(&[&arguments[..], set].concat(), folder.path());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().count(), 6, "{}", text(&output.stdout));
    };
    let merged = folder.path().join("merged");
    for name in ["leaf1", "leaf2", "leaf3", "leaf4", "spine1", "spine2"] {
        std::fs::create_dir_all(merged.join(name)).unwrap();
        let from = fabric().join(format!("{name}.json"));
        std::fs::copy(from, merged.join(name).join("config_db.json")).unwrap();
    }
    let merge = |out: &str| {
        for name in ["leaf1", "leaf2", "leaf3", "leaf4", "spine1", "spine2"] {
            let patch = folder.path().join(format!("patch-{name}.json"));
            std::fs::copy(patch, merged.join(name).join("patch.json")).unwrap();
        }
        import(&merged, folder.path(), out)
    };
    export(&[]);
    merge("same.toml");
    let before = settings(&folder.path().join("fabric.toml"));
    assert_eq!(settings(&folder.path().join("same.toml")), before);

    export(&["--set", "switch.ecn.3.kmax=3MB", "--set", "switch.pfc.priorities=[3]"]);
    let notes = merge("changed.toml");
    assert!(notes.ends_with("lint: nothing to complain about\n"), "{notes}");
    let after = settings(&folder.path().join("changed.toml"));
    let changed: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    // the NICs have PFC where the switches have it
    assert_eq!(after.iter().filter(|line| *line == "pfc.priorities = [3]").count(), 2);
    assert!(!after.contains(&"pfc.priorities = [3, 4]".to_owned()));
    let marks = "ecn.3 = { kmin = \"1048576B\", kmax = \"3000000B\", pmax = 0.05 }".to_owned();
    assert!(changed.contains(&&marks), "{changed:?}");
    // group 4 reserves nothing any more, which leaves more to share
    let strange = changed.iter().find(|line| {
        let keys = [
            "ecn.3 ",
            "pfc.priorities ",
            "buffer.pg.4 ",
            "buffer.queue.4 ",
            "buffer.pools.ingress ",
        ];
        !keys.iter().any(|key| line.starts_with(key))
    });
    assert_eq!(strange, None);
}

#[test]
fn what_is_wrong_is_said_once_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, message) in [
        (vec!["import", "sonic", "none.json"], "error: none.json: there is no such file; "),
        (vec!["import", "sonic", "."], "error: .: no switch is in it; "),
        (vec!["export", "sonic", "incast", "-o", "a.toml"], "error: a.toml: "),
        (
            vec!["export", "sonic", "incast", "--asic", "tomahawk5x"],
            "error: incast: there is no ASIC",
        ),
    ] {
        let output = rocesim(&arguments, folder.path());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.starts_with(message) && error.lines().count() == 1, "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
