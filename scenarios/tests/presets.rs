//! Presets against what was measured on the switches, and the figures that a run depends on.

use models::report::Report;
use models::switch::{BufferPlan, Headroom, Mmu, PortPlan, SwitchConfig, plan_buffer};
use models::wire::{Frames, WireConfig};
use scenarios::library::{Kind, names};
use scenarios::provenance::in_use;
use scenarios::resolve::{self, LoadOptions, Loaded};
use scenarios::sensitivity::sensitive;
use scenarios::simulate::{self, Verdict};
use sim_core::{Delta, Rate};

fn load(text: &str) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, text).unwrap();
    resolve::load(path.to_str().unwrap(), &LoadOptions::default()).unwrap()
}

fn star(hosts: usize, rate: &str, rest: &str) -> String {
    format!(
        "[topology]\nkind = \"star\"\nhosts = {hosts}\n\
         link = {{ rate = \"{rate}\", delay = \"200ns\" }}\n{rest}\n"
    )
}

/// The configuration of a switch preset, with the headroom that its maker gives.
fn switch(name: &str, headroom: &str) -> SwitchConfig {
    let rest = format!("[switch]\npreset = \"{name}\"\npfc.headroom = \"{headroom}\"");
    load(&star(2, "100Gbps", &rest)).scenario.switch
}

fn plan(config: &SwitchConfig, ports: usize, gbps: u64) -> BufferPlan {
    let port = PortPlan {
        config,
        rate: Rate::from_gbps(gbps),
        delay: Delta::from_ns(200),
        upstream: Delta::ZERO,
        mtu: 4096,
    };
    plan_buffer(config, &vec![port; ports], &Frames::new(&WireConfig::default())).unwrap()
}

/// Frames of one cell to the group of priority 3 of a port, until XOFF.
fn trigger(mmu: &mut Mmu, port: usize) -> u32 {
    (1..).find(|_| mmu.charge_ingress(8 * port + 3, 1).unwrap()).unwrap()
}

/// And on, until one is dropped.
fn drop_after(mmu: &mut Mmu, port: usize, trigger: u32) -> u32 {
    (trigger + 1..).find(|_| mmu.charge_ingress(8 * port + 3, 1).is_err()).unwrap()
}

#[test]
fn groups_pause_where_they_do_on_the_switch() {
    // sonic-mgmt, tests/qos/files/qos_params.{td3,th3,th5}.yaml: frames of one cell until PFC, and
    // until a drop, which the tests allow to be off by a few.
    // Trident 3, 100000_300m: 18 reserved, half of 119532; 160000 B are 625 cells
    let mut mmu = plan(&switch("trident3", "160000B"), 32, 100).mmus.remove(0);
    assert_eq!(trigger(&mut mmu, 0), 59_784);
    assert_eq!(drop_after(&mut mmu, 0, 59_784), 60_410);
    // Tomahawk 3, 400000_300m: 10 reserved, a fifth of 75713; 373888 B are 1472 cells: 16624
    // frames fit, and 16624 is published
    let mut mmu = plan(&switch("tomahawk3", "373888B"), 32, 400).mmus.remove(0);
    assert_eq!(trigger(&mut mmu, 0), 15_152);
    assert_eq!(drop_after(&mut mmu, 0, 15_152), 16_625);
    // Tomahawk 5, 400000_40m: one group after another takes half of the rest; 445770 B
    let mut mmu = plan(&switch("tomahawk5", "445770B"), 128, 400).mmus.remove(0);
    let measured = [133_349, 66_711, 33_393, 16_733, 8404, 4239, 2156, 1115, 595, 334, 204, 139];
    for (port, cells) in measured.into_iter().enumerate() {
        assert_eq!(trigger(&mut mmu, port), cells, "port {port}");
    }
    assert_eq!(drop_after(&mut mmu, 0, 133_349), 135_105);
}

#[test]
fn the_published_tables_agree_with_the_presets() {
    let Some(folder) = std::env::var_os("ROCESIM_REFERENCE") else {
        eprintln!("SKIPPED: ROCESIM_REFERENCE names no folder with sonic/qos_golden.tsv");
        return;
    };
    let path = std::path::Path::new(&folder).join("sonic/qos_golden.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let column = |name| rows[0].iter().position(|column| *column == name).unwrap();
    let [asic, topology, link] = ["asic", "topo", "speed_cable"].map(column);
    let [pause, drop] = ["xoff_trig_pfc_pkts", "xoff_trig_ingress_drop_pkts"].map(column);
    let series = column("trig_pfc_multi_first20");
    // the preset is that of this row; of the other presets' ASICs the table has none
    let mut compared = 0;
    for row in &rows[1..] {
        let matches = row[asic] == "th5" && row[topology] == "topo-t1-isolated-d128";
        if !matches || row[link] != "400000_40m" {
            continue;
        }
        let mut mmu = plan(&switch("tomahawk5", "445770B"), 128, 400).mmus.remove(0);
        let number = |text: &str| text.trim().parse::<u32>().unwrap();
        let published = row[series].trim_matches(['[', ']']).split(',').map(number);
        // the last of them are groups for which only their reserve is left
        for (port, cells) in published.enumerate().take(18) {
            assert_eq!(trigger(&mut mmu, port), cells, "port {port}");
            compared += 1;
        }
        let first = number(row[pause]);
        assert_eq!(drop_after(&mut mmu, 0, first), number(row[drop]));
    }
    eprintln!("{compared} XOFF points compared");
    assert_eq!(compared, 18);
}

#[test]
fn every_preset_makes_a_fabric() {
    for name in names(Kind::SwitchPreset) {
        for (hosts, rate) in [(2, "400Gbps"), (32, "100Gbps")] {
            let rest = format!(
                "[switch]\npreset = \"{name}\"\n[[traffic]]\nkind = \"incast\"\n\
                 senders = \"0..1\"\nreceiver = 1\nbytes = \"1MB\""
            );
            let loaded = load(&star(hosts, rate, &rest));
            let plan = simulate::plan(&loaded, 1).unwrap();
            let buffer = &plan.buffers[0];
            assert!(buffer.ingress_pool.iter().all(|pool| *pool > 1_000_000), "{name}");
        }
        let scenario =
            load(&star(2, "100Gbps", &format!("[switch]\npreset = \"{name}\""))).scenario;
        assert_eq!(scenario.switch.pfc.headroom, Headroom::Auto, "{name}");
    }
    for name in names(Kind::NicPreset) {
        load(&star(2, "100Gbps", &format!("[nic]\npreset = \"{name}\"")));
    }
}

fn run(text: &str) -> Report {
    let loaded = load(text);
    let plan = simulate::plan(&loaded, 1).unwrap();
    simulate::run(&loaded, plan, |_| Verdict::GoOn).unwrap().report
}

#[test]
fn what_happened_says_which_assumptions_matter() {
    let report = |switch: &str, senders: usize| {
        let rest = format!(
            "[switch]\n{switch}\n[nic]\npreset = \"thor2\"\n[[traffic]]\nkind = \"incast\"\n\
             senders = \"0..{senders}\"\nreceiver = 8\nbytes = \"4MB\"\n"
        );
        run(&star(9, "100Gbps", &rest))
    };
    let keys = |presets: &[(Kind, &str)], report: &Report| -> Vec<String> {
        let figures = in_use(presets, &[]);
        let found = sensitive(&figures, report);
        found.iter().map(|found| format!("{}: {}", found.figure.key, found.because)).collect()
    };
    let has = |found: &[String], text: &str| found.iter().any(|line| line.contains(text));
    let thor = (Kind::NicPreset, "thor2");
    // one flow of 4 MB, 330 us: nothing waits
    let alone = report("", 1);
    assert_eq!(keys(&[thor], &alone), Vec::<String>::new());
    // 8 to 1 without ECN: PFC
    let found = keys(&[thor], &report("", 8));
    assert!(has(&found, "switch.buffer.lossless.dynamic_th: PFC paused links"), "{found:?}");
    assert!(!has(&found, "nic.congestion"), "{found:?}");
    assert!(!has(&found, "_queue") && !has(&found, ".pool"), "{found:?}");
    // with the ECN of a Tomahawk 5: marks, no pauses; its buffer, were it assumed, does not matter
    let marks = report("preset = \"tomahawk5\"", 8);
    let found = keys(&[(Kind::SwitchPreset, "tomahawk5"), thor], &marks);
    assert!(has(&found, "nic.congestion.preset: ECN marked frames"), "{found:?}");
    assert!(!has(&found, "switch.buffer"), "{found:?}");
    // what is sent again and what is lost, by hand
    let mut lost = alone.clone();
    lost.totals.retransmitted_packets = 1;
    lost.totals.drops.insert("egress_lossy_limit".into(), 1);
    let found = keys(&[thor], &lost);
    assert!(has(&found, "nic.transport.timeout: packets were sent again"), "{found:?}");
    assert!(has(&found, "switch.buffer.lossy_queue.dynamic_th: frames found no buffer"));
    // a flow of 10 us feels 800 ns
    let mut short = alone;
    short.flows[0].fct_s = Some(10e-6);
    let found = keys(&[thor], &short);
    let why = "latency is a good part of the shortest flow";
    assert_eq!(found, [format!("switch.latency: {why}"), format!("nic.latency: {why}")]);
}
