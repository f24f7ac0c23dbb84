//! From a file, presets, `--set` and overrides to one checked scenario.
//!
//! Order of precedence, the last one wins: the generic presets, the scenario's `preset`, the
//! presets of `switch`, `nic` and `nic.congestion`, the file, parts of scenarios (`--with`), a
//! variant (`--variant`), `--set`;
//! for single devices `[[override]]`, in the order of the file.

mod devices;
mod faults;
mod flows;
mod layers;
mod programs;
mod ranks;
mod studied;

use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use models::BuildError;
use models::collective::explain_variable;
use models::fabric::Spec;
use models::host::{HostConfig, nics};
use models::ids::{NodeId, PortId};
use models::report::PresetReport;
use models::topology::{NicLayout, Topology, TopologyConfig};
use models::traffic::{self, TrafficConfig};
use models::training::Training;
use serde::{Deserialize, Serialize};
use sim_core::Fingerprint;

use devices::Devices;
use flows::{in_file, inline_flows};
use layers::{Library, lay_over};
pub(crate) use layers::{put, set};

use crate::clinic::{self, Variant};
use crate::library::{self, Kind};
use crate::load::{
    LoadError, Node, Origin, Path, SourceId, Sources, Value, assignment, from_node, near_miss,
    parse, to_inline, to_toml,
};
use crate::provenance::{Figure, in_use, is_below};
use crate::schema::Scenario;
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
    rank_files: Vec<ranks::RankFile>,
    /// The texts that keys came from.
    pub sources: Sources,
    place: Place,
    origin: Found,
    options: LoadOptions,
}

/// What goes with the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadOptions {
    /// Files whose keys are laid over those of the scenario, as given to `--with`.
    pub with: Vec<PathBuf>,
    /// The variant of its `[clinic]`, as given to `--variant`.
    pub variant: Option<String>,
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
    let mut found = read(name)?;
    for part in &options.with {
        let text = read_file(part).map_err(|why| Complaint(format!("error: {why}")))?;
        found.parts.push((part.display().to_string(), text));
    }
    load_found(found, options)
}

/// The text of a file or of an entry of the library, and what messages call it.
pub(crate) fn text_of(name: &str) -> Result<(String, String), Complaint> {
    read(name).map(|found| (found.label, found.text))
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
    /// What is laid over it: name and text.
    parts: Vec<(String, String)>,
}

fn read(name: &str) -> Result<Found, Complaint> {
    let path = FsPath::new(name);
    let looks_like_file = name.contains(['/', '\\']) || path.extension().is_some();
    if !path.is_file() && !looks_like_file {
        if let Some(entry) = library::runnable(name) {
            let label = format!("{name}.toml (built in)");
            let (text, name) = (entry.text.to_owned(), name.to_owned());
            return Ok(Found { text, name, folder: None, label, parts: Vec::new() });
        }
        let built_in = library::LIBRARY.iter().filter(|entry| entry.kind.is_runnable());
        let hint = match near_miss(name, built_in.map(|entry| entry.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`rocesim list` shows what is built in".to_owned(),
        };
        let message = format!("error: there is no file and no built-in scenario {name:?}; {hint}");
        return Err(Complaint(message));
    }
    let text = read_file(path).map_err(|why| Complaint(format!("error: {why}")))?;
    let title = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy().into_owned());
    let folder = path.parent().map(FsPath::to_owned);
    Ok(Found { text, name: title, folder, label: name.to_owned(), parts: Vec::new() })
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
    let user = parse(sources, &found.label, &found.text)?;
    let (mut user, folder) = studied::scenario(sources, user, found.folder.clone(), 0)?;
    let folder = folder.as_deref();
    for (label, text) in &found.parts {
        let part = parse(sources, label, text)?;
        // a message about a key that is nowhere is one about the scenario
        let origin = user.origin;
        lay_over(&mut user, part);
        user.origin = origin;
    }
    if let Some(variant) = &options.variant {
        clinic::apply(&mut user, variant, &found.label)?;
    }
    for argument in &options.set {
        let (path, value) = assignment(sources, argument)?;
        set(&mut user, &path, value)?;
    }
    if let Some(seed) = options.seed {
        let (path, value) = assignment(sources, &format!("seed={seed}"))?;
        user.set(&path, value)?;
    }
    let mut library = Library::new(sources, user.origin);
    let mut tree = library.expand(&user)?;
    let ignored = take_ignored_variables(&mut tree);
    let mut scenario: Scenario = from_node(&tree, "")?;
    scenario.nccl.ignored = ignored;
    if let Some(variant) = &options.variant {
        scenario.title = format!("{} [{variant}]", scenario.title);
    }
    let mut own = Vec::new();
    leaves(&user, "", &mut own);
    let named = named_presets(&user);
    let mut place = Place { tree, presets: library.preset_sources(), named, own };
    let mut files = programs::read(&mut scenario, folder, &mut place)?;
    let rank_files = ranks::inline_ranks(&mut scenario, folder, &mut place, &mut files)?;
    let written = scenario.traffic.clone();
    files.extend(inline_flows(&mut scenario, folder, &mut place)?);
    let locate = |error: BuildError| place.locate(error);
    let mut topology = Topology::build(&scenario.topology).map_err(locate)?;
    let devices = Devices::resolve(&mut library, &user, &place, &scenario, &topology)?;
    lay_out_nics(&mut topology, &devices.hosts).map_err(locate)?;
    // ports of NICs have their names now
    faults::check(&place, &scenario.faults, &topology)?;
    let presets = library.preset_sources();
    let flows = traffic::flows(&scenario.traffic, &topology, scenario.seed);
    let flows = flows.map_err(|error| locate(in_file(error, &scenario.traffic, &files)))?;
    // the rows of files are flows now
    scenario.traffic = written;
    let sweep = Sweep::new(&scenario.traffic).map_err(locate)?;
    let trainings = trainings(&scenario.traffic);
    let schedules = programs::schedules(&scenario.traffic);
    let unlimited = flows.iter().find(|flow| flow.bytes.is_none());
    let ends_with_others = scenario.stop.after_last_flow.is_some()
        && (sweep.has_collectives()
            || !trainings.is_empty()
            || !schedules.is_empty()
            || flows.iter().any(|flow| flow.bytes.is_some()));
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
        topology: Arc::new(topology),
        routes,
        wire: scenario.wire.clone(),
        switches: devices.switches,
        switch_ports: devices.switch_ports,
        nics: devices.nics,
        hosts: devices.hosts,
        nccl: scenario.nccl.clone(),
        flows: flows.into(),
        collectives: sweep.collectives(0),
        trainings,
        schedules,
        sections: section_names(&scenario.traffic),
        faults: scenario.faults.clone(),
        settings: devices.settings,
        stop: scenario.stop,
        measure: scenario.measure,
        sample: scenario.sample.clone(),
        seed: scenario.seed,
    };
    crate::expect::check_names(&place.tree, &spec)?;
    clinic::check(&place.tree, &spec)?;
    let name = match &options.variant {
        Some(variant) => {
            // what it says of the ill one is not true of this one
            let title = Node::new(Value::Text(scenario.title.clone()), place.tree.origin);
            put(&mut place.tree, "title", title);
            place.tree.as_table_mut().and_then(|keys| keys.remove("clinic"));
            format!("{}-{variant}", found.name)
        }
        None => found.name.clone(),
    };
    let resolved = to_toml(&place.tree);
    let place = Place { presets, ..place };
    Ok(Loaded {
        name,
        scenario,
        spec,
        sweep,
        resolved,
        files,
        rank_files,
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

    /// The same with further keys set, and this seed.
    pub fn with_seed(&self, set: &[String], seed: u64) -> Result<Loaded, Complaint> {
        let mut options = LoadOptions { seed: Some(seed), ..self.options.clone() };
        options.set.extend_from_slice(set);
        load_found(self.origin.clone(), &options)
    }

    /// Its text as it is written, and what was set on top of it.
    pub fn written_text(&self) -> (&str, &[String]) {
        (&self.origin.text, &self.options.set)
    }

    /// The elements of an array of the scenario, such as `fault`, each as TOML on one line.
    pub(crate) fn array_of(&self, key: &str) -> Vec<String> {
        let elements = self.place.tree.get(key).and_then(Node::as_array);
        elements.into_iter().flatten().map(to_inline).collect()
    }

    /// The variant of `[clinic]` that this is, if it is one.
    pub fn variant(&self) -> Option<&Variant> {
        let name = self.options.variant.as_deref()?;
        self.scenario.clinic.as_ref()?.variant.iter().find(|variant| variant.name == name)
    }

    /// The figures of the presets in use that the scenario does not set itself.
    pub fn figures(&self) -> Vec<Figure> {
        let own: Vec<&str> = self.place.own.iter().map(String::as_str).collect();
        in_use(&self.place.named, &own)
    }

    /// The preset of this kind that the scenario's text names.
    pub fn preset(&self, kind: Kind) -> Option<&'static str> {
        let mut named = self.place.named.iter().rev();
        named.find(|(known, _)| *known == kind).map(|(_, name)| *name)
    }

    /// The presets that the scenario's text names, for the report.
    pub(crate) fn presets(&self) -> Vec<PresetReport> {
        let named = |(kind, name): &(Kind, &'static str)| {
            let text = library::find(*kind, name).map_or("", |entry| entry.text);
            let mut digest = Fingerprint::default();
            text.bytes().for_each(|byte| digest.add(byte.into()));
            PresetReport {
                key: kind.name().to_owned(),
                name: (*name).to_owned(),
                version: digest.hex(),
            }
        };
        self.place.named.iter().map(named).collect()
    }

    /// What the model needs for one run of the sweep.
    pub fn spec_of(&self, run: usize) -> Spec {
        Spec { collectives: self.sweep.collectives(run), ..self.spec.clone() }
    }

    /// The message for an error that the model found while it was built.
    pub fn complaint(&self, error: BuildError) -> Complaint {
        let error = ranks::in_file(error, &self.rank_files);
        Complaint(self.place.locate(error).render(&self.sources))
    }

    /// Where a key of a port's configuration was set, in words: `scenario.toml:14`, `preset
    /// tomahawk3`, or `default`. The port may have its value from an override.
    pub fn written(&self, key: &str, at: Option<PortId>) -> String {
        if let Some(origin) = at.and_then(|port| self.overridden(key, port)) {
            return self.sources.location(origin);
        }
        match self.place.deepest(key) {
            Some((node, true)) => match self.sources.name(node.origin.source) {
                "preset generic" => "default".to_owned(),
                _ => self.sources.location(node.origin),
            },
            // a table of the user's that leaves the key out
            Some((node, false)) if self.place.is_own(node) && !node.origin.is_whole() => {
                format!("default, in {}", self.sources.location(node.origin))
            }
            _ => "default".to_owned(),
        }
    }

    /// The last override that sets a key, a part of it, or the table around it, for this port.
    fn overridden(&self, key: &str, port: PortId) -> Option<Origin> {
        let overrides = &self.scenario.overrides;
        let applying = devices::applying(overrides, &self.spec.topology, port);
        for index in applying.into_iter().rev() {
            let path = Path::parse(&format!("override[{index}].set")).ok()?;
            let set = self.place.tree.at(&path).and_then(Node::as_table)?;
            for entry in set {
                if entry.key == key || is_below(&entry.key, key) {
                    return Some(entry.key_origin);
                }
                if !is_below(key, &entry.key) {
                    continue;
                }
                let rest = Path::parse(&key[entry.key.len() + 1..]).ok();
                if let Some(node) = rest.and_then(|rest| entry.node.at(&rest)) {
                    return Some(node.origin);
                }
            }
        }
        None
    }
}

/// The expanded tree, and which of its keys the user wrote.
#[derive(Clone, Debug)]
struct Place {
    tree: Node,
    presets: Vec<SourceId>,
    /// Presets that the user's text names, the last of which wins.
    named: Vec<(Kind, &'static str)>,
    /// Keys that the user's text sets.
    own: Vec<String>,
}

/// The presets that a user's tree names, in their order of precedence.
fn named_presets(user: &Node) -> Vec<(Kind, &'static str)> {
    let keys = [
        ("preset", Kind::ScenarioPreset),
        ("switch.preset", Kind::SwitchPreset),
        ("nic.preset", Kind::NicPreset),
        ("host.preset", Kind::HostPreset),
        ("nic.congestion.preset", Kind::CongestionPreset),
    ];
    let named = |(key, kind): (&str, Kind)| {
        let node = user.at(&Path::parse(key).ok()?)?;
        Some((kind, library::find(kind, node.as_text()?)?.name))
    };
    keys.into_iter().filter_map(named).collect()
}

/// The keys of a tree's leaves, in tables.
fn leaves(node: &Node, prefix: &str, keys: &mut Vec<String>) {
    let Some(table) = node.as_table() else { return keys.push(prefix.to_owned()) };
    for entry in table {
        let key =
            if prefix.is_empty() { entry.key.clone() } else { format!("{prefix}.{}", entry.key) };
        leaves(&entry.node, &key, keys);
    }
}

impl Place {
    /// Gives a model's error the place of its key.
    fn locate(&self, error: BuildError) -> LoadError {
        let origin = self.nearest_origin(&error.key);
        LoadError { message: error.message, path: Some(error.key), origin, help: None }
    }

    /// Whether the user wrote this, and no preset.
    fn is_own(&self, node: &Node) -> bool {
        !self.presets.contains(&node.origin.source)
    }

    /// The deepest part of `key` that there is, and whether it is the whole.
    fn deepest(&self, key: &str) -> Option<(&Node, bool)> {
        let mut part = key;
        loop {
            let path = Path::parse(part).ok()?;
            if let Some(node) = self.tree.at(&path) {
                return Some((node, part.len() == key.len()));
            }
            part = &part[..part.rfind(['.', '['])?];
        }
    }

    /// The origin of the deepest part of `key` that the user wrote.
    fn nearest_origin(&self, key: &str) -> Option<Origin> {
        let mut key = key;
        loop {
            let node = Path::parse(key).ok().and_then(|path| self.tree.at(&path));
            if let Some(node) = node
                && self.is_own(node)
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

/// The training jobs among the sections.
fn trainings(sections: &[TrafficConfig]) -> Vec<Training> {
    let training = |(section, config): (u32, &TrafficConfig)| match config {
        TrafficConfig::Training(config) => {
            Some(Training { config: Arc::new(config.clone()), section })
        }
        _ => None,
    };
    (0..).zip(sections).filter_map(training).collect()
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

/// Takes away the variables of NCCL's that were removed or change nothing here: name, and what is
/// true of it.
fn take_ignored_variables(tree: &mut Node) -> Vec<(String, String)> {
    let nccl = tree.as_table_mut().and_then(|keys| keys.get_mut("nccl"));
    let Some(nccl) = nccl.and_then(Node::as_table_mut) else { return Vec::new() };
    let known = |key: &String| explain_variable(key).map(|why| (key.clone(), why));
    let ignored: Vec<(String, String)> =
        nccl.iter().filter_map(|entry| known(&entry.key)).collect();
    for (key, _) in &ignored {
        nccl.remove(key);
    }
    ignored
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

#[cfg(test)]
mod tests {
    use super::*;
    use models::congestion::CongestionConfig;
    use models::nic::NicConfig;
    use models::switch::SwitchConfig;
    use sim_core::Rate;

    const STAR: &str = "[topology]\nkind = \"star\"\nhosts = 2\n\
                        link = { rate = \"100Gbps\", delay = \"1us\" }\n";

    fn scenario(text: &str) -> Scenario {
        let mut sources = Sources::default();
        let options = LoadOptions::default();
        let text = format!("{text}\n{STAR}");
        let found = Found {
            text,
            name: "test".into(),
            folder: None,
            label: "test".into(),
            parts: Vec::new(),
        };
        let loaded = load_text(&mut sources, &found, &options);
        loaded.map_err(|error| error.render(&sources)).unwrap().scenario
    }

    fn ai_rate(scenario: &Scenario) -> Option<Rate> {
        match &scenario.nic.congestion {
            CongestionConfig::Dcqcn(dcqcn) => Some(dcqcn.rpg_ai_rate),
            _ => None,
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
        // so it is for one switch, and on the command line
        let text = format!(
            "{STAR}[switch.buffer.lossless]\nstatic_th = \"1MB\"\n[[override]]\n\
             nodes = [\"sw0\"]\nset = {{ \"switch.buffer.lossless.dynamic_th\" = 0 }}\n\
             [[traffic]]\nkind = \"permutation\"\nbytes = \"1KB\"\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, text).unwrap();
        let loaded = load(path.to_str().unwrap(), &LoadOptions::default()).unwrap();
        let switch = loaded.spec.switches.iter().flatten().next().unwrap();
        let lossless = &switch.buffer.lossless;
        assert_eq!((lossless.static_th, lossless.dynamic_th), (None, Some(0)));
        let set = vec!["switch.buffer.lossless.dynamic_th=1".to_owned()];
        let lossless = loaded.with(&set).unwrap().scenario.switch.buffer.lossless;
        assert_eq!((lossless.static_th, lossless.dynamic_th), (None, Some(1)));
    }
}
