//! `rocesim pcap-stats`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::resolve::Complaint;
use sim_core::Rate;
use validation::pcap::CaptureTable;
use validation::read_capture;

use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct PcapStatsArgs {
    /// A capture: pcap or pcapng, of real traffic or of run --pcap; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Rate of the cable, such as 100Gbps, where the file does not say it: pauses then end when their
    /// quanta are over
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// QPs, addresses and ports in the tables; --json has all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Print JSON, and nothing else
    #[arg(long)]
    json: bool,
}

impl PcapStatsArgs {
    pub(super) fn run(&self) -> CommandResult {
        let rate = self.rate.map(|rate| rate.bps()).filter(|bps| *bps > 0);
        let stats =
            read_capture(&self.file, rate).map_err(|error| Complaint(format!("error: {error}")))?;
        for warning in &stats.warnings {
            eprintln!("warning: {}: {warning}", self.file.display());
        }
        if self.json {
            print(&(serde_json::to_string_pretty(&stats).unwrap_or_default() + "\n"));
        } else {
            print(&CaptureTable { stats: &stats, top: self.top }.to_string());
        }
        Ok(ExitCode::SUCCESS)
    }
}
