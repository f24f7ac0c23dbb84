//! `flow.txt`: flows, one a line.

use std::collections::BTreeMap;

use super::config::Ring;
use super::topology::{ROWS_MAX, Topology};
use crate::import::ImportError;
use crate::import::text::{Line, TextFile, counted};

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
    start: Start,
    source_port: u16,
    destination_port: u16,
}

enum Start {
    /// In picoseconds of ns-3's clock.
    At(u64),
    /// When this flow is acknowledged.
    After(usize),
}

/// The class of all flows; others would need buffers that ns-3 does not account for.
const GROUP: u8 = 3;
/// Source ports are counted from here, for each pair of hosts.
const FIRST_PORT: u16 = 10_000;
/// When the ring starts, in picoseconds.
const RING_START: u64 = 2_000_000_000_000;
/// Where its flows go.
const RING_PORT: u16 = 100;

/// The next source port of each pair of hosts.
type Ports = BTreeMap<(u32, u32), u16>;

fn next_port(
    ports: &mut Ports,
    [source, target]: [u32; 2],
    line: &Line<'_>,
) -> Result<u16, ImportError> {
    let next = ports.entry((source, target)).or_insert(FIRST_PORT);
    let port = *next;
    *next = port.checked_add(1).ok_or_else(|| {
        let most = u16::MAX - FIRST_PORT;
        line.error(format!("more than {most} flows from host {source} to host {target}"))
    })?;
    Ok(port)
}

impl Flows {
    /// Reads the file.
    pub(super) fn read(
        file: &TextFile,
        topology: &Topology,
        ring: Option<&Ring<'_>>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ImportError> {
        let mut lines = file.lines();
        let first = lines.next().ok_or_else(|| {
            file.error_at_end("the file is empty; the number of flows is expected")
        })?;
        let [announced] = first.columns("number_of_flows")?;
        let announced = first.count("flows", announced, ROWS_MAX)?;
        let mut ports = Ports::new();
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
            let bytes = line.size(bytes)?;
            let source_port = next_port(&mut ports, [source, target], &line)?;
            flows.push(Flow {
                source,
                target,
                bytes,
                start: Start::At(line.seconds("start", start)?),
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
        if let Some(line) = lines.next() {
            let message = format!("what follows the {announced} announced flows was left out");
            warnings.push(line.note(message));
        }
        if let Some(ring) = ring {
            add_ring(&mut flows, &mut ports, ring, topology)?;
        }
        if flows.is_empty() {
            let message = "there are no flows; at least 1 is expected (those that astra-sim or \
                           SimAI make as they run are in no file)";
            return Err(first.error(message));
        }
        let starts = flows.iter().filter_map(|flow| match flow.start {
            Start::At(ps) => Some(ps),
            Start::After(_) => None,
        });
        let first_start = starts.min().unwrap_or(0);
        Ok(Flows { flows, first_start })
    }

    /// What to say of flows that start when the run is over.
    pub(super) fn late(&self, stop: u64) -> Option<String> {
        let is_late = |flow: &&Flow| matches!(flow.start, Start::At(ps) if ps >= stop);
        let late = self.flows.iter().filter(is_late).count();
        let flows = counted(late, "flow");
        let message = format!("{flows} would start after SIMULATOR_STOP_TIME: nothing is sent");
        (late > 0).then_some(message)
    }

    /// All pairs of source and target, with windows that are still to be found.
    pub(super) fn pairs(&self) -> BTreeMap<[u32; 2], u64> {
        self.flows.iter().map(|flow| ([flow.source, flow.target], 1)).collect()
    }

    /// The flows as the CSV file that a `[[traffic]]` section names; the first starts at 0.
    /// Each has the window of its pair of hosts, if they have windows of their own.
    pub(super) fn to_csv(&self, windows: Option<&BTreeMap<[u32; 2], u64>>) -> String {
        let waits = self.flows.iter().any(|flow| matches!(flow.start, Start::After(_)));
        let mut csv = "source,target,bytes,start,dscp,source_port,destination_port".to_owned();
        csv += if waits { ",after" } else { "" };
        csv += if windows.is_some() { ",window\n" } else { "\n" };
        for flow in &self.flows {
            let Flow { source, target, bytes, source_port, destination_port, .. } = flow;
            let (start, after) = match flow.start {
                Start::At(ps) => match ps - self.first_start {
                    ps if ps % 1000 == 0 => (format!("{}ns", ps / 1000), String::new()),
                    ps => (format!("{ps}ps"), String::new()),
                },
                Start::After(flow) => ("0ns".to_owned(), flow.to_string()),
            };
            csv += &format!(
                "n{source},n{target},{bytes}B,{start},{GROUP},{source_port},{destination_port}"
            );
            if waits {
                csv += &format!(",{after}");
            }
            if let Some(window) = windows.and_then(|windows| windows.get(&[*source, *target])) {
                csv += &format!(",{window}B");
            }
            csv.push('\n');
        }
        csv
    }
}

/// Reduce-scatter and all-gather: 2 (n - 1) steps, in each of which every host sends 1/n to the
/// next. A host begins a step when what was sent to it in the step before is acknowledged.
fn add_ring(
    flows: &mut Vec<Flow>,
    ports: &mut Ports,
    ring: &Ring<'_>,
    topology: &Topology,
) -> Result<(), ImportError> {
    let Ring { line, bytes, hosts } = ring;
    let hosts: Vec<u32> =
        hosts.iter().map(|word| topology.host(line, word)).collect::<Result<_, _>>()?;
    let mut seen = hosts.clone();
    seen.sort_unstable();
    if let Some(pair) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(line.error(format!("host {} is twice in the ring; once is expected", pair[0])));
    }
    let (first, count) = (flows.len(), hosts.len());
    for step in 0..2 * (count - 1) {
        for (place, source) in hosts.iter().enumerate() {
            let target = hosts[(place + 1) % count];
            let before = (place + count - 1) % count;
            flows.push(Flow {
                source: *source,
                target,
                bytes: bytes / count as u64,
                start: match step {
                    0 => Start::At(RING_START),
                    _ => Start::After(first + (step - 1) * count + before),
                },
                source_port: next_port(ports, [*source, target], line)?,
                destination_port: RING_PORT,
            });
        }
    }
    Ok(())
}
