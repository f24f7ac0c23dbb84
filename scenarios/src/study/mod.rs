//! What-if studies: a scenario at many points of a space of settings, and what is best there.
//!
//! - [`config`]: the keys of a study; [`axis`]: what differs from point to point; `quantity`:
//!   numbers with units; `failures`: what may break
//! - [`design`]: which points
//! - [`journal`]: the study's directory; each finished run is durable at once
//! - [`work`]: runs what is missing
//! - [`table`]: one row a point; `parquet`: the same for other programs
//! - [`curves`]: what is more than a number: slowdown by size, lengths of queues
//! - [`judge`]: the best point, its margin, and which axis matters
//! - [`answer`]: in words; `ranking`: of one axis under all that is given; [`scale`]: in units that fit
//! - [`slurm`]: the points as a job array

pub mod answer;
pub mod axis;
pub mod config;
pub mod curves;
pub mod design;
mod failures;
pub mod journal;
pub mod judge;
mod parquet;
pub mod quantity;
mod ranking;
pub mod scale;
pub mod slurm;
pub mod table;
mod tpe;
pub mod work;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::expect;
use crate::load::{LoadError, Node, Path, Sources, from_node, parse, suggestion, to_toml};
use crate::resolve::{self, Complaint, LoadOptions, Loaded};
use axis::{Axis, Domain};
use config::{Method, StudyConfig};
use failures::Broken;
use quantity::Unit;

/// A study that can be run.
#[derive(Clone, Debug)]
pub struct Study {
    /// Name of its file without the ending, or of the library's entry.
    pub name: String,
    /// As it was given: what `rocesim run` takes to run its scenario alone.
    pub given: String,
    /// Its keys.
    pub config: StudyConfig,
    /// What differs from point to point.
    pub axes: Vec<Axis>,
    /// What is wanted, the most important first.
    pub objectives: Vec<Objective>,
    /// The fields of the report that are recorded: objectives, requirements, and others.
    pub columns: Vec<Column>,
    /// The scenario as it is before any axis changes it.
    pub base: Loaded,
    /// Of what it is made, as text: two studies with equal text have equal results.
    pub identity: String,
    /// Its file as it was given.
    pub text: String,
    /// What was given with it, for all points.
    pub options: LoadOptions,
    /// What it was made of.
    pub source: Source,
}

/// What a study was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A study's file.
    Study,
    /// A scenario: all that may fail in it.
    Failures,
}

impl Source {
    /// Loads a study of this kind.
    pub fn load(self, given: &str, options: &LoadOptions) -> Result<Study, Complaint> {
        match self {
            Source::Study => load(given, options),
            Source::Failures => of_failures(given, options),
        }
    }
}

/// Something that should be large, or small.
#[derive(Clone, Debug)]
pub struct Objective {
    /// The place among the columns.
    pub column: usize,
    /// Larger is better.
    pub larger: bool,
}

/// A field of the report that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its key, as under `[expect]`.
    pub key: String,
    /// Its name in tables: the key in letters, digits and underscores, with its unit at the end.
    pub name: String,
    /// The unit at the end of the name, such as `_bytes`.
    pub unit: &'static str,
}

/// Loads a study: a file, or the name of one in the library. The options change its scenario.
pub fn load(name: &str, options: &LoadOptions) -> Result<Study, Complaint> {
    let (label, text) = resolve::text_of(name)?;
    let mut sources = Sources::default();
    let study = read(&mut sources, name, &label, &text, options);
    study.map_err(|error| match error {
        Failure::Load(error) => Complaint(error.render(&sources)),
        Failure::Said(complaint) => complaint,
    })
}

/// The study of all that may fail in a scenario, one thing at a time.
pub fn of_failures(scenario: &str, options: &LoadOptions) -> Result<Study, Complaint> {
    let base = resolve::load(scenario, options)?;
    let objective = match (base.spec.trainings.is_empty(), base.sweep.has_collectives()) {
        (false, _) => ("minimize", "trainings.step_time_mean"),
        (true, true) => ("maximize", "collectives.busbw_mean"),
        (true, false) => ("minimize", "flows.fct_mean"),
    };
    let text = format!("{} = \"{}\"\naxes = {{}}\ngive_up = 20.0\n", objective.0, objective.1);
    let mut sources = Sources::default();
    let parsed = parse(&mut sources, "failures", &text);
    let config: StudyConfig = parsed
        .and_then(|tree| from_node(&tree, ""))
        .map_err(|error| Complaint(error.render(&sources)))?;
    let axis = failures::axis("failure", &Broken::everything(), &base);
    let identity = format!("failures of\n{}", base.resolved);
    let config = StudyConfig { title: format!("{}: what if it fails", title(&base)), ..config };
    let study = Study {
        name: format!("{}-failures", base.name),
        given: scenario.to_owned(),
        config,
        axes: vec![axis],
        objectives: Vec::new(),
        columns: Vec::new(),
        base,
        identity,
        options: options.clone(),
        source: Source::Failures,
        text,
    };
    with_columns(study).map_err(|error| Complaint(error.render(&sources)))
}

/// Title of a scenario, or its name.
fn title(base: &Loaded) -> &str {
    if base.scenario.title.is_empty() { &base.name } else { &base.scenario.title }
}

enum Failure {
    Load(LoadError),
    Said(Complaint),
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Failure::Load(error)
    }
}

impl From<Complaint> for Failure {
    fn from(complaint: Complaint) -> Self {
        Failure::Said(complaint)
    }
}

fn read(
    sources: &mut Sources,
    given: &str,
    label: &str,
    text: &str,
    options: &LoadOptions,
) -> Result<Study, Failure> {
    let tree = parse(sources, label, text)?;
    if tree.get("axes").is_none() {
        let message = match tree.get("topology") {
            Some(_) => "this is a scenario, and no study: a study has `[axes]`",
            None => "this is no study: `[axes]` is missing",
        };
        return Err(LoadError::new(message).at(tree.origin).into());
    }
    let config: StudyConfig = from_node(&tree, "")?;
    check(&config, &tree)?;
    let base = resolve::load(given, options)?;
    let axes = match tree.get("axes") {
        Some(table) => axis::read(table, &base)?,
        None => Vec::new(),
    };
    suits(&config, &axes, &tree)?;
    let mut written = tree.clone();
    if let Some(keys) = written.as_table_mut() {
        for key in ["title", "description", "scenario", "base", "set"] {
            keys.remove(key);
        }
    }
    let mut identity = format!("{}\n# scenario\n{}", to_toml(&written), base.resolved);
    for (name, text) in &base.files {
        identity += &format!("\n# {name}\n{text}");
    }
    let study = Study {
        name: base.name.clone(),
        given: given.to_owned(),
        config,
        axes,
        objectives: Vec::new(),
        columns: Vec::new(),
        base,
        identity,
        options: options.clone(),
        source: Source::Study,
        text: text.to_owned(),
    };
    let study = with_columns(study).map_err(|error| error.at(tree.origin))?;
    names_differ(&study).map_err(|error| error.at(tree.origin))?;
    values_load(&study, &tree)?;
    Ok(study)
}

/// Refuses what cannot be right whatever the scenario is.
fn check(config: &StudyConfig, tree: &Node) -> Result<(), LoadError> {
    let at = |key: &str| tree.get(key).map_or(tree.origin, |node| node.origin);
    let refuse = |key: &str, message: &str| Err(LoadError::new(message).at(at(key)).within(key));
    match (config.method, config.samples) {
        (Method::Grid, Some(_)) => {
            return refuse("samples", "a grid takes all points: another `method` is expected");
        }
        (Method::Random | Method::LatinHypercube | Method::Tpe, None | Some(0)) => {
            let message = "`samples` says how many points: a number is expected";
            return refuse("samples", message);
        }
        _ => {}
    }
    if config.seeds == 0 {
        return refuse("seeds", "at least one seed is expected");
    }
    if !(0.0..=1.0).contains(&config.tolerance) {
        return refuse("tolerance", "a share from 0 to 1 is expected");
    }
    if config.give_up.is_some_and(|times| times.is_nan() || times < 1.0) {
        return refuse("give_up", "a number of at least 1 is expected");
    }
    Ok(())
}

/// Refuses methods that cannot use these axes.
fn suits(config: &StudyConfig, axes: &[Axis], tree: &Node) -> Result<(), LoadError> {
    let at = |key: &str| tree.get(key).map_or(tree.origin, |node| node.origin);
    let searched = axes.iter().any(|axis| axis.ladder().is_some());
    if config.method == Method::Grid {
        let range = axes.iter().find(|axis| matches!(axis.domain, Domain::Range { .. }));
        if let Some(axis) = range {
            let message = format!("a grid needs `count`, `step` or `factor` for `{}`", axis.name);
            return Err(LoadError::new(message).at(at("axes")).within("axes"));
        }
    } else if searched {
        let message = "a smallest value is searched for at the points of a grid only";
        return Err(LoadError::new(message).at(at("method")).within("method"));
    }
    if searched && config.require.is_empty() {
        let message = "the smallest value that meets what? `require` is missing";
        return Err(LoadError::new(message).at(at("axes")).within("require"));
    }
    for (key, names) in [("given", &config.given), ("across", &config.across)] {
        let known: Vec<&str> = axes.iter().map(|axis| &*axis.name).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            let message = format!("no axis is called `{name}`{}", suggestion(name, &known));
            return Err(LoadError::new(message).at(at(key)).within(key));
        }
    }
    if config.method == Method::Tpe && config.maximize.0.is_empty() && config.minimize.0.is_empty()
    {
        let message = "what is better? `maximize` or `minimize` is expected";
        return Err(LoadError::new(message).at(at("method")).within("method"));
    }
    Ok(())
}

/// Finds the objectives and columns of a study that has none yet.
fn with_columns(mut study: Study) -> Result<Study, LoadError> {
    let mut columns: Vec<Column> = Vec::new();
    let mut add = |key: &str, within: &str| -> Result<usize, LoadError> {
        let fail = |message: String| LoadError::new(message).within(within);
        let key = full_key(key, &study.base).map_err(fail)?;
        if !expect::is_number(&key) {
            return Err(fail(format!("`{key}` is no number")));
        }
        let unit = expect::unit(&key);
        let column = Column { name: column_name(&key, unit), key, unit };
        Ok(columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        }))
    };
    let config = &study.config;
    for (fields, larger) in [(&config.maximize, true), (&config.minimize, false)] {
        for key in &fields.0 {
            let column = add(key, if larger { "maximize" } else { "minimize" })?;
            study.objectives.push(Objective { column, larger });
        }
    }
    for key in config.require.keys() {
        let key_only = |message: String| LoadError::new(message).within("require");
        expect::check_name(key, Some(&study.base.spec)).map_err(key_only)?;
        if expect::is_number(key) {
            add(key, "require")?;
        }
    }
    for key in &config.columns {
        add(key, "columns")?;
    }
    for key in usual(&study.base) {
        add(key, "columns")?;
    }
    study.columns = columns;
    Ok(study)
}

/// Columns of the tables that are there in any study.
const OWN_COLUMNS: [&str; 9] =
    ["point", "seed", "runs", "outcome", "good", "front", "broken", "error", "fingerprint"];

/// Refuses axes whose columns would have the name of another, or none.
fn names_differ(study: &Study) -> Result<(), LoadError> {
    let mut known: Vec<String> = OWN_COLUMNS.map(str::to_owned).to_vec();
    known.extend(study.columns.iter().map(|column| column.name.clone()));
    for axis in &study.axes {
        let refuse = |message: String| Err(LoadError::new(message).within("axes"));
        let column = axis.column();
        if axis.name == "seed" {
            return refuse("`seed` is no axis: `seeds = 5` runs each point with five".to_owned());
        }
        if column.is_empty() || known.contains(&column) {
            let name = &axis.name;
            return refuse(format!("`{name}`: its column `{column}` is not its own; rename it"));
        }
        known.push(column);
    }
    Ok(())
}

/// What is recorded in any case.
fn usual(base: &Loaded) -> Vec<&'static str> {
    let mut keys = Vec::new();
    if base.sweep.has_collectives() {
        keys.extend(["collectives.busbw_mean", "collectives.time_mean"]);
    }
    if !base.spec.trainings.is_empty() {
        keys.extend(["trainings.step_time_mean", "trainings.exposed_share_mean"]);
    }
    if !base.spec.flows.is_empty() {
        keys.extend(["flows.fct_mean", "flows.fct_p99", "flows.goodput_mean"]);
    }
    keys.extend([
        "paused_s",
        "pfc_xoff_frames",
        "ecn_marked_packets",
        "cnp_sent",
        "ports.max_queue_max",
        "lossless_drops",
        "retransmitted_packets",
        "timeouts",
        "deadlocks",
        "packet_hops",
        "simulated_time",
    ]);
    keys
}

/// The key of a field: of a list without an aggregate, the mean is meant.
fn full_key(key: &str, base: &Loaded) -> Result<String, String> {
    let mean = format!("{key}_mean");
    let spec = Some(&base.spec);
    match expect::check_name(key, spec) {
        Ok(()) => Ok(key.to_owned()),
        Err(_) if expect::check_name(&mean, spec).is_ok() => Ok(mean),
        Err(message) => Err(message),
    }
}

/// Letters, digits and underscores, and the unit at the end.
fn column_name(key: &str, unit: &str) -> String {
    let mut name = String::new();
    for char in key.chars() {
        match char {
            char if char.is_ascii_alphanumeric() => name.push(char),
            _ if name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_matches('_');
    // a unit in the middle, as in time_s_mean, moves to the end
    let name = name.replacen(&format!("{unit}_"), "_", usize::from(!unit.is_empty()));
    let name = name.strip_suffix(unit).unwrap_or(&name);
    format!("{name}{unit}")
}

impl Axis {
    /// Its name in tables, with the unit.
    pub fn column(&self) -> String {
        let unit = match self.domain {
            Domain::Times { .. } => "_times",
            _ => self.unit.map_or("", Unit::suffix),
        };
        column_name(&self.name, unit)
    }
}

/// Refuses values of axes with which no point can be built: what is wrong is in the study then.
fn values_load(study: &Study, tree: &Node) -> Result<(), Failure> {
    const TRIES: usize = 4;
    let points = match study.config.method {
        Method::Tpe => return Ok(()),
        _ => design::points(study)?,
    };
    let mut seen: BTreeMap<(usize, &str), Vec<&design::Point>> = BTreeMap::new();
    for point in &points {
        for (axis, level) in point.levels.iter().enumerate() {
            let of_level = seen.entry((axis, &level.label)).or_default();
            if of_level.len() < TRIES {
                of_level.push(point);
            }
        }
    }
    for ((axis, _), points) in seen {
        let axis = &study.axes[axis];
        if matches!(axis.domain, Domain::Range { .. }) {
            continue;
        }
        let mut why = None;
        for point in points {
            match study.load_point(point, None, study.base.scenario.seed) {
                Ok(_) => {
                    why = None;
                    break;
                }
                Err(complaint) => why = Some(complaint),
            }
        }
        if let Some(Complaint(why)) = why {
            let path = Path::parse(&format!("axes.\"{}\"", axis.name)).ok();
            let node = path.as_ref().and_then(|path| tree.at(path)).unwrap_or(tree);
            let message = format!("no point with this value can be built:\n{why}");
            let path = path.map_or(String::new(), |path| path.to_string());
            return Err(LoadError::new(message).at(node.origin).within(&path).into());
        }
    }
    Ok(())
}

impl Study {
    /// The scenario of a point, on a rung of its ladder if it has one, with one seed.
    pub fn load_point(
        &self,
        point: &design::Point,
        rung: Option<u32>,
        seed: u64,
    ) -> Result<Loaded, Complaint> {
        let set = self.settings(point, rung);
        self.base.with_seed(&set, seed)
    }

    /// What a point sets, as `path=value`.
    pub fn settings(&self, point: &design::Point, rung: Option<u32>) -> Vec<String> {
        let mut settings: Vec<String> = Vec::new();
        let mut add = |level: &axis::Level| {
            settings.extend(level.settings.iter().map(|(path, value)| format!("{path}={value}")));
        };
        point.levels.iter().for_each(&mut add);
        let ladder = self.axes.iter().find_map(Axis::ladder);
        if let (Some(ladder), Some(rung)) = (ladder, rung) {
            add(&ladder.level(rung));
        }
        settings
    }

    /// The seeds of each point.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.base.scenario.seed;
        first..first.saturating_add(u64::from(self.config.seeds))
    }
}

/// The JSON Schema of study files, for editors.
pub fn json_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(StudyConfig)).unwrap_or_default()
}

impl Study {
    /// Whether its only axes are failures: then the worst point is of interest, not the best.
    pub fn is_about_failures(&self) -> bool {
        self.axes.iter().all(|axis| matches!(axis.domain, Domain::Levels(_)) && axis.failures)
    }

    /// The columns that the study asks for itself, but for those that its requirements name.
    pub fn extra_columns(&self) -> impl Iterator<Item = &Column> {
        let asked = self.config.columns.iter();
        let objectives = self.objectives.iter().map(|objective| &self.columns[objective.column]);
        let named = |key: &String| {
            let mean = format!("{key}_mean");
            self.columns.iter().find(|column| column.key == *key || column.key == mean)
        };
        objectives.chain(asked.filter_map(named))
    }
}
