//! From the components of a fabric to a [`Report`].

use std::collections::BTreeMap;

use sim_core::{Delta, Fingerprint, Time};

use super::{
    FlowReport, FlowStatus, Held, Name, NicReport, OpenPause, OutcomeKind, Pauses, Performance,
    PortReport, PriorityReport, Report, SCHEMA, StormReport, Totals, WatchdogReport,
    WatchdogStatus, collective, deadlock, ideal, program, queues, sizes, training,
};
use crate::counters::{DropReason, NicCounters, PortCounters};
use crate::fabric::{Fabric, Outcome, Plan, Role, StopReason};
use crate::ids::{PRIORITIES, PortId};
use crate::nic::Receiver;
use crate::probe::Probe;
use crate::switch::StormFrames;
use crate::topology::Topology;
use crate::traffic::Transport;

/// The report of a run, without diagnosis and with the performance still to be filled in.
pub fn make<P: Probe>(outcome: &Outcome<P>, plan: &Plan, scenario: &str) -> Report {
    make_with(outcome, plan, &Pauses::new(outcome, plan), scenario)
}

/// The same, where the pauses are known.
pub fn make_with<P: Probe>(
    outcome: &Outcome<P>,
    plan: &Plan,
    pauses: &Pauses,
    scenario: &str,
) -> Report {
    let context = Context::new(outcome, plan, pauses);
    let names = Names::new(plan);
    let flows: Vec<FlowReport> =
        (0..plan.wiring.data_qps as usize).map(|qp| context.flow(qp, &names)).collect();
    let ports: Vec<PortReport> =
        (0..plan.wiring.wires.len()).map(|port| context.port(port, &names)).collect();
    let collectives = collective::reports(outcome, plan);
    let trainings = training::reports(outcome, plan);
    let statuses = collectives.iter().map(|collective| collective.status);
    let statuses = statuses.chain(trainings.iter().map(|training| training.status));
    let programs = program::reports(outcome, plan);
    let statuses = statuses.chain(programs.iter().map(|program| program.status));
    let outcome_kind = context.outcome_kind(&flows, statuses);
    let deadlocks = match outcome_kind {
        OutcomeKind::Deadlock => deadlock::deadlocks(outcome),
        _ => Vec::new(),
    };
    let mut report = Report {
        schema: SCHEMA,
        rocesim: env!("CARGO_PKG_VERSION").to_owned(),
        commit: String::new(),
        presets: Vec::new(),
        scenario: scenario.to_owned(),
        seed: plan.spec.seed,
        outcome: outcome_kind,
        simulated_time_s: outcome.end.as_secs(),
        fingerprint: String::new(),
        performance: Performance::default(),
        packet_hops: outcome.fabric.tally.packet_hops,
        slowdown_by_size: sizes::by_size(&flows, &names.sections),
        queue_bytes: queues::queues(outcome, plan),
        flows,
        collectives,
        trainings,
        programs,
        ports,
        nics: context.nics(&names),
        totals: context.totals(),
        pfc_wd: context.watchdogs(&names),
        open_pauses: context.open_pauses(&names),
        pauses: pauses.whole().clone(),
        deadlocks,
        findings: Vec::new(),
        assumed: Vec::new(),
    };
    report.fingerprint = context.fingerprint(&report);
    report
}

/// Names of nodes, ports and traffic sections, by index.
struct Names {
    nodes: Vec<Name>,
    ports: Vec<Name>,
    /// None if it has no name of its own.
    sections: Vec<Option<Name>>,
}

impl Names {
    fn new(plan: &Plan) -> Self {
        let topology: &Topology = &plan.wiring.topology;
        // a path begins with a point where it is a name
        let sections = plan.spec.sections.iter().map(|path| path.strip_prefix('.'));
        let nodes = topology.nodes().iter().map(|node| node.name.as_str().into());
        let ports = (0..topology.ports().len() as u32).map(PortId);
        Names {
            nodes: nodes.collect(),
            ports: ports.map(|port| topology.port_name(port).into()).collect(),
            sections: sections.map(|name| name.map(Name::from)).collect(),
        }
    }
}

struct Context<'a, P: Probe> {
    outcome: &'a Outcome<P>,
    fabric: &'a Fabric<P>,
    plan: &'a Plan,
    pauses: &'a Pauses,
    /// The measured window, cut to the run.
    window: [Time; 2],
    /// By collective: all its ranks have finished.
    finished: Vec<bool>,
    /// The same by workload.
    finished_lines: Vec<bool>,
}

impl<'a, P: Probe> Context<'a, P> {
    fn new(outcome: &'a Outcome<P>, plan: &'a Plan, pauses: &'a Pauses) -> Self {
        let window = plan.wiring.measure.map(|edge| edge.min(outcome.end));
        let jobs = 0..plan.wiring.jobs.len() as u32;
        let finished = jobs.map(|job| outcome.finished(job)).collect();
        let workloads = 0..plan.wiring.workloads.len() as u32;
        let done = |workload| outcome.players(workload).iter().all(|player| player.is_done());
        let finished_lines = workloads.map(done).collect();
        Context { outcome, fabric: &outcome.fabric, plan, pauses, window, finished, finished_lines }
    }

    /// `jobs`: how collectives and training jobs stand.
    fn outcome_kind(
        &self,
        flows: &[FlowReport],
        jobs: impl Iterator<Item = FlowStatus>,
    ) -> OutcomeKind {
        let statuses = flows.iter().map(|flow| flow.status).chain(jobs);
        let mut unfinished =
            statuses.filter(|s| matches!(s, FlowStatus::Unfinished | FlowStatus::Pending));
        match self.outcome.reason {
            StopReason::Owner => OutcomeKind::Interrupted,
            _ if !self.outcome.circles.is_empty() => OutcomeKind::Deadlock,
            StopReason::Limit => OutcomeKind::TimeLimit,
            StopReason::Deadlock | StopReason::Circle => OutcomeKind::Deadlock,
            _ if self.fabric.tally.failed > 0 => OutcomeKind::QpError,
            StopReason::Quiescent if unfinished.next().is_some() => OutcomeKind::Stalled,
            StopReason::Quiescent | StopReason::Planned | StopReason::LastFlow => {
                OutcomeKind::Completed
            }
        }
    }

    fn flow(&self, qp: usize, names: &Names) -> FlowReport {
        let wiring = &self.plan.wiring;
        let info = &wiring.qps[qp];
        let (sender, receiver) = (self.fabric.senders.record(qp), &self.fabric.receivers[qp]);
        let name = |node: u32| names.nodes[node as usize].clone();
        let job = match info.role {
            Role::Data { job, .. } => Some(job),
            Role::Flow { .. } | Role::Cts { .. } | Role::Line { .. } => None,
        };
        let line = match info.role {
            Role::Line { workload, .. } => Some(workload),
            _ => None,
        };
        let workload = line.or_else(|| job.and_then(|job| wiring.workload_of(job)));
        let done = job.is_some_and(|job| self.finished[job as usize])
            || line.is_some_and(|workload| self.finished_lines[workload as usize]);
        let finished_at = self.outcome.finished_at(qp);
        let status = match (self.outcome.has_failed(qp), finished_at, info.bytes) {
            (true, ..) => FlowStatus::QpError,
            _ if done => FlowStatus::Completed,
            _ if job.or(line).is_some() => FlowStatus::Unfinished,
            (_, Some(_), _) => FlowStatus::Completed,
            (_, None, None) => FlowStatus::Unlimited,
            _ if sender.starts_at > self.outcome.end => FlowStatus::Pending,
            _ => FlowStatus::Unfinished,
        };
        // a QP of a collective has sent what it was given
        let size = if done { Some(receiver.delivered_bytes) } else { info.bytes };
        let delivered = size == Some(receiver.delivered_bytes)
            && (receiver.delivered_bytes > 0 || status == FlowStatus::Completed);
        let fct = delivered.then(|| receiver.last_delivery.since(sender.starts_at));
        let completed = status == FlowStatus::Completed;
        let acked = finished_at.filter(|_| completed).map(|at| at.since(sender.starts_at));
        // slow start has no ideal
        let ideal = info.bytes.filter(|_| !info.is_tcp()).map(|bytes| {
            let mtu = self.plan.spec.nics[info.source as usize].as_ref().map_or(4096, |n| n.mtu);
            let asking = if info.transport == Transport::RcRead {
                let wire_len = wiring.frames.wire_len(wiring.frames.data(0, true));
                wiring.time_along(&wiring.way(qp, true, |_| None), wire_len)
            } else {
                Delta::ZERO
            };
            asking + ideal::fct(wiring, &self.plan.path(qp), bytes, mtu, info.transport)
        });
        // an edge beyond the end of the run finds what was delivered by then
        let measured = |edge: usize| match receiver.measured[edge] {
            Some(bytes) if self.plan.wiring.measure[edge] <= self.outcome.end => bytes,
            _ => receiver.delivered_bytes,
        };
        let measured_bytes = measured(1) - measured(0);
        let begin = self.window[0].max(sender.starts_at);
        let finish = if delivered { receiver.last_delivery } else { self.window[1] };
        let active = finish.min(self.window[1]).since(begin).as_secs();
        let held = self.pauses.held(qp);
        FlowReport {
            id: qp as u32,
            source: name(info.source),
            target: name(info.target),
            traffic: match info.role {
                Role::Flow { number } => {
                    let section = self.plan.spec.flows[number as usize].section;
                    names.sections.get(section as usize).cloned().flatten()
                }
                _ => None,
            },
            collective: job.filter(|_| workload.is_none()),
            training: workload.and_then(|workload| {
                let trainings = &wiring.trainings;
                let place = trainings.iter().position(|training| training.workload == workload);
                place.map(|place| place as u32)
            }),
            program: line.and_then(|workload| {
                let place = wiring.schedules.iter().position(|number| *number == workload);
                place.map(|place| place as u32)
            }),
            source_port: info.tuple.source_port,
            priority: sender.priority,
            bytes: size,
            start_s: (sender.starts_at < Time::MAX).then(|| sender.starts_at.as_secs()),
            fct_s: fct.map(|fct| fct.as_secs()),
            acked_s: acked.map(|acked| acked.as_secs()),
            ideal_fct_s: ideal.map(|ideal| ideal.as_secs()),
            slowdown: fct.zip(ideal).map(|(fct, ideal)| fct.ps() as f64 / ideal.ps() as f64),
            delivered_bytes: receiver.delivered_bytes,
            measured_bytes,
            goodput_bps: if active > 0.0 { measured_bytes as f64 * 8.0 / active } else { 0.0 },
            status,
            retransmitted_bytes: sender.retransmitted_bytes,
            reordered_packets: receiver.reordered(),
            paused_share: held.map_or(0.0, Held::share),
            victim_share: held.map_or(0.0, Held::victim_share),
            paused_by: held.map(|held| {
                let victim = !held.victim_time.is_zero();
                let root = if victim { held.victim_root } else { held.root };
                self.pauses.name(self.pauses.root(root).port).clone()
            }),
        }
    }

    /// Time-weighted mean depth of a queue in the measured window.
    fn mean_queue(&self, port: usize, priority: usize) -> f64 {
        let span = self.window[1].since(self.window[0]).ps();
        if span == 0 {
            return 0.0;
        }
        let edge =
            |edge: usize| self.fabric.integrals[edge].as_ref().map(|all| all[port][priority]);
        let queue = &self.fabric.ports[port].queues[priority];
        let to = edge(1).unwrap_or_else(|| queue.integral(self.outcome.end));
        (to - edge(0).unwrap_or(0).min(to)) as f64 / span as f64
    }

    fn port(&self, port: usize, names: &Names) -> PortReport {
        let topology = &self.plan.wiring.topology;
        let info = topology.port(PortId(port as u32));
        let state = &self.fabric.ports[port];
        let counters = &state.aside.counters;
        let priorities: Vec<PriorityReport> = (0..PRIORITIES)
            .filter(|priority| self.in_use(port, *priority))
            .map(|priority| self.priority(port, priority, counters))
            .collect();
        let sum = |of: fn(&PriorityReport) -> u64| priorities.iter().map(of).sum();
        let sum_f64 = |of: fn(&PriorityReport) -> f64| priorities.iter().map(of).sum();
        PortReport {
            node: names.nodes[info.node.index()].clone(),
            port: names.ports[port].clone(),
            peer: names.ports[info.peer.index()].clone(),
            rate_bps: info.rate.bps(),
            tx_bytes: state.tx.bytes,
            rx_bytes: state.rx.bytes,
            tx_packets: state.tx.packets,
            ecn_marked_packets: sum(|p| p.ecn_marked_packets),
            rx_pause_frames: sum(|p| p.rx_pause_frames),
            tx_pause_frames: sum(|p| p.tx_pause_frames),
            pause_episodes: sum(|p| p.pause_episodes),
            paused_s: sum_f64(|p| p.paused_s),
            max_queue_bytes: priorities.iter().map(|p| p.max_queue_bytes).max().unwrap_or(0),
            mean_queue_bytes: sum_f64(|p| p.mean_queue_bytes),
            drops: drops([counters]),
            priorities,
        }
    }

    /// Whether anything happened on a priority.
    fn in_use(&self, port: usize, priority: usize) -> bool {
        let state = &self.fabric.ports[port];
        let PortCounters { rx_pause, tx_pause, tx_resume, ecn_marked, .. } = &state.aside.counters;
        let counted = [rx_pause, tx_pause, tx_resume, ecn_marked];
        state.queues[priority].max_bytes() > 0
            || state.aside.pause.episodes(priority) > 0
            || counted.iter().any(|counts| counts[priority] > 0)
    }

    fn priority(&self, port: usize, priority: usize, counters: &PortCounters) -> PriorityReport {
        let state = &self.fabric.ports[port];
        PriorityReport {
            priority: priority as u8,
            rx_pause_frames: counters.rx_pause[priority].into(),
            tx_pause_frames: counters.tx_pause[priority].into(),
            tx_resume_frames: counters.tx_resume[priority].into(),
            pause_episodes: state.aside.pause.episodes(priority).into(),
            paused_s: state.aside.pause.paused_time(self.outcome.end, priority).as_secs(),
            max_queue_bytes: state.queues[priority].max_bytes(),
            mean_queue_bytes: self.mean_queue(port, priority),
            ecn_marked_packets: counters.ecn_marked[priority].into(),
        }
    }

    fn nics(&self, names: &Names) -> Vec<NicReport> {
        let wires = self.plan.wiring.wires.iter().zip(&names.ports);
        let report = |(wire, name): (&crate::fabric::Wire, &Name)| {
            let counters = named(&self.fabric.nics[wire.owner as usize].counters);
            (!counters.is_empty()).then(|| NicReport { port: name.to_string(), counters })
        };
        wires.filter(|(wire, _)| !wire.is_switch).filter_map(report).collect()
    }

    fn totals(&self) -> Totals {
        let mut nics = NicCounters::default();
        self.fabric.nics.iter().for_each(|nic| nics.add(&nic.counters));
        let each = |values: &[u32]| values.iter().map(|value| u64::from(*value)).sum::<u64>();
        let mut totals = Totals {
            data_packets: nics.data_packets,
            cnp_sent: nics.np_cnp_sent,
            cnp_handled: nics.rp_cnp_handled,
            nak_sent: nics.out_of_sequence,
            retransmitted_packets: nics.retransmitted_packets,
            timeouts: nics.local_ack_timeout_err,
            drops: drops(self.fabric.ports.iter().map(|port| &port.aside.counters)),
            ..Totals::default()
        };
        let mut paused = 0;
        for port in &self.fabric.ports {
            let (counters, pause) = (&port.aside.counters, &port.aside.pause);
            totals.ecn_marked_packets += each(&counters.ecn_marked);
            totals.pfc_xoff_frames += each(&counters.tx_pause);
            totals.pfc_xon_frames += each(&counters.tx_resume);
            totals.lossless_drops += u64::from(counters.lossless_drops);
            for priority in 0..PRIORITIES {
                totals.pause_episodes += u64::from(pause.episodes(priority));
                paused += pause.paused_time(self.outcome.end, priority).ps();
            }
        }
        totals.paused_s = paused as f64 / 1e12;
        let rc = self.fabric.receivers.iter().filter(|receiver| receiver.is_rc());
        totals.reordered_packets = rc.map(Receiver::reordered).sum();
        totals
    }

    /// The queues that were stormed.
    fn watchdogs(&self, names: &Names) -> Vec<WatchdogReport> {
        let mut reports = Vec::new();
        for (port, state) in self.fabric.ports.iter().enumerate() {
            let Some(watchdog) = &state.aside.watchdog else { continue };
            for watched in &watchdog.queues {
                let counters = &watched.watch.counters;
                if counters.storm_detected == 0 {
                    continue;
                }
                let stormed = watched.watch.stormed();
                // what waits has not been sent
                let waiting = if stormed { state.waiting(watched.queue) } else { 0 };
                let sent = |frames: StormFrames| {
                    let tx_ok = frames.tx_ok.saturating_sub(waiting);
                    StormFrames { tx_ok, ..frames }
                };
                let storm = |(from, to): &(Time, Option<Time>)| StormReport {
                    detected_s: from.as_secs(),
                    restored_s: to.map(Time::as_secs),
                };
                let peer = self.plan.wiring.topology.port(PortId(port as u32)).peer;
                reports.push(WatchdogReport {
                    port: names.ports[port].clone(),
                    peer: names.ports[peer.index()].clone(),
                    priority: watched.priority,
                    queue: watched.queue,
                    action: watchdog.config.action,
                    status: match stormed {
                        true => WatchdogStatus::Stormed,
                        false => WatchdogStatus::Operational,
                    },
                    storm_detected: counters.storm_detected.into(),
                    storm_restored: counters.storm_restored.into(),
                    total: sent(counters.total),
                    last: sent(counters.last),
                    storms: counters.storms.iter().map(storm).collect(),
                });
            }
        }
        reports
    }

    fn open_pauses(&self, names: &Names) -> Vec<OpenPause> {
        let ports = self.fabric.ports.iter().zip(&names.ports);
        ports
            .flat_map(|(state, name)| {
                let paused = state.paused();
                let open = (0..PRIORITIES as u8).filter(move |p| paused & (1 << p) != 0);
                open.map(move |priority| OpenPause { port: name.to_string(), priority })
            })
            .collect()
    }

    fn fingerprint(&self, report: &Report) -> String {
        let mut print = Fingerprint::default();
        for (qp, receiver) in self.fabric.receivers.iter().enumerate() {
            print.add(self.outcome.finished_at(qp).map_or(u64::MAX, Time::ps));
            print.add(receiver.last_delivery.ps());
            print.add(receiver.delivered_bytes);
        }
        for executor in self.fabric.executors.iter().flatten() {
            let jobs = 0..self.plan.wiring.jobs.len() as u32;
            jobs.flat_map(|job| executor.ends(job)).for_each(|end| print.add(end.ps()));
        }
        for workload in 0..self.plan.wiring.workloads.len() as u32 {
            let players = self.outcome.players(workload);
            let records = players.iter().flat_map(|player| player.records());
            records.for_each(|record| print.add(record.end.ps()));
        }
        for port in &self.fabric.ports {
            let counters = &port.aside.counters;
            print.add(port.tx.bytes);
            print.add(port.tx.packets);
            let small = [&counters.rx_pause, &counters.tx_pause, &counters.ecn_marked];
            small.into_iter().flatten().for_each(|count| print.add(u64::from(*count)));
            // later reasons count only where there are any, so that digests stay comparable
            let (first, later) = counters.drops.split_at(DropReason::LinkDown as usize);
            first.iter().for_each(|count| print.add(u64::from(*count)));
            later.iter().filter(|count| **count > 0).for_each(|count| print.add((*count).into()));
        }
        print.add(report.packet_hops);
        print.hex()
    }
}

fn drops<'a>(counters: impl IntoIterator<Item = &'a PortCounters>) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    for counters in counters {
        for reason in DropReason::ALL {
            let count = u64::from(counters.drops[reason as usize]);
            if count > 0 {
                *drops.entry(reason.name().to_owned()).or_default() += count;
            }
        }
    }
    drops
}

fn named(counters: &NicCounters) -> BTreeMap<String, u64> {
    let NicCounters {
        np_ecn_marked_roce_packets,
        np_cnp_sent,
        rp_cnp_handled,
        rp_cnp_ignored,
        packet_seq_err,
        out_of_sequence,
        duplicate_request,
        local_ack_timeout_err,
        req_transport_retries_exceeded,
        data_packets: _,
        retransmitted_packets: _,
        tcp_fast_retrans,
        tcp_timeouts,
    } = *counters;
    let all = [
        ("np_ecn_marked_roce_packets", np_ecn_marked_roce_packets),
        ("np_cnp_sent", np_cnp_sent),
        ("rp_cnp_handled", rp_cnp_handled),
        ("rp_cnp_ignored", rp_cnp_ignored),
        ("packet_seq_err", packet_seq_err),
        ("out_of_sequence", out_of_sequence),
        ("duplicate_request", duplicate_request),
        ("local_ack_timeout_err", local_ack_timeout_err),
        ("req_transport_retries_exceeded", req_transport_retries_exceeded),
        ("tcp_fast_retrans", tcp_fast_retrans),
        ("tcp_timeouts", tcp_timeouts),
    ];
    let counted = all.into_iter().filter(|(_, count)| *count > 0);
    counted.map(|(name, count)| (name.to_owned(), count)).collect()
}
