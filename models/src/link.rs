//! Frames on their way to a port: a FIFO whose head alone is in the agenda.

use std::collections::VecDeque;

use sim_core::Time;
use sim_core::rng::Stream;

use crate::packet::Packet;

/// One direction of a cable, seen from the receiving port.
#[derive(Debug, Default)]
pub struct Pipe {
    frames: VecDeque<(Time, Packet)>,
    /// Loss on the way, if there is any.
    loss: Option<(f64, Stream)>,
}

impl Pipe {
    /// An empty pipe that loses frames with this probability, if any.
    pub fn new(loss: Option<(f64, Stream)>) -> Self {
        Pipe { frames: VecDeque::new(), loss }
    }

    /// Puts a frame on the cable; returns when to look if the cable was empty.
    #[inline]
    pub fn push(&mut self, arrival: Time, packet: Packet) -> Option<Time> {
        debug_assert!(self.frames.back().is_none_or(|(last, _)| *last <= arrival), "not a FIFO");
        self.frames.push_back((arrival, packet));
        (self.frames.len() == 1).then_some(arrival)
    }

    /// Takes the frame that arrives now, and when to look again.
    #[inline]
    pub fn pop(&mut self) -> Option<(Packet, Option<Time>)> {
        let (_, packet) = self.frames.pop_front()?;
        Some((packet, self.frames.front().map(|(arrival, _)| *arrival)))
    }

    /// True if the frame that arrives now is lost.
    #[inline]
    pub fn loses(&mut self) -> bool {
        self.loss.as_mut().is_some_and(|(probability, random)| random.chance(*probability))
    }

    /// Frames on the cable.
    pub fn frames(&self) -> impl Iterator<Item = &Packet> {
        self.frames.iter().map(|(_, packet)| packet)
    }
}
