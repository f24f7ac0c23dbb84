//! A frame in flight: small and copied by value.

/// What a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    /// Part of a WRITE; travels from the QP's source to its target.
    Data,
    /// Acknowledges all PSNs up to and including `psn`; travels back.
    Ack,
    /// PSN sequence error: `psn` is the one expected; acknowledges all before it. Travels back.
    Nak,
    /// Congestion notification; travels back.
    Cnp,
    /// Asks for the data of a READ from `psn` on; travels back.
    Read,
    /// Priority flow control: for the next node only. `arg` holds the quanta, `queue` the priority.
    Pfc,
}

/// A frame. Sizes are L2 bytes with FCS (`buffer_len`), without preamble and gap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packet {
    /// The QP (meaningless for PFC).
    pub qp: u32,
    /// Packet sequence number, unwrapped to 32 bits.
    pub psn: u32,
    /// Buffer length in bytes.
    pub len: u16,
    /// Payload bytes (data), pause quanta (PFC), how far the packet that came is beyond the one that is
    /// expected (NAK with selective repeat).
    pub arg: u16,
    /// Ingress port at the switch that holds the frame, as index within that switch.
    pub ingress: u16,
    /// What it is.
    pub kind: Kind,
    /// Egress queue at the switch that holds the frame; the priority of a PFC frame.
    pub queue: u8,
    /// Priority group at the switch that holds the frame.
    pub pg: u8,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Priority code point, set by the sending NIC.
    pub pcp: u8,
    /// Remaining hops.
    pub ttl: u8,
    /// Flags in the low byte; above them what it carries beside its headers, as number in
    /// [`Notes`](crate::note::Notes).
    bits: u32,
}

const ECT: u32 = 1;
const CE: u32 = 2;
const ACK_REQ: u32 = 4;
const LAST: u32 = 8;
const ECHO: u32 = 16;
const AGAIN: u32 = 32;
const FLAGS: u32 = 0xff;

impl Packet {
    /// A frame of this kind for this QP; everything else is zero.
    #[inline]
    pub fn new(kind: Kind, qp: u32, psn: u32, len: u16) -> Self {
        let (arg, ingress, queue, pg) = (0, 0, 0, 0);
        let (dscp, pcp, ttl, bits) = (0, 0, 0, 0);
        Packet { qp, psn, len, arg, ingress, kind, queue, pg, dscp, pcp, ttl, bits }
    }

    /// True if it carries something beside its headers.
    #[inline]
    pub fn has_note(&self) -> bool {
        self.bits > FLAGS
    }

    /// The number of its note; 0 if it has none.
    #[inline]
    pub fn note(&self) -> u32 {
        self.bits >> 8
    }

    /// Gives it a note, or (0) takes its note away.
    #[inline]
    pub fn set_note(&mut self, note: u32) {
        self.bits = self.bits & FLAGS | note << 8;
    }

    /// ECN-capable transport.
    #[inline]
    pub fn ect(&self) -> bool {
        self.bits & ECT != 0
    }

    /// Congestion experienced: marked by a switch.
    #[inline]
    pub fn ce(&self) -> bool {
        self.bits & CE != 0
    }

    /// The requester asks for an acknowledgement.
    #[inline]
    pub fn ack_req(&self) -> bool {
        self.bits & ACK_REQ != 0
    }

    /// Last (or only) packet of its message.
    #[inline]
    pub fn last(&self) -> bool {
        self.bits & LAST != 0
    }

    /// An acknowledgement that echoes congestion.
    #[inline]
    pub fn echo(&self) -> bool {
        self.bits & ECHO != 0
    }

    /// It was sent before.
    #[inline]
    pub fn again(&self) -> bool {
        self.bits & AGAIN != 0
    }

    /// It was sent before.
    #[inline]
    pub fn set_again(&mut self) {
        self.bits |= AGAIN;
    }

    /// Sets how many switches it may pass.
    #[inline]
    pub fn with_ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets ECT.
    #[inline]
    pub fn with_ect(mut self, ect: bool) -> Self {
        self.bits |= if ect { ECT } else { 0 };
        self
    }

    /// Marks the frame.
    #[inline]
    pub fn mark(&mut self) {
        self.bits |= CE;
    }

    /// Sets AckReq and the last-packet bit of a data packet.
    #[inline]
    pub fn with_flags(mut self, ack_req: bool, last: bool) -> Self {
        self.bits |= if ack_req { ACK_REQ } else { 0 } | if last { LAST } else { 0 };
        self
    }

    /// Sets the congestion echo of an acknowledgement.
    #[inline]
    pub fn with_echo(mut self, echo: bool) -> Self {
        self.bits |= if echo { ECHO } else { 0 };
        self
    }
}

const _: () = assert!(size_of::<Packet>() <= 24);
