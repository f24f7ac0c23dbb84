//! Folders of the ns-3 RDMA simulators: HPCC's driver program `third.cc` and its descendants.
//!
//! - `text`: times and rates in its notations
//! - `config`, `topology`, `flows`, `routes`: one file each
//! - `write`: the scenario
//!
//! The conventions that all such runs share are the preset `hpcc-ns3`; only what the files say is
//! written into the scenario.

mod config;
mod flows;
mod routes;
#[cfg(test)]
mod tests;
mod text;
mod topology;
mod write;

use std::path::{Path, PathBuf};

use sim_core::Delta;

use self::config::{Config, Control, Settings, Window};
use self::flows::Flows;
use self::text::read;
use self::topology::Topology;
use self::write::{Parts, to_toml};
use super::text::{TextFile, counted, exact};
use super::{ImportError, Imported};
use crate::packed;

/// Imports a run of ns-3: a folder with `topology.txt`, `flow.txt`, `config.txt` and, if next hops
/// were written out, `routes.txt`. `path` may also be the config file itself; the others are then
/// sought beside it, under the names that it gives them. The scenario's flows go into a file called
/// `flows_file`.
pub fn ns3(path: &Path, flows_file: &str) -> Result<Imported, ImportError> {
    let mut warnings = Vec::new();
    let is_config = path.is_file();
    let dir = if is_config { path.parent().unwrap_or(Path::new("")) } else { path };
    let config_path = if is_config { path.to_owned() } else { dir.join("config.txt") };
    let config_file = read(&config_path)?;
    let config = Config::read(&config_file, &mut warnings)?;
    let settings = config.settings(&mut warnings)?;
    let mut find = |key: &str, default: &str| find(&config, dir, key, default, &mut warnings);
    let topology_path = find("TOPOLOGY_FILE", "topology.txt")?;
    let flow_path = find("FLOW_FILE", "flow.txt")?;
    let routes_path = find("ECMPDUMP", "routes.txt")?;
    let topology_file = read(&topology_path)?;
    let topology = Topology::read(&topology_file, config.loss()?, &mut warnings)?;
    let flow_file = read(&flow_path)?;
    let ring = config.ring()?;
    let flows = Flows::read(&flow_file, &topology, ring.as_ref(), &mut warnings)?;
    let routes = match is_there(&routes_path) {
        true => routes::read(&read(&routes_path)?, &topology)?,
        false => {
            warn_of_routes(&topology_file, &topology, &mut warnings);
            Vec::new()
        }
    };

    let rates = topology.switch_rates();
    let marking = match settings.marks {
        true => config.marking(&rates)?,
        false => {
            if matches!(settings.control, Control::None) {
                let message =
                    "ENABLE_QCN is 0, so switches mark nothing: congestion control is `none`";
                warnings.push(config.error("ENABLE_QCN", message).to_string());
            }
            Vec::new()
        }
    };
    warnings.extend(
        full_buffers(&topology, &settings)
            .map(|message| config.error("BUFFER_SIZE", message).to_string()),
    );
    warnings.extend(flows.late(settings.stop).map(|message| flow_file.error(message).to_string()));
    let left = settings.stop.checked_sub(flows.first_start).filter(|left| *left > 0);
    let end = left.map(Delta::from_ps).ok_or_else(|| {
        let [stop, start] = [settings.stop, flows.first_start].map(|ps| exact(Delta::from_ps(ps)));
        let message = format!(
            "SIMULATOR_STOP_TIME is {stop}, but the first flow starts at {start}; a later end is \
             expected"
        );
        config.error("SIMULATOR_STOP_TIME", message)
    })?;
    let toml = to_toml(&Parts {
        title: &title(dir),
        topology: &topology,
        routes: &routes,
        settings: &settings,
        rates: &rates,
        marking: &marking,
        flows_file,
        end,
    });
    let csv = match settings.window {
        Some(Window { is_global: false, .. }) => {
            let mut windows = flows.pairs();
            topology.each_window(settings.mtu, |pair, window, _| {
                windows.entry(pair).and_modify(|entry| *entry = window);
            });
            flows.to_csv(Some(&windows))
        }
        _ => flows.to_csv(None),
    };
    Ok(Imported { toml, files: vec![(flows_file.to_owned(), csv)], warnings })
}

/// The file that `key` names: beside the config, or as it is written, from the folder of the
/// config or one above it, since ns-3 is started from another folder. Otherwise `default`.
fn find(
    config: &Config<'_>,
    dir: &Path,
    key: &str,
    default: &str,
    warnings: &mut Vec<String>,
) -> Result<PathBuf, ImportError> {
    let default_path = dir.join(default);
    let Some(named) = config.file(key) else { return Ok(default_path) };
    let name = named.rsplit(['/', '\\']).next().unwrap_or(named);
    // a bare name is not sought above: another run's file may be there
    let folders = dir.ancestors().filter(|_| named != name);
    let above = folders.map(|folder| folder.join(named));
    if let Some(path) = std::iter::once(dir.join(name)).chain(above).find(|path| is_there(path)) {
        return Ok(path);
    }
    match (is_there(&default_path), key) {
        // what ns-3 would write, not what it reads
        (false, "ECMPDUMP") => Ok(default_path),
        (true, _) => {
            let message = format!("{key} is {named}, which is not there; {default} is read");
            warnings.push(config.error(key, message).to_string());
            Ok(default_path)
        }
        (false, _) => {
            let or = if name == default { String::new() } else { format!(" or {default}") };
            let message = format!(
                "{key} is {named}, which is not there; {name}{or} is expected beside the config"
            );
            Err(config.error(key, message))
        }
    }
}

/// A file, or the same compressed.
fn is_there(path: &Path) -> bool {
    packed::find(path).is_file()
}

/// The name of the folder.
fn title(dir: &Path) -> String {
    let absolute = dir.canonicalize();
    let name = absolute.as_deref().unwrap_or(dir).file_name();
    name.map_or_else(|| "ns-3 run".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Without its next hops, a run with several paths is not reproduced packet by packet.
fn warn_of_routes(file: &TextFile, topology: &Topology, warnings: &mut Vec<String>) {
    if topology.has_parallel_links {
        let message = "of several links between two nodes ns-3 uses the last; the scenario uses \
                       them all";
        warnings.push(file.error(message).to_string());
    }
}

/// ns-3's threshold wraps around where headrooms and reserves exceed the buffer.
fn full_buffers(topology: &Topology, settings: &Settings) -> Option<String> {
    let mut private = vec![0u128; topology.is_switch.len()];
    for link in &topology.links {
        let (rate, ns) = (u128::from(link.rate.bps()), u128::from(link.delay.ps() / 1000));
        for node in [link.a, link.b] {
            private[node as usize] += 4096 + 3 * (rate * ns / 8 / 1_000_000_000);
        }
    }
    let buffer = u128::from(settings.buffer_mib) << 20;
    let full = topology.nodes(true).filter(|node| private[*node as usize] >= buffer);
    let names: Vec<_> = full.map(|node| format!("n{node}")).collect();
    let first = names.first()?;
    Some(format!(
        "headrooms and reserves fill the buffer of {}, such as {first}: ns-3 then never pauses, \
         and the scenario is refused",
        counted(names.len(), "switch")
    ))
}
