//! From a [`Spec`] to the shards of a [`Fabric`].

use std::collections::BTreeMap;
use std::sync::Arc;

use sim_core::{Delta, Rate, Time};

use super::host_parts::{dmas, executors};
use super::jobs::{Planned, planned};
use super::open::Opener;
use super::ports::Tables;
use super::settings::plan_settings;
use super::shards::Shards;
use super::spec::{OnDeadlock, Spec};
use super::ways::Ways;
use super::wiring::{Wire, Wiring};
use super::{Fabric, Followers, check, qps, shards};
use crate::collective::{Executor, Noted};
use crate::error::BuildError;
use crate::fault::Faults;
use crate::ids::{NodeId, PortId};
use crate::load_balance::Ecmp;
use crate::nic::{
    Dma, Nic, NicConfig, NicParams, ReceiveBuffer, ReceiveConfig, Senders, WindowSize,
};
use crate::note::Notes;
use crate::probe::Probe;
use crate::routing::Routes;
use crate::switch::{BufferPlan, Pipeline, PortPlan, Switch, SwitchConfig, plan_buffer};
use crate::topology::NodeKind;
use crate::traffic::FLOWS_MAX;
use crate::wire::{Frames, LinkClock};

/// A fabric that can be built: everything is checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was asked for.
    pub spec: Arc<Spec>,
    /// The fixed part.
    pub wiring: Arc<Wiring>,
    /// The buffer of each switch.
    pub buffers: Vec<Arc<BufferPlan>>,
    /// By node: a host's NIC, ready for use.
    nics: Vec<Option<Arc<NicParams>>>,
    /// By node: hosts that run collectives, at the start.
    pub(crate) executors: Vec<Option<Executor>>,
    /// What lanes of collectives note in detail.
    pub noted: Noted,
    /// Number of shards.
    pub shards: usize,
}

/// Checks `spec` and plans a fabric of `shards`.
pub fn plan(spec: Spec, shards: Shards) -> Result<Plan, BuildError> {
    check::wire(&spec.wire)?;
    let mut checked: *const SwitchConfig = std::ptr::null();
    for config in spec.switches.iter().chain(&spec.switch_ports).flatten() {
        // neighbours share theirs
        if Arc::as_ptr(config) != checked {
            check::switch(config)?;
            checked = Arc::as_ptr(config);
        }
    }
    let mut checked: *const NicConfig = std::ptr::null();
    for config in spec.nics.iter().flatten() {
        if Arc::as_ptr(config) != checked {
            check::nic(config)?;
            checked = Arc::as_ptr(config);
        }
    }
    if spec.flows.len() > FLOWS_MAX {
        let message = format!("at most {} million flows can be", FLOWS_MAX / 1_000_000);
        return Err(BuildError::new("traffic", message));
    }
    let topology = &spec.topology;
    let frames = Frames::new(&spec.wire);
    for (id, node) in topology.nodes().iter().enumerate() {
        if topology.ports_of(NodeId(id as u32)).count() > usize::from(u16::MAX) {
            let message = format!("{} has more than {} ports", node.name, u16::MAX);
            return Err(BuildError::new("topology", message));
        }
    }
    for (port, config) in (0..).map(PortId).zip(&spec.switch_ports) {
        if let Some(bounce) = config.as_deref().and_then(|config| config.qos.bounce.as_ref()) {
            bounce.check_ports(topology, port)?;
        }
    }
    let mut routes = Routes::shortest(topology)?;
    routes.apply(topology, &spec.routes)?;
    let mut faults = Faults::new(&spec.faults, topology, &spec.routes)?;
    plan_settings(&spec, &frames, &mut faults)?;
    let planned = planned(&spec)?;
    let (mut qps, data_qps) = qps::qps(&spec, &routes, &planned)?;
    let executors = executors(&spec, &planned, &mut qps);
    let Planned { jobs, workloads, trainings, schedules, .. } = planned;
    let (wires, shard_of) = shards::split(&spec, &frames, &qps, shards, wires);
    let count = shard_of.iter().max().map_or(1, |most| usize::from(*most) + 1);
    let dmas = dmas(&spec)?;
    let buffers = buffers(&spec, &frames)?;
    let sampled_ports = sampled_ports(&spec)?;
    let measure_to = spec.measure.to.map_or(Time::MAX, |to| Time::ZERO + to);
    if measure_to <= Time::ZERO + spec.measure.from {
        return Err(BuildError::new("measure.to", "the measured window ends before it begins"));
    }
    if spec.stop.after.is_some_and(|after| after <= spec.measure.from && !after.is_zero()) {
        return Err(BuildError::new(
            "measure.from",
            "the run ends before the measured window begins",
        ));
    }
    let nics = prepare_nics(&spec.nics);
    let mut wiring = Wiring {
        topology: topology.clone(),
        routes,
        faults,
        frames,
        wires,
        qps,
        data_qps,
        jobs,
        workloads,
        trainings,
        schedules,
        dmas,
        followers: Followers::new(&spec.flows),
        shard_of,
        base_rtt: Delta::ZERO,
        measure: [Time::ZERO + spec.measure.from, measure_to],
        sample_interval: spec.sample.interval,
        sample_keep: spec.sample.keep,
        sampled_ports,
        sampled_qps: spec.sample.flows.unwrap_or(64).min(data_qps),
    };
    wiring.base_rtt = base_rtt(&spec, &wiring);
    if spec.stop.stall < Delta::from_us(1) {
        let message = format!("{} is out of range: at least 1us is expected", spec.stop.stall);
        return Err(BuildError::new("stop.stall", message));
    }
    if spec.stop.deadlock == OnDeadlock::GoOn
        && spec.stop.after.is_none()
        && spec.stop.limit.is_none()
    {
        let message = "a run that goes on in a deadlock needs an end: stop.after or stop.limit";
        return Err(BuildError::new("stop.deadlock", message));
    }
    if spec.sample.interval == Some(Delta::ZERO) {
        return Err(BuildError::new("sample.interval", "0 is out of range: a time is expected"));
    }
    if let Some(keep) = spec.sample.keep.filter(|keep| *keep < 10) {
        let message = format!("{keep} is out of range: at least 10 is expected");
        return Err(BuildError::new("sample.keep", message));
    }
    Ok(Plan {
        spec: Arc::new(spec),
        wiring: Arc::new(wiring),
        buffers,
        nics,
        executors,
        noted: Noted::default(),
        shards: count,
    })
}

/// The longest time of a full packet and its ACK in an empty fabric, of all QPs; 0 if no NIC asks.
fn base_rtt(spec: &Spec, wiring: &Wiring) -> Delta {
    let asks = |nic: &Arc<NicConfig>| {
        nic.congestion.needs_rtt() || nic.transport.window == Some(WindowSize::Bdp)
    };
    if !spec.nics.iter().flatten().any(asks) {
        return Delta::ZERO;
    }
    let rtt = |qp: usize| {
        let mtu = spec.nics[wiring.qps[qp].source as usize].as_ref().map_or(0, |nic| nic.mtu);
        let pass = |back: bool, wire_len: u64| {
            wiring.time_along(&wiring.way(qp, back, |_| None), wire_len)
        };
        let frames = &wiring.frames;
        let [data, ack] = [frames.data(mtu, false), frames.ack].map(|len| frames.wire_len(len));
        pass(false, data) + pass(true, ack)
    };
    // QPs between the same hosts go alike
    let mut pairs: Vec<(u32, u32, usize)> = Vec::new();
    pairs.extend((0..).zip(&wiring.qps).map(|(n, qp)| (qp.source_port, qp.target_address, n)));
    pairs.sort_unstable();
    pairs.dedup_by_key(|(source, target, _)| (*source, *target));
    pairs.into_iter().map(|(.., qp)| rtt(qp)).max().unwrap_or(Delta::ZERO)
}

fn wires(spec: &Spec, shard_of: &[u16]) -> Vec<Wire> {
    let topology = &spec.topology;
    let (mut switches, mut nics) = (0, 0);
    let mut wires = Vec::with_capacity(topology.ports().len());
    for (id, node) in topology.nodes().iter().enumerate() {
        let is_switch = node.kind == NodeKind::Switch;
        let ports: Vec<PortId> = topology.ports_of(NodeId(id as u32)).collect();
        for port in &ports {
            let info = topology.port(*port);
            let (response, quanta) = pfc_keys(spec, *port);
            wires.push(Wire {
                peer: info.peer.0,
                peer_shard: shard_of[topology.port(info.peer).node.index()],
                index: topology.index_in_node(*port) as u16,
                node: id as u32,
                owner: if is_switch { switches } else { nics },
                first_port: ports[0].0,
                is_switch,
                arrival_delay: info.delay + latency(spec, info.peer),
                clock: LinkClock::new(info.rate, spec.wire.frame_time),
                head: head(spec, info.peer, info.rate),
                pfc_response: response,
                pfc_quanta: quanta,
            });
            nics += u32::from(!is_switch);
        }
        switches += u32::from(is_switch);
    }
    wires
}

/// Wire bytes after which the device at `peer` handles a frame that comes at this rate: those of the
/// smallest frame where it is a switch that cuts through, and no port of it is faster, so that the rest
/// of a frame is always there in time. 0 for all of them.
fn head(spec: &Spec, peer: PortId, rate: Rate) -> u64 {
    let Device::Switch(config) = device(spec, peer) else { return 0 };
    let topology = &spec.topology;
    let mut ports = topology.ports_of(topology.port(peer).node);
    if !config.cut_through || ports.any(|port| topology.port(port).rate > rate) {
        return 0;
    }
    let frames = Frames::new(&spec.wire);
    frames.wire_len(frames.shortest())
}

/// The configuration of the switch port, or of the NIC, that `port` is.
pub(super) enum Device<'a> {
    Switch(&'a SwitchConfig),
    Nic(&'a NicConfig),
}

pub(super) fn device(spec: &Spec, port: PortId) -> Device<'_> {
    let node = spec.topology.port(port).node.index();
    match (&spec.switch_ports[port.index()], &spec.nics[node]) {
        (Some(config), _) => Device::Switch(config),
        (None, Some(config)) => Device::Nic(config),
        (None, None) => unreachable!("every port belongs to a switch or to a NIC"),
    }
}

/// From the last bit of a frame to its handling by the device.
fn latency(spec: &Spec, port: PortId) -> Delta {
    match device(spec, port) {
        Device::Switch(config) => config.latency,
        Device::Nic(config) => config.latency,
    }
}

/// Response time and quanta of a port.
fn pfc_keys(spec: &Spec, port: PortId) -> (Delta, u16) {
    let timing = match device(spec, port) {
        Device::Switch(config) => config.pfc.timing(),
        Device::Nic(config) => config.pfc.timing(),
    };
    (timing.response_time, timing.quanta)
}

pub(super) fn largest_mtu(spec: &Spec) -> u16 {
    spec.nics.iter().flatten().map(|nic| nic.mtu).max().unwrap_or(4096)
}

/// The buffers of all switches; equal ones are planned once.
pub(super) fn buffers(spec: &Spec, frames: &Frames) -> Result<Vec<Arc<BufferPlan>>, BuildError> {
    let topology = &spec.topology;
    let mtu = largest_mtu(spec);
    let mut plans: Vec<Arc<BufferPlan>> = Vec::new();
    let mut known: Vec<(*const SwitchConfig, Vec<PortPlan<'_>>, Arc<BufferPlan>)> = Vec::new();
    for switch in topology.switches() {
        let Some(node) = &spec.switches[switch.index()] else { continue };
        let ports: Vec<PortPlan<'_>> = topology
            .ports_of(switch)
            .filter_map(|port| {
                let info = topology.port(port);
                let config = spec.switch_ports[port.index()].as_deref()?;
                let (response, _) = pfc_keys(spec, info.peer);
                Some(PortPlan {
                    config,
                    rate: info.rate,
                    delay: info.delay,
                    upstream: latency(spec, info.peer) + response,
                    mtu,
                })
            })
            .collect();
        let pointer = Arc::as_ptr(node);
        let alike = |(config, of, _): &&(_, Vec<_>, _)| {
            *config == pointer
                && of.len() == ports.len()
                && of.iter().zip(&ports).all(|(a, b)| PortPlan::alike(a, b))
        };
        // a fabric has few kinds, and where it has many the search must not take long
        match known.iter().rev().take(16).find(alike) {
            Some((.., plan)) => plans.push(plan.clone()),
            None => {
                let plan = Arc::new(plan_buffer(node, &ports, frames)?);
                plans.push(plan.clone());
                known.push((pointer, ports, plan));
            }
        }
    }
    Ok(plans)
}

fn sampled_ports(spec: &Spec) -> Result<Vec<u32>, BuildError> {
    let topology = &spec.topology;
    let all = 0..topology.ports().len() as u32;
    let Some(names) = &spec.sample.ports else { return Ok(all.collect()) };
    let by_name: BTreeMap<String, u32> =
        all.map(|port| (topology.port_name(PortId(port)), port)).collect();
    let mut ports = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let port = by_name.get(name).copied().ok_or_else(|| {
            let message = format!("there is no port {name:?}: `sw0:3` or `host2/nic0` is expected");
            BuildError::new(format!("sample.ports[{index}]"), message)
        })?;
        ports.push(port);
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

/// Shares what equal configurations of hosts need.
fn prepare_nics(configs: &[Option<Arc<NicConfig>>]) -> Vec<Option<Arc<NicParams>>> {
    let mut known: Vec<(*const NicConfig, Arc<NicParams>)> = Vec::new();
    let mut prepare = |config: &Arc<NicConfig>| {
        let pointer = Arc::as_ptr(config);
        if let Some((_, params)) = known.iter().rev().find(|(known, _)| *known == pointer) {
            return params.clone();
        }
        let params = Arc::new(NicParams::new(config));
        known.push((pointer, params.clone()));
        params
    };
    configs.iter().map(|config| config.as_ref().map(&mut prepare)).collect()
}

impl Plan {
    /// The least time from one shard to another.
    pub fn lookahead(&self) -> Delta {
        let Wiring { wires, shard_of, frames, .. } = &*self.wiring;
        shards::lookahead(wires, shard_of, frames)
    }

    /// Builds one shard.
    pub fn build<P: Probe>(&self, shard: usize) -> Result<Fabric<P>, BuildError> {
        let wiring = self.wiring.clone();
        let switches = self.build_switches();
        let pipelines = build_pipelines(&switches);
        let mut tables = Tables::default();
        let mut fabric = Fabric {
            shard: shard as u16,
            large: wiring.wires.len() > LARGE,
            gap: wiring.frames.gap.into(),
            ports: self.build_ports(shard as u16, &switches, &mut tables, !P::IN_ORDER)?,
            switches,
            mmus: self.buffers.iter().flat_map(|buffer| buffer.mmus.iter().cloned()).collect(),
            limited: !pipelines.is_empty(),
            pipelines,
            classifiers: tables.classifiers,
            wreds: tables.wreds,
            ways: Ways::new(wiring.qps.len(), wiring.reroutes(), self.balancers()),
            nics: self.build_nics(),
            dmas: wiring.dmas.iter().map(|dma| Dma::new(dma.rate)).collect(),
            notes: Notes::default(),
            smoothed: Vec::new(),
            executors: self.executors.clone(),
            host_at: vec![Time::MAX; self.executors.len()],
            outputs: Vec::new(),
            senders: Senders::with_capacity(wiring.qps.len()),
            opener: Opener::default(),
            receivers: Vec::with_capacity(wiring.qps.len()),
            waits_for: wiring.followers.waits_for().to_vec(),
            tally: super::Tally::default(),
            standing: super::Standing::new(self.spec.stop.stall),
            samples: Vec::new(),
            sample_every: wiring.sample_interval.unwrap_or(Delta::MAX),
            pauses: super::PauseLog::default(),
            integrals: [None, None],
            probe: P::default(),
            wiring,
        };
        fabric.add_qps(shard as u16, &self.spec.nccl, self.reorders());
        Ok(fabric)
    }

    fn build_switches(&self) -> Vec<Switch> {
        let topology = &self.spec.topology;
        let nodes = topology
            .switches()
            .filter_map(|node| Some((node, self.spec.switches[node.index()].as_deref()?)));
        let (mut mmus, mut pipelines) = (0, 0);
        let build = |((node, config), buffer): ((NodeId, &SwitchConfig), &Arc<BufferPlan>)| {
            let (first_mmu, first_pipeline) = (mmus, pipelines);
            pipelines += config.pipeline.map_or(0, |pipeline| pipeline.count);
            mmus += buffer.mmus.len() as u32;
            let ports = topology.ports_of(node);
            let ports = ports.filter_map(|port| self.spec.switch_ports[port.index()].as_deref());
            Switch {
                first_mmu,
                first_pipeline,
                pipeline: config.pipeline,
                places: buffer.places.clone(),
                ecmp: Ecmp::new(&config.ecmp, topology.node(node).number),
                xoffs: 0,
                storms: 0,
                exact_until: Time::ZERO,
                pfc_to_queue: ports.map(SwitchConfig::pfc_to_queue).collect(),
            }
        };
        nodes.zip(&self.buffers).map(build).collect()
    }

    fn build_nics(&self) -> Vec<Nic> {
        let topology = &self.spec.topology;
        let ports = topology.hosts().flat_map(|host| topology.ports_of(host).map(move |_| host));
        let mut nics: Vec<Nic> =
            ports.filter_map(|host| self.nics[host.index()].clone()).map(Nic::new).collect();
        for (number, dma) in (0..).zip(&self.wiring.dmas) {
            for port in &dma.ports {
                let nic = &mut nics[self.wiring.wires[*port as usize].owner as usize];
                nic.dma = Some(number);
                if nic.receive.is_none() {
                    nic.receive = Some(ReceiveBuffer::new(ReceiveConfig::behind(dma.rate)));
                }
            }
        }
        for port in self.wiring.faults.slow_receivers() {
            let nic = &mut nics[self.wiring.wires[port.index()].owner as usize];
            if nic.receive.is_none() {
                nic.receive = Some(ReceiveBuffer::new(ReceiveConfig::behind(NO_LIMIT)));
            }
        }
        nics
    }
}

/// The pipelines of all switches that have a limit of frames.
fn build_pipelines(switches: &[Switch]) -> Vec<Pipeline> {
    let configs = switches.iter().filter_map(|switch| switch.pipeline);
    let each = configs.flat_map(|config| (0..config.count).map(move |_| Pipeline::new(config)));
    each.collect()
}

/// Faster than any memory.
const NO_LIMIT: Rate = Rate::from_bps(u64::MAX);

/// The lines of this many ports fit into the second-level cache of a processor.
const LARGE: usize = 2048;
