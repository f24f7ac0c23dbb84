//! RDMA by libibverbs: devices, memory, completion queues and RC QPs. The only unsafe code of
//! rocesim beside the engine's prefetch stands here; what is public is safe.
#![allow(unsafe_code)]

mod device;
mod gid;
mod library;
mod memory;
mod queue;
mod sys;

pub use device::{Device, PortState, devices};
pub use gid::{Gid, GidEntry, GidKind, choose};
pub use memory::{Buffer, Placement};
pub use queue::{Address, Completion, CompletionQueue, Failure, Kind, Qp, QpConfig};

/// Why RDMA cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VerbsError {
    /// There is no libibverbs.
    #[error(
        "libibverbs is not here ({0}): RDMA needs rdma-core (Debian: apt-get install libibverbs1 \
         ibverbs-providers; Fedora: dnf install libibverbs); --transport tcp needs nothing"
    )]
    Library(String),
    /// There are no devices, or not this one.
    #[error("{0}")]
    Device(String),
    /// A verb failed.
    #[error("{verb}: {source}{hint}")]
    Verb {
        /// Its name.
        verb: &'static str,
        /// What the system said.
        source: std::io::Error,
        /// What it usually means.
        hint: &'static str,
    },
}

impl VerbsError {
    fn last(verb: &'static str, hint: &'static str) -> Self {
        VerbsError::Verb { verb, source: std::io::Error::last_os_error(), hint }
    }

    /// Verbs return the number of the error.
    fn check(verb: &'static str, result: i32, hint: &'static str) -> Result<(), Self> {
        match result {
            0 => Ok(()),
            error => {
                let source = std::io::Error::from_raw_os_error(error.abs());
                Err(VerbsError::Verb { verb, source, hint })
            }
        }
    }
}
