//! `rocesim import nccl-topo`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use scenarios::import::{self, TopoOptions};
use scenarios::output::write_file;
use scenarios::resolve::Complaint;

use super::import::check_part;
use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct TopoArgs {
    /// What NCCL_TOPO_DUMP_FILE wrote, an NCCL_TOPO_FILE, or `nvidia-smi topo -m`. The content tells
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file to write, a .toml
    #[arg(short, long, value_name = "FILE", default_value = "host.toml")]
    out: PathBuf,
    /// What the GPUs are, where the file does not say it
    #[arg(long, value_name = "GPU", value_parser = PossibleValuesParser::new(import::topo_gpus()))]
    gpu: Option<String>,
    /// Take only these devices, as in NCCL_IB_HCA: mlx5_0,mlx5_1 or ^=mlx5_8
    #[arg(long, value_name = "NAMES")]
    hca: Option<String>,
}

impl TopoArgs {
    pub(super) fn run(&self) -> CommandResult {
        let TopoArgs { file, out, gpu, hca } = self;
        check_part(out, std::slice::from_ref(file))?;
        let options = TopoOptions { gpu: gpu.clone(), hca: hca.clone() };
        let imported = import::nccl_topo(file, &options)
            .map_err(|error| Complaint(format!("error: {error}")))?;
        for warning in &imported.part.warnings {
            eprintln!("warning: {warning}");
        }
        write_file(out, &imported.part.toml)?;
        let out = out.display();
        print(&imported.summary);
        print(&format!("wrote {out}; use it with: rocesim run SCENARIO --with {out}\n"));
        Ok(ExitCode::SUCCESS)
    }
}
