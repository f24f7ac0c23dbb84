//! Buffer that headroom takes from the shared pool.

use std::collections::BTreeSet;

use models::fabric::Plan;
use models::ids::NodeId;
use models::report::{Finding, Report, Severity};
use serde_json::json;
use sim_core::Bytes;

use super::finding;

/// Above this share of the buffer, headroom of idle priorities is why XOFF comes soon.
const SHARE_MIN: f64 = 0.5;

/// A switch pauses, and most of its buffer is headroom of lossless priorities that carry no data.
pub(super) fn idle_headroom(report: &Report, plan: &Plan) -> Option<Finding> {
    let switches = plan.wiring.topology.switches();
    let data = plan.wiring.qps.iter().filter_map(|qp| {
        let nic = plan.spec.nics[qp.source as usize].as_ref()?;
        Some(nic.qos.priority(qp.dscp))
    });
    let data: BTreeSet<u8> = data.collect();
    let found = switches.filter_map(|switch| Idle::of(report, plan, switch, &data));
    let worst = found.max_by_key(|idle| idle.pauses)?;
    let text = format!(
        "{}: {:.0} % of the buffer ({} of {}) is headroom of {} lossless priorities that carry \
         no data; what is left to share is so little that it sent {} XOFF frames",
        worst.name,
        worst.share() * 100.0,
        Bytes::new(worst.headroom),
        Bytes::new(worst.size),
        worst.priorities,
        worst.pauses
    );
    let evidence = [
        ("switch", json!(worst.name)),
        ("idle_headroom_bytes", json!(worst.headroom)),
        ("idle_priorities", json!(worst.priorities)),
        ("tx_pause_frames", json!(worst.pauses)),
    ];
    let used: Vec<String> = worst.used.iter().map(u8::to_string).collect();
    let remedy = format!(
        "PFC only for what carries RoCE: switch.pfc.priorities = [{}], and the same on the NICs",
        used.join(", ")
    );
    Some(finding("idle_headroom", Severity::Warning, text, evidence, Some(remedy)))
}

/// A switch with much headroom of idle priorities.
struct Idle<'a> {
    name: &'a str,
    /// XOFF frames that it sent.
    pauses: u64,
    /// Of idle priorities, in bytes.
    headroom: u64,
    size: u64,
    /// Lossless priorities that carry no data.
    priorities: usize,
    /// Those that do.
    used: BTreeSet<u8>,
}

impl<'a> Idle<'a> {
    /// `data`: priorities that carry data anywhere.
    fn of(report: &Report, plan: &'a Plan, switch: NodeId, data: &BTreeSet<u8>) -> Option<Self> {
        let topology = &plan.wiring.topology;
        let ports: Vec<usize> = topology.ports_of(switch).map(|port| port.index()).collect();
        let pauses = ports.iter().map(|port| report.ports[*port].tx_pause_frames).sum();
        let first = *ports.first()?;
        let config = plan.spec.switch_ports[first].as_deref()?;
        let is_shared = config.buffer.pools.values().any(|pool| pool.xoff.is_some());
        if pauses == 0 || is_shared {
            return None;
        }
        let lossless: BTreeSet<u8> = config.pfc.priorities.iter().copied().collect();
        let used: BTreeSet<u8> = lossless.intersection(data).copied().collect();
        let priorities = lossless.len() - used.len();
        let buffer = &plan.buffers[plan.wiring.wires[first].owner as usize];
        let headroom = buffer.headroom.iter().sum::<u64>() * priorities as u64;
        let name = topology.node(switch).name.as_str();
        let size = config.buffer.size.get();
        let idle = Idle { name, pauses, headroom, size, priorities, used };
        (idle.share() > SHARE_MIN).then_some(idle)
    }

    fn share(&self) -> f64 {
        self.headroom as f64 / self.size as f64
    }
}
