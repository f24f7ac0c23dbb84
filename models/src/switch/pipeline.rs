//! A forwarding pipeline that takes so many frames a second: `[switch.pipeline]`.
//!
//! An ASIC looks up and classifies one frame a clock in each pipeline, whatever the frame's length. At
//! a few hundred bytes a frame its ports bring more frames than that: they wait in front of the
//! pipeline, in the order of their arrival, in a buffer that is small and sends no PFC.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, PacketRate, Time};

use crate::packet::Packet;

/// `[switch.pipeline]`: without it a switch forwards as many frames as its ports bring.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineConfig {
    /// Frames that a pipeline forwards in a second.
    pub packet_rate: PacketRate,
    /// Pipelines: each has as many of the ports, in order.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: u32,
    /// Room for frames that wait for a pipeline; what does not fit is dropped.
    #[serde(default = "small")]
    pub buffer: Bytes,
}

fn one() -> u32 {
    1
}

fn small() -> Bytes {
    Bytes::new(64 << 10)
}

impl PipelineConfig {
    /// The pipeline of a port, of `ports`.
    pub fn of(&self, port: u16, ports: usize) -> u32 {
        let block = (ports as u32).div_ceil(self.count).max(1);
        u32::from(port) / block
    }
}

/// A pipeline, and what waits for it.
#[derive(Clone, Debug)]
pub struct Pipeline {
    config: PipelineConfig,
    /// When it can take the next frame.
    free_at: Time,
    waiting: VecDeque<(Time, u32, Packet)>,
    bytes: u64,
    /// What it has counted.
    pub counters: PipelineCounters,
}

/// What a pipeline has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineCounters {
    /// Frames that it has taken.
    pub frames: u64,
    /// Those of them that had to wait,
    pub waited: u64,
    /// at most so long.
    pub longest: Delta,
    /// Frames that found no room.
    pub dropped: u64,
}

/// What becomes of a frame that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is forwarded at once.
    Now,
    /// It is the first to wait: until then.
    At(Time),
    /// It waits behind others.
    Later,
    /// There is no room.
    Full,
}

impl Pipeline {
    /// An idle one.
    pub fn new(config: PipelineConfig) -> Self {
        Pipeline {
            config,
            free_at: Time::ZERO,
            waiting: VecDeque::new(),
            bytes: 0,
            counters: PipelineCounters::default(),
        }
    }

    /// A frame arrives by `port`; it is kept if it must wait.
    pub fn offer(&mut self, now: Time, port: u32, packet: &Packet) -> Turn {
        if self.waiting.is_empty() && now >= self.free_at {
            self.take(now);
            return Turn::Now;
        }
        let len = u64::from(packet.len);
        if self.bytes + len > self.config.buffer.get() {
            self.counters.dropped += 1;
            return Turn::Full;
        }
        self.bytes += len;
        self.waiting.push_back((now, port, *packet));
        if self.waiting.len() == 1 { Turn::At(self.free_at) } else { Turn::Later }
    }

    /// The frame whose turn it is, the port that it came by, and when the next one's is.
    pub fn next(&mut self, now: Time) -> Option<(u32, Packet, Option<Time>)> {
        let (since, port, packet) = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.len);
        self.counters.waited += 1;
        self.counters.longest = self.counters.longest.max(now.since(since));
        self.take(now);
        let next = (!self.waiting.is_empty()).then_some(self.free_at);
        Some((port, packet, next))
    }

    fn take(&mut self, now: Time) {
        self.counters.frames += 1;
        self.free_at = now + self.config.packet_rate.interval();
    }

    /// What waits.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.waiting.iter().map(|(.., packet)| packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;

    #[test]
    fn frames_take_their_turn_whatever_their_length() {
        let config = PipelineConfig {
            packet_rate: PacketRate::from_pps(10_000_000),
            count: 2,
            buffer: Bytes::new(1000),
        };
        // 5 ports in two blocks of 3 and 2
        assert_eq!([0, 2, 3, 4].map(|port| config.of(port, 5)), [0, 0, 1, 1]);
        let ns = |ns: u64| Time::from_ps(ns * 1000);
        let packet = |len| Packet::new(Kind::Data, 0, 0, len);
        let mut pipeline = Pipeline::new(config);
        // one each 100 ns
        assert_eq!(pipeline.offer(ns(50), 1, &packet(400)), Turn::Now);
        assert_eq!(pipeline.offer(ns(50), 2, &packet(700)), Turn::At(ns(150)));
        assert_eq!(pipeline.offer(ns(60), 3, &packet(300)), Turn::Later);
        assert_eq!(pipeline.offer(ns(60), 4, &packet(1)), Turn::Full);
        let next = pipeline.next(ns(150));
        assert_eq!(next, Some((2, packet(700), Some(ns(250)))));
        // it waits behind the third, although there would be a turn for it before
        assert_eq!(pipeline.offer(ns(250), 1, &packet(64)), Turn::Later);
        assert_eq!(pipeline.next(ns(250)), Some((3, packet(300), Some(ns(350)))));
        assert_eq!(pipeline.next(ns(350)), Some((1, packet(64), None)));
        assert_eq!(pipeline.offer(ns(449), 1, &packet(64)), Turn::At(ns(450)));
        let counters =
            PipelineCounters { frames: 4, waited: 3, longest: Delta::from_ns(190), dropped: 1 };
        assert_eq!(pipeline.counters, counters);
    }
}
