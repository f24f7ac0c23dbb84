//! The switch: what its parts are, and how a configuration becomes them.

mod classify;
mod config;
mod headroom;
mod headroom_config;
mod mellanox;
mod mmu;
mod plan;
pub(crate) mod wred;

pub use classify::Classifier;
pub use config::{
    BufferConfig, PoolConfig, ProfileConfig, SchedulerConfig, SchedulerUnit, SwitchConfig,
    SwitchPfcConfig, SwitchQosConfig, Trust,
};
pub use headroom::{HeadroomInput, auto_cells};
pub use headroom_config::Headroom;
pub use mellanox::{Formula, MellanoxHeadroom};
pub use mmu::{Mmu, Pool, Profile, Refusal, Threshold};
pub use plan::{BufferPlan, PortPlan, plan_buffer};
pub use wred::{MarkAt, Wred, WredConfig};

use crate::load_balance::Ecmp;

/// A switch's state beside that of its ports.
#[derive(Debug)]
pub struct Switch {
    /// One a slice.
    pub mmus: Vec<Mmu>,
    /// Slice of each port, and the index of its first PG and queue there.
    pub places: Vec<(u8, u32)>,
    /// Bytes of a buffer cell.
    pub cell: u32,
    /// Next-hop choice.
    pub ecmp: Ecmp,
    /// Classification by ingress port.
    pub classifiers: Vec<std::sync::Arc<Classifier>>,
    /// Queue that a PFC priority pauses, by port; the priorities that are not obeyed map to 255.
    pub pfc_to_queue: Vec<[u8; 8]>,
}

impl Switch {
    /// Cells that a frame fills.
    #[inline]
    pub fn cells(&self, len: u16) -> u32 {
        if self.cell == 1 { u32::from(len) } else { u32::from(len).div_ceil(self.cell) }
    }
}
