//! `rocesim run`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use models::capture::{Captured, SNAPLEN};
use models::fabric::{Plan, Running};
use models::report::{OutcomeKind, Report};
use scenarios::capture::{Captures, Request, Written};
use scenarios::collectives::{self, TableOptions};
use scenarios::nccl_tests::commented;
use scenarios::resolve::{self, Complaint, Loaded};
use scenarios::simulate::{self, Finished, How, Verdict};
use scenarios::{clinic, diagnose, expect, output, pause_tree, quick, seeds, text};
use sim_core::{Delta, Time};

use super::progress::Progress;
use super::views::ViewArgs;
use super::{CommandResult, INTERRUPTED, ScenarioArgs, UNFINISHED, interrupt, print, print_json};

#[derive(Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Run this many seeds, from the scenario's own on; print means and confidence intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Run directory [default: runs/SCENARIO, or none with --json]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write no run directory
    #[arg(long, conflicts_with_all = ["out", "plot"])]
    no_out: bool,
    /// Print the report as JSON, and nothing else
    #[arg(long)]
    json: bool,
    /// Threads: shards of one run, or runs of --seeds at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Give up after this much wall-clock time, such as 10min
    #[arg(long, value_name = "TIME", value_parser = wall_time)]
    pub(super) max_wall: Option<Duration>,
    /// Write plots to the run directory: links.svg, busbw.svg for collectives, and plot.svg over
    /// time if sample.interval is set
    #[arg(long)]
    plot: bool,
    /// Simulate only the beginning of long collectives, until their steps repeat within 0.5 %, and
    /// extrapolate the rest; such rows end in ~
    #[arg(long, conflicts_with = "seeds")]
    pub(super) quick: bool,
    /// Print who paused whom between two times, such as 1ms..2ms; either may be left out
    #[arg(long, value_name = "FROM..TO", value_parser = window, conflicts_with_all = ["json", "seeds"])]
    pauses: Option<[Time; 2]>,
    /// Write the frames that leave and reach a port to a file, as real packets that Wireshark and
    /// tcpdump open: LINK is a port (leaf0:3, host2/nic0), a host (host3), or all ports of a switch
    /// (leaf0:*). FILE.pcapng has names, directions and picoseconds, any other is a pcap with
    /// nanoseconds. May be repeated; of several sizes the last one is captured. The run takes one
    /// thread
    #[arg(long, value_name = "LINK=FILE", conflicts_with_all = ["seeds", "quick"])]
    pcap: Vec<Request>,
    /// Bytes of each frame that --pcap keeps; 96 have all headers
    #[arg(long, value_name = "BYTES", requires = "pcap", default_value_t = SNAPLEN,
          value_parser = clap::value_parser!(u32).range(14..=i64::from(SNAPLEN)))]
    snaplen: u32,
    #[command(flatten)]
    views: ViewArgs,
    /// Print no progress
    #[arg(long)]
    quiet: bool,
}

/// `90s`, `10min`, `2h`.
pub(super) fn wall_time(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let unit = match &text[split..] {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time such as 90s, 10min or 2h is expected".to_owned()),
    };
    let number: f64 = text[..split].trim().parse().map_err(|_| format!("{text:?} is no time"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

/// `1ms..2ms`, `1ms..`, `..2ms`.
fn window(text: &str) -> Result<[Time; 2], String> {
    let Some((from, to)) = text.split_once("..") else {
        return Err("two times such as 1ms..2ms are expected".to_owned());
    };
    let time = |text: &str, default: Time| match text {
        "" => Ok(default),
        text => text.parse::<Delta>().map(|span| Time::ZERO + span).map_err(|e| e.to_string()),
    };
    let window = [time(from, Time::ZERO)?, time(to, Time::MAX)?];
    if window[0] >= window[1] {
        return Err("the first time is not before the second".to_owned());
    }
    Ok(window)
}

impl RunArgs {
    pub(super) fn run(&self) -> CommandResult {
        interrupt::watch();
        match self.seeds {
            Some(_) if self.plot => {
                let message = "error: --plot shows one run: leave out --seeds";
                Err(Complaint(message.to_owned()))
            }
            Some(count) => self.run_seeds(count),
            None => self.run_table(&TableOptions::default(), None),
        }
    }

    /// The arguments of a run that leaves no run directory.
    pub(super) fn of(scenario: ScenarioArgs, threads: u16) -> Self {
        RunArgs {
            scenario,
            seeds: None,
            out: None,
            no_out: true,
            json: false,
            threads,
            max_wall: None,
            plot: false,
            quick: false,
            pauses: None,
            pcap: Vec::new(),
            snaplen: SNAPLEN,
            views: ViewArgs::default(),
            quiet: false,
        }
    }

    /// Runs once; the tables of collectives are printed as `table` says, and the report is also
    /// written to `json`.
    pub(super) fn run_table(&self, table: &TableOptions, json: Option<&Path>) -> CommandResult {
        let loaded = self.views.load(&self.scenario.scenario, self.scenario.options())?;
        let target = self.target(&loaded);
        if let Some(target) = &target {
            output::check_target(target)?;
        }
        self.views.check(target.as_deref())?;
        let threads = usize::from(self.threads);
        let captures = Captures { requests: self.pcap.clone(), snaplen: self.snaplen };
        // a capture needs all frames in the order of time
        let shards = if self.pcap.is_empty() { threads } else { 1 };
        let mut plans = simulate::plans(&loaded, shards)?;
        captures.check(&plans[0].wiring.topology)?;
        self.views.prepare(&mut plans);
        let cost = |plan: &Plan| {
            let share = if self.quick { quick::first_share(plan) } else { None };
            simulate::estimate(plan).times(share.unwrap_or(1.0))
        };
        let estimate = plans.iter().map(cost).sum();
        let quiet = self.quiet || self.json;
        let progress = Mutex::new(Progress::new(&plans[0], &estimate, quiet));
        let begin = Instant::now();
        let owner = |running: &Running| {
            if let Ok(mut progress) = progress.lock() {
                progress.show(running);
            }
            self.verdict(begin)
        };
        let how = How { remedies: true, quick: self.quick };
        let run = simulate::run_captured(&loaded, plans, threads, how, &captures, &owner);
        if let Ok(mut progress) = progress.lock() {
            progress.finish();
        }
        let mut run = run?;
        self.views.trim(&loaded, &mut run);
        for note in &run.notes {
            eprintln!("{note}");
        }
        if let Some(target) = &target {
            self.write(target, &loaded, &run)?;
        }
        let views = self.views.write(target.as_deref(), &run)?;
        let verdicts = expect::judge(&loaded.scenario.expect, &run.report);
        if self.json {
            print_json(&run.report);
        } else {
            let mut rest = String::new();
            if let Some([from, to]) = self.pauses {
                rest += &pause_tree::window(&run.pauses, from, to, run.report.simulated_time_s);
            }
            rest += &text::verdicts(&verdicts);
            if let Some(target) = &target {
                rest += &format!("run directory: {}\n", target.display());
            }
            rest += &captured(&run);
            rest += &views;
            rest += &clinic::advice(&loaded, &self.scenario.scenario);
            if loaded.sweep.has_collectives() {
                print(&collectives::tables(&loaded, &run, table));
                print(&commented(&(text::summary(&run.report) + &rest)));
            } else {
                print(&(text::summary(&run.report) + &rest));
            }
        }
        if let Some(json) = json {
            let text = serde_json::to_string_pretty(&run.report).unwrap_or_default() + "\n";
            output::write_file(json, &text)?;
        }
        let failed = verdicts.iter().any(|verdict| !verdict.passed);
        if self.json && failed {
            eprint!("{}", text::verdicts(&verdicts));
        }
        Ok(exit_code(&run.report, failed))
    }

    fn verdict(&self, begin: Instant) -> Verdict {
        if interrupt::verdict() == Verdict::Interrupt {
            Verdict::Interrupt
        } else if self.max_wall.is_some_and(|limit| begin.elapsed() > limit) {
            Verdict::TimeLimit
        } else {
            Verdict::GoOn
        }
    }

    fn target(&self, loaded: &Loaded) -> Option<PathBuf> {
        let default = || (!self.json && !self.no_out).then(|| Path::new("runs").join(&loaded.name));
        self.out.clone().or_else(default)
    }

    fn write(&self, target: &Path, loaded: &Loaded, run: &Finished) -> Result<(), Complaint> {
        let series = &run.series;
        let mut extra = Vec::new();
        if self.plot {
            let mut add = |name: &str, svg: Result<String, viz::PlotError>| {
                let svg = svg.map_err(|error| Complaint(format!("error: {error}")))?;
                extra.push((name.to_owned(), svg));
                Ok::<(), Complaint>(())
            };
            let title = &run.report.scenario;
            add("links.svg", viz::links_svg(title, &run.report))?;
            if !run.report.collectives.is_empty() {
                let ceiling = diagnose::ceiling(&run.plan, 0);
                add("busbw.svg", viz::busbw_svg(title, &run.report.collectives, ceiling))?;
            }
            if !series.time_s.is_empty() {
                add("plot.svg", viz::run_svg(&run.report, series))?;
            }
        }
        output::write_run(target, loaded, &run.report, series, &run.pauses, &extra)
    }

    fn run_seeds(&self, count: u64) -> CommandResult {
        let begin = Instant::now();
        let options = self.scenario.options();
        let threads = usize::from(self.threads);
        let name = &self.scenario.scenario;
        let scenario = resolve::load(name, &options)?.scenario;
        let owner = || self.verdict(begin);
        let reports = seeds::run(name, &options, scenario.seed, count, threads, owner)?;
        let metrics = seeds::metrics(&reports);
        let value = serde_json::json!({ "seeds": reports, "summary": metrics });
        let json = serde_json::to_string_pretty(&value).unwrap_or_default() + "\n";
        if let Some(target) = &self.out {
            std::fs::create_dir_all(target)
                .map_err(|error| Complaint(format!("error: {}: {error}", target.display())))?;
            output::write_file(&target.join("seeds.json"), &json)?;
        }
        if self.json {
            print(&json);
        } else {
            let title = reports.first().map_or("", |report| report.scenario.as_str());
            print(&format!("{title}\n{count} seeds\n\n{}", seeds::table(&metrics)));
        }
        let failed = |report: &Report| {
            expect::judge(&scenario.expect, report).iter().any(|verdict| !verdict.passed)
        };
        let codes = reports.iter().map(|report| exit_code(report, failed(report)));
        Ok(codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS))
    }
}

/// What was captured.
fn captured(run: &Finished) -> String {
    let size = match run.report.collectives.last() {
        Some(last) if run.report.collectives.len() > 1 => {
            format!(", the last size ({})", text::binary(last.bytes))
        }
        _ => String::new(),
    };
    let file = |written: &Written| {
        let Captured { frames, longer, .. } = written.captured;
        let link = &written.request.link;
        let mut line = format!("capture: {}: ", written.request.file.display());
        line += &format!("{frames} frames of {link}{size}\n");
        if longer > 0 {
            line += &format!(
                "  {longer} of them are longer than in the simulation (docs/pcap.md, \"Lengths\")\n"
            );
        }
        line
    };
    run.captures.iter().map(file).collect()
}

fn exit_code(report: &Report, expectation_failed: bool) -> ExitCode {
    match report.outcome {
        OutcomeKind::Interrupted => ExitCode::from(INTERRUPTED),
        OutcomeKind::Completed if !expectation_failed => ExitCode::SUCCESS,
        _ => ExitCode::from(UNFINISHED),
    }
}
