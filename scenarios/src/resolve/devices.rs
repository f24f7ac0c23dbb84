//! The configuration of each device, with overrides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use models::BuildError;
use models::fault::{FaultConfig, Settings};
use models::host::HostConfig;
use models::ids::{NodeId, PortId};
use models::nic::NicConfig;
use models::switch::SwitchConfig;
use models::topology::{NodeKind, Topology};
use sim_core::{Delta, Rate, Time};

use super::Place;
use super::layers::{self, Library};
use crate::load::{LoadError, Node, Path, from_node, near_miss};
use crate::schema::{Override, Scenario};

/// The configuration of each device.
pub(super) struct Devices {
    pub(super) switches: Vec<Option<Arc<SwitchConfig>>>,
    pub(super) switch_ports: Vec<Option<Arc<SwitchConfig>>>,
    pub(super) nics: Vec<Option<Arc<NicConfig>>>,
    pub(super) hosts: Vec<Option<Arc<HostConfig>>>,
    /// What faults make of them while they run.
    pub(super) settings: Vec<Settings>,
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
        check_entries(place, scenario, topology)?;
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
            let sections = overridden(library, user, tree, &applying, scenario.overrides.len())?;
            known.insert(applying, sections.clone());
            Ok(sections)
        };
        let named: Vec<Named<'_>> = scenario.overrides.iter().map(Named::new).collect();
        let overrides = || named.iter().enumerate();
        let mut devices = Devices {
            switches: vec![],
            switch_ports: vec![],
            nics: vec![],
            hosts: vec![],
            settings: vec![],
        };
        for (id, node) in topology.nodes().iter().enumerate() {
            let whole = |entry: &Named<'_>| entry.applies_to_whole(&node.name);
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
        let timeline = Timeline::new(scenario);
        for at in timeline.times() {
            let settings = timeline.settings(at, topology, &named, &mut sections)?;
            devices.settings.push(settings);
        }
        Ok(devices)
    }
}

/// The faults of `kind = "set"`, which are overrides for a while.
struct Timeline<'a> {
    /// How many overrides come before them.
    overrides: usize,
    /// Number of the fault, when it holds, and what it applies to.
    sets: Vec<(usize, [Delta; 2], Named<'a>)>,
}

impl<'a> Timeline<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let set = |(index, fault): (usize, &'a FaultConfig)| {
            let FaultConfig::Set(set) = fault else { return None };
            let span = [set.at, set.until.unwrap_or(Delta::MAX)];
            Some((index, span, Named::of(&set.nodes, &set.ports)))
        };
        let sets = scenario.faults.iter().enumerate().filter_map(set).collect();
        Timeline { overrides: scenario.overrides.len(), sets }
    }

    /// When something changes.
    fn times(&self) -> BTreeSet<Delta> {
        let times = self.sets.iter().flat_map(|(_, span, _)| *span);
        times.filter(|time| *time < Delta::MAX).collect()
    }

    /// What the devices have from `at` on that change then.
    fn settings(
        &self,
        at: Delta,
        topology: &Topology,
        overrides: &[Named<'_>],
        sections: &mut impl FnMut(Vec<usize>) -> Result<Sections, LoadError>,
    ) -> Result<Settings, LoadError> {
        let changing = || self.sets.iter().filter(|(_, span, _)| span.contains(&at));
        let mut settings = Settings {
            at: Time::ZERO + at,
            fault: changing().map(|(index, ..)| *index).next().unwrap_or(0),
            switch_ports: Vec::new(),
            nics: Vec::new(),
        };
        let mut of = |applies: &dyn Fn(&Named<'_>) -> bool| -> Result<_, LoadError> {
            if !changing().any(|(.., named)| applies(named)) {
                return Ok(None);
            }
            let before = overrides.iter().enumerate().filter(|(_, entry)| applies(entry));
            let holds = |span: &[Delta; 2]| span[0] <= at && at < span[1];
            let now = self.sets.iter().filter(|(_, span, named)| holds(span) && applies(named));
            let applying = before.map(|(index, _)| index);
            let applying = applying.chain(now.map(|(index, ..)| self.overrides + index));
            sections(applying.collect()).map(Some)
        };
        for (id, node) in (0..).map(NodeId).zip(topology.nodes()) {
            if node.kind == NodeKind::Switch {
                for port in topology.ports_of(id) {
                    if let Some((switch, ..)) = of(&|entry| entry.applies_to(topology, port))? {
                        settings.switch_ports.push((port, switch));
                    }
                }
            } else if let Some((_, nic, _)) = of(&|entry| entry.applies_to_whole(&node.name))? {
                settings.nics.push((id, nic));
            }
        }
        Ok(settings)
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
        Named { rate: entry.rate, ..Named::of(&entry.nodes, &entry.ports) }
    }

    fn of(nodes: &'a [String], ports: &'a [String]) -> Self {
        Named {
            nodes: nodes.iter().map(String::as_str).collect(),
            ports: ports.iter().map(String::as_str).collect(),
            rate: None,
        }
    }

    /// Whether it applies to a node, not to single ports.
    fn applies_to_whole(&self, node: &str) -> bool {
        let named = self.nodes.is_empty() || self.nodes.contains(node);
        named && self.ports.is_empty() && self.rate.is_none()
    }

    fn applies_to(&self, topology: &Topology, port: PortId) -> bool {
        let info = topology.port(port);
        let node = topology.node(info.node).name.as_str();
        self.rate.is_none_or(|rate| rate == info.rate)
            && (self.nodes.is_empty() || self.nodes.contains(node))
            && (self.ports.is_empty() || self.ports.contains(topology.port_name(port).as_str()))
    }
}

/// The sections with these overrides applied; from the number `overrides` on they are faults.
fn overridden(
    library: &mut Library<'_>,
    user: &Node,
    tree: &Node,
    applying: &[usize],
    overrides: usize,
) -> Result<Sections, LoadError> {
    let mut changed = user.clone();
    for index in applying {
        let path = match index.checked_sub(overrides) {
            Some(fault) => format!("fault[{fault}].set"),
            None => format!("override[{index}].set"),
        };
        let path = Path::parse(&path)?;
        let Some(set) = tree.at(&path).and_then(Node::as_table) else { continue };
        for entry in set {
            let path = Path::parse_at(&entry.key, entry.key_origin)?;
            // both in one place is a mistake, which is told later
            let both = layers::rival(&entry.key).is_some_and(|rival| set.get(&rival).is_some());
            match both {
                true => changed.set(&path, entry.node.clone())?,
                false => layers::set(&mut changed, &path, entry.node.clone())?,
            }
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

/// An override, or a fault that sets keys, before it is applied.
struct Entry<'a> {
    path: String,
    nodes: &'a [String],
    ports: &'a [String],
    /// Sections whose keys it may set.
    allowed: &'static [&'static str],
}

impl<'a> Entry<'a> {
    fn all(scenario: &'a Scenario) -> Vec<Self> {
        let overrides = scenario.overrides.iter().enumerate().map(|(index, entry)| {
            let port_wise = !entry.ports.is_empty() || entry.rate.is_some();
            let allowed: &[&str] = if port_wise { &["switch"] } else { &["switch", "nic", "host"] };
            let path = format!("override[{index}]");
            Entry { path, nodes: &entry.nodes, ports: &entry.ports, allowed }
        });
        let faults = scenario.faults.iter().enumerate().filter_map(|(index, fault)| {
            let FaultConfig::Set(set) = fault else { return None };
            let allowed: &[&str] =
                if set.ports.is_empty() { &["switch", "nic"] } else { &["switch"] };
            let path = format!("fault[{index}]");
            Some(Entry { path, nodes: &set.nodes, ports: &set.ports, allowed })
        });
        overrides.chain(faults).collect()
    }
}

/// Overrides, and faults that set keys, must name what exists, and change devices only.
fn check_entries(place: &Place, scenario: &Scenario, topology: &Topology) -> Result<(), LoadError> {
    let entries = Entry::all(scenario);
    if entries.is_empty() {
        return Ok(());
    }
    let node_names: Vec<&str> = topology.nodes().iter().map(|node| node.name.as_str()).collect();
    let ports: Vec<String> = match entries.iter().any(|entry| !entry.ports.is_empty()) {
        true => (0..topology.ports().len() as u32).map(|p| topology.port_name(PortId(p))).collect(),
        false => Vec::new(),
    };
    let port_names: Vec<&str> = ports.iter().map(String::as_str).collect();
    let sets = [&node_names, &port_names].map(|names| names.iter().copied().collect());
    let [node_set, port_set]: [BTreeSet<&str>; 2] = sets;
    for Entry { path, nodes, ports, allowed } in &entries {
        let fail = |key: String, message: String| Err(place.locate(BuildError::new(key, message)));
        for (field, given, known, set) in
            [("nodes", nodes, &node_names, &node_set), ("ports", ports, &port_names, &port_set)]
        {
            for (position, name) in given.iter().enumerate() {
                if !set.contains(name.as_str()) {
                    let hint = near_miss(name, known.iter().copied())
                        .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                    let what = field.trim_end_matches('s');
                    let key = format!("{path}.{field}[{position}]");
                    return fail(key, format!("there is no {what} `{name}`{hint}"));
                }
            }
        }
        let table = place.tree.at(&Path::parse(&format!("{path}.set"))?);
        for key in table.and_then(Node::as_table).into_iter().flatten() {
            let section = key.key.split('.').next().unwrap_or("");
            if !allowed.contains(&section) {
                let what = if path.starts_with("fault") { "a fault" } else { "an override" };
                let message = format!("{what} sets keys of `{}`", allowed.join("` or `"));
                let error = LoadError::new(message).at(key.key_origin);
                return Err(error.within(&format!("{path}.set")));
            }
        }
    }
    Ok(())
}
