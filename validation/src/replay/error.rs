//! Why a collective could not be replayed.

use std::time::Duration;

/// Why a collective could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The scenario has nothing that can be replayed, or not in this way.
    #[error("{0}")]
    Scenario(String),
    /// An option, or the device that it names, is at fault.
    #[error("{0}")]
    Setting(String),
    /// Another rank has ended, or cannot be reached.
    #[error("rank {rank} is gone: {why}")]
    Gone {
        /// Which,
        rank: u32,
        /// and how that showed.
        why: String,
    },
    /// Another rank has failed, and said so.
    #[error("rank {rank} failed, and so this one ended: {why}")]
    Other {
        /// Which,
        rank: u32,
        /// and what it said.
        why: String,
    },
    /// Nothing has moved for too long.
    #[error("nothing has moved for {} s: rank {rank} waits for {what}", waited.as_secs())]
    TimeOut {
        /// This rank,
        rank: u32,
        /// for so long,
        waited: Duration,
        /// has waited for this.
        what: String,
    },
    /// A QP is in error.
    #[error("QP to rank {peer}: {status} (vendor error {vendor:#x}): {hint}")]
    Qp {
        /// The rank at its other end.
        peer: u32,
        /// `ibv_wc_status`, in words.
        status: String,
        /// The device's own number for it.
        vendor: u32,
        /// What that usually means.
        hint: &'static str,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The rendezvous, or another rank, does not keep to the protocol.
    #[error("{0}")]
    Protocol(String),
}

impl ReplayError {
    /// Whether the input is at fault, and not what happened later.
    pub fn is_input(&self) -> bool {
        matches!(self, ReplayError::Scenario(_) | ReplayError::Setting(_))
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| ReplayError::Io { what, source }
    }
}
