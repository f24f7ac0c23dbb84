//! `rocesim import`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use scenarios::import;
use scenarios::output::write_file;
use scenarios::resolve::Complaint;

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct ImportArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// A folder with topology.txt, flow.txt and config.txt of the ns-3 RDMA model
    Ns3 {
        /// The folder
        dir: PathBuf,
        /// The scenario file to write; files that it names go beside it
        #[arg(short, long, value_name = "FILE", default_value = "scenario.toml")]
        out: PathBuf,
    },
}

impl ImportArgs {
    pub(super) fn run(&self) -> CommandResult {
        let Kind::Ns3 { dir, out } = &self.kind;
        let imported = import::ns3(dir).map_err(|error| Complaint(format!("error: {error}")))?;
        for warning in &imported.warnings {
            eprintln!("warning: {warning}");
        }
        let folder = out.parent().unwrap_or(std::path::Path::new(""));
        for (name, text) in &imported.files {
            write_file(&folder.join(name), text)?;
        }
        write_file(out, &imported.toml)?;
        print(&format!("wrote {}\n", out.display()));
        Ok(ExitCode::SUCCESS)
    }
}
