//! Loading: TOML texts to typed configuration, with errors that name file, line and key.
//!
//! A scenario is read into a tree of values that remember where they were written. Presets,
//! overrides and `--set` arguments are merged in the tree; only then is it deserialized, so an
//! error points to the line at fault, be it in a preset or in an argument.
//!
//! - `tree`: texts, places, values, and the parser
//! - `merge`: laying one tree upon another
//! - `path`: naming one value of a tree, reading and setting it
//! - `de`: from the tree to Rust types, sections with a `kind` or an `algorithm`
//!   - `tagged`: the latter; `words`: serde's messages in the words of TOML
//! - `error`: the error and its rendering, and near misses
//! - `write`: the tree as TOML

mod de;
mod error;
mod merge;
mod path;
mod tagged;
mod tree;
mod words;
mod write;

pub use de::from_node;
pub use error::{LoadError, near_miss, suggestion};
pub use path::{Path, Segment, assignment};
pub use tree::{Entry, Node, Origin, SourceId, Sources, Table, Value, parse};
pub use write::{to_inline, to_toml};
