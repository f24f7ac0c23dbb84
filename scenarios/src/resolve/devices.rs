//! The configuration of each device, with overrides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use models::BuildError;
use models::host::HostConfig;
use models::ids::{NodeId, PortId};
use models::nic::NicConfig;
use models::switch::SwitchConfig;
use models::topology::{NodeKind, Topology};
use sim_core::Rate;

use super::Place;
use super::layers::Library;
use crate::load::{LoadError, Node, Path, from_node, near_miss};
use crate::schema::{Override, Scenario};

/// The configuration of each device.
pub(super) struct Devices {
    pub(super) switches: Vec<Option<Arc<SwitchConfig>>>,
    pub(super) switch_ports: Vec<Option<Arc<SwitchConfig>>>,
    pub(super) nics: Vec<Option<Arc<NicConfig>>>,
    pub(super) hosts: Vec<Option<Arc<HostConfig>>>,
}

/// The sections that overrides can change.
type Sections = (Arc<SwitchConfig>, Arc<NicConfig>, Option<Arc<HostConfig>>);

impl Devices {
    pub(super) fn resolve(
        library: &mut Library<'_>,
        user: &Node,
        place: &Place,
        scenario: &Scenario,
        topology: &Topology,
    ) -> Result<Self, LoadError> {
        check_overrides(place, &scenario.overrides, topology)?;
        let tree = &place.tree;
        let base = (
            Arc::new(scenario.switch.clone()),
            Arc::new(scenario.nic.clone()),
            scenario.host.clone().map(Arc::new),
        );
        let mut known: BTreeMap<Vec<usize>, Sections> = BTreeMap::from([(Vec::new(), base)]);
        let mut sections = |applying: Vec<usize>| -> Result<Sections, LoadError> {
            if let Some(sections) = known.get(&applying) {
                return Ok(sections.clone());
            }
            let sections = overridden(library, user, tree, &applying)?;
            known.insert(applying, sections.clone());
            Ok(sections)
        };
        let named: Vec<Named<'_>> = scenario.overrides.iter().map(Named::new).collect();
        let overrides = || named.iter().enumerate();
        let mut devices =
            Devices { switches: vec![], switch_ports: vec![], nics: vec![], hosts: vec![] };
        for (id, node) in topology.nodes().iter().enumerate() {
            let whole = |entry: &Named<'_>| {
                let named = entry.nodes.is_empty() || entry.nodes.contains(node.name.as_str());
                named && entry.ports.is_empty() && entry.rate.is_none()
            };
            let applying = overrides().filter(|(_, entry)| whole(entry)).map(|(i, _)| i).collect();
            let (switch, nic, host) = sections(applying)?;
            let is_switch = node.kind == NodeKind::Switch;
            devices.switches.push(is_switch.then_some(switch));
            devices.nics.push((!is_switch).then_some(nic));
            devices.hosts.push(host.filter(|_| !is_switch));
            for port in topology.ports_of(NodeId(id as u32)) {
                let applies = |entry: &Named<'_>| entry.applies_to(topology, port);
                let applying =
                    overrides().filter(|(_, entry)| applies(entry)).map(|(i, _)| i).collect();
                let switch = if is_switch { Some(sections(applying)?.0) } else { None };
                devices.switch_ports.push(switch);
            }
        }
        Ok(devices)
    }
}

/// The overrides that apply to a port, or to the device that it belongs to, by number.
pub(super) fn applying(overrides: &[Override], topology: &Topology, port: PortId) -> Vec<usize> {
    let entries = overrides.iter().map(Named::new).enumerate();
    let applying = entries.filter(|(_, entry)| entry.applies_to(topology, port));
    applying.map(|(index, _)| index).collect()
}

/// What an override applies to.
struct Named<'a> {
    nodes: BTreeSet<&'a str>,
    ports: BTreeSet<&'a str>,
    rate: Option<Rate>,
}

impl<'a> Named<'a> {
    fn new(entry: &'a Override) -> Self {
        Named {
            nodes: entry.nodes.iter().map(String::as_str).collect(),
            ports: entry.ports.iter().map(String::as_str).collect(),
            rate: entry.rate,
        }
    }

    fn applies_to(&self, topology: &Topology, port: PortId) -> bool {
        let info = topology.port(port);
        let node = topology.node(info.node).name.as_str();
        self.rate.is_none_or(|rate| rate == info.rate)
            && (self.nodes.is_empty() || self.nodes.contains(node))
            && (self.ports.is_empty() || self.ports.contains(topology.port_name(port).as_str()))
    }
}

/// The sections with these overrides applied.
fn overridden(
    library: &mut Library<'_>,
    user: &Node,
    tree: &Node,
    applying: &[usize],
) -> Result<Sections, LoadError> {
    let mut changed = user.clone();
    for index in applying {
        let path = Path::parse(&format!("override[{index}].set"))?;
        let Some(set) = tree.at(&path).and_then(Node::as_table) else { continue };
        for entry in set {
            let path = Path::parse_at(&entry.key, entry.key_origin)?;
            changed.set(&path, entry.node.clone())?;
        }
    }
    let expanded = library.expand(&changed)?;
    let section = |key: &str| expanded.get(key).cloned().unwrap_or_else(|| expanded.clone());
    let switch = from_node(&section("switch"), "switch")?;
    let nic = from_node(&section("nic"), "nic")?;
    let host = match expanded.get("host") {
        Some(host) => Some(Arc::new(from_node(host, "host")?)),
        None => None,
    };
    Ok((Arc::new(switch), Arc::new(nic), host))
}

/// Overrides must name what exists, and change devices only.
fn check_overrides(
    place: &Place,
    overrides: &[Override],
    topology: &Topology,
) -> Result<(), LoadError> {
    if overrides.is_empty() {
        return Ok(());
    }
    let node_names: Vec<&str> = topology.nodes().iter().map(|node| node.name.as_str()).collect();
    let ports: Vec<String> = match overrides.iter().any(|entry| !entry.ports.is_empty()) {
        true => (0..topology.ports().len() as u32).map(|p| topology.port_name(PortId(p))).collect(),
        false => Vec::new(),
    };
    let port_names: Vec<&str> = ports.iter().map(String::as_str).collect();
    let sets = [&node_names, &port_names].map(|names| names.iter().copied().collect());
    let [node_set, port_set]: [BTreeSet<&str>; 2] = sets;
    for (index, entry) in overrides.iter().enumerate() {
        let fail = |key: String, message: String| Err(place.locate(BuildError::new(key, message)));
        for (field, given, known, set) in [
            ("nodes", &entry.nodes, &node_names, &node_set),
            ("ports", &entry.ports, &port_names, &port_set),
        ] {
            for (position, name) in given.iter().enumerate() {
                if !set.contains(name.as_str()) {
                    let hint = near_miss(name, known.iter().copied())
                        .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                    let what = field.trim_end_matches('s');
                    let key = format!("override[{index}].{field}[{position}]");
                    return fail(key, format!("there is no {what} `{name}`{hint}"));
                }
            }
        }
        let port_wise = !entry.ports.is_empty() || entry.rate.is_some();
        let table = place.tree.at(&Path::parse(&format!("override[{index}].set"))?);
        for key in table.and_then(Node::as_table).into_iter().flatten() {
            let allowed: &[&str] = if port_wise { &["switch"] } else { &["switch", "nic", "host"] };
            let section = key.key.split('.').next().unwrap_or("");
            if !allowed.contains(&section) {
                let message = format!("an override sets keys of `{}`", allowed.join("` or `"));
                let error = LoadError::new(message).at(key.key_origin);
                return Err(error.within(&format!("override[{index}].set")));
            }
        }
    }
    Ok(())
}
