//! TIMELY (Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015,
//! algorithm 1): the gradient of the round-trip time sets the rate.
//!
//! Each sample changes rtt_diff = (1 - alpha) rtt_diff + alpha (rtt - rtt before), and the gradient is
//! rtt_diff / min_rtt. Below `t_low` the rate rises by `delta`; above `t_high` it is multiplied by
//! 1 - beta (1 - t_high / rtt); between them a falling RTT adds `delta` (five times that from the
//! fifth sample in a row on), and a rising one multiplies by 1 - beta gradient.
//!
//! With `gradient = "patched"` (Zhu et al., "ECN or Delay: Lessons Learnt from Analysis of DCQCN and
//! TIMELY", CoNEXT 2016, section 4.3) the rate is
//! delta (1 - w) + rate (1 - beta w (rtt - t_ref) / t_ref), with w from 0 at a gradient of -1/4 to 1
//! at 1/4, which has a fixed point where the original has none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate, Time};

use super::{Ack, Check, Gauges, Marks, RateController, Way, some_rate, within};
use crate::note::Wanted;

/// `algorithm = "timely"`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimelyConfig {
    /// Weight of a new difference.
    pub alpha: f64,
    /// How much of the excess a cut takes.
    pub beta: f64,
    /// Additive step; if absent, 1/1000 of the line rate (10 Mb/s at 10 Gb/s).
    pub delta: Option<Rate>,
    /// Additive step of hyperactive increase; if absent, five times that,
    pub hai_delta: Option<Rate>,
    /// after so many steps.
    pub hai_threshold: u32,
    /// Steps below `t_low` count towards that, too, as in ns-3.
    pub hai_below_t_low: bool,
    /// Below this the rate rises.
    pub t_low: Delta,
    /// Above this it falls.
    pub t_high: Delta,
    /// What the gradient is measured in.
    pub min_rtt: Delta,
    /// Where the patched algorithm settles: its rate falls above this and rises below it.
    pub t_ref: Delta,
    /// Which algorithm holds between `t_low` and `t_high`.
    pub gradient: Gradient,
    /// When a sample counts.
    pub sample: Sampling,
    /// Acknowledged payload from sample to sample, if they count by segments.
    pub segment: Bytes,
    /// The rate never falls below this; if absent, 1/1000 of the line rate.
    pub min_rate: Option<Rate>,
    /// Bytes that a time stamp takes in data packets and ACKs.
    pub header: Bytes,
}

impl Default for TimelyConfig {
    /// Those of the paper as Zhu et al. (CoNEXT 2016) have them, but one sample a round trip: with one
    /// for each segment a queue is cut for as many times as segments wait in it.
    fn default() -> Self {
        TimelyConfig {
            alpha: 0.875,
            beta: 0.8,
            delta: None,
            hai_delta: None,
            hai_threshold: 5,
            hai_below_t_low: false,
            t_low: Delta::from_us(50),
            t_high: Delta::from_us(500),
            min_rtt: Delta::from_us(20),
            t_ref: Delta::from_us(50),
            gradient: Gradient::Original,
            sample: Sampling::RoundTrip,
            segment: Bytes::new(16_000),
            min_rate: None,
            header: Bytes::ZERO,
        }
    }
}

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gradient {
    /// The paper's.
    Original,
    /// That of Zhu et al.; `beta` is then 0.008.
    Patched,
}

/// When a sample counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Once a segment is acknowledged.
    Segment,
    /// Once a round trip, as in ns-3.
    RoundTrip,
}

impl TimelyConfig {
    pub(super) fn check(&self) -> Check {
        within("alpha", self.alpha, 0.0, 1.0)?;
        within("beta", self.beta, 0.0, 1.0)?;
        within("header", self.header.get(), 0, 256)?;
        if self.min_rtt.is_zero() || self.t_ref.is_zero() {
            let key = if self.min_rtt.is_zero() { "min_rtt" } else { "t_ref" };
            return Err((key, "0 is out of range: a time is expected".into()));
        }
        if self.t_high < self.t_low {
            let message = format!("{} is below t_low, {}", self.t_high, self.t_low);
            return Err(("t_high", message));
        }
        self.min_rate.map_or(Ok(()), |rate| some_rate("min_rate", rate))
    }
}

/// The sender of one QP.
#[derive(Clone, Debug)]
pub struct Timely {
    config: TimelyConfig,
    line_rate: u64,
    min_rate: u64,
    /// The additive step, and that of hyperactive increase.
    steps: [u64; 2],
    rate: u64,
    /// The last sample.
    rtt: Option<Delta>,
    /// Smoothed difference, in picoseconds.
    rtt_diff: f64,
    /// Increases in a row.
    stage: u32,
    /// Acknowledged since the last sample.
    acked: u64,
    /// The next round trip begins beyond this PSN.
    round: u32,
}

impl Timely {
    /// A sender at line rate.
    pub fn new(config: &TimelyConfig, way: &Way) -> Self {
        let line_rate = way.line_rate.bps();
        let usual = (line_rate / 1000).max(1);
        let delta = config.delta.map_or(usual, Rate::bps);
        Timely {
            line_rate,
            min_rate: config.min_rate.map_or(usual, Rate::bps).min(line_rate),
            steps: [delta, config.hai_delta.map_or(5 * delta, Rate::bps)],
            rate: line_rate,
            rtt: None,
            rtt_diff: 0.0,
            stage: 0,
            acked: 0,
            round: 0,
            config: config.clone(),
        }
    }

    fn on_sample(&mut self, rtt: Delta) {
        let Some(before) = self.rtt.replace(rtt) else { return };
        let TimelyConfig { alpha, beta, t_low, t_high, t_ref, min_rtt, .. } = self.config;
        let difference = rtt.ps() as f64 - before.ps() as f64;
        self.rtt_diff = (1.0 - alpha) * self.rtt_diff + alpha * difference;
        let gradient = self.rtt_diff / min_rtt.ps() as f64;
        let over = |limit: Delta| 1.0 - limit.ps() as f64 / rtt.ps() as f64;
        if rtt < t_low {
            let hyper = self.config.hai_below_t_low && self.stage >= self.config.hai_threshold;
            self.add(hyper);
            self.stage = if self.config.hai_below_t_low { self.stage + 1 } else { 0 };
        } else if rtt > t_high {
            self.multiply(1.0 - beta * over(t_high));
        } else if self.config.gradient == Gradient::Patched {
            let weight = (2.0 * gradient + 0.5).clamp(0.0, 1.0);
            let error = (rtt.ps() as f64 - t_ref.ps() as f64) / t_ref.ps() as f64;
            let step = self.steps[0] as f64 * (1.0 - weight);
            self.set(step + self.rate as f64 * (1.0 - beta * weight * error));
        } else if gradient <= 0.0 {
            self.add(self.stage >= self.config.hai_threshold);
            self.stage += 1;
        } else {
            self.multiply((1.0 - beta * gradient).max(0.0));
        }
    }

    fn add(&mut self, hyper: bool) {
        self.set((self.rate + self.steps[usize::from(hyper)]) as f64);
    }

    fn multiply(&mut self, share: f64) {
        self.stage = 0;
        self.set(self.rate as f64 * share);
    }

    fn set(&mut self, rate: f64) {
        self.rate = (rate as u64).clamp(self.min_rate, self.line_rate);
    }
}

impl RateController for Timely {
    #[inline]
    fn rate(&self) -> Rate {
        Rate::from_bps(self.rate)
    }

    fn learns(&self) -> bool {
        true
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        let Some(note) = ack.note else { return };
        self.acked += ack.bytes;
        let due = match self.config.sample {
            Sampling::Segment => self.acked >= self.config.segment.get(),
            Sampling::RoundTrip => ack.una > self.round,
        };
        if due {
            self.acked = 0;
            self.round = ack.next;
            self.on_sample(now.since(note.sent_at));
        }
    }

    fn wants(&self) -> Option<Wanted> {
        Some(Wanted::Stamp)
    }

    fn header(&self) -> u16 {
        self.config.header.get() as u16
    }

    fn marks(&self) -> Marks {
        Marks::Unused
    }

    fn gauges(&self, _now: Time) -> Gauges {
        let gradient = self.rtt_diff / self.config.min_rtt.ps() as f64;
        Gauges { target_rate: self.rate(), alpha: gradient }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(config: TimelyConfig) -> Timely {
        let way = Way {
            line_rate: Rate::from_gbps(10),
            base_rtt: Delta::from_us(10),
            hops: 1,
            mtu: 1000,
        };
        Timely::new(&config, &way)
    }

    /// Mb/s after each of these samples, in microseconds.
    fn rates<const N: usize>(timely: &mut Timely, rtts: [u64; N]) -> [u64; N] {
        rtts.map(|us| {
            timely.on_sample(Delta::from_us(us));
            timely.rate().bps() / 1_000_000
        })
    }

    #[test]
    fn the_gradient_cuts_and_raises() {
        let mut timely = sender(TimelyConfig { alpha: 0.5, ..TimelyConfig::default() });
        // the first sample is remembered. 110 after 100 us: rtt_diff = 5 us, gradient 1/4:
        // 10,000 x (1 - 0.8 / 4) = 8000. The same again: 2.5 us, 1/8: 8000 x 0.9 = 7200
        assert_eq!(rates(&mut timely, [100, 110, 110]), [10_000, 8000, 7200]);
        // 100: rtt_diff = 1.25 - 5 = -3.75: + 10 Mb/s; five such steps, then 50 Mb/s each
        let falling = rates(&mut timely, [100, 99, 98, 97, 96, 95, 94]);
        assert_eq!(falling, [7210, 7220, 7230, 7240, 7250, 7300, 7350]);
        // 600 us is over t_high: 7350 x (1 - 0.8 (1 - 500/600)) = 7350 x 0.8667 = 6370
        assert_eq!(rates(&mut timely, [600]), [6370]);
        // below t_low, whatever the gradient: + 10 each, hyper increase never
        assert_eq!(rates(&mut timely, [10, 11, 12, 13, 14, 15, 16])[6], 6440);
        // a gradient above 1 / beta takes everything but the least
        assert_eq!(rates(&mut timely, [400]), [10]);
    }

    #[test]
    fn as_ns3_has_it_increases_below_t_low_count() {
        let config = TimelyConfig { hai_below_t_low: true, ..TimelyConfig::default() };
        let mut timely = sender(config);
        timely.rate = 1_000_000_000;
        let rates = rates(&mut timely, [10, 10, 10, 10, 10, 10, 10, 10]);
        assert_eq!(rates, [1000, 1010, 1020, 1030, 1040, 1050, 1100, 1150]);
    }

    #[test]
    fn patched_it_settles_at_its_reference() {
        let config = TimelyConfig {
            gradient: Gradient::Patched,
            beta: 0.008,
            t_ref: Delta::from_us(60),
            ..TimelyConfig::default()
        };
        let mut timely = sender(config);
        timely.rate = 5_000_000_000;
        // a steady RTT: w = 1/2: + 5 Mb/s x ... and 5000 x (1 - 0.008 / 2 x (120 - 60) / 60):
        // 5 + 5000 x 0.996 = 4985
        assert_eq!(rates(&mut timely, [120, 120]), [5000, 4985]);
        // at the reference only the step remains, with w = 0 after so steep a fall
        assert_eq!(rates(&mut timely, [60]), [4995]);
    }
}
