//! Who paused whom, in fabrics small enough to say beforehand.

mod common;

use std::sync::Arc;

use common::{link, run, spec};
use models::fabric::Spec;
use models::nic::{NicConfig, PauseStormConfig, ReceiveConfig};
use models::report::{PauseRoot, Report, RootKind};
use models::switch::SwitchConfig;
use models::topology::{DumbbellConfig, LeafSpineConfig, StarConfig, TopologyConfig};
use models::traffic::{
    After, FlowConfig, FlowSize, FlowsConfig, HostRef, TrafficConfig, Transport,
};
use sim_core::{Bytes, Delta, Rate};

fn flows(pairs: &[(u32, u32)], bytes: u64) -> Vec<TrafficConfig> {
    let flow = |(source, target): &(u32, u32)| FlowConfig {
        source: HostRef::Number(*source),
        target: HostRef::Number(*target),
        bytes: FlowSize::Bytes(Bytes::new(bytes)),
        start: Delta::ZERO,
        after: After(vec![]),
        window: None,
        rate: None,
        dscp: None,
        source_port: None,
        destination_port: None,
    };
    let flows = pairs.iter().map(flow).collect();
    vec![TrafficConfig::Flows(FlowsConfig {
        name: String::new(),
        flows,
        file: None,
        dscp: None,
        transport: Transport::Rc,
    })]
}

fn fabric(topology: TopologyConfig, pairs: &[(u32, u32)]) -> Spec {
    let mut switch = SwitchConfig::default();
    switch.buffer.size = Bytes::new(4 << 20);
    spec(topology, switch, NicConfig::default(), &flows(pairs, 4_000_000), 1)
}

fn dumbbell() -> TopologyConfig {
    TopologyConfig::Dumbbell(DumbbellConfig {
        left: 5,
        right: 2,
        link: link(40, 1000),
        trunk: Some(link(100, 1000)),
        trunks: 1,
    })
}

fn leaf_spine() -> TopologyConfig {
    TopologyConfig::LeafSpine(LeafSpineConfig {
        leaves: 2,
        spines: 1,
        hosts_per_leaf: 3,
        link: link(100, 1000),
        uplink: None,
        uplinks_per_spine: 1,
        ports_per_host: 1,
    })
}

/// What must hold of every tree; its only root, or the one that caused most.
fn main_root(report: &Report) -> &PauseRoot {
    let tree = &report.pauses;
    let total: f64 = tree.roots.iter().map(|root| root.paused_s).sum();
    assert!((total - report.totals.paused_s).abs() < 1e-9, "{total} of {}", report.totals.paused_s);
    &tree.roots[0]
}

/// `a>b`: a paused b.
fn edges(root: &PauseRoot) -> Vec<String> {
    let mut edges: Vec<String> =
        root.edges.iter().map(|edge| format!("{}>{}", edge.by, edge.port)).collect();
    edges.sort_unstable();
    edges
}

#[test]
fn pauses_of_an_incast_begin_at_the_receivers_link_and_stop_a_victim() {
    let report = run(fabric(dumbbell(), &[(0, 5), (1, 5), (2, 5), (3, 5), (4, 6)]), 1).1;
    let root = main_root(&report);
    let into = report.ports.iter().find(|port| port.peer == "host5/nic0").unwrap();
    assert_eq!((root.kind, &root.port), (RootKind::ReceiverLinkFull, &into.port));
    assert_eq!(root.depth, 2);
    let trunk = report.ports.iter().find(|p| p.node == "sw0" && p.peer.starts_with("sw1"));
    let trunk = &trunk.unwrap().port;
    let mut expected = vec![format!("{}>{trunk}", into.port)];
    expected.extend((0..5).map(|host| format!("{trunk}>host{host}/nic0")));
    expected.sort_unstable();
    assert_eq!(edges(root), expected);
    // nearly all began there
    assert!(root.paused_s > 0.95 * report.totals.paused_s, "{root:?}");
    let victim = &report.flows[4];
    assert!(victim.victim_share > 0.3, "{victim:?}");
    assert_eq!(victim.paused_by.as_ref(), Some(&into.port));
    for flow in &report.flows[..4] {
        assert!(flow.victim_share < 0.05 && flow.paused_share > 0.3, "{flow:?}");
    }
}

#[test]
fn pauses_of_a_slow_receiver_begin_at_its_nic() {
    let star = StarConfig { hosts: 3, link: link(100, 500), ports_per_host: 1 };
    let mut spec = fabric(TopologyConfig::Star(star), &[(0, 2), (1, 0)]);
    let slow = NicConfig {
        receive: Some(ReceiveConfig {
            rate: Rate::from_gbps(30),
            buffer: Bytes::new(4 << 20),
            xoff: Bytes::new(100_000),
            xon: Bytes::new(50_000),
        }),
        ..NicConfig::default()
    };
    let host = spec.topology.find("host2").unwrap();
    spec.nics[host.index()] = Some(Arc::new(slow));
    let report = run(spec, 1).1;
    let root = main_root(&report);
    assert_eq!((root.kind, root.port.as_str()), (RootKind::SlowReceiver, "host2/nic0"));
    let leaf = &report.ports.iter().find(|port| port.peer == "host2/nic0").unwrap().port;
    assert_eq!(edges(root), [format!("host2/nic0>{leaf}"), format!("{leaf}>host0/nic0")]);
    assert_eq!(report.pauses.roots.len(), 1, "{:?}", report.pauses);
    // it drains 30 of 100 Gb/s, so that its port is paused for some 70 % of the flow's time
    assert!((0.6..0.75).contains(&report.flows[0].paused_share), "{:?}", report.flows[0]);
    assert_eq!((report.flows[0].victim_share, report.flows[1].paused_share), (0.0, 0.0));
}

#[test]
fn pauses_go_through_two_tiers() {
    let report = run(fabric(leaf_spine(), &[(0, 3), (1, 3), (4, 3), (2, 5)]), 1).1;
    let root = main_root(&report);
    assert_eq!(root.kind, RootKind::ReceiverLinkFull);
    let port = |node: &str, peer: &str| {
        let found = report.ports.iter().find(|p| p.node == node && p.peer.starts_with(peer));
        found.unwrap().port.to_string()
    };
    let into = port("leaf1", "host3");
    let (down, up) = (port("spine0", "leaf1"), port("leaf0", "spine0"));
    assert_eq!(root.port, *into);
    for edge in [
        format!("{into}>host4/nic0"),
        format!("{into}>{down}"),
        format!("{down}>{up}"),
        format!("{up}>host0/nic0"),
        format!("{up}>host2/nic0"),
    ] {
        assert!(edges(root).contains(&edge), "{edge} in {:?}", edges(root));
    }
    assert_eq!(root.depth, 3);
    assert!(report.flows[3].victim_share > 0.2, "{:?}", report.flows[3]);
}

#[test]
fn pauses_of_a_storm_begin_at_the_nic_that_has_it() {
    let mut spec = fabric(leaf_spine(), &[(0, 3), (1, 4)]);
    let us = Delta::from_us;
    let storm = PauseStormConfig { from: us(20), until: us(2000), priority: 3 };
    let host = spec.topology.find("host3").unwrap();
    spec.nics[host.index()] =
        Some(Arc::new(NicConfig { pause_storm: Some(storm), ..NicConfig::default() }));
    for shards in [1, 2] {
        let report = run(spec.clone(), shards).1;
        let root = main_root(&report);
        assert_eq!((root.kind, root.port.as_str()), (RootKind::PauseStorm, "host3/nic0"));
        assert_eq!(root.depth, 4);
        let leaf = &root.edges[0];
        // from the storm to its end, whatever else there was
        assert!((leaf.paused_s - 1980e-6).abs() < 5e-6, "{leaf:?}");
        assert_eq!((leaf.episodes, &*leaf.by), (1, "host3/nic0"));
        let victim = &report.flows[1];
        assert_eq!(victim.paused_by.as_deref(), Some("host3/nic0"));
        assert!(victim.victim_share > 0.7, "{victim:?}");
    }
}
