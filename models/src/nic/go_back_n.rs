//! Reliable connection with go-back-N (IB specification 9.7): the requester's and the responder's
//! side of one QP. PSNs are unwrapped.
//!
//! With go-back-0, as the first RoCE NICs had it (Guo et al., SIGCOMM 2016, section 4.1), a message
//! that has lost a packet is sent again from its first one, and the responder throws away what it
//! has of it.

use std::collections::VecDeque;

use sim_core::{Delta, Time};

use super::config::Recovery;
use super::selective::{Selective, SelectiveConfig};
use crate::note::Wanted;

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
    /// What its packets are.
    pub framing: Framing,
    /// What is sent again after a loss.
    pub recovery: Recovery,
    /// Packets are ECN-capable.
    pub ect: bool,
    /// What packets are to bring back,
    pub wants: Option<Wanted>,
    /// and the bytes that this takes in them and in ACKs.
    pub header: u16,
}

/// What the packets of a requester are, which decides their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A WRITE: the first one has a RETH.
    Write,
    /// A SEND.
    Send,
    /// Responses to a READ.
    ReadResponse,
    /// TCP segments.
    Tcp,
}

impl RequesterParams {
    /// It stands for a TCP flow.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        self.framing == Framing::Tcp
    }
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
    /// With selective repeat: what has come beyond gaps.
    selective: Option<Box<Selective>>,
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
            selective: None,
        }
    }
}

impl Requester {
    /// One with selective repeat.
    pub fn selective(config: SelectiveConfig) -> Self {
        let selective = Some(Box::new(Selective::new(config)));
        Requester { selective, ..Requester::default() }
    }

    /// Queues a WRITE of `bytes` (at least one packet). The caller keeps PSNs below 2^32.
    pub fn post(&mut self, bytes: u64, params: &RequesterParams) {
        let packets = bytes.div_ceil(u64::from(params.mtu)).max(1) as u32;
        self.messages.push_back(Message { first: self.end, packets, bytes });
        self.end += packets;
    }

    /// True if there is a packet to send.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.next < self.end || self.must_repeat()
    }

    /// True if a packet is to be sent again by itself, whatever the window.
    #[inline]
    pub fn must_repeat(&self) -> bool {
        self.selective.is_some() && self.misses()
    }

    #[cold]
    #[inline(never)]
    fn misses(&self) -> bool {
        self.selective.as_ref().is_some_and(|selective| selective.missing().is_some())
    }

    /// True if everything posted is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.end
    }

    /// First packet that is not acknowledged, and the end of what was ever sent.
    pub fn unacknowledged(&self) -> (u32, u32) {
        (self.una, self.sent)
    }

    /// The next packet that will be sent, were none sent again.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Payload sent and not acknowledged, were all packets full.
    #[inline]
    pub fn in_flight(&self, params: &RequesterParams) -> u64 {
        u64::from(self.next - self.una) * u64::from(params.mtu)
    }

    /// Takes the next packet, which leaves at `now`.
    #[inline]
    pub fn take(&mut self, now: Time, params: &RequesterParams) -> Option<Segment> {
        if self.must_repeat() {
            return self.take_again(now, params);
        }
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
        let segment = segment(&message, self.next, self.next < self.sent, params);
        if self.next == self.una {
            self.timeout_at = now.saturating_add(params.ack_timeout);
            self.arm_selective(now, 1);
        }
        self.next += 1;
        self.sent = self.sent.max(self.next);
        Some(segment)
    }

    /// The packet that selective repeat sends again, if there is one.
    #[cold]
    #[inline(never)]
    fn take_again(&mut self, now: Time, params: &RequesterParams) -> Option<Segment> {
        let selective = self.selective.as_mut()?;
        let psn = selective.missing()?;
        selective.sent_again(psn);
        if psn == self.una {
            self.timeout_at = selective.arm(now, self.next - self.una);
        }
        let at = self.messages.partition_point(|message| message.first + message.packets <= psn);
        Some(segment(self.messages.get(at)?, psn, true, params))
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

    /// With selective repeat: `psn` is expected, and packet `came` has come.
    #[cold]
    pub fn on_early(
        &mut self,
        now: Time,
        psn: u32,
        came: u32,
        params: &RequesterParams,
    ) -> Progress {
        let progress = self.acknowledge(now, psn, params);
        if let Some(selective) = &mut self.selective
            && came < self.sent
        {
            selective.on_early(came, self.sent);
        }
        progress
    }

    /// With selective repeat: the timer, which is due at `now`, was set for fewer packets than are in
    /// flight, and fires later.
    pub fn extends_timeout(&mut self) -> bool {
        let in_flight = self.next - self.una;
        let extended =
            self.selective.as_ref().and_then(|it| it.extended(self.timeout_at, in_flight));
        if let Some(at) = extended {
            self.timeout_at = at;
        }
        extended.is_some()
    }

    /// The local ACK timer fires at `now`; `false` if the retries are used up. Selective repeat never
    /// gives up.
    pub fn on_timeout(&mut self, now: Time, params: &RequesterParams) -> bool {
        if let Some(selective) = &mut self.selective {
            selective.on_timeout(self.sent);
            self.arm_selective(now, self.next - self.una);
            return true;
        }
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
        self.advance_selective(now);
        if self.una == self.end { Progress::Complete } else { Progress::Advanced }
    }

    /// With selective repeat the timer has another time.
    #[inline]
    fn arm_selective(&mut self, now: Time, in_flight: u32) {
        if let Some(selective) = &mut self.selective {
            self.timeout_at = selective.arm(now, in_flight);
        }
    }

    /// More is acknowledged: what selective repeat makes of it.
    #[inline]
    fn advance_selective(&mut self, now: Time) {
        if self.selective.is_some() {
            self.note_advance(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_advance(&mut self, now: Time) {
        let (una, next) = (self.una, self.next);
        if let Some(selective) = &mut self.selective {
            selective.on_advance(una);
        }
        if una < next {
            self.arm_selective(now, next - una);
        }
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

/// Packet `psn` of a message.
#[inline]
fn segment(message: &Message, psn: u32, again: bool, params: &RequesterParams) -> Segment {
    let index = psn - message.first;
    let last = index + 1 == message.packets;
    let before = u64::from(index) * u64::from(params.mtu);
    let payload = if last { message.bytes - before } else { u64::from(params.mtu) };
    Segment {
        psn,
        payload: payload as u16,
        first: index == 0,
        last,
        ack_req: last || (index + 1).is_multiple_of(params.ack_every),
        again,
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
    /// With selective repeat: this is expected, and that has come.
    Early(u32, u32),
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

    /// The packet that it expects.
    pub fn expected(&self) -> u32 {
        self.expected
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
mod tests;
