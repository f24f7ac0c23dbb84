//! What `run` and `report` write for people to look at: pages, pictures, traces.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;
use models::fabric::Plan;
use models::report::PauseRow;
use scenarios::resolve::{self, Complaint, LoadOptions, Loaded};
use scenarios::simulate::Finished;
use scenarios::{keys, output};
use viz::{PlotError, Run, RunDir};

/// Samples of a run that is sampled for its page only, and ports of them that are kept.
const SAMPLES: u32 = 600;
const PORTS: usize = 96;

/// What `run` writes beside its run directory's files.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ViewArgs {
    /// Write report.html to the run directory: all that the run has to tell, in one page; samples the
    /// run if sample.interval is not set
    #[arg(long, conflicts_with_all = ["no_out", "seeds"])]
    report: bool,
    /// Write a trace that Perfetto opens [default file: trace.json in the run directory]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          conflicts_with_all = ["seeds", "quick"])]
    trace: Option<Option<PathBuf>>,
    /// Events of the trace, at most: what is left out is said in it
    #[arg(long, value_name = "N", default_value_t = 500_000, requires = "trace",
          value_parser = clap::value_parser!(u64).range(100..=50_000_000))]
    trace_max_events: u64,
    /// Ranks of collectives in the trace, such as 0..8
    #[arg(long, value_name = "FROM..TO", requires = "trace", value_parser = ranks)]
    trace_ranks: Option<[u32; 2]>,
}

/// `0..8`, `8..`, `..8`.
fn ranks(text: &str) -> Result<[u32; 2], String> {
    let wrong = || format!("{text:?} are no ranks: 0..8 is 0 to 7");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str, default: u32| match text {
        "" => Ok(default),
        text => text.parse::<u32>().map_err(|_| wrong()),
    };
    let ranks = [number(from, 0)?, number(to, u32::MAX)?];
    if ranks[0] < ranks[1] { Ok(ranks) } else { Err(wrong()) }
}

impl ViewArgs {
    /// Loads a scenario; it is sampled if the page needs that and it is not yet.
    pub(super) fn load(&self, name: &str, mut options: LoadOptions) -> Result<Loaded, Complaint> {
        let loaded = resolve::load(name, &options)?;
        if !self.report || loaded.scenario.sample.interval.is_some() {
            return Ok(loaded);
        }
        options.set.push("sample.interval=1us".to_owned());
        if loaded.scenario.sample.keep.is_none() {
            options.set.push(format!("sample.keep={SAMPLES}"));
        }
        resolve::load(name, &options)
    }

    /// Refuses what cannot be written, before anything runs.
    pub(super) fn check(&self, target: Option<&Path>) -> Result<(), Complaint> {
        let needs = match (&self.trace, self.report) {
            (_, true) => "--report",
            (Some(None), _) => "--trace",
            _ => return Ok(()),
        };
        match target {
            Some(_) => Ok(()),
            None => {
                Err(Complaint(format!("error: {needs} writes to the run directory: give --out")))
            }
        }
    }

    /// Makes the last size note what a trace shows.
    pub(super) fn prepare(&self, plans: &mut [Plan]) {
        if self.trace.is_none() {
            return;
        }
        let [from, to] = self.trace_ranks.unwrap_or([0, u32::MAX]);
        if let Some(plan) = plans.last_mut() {
            plan.note_steps(&(from..to), viz::traced_steps(self.trace_max_events));
        }
    }

    /// Leaves out ports of which nobody can look at so many.
    pub(super) fn trim(&self, loaded: &Loaded, run: &mut Finished) {
        if self.report && loaded.scenario.sample.keep == Some(SAMPLES) {
            run.series.keep_leading(PORTS);
        }
    }

    /// Writes the page and the trace, once the run directory is there.
    pub(super) fn write(&self, target: Option<&Path>, run: &Finished) -> Result<String, Complaint> {
        let mut said = String::new();
        if let (Some(target), true) = (target, self.report) {
            let page = page(&read(target)?)?;
            let file = target.join("report.html");
            output::write_file(&file, page)?;
            said += &format!("report: {}\n", file.display());
        }
        let Some(file) = &self.trace else { return Ok(said) };
        let beside = || target.map(|target| target.join("trace.json"));
        let Some(file) = file.clone().or_else(beside) else { return Ok(said) };
        let pauses: Vec<PauseRow> = run.pauses.rows().collect();
        let shown = Run {
            name: "",
            report: &run.report,
            series: &run.series,
            pauses: &pauses,
            keys: &Default::default(),
        };
        let mut counts = Default::default();
        output::stream_file(&file, |out| {
            let mut out = BufWriter::with_capacity(1 << 16, out);
            counts = viz::write_trace(&shown, &run.steps, self.trace_max_events, &mut out)?;
            std::io::Write::flush(&mut out)
        })?;
        said += &format!("trace: {}\n", file.display());
        for (what, (kept, all)) in counts.iter().filter(|(_, (kept, all))| kept < all) {
            said += &format!("  {kept} of {all} {what}: see --trace-max-events\n");
        }
        Ok(said)
    }
}

/// Reads a run directory.
pub(super) fn read(path: &Path) -> Result<RunDir, Complaint> {
    let mut run = RunDir::read(path).map_err(|error| Complaint(format!("error: {error}")))?;
    let file = path.join("scenario.toml");
    if let Ok(text) = std::fs::read_to_string(&file) {
        run.keys = keys::keys(&text).map_err(|error| {
            let message = error.message();
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            Complaint(format!("error: {}:{line}: {message}", file.display()))
        })?;
    }
    Ok(run)
}

fn plain(error: PlotError) -> Complaint {
    Complaint(format!("error: {error}"))
}

/// The page of a run.
pub(super) fn page(run: &RunDir) -> Result<String, Complaint> {
    viz::report_html(&run.run()).map_err(plain)
}

/// The page that compares runs.
pub(super) fn comparison(runs: &[RunDir]) -> Result<String, Complaint> {
    let runs: Vec<Run<'_>> = runs.iter().map(RunDir::run).collect();
    viz::comparison_html(&runs).map_err(plain)
}

/// All pictures of runs, with the names of their files.
pub(super) fn pictures(runs: &[RunDir]) -> Result<Vec<(String, String)>, Complaint> {
    let views: Vec<Run<'_>> = runs.iter().map(RunDir::run).collect();
    let mut pictures = Vec::new();
    let charts = match views.as_slice() {
        [run] => viz::charts(run),
        runs => viz::compared_charts(runs),
    };
    for chart in charts {
        pictures.push((chart.id.clone(), chart.svg().map_err(plain)?));
    }
    if let [run] = views.as_slice() {
        for timeline in viz::timelines(run) {
            pictures.push((timeline.id.clone(), timeline.svg().map_err(plain)?));
        }
        pictures.extend(viz::fabric_svgs(run));
    }
    Ok(pictures)
}

/// Writes pictures into folders, which are made if need be.
pub(super) fn write_pictures(
    pictures: &[(String, String)],
    svg: Option<&Path>,
    png: Option<&Path>,
) -> Result<String, Complaint> {
    let mut said = String::new();
    for (folder, is_png) in [(svg, false), (png, true)] {
        let Some(folder) = folder else { continue };
        std::fs::create_dir_all(folder)
            .map_err(|error| Complaint(format!("error: {}: {error}", folder.display())))?;
        for (name, picture) in pictures {
            match is_png {
                false => output::write_file(&folder.join(format!("{name}.svg")), picture)?,
                true => {
                    let points = viz::png(picture).map_err(plain)?;
                    output::write_file(&folder.join(format!("{name}.png")), points)?;
                }
            }
        }
        said += &format!("{} pictures: {}\n", pictures.len(), folder.display());
    }
    Ok(said)
}
