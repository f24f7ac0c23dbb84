//! `--quick`: a long collective repeats itself, so its beginning tells how it goes on.
//!
//! A part of its programs is run, the same for all ranks. If all ranks keep the same pace in it, the
//! rest is extrapolated; otherwise a part twice as long is tried, and at last all is run
//! (docs/model.md, section 12). What is compared are times of the programs' steps, so the answer does
//! not depend on threads.

mod lengths;
mod pace;

use models::collective::Cut;
use models::fabric::{self, Plan, Running, Shards, Spec};
use models::report::{OutcomeKind, Performance};

use self::lengths::{Lengths, steps};
use self::pace::{Part, Whole};
use crate::diagnose;
use crate::resolve::{Complaint, Loaded};
use crate::simulate::{self, Run, Verdict};
use crate::text::binary;

/// What came of a quick run.
#[derive(Debug)]
pub enum Quick {
    /// It has ended: extrapolated, or stopped by its owner.
    Done(Box<Run>),
    /// All must be run.
    Not {
        /// Why.
        because: String,
        /// What trying has cost.
        cost: Performance,
    },
}

/// Runs `plan` quickly if that is possible, and as a whole if not; also returns why not.
pub fn run(
    loaded: &Loaded,
    plan: Plan,
    mut owner: impl FnMut(&Running) -> Verdict + Send,
) -> Result<(Run, Option<String>), Complaint> {
    match attempt(loaded, &plan, 1.0, &mut owner)? {
        Quick::Done(run) => Ok((*run, None)),
        Quick::Not { because, cost } => {
            let size =
                plan.wiring.jobs.first().map_or(String::new(), |job| binary(job.bytes) + ": ");
            let mut run = simulate::run(loaded, plan, owner)?;
            run.report.performance.add(&cost);
            Ok((run, Some(format!("--quick: {size}{because}; all of it is run"))))
        }
    }
}

/// Runs a part of `plan`, and extrapolates the rest if that can be done with at most `share` of the
/// steps.
pub fn attempt(
    loaded: &Loaded,
    plan: &Plan,
    share: f64,
    owner: &mut (impl FnMut(&Running) -> Verdict + Send),
) -> Result<Quick, Complaint> {
    let mut cost = Performance::default();
    let not =
        |because: &str, cost: Performance| Ok(Quick::Not { because: because.to_owned(), cost });
    if let Some(because) = obstacle(plan) {
        return not(because, cost);
    }
    let job = &plan.wiring.jobs[0];
    let (lengths, whole) = (Lengths::new(job), Whole::new(job));
    let mut spent = 0;
    let mut delivered = 0;
    for number in 0.. {
        let Some(cut) = lengths.cut(number) else { break };
        if !lengths.affordable(spent + steps(cut), share) {
            break;
        }
        spent += steps(cut);
        let (run, verdict) = part(loaded, plan, cut, delivered, owner)?;
        cost.add(&run.report.performance);
        delivered += run.outcome.fabric.delivered_bytes();
        if verdict != Verdict::GoOn {
            return Ok(Quick::Done(Box::new(run)));
        }
        if let Some(because) = trouble(&run) {
            return not(because, cost);
        }
        let Some(part) = Part::new(&run) else { return not("a part of it did not end", cost) };
        let Some(estimate) = pace::estimate(&part, whole) else { continue };
        if ends_before(plan, estimate.time_s) {
            return not("the run is to stop before it ends", cost);
        }
        let share = spent as f64 / lengths.total() as f64;
        return Ok(Quick::Done(Box::new(finish(run, estimate, share, cost))));
    }
    match spent {
        0 => not("too short to be extrapolated", cost),
        _ => not("its steps do not repeat within 0.5 %", cost),
    }
}

/// Why no part of `plan` stands for the whole.
fn obstacle(plan: &Plan) -> Option<&'static str> {
    let jobs = &plan.wiring.jobs;
    let ports = plan.wiring.topology.ports();
    if jobs.is_empty() {
        Some("there is no collective")
    } else if !plan.wiring.workloads.is_empty() {
        Some("training steps do not repeat each other")
    } else if jobs.len() > 1 {
        Some("several collectives share the fabric")
    } else if !jobs[0].is_ring() || jobs[0].config.op.has_root() {
        Some("only rings repeat themselves")
    } else if plan.spec.flows.iter().any(|flow| flow.bytes.is_some()) {
        Some("flows beside it end, or wait for others, so that no part stands for the whole")
    } else if ports.iter().any(|port| port.loss > 0.0) {
        Some("links lose frames at random, and a time-out may be rare")
    } else if !plan.spec.faults.is_empty() {
        Some("faults change the fabric on the way, so that no part stands for the whole")
    } else {
        None
    }
}

/// Why a part that has been run cannot be extrapolated.
fn trouble(run: &Run) -> Option<&'static str> {
    if run.report.outcome != OutcomeKind::Completed {
        Some("a part of it did not end")
    } else if !run.report.totals.drops.is_empty() {
        Some("frames were dropped, and a time-out may be rare")
    } else {
        None
    }
}

/// True if a repetition of this length would end after the run is to stop.
fn ends_before(plan: &Plan, time_s: f64) -> bool {
    let job = &plan.wiring.jobs[0];
    let end = job.start.as_secs() + time_s * f64::from(job.repeats()[0]);
    let stops = [plan.spec.stop.after, plan.spec.stop.limit];
    stops.into_iter().flatten().any(|stop| end >= stop.as_secs())
}

/// Runs a part; `owner` sees what was delivered before, too.
fn part(
    loaded: &Loaded,
    plan: &Plan,
    cut: Cut,
    delivered: u64,
    owner: &mut (impl FnMut(&Running) -> Verdict + Send),
) -> Result<(Run, Verdict), Complaint> {
    let mut spec = Spec::clone(&plan.spec);
    spec.collectives[0].cut = Some(cut);
    let plan = fabric::plan(spec, Shards::Exactly(plan.shards))
        .map_err(|error| loaded.complaint(error))?;
    let mut verdict = Verdict::GoOn;
    let run = simulate::run_bare(loaded, plan, |running| {
        let mut running = *running;
        running.tally.delivered_bytes += delivered;
        verdict = owner(&running);
        verdict
    })?;
    Ok((run, verdict))
}

/// The report of the part with the times of the whole.
fn finish(mut run: Run, estimate: pace::Estimate, share: f64, cost: Performance) -> Run {
    let job = &run.plan.wiring.jobs[0];
    let report = &mut run.report;
    let collective = &mut report.collectives[0];
    let algbw = job.bytes as f64 / estimate.time_s / 1e9;
    collective.time_s = Some(estimate.time_s);
    collective.algbw_gbytes_per_s = Some(algbw);
    collective.busbw_gbytes_per_s = Some(algbw * job.config.op.bus_factor(collective.ranks));
    collective.extrapolated = true;
    collective.estimated_error = Some(estimate.error);
    collective.simulated_share = Some(share);
    report.performance = cost;
    report.findings = diagnose::findings(report, &run.plan, &run.outcome, &run.pauses);
    run
}

/// The first length as a share of all steps; `None` if all of `plan` will be run.
pub fn first_share(plan: &Plan) -> Option<f64> {
    if obstacle(plan).is_some() {
        return None;
    }
    let lengths = Lengths::new(plan.wiring.jobs.first()?);
    let price = steps(lengths.cut(0)?);
    lengths.affordable(price, 1.0).then(|| price as f64 / lengths.total() as f64)
}
