//! `measurement.json`: what a replay on real machines has measured. Its collectives are those of
//! `report.json`, so that whatever reads a run reads a measurement.

use std::collections::{BTreeMap, BTreeSet};

use models::report::CollectiveReport;
use serde::{Deserialize, Serialize};

use crate::curve::Table;

/// Version of the layout.
pub const MEASUREMENT_SCHEMA: u32 = 1;

/// `measurement.json`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Version of this layout.
    pub measurement: u32,
    /// Version of the program.
    pub rocesim: String,
    /// The commit that it was built from, as in `report.json`.
    #[serde(default)]
    pub commit: String,
    /// Title or name of the scenario.
    pub scenario: String,
    /// What carried the data.
    pub transport: TransportReport,
    /// Digest of the programs and settings, the same for all ranks.
    pub digest: String,
    /// One for each size: `time_s` is the mean over ranks and iterations.
    pub collectives: Vec<CollectiveReport>,
    /// More about each size, in the same order.
    pub sizes: Vec<SizeReport>,
    /// By rank: its machine, its device, its counters.
    pub ranks: Vec<RankMeasurement>,
    /// What a reader should know, such as that time was virtual.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What carried the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TransportReport {
    /// Kernel TCP.
    Tcp,
    /// RC QPs of RoCEv2.
    Rdma {
        /// Traffic class of data,
        traffic_class: u8,
        /// and of CTS messages.
        fifo_traffic_class: u8,
        /// Local ACK timeout: 4.096 us x 2^timeout.
        timeout: u8,
        /// Retransmissions without progress before a QP fails.
        retry_cnt: u8,
        /// Data by WRITE, told of by an empty WRITE WITH IMMEDIATE.
        adaptive_routing: bool,
    },
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeReport {
    /// Size of the buffer.
    pub bytes: u64,
    /// Repetitions that were not timed.
    pub warmup: u32,
    /// By rank: time of one repetition, the mean over all that were timed.
    pub time_by_rank_s: Vec<f64>,
    /// Of all ranks: the shortest and the longest single repetition.
    pub shortest_s: f64,
    /// See `shortest_s`.
    pub longest_s: f64,
    /// Wrong elements of all ranks; absent if the result was not checked.
    pub wrong: Option<u64>,
    /// Of the last repetition of rank 0: steps of its lanes, the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<LaneTimes>,
}

/// Steps of a lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneTimes {
    /// The lane,
    pub lane: u32,
    /// and its channel.
    pub channel: u32,
    /// Steps of its program.
    pub steps: u64,
    /// Begin and end of the first ones, in seconds since the repetition began.
    pub begin_end_s: Vec<[f64; 2]>,
}

/// What a rank tells of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankMeasurement {
    /// Its number.
    pub rank: u32,
    /// The machine.
    pub machine: Machine,
    /// The RDMA device; absent with TCP.
    pub device: Option<DeviceReport>,
    /// What was counted.
    pub counters: CounterReport,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// Process of the rank.
    pub pid: u32,
    /// `Linux 6.1.0`
    pub kernel: String,
    /// Model of the processor; empty if it is not told.
    pub cpu: String,
    /// Processors that this process may use.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// It is a virtual machine.
    pub virtual_machine: bool,
}

/// An RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// `mlx5_0`
    pub name: String,
    /// Port, from 1.
    pub port: u8,
    /// Driver, such as `mlx5_core` or `rdma_rxe`; empty if it is not told.
    pub driver: String,
    /// Firmware; empty if it is not told.
    pub firmware: String,
    /// Board, such as `MT_0000000359`; empty if it is not told.
    pub board: String,
    /// `100 Gb/sec (4X EDR)`
    pub rate: String,
    /// Bytes of payload of a packet.
    pub active_mtu: u32,
    /// Index of the GID that was used,
    pub gid_index: u32,
    /// and the GID.
    pub gid: String,
    /// The network device of the port.
    pub netdev: String,
}

/// Counters over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterReport {
    /// Before the first size, after each size (`134217728 B`).
    pub samples: Vec<CounterSample>,
    /// Settings in force, such as DCQCN's: by path.
    pub settings: BTreeMap<String, String>,
    /// Sources that this machine does not have: paths or commands.
    pub absent: Vec<String>,
}

/// Counters at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterSample {
    /// `before`, or what has just been run.
    pub when: String,
    /// Seconds since the first sample.
    pub at_s: f64,
    /// By source (`hw_counters`, `counters`, `ethtool`, `netdev`, `tcp`) and name.
    pub values: BTreeMap<String, BTreeMap<String, u64>>,
}

const RETRANSMITTED: &str = "RetransSegs";
/// Counters that say that something was lost, or sent again (mlx5, rdma_rxe, the kernel's TCP).
const TELLING: [[&str; 2]; 15] = [
    ["hw_counters", "out_of_sequence"],
    ["hw_counters", "packet_seq_err"],
    ["hw_counters", "implied_nak_seq_err"],
    ["hw_counters", "local_ack_timeout_err"],
    ["hw_counters", "duplicate_request"],
    ["hw_counters", "out_of_buffer"],
    ["hw_counters", "rnr_nak_retry_err"],
    ["hw_counters", "np_ecn_marked_roce_packets"],
    ["hw_counters", "np_cnp_sent"],
    ["hw_counters", "rp_cnp_handled"],
    ["hw_counters", "out_of_seq_request"],
    ["hw_counters", "rcvd_seq_err"],
    ["hw_counters", "completer_retry_err"],
    ["hw_counters", "rcvd_rnr_err"],
    ["tcp", RETRANSMITTED],
];

impl CounterReport {
    /// What was counted between the first sample and the last one, by source and name.
    pub fn differences(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return BTreeMap::new();
        };
        let mut all = last.values.clone();
        for (source, values) in &mut all {
            let before = first.values.get(source);
            for (name, value) in values {
                let earlier = before.and_then(|before| before.get(name)).copied().unwrap_or(0);
                *value = value.saturating_sub(earlier);
            }
        }
        all
    }
}

impl Measurement {
    /// Where it was measured, over what, and what was counted, in a few lines.
    pub fn description(&self) -> String {
        let over = match &self.transport {
            TransportReport::Tcp => "kernel TCP".to_owned(),
            TransportReport::Rdma { traffic_class, timeout, retry_cnt, .. } => format!(
                "RDMA, traffic class {traffic_class} (DSCP {}), timeout {timeout}, retry_cnt {retry_cnt}",
                traffic_class >> 2
            ),
        };
        let mut text = format!("replay of {} over {over}\n", self.scenario);
        for RankMeasurement { rank, machine, device, .. } in &self.ranks {
            let Machine { host, kernel, cpu, cpus, .. } = machine;
            text += &format!("  rank {rank:<3} {host}, {kernel}, {cpus} x {cpu}");
            if let Some(device) = device {
                let DeviceReport { name, port, rate, active_mtu, gid_index, gid, .. } = device;
                text +=
                    &format!("; {name}/{port}, {rate}, MTU {active_mtu}, GID {gid_index} {gid}");
            }
            text += "\n";
        }
        let counted = self.summary();
        text + &counted.lines().map(|line| format!("  {line}\n")).collect::<String>()
    }

    /// What was lost and sent again, and what a reader should know, in words.
    pub fn summary(&self) -> String {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for rank in &self.ranks {
            for (source, values) in rank.counters.differences() {
                for name in TELLING.iter().filter(|name| source == name[0]) {
                    let value = values.get(name[1]).copied().unwrap_or(0);
                    *sums.entry(name[1].to_owned()).or_default() += value;
                }
            }
        }
        // kernel counters of TCP are those of the machine: once for each host
        if let Some(sum) = sums.get_mut(RETRANSMITTED) {
            let ranks = self.ranks.len() as u64;
            let hosts: BTreeSet<&str> =
                self.ranks.iter().map(|rank| rank.machine.host.as_str()).collect();
            *sum = *sum * hosts.len() as u64 / ranks.max(1);
        }
        let counted = sums.iter().filter(|(_, value)| **value > 0);
        let counted: Vec<String> = counted.map(|(name, value)| format!("{name} {value}")).collect();
        let mut text = match counted.is_empty() {
            true => "counters: nothing was lost or sent again".to_owned(),
            false => format!("counters: {}", counted.join(", ")),
        };
        for note in &self.notes {
            text += &format!("\nnote: {note}");
        }
        text
    }

    /// Its tables, one for each operation.
    pub fn tables(&self, source: &str) -> Vec<Table> {
        let mut tables = Table::of_reports(source, &self.collectives);
        for row in tables.iter_mut().flat_map(|table| &mut table.rows) {
            let size = self.sizes.iter().find(|size| size.bytes == row.bytes);
            if let Some((timing, size)) = row.out_of_place.as_mut().zip(size) {
                timing.wrong = size.wrong.map(|wrong| wrong as f64);
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_those_of_the_ends() {
        let sample = |when: &str, value: u64| CounterSample {
            when: when.to_owned(),
            at_s: 0.0,
            values: BTreeMap::from([(
                "hw_counters".to_owned(),
                BTreeMap::from([("rcvd_seq_err".to_owned(), value)]),
            )]),
        };
        let samples = vec![sample("before", 5), sample("1024 B", 6), sample("2048 B", 9)];
        let report = CounterReport { samples, ..CounterReport::default() };
        assert_eq!(report.differences()["hw_counters"]["rcvd_seq_err"], 4);
        assert!(CounterReport::default().differences().is_empty());
    }
}
