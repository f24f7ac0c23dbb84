//! `rocesim compare`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::resolve::Complaint;
use validation::Table;

use super::{CommandResult, UNFINISHED, print};

#[derive(Args)]
pub(super) struct CompareArgs {
    /// A run directory, its report.json, or the directory of run --seeds (means are compared)
    run: PathBuf,
    /// Another run, the folder of an ns-3 run, a file of completion times, or a measurement: a log
    /// of nccl-tests, or a measurement.json.
    ///
    /// A measurement is compared size by size with the run's collectives of the same operation.
    ///
    /// Of an ns-3 run are read, where they are there: fct.csv or fct.txt, flow.txt, config.txt,
    /// stats.txt, pfc.txt, pfc_summary.csv, queue.csv and rate.csv, each also as .gz. Queues and
    /// rates over time are compared at the reference's instants, if the run was sampled then
    /// (sample.interval).
    reference: PathBuf,
    /// Print the comparison as JSON, and nothing else; errors are shares, 0.01 is 1 %
    #[arg(long)]
    json: bool,
    /// Exit with 1 unless the mean FCT and the times of collectives (against a measurement: of all
    /// sizes that both have) are within so many per cent, and the same flows finished
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
        if let Some(measured) = validation::read_measured_tables(&self.reference).map_err(fail)? {
            return self.sizes(&measured);
        }
        let reference = validation::read_run(&self.reference).map_err(fail)?;
        let found = validation::compare_runs(&run, &reference);
        match self.json {
            true => print(&(serde_json::to_string_pretty(&found).unwrap_or_default() + "\n")),
            false => print(&found.to_string()),
        }
        Ok(self.verdict(|tolerance| found.is_within(tolerance)))
    }

    /// The run's collectives against curves that were measured.
    fn sizes(&self, measured: &[Table]) -> CommandResult {
        let fail = |error: validation::ReadError| Complaint(format!("error: {error}"));
        let simulated = validation::read_tables(&self.run).map_err(fail)?;
        let found = validation::compare_sizes(&simulated, measured);
        if found.is_empty() {
            return Err(Complaint(format!(
                "error: {} measured {}, and {} simulated {}: the same operation is expected",
                self.reference.display(),
                operations(measured),
                self.run.display(),
                operations(&simulated)
            )));
        }
        if self.json {
            print(&(serde_json::to_string_pretty(&found).unwrap_or_default() + "\n"));
        } else {
            let parts: Vec<String> = found.iter().map(ToString::to_string).collect();
            print(&parts.join("\n"));
        }
        Ok(self.verdict(|tolerance| found.iter().all(|sizes| sizes.is_within(tolerance))))
    }

    fn verdict(&self, is_within: impl Fn(f64) -> bool) -> ExitCode {
        let Some(percent) = self.tolerance else { return ExitCode::SUCCESS };
        let within = is_within(percent / 100.0);
        if !within {
            eprintln!("not within {percent} %");
        }
        if within { ExitCode::SUCCESS } else { ExitCode::from(UNFINISHED) }
    }
}

/// What tables are of, for a message.
fn operations(tables: &[Table]) -> String {
    let names = tables.iter().filter(|table| !table.rows.is_empty());
    let name = |table: &Table| table.op.map_or("an operation that is not told", |op| op.name());
    let mut names: Vec<&str> = names.map(name).collect();
    names.dedup();
    if names.is_empty() { "no collective".to_owned() } else { names.join(", ") }
}
