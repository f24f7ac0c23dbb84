//! The engine of rocesim. It knows no networking.
//!
//! - [`time`]: [`Time`] (instant) and [`Delta`] (span), integer picoseconds
//! - [`units`]: [`Bytes`] and [`Rate`]; how quantities are read from and written to text
//! - [`rng`]: one reproducible random stream per stochastic component
//! - [`agenda`]: the future event list
//! - [`engine`]: [`Model`], and the loop that runs one or several shards of it in parallel
//! - [`fingerprint`]: a 64-bit digest that two equal runs share

pub mod agenda;
pub mod engine;
pub mod fingerprint;
mod prefetch;
pub mod rng;
pub mod time;
pub mod units;
mod wheel;

pub use agenda::{Agenda, Code};
pub use engine::{Conductor, Control, Engine, Limits, Model, Step, Stop};
pub use fingerprint::Fingerprint;
pub use prefetch::prefetch;
pub use time::{Delta, Time};
pub use units::{Bytes, PacketRate, ParseUnitError, Rate};
