//! Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
//! Datacenter", SIGCOMM 2020, algorithm 1): a window with a target for the delay of the fabric, and one
//! for that of the receiving host; the smaller one holds.
//!
//! target = base_target + hops x hop_target + max(0, min(a / sqrt(cwnd) + b, fs_range)), where
//! a = fs_range / (1 / sqrt(fs_min_cwnd) - 1 / sqrt(fs_max_cwnd)) and b = -a / sqrt(fs_max_cwnd), so
//! that many flows with small windows may have a longer queue together. Below the target an ACK of n
//! packets adds ai n / cwnd (ai n if cwnd < 1). Above it the window is multiplied by
//! 1 - beta (delay - target) / delay, at least by 1 - max_mdf, at most once a round trip. A window
//! below one packet is paced: one packet in rtt / cwnd.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate, Time};

use super::{Ack, Check, Gauges, Marks, RateController, Way, within};
use crate::note::Wanted;

/// `algorithm = "swift"`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwiftConfig {
    /// Delay of the fabric that is aimed at: without hops and flows. If absent, twice the base RTT: a
    /// queue of one bandwidth-delay product.
    pub base_target: Option<Delta>,
    /// For each switch on the way.
    pub hop_target: Delta,
    /// What flow scaling adds at most; if absent, five times `base_target`.
    pub fs_range: Option<Delta>,
    /// Windows, in packets, where it adds that,
    pub fs_min_cwnd: f64,
    /// and where it adds nothing.
    pub fs_max_cwnd: f64,
    /// Delay of the receiving host that is aimed at.
    pub endpoint_target: Delta,
    /// Additive step, in packets a round trip.
    pub ai: f64,
    /// How much of the excess a cut takes.
    pub beta: f64,
    /// The most that one cut takes.
    pub max_mdf: f64,
    /// Time-outs in a row after which the window is as small as can be.
    pub retx_reset_threshold: u32,
    /// Smallest window, in packets.
    pub min_cwnd: f64,
    /// Largest window, in packets; if absent, twice the bandwidth-delay product.
    pub max_cwnd: Option<f64>,
}

impl Default for SwiftConfig {
    /// Those of the paper where it has them, and of htsim's Swift (its factors of the base target).
    fn default() -> Self {
        SwiftConfig {
            base_target: None,
            hop_target: Delta::from_us(1),
            fs_range: None,
            fs_min_cwnd: 0.1,
            fs_max_cwnd: 100.0,
            endpoint_target: Delta::from_us(50),
            ai: 1.0,
            beta: 0.8,
            max_mdf: 0.5,
            retx_reset_threshold: 5,
            min_cwnd: 0.001,
            max_cwnd: None,
        }
    }
}

impl SwiftConfig {
    pub(super) fn check(&self) -> Check {
        within("ai", self.ai, 0.0, 1000.0)?;
        within("beta", self.beta, 0.0, 1.0)?;
        within("max_mdf", self.max_mdf, 0.0, 1.0)?;
        within("min_cwnd", self.min_cwnd, 1e-6, 1e6)?;
        within("fs_min_cwnd", self.fs_min_cwnd, 1e-6, 1e6)?;
        if self.fs_max_cwnd <= self.fs_min_cwnd {
            let message = format!("{} is not above fs_min_cwnd", self.fs_max_cwnd);
            return Err(("fs_max_cwnd", message));
        }
        if self.max_cwnd.is_some_and(|max| max < self.min_cwnd) {
            return Err(("max_cwnd", "this is below min_cwnd".into()));
        }
        if self.base_target == Some(Delta::ZERO) || self.endpoint_target.is_zero() {
            let key =
                if self.endpoint_target.is_zero() { "endpoint_target" } else { "base_target" };
            return Err((key, "0 is out of range: a time is expected".into()));
        }
        Ok(())
    }
}

/// One of both windows.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// In packets.
    cwnd: f64,
    last_decrease: Time,
}

/// The sender of one QP.
#[derive(Clone, Debug)]
pub struct Swift {
    config: SwiftConfig,
    line_rate: u64,
    mtu: f64,
    max_cwnd: f64,
    /// Target of the fabric without flow scaling, and what that adds at most, in seconds.
    base: f64,
    range: f64,
    fabric: Window,
    endpoint: Window,
    rtt: Delta,
    timeouts: u32,
    /// Losses before this PSN are cut for.
    recover: u32,
}

impl Swift {
    /// A sender whose window is a bandwidth-delay product.
    pub fn new(config: &SwiftConfig, way: &Way) -> Self {
        let base_rtt = way.base_rtt.max(Delta::from_ns(1));
        let mtu = f64::from(way.mtu);
        let bdp = way.line_rate.bps() as f64 / 8.0 * base_rtt.as_secs() / mtu;
        let max_cwnd = config.max_cwnd.unwrap_or(2.0 * bdp).max(config.min_cwnd.max(1.0));
        let base_target = config.base_target.unwrap_or(base_rtt * 2);
        let hops = config.hop_target * u64::from(way.hops);
        let window = Window { cwnd: bdp.clamp(1.0, max_cwnd), last_decrease: Time::ZERO };
        Swift {
            line_rate: way.line_rate.bps(),
            mtu,
            max_cwnd,
            base: (base_target + hops).as_secs(),
            range: config.fs_range.map_or(base_target.as_secs() * 5.0, Delta::as_secs),
            fabric: window,
            endpoint: window,
            rtt: base_rtt,
            timeouts: 0,
            recover: 0,
            config: config.clone(),
        }
    }

    /// Both windows together, in packets.
    fn cwnd(&self) -> f64 {
        self.fabric.cwnd.min(self.endpoint.cwnd)
    }

    /// Target delay of the fabric, in seconds.
    fn target(&self) -> f64 {
        let root = |cwnd: f64| 1.0 / cwnd.sqrt();
        let SwiftConfig { fs_min_cwnd, fs_max_cwnd, .. } = self.config;
        let a = self.range / (root(fs_min_cwnd) - root(fs_max_cwnd));
        let b = -a * root(fs_max_cwnd);
        self.base + (a * root(self.fabric.cwnd) + b).min(self.range).max(0.0)
    }

    /// `window` after `acked` packets that met this delay, in seconds.
    fn next(&self, window: Window, now: Time, delay: f64, target: f64, acked: f64) -> Window {
        let Window { mut cwnd, .. } = window;
        if delay < target {
            let step = self.config.ai * acked;
            cwnd += if cwnd >= 1.0 { step / cwnd } else { step };
        } else if self.can_decrease(window, now) {
            let cut = 1.0 - self.config.beta * (delay - target) / delay;
            cwnd *= cut.max(1.0 - self.config.max_mdf);
        }
        self.set(window, now, cwnd)
    }

    fn can_decrease(&self, window: Window, now: Time) -> bool {
        now.since(window.last_decrease) >= self.rtt
    }

    fn set(&self, before: Window, now: Time, cwnd: f64) -> Window {
        let cwnd = cwnd.clamp(self.config.min_cwnd, self.max_cwnd);
        let last_decrease = if cwnd < before.cwnd { now } else { before.last_decrease };
        Window { cwnd, last_decrease }
    }

    /// The most that one cut takes, if one may be.
    fn cut(&mut self, now: Time) {
        let share = 1.0 - self.config.max_mdf;
        if self.can_decrease(self.fabric, now) {
            self.fabric = self.set(self.fabric, now, self.fabric.cwnd * share);
        }
    }
}

impl RateController for Swift {
    #[inline]
    fn rate(&self) -> Rate {
        let cwnd = self.cwnd();
        if cwnd >= 1.0 {
            return Rate::from_bps(self.line_rate);
        }
        let paced = cwnd * self.mtu * 8.0 / self.rtt.as_secs();
        Rate::from_bps((paced as u64).clamp(1, self.line_rate))
    }

    fn learns(&self) -> bool {
        true
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        let Some(note) = ack.note else { return };
        self.rtt = now.since(note.sent_at).max(Delta::from_ns(1));
        let endpoint = note.waited.as_secs();
        let fabric = self.rtt.as_secs() - endpoint;
        if ack.missing == Some(ack.una) && ack.una >= self.recover {
            self.recover = ack.sent;
            self.timeouts = 0;
            return self.cut(now);
        }
        if ack.bytes == 0 {
            return;
        }
        self.timeouts = 0;
        let acked = ack.bytes as f64 / self.mtu;
        self.fabric = self.next(self.fabric, now, fabric, self.target(), acked);
        let target = self.config.endpoint_target.as_secs();
        self.endpoint = self.next(self.endpoint, now, endpoint, target, acked);
    }

    fn on_timeout(&mut self, now: Time, _sent: u32, _in_flight: u64) {
        self.timeouts += 1;
        if self.timeouts >= self.config.retx_reset_threshold {
            self.fabric = self.set(self.fabric, now, self.config.min_cwnd);
        } else {
            self.cut(now);
        }
    }

    fn window(&self) -> Option<Bytes> {
        Some(Bytes::new((self.cwnd().max(1.0) * self.mtu) as u64))
    }

    fn wants(&self) -> Option<Wanted> {
        Some(Wanted::Stamp)
    }

    fn marks(&self) -> Marks {
        Marks::Unused
    }

    fn gauges(&self, _now: Time) -> Gauges {
        let rate = self.cwnd() * self.mtu * 8.0 / self.rtt.as_secs();
        let target_rate = Rate::from_bps((rate as u64).clamp(1, self.line_rate));
        Gauges { target_rate, alpha: self.target() / self.rtt.as_secs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Note;

    /// 1000 B packets, base target 20 us, no hops; a flow-scaling range of 100 us over windows from
    /// 0.25 to 4 packets: a = 100 / (2 - 1/2) = 66.67 us, b = -33.33 us.
    fn sender() -> Swift {
        let config = SwiftConfig {
            base_target: Some(Delta::from_us(20)),
            hop_target: Delta::ZERO,
            fs_range: Some(Delta::from_us(100)),
            fs_min_cwnd: 0.25,
            fs_max_cwnd: 4.0,
            max_cwnd: Some(16.0),
            ..SwiftConfig::default()
        };
        // 8 Gb/s x 10 us = 10 packets
        let way =
            Way { line_rate: Rate::from_gbps(8), base_rtt: Delta::from_us(10), hops: 3, mtu: 1000 };
        Swift::new(&config, &way)
    }

    /// An ACK of one packet at `at` us that took `rtt` us, `waited` of them in the receiver.
    fn on(swift: &mut Swift, [at, rtt, waited]: [u64; 3], missing: Option<u32>) -> f64 {
        let us = |us: u64| Time::from_ps(us * 1_000_000);
        let note =
            Note { sent_at: us(at - rtt), waited: Delta::from_us(waited), ..Note::default() };
        let ack = Ack {
            bytes: 1000,
            una: 5,
            next: 20,
            sent: 20,
            in_flight: 0,
            echo: false,
            missing,
            note: Some(&note),
        };
        swift.on_ack(us(at), &ack);
        (swift.cwnd() * 1e4).round() / 1e4
    }

    #[test]
    fn the_window_rises_below_the_target_and_falls_once_a_round_trip_above_it() {
        let mut swift = sender();
        assert_eq!(swift.window(), Some(Bytes::new(10_000)));
        // 10 packets are beyond fs_max_cwnd: the target is 20 us. + 1/10
        assert_eq!(on(&mut swift, [100, 15, 0], None), 10.1);
        // 40 us: x (1 - 0.8 x 20/40) = 0.6
        assert_eq!(on(&mut swift, [200, 40, 0], None), 6.06);
        // within a round trip of that cut: nothing
        assert_eq!(on(&mut swift, [220, 40, 0], None), 6.06);
        // 200 us: 1 - 0.8 x 180/200 = 0.28 is less than 1 - max_mdf
        assert_eq!(on(&mut swift, [500, 200, 0], None), 3.03);
        // 3.03 packets: target 20 + 66.67 / 1.7407 - 33.33 = 24.97 us
        assert_eq!((swift.target() * 1e8).round() / 100.0, 24.97);
        assert_eq!(on(&mut swift, [600, 24, 0], None), 3.36);
    }

    #[test]
    fn a_slow_host_has_a_window_of_its_own_and_losses_cut() {
        let mut swift = sender();
        // 100 us, of which the host takes 90: the fabric's window rises, and the host's is
        // 10 x (1 - 0.8 x 40/90) = 6.4444
        assert_eq!(on(&mut swift, [200, 100, 90], None), 6.4444);
        assert!(swift.fabric.cwnd > 10.0);
        let mut swift = sender();
        assert_eq!(on(&mut swift, [200, 15, 0], Some(5)), 5.0);
        // the same losses again
        assert_eq!(on(&mut swift, [400, 15, 0], Some(5)), 5.2);
        // time-outs: half, and after five of them the smallest window, which is paced
        let at = |n: u64| Time::from_ps(n * 1_000_000_000);
        (1..5).for_each(|n| swift.on_timeout(at(n), 20, 0));
        assert_eq!((swift.cwnd() * 1e4).round() / 1e4, 0.325);
        assert_eq!(swift.rate().bps() / 1_000_000, 173); // 0.325 x 8000 bit in 15 us
        swift.on_timeout(at(5), 20, 0);
        assert_eq!((swift.cwnd(), swift.window()), (0.001, Some(Bytes::new(1000))));
    }
}
