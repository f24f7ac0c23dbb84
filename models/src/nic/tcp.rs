//! The receiving end of a TCP flow: segments that come early are kept.

use super::go_back_n::{Receipt, Reply};

/// What has arrived. Segments are numbered, not bytes.
#[derive(Clone, Debug, Default)]
pub struct TcpReceiver {
    expected: u32,
    /// What is here beyond `expected`: ranges [from, to), in order, none next to another.
    early: Vec<(u32, u32)>,
    /// The gap at this segment was reported.
    reported: Option<u32>,
}

impl TcpReceiver {
    /// A segment arrives. [`Reply::Nak`] stands for the duplicate ACKs of a gap: one for each.
    pub fn on_segment(&mut self, number: u32, ack_req: bool) -> Receipt {
        let duplicate = number < self.expected
            || self.early.iter().any(|(from, to)| (*from..*to).contains(&number));
        if !duplicate {
            self.keep(number);
        }
        let filled = !duplicate && number < self.expected;
        let gap = !self.early.is_empty() && self.reported != Some(self.expected);
        let reply = if gap {
            self.reported = Some(self.expected);
            Reply::Nak(self.expected)
        } else if self.expected > 0 && (duplicate || filled && (ack_req || self.jumped(number))) {
            Reply::Ack(self.expected - 1)
        } else {
            Reply::None
        };
        Receipt { accepted: !duplicate, first: false, duplicate, reply }
    }

    /// More than this segment is in order now.
    fn jumped(&self, number: u32) -> bool {
        self.expected > number + 1
    }

    fn keep(&mut self, number: u32) {
        let place = self.early.partition_point(|(_, to)| *to < number);
        match self.early.get_mut(place) {
            Some((_, to)) if *to == number => {
                *to += 1;
                let next = self.early.get(place + 1).copied();
                if let Some((_, end)) = next.filter(|(from, _)| *from == number + 1) {
                    self.early[place].1 = end;
                    self.early.remove(place + 1);
                }
            }
            Some((from, _)) if *from == number + 1 => *from = number,
            _ if number == self.expected => {
                self.expected += 1;
                return;
            }
            _ => self.early.insert(place, (number, number + 1)),
        }
        if let Some((_, end)) = self.early.first().filter(|(from, _)| *from == self.expected) {
            self.expected = *end;
            self.early.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gap_is_told_once_and_what_came_early_is_kept() {
        let mut receiver = TcpReceiver::default();
        let mut reply = |number, ack_req| {
            let receipt = receiver.on_segment(number, ack_req);
            (receipt.accepted, receipt.reply)
        };
        assert_eq!(reply(0, false), (true, Reply::None));
        assert_eq!(reply(1, true), (true, Reply::Ack(1)));
        // 2 and 5 are missing
        assert_eq!(reply(3, true), (true, Reply::Nak(2)));
        assert_eq!(reply(4, false), (true, Reply::None));
        assert_eq!(reply(6, true), (true, Reply::None));
        assert_eq!(reply(3, false), (false, Reply::Ack(1)));
        // 2 fills the first gap and shows the next
        assert_eq!(reply(2, true), (true, Reply::Nak(5)));
        assert_eq!(reply(5, false), (true, Reply::Ack(6)));
        assert_eq!(reply(7, false), (true, Reply::None));
        assert_eq!(reply(8, true), (true, Reply::Ack(8)));
    }
}
