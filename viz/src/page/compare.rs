//! Runs side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use models::report::Finding;

use super::facts::{Fact, Wanted, facts};
use super::findings::severity;
use super::{escape, figure, page};
use crate::Run;
use crate::charts::compared;
use crate::error::PlotError;
use crate::run::outcome;
use crate::scale;

/// The page of several runs; the first is what the others are compared with.
pub(crate) fn comparison(runs: &[Run<'_>]) -> Result<String, PlotError> {
    let names: Vec<&str> = runs.iter().map(|run| run.name).collect();
    let title = names.join(" / ");
    let mut html = format!(
        "<header><h1>{}</h1><p class=\"sub\">Differences are to {}.</p><nav aria-label=\"Parts of this \
         page\"><a href=\"#numbers\">Numbers</a><a href=\"#keys\">Scenario</a><a href=\"#findings\">\
         Findings</a><a href=\"#charts\">Charts</a></nav></header>",
        escape(&title),
        escape(names.first().copied().unwrap_or(""))
    );
    numbers(&mut html, runs);
    keys(&mut html, runs);
    findings(&mut html, runs);
    html.push_str("<section id=\"charts\"><h2>Charts</h2>");
    let charts = compared(runs);
    charts.iter().try_for_each(|chart| figure(&mut html, chart))?;
    if charts.is_empty() {
        html.push_str("<p>The runs have no collectives and no flows that ended.</p>");
    }
    html.push_str("</section>");
    Ok(page(&title, &html))
}

fn heads(html: &mut String, first: &str, runs: &[Run<'_>]) {
    let _ = write!(html, "<thead><tr><th scope=\"col\">{first}</th>");
    for run in runs {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(run.name));
    }
    html.push_str("</tr></thead>");
}

/// Rows in the order in which the first run that has each has it.
fn numbers(html: &mut String, runs: &[Run<'_>]) {
    let all: Vec<Vec<Fact>> = runs.iter().map(|run| facts(run.report)).collect();
    let mut rows: Vec<&Fact> = Vec::new();
    for fact in all.iter().flatten() {
        if !rows.iter().any(|row| row.label == fact.label) {
            rows.push(fact);
        }
    }
    html.push_str("<section id=\"numbers\"><h2>Numbers</h2><div class=\"card scroll\"><table>");
    heads(html, "", runs);
    html.push_str("<tbody><tr><td>scenario</td>");
    for run in runs {
        let _ = write!(html, "<td class=\"long\">{}</td>", escape(&run.report.scenario));
    }
    html.push_str("</tr><tr><td>outcome</td>");
    for run in runs {
        let _ = write!(html, "<td>{}</td>", outcome(run.report.outcome));
    }
    html.push_str("</tr>");
    for row in rows {
        let value =
            |facts: &Vec<Fact>| facts.iter().find(|fact| fact.label == row.label).map(|f| f.value);
        let base = value(&all[0]);
        let _ = write!(html, "<tr><td>{}</td>", escape(&row.label));
        for (index, facts) in all.iter().enumerate() {
            let Some(now) = value(facts) else {
                html.push_str("<td>–</td>");
                continue;
            };
            let base = base.filter(|_| index > 0);
            let (class, change) =
                base.map_or(("", String::new()), |base| change(base, now, row.wanted));
            let words = row.kind.words(now);
            let _ = write!(html, "<td class=\"{class}\">{words}{change}</td>");
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div></section>");
}

/// How a value differs from that of the first run: its class, and in words.
fn change(base: f64, now: f64, wanted: Wanted) -> (&'static str, String) {
    if !base.is_finite() || !now.is_finite() || base == now {
        return ("", String::new());
    }
    let class = match (wanted, now > base) {
        (Wanted::Neither, _) => "",
        (Wanted::High, true) | (Wanted::Low, false) => "better",
        (Wanted::High, false) | (Wanted::Low, true) => "worse",
    };
    let words = match base {
        0.0 => " (from 0)".to_owned(),
        base => match (now / base - 1.0) * 100.0 {
            percent if percent.abs() > 900.0 => format!(" ({}×)", scale::short(now / base)),
            percent => format!(" ({percent:+.1} %)"),
        },
    };
    (class, words)
}

/// Keys of the resolved scenarios whose values differ.
fn keys(html: &mut String, runs: &[Run<'_>]) {
    // what a scenario says of itself, and what is expected of it, changes no run
    let told = |key: &&String| {
        let words = ["title", "description"].contains(&key.as_str());
        !words && !["clinic.", "expect."].iter().any(|section| key.starts_with(section))
    };
    let all: BTreeSet<&String> = runs.iter().flat_map(|run| run.keys.keys()).filter(told).collect();
    let values = |key: &String| runs.iter().map(move |run| run.keys.get(key)).collect::<Vec<_>>();
    let differs = |key: &&&String| {
        let values = values(key);
        values.iter().any(|value| value != &values[0])
    };
    let differing: Vec<&&String> = all.iter().filter(differs).collect();
    html.push_str("<section id=\"keys\"><h2>What differs in the scenarios</h2>");
    if runs.iter().any(|run| run.keys.is_empty()) {
        html.push_str("<p>A run has no <code>scenario.toml</code> beside its report.</p>");
    } else if differing.is_empty() {
        html.push_str("<p>No key, presets expanded.</p>");
    } else {
        html.push_str("<div class=\"card scroll\"><table class=\"words\">");
        heads(html, "key", runs);
        html.push_str("<tbody>");
        for key in differing.iter().take(200) {
            let _ = write!(html, "<tr><td><code>{}</code></td>", escape(key));
            for value in values(key) {
                let value = value.map_or("–".to_owned(), |value| escape(&cut(value)));
                let _ = write!(html, "<td class=\"long\">{value}</td>");
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div>");
        if differing.len() > 200 {
            let _ = write!(html, "<p class=\"note\">and {} more</p>", differing.len() - 200);
        }
    }
    html.push_str("</section>");
}

fn cut(value: &str) -> String {
    match value.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// Which run has which finding: the worst of each kind.
fn findings(html: &mut String, runs: &[Run<'_>]) {
    let mut kinds: BTreeMap<&str, Vec<Option<&Finding>>> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        for finding in &run.report.findings {
            let of_kind = kinds.entry(&finding.kind).or_insert_with(|| vec![None; runs.len()]);
            if of_kind[index].is_none_or(|known| finding.severity > known.severity) {
                of_kind[index] = Some(finding);
            }
        }
    }
    html.push_str("<section id=\"findings\"><h2>Findings</h2>");
    if kinds.is_empty() {
        html.push_str("<p>Nothing was found to be wrong in any run.</p></section>");
        return;
    }
    let worst = |found: &[Option<&Finding>]| found.iter().flatten().map(|f| f.severity).max();
    let mut kinds: Vec<(&str, Vec<Option<&Finding>>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, found)| std::cmp::Reverse(worst(found)));
    html.push_str("<div class=\"card scroll\"><table class=\"words\">");
    heads(html, "finding", runs);
    html.push_str("<tbody>");
    for (kind, found) in kinds {
        let _ = write!(html, "<tr><td><code>{}</code></td>", escape(kind));
        let had = found[0].is_some();
        for (index, finding) in found.iter().enumerate() {
            let cell = match finding {
                Some(finding) => {
                    let (class, word) = severity(finding.severity);
                    let new = if index > 0 && !had { ", new" } else { "" };
                    format!(
                        "<td class=\"long w\"><span class=\"badge {class}\">{word}{new}</span> {}</td>",
                        escape(&cut(&finding.text))
                    )
                }
                None if index > 0 && had => "<td class=\"better\">gone</td>".to_owned(),
                None => "<td>–</td>".to_owned(),
            };
            html.push_str(&cell);
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div></section>");
}
