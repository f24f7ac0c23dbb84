//! PSNs as they pass: what is missing, what comes again.

/// Half of the PSNs: what is farther ahead is behind.
const HALF: u64 = 1 << 23;

/// Ranges of missing PSNs that are remembered of one QP; a PSN of an older one counts as a repeat.
const RANGES_MAX: usize = 64;

/// The PSNs of one QP in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Unwrapped; none before the first.
    expected: Option<u64>,
    /// What comes next need not be the expected one: a READ takes as many as it has responses.
    jumps: bool,
    /// Not seen yet, in order; ends are exclusive.
    missing: Vec<(u64, u64)>,
    /// Times that a PSN was ahead of the expected one,
    pub(super) gaps: u64,
    /// and PSNs that were left out by that.
    pub(super) skipped: u64,
    /// Packets that fill a gap: sent again, or overtaken.
    pub(super) late: u64,
    /// Packets that were seen before.
    pub(super) repeats: u64,
}

impl Sequence {
    /// A packet passes; `jumps` if the next one need not have the next PSN.
    pub(super) fn on(&mut self, psn: u32, may_be_ahead: bool, jumps: bool) {
        let Some(expected) = self.expected else {
            // far from zero, so that what is behind has a number too
            self.expected = Some((1 << 32) + u64::from(psn) + 1);
            self.jumps = jumps;
            return;
        };
        let ahead = u64::from(psn).wrapping_sub(expected) & 0xff_ffff;
        if ahead < HALF {
            if ahead > 0 && !may_be_ahead && !self.jumps {
                self.gaps += 1;
                self.skipped += ahead;
                if self.missing.len() == RANGES_MAX {
                    self.missing.remove(0);
                }
                self.missing.push((expected, expected + ahead));
            }
            self.expected = Some(expected + ahead + 1);
            self.jumps = jumps;
        } else if self.take(expected - ((1 << 24) - ahead)) {
            self.late += 1;
        } else {
            self.repeats += 1;
        }
    }

    /// Takes a PSN out of those that are missing, if it is one.
    fn take(&mut self, psn: u64) -> bool {
        let Some(at) = self.missing.iter().position(|(from, to)| (*from..*to).contains(&psn))
        else {
            return false;
        };
        let (from, to) = self.missing.remove(at);
        for part in [(psn + 1, to), (from, psn)] {
            if part.0 < part.1 && self.missing.len() < RANGES_MAX {
                self.missing.insert(at, part);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(psns: &[u32]) -> [u64; 4] {
        let mut sequence = Sequence::default();
        psns.iter().for_each(|psn| sequence.on(*psn, false, false));
        [sequence.gaps, sequence.skipped, sequence.late, sequence.repeats]
    }

    #[test]
    fn go_back_n_seen_before_and_after_the_loss() {
        // 3 is lost; the receiver asks for it, and all from it on comes again
        assert_eq!(counts(&[1, 2, 3, 4, 5, 3, 4, 5, 6]), [0, 0, 0, 3]);
        assert_eq!(counts(&[1, 2, 4, 5, 3, 4, 5, 6]), [1, 1, 1, 2]);
    }

    #[test]
    fn gaps_have_a_width_and_are_filled_in_any_order() {
        assert_eq!(counts(&[10, 15, 12, 11, 13, 14, 12, 16]), [1, 4, 4, 1]);
    }

    #[test]
    fn psns_wrap() {
        assert_eq!(counts(&[0xff_fffe, 0xff_ffff, 0, 1]), [0, 0, 0, 0]);
        assert_eq!(counts(&[0xff_fffe, 1, 0xff_ffff, 0, 2]), [1, 2, 2, 0]);
        // the first one may be repeated, and what was before it
        assert_eq!(counts(&[0, 0, 0xff_ffff, 1]), [0, 0, 0, 2]);
    }

    #[test]
    fn after_a_read_any_psn_may_come() {
        let mut sequence = Sequence::default();
        sequence.on(5, false, true);
        sequence.on(9, false, false);
        sequence.on(11, false, false);
        assert_eq!((sequence.gaps, sequence.skipped), (1, 1));
    }

    #[test]
    fn memory_is_bounded() {
        let mut sequence = Sequence::default();
        (0..10_000).for_each(|psn| sequence.on(2 * psn, false, false));
        assert_eq!((sequence.gaps, sequence.missing.len()), (9_999, RANGES_MAX));
    }
}
