//! Training jobs in the report.

use serde::{Deserialize, Serialize};
use sim_core::{Delta, Time};

use super::{FlowStatus, Name};
use crate::collective::Job;
use crate::fabric::{Outcome, Plan, Role};
use crate::nic::SenderRecord;
use crate::probe::Probe;
use crate::script::Record;
use crate::training::{CLASS_NAMES, Class, Schedule, TrainingPlan};

/// One training job. Times are means over its timed steps, and over its ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// Name of its traffic section.
    pub name: String,
    /// Hosts that take part.
    pub nodes: u32,
    /// GPUs that take part.
    pub ranks: u32,
    /// GPUs that share a layer.
    pub tp: u32,
    /// Stages of the pipeline.
    pub pp: u32,
    /// Copies of the model.
    pub dp: u32,
    /// Micro-batches of a step.
    pub microbatches: u32,
    /// In which order a stage works on them.
    pub schedule: Schedule,
    /// `completed`, `unfinished` or `qp_error`.
    pub status: FlowStatus,
    /// Timed steps that all ranks have done.
    pub steps: u32,
    /// Time of a step: from the end of the one before, where its last rank ended; mean, median and
    /// the longest. Absent if none is done.
    pub step_time_s: Option<f64>,
    /// Median.
    pub step_time_p50_s: Option<f64>,
    /// The longest.
    pub step_time_max_s: Option<f64>,
    /// Time that a rank computes in a step.
    pub compute_s: f64,
    /// Time in which a rank waits for others and computes nothing: exposed communication,
    pub exposed_s: f64,
    /// as a share of its time,
    pub exposed_share: f64,
    /// and what it waits for: operations among `tp`,
    pub tp_wait_s: f64,
    /// other stages (the bubble, and what they send),
    pub pp_wait_s: f64,
    /// gradients and parameters of other copies.
    pub dp_wait_s: f64,
    /// Time in which operations of data parallelism run, one after the other.
    pub dp_busy_s: f64,
    /// Its communicators, by what they are for.
    pub communicators: Vec<CommunicatorReport>,
    /// Ranks that compute for longer than others of their stage: at least 5 % on average; the worst
    /// first.
    pub stragglers: Vec<StragglerReport>,
    /// One per step that all ranks have done, warm-up included.
    pub series: Vec<StepReport>,
    /// One per rank.
    pub by_rank: Vec<RankReport>,
}

/// Communicators of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunicatorReport {
    /// `tp`, `pp` or `dp`.
    pub class: String,
    /// `all_reduce`
    pub op: String,
    /// How many there are.
    pub count: u32,
    /// Ranks of each.
    pub ranks: u32,
    /// Hosts of each, at most.
    pub nodes: u32,
    /// `Ring`; of the largest size.
    pub algorithm: String,
    /// Channels of each, at most.
    pub channels: u32,
    /// QPs of all of them.
    pub qps: u32,
    /// Sizes of its operations.
    pub sizes: Vec<u64>,
    /// Operations of each in a step.
    pub operations: u32,
    /// Bytes of all of them that went over NVLink in the run.
    pub nvlink_bytes: u64,
}

/// A rank that computes for longer than others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StragglerReport {
    /// Its number.
    pub rank: u32,
    /// Its host.
    pub host: Name,
    /// Its GPU.
    pub gpu: u32,
    /// Its compute time over the median of its stage, as a mean over the steps in which it was slow.
    pub factor: f64,
    /// Steps in which it computed at least 5 % longer than that.
    pub steps: u32,
    /// What it computed longer than the median in a step, as a mean over all steps.
    pub excess_s: f64,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Its number, from 0.
    pub step: u32,
    /// It is not of the warm-up.
    pub timed: bool,
    /// When its first rank began.
    pub begin_s: f64,
    /// When its last rank ended.
    pub end_s: f64,
    /// From the end of the step before.
    pub time_s: f64,
    /// Compute time, mean over ranks.
    pub compute_mean_s: f64,
    /// Of the rank that computed longest.
    pub compute_max_s: f64,
    /// Exposed communication, mean over ranks.
    pub exposed_mean_s: f64,
    /// Of the rank that waited longest.
    pub exposed_max_s: f64,
    /// Waiting for `tp`, mean over ranks.
    pub tp_wait_s: f64,
    /// For other stages.
    pub pp_wait_s: f64,
    /// For other copies.
    pub dp_wait_s: f64,
    /// The rank whose compute time is longest beside the median of its stage.
    pub slowest_rank: u32,
    /// Its host.
    pub slowest_host: Name,
    /// Its GPU.
    pub slowest_gpu: u32,
    /// Its compute time over that median.
    pub slowest_factor: f64,
}

/// One rank: means over the timed steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// Its number.
    pub rank: u32,
    /// Its host.
    pub host: Name,
    /// Its GPU.
    pub gpu: u32,
    /// Its place among the GPUs that share a layer,
    pub tp: u32,
    /// among the stages,
    pub pp: u32,
    /// and among the copies.
    pub dp: u32,
    /// Compute time of a step.
    pub compute_s: f64,
    /// Waiting for `tp`.
    pub tp_wait_s: f64,
    /// For other stages.
    pub pp_wait_s: f64,
    /// For other copies.
    pub dp_wait_s: f64,
}

/// A rank is slow from here on, beside the median of its stage.
const SLOW: f64 = 1.05;

/// One entry for each training job.
pub(super) fn reports<P: Probe>(outcome: &Outcome<P>, plan: &Plan) -> Vec<TrainingReport> {
    plan.wiring
        .trainings
        .iter()
        .map(|training| Made::new(outcome, plan, training).report())
        .collect()
}

/// What a report is made of.
struct Made<'a, P: Probe> {
    outcome: &'a Outcome<P>,
    plan: &'a Plan,
    training: &'a TrainingPlan,
    /// By rank and step: all steps that all ranks have done.
    records: Vec<&'a [Record]>,
    steps: usize,
    is_done: bool,
    /// By step and stage: the median of compute times, in seconds.
    medians: Vec<Vec<f64>>,
}

impl<'a, P: Probe> Made<'a, P> {
    fn new(outcome: &'a Outcome<P>, plan: &'a Plan, training: &'a TrainingPlan) -> Self {
        let players = outcome.players(training.workload);
        let records: Vec<&[Record]> = players.iter().map(|player| player.records()).collect();
        let steps = records.iter().map(|records| records.len()).min().unwrap_or(0);
        let is_done = players.iter().all(|player| player.is_done());
        let mut made =
            Made { outcome, plan, training, records, steps, is_done, medians: Vec::new() };
        made.medians = (0..steps).map(|step| made.medians_of(step)).collect();
        made
    }

    fn medians_of(&self, step: usize) -> Vec<f64> {
        let shape = self.training.shape;
        let mut stages = vec![Vec::new(); shape.pp as usize];
        for (rank, records) in (0..).zip(&self.records) {
            stages[shape.place(rank).pp as usize].push(records[step].compute.ps());
        }
        let median = |mut times: Vec<u64>| {
            times.sort_unstable();
            let half = times.len() / 2;
            let (low, high) = (times[(times.len() - 1) / 2], times[half]);
            (low as f64 + high as f64) / 2e12
        };
        stages.into_iter().map(median).collect()
    }

    /// Compute time of a rank over the median of its stage.
    fn factor(&self, rank: u32, step: usize) -> f64 {
        let median = self.medians[step][self.training.shape.place(rank).pp as usize];
        let own = self.records[rank as usize][step].compute.as_secs();
        if median > 0.0 { own / median } else { 1.0 }
    }

    fn host(&self, rank: u32) -> (Name, u32) {
        let workload = &self.plan.wiring.workloads[self.training.workload as usize];
        let place = workload.ranks[rank as usize];
        (self.plan.wiring.topology.node(place.host).name.as_str().into(), place.gpu)
    }

    fn report(&self) -> TrainingReport {
        let config = &self.training.config;
        let shape = self.training.shape;
        let series: Vec<StepReport> = (0..self.steps).map(|step| self.step(step)).collect();
        let timed: Vec<&StepReport> = series.iter().filter(|step| step.timed).collect();
        let mut times: Vec<f64> = timed.iter().map(|step| step.time_s).collect();
        times.sort_by(f64::total_cmp);
        let mean = |of: &dyn Fn(&StepReport) -> f64| {
            timed.iter().map(|step| of(step)).sum::<f64>() / timed.len().max(1) as f64
        };
        let (compute_s, exposed_s) =
            (mean(&|step| step.compute_mean_s), mean(&|step| step.exposed_mean_s));
        let has_steps = !times.is_empty();
        let median = || (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
        let by_rank: Vec<RankReport> = (0..shape.ranks()).map(|rank| self.rank(rank)).collect();
        let mut hosts: Vec<&Name> = by_rank.iter().map(|rank| &rank.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        TrainingReport {
            name: config.name.clone(),
            nodes: hosts.len() as u32,
            ranks: shape.ranks(),
            tp: shape.tp,
            pp: shape.pp,
            dp: shape.dp,
            microbatches: config.microbatches,
            schedule: config.schedule,
            status: self.status(),
            steps: timed.len() as u32,
            step_time_s: has_steps.then(|| mean(&|step| step.time_s)),
            step_time_p50_s: has_steps.then(median),
            step_time_max_s: times.last().copied(),
            compute_s,
            exposed_s,
            exposed_share: if exposed_s > 0.0 { exposed_s / (compute_s + exposed_s) } else { 0.0 },
            tp_wait_s: mean(&|step| step.tp_wait_s),
            pp_wait_s: mean(&|step| step.pp_wait_s),
            dp_wait_s: mean(&|step| step.dp_wait_s),
            dp_busy_s: self.mean(&|record| record.busy[Class::Data as usize]),
            communicators: self.communicators(),
            stragglers: self.stragglers(),
            series,
            by_rank,
        }
    }

    fn timed(&self) -> std::ops::Range<usize> {
        (self.training.config.warmup as usize).min(self.steps)..self.steps
    }

    /// Mean over ranks and timed steps.
    fn mean(&self, of: &dyn Fn(&Record) -> Delta) -> f64 {
        let records = self.records.iter().flat_map(|records| &records[self.timed()]);
        let (sum, count) = records
            .fold((0.0, 0u64), |(sum, count), record| (sum + of(record).as_secs(), count + 1));
        sum / count.max(1) as f64
    }

    fn step(&self, step: usize) -> StepReport {
        let config = &self.training.config;
        let records = || self.records.iter().map(|records| &records[step]);
        let mean = |of: &dyn Fn(&Record) -> Delta| {
            records().map(|record| of(record).as_secs()).sum::<f64>() / self.records.len() as f64
        };
        let max = |of: &dyn Fn(&Record) -> Delta| records().map(of).max().unwrap_or(Delta::ZERO);
        let end = |step: usize| self.records.iter().map(|records| records[step].end).max();
        let begin = records().map(|record| record.begin).min().unwrap_or(Time::ZERO);
        let before = match step.checked_sub(1) {
            Some(before) => end(before),
            None => Some(Time::ZERO + config.start),
        };
        let finish = end(step).unwrap_or(begin);
        let exposed =
            |record: &Record| record.waits.iter().fold(Delta::ZERO, |sum, wait| sum + *wait);
        let wait = |class: Class| mean(&|record| record.waits[class as usize]);
        let slowest = (0..self.records.len() as u32)
            .max_by(|a, b| self.factor(*a, step).total_cmp(&self.factor(*b, step)).then(b.cmp(a)))
            .unwrap_or(0);
        let (slowest_host, slowest_gpu) = self.host(slowest);
        StepReport {
            step: step as u32,
            timed: step >= config.warmup as usize,
            begin_s: begin.as_secs(),
            end_s: finish.as_secs(),
            time_s: finish.since(before.unwrap_or(begin)).as_secs(),
            compute_mean_s: mean(&|record| record.compute),
            compute_max_s: max(&|record| record.compute).as_secs(),
            exposed_mean_s: mean(&exposed),
            exposed_max_s: max(&exposed).as_secs(),
            tp_wait_s: wait(Class::Tensor),
            pp_wait_s: wait(Class::Pipeline),
            dp_wait_s: wait(Class::Data),
            slowest_rank: slowest,
            slowest_host,
            slowest_gpu,
            slowest_factor: self.factor(slowest, step),
        }
    }

    fn rank(&self, rank: u32) -> RankReport {
        let records = &self.records[rank as usize][self.timed()];
        let mean = |of: &dyn Fn(&Record) -> Delta| {
            let sum: f64 = records.iter().map(|record| of(record).as_secs()).sum();
            sum / records.len().max(1) as f64
        };
        let wait = |class: Class| mean(&|record| record.waits[class as usize]);
        let place = self.training.shape.place(rank);
        let (host, gpu) = self.host(rank);
        RankReport {
            rank,
            host,
            gpu,
            tp: place.tp,
            pp: place.pp,
            dp: place.dp,
            compute_s: mean(&|record| record.compute),
            tp_wait_s: wait(Class::Tensor),
            pp_wait_s: wait(Class::Pipeline),
            dp_wait_s: wait(Class::Data),
        }
    }

    fn stragglers(&self) -> Vec<StragglerReport> {
        let steps = self.timed().len().max(1) as f64;
        let straggler = |rank: u32| {
            let factors = self.timed().map(|step| (step, self.factor(rank, step)));
            let slow: Vec<(usize, f64)> = factors.filter(|(_, factor)| *factor >= SLOW).collect();
            let excess = slow.iter().map(|(step, factor)| {
                let own = self.records[rank as usize][*step].compute.as_secs();
                own - own / factor
            });
            let (host, gpu) = self.host(rank);
            let factor = slow.iter().map(|(_, factor)| factor).sum::<f64>() / slow.len() as f64;
            (!slow.is_empty()).then(|| StragglerReport {
                rank,
                host,
                gpu,
                factor,
                steps: slow.len() as u32,
                excess_s: excess.sum::<f64>() / steps,
            })
        };
        let mut found: Vec<StragglerReport> =
            (0..self.training.shape.ranks()).filter_map(straggler).collect();
        let median = |rank: &StragglerReport| {
            let stage = self.training.shape.place(rank.rank).pp as usize;
            let times = self.timed().map(|step| self.medians[step][stage]);
            times.sum::<f64>() / steps
        };
        found.retain(|rank| rank.excess_s >= (SLOW - 1.0) * median(rank));
        found.sort_by(|a, b| b.excess_s.total_cmp(&a.excess_s).then(a.rank.cmp(&b.rank)));
        found
    }

    /// Its jobs, with their numbers.
    fn jobs(&self) -> impl Iterator<Item = (u32, &'a Job)> + use<'a, P> {
        let workload = self.training.workload;
        let own = move |job: &Job| job.called.as_ref().is_some_and(|c| c.workload == workload);
        (0..).zip(&self.plan.wiring.jobs).filter(move |(_, job)| own(job))
    }

    fn status(&self) -> FlowStatus {
        let of_training = |role: Role| match role {
            Role::Data { job, .. } | Role::Cts { job, .. } => {
                let called = &self.plan.wiring.jobs[job as usize].called;
                called.as_ref().is_some_and(|called| called.workload == self.training.workload)
            }
            Role::Flow { .. } | Role::Line { .. } => false,
        };
        let senders = self.plan.wiring.qps.iter().zip(self.outcome.fabric.senders.records());
        let failed = |(_, sender): (_, &SenderRecord)| sender.failed.is_some();
        match (senders.filter(|(qp, _)| of_training(qp.role)).any(failed), self.is_done) {
            (true, _) => FlowStatus::QpError,
            (false, true) => FlowStatus::Completed,
            (false, false) => FlowStatus::Unfinished,
        }
    }

    fn communicators(&self) -> Vec<CommunicatorReport> {
        let workload = &self.plan.wiring.workloads[self.training.workload as usize];
        let repeats = self.training.config.warmup + self.training.config.steps;
        let mut qps = vec![0; self.plan.wiring.jobs.len()];
        for qp in &self.plan.wiring.qps {
            if let Role::Data { job, .. } = qp.role {
                qps[job as usize] += 1;
            }
        }
        let mut found: Vec<CommunicatorReport> = Vec::new();
        // of a communicator with several jobs the first has the largest size
        let mut last = None;
        for (number, job) in self.jobs() {
            let Some(called) = &job.called else { continue };
            let comm = &workload.comms[called.comm as usize];
            let class = CLASS_NAMES[usize::from(comm.class)];
            let is_new = last.replace(called.comm) != Some(called.comm);
            let known = found.iter().position(|row| row.class == class && row.op == comm.op.name());
            let row = known.unwrap_or_else(|| {
                found.push(CommunicatorReport {
                    class: class.to_owned(),
                    op: comm.op.name().to_owned(),
                    count: 0,
                    ranks: comm.ranks.len() as u32,
                    nodes: 0,
                    algorithm: job.pattern.name().to_owned(),
                    channels: 0,
                    qps: 0,
                    sizes: comm.sizes.clone(),
                    operations: 0,
                    nvlink_bytes: 0,
                });
                found.len() - 1
            });
            let is_first = known.is_none() || (found[row].count == 1 && !is_new);
            let row = &mut found[row];
            row.count += u32::from(is_new);
            row.nodes = row.nodes.max(job.nodes);
            row.channels = row.channels.max(job.channels);
            row.qps += qps[number as usize];
            if is_first {
                row.operations += called.times.iter().sum::<u32>() / repeats;
            }
            let executors = &self.outcome.fabric.executors;
            row.nvlink_bytes += job
                .hosts()
                .iter()
                .filter_map(|host| executors[host.index()].as_ref())
                .map(|executor| executor.nvlink_bytes(number))
                .sum::<u64>();
        }
        found
    }
}
