//! Who LLDP has seen: outputs of `show lldp table`, or a table `switch,port,peer,peer_port`.

use std::collections::BTreeMap;
use std::path::Path;

use super::joins::table;
use crate::import::ImportError;
use crate::import::text::{TextFile, quoted};

/// A neighbour that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) switch: String,
    pub(super) port: String,
    pub(super) peer: String,
    /// Port id and description: one of them is the name of the port.
    pub(super) peer_ports: Vec<String>,
    pub(super) file: String,
    pub(super) line: usize,
}

/// Reads a file of either form.
pub(super) fn read_lldp(
    path: &Path,
    switches: &BTreeMap<&str, usize>,
) -> Result<Vec<Told>, ImportError> {
    let expected = "the output of `show lldp table`, or a table switch,port,peer,peer_port, is \
                    expected";
    let file = TextFile::read(path, expected)?;
    let name = path.display().to_string();
    if path.extension().is_some_and(|end| end == "csv") {
        let rows = table(&file, &["switch", "port", "peer", "peer_port"], &[])?;
        let told = |(line, cells): (usize, Vec<String>)| Told {
            switch: cells[0].clone(),
            port: cells[1].clone(),
            peer: cells[2].clone(),
            peer_ports: vec![cells[3].clone()],
            file: name.clone(),
            line,
        };
        return Ok(rows.into_iter().map(told).collect());
    }
    // the switch is named by the prompt before the table, or by the file
    let stem = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let mut switch = switches.contains_key(stem.as_str()).then_some(stem);
    let mut columns: Vec<[usize; 2]> = Vec::new();
    let mut found = Vec::new();
    for (line, number) in file.text().lines().zip(1..) {
        if let Some(name) = prompt(line) {
            switch = Some(name.to_owned());
            columns.clear();
        } else if line.starts_with("---") {
            columns = bounds(line);
        } else if line.starts_with("Ethernet") {
            let Some(switch) = &switch else {
                let message = format!(
                    "nothing says whose table this is: the prompt before it (admin@leaf1:~$ show \
                     lldp table) or the file's name is expected to; no switch is called {}",
                    quoted(&path.file_stem().unwrap_or_default().to_string_lossy())
                );
                return Err(file.error_at(number, message));
            };
            let cell = |column: usize| cut(line, columns.get(column).copied());
            let [port, peer, id] = [0, 1, 2].map(cell);
            if port.is_empty() || peer.is_empty() || id.is_empty() {
                let message = "columns LocalPort, RemoteDevice, RemotePortID under a line of \
                               dashes are expected";
                return Err(file.error_at(number, message));
            }
            found.push(Told {
                switch: switch.clone(),
                port: port.to_owned(),
                peer: peer.to_owned(),
                peer_ports: vec![id.to_owned(), cell(4).to_owned()],
                file: name.clone(),
                line: number,
            });
        }
    }
    match found.is_empty() {
        true => Err(file.error_at_end("no neighbour of an Ethernet port is in it")),
        false => Ok(found),
    }
}

/// `leaf1` of `admin@leaf1:~$ show lldp table`.
fn prompt(line: &str) -> Option<&str> {
    line.contains("show lldp").then_some(())?;
    let (_, rest) = line.split_once('@')?;
    Some(&rest[..rest.find(':')?])
}

/// Where columns begin and end, by the line of dashes under their names.
fn bounds(line: &str) -> Vec<[usize; 2]> {
    let mut bounds = Vec::new();
    let mut start = None;
    for (at, char) in line.char_indices().chain([(line.len(), ' ')]) {
        match (char, start) {
            ('-', None) => start = Some(at),
            (' ', Some(from)) => {
                bounds.push([from, at]);
                start = None;
            }
            _ => {}
        }
    }
    bounds
}

fn cut(line: &str, bounds: Option<[usize; 2]>) -> &str {
    let Some([from, to]) = bounds else { return "" };
    line.get(from..to.min(line.len())).unwrap_or("").trim()
}
