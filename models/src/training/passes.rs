//! In which order a stage works on micro-batches, and where a pass is cut.

use super::config::Schedule;

/// The forward or backward pass of one micro-batch through a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// Towards the loss, or back.
    pub forward: bool,
    /// Number of the micro-batch.
    pub microbatch: u32,
}

/// The passes of stage `stage` of `stages`, in order.
///
/// 1F1B (Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021;
/// Megatron-LM, core/pipeline_parallel/schedules.py): `stages - stage - 1` forward passes, then a
/// forward and a backward one in turn, then the backward passes that are left. GPipe (Huang et al.,
/// NeurIPS 2019): all forward passes, then all backward ones.
pub(super) fn passes(schedule: Schedule, stage: u32, stages: u32, microbatches: u32) -> Vec<Pass> {
    let ahead = match schedule {
        Schedule::OneForwardOneBackward => (stages - stage - 1).min(microbatches),
        Schedule::Gpipe => microbatches,
    };
    let pass = |forward, microbatch| Pass { forward, microbatch };
    let mut passes: Vec<Pass> = (0..ahead).map(|number| pass(true, number)).collect();
    for number in ahead..microbatches {
        passes.push(pass(true, number));
        passes.push(pass(false, number - ahead));
    }
    passes.extend((microbatches - ahead..microbatches).map(|number| pass(false, number)));
    passes
}

/// The parts in which `gradients` bytes are reduced: one of `first`, then as many of `size` as
/// there are, then what is left.
pub(super) fn buckets(gradients: u64, first: u64, size: u64) -> Vec<u64> {
    let mut buckets = Vec::new();
    let mut left = gradients;
    while left > 0 {
        let bucket = left.min(if buckets.is_empty() { first } else { size });
        buckets.push(bucket);
        left -= bucket;
    }
    buckets
}

/// Something that begins within a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The gradients of this bucket are there.
    Bucket(usize),
    /// An operation among `tp` that the pass waits for.
    Tensor,
}

/// Where a pass of `span` picoseconds is cut, in order: the times count from its begin. `tensor`
/// operations follow equal parts of it; `buckets` are ready as their gradients are computed, evenly.
pub(super) fn cuts(span: u64, tensor: u64, buckets: &[u64]) -> Vec<(u64, Cut)> {
    let share = |part: u64, whole: u64| {
        (u128::from(span) * u128::from(part) / u128::from(whole.max(1))) as u64
    };
    let mut cuts: Vec<(u64, Cut)> =
        (1..=tensor).map(|number| (share(number, tensor), Cut::Tensor)).collect();
    let whole = buckets.iter().sum();
    let mut done = 0;
    for (number, bucket) in buckets.iter().enumerate() {
        done += bucket;
        cuts.push((share(done, whole), Cut::Bucket(number)));
    }
    // a bucket that is ready when an operation begins does not wait for that
    cuts.sort_by_key(|(time, cut)| (*time, *cut == Cut::Tensor));
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(schedule: Schedule, stage: u32, stages: u32, microbatches: u32) -> String {
        let passes = passes(schedule, stage, stages, microbatches);
        let word =
            |pass: &Pass| format!("{}{}", if pass.forward { "F" } else { "B" }, pass.microbatch);
        passes.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn stages_alternate_after_their_start() {
        use Schedule::{Gpipe, OneForwardOneBackward};
        let stage = |stage| written(OneForwardOneBackward, stage, 3, 4);
        assert_eq!(stage(0), "F0 F1 F2 B0 F3 B1 B2 B3");
        assert_eq!(stage(1), "F0 F1 B0 F2 B1 F3 B2 B3");
        assert_eq!(stage(2), "F0 B0 F1 B1 F2 B2 F3 B3");
        // fewer micro-batches than stages
        assert_eq!(written(OneForwardOneBackward, 0, 4, 2), "F0 F1 B0 B1");
        assert_eq!(written(Gpipe, 1, 3, 3), "F0 F1 F2 B0 B1 B2");
    }

    #[test]
    fn buckets_are_ready_evenly_through_a_pass() {
        assert_eq!(buckets(60, 1, 25), [1, 25, 25, 9]);
        assert_eq!(buckets(1, 4, 25), [1]);
        assert!(buckets(0, 1, 25).is_empty());
        // 600 ps; 1/60, 26/60, 51/60 and all of it; operations after each third
        let found = cuts(600, 3, &[1, 25, 25, 9]);
        use Cut::{Bucket, Tensor};
        let expected = [
            (10, Bucket(0)),
            (200, Tensor),
            (260, Bucket(1)),
            (400, Tensor),
            (510, Bucket(2)),
            (600, Bucket(3)),
            (600, Tensor),
        ];
        assert_eq!(found, expected);
    }
}
