//! Importing: what other tools have written, turned into scenarios.
//!
//! - `ns3`: a folder of the ns-3 RDMA simulators (HPCC, and what came of it)
//! - `htsim`: a connection matrix of htsim
//! - `nic`: what a host says of its NIC; this gives a part of a scenario
//! - `sonic`: CONFIG_DB of switches, and back
//! - `program`: algorithms of MSCCL and GOAL schedules, which scenarios name
//! - `topo`: what NCCL or nvidia-smi says of a server; this gives a part of a scenario
//! - `text`: lines, words and numbers of all; `xml`: elements with their lines

mod htsim;
mod nic;
mod ns3;
mod program;
mod sonic;
mod text;
mod topo;
mod xml;

use std::fmt;

pub use htsim::{Fabric, HtsimOptions, htsim};
pub use nic::nic;
pub use ns3::ns3;
pub use program::{program, program_fits, program_text};
pub use sonic::{
    Exported, Finding as SonicFinding, Rule as SonicRule, SonicImport, SonicOptions, sonic,
    sonic_patches,
};
pub use topo::{TopoImport, TopoOptions, nccl_topo, topo_gpus};

/// A scenario that was made from the files of another tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The scenario.
    pub toml: String,
    /// Files that it names, to be put beside it: name and content.
    pub files: Vec<(String, String)>,
    /// What differs from the other tool, or was left out.
    pub warnings: Vec<String>,
}

/// Why files could not be imported; shown as `folder/flow.txt:7: what is wrong; what is expected`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The file, with its folder.
    pub file: String,
    /// The line, counted from 1, unless the error is about the file as a whole.
    pub line: Option<usize>,
    /// What is wrong and what is expected.
    pub message: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for ImportError {}
