//! Connection matrices of htsim (`.cm`, the argument of its `-tm`): flows between hosts, some of
//! which start others through triggers.
//!
//! - `matrix`: the file
//! - `order`: triggers become lists of flows that must be done; flows in an order that allows it
//! - `fabric`: the topology that holds the hosts
//! - `write`: the scenario
//!
//! The conventions of htsim's RoCE (`htsim_roce`) are the preset `htsim`; only what the file and
//! the options say is written into the scenario.

mod fabric;
mod matrix;
mod order;
#[cfg(test)]
mod tests;
mod write;

use std::path::Path;

use sim_core::{Delta, Rate};

pub use self::fabric::Fabric;
use self::matrix::Matrix;
use super::text::{TextFile, counted};
use super::{ImportError, Imported};

/// What a connection matrix does not say; htsim has it on its command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtsimOptions {
    /// The topology: `-tiers`.
    pub fabric: Fabric,
    /// Rate of all links: `-linkspeed`.
    pub link: Rate,
    /// Delay of all links: `-hop_latency`.
    pub delay: Delta,
    /// Payload of a packet: `-mtu`.
    pub mtu: u16,
}

/// The least and the largest payload of a packet.
const MTU: std::ops::RangeInclusive<u16> = 256..=9216;

/// Imports a connection matrix, which may be compressed by gzip. The scenario's flows go into a
/// file called `flows_file`.
pub fn htsim(
    path: &Path,
    options: &HtsimOptions,
    flows_file: &str,
) -> Result<Imported, ImportError> {
    let file = TextFile::read(path, "a connection matrix of htsim is expected, such as a.cm")?;
    if !MTU.contains(&options.mtu) {
        let (least, most) = (MTU.start(), MTU.end());
        let message = format!(
            "an MTU of {} bytes is out of range; {least} to {most} is expected",
            options.mtu
        );
        return Err(file.error(message));
    }
    let mut warnings = Vec::new();
    let matrix = Matrix::read(&file)?;
    let waits = order::waits(&file, &matrix, &mut warnings)?;
    let order = order::sorted(&file, &matrix, &waits)?;
    let topology = options.fabric.topology(&file, &matrix, options)?;
    warn(&file, &matrix, options.mtu, &mut warnings);
    let is_sorted = order.is_sorted();
    let title = title(path);
    let toml = write::to_toml(&title, &topology, options, is_sorted, flows_file);
    let csv = write::to_csv(&matrix, &waits, &order, options.mtu);
    Ok(Imported { toml, files: vec![(flows_file.to_owned(), csv)], warnings })
}

/// The name of the file without its endings.
fn title(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    plain.strip_suffix(".cm").unwrap_or(plain).to_owned()
}

/// What htsim does otherwise than the file says.
fn warn(file: &TextFile, matrix: &Matrix, mtu: u16, warnings: &mut Vec<String>) {
    let mut say = |line: usize, message: String| {
        warnings.push(file.error_at(line, message).to_string());
    };
    let flows = || matrix.flows.iter();
    let odd = |flow: &&matrix::Flow| flow.bytes != write::whole_packets(flow.bytes, mtu);
    if let Some(flow) = flows().find(odd) {
        let (bytes, whole) = (flow.bytes, write::whole_packets(flow.bytes, mtu));
        let count = counted(flows().filter(odd).count(), "flow");
        say(
            flow.line,
            format!(
                "htsim sends whole packets, so the scenario's sizes are multiples of {mtu} bytes: \
                 {count} changed, such as {bytes} to {whole} bytes"
            ),
        );
    }
    if let Some(flow) = flows().find(|flow| flow.start > 0) {
        let message = "htsim_roce starts every flow that waits for no trigger at 0, whatever \
                       `start` says; the scenario starts it when the file says";
        say(flow.line, message.to_owned());
    }
    if let Some(flow) = flows().find(|flow| flow.recv_done.is_some()) {
        let count = counted(flows().filter(|flow| flow.recv_done.is_some()).count(), "flow");
        say(
            flow.line,
            format!(
                "recv_done_trigger fires when the last byte is received; in the scenario what \
                 waits for it starts when that is acknowledged, later by the ACK's way back \
                 ({count}; htsim_roce itself never fires it)"
            ),
        );
    }
    if let Some(flow) = flows().find(|flow| flow.has_priority) {
        let message = "`prio` has no effect in htsim_roce, and is left out";
        say(flow.line, message.to_owned());
    }
}
