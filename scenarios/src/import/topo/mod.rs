//! What NCCL or nvidia-smi says of a server: the keys of `[host]`.
//!
//! - `system`: the topology that NCCL dumps (`NCCL_TOPO_DUMP_FILE`), or reads (`NCCL_TOPO_FILE`); its
//!   devices are a `tree`
//! - `matrix`: `nvidia-smi topo -m`
//! - `graph`: the channels that NCCL's search found (`NCCL_GRAPH_DUMP_FILE`): what it says, and why it
//!   is no topology
//! - `server`: what all of them become; `gpus`: what is known of GPUs and PCIe
//! - `write`: the part of a scenario; `summary`: the same for people

mod gpus;
mod graph;
mod matrix;
mod server;
mod summary;
mod system;
#[cfg(test)]
mod tests;
mod tree;
mod write;

use std::path::Path;

use models::host::{HcaFilter, PathType};

use self::server::{Joined, Server};
use super::text::{TextFile, counted};
use super::{ImportError, Imported, xml};

/// What the user adds.
#[derive(Clone, Debug, Default)]
pub struct TopoOptions {
    /// What the GPUs are, one of [`topo_gpus`].
    pub gpu: Option<String>,
    /// Which devices are taken, as in `NCCL_IB_HCA`.
    pub hca: Option<String>,
}

/// A part of a scenario, and what it says in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopoImport {
    /// The part, with `[host]`.
    pub part: Imported,
    /// For people: GPUs, NICs, how far they are from each other.
    pub summary: String,
}

/// The names of GPUs that [`TopoOptions::gpu`] takes.
pub fn topo_gpus() -> Vec<&'static str> {
    gpus::MODELS.iter().map(|model| model.name).collect()
}

/// Reads a topology file of NCCL or a matrix of `nvidia-smi topo -m`.
pub fn nccl_topo(path: &Path, options: &TopoOptions) -> Result<TopoImport, ImportError> {
    const EXPECTED: &str =
        "what NCCL writes (NCCL_TOPO_DUMP_FILE), or `nvidia-smi topo -m`, is expected";
    let file = TextFile::read(path, EXPECTED)?;
    let user = options.gpu.as_deref().and_then(gpus::named);
    let first = file.text().trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).chars().next();
    let mut server = match first {
        Some('<') => {
            let root = xml::parse(&file)?;
            match root.name.as_str() {
                "system" => system::read(&file, &root, user)?,
                "graphs" => return Err(graph::refuse(&file, &root)),
                name => {
                    let known = ["system", "graphs"];
                    let near = crate::load::near_miss(name, known);
                    let near =
                        near.map_or(String::new(), |near| format!("; did you mean <{near}>?"));
                    return Err(root.error(&file, format!("NCCL's <system> is expected{near}")));
                }
            }
        }
        Some(_) if matrix::is(file.text()) => matrix::read(&file, user)?,
        _ => return Err(file.error(format!("its kind is not known: {EXPECTED}"))),
    };
    server.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(hca) = &options.hca {
        let filter = HcaFilter::parse(hca)
            .map_err(|message| file.error(format!("--hca {hca}: {message}")))?;
        server.keep(&filter);
        if server.nics.is_empty() {
            return Err(file.error(format!("--hca {hca} leaves no NIC of this file")));
        }
    }
    let notes = notes(&server).into_iter().map(|note| file.error(note).to_string());
    server.warnings.extend(notes);
    let toml = write::to_toml(&server);
    let summary = summary::of(&server);
    let warnings = std::mem::take(&mut server.warnings);
    Ok(TopoImport { part: Imported { toml, files: Vec::new(), warnings }, summary })
}

/// Warnings about the server as a whole.
fn notes(server: &Server) -> Vec<String> {
    let kind = || {
        let unknown = server.model.is_none() && server.architecture.is_none();
        unknown.then(|| {
            "it does not say what the GPUs are: host.architecture and rates are those of preset \
             generic (A100); --gpu h100 (or another) says it"
                .to_owned()
        })
    };
    let joined = || {
        let unknown = server.joined == Joined::Unknown && server.gpus.len() > 1;
        let preset = server.preset();
        unknown.then(|| {
            format!("it does not say what joins the GPUs: host.nvlink is that of preset {preset}")
        })
    };
    let none = || {
        let none = server.nics.is_empty();
        none.then(|| "no NIC is in it: host.nics is left to the scenario".to_owned())
    };
    [kind(), joined(), ports(server), none(), far(server), gdr(server)]
        .into_iter()
        .flatten()
        .collect()
}

/// How many ports NICs have.
fn ports(server: &Server) -> Option<String> {
    let assumed: Vec<_> = server.nics.iter().filter(|nic| nic.ports_assumed).collect();
    let first = assumed.first()?;
    let whose = match assumed.len() {
        1 => "one NIC has".to_owned(),
        count => format!("{count} NICs have"),
    };
    Some(format!(
        "it does not say how many ports {whose}: {} assumed; --set host.nic.ports=2 changes it",
        if first.ports == 1 { "1 is" } else { "2 are" }
    ))
}

/// NICs that NCCL does not use.
fn far(server: &Server) -> Option<String> {
    let far = server.far_nics();
    if far.is_empty() {
        return None;
    }
    let names: Vec<String> = far.iter().map(|nic| write::name(&server.nics[*nic])).collect();
    let devices = server.device_names();
    let devices: Vec<String> = far.iter().flat_map(|nic| devices[*nic].clone()).collect();
    let option = format!("--hca '^={}'", devices.join(","));
    let them = if far.len() == 1 { "it" } else { "them" };
    Some(format!(
        "{}: far from every GPU; NCCL sends nothing by {them} while other NICs are nearer; {option} \
         leaves {them} out",
        names.join(", ")
    ))
}

/// Whether GPUDirect RDMA is used by default.
fn gdr(server: &Server) -> Option<String> {
    let paths = || server.nics.iter().flat_map(|nic| &nic.paths);
    let near = paths().any(|path| *path <= PathType::Pxb);
    let off = server.gdr.as_ref().is_some_and(|told| !told.value);
    if near || off || paths().count() == 0 || server.grace.is_some() {
        return None;
    }
    Some(
        "no NIC is nearer to a GPU than the host bridge: with NCCL's default NET_GDR_LEVEL (PXB) data \
         goes through host memory; --gpu gb200 or gb300 if a Grace CPU is between them"
            .to_owned(),
    )
}
