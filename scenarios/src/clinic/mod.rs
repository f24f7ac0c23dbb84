//! The clinic: scenarios that begin with a symptom (`[clinic]`).
//!
//! The file itself is the ill fabric, and its `[expect]` says how that shows. Each variant changes
//! keys and has an `[expect]` of its own: cures, and advice that does not help.
//!
//! ```toml
//! [clinic]
//! symptom = "one sender of four loses frames; switches that run PFC count drops"
//! cause = "its NIC sends in a class that PFC does not protect"
//! cure = "map DSCP 26 to priority 3 on that NIC"
//! source = ["..."]
//! measure = [{ key = "flows[3].fct", label = "its flow" }]
//!
//! [[clinic.variant]]
//! name = "cure"
//! title = "the NIC maps DSCP 26 to priority 3"
//! set = { override = [] }                            # as with --set
//! expect = { retransmitted_packets = 0 }
//! ```

mod search;

use std::collections::{BTreeMap, BTreeSet};

use models::fabric::Spec;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::expect::{self, Expected};
use crate::library::{Entry, Kind, LIBRARY};
use crate::load::{LoadError, Node, Path, Sources, from_node, parse, suggestion};
use crate::resolve::{Loaded, put, set};
use crate::text::{words, wrapped};
use models::fault::Anything;

pub use search::matching;

/// `[clinic]`: what an operator sees, why, and what helps.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clinic {
    /// What the operator sees, in a line.
    pub symptom: String,
    /// Why.
    pub cause: String,
    /// What helps.
    pub cure: String,
    /// Advice that is often given and does not help; a variant shows it.
    pub wrong_advice: Option<String>,
    /// Where it was reported or described.
    #[serde(default)]
    pub source: Vec<String>,
    /// Further words by which `list clinic --symptom` finds it.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// Numbers that are set side by side.
    #[serde(default)]
    pub measure: Vec<Measure>,
    /// The same fabric with other settings.
    #[serde(default)]
    pub variant: Vec<Variant>,
}

/// A number of the report.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// A key as under `[expect]`.
    pub key: String,
    /// In words; the key if absent.
    pub label: Option<String>,
    /// What the source says of it.
    pub reported: Option<String>,
}

/// `[[clinic.variant]]`: other settings, and what comes of them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// For `--variant`.
    pub name: String,
    /// What is changed, in words.
    pub title: String,
    /// What it is for.
    #[serde(default)]
    pub kind: VariantKind,
    /// Keys and their values, as with `--set`.
    pub set: BTreeMap<String, Anything>,
    /// What must hold after its run, instead of `[expect]`.
    #[serde(default)]
    pub expect: BTreeMap<String, Expected>,
}

/// What a variant is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VariantKind {
    /// It cures.
    #[default]
    Cure,
    /// Advice that does not help.
    NoCure,
    /// Neither: for comparison.
    Compare,
}

impl VariantKind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            VariantKind::Cure => "cure",
            VariantKind::NoCure => "does not help",
            VariantKind::Compare => "for comparison",
        }
    }
}

/// A scenario of the library with a `[clinic]`.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Findings that diagnose it: those of its `[expect]`.
    pub findings: Vec<String>,
    /// The section.
    pub clinic: Clinic,
}

/// All cases, in the library's order.
pub fn cases() -> Vec<Case> {
    LIBRARY.iter().filter(|entry| entry.kind == Kind::Clinic).filter_map(case).collect()
}

/// The case of a file. A built-in one without `[clinic]` would be a bug, which a test finds.
fn case(entry: &'static Entry) -> Option<Case> {
    let tree = parse(&mut Sources::default(), entry.name, entry.text).ok()?;
    let clinic = from_node(tree.get("clinic")?, "clinic").ok()?;
    let expected = tree.get("expect")?.as_table()?.keys();
    let findings = expected.filter_map(|key| Some(key.strip_prefix("findings.")?.to_owned()));
    Some(Case { name: entry.name, title: entry.title(), findings: findings.collect(), clinic })
}

/// Names and symptoms, in the given order.
pub fn table(cases: &[&Case]) -> String {
    let names = cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for case in cases {
        let lines = wrapped(&case.clinic.symptom, WIDTH - names - 4);
        for (number, line) in lines.iter().enumerate() {
            let name = if number == 0 { case.name } else { "" };
            text += &format!("  {name:<names$}  {line}\n");
        }
    }
    text
}

/// Columns of a line.
const WIDTH: usize = 98;

/// The end of an answer: symptom, cause and cure, and the commands of the variants. `name` is what
/// the scenario was called on the command line.
pub fn advice(loaded: &Loaded, name: &str) -> String {
    let Some(clinic) = &loaded.scenario.clinic else { return String::new() };
    let mut text = "\n".to_owned();
    let mut add = |label: &str, words: &str| {
        for (number, line) in wrapped(words, WIDTH - 13).iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            text += &format!("{label:<12} {line}\n");
        }
    };
    if let Some(variant) = loaded.variant() {
        let Variant { name, title, kind, .. } = variant;
        add("variant", &format!("{name} ({}): {title}", kind.name()));
    }
    add("symptom", &clinic.symptom);
    add("cause", &clinic.cause);
    add("cure", &clinic.cure);
    if let Some(advice) = &clinic.wrong_advice {
        add("wrong advice", advice);
    }
    let mut commands = Vec::new();
    if loaded.variant().is_some() {
        commands.push(vec![format!("rocesim run {name}"), "(ill)".to_owned()]);
    }
    for variant in &clinic.variant {
        if loaded.variant().is_none_or(|this| this.name != variant.name) {
            let command = format!("rocesim run {name} --variant {}", variant.name);
            commands.push(vec![command, format!("({})", variant.kind.name())]);
        }
    }
    text + &words(&commands)
}

/// Lays a variant over the user's tree: its assignments, and its expectations instead of the file's.
pub(crate) fn apply(user: &mut Node, name: &str, label: &str) -> Result<(), LoadError> {
    let variants = user.get("clinic").and_then(|clinic| clinic.get("variant"));
    let variants: Vec<Node> =
        variants.and_then(Node::as_array).map(<[Node]>::to_vec).unwrap_or_default();
    let called = |node: &Node| node.get("name").and_then(Node::as_text).map(str::to_owned);
    let Some(variant) = variants.iter().find(|node| called(node).as_deref() == Some(name)) else {
        let names: Vec<String> = variants.iter().filter_map(called).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let message = match names.is_empty() {
            true => format!("{label} has no variants ([[clinic.variant]]), so none named `{name}`"),
            false => format!("{label} has no variant `{name}`{}", suggestion(name, &names)),
        };
        return Err(LoadError::new(message));
    };
    for entry in variant.get("set").and_then(Node::as_table).into_iter().flatten() {
        let path = Path::parse_at(&entry.key, entry.key_origin)?;
        set(user, &path, entry.node.clone())?;
    }
    let expect = variant.get("expect").cloned();
    put(user, "expect", expect.unwrap_or_else(|| Node::empty_table(variant.origin)));
    Ok(())
}

/// Refuses names that are given twice, and keys that name nothing in a report.
pub(crate) fn check(tree: &Node, spec: &Spec) -> Result<(), LoadError> {
    let Some(clinic) = tree.get("clinic") else { return Ok(()) };
    for measure in clinic.get("measure").and_then(Node::as_array).into_iter().flatten() {
        let Some(key) = measure.get("key") else { continue };
        let fail = |message| LoadError::new(message).within("clinic.measure").at(key.origin);
        expect::check_name(key.as_text().unwrap_or(""), Some(spec)).map_err(fail)?;
    }
    let mut names = BTreeSet::new();
    for variant in clinic.get("variant").and_then(Node::as_array).into_iter().flatten() {
        if let Some(name) = variant.get("name")
            && !names.insert(name.as_text())
        {
            let message = "another variant has this name";
            return Err(LoadError::new(message).within("clinic.variant").at(name.origin));
        }
        for entry in variant.get("expect").and_then(Node::as_table).into_iter().flatten() {
            // its keys may make another topology
            expect::check_name(&entry.key, None).map_err(|message| {
                LoadError::new(message).within("clinic.variant.expect").at(entry.key_origin)
            })?;
        }
    }
    Ok(())
}
