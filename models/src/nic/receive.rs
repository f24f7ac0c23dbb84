//! A receiver that drains to memory slower than its link: buffer, XOFF, XON.

use std::collections::VecDeque;

use sim_core::{Bytes, Delta, Rate, Time};

use super::config::ReceiveConfig;
use crate::packet::Packet;

/// Data packets between the port and memory.
#[derive(Debug)]
pub struct ReceiveBuffer {
    config: ReceiveConfig,
    /// That of the configuration, or what a fault makes of it; 0: nothing drains.
    rate: Rate,
    packets: VecDeque<Packet>,
    bytes: u64,
    /// When the live `Drain` event fires.
    drain_at: Time,
    /// Payload of the head that is still to drain, while nothing does.
    left: u64,
}

/// What became of a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// No room.
    Full,
    /// It waits; draining goes on.
    Queued,
    /// It is the only one: it begins to drain.
    First,
}

impl ReceiveBuffer {
    /// An empty buffer.
    pub fn new(config: ReceiveConfig) -> Self {
        ReceiveBuffer {
            config,
            rate: config.rate,
            packets: VecDeque::new(),
            bytes: 0,
            drain_at: Time::MAX,
            left: 0,
        }
    }

    /// A packet arrives.
    pub fn offer(&mut self, packet: Packet) -> Offered {
        let len = u64::from(packet.len);
        if self.bytes + len > self.config.buffer.get() {
            return Offered::Full;
        }
        self.bytes += len;
        self.packets.push_back(packet);
        match self.packets.len() {
            1 => Offered::First,
            _ => Offered::Queued,
        }
    }

    /// The packet at the head is in memory; also the payload of the next one.
    pub fn drained(&mut self) -> Option<(Packet, Option<u16>)> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some((packet, self.packets.front().map(|next| next.arg)))
    }

    /// The buffer is so full that senders must pause.
    pub fn above_xoff(&self) -> bool {
        self.bytes > self.config.xoff.get()
    }

    /// The buffer is so empty that senders may go on.
    pub fn below_xon(&self) -> bool {
        self.bytes <= self.config.xon.get()
    }

    /// What is held.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }

    /// The payload of the packet at the head begins to drain: how long it takes, if anything drains.
    pub fn begin(&mut self, payload: u16) -> Option<Delta> {
        let left = u64::from(payload).max(1);
        if self.rate == Rate::ZERO {
            self.left = left;
            return None;
        }
        Some(self.rate.time_for(Bytes::new(left)))
    }

    /// When the packet at the head will be in memory, as far as is known.
    pub fn drain_at(&self) -> Time {
        self.drain_at
    }

    /// Sets when that will be.
    pub fn set_drain_at(&mut self, at: Time) {
        self.drain_at = at;
    }

    /// From `now` on it drains at this rate (0: not at all; if absent, the usual one), also the rest
    /// of a packet that has begun to; true if there is one, and `drain_at` has changed.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) -> bool {
        let before = std::mem::replace(&mut self.rate, rate.unwrap_or(self.config.rate));
        let Some(head) = self.packets.front() else { return false };
        let payload = u64::from(head.arg).max(1);
        if before > Rate::ZERO {
            let span = self.drain_at.since(now);
            self.left = before.bytes_in(span).get().clamp(1, payload);
        }
        self.drain_at = match self.rate {
            Rate::ZERO => Time::MAX,
            rate => now.saturating_add(rate.time_for(Bytes::new(self.left))),
        };
        self.drain_at < Time::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;

    #[test]
    fn a_packet_that_has_begun_to_drain_goes_on_at_the_new_rate() {
        let us = |us: u64| Time::from_ps(us * 1_000_000);
        let mut buffer = ReceiveBuffer::new(ReceiveConfig::behind(Rate::from_gbps(8)));
        let mut packet = Packet::new(Kind::Data, 0, 0, 4158);
        packet.arg = 4000;
        assert!(!buffer.set_rate(us(0), None), "there is none");
        assert_eq!(buffer.offer(packet), Offered::First);
        // 4000 B at 8 Gb/s, 1 B a nanosecond: 4 us
        let time = buffer.begin(4000).unwrap();
        assert_eq!(time, Delta::from_us(4));
        buffer.set_drain_at(us(10) + time);
        // after 1 us at an eighth of it: 3000 B take 24 us
        assert!(buffer.set_rate(us(11), Some(Rate::from_gbps(1))));
        assert_eq!(buffer.drain_at(), us(35));
        // after 8 us more it hangs with 2000 B left, and goes on at 100 us
        assert!(!buffer.set_rate(us(19), Some(Rate::ZERO)));
        assert_eq!(buffer.drain_at(), Time::MAX);
        assert!(buffer.set_rate(us(100), None));
        assert_eq!(buffer.drain_at(), us(102));
        // what comes while it hangs waits
        buffer.drained();
        buffer.set_rate(us(200), Some(Rate::ZERO));
        buffer.offer(packet);
        assert_eq!(buffer.begin(4000), None);
        assert!(buffer.set_rate(us(300), Some(Rate::from_gbps(8))));
        assert_eq!(buffer.drain_at(), us(304));
    }
}
