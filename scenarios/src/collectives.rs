//! The tables of a run's collectives.

use models::collective::{CollectiveConfig, MessageSizes, Step};
use models::report::CollectiveReport;
use sim_core::Bytes;

use crate::nccl_tests::{Header, Rank, Row, table};
use crate::resolve::Loaded;
use crate::simulate::Finished;
use crate::text::binary;

/// What a table shows that no run knows.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// The reduction.
    pub redop: &'static str,
    /// Results count as checked.
    pub check: bool,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions { redop: "sum", check: true }
    }
}

/// One table for each collective, as nccl-tests prints it.
pub fn tables(loaded: &Loaded, run: &Finished, options: &TableOptions) -> String {
    let jobs = run.plan.wiring.collectives();
    let mut text = String::new();
    for (number, config) in loaded.sweep.configs().enumerate() {
        // the reports stand run by run
        let reports = run.report.collectives.iter().skip(number).step_by(jobs.len().max(1));
        let reports: Vec<&CollectiveReport> = reports.collect();
        let redop = if config.op.reduces() { options.redop } else { "none" };
        let rows: Vec<Row> = reports.iter().map(|report| Row::new(report, redop)).collect();
        if jobs.len() > 1 {
            text +=
                &format!("# Collective test starting: {} ({})\n", config.name, config.op.name());
        }
        text += &table(&header(config, options), &ranks(run, number), &rows);
        text += &extrapolated(&reports);
    }
    text
}

/// What the `~` of rows means, as comments.
fn extrapolated(reports: &[&CollectiveReport]) -> String {
    let mut text = String::new();
    for report in reports.iter().filter(|report| report.extrapolated) {
        let [share, error] = [report.simulated_share, report.estimated_error]
            .map(|share| share.unwrap_or(0.0) * 100.0);
        text += &format!(
            "# ~ {}: extrapolated from {share:.1} % of its steps; busbw is right within {} %, as \
             estimated\n",
            binary(report.bytes),
            up(error)
        );
    }
    if !text.is_empty() {
        text += "# ~ frames, pauses, queues, waits and findings are those of the part that was \
                 simulated\n#\n";
    }
    text
}

/// Two digits, rounded up.
fn up(percent: f64) -> String {
    let hundredths = (percent * 100.0).ceil().max(1.0);
    if hundredths < 10.0 {
        format!("{:.2}", hundredths / 100.0)
    } else {
        format!("{:.1}", (hundredths / 10.0).ceil() / 10.0)
    }
}

/// The header of a table of these sizes.
pub fn header(config: &CollectiveConfig, options: &TableOptions) -> Header {
    let (from, to, step) = match config.bytes {
        MessageSizes::One(bytes) => (bytes, bytes, Step::Bytes(Bytes::new(1 << 20))),
        MessageSizes::Sweep(from, to, step) => (from, to, step),
    };
    Header {
        min_bytes: from.get(),
        max_bytes: to.get(),
        step,
        warmup: config.warmup,
        iters: config.iterations,
        n_gpus: 1,
        check: options.check,
    }
}

fn ranks(run: &Finished, number: usize) -> Vec<Rank> {
    let plan = &run.plan;
    let job = &plan.wiring.jobs[number];
    let rank = |(rank, place): (u32, &models::collective::Rank)| {
        let gpu = plan.spec.hosts[place.host.index()].as_ref();
        Rank {
            rank,
            pid: 0,
            host: plan.wiring.topology.node(place.host).name.clone(),
            device: place.gpu,
            bus_id: "0x00".to_owned(),
            gpu: gpu.map_or(String::new(), |host| host.gpu.clone()),
        }
    };
    (0..).zip(&job.ranks).map(rank).collect()
}

/// `collectives.csv`: one row a collective and size.
pub(crate) fn csv(reports: &[CollectiveReport]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for report in reports {
        // a Vec takes everything
        let _ = writer.serialize(report);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::up;

    #[test]
    fn errors_are_rounded_up() {
        assert_eq!([0.0, 0.031, 0.1, 0.341, 1.0].map(up), ["0.01", "0.04", "0.1", "0.4", "1.0"]);
    }
}
