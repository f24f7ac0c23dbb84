//! Cables: DEVICE_NEIGHBOR of both ends, LLDP, and the table of hosts.

use std::collections::BTreeMap;
use std::path::Path;

use sim_core::{Delta, Rate};

use super::lldp::{Told, read_lldp};
use super::node::{SonicOptions, Switch};
use super::tables::natural;
use crate::import::ImportError;
use crate::import::text::{TextFile, counted, quoted};
use crate::load::near_miss;

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// A host, and which of its NICs.
    Host { host: usize, nic: u32 },
    /// A port of a switch.
    Port { switch: usize, port: usize },
}

/// A cable; of a host it is the first end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cable {
    pub(super) ends: [End; 2],
    pub(super) rate: Rate,
    pub(super) delay: Delta,
}

/// What is joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Fabric {
    pub(super) hosts: Vec<String>,
    pub(super) cables: Vec<Cable>,
}

impl Fabric {
    /// The cables of a switch port, as (port, number of the cable).
    pub(super) fn ports_of(&self, wanted: usize) -> Vec<usize> {
        let ends = self.cables.iter().flat_map(|cable| cable.ends);
        let port = |end| match end {
            End::Port { switch, port } if switch == wanted => Some(port),
            _ => None,
        };
        ends.filter_map(port).collect()
    }
}

/// What one end says of the other.
#[derive(Clone, Debug)]
struct Claim {
    peer: String,
    peer_port: Option<String>,
    /// `file: DEVICE_NEIGHBOR|Ethernet0` or `file:3`.
    place: String,
    /// LLDP saw it: it needs no second witness.
    is_seen: bool,
}

/// A row of the table of hosts.
struct HostRow {
    host: String,
    switch: usize,
    port: usize,
    nic: Option<u32>,
    line: usize,
}

type Ports = BTreeMap<(usize, usize), Claim>;

/// Joins the switches of a folder, and the hosts to them.
pub(super) fn join(
    switches: &[Switch],
    options: &SonicOptions,
    warnings: &mut Vec<String>,
) -> Result<Fabric, ImportError> {
    let index: BTreeMap<&str, usize> =
        switches.iter().enumerate().map(|(number, one)| (one.name.as_str(), number)).collect();
    let mut claims = claims(switches)?;
    for file in &options.lldp {
        for told in read_lldp(file, &index)? {
            see(switches, &index, &mut claims, told)?;
        }
    }
    let rows = match &options.hosts {
        Some(path) => Some((path.display().to_string(), read_hosts(path, switches, &index)?)),
        None => None,
    };
    let rows = rows.as_ref().map(|(file, rows)| (file.as_str(), rows.as_slice()));
    let mut joiner = Joiner { switches, index, claims, rows, warnings, partial: options.partial };
    joiner.settle();
    let mut fabric = joiner.hosts()?;
    joiner.trunks(&mut fabric)?;
    order(&mut fabric, switches);
    Ok(fabric)
}

/// What DEVICE_NEIGHBOR says.
fn claims(switches: &[Switch]) -> Result<Ports, ImportError> {
    let mut claims = Ports::new();
    for (number, switch) in switches.iter().enumerate() {
        for at in switch.config.entries("DEVICE_NEIGHBOR") {
            let Some(port) = switch.port(at.key) else {
                let known = switch.ports.iter().map(|port| port.port.name.as_str());
                let near = near_miss(at.key, known)
                    .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
                return Err(at.error(format!("there is no port {}{near}", quoted(at.key))));
            };
            let claim = Claim {
                peer: at.must("name")?.to_owned(),
                peer_port: at.field("port").map(str::to_owned),
                place: format!("{}: {}", at.file(), at.place()),
                is_seen: false,
            };
            claims.insert((number, port), claim);
        }
    }
    Ok(claims)
}

/// Lays what LLDP saw over what was said.
fn see(
    switches: &[Switch],
    index: &BTreeMap<&str, usize>,
    claims: &mut Ports,
    told: Told,
) -> Result<(), ImportError> {
    let fail =
        |message: String| ImportError { file: told.file.clone(), line: Some(told.line), message };
    let Some(&number) = index.get(told.switch.as_str()) else {
        let near = near_miss(&told.switch, index.keys().copied())
            .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
        return Err(fail(format!("no file is of a switch {}{near}", quoted(&told.switch))));
    };
    let Some(port) = switches[number].port(&told.port) else {
        return Err(fail(format!("{} has no port {}", told.switch, quoted(&told.port))));
    };
    // of what LLDP calls the port of a switch, one is its name or its alias
    let known = index.get(told.peer.as_str()).map(|peer| &switches[*peer]);
    let named = told.peer_ports.iter().find(|name| match known {
        Some(peer) => peer.port(name).is_some(),
        None => true,
    });
    let place = format!("{}:{}", told.file, told.line);
    let peer_port = named.or(told.peer_ports.first()).cloned();
    let claim = Claim { peer: told.peer, peer_port, place, is_seen: true };
    if let Some(other) = claims.insert((number, port), claim.clone())
        && other.is_seen
        && (&other.peer, &other.peer_port) != (&claim.peer, &claim.peer_port)
    {
        let message = format!(
            "{} {} is named twice: {} has {} there, this line {}",
            told.switch, told.port, other.place, other.peer, claim.peer
        );
        return Err(ImportError { file: told.file, line: Some(told.line), message });
    }
    Ok(())
}

struct Joiner<'a> {
    switches: &'a [Switch],
    index: BTreeMap<&'a str, usize>,
    claims: Ports,
    rows: Option<(&'a str, &'a [HostRow])>,
    warnings: &'a mut Vec<String>,
    partial: bool,
}

impl Joiner<'_> {
    /// `leaf1 Ethernet0`
    fn name(&self, (switch, port): (usize, usize)) -> String {
        let switch = &self.switches[switch];
        format!("{} {}", switch.name, switch.ports[port].port.name)
    }

    fn fail(place: &str, message: String) -> ImportError {
        ImportError { file: place.to_owned(), line: None, message }
    }

    /// The port that a claim is about, if it is one of the folder.
    fn target(&self, claim: &Claim) -> Option<(usize, usize)> {
        let peer = *self.index.get(claim.peer.as_str())?;
        Some((peer, self.switches[peer].port(claim.peer_port.as_deref()?)?))
    }

    /// What LLDP has seen holds at both ends; what was written otherwise is out of date.
    fn settle(&mut self) {
        let seen: Vec<_> = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.is_seen)
            .map(|(p, c)| (*p, c.clone()))
            .collect();
        for (here, claim) in seen {
            let Some(there) = self.target(&claim) else { continue };
            if self.claims.get(&there).is_some_and(|other| other.is_seen) {
                continue;
            }
            let switch = &self.switches[here.0];
            let back = Claim {
                peer: switch.name.clone(),
                peer_port: Some(switch.ports[here.1].port.name.clone()),
                ..claim
            };
            self.claims.insert(there, back);
        }
        let stale = |(here, claim): &(&(usize, usize), &Claim)| {
            let there = self.target(claim).filter(|_| !claim.is_seen)?;
            let other = self.claims.get(&there).filter(|other| other.is_seen)?;
            (self.target(other) != Some(**here)).then(|| (**here, there, other.clone()))
        };
        let stale: Vec<_> = self.claims.iter().filter_map(|pair| stale(&pair)).collect();
        for (here, there, other) in stale {
            let Some(claim) = self.claims.remove(&here) else { continue };
            let far = self.name(there);
            let message = format!(
                "{}: {far} is left out: {} saw {} there",
                claim.place, other.place, other.peer
            );
            self.warnings.push(message);
        }
    }

    /// The hosts of the table and their cables; what switches say of these ports must agree.
    fn hosts(&mut self) -> Result<Fabric, ImportError> {
        let mut fabric = Fabric::default();
        let Some((file, rows)) = self.rows else { return Ok(fabric) };
        let mut names: Vec<&str> = rows.iter().map(|row| row.host.as_str()).collect();
        names.sort_by_cached_key(|name| natural(name));
        names.dedup();
        let mut used: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut nics: BTreeMap<(usize, u32), usize> = BTreeMap::new();
        for row in rows {
            let fail = |message: String| ImportError {
                file: file.to_owned(),
                line: Some(row.line),
                message,
            };
            let place = (row.switch, row.port);
            let name = self.name(place);
            if let Some(line) = used.insert(place, row.line) {
                return Err(fail(format!("{name} is named twice, here and in line {line}")));
            }
            if let Some(claim) = self.claims.remove(&place)
                && claim.peer != row.host
            {
                let message = format!(
                    "{} is said to be at {name}, but {} has {} there",
                    row.host, claim.place, claim.peer
                );
                return Err(fail(message));
            }
            let host = names.iter().position(|known| *known == row.host).unwrap_or(0);
            let next = (0..).find(|nic| !nics.contains_key(&(host, *nic))).unwrap_or(0);
            let nic = row.nic.unwrap_or(next);
            if let Some(line) = nics.insert((host, nic), row.line) {
                let message = format!("NIC {nic} of {} is named in line {line} too", row.host);
                return Err(fail(message));
            }
            let port = &self.switches[row.switch].ports[row.port].port;
            if !port.is_up {
                let message = format!("{name} is down (admin_status), so {} is cut off", row.host);
                return Err(fail(message));
            }
            fabric.cables.push(Cable {
                ends: [End::Host { host, nic }, End::Port { switch: row.switch, port: row.port }],
                rate: port.rate,
                delay: port.delay(),
            });
        }
        fabric.hosts = names.into_iter().map(str::to_owned).collect();
        Ok(fabric)
    }

    /// The cables between switches.
    fn trunks(&mut self, fabric: &mut Fabric) -> Result<(), ImportError> {
        let mut outside: Vec<String> = Vec::new();
        let all: Vec<((usize, usize), Claim)> =
            self.claims.iter().map(|(place, claim)| (*place, claim.clone())).collect();
        for (here, claim) in &all {
            let Some(&peer) = self.index.get(claim.peer.as_str()) else {
                outside.push(self.stranger(*here, claim)?);
                continue;
            };
            let there = self.far_end(*here, claim, peer)?;
            if *here < there {
                fabric.cables.extend(self.cable(*here, there, claim)?);
            }
        }
        if !outside.is_empty() {
            let count = counted(outside.len(), "port");
            let first = &outside[0];
            self.warnings
                .push(format!("{count} to neighbours without a file left out: {first} .."));
        }
        Ok(())
    }

    /// A neighbour that is no switch of the folder.
    fn stranger(&self, here: (usize, usize), claim: &Claim) -> Result<String, ImportError> {
        let name = self.name(here);
        let peer = quoted(&claim.peer);
        if self.partial {
            return Ok(format!("{} at {name}", claim.peer));
        }
        let hosts = || self.rows.iter().flat_map(|(_, rows)| rows.iter());
        if let Some(row) = hosts().find(|row| row.host == claim.peer) {
            let (file, line) = (self.rows.map_or("", |(file, _)| file), row.line);
            let message = format!(
                "{name} leads to the host {peer}, but {file} (line {line}) has it at other ports \
                 only; a row for {name} is expected"
            );
            return Err(Self::fail(&claim.place, message));
        }
        let known = self.index.keys().copied().chain(hosts().map(|row| row.host.as_str()));
        let hint = match (near_miss(&claim.peer, known), self.rows.is_some()) {
            (Some(near), _) => format!("did you mean {near:?}?"),
            (None, true) => "a file or a row of the hosts is expected, or --partial".to_owned(),
            (None, false) => "hosts are expected in a table: --hosts FILE.csv".to_owned(),
        };
        let message = format!("no file is of {peer}, the neighbour of {name}; {hint}");
        Err(Self::fail(&claim.place, message))
    }

    /// The port at the other end, if both ends agree on it or LLDP has seen it.
    fn far_end(
        &self,
        here: (usize, usize),
        claim: &Claim,
        peer: usize,
    ) -> Result<(usize, usize), ImportError> {
        let name = self.name(here);
        let back: Vec<(usize, usize)> = self
            .claims
            .range((peer, 0)..=(peer, usize::MAX))
            .filter(|(_, other)| {
                let port = other.peer_port.as_deref();
                self.index.get(other.peer.as_str()) == Some(&here.0)
                    && port.is_none_or(|port| self.switches[here.0].port(port) == Some(here.1))
            })
            .map(|(place, _)| *place)
            .collect();
        let Some(port) = &claim.peer_port else {
            return match back.as_slice() {
                [one] => Ok(*one),
                _ => {
                    let message = format!(
                        "`port` is missing, and {} names {name} at {}; one is expected",
                        claim.peer,
                        counted(back.len(), "port")
                    );
                    Err(Self::fail(&claim.place, message))
                }
            };
        };
        let Some(port) = self.switches[peer].port(port) else {
            let known = self.switches[peer].ports.iter().map(|port| port.port.name.as_str());
            let near = near_miss(port, known)
                .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            let message = format!("{} has no port {}{near}", claim.peer, quoted(port));
            return Err(Self::fail(&claim.place, message));
        };
        let there = (peer, port);
        if there == here {
            return Err(Self::fail(&claim.place, format!("{name} is its own neighbour")));
        }
        if back.contains(&there) {
            return Ok(there);
        }
        let far = self.name(there);
        match self.claims.get(&there) {
            Some(other) => {
                let port = other.peer_port.as_deref().unwrap_or("");
                let message = format!(
                    "{far} is the neighbour of {name}, but {} has {} {port} there; both ends must \
                     name each other, or --lldp settle it",
                    other.place, other.peer
                );
                Err(Self::fail(&claim.place, message))
            }
            None => {
                let switch = &self.switches[peer];
                let file = switch.config.files.join(", ");
                let entry = &switch.ports[port].port.name;
                let message = format!(
                    "{name} leads to {far}, but {file} has no DEVICE_NEIGHBOR|{entry}: a cable \
                     that only one end names; --lldp settles it"
                );
                Err(Self::fail(&claim.place, message))
            }
        }
    }

    fn cable(
        &mut self,
        here: (usize, usize),
        there: (usize, usize),
        claim: &Claim,
    ) -> Result<Option<Cable>, ImportError> {
        let [a, b] = [here, there].map(|(switch, port)| &self.switches[switch].ports[port].port);
        let [one, two] = [here, there].map(|place| self.name(place));
        if let Some((down, _)) = [(&one, a), (&two, b)].into_iter().find(|(_, port)| !port.is_up) {
            let message = format!("{one} - {two} is left out: {down} is down (admin_status)");
            self.warnings.push(message);
            return Ok(None);
        }
        if a.rate != b.rate {
            let message = format!(
                "two speeds on one link: {one} runs at {} ({}), {two} at {} ({}); one is expected",
                a.rate, a.from, b.rate, b.from
            );
            return Err(Self::fail(&claim.place, message));
        }
        let delay = match (a.cable_is_given, b.cable_is_given) {
            (false, true) => b.delay(),
            (true, false) => a.delay(),
            _ => a.delay().max(b.delay()),
        };
        if a.cable != b.cable && a.cable_is_given && b.cable_is_given {
            self.warnings.push(format!(
                "CABLE_LENGTH differs at the two ends of {one} ({}) - {two} ({}): the longer is taken",
                a.cable, b.cable
            ));
        }
        let end = |(switch, port)| End::Port { switch, port };
        Ok(Some(Cable { ends: [end(here), end(there)], rate: a.rate, delay }))
    }
}

/// Hosts first, in the order of their NICs: a node's k-th cable is its port k.
fn order(fabric: &mut Fabric, switches: &[Switch]) {
    let key = |end: End| match end {
        End::Host { host, nic } => (0, host, natural(""), nic as usize),
        End::Port { switch, port } => {
            (1, switch, natural(&switches[switch].ports[port].port.name), port)
        }
    };
    fabric.cables.sort_by_cached_key(|cable| cable.ends.map(key));
}

fn read_hosts(
    path: &Path,
    switches: &[Switch],
    index: &BTreeMap<&str, usize>,
) -> Result<Vec<HostRow>, ImportError> {
    let expected = "a table `host,switch,port` or `host,switch,port,nic` is expected";
    let file = TextFile::read(path, expected)?;
    let mut rows = Vec::new();
    for (line, cells) in table(&file, &["host", "switch", "port"], &["nic"])? {
        let [host, switch, port, nic] = [0, 1, 2, 3].map(|column| cells[column].as_str());
        let Some(&number) = index.get(switch) else {
            let near = near_miss(switch, index.keys().copied())
                .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            let message = format!("no file is of a switch {}{near}", quoted(switch));
            return Err(file.error_at(line, message));
        };
        let Some(port_number) = switches[number].port(port) else {
            let known = switches[number].ports.iter().map(|port| port.port.name.as_str());
            let near = near_miss(port, known)
                .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            let message = format!("{switch} has no port {}{near}", quoted(port));
            return Err(file.error_at(line, message));
        };
        if host.is_empty() || index.contains_key(host) || host.contains(['[', ']', '"', ':', '/']) {
            let message = format!("{} is no name for a host", quoted(host));
            return Err(file.error_at(line, message));
        }
        let nic = match nic {
            "" => None,
            word => Some(word.parse().map_err(|_| {
                file.error_at(line, format!("{} is no number of a NIC", quoted(word)))
            })?),
        };
        rows.push(HostRow { host: host.to_owned(), switch: number, port: port_number, nic, line });
    }
    match rows.is_empty() {
        true => Err(file.error_at_end("there is no host; at least one row is expected")),
        false => Ok(rows),
    }
}

/// The rows of a CSV file with these columns, in any order; those in `extra` may be missing.
pub(super) fn table(
    file: &TextFile,
    must: &[&str],
    extra: &[&str],
) -> Result<Vec<(usize, Vec<String>)>, ImportError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .flexible(true)
        .from_reader(file.text().as_bytes());
    let bad = |error: csv::Error| {
        let line = error.position().map_or(1, |position| position.line() as usize);
        file.error_at(line, error.to_string())
    };
    let header = reader.headers().map_err(bad)?.clone();
    let known: Vec<&str> = must.iter().chain(extra).copied().collect();
    if let Some(other) = header.iter().find(|name| !known.contains(name)) {
        let hint = crate::load::suggestion(other, &known);
        return Err(file.error_at(1, format!("{} is no column{hint}", quoted(other))));
    }
    let place = |name: &&str| header.iter().position(|column| column == *name);
    if let Some(missing) = must.iter().find(|name| place(name).is_none()) {
        let message = format!("the column `{missing}` is missing; {} are expected", must.join(","));
        return Err(file.error_at(1, message));
    }
    let columns: Vec<Option<usize>> = known.iter().map(place).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(bad)?;
        let line = record.position().map_or(1, |position| position.line() as usize);
        if record.len() != header.len() {
            let message = format!("{} columns; {} are expected", record.len(), header.len());
            return Err(file.error_at(line, message));
        }
        let cell = |column: &Option<usize>| {
            column.and_then(|column| record.get(column)).unwrap_or("").to_owned()
        };
        rows.push((line, columns.iter().map(cell).collect()));
    }
    Ok(rows)
}
