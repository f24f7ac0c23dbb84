//! Files made here byte by byte, and what hostile ones do.

use std::io::Cursor;

use super::*;

/// From the Ethernet header on: an ACK of a real capture (Soft-RoCE, a WRITE of 1 B).
const ACK: [u8; 62] = [
    0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x45, 0x00,
    0x00, 0x30, 0x7f, 0x1b, 0x40, 0x00, 0x40, 0x11, 0xa7, 0x9f, 0x0a, 0x00, 0x00, 0x02, 0x0a, 0x00,
    0x00, 0x01, 0xc1, 0xe4, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff, 0x00, 0x00,
    0x00, 0x16, 0x00, 0xa5, 0xd1, 0xe3, 0x1f, 0x00, 0x00, 0x01, 0xa6, 0x46, 0x03, 0x30,
];

#[derive(Clone, Copy)]
struct Order {
    big: bool,
}

impl Order {
    fn word(self, word: u32) -> [u8; 4] {
        if self.big { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    fn half(self, half: u16) -> [u8; 2] {
        if self.big { half.to_be_bytes() } else { half.to_le_bytes() }
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| self.word(*word)).collect()
    }

    /// A pcap of ACKs, a unit of its clock apart; of each `kept` bytes.
    fn pcap(self, magic: u32, frames: u32, kept: usize) -> Vec<u8> {
        let mut file = self.words(&[magic]);
        file.extend([self.half(2), self.half(4)].concat());
        file.extend(self.words(&[0, 0, 65535, 1]));
        for frame in 0..frames {
            file.extend(self.words(&[7, frame, kept as u32, 62]));
            if magic == 0xa1b2_cd34 {
                file.extend([0; 8]);
            }
            file.extend(&ACK[..kept]);
        }
        file
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let len = body.len().next_multiple_of(4);
        let mut block = self.words(&[kind, len as u32 + 12]);
        block.extend(body);
        block.resize(8 + len, 0);
        block.extend(self.word(len as u32 + 12));
        block
    }

    /// A section with one interface, whose clock is as `option` says, and two frames 5 ticks apart.
    fn pcapng(self, option: &[u8]) -> Vec<u8> {
        let mut section = self.word(0x1a2b_3c4d).to_vec();
        section.extend([self.half(1), self.half(0)].concat());
        section.extend([0xff; 8]);
        let mut interface = [self.half(1), self.half(0)].concat();
        interface.extend(self.word(0));
        interface.extend(option);
        let mut file = self.block(0x0a0d_0d0a, &section);
        file.extend(self.block(1, &interface));
        // a block that nobody knows
        file.extend(self.block(0xbad, b"custom"));
        for ticks in [100, 105] {
            let mut packet = self.words(&[0, 0, ticks, 62, 62]);
            packet.extend(ACK);
            file.extend(self.block(6, &packet));
        }
        let mut simple = self.word(62).to_vec();
        simple.extend(ACK);
        file.extend(self.block(3, &simple));
        file
    }
}

fn count(file: &[u8]) -> Result<CaptureStats, Broken> {
    count_capture(Cursor::new(file), None)
}

#[test]
fn all_kinds_of_pcap_in_both_byte_orders() {
    for big in [false, true] {
        for (magic, tick_s) in [(0xa1b2_c3d4, 1e-6), (0xa1b2_3c4d, 1e-9), (0xa1b2_cd34, 1e-6)] {
            let stats = count(&Order { big }.pcap(magic, 3, 62)).unwrap();
            assert_eq!((stats.frames, stats.roce.acks, stats.bytes), (3, 3, 186));
            assert_eq!(stats.roce.icrc, Icrc { right: 3, wrong: 0, unchecked: 0 });
            assert!((stats.span_s - 2.0 * tick_s).abs() < 1e-15, "{magic:x} {}", stats.span_s);
            assert_eq!((stats.qps[0].qp, stats.qps[0].source.as_str()), (0x16, "10.0.0.2"));
            assert_eq!(stats.warnings, [""; 0]);
        }
    }
}

#[test]
fn snapped_frames_are_counted_without_their_icrc() {
    let order = Order { big: false };
    let stats = count(&order.pcap(0xa1b2_3c4d, 2, 58)).unwrap();
    assert_eq!((stats.roce.acks, stats.bytes, stats.captured_bytes), (2, 124, 116));
    assert_eq!(stats.roce.icrc, Icrc { right: 0, wrong: 0, unchecked: 2 });
    // without the AETH nobody knows whether it is a NAK
    let stats = count(&order.pcap(0xa1b2_3c4d, 2, 56)).unwrap();
    assert_eq!((stats.roce.acks, stats.roce.opcodes["ACK"]), (0, 2));
    // without the BTH it is nothing
    let stats = count(&order.pcap(0xa1b2_3c4d, 2, 50)).unwrap();
    assert_eq!((stats.roce.frames, stats.short_frames), (0, 2));
}

#[test]
fn pcapng_with_clocks_names_and_blocks_that_are_not_known() {
    for big in [false, true] {
        let order = Order { big };
        let option = |code: u16, value: &[u8]| {
            let mut option = [order.half(code), order.half(value.len() as u16)].concat();
            option.extend(value);
            option.resize(option.len().next_multiple_of(4), 0);
            option
        };
        // microseconds without a word; nanoseconds; 2^-10 s
        let clocks = [(vec![], 5e-6), (option(9, &[9]), 5e-9), (option(9, &[0x8a]), 5.0 / 1024.0)];
        for (clock, span_s) in clocks {
            let options = [option(2, b"eth0"), clock].concat();
            let stats = count(&order.pcapng(&options)).unwrap();
            assert_eq!((stats.frames, stats.roce.acks, stats.format.as_str()), (3, 3, "pcapng"));
            assert!((stats.span_s - span_s).abs() < 1e-12, "{}", stats.span_s);
        }
        // a second section begins its own interfaces
        let twice = [order.pcapng(&[]), Order { big: !big }.pcapng(&[])].concat();
        assert_eq!(count(&twice).unwrap().frames, 6);
    }
}

#[test]
fn a_file_that_is_cut_anywhere_gives_what_is_before_the_cut() {
    let order = Order { big: false };
    for file in [order.pcap(0xa1b2_3c4d, 3, 62), order.pcapng(&[])] {
        let whole = count(&file).unwrap();
        let mut seen = 0;
        for end in 0..file.len() {
            match count(&file[..end]) {
                Ok(stats) => {
                    assert!(stats.frames >= seen && stats.frames <= whole.frames);
                    seen = stats.frames;
                    let warned = stats.warnings.iter().any(|text| text.starts_with("byte "));
                    // cut between two records, it is a shorter file
                    assert!(warned || stats.warnings.is_empty(), "{:?}", stats.warnings);
                }
                Err(broken) => assert!(seen == 0 && broken.offset <= end as u64, "{broken}"),
            }
        }
        assert_eq!(seen + 1, whole.frames);
    }
    let cut = &order.pcap(0xa1b2_3c4d, 3, 62)[..24 + 78 + 20];
    let warnings = count(cut).unwrap().warnings;
    let expected =
        "byte 118: the file ends in a frame: 4 of 62 B are there; 1 frames before it were counted";
    assert_eq!(warnings, [expected]);
}

#[test]
fn lengths_that_cannot_be_are_told_with_their_place() {
    let order = Order { big: false };
    let mut pcap = order.pcap(0xa1b2_3c4d, 2, 62);
    pcap[24 + 78 + 8..24 + 78 + 12].copy_from_slice(&[0xff; 4]);
    let stats = count(&pcap).unwrap();
    assert_eq!(stats.frames, 1);
    assert!(
        stats.warnings[0].starts_with("byte 102: a frame of 4294967295 B"),
        "{:?}",
        stats.warnings
    );
    // every word of a pcapng replaced by what would hurt most
    let file = order.pcapng(&[]);
    for at in (0..file.len()).step_by(4) {
        for word in [0, 1, 4, 8, 0x7fff_fffc, 0xffff_fffc, 0xffff_ffff] {
            let mut file = file.clone();
            file[at..at + 4].copy_from_slice(&order.word(word));
            if let Ok(stats) = count(&file) {
                assert!(stats.frames <= 3);
            }
        }
    }
    for nothing in [&b""[..], b"\0", b"GET / HTTP/1.1\r\n", &[0x1f, 0x8b, 8, 0, 0, 0]] {
        let broken = count(nothing).unwrap_err();
        assert_eq!(broken.offset, 0);
    }
    assert!(count(&[0x1f, 0x8b, 8, 0]).unwrap_err().message.ends_with("unpack it with gunzip"));
}

#[test]
fn junk_does_not_panic() {
    let mut state = 1u64;
    let mut byte = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let order = Order { big: false };
    for round in 0..400 {
        let mut file = match round % 2 {
            0 => order.pcap(0xa1b2_c3d4, 4, 62),
            _ => order.pcapng(&[]),
        };
        for _ in 0..1 + round / 20 {
            let at = usize::from(byte()) * 256 + usize::from(byte());
            let at = at % file.len();
            file[at] = byte();
        }
        if let Ok(stats) = count(&file) {
            let table = CaptureTable { stats: &stats, top: 3 }.to_string();
            assert!(table.lines().all(|line| line.chars().count() < 100), "{table}");
        }
    }
    let junk: Vec<u8> =
        order.pcap(0xa1b2_c3d4, 0, 0).into_iter().chain((0..5000).map(|_| byte())).collect();
    let _ = count(&junk);
}

#[test]
fn qps_beyond_what_is_told_apart_are_in_the_sums() {
    let mut counter = count::Counter::new(None);
    let interface =
        Interface { layer: Some(models::wire::frame::Layer::Ethernet), ..Interface::default() };
    let frames = QPS_MAX as u32 + 10;
    for qp in 0..frames {
        let mut frame = ACK;
        frame[47..50].copy_from_slice(&qp.to_be_bytes()[1..]);
        let record = Record {
            time_ps: Some(0),
            number: 0,
            interface: &interface,
            way: Way::Unknown,
            frame: &frame,
            original: 62,
        };
        counter.add(&record);
    }
    let mut warnings = Vec::new();
    let stats = counter.finish(&[interface], &mut warnings);
    assert_eq!((stats.qps.len(), stats.frames_of_other_qps), (QPS_MAX, 10));
    assert_eq!(stats.roce.acks, u64::from(frames));
    assert!(warnings[0].contains("10 frames of others"), "{warnings:?}");
}
