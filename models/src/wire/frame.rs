//! Frames as bytes: written, and read again.
//!
//! Ethernet II with 802.1Q tags, IPv4 (read: IPv6, too), UDP, BTH with its extended headers, ICRC; PFC
//! of IEEE 802.1Qbb. A frame has no FCS, as captures have none.

use std::net::{IpAddr, Ipv4Addr};

use super::icrc::icrc;
use super::opcode::Opcode;
use super::{BTH, CNP_RESERVED, ETHERNET, FCS, IPV4, ROCE_PORT, UDP, VLAN};

/// Where MAC control frames go.
pub const MAC_CONTROL: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

/// Bytes of a PFC frame: the smallest of Ethernet.
pub const PFC_BYTES: usize = 64 - FCS;

/// An Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ethernet {
    /// Who receives it.
    pub target: [u8; 6],
    /// Who sends it.
    pub source: [u8; 6],
    /// Priority and VLAN of its (outermost) tag.
    pub tag: Option<(u8, u16)>,
}

/// An IP header: what is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Who sends it.
    pub source: IpAddr,
    /// Who receives it.
    pub target: IpAddr,
    /// Differentiated services code point.
    pub dscp: u8,
    /// 0: not capable; 1, 2: capable; 3: congestion experienced.
    pub ecn: u8,
    /// Remaining hops.
    pub ttl: u8,
    /// IPv4's identification.
    pub id: u16,
}

/// The base transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bth {
    /// What it is.
    pub opcode: Opcode,
    /// Solicited event.
    pub solicited: bool,
    /// MigReq.
    pub migrated: bool,
    /// Partition key.
    pub partition: u16,
    /// Forward congestion.
    pub fecn: bool,
    /// Backward congestion: of a CNP.
    pub becn: bool,
    /// Destination QP.
    pub target_qp: u32,
    /// AckReq.
    pub ack_req: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address.
    pub address: u64,
    /// Remote key.
    pub key: u32,
    /// Bytes of the whole message.
    pub length: u32,
}

/// ACK extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aeth {
    /// ACK with credits, RNR NAK with a timer, NAK with a code.
    pub syndrome: u8,
    /// Message sequence number.
    pub msn: u32,
}

impl Aeth {
    /// An ACK without a limit of credits.
    pub const ACK: u8 = 0x1f;
    /// NAK: PSN sequence error.
    pub const SEQUENCE_ERROR: u8 = 0x60;

    /// A NAK (IB specification 9.7.5.2.8): bits 6 and 5 are ones.
    pub fn is_nak(syndrome: u8) -> bool {
        syndrome & 0x60 == 0x60
    }

    /// A NAK because the receiver was not ready.
    pub fn is_rnr(syndrome: u8) -> bool {
        syndrome & 0x60 == 0x20
    }
}

/// What follows the UDP header, as far as it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// BTH.
    pub bth: Bth,
    /// RETH, where the opcode has one.
    pub reth: Option<Reth>,
    /// AETH, likewise.
    pub aeth: Option<Aeth>,
    /// Immediate data, likewise.
    pub immediate: Option<u32>,
    /// The first four of the bytes that a CNP reserves.
    pub reserved: u32,
}

/// A RoCEv2 frame to be written.
#[derive(Clone, Copy, Debug)]
pub struct Roce {
    /// Ethernet.
    pub ethernet: Ethernet,
    /// IPv4.
    pub ip: Ip,
    /// UDP source port.
    pub source_port: u16,
    /// What follows it.
    pub transport: Transport,
    /// Bytes of payload.
    pub payload: usize,
}

/// Bytes that fill `payload` up to a multiple of four.
pub fn pad(payload: usize) -> usize {
    payload.wrapping_neg() & 3
}

impl Roce {
    /// Its length, without tag and FCS.
    pub fn len_of(opcode: Opcode, payload: usize) -> usize {
        super::ROCE - FCS + opcode.header_bytes() + payload + pad(payload)
    }

    /// Appends the frame; its payload is zeros.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Transport { bth, reth, aeth, immediate, reserved } = self.transport;
        ethernet(out, &self.ethernet, 0x0800);
        let start = out.len();
        let body = Roce::len_of(bth.opcode, self.payload) - ETHERNET;
        ipv4(out, &self.ip, 17, body);
        out.extend(self.source_port.to_be_bytes());
        out.extend(ROCE_PORT.to_be_bytes());
        out.extend(((body - IPV4) as u16).to_be_bytes());
        // RoCEv2 leaves the checksum of UDP to the ICRC
        out.extend([0, 0]);
        bth.write(out, pad(self.payload) as u8);
        out.resize(out.len() + bth.opcode.service_bytes(), 0);
        if bth.opcode.reth() {
            let reth = reth.unwrap_or_default();
            out.extend(reth.address.to_be_bytes());
            out.extend(reth.key.to_be_bytes());
            out.extend(reth.length.to_be_bytes());
        }
        if bth.opcode.aeth() {
            let aeth = aeth.unwrap_or_default();
            out.extend((u32::from(aeth.syndrome) << 24 | aeth.msn & 0xff_ffff).to_be_bytes());
        }
        if bth.opcode.immediate() {
            out.extend(immediate.unwrap_or_default().to_be_bytes());
        }
        let other = out.len() + bth.opcode.other_bytes();
        if bth.opcode == Opcode::CNP {
            out.extend(reserved.to_be_bytes());
        }
        out.resize(other + self.payload + pad(self.payload), 0);
        let crc = icrc(&out[start..]).unwrap_or_default();
        out.extend(crc.to_le_bytes());
    }
}

impl Bth {
    fn write(&self, out: &mut Vec<u8>, pad: u8) {
        let bit = |set: bool, bit: u8| u8::from(set) << bit;
        out.push(self.opcode.0);
        out.push(bit(self.solicited, 7) | bit(self.migrated, 6) | pad << 4);
        out.extend(self.partition.to_be_bytes());
        let congestion = u32::from(bit(self.fecn, 7) | bit(self.becn, 6));
        out.extend((congestion << 24 | self.target_qp & 0xff_ffff).to_be_bytes());
        out.extend((u32::from(self.ack_req) << 31 | self.psn & 0xff_ffff).to_be_bytes());
    }

    fn read(bytes: &[u8; BTH]) -> (Self, usize) {
        let bit = |byte: usize, bit: u8| bytes[byte] & (1 << bit) != 0;
        let bth = Bth {
            opcode: Opcode(bytes[0]),
            solicited: bit(1, 7),
            migrated: bit(1, 6),
            partition: u16::from_be_bytes([bytes[2], bytes[3]]),
            fecn: bit(4, 7),
            becn: bit(4, 6),
            target_qp: u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]]),
            ack_req: bit(8, 7),
            psn: u32::from_be_bytes([0, bytes[9], bytes[10], bytes[11]]),
        };
        (bth, usize::from(bytes[1] >> 4 & 3))
    }
}

fn ethernet(out: &mut Vec<u8>, header: &Ethernet, kind: u16) {
    out.extend(header.target);
    out.extend(header.source);
    if let Some((priority, vlan)) = header.tag {
        out.extend(0x8100u16.to_be_bytes());
        out.extend((u16::from(priority) << 13 | vlan & 0xfff).to_be_bytes());
    }
    out.extend(kind.to_be_bytes());
}

/// An IPv4 header of a packet of `len` bytes, with DF; one of IPv6 addresses cannot be written.
fn ipv4(out: &mut Vec<u8>, ip: &Ip, protocol: u8, len: usize) {
    let start = out.len();
    out.extend([0x45, ip.dscp << 2 | ip.ecn & 3]);
    out.extend((len as u16).to_be_bytes());
    out.extend(ip.id.to_be_bytes());
    out.extend([0x40, 0, ip.ttl, protocol, 0, 0]);
    for address in [ip.source, ip.target] {
        let IpAddr::V4(address) = address else { unreachable!("frames are written with IPv4") };
        out.extend(address.octets());
    }
    let sum = internet_sum(&out[start..], 0);
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
}

/// The Internet checksum (RFC 1071) of an even number of bytes, added to `sum`.
fn internet_sum(bytes: &[u8], sum: u32) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum = words.fold(sum, |sum, word| sum + word);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A PFC frame of IEEE 802.1Qbb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// Who sends it.
    pub source: [u8; 6],
    /// The priorities that it is about, a bit each.
    pub classes: u8,
    /// By priority: quanta of 512 bit times; 0 lets it go on.
    pub quanta: [u16; 8],
}

impl Pfc {
    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let end = out.len() + PFC_BYTES;
        let header = Ethernet { target: MAC_CONTROL, source: self.source, tag: None };
        ethernet(out, &header, 0x8808);
        out.extend(0x0101u16.to_be_bytes());
        out.extend([0, self.classes]);
        self.quanta.iter().for_each(|quanta| out.extend(quanta.to_be_bytes()));
        out.resize(end, 0);
    }
}

/// A TCP segment to be written: with time stamps (RFC 7323), as Linux sends them.
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    /// Ethernet.
    pub ethernet: Ethernet,
    /// IPv4.
    pub ip: Ip,
    /// Ports of source and target.
    pub ports: [u16; 2],
    /// Of its first byte.
    pub sequence: u32,
    /// Of the next byte that is expected from the other end.
    pub acknowledged: u32,
    /// Echoes congestion (ECE).
    pub echo: bool,
    /// Time stamp, in ms.
    pub stamp: u32,
    /// Bytes of payload.
    pub payload: usize,
}

/// Bytes of a TCP header with time stamps.
const TCP: usize = 32;

impl Tcp {
    /// The length of a segment, without tag and FCS.
    pub const fn len_of(payload: usize) -> usize {
        ETHERNET + IPV4 + TCP + payload
    }

    /// Appends the frame; its payload is zeros.
    pub fn write(&self, out: &mut Vec<u8>) {
        ethernet(out, &self.ethernet, 0x0800);
        let start = out.len();
        ipv4(out, &self.ip, 6, IPV4 + TCP + self.payload);
        let segment = out.len();
        self.ports.iter().for_each(|port| out.extend(port.to_be_bytes()));
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.acknowledged.to_be_bytes());
        let flags = 0x10 | if self.echo { 0x40 } else { 0 } | if self.payload > 0 { 8 } else { 0 };
        // window, checksum, urgent pointer; no-operation twice, time stamps
        out.extend([(TCP as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 8, 10]);
        out.extend(self.stamp.to_be_bytes());
        out.extend([0; 4]);
        // zeros add nothing
        let len = (TCP + self.payload) as u32;
        let addresses: u32 = out[start + 12..start + 20]
            .chunks_exact(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        let sum = internet_sum(&out[segment..], 6 + len + addresses);
        out[segment + 16..segment + 18].copy_from_slice(&sum.to_be_bytes());
        out.resize(out.len() + self.payload, 0);
    }
}

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// RoCEv2.
    Roce(SeenRoce),
    /// PFC.
    Pfc(Pfc),
    /// A pause of the whole port (IEEE 802.3 annex 31B).
    Pause {
        /// Who sends it.
        source: [u8; 6],
        /// 0 lets it go on.
        quanta: u16,
    },
    /// Something else.
    Other,
    /// It is cut off before it is known what it is.
    Short,
    /// Its lengths contradict each other.
    Malformed,
}

/// A RoCEv2 frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRoce {
    /// IP.
    pub ip: Ip,
    /// UDP source port.
    pub source_port: u16,
    /// BTH and the headers after it that were captured.
    pub transport: Transport,
    /// Bytes of payload, by the lengths in the headers.
    pub payload: usize,
    /// Whether the ICRC is right; `None` if it was not captured whole.
    pub icrc: Option<bool>,
}

/// What the bytes of a capture begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// An Ethernet header.
    Ethernet,
    /// An IP header.
    Ip,
    /// Linux's cooked header: this many bytes, the protocol at that place.
    Cooked(usize, usize),
}

/// Reads a frame, of which only the beginning may have been captured.
pub fn read(frame: &[u8], layer: Layer) -> Seen {
    read_layers(frame, layer).unwrap_or(Seen::Short)
}

fn read_layers(frame: &[u8], layer: Layer) -> Option<Seen> {
    let (mut at, mut kind) = match layer {
        Layer::Ethernet => (ETHERNET, word(frame, 12)?),
        Layer::Cooked(len, place) => (len, word(frame, place)?),
        Layer::Ip => match frame.first()? >> 4 {
            4 => (0, 0x0800),
            _ => (0, 0x86dd),
        },
    };
    // 802.1Q, 802.1ad and what was before it; no more tags than anyone stacks
    let mut tags = 0;
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) && tags < 4 {
        kind = word(frame, at + 2)?;
        at += VLAN;
        tags += 1;
    }
    let source = |frame: &[u8]| frame.get(6..12)?.try_into().ok();
    match kind {
        0x0800 => read_ipv4(frame.get(at..)?),
        0x86dd => read_ipv6(frame.get(at..)?),
        0x8808 if layer == Layer::Ethernet => {
            let source = source(frame)?;
            match word(frame, at)? {
                0x0101 => {
                    let classes = *frame.get(at + 3)?;
                    let mut quanta = [0; 8];
                    for (priority, quanta) in quanta.iter_mut().enumerate() {
                        *quanta = word(frame, at + 4 + 2 * priority)?;
                    }
                    Some(Seen::Pfc(Pfc { source, classes, quanta }))
                }
                0x0001 => Some(Seen::Pause { source, quanta: word(frame, at + 2)? }),
                _ => Some(Seen::Other),
            }
        }
        _ => Some(Seen::Other),
    }
}

fn read_ipv4(packet: &[u8]) -> Option<Seen> {
    let header = packet.get(..IPV4)?;
    let len = usize::from(header[0] & 0xf) * 4;
    let fragment = word(header, 6)? & 0x3fff;
    if header[0] >> 4 != 4 || len < IPV4 {
        return Some(Seen::Malformed);
    }
    if header[9] != 17 || fragment != 0 {
        return Some(Seen::Other);
    }
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 4] = header.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets).into())
    };
    let ip = Ip {
        source: address(12)?,
        target: address(16)?,
        dscp: header[1] >> 2,
        ecn: header[1] & 3,
        ttl: header[8],
        id: word(header, 4)?,
    };
    read_udp(packet, len, usize::from(word(header, 2)?), ip)
}

fn read_ipv6(packet: &[u8]) -> Option<Seen> {
    let header = packet.get(..40)?;
    if header[0] >> 4 != 6 {
        return Some(Seen::Malformed);
    }
    if header[6] != 17 {
        return Some(Seen::Other);
    }
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 16] = header.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::from(octets))
    };
    let class = header[0] << 4 | header[1] >> 4;
    let (source, target) = (address(8)?, address(24)?);
    let ip = Ip { source, target, dscp: class >> 2, ecn: class & 3, ttl: header[7], id: 0 };
    read_udp(packet, 40, 40 + usize::from(word(header, 4)?), ip)
}

/// UDP at `at` of an IP packet of `total` bytes.
fn read_udp(packet: &[u8], at: usize, total: usize, ip: Ip) -> Option<Seen> {
    if word(packet, at + 2)? != ROCE_PORT {
        return Some(Seen::Other);
    }
    let end = at + usize::from(word(packet, at + 4)?);
    let bth: &[u8; BTH] = packet.get(at + UDP..at + UDP + BTH)?.try_into().ok()?;
    let (bth, pad) = Bth::read(bth);
    let headers = at + UDP + BTH + bth.opcode.header_bytes();
    let Some(payload) = end.checked_sub(headers + pad + super::ICRC) else {
        return Some(Seen::Malformed);
    };
    if end > total {
        return Some(Seen::Malformed);
    }
    let transport = read_transport(packet, at + UDP + BTH, bth);
    let stored: Option<[u8; 4]> =
        packet.get(end - super::ICRC..end).and_then(|bytes| bytes.try_into().ok());
    let right = |stored: [u8; 4]| {
        icrc(&packet[..end - super::ICRC]).is_some_and(|crc| crc.to_le_bytes() == stored)
    };
    let source_port = word(packet, at)?;
    Some(Seen::Roce(SeenRoce { ip, source_port, transport, payload, icrc: stored.map(right) }))
}

fn read_transport(packet: &[u8], at: usize, bth: Bth) -> Transport {
    let mut at = at + bth.opcode.service_bytes();
    let mut transport = Transport { bth, ..Transport::default() };
    if bth.opcode.reth() {
        transport.reth = read_reth(packet, at);
        at += super::RETH;
    }
    if bth.opcode.aeth() {
        let aeth = |word: u32| Aeth { syndrome: (word >> 24) as u8, msn: word & 0xff_ffff };
        transport.aeth = long(packet, at).map(aeth);
        at += super::AETH;
    }
    if bth.opcode.immediate() {
        transport.immediate = long(packet, at);
        at += super::IMMEDIATE;
    }
    if bth.opcode == Opcode::CNP {
        debug_assert!(bth.opcode.other_bytes() == CNP_RESERVED);
        transport.reserved = long(packet, at).unwrap_or_default();
    }
    transport
}

fn read_reth(packet: &[u8], at: usize) -> Option<Reth> {
    let address = u64::from_be_bytes(packet.get(at..at + 8)?.try_into().ok()?);
    Some(Reth { address, key: long(packet, at + 8)?, length: long(packet, at + 12)? })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
