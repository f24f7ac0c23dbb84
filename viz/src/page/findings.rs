//! The diagnosis.

use std::fmt::Write;

use models::report::{Finding, Report, Severity};

use super::escape;

/// What is wrong and what to do, worst first.
pub(super) fn section(html: &mut String, report: &Report) {
    html.push_str("<section id=\"diagnosis\"><h2>Diagnosis</h2>");
    if report.findings.is_empty() {
        html.push_str("<p>Nothing was found to be wrong.</p>");
    }
    let mut findings: Vec<&Finding> = report.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings.into_iter().for_each(|finding| add(html, finding));
    html.push_str("</section>");
}

/// The class of a severity, and how it is called.
pub(super) fn severity(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Error => ("error", "Error"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Info => ("info", "Note"),
    }
}

fn add(html: &mut String, finding: &Finding) {
    let (class, word) = severity(finding.severity);
    let _ = write!(
        html,
        "<article class=\"card finding {class}\"><p><span class=\"badge {class}\">{word}</span> \
         <code class=\"sub\">{}</code></p><p>{}</p>",
        escape(&finding.kind),
        escape(&finding.text)
    );
    if let Some(remedy) = &finding.remedy {
        let _ =
            write!(html, "<p class=\"remedy\"><strong>What to do:</strong> {}</p>", escape(remedy));
    }
    let told = |what: &str| finding.remedy.as_ref().is_some_and(|remedy| remedy.contains(what));
    if finding.set.iter().any(|set| !told(set)) {
        let set: Vec<String> =
            finding.set.iter().map(|set| format!("--set '{}'", escape(set))).collect();
        let _ = write!(html, "<p class=\"remedy\"><code>{}</code></p>", set.join(" "));
    }
    if let Some(promised) = finding.promised_busbw_gbytes_per_s.filter(|_| !told("tried")) {
        let _ = write!(
            html,
            "<p class=\"remedy\">Tried: bus bandwidth is {} GB/s then.</p>",
            crate::scale::short(promised)
        );
    }
    if !finding.evidence.is_empty() {
        html.push_str("<details><summary>Evidence</summary><ul>");
        for (name, value) in &finding.evidence {
            let _ = write!(
                html,
                "<li><code>{} = {}</code></li>",
                escape(name),
                escape(&value.to_string())
            );
        }
        html.push_str("</ul></details>");
    }
    html.push_str("</article>");
}
