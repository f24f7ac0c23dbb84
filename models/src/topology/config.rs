//! `[topology]`: the shapes that can be asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Delta, Rate};

/// The fabric's shape.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind")]
pub enum TopologyConfig {
    /// All hosts on one switch.
    Star(StarConfig),
    /// Two switches with a trunk between them.
    Dumbbell(DumbbellConfig),
    /// Switches in a circle, each with hosts.
    Ring(RingConfig),
    /// Two-tier Clos.
    LeafSpine(LeafSpineConfig),
    /// Hosts with several ports, each on a leaf of its own: its rail.
    Rail(RailConfig),
    /// Three-tier fat tree of k-port switches: k^3/4 hosts.
    FatTree(FatTreeConfig),
    /// Three-tier Clos: pods of edge and aggregation switches, and cores between them.
    ThreeTier(ThreeTierConfig),
    /// Nodes and links one by one.
    Graph(GraphConfig),
}

/// A cable.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Rate, each way.
    pub rate: Rate,
    /// Propagation delay; 5 ns/m of cable.
    pub delay: Delta,
    /// Probability that a frame is lost or corrupted on the way.
    #[serde(default)]
    pub loss: f64,
}

/// `kind = "star"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StarConfig {
    /// Number of hosts.
    pub hosts: u32,
    /// Host to switch.
    pub link: LinkConfig,
    /// Ports of each host: parallel cables to the switch.
    #[serde(default = "one")]
    pub ports_per_host: u32,
}

/// `kind = "dumbbell"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DumbbellConfig {
    /// Hosts on the left switch: the first ones.
    pub left: u32,
    /// Hosts on the right switch.
    pub right: u32,
    /// Host to switch.
    pub link: LinkConfig,
    /// Switch to switch; like `link` if absent.
    pub trunk: Option<LinkConfig>,
    /// Parallel trunk cables.
    #[serde(default = "one")]
    pub trunks: u32,
}

/// `kind = "ring"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RingConfig {
    /// Switches in the circle.
    pub switches: u32,
    /// Hosts on each switch.
    #[serde(default = "one")]
    pub hosts_per_switch: u32,
    /// Host to switch.
    pub link: LinkConfig,
    /// Switch to switch; like `link` if absent.
    pub trunk: Option<LinkConfig>,
}

/// `kind = "leaf-spine"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeafSpineConfig {
    /// Leaf switches.
    pub leaves: u32,
    /// Spine switches.
    pub spines: u32,
    /// Hosts on each leaf.
    pub hosts_per_leaf: u32,
    /// Host to leaf.
    pub link: LinkConfig,
    /// Leaf to spine; like `link` if absent.
    pub uplink: Option<LinkConfig>,
    /// Parallel cables between each leaf and each spine.
    #[serde(default = "one")]
    pub uplinks_per_spine: u32,
    /// Ports of each host: parallel cables to its leaf.
    #[serde(default = "one")]
    pub ports_per_host: u32,
}

/// `kind = "rail"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RailConfig {
    /// Number of hosts.
    pub hosts: u32,
    /// Ports of each host. Port r goes to rail r, a leaf that all hosts of a group share: rail r of
    /// group g is leaf g x rails + r.
    pub rails: u32,
    /// Hosts of a group; all in one group if absent.
    pub hosts_per_group: Option<u32>,
    /// Host to leaf.
    pub link: LinkConfig,
    /// Spine switches; without any, rails are islands.
    #[serde(default)]
    pub spines: u32,
    /// Leaf to spine; like `link` if absent.
    pub uplink: Option<LinkConfig>,
    /// Parallel cables between each leaf and each spine.
    #[serde(default = "one")]
    pub uplinks_per_spine: u32,
}

/// `kind = "fat-tree"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FatTreeConfig {
    /// Ports of each switch; even. k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores.
    pub k: u32,
    /// Host to edge.
    pub link: LinkConfig,
    /// Between switches; like `link` if absent.
    pub uplink: Option<LinkConfig>,
}

/// `kind = "three-tier"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreeTierConfig {
    /// Pods.
    pub pods: u32,
    /// Edge switches of a pod, each with a cable to each aggregation switch of its pod.
    pub edges_per_pod: u32,
    /// Aggregation switches of a pod.
    pub aggregations_per_pod: u32,
    /// Cores above each aggregation switch. Those above the i-th of a pod are above the i-th of
    /// every pod, so there are `aggregations_per_pod` times as many.
    pub cores_per_aggregation: u32,
    /// Hosts on each edge switch.
    pub hosts_per_edge: u32,
    /// Host to edge.
    pub link: LinkConfig,
    /// Between switches; like `link` if absent.
    pub uplink: Option<LinkConfig>,
}

/// `kind = "graph"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphConfig {
    /// Names of the hosts; `"n[0..320]"` stands for n0 to n319.
    pub hosts: Vec<String>,
    /// Names of the switches.
    pub switches: Vec<String>,
    /// The cables; a node's k-th cable is its port k, counted from 0.
    pub links: Vec<GraphLink>,
    /// Order nodes by the number at the end of their names, and use it in ECMP seeds and addresses.
    #[serde(default)]
    pub numbered: bool,
    /// Next hops that replace the computed ones.
    #[serde(default)]
    pub routes: Vec<StaticRoute>,
}

/// A cable of a graph.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphLink {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// Rate, each way.
    pub rate: Rate,
    /// Propagation delay; 5 ns/m of cable.
    pub delay: Delta,
    /// Probability that a frame is lost or corrupted on the way.
    #[serde(default)]
    pub loss: f64,
}

/// Next hops at one switch towards one host.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StaticRoute {
    /// The node that forwards.
    pub node: String,
    /// The host that is reached.
    pub target: String,
    /// Ports of `node`, in the order in which the hash chooses.
    pub ports: Vec<u32>,
}

fn one() -> u32 {
    1
}
