//! Runs a loaded scenario.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use models::collective::Link;
use models::fabric::{self, Outcome, Owner, Plan, QpInfo, Role, Running, Shards};
use models::report::{self, AssumedFigure, OutcomeKind, Pauses, Report, Series, Severity, Steps};
use rayon::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use sim_core::Fingerprint;

use crate::capture::{Captures, Written};
use crate::diagnose;
use crate::quick;
use crate::resolve::{Complaint, Loaded};
use crate::sensitivity::sensitive;

/// The commit that the program was built from, as reports have it.
pub const COMMIT: &str = env!("ROCESIM_COMMIT");

/// A run that has ended.
#[derive(Debug)]
pub struct Run {
    /// What was run.
    pub plan: Plan,
    /// The components at the end.
    pub outcome: Outcome,
    /// The report with its diagnosis.
    pub report: Report,
    /// Who paused whom.
    pub pauses: Pauses,
}

/// What a run will cost, roughly.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Frames that will leave a port.
    pub packet_hops: f64,
    /// Payload that will be delivered.
    pub payload_bytes: f64,
}

/// How the owner of a run wants it to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    GoOn,
    /// The user stopped it.
    Interrupt,
    /// It took too long.
    TimeLimit,
}

/// A scenario that has run, with all sizes of its sweep.
#[derive(Debug)]
pub struct Finished {
    /// What was run; of a sweep, the last size.
    pub plan: Plan,
    /// The report: of a sweep, that of the last size, with the collectives and the findings of all.
    pub report: Report,
    /// Samples of the last size.
    pub series: Series,
    /// Its pauses.
    pub pauses: Pauses,
    /// What its lanes noted, if that was asked for (`Plan::note_steps`).
    pub steps: Steps,
    /// By size that was to be run quickly and was not: why.
    pub notes: Vec<String>,
    /// Files of frames of the last size.
    pub captures: Vec<Written>,
}

/// How scenarios are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Remedies are tried.
    pub remedies: bool,
    /// Of long collectives only a part is simulated.
    pub quick: bool,
}

/// Checks and plans `loaded` for `threads` shards; of a sweep, the first size.
pub fn plan(loaded: &Loaded, threads: usize) -> Result<Plan, Complaint> {
    fabric::plan(loaded.spec.clone(), Shards::AtMost(threads))
        .map_err(|error| loaded.complaint(error))
}

/// Checks and plans all sizes of a sweep. One run gets all threads as shards; the runs of a sweep
/// get one each.
pub fn plans(loaded: &Loaded, threads: usize) -> Result<Vec<Plan>, Complaint> {
    let runs = loaded.sweep.runs();
    let shards = if runs == 1 { threads } else { 1 };
    let plan = |run| fabric::plan(loaded.spec_of(run), Shards::AtMost(shards));
    (0..runs).map(|run| plan(run).map_err(|error| loaded.complaint(error))).collect()
}

/// Runs all `plans` of `loaded`, `threads` at a time; `owner` is asked now and then whether to go
/// on, and sees the payload that all runs have delivered.
pub fn run_all(
    loaded: &Loaded,
    plans: Vec<Plan>,
    threads: usize,
    how: How,
    owner: &(dyn Fn(&Running) -> Verdict + Sync),
) -> Result<Finished, Complaint> {
    run_captured(loaded, plans, threads, how, &Captures::default(), owner)
}

/// The same, and writes frames of the last one to files.
pub fn run_captured(
    loaded: &Loaded,
    plans: Vec<Plan>,
    threads: usize,
    how: How,
    captures: &Captures,
    owner: &(dyn Fn(&Running) -> Verdict + Sync),
) -> Result<Finished, Complaint> {
    let begin = Instant::now();
    let last = plans.len() - 1;
    let delivered: Vec<AtomicU64> = plans.iter().map(|_| AtomicU64::new(0)).collect();
    let one = |(index, plan): (usize, Plan)| {
        let watch = |running: &Running| {
            delivered[index].store(running.tally.delivered_bytes, Ordering::Relaxed);
            let mut all = *running;
            all.tally.delivered_bytes =
                delivered.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
            owner(&all)
        };
        let mut written = Vec::new();
        let (run, note) = match how.quick {
            true => quick::run(loaded, plan, watch)?,
            false if index == last && !captures.requests.is_empty() => {
                let captured = captured(loaded, plan, captures, watch)?;
                written = captured.1;
                (captured.0, None)
            }
            false => (run(loaded, plan, watch)?, None),
        };
        delivered[index].store(run.outcome.fabric.delivered_bytes(), Ordering::Relaxed);
        let series = report::series(&run.outcome, &run.plan);
        let notes = note.into_iter().collect();
        let steps = report::steps(&run.outcome, &run.plan);
        let (plan, report, pauses) = (run.plan, run.report, run.pauses);
        Ok(Finished { plan, report, series, pauses, steps, notes, captures: written })
    };
    let runs = plans.len();
    let numbered = plans.into_iter().enumerate();
    let finished: Result<Vec<Finished>, Complaint> = if runs == 1 || threads == 1 {
        numbered.map(one).collect()
    } else {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Complaint(format!("error: {error}")))?;
        // the largest first, so that none is left alone at the end
        let mut finished: Vec<(usize, Result<Finished, Complaint>)> = pool.install(|| {
            let last_first: Vec<(usize, Plan)> = numbered.rev().collect();
            let runs = last_first.into_par_iter().with_max_len(1);
            runs.map(|(index, plan)| (index, one((index, plan)))).collect()
        });
        finished.sort_by_key(|(index, _)| *index);
        finished.into_iter().map(|(_, run)| run).collect()
    };
    let runs = finished?;
    let hops: Vec<f64> = runs.iter().map(|run| run.report.performance.packet_hops as f64).collect();
    let mut finished = combine(runs, begin.elapsed().as_secs_f64(), threads);
    let trying = |running: &Running| {
        // all of the run itself is done
        let mut running = *running;
        running.tally.delivered_bytes = u64::MAX;
        owner(&running)
    };
    if how.remedies {
        diagnose::try_remedies(loaded, &mut finished, &hops, &trying)?;
    }
    let figures = loaded.figures();
    let assumed = sensitive(&figures, &finished.report).into_iter().map(|found| AssumedFigure {
        key: found.figure.key.clone(),
        value: found.figure.value.clone(),
        because: found.because.to_owned(),
    });
    finished.report.assumed = assumed.collect();
    Ok(finished)
}

/// The last run, with what the others have to say.
fn combine(mut runs: Vec<Finished>, wall_time_s: f64, threads: usize) -> Finished {
    let Some(mut last) = runs.pop() else { unreachable!("there is a run") };
    if runs.is_empty() {
        return last;
    }
    let report = &mut last.report;
    let mut collectives = Vec::new();
    let mut print = Fingerprint::default();
    let mut notes = Vec::new();
    for run in &mut runs {
        notes.append(&mut run.notes);
        let other = &run.report;
        collectives.extend_from_slice(&other.collectives);
        other.fingerprint.bytes().for_each(|byte| print.add(byte.into()));
        if report.outcome == OutcomeKind::Completed {
            report.outcome = other.outcome;
        }
        for finding in &other.findings {
            let known = report.findings.iter().any(|known| known.kind == finding.kind);
            if !known && finding.severity > Severity::Info {
                report.findings.push(finding.clone());
            }
        }
        report.performance.add(&other.performance);
    }
    report.fingerprint.bytes().for_each(|byte| print.add(byte.into()));
    report.fingerprint = print.hex();
    collectives.append(&mut report.collectives);
    report.collectives = collectives;
    // side by side
    (report.performance.wall_time_s, report.performance.threads) = (wall_time_s, threads);
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    notes.append(&mut last.notes);
    last.notes = notes;
    last
}

/// Runs `plan`; `owner` is asked now and then whether to go on.
pub fn run(
    loaded: &Loaded,
    plan: Plan,
    owner: impl FnMut(&Running) -> Verdict + Send,
) -> Result<Run, Complaint> {
    let mut run = run_bare(loaded, plan, owner)?;
    run.report.findings = diagnose::findings(&run.report, &run.plan, &run.outcome, &run.pauses);
    Ok(run)
}

/// The same, and writes frames to files.
fn captured(
    loaded: &Loaded,
    plan: Plan,
    captures: &Captures,
    owner: impl FnMut(&Running) -> Verdict + Send,
) -> Result<(Run, Vec<Written>), Complaint> {
    let mut written = Vec::new();
    let mut run = run_by(loaded, plan, owner, |plan, owner| {
        let (outcome, files) = captures.run(plan, owner)?;
        written = files;
        outcome.map_err(|error| loaded.complaint(error))
    })?;
    run.report.findings = diagnose::findings(&run.report, &run.plan, &run.outcome, &run.pauses);
    Ok((run, written))
}

/// Runs `plan` and finds nothing out about it.
pub(crate) fn run_bare(
    loaded: &Loaded,
    plan: Plan,
    owner: impl FnMut(&Running) -> Verdict + Send,
) -> Result<Run, Complaint> {
    run_by(loaded, plan, owner, |plan, owner| {
        fabric::run(plan, owner).map_err(|error| loaded.complaint(error))
    })
}

fn run_by(
    loaded: &Loaded,
    plan: Plan,
    mut owner: impl FnMut(&Running) -> Verdict + Send,
    simulate: impl FnOnce(&Plan, Owner<'_>) -> Result<Outcome, Complaint>,
) -> Result<Run, Complaint> {
    let (wall, cpu) = (Instant::now(), cpu_seconds(plan.shards));
    let mut verdict = Verdict::GoOn;
    let outcome = simulate(&plan, &mut |running| {
        verdict = owner(running);
        verdict == Verdict::GoOn
    })?;
    let violations = outcome.violations();
    if !violations.is_empty() {
        let list = violations.join("\n  ");
        let message = format!("error: a conservation law is broken; this is a bug:\n  {list}");
        return Err(Complaint(message));
    }
    let title =
        if loaded.scenario.title.is_empty() { &loaded.name } else { &loaded.scenario.title };
    let pauses = Pauses::new(&outcome, &plan);
    let mut report = report::make_with(&outcome, &plan, &pauses, title);
    if report.outcome == OutcomeKind::Interrupted && verdict == Verdict::TimeLimit {
        report.outcome = OutcomeKind::TimeLimit;
    }
    report.commit = COMMIT.to_owned();
    report.presets = loaded.presets();
    let cpu_time_s = cpu_seconds(plan.shards) - cpu;
    report.performance = report::Performance {
        wall_time_s: wall.elapsed().as_secs_f64(),
        cpu_time_s,
        remedies_cpu_time_s: 0.0,
        events: outcome.events,
        packet_hops: report.packet_hops,
        packet_hops_per_cpu_s: report.packet_hops as f64 / cpu_time_s.max(1e-9),
        peak_rss_bytes: peak_rss_bytes(),
        threads: plan.shards,
    };
    Ok(Run { plan, outcome, report, pauses })
}

/// CPU time of this thread, or of the process where shards run on threads of their own.
fn cpu_seconds(shards: usize) -> f64 {
    let clock = if shards == 1 { ClockId::ThreadCPUTime } else { ClockId::ProcessCPUTime };
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Peak resident memory of this process; 0 where the system does not say.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Estimates what a run will cost.
pub fn estimate(plan: &Plan) -> Estimate {
    let wiring = &plan.wiring;
    let hosts = wiring.topology.nodes().len();
    let (mut sending, mut receiving) = (vec![0u32; hosts], vec![0u32; hosts]);
    let is_flow = |qp: &QpInfo| matches!(qp.role, Role::Flow { .. });
    for qp in wiring.qps.iter().filter(|qp| is_flow(qp) && qp.bytes.is_none()) {
        sending[qp.source as usize] += 1;
        receiving[qp.target as usize] += 1;
    }
    let mut estimate = collectives(plan);
    let stop = plan.spec.stop;
    let end = stop.after.into_iter().chain(stop.limit).min().map(|end| end.as_secs());
    for (index, qp) in wiring.qps.iter().enumerate().filter(|(_, qp)| is_flow(qp)) {
        let Some(nic) = plan.spec.nics[qp.source as usize].as_ref() else { continue };
        let wire = &wiring.wires[qp.source_port as usize];
        let mtu = f64::from(nic.mtu);
        let bytes = qp.bytes.map_or_else(
            || {
                let share = sending[qp.source as usize].max(receiving[qp.target as usize]);
                let time = (end.unwrap_or(0.0) - qp.start.as_secs()).max(0.0);
                wire.clock.rate().bps() as f64 / 8.0 * time / f64::from(share.max(1))
            },
            |bytes| bytes as f64,
        );
        let acks = 1.0 / f64::from(nic.transport.ack_every).min((bytes / mtu).max(1.0));
        let hops = plan.path(index).len() as f64;
        estimate.packet_hops += (bytes / mtu).ceil().max(1.0) * hops * (1.0 + acks);
        estimate.payload_bytes += bytes;
    }
    estimate
}

/// What the collectives of a run will cost.
fn collectives(plan: &Plan) -> Estimate {
    let mut estimate = Estimate { packet_hops: 0.0, payload_bytes: 0.0 };
    let wiring = &plan.wiring;
    for (index, qp) in wiring.qps.iter().enumerate() {
        let Role::Data { job, connection } = qp.role else { continue };
        let Some(nic) = plan.spec.nics[qp.source as usize].as_ref() else { continue };
        let job = &wiring.jobs[job as usize];
        let Link::Remote { qps, striping, .. } = &job.connections[connection as usize].link else {
            continue;
        };
        let (bytes, slices) = job.load_of_all(&job.connections[connection as usize]);
        // each slice is at least a packet, an ACK and a CTS
        let bytes = bytes / qps.len() as f64;
        let messages = slices * f64::from(striping.parts) / qps.len() as f64;
        let packets = (bytes / f64::from(nic.mtu)).max(messages);
        let frames = packets + messages + slices * 2.0 / qps.len() as f64;
        estimate.packet_hops += frames * plan.path(index).len() as f64;
        estimate.payload_bytes += bytes;
    }
    estimate
}

impl Estimate {
    /// A share of it.
    pub fn times(self, share: f64) -> Estimate {
        let Estimate { packet_hops, payload_bytes } = self;
        Estimate { packet_hops: packet_hops * share, payload_bytes: payload_bytes * share }
    }
}

impl std::iter::Sum for Estimate {
    fn sum<I: Iterator<Item = Estimate>>(estimates: I) -> Estimate {
        estimates.fold(Estimate { packet_hops: 0.0, payload_bytes: 0.0 }, |sum, one| Estimate {
            packet_hops: sum.packet_hops + one.packet_hops,
            payload_bytes: sum.payload_bytes + one.payload_bytes,
        })
    }
}
