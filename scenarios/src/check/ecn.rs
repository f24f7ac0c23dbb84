//! ECN: that it marks at all, and before PFC pauses.

use models::ids::PortId;
use models::nic::Notify;
use models::report::Severity;
use sim_core::Bytes;

use super::{Notes, class_of, data_dscps, heeds_marks, note};

impl Notes<'_> {
    pub(super) fn ecn(&mut self) {
        self.congestion();
        self.ecn_order();
    }

    /// Congestion control without marks, or marks without congestion control.
    fn congestion(&mut self) {
        let plan = self.plan;
        let heeds = heeds_marks(plan);
        let marking = plan.spec.switch_ports.iter().flatten().any(|port| !port.ecn.is_empty());
        if let Some(name) = heeds
            && !marking
        {
            let text = format!("{name} is on, but no queue has ECN thresholds: it never acts");
            self.say(Severity::Warning, "switch.ecn", text);
        }
        if marking && heeds.is_none() {
            let text = "queues mark packets, but no NIC runs congestion control that heeds marks";
            self.say(Severity::Info, "nic.congestion", text.to_owned());
        }
        let off = |nic: &&std::sync::Arc<models::nic::NicConfig>| {
            nic.np.notify == Notify::Off && nic.congestion.heeds_marks()
        };
        if let Some(name) = heeds
            && plan.spec.nics.iter().flatten().any(|nic| off(&nic))
        {
            let text = format!(
                "{name} is on, but some NICs send no CNP, and their packets are not ECN-capable: it \
                 never acts"
            );
            self.say(Severity::Warning, "nic.np.notify", text);
        }
        if heeds.is_some() && marking {
            self.not_enabled();
        }
    }

    /// Thresholds that stand in the scenario and do nothing for its data.
    fn not_enabled(&mut self) {
        let plan = self.plan;
        let dscps = data_dscps(plan);
        for (index, config) in plan.spec.switch_ports.iter().enumerate() {
            let Some(config) = config.as_deref() else { continue };
            let at = PortId(index as u32);
            for dscp in dscps.keys() {
                let (queue, _) = class_of(config, *dscp);
                if config.ecn.is_empty() || config.ecn.contains_key(&queue) {
                    continue;
                }
                let queues: Vec<String> = config.ecn.keys().map(u8::to_string).collect();
                let text = format!(
                    "ECN thresholds are set for queue {}, but data with DSCP {dscp} is in queue \
                     {queue}, which has none: it is never marked",
                    queues.join(", ")
                );
                let what = format!("queue {queue}");
                self.add(note(Severity::Warning, "switch.ecn", text, Some(at)), &what);
            }
            for (queue, wred) in &config.ecn {
                if wred.pmax <= 0.0 && wred.kmin != wred.kmax {
                    let kmax = Bytes::new(wred.kmax.to_bytes(config.buffer.cell));
                    let text = format!(
                        "WRED of queue {queue} has thresholds, but marks nothing between them: all \
                         marks begin at kmax ({kmax})"
                    );
                    let key = format!("switch.ecn.{queue}.pmax");
                    self.add(note(Severity::Warning, &key, text, Some(at)), "pmax");
                }
            }
        }
    }

    /// Marking should begin before PFC does, and be complete by then.
    fn ecn_order(&mut self) {
        let plan = self.plan;
        let topology = &plan.wiring.topology;
        for (index, switch) in topology.switches().enumerate() {
            let Some(buffer) = plan.buffers.get(index) else { continue };
            for (port, (slice, base)) in topology.ports_of(switch).zip(&buffer.places) {
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
                    let share = share(config, *queue, buffer.ingress_pool[usize::from(*slice)]);
                    let [kmin, kmax] = [wred.kmin, wred.kmax].map(|size| size.to_bytes(cell));
                    // how far marking has come when the pause does
                    let risen =
                        limit.saturating_sub(kmin) as f64 / kmax.abs_diff(kmin).max(1) as f64;
                    let severity = if risen < 0.5 { Severity::Warning } else { Severity::Info };
                    let (name, value, consequence) = if kmin >= limit {
                        ("kmin", kmin, "it is paused before it is marked")
                    } else if kmax > limit {
                        ("kmax", kmax, "it is paused before everything is marked")
                    } else {
                        continue;
                    };
                    let text = format!(
                        "{name} of queue {queue} ({}) is not below XOFF of one sender alone ({}{share})\
                         : {consequence}",
                        Bytes::new(value),
                        Bytes::new(limit)
                    );
                    let key = format!("switch.ecn.{queue}.{name}");
                    self.add(note(severity, &key, text, Some(port)), "");
                }
            }
        }
    }
}

/// How the threshold of one group alone comes about: alpha/(1 + alpha) of what is shared.
fn share(config: &models::switch::SwitchConfig, priority: u8, pool: u64) -> String {
    let profile = config.buffer.pg.get(&priority).unwrap_or(&config.buffer.lossless);
    match profile.dynamic_th {
        Some(n) if profile.pool.is_empty() || profile.pool == "ingress" => {
            let alpha = if n >= 0 { format!("{}", 1 << n) } else { format!("1/{}", 1 << -n) };
            format!(": alpha {alpha}, alpha/(1 + alpha) of {}", Bytes::new(pool))
        }
        _ => String::new(),
    }
}
