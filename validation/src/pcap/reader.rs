//! Files of captured frames, front to back: pcap of all kinds, and pcapng.
//!
//! Nothing is believed: a length is checked before memory is taken for it, and what cannot be right ends
//! the file with the place where that was seen.

use std::io::{self, Read};

use models::wire::frame::Layer;

/// Bytes of a frame that are looked at; no more are written by anyone's default.
const KEPT: usize = 0x4_0000;

/// Longer records are taken for damage.
const RECORD_MAX: u32 = 1 << 24;

/// More interfaces in a file are taken for damage.
const INTERFACES_MAX: usize = 1 << 16;

/// Where frames were captured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interface {
    /// Its name, if the file says it.
    pub name: Option<String>,
    /// Bits per second, likewise.
    pub rate: Option<u64>,
    /// What its frames begin with; `None` if that is not read.
    pub layer: Option<Layer>,
    /// The number of that, as `LINKTYPE_...` of libpcap.
    pub linktype: u16,
    pub(super) snaplen: u32,
    pub(super) resolution: u8,
    pub(super) offset_s: i64,
}

/// Which way a frame went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The file does not say.
    #[default]
    Unknown,
    /// It arrived.
    In,
    /// It left.
    Out,
}

impl Way {
    /// `in` or `out`, if it is known.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Way::Unknown => None,
            Way::In => Some("in"),
            Way::Out => Some("out"),
        }
    }
}

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// When, in picoseconds since 1970; `None` if the file does not say.
    pub time_ps: Option<i128>,
    /// The number of its interface in the file,
    pub number: usize,
    /// and what is known of that.
    pub interface: &'a Interface,
    /// Which way it went.
    pub way: Way,
    /// Its bytes, as far as they were captured.
    pub frame: &'a [u8],
    /// How many there were.
    pub original: u32,
}

/// Why a file cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {message}")]
pub struct Broken {
    /// Where: the first byte of what is wrong.
    pub offset: u64,
    /// What is there, and what was expected.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Ticks of a second; bytes that its record headers have beyond 16.
    Pcap {
        ticks: u32,
        extra: usize,
    },
    Pcapng,
}

/// Reads a file.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    kind: Kind,
    big_endian: bool,
    /// Bytes read.
    offset: u64,
    /// All of the file so far; those of the present section begin at `section`.
    interfaces: Vec<Interface>,
    section: usize,
    buffer: Vec<u8>,
}

/// How a file begins, as a message says it.
const EXPECTED: &str =
    "this is no capture: expected is pcap (magic a1b2c3d4 or a1b23c4d) or pcapng (0a0d0d0a)";

impl<R: Read> Reader<R> {
    /// Reads the beginning of a file.
    pub fn new(input: R) -> Result<Self, Broken> {
        let mut reader = Reader {
            input,
            kind: Kind::Pcapng,
            big_endian: false,
            offset: 0,
            interfaces: Vec::new(),
            section: 0,
            buffer: Vec::new(),
        };
        if !reader.fill(4, "its magic number")? {
            return Err(Broken { offset: 0, message: format!("it is empty; {EXPECTED}") });
        }
        let magic: [u8; 4] =
            [reader.buffer[0], reader.buffer[1], reader.buffer[2], reader.buffer[3]];
        if magic == [0x0a, 0x0d, 0x0d, 0x0a] {
            reader.section_header(0)?;
            return Ok(reader);
        }
        let known = |magic: u32| match magic {
            0xa1b2_c3d4 => Some((1_000_000, 0)),
            0xa1b2_3c4d => Some((1_000_000_000, 0)),
            // of old patched versions of libpcap: interface and protocol with each frame
            0xa1b2_cd34 => Some((1_000_000, 8)),
            _ => None,
        };
        let (little, big) = (known(u32::from_le_bytes(magic)), known(u32::from_be_bytes(magic)));
        let Some((ticks, extra)) = little.or(big) else {
            let hint = if magic[..2] == [0x1f, 0x8b] { "; unpack it with gunzip" } else { "" };
            return Err(Broken { offset: 0, message: format!("{EXPECTED}{hint}") });
        };
        reader.kind = Kind::Pcap { ticks, extra };
        reader.big_endian = little.is_none();
        reader.whole(20, "the header of a pcap file")?;
        // above are flags on the FCS, which no length here counts
        let linktype = (reader.word(16) & 0xffff) as u16;
        reader.interfaces.push(Interface {
            layer: layer(linktype),
            linktype,
            snaplen: reader.word(12),
            ..Interface::default()
        });
        Ok(reader)
    }

    /// `pcap` or `pcapng`
    pub fn format(&self) -> &'static str {
        match self.kind {
            Kind::Pcap { .. } => "pcap",
            Kind::Pcapng => "pcapng",
        }
    }

    /// Interfaces that the file has named so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The next frame; `None` at the end of the file. After an error there is no more.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Broken> {
        match self.kind {
            Kind::Pcap { ticks, extra } => self.next_pcap(ticks, extra),
            Kind::Pcapng => self.next_pcapng(),
        }
    }

    fn next_pcap(&mut self, ticks: u32, extra: usize) -> Result<Option<Record<'_>>, Broken> {
        let start = self.offset;
        if !self.fill(16 + extra, "the header of a frame")? {
            return Ok(None);
        }
        let [seconds, part, captured, original] = [0, 4, 8, 12].map(|at| self.word(at));
        if captured > RECORD_MAX {
            let message = format!("a frame of {captured} B; at most {RECORD_MAX} B are expected");
            return Err(Broken { offset: start, message });
        }
        let kept = self.body(captured as usize, "a frame")?;
        let per_tick = 1_000_000_000_000 / i128::from(ticks);
        let time = i128::from(seconds) * 1_000_000_000_000 + i128::from(part) * per_tick;
        Ok(Some(Record {
            time_ps: Some(time),
            number: 0,
            interface: &self.interfaces[0],
            way: Way::Unknown,
            frame: &self.buffer[..kept],
            original: original.max(captured),
        }))
    }

    fn next_pcapng(&mut self) -> Result<Option<Record<'_>>, Broken> {
        loop {
            let start = self.offset;
            if !self.fill(8, "the header of a block")? {
                return Ok(None);
            }
            if self.buffer[..4] == [0x0a, 0x0d, 0x0d, 0x0a] {
                // its length can be read when its byte order is known
                let length: [u8; 4] =
                    [self.buffer[4], self.buffer[5], self.buffer[6], self.buffer[7]];
                self.section_body(start, length)?;
                continue;
            }
            let (kind, total) = (self.word(0), self.word(4));
            if total < 12 || !total.is_multiple_of(4) {
                let message =
                    format!("a block of {total} B; a multiple of 4 from 12 on is expected");
                return Err(Broken { offset: start, message });
            }
            let body = total - 12;
            let known = matches!(kind, 1 | 2 | 3 | 6);
            if known && body > RECORD_MAX {
                let message = format!("a block of {total} B; at most {RECORD_MAX} B are expected");
                return Err(Broken { offset: start, message });
            }
            let kept = match known {
                true => self.body(body as usize, "a block")?,
                false => {
                    self.skip(body.into(), "a block")?;
                    0
                }
            };
            let mut repeated = [0; 4];
            self.exact(&mut repeated, "the end of a block")?;
            if self.number(repeated) != total {
                let message = format!(
                    "a block ends with the length {}; {total} was expected, as it begins",
                    self.number(repeated)
                );
                return Err(Broken { offset: start, message });
            }
            if kind == 1 {
                self.interface(start, kept)?;
            } else if known {
                return self.packet(start, kind, kept).map(Some);
            }
        }
    }

    /// A section header, of which the type was read.
    fn section_header(&mut self, start: u64) -> Result<(), Broken> {
        let mut length = [0; 4];
        self.exact(&mut length, "a section header")?;
        self.section_body(start, length)
    }

    /// The rest of it: interfaces begin anew.
    fn section_body(&mut self, start: u64, length: [u8; 4]) -> Result<(), Broken> {
        let mut order = [0; 4];
        self.exact(&mut order, "a section header")?;
        self.big_endian = match u32::from_le_bytes(order) {
            0x1a2b_3c4d => false,
            0x4d3c_2b1a => true,
            _ => {
                let message = "a section whose byte order is unknown; 1a2b3c4d is expected";
                return Err(Broken { offset: start, message: message.to_owned() });
            }
        };
        let total = self.number(length);
        if total < 28 || !total.is_multiple_of(4) {
            let message = format!("a section header of {total} B; at least 28 B are expected");
            return Err(Broken { offset: start, message });
        }
        self.section = self.interfaces.len();
        self.skip(u64::from(total) - 12, "a section header")
    }

    /// An interface, of whose description the first bytes are in the buffer.
    fn interface(&mut self, start: u64, kept: usize) -> Result<(), Broken> {
        if kept < 8 || self.interfaces.len() == INTERFACES_MAX {
            let message = match kept < 8 {
                true => format!("an interface described in {kept} B; 8 B are expected"),
                false => format!("more than {INTERFACES_MAX} interfaces"),
            };
            return Err(Broken { offset: start, message });
        }
        let linktype = self.half(0);
        let mut found = Interface {
            layer: layer(linktype),
            linktype,
            snaplen: self.word(4),
            resolution: 6,
            ..Interface::default()
        };
        let mut at = 8;
        while let Some((code, value)) = self.option(&mut at, kept) {
            let eight = <[u8; 8]>::try_from(value).ok();
            let number = eight.map(|bytes| match self.big_endian {
                true => u64::from_be_bytes(bytes),
                false => u64::from_le_bytes(bytes),
            });
            match code {
                2 => {
                    let name = String::from_utf8_lossy(&value[..value.len().min(256)]);
                    found.name = Some(name.trim_end_matches('\0').to_owned());
                }
                8 => found.rate = number.filter(|rate| *rate > 0),
                9 => found.resolution = value.first().copied().unwrap_or(6),
                14 => found.offset_s = number.map_or(0, |seconds| seconds as i64),
                _ => {}
            }
        }
        self.interfaces.push(found);
        Ok(())
    }

    /// The option at `at`, if there is one.
    fn option(&self, at: &mut usize, end: usize) -> Option<(u16, &[u8])> {
        let head = *at;
        if head + 4 > end {
            return None;
        }
        let (code, len) = (self.half(head), usize::from(self.half(head + 2)));
        if code == 0 || head + 4 + len > end {
            return None;
        }
        *at = head + 4 + len.next_multiple_of(4);
        Some((code, &self.buffer[head + 4..head + 4 + len]))
    }

    /// A packet block: enhanced (6), simple (3), or of old (2).
    fn packet(&self, start: u64, kind: u32, kept: usize) -> Result<Record<'_>, Broken> {
        let head = if kind == 3 { 4 } else { 20 };
        let broken = |message: String| Broken { offset: start, message };
        if kept < head {
            return Err(broken(format!("a packet block of {kept} B; {head} B are expected")));
        }
        let number = match kind {
            6 => self.word(0) as usize,
            2 => self.half(0).into(),
            _ => 0,
        };
        let Some(interface) = self.interfaces[self.section..].get(number) else {
            return Err(broken(format!("interface {number} is not described before its frames")));
        };
        let room = kept - head;
        let (captured, original) = match kind {
            3 => {
                let snaplen = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
                (room.min(self.word(0).min(snaplen) as usize), self.word(0))
            }
            _ => (self.word(12) as usize, self.word(16)),
        };
        // a block that is longer than what is kept of it was cut here
        if captured > room && kept < KEPT {
            return Err(broken(format!(
                "a frame of {captured} B in a block with room for {room} B"
            )));
        }
        let captured = captured.min(room);
        let time = (kind != 3).then(|| {
            let ticks = u64::from(self.word(4)) << 32 | u64::from(self.word(8));
            interface.time_ps(ticks)
        });
        let mut way = Way::Unknown;
        let mut at = head + captured.next_multiple_of(4);
        while kind == 6
            && let Some((code, value)) = self.option(&mut at, kept)
        {
            if code == 2 && value.len() == 4 {
                let flags = self.number([value[0], value[1], value[2], value[3]]);
                way = [Way::Unknown, Way::In, Way::Out, Way::Unknown][flags as usize & 3];
            }
        }
        let number = self.section + number;
        let frame = &self.buffer[head..head + captured];
        let original = original.max(captured as u32);
        Ok(Record { time_ps: time, number, interface, way, frame, original })
    }

    /// Reads `len` bytes into the buffer, the first ones if there are many; says how many.
    fn body(&mut self, len: usize, what: &str) -> Result<usize, Broken> {
        let kept = len.min(KEPT);
        self.whole(kept, what)?;
        self.skip((len - kept) as u64, what)?;
        Ok(kept)
    }

    /// Fills the buffer with `len` bytes; false if the file ends here.
    fn fill(&mut self, len: usize, what: &str) -> Result<bool, Broken> {
        let start = self.offset;
        self.buffer.resize(len.max(self.buffer.len()), 0);
        let mut have = 0;
        while have < len {
            match self.input.read(&mut self.buffer[have..len]) {
                Ok(0) if have == 0 => return Ok(false),
                Ok(0) => {
                    let message = format!("the file ends in {what}: {have} of {len} B are there");
                    return Err(Broken { offset: start, message });
                }
                Ok(read) => {
                    have += read;
                    self.offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Broken { offset: self.offset, message: error.to_string() });
                }
            }
        }
        Ok(true)
    }

    /// The same, where the file may not end.
    fn whole(&mut self, len: usize, what: &str) -> Result<(), Broken> {
        if len > 0 && !self.fill(len, what)? {
            let message = format!("the file ends in {what}: 0 of {len} B are there");
            return Err(Broken { offset: self.offset, message });
        }
        Ok(())
    }

    fn exact(&mut self, bytes: &mut [u8; 4], what: &str) -> Result<(), Broken> {
        let start = self.offset;
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Broken { offset: start, message: format!("the file ends in {what}") }
            }
            _ => Broken { offset: start, message: error.to_string() },
        })?;
        self.offset += 4;
        Ok(())
    }

    fn skip(&mut self, len: u64, what: &str) -> Result<(), Broken> {
        let start = self.offset;
        let skipped = io::copy(&mut (&mut self.input).take(len), &mut io::sink())
            .map_err(|error| Broken { offset: start, message: error.to_string() })?;
        self.offset += skipped;
        if skipped < len {
            let message = format!("the file ends in {what}: {skipped} of {len} B are there");
            return Err(Broken { offset: start, message });
        }
        Ok(())
    }

    fn number(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = &self.buffer[at..at + 4];
        self.number([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn half(&self, at: usize) -> u16 {
        let bytes = [self.buffer[at], self.buffer[at + 1]];
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }
}

impl Interface {
    /// Ticks of its clock in picoseconds.
    fn time_ps(&self, ticks: u64) -> i128 {
        const SECOND: u128 = 1_000_000_000_000;
        let exponent = u32::from(self.resolution & 0x7f);
        let ps = match self.resolution & 0x80 {
            0 => 10u128.checked_pow(exponent).map_or(0, |per_s| u128::from(ticks) * SECOND / per_s),
            _ => (u128::from(ticks) * SECOND) >> exponent,
        };
        ps as i128 + i128::from(self.offset_s) * SECOND as i128
    }
}

/// What frames of a `LINKTYPE_...` begin with, if that is read.
fn layer(linktype: u16) -> Option<Layer> {
    match linktype {
        1 => Some(Layer::Ethernet),
        12 | 14 | 101 | 228 | 229 => Some(Layer::Ip),
        113 => Some(Layer::Cooked(16, 14)),
        276 => Some(Layer::Cooked(20, 0)),
        _ => None,
    }
}
