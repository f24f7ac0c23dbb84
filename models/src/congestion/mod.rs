//! Congestion control: what a sender's rate is.
//!
//! A controller is sans-io. Between inputs its rate is a known function of time, so it needs no
//! events: the sender asks when enough credit for the last frame has been earned, and asks again
//! after an input. **At one instant frames come before timers**: an input at `t` sees the timers
//! that were due before `t`, and those due at `t` see the input.
//!
//! To add an algorithm: one file with its config and state, a variant in [`CongestionConfig`] and
//! one in [`RateControl`], and an arm in [`CongestionConfig::check`], in [`RateControl::new`] and in
//! `delegate!`. What an algorithm wants back with its acknowledgements ([`Wanted`]) and whether
//! acknowledgements change it ([`RateController::learns`]) it says itself.

mod credits;
mod dcqcn;
mod dcqcn_plus;
mod dctcp;
mod hpcc;
mod mlx5;
mod none;
mod reno;
mod swift;
mod timely;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate, Time};

pub use credits::{Credits, CreditsConfig};
pub use dcqcn::{AlphaUpdate, Dcqcn, DcqcnConfig, Decrease, Increase};
pub use dcqcn_plus::{DcqcnPlus, DcqcnPlusConfig};
pub use dctcp::{Dctcp, DctcpConfig};
pub use hpcc::{Feedback, Hpcc, HpccConfig};
pub use none::{NoControl, NoneConfig};
pub use reno::{Reno, TcpConfig};
pub use swift::{Swift, SwiftConfig};
pub use timely::{Timely, TimelyConfig};

use crate::note::{Note, Wanted};

/// Credit: rate x time, in bit x picoseconds per second. A frame of n bytes costs [`cost`] of it.
pub type Credit = u128;

/// The credit that a frame of `wire_bytes` costs.
pub const fn cost(wire_bytes: u64) -> Credit {
    wire_bytes as u128 * 8_000_000_000_000
}

/// What a controller knows of the way of its QP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The most that the QP may send.
    pub line_rate: Rate,
    /// From the first bit of a full packet to the handling of its ACK, in an empty fabric: the longest
    /// of all QPs.
    pub base_rtt: Delta,
    /// Switches on the QP's own way.
    pub hops: u32,
    /// Payload of a full packet, in bytes.
    pub mtu: u16,
}

/// An ACK or NAK, as the sender's transport has understood it.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Payload newly acknowledged, were all packets full.
    pub bytes: u64,
    /// The first PSN that is not acknowledged.
    pub una: u32,
    /// The next PSN to send.
    pub next: u32,
    /// The end of what was ever sent.
    pub sent: u32,
    /// Payload in flight, were all packets full.
    pub in_flight: u64,
    /// The packet that was acknowledged had met congestion.
    pub echo: bool,
    /// The PSN that a NAK asks for.
    pub missing: Option<u32>,
    /// What that packet brought back.
    pub note: Option<&'a Note>,
}

/// What every algorithm does. Times never go back.
///
/// `advance` and `ready_at` are those of a rate that only inputs change.
pub trait RateController {
    /// The rate after the inputs and timers so far.
    fn rate(&self) -> Rate;

    /// Fires the timers in [`from`, `to`) and returns the credit earned from `from` to `to`.
    #[inline]
    fn advance(&mut self, from: Time, to: Time) -> Credit {
        Credit::from(self.rate().bps()) * Credit::from(to.since(from).ps())
    }

    /// When `owed` credit will have been earned, from `from` on, if there is no further input.
    #[inline]
    fn ready_at(&self, from: Time, owed: Credit) -> Time {
        from + Delta::from_ps(owed.div_ceil(Credit::from(self.rate().bps())) as u64)
    }

    /// A congestion notification arrived, with the pause between notifications that the receiver
    /// keeps, if it says. All earlier timers have fired.
    fn on_cnp(&mut self, _now: Time, _pause: Option<Delta>) {}

    /// A frame of `wire_bytes` leaves. All earlier timers have fired.
    #[inline]
    fn on_send(&mut self, _now: Time, _wire_bytes: u64) {}

    /// Whether it wants [`RateController::on_ack`] and [`RateController::on_timeout`].
    #[inline]
    fn learns(&self) -> bool {
        false
    }

    /// An ACK or NAK arrived. All earlier timers have fired.
    fn on_ack(&mut self, _now: Time, _ack: &Ack<'_>) {}

    /// The retransmission timer fires, with PSNs up to `sent` sent and so much payload in flight.
    fn on_timeout(&mut self, _now: Time, _sent: u32, _in_flight: u64) {}

    /// Payload that may be unacknowledged; `None` if the algorithm sets no window.
    #[inline]
    fn window(&self) -> Option<Bytes> {
        None
    }

    /// What its data packets are to bring back.
    fn wants(&self) -> Option<Wanted> {
        None
    }

    /// Bytes that this takes in data packets and in ACKs.
    fn header(&self) -> u16 {
        0
    }

    /// How its receiver tells of marks: by CNPs or echoes, as `nic.np.notify` says.
    fn marks(&self) -> Marks {
        Marks::Notified
    }

    /// What a plot shows: the rate to which a cut sender returns, and the congestion estimate.
    fn gauges(&self, _now: Time) -> Gauges {
        Gauges { target_rate: self.rate(), alpha: 0.0 }
    }
}

/// What an algorithm does with ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// The receiver does as its NIC is set.
    #[default]
    Notified,
    /// The receiver echoes each mark in the ACK of its packet, unless its NIC tells of none.
    Echoed,
    /// Its packets are not ECN-capable.
    Unused,
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
    /// DCQCN for large incasts: the pause between CNPs, and the increase, follow the number of flows.
    DcqcnPlus(DcqcnPlusConfig),
    /// The share of marked packets cuts the rate once a round trip.
    Dctcp(DctcpConfig),
    /// Switches tell how much they have in flight.
    Hpcc(HpccConfig),
    /// Differences of round-trip times.
    Timely(TimelyConfig),
    /// A target for the delay.
    Swift(SwiftConfig),
    /// The receiver's slots, as NCCL has them.
    Credits(CreditsConfig),
}

impl Default for CongestionConfig {
    fn default() -> Self {
        CongestionConfig::None(NoneConfig::default())
    }
}

impl CongestionConfig {
    /// Checks ranges; the message names the key within `[nic.congestion]`.
    pub fn check(&self) -> Check {
        match self {
            CongestionConfig::None(config) => config.check(),
            CongestionConfig::Dcqcn(config) => config.check(),
            CongestionConfig::DcqcnPlus(config) => config.check(),
            CongestionConfig::Dctcp(config) => config.check(),
            CongestionConfig::Hpcc(config) => config.check(),
            CongestionConfig::Timely(config) => config.check(),
            CongestionConfig::Swift(config) => config.check(),
            CongestionConfig::Credits(config) => config.check(),
        }
    }

    /// Its name, as `algorithm` has it.
    pub fn name(&self) -> &'static str {
        match self {
            CongestionConfig::None(_) => "none",
            CongestionConfig::Dcqcn(_) => "dcqcn",
            CongestionConfig::DcqcnPlus(_) => "dcqcn-plus",
            CongestionConfig::Dctcp(_) => "dctcp",
            CongestionConfig::Hpcc(_) => "hpcc",
            CongestionConfig::Timely(_) => "timely",
            CongestionConfig::Swift(_) => "swift",
            CongestionConfig::Credits(_) => "credits",
        }
    }

    /// Whether marks slow it down, in some priority.
    pub fn heeds_marks(&self) -> bool {
        match self {
            CongestionConfig::Dcqcn(dcqcn) => !dcqcn.priorities.is_empty(),
            CongestionConfig::DcqcnPlus(_) | CongestionConfig::Dctcp(_) => true,
            _ => false,
        }
    }

    /// Whether it learns from ACKs, or has a window that they open: it can do nothing without.
    pub fn needs_acks(&self) -> bool {
        !matches!(
            self,
            CongestionConfig::None(_) | CongestionConfig::Dcqcn(_) | CongestionConfig::DcqcnPlus(_)
        )
    }

    /// Whether a controller asks for the base RTT of its [`Way`],
    pub fn needs_rtt(&self) -> bool {
        matches!(
            self,
            CongestionConfig::Dctcp(_) | CongestionConfig::Hpcc(_) | CongestionConfig::Swift(_)
        )
    }

    /// and for its hops.
    pub fn needs_hops(&self) -> bool {
        matches!(self, CongestionConfig::Swift(_))
    }
}

/// The controller of one QP.
#[derive(Clone, Debug)]
pub enum RateControl {
    /// A rate that does not change.
    None(NoControl),
    /// DCQCN.
    Dcqcn(Dcqcn),
    /// DCQCN+.
    DcqcnPlus(Box<DcqcnPlus>),
    /// DCTCP.
    Dctcp(Box<Dctcp>),
    /// HPCC.
    Hpcc(Box<Hpcc>),
    /// TIMELY.
    Timely(Box<Timely>),
    /// Swift.
    Swift(Box<Swift>),
    /// The receiver's slots.
    Credits(Credits),
    /// The window of a TCP flow, whatever `[nic.congestion]` says.
    Reno(Reno),
}

impl RateControl {
    /// A fresh controller of a QP that goes this way, for data of this priority.
    pub fn new(config: &Arc<CongestionConfig>, way: &Way, priority: u8) -> Self {
        let line_rate = way.line_rate;
        match &**config {
            CongestionConfig::None(none) => RateControl::None(NoControl::new(none, line_rate)),
            CongestionConfig::Dcqcn(dcqcn) if !dcqcn.priorities.contains(&priority) => {
                RateControl::None(NoControl::new(&NoneConfig::default(), line_rate))
            }
            CongestionConfig::Dcqcn(dcqcn) => RateControl::Dcqcn(Dcqcn::new(dcqcn, line_rate)),
            CongestionConfig::DcqcnPlus(plus) => {
                RateControl::DcqcnPlus(Box::new(DcqcnPlus::new(plus, line_rate)))
            }
            CongestionConfig::Dctcp(dctcp) => RateControl::Dctcp(Box::new(Dctcp::new(dctcp, way))),
            CongestionConfig::Hpcc(hpcc) => RateControl::Hpcc(Box::new(Hpcc::new(hpcc, way))),
            CongestionConfig::Timely(timely) => {
                RateControl::Timely(Box::new(Timely::new(timely, way)))
            }
            CongestionConfig::Swift(swift) => RateControl::Swift(Box::new(Swift::new(swift, way))),
            CongestionConfig::Credits(credits) => RateControl::Credits(Credits::new(credits, way)),
        }
    }
}

macro_rules! delegate {
    ($self:ident, $control:ident => $call:expr) => {
        match $self {
            RateControl::None($control) => $call,
            RateControl::Dcqcn($control) => $call,
            RateControl::DcqcnPlus($control) => $call,
            RateControl::Dctcp($control) => $call,
            RateControl::Hpcc($control) => $call,
            RateControl::Timely($control) => $call,
            RateControl::Swift($control) => $call,
            RateControl::Credits($control) => $call,
            RateControl::Reno($control) => $call,
        }
    };
}

/// The same, asking first for what most QPs have; the others have a function of their own.
macro_rules! delegate_hot {
    ($self:ident, $control:ident => $call:expr, $other:ident($($argument:expr),*)) => {
        if let RateControl::Dcqcn($control) = $self {
            $call
        } else if let RateControl::None($control) = $self {
            $call
        } else {
            $self.$other($($argument),*)
        }
    };
}

impl RateControl {
    #[inline(never)]
    fn other_advance(&mut self, from: Time, to: Time) -> Credit {
        delegate!(self, control => control.advance(from, to))
    }
    #[inline(never)]
    fn other_ready_at(&self, from: Time, owed: Credit) -> Time {
        delegate!(self, control => control.ready_at(from, owed))
    }
    #[inline(never)]
    fn other_on_send(&mut self, now: Time, wire_bytes: u64) {
        delegate!(self, control => control.on_send(now, wire_bytes));
    }
}

impl RateController for RateControl {
    #[inline]
    fn rate(&self) -> Rate {
        delegate!(self, control => control.rate())
    }
    #[inline]
    fn advance(&mut self, from: Time, to: Time) -> Credit {
        delegate_hot!(self, control => control.advance(from, to), other_advance(from, to))
    }
    #[inline]
    fn ready_at(&self, from: Time, owed: Credit) -> Time {
        delegate_hot!(self, control => control.ready_at(from, owed), other_ready_at(from, owed))
    }
    #[inline]
    fn on_cnp(&mut self, now: Time, pause: Option<Delta>) {
        delegate!(self, control => control.on_cnp(now, pause));
    }
    #[inline]
    fn on_send(&mut self, now: Time, wire_bytes: u64) {
        delegate_hot!(self, control => control.on_send(now, wire_bytes), other_on_send(now, wire_bytes));
    }
    #[inline]
    fn learns(&self) -> bool {
        !matches!(self, RateControl::Dcqcn(_) | RateControl::None(_))
            && delegate!(self, control => control.learns())
    }
    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        delegate!(self, control => control.on_ack(now, ack));
    }
    fn on_timeout(&mut self, now: Time, sent: u32, in_flight: u64) {
        delegate!(self, control => control.on_timeout(now, sent, in_flight));
    }
    fn window(&self) -> Option<Bytes> {
        delegate!(self, control => control.window())
    }
    fn wants(&self) -> Option<Wanted> {
        delegate!(self, control => control.wants())
    }
    fn header(&self) -> u16 {
        delegate!(self, control => control.header())
    }
    fn marks(&self) -> Marks {
        delegate!(self, control => control.marks())
    }
    fn gauges(&self, now: Time) -> Gauges {
        delegate!(self, control => control.gauges(now))
    }
}

/// Messages about keys that are out of range.
type Check = Result<(), (&'static str, String)>;

/// A rate that must not be 0.
fn some_rate(key: &'static str, rate: Rate) -> Check {
    match rate {
        Rate::ZERO => Err((key, "0 is out of range: at least 1bps is expected".into())),
        _ => Ok(()),
    }
}

/// What a rate carries in a round trip: at least a byte.
fn round_trip(rate: Rate, rtt: Delta) -> Bytes {
    rate.bytes_in(rtt).max(Bytes::new(1))
}

/// A key that must lie between two values.
fn within<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    low: T,
    high: T,
) -> Check {
    match value >= low && value <= high {
        true => Ok(()),
        false => Err((key, format!("{value} is out of range: {low} to {high} is expected"))),
    }
}
