//! Which queue of a port sends next: strict priority above deficit weighted round robin.

use crate::ids::PRIORITIES;
use crate::switch::{SchedulerConfig, SchedulerUnit};

/// The scheduler of one port.
#[derive(Clone, Debug)]
pub struct Scheduler {
    strict_order: [u8; PRIORITIES],
    unit: SchedulerUnit,
    quantum: [u32; PRIORITIES],
    deficit: [u32; PRIORITIES],
    start: Turn,
}

/// What decides where there is no choice; it stands apart because that is nearly always.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Strict queues (a bit each).
    strict: u8,
    /// Queues that hold credit (a bit each).
    credited: u8,
    /// The queue whose turn it is.
    current: u8,
}

impl Turn {
    /// True if no queue holds credit that it might forfeit.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.credited == 0
    }

    /// The queue, if only one is `eligible` (a bit each, at least one) and none holds credit that
    /// it would forfeit.
    #[inline]
    pub fn only(&mut self, eligible: u8) -> Option<usize> {
        if eligible & (eligible - 1) != 0 || self.credited != 0 {
            return None;
        }
        let queue = eligible.trailing_zeros() as u8;
        if self.strict & eligible == 0 {
            self.current = queue;
        }
        Some(usize::from(queue))
    }
}

impl Scheduler {
    /// A scheduler for frames of up to `largest` bytes.
    pub fn new(config: &SchedulerConfig, largest: u16) -> Self {
        let mut strict_order = [0; PRIORITIES];
        for (slot, queue) in strict_order.iter_mut().zip(&config.strict) {
            *slot = *queue;
        }
        let weight = |queue| config.weights.get(&queue).copied().unwrap_or(1).max(1);
        let smallest = (0..PRIORITIES as u8).map(weight).min().unwrap_or(1);
        // every turn must allow the largest frame, so the smallest weight stands for that much
        let scale = u64::from(largest.max(1));
        let quantum = |queue: usize| {
            let bytes = u64::from(weight(queue as u8)) * scale / u64::from(smallest);
            u32::try_from(bytes).unwrap_or(u32::MAX / 2)
        };
        let strict = config.strict.iter().fold(0, |mask, queue| mask | 1 << queue);
        Scheduler {
            strict_order,
            unit: config.unit,
            quantum: std::array::from_fn(quantum),
            deficit: [0; PRIORITIES],
            start: Turn { strict, credited: 0, current: 0 },
        }
    }

    /// The first turn.
    pub fn turn(&self) -> Turn {
        self.start
    }

    /// Picks one of the `eligible` queues (a bit each, at least one); `head` gives the length of
    /// the frame at its head.
    pub fn pick(&mut self, turn: &mut Turn, eligible: u8, head: impl Fn(usize) -> u16) -> usize {
        debug_assert!(eligible != 0);
        self.forfeit(turn, turn.credited & !eligible);
        let strict = eligible & turn.strict;
        if strict != 0 {
            let first = self.strict_order.iter().find(|queue| strict & (1 << **queue) != 0);
            return usize::from(*first.unwrap_or(&0));
        }
        if eligible & (eligible - 1) == 0 {
            turn.current = eligible.trailing_zeros() as u8;
            self.forfeit(turn, turn.credited & eligible);
            return usize::from(turn.current);
        }
        match self.unit {
            SchedulerUnit::Packets => {
                turn.current = next_after(turn.current, eligible);
                usize::from(turn.current)
            }
            SchedulerUnit::Bytes => self.deficit_round(turn, eligible, head),
        }
    }

    /// A queue that is empty or paused keeps no credit (Shreedhar and Varghese, SIGCOMM 1995), or
    /// it would starve the others later.
    fn forfeit(&mut self, turn: &mut Turn, queues: u8) {
        if queues == 0 {
            return;
        }
        for queue in (0..PRIORITIES).filter(|queue| queues & (1 << queue) != 0) {
            self.deficit[queue] = 0;
        }
        turn.credited &= !queues;
    }

    fn deficit_round(
        &mut self,
        turn: &mut Turn,
        eligible: u8,
        head: impl Fn(usize) -> u16,
    ) -> usize {
        loop {
            let queue = usize::from(turn.current);
            let length = u32::from(head(queue));
            if eligible & (1 << queue) != 0 && self.deficit[queue] >= length {
                self.deficit[queue] -= length;
                return queue;
            }
            turn.current = next_after(turn.current, eligible);
            let next = usize::from(turn.current);
            self.deficit[next] = self.deficit[next].saturating_add(self.quantum[next]);
            turn.credited |= 1 << next;
        }
    }
}

/// The first eligible queue after `queue`, cyclically.
fn next_after(queue: u8, eligible: u8) -> u8 {
    let rotated = eligible.rotate_right(u32::from(queue) + 1);
    (queue + 1 + rotated.trailing_zeros() as u8) % PRIORITIES as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn served(config: &SchedulerConfig, eligible: u8, lengths: [u16; 8], turns: usize) -> Vec<u32> {
        let mut scheduler = Scheduler::new(config, 1500);
        let mut turn = scheduler.turn();
        let mut bytes = vec![0; 8];
        for _ in 0..turns {
            let queue = scheduler.pick(&mut turn, eligible, |queue| lengths[queue]);
            bytes[queue] += u32::from(lengths[queue]);
        }
        bytes
    }

    #[test]
    fn weights_share_bytes_whatever_the_frames() {
        let weights = BTreeMap::from([(3, 3), (4, 1)]);
        let config = SchedulerConfig { weights, ..SchedulerConfig::default() };
        let bytes = served(&config, 0b11000, [0, 0, 0, 300, 1400, 0, 0, 0], 40_000);
        let share = f64::from(bytes[3]) / f64::from(bytes[3] + bytes[4]);
        assert!((share - 0.75).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_queue_that_was_empty_brings_no_credit() {
        let mut scheduler = Scheduler::new(&SchedulerConfig::default(), 1500);
        let mut turn = scheduler.turn();
        // queue 4 has a small frame now and then, a thousand times
        for number in 0..10_000 {
            let eligible = if number % 10 == 0 { 0b1_1000 } else { 0b0_1000 };
            scheduler.pick(&mut turn, eligible, |queue| if queue == 4 { 64 } else { 1500 });
        }
        // then both are backlogged: they take turns at once
        let turns: Vec<_> = (0..6).map(|_| scheduler.pick(&mut turn, 0b1_1000, |_| 1500)).collect();
        let fours = turns.iter().filter(|queue| **queue == 4).count();
        assert_eq!(fours, 3, "{turns:?}");
    }

    #[test]
    fn strict_queues_go_first_in_the_order_given() {
        let config = SchedulerConfig { strict: vec![2, 6], ..SchedulerConfig::default() };
        let mut scheduler = Scheduler::new(&config, 1500);
        let mut turn = scheduler.turn();
        assert_eq!(scheduler.pick(&mut turn, 0b0100_1101, |_| 64), 2);
        assert_eq!(scheduler.pick(&mut turn, 0b0100_1001, |_| 64), 6);
    }

    #[test]
    fn packets_take_turns_after_the_last_served() {
        let unit = SchedulerUnit::Packets;
        let config = SchedulerConfig { unit, ..SchedulerConfig::default() };
        let mut scheduler = Scheduler::new(&config, 1500);
        let mut turn = scheduler.turn();
        let turns: Vec<_> =
            (0..5).map(|_| scheduler.pick(&mut turn, 0b0001_1010, |_| 64)).collect();
        assert_eq!(turns, [1, 3, 4, 1, 3]);
    }
}
