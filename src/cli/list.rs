//! `rocesim list`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use scenarios::clinic::{self, Case};
use scenarios::library::{Kind, LIBRARY};

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct ListArgs {
    /// Only the cases of the clinic, by their symptoms
    what: Option<What>,
    /// Only the cases that fit a symptom, such as "pause drops", the best first
    #[arg(long, value_name = "WORDS", requires = "what")]
    symptom: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    Clinic,
}

impl ListArgs {
    pub(super) fn run(&self) -> CommandResult {
        match self.what {
            Some(What::Clinic) => print(&clinic(self.symptom.as_deref())),
            None => print(&everything()),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn everything() -> String {
    let mut text = "scenarios (rocesim run NAME)\n".to_owned();
    text += &rows(|kind| kind == Kind::Scenario);
    text += "\nexperiments of papers, held to what they found (rocesim run NAME)\n";
    text += &rows(|kind| kind == Kind::Paper);
    text += "\nthe clinic: symptoms, causes, cures (rocesim run NAME; by symptom: rocesim list clinic)\n";
    text += &rows(|kind| kind == Kind::Clinic);
    text += "\nstudies: what if, and what is best (rocesim study NAME)\n";
    text += &rows(|kind| kind == Kind::Study);
    text += "\npresets (key = \"NAME\" in a scenario)\n";
    text + &rows(|kind| !kind.is_runnable())
}

/// The cases that fit a symptom; if there is none, or none is asked for, all of them.
fn clinic(symptom: Option<&str>) -> String {
    let cases = clinic::cases();
    let all: Vec<&Case> = cases.iter().collect();
    let found = symptom.map(|symptom| (symptom, clinic::matching(&cases, symptom)));
    let (head, shown) = match found {
        None => ("what is seen (rocesim run NAME, then with --variant cure)".to_owned(), all),
        Some((words, found)) if found.is_empty() => {
            (format!("no case has a word of {words:?}; all that there are:"), all)
        }
        Some((words, found)) => (format!("what fits {words:?}, the best first"), found),
    };
    format!("{head}\n{}", clinic::table(&shown))
}

fn rows(wanted: impl Fn(Kind) -> bool) -> String {
    let entries = LIBRARY.iter().filter(|entry| wanted(entry.kind));
    let width = entries.clone().map(|entry| entry.name.len()).max().unwrap_or(0);
    let lines = entries.map(|entry| {
        let key = match entry.kind {
            kind if kind.is_runnable() => String::new(),
            kind => format!("{:<23}", kind.name()),
        };
        format!("  {key}{:<width$}  {}\n", entry.name, entry.title())
    });
    lines.collect()
}
