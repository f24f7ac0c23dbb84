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
        /// The scenario file to write, a .toml; its flows go beside it, as a .csv of that name
        #[arg(short, long, value_name = "FILE", default_value = "scenario.toml")]
        out: PathBuf,
    },
}

impl ImportArgs {
    pub(super) fn run(&self) -> CommandResult {
        let Kind::Ns3 { dir, out } = &self.kind;
        let fail = |why: &str| Complaint(format!("error: {}: {why}", out.display()));
        if out.extension() != Some("toml".as_ref()) {
            return Err(fail("this is no name of a scenario; one that ends in .toml is expected"));
        }
        if out.is_dir() {
            return Err(fail("this is a folder; the name of a file is expected"));
        }
        let name = out.file_stem().unwrap_or_default().to_string_lossy();
        let imported = import::ns3(dir, &format!("{name}.csv"))
            .map_err(|error| Complaint(format!("error: {error}")))?;
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
