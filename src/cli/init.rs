//! `rocesim init`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::init::{self, Cable, InitOptions, Pattern, Shape, Sizes};
use scenarios::output::write_file;
use scenarios::resolve::Complaint;
use sim_core::Rate;

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct InitArgs {
    /// star, leaf-spine, fat-tree, rail, dumbbell or ring
    kind: Shape,
    /// Hosts [default: 16]
    #[arg(long, visible_alias = "servers", value_name = "N")]
    hosts: Option<u32>,
    /// GPUs of each host [default: none]
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Rate of a NIC port, and of all other links [default: 100Gbps, with GPUs 400Gbps]
    #[arg(long, value_name = "RATE")]
    nic: Option<Rate>,
    /// NICs of each host; the number of rails [default: 1; rail: one for each GPU, or 8]
    #[arg(long, value_name = "N")]
    nics: Option<u32>,
    /// Switch preset, see `rocesim list` [default: generic-32mb with the buffer that its ports need]
    #[arg(long, value_name = "PRESET")]
    switch: Option<String>,
    /// NIC preset, see `rocesim list` [default: connectx-6-dx]
    #[arg(long, value_name = "PRESET")]
    nic_preset: Option<String>,
    /// Server preset: dgx-1, dgx-a100 or hgx-h100 (8 GPUs) [default: generic]
    #[arg(long, value_name = "PRESET")]
    node: Option<String>,
    /// leaf-spine: leaves; rail: leaves, a multiple of the rails; ring: switches
    #[arg(long, value_name = "N")]
    leaves: Option<u32>,
    /// leaf-spine, rail: spines [default: up to 8; rail: none for one group]
    #[arg(long, value_name = "N")]
    spines: Option<u32>,
    /// leaf-spine, rail: bandwidth down for one up, at most [default: 1]
    #[arg(long, value_name = "RATIO")]
    oversubscription: Option<f64>,
    /// fat-tree: ports of each switch, even [default: the fewest for --hosts]
    #[arg(long)]
    k: Option<u32>,
    /// Length of every cable
    #[arg(long, value_name = "LENGTH", default_value = "30m")]
    cable: Cable,
    /// Size of each flow or of the collective; a range 128MiB..8GiB doubles it step by step
    /// [default: 128MiB, incast 1MB, permutation 10MB]
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Sizes>,
    /// allreduce (with GPUs), incast or permutation [default: allreduce with GPUs, else incast]
    #[arg(long)]
    pattern: Option<Pattern>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file if it is there
    #[arg(long, requires = "out")]
    force: bool,
}

impl InitArgs {
    pub(super) fn run(self) -> CommandResult {
        let InitArgs { out, force, .. } = &self;
        if let Some(out) = out
            && out.exists()
            && !force
        {
            let message = "it is there already: --force overwrites it";
            return Err(Complaint(format!("error: {}: {message}", out.display())));
        }
        let (out, options) = (out.clone(), self.options());
        let text = init::scenario(&options)?;
        match out {
            Some(out) => {
                write_file(&out, &text)?;
                print(&format!("wrote {}\n", out.display()));
            }
            None => print(&text),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn options(self) -> InitOptions {
        InitOptions {
            shape: self.kind,
            hosts: self.hosts,
            gpus: self.gpus,
            nics: self.nics,
            nic: self.nic,
            nic_preset: self.nic_preset,
            switch: self.switch,
            node: self.node,
            leaves: self.leaves,
            spines: self.spines,
            k: self.k,
            oversubscription: self.oversubscription,
            cable: self.cable,
            bytes: self.bytes,
            pattern: self.pattern,
        }
    }
}
