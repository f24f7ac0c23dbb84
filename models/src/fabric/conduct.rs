//! When a run pauses for a look, and when it ends.

use sim_core::{Conductor, Delta, Limits, Step, Time};

use super::Tally;
use super::build::Plan;
use super::spec::StopConfig;

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
}

impl StopReason {
    pub(super) fn from_code(code: u32) -> Self {
        use StopReason::{Deadlock, LastFlow, Limit, Owner, Planned, Quiescent};
        let all = [Quiescent, Planned, Limit, Deadlock, LastFlow, Owner];
        all.into_iter().find(|reason| *reason as u32 == code).unwrap_or(Owner)
    }
}

/// The conductor of a fabric's run. All its decisions depend on the status alone.
#[derive(Clone, Debug)]
pub struct Timeline {
    stop: StopConfig,
    /// Flows that will finish, and ranks of collectives.
    flows: u64,
    /// There are flows that never will.
    endless: bool,
    /// Edges of the measured window that are still to come.
    edges: Vec<Time>,
    next_sample: Option<Time>,
    interval: Delta,
    /// Samples that memory allows.
    samples_left: usize,
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
                + plan.wiring.jobs.iter().map(|job| job.ranks.len() as u64).sum::<u64>(),
            endless: plan.spec.flows.iter().any(|flow| flow.bytes.is_none()),
            edges,
            next_sample: plan.wiring.sample_interval.map(|_| Time::ZERO),
            interval: plan.wiring.sample_interval.unwrap_or(Delta::MAX),
            samples_left: plan.wiring.samples_max(),
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
            StopReason::LastFlow => self.last_flow_end(status).unwrap_or(status.last_activity),
            StopReason::Quiescent | StopReason::Owner => status.last_activity,
        }
    }

    /// The next look at the fabric.
    fn next_global(&self) -> Time {
        let edge = self.edges.last().copied().unwrap_or(Time::MAX);
        edge.min(self.next_sample.unwrap_or(Time::MAX))
    }
}

impl Conductor<Tally> for Timeline {
    fn merge(&self, a: Tally, b: Tally) -> Tally {
        a.merged(b)
    }

    fn step(&mut self, status: &Tally, limits: Limits) -> Step {
        let now = limits.now;
        let stop = |reason: StopReason| Step::Stop(reason as u32);
        let global = self.next_global();
        if global <= now {
            while self.edges.last().is_some_and(|edge| *edge <= now) {
                self.edges.pop();
            }
            if let Some(sample) = self.next_sample.filter(|sample| *sample <= now) {
                self.samples_left = self.samples_left.saturating_sub(1);
                let next = sample.saturating_add(self.interval);
                self.next_sample = (self.samples_left > 0).then_some(next);
            }
            return Step::Global(global);
        }
        let mut end = global;
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
        if now >= stall && status.held > 0 {
            return stop(StopReason::Deadlock);
        }
        // nothing can be stuck before something moves again
        let idle = next_event.max(now).saturating_add(self.stop.stall);
        end = end.min(if status.held > 0 { stall } else { idle });
        let span = self.stop.after_last_flow.unwrap_or(Delta::MAX);
        Step::Run { end, span: if span.is_zero() { one } else { span } }
    }
}

impl Tally {
    /// Counts what has finished at `now`.
    pub(super) fn count_finished(&mut self, now: Time, count: u64) {
        self.finished += count;
        self.last_finish = now;
    }

    /// The tally of two parts.
    pub fn merged(self, other: Tally) -> Tally {
        Tally {
            packet_hops: self.packet_hops + other.packet_hops,
            injected: self.injected + other.injected,
            injected_bytes: self.injected_bytes + other.injected_bytes,
            arrived: self.arrived + other.arrived,
            arrived_bytes: self.arrived_bytes + other.arrived_bytes,
            dropped: self.dropped + other.dropped,
            dropped_bytes: self.dropped_bytes + other.dropped_bytes,
            held: self.held + other.held,
            finished: self.finished + other.finished,
            last_finish: self.last_finish.max(other.last_finish),
            last_progress: self.last_progress.max(other.last_progress),
            last_activity: self.last_activity.max(other.last_activity),
            delivered_bytes: self.delivered_bytes + other.delivered_bytes,
            failed: self.failed + other.failed,
            collective_failed_at: self.collective_failed_at.min(other.collective_failed_at),
            live: self.live + other.live,
        }
    }
}
