//! PCIe between a NIC and memory, where it is slower than the NIC's ports together: payload goes
//! through one after the other, each way.

use sim_core::{Bytes, Rate, Time};

/// One NIC's PCIe.
#[derive(Clone, Copy, Debug)]
pub struct Dma {
    rate: Rate,
    read_free: Time,
    write_free: Time,
}

impl Dma {
    /// An idle one.
    pub fn new(rate: Rate) -> Self {
        Dma { rate, read_free: Time::ZERO, write_free: Time::ZERO }
    }

    /// From when on the next payload can be read from memory.
    #[inline]
    pub fn read_free(&self) -> Time {
        self.read_free
    }

    /// Payload is read at `now`, for sending.
    #[inline]
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
    fn payload_queues_each_way() {
        let mut dma = Dma::new(Rate::from_gbps(8));
        // 1 B/ns: 1000 B take 1 us
        let us = |us: u64| Time::from_ps(us * 1_000_000);
        dma.read(us(5), 1000);
        dma.read(us(5), 2000);
        assert_eq!(dma.read_free(), us(8));
        assert_eq!([dma.write(us(5), 1000), dma.write(us(5), 1000)], [us(6), us(7)]);
    }
}
