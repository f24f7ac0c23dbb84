//! `rocesim study`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::{Args, Subcommand, ValueEnum};
use scenarios::resolve::{Complaint, LoadOptions};
use scenarios::study::journal::Directory;
use scenarios::study::slurm::{Request, Watched};
use scenarios::study::work::{Owner, Progress, Shard};
use scenarios::study::{Source, Study, slurm, work};

use super::progress::Steps;
use super::{CommandResult, INTERRUPTED, ScenarioArgs, interrupt, report};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct StudyArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// A study file, or the name of a built-in one (see `rocesim list`)
    #[arg(required = true)]
    study: Option<String>,
    /// Set a key of its scenario, for all points; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Subcommand)]
enum What {
    /// Run a scenario with each single cable, NIC, leaf and spine down: what each failure costs
    Failures(FailuresArgs),
}

#[derive(Args)]
struct FailuresArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct HowArgs {
    /// Directory of the study [default: studies/STUDY]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with a study that is there: what is done is not run again
    #[arg(long)]
    resume: bool,
    /// Runs at a time [default: the processors of this machine]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Run only part I (from 0 on) of N; parts may run anywhere, in one directory
    #[arg(long, value_name = "I/N", value_parser = shard, conflicts_with = "engine")]
    shard: Option<Shard>,
    /// Where points run: on this machine, or as a job array of Slurm
    #[arg(long, default_value = "local")]
    engine: Engine,
    /// Tasks of the job array
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: u32,
    /// A further argument of sbatch, such as --sbatch=--partition=debug; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Print no progress
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Local,
    Slurm,
}

/// `0/4`
fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(index, count)| {
        Some(Shard { index: index.parse().ok()?, count: count.parse().ok()? })
    });
    match parts {
        Some(shard) if shard.index < shard.count => Ok(shard),
        Some(shard) => Err(format!("parts are numbered from 0 to {}", shard.count.max(1) - 1)),
        None => Err("a part such as 0/4 is expected".to_owned()),
    }
}

impl StudyArgs {
    pub(super) fn run(&self) -> CommandResult {
        match &self.what {
            Some(What::Failures(args)) => {
                let scenario = &args.scenario;
                let study = Source::Failures.load(&scenario.scenario, &scenario.options())?;
                args.how.run(&study)
            }
            None => {
                let options = LoadOptions { set: self.set.clone(), ..LoadOptions::default() };
                let name = self.study.as_deref().unwrap_or_default();
                self.how.run(&Source::Study.load(name, &options)?)
            }
        }
    }
}

impl HowArgs {
    fn run(&self, study: &Study) -> CommandResult {
        interrupt::watch();
        let default = || Path::new("studies").join(&study.name);
        let path = self.out.clone().unwrap_or_else(default);
        let directory = Directory::open(&path, study, self.resume || self.shard.is_some())?;
        let steps = Mutex::new(Steps::new("points"));
        let told = |progress: Progress| {
            if let (false, Ok(mut steps)) = (self.quiet, steps.lock()) {
                let failed = match progress.failed {
                    0 => String::new(),
                    failed => format!(", {failed} failed"),
                };
                steps.show_with(progress.points, progress.of, &failed);
            }
        };
        let owner = Owner { verdict: &interrupt::verdict, told: &told };
        let done = match self.engine {
            Engine::Local => {
                let done = work::run(study, &directory, self.shard, self.threads(), &owner)?;
                if !done {
                    eprintln!("interrupted: --resume goes on");
                }
                done
            }
            Engine::Slurm => self.watch(study, &directory, &owner)?,
        };
        if let Ok(mut steps) = steps.lock() {
            steps.finish();
        }
        if !done {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        match self.shard {
            // the whole is gathered by whoever asks for it
            Some(_) => Ok(ExitCode::SUCCESS),
            None => report::of_study(study, &path),
        }
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(all, usize::from)
    }

    /// Submits to Slurm and waits.
    fn watch(
        &self,
        study: &Study,
        directory: &Directory,
        owner: &Owner<'_>,
    ) -> Result<bool, Complaint> {
        let program = std::env::current_exe()
            .map_err(|error| Complaint(format!("error: this program: {error}")))?;
        let request = Request {
            tasks: self.tasks,
            cpus: self.threads.unwrap_or(1),
            sbatch: self.sbatch.clone(),
            program,
        };
        let said = |text: &str| {
            if !self.quiet {
                eprintln!("{text}");
            }
        };
        match slurm::run(study, directory, &request, owner, &said)? {
            Watched::Complete => Ok(true),
            Watched::Left(jobs) => {
                let jobs: Vec<String> = jobs.iter().map(u64::to_string).collect();
                let list = jobs.join(" ");
                eprintln!(
                    "the jobs go on: {list} (scancel {list} stops them); --resume watches again"
                );
                Ok(false)
            }
            Watched::Lost(tasks) => {
                let tasks: Vec<String> = tasks.iter().map(u32::to_string).collect();
                let logs = directory.path.join("slurm");
                Err(Complaint(format!(
                    "error: tasks {} of the array ended again and again before their points were \
                     done: see their logs in {}",
                    tasks.join(", "),
                    logs.display()
                )))
            }
        }
    }
}
