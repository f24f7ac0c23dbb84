//! The future event list.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;

/// Pending events in `(Time, Event)` order, and messages for other shards.
///
/// An event names a component and carries no data. The caller keeps **at most one live event per
/// (kind, component)**, so the pair is a total order without sequence numbers; an owner that moves
/// a deadline leaves the old entry in place and ignores it when it pops (it is *stale*).
#[derive(Debug)]
pub struct Agenda<E, M> {
    now: Time,
    heap: BinaryHeap<Reverse<(Time, E)>>,
    outbox: Vec<(usize, M)>,
}

impl<E: Copy + Ord, M> Default for Agenda<E, M> {
    fn default() -> Self {
        Agenda { now: Time::ZERO, heap: BinaryHeap::new(), outbox: Vec::new() }
    }
}

impl<E: Copy + Ord, M> Agenda<E, M> {
    /// The current instant: the time of the event being handled.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Schedules `event` at `time`, which must not be in the past.
    #[inline]
    pub fn at(&mut self, time: Time, event: E) {
        debug_assert!(time >= self.now, "an event in the past");
        self.heap.push(Reverse((time, event)));
    }

    /// Sends `message` to another shard; it is accepted there at the end of the window.
    #[inline]
    pub fn send(&mut self, shard: usize, message: M) {
        self.outbox.push((shard, message));
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }

    /// Pops the next event if it is before `end`, and moves the clock to it.
    #[inline]
    pub fn pop_before(&mut self, end: Time) -> Option<E> {
        let Reverse((time, _)) = *self.heap.peek()?;
        if time >= end {
            return None;
        }
        let Reverse((time, event)) = self.heap.pop()?;
        self.now = time;
        Some(event)
    }

    /// Moves the clock forward without an event.
    pub(crate) fn advance(&mut self, time: Time) {
        debug_assert!(time >= self.now);
        self.now = self.now.max(time);
    }

    /// Takes the messages sent since the last call.
    pub(crate) fn take_outbox(&mut self) -> Vec<(usize, M)> {
        std::mem::take(&mut self.outbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_follow_the_order_of_events() {
        let mut agenda: Agenda<(u8, u32), ()> = Agenda::default();
        for (time, event) in [(5, (1, 0)), (5, (0, 9)), (3, (7, 7)), (5, (0, 2))] {
            agenda.at(Time::from_ps(time), event);
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.pop_before(Time::MAX)).collect();
        assert_eq!(order, [(7, 7), (0, 2), (0, 9), (1, 0)]);
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
