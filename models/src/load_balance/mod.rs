//! How a switch chooses among equal next hops.

mod ecmp;

pub use ecmp::{Ecmp, EcmpConfig, EcmpFunction, EcmpSeed, FiveTuple, HashField};
