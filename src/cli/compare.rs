//! `rocesim compare`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::resolve::Complaint;

use super::{CommandResult, UNFINISHED, print};

#[derive(Args)]
pub(super) struct CompareArgs {
    /// A run directory, its report.json, or the directory of run --seeds (means are compared)
    run: PathBuf,
    /// Another run, the folder of an ns-3 run, or a file of completion times.
    ///
    /// Of an ns-3 run are read, where they are there: fct.csv or fct.txt, flow.txt, config.txt,
    /// stats.txt, pfc.txt, pfc_summary.csv, queue.csv and rate.csv, each also as .gz. Queues and
    /// rates over time are compared at the reference's instants, if the run was sampled then
    /// (sample.interval).
    reference: PathBuf,
    /// Print the comparison as JSON, and nothing else; errors are shares, 0.01 is 1 %
    #[arg(long)]
    json: bool,
    /// Exit with 1 unless the mean FCT and the times of collectives are within so many per cent,
    /// and the same flows finished
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    tolerance: Option<f64>,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse().ok();
    let number = number.filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a number of at least 0 is expected, such as 1.5".to_owned())
}

impl CompareArgs {
    pub(super) fn run(&self) -> CommandResult {
        let fail = |error: validation::ReadError| Complaint(format!("error: {error}"));
        let run = validation::read_run(&self.run).map_err(fail)?;
        if run.writer != validation::Writer::Rocesim {
            let message = "a run directory of rocesim was expected first, then the reference";
            return Err(Complaint(format!("error: {}: {message}", self.run.display())));
        }
        let reference = validation::read_run(&self.reference).map_err(fail)?;
        let found = validation::compare_runs(&run, &reference);
        match self.json {
            true => print(&(serde_json::to_string_pretty(&found).unwrap_or_default() + "\n")),
            false => print(&found.to_string()),
        }
        let Some(percent) = self.tolerance else { return Ok(ExitCode::SUCCESS) };
        let within = found.is_within(percent / 100.0);
        if !within {
            eprintln!("not within {percent} %");
        }
        Ok(if within { ExitCode::SUCCESS } else { ExitCode::from(UNFINISHED) })
    }
}
