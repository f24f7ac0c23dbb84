//! What an operator's counters point to.
//!
//! Each check looks at a few counters and gives [`Symptom`]s: the numbers, what they point to, a
//! scenario that shows the same, and what to type next. Roles of mlx5's counters: a responder that
//! misses a packet counts `out_of_sequence`, the requester that gets its NAK `packet_seq_err`, one
//! that gets no answer `local_ack_timeout_err`; a responder without a receive buffer posted
//! `out_of_buffer` (Linux `Documentation/networking/.../mlx5/counters.rst`).

mod congestion;
mod links;
mod losses;
mod pauses;

use std::collections::BTreeMap;
use std::fmt::Write;

use models::report::{Finding, Severity};
use serde::Serialize;
use serde_json::Value as Json;
use sim_core::units::grouped;
use sim_core::{Bytes, Delta};

use crate::counters::{Measured, Value};

/// What is known beside the counters.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The priorities that are lossless.
    pub lossless: Vec<u8>,
    /// Time in which the counters were counted.
    pub over: Option<Delta>,
    /// Size of the headroom of a lossless priority group.
    pub headroom: Option<Bytes>,
}

impl Default for Setting {
    /// SONiC's lossless priorities, 3 and 4.
    fn default() -> Self {
        Setting { lossless: vec![3, 4], over: None, headroom: None }
    }
}

/// A scenario of the library, perhaps changed, that shows the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Its name.
    pub scenario: &'static str,
    /// What `--set` changes.
    pub set: &'static [&'static str],
}

impl Example {
    /// The command that runs it.
    pub fn command(&self) -> String {
        let sets = self.set.iter().map(|set| match set.contains([' ', '[', '"']) {
            true => format!(" --set '{set}'"),
            false => format!(" --set {set}"),
        });
        format!("rocesim run {}{}", self.scenario, sets.collect::<String>())
    }
}

/// Something that counters point to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Symptom {
    /// Kind, severity, the numbers in words and as evidence; `remedy` is what to type next.
    #[serde(flatten)]
    pub finding: Finding,
    /// What the numbers point to.
    pub means: String,
    /// What shows it.
    pub example: Option<Example>,
}

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The worst first.
    pub symptoms: Vec<Symptom>,
    /// What was looked at, and for what there were no counters.
    pub checked: Vec<&'static str>,
    /// What could not be looked at.
    pub not_measured: Vec<&'static str>,
}

/// A check: what it is about, the counters of which it needs one, and how it goes.
#[derive(Clone, Copy)]
struct Check {
    about: &'static str,
    needs: &'static [&'static str],
    find: fn(&Measured, &Setting) -> Vec<Symptom>,
}

/// Everything that the counters point to.
pub fn diagnose(measured: &Measured, setting: &Setting) -> Diagnosis {
    let all = [pauses::CHECKS, losses::CHECKS, congestion::CHECKS, links::CHECKS].concat();
    let mut diagnosis =
        Diagnosis { symptoms: Vec::new(), checked: Vec::new(), not_measured: Vec::new() };
    for Check { about, needs, find } in all {
        if needs.iter().any(|name| measured.has(name)) {
            diagnosis.checked.push(about);
            diagnosis.symptoms.extend(find(measured, setting));
        } else {
            diagnosis.not_measured.push(about);
        }
    }
    diagnosis.symptoms.sort_by_key(|symptom| std::cmp::Reverse(symptom.finding.severity));
    diagnosis
}

/// All scenarios that symptoms may name.
pub fn examples() -> Vec<Example> {
    [pauses::EXAMPLES, losses::EXAMPLES, congestion::EXAMPLES].concat()
}

/// What a symptom says.
struct Said<'a> {
    kind: &'a str,
    severity: Severity,
    text: String,
    means: &'a str,
    example: Option<Example>,
    next: &'a str,
}

impl Said<'_> {
    /// The symptom, with values as evidence.
    fn with(self, evidence: &[(&str, u64)]) -> Symptom {
        let evidence = evidence.iter().map(|(key, value)| ((*key).to_owned(), Json::from(*value)));
        Symptom {
            finding: Finding {
                kind: self.kind.to_owned(),
                severity: self.severity,
                text: self.text,
                evidence: evidence.collect::<BTreeMap<_, _>>(),
                remedy: Some(self.next.to_owned()),
                collective: None,
                set: Vec::new(),
                promised_busbw_gbytes_per_s: None,
            },
            means: self.means.to_owned(),
            example: self.example,
        }
    }
}

/// `Ethernet8 priority 3 (1 234), Ethernet4 priority 3 (12) and 2 more`: the largest first, without
/// those that are 0.
fn largest(values: impl IntoIterator<Item = (String, u64)>) -> String {
    let mut values: Vec<(String, u64)> = values.into_iter().filter(|(_, v)| *v > 0).collect();
    values.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let shown: Vec<String> = values
        .iter()
        .take(3)
        .map(|(name, value)| format!("{name} ({})", grouped(*value)))
        .collect();
    match values.len() {
        0..=3 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), more - 3),
    }
}

/// `Ethernet8 priority 3`, and its value.
fn named(value: Value<'_>) -> (String, u64) {
    let place = &value.counters.place;
    match value.priority {
        Some(priority) => (format!("{place} priority {priority}"), value.value),
        None => (place.clone(), value.value),
    }
}

/// `1 234 packets`, `1 packet`.
fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

impl Diagnosis {
    /// Whether anything is an error.
    pub fn has_errors(&self) -> bool {
        self.symptoms.iter().any(|symptom| symptom.finding.severity == Severity::Error)
    }
}

impl std::fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        for Symptom { finding, means, example, .. } in &self.symptoms {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "note",
            };
            let _ = write!(text, "{}", wrapped(&format!("  {severity}: "), &finding.text));
            let _ = write!(text, "{}", wrapped("    points to: ", means));
            if let Some(example) = example {
                let _ = writeln!(text, "    shown by:  {}", example.command());
            }
            if let Some(next) = &finding.remedy {
                let _ = writeln!(text, "    next:      {next}");
            }
            text.push('\n');
        }
        if self.symptoms.is_empty() {
            text += "  nothing points to trouble\n\n";
        }
        let _ = write!(text, "{}", wrapped("  checked: ", &self.checked.join(", ")));
        if !self.not_measured.is_empty() {
            let _ =
                write!(text, "{}", wrapped("  no counters for: ", &self.not_measured.join(", ")));
        }
        f.write_str(&text)
    }
}

/// Columns of a line.
const WIDTH: usize = 98;

/// Words in lines, set in under the first.
pub(crate) fn wrapped(label: &str, words: &str) -> String {
    let indent = if label.starts_with("    ") { 15 } else { 4 };
    let (mut text, mut line) = (String::new(), label.to_owned());
    for word in words.split(' ') {
        if line.chars().count() + word.chars().count() > WIDTH {
            text += line.trim_end();
            text.push('\n');
            line = " ".repeat(indent);
        }
        line += word;
        line.push(' ');
    }
    text + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests;
