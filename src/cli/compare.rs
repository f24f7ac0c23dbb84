//! `rocesim compare`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::resolve::Complaint;

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct CompareArgs {
    /// A run directory or its report.json
    run: PathBuf,
    /// fct.txt of an ns-3 run, or its folder
    reference: PathBuf,
}

impl CompareArgs {
    pub(super) fn run(&self) -> CommandResult {
        let fail = |error: validation::ReadError| Complaint(format!("error: {error}"));
        let report = validation::read_report(&self.run).map_err(fail)?;
        let reference = validation::read_fct(&self.reference).map_err(fail)?;
        print(&validation::compare_flows(&report, &reference).to_string());
        Ok(ExitCode::SUCCESS)
    }
}
