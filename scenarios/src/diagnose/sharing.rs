//! Flows that share a port and slow down differently, or not enough.

use models::congestion::{CongestionConfig, DcqcnConfig};
use models::fabric::{Plan, QpInfo};
use models::ids::NodeId;
use models::report::{Finding, PortReport, Report, Severity};
use serde_json::json;
use sim_core::Delta;

use super::{FlowsByPort, finding};
use crate::{stats, text};

/// Flows without congestion control have so many times the goodput of those with.
const UNFAIR: f64 = 2.0;
/// So many flows into a port are many,
const MANY: usize = 32;
/// so much of what it sends is marked,
const MARKED: f64 = 0.8;
/// and so many times kmax waits there although
const DEEP: f64 = 10.0;
/// so many periods of the rate timer have passed.
const PERIODS: u64 = 50;

/// Findings about flows that meet at a port which marks.
pub(super) fn findings(report: &Report, plan: &Plan, flows: &FlowsByPort) -> Vec<Finding> {
    if report.totals.ecn_marked_packets == 0 {
        return Vec::new();
    }
    let mut marking: Vec<usize> =
        (0..report.ports.len()).filter(|port| report.ports[*port].ecn_marked_packets > 0).collect();
    // those that mark most first
    marking.sort_by_key(|port| std::cmp::Reverse(report.ports[*port].ecn_marked_packets));
    let on = |port: usize| flows.of(port);
    let mixed = marking.iter().find_map(|port| mixed(report, plan, *port, on(*port)));
    let overrun = marking.iter().find_map(|port| overrun(report, plan, *port, on(*port)));
    mixed.into_iter().chain(overrun).collect()
}

/// How a QP's sender reacts to marks, if it does by DCQCN.
pub(super) fn reacts<'a>(plan: &'a Plan, qp: &QpInfo) -> Option<&'a DcqcnConfig> {
    let nic = plan.spec.nics[qp.source as usize].as_deref()?;
    match &nic.congestion {
        CongestionConfig::Dcqcn(dcqcn) => {
            dcqcn.priorities.contains(&nic.qos.priority(qp.dscp)).then_some(dcqcn)
        }
        _ => None,
    }
}

/// Some flows of a full port yield to marks, others take what they leave.
fn mixed(report: &Report, plan: &Plan, port: usize, flows: &[u32]) -> Option<Finding> {
    let at = &report.ports[port];
    // where most is marked it is what limits those that react
    let most = at.ecn_marked_packets * 2 >= report.totals.ecn_marked_packets;
    if !most || busy(report, plan, at) < 0.8 {
        return None;
    }
    let qp = |flow: &u32| &plan.wiring.qps[*flow as usize];
    // of collectives, the slowest flow holds back all others
    let plain = flows.iter().copied().filter(|flow| !qp(flow).is_of_collective());
    let plain = plain.filter(|flow| !qp(flow).is_tcp() && qp(flow).rate.is_none());
    let (with, without): (Vec<u32>, Vec<u32>) =
        plain.partition(|flow| reacts(plan, qp(flow)).is_some());
    let goodput = |flows: &[u32]| {
        let all: Vec<f64> =
            flows.iter().map(|flow| report.flows[*flow as usize].goodput_bps).collect();
        stats::mean(&all)
    };
    let (first, other) = (with.first()?, without.first()?);
    let (yielding, taking) = (goodput(&with), goodput(&without));
    if taking < UNFAIR * yielding.max(1.0) {
        return None;
    }
    let name = |flow: &u32| plan.wiring.topology.node(NodeId(qp(flow).source)).name.as_str();
    let text = format!(
        "congestion control is mixed at {}: flows that slow down at marks ({}, such as that of {}) get \
         {} each on average, those that do not ({}, such as that of {}) {}",
        at.port,
        with.len(),
        name(first),
        text::rate(yielding),
        without.len(),
        name(other),
        text::rate(taking)
    );
    let evidence = [
        ("port", json!(at.port)),
        ("flows_with", json!(with.len())),
        ("flows_without", json!(without.len())),
        ("goodput_with_bps", json!(yielding)),
        ("goodput_without_bps", json!(taking)),
        ("ecn_marked_packets", json!(at.ecn_marked_packets)),
    ];
    let remedy = "one algorithm with one set of parameters on all NICs (nic.congestion), or a class \
                  of its own for those without";
    let remedy = Some(remedy.to_owned());
    Some(finding("mixed_congestion_control", Severity::Warning, text, evidence, remedy))
}

/// The share of the run in which a port sent.
fn busy(report: &Report, plan: &Plan, port: &PortReport) -> f64 {
    let gap = f64::from(plan.wiring.frames.gap);
    let wire = port.tx_bytes as f64 + port.tx_packets as f64 * gap;
    wire * 8.0 / port.rate_bps as f64 / report.simulated_time_s.max(1e-12)
}

/// Many flows into one port: each gets notifications, and together they rise faster than they are
/// cut.
fn overrun(report: &Report, plan: &Plan, port: usize, flows: &[u32]) -> Option<Finding> {
    let at = &report.ports[port];
    let queue = at.priorities.iter().max_by_key(|queue| queue.ecn_marked_packets)?;
    let config = plan.spec.switch_ports[port].as_deref()?;
    let kmax = config.ecn.get(&queue.priority)?.kmax.to_bytes(config.buffer.cell);
    let marked = at.ecn_marked_packets as f64 / at.tx_packets.max(1) as f64;
    let deep = queue.mean_queue_bytes / kmax.max(1) as f64;
    let dcqcn = flows.iter().find_map(|flow| reacts(plan, &plan.wiring.qps[*flow as usize]))?;
    let run = Delta::from_ps((report.simulated_time_s * 1e12) as u64);
    if flows.len() < MANY
        || marked < MARKED
        || deep < DEEP
        || report.totals.pfc_xoff_frames == 0
        || run < dcqcn.rpg_time_reset * PERIODS
    {
        return None;
    }
    let text = format!(
        "DCQCN cannot slow {} flows into {} enough: {:.0} % of its frames are marked, and {} wait there \
         on average, {deep:.0} times kmax; PFC does the rest ({} XOFF frames)",
        flows.len(),
        at.port,
        marked * 100.0,
        text::bytes(queue.mean_queue_bytes),
        report.totals.pfc_xoff_frames
    );
    let evidence = [
        ("port", json!(at.port)),
        ("flows", json!(flows.len())),
        ("marked_share", json!(marked)),
        ("mean_queue_bytes", json!(queue.mean_queue_bytes)),
        ("kmax_bytes", json!(kmax)),
        ("pfc_xoff_frames", json!(report.totals.pfc_xoff_frames)),
    ];
    let remedy = format!(
        "smaller and rarer steps up: rpg_ai_rate (now {}), rpg_hai_rate ({}), rpg_time_reset ({}); or \
         fewer QPs at a time",
        dcqcn.rpg_ai_rate, dcqcn.rpg_hai_rate, dcqcn.rpg_time_reset
    );
    Some(finding("dcqcn_overrun", Severity::Warning, text, evidence, Some(remedy)))
}
