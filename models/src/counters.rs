//! What is counted, always.

use crate::ids::PRIORITIES;

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// Lossless priority group over its limit, headroom full.
    IngressHeadroomFull,
    /// Lossy priority group over its limit.
    IngressLossyLimit,
    /// Lossy egress queue over its limit.
    EgressLossyLimit,
    /// Lossless egress queue over the limit that it was given.
    EgressLosslessLimit,
    /// Receive buffer of a NIC full.
    NicReceiveFull,
    /// Lost or corrupted on the link.
    Corrupt,
    /// Time to live used up.
    Ttl,
    /// No next hop.
    NoRoute,
    /// The link is down.
    LinkDown,
    /// Discarded by a PFC watchdog.
    Watchdog,
    /// Dropped by a rule that a fault lays on a cable.
    DropRule,
    /// More frames than the pipeline of a switch can forward, and its buffer is full.
    PacketRate,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 12] = [
        DropReason::IngressHeadroomFull,
        DropReason::IngressLossyLimit,
        DropReason::EgressLossyLimit,
        DropReason::EgressLosslessLimit,
        DropReason::NicReceiveFull,
        DropReason::Corrupt,
        DropReason::Ttl,
        DropReason::NoRoute,
        DropReason::LinkDown,
        DropReason::Watchdog,
        DropReason::DropRule,
        DropReason::PacketRate,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::IngressHeadroomFull => "ingress_headroom_full",
            DropReason::IngressLossyLimit => "ingress_lossy_limit",
            DropReason::EgressLossyLimit => "egress_lossy_limit",
            DropReason::EgressLosslessLimit => "egress_lossless_limit",
            DropReason::NicReceiveFull => "nic_receive_full",
            DropReason::Corrupt => "corrupt",
            DropReason::Ttl => "ttl",
            DropReason::NoRoute => "no_route",
            DropReason::LinkDown => "link_down",
            DropReason::Watchdog => "watchdog",
            DropReason::DropRule => "drop_rule",
            DropReason::PacketRate => "packet_rate",
        }
    }
}

/// Counters of one port, beside those of bytes and frames.
#[derive(Clone, Debug, Default)]
pub struct PortCounters {
    /// XOFF frames received, by priority.
    pub rx_pause: [u32; PRIORITIES],
    /// XOFF frames sent, by priority.
    pub tx_pause: [u32; PRIORITIES],
    /// XON frames sent, by priority.
    pub tx_resume: [u32; PRIORITIES],
    /// Marks set here, by queue; a frame that was marked before counts again.
    pub ecn_marked: [u32; PRIORITIES],
    /// Frames that were dropped on arrival here, by reason.
    pub drops: [u32; DropReason::ALL.len()],
    /// Those of them that were in a lossless class and found no buffer.
    pub lossless_drops: u32,
}

/// Counters of a host, under mlx5's names where it has one.
#[derive(Clone, Copy, Debug, Default)]
pub struct NicCounters {
    /// Marked data packets received.
    pub np_ecn_marked_roce_packets: u64,
    /// CNPs sent.
    pub np_cnp_sent: u64,
    /// CNPs (or echoes) received and acted on.
    pub rp_cnp_handled: u64,
    /// CNPs (or echoes) received without effect.
    pub rp_cnp_ignored: u64,
    /// Requester: NAKs received.
    pub packet_seq_err: u64,
    /// Responder: NAKs sent.
    pub out_of_sequence: u64,
    /// Responder: packets received again.
    pub duplicate_request: u64,
    /// Requester: time-outs.
    pub local_ack_timeout_err: u64,
    /// Requester: QPs that failed.
    pub req_transport_retries_exceeded: u64,
    /// Data packets sent, retransmissions included.
    pub data_packets: u64,
    /// Data packets sent again.
    pub retransmitted_packets: u64,
    /// TCP: segments that were found missing and sent again at once, as Linux counts them,
    pub tcp_fast_retrans: u64,
    /// and time-outs.
    pub tcp_timeouts: u64,
}

impl NicCounters {
    /// Adds another host's.
    pub fn add(&mut self, other: &NicCounters) {
        self.np_ecn_marked_roce_packets += other.np_ecn_marked_roce_packets;
        self.np_cnp_sent += other.np_cnp_sent;
        self.rp_cnp_handled += other.rp_cnp_handled;
        self.rp_cnp_ignored += other.rp_cnp_ignored;
        self.packet_seq_err += other.packet_seq_err;
        self.out_of_sequence += other.out_of_sequence;
        self.duplicate_request += other.duplicate_request;
        self.local_ack_timeout_err += other.local_ack_timeout_err;
        self.req_transport_retries_exceeded += other.req_transport_retries_exceeded;
        self.data_packets += other.data_packets;
        self.retransmitted_packets += other.retransmitted_packets;
        self.tcp_fast_retrans += other.tcp_fast_retrans;
        self.tcp_timeouts += other.tcp_timeouts;
    }
}
