//! What the faults of a scenario (`[[fault]]`) did, switches that forward too few frames, and QPs that
//! gave up.

use models::fabric::{Outcome, Plan, QpInfo, Role};
use models::fault::{
    Direction, FaultConfig, LinkDownConfig, LossConfig, RateConfig, SlowReceiverConfig,
};
use models::host::nics;
use models::ids::{NodeId, PortId};
use models::nic::local_ack_timeout;
use models::report::{Finding, PortReport, Report, Severity};
use models::switch::WatchdogAction;
use serde_json::{Value, json};
use sim_core::{Bytes, Delta, Rate, Time};

use super::finding;
use crate::check::freed;

/// Faults of one kind that have a finding of their own.
const LISTED: usize = 4;

/// A finding for each fault that began, and for each switch that its frames were too many for.
pub(super) fn findings(report: &Report, plan: &Plan, outcome: &Outcome) -> Vec<Finding> {
    let faults = Faults { report, plan };
    let mut findings = Vec::new();
    let mut listed = [0; 3];
    for fault in plan.spec.faults.iter().filter(|fault| faults.began(fault)) {
        let (kind, found) = match fault {
            FaultConfig::LinkDown(down) => (0, faults.link_down(down)),
            FaultConfig::Rate(rate) => (1, faults.degraded(rate)),
            FaultConfig::SlowReceiver(slow) => (2, faults.slow_receiver(slow)),
            // what it lost is counted where it was lost; and what settings do, as what they do
            FaultConfig::Loss(_) | FaultConfig::Set(_) => continue,
        };
        if listed[kind] < LISTED {
            listed[kind] += usize::from(found.is_some());
            findings.extend(found);
        }
    }
    findings.extend(packet_rate(plan, outcome));
    findings
}

/// Whether a fault says that this port of a NIC drains slower.
pub(super) fn slows(plan: &Plan, port: &str) -> bool {
    let host = port.split('/').next().unwrap_or(port);
    plan.spec.faults.iter().any(|fault| match fault {
        FaultConfig::SlowReceiver(slow) => slow.names(host, port),
        _ => false,
    })
}

struct Faults<'a> {
    report: &'a Report,
    plan: &'a Plan,
}

/// `10 us to 20 us`
fn when(at: Delta, until: Option<Delta>) -> String {
    match until {
        Some(until) => format!("{at} to {until}"),
        None => format!("{at} on"),
    }
}

fn dropped(port: &PortReport, reason: &str) -> u64 {
    port.drops.get(reason).copied().unwrap_or(0)
}

impl Faults<'_> {
    fn began(&self, fault: &FaultConfig) -> bool {
        fault.span().0.as_secs() <= self.report.simulated_time_s
    }

    /// Both ends of a cable, the one that is named first.
    fn ends(&self, link: &str) -> Option<[&PortReport; 2]> {
        let port = self.plan.wiring.topology.find_port(link)?;
        let peer = self.plan.wiring.wires[port.index()].peer;
        Some([&self.report.ports[port.index()], &self.report.ports[peer as usize]])
    }

    fn link_down(&self, down: &LinkDownConfig) -> Option<Finding> {
        let [here, there] = self.ends(&down.link)?;
        let lost = dropped(here, "link_down") + dropped(there, "link_down");
        let times = match down.times {
            1 => String::new(),
            times => format!(", {times} times"),
        };
        let of_host = here.port.contains("/nic") || there.port.contains("/nic");
        let (routes, remedy) = match down.reroute {
            _ if of_host => {
                let routes = "no route leads around the cable of a host".to_owned();
                (routes, "repair it; where a host must survive it, lay two cables to it as a bond")
            }
            Some(after) => {
                let routes = format!("routes changed {after} after it did");
                (routes, "let routes follow faster (BFD, or a next hop that is ready)")
            }
            None => {
                let routes =
                    "routes never changed, so that what ECMP lays there goes on to be lost";
                (routes.to_owned(), "give it a `reroute`, as a routing protocol has")
            }
        };
        let sent = self.report.totals.retransmitted_packets;
        let text = format!(
            "the cable from {} to {} was down ({}{times}): {lost} frames were lost on it; {routes}; \
             {sent} packets were sent again in all",
            here.port,
            there.port,
            when(down.at, down.until)
        );
        let evidence = [
            ("port", json!(here.port)),
            ("peer", json!(there.port)),
            ("at_s", json!(down.at.as_secs())),
            ("until_s", json!(down.until.map(|until| until.as_secs()))),
            ("reroute_s", json!(down.reroute.map(|after| after.as_secs()))),
            ("lost", json!(lost)),
            ("retransmitted_packets", json!(sent)),
        ];
        let severity = if lost > 0 { Severity::Warning } else { Severity::Info };
        let remedy = (lost > 0).then(|| remedy.to_owned());
        Some(finding("link_down", severity, text, evidence, remedy))
    }

    fn degraded(&self, config: &RateConfig) -> Option<Finding> {
        let [here, there] = self.ends(&config.link)?;
        let full = Rate::from_bps(here.rate_bps);
        let (from, to, senders) = match config.direction {
            Direction::Tx => (here, there, vec![here]),
            Direction::Rx => (there, here, vec![there]),
            Direction::Both => (here, there, vec![here, there]),
        };
        let deepest = senders.iter().map(|port| port.max_queue_bytes).max().unwrap_or(0);
        let both = if config.direction == Direction::Both { ", both ways" } else { "" };
        let text = format!(
            "the link from {} to {} ran at {} instead of {full} ({}){both}: {} waited there at most",
            from.port,
            to.port,
            config.rate,
            when(config.at, config.until),
            Bytes::new(deepest)
        );
        let evidence = [
            ("port", json!(from.port)),
            ("peer", json!(to.port)),
            ("rate_bps", json!(config.rate.bps())),
            ("full_rate_bps", json!(full.bps())),
            ("max_queue_bytes", json!(deepest)),
        ];
        let remedy = "reseat or replace the cable; look at `ethtool` and FEC counters for the lanes \
                      that it trained at";
        let remedy = Some(remedy.to_owned());
        Some(finding("degraded_link", Severity::Warning, text, evidence, remedy))
    }

    fn slow_receiver(&self, config: &SlowReceiverConfig) -> Option<Finding> {
        let named = |port: &&PortReport| config.names(&port.node, &port.port);
        let ports: Vec<&PortReport> = self.report.ports.iter().filter(named).collect();
        let pauses: u64 = ports.iter().map(|port| port.tx_pause_frames).sum();
        let full: u64 = ports.iter().map(|port| dropped(port, "nic_receive_full")).sum();
        if pauses + full == 0 {
            return None;
        }
        let host = ports.first()?.node.clone();
        let how = match config.rate {
            Rate::ZERO => "did not drain at all".to_owned(),
            rate => format!("drained at {rate}"),
        };
        // whom its pauses reached: ports of switches that were paused
        let paused = self.report.ports.iter().filter(|port| port.rx_pause_frames > 0).count();
        let text = format!(
            "{} (host {host}) {how} ({}): it sent {pauses} XOFF frames and dropped {full} frames; \
             {paused} ports of the fabric were paused",
            config.nic,
            when(config.at, config.until)
        );
        let evidence = [
            ("nic", json!(config.nic)),
            ("host", json!(host)),
            ("rate_bps", json!(config.rate.bps())),
            ("tx_pause_frames", json!(pauses)),
            ("nic_receive_full", json!(full)),
            ("paused_ports", json!(paused)),
        ];
        let remedy = "take the host out of service: a NIC that stops draining pauses its whole \
                      fabric (PCIe errors, IOMMU, page faults; its own watchdog of 100 ms); \
                      switch.pfc_wd on the ports to hosts keeps others out of it";
        let remedy = Some(remedy.to_owned());
        Some(finding("slow_receiver", Severity::Warning, text, evidence, remedy))
    }
}

/// Waits for a pipeline that are shorter are those of frames that came together.
const LONG: Delta = Delta::from_us(1);

/// Switches that cannot forward as many frames as come.
fn packet_rate(plan: &Plan, outcome: &Outcome) -> Vec<Finding> {
    let topology = &plan.wiring.topology;
    let mut found = Vec::new();
    for (owner, switch) in topology.switches().enumerate() {
        let Some(config) = plan.spec.switches[switch.index()].as_ref().and_then(|s| s.pipeline)
        else {
            continue;
        };
        let pipelines = outcome.fabric.pipelines_of(owner).enumerate();
        let busiest = pipelines
            .map(|(index, pipeline)| (outcome.fabric.pipeline(pipeline), index))
            .max_by_key(|(counters, _)| (counters.dropped, counters.longest));
        let Some((counters, index)) = busiest else { continue };
        if counters.dropped == 0 && counters.longest <= LONG {
            continue;
        }
        let name = &topology.node(switch).name;
        let text = format!(
            "{name} forwards {} in pipeline {index} and no more: {} of {} frames waited for it, up to \
             {}, and {} found no room",
            config.packet_rate,
            counters.waited,
            counters.frames,
            counters.longest,
            counters.dropped
        );
        let evidence = [
            ("switch", json!(name)),
            ("pipeline", json!(index)),
            ("packet_rate_pps", json!(config.packet_rate.pps())),
            ("frames", json!(counters.frames)),
            ("waited", json!(counters.waited)),
            ("longest_wait_s", json!(counters.longest.as_secs())),
            ("dropped", json!(counters.dropped)),
        ];
        let remedy = "send larger frames (nic.mtu), or spread the ports in use over the pipelines";
        let severity = if counters.dropped > 0 { Severity::Error } else { Severity::Warning };
        let remedy = Some(remedy.to_owned());
        found.push(finding("packet_rate_limited", severity, text, evidence, remedy));
    }
    found.truncate(LISTED);
    found
}

/// Frames that a rule of a fault dropped.
pub(super) fn by_rule(report: &Report, plan: &Plan) -> Option<Finding> {
    let drops = *report.totals.drops.get("drop_rule")?;
    let rule = plan.spec.faults.iter().find_map(|fault| match fault {
        FaultConfig::Loss(LossConfig { rule: Some(rule), link, .. }) => Some((rule, link)),
        _ => None,
    });
    let (rule, link) = rule?;
    let text = format!(
        "{drops} data packets were dropped at {link} by their IP identification (low byte \
         0x{:02x}): {} packets were sent again",
        rule.ip_id_low_byte, report.totals.retransmitted_packets
    );
    let evidence = [
        ("drop_rule", json!(drops)),
        ("retransmitted_packets", json!(report.totals.retransmitted_packets)),
    ];
    Some(finding("link_loss", Severity::Warning, text, evidence, None))
}

/// QPs that have used up their retries: when, after how long, and why.
pub(super) fn retries_exceeded(
    report: &Report,
    plan: &Plan,
    outcome: &Outcome,
    never: &str,
) -> Option<Finding> {
    let mut failed: Vec<(Time, usize)> = (0..plan.wiring.qps.len())
        .filter_map(|qp| outcome.failed_at(qp).map(|at| (at, qp)))
        .collect();
    failed.sort_unstable();
    let &(at, first) = failed.first()?;
    let qp = &plan.wiring.qps[first];
    let (timeout, retries) = outcome.retries(first);
    let took = Delta::from_ps(timeout.ps().saturating_mul(u64::from(retries) + 1));
    let names = Names { plan };
    let begin = Time::from_ps(at.ps().saturating_sub(took.ps()));
    let text = format!(
        "{} QPs are in error: transport retry counter exceeded{never}. The first is {} at {}, {took} \
         after its last progress at {} ({} time-outs of {timeout}): {}{}",
        failed.len(),
        names.qp(first),
        since_start(at),
        since_start(begin),
        u32::from(retries) + 1,
        cause(report),
        if qp.is_of_collective() { nccl_warning(&names, qp) } else { String::new() },
    );
    let listed = failed.iter().take(16).map(|(at, qp)| {
        let info = &plan.wiring.qps[*qp];
        json!({
            "qp": qp,
            "source": names.host(info.source),
            "target": names.host(info.target),
            "hca": names.device(info.source_port),
            "failed_at_s": at.as_secs(),
        })
    });
    let evidence = [
        ("qp_error", json!(failed.len())),
        ("failed_at_s", json!(at.as_secs())),
        ("last_progress_s", json!(begin.as_secs())),
        ("took_s", json!(took.as_secs())),
        ("timeout_s", json!(timeout.as_secs())),
        ("retry_cnt", json!(retries)),
        ("qps", Value::Array(listed.collect())),
        ("drops", json!(report.totals.drops)),
    ];
    let slow = slow_watchdog(report, plan, qp.is_of_collective(), took, retries);
    let remedy = slow.as_ref().map_or_else(
        || {
            "find out why packets are lost (see drops), then raise nic.transport.timeout \
             (nccl.IB_TIMEOUT of collectives)"
                .to_owned()
        },
        |(remedy, _)| remedy.clone(),
    );
    let mut found = finding("qp_error", Severity::Error, text, evidence, Some(remedy));
    found.set = slow.into_iter().map(|(_, set)| set).collect();
    if let Role::Data { job, .. } | Role::Cts { job, .. } = qp.role {
        found.collective = Some(job).filter(|job| plan.wiring.workload_of(*job).is_none());
    }
    Some(found)
}

/// A watchdog of a port that was paused all the while, and that would have freed its queue later
/// than QPs give up: what to change, and the time-out that waits for it.
fn slow_watchdog(
    report: &Report,
    plan: &Plan,
    nccl: bool,
    took: Delta,
    retries: u8,
) -> Option<(String, String)> {
    let ports = report.ports.iter().zip(&plan.spec.switch_ports);
    let watched = ports.filter_map(|(port, config)| {
        let watchdog = config.as_deref()?.pfc_wd.filter(|w| w.action != WatchdogAction::Alert)?;
        let freed = freed(&watchdog);
        (port.paused_s >= 0.5 * took.as_secs() && freed >= took).then_some((port, watchdog, freed))
    });
    let (port, watchdog, freed) = watched.max_by(|a, b| a.0.paused_s.total_cmp(&b.0.paused_s))?;
    let key = if nccl { "nccl.IB_TIMEOUT" } else { "nic.transport.timeout" };
    // with one more poll before it, and one after
    let needed = freed + watchdog.poll_interval * 2;
    let waits = |exponent: &u32| {
        local_ack_timeout(*exponent).ps().saturating_mul(u64::from(retries) + 1) > needed.ps()
    };
    let exponent = (1..=31).find(waits)?;
    let remedy = format!(
        "QPs wait {took}, and the watchdog of {} takes {freed} to find the storm there and to end it \
         ({} + {}): {key} = {exponent} or more, or faster polls (switch.pfc_wd)",
        port.port, watchdog.detection_time, watchdog.restoration_time
    );
    Some((remedy, format!("{key}={exponent}")))
}

fn since_start(time: Time) -> Delta {
    time.since(Time::ZERO)
}

/// The line that NCCL's log has then (`src/transport/net_ib.cc`): IBV_WC_RETRY_EXC_ERR is 12, and
/// mlx5's syndrome "transport retry counter exceeded" 0x81.
fn nccl_warning(names: &Names<'_>, qp: &QpInfo) -> String {
    let ip = |address: u32| std::net::Ipv4Addr::from(address);
    format!(
        ". On {} the log of NCCL, which then ends the job, says: NET/IB : Got completion from peer {} \
         with status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:{} remoteGids::ffff:{} \
         hca {}",
        names.host(qp.source),
        names.host(qp.target),
        ip(qp.tuple.source),
        ip(qp.tuple.destination),
        names.device(qp.source_port)
    )
}

/// Where frames were lost, the most first.
fn cause(report: &Report) -> String {
    let mut drops: Vec<(&String, &u64)> = report.totals.drops.iter().collect();
    drops.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let worst = |reason: &String| {
        let ports = report.ports.iter();
        ports.max_by_key(|port| dropped(port, reason)).map_or("?", |port| port.port.as_str())
    };
    match drops.first() {
        Some((reason, count)) => {
            format!("{count} frames were dropped for {reason}, most of them at {}", worst(reason))
        }
        None if report.totals.pause_episodes > 0 => format!(
            "no frame was dropped, but ports were paused for {} in all: packets or ACKs did not \
             come in time",
            Delta::from_ps((report.totals.paused_s * 1e12) as u64)
        ),
        None => "no frame was dropped: ACKs come too late".to_owned(),
    }
}

struct Names<'a> {
    plan: &'a Plan,
}

impl Names<'_> {
    fn host(&self, node: u32) -> &str {
        &self.plan.wiring.topology.node(NodeId(node)).name
    }

    fn qp(&self, qp: usize) -> String {
        let info = &self.plan.wiring.qps[qp];
        let what = match info.role {
            Role::Flow { number, .. } => format!("flow {number}"),
            Role::Data { .. } | Role::Line { .. } => format!("QP {qp}"),
            Role::Cts { .. } => format!("QP {qp} (CTS)"),
        };
        format!("{what} from {} to {}", self.host(info.source), self.host(info.target))
    }

    /// The device of a NIC's port: `mlx5_0` where the host is described, else the port.
    fn device(&self, port: u32) -> String {
        let topology = &self.plan.wiring.topology;
        let name = topology.port_name(PortId(port));
        let wire = &self.plan.wiring.wires[port as usize];
        let ports = topology.ports_of(NodeId(wire.node)).count() as u32;
        let host = self.plan.spec.hosts[wire.node as usize].as_deref();
        let Some(plans) = host.and_then(|host| nics(host, ports).ok()) else { return name };
        let index = u32::from(wire.index);
        let nic =
            plans.iter().find(|nic| (nic.first_port..nic.first_port + nic.ports).contains(&index));
        let device = nic.and_then(|nic| match nic.names.len() {
            1 => nic.names.first(),
            _ => nic.names.get((index - nic.first_port) as usize),
        });
        device.cloned().unwrap_or(name)
    }
}
