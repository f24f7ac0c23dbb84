//! The tables of one switch: CONFIG_DB as `config_db.json` has it, of one file or of several that
//! are laid over each other.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use super::json::{Json, parse};
use crate::import::ImportError;
use crate::import::text::{TextFile, quoted};
use crate::load::near_miss;

const BYTES_MAX: u64 = 1_000_000_000_000_000;

/// An entry of a table: its fields, as text, and the file that it is from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) file: usize,
    pub(super) fields: BTreeMap<String, String>,
}

/// Entries by key.
pub(super) type Table = BTreeMap<String, Entry>;

/// What CONFIG_DB says of one switch.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    /// The files, as messages call them.
    pub(super) files: Vec<String>,
    tables: BTreeMap<String, Table>,
}

/// An entry with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'c> {
    config: &'c Config,
    pub(super) table: &'static str,
    pub(super) key: &'c str,
    pub(super) entry: &'c Entry,
}

impl Config {
    /// Reads a file over what is there, as `sonic-cfggen -j` does with several.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), ImportError> {
        let expected = "config_db.json of a switch, or its buffers.json and qos.json, is expected";
        let file = TextFile::read(path, expected)?;
        let name = path.display().to_string();
        let Json::Map(tables) = parse(&name, file.text())? else {
            let message = "this is no object; the tables of CONFIG_DB are expected, such as \
                           { \"PORT\": { \"Ethernet0\": { .. } } }";
            return Err(file.error(message));
        };
        let number = self.files.len();
        self.files.push(name);
        for (table, entries) in tables {
            let Json::Map(entries) = entries else {
                return Err(file.error(format!("{table}: an object of entries is expected")));
            };
            let known = self.tables.entry(table.clone()).or_default();
            for (key, fields) in entries {
                // such as CRM or VERSIONS of old images: text in place of an entry
                let fields = match fields {
                    Json::Map(fields) => fields,
                    other => vec![(key.clone(), other)],
                };
                let entry = known.entry(key).or_default();
                entry.file = number;
                entry.fields.extend(fields.into_iter().map(|(name, value)| (name, flat(value))));
            }
        }
        Ok(())
    }

    /// The names of the tables and their entries.
    pub(super) fn tables(&self) -> &BTreeMap<String, Table> {
        &self.tables
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.get(table).is_some_and(|table| !table.is_empty())
    }

    /// The entries of a table, in the order of their keys.
    pub(super) fn entries(&self, table: &'static str) -> impl Iterator<Item = At<'_>> {
        let entries = self.tables.get(table).into_iter().flatten();
        entries.map(move |(key, entry)| At { config: self, table, key, entry })
    }

    /// The entries of a table whose keys are ports and numbers, by port and number. Where several
    /// speak of one, later files win, and narrower ranges within a file.
    pub(super) fn by_number(
        &self,
        table: &'static str,
    ) -> Result<BTreeMap<(&str, u8), At<'_>>, ImportError> {
        let mut entries = Vec::new();
        for at in self.entries(table) {
            let (ports, range) = at.members()?;
            let Some([first, last]) = range else {
                let message = "a key `port|number` is expected, such as Ethernet0|3-4";
                return Err(at.error(message));
            };
            entries.push((at.entry.file, std::cmp::Reverse(last - first), ports, first..=last, at));
        }
        entries.sort_by_key(|(file, width, ..)| (*file, *width));
        let mut found = BTreeMap::new();
        for (_, _, ports, numbers, at) in entries {
            for port in ports {
                found.extend(numbers.clone().map(|number| ((port, number), at)));
            }
        }
        Ok(found)
    }

    pub(super) fn get(&self, table: &'static str, key: &str) -> Option<At<'_>> {
        let (key, entry) = self.tables.get(table)?.get_key_value(key)?;
        Some(At { config: self, table, key, entry })
    }

    /// An error about the switch as a whole.
    pub(super) fn error(&self, message: impl Into<String>) -> ImportError {
        ImportError { file: self.files.join(", "), line: None, message: message.into() }
    }
}

impl<'c> At<'c> {
    /// `BUFFER_PG|Ethernet0|3-4`
    pub(super) fn place(&self) -> String {
        format!("{}|{}", self.table, self.key)
    }

    pub(super) fn file(&self) -> &'c str {
        self.config.files.get(self.entry.file).map_or("", String::as_str)
    }

    /// A field that is there and not empty.
    pub(super) fn field(&self, name: &str) -> Option<&'c str> {
        self.entry.fields.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    pub(super) fn must(&self, name: &str) -> Result<&'c str, ImportError> {
        self.field(name).ok_or_else(|| {
            let known = self.entry.fields.keys().map(String::as_str);
            let near = near_miss(name, known)
                .map_or(String::new(), |near| format!("; did you mean {near:?} by it?"));
            self.error(format!("`{name}` is missing{near}"))
        })
    }

    /// A number that may be absent.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, ImportError> {
        let Some(text) = self.field(name) else { return Ok(None) };
        let number = text.trim().parse();
        number.map(Some).map_err(|_| {
            self.error(format!("{name}: {} is no whole number in range", quoted(text)))
        })
    }

    /// Bytes that may be absent; no switch has more than 10^15.
    pub(super) fn bytes(&self, name: &str) -> Result<Option<u64>, ImportError> {
        let bytes: Option<u64> = self.number(name)?;
        match bytes {
            Some(bytes) if bytes > BYTES_MAX => {
                Err(self.error(format!("{name}: {bytes} B is more than any switch has")))
            }
            bytes => Ok(bytes),
        }
    }

    /// A dynamic threshold: alpha is 2^n.
    pub(super) fn threshold(&self, name: &str) -> Result<Option<i8>, ImportError> {
        let threshold: Option<i8> = self.number(name)?;
        match threshold {
            Some(n) if !(-8..=7).contains(&n) => {
                Err(self.error(format!("{name}: -8 to 7 is expected")))
            }
            threshold => Ok(threshold),
        }
    }

    /// The entry of `table` that a field names, as `x` or, in old files, as `[TABLE|x]`.
    pub(super) fn refers(
        &self,
        name: &str,
        table: &'static str,
    ) -> Result<Option<At<'c>>, ImportError> {
        let Some(text) = self.field(name) else { return Ok(None) };
        let wanted = plain(text, table);
        if wanted == "NULL" {
            return Ok(None);
        }
        let found = self.config.get(table, wanted);
        found.map(Some).ok_or_else(|| {
            let known = self.config.entries(table).map(|entry| entry.key);
            let near = near_miss(wanted, known)
                .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            self.error(format!("{name}: there is no {table} {}{near}", quoted(wanted)))
        })
    }

    /// An error about this entry.
    pub(super) fn error(&self, message: impl Into<String>) -> ImportError {
        let message = format!("{}: {}", self.place(), message.into());
        ImportError { file: self.file().to_owned(), line: None, message }
    }

    /// The ports and, where the key has them, the first and last queue or group that it names:
    /// `Ethernet0,Ethernet4|3-4`.
    pub(super) fn members(&self) -> Result<(Vec<&'c str>, Option<[u8; 2]>), ImportError> {
        let (ports, range) = match self.key.split_once('|') {
            Some((ports, range)) => (ports, Some(range)),
            None => (self.key, None),
        };
        // a key of a VOQ system begins with the host and the ASIC: Host|Asic0|Ethernet0|3
        let range = match range.and_then(|range| range.rsplit_once('|')) {
            Some(_) => {
                let message = "a key `port|number` is expected; systems of several ASICs are not \
                               imported";
                return Err(self.error(message));
            }
            None => range,
        };
        let range = match range {
            Some(range) => Some(self.range(range)?),
            None => None,
        };
        Ok((ports.split(',').map(str::trim).filter(|port| !port.is_empty()).collect(), range))
    }

    fn range(&self, text: &str) -> Result<[u8; 2], ImportError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok([first, last]),
            _ => Err(self.error(format!("{} is no range; 3 or 3-4 is expected", quoted(text)))),
        }
    }
}

/// `x` of `[TABLE|x]`, `TABLE|x` and `x`.
pub(super) fn plain<'t>(text: &'t str, table: &str) -> &'t str {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    inner.strip_prefix(table).and_then(|rest| rest.strip_prefix('|')).unwrap_or(inner)
}

/// A list of texts is one text with commas, as older images have it.
fn flat(value: Json) -> String {
    match value {
        Json::Text(text) => text,
        Json::List(list) => list.into_iter().map(flat).collect::<Vec<_>>().join(","),
        Json::Map(map) => {
            let pairs = map.into_iter().map(|(key, value)| format!("{key}={}", flat(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
    }
}

/// Numbers separated by commas: `3,4`.
pub(super) fn list_of_numbers(at: &At<'_>, name: &str) -> Result<Vec<u8>, ImportError> {
    let Some(text) = at.field(name) else { return Ok(Vec::new()) };
    let mut numbers = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word.parse() {
            Ok(number) if number < 8 => numbers.push(number),
            _ => return Err(at.error(format!("{name}: {} is none of 0 to 7", quoted(word)))),
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Names in the order of the numbers in them: Ethernet8 before Ethernet16.
pub(super) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        parts.push((word.to_owned(), tail[..end].parse().unwrap_or(u64::MAX)));
        rest = &tail[end..];
    }
    parts
}
