//! Credits of the receiver, as NCCL's own: a message goes out in slices, and at most so many are
//! under way as the receiver has slots for; what it has taken in frees a slot. There is no rate, and
//! marks do nothing: that is how clusters run whose DCQCN is off (Gangidi et al., "RDMA over Ethernet
//! for Distributed AI Training at Meta Scale", SIGCOMM 2024, section 6).
//!
//! The QPs of collectives have NCCL's CTS messages anyway; this is the same for point traffic, where
//! the ACK of a slice stands for its CTS.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Rate};

use super::{Check, Marks, RateController, Way, within};

/// `algorithm = "credits"`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CreditsConfig {
    /// Slots of a connection (NCCL_STEPS).
    pub slots: u32,
    /// What one takes (NCCL_BUFFSIZE / NCCL_STEPS).
    pub slice: Bytes,
}

impl Default for CreditsConfig {
    /// NCCL's: 8 slots of 512 KiB.
    fn default() -> Self {
        CreditsConfig { slots: 8, slice: Bytes::new(512 << 10) }
    }
}

impl CreditsConfig {
    pub(super) fn check(&self) -> Check {
        within("slots", self.slots, 1, 1024)?;
        within("slice", self.slice.get(), 256, 1 << 30)
    }
}

/// The sender of one QP.
#[derive(Clone, Debug)]
pub struct Credits {
    line_rate: Rate,
    window: Bytes,
}

impl Credits {
    /// A sender that has all slots.
    pub fn new(config: &CreditsConfig, way: &Way) -> Self {
        let window = Bytes::new(u64::from(config.slots) * config.slice.get());
        Credits { line_rate: way.line_rate, window }
    }
}

impl RateController for Credits {
    #[inline]
    fn rate(&self) -> Rate {
        self.line_rate
    }

    fn window(&self) -> Option<Bytes> {
        Some(self.window)
    }

    fn marks(&self) -> Marks {
        Marks::Unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_core::Delta;

    #[test]
    fn slots_are_a_window() {
        let way =
            Way { line_rate: Rate::from_gbps(100), base_rtt: Delta::ZERO, hops: 0, mtu: 4096 };
        let credits = Credits::new(&CreditsConfig::default(), &way);
        assert_eq!((credits.rate(), credits.window()), (way.line_rate, Some(Bytes::new(4 << 20))));
        assert!(CreditsConfig { slots: 0, ..CreditsConfig::default() }.check().is_err());
    }
}
