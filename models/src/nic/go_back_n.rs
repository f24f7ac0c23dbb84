//! Reliable connection with go-back-N (IB specification 9.7): the requester's and the responder's
//! side of one QP. PSNs are unwrapped.
//!
//! With go-back-0, as the first RoCE NICs had it (Guo et al., SIGCOMM 2016, section 4.1), a message
//! that has lost a packet is sent again from its first one, and the responder throws away what it
//! has of it.

use std::collections::VecDeque;

use sim_core::{Delta, Time};

use super::config::Recovery;

/// A message posted for sending: one WRITE.
#[derive(Clone, Copy, Debug)]
struct Message {
    first: u32,
    packets: u32,
    bytes: u64,
}

/// The next packet of a requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub psn: u32,
    /// Payload bytes.
    pub payload: u16,
    /// First (or only) of its message: it carries a RETH.
    pub first: bool,
    /// Last (or only) of its message.
    pub last: bool,
    /// AckReq.
    pub ack_req: bool,
    /// It was sent before.
    pub again: bool,
}

/// What an acknowledgement or time-out means for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing new.
    Stale,
    /// More is acknowledged, but not all that was posted.
    Advanced,
    /// All that was posted is acknowledged.
    Complete,
}

/// Constant parameters of a requester.
#[derive(Clone, Copy, Debug)]
pub struct RequesterParams {
    /// Largest payload.
    pub mtu: u16,
    /// AckReq on every so many packets.
    pub ack_every: u32,
    /// [`Delta::MAX`] for none.
    pub ack_timeout: Delta,
    /// Time-outs without progress that are survived.
    pub retry_cnt: u8,
    /// A TCP flow: its segments have TCP's headers.
    pub tcp: bool,
    /// What is sent again after a loss.
    pub recovery: Recovery,
}

/// The sending side.
#[derive(Clone, Debug)]
pub struct Requester {
    messages: VecDeque<Message>,
    /// Position in `messages` of the one that holds `next`.
    current: usize,
    una: u32,
    next: u32,
    /// End of what was ever sent.
    sent: u32,
    /// End of what was posted.
    end: u32,
    retries: u8,
    /// Messages acknowledged that nobody has asked for yet.
    completed: u32,
    /// When the oldest unacknowledged packet times out.
    timeout_at: Time,
}

impl Default for Requester {
    fn default() -> Self {
        Requester {
            messages: VecDeque::new(),
            current: 0,
            una: 0,
            next: 0,
            sent: 0,
            end: 0,
            retries: 0,
            completed: 0,
            timeout_at: Time::MAX,
        }
    }
}

impl Requester {
    /// Queues a WRITE of `bytes` (at least one packet). The caller keeps PSNs below 2^32.
    pub fn post(&mut self, bytes: u64, params: &RequesterParams) {
        let packets = bytes.div_ceil(u64::from(params.mtu)).max(1) as u32;
        self.messages.push_back(Message { first: self.end, packets, bytes });
        self.end += packets;
    }

    /// True if there is a packet to send.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.next < self.end
    }

    /// True if everything posted is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.end
    }

    /// First packet that is not acknowledged, and the end of what was ever sent.
    pub fn unacknowledged(&self) -> (u32, u32) {
        (self.una, self.sent)
    }

    /// Payload sent and not acknowledged, were all packets full.
    #[inline]
    pub fn in_flight(&self, params: &RequesterParams) -> u64 {
        u64::from(self.next - self.una) * u64::from(params.mtu)
    }

    /// Takes the next packet, which leaves at `now`.
    #[inline]
    pub fn take(&mut self, now: Time, params: &RequesterParams) -> Option<Segment> {
        if self.next >= self.end {
            return None;
        }
        let message = loop {
            let message = self.messages[self.current];
            if self.next < message.first + message.packets {
                break message;
            }
            self.current += 1;
        };
        let index = self.next - message.first;
        let last = index + 1 == message.packets;
        let before = u64::from(index) * u64::from(params.mtu);
        let payload = if last { message.bytes - before } else { u64::from(params.mtu) };
        let segment = Segment {
            psn: self.next,
            payload: payload as u16,
            first: index == 0,
            last,
            ack_req: last || (index + 1).is_multiple_of(params.ack_every),
            again: self.next < self.sent,
        };
        if self.next == self.una {
            self.timeout_at = now.saturating_add(params.ack_timeout);
        }
        self.next += 1;
        self.sent = self.sent.max(self.next);
        Some(segment)
    }

    /// All packets up to and including `psn` have arrived.
    #[inline]
    pub fn on_ack(&mut self, now: Time, psn: u32, params: &RequesterParams) -> Progress {
        self.acknowledge(now, psn.saturating_add(1), params)
    }

    /// `psn` is expected: everything before it has arrived, everything from it on is sent again (with
    /// go-back-0 it is the first of its message).
    pub fn on_nak(&mut self, now: Time, psn: u32, params: &RequesterParams) -> Progress {
        let progress = self.acknowledge(now, psn, params);
        let restart = params.recovery == Recovery::GoBack0
            && self.messages.front().is_some_and(|message| psn >= message.first);
        if (psn >= self.una || restart) && psn < self.next {
            self.go_back(now, params);
        }
        progress
    }

    /// The local ACK timer fires at `now`; `false` if the retries are used up.
    pub fn on_timeout(&mut self, now: Time, params: &RequesterParams) -> bool {
        if self.retries >= params.retry_cnt {
            return false;
        }
        self.retries += 1;
        self.go_back(now, params);
        true
    }

    /// Messages acknowledged since this was last asked.
    #[inline]
    pub fn take_completed(&mut self) -> u32 {
        std::mem::take(&mut self.completed)
    }

    /// When the local ACK timer fires; [`Time::MAX`] for never.
    #[inline]
    pub fn timeout_at(&self) -> Time {
        self.timeout_at
    }

    #[inline]
    fn acknowledge(&mut self, now: Time, una: u32, params: &RequesterParams) -> Progress {
        if una <= self.una || una > self.sent {
            return Progress::Stale;
        }
        self.una = una;
        self.next = self.next.max(una);
        self.retries = 0;
        while self.messages.front().is_some_and(|m| m.first + m.packets <= una) {
            self.messages.pop_front();
            self.completed += 1;
            self.current = self.current.saturating_sub(1);
        }
        let outstanding = self.una < self.next;
        self.timeout_at =
            if outstanding { now.saturating_add(params.ack_timeout) } else { Time::MAX };
        if self.una == self.end { Progress::Complete } else { Progress::Advanced }
    }

    fn go_back(&mut self, now: Time, params: &RequesterParams) {
        if params.recovery == Recovery::GoBack0 {
            // the oldest message that is not acknowledged as a whole
            self.una = self.messages.front().map_or(self.una, |message| message.first);
        }
        self.next = self.una;
        self.current = 0;
        self.timeout_at = now.saturating_add(params.ack_timeout);
    }
}

/// What the responder sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    None,
    /// All up to and including this.
    Ack(u32),
    /// This is expected.
    Nak(u32),
}

/// What became of a data packet at the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// It was the expected one: its payload is in memory.
    pub accepted: bool,
    /// With go-back-0: it is the first of its message, perhaps not for the first time.
    pub first: bool,
    /// It had been accepted before.
    pub duplicate: bool,
    /// What is sent back.
    pub reply: Reply,
}

/// Constant parameters of a responder.
#[derive(Clone, Copy, Debug)]
pub struct ResponderParams {
    /// See `TransportConfig::nak_repeat`.
    pub nak_repeat: Option<Delta>,
    /// See `TransportConfig::ack_duplicates`.
    pub ack_duplicates: bool,
}

/// The receiving side.
#[derive(Clone, Debug, Default)]
pub struct Responder {
    expected: u32,
    /// The first packet of the message that is being received.
    message: u32,
    /// That of its requester.
    recovery: Recovery,
    /// The gap at this PSN was reported, at that time.
    nak: Option<(u32, Time)>,
}

impl Responder {
    /// One that has received nothing, of a requester that recovers so.
    pub fn new(recovery: Recovery) -> Self {
        Responder { recovery, ..Responder::default() }
    }

    /// That of its requester.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// A data packet arrives.
    #[inline]
    pub fn on_data(
        &mut self,
        now: Time,
        psn: u32,
        [ack_req, last]: [bool; 2],
        params: &ResponderParams,
    ) -> Receipt {
        let first = self.recovery == Recovery::GoBack0 && self.begins(psn);
        if psn == self.expected {
            self.expected += 1;
            if last {
                self.message = self.expected;
            }
            let reply = if ack_req { Reply::Ack(psn) } else { Reply::None };
            return Receipt { accepted: true, first, duplicate: false, reply };
        }
        let duplicate = psn < self.expected;
        let reply = if !duplicate {
            self.report_gap(now, params)
        } else if params.ack_duplicates {
            Reply::Ack(self.expected - 1)
        } else {
            Reply::None
        };
        Receipt { accepted: false, first: false, duplicate, reply }
    }

    /// With go-back-0: expects the message from its first packet on if that has come, perhaps again,
    /// or if there is a gap. True if it has come.
    fn begins(&mut self, psn: u32) -> bool {
        let begins = psn == self.message;
        if begins {
            // gaps of this attempt are reported like those of the one before
            self.nak = None;
        }
        if begins || psn > self.expected {
            self.expected = self.message;
        }
        begins
    }

    fn report_gap(&mut self, now: Time, params: &ResponderParams) -> Reply {
        if let Some((psn, at)) = self.nak
            && psn == self.expected
            && params.nak_repeat.is_none_or(|pause| now < at.saturating_add(pause))
        {
            return Reply::None;
        }
        self.nak = Some((self.expected, now));
        Reply::Nak(self.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: RequesterParams = RequesterParams {
        mtu: 1000,
        ack_every: 4,
        ack_timeout: Delta::from_us(67),
        retry_cnt: 2,
        tcp: false,
        recovery: Recovery::GoBackN,
    };
    const STRICT: ResponderParams = ResponderParams { nak_repeat: None, ack_duplicates: true };

    const fn us(us: u64) -> Time {
        Time::from_ps(us * 1_000_000)
    }

    #[test]
    fn messages_are_cut_into_packets() {
        let mut requester = Requester::default();
        requester.post(5500, &PARAMS);
        requester.post(0, &PARAMS);
        let segments: Vec<_> = std::iter::from_fn(|| requester.take(us(0), &PARAMS))
            .map(|s| (s.psn, s.payload, s.first, s.last, s.ack_req))
            .collect();
        // AckReq on the fourth packet of the message and on the last; an empty WRITE is one packet
        assert_eq!(
            segments,
            [
                (0, 1000, true, false, false),
                (1, 1000, false, false, false),
                (2, 1000, false, false, false),
                (3, 1000, false, false, true),
                (4, 1000, false, false, false),
                (5, 500, false, true, true),
                (6, 0, true, true, true),
            ]
        );
        assert_eq!(requester.on_ack(us(1), 5, &PARAMS), Progress::Advanced);
        assert_eq!(requester.on_ack(us(1), 5, &PARAMS), Progress::Stale);
        assert_eq!(requester.on_ack(us(1), 6, &PARAMS), Progress::Complete);
        assert_eq!(requester.timeout_at(), Time::MAX);
    }

    #[test]
    fn a_gap_costs_one_nak_and_everything_after_it_is_sent_again() {
        let (mut requester, mut responder) = (Requester::default(), Responder::default());
        requester.post(8000, &PARAMS);
        (0..6).for_each(|_| assert!(requester.take(us(0), &PARAMS).is_some()));
        let receive =
            |responder: &mut Responder, psn| responder.on_data(us(1), psn, [false; 2], &STRICT);
        assert!(receive(&mut responder, 0).accepted && receive(&mut responder, 1).accepted);
        // 2 is lost
        let gap = Receipt { accepted: false, first: false, duplicate: false, reply: Reply::Nak(2) };
        assert_eq!(receive(&mut responder, 3), gap);
        assert_eq!(receive(&mut responder, 4).reply, Reply::None);
        assert_eq!(requester.on_nak(us(2), 2, &PARAMS), Progress::Advanced);
        let segment = requester.take(us(3), &PARAMS).unwrap();
        assert_eq!((segment.psn, segment.again), (2, true));
        // the repaired gap is forgotten: the next one is reported again
        assert!(receive(&mut responder, 2).accepted);
        assert_eq!(receive(&mut responder, 4).reply, Reply::Nak(3));
        // duplicates are acknowledged with the last in order
        let again =
            Receipt { accepted: false, first: false, duplicate: true, reply: Reply::Ack(2) };
        assert_eq!(receive(&mut responder, 1), again);
        // a NAK that says what is known changes nothing
        assert_eq!(requester.on_nak(us(4), 1, &PARAMS), Progress::Stale);
        assert_eq!(requester.take(us(4), &PARAMS).unwrap().psn, 3);
    }

    #[test]
    fn a_nak_can_be_repeated_after_a_while() {
        let params =
            ResponderParams { nak_repeat: Some(Delta::from_us(500)), ack_duplicates: false };
        let mut responder = Responder::default();
        let replies = [10, 509, 510, 600]
            .map(|at| responder.on_data(us(at), 7, [true, false], &params).reply);
        assert_eq!(replies, [Reply::Nak(0), Reply::None, Reply::Nak(0), Reply::None]);
    }

    #[test]
    fn the_timer_runs_from_the_oldest_packet_and_gives_up() {
        let mut requester = Requester::default();
        requester.post(3000, &PARAMS);
        requester.take(us(10), &PARAMS);
        requester.take(us(20), &PARAMS);
        assert_eq!(requester.timeout_at(), us(77));
        assert_eq!(requester.on_ack(us(30), 0, &PARAMS), Progress::Advanced);
        assert_eq!(requester.timeout_at(), us(97));
        assert!(requester.on_timeout(us(97), &PARAMS));
        assert_eq!(requester.take(us(97), &PARAMS).unwrap().psn, 1);
        assert_eq!(requester.timeout_at(), us(164));
        assert!(requester.on_timeout(us(164), &PARAMS));
        assert!(!requester.on_timeout(us(231), &PARAMS), "two retries are used up");
    }

    const BACK_TO_0: RequesterParams = RequesterParams { recovery: Recovery::GoBack0, ..PARAMS };

    #[test]
    fn go_back_0_sends_a_message_again_from_its_first_packet() {
        let mut requester = Requester::default();
        let mut responder = Responder::new(Recovery::GoBack0);
        // two messages of 6 and of 2 packets: PSNs 0 to 5 and 6 to 7
        requester.post(6000, &BACK_TO_0);
        requester.post(2000, &BACK_TO_0);
        let take = |requester: &mut Requester| requester.take(us(0), &BACK_TO_0);
        let receive = |responder: &mut Responder, segment: Segment| {
            let flags = [segment.ack_req, segment.last];
            responder.on_data(us(1), segment.psn, flags, &STRICT)
        };
        let sent: Vec<Segment> = (0..7).filter_map(|_| take(&mut requester)).collect();
        // the fourth packet asks for an ACK; 4 is lost, and the NAK asks for the first one
        let replies: Vec<Reply> =
            [0, 1, 2, 3, 5, 6].map(|psn: usize| receive(&mut responder, sent[psn]).reply).into();
        let none = Reply::None;
        assert_eq!(replies, [none, none, none, Reply::Ack(3), Reply::Nak(0), none]);
        assert_eq!(requester.on_ack(us(2), 3, &BACK_TO_0), Progress::Advanced);
        assert_eq!(requester.in_flight(&BACK_TO_0), 3000);
        requester.on_nak(us(3), 0, &BACK_TO_0);
        assert_eq!(requester.in_flight(&BACK_TO_0), 0);
        // the second attempt loses 2, and that gap is reported too
        let again: Vec<Segment> = (0..4).filter_map(|_| take(&mut requester)).collect();
        assert_eq!((again[0].psn, again[0].first, again[0].again), (0, true, true));
        let first = receive(&mut responder, again[0]);
        assert!(first.accepted && first.first);
        assert!(receive(&mut responder, again[1]).accepted);
        assert_eq!(receive(&mut responder, again[3]).reply, Reply::Nak(0));
        requester.on_nak(us(4), 0, &BACK_TO_0);
        // the third one comes as a whole, and its NAK comes once more, too late
        let third: Vec<Segment> = (0..6).filter_map(|_| take(&mut requester)).collect();
        let receipts = third.iter().map(|segment| receive(&mut responder, *segment));
        assert_eq!(receipts.filter(|receipt| receipt.accepted).count(), 6);
        assert_eq!(requester.on_ack(us(5), 5, &BACK_TO_0), Progress::Advanced);
        assert_eq!(requester.on_nak(us(5), 0, &BACK_TO_0), Progress::Stale);
        assert_eq!(take(&mut requester).map(|segment| segment.psn), Some(6));
        assert_eq!(requester.take_completed(), 1);
    }

    #[test]
    fn go_back_0_times_out_to_the_first_packet_and_a_whole_message_is_a_duplicate() {
        let mut requester = Requester::default();
        let mut responder = Responder::new(Recovery::GoBack0);
        requester.post(5000, &BACK_TO_0);
        let receive = |responder: &mut Responder, psn| {
            responder.on_data(us(1), psn, [psn == 3 || psn == 4, psn == 4], &STRICT)
        };
        (0..5).for_each(|_| assert!(requester.take(us(0), &BACK_TO_0).is_some()));
        // the last one is lost: no gap shows it
        (0..4).for_each(|psn| assert!(receive(&mut responder, psn).accepted));
        requester.on_ack(us(2), 3, &BACK_TO_0);
        assert!(requester.on_timeout(us(69), &BACK_TO_0));
        assert_eq!(requester.take(us(69), &BACK_TO_0).map(|segment| segment.psn), Some(0));
        // the responder begins anew although it expected the fifth
        (0..5).for_each(|psn| assert!(receive(&mut responder, psn).accepted));
        // this ACK is lost; the message comes a third time, and is known
        let known = receive(&mut responder, 0);
        assert_eq!((known.accepted, known.duplicate, known.reply), (false, true, Reply::Ack(4)));
        assert_eq!(requester.on_ack(us(140), 4, &BACK_TO_0), Progress::Complete);
    }
}
