//! The keys of a scenario. Each section is the configuration struct of the model that it is for.

use std::collections::BTreeMap;

use models::collective::NcclConfig;
use models::fabric::{MeasureConfig, SampleConfig, StopConfig};
use models::fault::{Anything, FaultConfig};
use models::host::HostConfig;
use models::nic::NicConfig;
use models::switch::SwitchConfig;
use models::topology::TopologyConfig;
use models::traffic::TrafficConfig;
use models::wire::WireConfig;
use schemars::JsonSchema;
use serde::Deserialize;
use sim_core::Rate;

use crate::clinic::Clinic;
use crate::expect::Expected;

/// A scenario with its presets expanded.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows, in a line.
    #[serde(default)]
    pub title: String,
    /// What it shows, at length.
    #[serde(default)]
    pub description: String,
    /// Seed of all random streams.
    #[serde(default = "one")]
    pub seed: u64,
    /// Frame sizes and timing.
    #[serde(default)]
    pub wire: WireConfig,
    /// Nodes and links.
    pub topology: TopologyConfig,
    /// All switches.
    #[serde(default)]
    pub switch: SwitchConfig,
    /// The NICs of all hosts.
    #[serde(default)]
    pub nic: NicConfig,
    /// The servers: GPUs and what joins them.
    pub host: Option<HostConfig>,
    /// NCCL's environment variables, for all collectives.
    #[serde(default)]
    pub nccl: NcclConfig,
    /// What is sent.
    #[serde(default)]
    pub traffic: Vec<TrafficConfig>,
    /// Devices that differ.
    #[serde(default, rename = "override")]
    pub overrides: Vec<Override>,
    /// What goes wrong while it runs.
    #[serde(default, rename = "fault")]
    pub faults: Vec<FaultConfig>,
    /// When the run ends.
    #[serde(default)]
    pub stop: StopConfig,
    /// The time over which goodput and mean queues are taken.
    #[serde(default)]
    pub measure: MeasureConfig,
    /// Time series.
    #[serde(default)]
    pub sample: SampleConfig,
    /// What must hold after the run.
    #[serde(default)]
    pub expect: BTreeMap<String, Expected>,
    /// The symptom that it shows, and variants that cure it.
    pub clinic: Option<Clinic>,
}

/// `[[override]]`: settings of some devices.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// Names of the nodes; all if absent.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Names of switch ports, such as `leaf0:3`; all if absent.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Only switch ports of this link rate.
    pub rate: Option<Rate>,
    /// Keys from `switch`, `nic` or `host` on, and their values.
    pub set: BTreeMap<String, Anything>,
}

fn one() -> u64 {
    1
}

/// The JSON Schema of scenario files, for editors.
pub fn json_schema() -> serde_json::Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(Scenario)).unwrap_or_default();
    let preset = serde_json::json!({
        "type": "string",
        "description": "name of a built-in preset; the keys here override it"
    });
    let algorithms = schema.pointer("/$defs/CongestionConfig/oneOf").and_then(|all| all.as_array());
    let algorithms = 0..algorithms.map_or(0, Vec::len);
    let sections = [
        "/properties",
        "/$defs/SwitchConfig/properties",
        "/$defs/NicConfig/properties",
        "/$defs/HostConfig/properties",
    ];
    let places = sections
        .into_iter()
        .map(str::to_owned)
        .chain(algorithms.map(|index| format!("/$defs/CongestionConfig/oneOf/{index}/properties")));
    for place in places {
        if let Some(properties) = schema.pointer_mut(&place).and_then(|p| p.as_object_mut()) {
            properties.insert("preset".to_owned(), preset.clone());
        }
    }
    schema
}
