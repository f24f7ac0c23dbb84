//! What a person reads of training jobs, and `training.csv`.

use std::fmt::Write;

use models::report::{CommunicatorReport, FlowStatus, Report, StepReport, TrainingReport};

use crate::text::{binary, bytes, span, table};

/// The answer of a run about its training jobs.
pub(crate) fn summary(report: &Report) -> String {
    let mut text = String::new();
    for training in &report.trainings {
        text += &one(training);
    }
    text
}

fn one(training: &TrainingReport) -> String {
    let name = if training.name.is_empty() { "training" } else { &training.name };
    let mut text = format!(
        "  {name}: {} GPUs on {} hosts, tp {} x pp {} x dp {}, {} micro-batch{} a step\n",
        training.ranks,
        training.nodes,
        training.tp,
        training.pp,
        training.dp,
        training.microbatches,
        if training.microbatches == 1 { "" } else { "es" }
    );
    for communicator in &training.communicators {
        text += &line(communicator);
    }
    text.push('\n');
    text += &steps(training);
    text += &waits(training);
    text += &stragglers(training);
    text.push('\n');
    text
}

/// `dp: 8 x all_reduce over 4 ranks ..`
fn line(communicator: &CommunicatorReport) -> String {
    let sizes: Vec<String> = communicator.sizes.iter().take(3).map(|size| binary(*size)).collect();
    let more = if communicator.sizes.len() > 3 { " .." } else { "" };
    format!(
        "    {}: {} x {} of {} ranks ({} host{}), {} a step of {}{more}; {}, {} channels, {} QPs\n",
        communicator.class,
        communicator.count,
        communicator.op,
        communicator.ranks,
        communicator.nodes,
        if communicator.nodes == 1 { "" } else { "s" },
        communicator.operations,
        sizes.join(", "),
        communicator.algorithm,
        communicator.channels,
        communicator.qps
    )
}

fn timed(training: &TrainingReport) -> impl Iterator<Item = &StepReport> {
    training.series.iter().filter(|step| step.timed)
}

fn steps(training: &TrainingReport) -> String {
    let (Some(mean), Some(median), Some(longest)) =
        (training.step_time_s, training.step_time_p50_s, training.step_time_max_s)
    else {
        return match training.status {
            FlowStatus::QpError => "    no step was done: a QP is in error\n".to_owned(),
            _ => "    no step was done\n".to_owned(),
        };
    };
    let header = ["steps", "mean", "p50", "max", "compute", "exposed", "tp", "pp", "dp"];
    let share = |wait: f64| format!("{:.1} %", 100.0 * wait / mean.max(1e-12));
    let row = vec![
        training.steps.to_string(),
        span(mean),
        span(median),
        span(longest),
        span(training.compute_s),
        share(training.exposed_s),
        share(training.tp_wait_s),
        share(training.pp_wait_s),
        share(training.dp_wait_s),
    ];
    let mut text = table(&[header.map(String::from).to_vec(), row]);
    let mut all: Vec<&StepReport> = timed(training).collect();
    if all.len() > 1 {
        all.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then(a.step.cmp(&b.step)));
        let worst = all[0];
        let _ = write!(text, "    longest: step {}, {}", worst.step, span(worst.time_s));
        // equal ranks are none of them to blame
        let _ = match worst.slowest_factor >= 1.01 {
            true => writeln!(
                text,
                "; its slowest rank is {} ({} GPU {}), {:.2} times the median",
                worst.slowest_rank, worst.slowest_host, worst.slowest_gpu, worst.slowest_factor
            ),
            false => writeln!(text),
        };
    }
    text
}

/// How much of the communication is hidden, and how much of the bubble is the schedule's.
fn waits(training: &TrainingReport) -> String {
    let mut text = String::new();
    if training.dp_busy_s > 0.0 {
        let exposed = training.dp_wait_s.min(training.dp_busy_s);
        let hidden = (1.0 - exposed / training.dp_busy_s) * 100.0;
        let _ = writeln!(
            text,
            "    data parallelism: {} of operations a step, {hidden:.0} % behind computing",
            span(training.dp_busy_s)
        );
    }
    if training.pp > 1 {
        let (stages, parts) = (f64::from(training.pp - 1), f64::from(training.microbatches));
        let bubble = training.compute_s * stages / parts;
        let _ = writeln!(
            text,
            "    pipeline: waits {} a step, of which about {} are the bubble of the schedule",
            span(training.pp_wait_s),
            span(bubble)
        );
    }
    text
}

fn stragglers(training: &TrainingReport) -> String {
    const SHOWN: usize = 4;
    let mut text = String::new();
    for slow in training.stragglers.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "    straggler: rank {} ({} GPU {}) computes {:.2} times the median of its stage in {} of \
             {} steps",
            slow.rank, slow.host, slow.gpu, slow.factor, slow.steps, training.steps
        );
    }
    if let Some(more) = training.stragglers.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "    and {more} more (trainings.stragglers in report.json)");
    }
    let nvlink: u64 = training.communicators.iter().map(|c| c.nvlink_bytes).sum();
    if nvlink > 0 {
        let _ = writeln!(text, "    {} over NVLink", bytes(nvlink as f64));
    }
    text
}

/// `training.csv`: one row a job and step.
pub(crate) fn csv(trainings: &[TrainingReport]) -> String {
    // a tuple has no names
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    for (number, training) in trainings.iter().enumerate() {
        for step in &training.series {
            // a Vec takes everything
            let _ = writer.serialize((number, &training.name, step));
        }
    }
    let rows = String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default();
    let header = "training,name,step,timed,begin_s,end_s,time_s,compute_mean_s,compute_max_s,\
                  exposed_mean_s,exposed_max_s,tp_wait_s,pp_wait_s,dp_wait_s,slowest_rank,\
                  slowest_host,slowest_gpu,slowest_factor\n";
    header.to_owned() + &rows
}
