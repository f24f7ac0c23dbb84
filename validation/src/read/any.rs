//! Any file that was measured: which kind it is, and what it says.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use scenarios::packed;

use super::tables::{log_text, measurement_of, read_tables, tables_of};
use super::text::read_bytes;
use super::{measured, perftest};
use crate::counters::Measured;
use crate::curve::Table;
use crate::error::ReadError;
use crate::measurement::Measurement;
use crate::pcap::{CaptureStats, count_capture, read_capture};
use crate::perftest::Perftest;

/// The kinds of files, as a message lists them.
const KINDS: &str = "a log of nccl-tests (text or JSON), output of perftest, a capture (pcap, pcapng), a \
                     measurement.json or report.json of rocesim, tables of SONiC (`show pfc counters`, \
                     `show priority-group watermark headroom` or `shared`, `show priority-group drop \
                     counters`, `show queue counters` or `watermark`, `show pfcwd stats`), `ethtool -S`, \
                     `rdma statistic` (also -j), or a listing of hw_counters by `grep .`";

/// What a file says.
#[derive(Clone, Debug)]
pub enum Reading {
    /// Curves over sizes.
    Tables(Vec<Table>),
    /// What a replay has measured, and the file.
    Measurement(String, Box<Measurement>),
    /// Runs of perftest.
    Perftest(Vec<Perftest>),
    /// A capture of packets.
    Capture(Box<CaptureStats>),
    /// Counters of devices.
    Counters(Measured),
}

/// Reads a measurement of any kind; the content, not the name, tells which. It may be compressed by
/// gzip. A folder is a run of rocesim.
pub fn read_any(path: &Path) -> Result<Reading, ReadError> {
    if path.is_dir() {
        return read_tables(path).map(Reading::Tables);
    }
    let file = packed::find(path);
    // captures are read front to back, and may be larger than memory
    let mut head = [0; 4];
    let failed = |source| ReadError::Open { path: file.clone(), source };
    let begins = File::open(&file).and_then(|mut open| open.read(&mut head)).map_err(failed)?;
    if is_capture(&head[..begins]) {
        return read_capture(&file, None).map(|stats| Reading::Capture(Box::new(stats)));
    }
    read_any_bytes(&file, read_bytes(&file)?)
}

/// Reads what a file of this name would have had, unpacked.
pub fn read_any_bytes(file: &Path, bytes: Vec<u8>) -> Result<Reading, ReadError> {
    if is_capture(&bytes) {
        let stats = count_capture(bytes.as_slice(), None);
        let stats = stats.map_err(|broken| ReadError::Capture { path: file.to_owned(), broken })?;
        let stats = CaptureStats { file: file.display().to_string(), ..stats };
        return Ok(Reading::Capture(Box::new(stats)));
    }
    let text = log_text(file, bytes)?;
    if perftest::is_json(&text) {
        return perftest::parse_json(file, &text).map(Reading::Perftest);
    }
    if text.trim_start().starts_with('{')
        && let Some(measurement) = measurement_of(file, &text)?
    {
        return Ok(Reading::Measurement(file.display().to_string(), Box::new(measurement)));
    }
    if let Some(tables) = tables_of(file, &text)? {
        return Ok(Reading::Tables(tables));
    }
    if perftest::is(&text) {
        return Ok(Reading::Perftest(perftest::parse(&file.display().to_string(), &text)));
    }
    let counters = measured::counters(file, &text)?;
    let kind = ReadError::Kind { path: file.to_owned(), expected: KINDS };
    counters.map(Reading::Counters).ok_or(kind)
}

/// The first bytes of pcap, in either order of bytes and either unit of time, and of pcapng.
fn is_capture(bytes: &[u8]) -> bool {
    let Some(magic) = bytes.first_chunk::<4>() else { return false };
    let numbers = [u32::from_le_bytes(*magic), u32::from_be_bytes(*magic)];
    numbers.into_iter().any(|number| matches!(number, 0xa1b2_c3d4 | 0xa1b2_3c4d | 0x0a0d_0d0a))
}
