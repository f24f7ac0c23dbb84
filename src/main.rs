//! `rocesim`: simulates lossless RoCEv2 fabrics described by TOML scenarios.

mod cli;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

/// Gives memory out of huge pages where the system has them: the state of large fabrics is met in
/// no order, and looking up addresses was a quarter of the time of a run with 1,024 hosts.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
