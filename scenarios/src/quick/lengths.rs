//! How much of a collective is tried: lengths in steps, each twice as long as the one before.

use models::collective::{Cut, Job};

/// The shortest length. Its quarters, and so all others, are whole turns of the four slots: a ring
/// that waits for its slots may take two steps in turn that are not alike.
const SHORTEST: u64 = 64;
/// All tries together simulate at most this part of the steps. A ring of 128 ranks takes 255 steps
/// for a loop: of one loop 64 may be tried, and of eight 64 and then two loops.
const PART: f64 = 0.3;
/// Within a loop of fewer steps no length is tried where there are several loops: what happens
/// between two loops would count for too much.
const LONG_LOOP: u64 = 200;

/// The lengths that may be tried for a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    /// By stretch of the program: growing lengths; none if the stretch is always run as a whole.
    lengths: [Vec<u64>; 2],
    /// Steps of both stretches.
    pub all: [u64; 2],
}

impl Lengths {
    pub(super) fn new(job: &Job) -> Self {
        let programs = (0..job.channels).map(|channel| job.program(channel, 0));
        // channels differ by a small last loop at most
        let (all, steps) = programs.fold(([0; 2], 1), |(all, _), program| {
            let stretches = program.stretches();
            ([all[0].max(stretches[0]), all[1].max(stretches[1])], program.loop_steps())
        });
        Lengths { lengths: all.map(|all| lengths(all, steps)), all }
    }

    /// Steps in all.
    pub(super) fn total(&self) -> u64 {
        self.all.iter().sum()
    }

    /// What try `number` runs; `None` if there is no further one.
    pub(super) fn cut(&self, number: usize) -> Option<Cut> {
        if self.lengths.iter().all(|lengths| lengths.len() <= number) {
            return None;
        }
        let of = |stretch: usize| {
            let lengths = &self.lengths[stretch];
            lengths.get(number).or(lengths.last()).copied().unwrap_or(self.all[stretch])
        };
        Some(Cut { full: of(0), last: of(1) })
    }

    /// True if `steps` are few enough for all tries together, and at most `share` of all.
    pub(super) fn affordable(&self, steps: u64, share: f64) -> bool {
        steps as f64 <= share.min(PART) * self.total() as f64
    }
}

fn lengths(all: u64, steps: u64) -> Vec<u64> {
    let loops = all / steps;
    let most = (all as f64 * PART) as u64;
    let doubled = |first: u64, most: u64| {
        let lengths = std::iter::successors(Some(first), |length| Some(2 * length));
        lengths.take_while(move |length| *length <= most)
    };
    // what has not settled early in a loop takes a loop: slowness goes once around the ring
    let (within, first) = match loops {
        0 | 1 => (most.min(steps), 2),
        _ if steps >= LONG_LOOP => (most.min(SHORTEST), 2),
        // quarters are whole loops, too
        _ => (0, SHORTEST.div_ceil(steps).next_multiple_of(4)),
    };
    let whole = doubled(first, most / steps).map(|loops| loops * steps);
    doubled(SHORTEST, within).chain(whole).collect()
}

/// Steps of a cut.
pub(super) fn steps(cut: Cut) -> u64 {
    cut.full + cut.last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_within_a_loop_or_whole_loops() {
        // one loop over 128 ranks: 255 steps, of which 30 % may be simulated
        assert_eq!(lengths(255, 255), [64]);
        // sixteen such loops: early in the first one, then 2 and 4
        assert_eq!(lengths(4080, 255), [64, 510, 1020]);
        assert_eq!(lengths(510, 255), [64]);
        // 64 loops over 32 ranks, 63 steps each
        assert_eq!(lengths(4032, 63), [252, 504, 1008]);
        // two ranks: loops of 3 steps; 22 loops are 66 steps, and 24 four times a number
        assert_eq!(lengths(300, 3), [72]);
        assert_eq!(lengths(63, 63), [0u64; 0]);
        assert_eq!(lengths(0, 63), [0u64; 0]);
    }

    #[test]
    fn a_short_stretch_is_run_as_a_whole() {
        let lengths = Lengths { lengths: [lengths(4032, 63), lengths(63, 63)], all: [4032, 63] };
        assert_eq!(lengths.cut(0), Some(Cut { full: 252, last: 63 }));
        assert_eq!((lengths.cut(3), lengths.total()), (None, 4095));
        assert!(lengths.affordable(1228, 1.0) && !lengths.affordable(1229, 1.0));
        assert!(lengths.affordable(409, 0.1) && !lengths.affordable(410, 0.1));
    }
}
