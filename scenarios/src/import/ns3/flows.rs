//! `flow.txt`: flows, one a line.

use std::collections::BTreeMap;

use super::text::{TextFile, counted};
use super::topology::{ROWS_MAX, Topology};
use crate::import::ImportError;

/// All flows, in the order of the file.
pub(super) struct Flows {
    flows: Vec<Flow>,
    /// When the first of them starts, in picoseconds of ns-3's clock.
    pub(super) first_start: u64,
}

struct Flow {
    source: u32,
    target: u32,
    bytes: u64,
    start: u64,
    source_port: u16,
    destination_port: u16,
}

/// The class of all flows; others would need buffers that ns-3 does not account for.
const GROUP: u8 = 3;
/// Source ports are counted from here, for each pair of hosts.
const FIRST_PORT: u16 = 10_000;

impl Flows {
    /// Reads the file.
    pub(super) fn read(
        file: &TextFile,
        topology: &Topology,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ImportError> {
        let mut lines = file.lines();
        let first = lines.next().ok_or_else(|| {
            file.error_at_end("the file is empty; the number of flows is expected")
        })?;
        let [announced] = first.columns("number_of_flows")?;
        let announced = first.count("flows", announced, ROWS_MAX)?;
        let mut ports: BTreeMap<(u32, u32), u16> = BTreeMap::new();
        let mut flows = Vec::new();
        for line in lines.by_ref().take(announced as usize) {
            let [source, target, group, destination_port, bytes, start] =
                line.columns("source destination priority_group port bytes start_seconds")?;
            let (source, target) = (topology.host(&line, source)?, topology.host(&line, target)?);
            if source == target {
                let message = format!("host {source} sends to itself; two hosts are expected");
                return Err(line.error(message));
            }
            let group: u8 = line.number("priority group", group)?;
            if group != GROUP {
                let message = format!("priority group {group} is not understood; 3 is expected");
                return Err(line.error(message));
            }
            let bytes: u64 = line.number("size in bytes", bytes)?;
            if bytes == 0 {
                return Err(line.error("a flow of 0 bytes; at least 1 is expected"));
            }
            let next = ports.entry((source, target)).or_insert(FIRST_PORT);
            let source_port = *next;
            *next = source_port.checked_add(1).ok_or_else(|| {
                let most = u16::MAX - FIRST_PORT;
                line.error(format!("more than {most} flows from host {source} to host {target}"))
            })?;
            flows.push(Flow {
                source,
                target,
                bytes,
                start: line.seconds("start", start)?,
                source_port,
                destination_port: line.number("port", destination_port)?,
            });
        }
        let missing = announced as usize - flows.len();
        if missing > 0 {
            let message = format!(
                "{} missing; {announced} are announced in the first line",
                counted(missing, "flow")
            );
            return Err(file.error_at_end(message));
        }
        if lines.next().is_some() {
            warnings.push("flow.txt: what follows the announced flows was left out".into());
        }
        if flows.is_empty() {
            warnings.push("flow.txt: there are no flows".into());
        }
        let first_start = flows.iter().map(|flow| flow.start).min().unwrap_or(0);
        Ok(Flows { flows, first_start })
    }

    /// The flows as the CSV file that a `[[traffic]]` section names; the first starts at 0.
    pub(super) fn to_csv(&self) -> String {
        let mut csv = "source,target,bytes,start,dscp,source_port,destination_port\n".to_owned();
        for flow in &self.flows {
            let Flow { source, target, bytes, source_port, destination_port, .. } = flow;
            let start = match flow.start - self.first_start {
                ps if ps % 1000 == 0 => format!("{}ns", ps / 1000),
                ps => format!("{ps}ps"),
            };
            csv += &format!(
                "n{source},n{target},{bytes}B,{start},{GROUP},{source_port},{destination_port}\n"
            );
        }
        csv
    }
}
