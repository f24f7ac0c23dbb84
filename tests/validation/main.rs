//! rocesim against what it did not write: other simulators, switches, theory. Each test computes
//! one section of `docs/validation.md`, holds its rows to their tolerances, and holds the file to
//! what it computed. `ROCESIM_WRITE_VALIDATION=1 cargo test --release --test validation` writes
//! the file anew.

mod calibrate;
mod collapse;
#[path = "../common/mod.rs"]
mod common;
mod deadlock;
mod ecmp;
mod fluid;
mod hardware;
mod htsim;
#[path = "../../benches/matrices/mod.rs"]
mod matrices;
mod nccl_logs;
mod ns3;
mod papers;
mod research;
mod runs;
mod table;
