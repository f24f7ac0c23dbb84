//! `rocesim`: simulates lossless RoCEv2 fabrics described by TOML scenarios.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
