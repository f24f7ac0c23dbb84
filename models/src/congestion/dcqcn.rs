//! DCQCN (Zhu et al., SIGCOMM 2015), the reaction point, under mlx5 parameter names.
//!
//! On congestion notification the rate is cut by alpha/2 and alpha rises; without, alpha decays.
//! A timer and a byte counter raise the rate again: *fast recovery* halves the distance to the
//! target rate, *additive* and *hyper* increase raise the target too. Implementations differ in
//! when alpha is updated, when the cut happens and what counts towards an increase:
//!
//! | key | `dcqcn-paper` | `mlx5-default` | `hpcc-ns3` |
//! |---|---|---|---|
//! | `alpha_update` | `on-cnp` | `on-timer` | `on-timer` |
//! | `decrease` | `on-cnp` | `on-cnp` | `on-timer` |
//! | `increase` | `timer-and-bytes` | `timer-and-bytes` | `timer` |

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate, Time};

use super::{Credit, Gauges, RateController, mlx5, some_rate};

/// Parameters of DCQCN. Bare numbers are read in mlx5's own units (us, Mb/s, bytes, 1/1024).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DcqcnConfig {
    /// Period of the increase timer, from the last cut.
    #[serde(deserialize_with = "mlx5::micros")]
    pub rpg_time_reset: Delta,
    /// Bytes sent between two increases by the byte counter; 0 for none.
    #[serde(deserialize_with = "mlx5::bytes")]
    pub rpg_byte_reset: Bytes,
    /// Increases before recovery ends (the paper's F).
    pub rpg_threshold: u32,
    /// Additive increase of the target rate.
    #[serde(deserialize_with = "mlx5::mbps")]
    pub rpg_ai_rate: Rate,
    /// Hyper increase of the target rate.
    #[serde(deserialize_with = "mlx5::mbps")]
    pub rpg_hai_rate: Rate,
    /// The rate never falls below this.
    #[serde(deserialize_with = "mlx5::mbps")]
    pub rpg_min_rate: Rate,
    /// A cut multiplies the rate by 1 - 1024 alpha / 2^rpg_gd.
    #[schemars(range(min = 10, max = 15))]
    pub rpg_gd: u8,
    /// One cut leaves at least this share of the rate, in percent.
    #[schemars(range(min = 0, max = 100))]
    pub rpg_min_dec_fac: u8,
    /// Weight of the old alpha at an update (paper: 1 - g), in 1/1024 or as a fraction.
    #[serde(deserialize_with = "mlx5::of_1024")]
    pub dce_tcp_g: f64,
    /// Period of the alpha timer (the paper's K).
    #[serde(deserialize_with = "mlx5::micros")]
    pub dce_tcp_rtt: Delta,
    /// The rate is cut at most once in this period.
    #[serde(deserialize_with = "mlx5::micros")]
    pub rate_reduce_monitor_period: Delta,
    /// The first period of `decrease = "on-timer"` is longer by this.
    #[serde(deserialize_with = "mlx5::micros")]
    pub first_period_extra: Delta,
    /// Alpha at the first notification, in 1/1024 or as a fraction.
    #[serde(deserialize_with = "mlx5::of_1024")]
    pub initial_alpha_value: f64,
    /// The rate after the first notification; 0 for an ordinary cut.
    #[serde(deserialize_with = "mlx5::mbps")]
    pub rate_to_set_on_first_cnp: Rate,
    /// Each cut first lowers the target rate to the current rate.
    pub clamp_tgt_rate: bool,
    /// Without `clamp_tgt_rate`, a cut lowers the target rate if the rate has risen since the last
    /// cut: by the byte counter, or (if this is set) by the timer.
    pub clamp_tgt_rate_after_time_inc: bool,
    /// When alpha is updated.
    pub alpha_update: AlphaUpdate,
    /// When the rate is cut.
    pub decrease: Decrease,
    /// What counts towards an increase.
    pub increase: Increase,
    /// Priorities of data that react to notifications (`roce_rp/enable`, ROCE_CC_PRIO_MASK); QPs of
    /// others keep line rate.
    pub priorities: Vec<u8>,
}

impl Default for DcqcnConfig {
    /// The firmware defaults of ConnectX NICs (preset `mlx5-default`, which has the sources).
    fn default() -> Self {
        DcqcnConfig {
            rpg_time_reset: Delta::from_us(300),
            rpg_byte_reset: Bytes::new(32767),
            rpg_threshold: 1,
            rpg_ai_rate: Rate::from_mbps(5),
            rpg_hai_rate: Rate::from_mbps(50),
            rpg_min_rate: Rate::from_mbps(1),
            rpg_gd: 11,
            rpg_min_dec_fac: 50,
            dce_tcp_g: 1019.0 / 1024.0,
            dce_tcp_rtt: Delta::from_us(1),
            rate_reduce_monitor_period: Delta::from_us(4),
            first_period_extra: Delta::ZERO,
            initial_alpha_value: 1023.0 / 1024.0,
            rate_to_set_on_first_cnp: Rate::ZERO,
            clamp_tgt_rate: false,
            clamp_tgt_rate_after_time_inc: true,
            alpha_update: AlphaUpdate::OnTimer,
            decrease: Decrease::OnCnp,
            increase: Increase::TimerAndBytes,
            priorities: (0..8).collect(),
        }
    }
}

/// When alpha is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AlphaUpdate {
    /// It rises at each notification and decays when none came for a period.
    OnCnp,
    /// Once a period it rises if a notification came in it, and decays if not.
    OnTimer,
}

/// When the rate is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decrease {
    /// At once; a notification within `rate_reduce_monitor_period` of a cut counts at its end.
    OnCnp,
    /// At the end of each period, counted from the first notification, in which one came.
    OnTimer,
}

/// What counts towards an increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Increase {
    /// Timer and byte counter. Recovery while each has counted fewer than `rpg_threshold`, hyper
    /// increase when both have counted more.
    TimerAndBytes,
    /// The timer alone: `rpg_threshold` recoveries, one additive increase, then hyper increases.
    Timer,
}

impl DcqcnConfig {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let positive = |key, span: Delta| match span {
            Delta::ZERO => Err((key, "0 is out of range: a period is expected".to_owned())),
            _ => Ok(()),
        };
        positive("rpg_time_reset", self.rpg_time_reset)?;
        positive("dce_tcp_rtt", self.dce_tcp_rtt)?;
        if self.decrease == Decrease::OnTimer {
            positive("rate_reduce_monitor_period", self.rate_reduce_monitor_period)?;
        }
        some_rate("rpg_min_rate", self.rpg_min_rate)?;
        if !(10..=15).contains(&self.rpg_gd) {
            return Err(("rpg_gd", format!("{} is out of range: 10 to 15", self.rpg_gd)));
        }
        if self.rpg_min_dec_fac > 100 {
            let fac = self.rpg_min_dec_fac;
            return Err(("rpg_min_dec_fac", format!("{fac} is out of range: 0 to 100 percent")));
        }
        if let Some(priority) = self.priorities.iter().find(|priority| **priority > 7) {
            return Err(("priorities", format!("{priority} is out of range: 0 to 7")));
        }
        Ok(())
    }
}

/// The reaction point of one QP.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    params: std::sync::Arc<Params>,
    state: State,
}

/// The config, with what is derived from it once.
#[derive(Clone, Debug)]
struct Params {
    config: DcqcnConfig,
    line_rate: u64,
    min_rate: u64,
    /// Share of alpha by which a cut lowers the rate: 2^(10 - rpg_gd).
    cut: f64,
    /// Smallest share that a cut leaves.
    keep: f64,
}

#[derive(Clone, Copy, Debug)]
struct State {
    rate: u64,
    target: u64,
    alpha: f64,
    /// Next update of alpha. [`Time::MAX`] before the first notification, like the others.
    alpha_at: Time,
    /// A notification came in this period of the alpha timer.
    notified: bool,
    /// `on-timer`: the next end of a period; `on-cnp`: the end of the hold-off after a cut.
    period_at: Time,
    /// When the rate is cut, if a notification waits for that.
    cut_at: Time,
    increase_at: Time,
    timer_stage: u32,
    byte_stage: u32,
    bytes_left: u64,
}

impl Dcqcn {
    /// A reaction point at `line_rate` that has seen no notification.
    pub fn new(config: &DcqcnConfig, line_rate: Rate) -> Self {
        let params = Params::new(config.clone(), line_rate);
        let state = State {
            rate: line_rate.bps(),
            target: line_rate.bps(),
            alpha: config.initial_alpha_value,
            alpha_at: Time::MAX,
            notified: false,
            period_at: Time::MAX,
            cut_at: Time::MAX,
            increase_at: Time::MAX,
            timer_stage: 0,
            byte_stage: 0,
            bytes_left: 0,
        };
        Dcqcn { params: std::sync::Arc::new(params), state }
    }

    /// From now on it has these parameters; timers that run keep their ends.
    pub(super) fn adapt(&mut self, config: DcqcnConfig) {
        let line_rate = Rate::from_bps(self.params.line_rate);
        self.params = std::sync::Arc::new(Params::new(config, line_rate));
    }
}

impl Params {
    fn new(config: DcqcnConfig, line_rate: Rate) -> Self {
        Params {
            line_rate: line_rate.bps(),
            min_rate: config.rpg_min_rate.bps().min(line_rate.bps()),
            cut: 1.0 / f64::from(1u32 << (config.rpg_gd - 10)),
            keep: f64::from(config.rpg_min_dec_fac) / 100.0,
            config,
        }
    }
}

impl RateController for Dcqcn {
    #[inline]
    fn rate(&self) -> Rate {
        Rate::from_bps(self.state.rate)
    }

    #[inline]
    fn advance(&mut self, from: Time, to: Time) -> Credit {
        let (mut at, mut earned) = (from, 0);
        let state = &mut self.state;
        while state.next_change() < to {
            let change = state.next_change();
            earned += Credit::from(state.rate) * Credit::from(change.since(at).ps());
            at = at.max(change);
            state.fire(&self.params);
        }
        earned + Credit::from(state.rate) * Credit::from(to.since(at).ps())
    }

    #[inline]
    fn ready_at(&self, from: Time, mut owed: Credit) -> Time {
        let mut state = self.state;
        let mut at = from;
        loop {
            let rate = Credit::from(state.rate);
            let ready = at + Delta::from_ps(owed.div_ceil(rate) as u64);
            let change = state.next_change();
            if ready <= change {
                return ready;
            }
            owed -= rate * Credit::from(change.since(at).ps());
            at = at.max(change);
            state.fire(&self.params);
        }
    }

    fn on_cnp(&mut self, now: Time, _pause: Option<Delta>) {
        self.state.on_cnp(&self.params, now);
    }

    #[inline]
    fn on_send(&mut self, _now: Time, wire_bytes: u64) {
        let Dcqcn { params, state } = self;
        if state.increase_at == Time::MAX || params.config.rpg_byte_reset == Bytes::ZERO {
            return;
        }
        if wire_bytes < state.bytes_left {
            state.bytes_left -= wire_bytes;
            return;
        }
        state.bytes_left = params.config.rpg_byte_reset.get();
        state.increase(params);
        state.byte_stage += 1;
    }

    fn gauges(&self, now: Time) -> Gauges {
        let mut state = self.state;
        state.update_alpha(&self.params, now);
        let alpha = if state.alpha_at == Time::MAX { 0.0 } else { state.alpha };
        Gauges { target_rate: Rate::from_bps(state.target), alpha }
    }
}

impl State {
    /// The next timer that may change the rate.
    #[inline]
    fn next_change(&self) -> Time {
        self.cut_at.min(self.increase_at)
    }

    /// Fires that timer; a cut comes before an increase at the same instant.
    fn fire(&mut self, params: &Params) {
        if self.cut_at <= self.increase_at {
            let now = self.cut_at;
            // alpha's timer comes before a cut at the same instant
            self.update_alpha(params, now + Delta::from_ps(1));
            self.cut(params, now);
        } else {
            self.increase_at += params.config.rpg_time_reset;
            self.increase(params);
            self.timer_stage += 1;
        }
    }

    fn on_cnp(&mut self, params: &Params, now: Time) {
        let config = &params.config;
        let first = self.alpha_at == Time::MAX;
        if first {
            self.alpha_at = now + config.dce_tcp_rtt;
            self.period_at = match config.decrease {
                Decrease::OnTimer => {
                    now + config.rate_reduce_monitor_period + config.first_period_extra
                }
                Decrease::OnCnp => now,
            };
        } else {
            self.update_alpha(params, now);
        }
        match config.decrease {
            Decrease::OnTimer => {
                self.skip_periods(config.rate_reduce_monitor_period, now);
                self.cut_at = self.period_at;
            }
            Decrease::OnCnp if now >= self.period_at => self.cut(params, now),
            Decrease::OnCnp => self.cut_at = self.period_at,
        }
        if first && config.rate_to_set_on_first_cnp > Rate::ZERO {
            let rate = config.rate_to_set_on_first_cnp.bps();
            self.rate = rate.clamp(params.min_rate, params.line_rate);
        }
        match config.alpha_update {
            // the first notification starts the timer and sets alpha; it does not raise it too
            AlphaUpdate::OnTimer => self.notified = !first,
            AlphaUpdate::OnCnp => {
                self.alpha = config.dce_tcp_g * self.alpha + (1.0 - config.dce_tcp_g);
                self.alpha_at = now + config.dce_tcp_rtt;
            }
        }
    }

    /// Fires alpha's timer up to (not at) `now`.
    fn update_alpha(&mut self, params: &Params, now: Time) {
        let DcqcnConfig { dce_tcp_g: keep, dce_tcp_rtt, .. } = params.config;
        while self.alpha_at < now {
            self.alpha *= keep;
            if self.notified {
                self.alpha += 1.0 - keep;
            }
            self.notified = false;
            self.alpha_at += dce_tcp_rtt;
            if self.alpha < 1e-30 {
                // no cut can feel it any more: skip the periods until `now`
                self.alpha = 0.0;
                let periods = now.since(self.alpha_at).ps().div_ceil(dce_tcp_rtt.ps());
                self.alpha_at += dce_tcp_rtt * periods;
            }
        }
    }

    /// Moves the end of the current period to `now` or later.
    fn skip_periods(&mut self, period: Delta, now: Time) {
        let periods = now.since(self.period_at).ps().div_ceil(period.ps());
        self.period_at += period * periods;
    }

    fn cut(&mut self, params: &Params, now: Time) {
        let config = &params.config;
        let risen =
            self.byte_stage > 0 || (self.timer_stage > 0 && config.clamp_tgt_rate_after_time_inc);
        if config.clamp_tgt_rate || risen {
            self.target = self.rate;
        }
        let share = (1.0 - self.alpha * params.cut).max(params.keep);
        self.rate = ((self.rate as f64 * share) as u64).max(params.min_rate);
        self.cut_at = Time::MAX;
        self.period_at = now + config.rate_reduce_monitor_period;
        self.timer_stage = 0;
        self.byte_stage = 0;
        self.bytes_left = config.rpg_byte_reset.get();
        self.increase_at = now + config.rpg_time_reset;
    }

    /// One increase. The counts are those before the event that causes it, so that
    /// `rpg_threshold` recoveries come first.
    fn increase(&mut self, params: &Params) {
        let config = &params.config;
        let (low, high) = match config.increase {
            Increase::TimerAndBytes => {
                (self.timer_stage.min(self.byte_stage), self.timer_stage.max(self.byte_stage))
            }
            Increase::Timer => (self.timer_stage, self.timer_stage),
        };
        let raise = if low > config.rpg_threshold {
            let times = match config.increase {
                Increase::TimerAndBytes => u64::from(low - config.rpg_threshold),
                Increase::Timer => 1,
            };
            config.rpg_hai_rate.bps() * times
        } else if high < config.rpg_threshold {
            0
        } else {
            config.rpg_ai_rate.bps()
        };
        self.target = self.target.saturating_add(raise).min(params.line_rate);
        self.rate = (self.rate / 2 + self.target / 2).max(params.min_rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn us(us: u64) -> Time {
        Time::from_ps(us * 1_000_000)
    }

    /// The paper's parameters (SIGCOMM 2015, section 5): K = T = 55 us, g = 1/256, F = 5,
    /// R_AI 40 Mb/s, B 10 MB.
    fn paper() -> DcqcnConfig {
        DcqcnConfig {
            rpg_time_reset: Delta::from_us(55),
            rpg_byte_reset: Bytes::new(10_000_000),
            rpg_threshold: 5,
            rpg_ai_rate: Rate::from_mbps(40),
            rpg_hai_rate: Rate::from_mbps(400),
            dce_tcp_g: 1.0 - 1.0 / 256.0,
            dce_tcp_rtt: Delta::from_us(55),
            rate_reduce_monitor_period: Delta::ZERO,
            initial_alpha_value: 1.0,
            clamp_tgt_rate: true,
            alpha_update: AlphaUpdate::OnCnp,
            ..DcqcnConfig::default()
        }
    }

    /// HPCC's ns-3 model: T_alpha 1, T_dec 4, T_inc 300 us, g 1/256, F 1, AI 20, HAI 200 Mb/s.
    fn ns3() -> DcqcnConfig {
        DcqcnConfig {
            rpg_byte_reset: Bytes::ZERO,
            rpg_ai_rate: Rate::from_mbps(20),
            rpg_hai_rate: Rate::from_mbps(200),
            rpg_min_rate: Rate::from_gbps(1),
            dce_tcp_g: 1.0 - 1.0 / 256.0,
            first_period_extra: Delta::from_ns(1),
            initial_alpha_value: 1.0,
            decrease: Decrease::OnTimer,
            increase: Increase::Timer,
            ..DcqcnConfig::default()
        }
    }

    fn gbps(dcqcn: &Dcqcn) -> f64 {
        dcqcn.rate().bps() as f64 / 1e9
    }

    #[test]
    fn one_cnp_halves_and_five_timers_recover() {
        let mut dcqcn = Dcqcn::new(&paper(), Rate::from_gbps(40));
        dcqcn.on_cnp(us(0), None);
        // alpha 1: 40 -> 20, target 40; then (20+40)/2 = 30, 35, 37.5, 38.75, 39.375
        let mut rates = vec![gbps(&dcqcn)];
        for step in 1..=5 {
            dcqcn.advance(us(55 * (step - 1)), Time::from_ps(us(55 * step).ps() + 1));
            rates.push(gbps(&dcqcn));
        }
        assert_eq!(rates, [20.0, 30.0, 35.0, 37.5, 38.75, 39.375]);
        // alpha: raised to (255/256) x 1 + 1/256 = 1, then decayed 5 times: 0.99609375^5 = 0.980621
        assert!((dcqcn.gauges(Time::from_ps(us(275).ps() + 1)).alpha - 0.980_621).abs() < 1e-6);
    }

    #[test]
    fn alpha_halves_in_177_periods() {
        let mut dcqcn = Dcqcn::new(&paper(), Rate::from_gbps(40));
        dcqcn.on_cnp(us(0), None);
        let mut alpha = |periods: u64| {
            dcqcn.advance(us(0), Time::from_ps(us(55 * periods).ps() + 1));
            dcqcn.gauges(Time::from_ps(us(55 * periods).ps() + 1)).alpha
        };
        // ln 2 / -ln(1 - 1/256) = 177.1: 177 x 55 us = 9.735 ms
        assert!(alpha(177) > 0.5);
        assert!(alpha(178) < 0.5);
    }

    #[test]
    fn hyper_increase_needs_both_counters() {
        let mut dcqcn = Dcqcn::new(&paper(), Rate::from_gbps(40));
        let now = us(0);
        dcqcn.on_cnp(now, None);
        dcqcn.on_cnp(now, None);
        // 40 -> 20 -> target 20, rate 10 (alpha 1)
        assert_eq!((gbps(&dcqcn), dcqcn.gauges(now).target_rate), (10.0, Rate::from_gbps(20)));
        // 5 byte events, 5 recoveries: 15, 17.5, 18.75, 19.375, 19.6875
        (0..5).for_each(|_| dcqcn.on_send(now, 10_000_000));
        assert_eq!(gbps(&dcqcn), 19.6875);
        // a timer event: byte count 5 is not below F: additive, target 20.04, rate
        // (19.6875 + 20.04) / 2 = 19.86375
        dcqcn.advance(now, us(56));
        assert_eq!(gbps(&dcqcn), 19.863_75);
        // four more of the timer and one of the counter: additive, target 20.24, counts 5 and 6
        dcqcn.advance(us(56), us(276));
        dcqcn.on_send(us(276), 10_000_000);
        assert_eq!(dcqcn.gauges(us(276)).target_rate, Rate::from_mbps(20_240));
        // timer: min 5, additive, 20.28; counts 6 and 6: hyper, 1 x 400 Mb/s
        dcqcn.advance(us(276), us(331));
        assert_eq!(dcqcn.gauges(us(331)).target_rate, Rate::from_mbps(20_280));
        dcqcn.on_send(us(331), 10_000_000);
        assert_eq!(dcqcn.gauges(us(331)).target_rate, Rate::from_mbps(20_680));
    }

    #[test]
    fn ns3_cuts_on_its_grid_and_recovers_by_timer() {
        let mut dcqcn = Dcqcn::new(&ns3(), Rate::from_gbps(100));
        dcqcn.on_cnp(us(10), None);
        // first period ends at 10 + 4 us + 1 ns; alpha decayed at 11, 12, 13, 14 us without a
        // notification: 0.99609375^4 = 0.984466; rate 100 x (1 - 0.492233) = 50.7767
        dcqcn.advance(us(10), Time::from_ps(14_001_000));
        assert_eq!(gbps(&dcqcn), 100.0, "frames come before timers");
        dcqcn.advance(us(14), Time::from_ps(14_001_001));
        assert!((gbps(&dcqcn) - 50.776_7).abs() < 1e-4, "{}", gbps(&dcqcn));
        // stage 0 < F: recovery at +300 us: (50.7767 + 100) / 2 = 75.388; stage 1 == F: additive,
        // target stays at line rate: 87.694
        dcqcn.advance(us(15), us(315));
        assert!((gbps(&dcqcn) - 75.388_4).abs() < 1e-4);
        dcqcn.advance(us(315), us(615));
        assert!((gbps(&dcqcn) - 87.694_2).abs() < 1e-4);
    }

    #[test]
    fn credit_is_earned_across_rate_changes() {
        let mut dcqcn = Dcqcn::new(&paper(), Rate::from_gbps(40));
        dcqcn.on_cnp(us(0), None);
        // 20 Gb/s until 55 us = 137,500 B, then 30 Gb/s: 200,000 B take 55 + 62,500 x 8 / 30 G us
        let ready = dcqcn.ready_at(us(0), super::super::cost(200_000));
        assert_eq!(ready, Time::from_ps(55_000_000 + 16_666_667));
        assert_eq!(dcqcn.advance(us(0), us(55)), super::super::cost(137_500));
    }

    /// Each timer on its own, one deadline at a time; nothing is skipped or put off.
    struct Eager {
        config: DcqcnConfig,
        line: u64,
        rate: u64,
        target: u64,
        alpha: f64,
        flags: [bool; 2],
        /// alpha, decrease, increase
        timers: [Option<Time>; 3],
        stage: u32,
    }

    impl Eager {
        fn new(config: DcqcnConfig, line: u64) -> Self {
            let (flags, timers) = ([false; 2], [None; 3]);
            Eager { config, line, rate: line, target: line, alpha: 1.0, flags, timers, stage: 0 }
        }

        fn run_before(&mut self, now: Time) {
            loop {
                let due = |i: usize| self.timers[i].filter(|at| *at < now).map(|at| (at, i));
                let Some((at, timer)) = (0..3).filter_map(due).min() else { return };
                match timer {
                    0 => self.alpha_tick(at),
                    1 => self.decrease_tick(at),
                    _ => self.increase_tick(at),
                }
            }
        }

        fn alpha_tick(&mut self, at: Time) {
            let g = 1.0 / 256.0;
            self.alpha = (1.0 - g) * self.alpha + if self.flags[0] { g } else { 0.0 };
            self.flags[0] = false;
            self.timers[0] = Some(at + self.config.dce_tcp_rtt);
        }

        fn decrease_tick(&mut self, at: Time) {
            self.timers[1] = Some(at + self.config.rate_reduce_monitor_period);
            if self.flags[1] {
                if self.stage != 0 {
                    self.target = self.rate;
                }
                let cut = (self.rate as f64 * (1.0 - self.alpha / 2.0)) as u64;
                self.rate = cut.max(self.config.rpg_min_rate.bps());
                self.stage = 0;
                self.flags[1] = false;
                self.timers[2] = Some(at + self.config.rpg_time_reset);
            }
        }

        fn increase_tick(&mut self, at: Time) {
            self.timers[2] = Some(at + self.config.rpg_time_reset);
            let raise = match self.stage.cmp(&self.config.rpg_threshold) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => self.config.rpg_ai_rate.bps(),
                std::cmp::Ordering::Greater => self.config.rpg_hai_rate.bps(),
            };
            self.target = (self.target + raise).min(self.line);
            self.rate = self.rate / 2 + self.target / 2;
            self.stage += 1;
        }

        fn on_cnp(&mut self, now: Time) {
            if self.timers[0].is_none() {
                let extra = self.config.first_period_extra;
                self.timers[0] = Some(now + self.config.dce_tcp_rtt);
                self.timers[1] = Some(now + self.config.rate_reduce_monitor_period + extra);
                self.flags[1] = true;
            } else {
                self.flags = [true; 2];
            }
        }
    }

    proptest! {
        #[test]
        fn lazy_and_eager_timers_agree(gaps in prop::collection::vec(0u64..900_000_000, 1..60)) {
            let line = Rate::from_gbps(100);
            let mut lazy = Dcqcn::new(&ns3(), line);
            let mut eager = Eager::new(ns3(), line.bps());
            let mut now = Time::ZERO;
            for (step, gap) in gaps.into_iter().enumerate() {
                // multiples of 1 us now and then, so that timers and frames meet
                let gap = if step % 3 == 0 { gap / 1_000_000 * 1_000_000 } else { gap };
                let next = now + Delta::from_ps(gap);
                lazy.advance(now, next);
                eager.run_before(next);
                now = next;
                prop_assert_eq!(lazy.rate().bps(), eager.rate);
                prop_assert_eq!(lazy.gauges(now).target_rate.bps(), eager.target);
                if step % 4 != 1 {
                    lazy.on_cnp(now, None);
                    eager.on_cnp(now);
                }
            }
        }

        #[test]
        fn ready_when_the_credit_is_earned(
            cnps in prop::collection::vec(0u64..200_000_000, 1..10),
            bytes in 1u64..2_000_000,
        ) {
            let mut dcqcn = Dcqcn::new(&paper(), Rate::from_gbps(40));
            let mut now = Time::ZERO;
            for gap in cnps {
                let next = now + Delta::from_ps(gap);
                dcqcn.advance(now, next);
                dcqcn.on_cnp(next, None);
                now = next;
            }
            let owed = super::super::cost(bytes);
            let ready = dcqcn.ready_at(now, owed);
            let mut later = dcqcn.clone();
            prop_assert!(later.advance(now, ready) >= owed);
            let just_before = Time::from_ps(ready.ps() - 1);
            prop_assert!(dcqcn.advance(now, just_before.max(now)) < owed || just_before < now);
        }
    }
}
