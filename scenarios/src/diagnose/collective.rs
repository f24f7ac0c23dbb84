//! What holds a collective back.

use std::collections::{BTreeMap, BTreeSet};

use models::collective::{Link, Pattern};
use models::fabric::{DmaInfo, Plan, Role};
use models::host::{HostConfig, NicMode, nics};
use models::ids::{NodeId, PortId};
use models::report::{CollectiveReport, Finding, PortReport, Report, Severity};
use serde_json::json;
use sim_core::{Bytes, Delta, Rate};

use super::{FlowsByPort, finding, usual_ecn};
use crate::check::dcqcn_is_on;

/// Most channels that NCCL has (MAXCHANNELS).
const CHANNELS_MAX: u32 = 64;

/// All findings about collectives; `even`: ECMP spreads flows well.
pub(super) fn findings(
    report: &Report,
    plan: &Plan,
    flows: &FlowsByPort,
    even: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, collective) in (0..).zip(&report.collectives) {
        if collective.nodes < 2 {
            continue;
        }
        let Some(job) = Job::new(report, plan, flows, number, collective) else { continue };
        let limits = [
            job.by_sockets(),
            job.gdr_off(),
            job.pcie_limited(),
            job.few_channels(),
            job.nvlink_limited(),
        ];
        // what takes little is said, and explains nothing
        let limited = limits.iter().flatten().any(|found| found.severity > Severity::Info);
        let mut found: Vec<Finding> = limits.into_iter().flatten().collect();
        found.extend(job.forced());
        found.extend(job.lossy_class());
        found.extend(job.bond_imbalance());
        found.extend(job.paused_by_others());
        if !limited {
            found.extend(job.dcqcn_throttling());
            found.extend(job.without_congestion());
            found.extend(job.uplinks_full().filter(|_| even));
        }
        found.extend(job.nic_limited());
        found.iter_mut().for_each(|finding| finding.collective = Some(number));
        findings.append(&mut found);
    }
    findings
}

/// The busbw in GB/s of a collective that the NICs of the narrowest host allow: its ceiling. A ring
/// leaves each host once, so that this is the payload that its NICs can send; for others what leaves
/// a host is compared with that.
pub fn ceiling(plan: &Plan, job: u32) -> Option<f64> {
    let wiring = &plan.wiring;
    let mut hosts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for qp in &wiring.qps {
        if !matches!(qp.role, Role::Data { job: of, .. } if of == job) {
            continue;
        }
        let ports = wiring.topology.addresses()[qp.source_address as usize].ports.iter();
        hosts.entry(qp.source).or_default().extend(ports.map(|port| port.0));
    }
    let payload = |(host, ports): (u32, BTreeSet<u32>)| {
        let mtu = plan.spec.nics[host as usize].as_ref().map_or(4096, |nic| nic.mtu);
        let frames = &wiring.frames;
        let share = f64::from(mtu) / frames.wire_len(frames.data(mtu, false)) as f64;
        let rate: u64 =
            ports.iter().map(|port| wiring.wires[*port as usize].clock.rate().bps()).sum();
        rate as f64 / 8e9 * share
    };
    let planned = &wiring.jobs[job as usize];
    if planned.is_ring() {
        let narrowest = hosts.into_iter().map(payload).min_by(f64::total_cmp)?;
        return Some(narrowest * planned.protocol().efficiency());
    }
    let mut leaves: BTreeMap<u32, f64> = BTreeMap::new();
    for joined in planned.connections.iter().filter(|c| matches!(c.link, Link::Remote { .. })) {
        let host = planned.ranks[joined.from as usize].host.0;
        *leaves.entry(host).or_default() += planned.load(joined).0;
    }
    let ranks = planned.ranks.len() as u32;
    let bus = planned.bytes as f64 * planned.config.op.bus_factor(ranks);
    let allowed = hosts.into_iter().filter_map(|(host, ports)| {
        let leaves = leaves.get(&host).filter(|bytes| **bytes > 0.0)?;
        Some(payload((host, ports)) * bus / leaves)
    });
    allowed.min_by(f64::total_cmp)
}

/// A collective, with what is known of it.
pub(super) struct Job<'a> {
    pub(super) report: &'a Report,
    pub(super) plan: &'a Plan,
    pub(super) flows: &'a FlowsByPort,
    pub(super) number: u32,
    pub(super) collective: &'a CollectiveReport,
    /// GB/s; see [`ceiling`].
    pub(super) ceiling: f64,
    /// Its QPs.
    pub(super) qps: Vec<usize>,
}

impl<'a> Job<'a> {
    fn new(
        report: &'a Report,
        plan: &'a Plan,
        flows: &'a FlowsByPort,
        number: u32,
        collective: &'a CollectiveReport,
    ) -> Option<Self> {
        let ceiling = ceiling(plan, number)?;
        let qps = plan.wiring.qps.iter().enumerate();
        let own = qps.filter(|(_, qp)| matches!(qp.role, Role::Data { job, .. } if job == number));
        let qps = own.map(|(qp, _)| qp).collect();
        Some(Job { report, plan, flows, number, collective, ceiling, qps })
    }

    pub(super) fn name(&self) -> String {
        match self.collective.name.as_str() {
            "" => self.collective.op.clone(),
            name => name.to_owned(),
        }
    }

    /// True if its data goes around rings.
    pub(super) fn is_ring(&self) -> bool {
        self.plan.wiring.jobs[self.number as usize].is_ring()
    }

    /// True if NVSwitches add up, and neither thread blocks nor NVLink's rate are what limits.
    fn by_nvswitch(&self) -> bool {
        matches!(self.plan.wiring.jobs[self.number as usize].pattern, Pattern::NvlsTree { .. })
    }

    /// busbw over the ceiling; 0 if it did not end.
    pub(super) fn share(&self) -> f64 {
        self.collective.busbw_gbytes_per_s.unwrap_or(0.0) / self.ceiling
    }

    pub(super) fn node(&self, node: u32) -> &'a str {
        &self.plan.wiring.topology.node(NodeId(node)).name
    }

    pub(super) fn port(&self, port: u32) -> &'a PortReport {
        &self.report.ports[port as usize]
    }

    /// The server where a rate is lowest, by name.
    pub(super) fn slowest(
        &self,
        rate: impl Fn(&HostConfig) -> Rate,
    ) -> Option<(&'a str, &'a HostConfig)> {
        let job = &self.plan.wiring.jobs[self.number as usize];
        let hosts = job.ranks.iter().filter_map(|rank| {
            let config = self.plan.spec.hosts[rank.host.index()].as_deref()?;
            Some((self.node(rank.host.0), config))
        });
        hosts.min_by_key(|(_, config)| rate(config))
    }

    /// The NICs' ports that send its data.
    pub(super) fn source_ports(&self) -> BTreeSet<u32> {
        self.qps.iter().map(|qp| self.plan.wiring.qps[*qp].source_port).collect()
    }

    /// The ports by which its data goes.
    pub(super) fn on_way(&self) -> BTreeSet<u32> {
        self.qps.iter().flat_map(|qp| self.plan.path(*qp)).collect()
    }

    /// The share of the run in which a port sent.
    pub(super) fn busy(&self, port: u32) -> f64 {
        let port = self.port(port);
        let gap = f64::from(self.plan.wiring.frames.gap);
        let wire = port.tx_bytes as f64 + port.tx_packets as f64 * gap;
        wire * 8.0 / port.rate_bps as f64 / self.report.simulated_time_s.max(1e-12)
    }

    fn nic_limited(&self) -> Option<Finding> {
        let busbw = self.collective.busbw_gbytes_per_s?;
        if self.share() < 0.93 {
            return None;
        }
        let ports = self.source_ports();
        let of_host = |host: u32| {
            ports.iter().filter(move |p| self.plan.wiring.wires[**p as usize].node == host).count()
        };
        let host = self.plan.wiring.qps[self.qps[0]].source;
        let rate = self.plan.wiring.wires[*ports.first()? as usize].clock.rate();
        let limit = match self.is_ring() {
            true => format!(
                "carry {:.1} GB/s of payload, and a ring's busbw cannot be more",
                self.ceiling
            ),
            false => format!("allow a busbw of {:.1} GB/s", self.ceiling),
        };
        let text = format!(
            "{}: the NICs are the limit: {} x {rate} a server {limit}; {busbw:.1} is {:.0} % of it",
            self.name(),
            of_host(host),
            self.share() * 100.0
        );
        let evidence =
            [("ceiling_gbytes_per_s", json!(self.ceiling)), ("busbw_gbytes_per_s", json!(busbw))];
        Some(finding("nic_limited", Severity::Info, text, evidence, None))
    }

    /// The traffic class is not one that PFC protects.
    fn lossy_class(&self) -> Option<Finding> {
        // TCP is at home there
        if self.plan.spec.nccl.sockets().is_some() {
            return None;
        }
        let lossy = self.qps.iter().find_map(|qp| {
            let qp = &self.plan.wiring.qps[*qp];
            let nic = self.plan.spec.nics[qp.source as usize].as_ref()?;
            let priority = nic.qos.priority(qp.dscp);
            (!nic.pfc.priorities.contains(&priority)).then_some((qp, nic, priority))
        });
        let (qp, nic, priority) = lossy?;
        let lossless =
            nic.qos.dscp_to_priority.iter().find(|(_, p)| nic.pfc.priorities.contains(p));
        let dropped: u64 = self.report.totals.drops.values().sum();
        let how = match self.plan.spec.nccl.ib_tc {
            Some(tc) => format!("IB_TC = {tc}"),
            None => "IB_TC is not set".to_owned(),
        };
        let text = format!(
            "{}: {how}, so its data from {} has DSCP {} and priority {priority}, which PFC does not protect \
             ({dropped} frames dropped, {} packets sent again)",
            self.name(),
            self.node(qp.source),
            qp.dscp,
            self.report.totals.retransmitted_packets
        );
        let evidence = [("dscp", json!(qp.dscp)), ("priority", json!(priority))];
        let remedy = lossless.map(|(dscp, _)| format!("IB_TC = {} is DSCP {dscp}", dscp << 2));
        let mut found = finding("lossy_class", Severity::Warning, text, evidence, remedy);
        found.set =
            lossless.map(|(dscp, _)| format!("nccl.IB_TC={}", dscp << 2)).into_iter().collect();
        Some(found)
    }

    /// PCIe is slower than the ports of a NIC.
    fn pcie_limited(&self) -> Option<Finding> {
        let ports = self.source_ports();
        let line = |dma: &&DmaInfo| -> u64 {
            let used = dma.ports.iter().filter(|port| ports.contains(port));
            used.map(|port| self.plan.wiring.wires[*port as usize].clock.rate().bps()).sum()
        };
        let slow = || self.plan.wiring.dmas.iter().filter(|dma| dma.rate.bps() < line(dma));
        let dma = slow().min_by_key(|dma| dma.rate)?;
        let line = line(&dma);
        let pauses: u64 = self
            .report
            .ports
            .iter()
            .filter(|port| port.port.contains("/nic"))
            .map(|p| p.tx_pause_frames)
            .sum();
        let node = self.plan.wiring.wires[dma.ports[0] as usize].node;
        let text = format!(
            "{}: PCIe of the NICs ({}, {} for one) carries {}, their ports {}; receiving NICs \
              sent {pauses} XOFF frames",
            self.name(),
            slow().count(),
            self.node(node),
            dma.rate,
            Rate::from_bps(line)
        );
        let evidence = [
            ("pcie_bps", json!(dma.rate.bps())),
            ("ports_bps", json!(line)),
            ("tx_pause_frames", json!(pauses)),
        ];
        let remedy =
            "look at the width and speed of the slot (lspci -vv: LnkSta), or use fewer ports";
        let mut found =
            finding("pcie_limited", Severity::Warning, text, evidence, Some(remedy.to_owned()));
        found.set = vec![format!("host.nic.pcie.rate=\"{}\"", Rate::from_bps(line + line / 50))];
        Some(found)
    }

    /// The thread blocks of all channels together are slower than the NICs.
    fn few_channels(&self) -> Option<Finding> {
        if self.by_nvswitch() {
            return None;
        }
        let channels = self.collective.channels;
        // all wait for the slowest server
        let (host, config) = self.slowest(|config| config.channel_rate)?;
        let one = config.channel_rate.bps() as f64 / 8e9;
        let all = one * f64::from(channels);
        // small messages have fewer channels, whatever the variables say
        let small = self.collective.bytes < u64::from(channels + 1) * 32_768;
        if all > 0.98 * self.ceiling || small {
            return None;
        }
        // as many on each device, or the fullest one is what all wait for
        let devices = self.devices(host);
        let most = (CHANNELS_MAX / devices).max(1);
        let each = (self.ceiling / one * 1.05 / f64::from(devices)).ceil().max(1.0) as u32;
        let needed = devices * each.min(most);
        let text = format!(
            "{}: {channels} channel{} {} at most {all:.1} GB/s together on {host}, and the NICs \
             carry {:.1}",
            self.name(),
            if channels == 1 { "" } else { "s" },
            if self.of_reduction() { "reduce" } else { "carry" },
            self.ceiling
        );
        let evidence = [("channels", json!(channels)), ("channel_gbytes_per_s", json!(one))];
        let remedy = Some(format!("MIN_NCHANNELS = {needed}"));
        let mut found = finding("few_channels", Severity::Warning, text, evidence, remedy);
        found.set = vec![format!("nccl.MIN_NCHANNELS={needed}")];
        if self.plan.spec.nccl.max_nchannels.is_some_and(|max| max < needed) {
            found.set.push(format!("nccl.MAX_NCHANNELS={needed}"));
        }
        Some(found)
    }

    /// Devices that a host sends by: groups of ports that connections use together.
    fn devices(&self, host: &str) -> u32 {
        let job = &self.plan.wiring.jobs[self.number as usize];
        let from = job.connections.iter().filter_map(|connection| match &connection.link {
            Link::Remote { qps, .. } => {
                let rank = job.ranks[connection.from as usize];
                let ports: BTreeSet<PortId> =
                    qps.iter().flat_map(|(ports, _)| ports.iter().copied()).collect();
                (self.node(rank.host.0) == host).then_some(ports)
            }
            Link::Local => None,
        });
        let devices: BTreeSet<BTreeSet<PortId>> = from.collect();
        (devices.len() as u32).max(1)
    }

    fn of_reduction(&self) -> bool {
        self.plan.wiring.jobs[self.number as usize].config.op.reduces()
    }

    fn nvlink_limited(&self) -> Option<Finding> {
        // others do not pass each GPU of a host in turn
        if !self.is_ring() {
            return None;
        }
        let (host, config) = self.slowest(|config| config.nvlink.rate)?;
        // of the GPUs of a host one sends by a NIC, on each ring
        let gpus = f64::from(self.collective.ranks) / f64::from(self.collective.nodes);
        let rate = config.nvlink.rate.bps() as f64 / 8e9 * gpus / (gpus - 1.0);
        if rate > 0.98 * self.ceiling || self.collective.ranks == self.collective.nodes {
            return None;
        }
        let text = format!(
            "{}: rings over the links between the GPUs of {host} carry {rate:.1} GB/s, over its NICs \
             {:.1}",
            self.name(),
            self.ceiling
        );
        let evidence = [("nvlink_gbytes_per_s", json!(rate))];
        let severity = if rate < 0.9 * self.ceiling { Severity::Warning } else { Severity::Info };
        Some(finding("nvlink_limited", severity, text, evidence, None))
    }

    /// The QPs of a bond use its ports unevenly.
    fn bond_imbalance(&self) -> Option<Finding> {
        let wiring = &self.plan.wiring;
        let own = self.source_ports();
        let mut worst: Option<(f64, u32, usize)> = None;
        for address in wiring.topology.addresses().iter().filter(|a| a.ports.len() > 1) {
            let sent: Vec<u64> =
                address.ports.iter().map(|port| self.port(port.0).tx_bytes).collect();
            let (most, all) = (*sent.iter().max()?, sent.iter().sum::<u64>());
            if all == 0 || !address.ports.iter().any(|port| own.contains(&port.0)) {
                continue;
            }
            let ratio = most as f64 * sent.len() as f64 / all as f64;
            if worst.is_none_or(|(found, ..)| ratio > found) {
                worst = Some((ratio, address.host.0, sent.len()));
            }
        }
        let (ratio, host, ports) = worst?;
        if ratio < 1.3 {
            return None;
        }
        let config = self.plan.spec.hosts[host as usize].as_deref();
        let count = wiring.topology.ports_of(NodeId(host)).count() as u32;
        let plans = config.and_then(|config| nics(config, count).ok())?;
        let bond = plans.iter().find(|nic| nic.mode == NicMode::Bond)?;
        let text = format!(
            "{}: the {ports} ports of {} on {} are used unevenly: one sends {ratio:.1} times the mean; \
             a QP of a bond uses one port only",
            self.name(),
            bond.names[0],
            self.node(host)
        );
        let evidence = [("max_over_mean", json!(ratio)), ("host", json!(self.node(host)))];
        let remedy = "let QPs take the ports in turn: lag_port_select_mode = queue_affinity; or merge \
                      the ports (mode = merged)";
        let mut found =
            finding("bond_imbalance", Severity::Warning, text, evidence, Some(remedy.to_owned()));
        found.set = vec!["host.nic.lag_port_select_mode=queue_affinity".to_owned()];
        Some(found)
    }

    /// Links on its way are paused because of a queue that other traffic of its class fills.
    fn paused_by_others(&self) -> Option<Finding> {
        let enough = 0.02 * self.report.simulated_time_s;
        let on_way = self.on_way();
        let priority = self.priority(*self.qps.first()?)?;
        let queue =
            |port: u32| self.port(port).priorities.iter().find(|queue| queue.priority == priority);
        let paused = |port: &u32| queue(*port).map_or(0.0, |queue| queue.paused_s);
        let depth = |port: &u32| queue(*port).map_or(0, |queue| queue.max_queue_bytes);
        let victim = on_way.iter().copied().max_by(|a, b| paused(a).total_cmp(&paused(b)))?;
        if paused(&victim) < enough {
            return None;
        }
        let flows = self.flows;
        let same_class = |flow: &usize| self.priority(*flow) == Some(priority);
        // along the pauses: the queue behind a paused port that is deepest, until one is not paused
        let mut root = victim;
        for _ in 0..64 {
            let next = flows.of(root as usize).iter().filter_map(|flow| {
                let path = self.plan.path(*flow as usize);
                let place = path.iter().position(|port| *port == root)?;
                path.get(place + 1).copied()
            });
            let deepest = next.max_by_key(depth);
            let Some(deepest) = deepest else { break };
            root = deepest;
            if paused(&root) < enough {
                break;
            }
        }
        let all = flows.of(root as usize).iter().map(|flow| *flow as usize).filter(same_class);
        // its QPs are in their order
        let foreign: Vec<usize> =
            all.clone().filter(|flow| self.qps.binary_search(flow).is_err()).collect();
        let shared = all.count() - foreign.len();
        if root == victim || foreign.is_empty() || shared > foreign.len() {
            return None;
        }
        let section = self.section(foreign[0]);
        let name = section.as_ref().map_or("other traffic", |(name, _)| name.as_str());
        let share = paused(&victim) / self.report.simulated_time_s;
        let deepest = depth(&root);
        let (victim, cause) = (self.port(victim), self.port(root));
        let text = format!(
            "{}: {} is paused {:.0} % of the time because of {}, whose queue {name} fills ({} flows, \
             {} deep): the pauses spread to links that the collective uses",
            self.name(),
            victim.port,
            share * 100.0,
            cause.port,
            foreign.len(),
            Bytes::new(deepest)
        );
        let evidence = [
            ("victim", json!(victim.port)),
            ("paused_share", json!(share)),
            ("root", json!(cause.port)),
            ("foreign_flows", json!(foreign.len())),
            ("max_queue_bytes", json!(deepest)),
        ];
        let remedy = section.as_ref().map(|(name, _)| {
            format!("move {name} to a class that PFC does not pause (it can be dropped then)")
        });
        let mut found = finding("paused_by_others", Severity::Warning, text, evidence, remedy);
        found.set = section.into_iter().map(|(_, set)| set).collect();
        Some(found)
    }

    /// The priority that a QP's data has on its NIC.
    fn priority(&self, qp: usize) -> Option<u8> {
        let qp = &self.plan.wiring.qps[qp];
        Some(self.plan.spec.nics[qp.source as usize].as_ref()?.qos.priority(qp.dscp))
    }

    /// Name of the traffic section of a flow, and the assignment that moves it to another class.
    fn section(&self, flow: usize) -> Option<(String, String)> {
        let Role::Flow { number, .. } = self.plan.wiring.qps[flow].role else { return None };
        let section = self.plan.spec.flows.get(number as usize)?.section;
        let nic = self.plan.spec.nics.iter().flatten().next()?;
        let taken = |dscp: &u8| nic.qos.dscp_to_priority.contains_key(dscp);
        let free = [0u8, 10, 18].into_iter().find(|dscp| !taken(dscp))?;
        let called = &self.plan.spec.sections[section as usize];
        let name = called.trim_start_matches('.').to_owned();
        Some((name, format!("traffic{called}.dscp={free}")))
    }

    /// CNPs slow the senders down although no link on the way is full.
    fn dcqcn_throttling(&self) -> Option<Finding> {
        let totals = &self.report.totals;
        if self.share() > 0.9 || totals.cnp_handled == 0 || !dcqcn_is_on(self.plan) {
            return None;
        }
        let busy = |port: u32| self.busy(port);
        let on_way = self.on_way();
        let marking = on_way.iter().copied().filter(|port| self.port(*port).ecn_marked_packets > 0);
        let hottest = marking.max_by(|a, b| busy(*a).total_cmp(&busy(*b)))?;
        let paused = on_way.iter().map(|port| self.port(*port).paused_s).fold(0.0, f64::max);
        if busy(hottest) > 0.9 || paused > 0.02 * self.report.simulated_time_s {
            return None;
        }
        let port = self.port(hottest);
        let queue = port.priorities.iter().max_by_key(|p| p.ecn_marked_packets)?.priority;
        let config = self.plan.spec.switch_ports[hottest as usize].as_ref()?;
        let wred = config.ecn.get(&queue)?;
        let text = format!(
            "{}: ECN slows the senders down although no link is full: {} marks {} packets and is busy \
             only {:.0} % of the time ({} notifications); kmin = {}, kmax = {} are too low for bursts \
             of a slice",
            self.name(),
            port.port,
            port.ecn_marked_packets,
            busy(hottest) * 100.0,
            totals.cnp_handled,
            wred.kmin,
            wred.kmax
        );
        let evidence = [
            ("port", json!(port.port)),
            ("utilisation", json!(busy(hottest))),
            ("ecn_marked_packets", json!(port.ecn_marked_packets)),
            ("cnp_handled", json!(totals.cnp_handled)),
        ];
        let [kmin, kmax] = usual_ecn(port.rate_bps);
        if wred.kmin.to_bytes(config.buffer.cell) >= kmin.get() {
            return None;
        }
        let remedy = format!(
            "raise them to what is usual at this rate: kmin = {kmin}, kmax = {kmax} ({} and {} of \
             queue)",
            Delta::from_us(8),
            Delta::from_us(32)
        );
        let mut found =
            finding("dcqcn_throttling", Severity::Warning, text, evidence, Some(remedy));
        found.set = vec![
            format!("switch.ecn.{queue}.kmin=\"{kmin}\""),
            format!("switch.ecn.{queue}.kmax=\"{kmax}\""),
        ];
        Some(found)
    }
}
