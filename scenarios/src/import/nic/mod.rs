//! What a host says of its RoCE NIC: the keys of `[nic]` that one would write by hand.
//!
//! Each file is one of [`KINDS`]; its content tells which. A file becomes [`Reading`]s, one value of
//! one key each, with the place where it stood; `merge` makes one value of each key of them, and
//! `write` the TOML.
//!
//! - `params`: DCQCN's parameters under their three names, with units and ranges
//! - `mlxconfig`, `listing` (sysfs, debugfs), `qos` (`mlnx_qos`), `ports` (`ethtool`,
//!   `ibv_devinfo`): one kind of file each

mod listing;
mod merge;
mod mlxconfig;
mod params;
mod ports;
mod qos;
#[cfg(test)]
mod tests;
mod write;

use std::path::{Path, PathBuf};

use super::text::{Line, TextFile, counted};
use super::{ImportError, Imported};

/// The kinds of files, as a message lists them.
const KINDS: &str = "`mlxconfig query`, a listing of ecn/roce_rp and ecn/roce_np (or of debugfs \
                     cc_params) by `grep .`, `mlnx_qos -i`, `ethtool -S`, `ethtool` or `ibv_devinfo`";

/// How much a value is to be believed where several files have one of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It follows from the names of counters.
    Inferred,
    /// What the firmware starts with.
    Stored,
    /// What holds now.
    Running,
}

/// One value of one key.
#[derive(Clone, Debug)]
struct Reading {
    /// `nic.congestion.rpg_ai_rate`
    key: &'static str,
    /// As it stands in TOML.
    value: String,
    /// What the file calls it: `RPG_AI_RATE_P1`.
    name: String,
    /// The port or device that it is said of, where the file says so.
    port: Option<String>,
    rank: Rank,
    place: Place,
}

/// Where something was read: `mlxconfig.txt:12`.
#[derive(Clone, Debug)]
struct Place {
    file: String,
    line: usize,
}

impl Place {
    fn of(line: &Line<'_>) -> Self {
        let error = line.error("");
        Place { file: error.file, line: line.number }
    }

    /// `mlxconfig.txt:12`, without folders.
    fn short(&self) -> String {
        let name = Path::new(&self.file).file_name().unwrap_or_default().to_string_lossy();
        format!("{name}:{}", self.line)
    }

    fn full(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    fn error(&self, message: String) -> ImportError {
        ImportError { file: self.file.clone(), line: Some(self.line), message }
    }
}

/// What a file says.
#[derive(Debug, Default)]
struct Found {
    readings: Vec<Reading>,
    /// For the user, with their place.
    warnings: Vec<String>,
    /// For the file that is written, as comments.
    remarks: Vec<String>,
    /// Names of lines that say nothing about a key.
    other: Vec<String>,
}

impl Found {
    fn push(
        &mut self,
        key: &'static str,
        value: impl Into<String>,
        name: impl Into<String>,
        port: Option<&str>,
        rank: Rank,
        place: Place,
    ) {
        let (value, name, port) = (value.into(), name.into(), port.map(str::to_owned));
        self.readings.push(Reading { key, value, name, port, rank, place });
    }
}

/// The lines of a file that say something.
type Lines<'t> = [Line<'t>];

/// A kind of file: whether these lines are one, and what they say.
type Reader = (fn(&Lines<'_>) -> bool, fn(&Lines<'_>) -> Result<Found, ImportError>);

/// The more telling first.
const READERS: [Reader; 6] = [
    (mlxconfig::is, mlxconfig::read),
    (qos::is, qos::read),
    (ports::is_devinfo, ports::devinfo),
    (ports::is_settings, ports::settings),
    (ports::is_statistics, ports::statistics),
    (listing::is, listing::read),
];

/// Reads what a host says of its NIC, and writes the part of a scenario that follows.
pub fn nic(files: &[PathBuf]) -> Result<Imported, ImportError> {
    let mut all = Found::default();
    for path in files {
        let file = TextFile::read(path, &format!("one of these is expected: {KINDS}"))?;
        let lines: Vec<Line<'_>> = file.lines().collect();
        let Some((_, read)) = READERS.iter().find(|(is, _)| is(&lines)) else {
            let message = format!("its kind is not known; expected is one of {KINDS}");
            return Err(file.error(message));
        };
        let found = read(&lines)?;
        if let Some(note) = unused(&file, &found) {
            all.warnings.push(note);
        }
        all.readings.extend(found.readings);
        all.warnings.extend(found.warnings);
        all.remarks.extend(found.remarks);
    }
    let (chosen, differences) = merge::merge(all.readings)?;
    all.warnings.extend(differences);
    if chosen.is_empty() {
        let file = files.first().map_or(String::new(), |path| path.display().to_string());
        let message = "nothing here is a key of [nic]".to_owned();
        return Err(ImportError { file, line: None, message });
    }
    let names: Vec<String> = files
        .iter()
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    let toml = write::to_toml(&chosen, &all.remarks, &names);
    Ok(Imported { toml, files: Vec::new(), warnings: all.warnings })
}

/// How many lines of a file were of no use, and the first few.
fn unused(file: &TextFile, found: &Found) -> Option<String> {
    let first = found.other.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if found.other.len() > 4 { ", ..." } else { "" };
    let count = counted(found.other.len(), "line");
    let text = format!("{count} of other things passed over: {first}{more}");
    (!found.other.is_empty()).then(|| file.error(text).to_string())
}
