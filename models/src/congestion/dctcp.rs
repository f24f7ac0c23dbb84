//! DCTCP (Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010) for rates, as the ns-3 models of
//! RDMA have it: the share F of packets that met a mark in a round trip gives
//! alpha = (1 - g) alpha + g F, the first mark cuts the rate by alpha / 2, at most once a round trip,
//! and a round trip without a cut adds `rate_ai`, which stands for DCTCP's one packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate, Time};

use super::{Ack, Check, Gauges, Marks, RateController, Way, round_trip, some_rate, within};

/// `algorithm = "dctcp"`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DctcpConfig {
    /// Weight of the newest share.
    pub g: f64,
    /// Additive step a round trip; if absent, a packet in a base RTT.
    pub rate_ai: Option<Rate>,
    /// The rate never falls below this.
    pub min_rate: Rate,
    /// What may be in flight is the rate times the base RTT, as DCTCP has a window.
    pub window: bool,
}

impl Default for DctcpConfig {
    /// The paper's g.
    fn default() -> Self {
        DctcpConfig { g: 1.0 / 16.0, rate_ai: None, min_rate: Rate::from_mbps(100), window: true }
    }
}

impl DctcpConfig {
    pub(super) fn check(&self) -> Check {
        within("g", self.g, 0.0, 1.0)?;
        some_rate("min_rate", self.min_rate)
    }
}

/// The sender of one QP.
#[derive(Clone, Debug)]
pub struct Dctcp {
    g: f64,
    line_rate: u64,
    min_rate: u64,
    rate_ai: u64,
    /// The base RTT, if there is a window.
    window: Option<Delta>,
    rate: u64,
    alpha: f64,
    /// ACKs with an echo in this round trip,
    marked: u32,
    /// and packets in it.
    batch: u32,
    /// The next round trip begins beyond this PSN; `None` before the first ACK.
    round: Option<u32>,
    /// The rate was cut, and rises again beyond this PSN.
    reduced: Option<u32>,
}

impl Dctcp {
    /// A sender at line rate.
    pub fn new(config: &DctcpConfig, way: &Way) -> Self {
        let line_rate = way.line_rate.bps();
        let packet = f64::from(way.mtu) * 8.0 / way.base_rtt.max(Delta::from_ns(1)).as_secs();
        Dctcp {
            g: config.g,
            line_rate,
            min_rate: config.min_rate.bps().min(line_rate),
            rate_ai: config.rate_ai.map_or(packet as u64, Rate::bps),
            window: config.window.then_some(way.base_rtt),
            rate: line_rate,
            alpha: 1.0,
            marked: 0,
            batch: 0,
            round: None,
            reduced: None,
        }
    }
}

impl RateController for Dctcp {
    #[inline]
    fn rate(&self) -> Rate {
        Rate::from_bps(self.rate)
    }

    fn learns(&self) -> bool {
        true
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        self.marked += u32::from(ack.echo);
        let new_round = self.round.is_none_or(|round| ack.una > round);
        if new_round {
            if self.round.is_some() {
                let share = f64::from(self.marked) / f64::from(self.batch.max(1));
                self.alpha = (1.0 - self.g) * self.alpha + self.g * share.min(1.0);
                self.marked = 0;
            }
            self.batch = ack.next.saturating_sub(ack.una) + 1;
            self.round = Some(ack.next);
        }
        if self.reduced.is_some_and(|end| ack.una > end) {
            self.reduced = None;
        }
        if ack.echo && self.reduced.is_none() {
            let cut = self.rate as f64 * (1.0 - self.alpha / 2.0);
            self.rate = (cut as u64).max(self.min_rate);
            self.reduced = Some(ack.next);
        } else if self.reduced.is_none() && new_round {
            self.rate = (self.rate + self.rate_ai).min(self.line_rate);
        }
    }

    fn window(&self) -> Option<Bytes> {
        Some(round_trip(self.rate(), self.window?))
    }

    fn marks(&self) -> Marks {
        Marks::Echoed
    }

    fn gauges(&self, _now: Time) -> Gauges {
        Gauges { target_rate: self.rate(), alpha: self.alpha }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_marks_cuts_once_a_round_trip() {
        let way =
            Way { line_rate: Rate::from_gbps(10), base_rtt: Delta::from_us(8), hops: 1, mtu: 1000 };
        let config = DctcpConfig { g: 0.5, ..DctcpConfig::default() };
        let mut dctcp = Dctcp::new(&config, &way);
        assert_eq!(dctcp.window(), Some(Bytes::new(10_000)));
        let mut on = |una, next, echo| {
            let ack = Ack {
                bytes: 1000,
                una,
                next,
                sent: next,
                in_flight: 0,
                echo,
                missing: None,
                note: None,
            };
            dctcp.on_ack(Time::ZERO, &ack);
            ((dctcp.rate().bps() + 500_000) / 1_000_000, dctcp.alpha)
        };
        // alpha begins at 1: the first mark halves the rate, further ones in this round do nothing
        assert_eq!(on(1, 10, true), (5000, 1.0));
        assert_eq!(on(5, 14, true), (5000, 1.0));
        assert_eq!(on(10, 19, false), (5000, 1.0));
        // beyond 10: 2 marks of 10 packets: alpha = 1/2 + 0.2/2 = 0.6; no cut: 1000 B in 8 us are 1 Gb/s
        assert_eq!(on(11, 20, false), (6000, 0.6));
        // the round ends at 20; a mark in it: 6000 x (1 - 0.3) = 4200
        assert_eq!(on(15, 24, true), (4200, 0.6));
        // 1 of 10: alpha = 0.3 + 0.05; still reduced until 24
        let (rate, alpha) = on(21, 30, false);
        assert_eq!((rate, (alpha * 1e6).round()), (4200, 350_000.0));
        // 25: no longer reduced, but no new round: nothing. 31: + 1 Gb/s
        assert_eq!(on(25, 34, false).0, 4200);
        assert_eq!(on(31, 40, false).0, 5200);
    }
}
