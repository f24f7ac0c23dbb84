//! Files of other tools, which may be compressed by gzip.

use std::fs;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// More than this is not unpacked.
const UNPACKED_MAX: u64 = 2 << 30;

/// `path`, or `path.gz` where only that is there.
pub fn find(path: &Path) -> PathBuf {
    let mut packed = path.as_os_str().to_owned();
    packed.push(".gz");
    let packed = PathBuf::from(packed);
    if !path.is_file() && packed.is_file() { packed } else { path.to_owned() }
}

/// The content of a file; one of gzip is unpacked, whatever its name.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    // the first bytes of every gzip file
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    let mut unpacked = MultiGzDecoder::new(bytes.as_slice()).take(UNPACKED_MAX + 1);
    unpacked.read_to_end(&mut plain).map_err(|error| {
        Error::new(ErrorKind::InvalidData, format!("no whole gzip file: {error}"))
    })?;
    match plain.len() as u64 > UNPACKED_MAX {
        true => Err(Error::other("more than 2 GiB when unpacked")),
        false => Ok(plain),
    }
}
