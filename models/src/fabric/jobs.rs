//! The jobs of a fabric: those of collectives, and those that the scripts of workloads call.

use std::sync::Arc;

use super::spec::Spec;
use crate::collective::{Calls, Job, Rank, Setting, comms, jobs};
use crate::error::BuildError;
use crate::placement::{Request, Seating};
use crate::script::Workload;
use crate::training::{self, TrainingPlan};

/// Jobs and workloads.
#[derive(Debug)]
pub(super) struct Planned {
    /// One for each collective, then those of workloads.
    pub jobs: Vec<Job>,
    /// Ranks that follow scripts.
    pub workloads: Vec<Workload>,
    /// By workload: where its scripts find their operations.
    pub calls: Vec<Arc<Calls>>,
    /// Workloads that are training jobs.
    pub trainings: Vec<TrainingPlan>,
    /// Workloads that are GOAL schedules.
    pub schedules: Vec<u32>,
}

/// Plans all jobs of `spec`.
pub(super) fn planned(spec: &Spec) -> Result<Planned, BuildError> {
    let (mut workloads, mut trainings) = (Vec::new(), Vec::new());
    let mut schedules = Vec::new();
    if spec.collectives.is_empty() && spec.trainings.is_empty() && spec.schedules.is_empty() {
        return Ok(Planned {
            jobs: Vec::new(),
            workloads,
            calls: Vec::new(),
            trainings,
            schedules,
        });
    }
    spec.nccl.check()?;
    let [seats, of_trainings, of_schedules] = seats(spec)?;
    let setting = Setting { topology: &spec.topology, hosts: &spec.hosts, nccl: &spec.nccl };
    let mut jobs = jobs(&spec.collectives, &seats, setting)?;
    for (training, ranks) in spec.trainings.iter().zip(of_trainings) {
        let number = workloads.len() as u32;
        let (plan, workload) = training::plan(training, ranks, &spec.topology, spec.seed, number)?;
        trainings.push(plan);
        workloads.push(workload);
    }
    for (scheduled, ranks) in spec.schedules.iter().zip(of_schedules) {
        schedules.push(workloads.len() as u32);
        workloads.push(scheduled.workload(ranks)?);
    }
    let mut calls = Vec::new();
    for (number, workload) in (0..).zip(&workloads) {
        calls.push(comms(workload, number, &mut jobs, setting)?);
    }
    Ok(Planned { jobs, workloads, calls, trainings, schedules })
}

/// The GPUs of all collectives, all training jobs and all schedules: sections get them in their
/// order.
fn seats(spec: &Spec) -> Result<[Vec<Vec<Rank>>; 3], BuildError> {
    let collectives = spec.collectives.iter().map(|collective| {
        let config = &collective.config;
        Request {
            section: collective.section,
            hosts: config.hosts.as_ref(),
            gpus: config.gpus,
            ranks: config.ranks.as_ref(),
            placement: config.placement.as_ref(),
        }
    });
    let trainings = spec.trainings.iter().map(|training| {
        let config = &training.config;
        Request {
            section: training.section,
            hosts: config.hosts.as_ref(),
            gpus: config.gpus,
            ranks: config.ranks.as_ref(),
            placement: config.placement.as_ref(),
        }
    });
    let schedules = spec.schedules.iter().map(|scheduled| {
        let config = &scheduled.config;
        Request {
            section: scheduled.section,
            hosts: config.hosts.as_ref(),
            gpus: config.gpus,
            ranks: config.ranks.as_ref(),
            placement: config.placement.as_ref(),
        }
    });
    let requests: Vec<Request<'_>> = collectives.chain(trainings).chain(schedules).collect();
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|request| requests[*request].section);
    let mut seating = Seating::new(&spec.topology, &spec.hosts, spec.seed);
    let mut seats = vec![Vec::new(); requests.len()];
    for request in order {
        seats[request] = seating.seat(requests[request])?;
    }
    let mut of_trainings = seats.split_off(spec.collectives.len());
    let of_schedules = of_trainings.split_off(spec.trainings.len());
    Ok([seats, of_trainings, of_schedules])
}
