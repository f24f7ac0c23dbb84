//! Everything that a fabric is built from.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::Delta;

use crate::collective::{Collective, NcclConfig};
use crate::fault::{FaultConfig, Settings};
use crate::host::HostConfig;
use crate::nic::NicConfig;
use crate::program::Scheduled;
use crate::switch::SwitchConfig;
use crate::topology::{StaticRoute, Topology};
use crate::traffic::Flow;
use crate::training::Training;
use crate::wire::WireConfig;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The graph.
    pub topology: Arc<Topology>,
    /// Next hops that replace computed ones.
    pub routes: Vec<StaticRoute>,
    /// Frame sizes and timing.
    pub wire: WireConfig,
    /// By node: the configuration of a switch.
    pub switches: Vec<Option<Arc<SwitchConfig>>>,
    /// By port: the configuration of a switch port.
    pub switch_ports: Vec<Option<Arc<SwitchConfig>>>,
    /// By node: the configuration of a host's NIC.
    pub nics: Vec<Option<Arc<NicConfig>>>,
    /// By node: the server.
    pub hosts: Vec<Option<Arc<HostConfig>>>,
    /// NCCL's variables.
    pub nccl: NcclConfig,
    /// All flows.
    pub flows: Arc<[Flow]>,
    /// All collectives.
    pub collectives: Vec<Collective>,
    /// All training jobs.
    pub trainings: Vec<Training>,
    /// All GOAL schedules.
    pub schedules: Vec<Scheduled>,
    /// What the traffic sections are called in paths of keys: their names, or `[2]`.
    pub sections: Vec<String>,
    /// What goes wrong.
    pub faults: Vec<FaultConfig>,
    /// What faults of `kind = "set"` make of devices, in order of time.
    pub settings: Vec<Settings>,
    /// When the run ends.
    pub stop: StopConfig,
    /// Over which time means are taken.
    pub measure: MeasureConfig,
    /// What is sampled.
    pub sample: SampleConfig,
    /// Seed of all random streams.
    pub seed: u64,
}

/// `[stop]`: when a run ends. Without any key: when nothing is left to happen.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StopConfig {
    /// The planned end.
    pub after: Option<Delta>,
    /// A run that takes longer is unfinished.
    pub limit: Option<Delta>,
    /// The run ends this long after the last flow was acknowledged and the last collective ended.
    pub after_last_flow: Option<Delta>,
    /// The run is deadlocked if switches hold frames and nothing but PFC moves for this long, or if
    /// paused queues that wait for each other in a circle have not moved for this long, whatever
    /// else moves.
    pub stall: Delta,
    /// What is done about it.
    pub deadlock: OnDeadlock,
}

/// What a run does that finds a deadlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnDeadlock {
    /// It ends.
    #[default]
    End,
    /// It notes when and where, and goes on to its planned end or its limit: a watchdog may break
    /// the circle.
    GoOn,
}

impl Default for StopConfig {
    fn default() -> Self {
        let stall = Delta::from_ms(100);
        StopConfig {
            after: None,
            limit: None,
            after_last_flow: None,
            stall,
            deadlock: OnDeadlock::End,
        }
    }
}

/// `[measure]`: the time over which goodput and mean queues are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MeasureConfig {
    /// From here,
    pub from: Delta,
    /// to here, or the end of the run.
    pub to: Option<Delta>,
}

/// `[sample]`: time series.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SampleConfig {
    /// Time between two samples; without it there are none.
    pub interval: Option<Delta>,
    /// Keep fewer than so many samples: when there are as many, every second one is left out, and
    /// the interval doubles. All are kept if absent.
    pub keep: Option<u32>,
    /// Names of the ports that are sampled; all if absent.
    pub ports: Option<Vec<String>>,
    /// Number of flows that are sampled, from the first on; 64 if absent.
    pub flows: Option<u32>,
}
