//! Curves over sizes from any file that has some.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;

use super::text::{find, line_error, read_bytes, text_of};
use super::{nccl, perftest, report};
use crate::curve::Table;
use crate::error::ReadError;
use crate::measurement::{MEASUREMENT_SCHEMA, Measurement};

/// The files that have tables, as a message lists them.
const KINDS: &str = "a log of nccl-tests (text or JSON), a measurement.json of rocesim, or a run \
                     directory or report.json of rocesim";

/// Reads the tables of a log of nccl-tests, of a measurement.json, or of a run directory of rocesim
/// or its report.json. The content tells which it is. Any file may be compressed by gzip.
pub fn read_tables(path: &Path) -> Result<Vec<Table>, ReadError> {
    let file = match path.is_dir() {
        false => scenarios::packed::find(path),
        true => find(path, &["measurement.json", "report.json"]).ok_or(ReadError::Missing {
            folder: path.to_owned(),
            expected: "measurement.json and no report.json",
        })?,
    };
    let text = log_text(&file, read_bytes(&file)?)?;
    tables_of(&file, &text)?.ok_or(ReadError::Kind { path: file, expected: KINDS })
}

/// The tables of a measurement: a log of nccl-tests, or a measurement.json, itself or in its folder.
/// None of a run, be it of rocesim or of ns-3.
pub fn read_measured_tables(path: &Path) -> Result<Option<Vec<Table>>, ReadError> {
    let file = match path.is_dir() {
        true => find(path, &["measurement.json"]),
        false => Some(scenarios::packed::find(path)),
    };
    let Some(file) = file else { return Ok(None) };
    let text = log_text(&file, read_bytes(&file)?)?;
    let is_measured = nccl::is(&text) || nccl::is_json(&text) || schema(&text).is_some();
    if is_measured { tables_of(&file, &text) } else { Ok(None) }
}

/// The text of a log. In one of a program that runs for hours among others, a byte that is none of
/// UTF-8 says nothing about the rows; what is no log must be text.
pub(super) fn log_text(file: &Path, bytes: Vec<u8>) -> Result<String, ReadError> {
    let lossy = String::from_utf8_lossy(&bytes);
    match matches!(lossy, Cow::Owned(_)) && (nccl::is(&lossy) || perftest::is(&lossy)) {
        true => Ok(lossy.into_owned()),
        false => text_of(file, bytes),
    }
}

/// The tables of a text, if it is of a kind that has some.
pub(super) fn tables_of(file: &Path, text: &str) -> Result<Option<Vec<Table>>, ReadError> {
    if nccl::is_json(text) {
        return nccl::parse_json(file, text).map(Some);
    }
    if text.trim_start().starts_with('{') {
        return of_json(file, text).map(Some);
    }
    Ok(nccl::is(text).then(|| nccl::parse(&file.display().to_string(), text)))
}

fn of_json(file: &Path, text: &str) -> Result<Vec<Table>, ReadError> {
    let source = file.display().to_string();
    match measurement_of(file, text)? {
        Some(measurement) => Ok(measurement.tables(&source)),
        None => {
            let reports = report::parse_report(file, text)?.collectives;
            Ok(Table::of_reports(&source, &reports))
        }
    }
}

/// A measurement.json, if it is one.
pub(super) fn measurement_of(file: &Path, text: &str) -> Result<Option<Measurement>, ReadError> {
    match schema(text) {
        Some(MEASUREMENT_SCHEMA) => {
            let parsed = serde_json::from_str(text).map_err(|error| {
                let message = format!("a measurement was expected: {error}");
                line_error(file, error.line() as u64, message)
            })?;
            Ok(Some(parsed))
        }
        Some(found) => {
            let path = file.to_owned();
            Err(ReadError::Schema { path, found, expected: MEASUREMENT_SCHEMA })
        }
        None => Ok(None),
    }
}

/// The version of a measurement.json; none of other JSON.
fn schema(text: &str) -> Option<u32> {
    /// The key that tells kinds apart.
    #[derive(Deserialize)]
    struct Probe {
        measurement: Option<u32>,
    }
    serde_json::from_str::<Probe>(text).ok()?.measurement
}
