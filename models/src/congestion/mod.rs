//! Congestion control: what a sender's rate is.
//!
//! A controller is sans-io. Between inputs its rate is a known function of time, so it needs no
//! events: the sender asks when enough credit for the last frame has been earned, and asks again
//! after an input. **At one instant frames come before timers**: an input at `t` sees the timers
//! that were due before `t`, and those due at `t` see the input.
//!
//! To add an algorithm: one file with its config and state, a variant in [`CongestionConfig`] and
//! one in [`RateControl`], and an arm in [`CongestionConfig::check`], in [`RateControl::new`] and in
//! `delegate!`.

mod dcqcn;
mod mlx5;
mod none;
mod reno;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Rate, Time};

pub use dcqcn::{AlphaUpdate, Dcqcn, DcqcnConfig, Decrease, Increase};
pub use none::{NoControl, NoneConfig};
pub use reno::{Reno, TcpConfig};

/// Credit: rate x time, in bit x picoseconds per second. A frame of n bytes costs [`cost`] of it.
pub type Credit = u128;

/// The credit that a frame of `wire_bytes` costs.
pub const fn cost(wire_bytes: u64) -> Credit {
    wire_bytes as u128 * 8_000_000_000_000
}

/// What every algorithm does. Times never go back.
pub trait RateController {
    /// The rate after the inputs and timers so far.
    fn rate(&self) -> Rate;

    /// Fires the timers in [`from`, `to`) and returns the credit earned from `from` to `to`.
    fn advance(&mut self, from: Time, to: Time) -> Credit;

    /// When `owed` credit will have been earned, from `from` on, if there is no further input.
    fn ready_at(&self, from: Time, owed: Credit) -> Time;

    /// A congestion notification arrived. All earlier timers have fired.
    fn on_cnp(&mut self, _now: Time) {}

    /// A frame of `wire_bytes` leaves. All earlier timers have fired.
    fn on_send(&mut self, _now: Time, _wire_bytes: u64) {}

    /// What a plot shows: the rate to which a cut sender returns, and the congestion estimate.
    fn gauges(&self, _now: Time) -> Gauges {
        Gauges { target_rate: self.rate(), alpha: 0.0 }
    }
}

/// Inner state of a controller, for plots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauges {
    /// Rate to return to.
    pub target_rate: Rate,
    /// Congestion estimate, 0 to 1.
    pub alpha: f64,
}

/// `[nic.congestion]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "algorithm")]
pub enum CongestionConfig {
    /// Line rate always, or another that does not change.
    None(NoneConfig),
    /// Data center quantized congestion notification.
    Dcqcn(DcqcnConfig),
}

impl Default for CongestionConfig {
    fn default() -> Self {
        CongestionConfig::None(NoneConfig::default())
    }
}

impl CongestionConfig {
    /// Checks ranges; the message names the key within `[nic.congestion]`.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            CongestionConfig::None(config) => config.check(),
            CongestionConfig::Dcqcn(config) => config.check(),
        }
    }
}

/// The controller of one QP.
#[derive(Clone, Debug)]
pub enum RateControl {
    /// A rate that does not change.
    None(NoControl),
    /// DCQCN.
    Dcqcn(Dcqcn),
    /// The window of a TCP flow, whatever `[nic.congestion]` says.
    Reno(Reno),
}

impl RateControl {
    /// A fresh controller at `line_rate`, for data of this priority.
    pub fn new(config: &Arc<CongestionConfig>, line_rate: Rate, priority: u8) -> Self {
        match &**config {
            CongestionConfig::None(none) => RateControl::None(NoControl::new(none, line_rate)),
            CongestionConfig::Dcqcn(dcqcn) if !dcqcn.priorities.contains(&priority) => {
                RateControl::None(NoControl::new(&NoneConfig::default(), line_rate))
            }
            CongestionConfig::Dcqcn(dcqcn) => RateControl::Dcqcn(Dcqcn::new(dcqcn, line_rate)),
        }
    }
}

macro_rules! delegate {
    ($self:ident, $control:ident => $call:expr) => {
        match $self {
            RateControl::None($control) => $call,
            RateControl::Dcqcn($control) => $call,
            RateControl::Reno($control) => $call,
        }
    };
}

impl RateController for RateControl {
    #[inline]
    fn rate(&self) -> Rate {
        delegate!(self, control => control.rate())
    }
    #[inline]
    fn advance(&mut self, from: Time, to: Time) -> Credit {
        delegate!(self, control => control.advance(from, to))
    }
    #[inline]
    fn ready_at(&self, from: Time, owed: Credit) -> Time {
        delegate!(self, control => control.ready_at(from, owed))
    }
    #[inline]
    fn on_cnp(&mut self, now: Time) {
        delegate!(self, control => control.on_cnp(now));
    }
    #[inline]
    fn on_send(&mut self, now: Time, wire_bytes: u64) {
        delegate!(self, control => control.on_send(now, wire_bytes));
    }
    fn gauges(&self, now: Time) -> Gauges {
        delegate!(self, control => control.gauges(now))
    }
}
