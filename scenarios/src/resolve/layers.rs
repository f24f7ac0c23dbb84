//! Presets, and how they are laid over each other.

use std::collections::BTreeMap;

use crate::library::{self, Kind};
use crate::load::{LoadError, Node, Origin, Path, SourceId, Sources, Table, Value, parse};

/// Presets as trees, parsed when they are first used.
pub(super) struct Library<'a> {
    sources: &'a mut Sources,
    /// Stands for the user's file as a whole.
    root: Origin,
    trees: BTreeMap<(Kind, &'static str), Node>,
}

impl<'a> Library<'a> {
    /// One that has parsed nothing yet.
    pub(super) fn new(sources: &'a mut Sources, root: Origin) -> Self {
        Library { sources, root, trees: BTreeMap::new() }
    }
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

    pub(super) fn preset_sources(&self) -> Vec<SourceId> {
        self.trees.values().map(|tree| tree.origin.source).collect()
    }

    /// The user's tree over all presets that it names.
    pub(super) fn expand(&mut self, user: &Node) -> Result<Node, LoadError> {
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

/// Sets a key of a table.
pub(crate) fn put(node: &mut Node, key: &str, value: Node) {
    let origin = value.origin;
    if let Some(table) = node.as_table_mut() {
        table.insert(key, origin, value);
    }
}

/// Pairs of keys of which one replaces the other.
const RIVALS: [(&str, &str); 2] = [("dynamic_th", "static_th"), ("static_th", "dynamic_th")];

/// Sets a key of the user's tree; it also replaces its rival.
pub(crate) fn set(tree: &mut Node, path: &Path, value: Node) -> Result<(), LoadError> {
    if let Some(rival) = rival(&path.to_string()) {
        tree.remove(&Path::parse(&rival)?);
    }
    tree.set(path, value)
}

/// The key that another one replaces.
pub(super) fn rival(key: &str) -> Option<String> {
    let (table, last) = key.rsplit_once('.')?;
    let (_, rival) = RIVALS.iter().find(|(given, _)| *given == last)?;
    Some(format!("{table}.{rival}"))
}

/// Overlays `upper` on `lower`; a key also replaces its rival.
pub(super) fn lay_over(lower: &mut Node, upper: Node) {
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
