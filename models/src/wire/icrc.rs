//! The invariant CRC of RoCEv2 (IB specification 7.8, annex A17.3.3).

use crc32fast::Hasher;

use super::{BTH, UDP};

/// The ICRC of `packet`: IP header, UDP header, BTH and all that follows, up to where the ICRC is to
/// stand. `None` if the headers are not whole.
///
/// It is the CRC of Ethernet over eight bytes of ones and the packet, in which what routers change is
/// all ones: type of service, time to live and checksum of IPv4; traffic class, flow label and hop limit
/// of IPv6; the checksum of UDP; the congestion bits of the BTH. On the wire its least significant byte
/// comes first.
pub fn icrc(packet: &[u8]) -> Option<u32> {
    // the longest IPv4 header, UDP, BTH
    let mut headers = [0u8; 60 + UDP + BTH];
    let ip = match packet.first()? >> 4 {
        4 => usize::from(packet[0] & 0xf) * 4,
        6 => 40,
        _ => return None,
    };
    let end = ip + UDP + BTH;
    let headers = &mut headers[..end];
    headers.copy_from_slice(packet.get(..end)?);
    let changed: &[usize] = if packet[0] >> 4 == 4 {
        &[1, 8, 10, 11]
    } else {
        headers[0] |= 0x0f;
        &[1, 2, 3, 7]
    };
    for at in changed.iter().copied().chain([ip + 6, ip + 7, ip + UDP + 4]) {
        headers[at] = 0xff;
    }
    let mut hasher = Hasher::new();
    hasher.update(&[0xff; 8]);
    hasher.update(headers);
    hasher.update(&packet[end..]);
    Some(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the IP header on: an ACK of a real capture (Soft-RoCE, a WRITE of 1 B).
    const ACK: &str = "450000307f1b40004011a79f0a0000020a000001\
                       c1e412b7001c0000\
                       1100ffff0000001600a5d1e3\
                       1f000001\
                       a6460330";

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn the_icrc_of_a_real_frame() {
        let packet = bytes(ACK);
        let at = packet.len() - 4;
        assert_eq!(icrc(&packet[..at]).unwrap().to_le_bytes(), packet[at..]);
    }

    #[test]
    fn what_routers_change_does_not_change_it() {
        let mut packet = bytes(ACK);
        let at = packet.len() - 4;
        let before = icrc(&packet[..at]);
        // CE, a hop, the checksums, FECN and BECN
        for byte in [1, 8, 10, 11, 26, 27, 32] {
            packet[byte] ^= 0x03;
        }
        assert_eq!(icrc(&packet[..at]), before);
        // the PSN
        packet[39] ^= 1;
        assert_ne!(icrc(&packet[..at]), before);
    }

    #[test]
    fn a_packet_that_is_cut_or_no_ip_has_none() {
        let packet = bytes(ACK);
        assert_eq!(icrc(&packet[..39]), None);
        assert_eq!(icrc(&[]), None);
        assert_eq!(icrc(&[0; 60]), None);
        assert_eq!(icrc(&[0xff; 60]), None);
        // a header length of 60 B in a packet of 40
        assert_eq!(icrc(&[0x4f; 40]), None);
    }
}
