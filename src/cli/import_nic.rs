//! `rocesim import nic`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::import;
use scenarios::output::write_file;
use scenarios::resolve::Complaint;

use super::import::is_same;
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
        let fail = |why: &str| Complaint(format!("error: {}: {why}", out.display()));
        if out.extension() != Some("toml".as_ref()) {
            return Err(fail(
                "this is no name of a part of a scenario; one that ends in .toml is expected",
            ));
        }
        if out.is_dir() {
            return Err(fail("this is a folder; the name of a file is expected"));
        }
        if files.iter().any(|file| is_same(file, out)) {
            return Err(fail("this would be written over what is read; another name is expected"));
        }
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
