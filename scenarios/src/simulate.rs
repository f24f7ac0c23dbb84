//! Runs a loaded scenario.

use std::time::Instant;

use models::fabric::{self, Outcome, Plan, Running};
use models::report::{self, OutcomeKind, Report};
use rustix::time::{ClockId, clock_gettime};

use crate::diagnose;
use crate::resolve::{Complaint, Loaded};

/// A run that has ended.
#[derive(Debug)]
pub struct Run {
    /// What was run.
    pub plan: Plan,
    /// The components at the end.
    pub outcome: Outcome,
    /// The report with its diagnosis.
    pub report: Report,
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

/// Checks and plans `loaded` for `threads` shards.
pub fn plan(loaded: &Loaded, threads: usize) -> Result<Plan, Complaint> {
    fabric::plan(loaded.spec.clone(), threads).map_err(|error| loaded.complaint(error))
}

/// Runs `plan`; `owner` is asked now and then whether to go on.
pub fn run(
    loaded: &Loaded,
    plan: Plan,
    mut owner: impl FnMut(&Running) -> Verdict + Send,
) -> Result<Run, Complaint> {
    let (wall, cpu) = (Instant::now(), cpu_seconds(plan.shards));
    let mut verdict = Verdict::GoOn;
    let outcome = fabric::run::<(), _>(&plan, |running| {
        verdict = owner(running);
        verdict == Verdict::GoOn
    });
    let outcome = outcome.map_err(|error| loaded.complaint(error))?;
    let violations = outcome.violations();
    if !violations.is_empty() {
        let list = violations.join("\n  ");
        let message = format!("error: a conservation law is broken; this is a bug:\n  {list}");
        return Err(Complaint(message));
    }
    let title =
        if loaded.scenario.title.is_empty() { &loaded.name } else { &loaded.scenario.title };
    let mut report = report::make(&outcome, &plan, title);
    if report.outcome == OutcomeKind::Interrupted && verdict == Verdict::TimeLimit {
        report.outcome = OutcomeKind::TimeLimit;
    }
    let cpu_time_s = cpu_seconds(plan.shards) - cpu;
    report.performance = report::Performance {
        wall_time_s: wall.elapsed().as_secs_f64(),
        cpu_time_s,
        events: outcome.events,
        packet_hops: report.packet_hops,
        packet_hops_per_cpu_s: report.packet_hops as f64 / cpu_time_s.max(1e-9),
        peak_rss_bytes: peak_rss_bytes(),
        threads: plan.shards,
    };
    report.findings = diagnose::findings(&report, &plan, &outcome);
    Ok(Run { plan, outcome, report })
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
    for qp in wiring.qps.iter().filter(|qp| qp.bytes.is_none()) {
        sending[qp.source as usize] += 1;
        receiving[qp.target as usize] += 1;
    }
    let mut estimate = Estimate { packet_hops: 0.0, payload_bytes: 0.0 };
    let stop = plan.spec.stop;
    let end = stop.after.into_iter().chain(stop.limit).min().map(|end| end.as_secs());
    for (index, qp) in wiring.qps.iter().enumerate() {
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
