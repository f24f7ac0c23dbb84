//! `kind = "program"` of `[[traffic]]`: what ranks do is in a file of another tool.
//!
//! - `config`: its keys
//! - `schedule`: a GOAL schedule, made ready to be run; `script`: as scripts of its ranks
//!
//! An MSCCL algorithm is run as a collective: see [`crate::collective::msccl`].

mod config;
mod schedule;
mod script;

pub use config::{Content, ProgramConfig};
pub use schedule::{Line, Schedule, Task, Work};
pub use script::Scheduled;
