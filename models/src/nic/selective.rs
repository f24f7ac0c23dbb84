//! Selective repeat as IRN has it (Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM
//! 2018, section 3.1), the requester's side: which packets have come although others before them have
//! not, and what is sent again.
//!
//! The receiver keeps what comes early and answers each such packet with a NAK that holds both the
//! packet expected and the one that came. The first NAK, or a time-out, begins a *recovery*: the
//! expected packet is sent again, and then each other packet that is missing before one that has come;
//! when none is, new packets follow. It ends when all that was sent before it began is acknowledged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Delta, Time};

use super::kept::Kept;

/// `[nic.transport.selective]`: with `recovery = "selective-repeat"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelectiveConfig {
    /// Retransmission timer while few packets are in flight (RTO_low),
    pub rto_low: Delta,
    /// and while there are more (RTO_high).
    pub rto_high: Delta,
    /// The most that are few (N).
    pub rto_low_packets: u32,
    /// A packet is missing when one has come that is more than so many beyond it: 0 where packets keep
    /// their order, more where switches spread them over several ways.
    pub reordering: u32,
}

impl Default for SelectiveConfig {
    /// Those of the paper's 40 Gb/s fabric.
    fn default() -> Self {
        SelectiveConfig {
            rto_low: Delta::from_us(100),
            rto_high: Delta::from_us(320),
            rto_low_packets: 3,
            reordering: 0,
        }
    }
}

/// What a requester with selective repeat knows beside its [`Requester`](super::Requester).
#[derive(Clone, Debug)]
pub struct Selective {
    config: SelectiveConfig,
    /// What has come, from the first PSN on that is not acknowledged.
    arrived: Kept,
    /// Beyond the last that has come.
    high: u32,
    /// A recovery goes on until this is acknowledged.
    recover: Option<u32>,
    /// Packets before this one have been looked at in this recovery.
    next: u32,
    /// The first packet that is not acknowledged is sent again whatever has come.
    first: bool,
    /// When the timer was set.
    armed_at: Time,
}

impl Selective {
    /// Nothing is sent yet.
    pub fn new(config: SelectiveConfig) -> Self {
        Selective {
            config,
            arrived: Kept::default(),
            high: 0,
            recover: None,
            next: 0,
            first: false,
            armed_at: Time::ZERO,
        }
    }

    /// The packet that is to be sent again, if one is.
    pub fn missing(&self) -> Option<u32> {
        self.recover?;
        let una = self.arrived.expected();
        if self.first && self.next <= una {
            return Some(una);
        }
        let psn = self.arrived.next_gap(self.next.max(una));
        (psn + self.config.reordering + 1 < self.high).then_some(psn)
    }

    /// That packet is sent.
    pub fn sent_again(&mut self, psn: u32) {
        self.next = psn + 1;
        self.first = false;
    }

    /// Packet `came` has come early; the end of what was sent is `sent`.
    pub fn on_early(&mut self, came: u32, sent: u32) {
        if came >= self.arrived.expected() {
            self.arrived.keep(came);
            self.high = self.high.max(came + 1);
        }
        if self.recover.is_none() && self.arrived.has_gap() {
            self.begin(sent, self.config.reordering == 0);
        }
    }

    /// All before `una` is acknowledged.
    pub fn on_advance(&mut self, una: u32) {
        self.arrived.skip_to(una);
        match self.recover {
            Some(recover) if una >= recover => self.recover = None,
            // an acknowledgement of less than all shows that the next one is missing, too
            Some(_) => self.first |= self.next <= una && self.config.reordering == 0,
            None => {}
        }
    }

    /// The timer has fired.
    pub fn on_timeout(&mut self, sent: u32) {
        self.begin(sent, true);
    }

    fn begin(&mut self, sent: u32, first: bool) {
        self.recover = Some(sent);
        self.next = self.arrived.expected();
        self.first = first;
    }

    /// The timer is set at `now` with so many packets in flight: when it fires.
    pub fn arm(&mut self, now: Time, in_flight: u32) -> Time {
        self.armed_at = now;
        now.saturating_add(self.span(in_flight))
    }

    /// It fires later now that so many packets are in flight, if it does.
    pub fn extended(&self, timeout_at: Time, in_flight: u32) -> Option<Time> {
        let at = self.armed_at.saturating_add(self.span(in_flight));
        (at > timeout_at).then_some(at)
    }

    fn span(&self, in_flight: u32) -> Delta {
        match in_flight <= self.config.rto_low_packets {
            true => self.config.rto_low,
            false => self.config.rto_high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(selective: &mut Selective) -> Vec<u32> {
        let next = |_| {
            let psn = selective.missing()?;
            selective.sent_again(psn);
            Some(psn)
        };
        std::iter::repeat(()).map_while(next).collect()
    }

    #[test]
    fn each_gap_is_sent_again_once() {
        // 0 to 9 are sent; 2, 3 and 6 are lost
        let mut selective = Selective::new(SelectiveConfig::default());
        selective.on_advance(2);
        assert_eq!(selective.missing(), None);
        selective.on_early(4, 10);
        assert_eq!(again(&mut selective), [2, 3]);
        selective.on_early(5, 10);
        assert_eq!(again(&mut selective), [0; 0]);
        selective.on_early(7, 10);
        assert_eq!(again(&mut selective), [6]);
        // 2 comes: 3 was sent again already
        selective.on_advance(3);
        assert_eq!(again(&mut selective), [0; 0]);
        selective.on_advance(6);
        selective.on_advance(10);
        assert_eq!((selective.recover, selective.missing()), (None, None));
    }

    #[test]
    fn a_lost_tail_takes_the_timer_and_an_answer_shows_the_next() {
        // 0 to 5 are sent, 4 and 5 are lost: nothing comes after them
        let mut selective = Selective::new(SelectiveConfig::default());
        selective.on_advance(4);
        selective.on_timeout(6);
        assert_eq!(again(&mut selective), [4]);
        selective.on_advance(5);
        assert_eq!(again(&mut selective), [5]);
        selective.on_advance(6);
        assert_eq!(selective.recover, None);
        // what is sent again is lost, too: the timer begins anew
        selective.on_early(8, 10);
        assert_eq!(again(&mut selective), [6, 7]);
        selective.on_timeout(10);
        assert_eq!(again(&mut selective), [6, 7]);
    }

    #[test]
    fn packets_may_come_a_little_early() {
        let config = SelectiveConfig { reordering: 3, ..SelectiveConfig::default() };
        let mut selective = Selective::new(config);
        [2, 3].into_iter().for_each(|psn| selective.on_early(psn, 10));
        assert_eq!(selective.missing(), None);
        // 4 is four beyond 0, and three beyond 1
        selective.on_early(4, 10);
        assert_eq!(again(&mut selective), [0]);
        selective.on_advance(1);
        assert_eq!(selective.missing(), None);
        selective.on_early(5, 10);
        assert_eq!(again(&mut selective), [1]);
    }

    #[test]
    fn few_packets_have_a_short_timer() {
        let us = |us: u64| Time::from_ps(us * 1_000_000);
        let mut selective = Selective::new(SelectiveConfig::default());
        assert_eq!(selective.arm(us(5), 3), us(105));
        assert_eq!(selective.extended(us(105), 3), None);
        assert_eq!(selective.extended(us(105), 4), Some(us(325)));
        assert_eq!(selective.arm(us(5), 4), us(325));
    }
}
