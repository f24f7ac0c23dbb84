//! Files of captured frames: pcap (nanoseconds), and pcapng (picoseconds, names, directions).

use std::io::{self, Write};

use sim_core::{Rate, Time};

/// What a file of captured frames looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The format of libpcap, with nanoseconds.
    Pcap,
    /// Its successor: ports have names and rates, frames have a direction and picoseconds.
    Pcapng,
}

/// A port whose frames are in a file.
#[derive(Clone, Debug)]
pub struct Interface {
    /// As in reports.
    pub name: String,
    /// Of its cable.
    pub rate: Rate,
}

/// Which way a frame goes, seen from its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It arrives.
    In,
    /// It leaves.
    Out,
}

/// `LINKTYPE_ETHERNET`
const LINKTYPE: u16 = 1;

/// Writes one file, front to back.
pub struct File<W> {
    out: W,
    format: Format,
    snaplen: u32,
    block: Vec<u8>,
}

impl<W: Write> File<W> {
    /// Begins a file; of each frame at most `snaplen` bytes are kept.
    pub fn begin(
        out: W,
        format: Format,
        snaplen: u32,
        interfaces: &[Interface],
    ) -> io::Result<Self> {
        let mut file = File { out, format, snaplen, block: Vec::new() };
        match format {
            Format::Pcap => {
                let mut header = Vec::new();
                header.extend(0xa1b2_3c4du32.to_le_bytes());
                header.extend([2, 0, 4, 0]);
                header.extend([0; 8]);
                header.extend(snaplen.to_le_bytes());
                header.extend(u32::from(LINKTYPE).to_le_bytes());
                file.out.write_all(&header)?;
            }
            Format::Pcapng => {
                let application = concat!("rocesim ", env!("CARGO_PKG_VERSION"));
                file.block.extend(0x1a2b_3c4du32.to_le_bytes());
                file.block.extend([1, 0, 0, 0]);
                file.block.extend((-1i64).to_le_bytes());
                option(&mut file.block, 4, application.as_bytes());
                file.end_block(0x0a0d_0d0a)?;
                for interface in interfaces {
                    file.block.extend(LINKTYPE.to_le_bytes());
                    file.block.extend([0, 0]);
                    file.block.extend(snaplen.to_le_bytes());
                    option(&mut file.block, 2, interface.name.as_bytes());
                    option(&mut file.block, 8, &interface.rate.bps().to_le_bytes());
                    // picoseconds; no FCS
                    option(&mut file.block, 9, &[12]);
                    option(&mut file.block, 13, &[0]);
                    file.end_block(1)?;
                }
            }
        }
        Ok(file)
    }

    /// Appends a frame of one of the interfaces.
    pub fn frame(
        &mut self,
        time: Time,
        interface: u32,
        direction: Direction,
        frame: &[u8],
    ) -> io::Result<()> {
        let kept = &frame[..frame.len().min(self.snaplen as usize)];
        let lengths = [kept.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat();
        let block = &mut self.block;
        match self.format {
            Format::Pcap => {
                let ns = time.ps() / 1000;
                block.extend(((ns / 1_000_000_000) as u32).to_le_bytes());
                block.extend(((ns % 1_000_000_000) as u32).to_le_bytes());
                block.extend(lengths);
                block.extend(kept);
                self.out.write_all(block)?;
                block.clear();
                Ok(())
            }
            Format::Pcapng => {
                block.extend(interface.to_le_bytes());
                block.extend(((time.ps() >> 32) as u32).to_le_bytes());
                block.extend((time.ps() as u32).to_le_bytes());
                block.extend(lengths);
                block.extend(kept);
                fill(block);
                let flags: u32 = if direction == Direction::In { 1 } else { 2 };
                option(block, 2, &flags.to_le_bytes());
                self.end_block(6)
            }
        }
    }

    /// Ends the file.
    pub fn end(mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the options of a block of this kind, and writes it.
    fn end_block(&mut self, kind: u32) -> io::Result<()> {
        self.block.extend([0; 4]);
        let len = (self.block.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&len)?;
        self.block.clear();
        Ok(())
    }
}

/// Appends an option of a block.
fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend(code.to_le_bytes());
    block.extend((value.len() as u16).to_le_bytes());
    block.extend(value);
    fill(block);
}

/// Fills the last four bytes.
fn fill(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pcap_of_one_frame() {
        let mut out = Vec::new();
        let mut file = File::begin(&mut out, Format::Pcap, 3, &[]).unwrap();
        // 2 s and 7.9 ns
        file.frame(Time::from_ps(2_000_000_007_900), 0, Direction::In, b"abcde").unwrap();
        file.end().unwrap();
        let mut expected = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        expected.extend([3, 0, 0, 0, 1, 0, 0, 0]);
        expected.extend([2, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0]);
        expected.extend(b"abc");
        assert_eq!(out, expected);
    }

    #[test]
    fn a_block_of_pcapng_says_its_length_twice() {
        let mut out = Vec::new();
        let interfaces = [Interface { name: "leaf0:3".to_owned(), rate: Rate::from_gbps(100) }];
        let mut file = File::begin(&mut out, Format::Pcapng, 0x40000, &interfaces).unwrap();
        file.frame(Time::from_ps(1 << 33), 0, Direction::Out, b"abcde").unwrap();
        file.end().unwrap();
        let mut blocks = Vec::new();
        let mut rest = &out[..];
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            let len = word(4) as usize;
            assert_eq!(word(len - 4) as usize, len);
            blocks.push((word(0), len));
            rest = &rest[len..];
        }
        // section: 12 + 16 + option 4 + 16 ("rocesim 0.1.0") + end 4; interface: 12 + 8 + (4 + 8) +
        // (4 + 8) + (4 + 4) + (4 + 4) + 4; packet: 12 + 20 + 8 + (4 + 4) + 4
        assert_eq!(blocks, [(0x0a0d_0d0a, 52), (1, 64), (6, 52)]);
        let packet = &out[52 + 64 + 8..];
        assert_eq!(packet[4..12], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(packet[20..36], *b"abcde\0\0\0\x02\0\x04\0\x02\0\0\0");
    }
}
