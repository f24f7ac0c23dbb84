//! What perftest (`ib_write_bw`, `ib_read_lat` and the like) measured between two hosts.

use serde::{Deserialize, Serialize};

use crate::curve::Warning;

/// One run of a program of perftest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Perftest {
    /// The file.
    pub source: String,
    /// The line on which it begins, from 1.
    pub line: u64,
    /// Its name as the file has it: `RDMA_Write BW`.
    pub test: Option<String>,
    /// Both hosts sent: bandwidths are sums of both ways.
    pub bidirectional: bool,
    /// Device of verbs: `mlx5_0`.
    pub device: Option<String>,
    /// QPs.
    pub qps: Option<u32>,
    /// `RC`
    pub connection: Option<String>,
    /// Path MTU in bytes.
    pub mtu_bytes: Option<u64>,
    /// `Ethernet` or `IB`.
    pub link_type: Option<String>,
    /// Index of the address.
    pub gid_index: Option<u32>,
    /// Two ports were used.
    pub dual_port: Option<bool>,
    /// Messages under way on a QP at most.
    pub tx_depth: Option<u32>,
    /// In the order of the file.
    pub rows: Vec<PerftestRow>,
    /// What was damaged, left out or assumed.
    pub warnings: Vec<Warning>,
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerftestRow {
    /// From 1.
    pub line: u64,
    /// Payload of a message.
    pub bytes: u64,
    /// Messages.
    pub iterations: u64,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Speed,
}

/// What one size gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Speed {
    /// Of a `_bw` program.
    Bandwidth(Bandwidth),
    /// Of a `_lat` program.
    Latency(Latency),
}

/// Payload over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// The best of any two completions; absent if it was not asked for.
    pub peak_bps: Option<f64>,
    /// Over the whole run.
    pub average_bps: f64,
    /// Messages per second.
    pub messages_per_s: Option<f64>,
}

/// One way of WRITE and SEND (half a round trip), the whole round trip of READ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The shortest; absent in runs of a set duration, as all but the mean.
    pub min_s: Option<f64>,
    /// The longest.
    pub max_s: Option<f64>,
    /// The median.
    pub typical_s: Option<f64>,
    /// The mean.
    pub average_s: Option<f64>,
    /// Standard deviation.
    pub stdev_s: Option<f64>,
    /// 99 % take at most this.
    pub p99_s: Option<f64>,
    /// 99.9 % take at most this.
    pub p999_s: Option<f64>,
}

impl Perftest {
    /// The row with the highest mean bandwidth.
    pub fn best_bandwidth(&self) -> Option<(u64, Bandwidth)> {
        let of = |row: &PerftestRow| match row.measured {
            Speed::Bandwidth(bandwidth) => Some((row.bytes, bandwidth)),
            Speed::Latency(_) => None,
        };
        let rows = self.rows.iter().filter_map(of);
        rows.max_by(|a, b| a.1.average_bps.total_cmp(&b.1.average_bps))
    }
}
