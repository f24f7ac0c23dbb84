//! `--pcap LINK=FILE`: which ports are captured, and the files.
//!
//! A file is written beside its target and renamed when the run has ended. A run that is captured has
//! one shard, whatever the number of threads, so its files are the same on any number.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use models::BuildError;
use models::capture::{Format, SNAPLEN, Tap, Target};
use models::fabric::{self, Outcome, Owner, Plan};
use models::ids::PortId;
use models::topology::{NodeKind, Topology};
use tempfile::NamedTempFile;

use crate::load::near_miss;
use crate::output::readable;
use crate::resolve::Complaint;

/// What is to be captured, and where it goes.
#[derive(Clone, Debug)]
pub struct Captures {
    /// Each with a file of its own.
    pub requests: Vec<Request>,
    /// Bytes kept of each frame.
    pub snaplen: u32,
}

impl Default for Captures {
    fn default() -> Self {
        Captures { requests: Vec::new(), snaplen: SNAPLEN }
    }
}

/// `LINK=FILE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// A port as reports name it, a host, or a name that ends in `*`.
    pub link: String,
    /// A file; one that ends in `.pcapng` has that format.
    pub file: PathBuf,
}

impl std::str::FromStr for Request {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((link, file)) if !link.is_empty() && !file.is_empty() => {
                Ok(Request { link: link.to_owned(), file: file.into() })
            }
            _ => Err("LINK=FILE is expected, such as leaf0:3=leaf.pcap".to_owned()),
        }
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What was asked for.
    pub request: Request,
    /// Ports that it stands for.
    pub ports: usize,
    /// What is in the file.
    pub captured: models::capture::Captured,
}

impl Captures {
    /// Refuses names that no port has, and files that cannot be written.
    pub fn check(&self, topology: &Topology) -> Result<(), Complaint> {
        for (index, request) in self.requests.iter().enumerate() {
            ports(topology, &request.link)
                .map_err(|why| Complaint(format!("error: --pcap {}: {why}", request.link)))?;
            let fail = |why: &str| {
                Err(Complaint(format!("error: --pcap {}: {why}", request.file.display())))
            };
            let same = |other: &Request| other.file == request.file;
            if self.requests[..index].iter().any(same) {
                return fail("two links in one file: give each its own, or a name such as leaf0:*");
            }
            if request.file.is_dir() {
                return fail("it is a folder; a file is expected");
            }
            if !folder_of(&request.file).is_dir() {
                return fail("its folder does not exist");
            }
        }
        Ok(())
    }

    /// Runs `plan`, which has one shard, and writes the files.
    pub(crate) fn run(
        &self,
        plan: &Plan,
        owner: Owner<'_>,
    ) -> Result<(Result<Outcome, BuildError>, Vec<Written>), Complaint> {
        debug_assert!(plan.shards == 1, "a tap sees all frames in the order of time");
        let fail = |file: &Path, error: std::io::Error| {
            Complaint(format!("error: --pcap {}: {error}", file.display()))
        };
        let mut files: Vec<(usize, NamedTempFile)> = Vec::new();
        let mut targets = Vec::new();
        for Request { link, file } in &self.requests {
            let ports = ports(&plan.wiring.topology, link)
                .map_err(|why| Complaint(format!("error: --pcap {link}: {why}")))?;
            let beside = readable(tempfile::Builder::new().prefix(".rocesim-"))
                .tempfile_in(folder_of(file))
                .and_then(|beside| Ok((beside.as_file().try_clone()?, beside)));
            let (out, beside) = beside.map_err(|error| fail(file, error))?;
            files.push((ports.len(), beside));
            let out = Box::new(BufWriter::with_capacity(1 << 18, out));
            targets.push(Target { ports, out, format: format_of(file), snaplen: self.snaplen });
        }
        let outcome = match fabric::run_probed(plan, vec![Tap::new(plan, targets)], owner) {
            Ok(outcome) => outcome,
            Err(error) => return Ok((Err(error), Vec::new())),
        };
        let (outcome, taps) = outcome.unwatched();
        let captured = taps.into_iter().flat_map(Tap::end);
        let mut written = Vec::new();
        for ((request, (ports, beside)), captured) in self.requests.iter().zip(files).zip(captured)
        {
            let captured = captured.map_err(|error| fail(&request.file, error))?;
            beside.persist(&request.file).map_err(|error| fail(&request.file, error.error))?;
            written.push(Written { request: request.clone(), ports, captured });
        }
        Ok((Ok(outcome), written))
    }
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn format_of(file: &Path) -> Format {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension.is_some_and(|extension| extension.eq_ignore_ascii_case("pcapng")) {
        true => Format::Pcapng,
        false => Format::Pcap,
    }
}

/// The ports that a name stands for: one, those of a host, those that begin so; all of one node.
fn ports(topology: &Topology, link: &str) -> Result<Vec<PortId>, String> {
    if let Some(port) = topology.find_port(link) {
        return Ok(vec![port]);
    }
    if let Some(node) = topology.find(link)
        && topology.node(node).kind == NodeKind::Host
    {
        return Ok(topology.ports_of(node).collect());
    }
    let all = || (0..topology.ports().len() as u32).map(PortId);
    if let Some(start) = link.strip_suffix('*')
        && start.ends_with([':', '/'])
    {
        let found: Vec<PortId> =
            all().filter(|port| topology.port_name(*port).starts_with(start)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let mut known: Vec<String> = all().map(|port| topology.port_name(port)).collect();
    known.extend(topology.hosts().map(|host| topology.node(host).name.clone()));
    known.extend(topology.switches().map(|switch| format!("{}:*", topology.node(switch).name)));
    if let Some(near) = near_miss(link, known.iter().map(String::as_str)) {
        return Err(format!("there is no such port or host; did you mean `{near}`?"));
    }
    // as they are called here
    let first = |found: Option<&String>| found.map_or("-", String::as_str).to_owned();
    let port = first(known.iter().find(|name| name.contains(':') && !name.ends_with('*')));
    let host = first(known.iter().find(|name| !name.contains([':', '/'])));
    let switch = first(known.iter().find(|name| name.ends_with('*')));
    Err(format!(
        "there is no such port or host: expected is a port such as `{port}`, a host such as `{host}`, or \
         all ports of a switch, `{switch}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology() -> std::sync::Arc<Topology> {
        let options = crate::resolve::LoadOptions::default();
        let loaded = crate::resolve::load("incast", &options).unwrap();
        loaded.spec.topology
    }

    #[test]
    fn names_stand_for_ports() {
        let topology = topology();
        let names = |link: &str| {
            let found = ports(&topology, link).unwrap();
            let names = found.iter().map(|port| topology.port_name(*port));
            (found.len(), names.take(2).collect::<Vec<_>>().join(" "))
        };
        let switch = topology.node(topology.switches().next().unwrap()).name.clone();
        assert_eq!(names("host3"), (1, "host3/nic0".to_owned()));
        assert_eq!(names("host3/nic0"), names("host3"));
        assert_eq!(names("host3/*"), names("host3"));
        let all = topology.ports_of(topology.switches().next().unwrap()).count();
        assert_eq!(names(&format!("{switch}:*")), (all, format!("{switch}:0 {switch}:1")));
        for wrong in ["host3x", "nonsense", "*", "host*", &switch] {
            let why = ports(&topology, wrong).unwrap_err();
            assert!(why.starts_with("there is no such port or host"), "{why}");
        }
        assert!(ports(&topology, "hots3").unwrap_err().contains("did you mean `host3`?"));
    }
}
