//! A timing wheel: the order of a heap at a cost that does not grow with what is pending.
//!
//! Time is cut into slots of 4.1 ns, or 8.2 ns where much is pending. The next 4096 slots have a
//! list each, in which entries stand in any order; a slot is sorted when its turn comes. What is due later than that
//! waits in a heap. (Varghese and Lauck, SOSP 1987; sorting on entry as in calendar queues.)

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;

/// A slot is 2^12 or 2^13 ps wide.
const NARROW: u32 = 12;
const WIDE: u32 = 13;
const SLOTS: usize = 4096;
const NONE: u32 = u32::MAX;

/// Pending 32-bit codes by time, then code.
///
/// Nothing may be put before an entry that was taken, nor before the `end` up to which
/// [`Wheel::pop_before`] has looked in vain.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// Binary logarithm of a slot's width in picoseconds.
    shift: u32,
    /// The first entry of each slot's list, in `nodes`.
    heads: Box<[u32; SLOTS]>,
    /// Slots with a list (a bit each).
    occupied: [u64; SLOTS / 64],
    nodes: Vec<Node>,
    /// The first unused node.
    free: u32,
    /// The slot whose entries are in `keys`, counted from time 0.
    open: u64,
    /// The part of their times that keys of the open slot lack.
    base: u64,
    /// The open slot's keys, the next one last.
    keys: Vec<u64>,
    far: BinaryHeap<Reverse<(Time, u32)>>,
    /// Slot of the first entry of `far`.
    far_slot: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    next: u32,
}

/// An entry within its slot: the low bits of its time, then the code. (A slot ends where the high
/// bits change, if not before.)
#[inline]
fn key_of(time: Time, code: u32) -> u64 {
    time.ps() << 32 | u64::from(code)
}

#[inline]
fn time_of(base: u64, key: u64) -> Time {
    Time::from_ps(base | key >> 32)
}

impl Wheel {
    /// An empty wheel. Where more than some thousand entries are pending, wide slots let one look
    /// further ahead.
    pub(crate) fn new(wide: bool) -> Self {
        Wheel {
            shift: if wide { WIDE } else { NARROW },
            heads: Box::new([NONE; SLOTS]),
            occupied: [0; SLOTS / 64],
            nodes: Vec::with_capacity(1024),
            free: NONE,
            open: 0,
            base: 0,
            keys: Vec::with_capacity(256),
            far: BinaryHeap::with_capacity(1024),
            far_slot: u64::MAX,
        }
    }

    /// The part of the times in a slot that their keys lack.
    #[inline]
    fn base_of(&self, slot: u64) -> u64 {
        (slot << self.shift) & !u64::from(u32::MAX)
    }

    /// Puts an entry in.
    #[inline]
    pub(crate) fn push(&mut self, time: Time, code: u32) {
        let slot = time.ps() >> self.shift;
        debug_assert!(slot >= self.open, "an event in the past");
        let beyond_next = slot.wrapping_sub(self.open).wrapping_sub(1);
        if beyond_next >= SLOTS as u64 - 1 {
            return self.push_aside(time, code);
        }
        let index = slot as usize % SLOTS;
        let node = Node { key: key_of(time, code), next: self.heads[index] };
        self.occupied[index / 64] |= 1 << (index % 64);
        self.heads[index] = self.free;
        match self.nodes.get_mut(self.free as usize) {
            Some(unused) => {
                self.free = unused.next;
                *unused = node;
            }
            None => {
                self.heads[index] = self.nodes.len() as u32;
                self.nodes.push(node);
            }
        }
    }

    /// Puts an entry into the open slot, or into the heap.
    fn push_aside(&mut self, time: Time, code: u32) {
        let slot = time.ps() >> self.shift;
        if slot == self.open {
            let key = key_of(time, code);
            let place = self.keys.partition_point(|other| *other >= key);
            self.keys.insert(place, key);
        } else {
            self.far.push(Reverse((time, code)));
            self.far_slot = self.far_slot.min(slot);
        }
    }

    /// The time of the first entry.
    pub(crate) fn next_time(&self) -> Option<Time> {
        if let Some(key) = self.keys.last() {
            return Some(time_of(self.base, *key));
        }
        let near = self.next_slot().map(|slot| {
            let mut at = self.heads[slot as usize % SLOTS];
            let mut least = u64::MAX;
            while let Some(node) = self.nodes.get(at as usize) {
                least = least.min(node.key);
                at = node.next;
            }
            time_of(self.base_of(slot), least)
        });
        let far = self.far.peek().map(|Reverse((time, _))| *time);
        near.into_iter().chain(far).min()
    }

    /// Takes the first entry if it is before `end`.
    #[inline]
    pub(crate) fn pop_before(&mut self, end: Time) -> Option<(Time, u32)> {
        if self.keys.is_empty() && !self.open_next(end) {
            return None;
        }
        let key = *self.keys.last()?;
        let time = time_of(self.base, key);
        if time >= end {
            return None;
        }
        self.keys.pop();
        Some((time, key as u32))
    }

    /// The code of the entry that comes `count` after the next one, if it is in the open slot.
    #[inline]
    pub(crate) fn ahead(&self, count: usize) -> Option<u32> {
        let place = self.keys.len().checked_sub(count + 1)?;
        self.keys.get(place).map(|key| *key as u32)
    }

    /// Opens the next slot that has entries, if it begins before `end`.
    fn open_next(&mut self, end: Time) -> bool {
        let near = self.next_slot().unwrap_or(u64::MAX);
        let slot = near.min(self.far_slot);
        if slot > end.ps().saturating_sub(1) >> self.shift {
            return false;
        }
        (self.open, self.base) = (slot, self.base_of(slot));
        if slot == near {
            self.gather(slot as usize % SLOTS);
        }
        while self.far_slot == slot {
            if let Some(Reverse((time, code))) = self.far.pop() {
                self.keys.push(key_of(time, code));
            }
            let next = self.far.peek();
            self.far_slot = next.map_or(u64::MAX, |Reverse((time, _))| time.ps() >> self.shift);
        }
        if self.keys.len() > 1 {
            self.keys.sort_unstable_by(|a, b| b.cmp(a));
        }
        true
    }

    /// Moves a slot's list into `keys`.
    #[inline]
    fn gather(&mut self, index: usize) {
        let first = std::mem::replace(&mut self.heads[index], NONE);
        let mut at = first;
        while let Some(node) = self.nodes.get_mut(at as usize) {
            self.keys.push(node.key);
            at = node.next;
            if at == NONE {
                node.next = std::mem::replace(&mut self.free, first);
            }
        }
        self.occupied[index / 64] &= !(1 << (index % 64));
    }

    /// The first slot after the open one that has a list.
    #[inline]
    fn next_slot(&self) -> Option<u64> {
        // of the slots ahead, those that come before the open one in the array are one turn later
        let from = (self.open as usize + 1) % SLOTS;
        let rest = self.occupied[from / 64] >> (from % 64);
        if rest != 0 {
            return Some(self.open + 1 + u64::from(rest.trailing_zeros()));
        }
        // the word of `from` comes last: its low bits belong to the end of the turn
        let mut words = (1..=SLOTS / 64).map(|ahead| (from / 64 + ahead) % (SLOTS / 64));
        let word = words.find(|word| self.occupied[*word] != 0)?;
        let index = word * 64 + self.occupied[word].trailing_zeros() as usize;
        Some(self.open + 1 + ((index + SLOTS - from) % SLOTS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Domain, Stream};

    /// The wheel and a heap hold the same and give it back in the same order.
    fn agree(seed: u64, spread: u64, window: u64) {
        let mut random = Stream::new(seed, Domain::Traffic, 0);
        let mut wheel = Wheel::new(seed % 2 == 1);
        let mut heap = BinaryHeap::new();
        let mut now = 0;
        for round in 0..300 {
            for _ in 0..random.below(40) {
                let far = random.below(10) == 0;
                let ahead = random.below(if far { spread * 50 } else { spread });
                let time = Time::from_ps(now + ahead);
                let code = random.below(5) as u32;
                wheel.push(time, code);
                heap.push(Reverse((time, code)));
            }
            let next = heap.peek().map(|Reverse((time, _))| *time);
            assert_eq!(wheel.next_time(), next, "round {round}");
            let end = Time::from_ps(now + 1 + random.below(window));
            loop {
                let due = heap.peek().filter(|Reverse((time, _))| *time < end).is_some();
                let expected = if due { heap.pop().map(|Reverse(entry)| entry) } else { None };
                assert_eq!(wheel.pop_before(end), expected, "round {round}");
                let Some((time, code)) = expected else { break };
                if random.below(3) == 0 {
                    // what follows at once, some of it at the same instant
                    let time = Time::from_ps(time.ps() + random.below(3) * random.below(9000));
                    wheel.push(time, code + 1);
                    heap.push(Reverse((time, code + 1)));
                }
            }
            now = end.ps();
        }
        while let Some(Reverse(entry)) = heap.pop() {
            assert_eq!(wheel.pop_before(Time::MAX), Some(entry));
        }
        assert_eq!((wheel.pop_before(Time::MAX), wheel.next_time()), (None, None));
    }

    #[test]
    fn a_wheel_gives_what_a_heap_gives() {
        for seed in 0..20 {
            agree(seed, 3_000, 5_000);
            agree(seed, 100_000, 40_000);
            agree(seed, 16_000_000, 1_000_000);
            agree(seed, 20_000_000, 60_000_000);
            agree(seed, 1_000_000_000_000, 1_000_000_000);
        }
    }

    #[test]
    fn a_whole_turn_ahead_is_not_yet_the_wheel_s() {
        let mut wheel = Wheel::new(false);
        let turn = (SLOTS as u64) << NARROW;
        for time in [turn, turn - 1, turn + 1, 1] {
            wheel.push(Time::from_ps(time), 0);
        }
        let times = std::iter::from_fn(|| wheel.pop_before(Time::MAX)).map(|entry| entry.0.ps());
        assert_eq!(times.collect::<Vec<_>>(), [1, turn - 1, turn, turn + 1]);
    }
}
