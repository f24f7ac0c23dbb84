//! Why a fabric cannot be built.

/// A configuration that parses but cannot be built. `key` says where it stands in the scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct BuildError {
    /// The key in the scenario's grammar of paths: `switch.pfc.headroom`.
    pub key: String,
    /// What is wrong and what was expected.
    pub message: String,
}

impl BuildError {
    /// An error at this key.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        BuildError { key: key.into(), message: message.into() }
    }
}
