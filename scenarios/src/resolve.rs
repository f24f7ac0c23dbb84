//! From a file, presets, `--set` and overrides to one checked scenario.
//!
//! Order of precedence, the last one wins: the generic presets, the scenario's `preset`, the
//! presets of `switch`, `nic` and `nic.congestion`, the file, `--set`; for single devices
//! `[[override]]`, in the order of the file.

use std::collections::BTreeMap;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use models::BuildError;
use models::collective::explain_variable;
use models::fabric::Spec;
use models::host::{HostConfig, nics};
use models::ids::{NodeId, PortId};
use models::nic::NicConfig;
use models::switch::SwitchConfig;
use models::topology::{NicLayout, NodeKind, Topology, TopologyConfig};
use models::traffic::{self, FlowConfig, TrafficConfig};

use crate::library::{self, Kind};
use crate::load::{
    LoadError, Node, Origin, Path, SourceId, Sources, Table, Value, assignment, from_node,
    near_miss, parse, to_toml,
};
use crate::schema::{Override, Scenario};
use crate::sweep::Sweep;

/// A scenario that can be simulated.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Name of the file without its ending, or of the library's entry.
    pub name: String,
    /// The keys.
    pub scenario: Scenario,
    /// What the model needs; of a sweep, the first size.
    pub spec: Spec,
    /// The sizes of its collectives.
    pub sweep: Sweep,
    /// The scenario with presets expanded, as TOML.
    pub resolved: String,
    /// Files that it names, as (name, text): they belong into a run directory.
    pub files: Vec<(String, String)>,
    /// The texts that keys came from.
    pub sources: Sources,
    place: Place,
    origin: Found,
    options: LoadOptions,
}

/// What goes with the file.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// `path=value`, as given to `--set`.
    pub set: Vec<String>,
    /// Instead of the scenario's own.
    pub seed: Option<u64>,
}

/// A message for the user: what is wrong, where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Complaint(pub String);

/// Loads a scenario: a file, or the name of one in the library.
pub fn load(name: &str, options: &LoadOptions) -> Result<Loaded, Complaint> {
    load_found(read(name)?, options)
}

fn load_found(found: Found, options: &LoadOptions) -> Result<Loaded, Complaint> {
    let mut sources = Sources::default();
    let loaded = load_text(&mut sources, &found, options);
    let mut loaded = loaded.map_err(|error| Complaint(error.render(&sources)))?;
    loaded.sources = sources;
    Ok(loaded)
}

/// The text of a scenario and where it is from.
#[derive(Clone, Debug)]
struct Found {
    text: String,
    /// Name of the file without its ending, or of the library's entry.
    name: String,
    /// Where files that it names are.
    folder: Option<PathBuf>,
    /// As messages call it.
    label: String,
}

fn read(name: &str) -> Result<Found, Complaint> {
    let path = FsPath::new(name);
    let looks_like_file = name.contains(['/', '\\']) || path.extension().is_some();
    if !path.is_file() && !looks_like_file {
        if let Some(entry) = library::find(Kind::Scenario, name) {
            let label = format!("{name}.toml (built in)");
            let (text, name) = (entry.text.to_owned(), name.to_owned());
            return Ok(Found { text, name, folder: None, label });
        }
        let names = library::names(Kind::Scenario);
        let hint = match near_miss(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("built in are {}", names.join(", ")),
        };
        let message = format!("error: there is no file and no built-in scenario {name:?}; {hint}");
        return Err(Complaint(message));
    }
    let text = read_file(path).map_err(|why| Complaint(format!("error: {why}")))?;
    let title = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy().into_owned());
    let folder = path.parent().map(FsPath::to_owned);
    Ok(Found { text, name: title, folder, label: name.to_owned() })
}

/// Larger files are refused before they are read.
const FILE_MAX: u64 = 256 << 20;

fn read_file(path: &FsPath) -> Result<String, String> {
    let name = path.display();
    let length = std::fs::metadata(path).map_err(|error| format!("{name}: {error}"))?.len();
    if length > FILE_MAX {
        return Err(format!("{name}: {length} bytes are more than the {FILE_MAX} that are read"));
    }
    let bytes = std::fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{name}:{line}: this is no UTF-8 text")
    })
}

fn load_text(
    sources: &mut Sources,
    found: &Found,
    options: &LoadOptions,
) -> Result<Loaded, LoadError> {
    let folder = found.folder.as_deref();
    let mut user = parse(sources, &found.label, &found.text)?;
    for argument in &options.set {
        let (path, value) = assignment(sources, argument)?;
        user.set(&path, value)?;
    }
    if let Some(seed) = options.seed {
        let (path, value) = assignment(sources, &format!("seed={seed}"))?;
        user.set(&path, value)?;
    }
    let mut library = Library { sources, root: user.origin, trees: BTreeMap::new() };
    let tree = library.expand(&user)?;
    explain_variables(&tree)?;
    let mut scenario: Scenario = from_node(&tree, "")?;
    let mut place = Place { tree, presets: library.preset_sources() };
    let files = inline_flows(&mut scenario, folder, &mut place)?;
    let locate = |error: BuildError| place.locate(error);
    let mut topology = Topology::build(&scenario.topology).map_err(locate)?;
    let devices = Devices::resolve(&mut library, &user, &place, &scenario, &topology)?;
    lay_out_nics(&mut topology, &devices.hosts).map_err(locate)?;
    let presets = library.preset_sources();
    let flows = traffic::flows(&scenario.traffic, &topology, scenario.seed);
    let flows = flows.map_err(|error| locate(in_file(error, &scenario.traffic)))?;
    let sweep = Sweep::new(&scenario.traffic).map_err(locate)?;
    let unlimited = flows.iter().find(|flow| flow.bytes.is_none());
    let ends_with_others = scenario.stop.after_last_flow.is_some()
        && (sweep.has_collectives() || flows.iter().any(|flow| flow.bytes.is_some()));
    let stop = scenario.stop.after.or(scenario.stop.limit);
    if let (Some(flow), None, false) = (unlimited, stop, ends_with_others) {
        let key = format!("traffic[{}].bytes", flow.section);
        let message = "an unlimited flow never ends: `stop.after` is expected, as in \
                       stop.after = \"20ms\"";
        return Err(locate(BuildError::new(key, message)));
    }
    let routes = match &scenario.topology {
        TopologyConfig::Graph(graph) => graph.routes.clone(),
        _ => Vec::new(),
    };
    let spec = Spec {
        topology,
        routes,
        wire: scenario.wire.clone(),
        switches: devices.switches,
        switch_ports: devices.switch_ports,
        nics: devices.nics,
        hosts: devices.hosts,
        nccl: scenario.nccl.clone(),
        flows,
        collectives: sweep.collectives(0),
        sections: section_names(&scenario.traffic),
        stop: scenario.stop,
        measure: scenario.measure,
        sample: scenario.sample.clone(),
        seed: scenario.seed,
    };
    crate::expect::check_names(&place.tree, &spec.topology)?;
    let resolved = to_toml(&place.tree);
    let place = Place { presets, ..place };
    Ok(Loaded {
        name: found.name.clone(),
        scenario,
        spec,
        sweep,
        resolved,
        files,
        sources: Sources::default(),
        place,
        origin: found.clone(),
        options: options.clone(),
    })
}

impl Loaded {
    /// The same scenario with further keys set.
    pub fn with(&self, set: &[String]) -> Result<Loaded, Complaint> {
        let mut options = self.options.clone();
        options.set.extend_from_slice(set);
        load_found(self.origin.clone(), &options)
    }

    /// What the model needs for one run of the sweep.
    pub fn spec_of(&self, run: usize) -> Spec {
        Spec { collectives: self.sweep.collectives(run), ..self.spec.clone() }
    }

    /// The message for an error that the model found while it was built.
    pub fn complaint(&self, error: BuildError) -> Complaint {
        Complaint(self.place.locate(error).render(&self.sources))
    }

    /// Where a key stands, for messages: `scenario.toml:14`.
    pub fn location(&self, key: &str) -> Option<String> {
        Some(self.sources.location(self.place.nearest_origin(key)?))
    }
}

/// The expanded tree, and which of its keys the user wrote.
#[derive(Clone, Debug)]
struct Place {
    tree: Node,
    presets: Vec<SourceId>,
}

impl Place {
    /// Gives a model's error the place of its key.
    fn locate(&self, error: BuildError) -> LoadError {
        let origin = self.nearest_origin(&error.key);
        LoadError { message: error.message, path: Some(error.key), origin, help: None }
    }

    /// The origin of the deepest part of `key` that the user wrote.
    fn nearest_origin(&self, key: &str) -> Option<Origin> {
        let mut key = key;
        loop {
            let node = Path::parse(key).ok().and_then(|path| self.tree.at(&path));
            if let Some(node) = node
                && !self.presets.contains(&node.origin.source)
            {
                return Some(node.origin);
            }
            match key.rfind(['.', '[']) {
                Some(end) => key = &key[..end],
                None => return Some(self.tree.origin),
            }
        }
    }
}

/// Presets as trees, parsed when they are first used.
struct Library<'a> {
    sources: &'a mut Sources,
    /// Stands for the user's file as a whole.
    root: Origin,
    trees: BTreeMap<(Kind, &'static str), Node>,
}

impl Library<'_> {
    /// The tree of a preset; `node` is the key that names it.
    fn preset(&mut self, kind: Kind, node: &Node) -> Result<Node, LoadError> {
        let key = kind.name();
        let Value::Text(name) = &node.value else {
            let message = format!("{} is no name of a preset", node.value.describe());
            return Err(LoadError::new(message).within(key).at(node.origin));
        };
        let Some(entry) = library::find(kind, name) else {
            let names = library::names(kind);
            let hint = crate::load::suggestion(name, &names);
            let message = format!("there is no preset `{name}`{hint}");
            return Err(LoadError::new(message).within(key).at(node.origin));
        };
        if let Some(tree) = self.trees.get(&(kind, entry.name)) {
            return Ok(tree.clone());
        }
        let label = format!("preset {}", entry.name);
        let tree = parse(self.sources, &label, entry.text)?;
        self.trees.insert((kind, entry.name), tree.clone());
        Ok(tree)
    }

    fn generic(&mut self, kind: Kind) -> Result<Node, LoadError> {
        let name = Node::new(Value::Text("generic".into()), self.root);
        self.preset(kind, &name)
    }

    fn preset_sources(&self) -> Vec<SourceId> {
        self.trees.values().map(|tree| tree.origin.source).collect()
    }

    /// The user's tree over all presets that it names.
    fn expand(&mut self, user: &Node) -> Result<Node, LoadError> {
        let mut upper = user.clone();
        let origin = upper.origin;
        let empty = || Node::new(Value::Table(Table::new()), origin);
        let mut tree = match take(&mut upper, "preset") {
            Some(name) => self.preset(Kind::ScenarioPreset, &name)?,
            None => empty(),
        };
        for (section, kind) in [("switch", Kind::SwitchPreset), ("nic", Kind::NicPreset)] {
            let mut lower = self.generic(kind)?;
            for layer in [&mut tree, &mut upper] {
                if let Some(layer) = take(layer, section) {
                    self.add_layer(&mut lower, layer, kind)?;
                }
            }
            put(&mut tree, section, lower);
        }
        // there are servers only where one is described
        let layers: Vec<Node> =
            [&mut tree, &mut upper].into_iter().filter_map(|layer| take(layer, "host")).collect();
        if !layers.is_empty() {
            let mut lower = self.generic(Kind::HostPreset)?;
            for layer in layers {
                self.add_layer(&mut lower, layer, Kind::HostPreset)?;
            }
            put(&mut tree, "host", lower);
        }
        lay_over(&mut tree, upper);
        Ok(tree)
    }

    /// Lays a section over `lower`, the presets that it names first.
    fn add_layer(
        &mut self,
        lower: &mut Node,
        mut upper: Node,
        kind: Kind,
    ) -> Result<(), LoadError> {
        if let Some(name) = take(&mut upper, "preset") {
            let preset = self.preset(kind, &name)?;
            self.add_layer(lower, preset, kind)?;
        }
        if let Some(mut congestion) = take(&mut upper, "congestion") {
            if let Some(name) = take(&mut congestion, "preset") {
                let mut preset = self.preset(Kind::CongestionPreset, &name)?;
                let mut section = Node::new(Value::Table(Table::new()), preset.origin);
                // such a preset may also set keys of the notification point
                if let Some(np) = take(&mut preset, "np") {
                    put(&mut section, "np", np);
                }
                put(&mut section, "congestion", preset);
                lay_over(lower, section);
            }
            put(&mut upper, "congestion", congestion);
        }
        lay_over(lower, upper);
        Ok(())
    }
}

/// Removes a key from a table.
fn take(node: &mut Node, key: &str) -> Option<Node> {
    node.as_table_mut()?.remove(key).map(|entry| entry.node)
}

fn put(node: &mut Node, key: &str, value: Node) {
    let origin = value.origin;
    if let Some(table) = node.as_table_mut() {
        table.insert(key, origin, value);
    }
}

/// Pairs of keys of which one replaces the other.
const RIVALS: [(&str, &str); 2] = [("dynamic_th", "static_th"), ("static_th", "dynamic_th")];

/// Overlays `upper` on `lower`; a key also replaces its rival.
fn lay_over(lower: &mut Node, upper: Node) {
    drop_rivals(lower, &upper);
    lower.overlay(upper);
}

fn drop_rivals(lower: &mut Node, upper: &Node) {
    let (Some(lower), Some(upper)) = (lower.as_table_mut(), upper.as_table()) else { return };
    for (given, rival) in RIVALS {
        if upper.get(given).is_some() {
            lower.remove(rival);
        }
    }
    for entry in upper {
        if let Some(below) = lower.get_mut(&entry.key) {
            drop_rivals(below, &entry.node);
        }
    }
}

/// What each section is called in a path: `.storage`, or `[1]` if its name is missing or shared.
fn section_names(sections: &[TrafficConfig]) -> Vec<String> {
    let names: Vec<&str> = sections.iter().map(TrafficConfig::name).collect();
    let plain = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    let called = |(index, name): (usize, &&str)| {
        let unique = names.iter().filter(|other| *other == name).count() == 1;
        if unique && plain(name) { format!(".{name}") } else { format!("[{index}]") }
    };
    names.iter().enumerate().map(called).collect()
}

/// Refuses variables of NCCL's that were removed or change nothing here, and says so.
fn explain_variables(tree: &Node) -> Result<(), LoadError> {
    let Some(nccl) = tree.get("nccl").and_then(Node::as_table) else { return Ok(()) };
    for entry in nccl {
        if let Some(why) = explain_variable(&entry.key) {
            return Err(LoadError::new(why)
                .at(entry.key_origin)
                .within(&format!("nccl.{}", entry.key)));
        }
    }
    Ok(())
}

/// Gives the hosts the NICs that they are described with.
fn lay_out_nics(
    topology: &mut Topology,
    hosts: &[Option<Arc<HostConfig>>],
) -> Result<(), BuildError> {
    let mut layouts: Vec<Option<Vec<NicLayout>>> = Vec::new();
    for (id, config) in (0..).map(NodeId).zip(hosts) {
        let layout = match config {
            Some(config) => {
                let plans = nics(config, topology.ports_of(id).count() as u32)?;
                Some(plans.iter().map(|nic| nic.layout()).collect())
            }
            None => None,
        };
        layouts.push(layout);
    }
    topology.set_nics(|host| layouts[host.index()].as_deref());
    Ok(())
}

/// Reads the flows of CSV files; returns these under the names that they will have in a run
/// directory, which the tree gets too.
fn inline_flows(
    scenario: &mut Scenario,
    folder: Option<&FsPath>,
    place: &mut Place,
) -> Result<Vec<(String, String)>, LoadError> {
    let mut files = Vec::new();
    for (index, section) in scenario.traffic.iter_mut().enumerate() {
        let TrafficConfig::Flows(list) = section else { continue };
        let Some(file) = &list.file else { continue };
        let path = folder.unwrap_or(FsPath::new(".")).join(file);
        let key = format!("traffic[{index}].file");
        let text = read_file(&path).map_err(|why| place.locate(BuildError::new(key, why)))?;
        list.flows.extend(flow_rows(&text, &path.display().to_string(), place.tree.origin)?);
        let base = path.file_name().map_or(file.clone(), |n| n.to_string_lossy().into_owned());
        let plain = base.split_once('-').filter(|(number, _)| number.parse::<usize>().is_ok());
        let name = format!("inputs/{index}-{}", plain.map_or(base.as_str(), |(_, plain)| plain));
        let path = Path::parse(&format!("traffic[{index}].file"))?;
        let origin = place.tree.at(&path).map_or(place.tree.origin, |node| node.origin);
        place.tree.set(&path, Node::new(Value::Text(name.clone()), origin))?;
        files.push((name, text));
    }
    Ok(files)
}

/// Names the file and the flow where the model found an error in a flow of a CSV file.
fn in_file(error: BuildError, sections: &[TrafficConfig]) -> BuildError {
    let parts = error.key.strip_prefix("traffic[").and_then(|rest| {
        let (section, rest) = rest.split_once("].flows[")?;
        let (number, field) = rest.split_once("].")?;
        Some((section.parse::<usize>().ok()?, number.parse::<usize>().ok()?, field))
    });
    let Some((section, number, field)) = parts else { return error };
    let file = match sections.get(section) {
        Some(TrafficConfig::Flows(list)) => list.file.as_deref(),
        _ => None,
    };
    let Some(file) = file else { return error };
    let message = format!("{file}: flow {} of the file: {field}: {}", number + 1, error.message);
    BuildError::new(format!("traffic[{section}].file"), message)
}

const FLOW_COLUMNS: [&str; 7] =
    ["source", "target", "bytes", "start", "dscp", "source_port", "destination_port"];

/// One flow a row; each cell is read as the key of its column.
fn flow_rows(text: &str, name: &str, root: Origin) -> Result<Vec<FlowConfig>, LoadError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let fail = |line: u64, why: String| LoadError::new(format!("{name}:{line}: {why}"));
    let header = reader.headers().map_err(|error| fail(1, error.to_string()))?.clone();
    for column in &header {
        if !FLOW_COLUMNS.contains(&column) {
            let hint = crate::load::suggestion(column, &FLOW_COLUMNS);
            return Err(fail(1, format!("unknown column `{column}`{hint}")));
        }
    }
    for needed in &FLOW_COLUMNS[..3] {
        if !header.iter().any(|column| column == *needed) {
            return Err(fail(1, format!("the column `{needed}` is missing")));
        }
    }
    let mut flows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            let expected = header.len();
            fail(line, format!("{expected} columns are expected, as in the header"))
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let mut table = Node::new(Value::Table(Table::new()), root);
        for (column, cell) in header.iter().zip(&record) {
            if cell.is_empty() {
                continue;
            }
            let number = cell.parse::<i64>().map(Value::Integer);
            let value = number.unwrap_or_else(|_| Value::Text(cell.to_owned()));
            put(&mut table, column, Node::new(value, root));
        }
        let flow = from_node(&table, "").map_err(|error| fail(line, error.to_string()))?;
        flows.push(flow);
    }
    Ok(flows)
}

/// The configuration of each device.
struct Devices {
    switches: Vec<Option<Arc<SwitchConfig>>>,
    switch_ports: Vec<Option<Arc<SwitchConfig>>>,
    nics: Vec<Option<Arc<NicConfig>>>,
    hosts: Vec<Option<Arc<HostConfig>>>,
}

/// The sections that overrides can change.
type Sections = (Arc<SwitchConfig>, Arc<NicConfig>, Option<Arc<HostConfig>>);

impl Devices {
    fn resolve(
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
        let overrides = || scenario.overrides.iter().enumerate();
        let mut devices =
            Devices { switches: vec![], switch_ports: vec![], nics: vec![], hosts: vec![] };
        for (id, node) in topology.nodes().iter().enumerate() {
            let whole = |entry: &Override| {
                let named = entry.nodes.is_empty() || entry.nodes.contains(&node.name);
                named && entry.ports.is_empty() && entry.rate.is_none()
            };
            let applying = overrides().filter(|(_, entry)| whole(entry)).map(|(i, _)| i).collect();
            let (switch, nic, host) = sections(applying)?;
            let is_switch = node.kind == NodeKind::Switch;
            devices.switches.push(is_switch.then_some(switch));
            devices.nics.push((!is_switch).then_some(nic));
            devices.hosts.push(host.filter(|_| !is_switch));
            for port in topology.ports_of(NodeId(id as u32)) {
                let applies = |entry: &Override| applies_to_port(entry, topology, port);
                let applying =
                    overrides().filter(|(_, entry)| applies(entry)).map(|(i, _)| i).collect();
                let switch = if is_switch { Some(sections(applying)?.0) } else { None };
                devices.switch_ports.push(switch);
            }
        }
        Ok(devices)
    }
}

fn applies_to_port(entry: &Override, topology: &Topology, port: PortId) -> bool {
    let info = topology.port(port);
    let node = &topology.node(info.node).name;
    (entry.nodes.is_empty() || entry.nodes.contains(node))
        && (entry.ports.is_empty() || entry.ports.contains(&topology.port_name(port)))
        && entry.rate.is_none_or(|rate| rate == info.rate)
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
    let node_names: Vec<&str> = topology.nodes().iter().map(|node| node.name.as_str()).collect();
    let ports: Vec<String> = match overrides.iter().any(|entry| !entry.ports.is_empty()) {
        true => (0..topology.ports().len() as u32).map(|p| topology.port_name(PortId(p))).collect(),
        false => Vec::new(),
    };
    let port_names: Vec<&str> = ports.iter().map(String::as_str).collect();
    for (index, entry) in overrides.iter().enumerate() {
        let fail = |key: String, message: String| Err(place.locate(BuildError::new(key, message)));
        for (field, given, known) in
            [("nodes", &entry.nodes, &node_names), ("ports", &entry.ports, &port_names)]
        {
            for (position, name) in given.iter().enumerate() {
                if !known.contains(&name.as_str()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use models::congestion::CongestionConfig;
    use sim_core::Rate;

    const STAR: &str = "[topology]\nkind = \"star\"\nhosts = 2\n\
                        link = { rate = \"100Gbps\", delay = \"1us\" }\n";

    fn scenario(text: &str) -> Scenario {
        let mut sources = Sources::default();
        let options = LoadOptions::default();
        let text = format!("{text}\n{STAR}");
        let found = Found { text, name: "test".into(), folder: None, label: "test".into() };
        let loaded = load_text(&mut sources, &found, &options);
        loaded.map_err(|error| error.render(&sources)).unwrap().scenario
    }

    fn ai_rate(scenario: &Scenario) -> Option<Rate> {
        match &scenario.nic.congestion {
            CongestionConfig::Dcqcn(dcqcn) => Some(dcqcn.rpg_ai_rate),
            CongestionConfig::None(_) => None,
        }
    }

    #[test]
    fn the_generic_presets_are_the_defaults_of_the_model() {
        let scenario = scenario("");
        assert_eq!(scenario.switch, SwitchConfig::default());
        assert_eq!(scenario.nic, NicConfig::default());
    }

    #[test]
    fn later_layers_win() {
        // generic < scenario preset < section preset < congestion preset < the file
        let base = scenario("preset = \"hpcc-ns3\"");
        assert_eq!(base.switch.buffer.cell.get(), 1);
        assert_eq!(ai_rate(&base), Some(Rate::from_mbps(20)));
        let sections = scenario(
            "preset = \"hpcc-ns3\"\nswitch.preset = \"generic-32mb\"\n\
             nic.congestion.preset = \"mlx5-default\"\nnic.congestion.rpg_hai_rate = \"7Mbps\"",
        );
        assert_eq!(sections.switch.buffer.cell.get(), 256);
        assert_eq!(ai_rate(&sections), Some(Rate::from_mbps(5)));
        let CongestionConfig::Dcqcn(dcqcn) = &sections.nic.congestion else { panic!() };
        assert_eq!(dcqcn.rpg_hai_rate, Rate::from_mbps(7));
        assert_eq!(sections.nic.np.notify, models::nic::Notify::Cnp);
        // what only the scenario preset says stays
        assert_eq!(sections.nic.mtu, 1000);
    }

    #[test]
    fn a_congestion_preset_brings_its_algorithm_and_its_notification_point() {
        let paper = scenario("nic.congestion.preset = \"dcqcn-paper\"");
        assert_eq!(ai_rate(&paper), Some(Rate::from_mbps(40)));
        assert_eq!(paper.nic.np.cnp_scope, models::nic::CnpScope::Qp);
        let own = scenario(
            "nic.congestion.preset = \"dcqcn-paper\"\nnic.np.cnp_scope = \"destination-ip\"",
        );
        assert_eq!(own.nic.np.cnp_scope, models::nic::CnpScope::DestinationIp);
        assert_eq!(ai_rate(&scenario("nic.congestion.algorithm = \"none\"")), None);
        let off = scenario("nic.preset = \"connectx-6-dx\"\nnic.congestion = \"none\"");
        assert_eq!(ai_rate(&off), None);
    }

    #[test]
    fn a_threshold_replaces_its_rival() {
        let fixed = scenario("switch.buffer.lossless.static_th = \"1MB\"");
        assert_eq!(fixed.switch.buffer.lossless.dynamic_th, None);
    }
}
