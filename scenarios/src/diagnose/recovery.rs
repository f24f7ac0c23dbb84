//! Flows that nothing holds back any more, and that come back slowly.

use models::fabric::{Plan, QpInfo};
use models::report::{Finding, FlowReport, Report, Severity};
use serde_json::json;
use sim_core::Time;

use super::sharing::reacts;
use super::{FlowsByPort, finding, flow_name};
use crate::text;

/// The busiest link of a flow's way is at most so full,
const FULL: f64 = 0.8;
/// and the flow has less than this part of its share there.
const SLOW: f64 = 0.7;

/// DCQCN keeps flows below their share of links that are not full, over the measured window.
pub(super) fn slow_recovery(report: &Report, plan: &Plan, flows: &FlowsByPort) -> Option<Finding> {
    if report.totals.cnp_handled == 0 {
        return None;
    }
    let [from, to] = plan.wiring.measure.map(Time::as_secs);
    let window = [from, to.min(report.simulated_time_s)];
    let slow = (0..plan.wiring.data_qps as usize)
        .filter(|flow| is_free(&plan.wiring.qps[*flow], &report.flows[*flow], window))
        .filter_map(|flow| Slow::of(report, plan, flows, flow, window));
    let slow: Vec<Slow> = slow.collect();
    let worst = slow.iter().min_by(|a, b| a.part.total_cmp(&b.part))?;
    let dcqcn = reacts(plan, &plan.wiring.qps[worst.flow])?;
    let port = &report.ports[worst.port];
    let text = format!(
        "{} has {}, {:.0} % of its share of {}, the busiest link of its way, which is {:.0} % full: \
         DCQCN comes back slowly after its last notifications (rpg_ai_rate {})",
        flow_name(plan, worst.flow),
        text::rate(report.flows[worst.flow].goodput_bps),
        worst.part * 100.0,
        port.port,
        worst.full * 100.0,
        dcqcn.rpg_ai_rate
    );
    let evidence = [
        ("flow", json!(worst.flow)),
        ("goodput_bps", json!(report.flows[worst.flow].goodput_bps)),
        ("share_of_fair", json!(worst.part)),
        ("port", json!(port.port)),
        ("utilisation", json!(worst.full)),
        ("flows", json!(slow.len())),
    ];
    let remedy = "raise nic.congestion.rpg_ai_rate and rpg_hai_rate, or give bursts a class of their \
                  own";
    let remedy = Some(remedy.to_owned());
    Some(finding("slow_recovery", Severity::Warning, text, evidence, remedy))
}

/// Nothing but congestion control limits a flow, and it sends in the whole window.
fn is_free(qp: &QpInfo, flow: &FlowReport, window: [f64; 2]) -> bool {
    let limited = qp.is_of_collective() || qp.is_tcp() || qp.rate.is_some() || qp.window.is_some();
    let begins = flow.start_s.is_some_and(|start| start <= window[0]);
    let ends = flow.start_s.zip(flow.fct_s).map(|(start, fct)| start + fct);
    !limited && begins && ends.is_none_or(|end| end >= window[1]) && flow.paused_share == 0.0
}

struct Slow {
    flow: usize,
    /// The busiest link of its way,
    port: usize,
    /// how full it is,
    full: f64,
    /// and what the flow has of an equal share there.
    part: f64,
}

impl Slow {
    fn of(
        report: &Report,
        plan: &Plan,
        flows: &FlowsByPort,
        flow: usize,
        [from, to]: [f64; 2],
    ) -> Option<Self> {
        let qp = &plan.wiring.qps[flow];
        reacts(plan, qp)?;
        let nic = plan.spec.nics[qp.source as usize].as_deref()?;
        if nic.transport.window.is_some() || nic.receive.is_some() || to <= from {
            return None;
        }
        // a port's load in the window, and its flows that sent about as much as this one
        let own = report.flows[flow].measured_bytes;
        let load = |port: u32| {
            let sent =
                flows.of(port as usize).iter().map(|f| report.flows[*f as usize].measured_bytes);
            let (count, sum) = sent.fold((0u32, 0u64), |(count, sum), bytes| {
                (count + u32::from(bytes * 10 >= own), sum + bytes)
            });
            let wire = sum as f64 * (f64::from(nic.mtu) + 82.0) / f64::from(nic.mtu);
            (count, wire * 8.0 / (to - from) / report.ports[port as usize].rate_bps as f64)
        };
        let loads = plan.path(flow).into_iter().map(|port| (port, load(port)));
        let (port, (count, full)) = loads.max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        let rate = report.ports[port as usize].rate_bps as f64;
        let part = report.flows[flow].goodput_bps * f64::from(count) / rate;
        let port = port as usize;
        (full < FULL && part < SLOW).then_some(Slow { flow, port, full, part })
    }
}
