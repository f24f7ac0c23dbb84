//! `rocesim export`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use scenarios::import::sonic_patches;
use scenarios::output::write_file;
use scenarios::resolve::{self, Complaint};
use scenarios::simulate;

use super::{CommandResult, ScenarioArgs, print};

#[derive(Args)]
pub(super) struct ExportArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// Buffers, classes, ECN and PFC of the switches as CONFIG_DB of SONiC, to be merged
    Sonic {
        #[command(flatten)]
        scenario: ScenarioArgs,
        /// The file to write; where switches differ, one for each: patch-NAME.json
        #[arg(short, long, value_name = "FILE", default_value = "patch.json")]
        out: PathBuf,
        /// Names of ports, as `import sonic` writes them: switch,port,name
        #[arg(long, value_name = "FILE.csv")]
        ports: Option<PathBuf>,
        /// ASIC of all switches, which says what the size of a pool means; otherwise the preset
        #[arg(long, value_name = "NAME")]
        asic: Option<String>,
    },
}

impl ExportArgs {
    pub(super) fn run(&self) -> CommandResult {
        let Kind::Sonic { scenario, out, ports, asic } = &self.kind;
        if out.extension() != Some("json".as_ref()) || out.is_dir() {
            let why = "the name of a file that ends in .json is expected";
            return Err(Complaint(format!("error: {}: {why}", out.display())));
        }
        let loaded = resolve::load(&scenario.scenario, &scenario.options())?;
        let plans = simulate::plans(&loaded, 1)?;
        let exported = sonic_patches(&loaded, &plans[0], ports.as_deref(), asic.as_deref())
            .map_err(|error| Complaint(format!("error: {error}")))?;
        for warning in &exported.warnings {
            eprintln!("warning: {warning}");
        }
        let stem = out.file_stem().unwrap_or_default().to_string_lossy();
        let folder = out.parent().unwrap_or(Path::new(""));
        let mut written = String::new();
        for (switches, text) in &exported.patches {
            let files = match exported.patches.len() {
                1 => vec![out.clone()],
                _ => {
                    switches.iter().map(|name| folder.join(format!("{stem}-{name}.json"))).collect()
                }
            };
            for file in files {
                write_file(&file, text)?;
                written += &format!("wrote {}\n", file.display());
            }
        }
        print(&written);
        Ok(ExitCode::SUCCESS)
    }
}
