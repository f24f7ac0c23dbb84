//! The switch: what its parts are, and how a configuration becomes them.

mod bounce;
mod classify;
mod config;
mod headroom;
mod headroom_config;
mod mellanox;
mod mmu;
mod pipeline;
mod plan;
mod watchdog;
pub(crate) mod wred;

pub use bounce::{Bounce, BounceConfig};
pub use classify::Classifier;
pub use config::{
    BufferConfig, PoolConfig, ProfileConfig, SchedulerConfig, SchedulerUnit, SwitchConfig,
    SwitchPfcConfig, SwitchQosConfig, Trust,
};
pub use headroom::{HeadroomInput, HeadroomTerms, auto_cells};
pub use headroom_config::Headroom;
pub use mellanox::{Formula, MellanoxHeadroom};
pub use mmu::{Mmu, POOLS_MAX, Pool, Profile, Refusal, Threshold};
pub use pipeline::{Pipeline, PipelineConfig, PipelineCounters, Turn};
pub use plan::{BufferPlan, PortPlan, plan_buffer};
pub use watchdog::{
    Look, QueueWatch, STORMS_KEPT, StormFrames, Verdict, WatchdogAction, WatchdogConfig,
    WatchdogCounters, WatchdogRule,
};
pub use wred::{MarkAt, PortWred, Wred, WredConfig};

use sim_core::Time;

use crate::load_balance::Ecmp;

/// A switch's state beside that of its ports and MMUs.
#[derive(Debug)]
pub struct Switch {
    /// The MMU of its first slice.
    pub first_mmu: u32,
    /// Slice of each port, and the index of its first PG and queue there.
    pub places: Vec<(u8, u32)>,
    /// Its first pipeline, if it has a limit of frames; and how they share its ports.
    pub first_pipeline: u32,
    /// See `first_pipeline`.
    pub pipeline: Option<PipelineConfig>,
    /// Next-hop choice.
    pub ecmp: Ecmp,
    /// Groups that hold XOFF.
    pub xoffs: u32,
    /// Queues that are stormed: its watchdogs then look at every frame.
    pub storms: u32,
    /// It was, or is, so full that each departure counts as it happens.
    pub exact_until: Time,
    /// Queue that a PFC priority pauses, by port; the priorities that are not obeyed map to 255.
    pub pfc_to_queue: Vec<[u8; 8]>,
}

impl Switch {
    /// The MMU of a port, and its first PG there.
    pub fn place(&self, port: u16) -> (usize, usize) {
        let (slice, base) = self.places[usize::from(port)];
        (self.first_mmu as usize + usize::from(slice), base as usize)
    }

    /// The pipeline of a port, if it has a limit of frames.
    pub fn pipeline_of(&self, port: u16) -> Option<usize> {
        let config = self.pipeline?;
        Some((self.first_pipeline + config.of(port, self.places.len())) as usize)
    }
}
