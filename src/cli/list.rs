//! `rocesim list`

use std::process::ExitCode;

use clap::Args;
use scenarios::library::{Kind, LIBRARY};

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct ListArgs {}

impl ListArgs {
    pub(super) fn run(&self) -> CommandResult {
        print("scenarios (rocesim run NAME)\n");
        print(&rows(|kind| kind == Kind::Scenario));
        print("\nexperiments of papers, held to what they found (rocesim run NAME)\n");
        print(&rows(|kind| kind == Kind::Paper));
        print("\npresets (key = \"NAME\" in a scenario)\n");
        print(&rows(|kind| !kind.is_scenario()));
        Ok(ExitCode::SUCCESS)
    }
}

fn rows(wanted: impl Fn(Kind) -> bool) -> String {
    let entries = LIBRARY.iter().filter(|entry| wanted(entry.kind));
    let width = entries.clone().map(|entry| entry.name.len()).max().unwrap_or(0);
    let lines = entries.map(|entry| {
        let key = match entry.kind {
            kind if kind.is_scenario() => String::new(),
            kind => format!("{:<23}", kind.name()),
        };
        format!("  {key}{:<width$}  {}\n", entry.name, entry.title())
    });
    lines.collect()
}
