//! Pages: one file of HTML that needs nothing else.
//!
//! Style and script stand in the page, pictures too. A policy in its head forbids any request.

mod compare;
mod fabric;
mod facts;
mod findings;
mod ports;

use std::fmt::Write;

use models::report::{OutcomeKind, Report};
use sim_core::units::grouped;

use crate::chart::Chart;
use crate::charts::{Timeline, of_run, timelines};
use crate::error::PlotError;
use crate::run::outcome;
use crate::{Run, scale};

pub(crate) use compare::comparison;

/// The page of a run.
pub(crate) fn of(run: &Run<'_>) -> Result<String, PlotError> {
    let report = run.report;
    let mut html = String::new();
    header(&mut html, report);
    html.push_str("<section id=\"answer\"><h2>Headline</h2><dl class=\"facts\">");
    for fact in facts::facts(report) {
        let value = fact.kind.words(fact.value);
        let _ = write!(
            html,
            "<div class=\"card\"><dt>{}</dt><dd>{}</dd></div>",
            escape(&fact.label),
            escape(&value)
        );
    }
    html.push_str("</dl></section>");
    findings::section(&mut html, report);
    let charts = of_run(run);
    html.push_str("<section id=\"charts\"><h2>Charts</h2>");
    charts.iter().try_for_each(|chart| figure(&mut html, chart))?;
    if run.series.time_s.is_empty() {
        html.push_str(
            "<p class=\"note\">This run was not sampled: there is no throughput, queue depth or rate \
             over time. <code>rocesim run --report</code> samples, and so does <code>sample.interval\
             </code> in the scenario.</p>",
        );
    }
    html.push_str("</section>");
    let timelines = timelines(run);
    if !timelines.is_empty() {
        html.push_str("<section id=\"ranks\"><h2>Ranks</h2>");
        timelines.iter().try_for_each(|timeline| ranks(&mut html, timeline))?;
        html.push_str("</section>");
    }
    fabric::section(&mut html, run);
    ports::section(&mut html, report);
    footer(&mut html, report);
    Ok(page(&report.scenario, &html))
}

/// The whole of a page.
fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}</style>\n\
         </head>\n<body>\n<main>\n{body}</main>\n<script>\n{}</script>\n</body>\n</html>\n",
        escape(title),
        include_str!("style.css"),
        include_str!("script.js"),
    )
}

fn header(html: &mut String, report: &Report) {
    let class = match report.outcome {
        OutcomeKind::Completed => "info",
        OutcomeKind::Interrupted | OutcomeKind::TimeLimit => "warning",
        OutcomeKind::Deadlock | OutcomeKind::QpError | OutcomeKind::Stalled => "error",
    };
    let hosts: std::collections::BTreeSet<&str> = report
        .ports
        .iter()
        .filter(|port| port.port.contains("/nic"))
        .map(|port| port.node.as_str())
        .collect();
    let hosts = scale::counted(hosts.len() as u64, "host");
    let _ = write!(
        html,
        "<header><h1>{}</h1><p><span class=\"badge {class}\">{}</span> <span class=\"sub\">{} \
         simulated · {hosts}, {} · seed {}</span></p><nav aria-label=\"Parts of this page\">\
         <a href=\"#diagnosis\">Diagnosis</a><a href=\"#charts\">Charts</a>{}\
         <a href=\"#fabric\">Fabric</a><a href=\"#ports-part\">Ports</a></nav></header>",
        escape(&report.scenario),
        outcome(report.outcome),
        scale::time(report.simulated_time_s),
        scale::counted(report.ports.len() as u64, "port"),
        report.seed,
        match report.collectives.is_empty() && report.trainings.is_empty() {
            true => "",
            false => "<a href=\"#ranks\">Ranks</a>",
        },
    );
}

/// A chart, for wide and for narrow screens.
fn figure(html: &mut String, chart: &Chart) -> Result<(), PlotError> {
    both(html, &chart.title, &chart.svg()?, &chart.narrow_svg()?);
    Ok(())
}

fn ranks(html: &mut String, timeline: &Timeline) -> Result<(), PlotError> {
    both(html, timeline.title(), &timeline.svg()?, &timeline.narrow_svg()?);
    Ok(())
}

fn both(html: &mut String, title: &str, wide: &str, narrow: &str) {
    let _ = write!(
        html,
        "<figure class=\"card\"><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>",
        inline(wide, title),
        inline(narrow, title)
    );
}

/// An SVG as part of a page: it takes the width that it finds.
fn inline(svg: &str, title: &str) -> String {
    let Some((head, rest)) = svg.split_once('>') else { return String::new() };
    let view = head.split_once("viewBox=\"").and_then(|(_, rest)| rest.split_once('"'));
    let view = view.map_or("0 0 1120 380", |(view, _)| view);
    let label = escape(title);
    format!("<svg role=\"img\" aria-label=\"{label}\" viewBox=\"{view}\">{}", rest.trim_end())
}

fn footer(html: &mut String, report: &Report) {
    let performance = &report.performance;
    html.push_str("<footer>");
    if !report.assumed.is_empty() {
        html.push_str("<details><summary>Figures that this answer depends on and nobody vouches for</summary><ul>");
        for figure in &report.assumed {
            let (key, value) = (escape(&figure.key), escape(&figure.value));
            let because = escape(&figure.because);
            let _ = write!(html, "<li><code>{key} = {value}</code>: {because}</li>");
        }
        html.push_str("</ul></details>");
    }
    if !report.presets.is_empty() {
        let presets = report
            .presets
            .iter()
            .map(|preset| format!("{} {} ({})", preset.key, preset.name, preset.version));
        let presets: Vec<String> = presets.collect();
        let _ = write!(html, "<p>Presets: {}</p>", escape(&presets.join(", ")));
    }
    let commit = match report.commit.as_str() {
        "" => String::new(),
        commit => format!(" ({commit})"),
    };
    let _ = write!(
        html,
        "<p>rocesim {}{}, fingerprint {}. {} packet-hops in {:.2} s of CPU.</p></footer>",
        escape(&report.rocesim),
        escape(&commit),
        escape(&report.fingerprint),
        grouped(report.packet_hops),
        performance.cpu_time_s,
    );
}

/// Text as it may stand in HTML, in attributes too.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

/// Data for the script of a page.
fn data(html: &mut String, id: &str, value: &serde_json::Value) {
    // nothing in it ends the element
    let text = value.to_string().replace('<', "\\u003c");
    let _ = write!(html, "<script type=\"application/json\" id=\"{id}\">{text}</script>");
}

/// A number without digits that nobody needs.
fn rounded(value: f64) -> f64 {
    // no -0 either
    format!("{value:.3e}").parse().unwrap_or(0.0) + 0.0
}
