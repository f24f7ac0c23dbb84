//! CONFIG_DB of switches that run SONiC.
//!
//! - `json`, `tables`: files to tables of entries with fields; `sku`: `pg_profile_lookup.ini`
//! - `asic`: what CONFIG_DB does not say
//! - `ports`, `qos`, `buffers`: what tables say of a port; `node`: a switch read whole
//! - `joins`, `lldp`: cables and hosts of a folder of switches
//! - `settings`: keys of the scenario, and overrides where ports differ; `write`: the scenario
//! - `lint`: what is wrong with the configuration; `leftover`: what was not taken over
//! - `export`: the way back
//!
//! Sources: sonic-yang-models, the templates and tables of sonic-buildimage, and the orchestration
//! agents' documents (buffer manager, PFC watchdog, ECN test plan).

mod asic;
mod buffers;
mod export;
mod joins;
mod json;
mod leftover;
mod lint;
mod lldp;
mod node;
mod ports;
mod qos;
#[cfg(test)]
mod round_trip;
mod settings;
mod sku;
mod tables;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use export::{Exported, sonic_patches};
pub use lint::{Finding, Rule};
pub use node::SonicOptions;

use self::joins::{Cable, End, Fabric, join};
use self::node::Switch;
use self::sku::SkuTable;
use self::tables::Config;
use self::write::{Parts, to_toml};
use super::text::counted;
use super::{ImportError, Imported};

/// Hosts on a switch that is imported alone.
const BENCH_HOSTS: usize = 16;

/// A scenario made of CONFIG_DB.
#[derive(Clone, Debug)]
pub struct SonicImport {
    /// The scenario, and beside it the names of its ports.
    pub scenario: Imported,
    /// What is wrong with the configuration, the worst first.
    pub findings: Vec<Finding>,
    /// What has no meaning for the simulator, one line a kind.
    pub leftover: Vec<String>,
}

/// Imports one switch, given as a file or as several that are laid over each other, or a fabric,
/// given as a folder with a file or a folder for each switch. The names of ports go into a file
/// called `ports_file`.
pub fn sonic(
    paths: &[PathBuf],
    options: &SonicOptions,
    ports_file: &str,
) -> Result<SonicImport, ImportError> {
    let mut warnings = Vec::new();
    let configs = match paths {
        [one] if one.is_dir() => folder(one)?,
        files => {
            let mut config = Config::default();
            for file in files {
                config.add(file)?;
            }
            let path = files.first().map_or(Path::new("switch"), PathBuf::as_path);
            vec![(stem(path), config)]
        }
    };
    let mut switches: Vec<Switch> = Vec::new();
    for (fallback, config) in configs {
        let metadata = config.get("DEVICE_METADATA", "localhost");
        let name = metadata.and_then(|at| at.field("hostname")).unwrap_or(&fallback).to_owned();
        if name.is_empty() || name.contains(['[', ']', '"', ':', '/']) {
            return Err(config.error(format!("{name:?} is no name for a switch")));
        }
        if let Some(other) = switches.iter().find(|other| other.name == name) {
            let message = format!(
                "DEVICE_METADATA|localhost.hostname: {name} is {} too; each switch needs a name of \
                 its own",
                other.config.files.join(", ")
            );
            return Err(config.error(message));
        }
        let sku = sku_table(&config, options)?;
        switches.push(Switch::new(name, config, sku.as_ref(), options, &mut warnings)?);
    }
    switches.sort_by_cached_key(|switch| tables::natural(&switch.name));
    let is_bench = switches.len() == 1 && options.hosts.is_none();
    let fabric = match is_bench {
        true => bench(&switches[0])?,
        false => join(&switches, options, &mut warnings)?,
    };
    let fabric = fabric_of_hosts(fabric, &switches)?;
    let parts = Parts {
        switches: &switches,
        fabric: &fabric,
        is_bench,
        title: title(&switches, &fabric, is_bench),
    };
    if write::lossless_class(&parts).is_none() {
        warnings.push("no DSCP is lossless at all ports with hosts: data goes as DSCP 26".into());
    }
    let toml = to_toml(&parts);
    let findings = lint::lint(&switches, &fabric);
    let files = vec![(ports_file.to_owned(), names_of_ports(&switches, &fabric))];
    Ok(SonicImport {
        scenario: Imported { toml, files, warnings },
        findings,
        leftover: leftover::leftover(&switches),
    })
}

/// The switches of a folder: NAME.json, or NAME/ with files that are laid over each other.
fn folder(dir: &Path) -> Result<Vec<(String, Config)>, ImportError> {
    let fail = |path: &Path, message: String| ImportError {
        file: path.display().to_string(),
        line: None,
        message,
    };
    let list = |dir: &Path| -> Result<Vec<PathBuf>, ImportError> {
        let read = std::fs::read_dir(dir).map_err(|error| fail(dir, error.to_string()))?;
        let mut paths = Vec::new();
        for entry in read {
            paths.push(entry.map_err(|error| fail(dir, error.to_string()))?.path());
        }
        paths.sort();
        Ok(paths)
    };
    let is_json = |path: &PathBuf| path.is_file() && path.extension().is_some_and(|e| e == "json");
    let mut found = Vec::new();
    for path in list(dir)? {
        let files = match path.is_dir() {
            true => list(&path)?.into_iter().filter(is_json).collect(),
            false if is_json(&path) => vec![path.clone()],
            false => continue,
        };
        if files.is_empty() {
            continue;
        }
        let mut config = Config::default();
        for file in &files {
            config.add(file)?;
        }
        found.push((stem(&path), config));
    }
    match found.is_empty() {
        true => {
            let message = "no switch is in it; NAME.json or NAME/config_db.json is expected for \
                           each";
            Err(fail(dir, message.to_owned()))
        }
        false => Ok(found),
    }
}

fn stem(path: &Path) -> String {
    let name = path.file_stem().map_or("switch".into(), |stem| stem.to_string_lossy());
    name.replace('.', "-")
}

/// The table of the switch's SKU: the one given, or that of its hwsku in the folder given.
fn sku_table(config: &Config, options: &SonicOptions) -> Result<Option<SkuTable>, ImportError> {
    let Some(path) = &options.sku_tables else { return Ok(None) };
    if !path.is_dir() || path.join("pg_profile_lookup.ini").exists() {
        return SkuTable::read(path).map(Some);
    }
    let metadata = config.get("DEVICE_METADATA", "localhost");
    match metadata.and_then(|metadata| metadata.field("hwsku")) {
        Some(sku) => SkuTable::read(&path.join(sku)).map(Some),
        None => SkuTable::read(path).map(Some),
    }
}

/// A single switch with a host on each of its first ports in use.
fn bench(switch: &Switch) -> Result<Fabric, ImportError> {
    let in_use: Vec<usize> =
        (0..switch.ports.len()).filter(|port| switch.ports[*port].is_in_use).collect();
    if in_use.len() < 2 {
        let message = format!(
            "{} in use (admin_status up, buffers that are not zero); two are expected at least",
            counted(in_use.len(), "port")
        );
        return Err(switch.config.error(message));
    }
    let mut fabric = Fabric::default();
    for (host, &port) in in_use.iter().take(BENCH_HOSTS).enumerate() {
        fabric.hosts.push(format!("host{host}"));
        let info = &switch.ports[port].port;
        fabric.cables.push(Cable {
            ends: [End::Host { host, nic: 0 }, End::Port { switch: 0, port }],
            rate: info.rate,
            delay: info.delay(),
        });
    }
    Ok(fabric)
}

/// Hosts must be there, and reach each other.
fn fabric_of_hosts(fabric: Fabric, switches: &[Switch]) -> Result<Fabric, ImportError> {
    let files = || switches.first().map_or(String::new(), |s| s.config.files.join(", "));
    let fail = |message: String| ImportError { file: files(), line: None, message };
    let with_cables =
        fabric.cables.iter().filter(|cable| matches!(cable.ends[0], End::Host { .. }));
    if with_cables.count() < 2 {
        let message = "a fabric needs two hosts at least: --hosts FILE.csv names them (host,switch,\
                       port)";
        return Err(fail(message.into()));
    }
    // groups of switches that are joined
    let mut group: Vec<usize> = (0..switches.len()).collect();
    for cable in &fabric.cables {
        if let [End::Port { switch: a, .. }, End::Port { switch: b, .. }] = cable.ends {
            let (old, new) = (group[a].max(group[b]), group[a].min(group[b]));
            group.iter_mut().filter(|one| **one == old).for_each(|one| *one = new);
        }
    }
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for cable in &fabric.cables {
        if let [End::Host { host, .. }, End::Port { switch, .. }] = cable.ends {
            places.entry(host).or_default().push(group[switch]);
        }
    }
    let mut hosts = places.iter();
    let Some((first, reach)) = hosts.next() else { return Ok(fabric) };
    if let Some((host, _)) = hosts.find(|(_, own)| !own.iter().any(|one| reach.contains(one))) {
        let [one, two] = [*first, *host].map(|host| fabric.hosts[host].as_str());
        return Err(fail(format!(
            "no way leads from {one} to {two}: DEVICE_NEIGHBOR or --lldp names no cables that \
             join their switches"
        )));
    }
    Ok(fabric)
}

fn title(switches: &[Switch], fabric: &Fabric, is_bench: bool) -> String {
    let hosts = counted(fabric.hosts.len(), "host");
    match (switches, is_bench) {
        ([one], true) => {
            let ports = one.ports.iter().filter(|port| port.is_in_use).count();
            format!("{}: {hosts} on the first of its {} in use", one.name, counted(ports, "port"))
        }
        _ => format!("{hosts} on {}", counted(switches.len(), "switch")),
    }
}

/// `switch,port,name`: the names that CONFIG_DB has for the ports of the scenario.
fn names_of_ports(switches: &[Switch], fabric: &Fabric) -> String {
    let mut out = "switch,port,name\n".to_owned();
    for (number, switch) in switches.iter().enumerate() {
        for (index, port) in fabric.ports_of(number).into_iter().enumerate() {
            out += &format!("{},{index},{}\n", switch.name, switch.ports[port].port.name);
        }
    }
    out
}
