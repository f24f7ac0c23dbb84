//! Which buffers can wait for themselves.

mod common;

use common::{link, spec};
use models::dependency::{Cycle, Traffic, link_failures};
use models::fabric::{self, Plan, Spec};
use models::nic::NicConfig;
use models::switch::SwitchConfig;
use models::topology::{
    FatTreeConfig, GraphConfig, GraphLink, LeafSpineConfig, StaticRoute, TopologyConfig,
};
use models::traffic::{
    After, FlowConfig, FlowSize, FlowsConfig, HostRef, TrafficConfig, Transport,
};
use sim_core::{Bytes, Delta, Rate};

fn planned(spec: Spec) -> Plan {
    fabric::plan(spec, fabric::Shards::Exactly(1)).unwrap()
}

fn flows(pairs: &[(&str, &str)]) -> TrafficConfig {
    let flow = |(source, target): &(&str, &str)| FlowConfig {
        source: HostRef::Name((*source).into()),
        target: HostRef::Name((*target).into()),
        bytes: FlowSize::Bytes(Bytes::new(1000)),
        start: Delta::ZERO,
        after: After::default(),
        window: None,
        rate: None,
        dscp: None,
        source_port: None,
        destination_port: None,
    };
    TrafficConfig::Flows(FlowsConfig {
        name: String::new(),
        flows: pairs.iter().map(flow).collect(),
        file: None,
        dscp: None,
        transport: Transport::Rc,
    })
}

/// Switches in a ring, s0 to s1 by its port 0, each with a host.
fn ring(switches: u32, routes: &[(&str, &str, u32)], pairs: &[(&str, &str)]) -> Spec {
    let link = |a: String, b: String| GraphLink {
        a,
        b,
        rate: Rate::from_gbps(40),
        delay: Delta::from_us(1),
        loss: 0.0,
    };
    let around = (0..switches).map(|i| link(format!("s{i}"), format!("s{}", (i + 1) % switches)));
    let hosts = (0..switches).map(|i| link(format!("h{i}"), format!("s{i}")));
    let graph = GraphConfig {
        hosts: (0..switches).map(|i| format!("h{i}")).collect(),
        switches: (0..switches).map(|i| format!("s{i}")).collect(),
        links: around.chain(hosts).collect(),
        numbered: false,
        routes: vec![],
    };
    let mut spec = spec(
        TopologyConfig::Graph(graph),
        SwitchConfig::default(),
        NicConfig::default(),
        &[flows(pairs)],
        1,
    );
    let fixed = |(node, target, port): &(&str, &str, u32)| StaticRoute {
        node: (*node).into(),
        target: (*target).into(),
        ports: vec![*port],
    };
    spec.routes = routes.iter().map(fixed).collect();
    spec
}

/// The buffers of a round: `s1<s0` is the ingress of s1 from s0.
fn round(plan: &Plan, cycle: &Cycle) -> Vec<String> {
    let topology = &plan.spec.topology;
    let name = |node| topology.node(node).name.as_str();
    let buffers = cycle.round.iter().map(|turn| turn.from.port);
    buffers
        .map(|port| {
            format!("{}<{}", name(topology.port(port).node), name(topology.neighbour(port)))
        })
        .collect()
}

#[test]
fn clos_networks_have_no_cycle() {
    let fat_tree =
        TopologyConfig::FatTree(FatTreeConfig { k: 4, link: link(100, 500), uplink: None });
    let pairs: Vec<(String, String)> = (0..16)
        .flat_map(|i| (0..16).filter(move |j| *j != i).map(move |j| (i, j)))
        .map(|(i, j)| (format!("host{i}"), format!("host{j}")))
        .collect();
    let all: Vec<(&str, &str)> = pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let (switch, nic) = (SwitchConfig::default(), NicConfig::default());
    let plan = planned(spec(fat_tree, switch, nic, &[flows(&all)], 1));
    let traffic = Traffic::new(&plan.spec, &plan.wiring);
    let found = traffic.dependencies(&plan.wiring.routes);
    assert!(found.is_acyclic() && found.loops().is_empty() && found.unreachable() == 0);
    assert!(found.len() > 50, "{} turns", found.len());
    // once all know, no loss of a cable brings a cycle; before, bounces do
    let failures = link_failures(&traffic, &[], |_, _| {}).unwrap();
    assert_eq!(failures.cables, 32);
    for failure in &failures.failures {
        assert!(failure.settled.is_empty() && failure.unreachable == 0);
        let cycle = &failure.transient[0];
        assert!(cycle.cure.valleys, "{cycle:?}");
    }
    assert!(!failures.failures.is_empty());
}

#[test]
fn the_ring_of_hotnets_16_is_a_cycle_of_four() {
    // the long way around: h0 to h3 by s1 and s2, h2 to h1 by s3 and s0; port 0 of s0 leads to s1,
    // port 1 of the others to the next
    let routes = [("s0", "h3", 0), ("s1", "h3", 1), ("s2", "h1", 1), ("s3", "h1", 1)];
    let plan = planned(ring(4, &routes, &[("h0", "h3"), ("h2", "h1")]));
    let traffic = Traffic::new(&plan.spec, &plan.wiring);
    let cycles = traffic.dependencies(&plan.wiring.routes).cycles();
    assert_eq!(cycles.len(), 1);
    assert_eq!(round(&plan, &cycles[0]), ["s0<s3", "s1<s0", "s2<s1", "s3<s2"]);
    // flow 1 (to h1) turns at s0 into s1, and s3 into s0; flow 0 at s1 and s2; answers go back by
    // the short way, h3 to h0 by s3 and s0 alone, and turn nowhere here
    let users: Vec<&[(u32, bool)]> = cycles[0].users.iter().map(|u| &u.first[..]).collect();
    assert_eq!(users, [[(1, false)], [(0, false)], [(0, false)], [(1, false)]]);
    // one turn less opens it; flow 1 makes that turn once: two priorities
    assert_eq!(cycles[0].cure.turns.len(), 1);
    assert!(!cycles[0].cure.valleys);
    assert_eq!(cycles[0].cure.priorities, Some(2));
    // without the second flow nothing waits for itself
    let plan = planned(ring(4, &routes, &[("h0", "h3")]));
    let traffic = Traffic::new(&plan.spec, &plan.wiring);
    assert!(traffic.dependencies(&plan.wiring.routes).is_acyclic());
}

#[test]
fn a_routing_loop_is_named() {
    // three switches hand what is for h2 to each other: s0 to s1, s1 to s2, s2 to s0
    let routes = [("s0", "h2", 0), ("s1", "h2", 1), ("s2", "h2", 1)];
    let plan = planned(ring(3, &routes, &[("h0", "h2")]));
    let traffic = Traffic::new(&plan.spec, &plan.wiring);
    let found = traffic.dependencies(&plan.wiring.routes);
    let names: Vec<&str> = found.loops()[0]
        .switches
        .iter()
        .map(|node| plan.spec.topology.node(*node).name.as_str())
        .collect();
    assert_eq!((found.loops().len(), names), (1, vec!["s0", "s1", "s2"]));
    let cycles = found.cycles();
    assert_eq!(round(&plan, &cycles[0]), ["s0<s2", "s1<s0", "s2<s1"]);
    assert_eq!(cycles[0].cure.priorities, None, "no number of priorities is enough");
}

#[test]
fn lossy_classes_wait_for_nobody() {
    let routes = [("s0", "h3", 0), ("s1", "h3", 1), ("s2", "h1", 1), ("s3", "h1", 1)];
    let mut spec = ring(4, &routes, &[("h0", "h3"), ("h2", "h1")]);
    let mut switch = SwitchConfig::default();
    switch.pfc.priorities.clear();
    let switch = std::sync::Arc::new(switch);
    spec.switches.iter_mut().flatten().for_each(|config| *config = switch.clone());
    spec.switch_ports.iter_mut().flatten().for_each(|config| *config = switch.clone());
    let plan = planned(spec);
    let traffic = Traffic::new(&plan.spec, &plan.wiring);
    assert!(traffic.dependencies(&plan.wiring.routes).is_empty());
}

#[test]
fn a_bounce_after_a_failure_closes_a_cycle_until_the_others_know() {
    let leaf_spine = TopologyConfig::LeafSpine(LeafSpineConfig {
        leaves: 3,
        spines: 2,
        hosts_per_leaf: 1,
        link: link(100, 500),
        uplink: None,
        uplinks_per_spine: 1,
        ports_per_host: 1,
    });
    let pairs = [("host0", "host2"), ("host1", "host2"), ("host2", "host0")];
    let (switch, nic) = (SwitchConfig::default(), NicConfig::default());
    let plan = planned(spec(leaf_spine, switch, nic, &[flows(&pairs)], 1));
    let traffic = Traffic::new(&plan.spec, &plan.wiring);
    let failures = link_failures(&traffic, &[], |_, _| {}).unwrap();
    let topology = &plan.spec.topology;
    let cut = |failure: &models::dependency::Failure| {
        let ends = [failure.port, topology.port(failure.port).peer];
        ends.map(|port| topology.node(topology.port(port).node).name.clone()).join("-")
    };
    // spine0 has lost leaf2 and sends by leaf0 and leaf1, which send it back to either spine
    let failure = failures.failures.iter().find(|f| cut(f) == "leaf2-spine0").unwrap();
    assert!(failure.settled.is_empty());
    let rounds: Vec<Vec<String>> =
        failure.transient.iter().map(|cycle| round(&plan, cycle)).collect();
    assert!(rounds.contains(&vec!["leaf0<spine0".into(), "spine0<leaf0".into()]), "{rounds:?}");
    assert!(failure.loops.iter().any(|l| l.switches.len() == 2));
    // nothing is lost where a spine is left
    assert_eq!((failures.cables, failure.unreachable), (6, 0));
}
