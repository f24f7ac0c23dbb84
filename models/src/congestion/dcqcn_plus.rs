//! DCQCN+ (Gao et al., "DCQCN+: Taming Large-scale Incast Congestion in RDMA over Ethernet Networks",
//! ICNP 2018): DCQCN whose receiver spreads its CNPs over the flows that meet congestion and tells
//! them how far apart they are, and whose senders take that as the scale of the incast: the pause of
//! the increase timer grows with it, and the steps shrink with it.
//!
//! With n flows that were marked of late, and one CNP made in `cnp_time` at best, each gets one in
//! tau' = max(tau, n cnp_time), where tau is `nic.np.min_time_between_cnps`. With s = tau' / tau the
//! timer's period is s `rpg_time_reset`, and the steps are `rpg_ai_rate` / s and `rpg_hai_rate` / s,
//! so that all flows together rise by no more in a period than `1 / cnp_time` of them would. The
//! paper's abstract says what adapts to what; the exact form here is this project's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate, Time};

use super::{Check, Credit, Dcqcn, DcqcnConfig, Gauges, RateController, mlx5};

/// `algorithm = "dcqcn-plus"`: the keys of DCQCN that it has, as published in 2015, and one more.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DcqcnPlusConfig {
    /// The receiver makes at most one CNP in this time, for all of its flows.
    #[serde(deserialize_with = "mlx5::micros")]
    pub cnp_time: Delta,
    /// The pause between the CNPs of a flow that is alone (tau).
    #[serde(deserialize_with = "mlx5::micros")]
    pub cnp_interval: Delta,
    /// Period of the increase timer, with that pause.
    #[serde(deserialize_with = "mlx5::micros")]
    pub rpg_time_reset: Delta,
    /// Bytes sent between two increases by the byte counter; 0 for none.
    #[serde(deserialize_with = "mlx5::bytes")]
    pub rpg_byte_reset: Bytes,
    /// Increases before recovery ends.
    pub rpg_threshold: u32,
    /// Additive increase of the target rate, with that pause.
    #[serde(deserialize_with = "mlx5::mbps")]
    pub rpg_ai_rate: Rate,
    /// Hyper increase of the target rate, with that pause.
    #[serde(deserialize_with = "mlx5::mbps")]
    pub rpg_hai_rate: Rate,
    /// The rate never falls below this.
    #[serde(deserialize_with = "mlx5::mbps")]
    pub rpg_min_rate: Rate,
    /// Weight of the old alpha at an update, in 1/1024 or as a fraction.
    #[serde(deserialize_with = "mlx5::of_1024")]
    pub dce_tcp_g: f64,
    /// Period of the alpha timer, with that pause.
    #[serde(deserialize_with = "mlx5::micros")]
    pub dce_tcp_rtt: Delta,
}

impl Default for DcqcnPlusConfig {
    /// DCQCN as published (preset `dcqcn-paper`), a CNP a microsecond, and a byte counter that cannot
    /// undo what the timer waits for.
    fn default() -> Self {
        DcqcnPlusConfig {
            cnp_time: Delta::from_us(1),
            cnp_interval: Delta::from_us(50),
            rpg_time_reset: Delta::from_us(55),
            rpg_byte_reset: Bytes::new(10_000_000),
            rpg_threshold: 5,
            rpg_ai_rate: Rate::from_mbps(40),
            rpg_hai_rate: Rate::from_mbps(200),
            rpg_min_rate: Rate::from_mbps(1),
            dce_tcp_g: 1.0 - 1.0 / 256.0,
            dce_tcp_rtt: Delta::from_us(55),
        }
    }
}

impl DcqcnPlusConfig {
    pub(super) fn check(&self) -> Check {
        if self.cnp_interval.is_zero() {
            return Err(("cnp_interval", "0 is out of range: a time is expected".into()));
        }
        self.at(self.cnp_interval).check()
    }

    /// The DCQCN that it is with this pause between CNPs.
    fn at(&self, pause: Delta) -> DcqcnConfig {
        let scale = (pause.ps() as f64 / self.cnp_interval.ps() as f64).max(1.0);
        let longer = |span: Delta| Delta::from_ps((span.ps() as f64 * scale) as u64);
        let smaller = |rate: Rate| Rate::from_bps((rate.bps() as f64 / scale) as u64);
        DcqcnConfig {
            rpg_time_reset: longer(self.rpg_time_reset),
            rpg_byte_reset: self.rpg_byte_reset,
            rpg_threshold: self.rpg_threshold,
            rpg_ai_rate: smaller(self.rpg_ai_rate),
            rpg_hai_rate: smaller(self.rpg_hai_rate),
            rpg_min_rate: self.rpg_min_rate,
            rpg_min_dec_fac: 0,
            dce_tcp_g: self.dce_tcp_g,
            dce_tcp_rtt: longer(self.dce_tcp_rtt),
            rate_reduce_monitor_period: Delta::ZERO,
            initial_alpha_value: 1.0,
            clamp_tgt_rate: true,
            alpha_update: super::AlphaUpdate::OnCnp,
            ..DcqcnConfig::default()
        }
    }
}

/// The reaction point of one QP.
#[derive(Clone, Debug)]
pub struct DcqcnPlus {
    config: DcqcnPlusConfig,
    /// The pause that holds.
    pause: Delta,
    dcqcn: Dcqcn,
}

impl DcqcnPlus {
    /// A reaction point at `line_rate` that has seen no notification.
    pub fn new(config: &DcqcnPlusConfig, line_rate: Rate) -> Self {
        let pause = config.cnp_interval;
        let dcqcn = Dcqcn::new(&config.at(pause), line_rate);
        DcqcnPlus { pause, dcqcn, config: config.clone() }
    }

    /// How its receiver makes CNPs: at most one in this time, and one for a flow in that.
    pub fn notifies(&self) -> (Delta, Delta) {
        (self.config.cnp_time, self.config.cnp_interval)
    }
}

impl RateController for DcqcnPlus {
    fn rate(&self) -> Rate {
        self.dcqcn.rate()
    }

    fn advance(&mut self, from: Time, to: Time) -> Credit {
        self.dcqcn.advance(from, to)
    }

    fn ready_at(&self, from: Time, owed: Credit) -> Time {
        self.dcqcn.ready_at(from, owed)
    }

    fn on_cnp(&mut self, now: Time, pause: Option<Delta>) {
        let pause = pause.unwrap_or(self.pause);
        if pause != self.pause {
            self.pause = pause;
            self.dcqcn.adapt(self.config.at(pause));
        }
        self.dcqcn.on_cnp(now, None);
    }

    fn on_send(&mut self, now: Time, wire_bytes: u64) {
        self.dcqcn.on_send(now, wire_bytes);
    }

    fn gauges(&self, now: Time) -> Gauges {
        self.dcqcn.gauges(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Rate = Rate::from_gbps(40);

    const fn us(us: u64) -> Time {
        Time::from_ps(us * 1_000_000)
    }

    /// Mb/s after the timers up to then.
    fn at(plus: &mut DcqcnPlus, from: u64, to: u64) -> u64 {
        plus.advance(us(from), us(to));
        plus.rate().bps() / 1_000_000
    }

    #[test]
    fn alone_it_is_dcqcn() {
        let mut plus = DcqcnPlus::new(&DcqcnPlusConfig::default(), LINE);
        plus.on_cnp(us(0), Some(Delta::from_us(50)));
        // 40 -> 20; 55 us later half of the way back, and so on
        assert_eq!([at(&mut plus, 0, 1), at(&mut plus, 1, 56)], [20_000, 30_000]);
    }

    #[test]
    fn a_pause_four_times_as_long_makes_periods_longer_and_steps_smaller() {
        let config = DcqcnPlusConfig { rpg_threshold: 0, ..DcqcnPlusConfig::default() };
        let mut plus = DcqcnPlus::new(&config, LINE);
        plus.on_cnp(us(0), Some(Delta::from_us(200)));
        plus.on_cnp(us(0), Some(Delta::from_us(200)));
        // two cuts with alpha 1: 10 Gb/s, and the target is 20
        assert_eq!(at(&mut plus, 0, 219), 10_000);
        // 4 x 55 us: the target rises by 40 / 4 Mb/s: (10,000 + 20,010) / 2
        assert_eq!(at(&mut plus, 219, 221), 15_005);
    }
}
