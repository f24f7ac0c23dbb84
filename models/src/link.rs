//! Frames on their way to a port: a FIFO whose head alone is in the agenda.

use sim_core::Time;
use sim_core::rng::Stream;

use crate::fifo::Fifo;
use crate::packet::Packet;

/// One direction of a cable, seen from the receiving port.
#[derive(Debug, Default)]
pub struct Pipe {
    frames: Fifo<(Time, Packet)>,
    /// Loss on the way, if there is or may be any.
    loss: Option<Box<Loss>>,
}

/// What becomes of frames on their way.
#[derive(Debug)]
struct Loss {
    probability: f64,
    random: Stream,
    /// The cable carries nothing.
    down: bool,
}

impl Pipe {
    /// An empty pipe that loses frames with this probability, if any.
    pub fn new(loss: Option<(f64, Stream)>) -> Self {
        let loss_of = |(probability, random)| Box::new(Loss { probability, random, down: false });
        Pipe { frames: Fifo::default(), loss: loss.map(loss_of) }
    }

    /// Puts a frame on the cable; returns when to look if the cable was empty.
    #[inline]
    pub fn push(&mut self, arrival: Time, packet: Packet) -> Option<Time> {
        debug_assert!(self.frames.iter().all(|(last, _)| *last <= arrival), "not a FIFO");
        self.frames.push((arrival, packet));
        (self.frames.len() == 1).then_some(arrival)
    }

    /// The frame that arrives next.
    #[inline]
    pub fn next(&self) -> Option<&Packet> {
        self.frames.front().map(|(_, packet)| packet)
    }

    /// Asks for the memory of that frame.
    #[inline]
    pub fn prefetch(&self) {
        self.frames.prefetch();
    }

    /// Asks for the memory of the next frame that will be pushed.
    #[inline]
    pub fn prefetch_end(&self) {
        self.frames.prefetch_end();
    }

    /// Takes the frame that arrives now, and when to look again.
    #[inline]
    pub fn pop(&mut self) -> Option<(Packet, Option<Time>)> {
        let (_, packet) = self.frames.pop()?;
        Some((packet, self.frames.front().map(|(arrival, _)| *arrival)))
    }

    /// True if the frame that arrives now is lost.
    #[inline]
    pub fn loses(&mut self) -> bool {
        self.loss.as_mut().is_some_and(|loss| loss.down || loss.random.chance(loss.probability))
    }

    /// True if the cable carries nothing.
    pub fn is_down(&self) -> bool {
        self.loss.as_ref().is_some_and(|loss| loss.down)
    }

    /// From now on the cable carries nothing, or frames again. It must be one that may lose some.
    pub fn set_down(&mut self, down: bool) {
        debug_assert!(self.loss.is_some(), "this cable never fails");
        self.loss.iter_mut().for_each(|loss| loss.down = down);
    }

    /// From now on it loses frames with this probability. It must be one that may lose some.
    pub fn set_loss(&mut self, probability: f64) {
        debug_assert!(self.loss.is_some(), "this cable never loses anything");
        self.loss.iter_mut().for_each(|loss| loss.probability = probability);
    }

    /// Frames on the cable.
    pub fn frames(&self) -> impl Iterator<Item = &Packet> {
        self.frames.iter().map(|(_, packet)| packet)
    }
}
