//! The keys of `kind = "program"`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::Delta;

use super::Schedule;
use crate::collective::msccl::MscclAlgorithm;
use crate::collective::{DataType, MessageSizes};
use crate::placement::{PlacementConfig, Ranks};
use crate::traffic::Hosts;

/// `kind = "program"`: an algorithm of MSCCL (XML), or a GOAL schedule, run by the GPUs of hosts.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramConfig {
    /// A name for `--set` and reports.
    #[serde(default)]
    pub name: String,
    /// The file, beside the scenario: `algorithm.xml` of MSCCL, or `schedule.goal`; either may be
    /// compressed (`.gz`).
    pub file: String,
    /// MSCCL: size of the buffer as nccl-tests counts it; or a sweep of sizes, each a run of its own.
    pub bytes: Option<MessageSizes>,
    /// MSCCL: type of the elements.
    pub dtype: Option<DataType>,
    /// MSCCL: repetitions, back to back; times are means over them. 1 if absent.
    pub iterations: Option<u32>,
    /// MSCCL: repetitions before these that are not timed. 0 if absent.
    pub warmup: Option<u32>,
    /// GOAL: the time that `calc 1` takes; 1 ns if absent, as in LogGOPSim.
    pub unit: Option<Delta>,
    /// The hosts that take part, in the order of their ranks; all if absent.
    pub hosts: Option<Hosts>,
    /// GPUs of each host that take part: the first so many; all if absent.
    pub gpus: Option<u32>,
    /// The GPUs one by one, or a rank file; instead of `hosts` and `gpus`.
    pub ranks: Option<Ranks>,
    /// Hosts as a scheduler would give them, among `hosts`.
    pub placement: Option<PlacementConfig>,
    /// GOAL: DSCP of messages, instead of the NIC's.
    pub dscp: Option<u8>,
    /// When it starts.
    #[serde(default)]
    pub start: Delta,
    /// What is in the file.
    #[serde(skip)]
    pub content: Option<Content>,
}

/// What a file has been found to be.
#[derive(Clone, Debug)]
pub enum Content {
    /// An algorithm of MSCCL.
    Msccl(Arc<MscclAlgorithm>),
    /// A GOAL schedule.
    Goal(Arc<Schedule>),
}
