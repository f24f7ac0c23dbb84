//! The future event list.

use std::marker::PhantomData;

use crate::time::Time;
use crate::wheel::Wheel;

/// An event as 32 bits, in the order in which events at the same instant are handled.
pub trait Code: Copy {
    /// The code of an event.
    fn code(self) -> u32;
    /// The event of a code.
    fn of_code(code: u32) -> Self;
}

impl Code for u32 {
    fn code(self) -> u32 {
        self
    }
    fn of_code(code: u32) -> Self {
        code
    }
}

/// Pending events in `(Time, Event)` order, and messages for other shards.
///
/// An event names a component and carries no data. The caller keeps **at most one live event per
/// (kind, component)**, so the pair is a total order without sequence numbers; an owner that moves
/// a deadline leaves the old entry in place and ignores it when it pops (it is *stale*).
#[derive(Debug)]
pub struct Agenda<E, M> {
    now: Time,
    wheel: Wheel,
    outbox: Vec<(usize, M)>,
    events: PhantomData<E>,
}

impl<E: Code, M> Default for Agenda<E, M> {
    fn default() -> Self {
        Agenda::new(false)
    }
}

impl<E: Code, M> Agenda<E, M> {
    /// An empty agenda, made for some hundred pending events or, if `crowded`, for thousands.
    pub fn new(crowded: bool) -> Self {
        let (wheel, outbox) = (Wheel::new(crowded), Vec::new());
        Agenda { now: Time::ZERO, wheel, outbox, events: PhantomData }
    }

    /// The current instant: the time of the event being handled.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Schedules `event` at `time`, which must not be in the past.
    #[inline]
    pub fn at(&mut self, time: Time, event: E) {
        debug_assert!(time >= self.now, "an event in the past");
        self.wheel.push(time, event.code());
    }

    /// Sends `message` to another shard; it is accepted there at the end of the window.
    #[inline]
    pub fn send(&mut self, shard: usize, message: M) {
        self.outbox.push((shard, message));
    }

    /// The time of the next event.
    pub fn next_time(&self) -> Option<Time> {
        self.wheel.next_time()
    }

    /// Pops the next event if it is before `end`, and moves the clock to it.
    #[inline]
    pub fn pop_before(&mut self, end: Time) -> Option<E> {
        let (time, code) = self.wheel.pop_before(end)?;
        self.now = time;
        Some(E::of_code(code))
    }

    /// The event that comes `count` after the next one, if that is about to come too.
    #[inline]
    pub(crate) fn ahead(&self, count: usize) -> Option<E> {
        self.wheel.ahead(count).map(E::of_code)
    }

    /// Moves the clock forward without an event.
    pub(crate) fn advance(&mut self, time: Time) {
        debug_assert!(time >= self.now);
        self.now = self.now.max(time);
    }

    /// Takes the messages sent since the last call.
    pub(crate) fn drain_outbox(&mut self) -> impl Iterator<Item = (usize, M)> {
        self.outbox.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_follow_the_order_of_events() {
        let mut agenda: Agenda<u32, ()> = Agenda::default();
        for (time, event) in [(5, 10), (5, 9), (3, 77), (5, 2)] {
            agenda.at(Time::from_ps(time), event);
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.pop_before(Time::MAX)).collect();
        assert_eq!(order, [77, 2, 9, 10]);
        assert_eq!(agenda.now(), Time::from_ps(5));
    }

    #[test]
    fn the_end_of_a_window_is_exclusive() {
        let mut agenda: Agenda<u32, ()> = Agenda::default();
        agenda.at(Time::from_ps(10), 1);
        assert_eq!(agenda.pop_before(Time::from_ps(10)), None);
        assert_eq!(agenda.pop_before(Time::from_ps(11)), Some(1));
    }
}
