//! PCIe between a NIC and memory, where it is slower than the NIC's ports together: payload goes
//! through one after the other, each way.

use sim_core::{Bytes, Rate, Time};

/// One NIC's PCIe.
#[derive(Clone, Debug)]
pub struct Dma {
    rate: Rate,
    read_free: Time,
    write_free: Time,
    /// Ports that wait to read, and when their turn comes; it is paid for.
    turns: Vec<(u32, Time)>,
}

/// Whether a port may read the payload of a packet now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Yes.
    Now,
    /// Yes: its turn has come, which was paid for.
    Turn,
    /// Not before this.
    At(Time),
}

impl Dma {
    /// An idle one.
    pub fn new(rate: Rate) -> Self {
        Dma { rate, read_free: Time::ZERO, write_free: Time::ZERO, turns: Vec::new() }
    }

    /// A port wants to read a packet of at most `mtu` bytes; where it must wait it gets a turn.
    pub fn ask(&mut self, now: Time, port: u32, mtu: u16) -> Read {
        if let Some(index) = self.turns.iter().position(|(waiting, _)| *waiting == port) {
            let (_, at) = self.turns[index];
            if at > now {
                return Read::At(at);
            }
            self.turns.swap_remove(index);
            return Read::Turn;
        }
        if self.read_free <= now {
            return Read::Now;
        }
        let at = self.read_free;
        self.turns.push((port, at));
        self.read(now, mtu);
        Read::At(at)
    }

    /// When the turn of a port comes that waits.
    pub fn turn(&self, port: u32) -> Option<Time> {
        self.turns.iter().find(|(waiting, _)| *waiting == port).map(|(_, at)| *at)
    }

    /// Payload is read at `now`, for sending.
    pub fn read(&mut self, now: Time, payload: u16) {
        self.read_free = now.max(self.read_free) + self.rate.time_for(Bytes::new(payload.into()));
    }

    /// Received payload is to be written; returns when it will be in memory.
    pub fn write(&mut self, now: Time, payload: u16) -> Time {
        let size = Bytes::new(u64::from(payload).max(1));
        self.write_free = now.max(self.write_free) + self.rate.time_for(size);
        self.write_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_take_turns() {
        let mut dma = Dma::new(Rate::from_gbps(8));
        // 1 B/ns: 1000 B take 1 us
        let us = |us: u64| Time::from_ps(us * 1_000_000);
        assert_eq!(dma.ask(us(5), 0, 1000), Read::Now);
        dma.read(us(5), 1000);
        // both ports want more: one at 6, the other at 7, and so on in turn
        assert_eq!(dma.ask(us(5), 0, 1000), Read::At(us(6)));
        assert_eq!(dma.ask(us(5), 1, 1000), Read::At(us(7)));
        assert_eq!((dma.turn(1), dma.turn(2)), (Some(us(7)), None));
        assert_eq!(dma.ask(us(6), 0, 1000), Read::Turn);
        assert_eq!(dma.ask(us(6), 0, 1000), Read::At(us(8)));
        assert_eq!(dma.ask(us(7), 1, 1000), Read::Turn);
    }

    #[test]
    fn received_payload_queues() {
        let mut dma = Dma::new(Rate::from_gbps(8));
        let us = |us: u64| Time::from_ps(us * 1_000_000);
        assert_eq!([dma.write(us(5), 1000), dma.write(us(5), 1000)], [us(6), us(7)]);
    }
}
