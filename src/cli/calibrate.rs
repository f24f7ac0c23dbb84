//! `rocesim calibrate`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::Args;
use scenarios::output::write_file;
use scenarios::resolve::{Complaint, LoadOptions, load};
use scenarios::simulate::Verdict;
use validation::calibrate::{Calibration, EVALUATIONS, Owner, Request, calibrate, write};
use validation::{Table, read_tables};

use super::calibrate_plot::curves;
use super::progress::Count;
use super::{CommandResult, INTERRUPTED, interrupt, print};

#[derive(Args)]
pub(super) struct CalibrateArgs {
    /// A scenario file, or the name of a built-in one, with the collective that was measured
    scenario: String,
    /// What was measured: logs of nccl-tests, measurement.json of a replay, run directories; of one
    /// cluster, of one or several operations
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    measured: Vec<PathBuf>,
    /// Keys that may be fitted, such as host.proxy_latency [default: what hosts take, as far as the
    /// collective passes it; and how many channels and which protocols NCCL took]
    #[arg(long, value_delimiter = ',', value_name = "KEYS")]
    free: Option<Vec<String>>,
    /// Share of the sizes of each table that is held out to see what the fit predicts
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    holdout: f64,
    /// Set a key first, such as host.nic.pcie.rate=200Gbps; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Seed of all random streams, instead of the scenario's
    #[arg(long)]
    seed: Option<u64>,
    /// Folder of the result [default: calibrations/SCENARIO]; simulations in it are used again
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace a calibration that is there
    #[arg(long)]
    force: bool,
    /// Simulations at a time [default: the processors of this machine]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print the calibration as JSON, and nothing else
    #[arg(long)]
    json: bool,
    /// Print no progress
    #[arg(long)]
    quiet: bool,
}

/// 0 to 0.9
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=0.9).contains(share));
    share.ok_or_else(|| "a share from 0 to 0.9 is expected, such as 0.5".to_owned())
}

impl CalibrateArgs {
    pub(super) fn run(&self) -> CommandResult {
        let options =
            LoadOptions { set: self.set.clone(), seed: self.seed, ..LoadOptions::default() };
        let loaded = load(&self.scenario, &options)?;
        let mut tables: Vec<Table> = Vec::new();
        for file in &self.measured {
            let found = read_tables(file);
            tables.extend(found.map_err(|error| Complaint(format!("error: {error}")))?);
        }
        for table in &tables {
            for warning in &table.warnings {
                eprintln!("note: {}:{}: {}", table.source, warning.line, warning.message);
            }
        }
        let folder =
            self.out.clone().unwrap_or_else(|| Path::new("calibrations").join(&loaded.name));
        self.open(&folder)?;
        interrupt::watch();
        let request = Request {
            free: self.free.clone(),
            holdout: self.holdout,
            threads: self.threads.map_or_else(
                || std::thread::available_parallelism().map_or(1, usize::from),
                usize::from,
            ),
        };
        let count = Mutex::new(Count::new("simulations", self.quiet));
        let owner = Owner {
            verdict: &|| interrupt::verdict() == Verdict::GoOn,
            told: &|done, expected| {
                if let Ok(mut count) = count.lock() {
                    count.show(done, expected);
                }
            },
        };
        let found = calibrate(&loaded, &tables, &request, Some(&folder), &owner);
        if let Ok(mut count) = count.lock() {
            count.finish();
        }
        if interrupt::verdict() != Verdict::GoOn {
            eprintln!("interrupted: the same command goes on");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let found = found?;
        write(&folder, &loaded, &found)?;
        plot(&folder, &found)?;
        if self.json {
            print(&(serde_json::to_string_pretty(&found).unwrap_or_default() + "\n"));
        } else {
            print(&found.text());
            print(&format!(
                "\nwritten to {}: calibrated.toml, calibration.json, curves.svg\n",
                folder.display()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Makes the folder, or refuses one that holds something else.
    fn open(&self, folder: &Path) -> Result<(), Complaint> {
        let fail = |message: &str| Complaint(format!("error: {}: {message}", folder.display()));
        if folder.join("calibration.json").is_file() {
            return match self.force {
                true => Ok(()),
                false => Err(fail(
                    "it holds a calibration: --force replaces it, --out takes another folder",
                )),
            };
        }
        let filled = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if filled && !folder.join(EVALUATIONS).is_file() {
            return Err(fail("it is there and holds no calibration: give another with --out"));
        }
        fs::create_dir_all(folder).map_err(|error| fail(&error.to_string()))
    }
}

fn plot(folder: &Path, found: &Calibration) -> Result<(), Complaint> {
    let plots = curves(found);
    let plots = plots.map_err(|error| Complaint(format!("error: the plot: {error}")))?;
    plots.iter().try_for_each(|(name, svg)| write_file(&folder.join(name), svg))
}
