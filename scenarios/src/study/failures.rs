//! The axis of failures: each single cable, NIC, leaf or spine down, one at a time.

use std::collections::BTreeMap;

use models::fault::FaultConfig;
use models::ids::PortId;
use models::topology::{NodeKind, Topology};
use sim_core::Delta;

use super::axis::{Axis, Domain, Level};
use crate::load::{LoadError, Node, suggestion};
use crate::resolve::Loaded;

/// What breaks, and when.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    kinds: Vec<Kind>,
    at: Delta,
    reroute: Delta,
}

/// Kinds of things that break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A cable between switches.
    Links,
    /// All cables of a NIC.
    Nics,
    /// A switch with hosts.
    Leaves,
    /// A switch without hosts.
    Spines,
}

const KINDS: [(&str, Kind); 4] = [
    ("links", Kind::Links),
    ("nics", Kind::Nics),
    ("leaves", Kind::Leaves),
    ("spines", Kind::Spines),
];

impl Broken {
    /// Reads `{ failures = ["links"], at = "1ms", reroute = "50ms" }`.
    pub(super) fn read(node: &Node) -> Result<Broken, LoadError> {
        let Some(list) = node.get("failures") else {
            return Err(LoadError::new("`failures` is missing"));
        };
        let names = KINDS.map(|(name, _)| name);
        let kind = |value: &Node| {
            let word = value.as_text().unwrap_or("");
            KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind).ok_or_else(|| {
                let what = value.value.describe();
                let message = format!("{what} does not fail here{}", suggestion(word, &names));
                LoadError::new(message).at(value.origin).within("failures")
            })
        };
        let values = list.as_array().filter(|values| !values.is_empty()).ok_or_else(|| {
            let message = format!("a list of {} is expected", names.join(", "));
            LoadError::new(message).at(list.origin).within("failures")
        })?;
        let kinds: Result<Vec<Kind>, LoadError> = values.iter().map(kind).collect();
        let span = |key: &str| match node.get(key) {
            None => Ok(Delta::ZERO),
            Some(value) => value.as_text().and_then(|text| text.parse().ok()).ok_or_else(|| {
                let message = format!("{}: a time such as \"1ms\"", value.value.describe());
                LoadError::new(message + " is expected").at(value.origin).within(key)
            }),
        };
        Ok(Broken { kinds: kinds?, at: span("at")?, reroute: span("reroute")? })
    }

    /// All kinds from the start of a run on, with routes that have already changed.
    pub(super) fn everything() -> Broken {
        let kinds = KINDS.map(|(_, kind)| kind).to_vec();
        Broken { kinds, at: Delta::ZERO, reroute: Delta::ZERO }
    }
}

/// One level for nothing that fails, and one for each that may.
pub(super) fn axis(name: &str, broken: &Broken, base: &Loaded) -> Axis {
    let topology = &base.spec.topology;
    let none = Level { label: "none".into(), quantity: None, settings: Vec::new() };
    let mut levels = vec![none];
    let known = base.array_of("fault");
    for kind in &broken.kinds {
        for (label, ports) in cases(topology, *kind) {
            if ports.iter().all(|port| is_out(base, *port)) {
                continue;
            }
            let down = |port: &PortId| {
                let link = topology.port_name(*port);
                let (at, reroute) = (broken.at.ps(), broken.reroute.ps());
                format!(
                    "{{ kind = \"link-down\", link = \"{link}\", at = \"{at}ps\", \
                     reroute = \"{reroute}ps\" }}"
                )
            };
            let faults: Vec<String> = known.iter().cloned().chain(ports.iter().map(down)).collect();
            let settings = vec![("fault".to_owned(), format!("[{}]", faults.join(", ")))];
            levels.push(Level { label, quantity: None, settings });
        }
    }
    let domain = Domain::Levels(levels);
    Axis { name: name.to_owned(), unit: None, log: false, failures: true, domain }
}

/// Whether the scenario itself has a cable down from the start to the end.
fn is_out(base: &Loaded, port: PortId) -> bool {
    let topology = &base.spec.topology;
    let ends = [port, topology.port(port).peer].map(|port| topology.port_name(port));
    base.scenario.faults.iter().any(|fault| match fault {
        FaultConfig::LinkDown(down) => {
            ends.contains(&down.link) && down.at == Delta::ZERO && down.until.is_none()
        }
        _ => false,
    })
}

/// What is called so, and the ports whose cables are down then.
fn cases(topology: &Topology, kind: Kind) -> Vec<(String, Vec<PortId>)> {
    let is_switch = |port: PortId| topology.node(topology.port(port).node).kind == NodeKind::Switch;
    let ports = (0..topology.ports().len() as u32).map(PortId);
    match kind {
        Kind::Links => ports
            .filter(|port| *port < topology.port(*port).peer)
            .filter(|port| is_switch(*port) && is_switch(topology.port(*port).peer))
            .map(|port| {
                let peer = topology.port_name(topology.port(port).peer);
                (format!("link {}-{peer}", topology.port_name(port)), vec![port])
            })
            .collect(),
        Kind::Nics => {
            let mut nics: BTreeMap<String, (PortId, Vec<PortId>)> = BTreeMap::new();
            for port in ports.filter(|port| !is_switch(*port)) {
                let name = topology.port_name(port);
                let nic = name.rsplit_once(':').map_or(&*name, |(nic, _)| nic);
                nics.entry(format!("nic {nic}")).or_insert((port, Vec::new())).1.push(port);
            }
            let mut nics: Vec<(String, (PortId, Vec<PortId>))> = nics.into_iter().collect();
            nics.sort_by_key(|(_, (first, _))| *first);
            nics.into_iter().map(|(name, (_, ports))| (name, ports)).collect()
        }
        Kind::Leaves | Kind::Spines => {
            let with_hosts =
                |node| topology.ports_of(node).any(|port| !is_switch(topology.port(port).peer));
            let switches = topology.switches();
            let wanted = switches.filter(|node| with_hosts(*node) == (kind == Kind::Leaves));
            let what = if kind == Kind::Leaves { "leaf" } else { "spine" };
            wanted
                .map(|node| {
                    let name = format!("{what} {}", topology.node(node).name);
                    (name, topology.ports_of(node).collect())
                })
                .collect()
        }
    }
}
