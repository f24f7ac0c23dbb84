//! `rocesim import`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use scenarios::import::{self, Fabric, HtsimOptions, ImportError, Imported};
use scenarios::output::write_file;
use scenarios::resolve::Complaint;
use sim_core::{Delta, Rate};

use super::sonic::SonicArgs;
use super::{CommandResult, print};

#[derive(Args)]
pub(super) struct ImportArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// A folder with topology.txt, flow.txt and config.txt of the ns-3 RDMA model
    Ns3 {
        /// The folder
        dir: PathBuf,
        #[command(flatten)]
        target: Target,
    },
    /// A connection matrix of htsim (.cm, also as .gz)
    Htsim {
        /// The matrix
        file: PathBuf,
        #[command(flatten)]
        network: Network,
        #[command(flatten)]
        target: Target,
    },
    /// What NCCL or nvidia-smi says of a server's GPUs and NICs, as a part of a scenario for --with
    NcclTopo(super::import_topo::TopoArgs),
    /// What a host says of its NIC, as a part of a scenario for --with
    Nic(super::import_nic::NicArgs),
    /// CONFIG_DB of switches that run SONiC: one switch, or a folder of them as a fabric
    Sonic {
        #[command(flatten)]
        sonic: SonicArgs,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Args)]
struct Target {
    /// The scenario file to write, a .toml; its flows go beside it, as a .csv of that name
    #[arg(short, long, value_name = "FILE", default_value = "scenario.toml")]
    out: PathBuf,
}

#[derive(Args)]
struct Network {
    /// fat-tree (three tiers, k^3/4 hosts), leaf-spine (k^2/2 hosts) or star
    #[arg(long, value_name = "KIND", default_value = "fat-tree")]
    topology: Fabric,
    /// Rate of all links, such as 100Gbps
    #[arg(long, value_name = "RATE")]
    link: Rate,
    /// Delay of all links, such as 1us
    #[arg(long, value_name = "TIME")]
    delay: Delta,
    /// Payload of a packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    mtu: u16,
}

impl ImportArgs {
    pub(super) fn run(&self) -> CommandResult {
        match &self.kind {
            Kind::Ns3 { dir, target } => {
                target.write(dir, |flows_file| import::ns3(dir, flows_file))
            }
            Kind::Htsim { file, network, target } => {
                let Network { topology: fabric, link, delay, mtu } = *network;
                let options = HtsimOptions { fabric, link, delay, mtu };
                target.write(file, |flows_file| import::htsim(file, &options, flows_file))
            }
            Kind::NcclTopo(topo) => topo.run(),
            Kind::Nic(nic) => nic.run(),
            Kind::Sonic { sonic, target } => {
                let mut notes = String::new();
                let written = target.write(&sonic.paths[0], |csv| {
                    let ports_file = csv.replace(".csv", ".ports.csv");
                    let imported = import::sonic(&sonic.paths, &sonic.options(), &ports_file)?;
                    notes = super::sonic::notes(&imported);
                    Ok(imported.scenario)
                });
                eprint!("{notes}");
                written
            }
        }
    }
}

impl Target {
    /// Imports `source`, given the name of the file for its flows, and writes all of it.
    fn write(
        &self,
        source: &Path,
        import: impl FnOnce(&str) -> Result<Imported, ImportError>,
    ) -> CommandResult {
        let Target { out } = self;
        let fail = |why: &str| Complaint(format!("error: {}: {why}", out.display()));
        if out.extension() != Some("toml".as_ref()) {
            return Err(fail("this is no name of a scenario; one that ends in .toml is expected"));
        }
        if out.is_dir() {
            return Err(fail("this is a folder; the name of a file is expected"));
        }
        let flows = out.with_extension("csv");
        if [out, &flows].iter().any(|path| is_same(path, source)) {
            return Err(fail("this would be written over what is read; another name is expected"));
        }
        let name = out.file_stem().unwrap_or_default().to_string_lossy();
        let imported =
            import(&format!("{name}.csv")).map_err(|error| Complaint(format!("error: {error}")))?;
        for warning in &imported.warnings {
            eprintln!("warning: {warning}");
        }
        let folder = out.parent().unwrap_or(Path::new(""));
        for (name, text) in &imported.files {
            write_file(&folder.join(name), text)?;
        }
        write_file(out, &imported.toml)?;
        print(&format!("wrote {}\n", out.display()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether a part of a scenario can be written to `out`, made of `files`.
pub(super) fn check_part(out: &Path, files: &[PathBuf]) -> Result<(), Complaint> {
    let fail = |why: &str| Err(Complaint(format!("error: {}: {why}", out.display())));
    if out.extension() != Some("toml".as_ref()) {
        return fail("this is no name of a part of a scenario; one that ends in .toml is expected");
    }
    if out.is_dir() {
        return fail("this is a folder; the name of a file is expected");
    }
    if files.iter().any(|file| is_same(file, out)) {
        return fail("this would be written over what is read; another name is expected");
    }
    Ok(())
}

/// Two paths of one file that is there.
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
