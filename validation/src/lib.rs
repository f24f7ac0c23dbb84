//! Comparison of rocesim with measurements and with other simulators.
//!
//! [`read_run`] reads what rocesim or ns-3 wrote about a finished run; [`compare_runs`] says how
//! far two of them are apart, and its result prints itself as tables. [`compare_flows`] compares
//! completion times alone.
//!
//! [`read_measured`] reads what an operator's switches and NICs have counted; [`diagnose`] says what
//! that points to.
//!
//! [`read_capture`] counts what is in a capture of packets.

mod compare;
mod counters;
mod error;
pub mod pcap;
mod read;
mod run;
mod symptoms;
mod table;

pub use compare::{
    Comparison, FlowError, Item, Measure, Pair, RunComparison, Sample, SeriesComparison, SizeBin,
    SlowdownPercentiles, Summary, compare_flows, compare_runs,
};
pub use counters::{Counter, Counters, Measured, Source, Value};
pub use error::ReadError;
pub use pcap::{CaptureStats, read_capture};
pub use read::{Ns3Flow, read_fct, read_measured, read_report, read_run};
pub use run::{Collective, Flow, Port, Run, Series, Totals, Writer};
pub use symptoms::{Diagnosis, Example, Setting, Symptom, diagnose, examples};
