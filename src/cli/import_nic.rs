//! `rocesim import nic`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::import;
use scenarios::output::write_file;
use scenarios::resolve::Complaint;

use super::import::check_part;
use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct NicArgs {
    /// `mlxconfig query`; `grep . /sys/class/net/DEV/ecn/roce_*/*` (also enable/*), or of debugfs
    /// cc_params; `mlnx_qos -i DEV`; `ethtool -S`; `ethtool`; `ibv_devinfo`. The content tells
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file to write, a .toml
    #[arg(short, long, value_name = "FILE", default_value = "nic.toml")]
    out: PathBuf,
}

impl NicArgs {
    pub(super) fn run(&self) -> CommandResult {
        let NicArgs { files, out } = self;
        check_part(out, files)?;
        let imported = import::nic(files).map_err(|error| Complaint(format!("error: {error}")))?;
        for warning in &imported.warnings {
            eprintln!("warning: {warning}");
        }
        write_file(out, &imported.toml)?;
        let out = out.display();
        print(&format!("wrote {out}; use it with: rocesim run SCENARIO --with {out}\n"));
        Ok(ExitCode::SUCCESS)
    }
}
