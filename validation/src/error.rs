//! Why a file cannot be used.

use std::path::{Path, PathBuf};

/// Why a file of results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system does not give the file.
    #[error("cannot read {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A folder without the expected file.
    #[error("{} has no {expected}", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// Names of the files that would do.
        expected: &'static str,
    },
    /// Only a compressed file is there.
    #[error("{} is compressed: unpack it first (gunzip -k {})", path.display(), path.display())]
    Compressed {
        /// The compressed file.
        path: PathBuf,
    },
    /// A line is not as expected.
    #[error("{}, line {line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is there and what was expected.
        message: String,
    },
    /// A report of another version.
    #[error("{} has schema {found}, but {expected} was expected: run it again", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this program.
        expected: u32,
    },
}

/// The content of `path`, which must be text.
pub(crate) fn read_text(path: &Path) -> Result<String, ReadError> {
    let failed = |source| ReadError::Open { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(failed)?;
    // the first bytes of every gzip file
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(ReadError::Compressed { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count() as u64;
        ReadError::Line { path: path.to_owned(), line, message: "text was expected".to_owned() }
    })
}
