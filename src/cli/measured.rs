//! `rocesim measured`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::resolve::Complaint;
use sim_core::{Bytes, Delta};
use validation::{Setting, diagnose, read_measured};

use super::{CommandResult, UNFINISHED, print};

#[derive(Args)]
pub(super) struct MeasuredArgs {
    /// Counters: SONiC's `show pfc counters`, `show priority-group watermark headroom` or `shared`,
    /// `show priority-group drop counters`, `show queue counters` or `watermark`, `show pfcwd stats`;
    /// `ethtool -S`; `rdma statistic` (also -j); `grep . .../hw_counters/*`. The content tells; files
    /// of several switches and hosts may be given
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The same as it was earlier; what was counted since is judged. May be repeated; ports are
    /// matched by name, files that name none by their order
    #[arg(long, value_name = "FILE")]
    before: Vec<PathBuf>,
    /// Time in which all this was counted, such as 60s, for rates
    #[arg(long, value_name = "TIME")]
    over: Option<Delta>,
    /// The lossless priorities
    #[arg(long, value_name = "PRIORITIES", value_delimiter = ',', default_values_t = [3, 4],
          value_parser = clap::value_parser!(u8).range(0..8))]
    lossless: Vec<u8>,
    /// Headroom of a lossless priority group, such as 49KB, for its watermark
    #[arg(long, value_name = "SIZE")]
    headroom: Option<Bytes>,
    /// Print the findings as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

impl MeasuredArgs {
    pub(super) fn run(&self) -> CommandResult {
        let fail = |error: validation::ReadError| Complaint(format!("error: {error}"));
        if self.over == Some(Delta::ZERO) {
            return Err(Complaint("error: --over 0s: a time above 0 is expected".to_owned()));
        }
        let mut measured = read_measured(&self.files).map_err(fail)?;
        if !self.before.is_empty() {
            let before = read_measured(&self.before).map_err(fail)?;
            let (difference, notes) = measured.since(&before);
            notes.iter().for_each(|note| eprintln!("note: {note}"));
            measured = difference;
        }
        let setting =
            Setting { lossless: self.lossless.clone(), over: self.over, headroom: self.headroom };
        let diagnosis = diagnose(&measured, &setting);
        if self.json {
            print(&(serde_json::to_string_pretty(&diagnosis).unwrap_or_default() + "\n"));
        } else {
            measured.files.iter().for_each(|file| print(&format!("read {file}\n")));
            print(&format!("\n{diagnosis}"));
        }
        let bad = diagnosis.has_errors();
        Ok(if bad { ExitCode::from(UNFINISHED) } else { ExitCode::SUCCESS })
    }
}
