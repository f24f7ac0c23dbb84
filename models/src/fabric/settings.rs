//! What devices take over while they run, planned: `kind = "set"`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::buffers;
use super::check;
use super::ports::port_wred;
use super::spec::Spec;
use crate::error::BuildError;
use crate::fault::{Faults, PortSetting, check_nic, check_switch};
use crate::ids::{NodeId, PortId};
use crate::nic::NicParams;
use crate::switch::Classifier;
use crate::wire::Frames;

/// Adds to `faults` what devices take over.
pub(super) fn plan_settings(
    spec: &Spec,
    frames: &Frames,
    faults: &mut Faults,
) -> Result<(), BuildError> {
    let topology = &spec.topology;
    let place = |fault: usize| {
        move |error: BuildError| {
            let message = format!("{}: {}", error.key, error.message);
            BuildError::new(format!("fault[{fault}].set"), message)
        }
    };
    let mut then = spec.clone();
    for settings in &spec.settings {
        let (at, fault) = (settings.at, settings.fault);
        for (port, config) in &settings.switch_ports {
            if let Some(first) = &spec.switch_ports[port.index()] {
                check::switch(config).map_err(place(fault))?;
                check_switch(first, config, fault)?;
            }
            then.switch_ports[port.index()] = Some(config.clone());
        }
        let buffers = match settings.switch_ports.is_empty() {
            true => Vec::new(),
            false => buffers(&then, frames).map_err(place(fault))?,
        };
        let owners: BTreeMap<NodeId, usize> =
            topology.switches().enumerate().map(|(owner, node)| (node, owner)).collect();
        for (port, config) in &settings.switch_ports {
            let Some(first) = &spec.switch_ports[port.index()] else { continue };
            let silent = |priority: &&u8| !config.pfc.priorities.contains(priority);
            let silent = first.pfc.priorities.iter().filter(silent);
            let setting = PortSetting {
                wred: port_wred(config)?,
                classifier: Classifier::new(&config.qos),
                pfc_to_queue: config.pfc_to_queue(),
                silent: silent.fold(0, |mask, priority| mask | 1 << priority),
                buffer: buffers[owners[&topology.port(*port).node]].clone(),
            };
            faults.set_port(at, *port, setting);
        }
        for (node, config) in &settings.nics {
            let Some(first) = &spec.nics[node.index()] else { continue };
            check::nic(config).map_err(place(fault))?;
            check_nic(first, config, fault)?;
            let ports: Vec<PortId> = topology.ports_of(*node).collect();
            faults.set_nic(at, &ports, Arc::new(NicParams::new(config)));
        }
    }
    Ok(())
}
