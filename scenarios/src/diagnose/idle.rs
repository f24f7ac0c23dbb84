//! Ports of a host that send nothing while others are full.

use std::collections::BTreeMap;

use models::fabric::{Plan, Role};
use models::ids::{NodeId, PortId};
use models::report::{Finding, Report, Severity};
use serde_json::json;

use super::finding;

/// A port is full if it is busy for this share of the time of its host's flows,
const FULL: f64 = 0.8;
/// and idle if it sends less than this share of what the fullest sends.
const IDLE: f64 = 0.01;

/// What a host sends.
#[derive(Default)]
struct Sender {
    qps: Vec<usize>,
    /// Of collectives.
    collective: Option<u32>,
}

/// A host with full and idle ports.
struct Found {
    host: NodeId,
    used: Vec<PortId>,
    idle: Vec<PortId>,
    busy: f64,
    flows: usize,
    collective: Option<u32>,
}

/// The host whose idle ports would help most.
pub(super) fn idle_ports(report: &Report, plan: &Plan) -> Option<Finding> {
    // ports that a fault stops are idle for that reason
    if !plan.spec.faults.is_empty() {
        return None;
    }
    let mut senders: BTreeMap<u32, Sender> = BTreeMap::new();
    for (qp, info) in plan.wiring.qps[..plan.wiring.data_qps as usize].iter().enumerate() {
        let sender = senders.entry(info.source).or_default();
        sender.qps.push(qp);
        if let Role::Data { job, .. } = info.role {
            sender.collective = Some(job);
        }
    }
    let found: Vec<Found> = senders
        .into_iter()
        .filter_map(|(host, sender)| host_of(report, plan, NodeId(host), &sender))
        .collect();
    // of equals the first
    let worst = found.iter().rev().max_by_key(|found| found.idle.len())?;
    let topology = &plan.wiring.topology;
    let names = |ports: &[PortId]| -> Vec<String> {
        ports.iter().map(|port| topology.port_name(*port)).collect()
    };
    let (used, idle) = (names(&worst.used), names(&worst.idle));
    let host = &topology.node(worst.host).name;
    let hca = plan.spec.nccl.ib_hca.as_deref();
    let (why, remedy, set) = match (worst.collective, hca) {
        (Some(_), Some(hca)) => {
            let why = format!("IB_HCA = {hca} leaves them out");
            (
                why,
                "leave IB_HCA out, or name all devices".to_owned(),
                vec!["nccl.IB_HCA=mlx5".to_owned()],
            )
        }
        _ => {
            let why = format!("its {} flows use no more", worst.flows);
            let remedy = "at least one flow for each port (`qps` of the traffic section), and slices of \
                          one transfer spread over all of them";
            (why, remedy.to_owned(), Vec::new())
        }
    };
    let more = match found.len() - 1 {
        0 => String::new(),
        1 => "; one more host is like that".to_owned(),
        others => format!("; {others} more hosts are like that"),
    };
    let text = format!(
        "{} of {} ports of {host} send nothing ({}), while {} is full ({:.0} % busy): {why}{more}",
        idle.len(),
        idle.len() + used.len(),
        idle.join(", "),
        used[0],
        worst.busy * 100.0
    );
    let evidence = [
        ("host", json!(host)),
        ("ports_used", json!(used)),
        ("ports_idle", json!(idle)),
        ("utilisation", json!(worst.busy)),
        ("hosts", json!(found.len())),
    ];
    let mut found = finding("idle_ports", Severity::Warning, text, evidence, Some(remedy));
    found.collective =
        worst.collective.filter(|job| hca.is_some() && plan.wiring.workload_of(*job).is_none());
    found.set = set;
    Some(found)
}

/// A host, if some of its ports are full and others idle that lead to the same hosts.
fn host_of(report: &Report, plan: &Plan, host: NodeId, sender: &Sender) -> Option<Found> {
    let wiring = &plan.wiring;
    let topology = &wiring.topology;
    // where a job leaves ports out by itself, it has no GPU near them
    if sender.collective.is_some() && plan.spec.nccl.ib_hca.is_none() {
        return None;
    }
    let rails = |address: &u32| topology.addresses()[*address as usize].ports.len() == 1;
    if topology.ports_of(host).count() < 2 || !topology.addresses_of(host).all(|a| rails(&a)) {
        return None;
    }
    let flows = || sender.qps.iter().map(|qp| &report.flows[*qp]);
    let first = flows().filter_map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
    let end = report.simulated_time_s;
    let ends = flows().filter_map(|flow| Some(flow.start_s? + flow.fct_s?));
    // what has no end goes on, and the QPs of collectives have none of their own
    let all = flows().all(|flow| flow.fct_s.is_some());
    let last = if all { ends.fold(0.0, f64::max).min(end) } else { end };
    let span = if first.is_finite() { last - first } else { 0.0 };
    let gap = f64::from(wiring.frames.gap);
    let busy = |port: PortId| {
        let port = &report.ports[port.index()];
        let wire = port.tx_bytes as f64 + port.tx_packets as f64 * gap;
        wire * 8.0 / port.rate_bps as f64 / span.max(1e-12)
    };
    let most = topology.ports_of(host).max_by(|a, b| busy(*a).total_cmp(&busy(*b)))?;
    if busy(most) < FULL {
        return None;
    }
    let sent = |port: PortId| report.ports[port.index()].tx_bytes as f64;
    // others of the same rate, by which the same hosts can be reached
    let leads = |port: PortId| {
        let gate = topology.neighbour(port);
        sender.qps.iter().all(|qp| {
            let target = NodeId(wiring.qps[*qp].target);
            let mut addresses = topology.addresses_of(target);
            let reaches = |a: u32| !wiring.routes.next_hops(gate, target, a).is_empty();
            gate == target || addresses.any(reaches)
        })
    };
    let alike = |port: PortId| topology.port(port).rate == topology.port(most).rate && leads(port);
    let idle = |port: &PortId| sent(*port) < IDLE * sent(most);
    let (idle, used): (Vec<PortId>, Vec<PortId>) =
        topology.ports_of(host).filter(|port| alike(*port)).partition(idle);
    let full = used.iter().all(|port| busy(*port) > FULL);
    (full && !idle.is_empty()).then(|| Found {
        host,
        busy: busy(most),
        flows: sender.qps.len(),
        collective: sender.collective,
        used,
        idle,
    })
}
