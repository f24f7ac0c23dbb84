use proptest::prelude::*;

use super::*;
use crate::wire::{Frames, WireConfig};

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

const ONE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TWO: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn ip(source: u8, target: u8, tos: u8, id: u16) -> Ip {
    Ip {
        source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, source)),
        target: IpAddr::V4(Ipv4Addr::new(10, 0, 0, target)),
        dscp: tos >> 2,
        ecn: tos & 3,
        ttl: 64,
        id,
    }
}

fn written(frame: &Roce) -> Vec<u8> {
    let mut out = Vec::new();
    frame.write(&mut out);
    out
}

/// An ACK of a real capture: Soft-RoCE, a WRITE of 1 B.
#[test]
fn an_ack_is_that_of_a_real_capture() {
    let transport = Transport {
        bth: Bth {
            opcode: Opcode::ACK,
            partition: 0xffff,
            target_qp: 0x16,
            psn: 0xa5_d1e3,
            ..Bth::default()
        },
        aeth: Some(Aeth { syndrome: Aeth::ACK, msn: 1 }),
        ..Transport::default()
    };
    let ethernet = Ethernet { target: ONE, source: TWO, tag: None };
    let frame =
        Roce { ethernet, ip: ip(2, 1, 0, 0x7f1b), source_port: 0xc1e4, transport, payload: 0 };
    let expected = bytes(
        "020000000001 020000000002 0800
         4500 0030 7f1b 4000 4011 a79f 0a000002 0a000001
         c1e4 12b7 001c 0000
         11 00 ffff 00000016 00a5d1e3  1f000001  a6460330",
    );
    assert_eq!(written(&frame), expected);
    let seen = SeenRoce {
        ip: frame.ip,
        source_port: 0xc1e4,
        transport: frame.transport,
        payload: 0,
        icrc: Some(true),
    };
    assert_eq!(read(&expected, Layer::Ethernet), Seen::Roce(seen));
}

/// Laid out by hand by IB specification 9 and annex A17; all but its ICRC, which a test of `icrc` has.
#[test]
fn a_write_of_one_byte_has_three_of_padding_and_a_reth() {
    let transport = Transport {
        bth: Bth {
            opcode: Opcode(0x0a),
            migrated: true,
            partition: 0xffff,
            target_qp: 0x16,
            ack_req: true,
            psn: 0xa5_d1e3,
            ..Bth::default()
        },
        reth: Some(Reth { address: 0x562c_dd14_4000, key: 0x7d0, length: 1 }),
        ..Transport::default()
    };
    let ethernet = Ethernet { target: TWO, source: ONE, tag: Some((3, 0)) };
    let frame =
        Roce { ethernet, ip: ip(1, 2, 0x6b, 0xb214), source_port: 0xc1e4, transport, payload: 1 };
    let out = written(&frame);
    // 14 + 4 of tag + 20 + 8 + 12 + 16 + 1 + 3 + 4
    assert_eq!(out.len(), 82);
    let expected = bytes(
        "020000000002 020000000001 8100 6000 0800
         456b 0040 b214 4000 4011 742b 0a000001 0a000002
         c1e4 12b7 002c 0000
         0a 70 ffff 00000016 80a5d1e3
         0000562cdd144000 000007d0 00000001
         00 000000",
    );
    assert_eq!(out[..78], expected);
}

#[test]
fn a_cnp_and_a_pause_are_those_that_were_assembled_by_hand() {
    let transport = Transport {
        bth: Bth {
            opcode: Opcode::CNP,
            partition: 0xffff,
            becn: true,
            target_qp: 0x11,
            ..Bth::default()
        },
        ..Transport::default()
    };
    let ethernet = Ethernet { target: ONE, source: TWO, tag: None };
    let frame =
        Roce { ethernet, ip: ip(2, 1, 0xc0, 1), source_port: 0xc121, transport, payload: 0 };
    let expected = bytes(
        "020000000001 020000000002 0800
         45c0 003c 0001 4000 4011 25ee 0a000002 0a000001
         c121 12b7 0028 0000
         81 00 ffff 40000011 00000000
         00000000000000000000000000000000 03ddcb90",
    );
    assert_eq!(written(&frame), expected);

    let mut quanta = [0; 8];
    quanta[3] = 0xffff;
    let pfc = Pfc { source: TWO, classes: 8, quanta };
    let mut out = Vec::new();
    pfc.write(&mut out);
    let mut expected = bytes(
        "0180c2000001 020000000002 8808 0101 0008
         0000 0000 0000 ffff 0000 0000 0000 0000",
    );
    expected.resize(60, 0);
    assert_eq!(out, expected);
    assert_eq!(read(&out, Layer::Ethernet), Seen::Pfc(pfc));
}

#[test]
fn lengths_are_those_of_the_simulation() {
    let frames = Frames::new(&WireConfig::default());
    let check = |opcode: Opcode, payload: usize, model: u16| {
        assert_eq!(Roce::len_of(opcode, payload) + FCS, usize::from(model), "{opcode} {payload}");
    };
    for payload in [4u16, 256, 1024, 4096] {
        let bytes = usize::from(payload);
        check(Opcode(0x06), bytes, frames.data(payload, true));
        check(Opcode(0x07), bytes, frames.data(payload, false));
        check(Opcode(0x00), bytes, frames.data(payload, false));
        check(Opcode(0x0d), bytes, frames.read(payload, true));
        check(Opcode(0x0e), bytes, frames.read(payload, false));
        assert_eq!(Tcp::len_of(bytes) + FCS, usize::from(frames.tcp(payload)));
    }
    check(Opcode::READ_REQUEST, 0, frames.data(0, true));
    check(Opcode::ACK, 0, frames.ack);
    check(Opcode::CNP, 0, frames.cnp);
    assert_eq!(PFC_BYTES + FCS, usize::from(frames.pfc));
}

/// RFC 1071: the sum over the pseudo header and the segment, checksum included, is all ones.
#[test]
fn tcp_checksums_add_up() {
    let ethernet = Ethernet { target: ONE, source: TWO, tag: None };
    for (payload, echo) in [(0, true), (1449, false)] {
        let ip = ip(2, 1, 2, 0);
        let ports = [40000, 5001];
        let (sequence, acknowledged, stamp) = (1_000_001, 77, 12);
        let tcp = Tcp { ethernet, ip, ports, sequence, acknowledged, echo, stamp, payload };
        let mut out = Vec::new();
        tcp.write(&mut out);
        assert_eq!(out.len(), Tcp::len_of(payload));
        assert_eq!(internet_sum(&out[14..34], 0), 0);
        let mut sum = bytes("0a000002 0a000001 0006");
        sum.extend(((out.len() - 34) as u16).to_be_bytes());
        sum.extend(&out[34..]);
        sum.resize(sum.len().next_multiple_of(2), 0);
        assert_eq!(internet_sum(&sum, 0), 0);
        assert_eq!(read(&out, Layer::Ethernet), Seen::Other);
    }
}

#[test]
fn frames_that_lie_about_their_lengths_are_malformed() {
    let ack = bytes(
        "020000000001 020000000002 0800
         4500 0030 7f1b 4000 4011 a79f 0a000002 0a000001
         c1e4 12b7 001c 0000
         11 00 ffff 00000016 00a5d1e3  1f000001  a6460330",
    );
    let changed = |at: usize, value: u8| {
        let mut frame = ack.clone();
        frame[at] = value;
        read(&frame, Layer::Ethernet)
    };
    // UDP length beyond IP's; too short for BTH and AETH; header lengths; padding that is not there
    assert_eq!(changed(38, 0xff), Seen::Malformed);
    assert_eq!(changed(39, 8), Seen::Malformed);
    assert_eq!(changed(14, 0x44), Seen::Malformed);
    assert_eq!(changed(14, 0x65), Seen::Malformed);
    assert_eq!(changed(43, 0x30), Seen::Malformed);
    // a fragment, another protocol, another port
    assert_eq!(changed(20, 0x20), Seen::Other);
    assert_eq!(changed(23, 6), Seen::Other);
    assert_eq!(changed(37, 0), Seen::Other);
    // the PSN is another one, and the ICRC is not
    let Seen::Roce(roce) = changed(53, 0) else { panic!("it is RoCE") };
    assert_eq!(roce.icrc, Some(false));
    // the header of Linux's cooked captures, 802.1ad around 802.1Q, IP alone
    let mut cooked = vec![0; 14];
    cooked.extend(&ack[12..]);
    let tagged = [&ack[..12], &bytes("88a8 0064 8100 6007"), &ack[12..]].concat();
    let plain = read(&ack, Layer::Ethernet);
    assert_eq!(read(&cooked, Layer::Cooked(16, 14)), plain);
    assert_eq!(read(&tagged, Layer::Ethernet), plain);
    assert_eq!(read(&ack[14..], Layer::Ip), plain);
}

/// An ACK over IPv6, with the ICRC that Scapy 2 computes for it.
#[test]
fn ipv6_is_read_with_its_icrc() {
    let packet = bytes(
        "66a12345 001c 11 3f fd000000000000000000000000000002 fd000000000000000000000000000001
         c1e4 12b7 001c 0000
         11 00 ffff 00000016 00a5d1e3  1f000001  a8c8b70b",
    );
    let Seen::Roce(roce) = read(&packet, Layer::Ip) else { panic!("it is RoCE") };
    assert_eq!((roce.ip.dscp, roce.ip.ecn, roce.ip.ttl), (26, 2, 63));
    assert_eq!(roce.ip.source, "fd00::2".parse::<IpAddr>().unwrap());
    assert_eq!(roce.transport.aeth, Some(Aeth { syndrome: Aeth::ACK, msn: 1 }));
    assert_eq!(roce.icrc, Some(true));
}

fn transports() -> impl Strategy<Value = Transport> {
    let opcodes = prop_oneof![0u8..=0x17, Just(0x64), Just(0x81), 0xa0u8..=0xb4];
    let flags = any::<[bool; 5]>();
    let words = any::<[u32; 7]>();
    (opcodes, flags, words, any::<u16>(), any::<u64>()).prop_map(
        |(opcode, flags, words, partition, address)| {
            let opcode = Opcode(opcode);
            let [solicited, migrated, fecn, becn, ack_req] = flags;
            Transport {
                bth: Bth {
                    opcode,
                    solicited,
                    migrated,
                    partition,
                    fecn,
                    becn,
                    target_qp: words[0] & 0xff_ffff,
                    ack_req,
                    psn: words[1] & 0xff_ffff,
                },
                reth: opcode.reth().then_some(Reth { address, key: words[2], length: words[3] }),
                aeth: opcode
                    .aeth()
                    .then_some(Aeth { syndrome: words[4] as u8, msn: words[4] >> 8 }),
                immediate: opcode.immediate().then_some(words[5]),
                reserved: if opcode == Opcode::CNP { words[6] } else { 0 },
            }
        },
    )
}

proptest! {
    /// What is written is read again, and each cut of it is read without a panic.
    #[test]
    fn written_frames_are_read(
        transport in transports(),
        payload in 0usize..5000,
        (source, target, tos, ttl, id) in any::<(u32, u32, u8, u8, u16)>(),
        tag in proptest::option::of((0u8..8, 0u16..4096)),
        source_port in any::<u16>(),
    ) {
        let ip = Ip {
            source: IpAddr::V4(source.into()),
            target: IpAddr::V4(target.into()),
            dscp: tos >> 2,
            ecn: tos & 3,
            ttl,
            id,
        };
        let ethernet = Ethernet { target: ONE, source: TWO, tag };
        let out = written(&Roce { ethernet, ip, source_port, transport, payload });
        let tagged = if tag.is_some() { VLAN } else { 0 };
        prop_assert_eq!(out.len(), Roce::len_of(transport.bth.opcode, payload) + tagged);
        let seen = SeenRoce { ip, source_port, transport, payload, icrc: Some(true) };
        prop_assert_eq!(read(&out, Layer::Ethernet), Seen::Roce(seen));
        for end in 0..out.len().min(120) {
            match read(&out[..end], Layer::Ethernet) {
                Seen::Roce(cut) => prop_assert_eq!(cut.icrc, None),
                seen => prop_assert_eq!(seen, Seen::Short),
            }
        }
    }

    /// No bytes make it panic.
    #[test]
    fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for layer in [Layer::Ethernet, Layer::Ip, Layer::Cooked(16, 14), Layer::Cooked(20, 0)] {
            read(&bytes, layer);
        }
        icrc(&bytes);
    }
}
