//! Scenarios: the files that say what is simulated, and everything that is done with them.
//!
//! - [`load`]: TOML as a tree that remembers where each key came from; errors that name the line
//! - [`schema`]: the keys of a scenario
//! - [`library`]: built-in scenarios and presets
//! - [`provenance`]: where the figures of presets come from
//! - [`resolve`]: file, presets, `--set` and overrides become one checked [`resolve::Loaded`]
//! - [`init`]: a commented scenario from a few numbers
//! - [`simulate`]: runs it: estimate, progress, report
//! - [`quick`]: simulates the beginning of a long collective, and extrapolates the rest
//! - [`clinic`]: scenarios that begin with a symptom, and what cures it
//! - [`check`], [`diagnose`]: what can be said before and after a run
//! - [`expect`]: what must hold after a run (the section `[expect]`)
//! - [`sensitivity`]: the assumed figures that an answer depends on
//! - [`text`], [`output`]: what a person reads; the run directory
//! - [`pause_tree`]: who paused whom, in text
//! - [`seeds`]: the same scenario over several seeds
//! - [`study`]: the same scenario at many points of a space of settings, and what is best there
//! - [`sweep`], [`collectives`], [`nccl_tests`]: sizes of a collective, and the table of nccl-tests
//! - [`import`]: other tools' files; [`packed`]: unpacks them

pub mod capture;
pub mod check;
pub mod clinic;
pub mod collectives;
pub mod diagnose;
pub mod expect;
pub mod import;
pub mod init;
pub mod keys;
pub mod library;
pub mod load;
pub mod nccl_tests;
pub mod output;
pub mod packed;
pub mod pause_tree;
mod programs;
pub mod provenance;
pub mod quick;
pub mod resolve;
pub mod schema;
pub mod seeds;
pub mod sensitivity;
pub mod simulate;
pub mod stats;
pub mod study;
pub mod sweep;
pub mod text;
mod trainings;
