//! What can be said without simulating.

use std::collections::{BTreeMap, BTreeSet};

use models::congestion::CongestionConfig;
use models::fabric::{Plan, Role};
use models::ids::NodeId;
use models::nic::{NicConfig, Notify};
use models::report::Severity;
use models::switch::{Classifier, SwitchConfig};
use models::topology::NodeKind;
use sim_core::Bytes;

/// One thing to know about a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// The key that it is about.
    pub key: String,
    /// In plain words, with the consequence.
    pub text: String,
}

/// All notes on a scenario, the worst first. A healthy one has none.
pub fn notes(plan: &Plan) -> Vec<Note> {
    let mut notes = Notes { notes: Vec::new(), seen: BTreeSet::new() };
    notes.mtu(plan);
    notes.classes(plan);
    notes.ecn_order(plan);
    notes.headroom(plan);
    notes.congestion(plan);
    notes.quanta(plan);
    notes.ecmp(plan);
    notes.oversubscription(plan);
    notes.collectives(plan);
    notes.notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
    notes.notes
}

struct Notes {
    notes: Vec<Note>,
    seen: BTreeSet<String>,
}

impl Notes {
    /// Adds a note once.
    fn add(&mut self, severity: Severity, key: &str, text: String) {
        if self.seen.insert(text.clone()) {
            self.notes.push(Note { severity, key: key.to_owned(), text });
        }
    }

    fn mtu(&mut self, plan: &Plan) {
        let mtus: BTreeSet<u16> = plan.spec.nics.iter().flatten().map(|nic| nic.mtu).collect();
        for mtu in &mtus {
            if ![256, 512, 1024, 2048, 4096].contains(mtu) {
                let text = format!("{mtu} is no IB path MTU (256, 512, 1024, 2048 or 4096)");
                self.add(Severity::Info, "nic.mtu", text);
            }
        }
        if mtus.len() > 1 {
            let list: Vec<String> = mtus.iter().map(u16::to_string).collect();
            let text = format!("NICs differ in MTU: {}", list.join(", "));
            self.add(Severity::Warning, "nic.mtu", text);
        }
    }

    /// Data and CNPs must be in the class that was meant for them, at both ends of each link.
    fn classes(&mut self, plan: &Plan) {
        let topology = &plan.wiring.topology;
        for qp in &plan.wiring.qps {
            let host = NodeId(qp.source);
            let Some(nic) = plan.spec.nics[host.index()].as_deref() else { continue };
            let port = models::ids::PortId(qp.source_port);
            let peer = topology.port(port).peer;
            let Some(switch) = plan.spec.switch_ports[peer.index()].as_deref() else { continue };
            let name = &topology.node(host).name;
            self.data_class(name, nic, switch, qp.dscp);
            self.cnp_class(nic, switch);
        }
    }

    fn data_class(&mut self, host: &str, nic: &NicConfig, switch: &SwitchConfig, dscp: u8) {
        let priority = nic.qos.priority(dscp);
        let (queue, pg) = class_of(switch, dscp);
        let nic_lossless = nic.pfc.priorities.contains(&priority);
        let switch_lossless = switch.pfc.priorities.contains(&pg);
        if nic_lossless && !switch_lossless && !switch.pfc.priorities.is_empty() {
            let text = format!(
                "data with DSCP {dscp} is priority {priority} (PFC) at the NICs but lossy priority \
                 group {pg} at the switch: it will be dropped under congestion"
            );
            self.add(Severity::Error, "switch.qos.dscp_to_tc", text);
        } else if switch_lossless && !nic_lossless {
            let text = format!(
                "data with DSCP {dscp} is lossless priority group {pg} at the switch, but {host} \
                 sends it as priority {priority}, which does not obey PFC: headroom will overflow"
            );
            self.add(Severity::Error, "nic.qos.dscp_to_priority", text);
        } else if switch_lossless && priority != pg {
            let text = format!(
                "data with DSCP {dscp} is priority {priority} at {host} and priority group {pg} at \
                 the switch: its XOFF pauses another class"
            );
            self.add(Severity::Error, "nic.qos.dscp_to_priority", text);
        }
        if switch_lossless && queue != pg && switch.qos.pfc_to_queue.is_empty() {
            let text = format!(
                "DSCP {dscp} is in queue {queue} and priority group {pg}: PFC pauses another queue"
            );
            self.add(Severity::Warning, "switch.qos.tc_to_queue", text);
        }
    }

    fn cnp_class(&mut self, nic: &NicConfig, switch: &SwitchConfig) {
        if nic.np.notify != Notify::Cnp || matches!(nic.congestion, CongestionConfig::None(_)) {
            return;
        }
        let (queue, _) = class_of(switch, nic.qos.cnp_dscp);
        if queue == 0 {
            let text = format!(
                "CNPs (DSCP {}) are in queue 0 with everything unclassified: they come late or not \
                 at all under congestion",
                nic.qos.cnp_dscp
            );
            self.add(Severity::Warning, "switch.qos.dscp_to_tc", text);
        }
    }

    /// Marking should begin before PFC does.
    fn ecn_order(&mut self, plan: &Plan) {
        for (index, switch) in plan.wiring.topology.switches().enumerate() {
            let Some(buffer) = plan.buffers.get(index) else { continue };
            let ports = plan.wiring.topology.ports_of(switch);
            for (port, (slice, base)) in ports.zip(&buffer.places) {
                let Some(config) = plan.spec.switch_ports[port.index()].as_deref() else {
                    continue;
                };
                let cell = config.buffer.cell;
                for (queue, wred) in &config.ecn {
                    if !config.pfc.priorities.contains(queue) {
                        continue;
                    }
                    let group = *base as usize + usize::from(*queue);
                    let limit = u64::from(buffer.mmus[usize::from(*slice)].xoff_alone(group));
                    let limit = limit.saturating_mul(cell.get());
                    let kmin = wred.kmin.to_bytes(cell);
                    if kmin >= limit {
                        let text = format!(
                            "kmin of queue {queue} ({}) is not below what one sender alone may \
                             have in the buffer ({}): it is paused before it is marked",
                            Bytes::new(kmin),
                            Bytes::new(limit)
                        );
                        let key = format!("switch.ecn.{queue}.kmin");
                        self.add(Severity::Warning, &key, text);
                    }
                }
            }
        }
    }

    /// Explicit headroom below what the link needs.
    fn headroom(&mut self, plan: &Plan) {
        for (index, switch) in plan.wiring.topology.switches().enumerate() {
            for (slot, port) in plan.wiring.topology.ports_of(switch).enumerate() {
                let lossless = plan.spec.switch_ports[port.index()]
                    .as_deref()
                    .is_some_and(|config| !config.pfc.priorities.is_empty());
                let buffer = &plan.buffers[index];
                let (has, needs) = (buffer.headroom[slot], buffer.headroom_needed[slot]);
                if lossless && has < needs {
                    let info = plan.wiring.topology.port(port);
                    let text = format!(
                        "headroom is {} at ports of {} with {} of delay; {} is needed in the worst \
                         case: lossless frames may be dropped",
                        Bytes::new(has),
                        info.rate,
                        info.delay,
                        Bytes::new(needs)
                    );
                    self.add(Severity::Warning, "switch.pfc.headroom", text);
                }
            }
        }
    }

    /// Pauses that expire at one end and not at the other.
    fn quanta(&mut self, plan: &Plan) {
        let holds = |quanta: u16| quanta == 0;
        let switches = plan.spec.switch_ports.iter().flatten().map(|port| holds(port.pfc.quanta));
        let nics = plan.spec.nics.iter().flatten().map(|nic| holds(nic.pfc.quanta));
        let kinds: BTreeSet<bool> = switches.chain(nics).collect();
        for (id, config) in plan.spec.switch_ports.iter().enumerate() {
            let Some(pfc) = config.as_deref().map(|config| &config.pfc) else { continue };
            let pause = plan.wiring.wires[id].clock.quanta(pfc.quanta);
            if pfc.quanta > 0 && pfc.refresh.is_some_and(|every| every >= pause) {
                let text = format!("pauses expire after {pause}, before they are repeated");
                self.add(Severity::Warning, "switch.pfc.refresh", text);
            }
        }
        if kinds.len() > 1 {
            let text = "pfc.quanta is 0 on some devices only: pauses from these are not repeated, \
                        but expire elsewhere"
                .to_owned();
            self.add(Severity::Warning, "switch.pfc.quanta", text);
        }
    }

    /// Congestion control without marks, or marks without congestion control.
    fn congestion(&mut self, plan: &Plan) {
        let dcqcn = dcqcn_is_on(plan);
        let marking = plan.spec.switch_ports.iter().flatten().any(|port| !port.ecn.is_empty());
        if dcqcn && !marking {
            let text = "DCQCN is on, but no queue has ECN thresholds: it never acts".to_owned();
            self.add(Severity::Warning, "switch.ecn", text);
        }
        if marking && !dcqcn {
            let text = "queues mark packets, but no NIC runs congestion control".to_owned();
            self.add(Severity::Info, "nic.congestion", text);
        }
        if dcqcn && plan.spec.nics.iter().flatten().any(|nic| nic.np.notify == Notify::Off) {
            let text = "DCQCN is on, but some NICs send no CNP: it never acts".to_owned();
            self.add(Severity::Warning, "nic.np.notify", text);
        }
    }

    /// Equal hashes at two tiers choose alike.
    fn ecmp(&mut self, plan: &Plan) {
        use models::load_balance::EcmpSeed;
        let topology = &plan.wiring.topology;
        let mut targets: Vec<u32> = plan.wiring.qps.iter().map(|qp| qp.target_address).collect();
        targets.sort_unstable();
        targets.dedup();
        let choices = plan.wiring.routes.choices(&targets);
        let chooses = |switch| !choices.of(switch).is_empty();
        let choosing: Vec<NodeId> = topology.switches().filter(|switch| chooses(*switch)).collect();
        for switch in &choosing {
            let Some(config) = plan.spec.switches[switch.index()].as_deref() else { continue };
            for port in topology.ports_of(*switch) {
                let neighbour = topology.neighbour(port);
                if choosing.binary_search(&neighbour).is_err() {
                    continue;
                }
                let Some(other) = plan.spec.switches[neighbour.index()].as_deref() else {
                    continue;
                };
                if config.ecmp == other.ecmp && config.ecmp.seed != EcmpSeed::Node {
                    let text = "switches of two tiers hash alike (function, seed and offset): the \
                                upper one uses only some of its links"
                        .to_owned();
                    self.add(Severity::Warning, "switch.ecmp", text);
                }
            }
        }
    }

    /// Collectives in a class that PFC does not protect, and NICs that PCIe holds back.
    fn collectives(&mut self, plan: &Plan) {
        let [dscp, _] = plan.spec.nccl.dscps();
        for qp in plan.wiring.qps.iter().filter(|qp| matches!(qp.role, Role::Data { .. })) {
            let Some(nic) = plan.spec.nics[qp.source as usize].as_deref() else { continue };
            let priority = nic.qos.priority(dscp);
            if !nic.pfc.priorities.contains(&priority) {
                let text = format!(
                    "data of collectives has DSCP {dscp} (IB_TC >> 2, 0 if unset) and priority \
                     {priority}, which PFC does not protect"
                );
                self.add(Severity::Warning, "nccl.IB_TC", text);
            }
        }
        for dma in &plan.wiring.dmas {
            let text = format!("PCIe of some NICs carries {}, less than their ports", dma.rate);
            self.add(Severity::Info, "host.nic.pcie.rate", text);
        }
    }

    /// More host bandwidth below a switch than above it.
    fn oversubscription(&mut self, plan: &Plan) {
        let topology = &plan.wiring.topology;
        let mut ratios: BTreeMap<String, u32> = BTreeMap::new();
        for switch in topology.switches() {
            let (mut down, mut up) = (0u64, 0u64);
            for port in topology.ports_of(switch) {
                let rate = topology.port(port).rate.bps();
                match topology.node(topology.neighbour(port)).kind {
                    NodeKind::Host => down += rate,
                    NodeKind::Switch => up += rate,
                }
            }
            if up > 0 && down > up {
                let ratio = format!("{:.2}", down as f64 / up as f64);
                *ratios.entry(ratio).or_default() += 1;
            }
        }
        for (ratio, count) in ratios {
            let text = format!("{count} switches are oversubscribed {ratio} to 1");
            self.add(Severity::Info, "topology", text);
        }
    }
}

/// Some NIC runs DCQCN.
pub(crate) fn dcqcn_is_on(plan: &Plan) -> bool {
    let mut nics = plan.spec.nics.iter().flatten();
    nics.any(|nic| match &nic.congestion {
        CongestionConfig::Dcqcn(dcqcn) => !dcqcn.priorities.is_empty(),
        CongestionConfig::None(_) => false,
    })
}

/// Queue and priority group of a DSCP at a switch.
fn class_of(switch: &SwitchConfig, dscp: u8) -> (u8, u8) {
    let mut packet = models::packet::Packet::new(models::packet::Kind::Data, 0, 0, 64);
    packet.dscp = dscp;
    Classifier::new(&switch.qos).of(&packet)
}
