//! The ports of a switch: PORT, CABLE_LENGTH, PORTCHANNEL_MEMBER.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::{Delta, Rate};

use super::asic::Asic;
use super::sku::metres;
use super::tables::{At, Config, natural};
use crate::import::ImportError;
use crate::import::text::quoted;
use crate::load::near_miss;

/// MTU of a port where PORT has none.
pub(super) const MTU: u64 = 9100;
/// Cable where CABLE_LENGTH has none.
pub(super) const CABLE: &str = "40m";

/// A port.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Port {
    pub(super) name: String,
    /// What neighbours may call it.
    pub(super) alias: Option<String>,
    pub(super) rate: Rate,
    pub(super) mtu: u64,
    pub(super) lanes: usize,
    pub(super) is_up: bool,
    /// As CABLE_LENGTH has it, such as `40m`.
    pub(super) cable: String,
    pub(super) cable_is_given: bool,
    /// Where its rate is from.
    pub(super) from: String,
}

impl Port {
    pub(super) fn metres(&self) -> u64 {
        metres(&self.cable).unwrap_or(0)
    }

    /// Propagation delay of its cable, at 5 ns/m; `0m`, which unused ports have, counts as 1 m.
    pub(super) fn delay(&self) -> Delta {
        Delta::from_ns(5 * self.metres().max(1))
    }
}

/// The ports of a switch, Ethernet8 before Ethernet16. Without a PORT table they are those that
/// other tables name, and run at `rate` or at the usual rate of the ASIC.
pub(super) fn ports(
    config: &Config,
    asic: Option<&Asic>,
    rate: Option<Rate>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Port>, ImportError> {
    let cables = cables(config)?;
    let mut ports = Vec::new();
    if config.has("PORT") {
        for at in config.entries("PORT") {
            ports.push(port(at, &cables)?);
        }
    } else {
        let named = names(config)?;
        if named.is_empty() {
            let message = "there is no table PORT, and no other table names a port; the tables of \
                           a switch are expected";
            return Err(config.error(message));
        }
        let (rate, from) = match (rate, asic) {
            (Some(rate), _) => (rate, "--speed".to_owned()),
            (None, Some(asic)) => {
                (Rate::from_gbps(asic.gbps), format!("usual for {}; --speed sets it", asic.name))
            }
            (None, None) => (Rate::from_gbps(100), "assumed; --speed sets it".to_owned()),
        };
        let note = format!("there is no table PORT: all ports run at {rate} ({from})");
        warnings.push(config.error(note).to_string());
        for name in named {
            let (cable, cable_is_given) = cable(&cables, name);
            ports.push(Port {
                name: name.to_owned(),
                alias: None,
                rate,
                mtu: MTU,
                lanes: 0,
                is_up: true,
                cable,
                cable_is_given,
                from: from.clone(),
            });
        }
    }
    ports.sort_by_cached_key(|port| natural(&port.name));
    channels(config, &ports)?;
    Ok(ports)
}

fn port(at: At<'_>, cables: &BTreeMap<String, String>) -> Result<Port, ImportError> {
    let speed: Option<u64> = at.number("speed")?;
    let mbps = match speed {
        Some(mbps) if (1..=10_000_000).contains(&mbps) => mbps,
        Some(mbps) => return Err(at.error(format!("speed: {mbps} Mb/s is out of range"))),
        None => {
            let message = "`speed` is missing; Mb/s are expected, such as \"100000\"";
            return Err(at.error(message));
        }
    };
    let mtu = at.number("mtu")?.unwrap_or(MTU);
    if !(68..=65535).contains(&mtu) {
        return Err(at.error(format!("mtu: {mtu} is out of range: 68 to 65535 is expected")));
    }
    let is_up = match at.field("admin_status") {
        None | Some("up") => true,
        Some("down") => false,
        Some(other) => {
            return Err(at.error(format!("admin_status: {} is neither up nor down", quoted(other))));
        }
    };
    let (cable, cable_is_given) = cable(cables, at.key);
    Ok(Port {
        name: at.key.to_owned(),
        alias: at.field("alias").map(str::to_owned),
        rate: Rate::from_mbps(mbps),
        mtu,
        lanes: at.field("lanes").map_or(0, |lanes| lanes.split(',').count()),
        is_up,
        cable,
        cable_is_given,
        from: format!("{}.speed", at.place()),
    })
}

/// The length of the cable at a port, and whether CABLE_LENGTH has it.
fn cable(cables: &BTreeMap<String, String>, port: &str) -> (String, bool) {
    match cables.get(port) {
        Some(length) => (length.clone(), true),
        None => (CABLE.to_owned(), false),
    }
}

/// CABLE_LENGTH by port.
fn cables(config: &Config) -> Result<BTreeMap<String, String>, ImportError> {
    let mut cables = BTreeMap::new();
    for at in config.entries("CABLE_LENGTH") {
        for (port, length) in &at.entry.fields {
            if metres(length).is_none() {
                let length = quoted(length);
                return Err(at.error(format!("{port}: {length} is no length; 40m is expected")));
            }
            cables.insert(port.clone(), length.trim().to_owned());
        }
    }
    Ok(cables)
}

/// The ports that tables of buffers and classes name, where there is no PORT table.
fn names(config: &Config) -> Result<BTreeSet<&str>, ImportError> {
    let mut names = BTreeSet::new();
    for table in PER_PORT {
        for at in config.entries(table) {
            names.extend(at.members()?.0);
        }
    }
    for at in config.entries("CABLE_LENGTH") {
        names.extend(at.entry.fields.keys().map(String::as_str));
    }
    names.retain(|name| !matches!(*name, "global" | "GLOBAL"));
    Ok(names)
}

/// Tables whose keys begin with ports.
const PER_PORT: [&str; 7] = [
    "BUFFER_PG",
    "BUFFER_QUEUE",
    "BUFFER_PORT_INGRESS_PROFILE_LIST",
    "BUFFER_PORT_EGRESS_PROFILE_LIST",
    "PORT_QOS_MAP",
    "QUEUE",
    "PFC_WD",
];

/// What tables say of ports that are not there is a slip; a member of two channels is another.
fn channels(config: &Config, ports: &[Port]) -> Result<(), ImportError> {
    let known: BTreeSet<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    for table in PER_PORT {
        for at in config.entries(table) {
            for name in at.members()?.0 {
                if !known.contains(name) && !matches!(name, "global" | "GLOBAL" | "CPU") {
                    return Err(at.error(no_port(name, &known)));
                }
            }
        }
    }
    let mut members: BTreeMap<&str, &str> = BTreeMap::new();
    for at in config.entries("PORTCHANNEL_MEMBER") {
        let Some((channel, name)) = at.key.split_once('|') else {
            return Err(at.error("a key `PortChannel1|Ethernet0` is expected"));
        };
        if !known.contains(name) {
            return Err(at.error(no_port(name, &known)));
        }
        if !config.has("PORTCHANNEL") || config.get("PORTCHANNEL", channel).is_none() {
            return Err(at.error(format!("there is no PORTCHANNEL {}", quoted(channel))));
        }
        if let Some(other) = members.insert(name, channel) {
            let message = format!("{name} is a member of {other} too; one channel is expected");
            return Err(at.error(message));
        }
    }
    Ok(())
}

fn no_port(name: &str, known: &BTreeSet<&str>) -> String {
    let near = near_miss(name, known.iter().copied())
        .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
    format!("there is no port {}{near}", quoted(name))
}
