//! Readers, one for each format.

mod any;
mod ethtool;
mod fct;
mod measured;
mod nccl;
pub(crate) mod ns3;
mod perftest;
mod pfc;
mod rdma;
pub(crate) mod report;
pub(crate) mod series;
mod sonic;
mod stats;
mod tables;
mod text;

use std::path::Path;

pub use any::{Reading, read_any, read_any_bytes};
pub use fct::{Ns3Flow, read_fct};
pub use measured::read_measured;
pub use report::read_report;
pub use tables::{read_measured_tables, read_tables};

use scenarios::packed;

use crate::error::ReadError;
use crate::run::Run;

/// Reads a finished run: a run directory of rocesim (of one run, or of `--seeds`), its
/// `report.json`, the folder of an ns-3 run, or a bare file of flow completion times. Any file may
/// be compressed by gzip.
pub fn read_run(path: &Path) -> Result<Run, ReadError> {
    if path.is_dir() {
        return match text::find(path, &["report.json", "seeds.json"]) {
            Some(file) => report::parse(&file, &text::read_text(&file)?),
            None => ns3::read_folder(path),
        };
    }
    let file = packed::find(path);
    let content = text::read_text(&file)?;
    match content.trim_start().starts_with('{') {
        true => report::parse(&file, &content),
        false => ns3::read_fct_file(&file, &content),
    }
}
