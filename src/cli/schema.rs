//! `rocesim schema`

use std::process::ExitCode;

use clap::Args;

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct SchemaArgs {}

impl SchemaArgs {
    pub(super) fn run(&self) -> CommandResult {
        let schema = scenarios::schema::json_schema();
        print(&(serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"));
        Ok(ExitCode::SUCCESS)
    }
}
