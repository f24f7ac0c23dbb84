//! Round robin among the QPs of a port that may send, in the order of their slots.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sim_core::Time;

use crate::ids::PRIORITIES;

/// Which QPs are ready, and which wait for when.
#[derive(Debug, Default)]
pub struct Arbiter {
    /// QP of each slot, and its priority.
    qps: Vec<u32>,
    priorities: Vec<u8>,
    ready: Vec<u64>,
    /// How many are ready, of all and of each priority.
    ready_count: u32,
    ready_of: [u32; PRIORITIES],
    /// No slot before this is ready,
    low: u32,
    /// nor this one, nor any after it.
    high: u32,
    /// Where the next search begins: after the slot served last.
    from: u32,
    /// Wake-up times; an entry may be earlier than the QP's own time, never later.
    waiting: BinaryHeap<Reverse<(Time, u32)>>,
    /// Slots whose window may open without an ACK, and by slot whether it is one of them.
    blocked: VecDeque<u32>,
    is_blocked: Vec<bool>,
}

impl Arbiter {
    /// Gives a QP its slot.
    pub fn register(&mut self, qp: u32, priority: u8) -> u32 {
        let slot = self.qps.len() as u32;
        self.qps.push(qp);
        self.priorities.push(priority & 7);
        self.ready.resize(self.qps.len().div_ceil(64), 0);
        self.is_blocked.push(false);
        slot
    }

    /// The QP of a slot.
    #[inline]
    pub fn qp(&self, slot: u32) -> u32 {
        self.qps[slot as usize]
    }

    /// The QPs of this port.
    pub fn qps(&self) -> &[u32] {
        &self.qps
    }

    /// The priority of the QP in this slot.
    #[inline]
    pub fn priority(&self, slot: u32) -> u8 {
        self.priorities[slot as usize]
    }

    /// The QP in this slot has another priority from now on.
    pub fn set_priority(&mut self, slot: u32, priority: u8) {
        let before = std::mem::replace(&mut self.priorities[slot as usize], priority & 7);
        if self.ready[slot as usize / 64] & 1 << (slot % 64) != 0 {
            self.ready_of[usize::from(before)] -= 1;
            self.ready_of[usize::from(priority & 7)] += 1;
        }
    }

    /// The QP in this slot may send.
    #[inline]
    pub fn set_ready(&mut self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.ready[word] & bit == 0 {
            self.ready[word] |= bit;
            let none = self.ready_count == 0;
            self.low = if none { slot } else { self.low.min(slot) };
            self.high = if none { slot + 1 } else { self.high.max(slot + 1) };
            self.ready_count += 1;
            self.ready_of[usize::from(self.priorities[slot as usize] & 7)] += 1;
        }
    }

    /// The QP in this slot may not send.
    #[inline]
    pub fn clear_ready(&mut self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.ready[word] & bit != 0 {
            self.ready[word] &= !bit;
            self.ready_count -= 1;
            self.ready_of[usize::from(self.priorities[slot as usize] & 7)] -= 1;
        }
    }

    /// True if some QP is ready whose priority is not among those `paused` (a bit each).
    #[inline]
    pub fn any_ready(&self, paused: u8) -> bool {
        let open = |priority: usize| paused & (1 << priority) == 0;
        match paused {
            0 => self.ready_count > 0,
            _ => (0..PRIORITIES).any(|priority| open(priority) && self.ready_of[priority] > 0),
        }
    }

    /// Wakes the QP in this slot at `time`.
    #[inline]
    pub fn wait(&mut self, time: Time, slot: u32) {
        self.waiting.push(Reverse((time, slot)));
    }

    /// The QP in this slot waits for its window, which may open without an ACK.
    pub fn block(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.is_blocked[slot as usize], true) {
            self.blocked.push_back(slot);
        }
    }

    /// How many QPs wait for such a window.
    #[inline]
    pub fn blocked(&self) -> usize {
        self.blocked.len()
    }

    /// Takes a slot that waits for such a window.
    #[inline]
    pub fn unblock(&mut self) -> Option<u32> {
        let slot = self.blocked.pop_front()?;
        self.is_blocked[slot as usize] = false;
        Some(slot)
    }

    /// Takes a slot whose time has come.
    #[inline]
    pub fn due(&mut self, now: Time) -> Option<u32> {
        let Reverse((time, slot)) = *self.waiting.peek()?;
        (time <= now).then(|| {
            self.waiting.pop();
            slot
        })
    }

    /// When the next slot must be looked at.
    #[inline]
    pub fn next_wake(&self) -> Option<Time> {
        self.waiting.peek().map(|Reverse((time, _))| *time)
    }

    /// The first ready slot after the last one served whose priority is not among those `paused`.
    #[inline]
    pub fn next(&self, paused: u8) -> Option<u32> {
        if !self.any_ready(paused) {
            return None;
        }
        let open = |slot: u32| paused & (1 << (self.priorities[slot as usize] & 7)) == 0;
        let eligible = |slot: u32| paused == 0 || open(slot);
        // of thousands of slots few are in use at a time, and those are close to each other
        let after = self.search(self.from.max(self.low), self.high, eligible);
        after.or_else(|| self.search(self.low, self.from.min(self.high), eligible))
    }

    /// Notes that a slot was served.
    #[inline]
    pub fn served(&mut self, slot: u32) {
        self.from = slot + 1;
    }

    fn search(&self, from: u32, to: u32, eligible: impl Fn(u32) -> bool) -> Option<u32> {
        let mut slot = from;
        while slot < to {
            let word = self.ready[slot as usize / 64] >> (slot % 64);
            if word == 0 {
                slot = (slot / 64 + 1) * 64;
                continue;
            }
            slot += word.trailing_zeros();
            if slot < to && eligible(slot) {
                return Some(slot);
            }
            slot += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_take_turns() {
        let mut arbiter = Arbiter::default();
        for qp in 0..200 {
            arbiter.register(1000 + qp, if qp == 130 { 3 } else { 0 });
        }
        for slot in [3, 64, 130, 199] {
            arbiter.set_ready(slot);
        }
        let mut turns = Vec::new();
        for _ in 0..6 {
            let slot = arbiter.next(1 << 3).unwrap();
            arbiter.served(slot);
            turns.push(slot);
        }
        assert_eq!(turns, [3, 64, 199, 3, 64, 199]);
        assert_eq!(arbiter.qp(199), 1199);
        for slot in [3, 64, 199] {
            arbiter.clear_ready(slot);
        }
        assert_eq!(arbiter.next(0), Some(130));
        assert_eq!(arbiter.next(1 << 3), None);
        arbiter.set_priority(130, 5);
        assert_eq!((arbiter.next(1 << 3), arbiter.next(1 << 5)), (Some(130), None));
    }

    #[test]
    fn the_first_turn_is_that_of_the_first_slot() {
        let mut arbiter = Arbiter::default();
        (0..3).for_each(|qp| assert_eq!(arbiter.register(qp, 0), qp));
        (0..3).for_each(|slot| arbiter.set_ready(slot));
        assert_eq!(arbiter.next(0), Some(0));
    }

    #[test]
    fn slots_block_once_and_open_in_order() {
        let mut arbiter = Arbiter::default();
        (0..5).for_each(|qp| assert_eq!(arbiter.register(qp, 0), qp));
        [4, 2, 4].into_iter().for_each(|slot| arbiter.block(slot));
        assert_eq!(arbiter.blocked(), 2);
        assert_eq!(
            [arbiter.unblock(), arbiter.unblock(), arbiter.unblock()],
            [Some(4), Some(2), None]
        );
    }

    #[test]
    fn waiting_slots_come_due_in_order() {
        let mut arbiter = Arbiter::default();
        (0..3).for_each(|qp| assert_eq!(arbiter.register(qp, 0), qp));
        arbiter.wait(Time::from_ps(20), 0);
        arbiter.wait(Time::from_ps(10), 2);
        assert_eq!(arbiter.next_wake(), Some(Time::from_ps(10)));
        assert_eq!(arbiter.due(Time::from_ps(9)), None);
        assert_eq!(arbiter.due(Time::from_ps(20)), Some(2));
        assert_eq!(arbiter.due(Time::from_ps(20)), Some(0));
    }
}
