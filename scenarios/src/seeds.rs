//! The same scenario over several seeds: means and confidence intervals.

use models::fabric::Running;
use models::report::{FlowReport, PortReport, Report};
use rayon::prelude::*;
use serde::Serialize;

use crate::resolve::{self, Complaint, LoadOptions};
use crate::simulate::{self, How, Verdict};
use crate::stats;

/// A number of the report over several seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Mean over seeds.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval.
    pub confidence_95: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

/// Runs `count` seeds from `first` on, `threads` at a time.
pub fn run(
    name: &str,
    options: &LoadOptions,
    first: u64,
    count: u64,
    threads: usize,
    owner: impl Fn() -> Verdict + Sync,
) -> Result<Vec<Report>, Complaint> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Complaint(format!("error: {error}")))?;
    let one = |seed: u64| {
        let options = LoadOptions { seed: Some(seed), ..options.clone() };
        let loaded = resolve::load(name, &options)?;
        let plans = simulate::plans(&loaded, 1)?;
        let owner = |_: &Running| owner();
        simulate::run_all(&loaded, plans, 1, How::default(), &owner).map(|run| run.report)
    };
    pool.install(|| (first..first.saturating_add(count)).into_par_iter().map(one).collect())
}

/// The numbers that are compared over seeds; those that are zero in all of them say nothing, but
/// for drops.
pub fn metrics(reports: &[Report]) -> Vec<Metric> {
    let fct = |report: &Report| stats::sorted(report.flows.iter().filter_map(|flow| flow.fct_s));
    let goodput = |report: &Report| -> Vec<f64> {
        report.flows.iter().map(|flow: &FlowReport| flow.goodput_bps).collect()
    };
    let deepest = |of: fn(&PortReport) -> f64| {
        move |report: &Report| report.ports.iter().map(of).fold(0.0, f64::max)
    };
    let metric = |name: &'static str, of: &dyn Fn(&Report) -> f64| {
        let values = stats::sorted(reports.iter().map(of));
        Metric {
            name,
            mean: stats::mean(&values),
            confidence_95: stats::confidence_95(&values),
            min: values.first().copied().unwrap_or(0.0),
            max: values.last().copied().unwrap_or(0.0),
        }
    };
    let busbw = |report: &Report| {
        let last = report.collectives.last();
        last.and_then(|collective| collective.busbw_gbytes_per_s).unwrap_or(0.0)
    };
    let step = |report: &Report| {
        let steps = report.trainings.iter().filter_map(|training| training.step_time_s);
        stats::mean(&steps.collect::<Vec<f64>>())
    };
    let exposed = |report: &Report| {
        let shares = report.trainings.iter().map(|training| training.exposed_share);
        stats::mean(&shares.collect::<Vec<f64>>())
    };
    let mut metrics = vec![
        metric("step_time_s", &step),
        metric("exposed_share", &exposed),
        metric("busbw_gbytes_per_s", &busbw),
        metric("fct_mean_s", &|report| stats::mean(&fct(report))),
        metric("fct_p99_s", &|report| stats::quantile(&fct(report), 0.99)),
        metric("fct_max_s", &|report| stats::quantile(&fct(report), 1.0)),
        metric("goodput_mean_bps", &|report| stats::mean(&goodput(report))),
        metric("max_queue_bytes", &deepest(|port| port.max_queue_bytes as f64)),
        metric("mean_queue_bytes", &deepest(|port| port.mean_queue_bytes)),
        metric("ecn_marked_packets", &|report| report.totals.ecn_marked_packets as f64),
        metric("pause_episodes", &|report| report.totals.pause_episodes as f64),
        metric("lossless_drops", &|report| report.totals.lossless_drops as f64),
    ];
    metrics.retain(|metric| metric.max > 0.0 || metric.name == "lossless_drops");
    metrics
}

/// The metrics as a table.
pub fn table(metrics: &[Metric]) -> String {
    let header = ["over seeds", "mean", "+- 95 %", "min", "max"].map(String::from).to_vec();
    let number = |value: f64| match value {
        0.0 => "0".to_owned(),
        value if !(1e-2..1e7).contains(&value.abs()) => format!("{value:.4e}"),
        value => format!("{value:.4}"),
    };
    let row = |metric: &Metric| {
        let spread = metric.confidence_95.map_or("-".to_owned(), number);
        vec![
            metric.name.to_owned(),
            number(metric.mean),
            spread,
            number(metric.min),
            number(metric.max),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(metrics.iter().map(row)).collect();
    crate::text::table(&rows)
}
