//! An operator's counters: which kind a file is, and what it says.

use std::path::Path;

use super::text::read_text;
use super::{ethtool, rdma, sonic};
use crate::counters::{Counters, Measured, Source};
use crate::error::ReadError;

/// The kinds of files, as a message lists them.
const KINDS: &str = "tables of SONiC (`show pfc counters`, `show priority-group watermark headroom` or \
                     `shared`, `show priority-group drop counters`, `show queue counters` or \
                     `watermark`, `show pfcwd stats`), `ethtool -S`, `rdma statistic` (also -j), or a \
                     listing of hw_counters by `grep .`";

/// Reads files of counters, each of any known kind; the content tells which. Several tables of
/// SONiC may be in one file.
pub fn read_measured<P: AsRef<Path>>(paths: &[P]) -> Result<Measured, ReadError> {
    let mut measured = Measured::default();
    for path in paths.iter().map(AsRef::as_ref) {
        let found = counters(path, &read_text(path)?)?;
        measured.merge(found.ok_or(ReadError::Kind { path: path.to_owned(), expected: KINDS })?);
    }
    Ok(measured)
}

/// The counters in a text, if it has some.
pub(super) fn counters(path: &Path, text: &str) -> Result<Option<Measured>, ReadError> {
    let mut measured = Measured::default();
    let file = path.display().to_string();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut told = |kind: &str, places: usize, what: &str| {
        let plural = if places == 1 { "" } else { "s" };
        measured.files.push(format!("{file}: {kind}, {places} {what}{plural}"));
    };
    if ethtool::is(text) {
        let values = ethtool::parse(path, text)?;
        told("ethtool -S", values.len(), "counter");
        let place = stem;
        measured.add(Counters { place, named: false, source: Source::Ethtool, file, values });
        return Ok(Some(measured));
    }
    if let Some(format) = rdma::format(text) {
        let devices = rdma::parse(path, text, &format)?;
        told("counters of RDMA devices", devices.len(), "device");
        for (device, values) in devices {
            let (named, file) = (device.is_some(), file.clone());
            let place = device.unwrap_or_else(|| stem.clone());
            measured.add(Counters { place, named, source: Source::Rdma, file, values });
        }
        return Ok(Some(measured));
    }
    if sonic::is(text)
        && let Some(ports) = sonic::parse(path, text)?
    {
        told("tables of SONiC", ports.len(), "port");
        for (place, values) in ports {
            let file = file.clone();
            measured.add(Counters { place, named: true, source: Source::Switch, file, values });
        }
        return Ok(Some(measured));
    }
    Ok(None)
}
