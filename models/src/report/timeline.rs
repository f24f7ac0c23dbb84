//! What the lanes of collectives did when.

use serde::{Deserialize, Serialize};
use sim_core::Time;

use crate::fabric::{Outcome, Plan};
use crate::probe::Probe;
use crate::report::Name;

/// One repetition of what a rank does on a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneSpan {
    /// Number of the collective.
    pub collective: u32,
    /// Rank.
    pub rank: u32,
    /// Its host,
    pub host: Name,
    /// and its GPU there.
    pub gpu: u32,
    /// Channel.
    pub channel: u32,
    /// Lane: a tree has two a channel, upwards and downwards; SENDs and RECVs have their own.
    pub lane: u32,
    /// Repetition, from 0, warm-up included.
    pub repetition: u32,
    /// Begin.
    pub begin_s: f64,
    /// End; absent if it did not end.
    pub end_s: Option<f64>,
    /// Of a lane that has ended: time spent waiting for data to come,
    pub waiting_to_receive_s: Option<f64>,
    /// and for room to send.
    pub waiting_to_send_s: Option<f64>,
}

/// Rows by collective, rank and lane.
pub(super) fn timeline<P: Probe>(outcome: &Outcome<P>, plan: &Plan) -> Vec<LaneSpan> {
    let mut rows = Vec::new();
    for (number, job) in (0..).zip(&plan.wiring.jobs) {
        let hosts = job.hosts();
        let executors =
            hosts.iter().filter_map(|host| outcome.fabric.executors[host.index()].as_ref());
        for (info, spans) in executors.flat_map(|executor| executor.spans(number)) {
            let host = job.ranks[info.rank as usize].host;
            let name = Name::from(plan.wiring.topology.node(host).name.as_str());
            for (repetition, span) in (0..).zip(spans) {
                let ended = |value: f64| (span.end < Time::MAX).then_some(value);
                rows.push(LaneSpan {
                    collective: number,
                    rank: info.rank,
                    host: name.clone(),
                    gpu: info.gpu,
                    channel: job.block(info.lane) / job.groups(),
                    lane: info.lane,
                    repetition,
                    begin_s: span.begin.as_secs(),
                    end_s: ended(span.end.as_secs()),
                    waiting_to_receive_s: ended(span.waited[0].as_secs()),
                    waiting_to_send_s: ended(span.waited[1].as_secs()),
                });
            }
        }
    }
    rows.sort_by_key(|row| (row.collective, row.rank, row.lane, row.repetition));
    rows
}
