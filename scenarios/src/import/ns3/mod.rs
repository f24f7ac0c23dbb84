//! Folders of the ns-3 RDMA simulators: HPCC's driver program `third.cc` and its descendants.
//!
//! - `text`: lines, words and numbers
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

use std::path::Path;

use sim_core::Delta;

use self::config::{Config, Settings, Window};
use self::flows::Flows;
use self::text::{TextFile, counted};
use self::topology::Topology;
use self::write::{Parts, exact, to_toml};
use super::{ImportError, Imported};
use crate::packed;

/// The name of the file of flows.
const FLOWS: &str = "flows.csv";

/// Imports a run of ns-3: a folder with `topology.txt`, `flow.txt`, `config.txt` and, if next hops
/// were written out, `routes.txt`. `path` may also be the config file itself; the others are then
/// sought beside it, under the names that it gives them.
pub fn ns3(path: &Path) -> Result<Imported, ImportError> {
    let mut warnings = Vec::new();
    let is_config = path.is_file();
    let dir = if is_config { path.parent().unwrap_or(Path::new("")) } else { path };
    let config_path = if is_config { path.to_owned() } else { dir.join("config.txt") };
    let config_file = TextFile::read(&config_path)?;
    let config = Config::read(&config_file, &mut warnings)?;
    let settings = config.settings(&mut warnings)?;
    let find = |key: &str, default: &str| {
        let named = config.file_name(key).map(|name| dir.join(name)).filter(|path| is_there(path));
        named.unwrap_or_else(|| dir.join(default))
    };

    let topology_file = TextFile::read(&find("TOPOLOGY_FILE", "topology.txt"))?;
    let topology = Topology::read(&topology_file, config.loss()?, &mut warnings)?;
    let flow_file = TextFile::read(&find("FLOW_FILE", "flow.txt"))?;
    let ring = config.ring()?;
    let flows = Flows::read(&flow_file, &topology, ring.as_ref(), &mut warnings)?;
    let routes_path = find("ECMPDUMP", "routes.txt");
    let routes = match is_there(&routes_path) {
        true => routes::read(&TextFile::read(&routes_path)?, &topology)?,
        false => {
            warn_of_routes(&topology, &mut warnings);
            Vec::new()
        }
    };

    let rates = topology.switch_rates();
    let marking = match settings.marks {
        true => config.marking(&rates)?,
        false => {
            warnings.push(
                "ENABLE_QCN is 0, so switches mark nothing: congestion control is `none`".into(),
            );
            Vec::new()
        }
    };
    warn_of_buffers(&topology, &settings, &mut warnings);
    let end = settings.stop.checked_sub(flows.first_start).filter(|end| *end > 0);
    let end = end.map(Delta::from_ps).ok_or_else(|| {
        let [stop, start] = [settings.stop, flows.first_start].map(|ps| exact(Delta::from_ps(ps)));
        config_file.error(format!(
            "SIMULATOR_STOP_TIME is {stop}, but the first flow starts at {start}; a later end is \
             expected"
        ))
    })?;
    let toml = to_toml(&Parts {
        title: &title(dir),
        topology: &topology,
        routes: &routes,
        settings: &settings,
        rates: &rates,
        marking: &marking,
        flows_file: FLOWS,
        end,
    });
    let csv = match settings.window {
        Some(Window { is_global: false, .. }) => {
            let mut windows = flows.pairs();
            topology.each_window(settings.mtu, |pair, window| {
                windows.entry(pair).and_modify(|entry| *entry = window);
            });
            flows.to_csv(Some(&windows))
        }
        _ => flows.to_csv(None),
    };
    Ok(Imported { toml, files: vec![(FLOWS.to_owned(), csv)], warnings })
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
fn warn_of_routes(topology: &Topology, warnings: &mut Vec<String>) {
    if topology.has_parallel_links {
        warnings.push(
            "of several links between two nodes ns-3 uses the last; the scenario uses them all"
                .into(),
        );
    }
}

/// ns-3's threshold wraps around where headrooms and reserves exceed the buffer.
fn warn_of_buffers(topology: &Topology, settings: &Settings, warnings: &mut Vec<String>) {
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
    if let Some(first) = names.first() {
        warnings.push(format!(
            "headrooms and reserves fill the buffer of {}, such as {first}: ns-3 then never \
             pauses, and the scenario is refused",
            counted(names.len(), "switch")
        ));
    }
}
