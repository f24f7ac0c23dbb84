//! QPs: of flows, of collectives, and of their CTS messages.

use std::collections::BTreeMap;

use sim_core::Time;
use sim_core::rng::{Domain, Stream};

use super::jobs::Planned;
use super::spec::Spec;
use super::wiring::{QpInfo, Role};
use crate::collective::{Job, Link};
use crate::error::BuildError;
use crate::host::{LagPortSelectMode, NicMode, nics};
use crate::ids::{NodeId, PortId};
use crate::load_balance::{Ecmp, EcmpConfig, FiveTuple};
use crate::nic::{Entropy, NicConfig, Recovery, WindowSize};
use crate::routing::Routes;
use crate::traffic::Transport;

/// What a QP is to be.
struct Ends<'a> {
    source: NodeId,
    target: NodeId,
    /// Ports that it may send by.
    ports: &'a [PortId],
    /// Address that it sends to.
    target_address: u32,
    dscp: u8,
    role: Role,
    transport: Transport,
}

/// Makes QPs one after the other.
pub(super) struct Qps<'a> {
    spec: &'a Spec,
    routes: &'a Routes,
    entropy: SourcePorts,
    /// By address: how a QP of a bond gets its port.
    lag: Vec<LagPortSelectMode>,
    /// By address: QPs that send from it.
    count: Vec<u32>,
    /// By host: flows that start there.
    flows: Vec<u32>,
    qps: Vec<QpInfo>,
}

/// The QPs of all flows, then those of all connections between hosts, then those of their CTS
/// messages. Also returns how many of them carry data.
pub(super) fn qps(
    spec: &Spec,
    routes: &Routes,
    planned: &Planned,
) -> Result<(Vec<QpInfo>, u32), BuildError> {
    let jobs = &planned.jobs;
    let mut made = Qps {
        spec,
        routes,
        entropy: SourcePorts::new(spec),
        lag: lag_modes(spec)?,
        count: vec![0; spec.topology.addresses().len()],
        flows: vec![0; spec.topology.nodes().len()],
        qps: Vec::with_capacity(spec.flows.len()),
    };
    made.flows()?;
    made.connections(jobs)?;
    made.lines(planned)?;
    let data = made.qps.len() as u32;
    made.cts(jobs);
    Ok((made.qps, data))
}

/// How the QPs of each address get their port: by hash where no server is described.
fn lag_modes(spec: &Spec) -> Result<Vec<LagPortSelectMode>, BuildError> {
    let topology = &spec.topology;
    let mut modes = vec![LagPortSelectMode::Hash; topology.addresses().len()];
    for host in topology.hosts() {
        let Some(config) = spec.hosts[host.index()].as_deref() else { continue };
        let plans = nics(config, topology.ports_of(host).count() as u32)?;
        let mut addresses = topology.addresses_of(host);
        for nic in plans {
            let count = if nic.mode == NicMode::Bond { 1 } else { nic.ports };
            for address in addresses.by_ref().take(count as usize) {
                modes[address as usize] = nic.lag;
            }
        }
    }
    Ok(modes)
}

impl Qps<'_> {
    fn nic(&self, host: NodeId) -> &NicConfig {
        let Some(nic) = self.spec.nics[host.index()].as_deref() else {
            unreachable!("QPs end at hosts")
        };
        nic
    }

    fn flows(&mut self) -> Result<(), BuildError> {
        let topology = &self.spec.topology;
        for (number, flow) in self.spec.flows.iter().enumerate() {
            let nic = self.nic(flow.source);
            let key = format!("traffic[{}]", flow.section);
            let (dscp, payload) = match flow.transport {
                Transport::Tcp => (nic.tcp.dscp, nic.tcp.mss),
                _ => (nic.qos.dscp, nic.mtu),
            };
            let transport = &nic.transport;
            let acks = nic.congestion.needs_acks()
                || transport.recovery != Recovery::GoBackN
                || transport.window.or(flow.window.map(WindowSize::Bytes)).is_some();
            if flow.transport == Transport::RcRead && acks {
                let message = format!(
                    "responses to a READ have no ACKs, which congestion control {}, a window, or \
                     recovery other than \"go-back-n\" would need: \"rc\" is expected with them",
                    nic.congestion.name()
                );
                return Err(BuildError::new(format!("{key}.transport"), message));
            }
            let dscp = flow.dscp.unwrap_or(dscp);
            if dscp > 63 {
                let message = format!("{dscp} is out of range: 0 to 63 is expected");
                return Err(BuildError::new(format!("{key}.dscp"), message));
            }
            if flow.bytes.is_some_and(|bytes| bytes / u64::from(payload) >= 1 << 31) {
                let message = format!("a message can have at most 2^31 packets of {payload} B");
                return Err(BuildError::new(format!("{key}.bytes"), message));
            }
            // flows of a host take its addresses in turn, and stay on their rail
            let turn = &mut self.flows[flow.source.index()];
            let [source, target] = [flow.source, flow.target].map(|host| {
                let addresses = topology.addresses_of(host);
                addresses.start + *turn % (addresses.end - addresses.start).max(1)
            });
            *turn += 1;
            let ends = Ends {
                source: flow.source,
                target: flow.target,
                ports: &topology.addresses()[source as usize].ports,
                target_address: target,
                dscp,
                role: Role::Flow { number: number as u32 },
                transport: flow.transport,
            };
            let qp = self.make(&ends, flow.source_port, flow.destination_port)?;
            let (bytes, start) = (flow.bytes, flow.start);
            self.qps.push(QpInfo { bytes, start, window: flow.window, rate: flow.rate, ..qp });
        }
        Ok(())
    }

    fn connections(&mut self, jobs: &[Job]) -> Result<(), BuildError> {
        let [rdma, _] = self.spec.nccl.dscps();
        for (job, plan) in (0..).zip(jobs) {
            for (connection, joined) in (0..).zip(&plan.connections) {
                let Link::Remote { qps, sockets, .. } = &joined.link else { continue };
                let [source, target] =
                    [joined.from, joined.to].map(|rank| plan.ranks[rank as usize].host);
                let (transport, dscp) = match sockets {
                    true => (Transport::Tcp, self.nic(source).tcp.dscp),
                    false => (Transport::Rc, rdma),
                };
                for (ports, to) in qps {
                    let ends = Ends {
                        source,
                        target,
                        ports,
                        target_address: self.spec.topology.address_of(*to),
                        dscp,
                        role: Role::Data { job, connection },
                        transport,
                    };
                    let made = self.make(&ends, None, None);
                    let qp = made.map_err(|error| self.crossing(plan).unwrap_or(error))?;
                    self.qps.push(QpInfo { start: plan.start, ..qp });
                }
            }
        }
        Ok(())
    }

    /// Why the rings of a job leave their rails, if that is why they cannot be joined.
    fn crossing(&self, job: &Job) -> Option<BuildError> {
        let odd = !job.nodes.is_multiple_of(2) && job.nodes > 1;
        if !(odd && job.is_ring() && self.spec.nccl.cross_nic == 2) {
            return None;
        }
        let message = format!(
            "{} hosts are an odd number of hosts: with CROSS_NIC = 2 every other one enters and leaves \
             by NICs the other way round, so that one edge of each ring crosses rails, and rails \
             without spines are not joined; CROSS_NIC = 0, an even number of hosts, or \
             topology.spines is expected",
            job.nodes
        );
        Some(BuildError::new("nccl.CROSS_NIC", message))
    }

    /// A QP for each line of a workload between hosts. GPU g of a host uses its NIC g, or, with `nic k`,
    /// NIC g + k, in turn if there are fewer; messages stay on their rail.
    fn lines(&mut self, planned: &Planned) -> Result<(), BuildError> {
        let topology = &self.spec.topology;
        for (number, workload) in (0..).zip(&planned.workloads) {
            for (line, ends) in (0..).zip(&workload.lines) {
                let [from, to] = [ends.from, ends.to].map(|rank| workload.ranks[rank as usize]);
                if from.host == to.host {
                    continue;
                }
                let [source, target] = [from, to].map(|rank| {
                    let addresses = topology.addresses_of(rank.host);
                    let count = (addresses.end - addresses.start).max(1);
                    addresses.start + (from.gpu + ends.nic) % count
                });
                let ends = Ends {
                    source: from.host,
                    target: to.host,
                    ports: &topology.addresses()[source as usize].ports,
                    target_address: target,
                    dscp: workload.dscp.unwrap_or(self.nic(from.host).qos.dscp),
                    role: Role::Line { workload: number, line },
                    transport: Transport::Rc,
                };
                let qp = self.make(&ends, None, None)?;
                let start = workload.scripts.iter().map(|script| script.start).min();
                self.qps.push(QpInfo { start: start.unwrap_or(Time::ZERO), ..qp });
            }
        }
        Ok(())
    }

    /// The way back of the QPs of each connection, one for each port: CTS messages are WRITEs by
    /// the same RC connections, so they have the same UDP ports.
    fn cts(&mut self, jobs: &[Job]) {
        let [_, rdma] = self.spec.nccl.dscps();
        let data = std::mem::take(&mut self.qps);
        let mut first =
            data.iter().position(|qp| matches!(qp.role, Role::Data { .. })).unwrap_or(0);
        let mut back = Vec::new();
        for (job, plan) in (0..).zip(jobs) {
            for (connection, joined) in (0..).zip(&plan.connections) {
                let Link::Remote { qps, ports, sockets, .. } = &joined.link else { continue };
                for forward in &data[first..first + *ports as usize] {
                    back.push(QpInfo {
                        source: forward.target,
                        target: forward.source,
                        source_address: forward.target_address,
                        target_address: forward.source_address,
                        source_port: self.arrival_port(forward),
                        dscp: if *sockets { forward.dscp } else { rdma },
                        tuple: FiveTuple {
                            source: forward.tuple.destination,
                            destination: forward.tuple.source,
                            ..forward.tuple
                        },
                        role: Role::Cts { job, connection },
                        ..*forward
                    });
                }
                first += qps.len();
            }
        }
        self.qps = data;
        self.qps.extend(back);
    }

    /// The port of the target by which a QP's answers leave: the only one of its address, or, for a
    /// bond, the one on the way back.
    fn arrival_port(&self, qp: &QpInfo) -> u32 {
        let topology = &self.spec.topology;
        let ports = &topology.addresses()[qp.target_address as usize].ports;
        let hash = Ecmp::new(&EcmpConfig::default(), topology.node(NodeId(qp.target)).number);
        ports[hash.choose(&qp.tuple.reversed(), ports.len())].0
    }

    /// A QP; its size and start are for the caller to set.
    fn make(
        &mut self,
        ends: &Ends<'_>,
        source_port: Option<u16>,
        destination_port: Option<u16>,
    ) -> Result<QpInfo, BuildError> {
        let topology = &self.spec.topology;
        let entropy = self.nic(ends.source).entropy;
        let chosen = self.entropy.choose(ends.source, ends.target, entropy);
        let source_address = topology.address_of(ends.ports[0]);
        let tuple = FiveTuple {
            source: ip(self.spec, source_address),
            destination: ip(self.spec, ends.target_address),
            source_port: source_port.unwrap_or(chosen),
            destination_port: destination_port.unwrap_or(self.spec.wire.udp_port),
        };
        let ports = self.ports_towards(ends);
        let back = topology.addresses()[ends.target_address as usize]
            .ports
            .iter()
            .any(|port| self.leads(*port, ends.source, source_address));
        if ports.is_empty() || !back {
            return Err(self.unreachable(ends));
        }
        let number = topology.node(ends.source).number;
        let turn = &mut self.count[source_address as usize];
        let choice = match self.lag[source_address as usize] {
            LagPortSelectMode::Hash => {
                Ecmp::new(&EcmpConfig::default(), number).choose(&tuple, ports.len())
            }
            LagPortSelectMode::QueueAffinity => *turn as usize % ports.len(),
        };
        *turn += 1;
        Ok(QpInfo {
            source: ends.source.0,
            target: ends.target.0,
            source_address,
            target_address: ends.target_address,
            source_port: ports[choice].0,
            dscp: ends.dscp,
            tuple,
            role: ends.role,
            transport: ends.transport,
            ends: [0; 2],
            index: 0,
            bytes: None,
            start: Time::ZERO,
            window: None,
            rate: None,
        })
    }

    /// The ports of the source that lead to the target, the nearest ones if some are nearer.
    fn ports_towards(&self, ends: &Ends<'_>) -> Vec<PortId> {
        let nearest = self.routes.next_hops(ends.source, ends.target, ends.target_address);
        let near = |port: &&PortId| {
            let index = self.spec.topology.index_in_node(**port) as u16;
            nearest.contains(&index)
        };
        let ports: Vec<PortId> = ends.ports.iter().filter(near).copied().collect();
        if self.routes.chooses(ends.source) && !ports.is_empty() {
            return ports;
        }
        let leads = |port: &&PortId| self.leads(**port, ends.target, ends.target_address);
        ends.ports.iter().filter(leads).copied().collect()
    }

    /// Whether the cable of a host's port leads to `address` of `host`.
    fn leads(&self, port: PortId, host: NodeId, address: u32) -> bool {
        let topology = &self.spec.topology;
        let gate = topology.neighbour(port);
        gate == host
            || (topology.node(gate).kind == crate::topology::NodeKind::Switch
                && !self.routes.next_hops(gate, host, address).is_empty())
    }

    fn unreachable(&self, ends: &Ends<'_>) -> BuildError {
        let topology = &self.spec.topology;
        let target = &topology.addresses()[ends.target_address as usize].ports;
        if let Role::Data { .. } = ends.role {
            let name = |port: Option<&PortId>| {
                port.map_or(String::new(), |port| topology.port_name(*port))
            };
            let message = format!(
                "no path from {} to {}: rails without spines reach no other rail; give topology.spines, \
                 or keep rings on their rail (an even number of hosts, or nccl.CROSS_NIC = 0), and \
                 others by nccl.PXN_DISABLE = 0",
                name(ends.ports.first()),
                name(target.first())
            );
            return BuildError::new("topology", message);
        }
        let name = |node| &topology.node(node).name;
        let (source, target) = (name(ends.source), name(ends.target));
        let message = format!("the topology is disconnected: no path from {source} to {target}");
        BuildError::new("topology", message)
    }
}

/// IPv4 address: each node has its own /24.
fn ip(spec: &Spec, address: u32) -> u32 {
    let address = &spec.topology.addresses()[address as usize];
    let number = spec.topology.node(address.host).number;
    let base = u32::from(spec.wire.base_address).wrapping_add(address.index);
    base.wrapping_add((number / 256) << 16).wrapping_add((number % 256) << 8)
}

/// UDP source ports of QPs as they are made.
struct SourcePorts {
    /// Next QP number of each node.
    qpn: Vec<u64>,
    pairs: BTreeMap<(NodeId, NodeId), u16>,
    random: Stream,
}

impl SourcePorts {
    fn new(spec: &Spec) -> Self {
        let random = Stream::new(spec.seed, Domain::Entropy, 0);
        // QP numbers of a fresh device start at 0x11
        SourcePorts { qpn: vec![0x11; spec.topology.nodes().len()], pairs: BTreeMap::new(), random }
    }

    fn choose(&mut self, source: NodeId, target: NodeId, entropy: Entropy) -> u16 {
        let mut qpn = |node: NodeId| {
            let next = &mut self.qpn[node.index()];
            *next += 1;
            *next - 1
        };
        let (local, remote) = (qpn(source), qpn(target));
        match entropy {
            Entropy::Constant => 49152,
            Entropy::Qpn => flow_label_port(local, remote),
            Entropy::Random => 49152 + self.random.below(16384) as u16,
            Entropy::Counted => {
                let next = self.pairs.entry((source, target)).or_insert(10_000);
                *next = next.wrapping_add(1);
                next.wrapping_sub(1)
            }
        }
    }
}

/// rdma-core's `rdma_flow_label_to_udp_sport` of the kernel's default flow label.
fn flow_label_port(local: u64, remote: u64) -> u16 {
    let mut value = local * remote;
    value ^= value >> 20;
    value ^= value >> 40;
    let label = (value & 0xf_ffff) as u32;
    (((label & 0x3fff) ^ ((label & 0xf_c000) >> 14)) | 0xc000) as u16
}
