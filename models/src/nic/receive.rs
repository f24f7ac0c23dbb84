//! A receiver that drains to memory slower than its link: buffer, XOFF, XON.

use std::collections::VecDeque;

use sim_core::{Bytes, Delta};

use super::config::ReceiveConfig;
use crate::packet::Packet;

/// Data packets between the port and memory.
#[derive(Debug)]
pub struct ReceiveBuffer {
    config: ReceiveConfig,
    packets: VecDeque<Packet>,
    bytes: u64,
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
        ReceiveBuffer { config, packets: VecDeque::new(), bytes: 0 }
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

    /// How long this payload takes.
    pub fn time_of(&self, payload: u16) -> Delta {
        self.config.rate.time_for(Bytes::new(u64::from(payload).max(1)))
    }
}
