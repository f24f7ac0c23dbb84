//! Why a file cannot be used.

use std::path::PathBuf;

/// Why a file of results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system does not give the file, or it does not unpack.
    #[error("cannot read {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
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
    /// A line is not as expected.
    #[error("{}, line {line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column if one is at fault, what is there and what was expected.
        message: String,
    },
    /// A file of no known kind.
    #[error("{}: its kind is not known; expected is one of {expected}", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// The kinds that are known.
        expected: &'static str,
    },
    /// A capture of which nothing can be read.
    #[error("{}, {broken}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        broken: crate::pcap::Broken,
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
