//! BTH opcodes (IB specification 9.2; annexes A14 for XRC, A17 for the CNP): their names, and which
//! headers follow.

use std::fmt;

/// An opcode of the base transport header. The three high bits are the transport service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

/// Where a packet is in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first of several.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

impl Part {
    /// Of a packet that is the first, the last, or both.
    pub fn of(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, true) => Part::Only,
            (true, false) => Part::First,
            (false, true) => Part::Last,
            (false, false) => Part::Middle,
        }
    }
}

/// The operations that share names over all transport services.
const OPERATIONS: [&str; 24] = [
    "SEND_FIRST",
    "SEND_MIDDLE",
    "SEND_LAST",
    "SEND_LAST_IMM",
    "SEND_ONLY",
    "SEND_ONLY_IMM",
    "WRITE_FIRST",
    "WRITE_MIDDLE",
    "WRITE_LAST",
    "WRITE_LAST_IMM",
    "WRITE_ONLY",
    "WRITE_ONLY_IMM",
    "READ_REQUEST",
    "READ_FIRST",
    "READ_MIDDLE",
    "READ_LAST",
    "READ_ONLY",
    "ACK",
    "ATOMIC_ACK",
    "CMP_SWAP",
    "FETCH_ADD",
    "RESYNC",
    "SEND_LAST_INV",
    "SEND_ONLY_INV",
];

/// Transport services by the three high bits; those not named are reserved.
const SERVICES: [&str; 8] = ["RC", "UC", "RD", "UD", "CNP", "XRC", "", ""];

impl Opcode {
    /// RC READ request.
    pub const READ_REQUEST: Opcode = Opcode(0x0c);
    /// RC acknowledgement, positive or negative.
    pub const ACK: Opcode = Opcode(0x11);
    /// Congestion notification.
    pub const CNP: Opcode = Opcode(0x81);

    /// Of a packet of an RC WRITE without immediate data.
    pub fn write(part: Part) -> Self {
        Opcode(match part {
            Part::First => 0x06,
            Part::Middle => 0x07,
            Part::Last => 0x08,
            Part::Only => 0x0a,
        })
    }

    /// Of a packet of an RC SEND without immediate data.
    pub fn send(part: Part) -> Self {
        Opcode(match part {
            Part::First => 0x00,
            Part::Middle => 0x01,
            Part::Last => 0x02,
            Part::Only => 0x04,
        })
    }

    /// Of a response to an RC READ.
    pub fn read(part: Part) -> Self {
        Opcode(match part {
            Part::First => 0x0d,
            Part::Middle => 0x0e,
            Part::Last => 0x0f,
            Part::Only => 0x10,
        })
    }

    /// The operation, whatever the transport service; one that is not used where the service has none.
    fn operation(self) -> u8 {
        match self.0 >> 5 {
            0..=3 | 5 => self.0 & 0x1f,
            _ => 0x1f,
        }
    }

    fn service(self) -> &'static str {
        SERVICES[usize::from(self.0 >> 5)]
    }

    /// It asks the other end for something and takes its PSN from the sender's own sequence.
    pub fn is_request(self) -> bool {
        matches!(self.operation(), 0x00..=0x0c | 0x13 | 0x14 | 0x16 | 0x17)
    }

    /// It brings data of a READ.
    pub fn is_read_response(self) -> bool {
        matches!(self.operation(), 0x0d..=0x10)
    }

    /// An acknowledgement, positive or negative.
    pub fn is_ack(self) -> bool {
        self.operation() == 0x11
    }

    /// It asks for the data of a READ.
    pub fn is_read_request(self) -> bool {
        self.operation() == 0x0c
    }

    /// Bytes of headers between the BTH and what [`Opcode::reth`] and the others say: those of
    /// datagrams, RD and XRC.
    pub fn service_bytes(self) -> usize {
        match self.service() {
            // RDETH; requests a DETH, too
            "RD" if self.is_request() => 12,
            "RD" => 4,
            "UD" => 8,
            "XRC" if self.is_request() => 4,
            _ => 0,
        }
    }

    /// A RETH follows.
    pub fn reth(self) -> bool {
        matches!(self.operation(), 0x06 | 0x0a | 0x0b | 0x0c)
    }

    /// An AETH follows.
    pub fn aeth(self) -> bool {
        matches!(self.operation(), 0x0d | 0x0f..=0x12)
    }

    /// Immediate data follows.
    pub fn immediate(self) -> bool {
        matches!(self.operation(), 0x03 | 0x05 | 0x09 | 0x0b)
    }

    /// Bytes that follow and are not read: AtomicETH, AtomicAckETH, IETH, those of a CNP.
    pub fn other_bytes(self) -> usize {
        match self.operation() {
            _ if self == Opcode::CNP => super::CNP_RESERVED,
            0x12 => 8,
            0x13 | 0x14 => 28,
            0x16 | 0x17 => 4,
            _ => 0,
        }
    }

    /// Bytes of all headers between BTH and payload.
    pub fn header_bytes(self) -> usize {
        let length = |there: bool, bytes: usize| if there { bytes } else { 0 };
        self.service_bytes()
            + length(self.reth(), super::RETH)
            + length(self.aeth(), super::AETH)
            + length(self.immediate(), super::IMMEDIATE)
            + self.other_bytes()
    }
}

impl fmt::Display for Opcode {
    /// `WRITE_FIRST` of RC, which is nearly all that there is, else with the service: `UD_SEND_ONLY`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = OPERATIONS.get(usize::from(self.operation()));
        match (self.service(), operation) {
            _ if *self == Opcode::CNP => f.pad("CNP"),
            ("RC", Some(operation)) => f.pad(operation),
            ("UC" | "RD" | "UD" | "XRC", Some(operation)) => {
                f.pad(&format!("{}_{operation}", self.service()))
            }
            _ => f.pad(&format!("0x{:02x}", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_follow_opcodes() {
        // bytes between BTH and payload, from the lengths of frames of real captures: WRITE first 1098 =
        // 14 + 20 + 8 + 12 + 16 + 1024 + 4; READ middle 1082; READ last 1086; FetchAdd 86; Atomic ACK 70
        let bytes = |opcode: u8| Opcode(opcode).header_bytes();
        assert_eq!([bytes(0x06), bytes(0x07), bytes(0x08), bytes(0x09)], [16, 0, 0, 4]);
        assert_eq!([bytes(0x0a), bytes(0x0b), bytes(0x0c)], [16, 20, 16]);
        assert_eq!([bytes(0x0d), bytes(0x0e), bytes(0x0f), bytes(0x10)], [4, 0, 4, 4]);
        assert_eq!([bytes(0x11), bytes(0x12), bytes(0x14), bytes(0x81)], [4, 12, 28, 16]);
        // UD SEND only: DETH 8
        assert_eq!([bytes(0x64), bytes(0x17)], [8, 4]);
    }

    #[test]
    fn names_are_those_of_the_specification() {
        let names = [0x06, 0x0b, 0x11, 0x81, 0x64, 0xff].map(|code| Opcode(code).to_string());
        let expected = ["WRITE_FIRST", "WRITE_ONLY_IMM", "ACK", "CNP", "UD_SEND_ONLY", "0xff"];
        assert_eq!(names, expected);
    }

    #[test]
    fn no_opcode_is_a_request_and_an_answer() {
        for opcode in (0..=255).map(Opcode) {
            let kinds = [
                opcode.is_request(),
                opcode.is_read_response(),
                opcode.is_ack(),
                opcode == Opcode::CNP,
            ];
            assert!(kinds.iter().filter(|is| **is).count() <= 1, "{opcode}");
        }
    }
}
