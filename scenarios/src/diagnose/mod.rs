//! What a run shows to be wrong, in plain words, each with its evidence and the setting to change.

mod collective;
mod storms;
mod trial;

use std::collections::BTreeMap;

use models::fabric::{Outcome, Plan, QpInfo, Role};
use models::ids::NodeId;
use models::report::{
    Finding, FlowStatus, NicReport, OutcomeKind, PortReport, Report, Severity, WatchdogReport,
};
use models::routing::Choices;
use models::switch::{Headroom, WatchdogAction};
use serde_json::{Value, json};
use sim_core::{Bytes, Delta};

use crate::check::dcqcn_is_on;
use crate::stats;

pub use collective::ceiling;
pub use trial::try_remedies;

/// The kinds of findings.
pub const KINDS: [&str; 23] = [
    "deadlock",
    "lossless_drops",
    "qp_error",
    "stalled",
    "unfinished",
    "lossy_drops",
    "link_loss",
    "late_acks",
    "ecn_after_pfc",
    "receiver_limited",
    "pfc_storm",
    "ecmp_imbalance",
    "receiver_link_full",
    "truncated_samples",
    "nic_limited",
    "lossy_class",
    "gdr_off",
    "pcie_limited",
    "few_channels",
    "nvlink_limited",
    "bond_imbalance",
    "paused_by_others",
    "dcqcn_throttling",
];

/// All findings, the worst first.
pub fn findings(report: &Report, plan: &Plan, outcome: &Outcome) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(deadlock(report));
    findings.extend(lossless_drops(report, plan));
    findings.extend(failed_flows(report));
    findings.extend(lossy_drops(report, plan));
    findings.extend(lossy_links(report));
    findings.extend(late_acks(report));
    findings.extend(ecn_after_pfc(report, plan));
    findings.extend(storms::findings(report, plan));
    findings.extend(receiver_limited(report, plan));
    findings.extend(ecmp_imbalance(report, plan));
    findings.extend(incast(report, plan));
    findings.extend(truncated_samples(plan, outcome));
    findings.extend(collective::findings(report, plan));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn finding(
    kind: &str,
    severity: Severity,
    text: String,
    evidence: impl IntoIterator<Item = (&'static str, Value)>,
    remedy: Option<String>,
) -> Finding {
    debug_assert!(KINDS.contains(&kind));
    let evidence: BTreeMap<String, Value> =
        evidence.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Finding {
        kind: kind.to_owned(),
        severity,
        text,
        evidence,
        remedy,
        collective: None,
        set: Vec::new(),
        promised_busbw_gbytes_per_s: None,
    }
}

fn deadlock(report: &Report) -> Option<Finding> {
    if report.outcome != OutcomeKind::Deadlock {
        return None;
    }
    if report.deadlocks.is_empty() {
        let ports: Vec<&str> = report.open_pauses.iter().take(4).map(|p| p.port.as_str()).collect();
        let text = format!(
            "nothing moves any more, but no queues wait for each other in a circle: pauses that do \
             not end hold {}",
            ports.join(", ")
        );
        let evidence = [("open_pauses", json!(report.open_pauses.len()))];
        let remedy = "look for a receiver that has stopped, or an XON lost on a link with loss where \
                      pfc.quanta = 0";
        return Some(finding("deadlock", Severity::Error, text, evidence, Some(remedy.to_owned())));
    }
    let stuck: u64 = report.deadlocks.iter().map(|deadlock| deadlock.bytes_stuck).sum();
    let cycle = report.deadlocks.first().map_or(String::new(), |first| {
        format!(": {} wait for each other, {} stuck", first.cycle.join(", "), Bytes::new(stuck))
    });
    let text = format!("the fabric is deadlocked{cycle}");
    let evidence = [("cycles", json!(report.deadlocks.len())), ("bytes_stuck", json!(stuck))];
    let remedy = "break the cycle of buffer dependencies: route up and then down only, or give \
                  traffic that turns a lossless priority of its own";
    Some(finding("deadlock", Severity::Error, text, evidence, Some(remedy.to_owned())))
}

/// The port with the largest value.
fn worst(report: &Report, value: impl Fn(&PortReport) -> u64) -> Option<(&PortReport, u64)> {
    let ports = report.ports.iter().map(|port| (port, value(port)));
    ports.max_by_key(|(_, value)| *value).filter(|(_, value)| *value > 0)
}

fn lossless_drops(report: &Report, plan: &Plan) -> Option<Finding> {
    let drops = report.totals.lossless_drops;
    if drops == 0 {
        return None;
    }
    let of = |reason: &'static str| move |port: &PortReport| *port.drops.get(reason).unwrap_or(&0);
    let (port, reason, count) =
        ["ingress_headroom_full", "nic_receive_full", "egress_lossless_limit"]
            .iter()
            .filter_map(|reason| worst(report, of(reason)).map(|(port, n)| (port, *reason, n)))
            .max_by_key(|(.., count)| *count)?;
    let (cause, remedy) = if reason == "nic_receive_full" {
        let cause = "the receive buffer of the NIC overflows after XOFF".to_owned();
        (cause, "lower nic.receive.xoff or raise nic.receive.buffer".to_owned())
    } else if reason == "egress_lossless_limit" {
        let cause = "its queue is over the limit that it was given".to_owned();
        (cause, "raise switch.buffer.lossless_queue.static_th: PFC limits the ingress side".into())
    } else {
        headroom_cause(report, plan, port)
    };
    let text = format!(
        "{drops} frames of a lossless class were dropped, {count} of them at {}: {cause}",
        port.port
    );
    let evidence = [
        ("lossless_drops", json!(drops)),
        ("port", json!(port.port)),
        ("reason", json!(reason)),
        ("retransmitted_packets", json!(report.totals.retransmitted_packets)),
    ];
    Some(finding("lossless_drops", Severity::Error, text, evidence, Some(remedy)))
}

/// Why the headroom of a switch port overflowed, and what helps.
fn headroom_cause(report: &Report, plan: &Plan, port: &PortReport) -> (String, String) {
    let topology = &plan.wiring.topology;
    let Some(id) = topology.find_port(&port.port) else { return Default::default() };
    let wire = &plan.wiring.wires[id.index()];
    if !wire.is_switch {
        return Default::default();
    }
    let buffer = &plan.buffers[wire.owner as usize];
    let headroom = Bytes::new(buffer.headroom[usize::from(wire.index)]);
    let Some(config) = plan.spec.switch_ports[id.index()].as_deref() else {
        return Default::default();
    };
    let pause = wire.clock.quanta(config.pfc.quanta);
    let ignores =
        |queue: &WatchdogReport| queue.port == port.peer && queue.action != WatchdogAction::Alert;
    if report.pfc_wd.iter().any(ignores) {
        let cause = format!("{} goes on sending after XOFF, as its watchdog has it", port.peer);
        (cause, "watch ports to hosts only, or let a storm pass: raise detection_time".to_owned())
    } else if config.buffer.pools.values().any(|pool| pool.xoff.is_some()) {
        let cause = "the shared headroom pool is full".to_owned();
        (cause, "raise switch.buffer.pools.ingress.xoff".to_owned())
    } else if config.pfc.quanta > 0 && config.pfc.refresh.is_some_and(|every| every >= pause) {
        let cause = format!("its pauses expire after {pause}, before they are repeated");
        (cause, "leave out switch.pfc.refresh, or raise switch.pfc.quanta".to_owned())
    } else if config.pfc.headroom == Headroom::Auto {
        // enough for a device that obeys
        let cause = format!("{} goes on sending after XOFF (headroom {headroom})", port.peer);
        let remedy = "let it obey PFC for this class: nic.qos.dscp_to_priority, nic.pfc.priorities";
        (cause, remedy.to_owned())
    } else {
        let cause = format!("its headroom ({headroom}) is too small for what arrives after XOFF");
        (cause, "set switch.pfc.headroom = \"auto\"".to_owned())
    }
}

fn failed_flows(report: &Report) -> Option<Finding> {
    let count = |status| report.flows.iter().filter(|flow| flow.status == status).count();
    let unfinished = count(FlowStatus::Unfinished);
    // also those that carry CTS messages, which are no flows
    let exceeded = |nic: &NicReport| nic.counters.get("req_transport_retries_exceeded").copied();
    let failed = report.nics.iter().filter_map(exceeded).sum::<u64>();
    // a flow that has no start waits for one that did not finish
    let waiting = report.flows.iter().filter(|flow| flow.start_s.is_none()).count();
    let never = match waiting {
        0 => String::new(),
        waiting => format!("; {waiting} that wait for others never start"),
    };
    let evidence = [("qp_error", json!(failed)), ("unfinished", json!(unfinished))];
    if failed > 0 {
        let text = format!("{failed} QPs are in error: transport retry counter exceeded{never}");
        let remedy = "find out why packets are lost (see drops), then raise nic.transport.timeout \
                      (nccl.IB_TIMEOUT of collectives)";
        let remedy = Some(remedy.to_owned());
        return Some(finding("qp_error", Severity::Error, text, evidence, remedy));
    }
    let severity = match report.outcome {
        OutcomeKind::TimeLimit => Some(Severity::Warning),
        OutcomeKind::Completed => Some(Severity::Info),
        _ => None,
    };
    if let Some(severity) = severity.filter(|_| unfinished > 0) {
        let text = format!("{unfinished} flows were not finished when the time was up");
        return Some(finding("unfinished", severity, text, evidence, None));
    }
    if unfinished > 0 && report.outcome == OutcomeKind::Stalled {
        let text = format!(
            "{unfinished} flows can never finish: their last packets or ACKs were lost and no \
             retransmission timer runs"
        );
        let remedy = Some(
            "set nic.transport.timeout (nccl.IB_TIMEOUT of collectives) to 1 or more".to_owned(),
        );
        return Some(finding("stalled", Severity::Error, text, evidence, remedy));
    }
    None
}

fn lossy_drops(report: &Report, plan: &Plan) -> Option<Finding> {
    let totals = &report.totals;
    let tcp = plan.wiring.qps.iter().any(QpInfo::is_tcp);
    // losses are how TCP finds its rate
    if tcp && totals.retransmitted_packets + totals.nak_sent + totals.timeouts == 0 {
        return None;
    }
    let reasons = ["ingress_lossy_limit", "egress_lossy_limit"];
    let of = |port: &PortReport| {
        reasons.iter().map(|reason| port.drops.get(*reason).unwrap_or(&0)).sum::<u64>()
    };
    let total: u64 = report.ports.iter().map(of).sum();
    let (port, count) = worst(report, of)?;
    let text = format!(
        "{total} frames{} were dropped in lossy classes, {count} of them at {}: RoCE is \
         retransmitted from the gap on ({} packets were sent again)",
        if tcp { ", also TCP's," } else { "" },
        port.port,
        totals.retransmitted_packets
    );
    let evidence = [("drops", json!(total)), ("port", json!(port.port))];
    let remedy = "map the DSCP of RoCE to a PFC priority on NICs and switches \
                  (nic.qos.dscp_to_priority, switch.qos.dscp_to_tc, pfc.priorities)";
    Some(finding("lossy_drops", Severity::Warning, text, evidence, Some(remedy.to_owned())))
}

/// Frames lost on cables.
fn lossy_links(report: &Report) -> Option<Finding> {
    let lost = |port: &PortReport| *port.drops.get("corrupt").unwrap_or(&0);
    let total: u64 = report.ports.iter().map(lost).sum();
    let (port, count) = worst(report, lost)?;
    let text = format!(
        "{total} frames were lost or corrupted on links, {count} of them into {}: go-back-N sent {} \
         packets again, after {} NAKs and {} time-outs",
        port.port,
        report.totals.retransmitted_packets,
        report.totals.nak_sent,
        report.totals.timeouts
    );
    let evidence = [("corrupt", json!(total)), ("port", json!(port.port))];
    let remedy = Some("replace the cable or the transceiver".to_owned());
    Some(finding("link_loss", Severity::Warning, text, evidence, remedy))
}

/// Time-outs although nothing was lost.
fn late_acks(report: &Report) -> Option<Finding> {
    let timeouts = report.totals.timeouts;
    if timeouts == 0 || !report.totals.drops.is_empty() || report.outcome == OutcomeKind::Deadlock {
        return None;
    }
    let text = format!("{timeouts} time-outs although no frame was lost: ACKs come too late");
    let remedy =
        "raise nic.transport.timeout (nccl.IB_TIMEOUT of collectives) above the longest pause and queueing delay".to_owned();
    let evidence = [("timeouts", json!(timeouts))];
    Some(finding("late_acks", Severity::Warning, text, evidence, Some(remedy)))
}

/// PFC acts where ECN should have acted before it.
fn ecn_after_pfc(report: &Report, plan: &Plan) -> Option<Finding> {
    let totals = &report.totals;
    if totals.pfc_xoff_frames == 0 || totals.ecn_marked_packets > 0 || !dcqcn_is_on(plan) {
        return None;
    }
    let configured = plan.spec.switch_ports.iter().flatten().any(|port| !port.ecn.is_empty());
    let (port, pauses) = worst(report, |port| port.tx_pause_frames)?;
    let deepest = report.ports.iter().map(|port| port.max_queue_bytes).max().unwrap_or(0);
    let (why, remedy) = if configured {
        let why = format!("no queue passed kmin; the deepest was {}", Bytes::new(deepest));
        (why, format!("lower switch.ecn.N.kmin well below {}", Bytes::new(deepest)))
    } else {
        let remedy = "set kmin, kmax and pmax under [switch.ecn.3]".to_owned();
        ("no queue has ECN thresholds".to_owned(), remedy)
    };
    let text = format!(
        "ECN never marks before PFC: {} XOFF frames ({pauses} by {}), no packet marked; {why}",
        totals.pfc_xoff_frames, port.port
    );
    let evidence = [
        ("pfc_xoff_frames", json!(totals.pfc_xoff_frames)),
        ("ecn_marked_packets", json!(0)),
        ("max_queue_bytes", json!(deepest)),
    ];
    Some(finding("ecn_after_pfc", Severity::Warning, text, evidence, Some(remedy)))
}

/// A NIC that sends PFC because it drains too slowly.
fn receiver_limited(report: &Report, plan: &Plan) -> Option<Finding> {
    // a NIC that was told to pause others does not drain slower
    let is_nic = |port: &PortReport| {
        port.port.contains("/nic") && storms::of_nic(plan, &port.port).is_none()
    };
    let sent = |port: &PortReport| if is_nic(port) { port.tx_pause_frames } else { 0 };
    let (port, pauses) = worst(report, sent)?;
    let received = port.rx_bytes as f64 * 8.0 / report.simulated_time_s.max(1e-12);
    let share = received / port.rate_bps as f64;
    let text = format!(
        "{} is the limit: it sent {pauses} XOFF frames because it drains slower than its link \
         ({:.0} % of the link was received)",
        port.port,
        share * 100.0
    );
    let evidence = [
        ("port", json!(port.port)),
        ("tx_pause_frames", json!(pauses)),
        ("rx_bps", json!(received)),
    ];
    let remedy = "look at PCIe width and speed, and at the memory that the NIC writes to \
                  (nic.receive.rate)";
    let remedy = Some(remedy.to_owned());
    Some(finding("receiver_limited", Severity::Warning, text, evidence, remedy))
}

/// Equal-cost links that carry very different loads because flows collide.
fn ecmp_imbalance(report: &Report, plan: &Plan) -> Option<Finding> {
    let wiring = &plan.wiring;
    let flows = FlowsByPort::new(plan);
    let mut targets: Vec<u32> = wiring.qps.iter().map(|qp| qp.target_address).collect();
    targets.sort_unstable();
    targets.dedup();
    let choices = wiring.routes.choices(&targets);
    let mut worst: Option<(f64, usize, f64, usize)> = None;
    for switch in wiring.topology.switches() {
        for group in uplink_groups(plan, switch, &choices) {
            let bytes: Vec<f64> = group.iter().map(|p| report.ports[*p].tx_bytes as f64).collect();
            let mean = stats::mean(&bytes);
            for (port, bytes) in group.iter().zip(&bytes) {
                // one flow alone on a link is nobody's fault
                let ratio =
                    if mean > 0.0 && flows.of(*port).len() > 1 { bytes / mean } else { 1.0 };
                if worst.is_none_or(|(most, ..)| ratio > most) {
                    worst = Some((ratio, *port, mean, group.len()));
                }
            }
        }
    }
    let (ratio, hottest, mean, links) = worst?;
    // a link matters only if it was busy
    let port = &report.ports[hottest];
    let busy = port.tx_bytes as f64 * 8.0 / port.rate_bps as f64 / report.simulated_time_s;
    if ratio < 1.3 || busy < 0.25 {
        return None;
    }
    let on_it = flows.of(hottest);
    let names: Vec<String> = on_it.iter().take(4).map(|qp| flow_name(plan, *qp as usize)).collect();
    let more = if on_it.len() > 4 { ", ..." } else { "" };
    let text = format!(
        "ECMP is uneven: {} carries {ratio:.1} times the mean of its {links} equal links ({} of {} \
         flows: {}{more})",
        port.port,
        on_it.len(),
        report.flows.len(),
        names.join(", ")
    );
    let evidence = [
        ("port", json!(port.port)),
        ("max_over_mean", json!(ratio)),
        ("mean_tx_bytes", json!(mean)),
        ("flows", json!(on_it)),
    ];
    let remedy = "give the hash more flows: more QPs per connection with different source ports";
    let remedy = Some(remedy.to_owned());
    Some(finding("ecmp_imbalance", Severity::Warning, text, evidence, remedy))
}

/// ECN thresholds that are usual at a rate: 8 us and 32 us of queue.
fn usual_ecn(bps: u64) -> [Bytes; 2] {
    [bps / 1_000_000, bps / 250_000].map(Bytes::new)
}

/// `flow 3`, or for a QP of a collective `channel 0 host1 -> host2`.
fn flow_name(plan: &Plan, qp: usize) -> String {
    let info = &plan.wiring.qps[qp];
    let Role::Data { job, connection } = info.role else { return format!("flow {qp}") };
    let joined = &plan.wiring.jobs[job as usize].connections[connection as usize];
    let name = |node: u32| &plan.wiring.topology.node(NodeId(node)).name;
    format!("channel {} {} -> {}", joined.channel, name(info.source), name(info.target))
}

/// Sets of ports among which a switch chooses by hash.
fn uplink_groups(plan: &Plan, switch: NodeId, choices: &Choices<'_>) -> Vec<Vec<usize>> {
    let Some(first) = plan.wiring.topology.ports_of(switch).next() else { return Vec::new() };
    let port = |hop: &u16| first.index() + usize::from(*hop);
    choices.of(switch).into_iter().map(|hops| hops.iter().map(port).collect()).collect()
}

/// The flows whose data passes each port.
struct FlowsByPort {
    /// By port: where its flows end in `flows`.
    ends: Vec<u32>,
    flows: Vec<u32>,
}

impl FlowsByPort {
    fn new(plan: &Plan) -> Self {
        let qps = plan.wiring.data_qps as usize;
        let (mut passed, mut after) = (Vec::new(), Vec::with_capacity(qps));
        let mut ends = vec![0; plan.wiring.wires.len()];
        for qp in 0..qps {
            let path = plan.path(qp);
            path.iter().for_each(|port| ends[*port as usize] += 1);
            passed.extend(path);
            after.push(passed.len());
        }
        let mut sum = 0;
        for end in &mut ends {
            // its beginning, until its flows are there
            (*end, sum) = (sum, sum + *end);
        }
        let mut flows = vec![0; passed.len()];
        let mut before = 0;
        for (qp, after) in (0..).zip(after) {
            for port in &passed[before..after] {
                let end = &mut ends[*port as usize];
                flows[*end as usize] = qp;
                *end += 1;
            }
            before = after;
        }
        FlowsByPort { ends, flows }
    }

    /// The flows of a port, by number.
    fn of(&self, port: usize) -> &[u32] {
        let from = port.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.flows[from as usize..self.ends[port] as usize]
    }
}

/// Sampling ended before the run did.
fn truncated_samples(plan: &Plan, outcome: &Outcome) -> Option<Finding> {
    let (taken, most) = (outcome.samples(), plan.wiring.samples_max());
    if taken < most {
        return None;
    }
    let text = format!("only the first {taken} samples were kept");
    let remedy = "raise sample.interval, or name fewer ports under sample.ports".to_owned();
    let evidence = [("samples", json!(taken))];
    Some(finding("truncated_samples", Severity::Info, text, evidence, Some(remedy)))
}

/// Several flows end at one port that is busy all the time: no setting of the fabric helps.
fn incast(report: &Report, plan: &Plan) -> Option<Finding> {
    let wiring = &plan.wiring;
    let target = |flow: &u32| wiring.qps[*flow as usize].target;
    let mut flows: Vec<u32> = (0..report.flows.len() as u32).collect();
    flows.sort_by_key(target);
    let gap = f64::from(wiring.frames.gap);
    let busy = |flows: &[u32]| {
        let mut sources: Vec<u32> =
            flows.iter().map(|flow| wiring.qps[*flow as usize].source).collect();
        sources.sort_unstable();
        sources.dedup();
        if sources.len() < 2 {
            return None;
        }
        // the first of the ports that lead to the target
        let ports = wiring.topology.ports_of(NodeId(target(&flows[0])));
        let into = ports.map(|port| wiring.topology.port(port).peer).min()?;
        let into = &report.ports[into.index()];
        let flows = flows.iter().map(|flow| &report.flows[*flow as usize]);
        let starts = || flows.clone().filter_map(|flow| Some((flow.start_s?, flow)));
        let first = starts().map(|(start, _)| start).fold(f64::INFINITY, f64::min);
        let last = starts().map(|(start, flow)| start + flow.fct_s.unwrap_or(f64::INFINITY));
        let last = last.fold(0.0, f64::max).min(report.simulated_time_s);
        let span = (last - first).max(0.0);
        let wire_bytes = into.tx_bytes as f64 + into.tx_packets as f64 * gap;
        let share = wire_bytes * 8.0 / into.rate_bps as f64 / span.max(1e-12);
        Some((share.min(1.0), into, sources.len(), span))
    };
    let by_target = flows.chunk_by(|a, b| target(a) == target(b));
    // of equals the last by name
    let name = |flows: &[u32]| wiring.topology.node(NodeId(target(&flows[0]))).name.as_str();
    let found = by_target.filter_map(|flows| Some((busy(flows)?, name(flows))));
    let busiest = found.max_by(|(a, an), (b, bn)| a.0.total_cmp(&b.0).then(an.cmp(bn)));
    let ((share, into, senders, span), _) = busiest.filter(|((share, ..), _)| *share > 0.9)?;
    let text = format!(
        "the receiver's link is the limit: {senders} senders share {} ({:.0} % busy for {})",
        into.port,
        share * 100.0,
        Delta::from_ps((span * 1e12) as u64)
    );
    let evidence =
        [("port", json!(into.port)), ("senders", json!(senders)), ("utilisation", json!(share))];
    Some(finding("receiver_link_full", Severity::Info, text, evidence, None))
}
