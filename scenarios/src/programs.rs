//! What a person reads of GOAL schedules.

use std::fmt::Write;

use models::report::{FlowStatus, ProgramReport, Report};

use crate::text::{bytes, span, table};

/// Ranks that are shown; of more only the first and the last to end.
const RANKS_MAX: usize = 16;

/// The answer of a run about its GOAL schedules.
pub(crate) fn summary(report: &Report) -> String {
    report.programs.iter().map(one).collect()
}

fn one(program: &ProgramReport) -> String {
    let name = if program.name.is_empty() { "program" } else { &program.name };
    let end = match (program.status, program.time_s) {
        (_, Some(time)) => format!("done after {}", span(time)),
        (FlowStatus::QpError, _) => "stopped: a QP gave up".to_owned(),
        _ => {
            let ended = program.rank_time_s.iter().flatten().count();
            format!("unfinished: {ended} of {} ranks are done", program.ranks)
        }
    };
    let mut text = format!(
        "  {name}: {} ranks on {} hosts, {} operations, {} messages of {} together\n  {end}\n\n",
        program.ranks,
        program.nodes,
        program.tasks,
        program.messages,
        bytes(program.bytes as f64)
    );
    let mut ranks: Vec<usize> = (0..program.rank_time_s.len()).collect();
    let at = |rank: usize| program.rank_time_s[rank].unwrap_or(f64::INFINITY);
    let all = ranks.len();
    if all > RANKS_MAX {
        ranks.sort_by(|a, b| at(*a).total_cmp(&at(*b)).then(a.cmp(b)));
        ranks.drain(RANKS_MAX / 2..all - RANKS_MAX / 2);
    }
    let rows = ranks.iter().map(|rank| {
        let ended = program.rank_time_s[*rank].map_or("-".to_owned(), span);
        vec![rank.to_string(), ended, span(program.rank_calc_s[*rank])]
    });
    let header = ["rank", "done after", "computing"].map(String::from).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    text += &table(&rows);
    if all > RANKS_MAX {
        let _ = writeln!(text, "  ({RANKS_MAX} ranks: the first and the last to end)");
    }
    text.push('\n');
    text
}
