//! How much of a collective is tried: pairs of lengths, in steps, each twice as long as the other.

use models::collective::{Cut, Job};

/// The shortest length. Its quarters, and so all others, are whole turns of the four slots: a ring
/// that waits for its slots may take two steps in turn that are not alike.
const SHORTEST: u64 = 32;
/// All tries together simulate at most this part of the steps.
const PART: u64 = 2;
/// Within a loop of fewer steps no length is tried where there are several loops: what happens
/// between two loops would count for too much.
const LONG_LOOP: u64 = 200;

/// The lengths that may be tried for a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    /// By stretch of the program: pairs of a length and its double, growing; none if the stretch
    /// is always run as a whole.
    pairs: [Vec<[u64; 2]>; 2],
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
        Lengths { pairs: all.map(|all| pairs(all, steps)), all }
    }

    /// Steps in all.
    pub(super) fn total(&self) -> u64 {
        self.all.iter().sum()
    }

    /// The two lengths of try `number`; `None` if there is no further one.
    pub(super) fn pair(&self, number: usize) -> Option<[Cut; 2]> {
        if self.pairs.iter().all(|pairs| pairs.len() <= number) {
            return None;
        }
        let of = |stretch: usize| {
            let pairs = &self.pairs[stretch];
            pairs.get(number).or(pairs.last()).copied().unwrap_or([self.all[stretch]; 2])
        };
        let (full, last) = (of(0), of(1));
        Some([0, 1].map(|side| Cut { full: full[side], last: last[side] }))
    }

    /// True if `steps` are few enough for all tries together, and at most `share` of all.
    pub(super) fn affordable(&self, steps: u64, share: f64) -> bool {
        steps * PART <= self.total() && steps as f64 <= share * self.total() as f64
    }
}

fn pairs(all: u64, steps: u64) -> Vec<[u64; 2]> {
    let loops = all / steps;
    let doubled = |first: u64, most: u64| {
        let lengths = std::iter::successors(Some(first), |length| Some(2 * length));
        lengths.map(|length| [length, 2 * length]).take_while(move |[_, long]| *long <= most)
    };
    let most = all / PART;
    // a length that ends between two loops is no multiple of another one: it is within the first
    // loop, or whole loops. What has not settled early in a loop takes a loop: slowness goes once
    // around the ring
    let (within, first) = match loops {
        0 | 1 => (most.min(steps), 1),
        _ if steps >= LONG_LOOP => (most.min(4 * SHORTEST), 1),
        // quarters of the longer one are whole loops, too
        _ => (0, SHORTEST.div_ceil(steps).max(2).next_multiple_of(2)),
    };
    let whole = doubled(first, most / steps).map(|pair| pair.map(|loops| loops * steps));
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
        // one loop over 128 ranks: 255 steps, of which half may be simulated
        assert_eq!(pairs(255, 255), [[32, 64]]);
        // eight such loops: early in the first one, then 1 and 2, 2 and 4
        assert_eq!(pairs(2040, 255), [[32, 64], [64, 128], [255, 510], [510, 1020]]);
        // 64 loops over 32 ranks, 63 steps each
        assert_eq!(pairs(4032, 63), [[126, 252], [252, 504], [504, 1008], [1008, 2016]]);
        // two ranks: loops of 3 steps; 11 loops are 33 steps, and 12 an even number
        assert_eq!(pairs(150, 3), [[36, 72]]);
        assert_eq!(pairs(63, 63), [[0u64; 2]; 0]);
        assert_eq!(pairs(0, 63), [[0u64; 2]; 0]);
    }

    #[test]
    fn a_short_stretch_is_run_as_a_whole() {
        let lengths = Lengths { pairs: [pairs(4032, 63), pairs(63, 63)], all: [4032, 63] };
        let cuts = [126, 252].map(|full| Cut { full, last: 63 });
        assert_eq!(lengths.pair(0), Some(cuts));
        assert_eq!((lengths.pair(4), lengths.total()), (None, 4095));
        assert!(lengths.affordable(2047, 1.0) && !lengths.affordable(2048, 1.0));
        assert!(lengths.affordable(409, 0.1) && !lengths.affordable(410, 0.1));
    }
}
