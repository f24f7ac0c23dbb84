//! The command line: one file a command.

mod calibrate;
mod calibrate_plot;
mod check;
mod compare;
mod export;
mod import;
mod import_nic;
mod import_topo;
mod init;
mod interrupt;
mod list;
mod measured;
mod nccl_test;
mod pcap_stats;
mod progress;
mod replay;
mod replay_launch;
mod report;
mod run;
mod schema;
mod show;
mod sonic;
mod study;
mod study_curves;
mod study_plots;
mod views;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use scenarios::resolve::{Complaint, LoadOptions};

/// Exit code of a run that is unfinished, or of an expectation that failed.
const UNFINISHED: u8 = 1;
/// Exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Exit code of bad input.
const BAD_INPUT: u8 = 2;

/// Simulate lossless RoCEv2 fabrics: switches with PFC and ECN, NICs with DCQCN.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate a scenario; print the answer; write a run directory
    Run(run::RunArgs),
    /// Run a scenario's collective with the flags of nccl-tests; print its table
    NcclTest(Box<nccl_test::TestArgs>),
    /// Run a scenario at many points: what is best, by how much, and what matters
    Study(Box<study::StudyArgs>),
    /// Run a scenario's collective on real machines, over RoCE NICs or TCP, and measure it
    Replay(Box<replay::ReplayArgs>),
    /// Write a page about a run, about several beside each other, or about a study
    Report(report::ReportArgs),
    /// Write a commented scenario from a few numbers, to start from
    Init(init::InitArgs),
    /// Say what is wrong with a scenario, without simulating
    Check(check::CheckArgs),
    /// List built-in scenarios and presets
    List(list::ListArgs),
    /// Print a built-in scenario or preset
    Show(show::ShowArgs),
    /// Print the JSON Schema of scenario files, for editors
    Schema(schema::SchemaArgs),
    /// Turn other tools' files into a scenario
    Import(import::ImportArgs),
    /// Write a scenario's settings in the form of other systems
    Export(export::ExportArgs),
    /// Fit a scenario's hosts to what was measured on them, and say how well that predicts
    Calibrate(Box<calibrate::CalibrateArgs>),
    /// Compare a run with a reference
    Compare(compare::CompareArgs),
    /// Say what the counters of switches and NICs point to
    Measured(measured::MeasuredArgs),
    /// Count what is in a capture of packets: QPs, PSNs, NAKs, CNPs, marks, pauses
    PcapStats(pcap_stats::PcapStatsArgs),
}

/// What names a scenario and changes it.
#[derive(Args)]
struct ScenarioArgs {
    /// A scenario file, or the name of a built-in one (see `rocesim list`)
    scenario: String,
    /// Lay the keys of another file over the scenario's, such as what import nic writes; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Run this variant of a case of the clinic: what cures it, or what does not help
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Set a key, such as switch.ecn.3.kmin=50KB; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Seed of all random streams, instead of the scenario's
    #[arg(long)]
    seed: Option<u64>,
}

impl ScenarioArgs {
    fn options(&self) -> LoadOptions {
        LoadOptions {
            with: self.with.clone(),
            variant: self.variant.clone(),
            set: self.set.clone(),
            seed: self.seed,
        }
    }
}

impl Cli {
    /// Runs the command; errors go to stderr, with exit code 2.
    pub(crate) fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Run(args) => args.run(),
            Command::NcclTest(args) => args.run(),
            Command::Study(args) => args.run(),
            Command::Replay(args) => args.run(),
            Command::Report(args) => args.run(),
            Command::Init(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::List(args) => args.run(),
            Command::Show(args) => args.run(),
            Command::Schema(args) => args.run(),
            Command::Import(args) => args.run(),
            Command::Export(args) => args.run(),
            Command::Calibrate(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Measured(args) => args.run(),
            Command::PcapStats(args) => args.run(),
        };
        result.unwrap_or_else(|complaint| {
            eprintln!("{complaint}");
            ExitCode::from(BAD_INPUT)
        })
    }
}

/// What a command returns.
type CommandResult = Result<ExitCode, Complaint>;

/// Prints to stdout; a reader that has gone away is no error.
fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Prints a report as JSON to stdout, likewise.
fn print_json(report: &models::report::Report) {
    let stdout = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let _ = scenarios::output::write_json(report, stdout);
}
