//! Classes that are not what they should be: lossy where they were lossless, without thresholds, or
//! without congestion control.

use std::collections::BTreeSet;

use models::congestion::CongestionConfig;
use models::fabric::{Plan, QpInfo};
use models::ids::NodeId;
use models::report::{Finding, PortReport, Report, Severity};
use models::switch::{Classifier, SwitchConfig};
use serde_json::json;
use sim_core::Bytes;

use super::{finding, worst};
use crate::check::dcqcn_is_on;

/// Frames dropped where nothing pauses their sender.
pub(super) fn lossy_drops(report: &Report, plan: &Plan) -> Option<Finding> {
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
    let lost = lost_class(plan, port);
    let text = format!(
        "{total} frames{} were dropped in lossy classes, {count} of them at {}: RoCE is \
         retransmitted from the gap on ({} packets were sent again){}",
        if tcp { ", also TCP's," } else { "" },
        port.port,
        totals.retransmitted_packets,
        lost.as_ref().map_or(String::new(), |(why, _)| format!("; {why}"))
    );
    let evidence = [("drops", json!(total)), ("port", json!(port.port))];
    let remedy = lost.map_or_else(
        || {
            "map the DSCP of RoCE to a PFC priority on NICs and switches \
             (nic.qos.dscp_to_priority, switch.qos.dscp_to_tc, pfc.priorities)"
                .to_owned()
        },
        |(_, remedy)| remedy,
    );
    Some(finding("lossy_drops", Severity::Warning, text, evidence, Some(remedy)))
}

/// Where data loses the protection of PFC on its way to a port that drops it: in words, and what to
/// correct.
fn lost_class(plan: &Plan, port: &PortReport) -> Option<(String, String)> {
    let node = plan.wiring.topology.find(&port.node)?;
    let qps = plan.wiring.qps[..plan.wiring.data_qps as usize].iter().enumerate();
    let mut seen = BTreeSet::new();
    for (number, qp) in qps.filter(|(_, qp)| !qp.is_tcp()) {
        // QPs of one port and class go the same way as far as classes go
        if !seen.insert((qp.source_port, qp.dscp, qp.target)) {
            continue;
        }
        let path = plan.path(number);
        let arrives = |port: &u32| {
            let peer = plan.wiring.wires[*port as usize].peer;
            plan.wiring.wires[peer as usize].node == node.0
        };
        let Some(hop) = path.iter().position(arrives) else { continue };
        if let Some(found) = tagged(plan, qp).or_else(|| mapped(plan, qp, &path[..=hop])) {
            return Some(found);
        }
    }
    None
}

/// A NIC that gives a DSCP a priority without PFC where other NICs give it one with.
fn tagged(plan: &Plan, qp: &QpInfo) -> Option<(String, String)> {
    let nics = &plan.spec.nics;
    let nic = nics[qp.source as usize].as_deref()?;
    let (dscp, priority) = (qp.dscp, nic.qos.priority(qp.dscp));
    if nic.pfc.priorities.contains(&priority) {
        return None;
    }
    let other = nics.iter().enumerate().find_map(|(host, other)| {
        let other = other.as_deref()?;
        let usual = other.qos.priority(dscp);
        other.pfc.priorities.contains(&usual).then_some((host as u32, usual))
    });
    let (other, usual) = other?;
    let [name, other] =
        [qp.source, other].map(|host| plan.wiring.topology.node(NodeId(host)).name.as_str());
    let why = format!(
        "{name} sends DSCP {dscp} with priority {priority}, which PFC does not protect, {other} with \
         priority {usual}"
    );
    let remedy =
        format!("nic.qos.dscp_to_priority.{dscp} = {usual} on {name} (mlnx_qos --dscp2prio)");
    Some((why, remedy))
}

/// A switch that puts a DSCP into a class without PFC, although the device before it protects it.
/// `path` ends with the port that leads to the switch.
fn mapped(plan: &Plan, qp: &QpInfo, path: &[u32]) -> Option<(String, String)> {
    let wiring = &plan.wiring;
    let nic = plan.spec.nics[qp.source as usize].as_deref()?;
    let (dscp, priority) = (qp.dscp, nic.qos.priority(qp.dscp));
    let mut before = nic.pfc.priorities.contains(&priority).then_some((qp.source, priority));
    for port in path {
        let peer = &wiring.wires[wiring.wires[*port as usize].peer as usize];
        let config =
            plan.spec.switch_ports[wiring.wires[*port as usize].peer as usize].as_deref()?;
        // frames that turn have another DSCP from there on
        if config.qos.bounce.is_some() {
            return None;
        }
        let (_, group) = Classifier::new(&config.qos).place(dscp, priority);
        if config.pfc.priorities.contains(&group) {
            before = Some((peer.node, group));
            continue;
        }
        let (from, class) = before?;
        let [here, there] =
            [peer.node, from].map(|node| wiring.topology.node(NodeId(node)).name.as_str());
        let why = format!(
            "{here} has DSCP {dscp} in class {group}, which PFC does not protect, {there} before it in \
             class {class}"
        );
        return Some((why, format!("{} on {here}, as elsewhere", key(config, dscp, class))));
    }
    None
}

/// The assignment that gives frames the class `class`.
fn key(config: &SwitchConfig, dscp: u8, class: u8) -> String {
    match config.qos.trust {
        models::switch::Trust::Dscp => format!("switch.qos.dscp_to_tc.{dscp} = {class}"),
        models::switch::Trust::Pcp => format!("switch.qos.pcp_to_tc.{class} = {class}"),
    }
}

/// TCP in a class where PFC keeps it from losing anything: nothing tells it to slow down.
pub(super) fn tcp_in_lossless_class(report: &Report, plan: &Plan) -> Option<Finding> {
    if report.totals.pfc_xoff_frames == 0 {
        return None;
    }
    let is_lossless = |qp: &QpInfo| {
        let peer = plan.wiring.wires[qp.source_port as usize].peer as usize;
        let (nic, switch) =
            (plan.spec.nics[qp.source as usize].as_deref(), &plan.spec.switch_ports[peer]);
        nic.zip(switch.as_deref()).is_some_and(|(nic, switch)| {
            let place = Classifier::new(&switch.qos).place(qp.dscp, nic.qos.priority(qp.dscp));
            switch.pfc.priorities.contains(&place.1)
        })
    };
    let found: Vec<usize> = (0..plan.wiring.qps.len())
        .filter(|qp| plan.wiring.qps[*qp].is_tcp() && is_lossless(&plan.wiring.qps[*qp]))
        .collect();
    let qp = &plan.wiring.qps[*found.first()?];
    let goodput: f64 = found.iter().map(|qp| report.flows[*qp].goodput_bps).sum();
    let text = format!(
        "{} TCP flows are in a lossless class (DSCP {}): they lose nothing and hear no CNP, so that \
         their windows fill its queues; PFC stops all that share them ({} XOFF frames)",
        found.len(),
        qp.dscp,
        report.totals.pfc_xoff_frames
    );
    let evidence = [
        ("flows", json!(found.len())),
        ("dscp", json!(qp.dscp)),
        ("tcp_goodput_bps", json!(goodput)),
        ("pfc_xoff_frames", json!(report.totals.pfc_xoff_frames)),
    ];
    let remedy = "give TCP a DSCP of a lossy class (nic.tcp.dscp = 0), and RoCE its share of the \
                  scheduler (switch.scheduler.weights)";
    let (kind, remedy) = ("tcp_in_lossless_class", Some(remedy.to_owned()));
    Some(finding(kind, Severity::Warning, text, evidence, remedy))
}

/// PFC acts where ECN should have acted before it.
pub(super) fn ecn_after_pfc(report: &Report, plan: &Plan) -> Option<Finding> {
    let totals = &report.totals;
    if totals.pfc_xoff_frames == 0 || totals.ecn_marked_packets > 0 || !dcqcn_is_on(plan) {
        return None;
    }
    let configured = plan.spec.switch_ports.iter().flatten().any(|port| !port.ecn.is_empty());
    let (port, pauses) = worst(report, |port| port.tx_pause_frames)?;
    let deepest = report.ports.iter().map(|port| port.max_queue_bytes).max().unwrap_or(0);
    let other = on_another_queue(report, plan);
    let mut set = Vec::new();
    let (why, remedy) = if let Some((why, remedy, assignment)) = other {
        set.push(assignment);
        (why, remedy)
    } else if configured {
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
    let mut found = finding("ecn_after_pfc", Severity::Warning, text, evidence, Some(remedy));
    found.set = set;
    Some(found)
}

/// Thresholds that are set, but not at the deepest of the queues that PFC protects: why, the remedy,
/// and its assignment.
fn on_another_queue(report: &Report, plan: &Plan) -> Option<(String, String, String)> {
    let ports = report.ports.iter().zip(&plan.spec.switch_ports);
    let lossless = ports.filter_map(|(port, config)| Some((port, config.as_deref()?)));
    let queues = lossless.flat_map(|(port, config)| {
        let paused = |queue: &u8| config.pfc.priorities.contains(queue);
        port.priorities
            .iter()
            .filter(move |queue| paused(&queue.priority))
            .map(move |queue| (queue.max_queue_bytes, queue.priority, port, config))
    });
    let (deepest, queue, port, config) = queues.max_by_key(|(deepest, ..)| *deepest)?;
    if config.ecn.contains_key(&queue) {
        return None;
    }
    let (_, wred) = config.ecn.first_key_value()?;
    let set: Vec<String> = config.ecn.keys().map(u8::to_string).collect();
    let why = format!(
        "thresholds are at queue {}, data is in queue {queue} (up to {} at {})",
        set.join(", "),
        Bytes::new(deepest),
        port.port
    );
    let remedy = format!(
        "set thresholds at queue {queue}: switch.ecn.{queue} with kmin = {}, kmax = {}, pmax = {} (and \
         WRED enabled there)",
        wred.kmin, wred.kmax, wred.pmax
    );
    let assignment = format!(
        "switch.ecn.{queue}={{ kmin = \"{}\", kmax = \"{}\", pmax = {:?} }}",
        wred.kmin, wred.kmax, wred.pmax
    );
    Some((why, remedy, assignment))
}

/// Notifications that come to NICs which do not react to them, and pauses for want of that.
pub(super) fn cnp_ignored(report: &Report, plan: &Plan) -> Option<Finding> {
    let count =
        |name: &str| -> u64 { report.nics.iter().filter_map(|nic| nic.counters.get(name)).sum() };
    let (ignored, handled) = (count("rp_cnp_ignored"), count("rp_cnp_handled"));
    let paused = report.totals.pfc_xoff_frames;
    if !dcqcn_is_on(plan) || paused == 0 || ignored as f64 <= 0.9 * (ignored + handled) as f64 {
        return None;
    }
    // data of NICs that run DCQCN, in priorities for which they do not
    let mut data: BTreeSet<u8> = BTreeSet::new();
    let mut runs: BTreeSet<u8> = BTreeSet::new();
    for qp in plan.wiring.qps[..plan.wiring.data_qps as usize].iter().filter(|qp| !qp.is_tcp()) {
        let Some(nic) = plan.spec.nics[qp.source as usize].as_deref() else { continue };
        let CongestionConfig::Dcqcn(dcqcn) = &nic.congestion else { continue };
        let priority = nic.qos.priority(qp.dscp);
        if !dcqcn.priorities.contains(&priority) {
            data.insert(priority);
            runs.extend(&dcqcn.priorities);
        }
    }
    let list = |priorities: &BTreeSet<u8>| {
        priorities.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
    };
    if data.is_empty() || runs.is_empty() {
        return None;
    }
    let text = format!(
        "congestion control does nothing: NICs ignored {ignored} of {} notifications, since data has \
         priority {} and DCQCN runs for {}; PFC alone holds senders back ({paused} XOFF frames)",
        ignored + handled,
        list(&data),
        list(&runs)
    );
    let evidence = [
        ("rp_cnp_ignored", json!(ignored)),
        ("rp_cnp_handled", json!(handled)),
        ("data_priorities", json!(data)),
        ("dcqcn_priorities", json!(runs)),
        ("pfc_xoff_frames", json!(paused)),
    ];
    let remedy = format!(
        "run DCQCN for priority {} on every NIC (roce_rp/enable, ROCE_CC_PRIO_MASK)",
        list(&data)
    );
    let mut found = finding("cnp_ignored", Severity::Warning, text, evidence, Some(remedy));
    found.set = vec![format!("nic.congestion.priorities=[{}]", list(&data))];
    Some(found)
}
