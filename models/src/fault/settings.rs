//! Settings of switches and NICs that change while a fabric runs: `kind = "set"`.
//!
//! The scenario says which configuration each device has from when on; here it becomes the numbers
//! that a running device can take over, and what it cannot is refused.

use std::sync::Arc;

use sim_core::Time;

use crate::error::BuildError;
use crate::ids::{NodeId, PortId};
use crate::nic::{NicConfig, NicParams};
use crate::switch::{BufferPlan, Classifier, PortWred, SwitchConfig};

/// Devices have other configurations from some time on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From when on.
    pub at: Time,
    /// The fault that says so, by number.
    pub fault: usize,
    /// Switch ports, and theirs.
    pub switch_ports: Vec<(PortId, Arc<SwitchConfig>)>,
    /// Hosts, and those of their NICs.
    pub nics: Vec<(NodeId, Arc<NicConfig>)>,
}

/// What a switch port takes over.
#[derive(Clone, Debug)]
pub struct PortSetting {
    /// How it marks,
    pub wred: PortWred,
    /// and sorts what arrives.
    pub classifier: Classifier,
    /// The queue that a PFC priority pauses; 255 where it is not obeyed.
    pub pfc_to_queue: [u8; 8],
    /// Priorities (a bit each) for which it sends no PFC although their groups are lossless.
    pub silent: u8,
    /// Its groups' limits, at its place in its switch's buffer.
    pub buffer: Arc<BufferPlan>,
}

/// All that is taken over in a run, by the numbers in changes.
#[derive(Debug, Default)]
pub struct Planned {
    /// Of switch ports.
    pub ports: Vec<PortSetting>,
    /// Of NICs.
    pub nics: Vec<Arc<NicParams>>,
}

/// What may change of a switch while it runs.
const OF_SWITCH: &str = "switch.ecn, switch.qos, switch.pfc.priorities (fewer than at the start), \
                         static_th and dynamic_th of switch.buffer.lossless, .lossy and .pg";
/// The same of a NIC.
const OF_NIC: &str = "nic.qos.dscp_to_priority and nic.pfc.priorities";

/// Refuses what a switch port cannot take over.
pub fn check_switch(
    first: &SwitchConfig,
    then: &SwitchConfig,
    fault: usize,
) -> Result<(), BuildError> {
    let mut same = then.clone();
    same.ecn.clone_from(&first.ecn);
    same.qos.clone_from(&first.qos);
    same.pfc.priorities.clone_from(&first.pfc.priorities);
    let (to, from) = (&mut same.buffer, &first.buffer);
    let limits = |to: &mut crate::switch::ProfileConfig, from: &crate::switch::ProfileConfig| {
        to.static_th.clone_from(&from.static_th);
        to.dynamic_th.clone_from(&from.dynamic_th);
    };
    limits(&mut to.lossless, &from.lossless);
    limits(&mut to.lossy, &from.lossy);
    for (pg, profile) in &from.pg {
        to.pg.entry(*pg).and_modify(|to| limits(to, profile));
    }
    let key = format!("fault[{fault}].set");
    if same != *first {
        let message = format!("this does not change while it runs; what can: {OF_SWITCH}");
        return Err(BuildError::new(key, message));
    }
    let more = then.pfc.priorities.iter().find(|p| !first.pfc.priorities.contains(p));
    if let Some(priority) = more {
        let message = format!(
            "priority {priority} has no headroom, since it has no PFC at the start: let it have PFC \
             there, and take it away in a fault until it should begin"
        );
        return Err(BuildError::new(key, message));
    }
    if then.pfc.priorities.len() < first.pfc.priorities.len() && first.pfc_wd.is_some() {
        let message = "the PFC of a port with a watchdog stays as it is: leave out switch.pfc_wd";
        return Err(BuildError::new(key, message));
    }
    Ok(())
}

/// Refuses what a NIC cannot take over.
pub fn check_nic(first: &NicConfig, then: &NicConfig, fault: usize) -> Result<(), BuildError> {
    let mut same = then.clone();
    same.qos.dscp_to_priority.clone_from(&first.qos.dscp_to_priority);
    same.pfc.priorities.clone_from(&first.pfc.priorities);
    if same != *first {
        let message = format!("this does not change while it runs; what can: {OF_NIC}");
        return Err(BuildError::new(format!("fault[{fault}].set"), message));
    }
    Ok(())
}
