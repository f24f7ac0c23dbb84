//! The result of a run, as typed values that serialise to `report.json`.
//!
//! Units stand in the names: `_s` seconds, `_bytes`, `_bps` bits per second.

mod collective;
mod deadlock;
mod ideal;
mod make;
mod name;
mod pauses;
mod program;
mod queues;
mod series;
mod sizes;
pub mod stats;
mod steps;
mod timeline;
mod training;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::switch::{StormFrames, WatchdogAction};

pub use collective::planned;
pub use make::{make, make_with};
pub use name::Name;
pub use pauses::{Held, PauseEdge, PauseRoot, PauseRow, PauseTree, Pauses, Root, RootKind};
pub use program::ProgramReport;
pub use queues::QueueReport;
pub use series::{FlowSeries, PortSeries, Series, series};
pub use sizes::{SlowdownReport, size_bin};
pub use steps::{Arrow, LaneSteps, QpMessages, Step, Steps, steps};
pub use timeline::LaneSpan;
pub use training::{CommunicatorReport, RankReport, StepReport, StragglerReport, TrainingReport};

/// Version of the layout of `report.json`.
pub const SCHEMA: u32 = 1;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// As planned.
    Completed,
    /// Nothing but PFC moves any more.
    Deadlock,
    /// Some QP used up its retries.
    QpError,
    /// `stop.limit` or the wall-clock limit.
    TimeLimit,
    /// By the user.
    Interrupted,
    /// Nothing is left to happen, but some flow is unfinished (a loss without a timer).
    Stalled,
}

/// A preset that a scenario names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresetReport {
    /// The key that names it, such as `nic.congestion.preset`.
    pub key: String,
    /// Its name.
    pub name: String,
    /// A digest of its text: another one means other figures.
    pub version: String,
}

/// `report.json`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    /// Version of the program.
    pub rocesim: String,
    /// The commit that it was built from, with a `+` if files had been changed since; empty if that is
    /// not known.
    #[serde(default)]
    pub commit: String,
    /// The presets that the scenario names, in the order in which the last one wins.
    #[serde(default)]
    pub presets: Vec<PresetReport>,
    /// Title or name of the scenario.
    pub scenario: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// How the run ended.
    pub outcome: OutcomeKind,
    /// Simulated time at the end.
    pub simulated_time_s: f64,
    /// Digest of completions and counters.
    pub fingerprint: String,
    /// The only part that may differ between repeats.
    pub performance: Performance,
    /// Frames that left a port.
    pub packet_hops: u64,
    /// One per message of point traffic, one per QP of collectives.
    pub flows: Vec<FlowReport>,
    /// Slowdown of point traffic by the size of flows: of all of it, then of each traffic section
    /// that has a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowdown_by_size: Vec<SlowdownReport>,
    /// Lengths of the queues of switch ports; absent if none was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<QueueReport>,
    /// One per collective and size.
    #[serde(default)]
    pub collectives: Vec<CollectiveReport>,
    /// One per training job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trainings: Vec<TrainingReport>,
    /// One per GOAL schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramReport>,
    /// One per port.
    pub ports: Vec<PortReport>,
    /// One per NIC port, under mlx5's names.
    pub nics: Vec<NicReport>,
    /// Sums.
    pub totals: Totals,
    /// Queues that a PFC watchdog found stormed: what `show pfcwd stats` tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pfc_wd: Vec<WatchdogReport>,
    /// Pauses that had not ended.
    pub open_pauses: Vec<OpenPause>,
    /// Who paused whom, and where that began.
    #[serde(default, skip_serializing_if = "PauseTree::is_empty")]
    pub pauses: PauseTree,
    /// Cycles that cannot progress.
    pub deadlocks: Vec<DeadlockReport>,
    /// The diagnosis, worst first.
    pub findings: Vec<Finding>,
    /// Figures of presets that nobody vouches for and that this answer depends on.
    #[serde(default)]
    pub assumed: Vec<AssumedFigure>,
}

/// A figure of a preset that is assumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssumedFigure {
    /// Its key in a scenario.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What happened in the run that makes it matter.
    pub because: String,
}

/// What the run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// Wall-clock time.
    pub wall_time_s: f64,
    /// CPU time of all threads.
    pub cpu_time_s: f64,
    /// CPU time of trying remedies, beside that.
    #[serde(default)]
    pub remedies_cpu_time_s: f64,
    /// Events handled.
    pub events: u64,
    /// Frames that left a port.
    pub packet_hops: u64,
    /// Per CPU second.
    pub packet_hops_per_cpu_s: f64,
    /// Peak resident memory of the process.
    pub peak_rss_bytes: u64,
    /// Shards that ran in parallel.
    pub threads: usize,
}

impl Performance {
    /// Adds what another run, before or beside this one, has cost.
    pub fn add(&mut self, other: &Performance) {
        self.wall_time_s += other.wall_time_s;
        self.cpu_time_s += other.cpu_time_s;
        self.events += other.events;
        self.packet_hops += other.packet_hops;
        self.packet_hops_per_cpu_s = self.packet_hops as f64 / self.cpu_time_s.max(1e-9);
        self.peak_rss_bytes = self.peak_rss_bytes.max(other.peak_rss_bytes);
        self.threads = self.threads.max(other.threads);
    }
}

/// One collective of one size. GB/s are 10^9 bytes per second, as in nccl-tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveReport {
    /// Name of its traffic section.
    pub name: String,
    /// `all_reduce`
    pub op: String,
    /// `Ring`
    pub algorithm: String,
    /// `Simple`
    pub protocol: String,
    /// Rank that it comes from or goes to; absent where there is none.
    #[serde(default)]
    pub root: Option<u32>,
    /// Time that NCCL's tuning model gives for this algorithm and protocol; absent if it was not
    /// asked.
    #[serde(default)]
    pub model_time_s: Option<f64>,
    /// What else it might have taken, with times: `Ring LL 80.2 us, Tree LL 95.1 us`.
    #[serde(default)]
    pub alternatives: Option<String>,
    /// Hosts that take part.
    pub nodes: u32,
    /// GPUs that take part.
    pub ranks: u32,
    /// Channels.
    pub channels: u32,
    /// QPs that carry its data.
    pub qps: u32,
    /// Type of the elements.
    pub dtype: String,
    /// Elements, as nccl-tests counts them.
    pub count: u64,
    /// Size of the buffer, as nccl-tests counts it.
    pub bytes: u64,
    /// Timed repetitions.
    pub iterations: u32,
    /// Time of one repetition; absent if it did not end.
    pub time_s: Option<f64>,
    /// `bytes` / `time_s`.
    pub algbw_gbytes_per_s: Option<f64>,
    /// `algbw` times the factor of the operation: 2(n - 1)/n for AllReduce.
    pub busbw_gbytes_per_s: Option<f64>,
    /// `completed`, `unfinished` or `qp_error`.
    pub status: FlowStatus,
    /// Bytes that went over NVLink in its run.
    pub nvlink_bytes: u64,
    /// Share of their time in which its lanes waited for data to come.
    pub waiting_to_receive: f64,
    /// Share in which they waited for room to send.
    pub waiting_to_send: f64,
    /// Only a part was simulated: `time_s` and the bandwidths are extrapolated, all else is of
    /// that part.
    #[serde(default)]
    pub extrapolated: bool,
    /// Of an extrapolated one: what `busbw` may be off by, as a share of it,
    #[serde(default)]
    pub estimated_error: Option<f64>,
    /// and the share of its steps that was simulated, in all runs that it took.
    #[serde(default)]
    pub simulated_share: Option<f64>,
}

impl FlowReport {
    /// Whether it is one of point traffic.
    pub fn is_point(&self) -> bool {
        self.collective.is_none() && self.training.is_none() && self.program.is_none()
    }
}

/// Where a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowStatus {
    /// All acknowledged.
    Completed,
    /// Without end, by intent.
    Unlimited,
    /// It had not started.
    Pending,
    /// Not all acknowledged.
    Unfinished,
    /// Its QP used up its retries.
    QpError,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Number.
    pub id: u32,
    /// Sending host.
    pub source: Name,
    /// Receiving host.
    pub target: Name,
    /// Name of its traffic section; absent if that has none, and for QPs of collectives, training
    /// jobs and schedules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Name>,
    /// Index of the collective whose QP it is, among those of its run; absent for point traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<u32>,
    /// Index of the training job whose QP it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<u32>,
    /// Index of the GOAL schedule whose QP it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<u32>,
    /// UDP source port.
    pub source_port: u16,
    /// Priority of its data at the NIC.
    pub priority: u8,
    /// Size; absent for unlimited flows.
    pub bytes: Option<u64>,
    /// When it started.
    pub start_s: Option<f64>,
    /// From start to the last payload byte at the receiver.
    pub fct_s: Option<f64>,
    /// From start to the last ACK back at the sender.
    pub acked_s: Option<f64>,
    /// `fct_s` were it alone.
    pub ideal_fct_s: Option<f64>,
    /// `fct_s` / `ideal_fct_s`.
    pub slowdown: Option<f64>,
    /// Payload delivered in the whole run.
    pub delivered_bytes: u64,
    /// Payload delivered in the measured window.
    pub measured_bytes: u64,
    /// `measured_bytes` over the part of the window in which the flow ran.
    pub goodput_bps: f64,
    /// Where it stands.
    pub status: FlowStatus,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Packets that came after a later one, the first time that they were sent.
    #[serde(default)]
    pub reordered_packets: u64,
    /// Share of its time, from `start_s` to its last byte, in which a queue on its way was paused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paused_share: f64,
    /// The part of that which is due to pauses that began where its data does not go.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub victim_share: f64,
    /// Where most of these pauses began: of a victim, most of those that began elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<Name>,
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortReport {
    /// Its node.
    pub node: Name,
    /// `leaf0:33`, `host3/nic0`.
    pub port: Name,
    /// The port at the other end.
    pub peer: Name,
    /// Link rate.
    pub rate_bps: u64,
    /// L2 bytes sent.
    pub tx_bytes: u64,
    /// L2 bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Frames marked as they were sent.
    pub ecn_marked_packets: u64,
    /// XOFF frames received.
    pub rx_pause_frames: u64,
    /// XOFF frames sent.
    pub tx_pause_frames: u64,
    /// Pauses that began.
    pub pause_episodes: u64,
    /// Time paused, summed over priorities.
    pub paused_s: f64,
    /// Greatest depth of any queue.
    pub max_queue_bytes: u64,
    /// Time-weighted mean of all queues together, in the measured window.
    pub mean_queue_bytes: f64,
    /// Frames dropped on arrival, by reason.
    pub drops: BTreeMap<String, u64>,
    /// The priorities in use.
    pub priorities: Vec<PriorityReport>,
}

/// One priority of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriorityReport {
    /// 0 to 7.
    pub priority: u8,
    /// XOFF frames received.
    pub rx_pause_frames: u64,
    /// XOFF frames sent.
    pub tx_pause_frames: u64,
    /// XON frames sent.
    pub tx_resume_frames: u64,
    /// Pauses that began.
    pub pause_episodes: u64,
    /// Time paused.
    pub paused_s: f64,
    /// Greatest depth.
    pub max_queue_bytes: u64,
    /// Time-weighted mean in the measured window.
    pub mean_queue_bytes: f64,
    /// Frames marked as they were sent.
    pub ecn_marked_packets: u64,
}

/// Counters of a NIC port that counted anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicReport {
    /// `host3/nic0`
    pub port: String,
    /// mlx5's names.
    pub counters: BTreeMap<String, u64>,
}

/// Sums over the fabric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Data packets sent, retransmissions included.
    pub data_packets: u64,
    /// Frames marked.
    pub ecn_marked_packets: u64,
    /// XOFF frames sent, refreshes included.
    pub pfc_xoff_frames: u64,
    /// XON frames sent.
    pub pfc_xon_frames: u64,
    /// Pauses that began.
    pub pause_episodes: u64,
    /// Time paused, summed over ports and priorities.
    pub paused_s: f64,
    /// CNPs sent.
    pub cnp_sent: u64,
    /// CNPs or echoes that reached a reaction point.
    pub cnp_handled: u64,
    /// NAKs sent.
    pub nak_sent: u64,
    /// Data packets sent again.
    pub retransmitted_packets: u64,
    /// Data packets that came after a later one of their QP, those sent again left out. Counted
    /// where a switch sprays, or a NIC places data out of order.
    #[serde(default)]
    pub reordered_packets: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Frames dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Frames of lossless classes that found no buffer.
    pub lossless_drops: u64,
}

/// A queue that a PFC watchdog found stormed, under SONiC's names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchdogReport {
    /// The switch port.
    pub port: Name,
    /// The device at the other end, which sent the pauses.
    pub peer: Name,
    /// The priority of the pauses.
    pub priority: u8,
    /// The queue that they stop.
    pub queue: u8,
    /// `drop`, `forward` or `alert`.
    pub action: WatchdogAction,
    /// `stormed` at the end of the run, or `operational`.
    pub status: WatchdogStatus,
    /// Storms found.
    pub storm_detected: u64,
    /// Storms that were over.
    pub storm_restored: u64,
    /// Frames during all storms,
    #[serde(flatten)]
    pub total: StormFrames,
    /// and during the last one.
    pub last: StormFrames,
    /// When they were: the first 1000.
    pub storms: Vec<StormReport>,
}

/// Whether a queue is stormed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchdogStatus {
    /// No.
    Operational,
    /// Yes.
    Stormed,
}

/// One storm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StormReport {
    /// When the watchdog found it.
    pub detected_s: f64,
    /// When the watchdog restored the queue; absent if it was not over.
    pub restored_s: Option<f64>,
}

/// A pause that had not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenPause {
    /// The port that may not send.
    pub port: String,
    /// Its priority.
    pub priority: u8,
}

/// A cycle of ports, each of which waits for the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlockReport {
    /// When it was noticed.
    pub time_s: f64,
    /// The ports.
    pub cycle: Vec<String>,
    /// The shortest circle among them, in its order: each waits for the next, the last for the
    /// first.
    #[serde(default)]
    pub chain: Vec<String>,
    /// When that circle closed: when the last of its pauses began.
    #[serde(default)]
    pub closed_s: Option<f64>,
    /// Flows with frames in it.
    pub flows: Vec<u32>,
    /// Bytes that cannot move.
    pub bytes_stuck: u64,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// It costs something, or may.
    Warning,
    /// Something that must not happen.
    Error,
}

/// Something that the diagnosis found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind, for tools: `lossless_drops`.
    pub kind: String,
    /// How bad it is.
    pub severity: Severity,
    /// In plain words.
    pub text: String,
    /// The numbers behind it.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// The setting to change, where that would help.
    pub remedy: Option<String>,
    /// The collective that it is about, as index among those of one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<u32>,
    /// The remedy as assignments for `--set`, where it can be written so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// busbw of that collective (the first if none is named) with the remedy, in GB/s: it was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_busbw_gbytes_per_s: Option<f64>,
}
