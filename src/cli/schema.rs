//! `rocesim schema`

use std::process::ExitCode;

use clap::Args;

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct SchemaArgs {
    /// That of study files
    #[arg(long)]
    study: bool,
}

impl SchemaArgs {
    pub(super) fn run(&self) -> CommandResult {
        let schema = match self.study {
            true => scenarios::study::json_schema(),
            false => scenarios::schema::json_schema(),
        };
        print(&(serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"));
        Ok(ExitCode::SUCCESS)
    }
}
