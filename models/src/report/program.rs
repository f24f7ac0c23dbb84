//! GOAL schedules in the report.

use serde::{Deserialize, Serialize};
use sim_core::Time;

use super::FlowStatus;
use crate::fabric::{Outcome, Plan, Role};
use crate::probe::Probe;

/// One GOAL schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramReport {
    /// Name of its traffic section.
    pub name: String,
    /// Hosts that take part.
    pub nodes: u32,
    /// Ranks.
    pub ranks: u32,
    /// Operations of all ranks.
    pub tasks: u64,
    /// Messages,
    pub messages: u64,
    /// and their bytes together.
    pub bytes: u64,
    /// Pairs of ranks that talk, each way and each NIC for itself.
    pub lines: u32,
    /// `completed`, `unfinished` or `qp_error`.
    pub status: FlowStatus,
    /// Time from its start to the end of the last task; absent if not all are done.
    pub time_s: Option<f64>,
    /// By rank: the same of its own last task.
    pub rank_time_s: Vec<Option<f64>>,
    /// By rank: time in which it computes.
    pub rank_calc_s: Vec<f64>,
}

/// One entry for each schedule.
pub(super) fn reports<P: Probe>(outcome: &Outcome<P>, plan: &Plan) -> Vec<ProgramReport> {
    let scheduled = plan.wiring.schedules.iter().zip(&plan.spec.schedules);
    scheduled.map(|(workload, of)| report(outcome, plan, *workload, of)).collect()
}

fn report<P: Probe>(
    outcome: &Outcome<P>,
    plan: &Plan,
    number: u32,
    of: &crate::program::Scheduled,
) -> ProgramReport {
    let workload = &plan.wiring.workloads[number as usize];
    let players = outcome.players(number);
    let start = Time::ZERO + of.config.start;
    let records: Vec<_> = players
        .iter()
        .map(|player| {
            let done = player.records().first().copied();
            (done.is_some(), done.or_else(|| player.unfinished(outcome.end)).unwrap_or_default())
        })
        .collect();
    let time = |(done, end): (bool, Time)| done.then(|| end.since(start).as_secs());
    let rank_time_s: Vec<Option<f64>> =
        records.iter().map(|(done, record)| time((*done, record.end))).collect();
    let all = rank_time_s.iter().all(Option::is_some);
    let failed =
        plan.wiring.qps.iter().zip(outcome.fabric.senders.records()).any(|(qp, sender)| {
            matches!(qp.role, Role::Line { workload, .. } if workload == number)
                && sender.failed.is_some()
        });
    let mut hosts: Vec<u32> = workload.ranks.iter().map(|rank| rank.host.0).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let (messages, bytes) = of.schedule.messages();
    ProgramReport {
        name: workload.name.clone(),
        nodes: hosts.len() as u32,
        ranks: workload.ranks.len() as u32,
        tasks: of.schedule.ranks.iter().map(|tasks| tasks.len() as u64).sum(),
        messages,
        bytes,
        lines: workload.lines.len() as u32,
        status: match (failed, all) {
            (true, _) => FlowStatus::QpError,
            (false, true) => FlowStatus::Completed,
            (false, false) => FlowStatus::Unfinished,
        },
        time_s: all.then(|| rank_time_s.iter().flatten().fold(0.0, |a: f64, b| a.max(*b))),
        rank_time_s,
        rank_calc_s: records.iter().map(|(_, record)| record.compute.as_secs()).collect(),
    }
}
