//! Frames on the wire: their lengths, how long they take, and their bytes.
//!
//! RoCEv2 over Ethernet (IB specification annex A17): Ethernet 14, IPv4 20, UDP 8, BTH 12,
//! RETH 16 on the first or only packet of a WRITE, AETH 4 in an ACK, ICRC 4, FCS 4; preamble 8 and
//! inter-frame gap 12 take link time but no buffer. The simulation has lengths only ([`Frames`]);
//! captures have bytes ([`frame`]). Both count with the constants here.

pub mod frame;
pub mod icrc;
pub mod opcode;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate};

/// Bytes of an Ethernet header,
pub const ETHERNET: usize = 14;
/// of an 802.1Q tag,
pub const VLAN: usize = 4;
/// of an IPv4 header,
pub const IPV4: usize = 20;
/// of a UDP header,
pub const UDP: usize = 8;
/// of the base transport header,
pub const BTH: usize = 12;
/// of a RETH,
pub const RETH: usize = 16;
/// of an AETH,
pub const AETH: usize = 4;
/// of immediate data,
pub const IMMEDIATE: usize = 4;
/// of what a CNP reserves,
pub const CNP_RESERVED: usize = 16;
/// of the invariant CRC,
pub const ICRC: usize = 4;
/// of the frame check sequence.
pub const FCS: usize = 4;

/// All of a RoCEv2 frame but extended headers and payload.
pub const ROCE: usize = ETHERNET + IPV4 + UDP + BTH + ICRC + FCS;

/// UDP port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// Frame sizes and timing: `[wire]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WireConfig {
    /// L2 bytes with FCS that a data packet has beyond its payload:
    /// Ethernet 14 + IPv4 20 + UDP 8 + BTH 12 + ICRC 4 + FCS 4.
    pub frame_overhead: Bytes,
    /// RETH, on the first or only packet of a WRITE.
    pub reth: Bytes,
    /// An ACK or NAK: the overhead and AETH 4.
    pub ack_frame: Bytes,
    /// A CNP: the overhead and 16 reserved bytes.
    pub cnp_frame: Bytes,
    /// A PFC frame: the smallest Ethernet frame.
    pub pfc_frame: Bytes,
    /// The smallest frame that may be sent; shorter ones are padded.
    pub min_frame: Bytes,
    /// Preamble and inter-frame gap: link time, no buffer.
    pub gap: Bytes,
    /// 802.1Q tag on every frame but PFC: 4 bytes more.
    pub vlan: bool,
    /// How the time of a frame is rounded.
    pub frame_time: FrameTime,
    /// UDP destination port.
    pub udp_port: u16,
    /// IPv4 time to live: each switch lowers it by 1, and drops a frame that would leave with 0.
    #[schemars(range(min = 2))]
    pub ttl: u8,
    /// IPv4 address of node 0; node i has 256 x (i mod 256) + 65536 x (i / 256) more.
    pub base_address: std::net::Ipv4Addr,
}

impl Default for WireConfig {
    fn default() -> Self {
        WireConfig {
            frame_overhead: Bytes::new(ROCE as u64),
            reth: Bytes::new(RETH as u64),
            ack_frame: Bytes::new((ROCE + AETH) as u64),
            cnp_frame: Bytes::new((ROCE + CNP_RESERVED) as u64),
            pfc_frame: Bytes::new((frame::PFC_BYTES + FCS) as u64),
            min_frame: Bytes::new(64),
            gap: Bytes::new(20),
            vlan: false,
            frame_time: FrameTime::Exact,
            udp_port: ROCE_PORT,
            ttl: 64,
            base_address: std::net::Ipv4Addr::new(10, 0, 0, 1),
        }
    }
}

/// How the time of a frame is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FrameTime {
    /// Up to a whole picosecond, which is exact at 1 to 800 Gb/s.
    #[default]
    Exact,
    /// To the nearest nanosecond, halves down, as ns-3 does.
    NearestNs,
}

impl FrameTime {
    /// The time of `bytes` at `rate`.
    pub fn of(self, bytes: u64, rate: Rate) -> Delta {
        match self {
            FrameTime::Exact => rate.time_for(Bytes::new(bytes)),
            FrameTime::NearestNs => {
                let twice = u128::from(bytes) * 8_000_000_000 * 2;
                let rate = u128::from(rate.bps());
                Delta::from_ns(((twice + rate - 1) / (2 * rate)) as u64)
            }
        }
    }
}

/// Frame lengths in plain bytes, ready for the hot path.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    overhead: u16,
    reth: u16,
    tcp: u16,
    min: u16,
    /// Buffer length of an ACK or NAK.
    pub ack: u16,
    /// Buffer length of a CNP.
    pub cnp: u16,
    /// Buffer length of a PFC frame.
    pub pfc: u16,
    /// Preamble and gap.
    pub gap: u16,
    /// Time to live of all that NICs send.
    pub ttl: u8,
}

impl Frames {
    /// The lengths that `config` describes; none may exceed 16 bits together with a 9216 B payload.
    pub fn new(config: &WireConfig) -> Self {
        let vlan = if config.vlan { 4 } else { 0 };
        let plain = |bytes: Bytes| bytes.get().min(4096) as u16;
        let min = plain(config.min_frame);
        Frames {
            overhead: plain(config.frame_overhead) + vlan,
            reth: plain(config.reth),
            tcp: 70 + vlan,
            min,
            ack: (plain(config.ack_frame) + vlan).max(min),
            cnp: (plain(config.cnp_frame) + vlan).max(min),
            pfc: plain(config.pfc_frame).max(min),
            gap: plain(config.gap),
            ttl: config.ttl,
        }
    }

    /// Buffer length of a data packet.
    #[inline]
    pub fn data(&self, payload: u16, first: bool) -> u16 {
        let reth = if first { self.reth } else { 0 };
        (payload + self.overhead + reth).max(self.min)
    }

    /// Buffer length of a response to a READ: its first and last ones carry an AETH.
    #[inline]
    pub fn read(&self, payload: u16, edge: bool) -> u16 {
        let aeth = if edge { 4 } else { 0 };
        (payload + self.overhead + aeth).max(self.min)
    }

    /// Buffer length of a TCP segment: Ethernet 14, IPv4 20, TCP 20 with 12 of time stamps, FCS 4.
    #[inline]
    pub fn tcp(&self, payload: u16) -> u16 {
        (payload + self.tcp).max(self.min)
    }

    /// Bytes of link time that a frame of this buffer length takes.
    #[inline]
    pub fn wire_len(&self, buffer_len: u16) -> u64 {
        u64::from(buffer_len) + u64::from(self.gap)
    }

    /// Buffer length of the largest data packet at this MTU.
    pub fn largest(&self, mtu: u16) -> u16 {
        self.data(mtu, true)
    }

    /// Buffer length of the smallest frame of a data class: a short message or an ACK.
    pub fn smallest(&self) -> u16 {
        self.data(1, true).min(self.ack)
    }

    /// The smallest frame of all, which bounds how soon a neighbour can be reached.
    pub fn shortest(&self) -> u16 {
        self.smallest().min(self.cnp).min(self.pfc)
    }
}

/// The time of frames on one link.
#[derive(Clone, Copy, Debug)]
pub struct LinkClock {
    /// Picoseconds per byte where that is whole and no rounding applies; else zero.
    ps_per_byte: u64,
    rate: Rate,
    frame_time: FrameTime,
}

impl LinkClock {
    /// The clock of a link.
    pub fn new(rate: Rate, frame_time: FrameTime) -> Self {
        let whole = frame_time == FrameTime::Exact && 8_000_000_000_000 % rate.bps() == 0;
        let ps_per_byte = if whole { 8_000_000_000_000 / rate.bps() } else { 0 };
        LinkClock { ps_per_byte, rate, frame_time }
    }

    /// The same link at another rate.
    pub fn at(&self, rate: Rate) -> Self {
        LinkClock::new(rate, self.frame_time)
    }

    /// The link's rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Picoseconds per byte where that is whole and no rounding applies; else zero.
    pub fn ps_per_byte(&self) -> u64 {
        self.ps_per_byte
    }

    /// How times are rounded.
    pub fn frame_time(&self) -> FrameTime {
        self.frame_time
    }

    /// The time of `wire_len` bytes.
    #[inline]
    pub fn time(&self, wire_len: u64) -> Delta {
        if self.ps_per_byte > 0 {
            Delta::from_ps(wire_len * self.ps_per_byte)
        } else {
            self.frame_time.of(wire_len, self.rate)
        }
    }

    /// The time of `quanta` pause quanta of 512 bit times (IEEE 802.3 annex 31B).
    pub fn quanta(&self, quanta: u16) -> Delta {
        self.rate.time_for(Bytes::new(u64::from(quanta) * 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_rocev2_frames() {
        let frames = Frames::new(&WireConfig::default());
        // 4096 + 62 = 4158 in the buffer; + 20 = 4178 on the wire: 98.04 % payload
        assert_eq!(frames.data(4096, false), 4158);
        assert_eq!(frames.data(4096, true), 4174);
        assert_eq!(frames.wire_len(frames.data(1024, false)), 1106);
        assert_eq!(frames.wire_len(frames.cnp), 98);
        assert_eq!(frames.wire_len(frames.pfc), 84);
        assert_eq!((frames.ack, frames.smallest(), frames.shortest()), (66, 66, 64));
    }

    #[test]
    fn ns3_rounds_frame_times_to_nanoseconds() {
        let of = |bytes, gbps| FrameTime::NearestNs.of(bytes, Rate::from_gbps(gbps)).ps() / 1000;
        // 83.84 -> 84; 4.8 -> 5; 3.44 -> 3; 20.96 -> 21; 20.5 (1025 B at 400G) -> 20, halves down
        assert_eq!([of(1048, 100), of(60, 100), of(43, 100)], [84, 5, 3]);
        assert_eq!([of(1048, 400), of(1025, 400)], [21, 20]);
    }

    #[test]
    fn exact_times_and_quanta() {
        let clock = LinkClock::new(Rate::from_gbps(100), FrameTime::Exact);
        assert_eq!(clock.time(4178), Delta::from_ps(334_240));
        // 65535 quanta x 512 bit at 100 Gb/s = 335.5 us
        assert_eq!(clock.quanta(65535), Delta::from_ps(335_539_200));
        // 3 Gb/s: 8e12 / 3e9 = 2666.67 ps a byte, rounded up per frame
        let odd = LinkClock::new(Rate::from_gbps(3), FrameTime::Exact);
        assert_eq!(odd.time(1), Delta::from_ps(2667));
    }
}
