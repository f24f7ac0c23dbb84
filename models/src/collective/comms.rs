//! The jobs of communicators, which scripts call: each operation at one of its sizes.

use std::sync::Arc;

use sim_core::{Bytes, Delta};

use super::config::{CollectiveAlgorithm, CollectiveConfig, MessageSizes, Op};
use super::job::{Job, Pattern};
use super::plan::{Collective, Setting, plan};
use super::program::Program;
use super::tuning::Algorithm;
use crate::error::BuildError;
use crate::script::{Comm, Work, Workload};

/// Where scripts of a workload find their operations: by communicator and size the job, and which
/// of the job's sizes it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(Vec<Vec<(u32, u32)>>);

impl Calls {
    /// The job of a communicator's size, and which of the job's own it is.
    pub fn job(&self, comm: u32, size: u32) -> (u32, u32) {
        self.0[comm as usize][size as usize]
    }
}

/// What makes a job one of a workload.
#[derive(Clone, Debug)]
pub struct Called {
    /// The workload.
    pub workload: u32,
    /// The communicator.
    pub comm: u32,
    /// How often each size is called in the whole run, the job's own first.
    pub times: Vec<u32>,
    /// The same communicator at further sizes. They have no connections of their own: they use the
    /// first ones of the job, lane by lane.
    pub others: Vec<Job>,
}

impl Job {
    /// The job at each of its sizes, and how often it is done so.
    pub fn at_sizes(&self) -> impl Iterator<Item = (&Job, u32)> {
        let (others, times) = match &self.called {
            Some(called) => (&called.others[..], called.times.clone()),
            None => (&[][..], vec![self.repeats()[0]]),
        };
        std::iter::once(self).chain(others).zip(times)
    }

    /// The program of the rank at `position` of a lane, at each size: none where the lane has
    /// nothing to do.
    pub fn programs(&self, lane: u32, position: u32) -> Vec<Option<Program>> {
        let program = |(job, _): (&Job, u32)| {
            let has = (lane as usize) < job.lanes.len();
            has.then(|| job.program(lane, position))
        };
        self.at_sizes().map(program).collect()
    }

    /// What a connection carries in the whole run: bytes and slices, as [`Job::load`].
    pub fn load_of_all(&self, connection: &super::Connection) -> (f64, f64) {
        let has =
            |job: &Job| connection.lanes.iter().all(|lane| (*lane as usize) < job.lanes.len());
        let sizes = self.at_sizes().filter(|(job, _)| has(job));
        sizes.fold((0.0, 0.0), |(bytes, slices), (job, times)| {
            let load = job.load(connection);
            let times = f64::from(times);
            (bytes + load.0 * times, slices + load.1 * times)
        })
    }

    /// True if this one can use the connections of `other`, whose lanes are more.
    fn fits_on(&self, other: &Job) -> bool {
        let same = |(a, b): (&super::Connection, &super::Connection)| {
            let of = |c: &super::Connection| (c.from, c.to, c.lanes, c.peers, c.positions);
            of(a) == of(b)
        };
        std::mem::discriminant(&self.pattern) == std::mem::discriminant(&other.pattern)
            && self.protocol() == other.protocol()
            && [self.buffers.slot, self.buffers.slots] == [other.buffers.slot, other.buffers.slots]
            && self.connections.len() <= other.connections.len()
            && self.connections.iter().zip(&other.connections).all(same)
            && self.lanes.len() <= other.lanes.len()
            && self.lanes.iter().zip(&other.lanes).all(|(a, b)| a == b)
            && (0..self.lanes.len() as u32).all(|lane| self.block(lane) == other.block(lane))
    }
}

/// Plans the communicators of a workload, whose jobs are added to `jobs`.
pub fn comms(
    workload: &Workload,
    number: u32,
    jobs: &mut Vec<Job>,
    setting: Setting<'_>,
) -> Result<Arc<Calls>, BuildError> {
    let times = times(workload);
    let mut calls = Vec::with_capacity(workload.comms.len());
    for (comm, times) in (0..).zip(times) {
        calls.push(plan_comm(workload, [number, comm], &times, jobs, setting)?);
    }
    Ok(Arc::new(Calls(calls)))
}

/// By communicator and size: how often its ranks call it.
fn times(workload: &Workload) -> Vec<Vec<u32>> {
    let comms = &workload.comms;
    let mut times: Vec<Vec<u32>> = comms.iter().map(|comm| vec![0; comm.sizes.len()]).collect();
    for (rank, script) in (0..).zip(&workload.scripts) {
        for work in script.works() {
            let Work::Collective { comm, size } = work else { continue };
            // all of its ranks do the same
            if comms[comm as usize].ranks[0] == rank {
                times[comm as usize][size as usize] += script.repeats;
            }
        }
    }
    times
}

fn plan_comm(
    workload: &Workload,
    [number, comm]: [u32; 2],
    times: &[u32],
    jobs: &mut Vec<Job>,
    setting: Setting<'_>,
) -> Result<Vec<(u32, u32)>, BuildError> {
    let asked = &workload.comms[comm as usize];
    let ranks: Vec<_> = asked.ranks.iter().map(|rank| workload.ranks[*rank as usize]).collect();
    let by = |algorithm, size: usize| {
        let bytes = asked.sizes[size];
        let config = config(workload, asked, algorithm, bytes);
        let config = Arc::new(config);
        let collective =
            Collective { config, bytes, section: workload.section, cut: None, algorithm: None };
        plan(&collective, &ranks, setting)
    };
    let at = |size: usize| {
        let job = by(asked.algorithm, size)?;
        if !matches!(job.pattern, Pattern::NvlsTree { .. }) {
            return Ok(job);
        }
        // an NVSwitch that adds up leaves ranks without lanes, which scripts would wait for: the
        // best of the others
        let mut others = job.choice.candidates.iter().map(|candidate| candidate.algorithm);
        let best = others.find(|other| matches!(other, Algorithm::Ring | Algorithm::Tree));
        let instead = match best {
            Some(Algorithm::Tree) => CollectiveAlgorithm::Tree,
            _ => CollectiveAlgorithm::Ring,
        };
        by(Some(instead), size)
    };
    // the largest has the most channels
    let mut order: Vec<usize> = (0..asked.sizes.len()).collect();
    order.sort_by_key(|size| std::cmp::Reverse(asked.sizes[*size]));
    let first = jobs.len();
    let mut calls = vec![(0, 0); order.len()];
    for size in order {
        let mut job = at(size)?;
        let host = jobs[first..].iter().position(|host| job.fits_on(host));
        calls[size] = match host {
            Some(host) => {
                let Some(called) = &mut jobs[first + host].called else { continue };
                job.connections.clear();
                called.times.push(times[size]);
                called.others.push(job);
                ((first + host) as u32, called.others.len() as u32)
            }
            None => {
                let times = vec![times[size]];
                job.called = Some(Called { workload: number, comm, times, others: Vec::new() });
                jobs.push(job);
                (jobs.len() as u32 - 1, 0)
            }
        };
    }
    for job in &mut jobs[first..] {
        // all repetitions, of all sizes
        let all = job.called.as_ref().map_or(0, |called| called.times.iter().sum());
        let config = Arc::make_mut(&mut job.config);
        config.iterations = all;
    }
    Ok(calls)
}

/// A communicator's operation as a traffic section would have it.
fn config(
    workload: &Workload,
    comm: &Comm,
    algorithm: Option<CollectiveAlgorithm>,
    bytes: u64,
) -> CollectiveConfig {
    let class = workload.classes.get(usize::from(comm.class)).copied().unwrap_or("");
    CollectiveConfig {
        name: match workload.name.as_str() {
            "" => class.to_owned(),
            name => format!("{name} {class}"),
        },
        op: comm.op,
        // others have but one
        algorithm: algorithm.filter(|_| comm.op == Op::AllReduce),
        root: 0,
        bytes: MessageSizes::One(Bytes::new(bytes)),
        dtype: comm.dtype,
        hosts: None,
        gpus: None,
        ranks: None,
        placement: None,
        // how often it is called is known once all sizes are
        iterations: 1,
        warmup: 0,
        start: Delta::ZERO,
    }
}
