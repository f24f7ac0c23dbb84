//! HPCC (Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, algorithm 1): each switch
//! writes into each data packet what its port has sent and what it has queued; the ACK brings that
//! back, and the sender sets its window so that no link has more in flight than `eta` of its
//! bandwidth-delay product.
//!
//! With T the base RTT and B the rate of a link, its *utilisation* is
//! u = qlen / (B T) + txRate / B, where txRate comes from two packets that follow each other and qlen
//! is the smaller one of both. The largest one on the way, smoothed over T, is U. Then
//! W = Wc / (U / eta) + W_AI if U >= eta or after `max_stage` additive steps, and W = Wc + W_AI
//! otherwise. Wc, from which W is computed, changes once a round trip. The rate is W / T.
//!
//! With `feedback = "pint"` (Ben Basat et al., "PINT: Probabilistic In-band Network Telemetry",
//! SIGCOMM 2020, section 4.3) each port smooths its own utilisation, and a packet brings back only the
//! largest one, in one byte.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate, Time};

use super::{Ack, Check, Gauges, Marks, RateController, Way, round_trip, some_rate, within};
use crate::note::{HOPS_MAX, Hop, Wanted};

/// `algorithm = "hpcc"`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HpccConfig {
    /// Target utilisation.
    pub eta: f64,
    /// Additive steps before a multiplicative one.
    pub max_stage: u32,
    /// Additive step of the window,
    pub w_ai: Bytes,
    /// or what it is in a base RTT at this rate.
    pub rate_ai: Option<Rate>,
    /// T; if absent, the longest one of all QPs: the time of a full packet and its ACK in an empty
    /// fabric.
    pub base_rtt: Option<Delta>,
    /// The rate never falls below this.
    pub min_rate: Rate,
    /// ACKs within a round trip change the window too, from what it was at its beginning.
    pub fast_react: bool,
    /// Each link has a window of its own, and the smallest one holds.
    pub multi_rate: bool,
    /// What packets bring back.
    pub feedback: Feedback,
    /// Bytes that this takes in data packets and ACKs; 42 (of 5 hops) with `int`, 2 with `pint`, if
    /// absent.
    pub header: Option<Bytes>,
    /// With `pint`: packets bring back powers of this,
    pub pint_base: f64,
    /// and this share of the ACKs counts.
    pub pint_probability: f64,
}

impl Default for HpccConfig {
    /// Those of the paper's section 5.1.
    fn default() -> Self {
        HpccConfig {
            eta: 0.95,
            max_stage: 5,
            w_ai: Bytes::new(80),
            rate_ai: None,
            base_rtt: None,
            min_rate: Rate::from_mbps(100),
            fast_react: true,
            multi_rate: false,
            feedback: Feedback::Int,
            header: None,
            pint_base: 1.05,
            pint_probability: 1.0,
        }
    }
}

/// What packets bring back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// What each switch has sent and queued (in-band network telemetry).
    Int,
    /// The largest utilisation.
    Pint,
}

impl HpccConfig {
    pub(super) fn check(&self) -> Check {
        within("eta", self.eta, 0.01, 2.0)?;
        within("pint_base", self.pint_base, 1.001, 2.0)?;
        within("pint_probability", self.pint_probability, 0.001, 1.0)?;
        within("header", self.header.unwrap_or(Bytes::ZERO).get(), 0, 256)?;
        some_rate("min_rate", self.min_rate)?;
        if self.base_rtt == Some(Delta::ZERO) {
            return Err(("base_rtt", "0 is out of range: a time is expected".into()));
        }
        Ok(())
    }
}

/// A window, and how it came about.
#[derive(Clone, Copy, Debug)]
struct Reference {
    /// Wc / T, in bit/s.
    rate: u64,
    stage: u32,
}

/// What is known of a link.
#[derive(Clone, Copy, Debug)]
struct Link {
    last: Hop,
    /// With `multi_rate`: its smoothed utilisation and its window.
    utilisation: f64,
    reference: Reference,
}

/// The sender of one QP.
#[derive(Clone, Debug)]
pub struct Hpcc {
    config: HpccConfig,
    line_rate: u64,
    min_rate: u64,
    /// T.
    base_rtt: Delta,
    /// W_AI / T, in bit/s.
    rate_ai: u64,
    /// W / T, in bit/s.
    rate: u64,
    reference: Reference,
    /// U.
    utilisation: f64,
    /// The next round trip begins with the ACK of this PSN; `None` before the first ACK.
    round: Option<u32>,
    links: [Link; HOPS_MAX],
}

impl Hpcc {
    /// A sender at line rate.
    pub fn new(config: &HpccConfig, way: &Way) -> Self {
        let base_rtt = config.base_rtt.unwrap_or(way.base_rtt).max(Delta::from_ns(1));
        let line_rate = way.line_rate.bps();
        let step = config.w_ai.get() as f64 * 8.0 / base_rtt.as_secs();
        let reference = Reference { rate: line_rate, stage: 0 };
        let link = Link { last: Hop::default(), utilisation: 1.0, reference };
        Hpcc {
            line_rate,
            min_rate: config.min_rate.bps().min(line_rate),
            base_rtt,
            rate_ai: config.rate_ai.map_or(step as u64, Rate::bps),
            rate: line_rate,
            reference,
            utilisation: 1.0,
            round: None,
            links: [link; HOPS_MAX],
            config: config.clone(),
        }
    }

    /// ComputeWind: the rate W / T at this utilisation, and the additive steps since the last
    /// multiplicative one.
    fn compute(&self, reference: Reference, utilisation: f64) -> Reference {
        let load = utilisation / self.config.eta;
        let (rate, stage) = if load >= 1.0 || reference.stage >= self.config.max_stage {
            let share = (reference.rate as f64 / load.max(1e-6)).min(self.line_rate as f64);
            (share as u64 + self.rate_ai, 0)
        } else {
            (reference.rate + self.rate_ai, reference.stage + 1)
        };
        Reference { rate: rate.max(self.min_rate).min(self.line_rate), stage }
    }

    /// MeasureInflight, of one link: its utilisation since the packet before, and how long that is.
    fn measure(&self, link: &Link, hop: &Hop) -> (f64, Delta) {
        let tau = hop.at.since(link.last.at);
        if tau.is_zero() || hop.port != link.last.port {
            // another way: nothing to compare with
            return (0.0, Delta::ZERO);
        }
        let rate = hop.rate.bps() as f64;
        let sent = (hop.tx_bytes - link.last.tx_bytes) as f64 * 8.0 / tau.as_secs();
        let queue = hop.queue_bytes.min(link.last.queue_bytes) as f64 * 8.0;
        (queue / (rate * self.base_rtt.as_secs()) + sent / rate, tau.min(self.base_rtt))
    }

    /// What was smoothed, after `tau` with `now`.
    fn smooth(&self, before: f64, now: f64, tau: Delta) -> f64 {
        let share = tau.as_secs() / self.base_rtt.as_secs();
        before * (1.0 - share) + now * share
    }

    fn on_hops(&mut self, hops: &[Hop], full: bool) {
        let (mut most, mut over) = (0.0, Delta::ZERO);
        let mut smallest = self.line_rate;
        for (index, hop) in hops.iter().enumerate() {
            let (now, tau) = self.measure(&self.links[index], hop);
            if self.config.multi_rate {
                let smoothed = self.smooth(self.links[index].utilisation, now, tau);
                let next = self.compute(self.links[index].reference, smoothed);
                let link = &mut self.links[index];
                link.utilisation = smoothed;
                smallest = smallest.min(next.rate);
                if full {
                    link.reference = next;
                }
            }
            if now > most {
                (most, over) = (now, tau);
            }
            self.links[index].last = *hop;
        }
        self.utilisation = self.smooth(self.utilisation, most, over);
        if self.config.multi_rate {
            self.rate = smallest;
        } else {
            self.set(full);
        }
    }

    fn set(&mut self, full: bool) {
        let next = self.compute(self.reference, self.utilisation);
        self.rate = next.rate;
        if full {
            self.reference = next;
        }
    }
}

impl RateController for Hpcc {
    #[inline]
    fn rate(&self) -> Rate {
        Rate::from_bps(self.rate)
    }

    fn learns(&self) -> bool {
        true
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        let Some(note) = ack.note else { return };
        let pint = self.config.feedback == Feedback::Pint;
        if pint && !chosen(ack.una, self.config.pint_probability) {
            return;
        }
        // PSNs from `una` on are not acknowledged: the ACK of `round` itself begins the next one
        let full = self.round.is_none_or(|round| ack.una > round);
        match self.round {
            None => {
                for (link, hop) in self.links.iter_mut().zip(note.hops()) {
                    link.last = *hop;
                }
            }
            Some(_) if !full && !self.config.fast_react => {}
            Some(_) if pint => {
                self.utilisation = decode(note.utilisation, self.config.pint_base);
                self.set(full);
            }
            Some(_) => self.on_hops(note.hops(), full),
        }
        if full {
            self.round = Some(ack.next);
        }
    }

    fn window(&self) -> Option<Bytes> {
        Some(round_trip(self.rate(), self.base_rtt))
    }

    fn wants(&self) -> Option<Wanted> {
        Some(match self.config.feedback {
            Feedback::Int => Wanted::Hops,
            Feedback::Pint => Wanted::Utilisation,
        })
    }

    fn header(&self) -> u16 {
        let usual = match self.config.feedback {
            Feedback::Int => 42,
            Feedback::Pint => 2,
        };
        self.config.header.map_or(usual, |header| header.get() as u16)
    }

    fn marks(&self) -> Marks {
        Marks::Unused
    }

    fn gauges(&self, _now: Time) -> Gauges {
        let target_rate = Rate::from_bps(self.reference.rate);
        Gauges { target_rate, alpha: self.utilisation }
    }
}

/// Whether an ACK counts, by a hash of its PSN.
fn chosen(psn: u32, probability: f64) -> bool {
    let hash = psn.wrapping_mul(0x9e37_79b9) ^ psn.wrapping_mul(0x85eb_ca6b) >> 15;
    f64::from(hash >> 8) < probability * f64::from(1 << 24)
}

/// A utilisation as it comes out of a packet: the power of `base`, in 1/512, that is next to it from
/// above.
fn decode(utilisation: f64, base: f64) -> f64 {
    let wanted = utilisation * 512.0;
    let mut power = 1.0;
    while power < wanted && power < 512.0 * 512.0 {
        power *= base;
    }
    power / 512.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Note;

    const LINE: Rate = Rate::from_gbps(100);

    /// 100 Gb/s, T = 10 us: W = 125 kB; W_AI = 1 kB, or 800 Mb/s.
    fn sender(change: impl Fn(&mut HpccConfig)) -> Hpcc {
        let mut config =
            HpccConfig { w_ai: Bytes::new(1000), max_stage: 1, ..HpccConfig::default() };
        change(&mut config);
        let way = Way { line_rate: LINE, base_rtt: Delta::from_us(10), hops: 1, mtu: 1000 };
        Hpcc::new(&config, &way)
    }

    fn hop(us: u64, tx_bytes: u64, queue_bytes: u64) -> Hop {
        Hop { port: 1, at: Time::from_ps(us * 1_000_000), tx_bytes, queue_bytes, rate: LINE }
    }

    /// An ACK of everything before `una`, with `next` to be sent next.
    fn ack(sender: &mut Hpcc, una: u32, next: u32, hops: &[Hop]) -> f64 {
        let mut note = Note { wanted: Some(Wanted::Hops), ..Note::default() };
        hops.iter().for_each(|hop| note.push(*hop));
        let ack = Ack {
            bytes: 1000,
            una,
            next,
            sent: next,
            in_flight: 0,
            echo: false,
            missing: None,
            note: Some(&note),
        };
        sender.on_ack(Time::ZERO, &ack);
        sender.rate().bps() as f64 / 1e9
    }

    #[test]
    fn a_full_link_with_a_queue_cuts_the_window_in_proportion() {
        let mut hpcc = sender(|_| {});
        assert_eq!(hpcc.window(), Some(Bytes::new(125_000)));
        // the first ACK is remembered only
        assert_eq!(ack(&mut hpcc, 1, 100, &[hop(0, 0, 62_500)]), 100.0);
        // 10 us later 125 kB were sent and 62.5 kB are still queued: u = 62.5 / 125 + 1 = 1.5, and
        // tau = T: U = 1.5. W = 125 kB / (1.5 / 0.95) + 1 kB: 63.333 Gb/s + 0.8
        let rate = ack(&mut hpcc, 101, 200, &[hop(10, 125_000, 80_000)]);
        assert!((rate - 64.133).abs() < 0.001, "{rate}");
        // in the same round: the queue is gone and half of the link was used over 5 us: u = 0.5,
        // U = 1.5 / 2 + 0.5 / 2 = 1. From Wc, which is 64.133: 64.133 x 0.95 + 0.8 = 61.727
        let rate = ack(&mut hpcc, 150, 250, &[hop(15, 156_250, 0)]);
        assert!((rate - 61.727).abs() < 0.001, "{rate}");
        // still in it: U = 1 / 2 + 0.4 / 2 = 0.7 < eta: Wc + W_AI, and Wc stays
        let rate = ack(&mut hpcc, 160, 260, &[hop(20, 181_250, 0)]);
        assert!((rate - 64.933).abs() < 0.001, "{rate}");
        // the next round with u = 0.9: U = 0.9, one additive step
        let rate = ack(&mut hpcc, 201, 300, &[hop(30, 293_750, 0)]);
        assert!((rate - 64.933).abs() < 0.001, "{rate}");
        // max_stage steps are done: multiplicative, upwards: 64.933 x 0.95 / 0.9 + 0.8 = 69.341
        let rate = ack(&mut hpcc, 301, 400, &[hop(40, 406_250, 0)]);
        assert!((rate - 69.341).abs() < 0.001, "{rate}");
    }

    #[test]
    fn the_most_used_link_counts_and_links_can_have_windows_of_their_own() {
        let hops = |us: u64, first: u64, second: u64| [hop(us, first, 0), hop(us, second, 0)];
        for multi_rate in [false, true] {
            let mut hpcc = sender(|config| config.multi_rate = multi_rate);
            ack(&mut hpcc, 1, 100, &hops(0, 0, 0));
            // 80 % and 100 % of the links over T: 100 / (1 / 0.95) + 0.8 = 95.8; the other window
            // would be 100
            let rate = ack(&mut hpcc, 101, 200, &hops(10, 100_000, 125_000));
            assert!((rate - 95.8).abs() < 0.001, "{rate}");
        }
    }

    #[test]
    fn without_fast_reaction_one_ack_a_round_counts() {
        let mut hpcc = sender(|config| config.fast_react = false);
        ack(&mut hpcc, 1, 100, &[hop(0, 0, 0)]);
        assert_eq!(ack(&mut hpcc, 100, 180, &[hop(5, 62_500, 62_500)]), 100.0);
        assert!(ack(&mut hpcc, 101, 200, &[hop(10, 125_000, 0)]) < 100.0);
    }

    #[test]
    fn pint_brings_back_a_power() {
        // 512 x 1.05^n: 1 is 1.05^127.9, so the next power is 1.05^128 = 515.4: 1.0066
        assert!((decode(1.0, 1.05) - 1.0066).abs() < 0.001);
        assert_eq!(decode(0.0, 1.05), 1.0 / 512.0);
        let counted = (0..10_000).filter(|psn| chosen(*psn, 0.25)).count();
        assert!((2400..2600).contains(&counted), "{counted}");
        let mut hpcc = sender(|config| config.feedback = Feedback::Pint);
        let mut on = |una, next, utilisation| {
            let note = Note { utilisation, ..Note::default() };
            let ack = Ack {
                bytes: 0,
                una,
                next,
                sent: next,
                in_flight: 0,
                echo: false,
                missing: None,
                note: Some(&note),
            };
            hpcc.on_ack(Time::ZERO, &ack);
            hpcc.rate().bps() as f64 / 1e9
        };
        assert_eq!(on(1, 100, 1.9), 100.0);
        // 100 x 0.95 / 1.0066 + 0.8
        assert!((on(101, 200, 1.0) - 95.18).abs() < 0.05);
    }
}
