//! What a person reads in the terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use models::report::{CollectiveReport, Finding, FlowReport, OutcomeKind, Report, Severity};
use sim_core::units::grouped;
use sim_core::{Bytes, Delta, Rate};

use crate::check::Note;
use crate::expect::Verdict;
use crate::pause_tree;
use crate::stats;

/// Rows of cells, the first row a header; numbers are set flush right.
pub fn table(rows: &[Vec<String>]) -> String {
    aligned(rows, |column| column > 0)
}

/// The same of words: all flush left.
pub fn words(rows: &[Vec<String>]) -> String {
    aligned(rows, |_| false)
}

/// The same, where it is for the caller to say which columns are set flush right.
pub(crate) fn table_by(rows: &[Vec<String>], right: impl Fn(usize) -> bool) -> String {
    aligned(rows, right)
}

fn aligned(rows: &[Vec<String>], right: impl Fn(usize) -> bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if right(column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "  {}", line.trim_end());
    }
    text
}

/// Lines of at most `width` characters, broken at blanks; a longer word stays whole.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

pub(crate) fn span(seconds: f64) -> String {
    // four digits are enough to read
    let ps = seconds * 1e12;
    let digits = if ps > 0.0 { ps.log10().floor() as i32 } else { 0 };
    let scale = 10f64.powi((digits - 3).max(0));
    Delta::from_ps(((ps / scale).round() * scale) as u64).to_string()
}

pub(crate) fn rate(bps: f64) -> String {
    let scale = 10f64.powi(((bps.max(1.0)).log10().floor() as i32 - 3).max(0));
    Rate::from_bps(((bps / scale).round() * scale) as u64).to_string()
}

pub(crate) fn bytes(count: f64) -> String {
    let scale = 10f64.powi(((count.max(1.0)).log10().floor() as i32 - 3).max(0));
    Bytes::new(((count / scale).round() * scale) as u64).to_string()
}

/// `128 MiB`, as sizes of messages are read; other sizes as they are.
pub fn binary(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{} {name}", bytes / unit),
        None => Bytes::new(bytes).to_string(),
    }
}

fn outcome(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Completed => "completed",
        OutcomeKind::Deadlock => "DEADLOCK",
        OutcomeKind::QpError => "QP ERROR",
        OutcomeKind::TimeLimit => "TIME LIMIT",
        OutcomeKind::Interrupted => "interrupted (partial result)",
        OutcomeKind::Stalled => "STALLED",
    }
}

/// The answer of a run: flows, fabric, diagnosis.
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}\n{} after {} simulated, seed {}\n",
        report.scenario,
        outcome(report.outcome),
        span(report.simulated_time_s),
        report.seed
    );
    let points: Vec<&FlowReport> = report.flows.iter().filter(|flow| flow.is_point()).collect();
    if !points.is_empty() {
        text.push_str(&flows(&points));
        text.push('\n');
    }
    text.push_str(&crate::trainings::summary(report));
    text.push_str(&crate::programs::summary(report));
    text.push_str(&rings(report));
    text.push_str(&fabric(report));
    text.push('\n');
    let pauses = pause_tree::summary(&report.pauses, report.simulated_time_s);
    if !pauses.is_empty() {
        text.push_str(&pauses);
        text.push('\n');
    }
    text.push_str(&findings(&report.findings));
    text.push_str(&assumptions(report));
    let performance = &report.performance;
    let _ = writeln!(
        text,
        "{} events, {} packet-hops in {:.2} s of CPU ({:.2} M packet-hops/s){}, peak {}, \
         fingerprint {}",
        grouped(performance.events),
        grouped(performance.packet_hops),
        performance.cpu_time_s,
        performance.packet_hops_per_cpu_s / 1e6,
        match performance.remedies_cpu_time_s {
            0.0 => String::new(),
            time => format!(", remedies tried in {time:.2} s"),
        },
        bytes(performance.peak_rss_bytes as f64),
        report.fingerprint
    );
    text
}

const BINS: [(&str, f64); 5] = [
    ("up to 10 KB", 10e3),
    ("up to 100 KB", 100e3),
    ("up to 1 MB", 1e6),
    ("up to 10 MB", 10e6),
    ("larger", f64::INFINITY),
];

/// What NCCL's tuning model took, where it was asked, and what it thought of the next best.
fn chosen(collectives: &[CollectiveReport]) -> String {
    let asked = collectives.iter().filter_map(|c| Some((c, c.model_time_s? * 1e6)));
    let lines: Vec<String> = asked
        .map(|(collective, model)| {
            let next = collective.alternatives.as_deref().and_then(|all| all.split(", ").next());
            format!(
                "  {:>9}  {:<8} {:<6} {:>12} {:>12}  {}\n",
                binary(collective.bytes),
                collective.algorithm,
                collective.protocol,
                format!("{model:.1} us"),
                collective.time_s.map_or("-".to_owned(), |time| format!("{:.1} us", time * 1e6)),
                next.filter(|next| !next.is_empty()).unwrap_or("-")
            )
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let head = format!(
        "  {:>9}  {:<15} {:>12} {:>12}  {}\n",
        "size", "NCCL's choice", "its model", "simulated", "next by the model"
    );
    head + &lines.concat()
}

/// What the collectives ran on; of a sweep, the last size.
fn rings(report: &Report) -> String {
    let mut text = String::new();
    let jobs =
        report.flows.iter().filter_map(|flow| flow.collective).max().map_or(1, |job| job + 1);
    let last = report.collectives.len().saturating_sub(jobs as usize);
    for collective in &report.collectives[last..] {
        let _ = writeln!(
            text,
            "  {} {}: {} channels, {} QPs between servers, {} over NVLink; lanes wait {:.0} % of the \
             time for data, {:.0} % for room to send",
            match collective.protocol.as_str() {
                "Simple" => collective.algorithm.to_lowercase(),
                protocol => format!("{} {protocol}", collective.algorithm.to_lowercase()),
            },
            binary(collective.bytes),
            collective.channels,
            collective.qps,
            bytes(collective.nvlink_bytes as f64),
            collective.waiting_to_receive * 100.0,
            collective.waiting_to_send * 100.0
        );
    }
    text += &chosen(&report.collectives);
    let gap = 20.0;
    let busy = |port: &models::report::PortReport| {
        let wire = port.tx_bytes as f64 + port.tx_packets as f64 * gap;
        wire * 8.0 / port.rate_bps as f64 / report.simulated_time_s.max(1e-12)
    };
    let busiest = report.ports.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)));
    let jobs = report.collectives.len() + report.trainings.len() + report.programs.len();
    if let (Some(port), true) = (busiest, jobs > 0) {
        let share = busy(port) * 100.0;
        let _ = writeln!(text, "  links busiest {} -> {}: {share:.1} %", port.port, port.peer);
    }
    text
}

fn flows(flows: &[&FlowReport]) -> String {
    let sized: Vec<&FlowReport> =
        flows.iter().filter(|flow| flow.bytes.is_some()).copied().collect();
    let mut text = String::new();
    if !sized.is_empty() {
        let header = [
            "flows",
            "count",
            "done",
            "FCT p50",
            "p95",
            "p99",
            "max",
            "slowdown p50",
            "p95",
            "p99",
        ];
        let mut rows = vec![header.map(String::from).to_vec()];
        let mut lower = -1.0;
        for (name, upper) in BINS {
            let within = |flow: &&&FlowReport| {
                let bytes = flow.bytes.unwrap_or(0) as f64;
                bytes > lower && bytes <= upper
            };
            let bin: Vec<&FlowReport> = sized.iter().filter(within).copied().collect();
            lower = upper;
            if !bin.is_empty() {
                rows.push(flow_row(name, &bin));
            }
        }
        if rows.len() > 2 {
            rows.push(flow_row("all", &sized));
        }
        text.push_str(&table(&rows));
    }
    let endless: Vec<&FlowReport> =
        flows.iter().filter(|flow| flow.bytes.is_none()).copied().collect();
    if !endless.is_empty() {
        text.push_str(&goodput(&endless));
    }
    text
}

fn flow_row(name: &str, bin: &[&FlowReport]) -> Vec<String> {
    let fct = stats::sorted(bin.iter().filter_map(|flow| flow.fct_s));
    let slowdown = stats::sorted(bin.iter().filter_map(|flow| flow.slowdown));
    let mut row = vec![name.to_owned(), bin.len().to_string(), fct.len().to_string()];
    if fct.is_empty() {
        row.extend(std::iter::repeat_n("-".to_owned(), 7));
        return row;
    }
    row.extend([0.5, 0.95, 0.99, 1.0].map(|q| span(stats::quantile(&fct, q))));
    row.extend([0.5, 0.95, 0.99].map(|q| format!("{:.2}", stats::quantile(&slowdown, q))));
    row
}

fn goodput(flows: &[&FlowReport]) -> String {
    let rates = stats::sorted(flows.iter().map(|flow| flow.goodput_bps));
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let jain = if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 0.0 };
    let header = ["unlimited flows", "goodput min", "mean", "max", "sum", "Jain"];
    let row = vec![
        flows.len().to_string(),
        rate(stats::quantile(&rates, 0.0)),
        rate(stats::mean(&rates)),
        rate(stats::quantile(&rates, 1.0)),
        rate(sum),
        format!("{jain:.3}"),
    ];
    table(&[header.map(String::from).to_vec(), row])
}

fn fabric(report: &Report) -> String {
    let totals = &report.totals;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "  PFC   {} XOFF, {} XON frames; {} pauses, {} in all{}",
        totals.pfc_xoff_frames,
        totals.pfc_xon_frames,
        totals.pause_episodes,
        span(totals.paused_s),
        match report.open_pauses.len() {
            0 => String::new(),
            open => format!("; {open} not ended ({})", report.open_pauses[0].port),
        }
    );
    let marked = report
        .nics
        .iter()
        .filter_map(|nic| nic.counters.get("np_ecn_marked_roce_packets").copied());
    let share = marked.sum::<u64>() as f64 / totals.data_packets.max(1) as f64;
    let _ = writeln!(
        text,
        "  ECN   {} marks, {:.2} % of data arrived marked; {} CNPs sent, {} notifications acted on",
        totals.ecn_marked_packets,
        share * 100.0,
        totals.cnp_sent,
        totals.cnp_handled
    );
    let drops: Vec<String> =
        totals.drops.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let _ = writeln!(
        text,
        "  drops {}; {} lossless; {} NAKs, {} time-outs, {} packets sent again",
        if drops.is_empty() { "none".to_owned() } else { drops.join(", ") },
        totals.lossless_drops,
        totals.nak_sent,
        totals.timeouts,
        totals.retransmitted_packets
    );
    if totals.reordered_packets > 0 {
        let _ = writeln!(text, "  {} packets came out of order", totals.reordered_packets);
    }
    let queues = report
        .ports
        .iter()
        .flat_map(|port| port.priorities.iter().map(move |priority| (port, priority)));
    if let Some((port, queue)) = queues.max_by_key(|(_, queue)| queue.max_queue_bytes)
        && queue.max_queue_bytes > 0
    {
        let _ = writeln!(
            text,
            "  queue deepest at {} priority {}: {} at most, {} on average",
            port.port,
            queue.priority,
            bytes(queue.max_queue_bytes as f64),
            bytes(queue.mean_queue_bytes)
        );
    }
    text
}

/// The diagnosis.
pub fn findings(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "  nothing to complain about\n\n".to_owned();
    }
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "  {} {}", mark(finding.severity), finding.text);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(
                text,
                "          -> {}",
                remedy.replace("; tried at", "\n             tried at")
            );
        }
    }
    text.push('\n');
    text
}

/// The assumed figures that matter, by reason.
fn assumptions(report: &Report) -> String {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for figure in &report.assumed {
        let named = format!("{} = {}", figure.key, figure.value);
        by_reason.entry(&figure.because).or_default().push(named);
    }
    let mut text = String::new();
    for (because, figures) in by_reason {
        let _ = writeln!(text, "  assumed, and it matters ({because}):");
        for figure in figures {
            let _ = writeln!(text, "          {figure}");
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error:  ",
        Severity::Warning => "warning:",
        Severity::Info => "note:   ",
    }
}

/// The notes of `check`, with the place where each key was set.
pub fn notes(notes: &[Note], written: impl Fn(&Note) -> String) -> String {
    let mut text = String::new();
    for note in notes {
        let place = written(note);
        let _ = writeln!(text, "  {} {place}: {}: {}", mark(note.severity), note.key, note.text);
        for line in &note.details {
            let _ = writeln!(text, "           {line}");
        }
    }
    text
}

/// The verdicts of `[expect]`: failures in full, the rest counted.
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.passed) {
        let _ = writeln!(text, "expectation failed: {}", verdict.text);
    }
    let passed = verdicts.iter().filter(|verdict| verdict.passed).count();
    if !verdicts.is_empty() {
        let _ = writeln!(text, "{passed} of {} expectations hold", verdicts.len());
    }
    text
}
