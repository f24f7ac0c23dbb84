//! Captures of real traffic, or of a simulation: what is counted in them.
//!
//! [`read_capture`] reads a file once, front to back, in memory that does not grow with it.

mod count;
mod pause;
mod reader;
mod sequence;
mod spread;
mod stats;
mod table;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::error::ReadError;

pub use count::{ADDRESSES_MAX, QPS_MAX};
pub use reader::{Broken, Interface, Reader, Record, Way};
pub use stats::{AddressStats, CaptureStats, Gaps, Icrc, PauseStats, QpStats, RoceStats};
pub use table::CaptureTable;

/// Reads a capture; `-` is standard input. `rate` (bit/s) is that of cables whose rate the file does not
/// say; with it pauses end when their quanta are over.
///
/// What comes before damage is counted, with a warning; a file in which nothing can be read is an error.
pub fn read_capture(path: &Path, rate: Option<u64>) -> Result<CaptureStats, ReadError> {
    let input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let open = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(io::Error::other("it is a folder")),
            false => Ok(file),
        });
        let open = open.map_err(|source| ReadError::Open { path: path.to_owned(), source })?;
        Box::new(open)
    };
    let stats = count_capture(BufReader::with_capacity(1 << 18, input), rate);
    let stats = stats.map_err(|broken| ReadError::Capture { path: path.to_owned(), broken })?;
    Ok(CaptureStats { file: path.display().to_string(), ..stats })
}

/// The same, of anything that can be read.
pub fn count_capture(input: impl Read, rate: Option<u64>) -> Result<CaptureStats, Broken> {
    let mut reader = Reader::new(input)?;
    let format = reader.format().to_owned();
    let mut counter = count::Counter::new(rate);
    let mut warnings = Vec::new();
    let mut frames = 0u64;
    loop {
        match reader.next_record() {
            Ok(None) => break,
            Ok(Some(record)) => {
                frames += 1;
                counter.add(&record);
            }
            Err(broken) if frames == 0 => return Err(broken),
            Err(broken) => {
                warnings.push(format!("{broken}; {frames} frames before it were counted"));
                break;
            }
        }
    }
    let stats = counter.finish(reader.interfaces(), &mut warnings);
    Ok(CaptureStats { format, warnings, ..stats })
}

#[cfg(test)]
mod tests;
