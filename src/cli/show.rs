//! `rocesim show`

use std::process::ExitCode;

use clap::Args;
use scenarios::library::{Entry, LIBRARY};
use scenarios::load::near_miss;
use scenarios::provenance::{assumed, figures, table};
use scenarios::resolve::Complaint;

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct ShowArgs {
    /// Name of a built-in scenario, study or preset (see `rocesim list`)
    name: String,
    /// Print the file of a preset, not the table of its figures
    #[arg(long)]
    toml: bool,
}

impl ShowArgs {
    pub(super) fn run(&self) -> CommandResult {
        let found: Vec<_> = LIBRARY.iter().filter(|entry| entry.name == self.name).collect();
        if found.is_empty() {
            let names = LIBRARY.iter().map(|entry| entry.name);
            let hint = near_miss(&self.name, names)
                .map_or("see `rocesim list`".to_owned(), |near| format!("did you mean `{near}`?"));
            let name = &self.name;
            return Err(Complaint(format!(
                "error: nothing in the library is named {name:?}; {hint}"
            )));
        }
        for (index, entry) in found.iter().enumerate() {
            if found.len() > 1 {
                let gap = if index > 0 { "\n" } else { "" };
                print(&format!("{gap}#### {} = \"{}\"\n", entry.kind.name(), entry.name));
            }
            match entry.kind {
                kind if kind.is_runnable() => print(entry.text),
                _ if self.toml => print(entry.text),
                _ => print(&preset(entry)),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What its file says above the first key, its figures, and how many of them are assumed.
fn preset(entry: &Entry) -> String {
    let comments = entry.text.lines().map_while(|line| line.strip_prefix('#'));
    let mut text: String = comments.map(|line| line.trim().to_owned() + "\n").collect();
    let figures = figures(entry.text);
    let assumed = assumed(&figures).count();
    text += "\n";
    text += table(&figures).trim_start_matches('\n');
    text + &format!("\nassumed: {assumed} of {} figures; --toml prints the file\n", figures.len())
}

#[cfg(test)]
mod tests {
    use scenarios::library::{Kind, find};

    use super::*;

    #[test]
    fn a_preset_is_shown_with_how_its_figures_are_known() {
        let text = preset(find(Kind::SwitchPreset, "tomahawk5").unwrap());
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("Broadcom Tomahawk 5"));
        assert!(text.contains("cell           254B          vendor    sonic-mgmt"), "{text}");
        assert!(text.ends_with("\nassumed: 1 of 21 figures; --toml prints the file\n"), "{text}");
        assert!(lines.all(|line| line.chars().count() <= 100 && !line.starts_with('#')));
    }
}
