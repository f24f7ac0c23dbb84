//! Small fabrics for tests.

#![allow(dead_code)]

pub(crate) mod programs;

use std::sync::Arc;

use models::collective::NcclConfig;
use models::fabric::{self, MeasureConfig, Outcome, SampleConfig, Spec, StopConfig};
use models::nic::NicConfig;
use models::probe::Probe;
use models::report::{self, Report};
use models::switch::SwitchConfig;
use models::topology::{LinkConfig, NodeKind, Topology, TopologyConfig};
use models::traffic::{self, TrafficConfig};
use models::wire::WireConfig;
use sim_core::{Delta, Rate};

/// A cable of `gbps` and `ns`.
pub(crate) fn link(gbps: u64, ns: u64) -> LinkConfig {
    LinkConfig { rate: Rate::from_gbps(gbps), delay: Delta::from_ns(ns), loss: 0.0 }
}

/// A fabric in which all switches and all NICs are alike.
pub(crate) fn spec(
    topology: TopologyConfig,
    switch: SwitchConfig,
    nic: NicConfig,
    traffic: &[TrafficConfig],
    seed: u64,
) -> Spec {
    let topology = Topology::build(&topology).unwrap();
    let flows = traffic::flows(traffic, &topology, seed).unwrap();
    let (switch, nic) = (Arc::new(switch), Arc::new(nic));
    let is_switch = |kind| kind == NodeKind::Switch;
    let nodes = topology.nodes();
    let switches = nodes.iter().map(|n| is_switch(n.kind).then(|| switch.clone())).collect();
    let nics = nodes.iter().map(|n| (!is_switch(n.kind)).then(|| nic.clone())).collect();
    let ports = topology.ports().iter();
    let switch_ports = ports
        .map(|port| is_switch(topology.node(port.node).kind).then(|| switch.clone()))
        .collect();
    Spec {
        hosts: vec![None; nodes.len()],
        topology: Arc::new(topology),
        routes: vec![],
        wire: WireConfig::default(),
        switches,
        switch_ports,
        nccl: NcclConfig::default(),
        nics,
        flows: flows.into(),
        collectives: vec![],
        trainings: vec![],
        schedules: vec![],
        sections: vec![],
        faults: vec![],
        settings: vec![],
        stop: StopConfig::default(),
        measure: MeasureConfig::default(),
        sample: SampleConfig::default(),
        seed,
    }
}

/// Runs a fabric to its end and checks what must hold always.
pub(crate) fn run(spec: Spec, shards: usize) -> (Outcome, Report) {
    watched::<()>(spec, shards)
}

/// The same, with an observer.
pub(crate) fn watched<P: Probe>(spec: Spec, shards: usize) -> (Outcome<P>, Report) {
    let plan = fabric::plan(spec, fabric::Shards::Exactly(shards)).unwrap();
    let outcome = fabric::run_watched::<P>(&plan, &mut |_| true).unwrap();
    assert_eq!(outcome.violations(), Vec::<String>::new());
    let report = report::make(&outcome, &plan, "test");
    (outcome, report)
}
