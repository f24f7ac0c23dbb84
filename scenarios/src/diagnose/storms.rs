//! Pause storms: what PFC watchdogs found, and NICs whose fault the scenario set.

use models::fabric::Plan;
use models::nic::PauseStormConfig;
use models::report::{Finding, PortReport, Report, Severity, StormReport, WatchdogReport};
use models::switch::WatchdogAction;
use serde_json::json;
use sim_core::{Delta, Time};

use super::finding;

/// A finding for each queue that was stormed, and for each NIC with a storm that none was found of.
pub(super) fn findings(report: &Report, plan: &Plan) -> Vec<Finding> {
    let found = report.pfc_wd.iter().take(LISTED).map(|queue| stormed(queue, report.pfc_wd.len()));
    let mut findings: Vec<Finding> = found.collect();
    if plan.spec.nics.iter().flatten().all(|nic| nic.pause_storm.is_none()) {
        return findings;
    }
    let unseen = report.ports.iter().filter(|port| {
        report.pfc_wd.iter().all(|queue| queue.peer != port.port) && port.tx_pause_frames > 0
    });
    let unwatched =
        |port: &PortReport| of_nic(plan, &port.port).map(|storm| unwatched(report, port, &storm));
    findings.extend(unseen.filter_map(unwatched).take(LISTED));
    findings
}

/// Queues that have a finding of their own.
const LISTED: usize = 4;

/// The storm that the scenario gives a NIC.
pub(super) fn of_nic(plan: &Plan, port: &str) -> Option<PauseStormConfig> {
    let topology = &plan.wiring.topology;
    let node = topology.port(topology.find_port(port)?).node;
    plan.spec.nics[node.index()].as_deref()?.pause_storm
}

pub(super) fn time(seconds: f64) -> String {
    Delta::from_ps((seconds * 1e12).round() as u64).to_string()
}

fn when(storm: &StormReport) -> String {
    let to = storm.restored_s.map_or_else(|| "the end".to_owned(), time);
    format!("{} to {to}", time(storm.detected_s))
}

fn stormed(queue: &WatchdogReport, queues: usize) -> Finding {
    let WatchdogReport { port, peer, priority, action, storm_detected, total, .. } = queue;
    let times: Vec<String> = queue.storms.iter().take(3).map(when).collect();
    let more = if queue.storms.len() > 3 { ", ..." } else { "" };
    let did = match action {
        WatchdogAction::Drop => {
            format!("it dropped {} frames for {peer} and {} from it", total.tx_drop, total.rx_drop)
        }
        WatchdogAction::Forward => {
            format!("it ignored the pauses and sent {} frames to {peer}", total.tx_ok)
        }
        WatchdogAction::Alert => "it did nothing about it (action = \"alert\")".to_owned(),
    };
    let among = match queues {
        ..=LISTED => String::new(),
        queues => format!(" (one of {queues} queues)"),
    };
    let text = format!(
        "PFC storm: {peer} paused priority {priority} of {port} for so long that the watchdog found \
         {storm_detected} storms{among}, {}{more}; {did}",
        times.join(", ")
    );
    let evidence = [
        ("port", json!(port)),
        ("priority", json!(priority)),
        ("storm_detected", json!(storm_detected)),
        ("storm_restored", json!(queue.storm_restored)),
        ("tx_drop", json!(total.tx_drop)),
        ("rx_drop", json!(total.rx_drop)),
    ];
    let remedy = (*action == WatchdogAction::Alert)
        .then(|| "let the watchdog act: switch.pfc_wd.action = \"drop\"".to_owned());
    finding("pfc_storm", Severity::Warning, text, evidence, remedy)
}

fn unwatched(report: &Report, port: &PortReport, storm: &PauseStormConfig) -> Finding {
    let end = report.simulated_time_s;
    let until = (Time::ZERO + storm.until).as_secs().min(end);
    let stopped =
        report.ports.iter().filter(|other| other.paused_s > 0.0 && other.port != port.port).count();
    let text = format!(
        "PFC storm: {} holds XOFF of priority {} from {} to {} (nic.pause_storm), and no watchdog \
         frees the fabric: {stopped} ports were paused",
        port.port,
        storm.priority,
        storm.from,
        time(until)
    );
    let evidence = [
        ("port", json!(port.port)),
        ("priority", json!(storm.priority)),
        ("tx_pause_frames", json!(port.tx_pause_frames)),
        ("ports_paused", json!(stopped)),
    ];
    let remedy =
        "a PFC watchdog that finds it: [switch.pfc_wd], with times below that of the storm";
    finding("pfc_storm", Severity::Warning, text, evidence, Some(remedy.to_owned()))
}
