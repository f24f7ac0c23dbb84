//! Comparison of rocesim with measurements and with other simulators.
//!
//! [`read_report`] and [`read_fct`] read what rocesim and ns-3 wrote about the same flows;
//! [`compare_flows`] says how far apart they are.

mod compare;
mod error;
mod ns3;
mod report_file;
mod table;

pub use compare::{
    Comparison, FlowError, Pair, SizeBin, SlowdownPercentiles, Summary, compare_flows,
};
pub use error::ReadError;
pub use ns3::{Ns3Flow, read_fct};
pub use report_file::read_report;
