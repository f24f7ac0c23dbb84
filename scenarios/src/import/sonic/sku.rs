//! `pg_profile_lookup.ini` of a hardware SKU: the lossless profile of each rate and cable.

use std::path::Path;

use sim_core::Rate;

use crate::import::ImportError;
use crate::import::text::{TextFile, quoted};

/// A line: bytes, but for the threshold, which is `dynamic_th`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) mbps: u64,
    pub(super) cable: String,
    pub(super) size: u64,
    pub(super) xon: u64,
    pub(super) xoff: u64,
    pub(super) threshold: i8,
    pub(super) xon_offset: Option<u64>,
    pub(super) line: usize,
}

/// The table of a SKU.
#[derive(Clone, Debug, Default)]
pub(super) struct SkuTable {
    pub(super) file: String,
    rows: Vec<Row>,
}

impl SkuTable {
    /// Reads the table of a folder, or a file.
    pub(super) fn read(path: &Path) -> Result<Self, ImportError> {
        let path = match path.is_dir() {
            true => path.join("pg_profile_lookup.ini"),
            false => path.to_owned(),
        };
        let expected = "pg_profile_lookup.ini of the switch's hardware SKU is expected";
        let file = TextFile::read(&path, expected)?;
        let mut rows = Vec::new();
        for line in file.lines() {
            let columns = "speed cable size xon xoff threshold [xon_offset]";
            if !(6..=7).contains(&line.words.len()) {
                let message = format!("{} columns; {columns} are expected", line.words.len());
                return Err(line.error(message));
            }
            let w = &line.words;
            let cable = w[1];
            if metres(cable).is_none() {
                let message = format!("{} is no length; 40m is expected", quoted(cable));
                return Err(line.error(message));
            }
            let threshold = line.number("threshold", w[5])?;
            if !(-8..=7).contains(&threshold) {
                return Err(line.error(format!("threshold {threshold}; -8 to 7 is expected")));
            }
            let bytes = |what, word| line.number::<u32>(what, word).map(u64::from);
            rows.push(Row {
                mbps: line.number("speed", w[0])?,
                cable: cable.to_owned(),
                size: bytes("size", w[2])?,
                xon: bytes("xon", w[3])?,
                xoff: bytes("xoff", w[4])?,
                threshold,
                xon_offset: match w.get(6) {
                    Some(word) => Some(bytes("xon_offset", word)?),
                    None => None,
                },
                line: line.number,
            });
        }
        Ok(SkuTable { file: path.display().to_string(), rows })
    }

    /// The line of a rate and a cable, whose length stands there as it does in CABLE_LENGTH.
    pub(super) fn row(&self, rate: Rate, cable: &str) -> Option<&Row> {
        let mbps = rate.bps() / 1_000_000;
        self.rows.iter().find(|row| row.mbps == mbps && row.cable == cable)
    }
}

/// Metres of `40m`; a thousand kilometres at most.
pub(super) fn metres(text: &str) -> Option<u64> {
    let metres = text.trim().strip_suffix('m')?.parse().ok();
    metres.filter(|metres| *metres <= 1_000_000)
}
