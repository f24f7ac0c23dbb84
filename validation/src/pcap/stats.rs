//! What is known of a capture. Names and units are those of reports of runs.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a capture has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CaptureStats {
    /// Its file.
    pub file: String,
    /// `pcap` or `pcapng`
    pub format: String,
    /// Frames.
    pub frames: u64,
    /// Their bytes, whether captured or not.
    pub bytes: u64,
    /// Bytes that were captured.
    pub captured_bytes: u64,
    /// From the first frame to the last.
    pub span_s: f64,
    /// Those of RoCEv2.
    pub roce: RoceStats,
    /// PFC frames, and pauses of whole ports.
    pub pause_frames: u64,
    /// Frames of anything else.
    pub other_frames: u64,
    /// Frames of which too little was captured.
    pub short_frames: u64,
    /// Frames whose lengths contradict each other.
    pub malformed_frames: u64,
    /// Times from one packet of a QP to its next; absent if there are none.
    pub gaps: Option<Gaps>,
    /// Pauses, by port and priority.
    pub pauses: Vec<PauseStats>,
    /// By address: what its NIC counts, under mlx5's names.
    pub addresses: BTreeMap<String, AddressStats>,
    /// By QP, those with the most bytes first.
    pub qps: Vec<QpStats>,
    /// Frames of QPs beyond those that are told apart.
    pub frames_of_other_qps: u64,
    /// What was wrong with it, and is no error.
    pub warnings: Vec<String>,
}

/// RoCEv2 in a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RoceStats {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets of SEND, WRITE and responses to READ.
    pub data_packets: u64,
    /// Their payload.
    pub data_bytes: u64,
    /// Frames by opcode.
    pub opcodes: BTreeMap<String, u64>,
    /// Positive acknowledgements.
    pub acks: u64,
    /// Negative ones, by their code.
    pub naks: BTreeMap<String, u64>,
    /// Those of a receiver that was not ready.
    pub rnr_naks: u64,
    /// CNPs.
    pub cnps: u64,
    /// The same over `span_s`.
    pub cnps_per_s: f64,
    /// Frames of an ECN-capable transport.
    pub ecn_capable: u64,
    /// Those of them that are marked (CE).
    pub ecn_marked: u64,
    /// `ecn_marked` / `ecn_capable`
    pub ecn_marked_share: f64,
    /// Data packets that are marked.
    pub ecn_marked_data: u64,
    /// Times that a PSN was ahead of the one expected.
    pub psn_gaps: u64,
    /// PSNs left out by that.
    pub psns_skipped: u64,
    /// Packets that came later and fill such a gap.
    pub late_packets: u64,
    /// Packets whose PSN was seen before.
    pub repeated_packets: u64,
    /// ICRCs.
    pub icrc: Icrc,
}

/// How the ICRCs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Icrc {
    /// Frames whose ICRC is right.
    pub right: u64,
    /// Frames whose ICRC is not.
    pub wrong: u64,
    /// Frames that were not captured whole.
    pub unchecked: u64,
}

/// Times between packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    /// The median, up to 1/64 too long.
    pub p50_s: f64,
    /// The 99th percentile, likewise.
    pub p99_s: f64,
    /// The longest.
    pub max_s: f64,
}

/// The pauses that a port asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PauseStats {
    /// Where that was captured, if the file says it.
    pub interface: Option<String>,
    /// The port that asks.
    pub sender: String,
    /// The priority; absent: the whole port.
    pub priority: Option<u8>,
    /// Frames that pause.
    pub xoff_frames: u64,
    /// Frames that let go on.
    pub xon_frames: u64,
    /// Pauses that began.
    pub episodes: u64,
    /// Time paused: until XON, or until the quanta are over if the rate is known.
    pub paused_s: f64,
    /// The last one has not ended.
    pub open: bool,
}

/// What the NIC of an address counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AddressStats {
    /// RoCEv2 frames from it.
    pub tx_packets: u64,
    /// RoCEv2 frames to it.
    pub rx_packets: u64,
    /// Data packets from it.
    pub data_packets: u64,
    /// Those of them that were sent again, as far as that shows.
    pub retransmitted_packets: u64,
    /// NAKs of a sequence error from it.
    pub out_of_sequence: u64,
    /// NAKs of a sequence error to it.
    pub packet_seq_err: u64,
    /// CNPs from it.
    pub np_cnp_sent: u64,
    /// CNPs to it, whether handled or ignored.
    pub rp_cnp_received: u64,
    /// Marked data packets to it.
    pub np_ecn_marked_roce_packets: u64,
}

/// What goes to one QP.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QpStats {
    /// `in`, `out`, or absent if the file does not say which way it goes.
    pub way: Option<&'static str>,
    /// Who sends.
    pub source: String,
    /// Who receives.
    pub target: String,
    /// The QP there.
    pub qp: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes of frames.
    pub bytes: u64,
    /// Packets of SEND, WRITE and responses to READ.
    pub data_packets: u64,
    /// Their payload.
    pub data_bytes: u64,
    /// The first of its packets.
    pub first_s: Option<f64>,
    /// The last of its packets.
    pub last_s: Option<f64>,
    /// `bytes` from the first packet to the last.
    pub throughput_bps: f64,
    /// Packets by opcode.
    pub opcodes: BTreeMap<String, u64>,
    /// Times that a PSN was ahead of the one expected.
    pub psn_gaps: u64,
    /// PSNs left out by that.
    pub psns_skipped: u64,
    /// Packets that came later and fill such a gap.
    pub late_packets: u64,
    /// Packets whose PSN was seen before.
    pub repeated_packets: u64,
    /// Positive acknowledgements.
    pub acks: u64,
    /// Negative ones, by their code.
    pub naks: BTreeMap<String, u64>,
    /// Those of a receiver that was not ready.
    pub rnr_naks: u64,
    /// Packets of an ECN-capable transport.
    pub ecn_capable: u64,
    /// Those of them that are marked.
    pub ecn_marked: u64,
    /// The longest time between two packets.
    pub max_gap_s: f64,
}

/// Picoseconds as seconds.
pub(super) fn seconds(ps: i128) -> f64 {
    ps as f64 / 1e12
}

/// `02:00:00:00:00:01`
pub(super) fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
