//! What is exported comes back the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use models::fabric::Plan;
use models::size::Size;
use models::switch::{Headroom, ProfileConfig, SwitchConfig, WatchdogConfig};
use proptest::prelude::*;

use super::*;
use crate::resolve::{LoadOptions, Loaded, load};

const PORTS: usize = 4;

/// A scenario of one switch, from a preset and a few lines.
fn scenario(preset: &str, keys: &str) -> String {
    format!(
        "[topology]\nkind = \"star\"\nhosts = {PORTS}\nlink = {{ rate = \"100Gbps\", delay = \"200ns\" }}\n\
         [switch]\npreset = \"{preset}\"\n{keys}\n[[traffic]]\nname = \"t\"\nkind = \"incast\"\n\
         senders = \"0..3\"\nreceiver = 3\nbytes = \"1KB\"\n"
    )
}

fn loaded(text: &str) -> (Loaded, Plan) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = load(path.to_str().unwrap(), &LoadOptions::default());
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = crate::simulate::plans(&loaded, 1).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (loaded, plan.into_iter().next().unwrap())
}

/// All that switches do by these settings, port by port, in a form that ignores how it is said.
fn effective(plan: &Plan) -> String {
    let mut out = String::new();
    for (index, switch) in plan.wiring.topology.switches().enumerate() {
        let node = plan.spec.switches[switch.index()].as_deref().unwrap();
        let buffer = &plan.buffers[index];
        let _ = writeln!(out, "shared {:?}", buffer.ingress_pool);
        for (slot, port) in plan.wiring.topology.ports_of(switch).enumerate() {
            let config = plan.spec.switch_ports[port.index()].as_deref().unwrap();
            port_effect(&mut out, slot, node, config, buffer.headroom[slot]);
        }
    }
    out
}

fn port_effect(
    out: &mut String,
    slot: usize,
    node: &SwitchConfig,
    config: &SwitchConfig,
    headroom: u64,
) {
    let cell = config.buffer.cell;
    let bytes = |size: Size| size.to_bytes(cell);
    let mut pfc = config.pfc.priorities.clone();
    pfc.sort_unstable();
    let headroom = match config.pfc.headroom {
        Headroom::Size(size) => bytes(size) / cell.get() * cell.get(),
        _ => headroom,
    };
    let headroom = if pfc.is_empty() { 0 } else { headroom };
    let _ = writeln!(out, "port {slot} pfc {pfc:?} headroom {headroom}");
    let times =
        |w: &WatchdogConfig| (w.detection_time, w.restoration_time, w.poll_interval, w.action);
    let _ = writeln!(out, " watchdog {:?}", config.pfc_wd.as_ref().map(times));
    let at = |map: &BTreeMap<u8, u8>, from: u8| map.get(&from).copied().unwrap_or(from);
    let qos = &config.qos;
    for dscp in 0..64 {
        let tc = qos.dscp_to_tc.get(&dscp).copied().unwrap_or(0);
        let _ = write!(out, " {}/{}", at(&qos.tc_to_queue, tc), at(&qos.tc_to_pg, tc));
    }
    let reached: Vec<u8> = (0..8).map(|tc| at(&qos.tc_to_pg, tc)).collect();
    let profile = |profile: &ProfileConfig, default: &str| {
        let name = if profile.pool.is_empty() { default } else { &profile.pool };
        let pool = node.buffer.pools.get(name);
        let size = pool.and_then(|pool| pool.size).map_or(node.buffer.size.get(), bytes);
        // of the main pool, what is planned counts
        let size = Some(size).filter(|_| name != "ingress");
        let xoff = pool.and_then(|pool| pool.xoff).map(bytes);
        format!(
            "{} {:?} {:?} {} {} {size:?} {xoff:?}",
            bytes(profile.reserve),
            profile.dynamic_th,
            profile.static_th.map(bytes),
            bytes(profile.xon),
            bytes(profile.xon_offset)
        )
    };
    let _ = writeln!(out);
    for number in 0..8u8 {
        let lossless = config.pfc.priorities.contains(&number);
        let buffer = &config.buffer;
        let [pg, queue] = match lossless {
            true => [&buffer.lossless, &buffer.lossless_queue],
            false => [&buffer.lossy, &buffer.lossy_queue],
        };
        if lossless || number == 0 || reached.contains(&number) {
            let pg = buffer.pg.get(&number).unwrap_or(pg);
            let _ = writeln!(out, " pg {number} {}", profile(pg, "ingress"));
        }
        let queue = buffer.queue.get(&number).unwrap_or(queue);
        let weight = config.scheduler.weights.get(&number).copied().unwrap_or(1);
        let place = config.scheduler.strict.iter().position(|strict| *strict == number);
        let scheduled = place.map_or(format!("dwrr {weight}"), |place| format!("strict {place}"));
        let marks = config.ecn.get(&number).filter(|marks| marks.pmax > 0.0);
        let marks = marks.map(|marks| (bytes(marks.kmin), bytes(marks.kmax), marks.pmax));
        let _ = writeln!(
            out,
            " queue {number} {} {scheduled} {marks:?} paused by {:?}",
            profile(queue, "egress"),
            (0..8)
                .filter(|priority| at(&qos.pfc_to_queue, *priority) == number)
                .collect::<Vec<u8>>()
        );
    }
}

/// Exports a scenario and imports the patch over the ports of the switch.
fn there_and_back(text: &str, asic: Option<&str>) {
    let (scenario, plan) = loaded(text);
    let exported = sonic_patches(&scenario, &plan, None, asic).unwrap_or_else(|e| panic!("{e}"));
    let [(_, patch)] = exported.patches.as_slice() else { panic!("{}", exported.patches.len()) };
    let folder = tempfile::tempdir().unwrap();
    let ports =
        (0..PORTS).map(|port| format!("\"Ethernet{}\": {{ \"speed\": \"100000\" }}", 4 * port));
    let base = format!("{{ \"PORT\": {{ {} }} }}", ports.collect::<Vec<_>>().join(", "));
    let files = [("config_db.json", base.as_str()), ("patch.json", patch)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let options = SonicOptions { asic: asic.map(str::to_owned), ..SonicOptions::default() };
    let back = sonic(&files, &options, "p.csv").unwrap_or_else(|error| panic!("{error}\n{patch}"));
    let (_, again) = loaded(&back.scenario.toml);
    pretty_eq(&effective(&plan), &effective(&again), patch);
}

/// Only the lines that differ are shown.
fn pretty_eq(before: &str, after: &str, patch: &str) {
    let differing: Vec<_> = before.lines().zip(after.lines()).filter(|(a, b)| a != b).collect();
    assert!(
        differing.is_empty() && before.lines().count() == after.lines().count(),
        "{differing:#?}\n{patch}"
    );
}

#[test]
fn the_settings_of_presets_come_back() {
    there_and_back(&scenario("generic-32mb", "buffer.cell = \"1B\""), None);
    there_and_back(&scenario("spectrum-2", ""), Some("spectrum-2"));
    there_and_back(&scenario("spectrum-4", ""), Some("spectrum-4"));
}

/// Of these the size in CONFIG_DB is that of the whole buffer, of which four ports take less than
/// the ports that the preset's figure is for.
#[test]
fn a_pool_that_is_the_whole_buffer_is_written_whole() {
    for preset in ["trident3", "tomahawk3", "tomahawk4", "tomahawk5"] {
        let (scenario, plan) = loaded(&scenario(preset, ""));
        let exported = sonic_patches(&scenario, &plan, None, None).unwrap();
        let patch: serde_json::Value = serde_json::from_str(&exported.patches[0].1).unwrap();
        let pool = &patch["BUFFER_POOL"]["ingress_lossless_pool"];
        let config = plan.spec.switches.iter().flatten().next().unwrap();
        assert_eq!(pool["size"], config.buffer.size.get().to_string(), "{preset}");
        if preset == "trident3" {
            // two pools for queues, as the switch has them
            let size = |pool: &str| patch["BUFFER_POOL"][pool]["size"].clone();
            assert_eq!(size("egress_lossless_pool"), "32599040");
            assert_eq!(size("egress_lossy_pool"), "24709632");
        }
    }
}

prop_compose! {
    fn profile(pool: &'static str)(
        reserve in 0u64..100_000,
        threshold in prop_oneof![(-8i8..=7).prop_map(Ok), (1u64..40_000_000).prop_map(Err)],
        xon in 0u64..20_000,
        xon_offset in 1u64..20_000,
        lossless in Just(pool == "ingress"),
    ) -> String {
        let threshold = match threshold {
            Ok(n) => format!("dynamic_th = {n}"),
            Err(size) => format!("static_th = \"{size}B\""),
        };
        // only groups that send PFC have an XON
        let xon = match lossless {
            true => format!(", xon = \"{xon}B\", xon_offset = \"{xon_offset}B\""),
            false => ", xon = \"0B\", xon_offset = \"0B\"".to_owned(),
        };
        format!("{{ reserve = \"{reserve}B\", {threshold}{xon} }}")
    }
}

fn map(keys: u8, values: u8) -> impl Strategy<Value = String> {
    prop::collection::btree_map(0..keys, 0..values, 0..6).prop_map(|map| {
        let pairs: Vec<String> = map.iter().map(|(a, b)| format!("{a} = {b}")).collect();
        format!("{{ {} }}", pairs.join(", "))
    })
}

prop_compose! {
    fn keys()(
        lossless in profile("ingress"),
        lossy in profile("lossy"),
        lossless_queue in profile("egress"),
        lossy_queue in profile("egress"),
        single in profile("ingress"),
        size in 20_000_000u64..60_000_000,
        shared in prop::option::of(1_000_000u64..8_000_000),
        headroom in 1u64..200_000,
        priorities in prop::sample::subsequence(vec![1u8, 2, 3, 4, 6], 1..=3),
        marks in prop::collection::btree_map(0u8..8, (0u64..500_000, 0u64..500_000, 1u8..=100), 0..3),
        weights in prop::collection::btree_map(0u8..5, 1u32..=100, 0..5),
        strict in prop::sample::subsequence(vec![7u8, 6, 5], 0..=3),
        dscp in map(64, 8),
        queues in map(8, 8),
        groups in map(8, 8),
        paused in map(8, 8),
        watchdog in prop::option::of((1u64..5000, 1u64..5000, 1u64..1000, 0usize..3)),
    ) -> String {
        let mut out = String::from("buffer.size = \"128MiB\"\n");
        let xoff = shared.map_or(String::new(), |xoff| format!(", xoff = \"{xoff}B\""));
        let _ = writeln!(out, "buffer.pools.ingress = {{ size = \"{size}B\"{xoff} }}");
        let _ = writeln!(out, "buffer.pools.egress = {{ size = \"{size}B\" }}");
        let _ = writeln!(out, "buffer.lossless = {lossless}\nbuffer.lossy = {lossy}");
        let _ = writeln!(out, "buffer.lossless_queue = {lossless_queue}");
        let _ = writeln!(out, "buffer.lossy_queue = {lossy_queue}");
        let _ = writeln!(out, "buffer.pg.{} = {single}", priorities.last().unwrap());
        let _ = writeln!(out, "pfc.headroom = \"{headroom}B\"\npfc.priorities = {priorities:?}");
        for (queue, (kmin, more, percent)) in marks {
            let kmax = kmin + more;
            let pmax = f64::from(percent) / 100.0;
            let _ = writeln!(
                out,
                "ecn.{queue} = {{ kmin = \"{kmin}B\", kmax = \"{kmax}B\", pmax = {pmax:?} }}"
            );
        }
        if let Some((detection, restoration, poll, action)) = watchdog {
            let action = ["drop", "forward", "alert"][action];
            let _ = writeln!(
                out,
                "pfc_wd = {{ detection_time = \"{detection}ms\", restoration_time = \
                 \"{restoration}ms\", poll_interval = \"{poll}ms\", action = {action:?} }}"
            );
        }
        let weights: Vec<String> = weights.iter().map(|(q, w)| format!("{q} = {w}")).collect();
        let _ = writeln!(out, "scheduler.weights = {{ {} }}", weights.join(", "));
        let _ = writeln!(out, "scheduler.strict = {strict:?}");
        let _ = writeln!(out, "qos.dscp_to_tc = {dscp}\nqos.tc_to_queue = {queues}");
        let _ = writeln!(out, "qos.tc_to_pg = {groups}\nqos.pfc_to_queue = {paused}");
        out
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_settings_come_back(keys in keys()) {
        there_and_back(&scenario("generic", &keys), None);
    }
}
