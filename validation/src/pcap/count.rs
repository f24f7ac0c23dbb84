//! Counts what passes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use models::wire::frame::{Aeth, Pfc, Seen, SeenRoce, read};
use models::wire::opcode::Opcode;

use super::pause::Pauses;
use super::reader::{Interface, Record, Way};
use super::sequence::Sequence;
use super::spread::Spread;
use super::stats::{AddressStats, CaptureStats, Gaps, Icrc, QpStats, RoceStats, seconds};

/// QPs that are told apart; of what is beyond, only sums are kept.
pub const QPS_MAX: usize = 1 << 17;

/// Addresses that are told apart, likewise.
pub const ADDRESSES_MAX: usize = 1 << 16;

/// A QP, as the frames to it have it: who sends to it is not named, but for the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// A switch shows frames twice: as they come and as they go.
    way: Way,
    source: IpAddr,
    target: IpAddr,
    qp: u32,
}

/// What is known of a QP.
#[derive(Clone, Debug, Default)]
struct Qp {
    packets: u64,
    bytes: u64,
    payload: u64,
    data: u64,
    opcodes: BTreeMap<u8, u64>,
    first: Option<i128>,
    last: Option<i128>,
    max_gap: u64,
    requests: Sequence,
    responses: Option<Box<Sequence>>,
    syndromes: BTreeMap<u8, u64>,
    capable: u64,
    marked: u64,
}

/// Counts the frames of a capture.
#[derive(Debug, Default)]
pub(super) struct Counter {
    frames: u64,
    bytes: u64,
    captured_bytes: u64,
    first: Option<i128>,
    last: Option<i128>,
    backwards: u64,
    other: u64,
    short: u64,
    malformed: u64,
    unread: BTreeMap<u16, u64>,
    roce: RoceStats,
    qps: BTreeMap<Key, Qp>,
    left_out: u64,
    addresses: BTreeMap<IpAddr, AddressStats>,
    gaps: Spread,
    pauses: Pauses,
}

/// What carries a message's payload: SEND, WRITE, or a response to READ.
fn is_data(opcode: Opcode) -> bool {
    let asks = opcode.is_read_request() || matches!(opcode.0 & 0x1f, 0x13 | 0x14);
    opcode.is_read_response() || opcode.is_request() && !asks
}

impl Counter {
    /// One that takes all cables to have this rate where the file does not say it.
    pub(super) fn new(rate: Option<u64>) -> Self {
        Counter { pauses: Pauses::new(rate), ..Counter::default() }
    }

    /// Counts a frame.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        self.frames += 1;
        self.bytes += u64::from(record.original);
        self.captured_bytes += record.frame.len() as u64;
        if let Some(time) = record.time_ps {
            self.first = Some(self.first.map_or(time, |first| first.min(time)));
            self.backwards += u64::from(self.last.is_some_and(|last| time < last));
            self.last = Some(self.last.map_or(time, |last| last.max(time)));
        }
        let Some(layer) = record.interface.layer else {
            *self.unread.entry(record.interface.linktype).or_default() += 1;
            return;
        };
        let at = (record.number, record.time_ps, record.interface.rate);
        match read(record.frame, layer) {
            Seen::Roce(roce) => self.roce(record, &roce),
            Seen::Pfc(Pfc { source, classes, quanta }) => {
                for priority in (0..8).filter(|priority| classes & (1 << priority) != 0) {
                    self.pauses.on(at, source, Some(priority), quanta[usize::from(priority)]);
                }
                self.pauses.frames += 1;
            }
            Seen::Pause { source, quanta } => {
                self.pauses.on(at, source, None, quanta);
                self.pauses.frames += 1;
            }
            Seen::Other => self.other += 1,
            Seen::Short => self.short += 1,
            Seen::Malformed => self.malformed += 1,
        }
    }

    fn roce(&mut self, record: &Record<'_>, seen: &SeenRoce) {
        let opcode = seen.transport.bth.opcode;
        let roce = &mut self.roce;
        roce.frames += 1;
        roce.bytes += u64::from(record.original);
        *roce.opcodes.entry(opcode.to_string()).or_default() += 1;
        let Icrc { right, wrong, unchecked } = &mut roce.icrc;
        *match seen.icrc {
            Some(true) => right,
            Some(false) => wrong,
            None => unchecked,
        } += 1;
        let data = is_data(opcode);
        let marked = seen.ip.ecn == 3;
        roce.ecn_capable += u64::from(seen.ip.ecn != 0);
        roce.ecn_marked += u64::from(marked);
        roce.cnps += u64::from(opcode == Opcode::CNP);
        if data {
            roce.data_packets += 1;
            roce.data_bytes += seen.payload as u64;
            roce.ecn_marked_data += u64::from(marked);
        }
        let syndrome = seen.transport.aeth.filter(|_| opcode.is_ack()).map(|aeth| aeth.syndrome);
        match syndrome {
            Some(syndrome) if Aeth::is_nak(syndrome) => {
                *roce.naks.entry(nak_name(syndrome).to_owned()).or_default() += 1;
            }
            Some(syndrome) if Aeth::is_rnr(syndrome) => roce.rnr_naks += 1,
            Some(_) => roce.acks += 1,
            None => {}
        }
        let repeats = self.qp(record, seen, data, syndrome);
        self.address(seen, data, syndrome, repeats);
    }

    /// Counts a frame of a QP; says how many packets more have come again.
    fn qp(
        &mut self,
        record: &Record<'_>,
        seen: &SeenRoce,
        data: bool,
        syndrome: Option<u8>,
    ) -> [u64; 2] {
        let bth = &seen.transport.bth;
        let (source, target) = (seen.ip.source, seen.ip.target);
        let key = Key { way: record.way, source, target, qp: bth.target_qp };
        if self.qps.len() == QPS_MAX && !self.qps.contains_key(&key) {
            self.left_out += 1;
            return [0; 2];
        }
        let qp = self.qps.entry(key).or_default();
        qp.packets += 1;
        qp.bytes += u64::from(record.original);
        qp.data += u64::from(data);
        qp.payload += if data { seen.payload as u64 } else { 0 };
        *qp.opcodes.entry(bth.opcode.0).or_default() += 1;
        qp.capable += u64::from(seen.ip.ecn != 0);
        qp.marked += u64::from(seen.ip.ecn == 3);
        if let Some(syndrome) = syndrome {
            *qp.syndromes.entry(syndrome).or_default() += 1;
        }
        if let Some(time) = record.time_ps {
            if let Some(last) = qp.last {
                let gap = u64::try_from((time - last).max(0)).unwrap_or(u64::MAX);
                qp.max_gap = qp.max_gap.max(gap);
                self.gaps.add(gap);
            }
            qp.first = qp.first.or(Some(time));
            qp.last = Some(time);
        }
        let opcode = bth.opcode;
        // responses begin where the request was, after whatever else was asked for
        let begins = matches!(opcode.0 & 0x1f, 0x0d | 0x10);
        let sequence = if opcode.is_request() {
            Some(&mut qp.requests)
        } else if opcode.is_read_response() {
            Some(&mut **qp.responses.get_or_insert_default())
        } else {
            None
        };
        let Some(sequence) = sequence else { return [0; 2] };
        let before = [sequence.late, sequence.repeats];
        sequence.on(bth.psn, begins && opcode.is_read_response(), opcode.is_read_request());
        [sequence.late - before[0], sequence.repeats - before[1]]
    }

    /// Counts what NICs count, under mlx5's names.
    fn address(&mut self, seen: &SeenRoce, data: bool, syndrome: Option<u8>, again: [u64; 2]) {
        let opcode = seen.transport.bth.opcode;
        let mut of = |address: IpAddr, count: &dyn Fn(&mut AddressStats)| {
            if self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&address) {
                count(self.addresses.entry(address).or_default());
            }
        };
        let marked = seen.ip.ecn == 3;
        let error = syndrome == Some(Aeth::SEQUENCE_ERROR);
        of(seen.ip.source, &|counts| {
            counts.tx_packets += 1;
            counts.data_packets += u64::from(data);
            counts.retransmitted_packets += if data { again[0] + again[1] } else { 0 };
            counts.out_of_sequence += u64::from(error);
            counts.np_cnp_sent += u64::from(opcode == Opcode::CNP);
        });
        of(seen.ip.target, &|counts| {
            counts.rx_packets += 1;
            counts.np_ecn_marked_roce_packets += u64::from(marked && data);
            counts.packet_seq_err += u64::from(error);
            counts.rp_cnp_received += u64::from(opcode == Opcode::CNP);
        });
    }

    /// What was counted; warnings are added.
    pub(super) fn finish(
        self,
        interfaces: &[Interface],
        warnings: &mut Vec<String>,
    ) -> CaptureStats {
        let span = self.first.zip(self.last).map_or(0, |(first, last)| last - first);
        let span_s = seconds(span);
        for (linktype, frames) in &self.unread {
            warnings.push(format!(
                "{frames} frames of link type {linktype} were not read: Ethernet, IP and Linux's cooked \
                 captures are"
            ));
        }
        if self.backwards > 0 {
            warnings.push(format!("{} frames are earlier than one before them", self.backwards));
        }
        if self.left_out > 0 {
            warnings.push(format!(
                "{QPS_MAX} QPs are told apart; {} frames of others are in the sums only",
                self.left_out
            ));
        }
        let mut roce = self.roce;
        roce.ecn_marked_share = roce.ecn_marked as f64 / roce.ecn_capable.max(1) as f64;
        roce.cnps_per_s = if span_s > 0.0 { roce.cnps as f64 / span_s } else { 0.0 };
        let mut qps: Vec<QpStats> = self.qps.into_iter().map(|(key, qp)| told(&key, qp)).collect();
        for qp in &qps {
            roce.psn_gaps += qp.psn_gaps;
            roce.psns_skipped += qp.psns_skipped;
            roce.late_packets += qp.late_packets;
            roce.repeated_packets += qp.repeated_packets;
        }
        qps.sort_by_key(|qp| std::cmp::Reverse(qp.bytes));
        let gap = |ps: u64| seconds(ps.into());
        let gaps = (self.gaps.total() > 0).then(|| Gaps {
            p50_s: gap(self.gaps.quantile(0.5)),
            p99_s: gap(self.gaps.quantile(0.99)),
            max_s: gap(self.gaps.max()),
        });
        let pause_frames = self.pauses.frames;
        CaptureStats {
            file: String::new(),
            format: String::new(),
            frames: self.frames,
            bytes: self.bytes,
            captured_bytes: self.captured_bytes,
            span_s,
            roce,
            pause_frames,
            other_frames: self.other + self.unread.values().sum::<u64>(),
            short_frames: self.short,
            malformed_frames: self.malformed,
            gaps,
            pauses: self.pauses.finish(self.last, interfaces),
            addresses: self
                .addresses
                .into_iter()
                .map(|(ip, stats)| (ip.to_string(), stats))
                .collect(),
            qps,
            frames_of_other_qps: self.left_out,
            warnings: Vec::new(),
        }
    }
}

fn told(key: &Key, qp: Qp) -> QpStats {
    let span = qp.first.zip(qp.last).map_or(0, |(first, last)| last - first);
    let span_s = seconds(span);
    let responses = qp.responses.unwrap_or_default();
    let sum = |of: fn(&Sequence) -> u64| of(&qp.requests) + of(&responses);
    let syndromes = || qp.syndromes.iter();
    let named = |(code, count): (u8, u64)| (Opcode(code).to_string(), count);
    QpStats {
        way: key.way.name(),
        source: key.source.to_string(),
        target: key.target.to_string(),
        qp: key.qp,
        packets: qp.packets,
        bytes: qp.bytes,
        data_packets: qp.data,
        data_bytes: qp.payload,
        first_s: qp.first.map(seconds),
        last_s: qp.last.map(seconds),
        throughput_bps: if span_s > 0.0 { qp.bytes as f64 * 8.0 / span_s } else { 0.0 },
        opcodes: qp.opcodes.into_iter().map(named).collect(),
        psn_gaps: sum(|sequence| sequence.gaps),
        psns_skipped: sum(|sequence| sequence.skipped),
        late_packets: sum(|sequence| sequence.late),
        repeated_packets: sum(|sequence| sequence.repeats),
        acks: syndromes().filter(|(code, _)| *code & 0x60 == 0).map(|(_, count)| count).sum(),
        naks: syndromes()
            .filter(|(code, _)| Aeth::is_nak(**code))
            .map(|(code, count)| (nak_name(*code).to_owned(), *count))
            .collect(),
        rnr_naks: syndromes()
            .filter(|(code, _)| Aeth::is_rnr(**code))
            .map(|(_, count)| count)
            .sum(),
        ecn_capable: qp.capable,
        ecn_marked: qp.marked,
        max_gap_s: seconds(qp.max_gap.into()),
    }
}

/// The name of a NAK's code (IB specification, table 45).
fn nak_name(syndrome: u8) -> &'static str {
    match syndrome & 0x1f {
        0 => "psn_sequence_error",
        1 => "invalid_request",
        2 => "remote_access_error",
        3 => "remote_operational_error",
        4 => "invalid_rd_request",
        _ => "reserved",
    }
}
