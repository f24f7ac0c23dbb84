//! TCP's window: slow start, additive increase, multiplicative decrease (RFC 5681), one missing
//! segment a round trip (NewReno, RFC 6582), as background traffic has it. Bytes are counted
//! (RFC 3465), so that delayed ACKs do not slow it down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate, Time};

use super::{Ack, Marks, RateController};

/// `[nic.tcp]`: flows with `transport = "tcp"`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TcpConfig {
    /// DSCP of segments and ACKs, unless the traffic says otherwise.
    pub dscp: u8,
    /// Payload of a segment, in bytes.
    #[schemars(range(min = 64, max = 9216))]
    pub mss: u16,
    /// Segments that a new flow may send at once (RFC 6928).
    #[schemars(range(min = 1, max = 1000))]
    pub initial_window: u32,
    /// What the receiver has room for: the window is never larger.
    pub receive_window: Bytes,
    /// Retransmission timer. Linux waits for at least 200 ms, but finds a segment that was lost
    /// twice sooner (RACK, TLP), which is not modelled.
    pub rto: Delta,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            dscp: 0,
            mss: 1448,
            initial_window: 10,
            receive_window: Bytes::new(6 << 20),
            rto: Delta::from_ms(10),
        }
    }
}

impl TcpConfig {
    /// Checks ranges; the message names the key within `[nic.tcp]`.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let range = |key, value: u64, low: u64, high: u64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err((key, format!("{value} is out of range: {low} to {high} is expected"))),
        };
        range("dscp", self.dscp.into(), 0, 63)?;
        range("mss", self.mss.into(), 64, 9216)?;
        range("initial_window", self.initial_window.into(), 1, 1000)?;
        if self.receive_window < Bytes::new(self.mss.into()) {
            let message = format!("{} is less than a segment (mss)", self.receive_window);
            return Err(("receive_window", message));
        }
        if self.rto.is_zero() {
            return Err(("rto", "0 is out of range: a time such as \"10ms\" is expected".into()));
        }
        Ok(())
    }
}

/// The congestion window of one flow. It has no rate: the ACKs are its clock.
#[derive(Clone, Debug)]
pub struct Reno {
    line_rate: Rate,
    mss: u64,
    /// Congestion window, in bytes.
    window: u64,
    limit: u64,
    /// Slow start ends here.
    threshold: u64,
    /// Bytes acknowledged since the window last grew.
    acked: u64,
    /// One cut covers all losses before this segment.
    recover: u32,
    /// A missing segment is sent again, and nothing else before it is acknowledged.
    repairing: bool,
}

impl Reno {
    /// A new flow.
    pub fn new(config: &TcpConfig, line_rate: Rate) -> Self {
        let mss = u64::from(config.mss);
        let limit = config.receive_window.get();
        let window = (mss * u64::from(config.initial_window)).min(limit);
        Reno {
            line_rate,
            mss,
            window,
            limit,
            threshold: u64::MAX,
            acked: 0,
            recover: 0,
            repairing: false,
        }
    }

    /// So many bytes are newly acknowledged.
    fn acknowledged(&mut self, bytes: u64) {
        if self.repairing {
            self.repairing = false;
        } else if self.window < self.threshold {
            // RFC 3465: at most two segments an ACK
            self.window += bytes.min(2 * self.mss);
        } else {
            self.acked += bytes;
            if self.acked >= self.window {
                self.acked -= self.window;
                self.window += self.mss;
            }
        }
        self.window = self.window.min(self.limit);
    }

    /// Segment `lost` of those before `sent` is missing, with so many bytes in flight.
    fn on_loss(&mut self, lost: u32, sent: u32, in_flight: u64) {
        if lost >= self.recover {
            self.halve(sent, in_flight);
            self.window = self.threshold;
        }
        self.repairing = true;
    }

    fn halve(&mut self, sent: u32, in_flight: u64) {
        self.threshold = (in_flight / 2).max(2 * self.mss).min(self.limit);
        self.acked = 0;
        self.recover = sent;
    }
}

impl RateController for Reno {
    fn rate(&self) -> Rate {
        self.line_rate
    }

    fn learns(&self) -> bool {
        true
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        if ack.bytes > 0 {
            self.acknowledged(ack.bytes);
        }
        if ack.missing == Some(ack.una) {
            self.on_loss(ack.una, ack.sent, u64::from(ack.sent - ack.una) * self.mss);
        }
    }

    fn on_timeout(&mut self, _now: Time, sent: u32, in_flight: u64) {
        self.halve(sent, in_flight);
        self.window = self.mss;
        self.repairing = false;
    }

    /// What may be in flight.
    fn window(&self) -> Option<Bytes> {
        Some(Bytes::new(if self.repairing { self.mss } else { self.window }))
    }

    fn marks(&self) -> Marks {
        Marks::Unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Reno {
        let config = TcpConfig { mss: 1000, initial_window: 4, ..TcpConfig::default() };
        Reno::new(&config, Rate::from_gbps(10))
    }

    #[test]
    fn slow_start_doubles_and_congestion_avoidance_adds_a_segment_a_round() {
        let mut flow = flow();
        // two ACKs for two segments each: 4 -> 8 segments
        (0..2).for_each(|_| flow.acknowledged(2000));
        assert_eq!(flow.window().unwrap(), Bytes::new(8000));
        // an ACK for ten segments counts as two
        flow.acknowledged(10_000);
        assert_eq!(flow.window().unwrap(), Bytes::new(10_000));
        // segment 3 of 20 is missing, 10 are in flight: it alone, and then 5 segments
        flow.on_loss(3, 20, 10_000);
        assert_eq!(flow.window().unwrap(), Bytes::new(1000));
        flow.acknowledged(10_000);
        assert_eq!(flow.window().unwrap(), Bytes::new(5000));
        // 5 segments acknowledged in 3 ACKs: one more
        [2000, 2000, 1000].into_iter().for_each(|bytes| flow.acknowledged(bytes));
        assert_eq!(flow.window().unwrap(), Bytes::new(6000));
    }

    #[test]
    fn losses_of_one_window_cut_it_once_and_a_timer_closes_it() {
        let mut flow = flow();
        let mut lose = |lost, sent, in_flight| {
            flow.on_loss(lost, sent, in_flight);
            flow.acknowledged(1000);
            flow.window().unwrap()
        };
        assert_eq!(lose(2, 12, 12_000), Bytes::new(6000));
        assert_eq!(lose(5, 14, 6000), Bytes::new(6000));
        // beyond what was sent when the first was noticed
        assert_eq!(lose(12, 20, 6000), Bytes::new(3000));
        // threshold max(3000 / 2, 2 segments) = 2000, window 1 segment
        flow.on_timeout(Time::ZERO, 22, 3000);
        assert_eq!(flow.window().unwrap(), Bytes::new(1000));
        flow.acknowledged(1000);
        // at the threshold: 2000 bytes must be acknowledged for the next segment
        flow.acknowledged(1000);
        assert_eq!(flow.window().unwrap(), Bytes::new(2000));
        flow.acknowledged(1000);
        assert_eq!(flow.window().unwrap(), Bytes::new(3000));
    }

    #[test]
    fn the_receiver_limits_the_window() {
        let config =
            TcpConfig { mss: 1000, receive_window: Bytes::new(12_000), ..TcpConfig::default() };
        let mut flow = Reno::new(&config, Rate::from_gbps(10));
        (0..9).for_each(|_| flow.acknowledged(2000));
        assert_eq!(flow.window().unwrap(), Bytes::new(12_000));
        assert_eq!(TcpConfig { mss: 10, ..config.clone() }.check().unwrap_err().0, "mss");
        let small = TcpConfig { receive_window: Bytes::new(100), ..config };
        assert_eq!(small.check().unwrap_err().0, "receive_window");
    }
}
