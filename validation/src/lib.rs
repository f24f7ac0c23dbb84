//! Comparison of rocesim with measurements and with other simulators.
//!
//! [`read_run`] reads what rocesim or ns-3 wrote about a finished run; [`compare_runs`] says how
//! far two of them are apart, and its result prints itself as tables. [`compare_flows`] compares
//! completion times alone.
//!
//! [`read_measured`] reads what an operator's switches and NICs have counted; [`diagnose`] says what
//! that points to.
//!
//! [`read_tables`] reads curves over sizes: what nccl-tests, a replay or a run of rocesim measured.
//!
//! [`calibrate`] fits a scenario to such curves.
//!
//! [`read_capture`] counts what is in a capture of packets.

pub mod calibrate;
mod compare;
mod counters;
mod curve;
mod curve_table;
mod error;
mod measurement;
pub mod pcap;
mod perftest;
mod read;
pub mod replay;
mod run;
mod symptoms;
mod table;
pub mod verbs;

pub use compare::{
    Comparison, FlowError, Item, LossSign, Measure, Pair, RunComparison, Sample, SeriesComparison,
    Shape, ShapeKind, SizeBin, SizeComparison, SizePair, SlowdownPercentiles, Summary,
    compare_flows, compare_runs, compare_sizes,
};
pub use counters::{Counter, Counters, Measured, Source, Value};
pub use curve::{Row, Table, Timing, Warning};
pub use error::ReadError;
pub use measurement::{
    CounterReport, CounterSample, DeviceReport, LaneTimes, MEASUREMENT_SCHEMA, Machine,
    Measurement, RankMeasurement, SizeReport, TransportReport,
};
pub use pcap::{CaptureStats, read_capture};
pub use perftest::{Bandwidth, Latency, Perftest, PerftestRow, Speed};
pub use read::{
    Ns3Flow, Reading, read_any, read_any_bytes, read_fct, read_measured, read_measured_tables,
    read_report, read_run, read_tables,
};
pub use run::{Collective, Flow, Port, Run, Series, Totals, Writer};
pub use symptoms::{Diagnosis, Example, Setting, Symptom, diagnose, examples};
