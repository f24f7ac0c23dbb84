//! Collectives in the report.

use sim_core::{Delta, Time};

use super::{CollectiveReport, FlowStatus};
use crate::collective::{Candidate, Job};
use crate::fabric::{Outcome, Plan, Role};
use crate::probe::Probe;

/// One entry for each collective.
pub(super) fn reports<P: Probe>(outcome: &Outcome<P>, plan: &Plan) -> Vec<CollectiveReport> {
    (0..plan.wiring.collectives().len() as u32).map(|job| report(outcome, plan, job)).collect()
}

fn report<P: Probe>(outcome: &Outcome<P>, plan: &Plan, number: u32) -> CollectiveReport {
    let job = &plan.wiring.jobs[number as usize];
    let fabric = &outcome.fabric;
    let hosts = job.hosts();
    let of_hosts = || hosts.iter().filter_map(|host| fabric.executors[host.index()].as_ref());
    let qps = || {
        let all = plan.wiring.qps.iter().enumerate();
        all.filter(|(_, qp)| matches!(qp.role, Role::Data { job, .. } if job == number))
    };
    let done = outcome.finished(number);
    // a CTS that cannot be delivered stops a ring as well as data
    let of_job = |role: Role| match role {
        Role::Data { job, .. } | Role::Cts { job, .. } => job == number,
        Role::Flow { .. } | Role::Line { .. } => false,
    };
    let senders = plan.wiring.qps.iter().zip(fabric.senders.records());
    let failed =
        senders.filter(|(qp, _)| of_job(qp.role)).any(|(_, sender)| sender.failed.is_some());
    let [repeats, timed] = job.repeats();
    let end = |repeat: u32| {
        let ends = of_hosts().filter_map(|executor| executor.ends(number).get(repeat as usize));
        ends.max().copied().unwrap_or(Time::ZERO)
    };
    let begin = match repeats - timed {
        0 => job.start,
        warmup => end(warmup - 1),
    };
    let ranks = job.ranks.len() as u32;
    let time_s = done.then(|| end(repeats - 1).since(begin).as_secs() / f64::from(timed));
    // a part of the programs has a time, but no bandwidth
    let whole = time_s.filter(|_| job.cut.is_none());
    let algbw = whole.map(|time| job.bytes as f64 / time / 1e9);
    let waits = of_hosts().map(|executor| executor.waits(number, outcome.end));
    let waits = waits.fold([Delta::ZERO; 2], |sum, wait| [sum[0] + wait[0], sum[1] + wait[1]]);
    let span = if done { end(repeats - 1) } else { outcome.end }.since(job.start).as_secs();
    let lanes = job.lanes.iter().map(|lane| lane.len()).sum::<usize>() as f64;
    let share = |wait: Delta| if span > 0.0 { wait.as_secs() / span / lanes } else { 0.0 };
    CollectiveReport {
        time_s,
        algbw_gbytes_per_s: algbw,
        busbw_gbytes_per_s: algbw.map(|algbw| algbw * job.config.op.bus_factor(ranks)),
        status: match (failed, done) {
            (true, _) => FlowStatus::QpError,
            (false, true) => FlowStatus::Completed,
            (false, false) => FlowStatus::Unfinished,
        },
        nvlink_bytes: of_hosts().map(|executor| executor.nvlink_bytes(number)).sum(),
        waiting_to_receive: share(waits[0]),
        waiting_to_send: share(waits[1]),
        ..planned(job, qps().count() as u32)
    }
}

/// What is known of a collective before it has run, over so many QPs of data.
pub fn planned(job: &Job, qps: u32) -> CollectiveReport {
    let candidates = &job.choice.candidates;
    CollectiveReport {
        name: job.config.name.clone(),
        op: job.config.op.name().to_owned(),
        algorithm: job.pattern.name().to_owned(),
        protocol: job.protocol().name().to_owned(),
        root: job.config.op.has_root().then_some(job.config.root),
        model_time_s: candidates.first().map(|best| best.time_us / 1e6),
        alternatives: alternatives(candidates),
        nodes: job.nodes,
        ranks: job.ranks.len() as u32,
        channels: job.channels,
        qps,
        dtype: job.config.dtype.name().to_owned(),
        count: job.count,
        bytes: job.bytes,
        iterations: job.repeats()[1],
        time_s: None,
        algbw_gbytes_per_s: None,
        busbw_gbytes_per_s: None,
        status: FlowStatus::Unfinished,
        nvlink_bytes: 0,
        waiting_to_receive: 0.0,
        waiting_to_send: 0.0,
        extrapolated: false,
        estimated_error: None,
        simulated_share: None,
    }
}

/// What NCCL's tuning model thinks of all but the first, in words.
fn alternatives(candidates: &[Candidate]) -> Option<String> {
    let others = candidates.get(1..)?.iter();
    let words = others.map(|other| {
        let Candidate { algorithm, protocol, time_us } = other;
        format!("{} {} {time_us:.1} us", algorithm.name(), protocol.name())
    });
    Some(words.collect::<Vec<_>>().join(", "))
}
