//! Frames on their way to a port: a FIFO whose head alone is in the agenda.

use sim_core::Time;
use sim_core::rng::Stream;

use crate::counters::DropReason;
use crate::fault::{BitErrors, FrameLoss};
use crate::fifo::Fifo;
use crate::packet::{Kind, Packet};

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
    how: How,
    random: Stream,
    /// The cable carries nothing.
    down: bool,
    /// Data packets so far: what their NIC has numbered them by.
    data: u32,
}

/// A [`FrameLoss`], ready for use.
#[derive(Debug)]
enum How {
    Frame(f64),
    Bit(Box<BitErrors>),
    IpId(u8),
}

impl How {
    fn new(loss: FrameLoss) -> Self {
        match loss {
            FrameLoss::Frame(probability) => How::Frame(probability),
            FrameLoss::Bit(ber) => How::Bit(Box::new(BitErrors::new(ber))),
            FrameLoss::IpId(low) => How::IpId(low),
        }
    }
}

impl Loss {
    /// What becomes of a frame that arrives: why it is lost, if it is.
    fn of(&mut self, packet: &Packet) -> Option<DropReason> {
        let id = self.data;
        let is_data = packet.kind == Kind::Data;
        self.data = id.wrapping_add(u32::from(is_data));
        let (lost, reason) = match &self.how {
            _ if self.down => (true, DropReason::LinkDown),
            How::Frame(probability) => (self.random.chance(*probability), DropReason::Corrupt),
            How::Bit(errors) => (errors.hit(packet.len, &mut self.random), DropReason::Corrupt),
            How::IpId(low) => (is_data && id as u8 == *low, DropReason::DropRule),
        };
        lost.then_some(reason)
    }
}

impl Pipe {
    /// An empty pipe that loses frames with this probability, if any.
    pub fn new(loss: Option<(f64, Stream)>) -> Self {
        let loss_of = |(probability, random)| {
            Box::new(Loss { how: How::Frame(probability), random, down: false, data: 0 })
        };
        Pipe { frames: Fifo::default(), loss: loss.map(loss_of) }
    }

    /// Gives the room for frames back if there are none.
    pub fn shrink(&mut self) {
        self.frames.shrink();
    }

    /// Puts a frame on the cable; returns when to look if the cable was empty.
    #[inline]
    pub fn push(&mut self, arrival: Time, packet: &Packet) -> Option<Time> {
        debug_assert!(self.frames.iter().all(|(last, _)| *last <= arrival), "not a FIFO");
        let was_empty = self.frames.is_empty();
        *self.frames.add() = (arrival, *packet);
        was_empty.then_some(arrival)
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

    /// Takes the frame that arrives now, of which there is one; returns when to look again.
    #[inline]
    pub fn advance(&mut self) -> Option<Time> {
        self.frames.advance();
        self.frames.front().map(|(arrival, _)| *arrival)
    }

    /// Why the frame that arrives now is lost, if it is.
    #[inline]
    pub fn loses(&mut self, packet: &Packet) -> Option<DropReason> {
        self.loss.as_mut().and_then(|loss| loss.of(packet))
    }

    /// From now on the cable carries nothing, or frames again. It must be one that may lose some.
    pub fn set_down(&mut self, down: bool) {
        debug_assert!(self.loss.is_some(), "this cable never fails");
        self.loss.iter_mut().for_each(|loss| loss.down = down);
    }

    /// From now on it loses these frames. It must be one that may lose some.
    pub fn set_loss(&mut self, how: FrameLoss) {
        debug_assert!(self.loss.is_some(), "this cable never loses anything");
        self.loss.iter_mut().for_each(|loss| loss.how = How::new(how));
    }

    /// Frames on the cable.
    pub fn frames(&self) -> impl Iterator<Item = &Packet> {
        self.frames.iter().map(|(_, packet)| packet)
    }
}
