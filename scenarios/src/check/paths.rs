//! The ways through the fabric: hashes at two tiers, bandwidth above and below, collectives.

use std::collections::BTreeMap;

use models::collective::Link;
use models::fabric::{QpInfo, Role};
use models::ids::{NodeId, PortId};
use models::load_balance::EcmpSeed;
use models::nic::{NicConfig, Recovery};
use models::report::Severity;
use models::topology::NodeKind;

use super::{Notes, note};

impl Notes<'_> {
    /// Equal hashes at two tiers choose alike.
    pub(super) fn ecmp(&mut self) {
        let plan = self.plan;
        let topology = &plan.wiring.topology;
        let mut targets: Vec<u32> = plan.wiring.qps.iter().map(|qp| qp.target_address).collect();
        targets.sort_unstable();
        targets.dedup();
        let choices = plan.wiring.routes.choices(&targets);
        let chooses = |switch| !choices.of(switch).is_empty();
        let hashes = |switch: &NodeId| chooses(*switch) && !plan.spreads(*switch);
        let choosing: Vec<NodeId> = topology.switches().filter(hashes).collect();
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
                    let [here, there] =
                        [*switch, neighbour].map(|node| topology.node(node).name.as_str());
                    let text = format!(
                        "switches of two tiers, such as {here} and {there}, hash alike (function, \
                         seed and offset): the upper one uses only some of its links"
                    );
                    self.add(
                        note(Severity::Warning, "switch.ecmp.seed", text, Some(port)),
                        "polarised",
                    );
                }
            }
        }
    }

    /// Switches that bring packets out of order, and receivers that throw those away.
    pub(super) fn spray(&mut self) {
        let plan = self.plan;
        let (wiring, topology) = (&plan.wiring, &plan.wiring.topology);
        if !plan.reorders() {
            return;
        }
        for qp in &wiring.qps {
            let strict = |nic: &NicConfig| {
                !nic.transport.ooo_data_placement
                    && nic.transport.recovery != Recovery::SelectiveRepeat
            };
            if !plan.spec.nics[qp.target as usize].as_deref().is_some_and(strict) {
                continue;
            }
            let switch = topology.neighbour(PortId(qp.source_port));
            let hops = wiring.routes.next_hops(switch, NodeId(qp.target), qp.target_address);
            if hops.len() > 1 && plan.balance(switch).reorders() {
                let text = format!(
                    "{} spreads packets of a flow over {} links, and {} takes none out of order: each \
                     that comes early is thrown away and sent again (nic.transport.ooo_data_placement, \
                     or recovery)",
                    topology.node(switch).name,
                    hops.len(),
                    topology.node(NodeId(qp.target)).name
                );
                return self.say(Severity::Warning, "switch.load_balance", text);
            }
        }
    }

    /// Collectives in a class that PFC does not protect, and NICs that PCIe holds back.
    pub(super) fn collectives(&mut self) {
        let plan = self.plan;
        let [dscp, _] = plan.spec.nccl.dscps();
        // TCP sends again what is lost
        let over_rdma = |qp: &&QpInfo| {
            let Role::Data { job, .. } = qp.role else { return false };
            let mut all = plan.wiring.jobs[job as usize].connections.iter();
            !all.any(|joined| matches!(joined.link, Link::Remote { sockets: true, .. }))
        };
        for qp in plan.wiring.qps.iter().filter(over_rdma) {
            let Some(nic) = plan.spec.nics[qp.source as usize].as_deref() else { continue };
            let priority = nic.qos.priority(dscp);
            if !nic.pfc.priorities.contains(&priority) {
                let text = format!(
                    "data of collectives has DSCP {dscp} (IB_TC >> 2, 0 if unset) and priority \
                     {priority}, which PFC does not protect"
                );
                self.say(Severity::Warning, "nccl.IB_TC", text);
            }
        }
        for (name, why) in &plan.spec.nccl.ignored {
            self.say(
                Severity::Warning,
                &format!("nccl.{name}"),
                format!("{name} is ignored: {why}"),
            );
        }
        for dma in &plan.wiring.dmas {
            let text = format!("PCIe of some NICs carries {}, less than their ports", dma.rate);
            self.say(Severity::Info, "host.nic.pcie.rate", text);
        }
    }

    /// More host bandwidth below a switch than above it.
    pub(super) fn oversubscription(&mut self) {
        let topology = &self.plan.wiring.topology;
        let mut ratios: BTreeMap<String, (u32, &str)> = BTreeMap::new();
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
                ratios.entry(ratio).or_insert((0, &topology.node(switch).name)).0 += 1;
            }
        }
        for (ratio, (count, first)) in ratios {
            let text = format!(
                "{count} switches ({first} the first) are oversubscribed {ratio} to 1: hosts there \
                 cannot all send beyond it at their rate"
            );
            self.say(Severity::Info, "topology", text);
        }
    }
}
