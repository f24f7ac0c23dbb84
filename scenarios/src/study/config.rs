//! The keys of a study.

use std::collections::BTreeMap;
use std::fmt;

use models::fault::Anything;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use crate::expect::Expected;

/// A study: a scenario, what differs from point to point, and what is wanted of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StudyConfig {
    /// The question, in a line.
    #[serde(default)]
    pub title: String,
    /// The question, at length.
    #[serde(default)]
    pub description: String,
    /// The scenario that is studied: a built-in one, or a file, from the study's folder on.
    pub base: Option<String>,
    /// The scenario itself, instead of `base`.
    pub scenario: Option<Anything>,
    /// Keys of the scenario and their values, for all points, as with `--set`.
    #[serde(default)]
    pub set: BTreeMap<String, Anything>,
    /// What differs from point to point: keys of the scenario, or names of several.
    pub axes: BTreeMap<String, Anything>,
    /// How points are chosen.
    #[serde(default)]
    pub method: Method,
    /// How many points, where they are chosen at random or searched for.
    #[schemars(range(min = 1))]
    pub samples: Option<u32>,
    /// Seed of that choice.
    #[serde(default = "one")]
    pub seed: u64,
    /// Each point is run with so many seeds, from the scenario's own on.
    #[serde(default = "one_seed")]
    #[schemars(range(min = 1))]
    pub seeds: u32,
    /// Fields of the report (as under `[expect]`) that should be large, the most important first.
    #[serde(default)]
    pub maximize: Fields,
    /// Fields that should be small; after those of `maximize`.
    #[serde(default)]
    pub minimize: Fields,
    /// What must hold in each run, as under `[expect]`. That it completes must hold in any case,
    /// unless `outcome` says otherwise.
    #[serde(default)]
    pub require: BTreeMap<String, Expected>,
    /// Further fields of the report for the table.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Axes that nobody can choose, such as the size of the fabric: there is a recommendation for
    /// each of their values.
    #[serde(default)]
    pub given: Vec<String>,
    /// Axes that must be lived with, such as which cable fails: what is recommended must do for all
    /// of their values, and counts as its worst.
    #[serde(default)]
    pub across: Vec<String>,
    /// Points whose first objective is within this share of the best are as good; the next
    /// objective decides between them.
    #[serde(default = "tolerance")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub tolerance: f64,
    /// A run is stopped once it has simulated so many times what the base took.
    #[schemars(range(min = 1.0))]
    pub give_up: Option<f64>,
    /// A point that fails a requirement with one seed is not run with the others.
    #[serde(default = "yes")]
    pub early_stop: bool,
    /// Of long collectives only the beginning is simulated, as with `--quick`.
    #[serde(default)]
    pub quick: bool,
}

/// How points are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// All combinations of the values of all axes.
    #[default]
    Grid,
    /// Each value by chance.
    Random,
    /// By chance, but each axis is covered evenly (McKay, Beckman and Conover, 1979).
    LatinHypercube,
    /// Each next batch where the best points so far are dense (tree-structured Parzen estimator,
    /// Bergstra and others, NIPS 2011).
    Tpe,
}

impl Method {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Method::Grid => "grid",
            Method::Random => "random",
            Method::LatinHypercube => "latin-hypercube",
            Method::Tpe => "tpe",
        }
    }
}

/// One field of the report or several: `"paused_s"` or `["paused_s", "flows.fct_p99"]`.
#[derive(Clone, Debug, Default)]
pub struct Fields(pub Vec<String>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field of the report, such as \"collectives.busbw_mean\", or a list")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Fields, E> {
                Ok(Fields(vec![text.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = list.next_element()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for Fields {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Fields".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" } }
        ] })
    }
}

fn one() -> u64 {
    1
}

fn one_seed() -> u32 {
    1
}

fn tolerance() -> f64 {
    0.01
}

fn yes() -> bool {
    true
}
