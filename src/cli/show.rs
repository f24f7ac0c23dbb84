//! `rocesim show`

use std::process::ExitCode;

use clap::Args;
use scenarios::library::LIBRARY;
use scenarios::load::near_miss;
use scenarios::resolve::Complaint;

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct ShowArgs {
    /// Name of a built-in scenario or preset (see `rocesim list`)
    name: String,
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
        for entry in &found {
            if found.len() > 1 {
                print(&format!("#### {} = \"{}\"\n", entry.kind.name(), entry.name));
            }
            print(entry.text);
        }
        Ok(ExitCode::SUCCESS)
    }
}
