//! When a QP may send its next frame.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::Time;

use crate::congestion::{Credit, RateControl, RateController, cost};
use crate::wire::FrameTime;

/// What a rate change does to a wait that has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// The wait is rescaled: credit accrues at the current rate, as NIC hardware does.
    #[default]
    Credit,
    /// The gap that was set when the last frame left stays.
    FixedGap,
}

/// The pacing of one QP.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// The next frame may leave at or after this.
    ready_at: Time,
    /// Credit is settled up to here.
    settled: Time,
    /// Credit still to be earned at `settled`.
    owed: Credit,
}

impl Pacer {
    /// Ready at once.
    pub fn new(now: Time) -> Self {
        Pacer { ready_at: now, settled: now, owed: 0 }
    }

    /// The instant from which the next frame may leave.
    #[inline]
    pub fn ready_at(&self) -> Time {
        self.ready_at
    }

    /// A frame of `wire_bytes` leaves at `now`.
    #[inline]
    pub fn sent(
        &mut self,
        now: Time,
        wire_bytes: u64,
        pacing: Pacing,
        frame_time: FrameTime,
        control: &mut RateControl,
    ) {
        self.settle(now, control);
        control.on_send(now, wire_bytes);
        match pacing {
            Pacing::Credit => {
                self.owed = cost(wire_bytes);
                self.ready_at = control.ready_at(now, self.owed);
            }
            Pacing::FixedGap => self.ready_at = now + frame_time.of(wire_bytes, control.rate()),
        }
    }

    /// Something arrives at `now` that `input` tells the congestion control.
    pub fn react(
        &mut self,
        now: Time,
        pacing: Pacing,
        control: &mut RateControl,
        input: impl FnOnce(&mut RateControl),
    ) {
        self.settle(now, control);
        input(control);
        if pacing == Pacing::Credit && self.ready_at > now {
            self.ready_at = control.ready_at(now, self.owed);
        }
    }

    /// Brings timers and credit up to `now`.
    #[inline]
    pub fn settle(&mut self, now: Time, control: &mut RateControl) {
        let earned = control.advance(self.settled, now);
        self.owed = self.owed.saturating_sub(earned);
        self.settled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{CongestionConfig, DcqcnConfig, Way};
    use sim_core::{Delta, Rate};
    use std::sync::Arc;

    #[test]
    fn a_cut_rescales_the_wait_or_not() {
        let config = Arc::new(CongestionConfig::Dcqcn(DcqcnConfig {
            initial_alpha_value: 1.0,
            ..DcqcnConfig::default()
        }));
        let way = Way { line_rate: Rate::from_gbps(10), base_rtt: Delta::ZERO, hops: 0, mtu: 1000 };
        let ready = |pacing| {
            let mut control = RateControl::new(&config, &way, 3);
            let mut pacer = Pacer::new(Time::ZERO);
            // 1250 B at 10 Gb/s: 1 us. After 0.4 us a cut to 5 Gb/s: the other 750 B take 1.2 us
            pacer.sent(Time::ZERO, 1250, pacing, FrameTime::Exact, &mut control);
            pacer.react(Time::from_ps(400_000), pacing, &mut control, |control| {
                control.on_cnp(Time::from_ps(400_000), None);
            });
            pacer.ready_at().ps()
        };
        assert_eq!(ready(Pacing::Credit), 1_600_000);
        assert_eq!(ready(Pacing::FixedGap), 1_000_000);
    }
}
