//! What lanes note of single steps and messages, where that is asked for.

use sim_core::Time;

use super::{Executor, LaneInfo, Output};

/// What is noted of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Ranks of collectives that note their steps,
    pub ranks: u32,
    /// of so many that were asked for.
    pub of_ranks: u32,
    /// Steps that all of these have,
    pub steps: u64,
    /// and those that are noted at most.
    pub most: u64,
}

/// One step of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSpan {
    /// The repetition, from 0,
    pub repetition: u32,
    /// and the step in it, from 0.
    pub step: u64,
    /// When its first slice was taken.
    pub begin: Time,
    /// When its last slice had been handled; [`Time::MAX`] if it was not.
    pub end: Time,
}

/// A message that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The QP.
    pub qp: u32,
    /// When.
    pub at: Time,
    /// Its payload.
    pub bytes: u64,
}

/// What a lane has noted, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneNotes {
    /// Steps that may still be noted, and messages on each side.
    left: [u32; 3],
    /// Steps.
    pub steps: Vec<StepSpan>,
    /// Messages that it sent.
    pub posted: Vec<Posted>,
    /// QPs by which messages came, and when.
    pub came: Vec<(u32, Time)>,
}

impl LaneNotes {
    /// Takes one off; false if none is left.
    fn room(&mut self, of: usize) -> bool {
        let left = &mut self.left[of];
        let room = *left > 0;
        *left = left.saturating_sub(1);
        room
    }

    pub(super) fn step_begins(&mut self, now: Time, repetition: u32, step: u64) {
        if self.room(0) {
            self.steps.push(StepSpan { repetition, step, begin: now, end: Time::MAX });
        }
    }

    pub(super) fn step_ends(&mut self, now: Time, step: u64) {
        // a later step of the same number, which was not noted, leaves it alone
        if let Some(span) = self.steps.last_mut().filter(|span| span.step == step) {
            span.end = span.end.min(now);
        }
    }

    pub(super) fn posts(&mut self, now: Time, out: &[Output]) {
        for output in out {
            if let Output::Post { qp, bytes } = *output
                && self.room(1)
            {
                self.posted.push(Posted { qp, at: now, bytes });
            }
        }
    }

    pub(super) fn came(&mut self, now: Time, qp: u32) {
        if self.room(2) {
            self.came.push((qp, now));
        }
    }
}

impl Executor {
    /// Makes the lanes of a rank note their first `steps` steps each, and so many messages.
    pub fn take_notes(&mut self, job: u32, rank: u32, steps: u32, messages: u32) {
        for lane in &mut self.lanes {
            if lane.info.job == job && lane.info.rank == rank {
                let left = [steps, messages, messages];
                lane.notes = Some(Box::new(LaneNotes { left, ..LaneNotes::default() }));
            }
        }
    }

    /// The lanes of a job here that took notes.
    pub fn notes(&self, job: u32) -> impl Iterator<Item = (&LaneInfo, &LaneNotes)> {
        let lanes = self.lanes.iter().filter(move |lane| lane.info.job == job);
        lanes.filter_map(|lane| Some((&lane.info, lane.notes.as_deref()?)))
    }
}
