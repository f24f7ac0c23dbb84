//! Classes must mean the same at both ends of every cable, and to NICs and switches alike.

use std::collections::{BTreeMap, BTreeSet};

use models::congestion::CongestionConfig;
use models::fabric::Plan;
use models::ids::{NodeId, PRIORITIES, PortId};
use models::nic::{NicConfig, Notify};
use models::report::Severity;
use models::switch::{Classifier, SwitchConfig, Trust};

use super::{Note, Notes, cables, class_of, data_dscps, is_switch, note, pfc_priorities};

impl Notes<'_> {
    pub(super) fn mtu(&mut self) {
        let plan = self.plan;
        let mtus: BTreeSet<u16> = plan.spec.nics.iter().flatten().map(|nic| nic.mtu).collect();
        for mtu in &mtus {
            if ![256, 512, 1024, 2048, 4096].contains(mtu) {
                let text = format!("{mtu} is no IB path MTU (256, 512, 1024, 2048 or 4096)");
                self.say(Severity::Info, "nic.mtu", text);
            }
        }
        if mtus.len() < 2 {
            return;
        }
        let topology = &plan.wiring.topology;
        let mtu = |host: u32| plan.spec.nics[host as usize].as_deref().map_or(0, |nic| nic.mtu);
        for qp in &plan.wiring.qps {
            let (here, there) = (mtu(qp.source), mtu(qp.target));
            if here == there {
                continue;
            }
            let [source, target] =
                [qp.source, qp.target].map(|host| topology.node(NodeId(host)).name.as_str());
            let text = format!(
                "{source} sends packets of {here} B of payload to {target}, whose MTU is {there}: a \
                 QP between them does not connect, or drops them"
            );
            let at = Some(PortId(qp.source_port));
            self.add(note(Severity::Warning, "nic.mtu", text, at), &format!("{here} {there}"));
        }
    }

    /// Every cable, and every DSCP that data has.
    pub(super) fn classes(&mut self) {
        let plan = self.plan;
        let dscps = self.dscps();
        self.bounces(&dscps);
        let usual = usual_priorities(plan);
        for [port, peer] in cables(plan) {
            if port < peer {
                self.asymmetric(port, peer, usual);
                self.asymmetric(peer, port, usual);
            }
            let Some(down) = plan.spec.switch_ports[peer.index()].as_deref() else { continue };
            let node = plan.wiring.topology.port(port).node;
            match (&plan.spec.switch_ports[port.index()], &plan.spec.nics[node.index()]) {
                (Some(up), _) => {
                    for dscp in &dscps {
                        self.next_switch(port, up, peer, down, *dscp);
                    }
                }
                (None, Some(nic)) => self.cnp_class(nic, peer, down),
                (None, None) => {}
            }
        }
        let topology = &plan.wiring.topology;
        for qp in &plan.wiring.qps {
            let port = PortId(qp.source_port);
            let peer = topology.port(port).peer;
            let nic = plan.spec.nics[qp.source as usize].as_deref();
            let switch = plan.spec.switch_ports[peer.index()].as_deref();
            if let (Some(nic), Some(switch)) = (nic, switch) {
                self.first_switch(port, nic, peer, switch, qp.dscp);
                self.dcqcn_priorities(nic, port, qp.dscp);
            }
        }
    }

    /// The DSCPs that data has, also after a turn.
    fn dscps(&self) -> Vec<u8> {
        let mut dscps: Vec<u8> = data_dscps(self.plan).into_keys().collect();
        let ports = self.plan.spec.switch_ports.iter().flatten();
        let maps = ports.filter_map(|config| Some(&config.qos.bounce.as_ref()?.dscp));
        for map in maps {
            let given = |dscp: &u8| map.get(dscp).copied().filter(|given| !dscps.contains(given));
            let given: BTreeSet<u8> = dscps.iter().filter_map(given).collect();
            dscps.extend(given);
        }
        dscps
    }

    /// Lossless frames that turn into a queue that PFC does not stop.
    fn bounces(&mut self, dscps: &[u8]) {
        let plan = self.plan;
        for (port, config) in (0..).map(PortId).zip(&plan.spec.switch_ports) {
            let Some(config) = config.as_deref() else { continue };
            let Some(bounce) = &config.qos.bounce else { continue };
            for (from, to) in bounce.dscp.iter().filter(|(from, _)| dscps.contains(from)) {
                let ((_, before), (queue, pg)) = (class_of(config, *from), class_of(config, *to));
                let was_lossless = config.pfc.priorities.contains(&before);
                if !was_lossless || paused_by(config, pg) == Some(queue) {
                    continue;
                }
                let text = format!(
                    "frames with DSCP {from} are lossless; those that come down and go up again get \
                     DSCP {to}, which is lossy (group {pg}, queue {queue}): they are dropped under \
                     congestion"
                );
                let key = "switch.qos.bounce.dscp";
                let note = note(Severity::Warning, key, text, Some(port));
                self.add(note, &format!("{from} {to} {queue}"));
            }
        }
    }

    /// XOFF that `from` sends for a priority which `to` does not obey.
    fn asymmetric(&mut self, from: PortId, to: PortId, usual: &[u8]) {
        let plan = self.plan;
        let (sends, obeys) = (pfc_priorities(plan, from), pfc_priorities(plan, to));
        let [here, there] = [from, to].map(|port| self.name(port));
        let odd = sends != usual && obeys == usual;
        let section = |port| if is_switch(plan, port) { "switch" } else { "nic" };
        for priority in sends.iter().filter(|priority| !obeys.contains(priority)) {
            // a NIC sends XOFF only where its receiver is slow
            let mut text = format!(
                "PFC is asymmetric: {here} sends XOFF for priority {priority}, {there} does not \
                 obey it (pfc.priorities {sends:?} and {obeys:?})"
            );
            let severity = if is_switch(plan, from) {
                text += ": its frames go on coming, and are dropped when the headroom is full";
                Severity::Warning
            } else if obeys.is_empty() {
                text += ": there is no PFC in the switch";
                Severity::Info
            } else {
                text += ": a slow receiver's frames are dropped";
                Severity::Warning
            };
            // the end that differs from most others is the one to look at
            let at = if odd { from } else { to };
            let key = format!("{}.pfc.priorities", section(at));
            let what = format!("{priority} {sends:?} {obeys:?}");
            self.add(note(severity, &key, text, Some(at)), &what);
        }
    }

    /// Data that goes from a NIC into a switch.
    fn first_switch(
        &mut self,
        port: PortId,
        nic: &NicConfig,
        peer: PortId,
        switch: &SwitchConfig,
        dscp: u8,
    ) {
        let priority = nic.qos.priority(dscp);
        let (queue, pg) = self.class(switch, dscp, priority);
        let nic_lossless = nic.pfc.priorities.contains(&priority);
        let switch_lossless = switch.pfc.priorities.contains(&pg);
        let [host, there] = [port, peer].map(|port| self.name(port));
        let what = format!("{dscp} {priority} {queue} {pg}");
        let map = match switch.qos.trust {
            Trust::Dscp => "switch.qos.dscp_to_tc",
            Trust::Pcp => "switch.qos.pcp_to_tc",
        };
        if nic_lossless && !switch_lossless && !switch.pfc.priorities.is_empty() {
            let text = format!(
                "data with DSCP {dscp} is priority {priority} (PFC) at {host} but lossy priority \
                 group {pg} at {there}: it will be dropped under congestion"
            );
            self.add(note(Severity::Error, map, text, Some(peer)), &what);
        } else if switch_lossless && !nic_lossless {
            let text = format!(
                "data with DSCP {dscp} is lossless priority group {pg} at {there}, but {host} \
                 sends it as priority {priority}, which does not obey PFC: headroom will overflow"
            );
            self.add(note(Severity::Error, "nic.qos.dscp_to_priority", text, Some(port)), &what);
        } else if switch_lossless && priority != pg {
            let text = format!(
                "data with DSCP {dscp} is priority {priority} at {host} and priority group {pg} at \
                 {there}: its XOFF pauses another class"
            );
            self.add(note(Severity::Error, "nic.qos.dscp_to_priority", text, Some(port)), &what);
        }
        self.lossy_queue(switch, peer, dscp, (queue, pg));
    }

    /// A lossless group whose frames wait in a queue that PFC does not stop.
    fn lossy_queue(&mut self, switch: &SwitchConfig, at: PortId, dscp: u8, (queue, pg): (u8, u8)) {
        if !switch.pfc.priorities.contains(&pg) || paused_by(switch, pg) == Some(queue) {
            return;
        }
        let text = format!(
            "data with DSCP {dscp} is in lossless priority group {pg} and in queue {queue}, which \
             PFC of priority {pg} does not stop: XOFF of the next switch pauses another queue{}",
            match switch.pfc.priorities.iter().any(|p| paused_by(switch, *p) == Some(queue)) {
                true => "",
                false => ", and this one is lossy: it drops what is too much",
            }
        );
        let what = format!("{dscp} {queue} {pg}");
        self.add(note(Severity::Error, "switch.qos.tc_to_queue", text, Some(at)), &what);
    }

    /// Data that goes from one switch into the next: XOFF of its group there must stop its queue here.
    fn next_switch(
        &mut self,
        port: PortId,
        up: &SwitchConfig,
        peer: PortId,
        down: &SwitchConfig,
        dscp: u8,
    ) {
        if up.qos.trust != Trust::Dscp || down.qos.trust != Trust::Dscp {
            return;
        }
        let ((queue, before), (_, pg)) = (class_of(up, dscp), class_of(down, dscp));
        let [here, there] = [port, peer].map(|port| self.name(port));
        let what = format!("{dscp} {queue} {before} {pg}");
        let was_lossless = up.pfc.priorities.contains(&before);
        let is_lossless = down.pfc.priorities.contains(&pg);
        if was_lossless && !is_lossless && !down.pfc.priorities.is_empty() {
            let text = format!(
                "data with DSCP {dscp} is lossless (group {before}) at {here} but in lossy priority \
                 group {pg} at {there}: it will be dropped under congestion"
            );
            self.add(note(Severity::Error, "switch.qos.dscp_to_tc", text, Some(peer)), &what);
        } else if is_lossless && paused_by(up, pg) != Some(queue) {
            let text = format!(
                "data with DSCP {dscp} waits in queue {queue} of {here}; XOFF from {there} is for \
                 priority {pg} and does not stop that queue: headroom will overflow"
            );
            self.add(note(Severity::Error, "switch.qos.dscp_to_tc", text, Some(port)), &what);
        }
    }

    /// The priorities in which DCQCN runs (`ROCE_CC_PRIO_MASK`): data's, and none that PFC does not
    /// protect. That all eight are listed says nothing: it is how NICs are delivered.
    fn dcqcn_priorities(&mut self, nic: &NicConfig, at: PortId, dscp: u8) {
        let CongestionConfig::Dcqcn(dcqcn) = &nic.congestion else { return };
        let (runs, key) = (&dcqcn.priorities, "nic.congestion.priorities");
        let list =
            |priorities: &[u8]| priorities.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        let priority = nic.qos.priority(dscp);
        if !runs.is_empty() && !runs.contains(&priority) {
            let text = format!(
                "data with DSCP {dscp} is priority {priority}, but DCQCN runs in {} only: marks \
                 slow nobody, and PFC alone holds senders back",
                list(runs)
            );
            self.add(note(Severity::Warning, key, text, Some(at)), &format!("{priority} off"));
        }
        let lossy: Vec<u8> =
            runs.iter().filter(|p| !nic.pfc.priorities.contains(p)).copied().collect();
        if runs.len() < PRIORITIES && !lossy.is_empty() && !nic.pfc.priorities.is_empty() {
            let text = format!(
                "DCQCN runs in priority {} too, where PFC is off (it is on in {}): traffic there is \
                 slowed down by marks and loses packets all the same",
                list(&lossy),
                list(&nic.pfc.priorities)
            );
            self.add(note(Severity::Warning, key, text, Some(at)), &format!("{lossy:?} wide"));
        }
    }

    /// The class of notifications.
    fn cnp_class(&mut self, nic: &NicConfig, at: PortId, switch: &SwitchConfig) {
        if nic.np.notify != Notify::Cnp || !nic.congestion.heeds_marks() {
            return;
        }
        let dscp = nic.qos.cnp_dscp;
        let (queue, _) = self.class(switch, dscp, nic.qos.priority(dscp));
        if queue == 0 {
            let text = format!(
                "CNPs (DSCP {dscp}) are in queue 0 with everything unclassified: they come late or \
                 not at all under congestion"
            );
            let key = match switch.qos.trust {
                Trust::Dscp => "switch.qos.dscp_to_tc",
                Trust::Pcp => "nic.qos.dscp_to_priority",
            };
            let note: Note = note(Severity::Warning, key, text, Some(at));
            self.add(note, &format!("cnp {dscp}"));
        }
    }

    /// Queue and priority group of what a NIC sends with this DSCP and priority.
    fn class(&self, switch: &SwitchConfig, dscp: u8, priority: u8) -> (u8, u8) {
        Classifier::new(&switch.qos).place(dscp, priority)
    }
}

/// The priorities of most ports.
fn usual_priorities(plan: &Plan) -> &[u8] {
    let mut counts: BTreeMap<&[u8], u32> = BTreeMap::new();
    for [port, _] in cables(plan) {
        *counts.entry(pfc_priorities(plan, port)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(&[], |(priorities, _)| priorities)
}

/// The queue that PFC of a priority stops at a switch port.
fn paused_by(switch: &SwitchConfig, priority: u8) -> Option<u8> {
    let queue = switch.qos.pfc_to_queue.get(&priority).copied().unwrap_or(priority);
    switch.pfc.priorities.contains(&priority).then_some(queue)
}
