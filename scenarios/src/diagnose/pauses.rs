//! Flows that pauses stop although they go elsewhere.

use std::collections::BTreeMap;

use models::fabric::{Plan, Role};
use models::ids::{NodeId, PortId};
use models::report::{Finding, Held, Pauses, Report, Root, RootKind, Severity};
use serde_json::json;
use sim_core::Delta;

use super::{finding, flow_name};

/// A flow is worth telling that others' pauses stopped for this share of its time.
const SHARE_MIN: f64 = 0.1;
/// Roots that have a finding; it is more than a note if they cost their victims this share of the
/// time of all flows together.
const LISTED: usize = 3;
const HARM_MIN: f64 = 0.05;

/// What a root cost those that do not go there.
struct Harm<'a> {
    root: Root,
    /// The QPs, those that lost most first.
    victims: Vec<(usize, &'a Held)>,
    /// Bandwidth that they could have had, in bit/s.
    lost: f64,
    /// Their time that was lost, as a share of the time of all flows.
    share: f64,
}

/// Findings about the roots that cost their victims most; `known` are those that there are already.
pub(super) fn findings(
    report: &Report,
    plan: &Plan,
    pauses: &Pauses,
    known: &[Finding],
) -> Vec<Finding> {
    if pauses.is_empty() {
        return Vec::new();
    }
    // that of a collective names what stops it in its own way
    let told = |qp: usize| match plan.wiring.qps[qp].role {
        Role::Data { job, .. } => {
            known.iter().any(|f| f.kind == "paused_by_others" && f.collective == Some(job))
        }
        _ => false,
    };
    let mut sharing: BTreeMap<u32, u32> = BTreeMap::new();
    for qp in &plan.wiring.qps[..plan.wiring.data_qps as usize] {
        *sharing.entry(qp.source_port).or_default() += 1;
    }
    let lost = |qp: usize, held: &Held| {
        let port = plan.wiring.qps[qp].source_port;
        let rate = plan.wiring.wires[port as usize].clock.rate().bps() as f64;
        held.victim_share() * rate / f64::from(sharing[&port])
    };
    let mut harms: BTreeMap<u32, Harm<'_>> = BTreeMap::new();
    let time = |time: Delta| time.ps() as f64;
    let all: f64 = (0..report.flows.len()).map(|qp| time(pauses.active(qp))).sum();
    for qp in 0..report.flows.len() {
        let Some(held) = pauses.held(qp) else { continue };
        if held.victim_share() < SHARE_MIN || told(qp) {
            continue;
        }
        let root = pauses.root(held.victim_root);
        let harm = harms.entry(held.victim_root).or_insert(Harm {
            root,
            victims: Vec::new(),
            lost: 0.0,
            share: 0.0,
        });
        harm.victims.push((qp, held));
        harm.lost += lost(qp, held);
        harm.share += time(held.victim_time) / all.max(1.0);
    }
    let mut harms: Vec<Harm<'_>> = harms.into_values().collect();
    harms.sort_by(|a, b| b.lost.total_cmp(&a.lost).then(a.root.cmp(&b.root)));
    harms.sort_by_key(|harm| harm.share < HARM_MIN);
    let roots = harms.len();
    let tell = |harm: &mut Harm<'_>| {
        harm.victims.sort_by(|a, b| lost(b.0, b.1).total_cmp(&lost(a.0, a.1)).then(a.0.cmp(&b.0)));
        Told { plan, pauses, harm, roots }.finding()
    };
    // without great harm one example is enough
    let great = harms.iter().filter(|harm| harm.share >= HARM_MIN).count();
    harms.iter_mut().take(great.clamp(1, LISTED)).map(tell).collect()
}

struct Told<'a> {
    plan: &'a Plan,
    pauses: &'a Pauses,
    harm: &'a Harm<'a>,
    roots: usize,
}

impl Told<'_> {
    fn finding(&self) -> Finding {
        let Harm { root, victims, lost, share: of_all } = self.harm;
        let severity = if *of_all >= HARM_MIN { Severity::Warning } else { Severity::Info };
        let (worst, held) = victims[0];
        let name = self.pauses.name(root.port);
        let evidence = vec![
            ("root", json!(name)),
            ("priority", json!(root.priority)),
            ("root_kind", json!(root.kind)),
            ("victims", json!(victims.len())),
            ("worst_flow", json!(worst)),
            ("victim_share", json!(held.victim_share())),
            ("lost_bps", json!(lost)),
            ("lost_share_of_all_flows", json!(of_all)),
            ("roots", json!(self.roots)),
        ];
        let began = format!("pauses that began at {name} ({})", root.kind.words());
        let share = held.victim_share() * 100.0;
        let way = self.way(worst);
        if let Some((own, other)) = self.jobs() {
            let of_own = victims.iter().filter(|(qp, _)| self.owner(*qp) == own);
            let shares: Vec<f64> = of_own.map(|(_, held)| held.victim_share()).collect();
            let text = format!(
                "{own} lost up to {:.0} % of its time ({} of its flows) to {began}, a host of {other} \
                 that {own} does not use: {way}",
                shares.iter().copied().fold(0.0, f64::max) * 100.0,
                shares.len()
            );
            return finding("job_paused_by_other", severity, text, evidence, self.remedy());
        }
        let others = match victims.len() - 1 {
            0 => String::new(),
            1 => "; one more flow lost some of its time so".to_owned(),
            more => format!("; {more} more flows lost some of their time so"),
        };
        let text = format!(
            "{} lost {share:.0} % of its time to {began}, where it does not go: {way}{others}",
            self.who(worst)
        );
        finding("pause_victims", severity, text, evidence, self.remedy())
    }

    /// `a paused b, which paused c`: from the root to the first port of a flow that was stopped.
    fn way(&self, qp: usize) -> String {
        let root = self.harm.root;
        let path: Vec<PortId> = self.plan.path(qp).into_iter().map(PortId).collect();
        let ports = self.pauses.way_to(root, &path);
        let mut text = self.pauses.name(root.port).to_string();
        for (place, port) in ports.iter().enumerate() {
            let which = if place == 0 { "" } else { ", which" };
            text += &format!("{which} paused {}", self.pauses.name(*port));
        }
        text
    }

    /// `flow 3 (host0 -> host4)`
    fn who(&self, qp: usize) -> String {
        let info = &self.plan.wiring.qps[qp];
        if matches!(info.role, Role::Data { .. }) {
            return flow_name(self.plan, qp);
        }
        let name = |node: u32| &self.plan.wiring.topology.node(NodeId(node)).name;
        format!("flow {qp} ({} -> {})", name(info.source), name(info.target))
    }

    /// Name of the collective or the traffic section that a QP belongs to.
    fn owner(&self, qp: usize) -> String {
        match self.plan.wiring.qps[qp].role {
            Role::Data { job, .. } | Role::Cts { job, .. } => {
                let config = &self.plan.wiring.jobs[job as usize].config;
                match config.name.as_str() {
                    "" => format!("collective {job}"),
                    name => name.to_owned(),
                }
            }
            Role::Line { workload, .. } => {
                match self.plan.wiring.workloads[workload as usize].name.as_str() {
                    "" => "program".to_owned(),
                    name => name.to_owned(),
                }
            }
            Role::Flow { number, .. } => {
                let section = self.plan.spec.flows.get(number as usize).map(|flow| flow.section);
                let called = section.and_then(|s| self.plan.spec.sections.get(s as usize));
                let name = called.map_or("", |called| called.trim_start_matches('.'));
                format!("traffic {name}").trim_end().to_owned()
            }
        }
    }

    /// The job of the worst victim, and another that the NIC at the root works for; none if the
    /// first goes there as well, or the root is no NIC.
    fn jobs(&self) -> Option<(String, String)> {
        let root = self.harm.root;
        if !matches!(root.kind, RootKind::SlowReceiver | RootKind::PauseStorm) {
            return None;
        }
        let host = self.plan.wiring.wires[root.port.index()].node;
        let own = self.owner(self.harm.victims[0].0);
        let qps = self.plan.wiring.qps.iter().enumerate();
        let there = qps.filter(|(_, qp)| qp.target == host || qp.source == host);
        let mut owners: Vec<String> = there.map(|(qp, _)| self.owner(qp)).collect();
        owners.sort_unstable();
        owners.dedup();
        if owners.contains(&own) {
            return None;
        }
        owners.into_iter().next().map(|other| (own, other))
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self.harm.root.kind {
            RootKind::SlowReceiver => {
                "look at PCIe width and speed of that host, and at the memory that its NIC writes to \
                 (nic.receive.rate)"
            }
            RootKind::PauseStorm => "a PFC watchdog that finds it: [switch.pfc_wd]",
            RootKind::ReceiverLinkFull | RootKind::CongestedPort => {
                "let ECN and DCQCN slow down those who fill that port before PFC acts, or give the \
                 victims a lossless priority of their own"
            }
            RootKind::Circular | RootKind::Unknown => return None,
        };
        Some(remedy.to_owned())
    }
}
