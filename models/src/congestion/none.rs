//! No congestion control: every QP sends at line rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Delta, Rate, Time};

use super::{Credit, RateController};

/// `algorithm = "none"` has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoneConfig {}

/// A constant rate.
#[derive(Clone, Debug)]
pub struct NoControl {
    rate: Rate,
}

impl NoControl {
    /// Always `rate`.
    pub fn new(rate: Rate) -> Self {
        NoControl { rate }
    }
}

impl RateController for NoControl {
    #[inline]
    fn rate(&self) -> Rate {
        self.rate
    }

    #[inline]
    fn advance(&mut self, from: Time, to: Time) -> Credit {
        Credit::from(self.rate.bps()) * Credit::from(to.since(from).ps())
    }

    #[inline]
    fn ready_at(&self, from: Time, owed: Credit) -> Time {
        from + Delta::from_ps(owed.div_ceil(Credit::from(self.rate.bps())) as u64)
    }
}
