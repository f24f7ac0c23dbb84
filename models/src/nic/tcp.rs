//! The receiving end of a TCP flow: segments that come early are kept.

use super::go_back_n::{Receipt, Reply};
use super::kept::Kept;

/// What has arrived. Segments are numbered, not bytes.
#[derive(Clone, Debug, Default)]
pub struct TcpReceiver {
    kept: Kept,
    /// The gap at this segment was reported.
    reported: Option<u32>,
    /// Segments that came early and end their message.
    ends: Vec<u32>,
}

impl TcpReceiver {
    /// A segment arrives, the `last` one of its message or not; also says how many messages are whole
    /// by it, without a gap. [`Reply::Nak`] stands for the duplicate ACKs of a gap: one for each.
    pub fn on_segment(&mut self, number: u32, ack_req: bool, last: bool) -> (Receipt, u32) {
        let duplicate = !self.kept.keep(number);
        let expected = self.kept.expected();
        let filled = !duplicate && number < expected;
        let gap = self.kept.has_gap() && self.reported != Some(expected);
        // more than this segment is in order now
        let jumped = expected > number + 1;
        let reply = if gap {
            self.reported = Some(expected);
            Reply::Nak(expected)
        } else if expected > 0 && (duplicate || filled && (ack_req || jumped)) {
            Reply::Ack(expected - 1)
        } else {
            Reply::None
        };
        if last && !duplicate {
            self.ends.push(number);
        }
        let before = self.ends.len();
        self.ends.retain(|end| *end >= expected);
        let whole = (before - self.ends.len()) as u32;
        (Receipt { accepted: !duplicate, first: false, duplicate, reply }, whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gap_is_told_once_and_what_came_early_is_kept() {
        let mut receiver = TcpReceiver::default();
        let mut reply = |number, ack_req| {
            let (receipt, _) = receiver.on_segment(number, ack_req, false);
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

    #[test]
    fn messages_count_when_nothing_before_them_is_missing() {
        let mut receiver = TcpReceiver::default();
        // segments 1 and 3 end messages; 1 is lost and comes last
        let mut whole = |number, last| receiver.on_segment(number, last, last).1;
        assert_eq!(
            [whole(0, false), whole(2, false), whole(3, true), whole(1, true)],
            [0, 0, 0, 2]
        );
    }
}
