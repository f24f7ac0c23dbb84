//! What a run shows to be wrong, in plain words, each with its evidence and the setting to change.

mod classes;
mod collective;
mod faults;
mod hashing;
mod headroom;
mod idle;
mod limits;
mod pauses;
mod rank;
mod recovery;
mod sharing;
mod storms;
mod transport;
mod trial;
mod uplinks;

use std::collections::BTreeMap;
use std::sync::Arc;

use models::fabric::{Outcome, Plan, Role};
use models::ids::NodeId;
use models::nic::{NicConfig, Recovery};
use models::report::{
    Finding, FlowStatus, OutcomeKind, Pauses, PortReport, Report, Severity, WatchdogReport,
};
use models::switch::WatchdogAction;
use serde_json::{Value, json};
use sim_core::{Bytes, Delta};

pub use collective::ceiling;
pub use trial::try_remedies;

/// The kinds of findings.
pub const KINDS: [&str; 42] = [
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
    "sockets",
    "algorithm_forced",
    "pcie_limited",
    "few_channels",
    "nvlink_limited",
    "bond_imbalance",
    "paused_by_others",
    "dcqcn_throttling",
    "idle_headroom",
    "pause_victims",
    "job_paused_by_other",
    "link_down",
    "degraded_link",
    "slow_receiver",
    "packet_rate_limited",
    "step_limited",
    "window_limited",
    "uplinks_full",
    "cnp_ignored",
    "idle_ports",
    "mixed_congestion_control",
    "dcqcn_overrun",
    "tcp_in_lossless_class",
    "slow_recovery",
    "sprayed_out_of_order",
];

/// All findings, the worst first.
pub fn findings(report: &Report, plan: &Plan, outcome: &Outcome, pauses: &Pauses) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(deadlock(report));
    findings.extend(lossless_drops(report, plan));
    findings.extend(failed_flows(report, plan, outcome));
    findings.extend(faults::findings(report, plan, outcome));
    findings.extend(classes::lossy_drops(report, plan));
    findings.extend(lossy_links(report));
    findings.extend(faults::by_rule(report, plan));
    findings.extend(late_acks(report));
    findings.extend(classes::ecn_after_pfc(report, plan));
    findings.extend(classes::cnp_ignored(report, plan));
    findings.extend(classes::tcp_in_lossless_class(report, plan));
    findings.extend(storms::findings(report, plan));
    findings.extend(headroom::idle_headroom(report, plan));
    findings.extend(receiver_limited(report, plan));
    let flows = FlowsByPort::new(plan);
    let uneven = hashing::ecmp_imbalance(report, plan, &flows);
    let even = uneven.is_none();
    findings.extend(uneven);
    findings.extend(incast(report, plan));
    findings.extend(sharing::findings(report, plan, &flows));
    findings.extend(sprayed_out_of_order(report, plan));
    findings.extend(recovery::slow_recovery(report, plan, &flows));
    findings.extend(limits::windows(report, plan));
    findings.extend(idle::idle_ports(report, plan));
    findings.extend(truncated_samples(plan, outcome));
    findings.extend(collective::findings(report, plan, &flows, even));
    findings.extend(pauses::findings(report, plan, pauses, &findings));
    rank::rank(&mut findings, report);
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
    let first = &report.deadlocks[0];
    let chain: Vec<&str> =
        first.chain.iter().chain(first.chain.first()).map(String::as_str).collect();
    let state = match first.time_s < report.simulated_time_s {
        true => format!("was found deadlocked at {}", storms::time(first.time_s)),
        false => "is deadlocked".to_owned(),
    };
    let closed = first.closed_s.map(|at| format!("closed at {}: ", storms::time(at)));
    let text = format!(
        "the fabric {state}; {}{}; {} stuck at {} ports",
        closed.unwrap_or_default(),
        chain.join(" waits for "),
        Bytes::new(stuck),
        report.deadlocks.iter().map(|deadlock| deadlock.cycle.len()).sum::<usize>()
    );
    let evidence = [
        ("cycles", json!(report.deadlocks.len())),
        ("bytes_stuck", json!(stuck)),
        ("closed_s", json!(first.closed_s)),
    ];
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
    let index = usize::from(wire.index);
    let headroom = Bytes::new(buffer.headroom[index]);
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
    } else if headroom.get() >= buffer.headroom_needed[index] {
        // enough for a device that obeys
        let cause = format!("{} goes on sending after XOFF (headroom {headroom})", port.peer);
        let remedy = "let it obey PFC for this class: nic.qos.dscp_to_priority, nic.pfc.priorities";
        (cause, remedy.to_owned())
    } else {
        let cause = format!("its headroom ({headroom}) is too small for what arrives after XOFF");
        (cause, "set switch.pfc.headroom = \"auto\"".to_owned())
    }
}

fn failed_flows(report: &Report, plan: &Plan, outcome: &Outcome) -> Option<Finding> {
    let count = |status| report.flows.iter().filter(|flow| flow.status == status).count();
    let unfinished = count(FlowStatus::Unfinished);
    // a flow that has no start waits for one that did not finish
    let waiting = report.flows.iter().filter(|flow| flow.start_s.is_none()).count();
    let never = match waiting {
        0 => String::new(),
        waiting => format!("; {waiting} that wait for others never start"),
    };
    if let Some(found) = faults::retries_exceeded(report, plan, outcome, &never) {
        return Some(found);
    }
    let evidence = [("unfinished", json!(unfinished))];
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

/// Packets take different ways, and receivers throw away what comes early.
fn sprayed_out_of_order(report: &Report, plan: &Plan) -> Option<Finding> {
    let totals = &report.totals;
    if totals.reordered_packets == 0 || totals.nak_sent == 0 {
        return None;
    }
    let mut nics = plan.spec.nics.iter().flatten();
    if nics.all(|nic| nic.transport.ooo_data_placement) {
        return None;
    }
    let repeats = |nic: &Arc<NicConfig>| nic.transport.recovery == Recovery::SelectiveRepeat;
    let selective = plan.spec.nics.iter().flatten().any(repeats);
    if selective && totals.retransmitted_packets == 0 {
        return None;
    }
    let why = match selective {
        true => "NICs take what comes early for a sign of loss: selective repeat",
        false => "NICs take none out of order: go-back-N",
    };
    let text = format!(
        "switches spread packets over equal links, so that {} came after a later one, and {why} sent \
         {} packets again after {} NAKs",
        totals.reordered_packets, totals.retransmitted_packets, totals.nak_sent
    );
    let evidence = [
        ("reordered_packets", json!(totals.reordered_packets)),
        ("nak_sent", json!(totals.nak_sent)),
        ("retransmitted_packets", json!(totals.retransmitted_packets)),
    ];
    let (remedy, set) = match selective {
        true => (
            "let packets come early by more (nic.transport.selective.reordering), or hash: \
             switch.load_balance = ecmp",
            "nic.transport.selective.reordering=64",
        ),
        false => (
            "let NICs place data out of order (nic.transport.ooo_data_placement), or hash: \
             switch.load_balance = ecmp",
            "nic.transport.ooo_data_placement=true",
        ),
    };
    let remedy = Some(remedy.to_owned());
    let mut found = finding("sprayed_out_of_order", Severity::Warning, text, evidence, remedy);
    found.set = vec![set.to_owned()];
    Some(found)
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

/// A NIC that sends PFC because it drains too slowly.
fn receiver_limited(report: &Report, plan: &Plan) -> Option<Finding> {
    // a NIC that was told to pause others, or to drain slower, has a finding of its own
    let is_nic = |port: &PortReport| {
        port.port.contains("/nic")
            && storms::of_nic(plan, &port.port).is_none()
            && !faults::slows(plan, &port.port)
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
            let path = plan.ports_of(qp);
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
