//! Names in `[[fault]]`: a misspelt one is offered the near miss.

use models::BuildError;
use models::fault::FaultConfig;
use models::ids::PortId;
use models::topology::Topology;

use super::Place;
use crate::load::{LoadError, near_miss};

/// Faults must name what exists; what the model says about the rest stands in `models::fault`.
pub(super) fn check(
    place: &Place,
    faults: &[FaultConfig],
    topology: &Topology,
) -> Result<(), LoadError> {
    for (index, fault) in faults.iter().enumerate() {
        let (field, name) = match fault {
            FaultConfig::LinkDown(config) => ("link", &config.link),
            FaultConfig::Loss(config) => ("link", &config.link),
            FaultConfig::Rate(config) => ("link", &config.link),
            FaultConfig::SlowReceiver(config) => ("nic", &config.nic),
            // as those of overrides
            FaultConfig::Set(_) => continue,
        };
        let is_nic = field == "nic";
        let ports = (0..topology.ports().len() as u32).map(|port| topology.port_name(PortId(port)));
        let mut known: Vec<String> = ports.filter(|port| !is_nic || port.contains('/')).collect();
        if is_nic {
            let nics = known.iter().filter_map(|port| port.split_once(':')).map(|(nic, _)| nic);
            let nics: Vec<String> = nics.map(str::to_owned).collect();
            known.extend(nics);
            known.extend(topology.hosts().map(|host| topology.node(host).name.clone()));
        }
        if known.contains(name) {
            continue;
        }
        let hint = match near_miss(name, known.iter().map(String::as_str)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None if is_nic => ": `host3/nic0` is a port of one, `host3` all of a host".to_owned(),
            None => ": `leaf0:4` is the fifth of leaf0".to_owned(),
        };
        let what = if is_nic { "NIC" } else { "port" };
        let message = format!("there is no {what} {name:?}{hint}");
        return Err(place.locate(BuildError::new(format!("fault[{index}].{field}"), message)));
    }
    Ok(())
}
