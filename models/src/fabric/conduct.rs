//! When a run pauses for a look, and when it ends.

use std::collections::BTreeSet;

use sim_core::{Conductor, Delta, Limits, Step, Time};

use super::build::Plan;
use super::spec::{OnDeadlock, StopConfig};
use super::standstill::{Circle, Standstill};
use super::{Status, Tally};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Nothing is left to happen.
    Quiescent = 0,
    /// `stop.after` was reached.
    Planned = 1,
    /// `stop.limit` was reached.
    Limit = 2,
    /// Switches hold frames, and nothing but PFC moves.
    Deadlock = 3,
    /// `stop.after_last_flow` has passed.
    LastFlow = 4,
    /// The run's owner ended it.
    Owner = 5,
    /// Paused queues wait for each other for ever.
    Circle = 6,
}

impl StopReason {
    pub(super) fn from_code(code: u32) -> Self {
        use StopReason::{Circle, Deadlock, LastFlow, Limit, Owner, Planned, Quiescent};
        let all = [Quiescent, Planned, Limit, Deadlock, LastFlow, Owner, Circle];
        all.into_iter().find(|reason| *reason as u32 == code).unwrap_or(Owner)
    }
}

/// The conductor of a fabric's run. All its decisions depend on the status alone.
#[derive(Clone, Debug)]
pub struct Timeline {
    stop: StopConfig,
    /// Flows that will finish, and ranks of collectives and of workloads.
    flows: u64,
    /// There are flows that never will.
    endless: bool,
    /// Edges of the measured window that are still to come.
    edges: Vec<Time>,
    next_sample: Option<Time>,
    interval: Delta,
    /// Samples that memory allows.
    samples_left: usize,
    /// Samples that are kept by now, and how many there may not be.
    kept: u32,
    keep: Option<u32>,
    /// The next look for queues that stand still, and whether the answer to the last one is due.
    next_look: Time,
    looked: bool,
    /// Circles that were found, in the order of time, and those that the last look has seen.
    circles: Vec<Circle>,
    standing: Vec<Circle>,
}

/// Values (of ports and QPs) that all samples together may hold.
pub(crate) const SAMPLED_VALUES_MAX: usize = 20_000_000;

impl Timeline {
    /// The timeline of `plan`.
    pub fn new(plan: &Plan) -> Self {
        let mut edges = plan.wiring.measure.to_vec();
        edges.retain(|edge| *edge < Time::MAX);
        edges.sort_by_key(|edge| std::cmp::Reverse(*edge));
        Timeline {
            stop: plan.spec.stop,
            flows: plan.spec.flows.iter().filter(|flow| flow.bytes.is_some()).count() as u64
                + plan.wiring.finishing_ranks(),
            endless: plan.spec.flows.iter().any(|flow| flow.bytes.is_none()),
            edges,
            next_sample: plan.wiring.sample_interval.map(|_| Time::ZERO),
            interval: plan.wiring.sample_interval.unwrap_or(Delta::MAX),
            samples_left: plan.wiring.samples_max(),
            kept: 0,
            keep: plan.wiring.sample_keep,
            next_look: Time::ZERO.saturating_add(plan.spec.stop.stall),
            looked: false,
            circles: Vec::new(),
            standing: Vec::new(),
        }
    }

    /// When the run ends because all flows are acknowledged; a collective that has failed never
    /// ends, and nothing is waited for then.
    fn last_flow_end(&self, status: &Tally) -> Option<Time> {
        let after = self.stop.after_last_flow?;
        if status.collective_failed_at < Time::MAX {
            return Some(status.collective_failed_at.saturating_add(after));
        }
        (status.finished >= self.flows && self.flows > 0)
            .then(|| status.last_finish.saturating_add(after))
    }

    /// The simulated time of a run that ended so.
    pub fn end_of(&self, reason: StopReason, status: &Tally) -> Time {
        let at = |span: Option<Delta>| span.map_or(Time::MAX, |span| Time::ZERO + span);
        match reason {
            StopReason::Planned => at(self.stop.after),
            StopReason::Limit => at(self.stop.limit),
            StopReason::Deadlock => status.last_progress.saturating_add(self.stop.stall),
            StopReason::Circle => self.circles.last().map_or(Time::MAX, |circle| circle.found),
            StopReason::LastFlow => self.last_flow_end(status).unwrap_or(status.last_activity),
            StopReason::Quiescent | StopReason::Owner => status.last_activity,
        }
    }

    /// Circles of queues that stood still, in the order in which they were found.
    pub fn circles(&self) -> &[Circle] {
        &self.circles
    }

    /// What was seen at the last look; true if the run is to end.
    fn judge(&mut self, status: &Status, now: Time) -> bool {
        let seen = status.standstill.as_ref().map_or(Vec::new(), |still| still.circles(now));
        // one that grows is the same
        let stood: BTreeSet<u32> =
            self.standing.iter().flat_map(|circle| &circle.members).copied().collect();
        let is_new = |circle: &&Circle| !circle.members.iter().any(|slot| stood.contains(slot));
        self.circles.extend(seen.iter().filter(is_new).cloned());
        self.standing = seen;
        self.stop.deadlock == OnDeadlock::End && !self.standing.is_empty()
    }

    /// Whether shards should look now which queues stand still; sets the time of the next look.
    fn looks(&mut self, status: &Tally, limits: Limits) -> bool {
        if self.next_look > limits.now {
            return false;
        }
        // nothing is held before something happens
        let idle = limits.next_event.filter(|_| status.held == 0).unwrap_or(limits.now);
        let stall = self.stop.stall.ps();
        let next = (limits.now.max(idle).ps() / stall).saturating_add(1).saturating_mul(stall);
        self.next_look = Time::from_ps(next);
        status.held > 0
    }

    /// When the next sample is due; fabrics leave out the same ones (`Fabric::observe`).
    fn after_sample(&mut self, sample: Time) -> Option<Time> {
        self.samples_left = self.samples_left.saturating_sub(1);
        self.kept += 1;
        if self.keep.is_some_and(|keep| self.kept >= keep) {
            self.samples_left += self.kept as usize / 2;
            self.kept = self.kept.div_ceil(2);
            self.interval = Delta::from_ps(self.interval.ps().saturating_mul(2));
        }
        let every = self.interval.ps();
        let next = (sample.ps() / every).saturating_add(1).saturating_mul(every);
        (self.samples_left > 0).then_some(Time::from_ps(next))
    }

    /// The next look at the fabric.
    fn next_global(&self) -> Time {
        let edge = self.edges.last().copied().unwrap_or(Time::MAX);
        edge.min(self.next_sample.unwrap_or(Time::MAX))
    }
}

impl Conductor<Status> for Timeline {
    fn merge(&self, a: Status, b: Status) -> Status {
        let standstill = Standstill::joined(a.standstill, b.standstill);
        Status { tally: a.tally.merged(b.tally), standstill }
    }

    fn step(&mut self, all: &Status, limits: Limits) -> Step {
        let (now, status) = (limits.now, &all.tally);
        let stop = |reason: StopReason| Step::Stop(reason as u32);
        if std::mem::take(&mut self.looked) && self.judge(all, now) {
            return stop(StopReason::Circle);
        }
        let global = self.next_global();
        if global <= now {
            while self.edges.last().is_some_and(|edge| *edge <= now) {
                self.edges.pop();
            }
            if let Some(sample) = self.next_sample.filter(|sample| *sample <= now) {
                self.next_sample = self.after_sample(sample);
            }
            self.looked = self.looks(status, limits);
            return Step::Global(global);
        }
        if self.looks(status, limits) {
            self.looked = true;
            return Step::Global(now);
        }
        let mut end = global.min(self.next_look);
        let one = Delta::from_ps(1);
        if let Some(last) = self.last_flow_end(status) {
            if now > last {
                return stop(StopReason::LastFlow);
            }
            end = end.min(last.saturating_add(one));
        }
        // what is still in the agenda then has no effect: timers of what is done
        let done = !self.endless && status.finished >= self.flows && status.live == 0;
        let Some(next_event) = limits.next_event.filter(|_| !done) else {
            return stop(StopReason::Quiescent);
        };
        for (span, reason) in
            [(self.stop.after, StopReason::Planned), (self.stop.limit, StopReason::Limit)]
        {
            let Some(at) = span.map(|span| Time::ZERO + span) else { continue };
            if now >= at {
                return stop(reason);
            }
            end = end.min(at);
        }
        let stall = status.last_progress.saturating_add(self.stop.stall);
        if self.stop.deadlock == OnDeadlock::End {
            if now >= stall && status.held > 0 {
                return stop(StopReason::Deadlock);
            }
            // nothing can be stuck before something moves again
            let idle = next_event.max(now).saturating_add(self.stop.stall);
            end = end.min(if status.held > 0 { stall } else { idle });
        }
        let span = self.stop.after_last_flow.unwrap_or(Delta::MAX);
        Step::Run { end, span: if span.is_zero() { one } else { span } }
    }
}
