//! What `import sonic` takes and says.

use std::path::PathBuf;

use clap::Args;
use models::report::Severity;
use scenarios::import::{SonicImport, SonicOptions};
use sim_core::Rate;

#[derive(Args)]
pub(super) struct SonicArgs {
    /// config_db.json of a switch, or files that are laid over each other (buffers.json qos.json),
    /// or a folder with NAME.json or NAME/config_db.json for each switch of a fabric
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    /// Table of hosts: host,switch,port and, where it matters, nic
    #[arg(long, value_name = "FILE.csv")]
    hosts: Option<PathBuf>,
    /// Who is next to whom, over DEVICE_NEIGHBOR: output of `show lldp table`, or a .csv with
    /// switch,port,peer,peer_port; may be repeated
    #[arg(long, value_name = "FILE")]
    lldp: Vec<PathBuf>,
    /// Folder of the hardware SKU with pg_profile_lookup.ini, or one of such folders by hwsku
    #[arg(long, value_name = "DIR")]
    sku_tables: Option<PathBuf>,
    /// ASIC of all switches, such as tomahawk5, spectrum-4; otherwise hwsku and platform tell it
    #[arg(long, value_name = "NAME")]
    asic: Option<String>,
    /// Rate of ports where there is no table PORT, such as 100Gbps
    #[arg(long, value_name = "RATE")]
    speed: Option<Rate>,
    /// Leave out cables to neighbours without a file
    #[arg(long)]
    partial: bool,
}

impl SonicArgs {
    pub(super) fn options(&self) -> SonicOptions {
        SonicOptions {
            hosts: self.hosts.clone(),
            lldp: self.lldp.clone(),
            sku_tables: self.sku_tables.clone(),
            asic: self.asic.clone(),
            speed: self.speed,
            partial: self.partial,
        }
    }
}

/// The findings and what was left out, for stderr.
pub(super) fn notes(import: &SonicImport) -> String {
    let mut text = String::new();
    if !import.leftover.is_empty() {
        text += "not taken over from CONFIG_DB:\n";
        for line in &import.leftover {
            text += &wrapped(line, "  ", "    ");
        }
    }
    let count = import.findings.len();
    text += &match count {
        0 => "lint: nothing to complain about\n".to_owned(),
        1 => "lint: 1 finding\n".to_owned(),
        count => format!("lint: {count} findings, the worst first\n"),
    };
    for finding in &import.findings {
        let mark = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "note",
        };
        text += &format!("  {mark:7} {}: {}\n", finding.file, finding.place);
        text += &wrapped(&finding.text, "          ", "          ");
    }
    text
}

/// Lines of less than 100 columns.
fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > 98 {
            out += &line;
            out.push('\n');
            line = next.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    out + &line + "\n"
}
