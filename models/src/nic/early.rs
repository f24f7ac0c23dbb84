//! Packets that come out of order: counted, and kept where the NIC can do that.

use sim_core::Time;

use super::config::Recovery;
use super::go_back_n::{Receipt, Reply, RequesterParams, Responder, ResponderParams};
use super::kept::Kept;
use super::tcp::TcpReceiver;
use crate::packet::Packet;

/// The receiving end of a QP that is more than a [`Responder`].
#[derive(Clone, Debug)]
pub struct Early {
    /// What is kept of packets that come early.
    pub keeps: Keeps,
    /// Packets that came after a later one, the first time that they were sent (RFC 4737).
    pub reordered: u64,
    /// Beyond the last packet that has come.
    next: u32,
}

/// What a receiving end keeps of packets that come early.
#[derive(Clone, Debug)]
pub enum Keeps {
    /// Nothing: go-back-N.
    Nothing,
    /// Their data, which is written to its place at once.
    Data(OooReceiver),
    /// All, as TCP does.
    Tcp(TcpReceiver),
    /// Their data, and each is answered (selective repeat).
    Selective(OooReceiver),
}

impl Early {
    /// One that has received nothing.
    pub fn new(keeps: Keeps) -> Self {
        Early { keeps, reordered: 0, next: 0 }
    }

    /// What a QP needs beside a [`Responder`], if it does: TCP's end, selective repeat, data placement,
    /// or (where switches spread packets: nothing else brings them out of order) a count.
    pub fn needed(
        transport: &RequesterParams,
        ooo_data_placement: bool,
        reordered: bool,
    ) -> Option<Box<Self>> {
        let keeps = match transport.recovery {
            _ if transport.is_tcp() => Keeps::Tcp(TcpReceiver::default()),
            Recovery::SelectiveRepeat => Keeps::Selective(OooReceiver::default()),
            _ if ooo_data_placement => Keeps::Data(OooReceiver::default()),
            _ if reordered => Keeps::Nothing,
            _ => return None,
        };
        Some(Box::new(Early::new(keeps)))
    }

    /// The first packet that is missing, where more is kept than a [`Responder`] knows of.
    pub fn expected(&self) -> Option<u32> {
        match &self.keeps {
            Keeps::Data(receiver) | Keeps::Selective(receiver) => Some(receiver.kept.expected()),
            Keeps::Nothing | Keeps::Tcp(_) => None,
        }
    }

    /// A packet arrives; also says how many messages are whole by it.
    pub fn on_data(
        &mut self,
        now: Time,
        packet: &Packet,
        responder: &mut Responder,
        params: &ResponderParams,
    ) -> (Receipt, u32) {
        self.reordered += u64::from(packet.psn < self.next && !packet.again());
        self.next = self.next.max(packet.psn + 1);
        let flags = [packet.ack_req(), packet.last()];
        let receipt = match &mut self.keeps {
            Keeps::Nothing => responder.on_data(now, packet.psn, flags, params),
            Keeps::Data(receiver) => return receiver.on_data(packet.psn, flags, params),
            Keeps::Selective(receiver) => return receiver.on_data_selective(packet.psn, flags),
            Keeps::Tcp(tcp) => return tcp.on_segment(packet.psn, packet.ack_req(), packet.last()),
        };
        (receipt, u32::from(receipt.accepted && packet.last()))
    }
}

/// Out-of-order data placement (mlx5: OOO DP, which adaptive routing needs): a WRITE says where its
/// data goes, so packets of any order are taken. ACKs tell what has come without a gap, and a gap
/// alone is no loss: there are no NAKs, and what is lost is sent again after its time-out.
#[derive(Clone, Debug, Default)]
pub struct OooReceiver {
    kept: Kept,
    /// Packets that came early and ask for an ACK; and whether they end their message.
    waiting: Vec<(u32, bool)>,
}

impl OooReceiver {
    fn on_data(
        &mut self,
        psn: u32,
        [ack_req, last]: [bool; 2],
        params: &ResponderParams,
    ) -> (Receipt, u32) {
        let before = self.kept.expected();
        let duplicate = !self.kept.keep(psn);
        let expected = self.kept.expected();
        let (mut messages, mut acks) = (0, duplicate && params.ack_duplicates && expected > 0);
        if !duplicate && (ack_req || last) {
            self.waiting.push((psn, last));
        }
        if expected > before && !self.waiting.is_empty() {
            self.waiting.retain(|(psn, last)| {
                let whole = *psn < expected;
                messages += u32::from(whole && *last);
                acks |= whole;
                !whole
            });
        }
        let reply = if acks { Reply::Ack(expected - 1) } else { Reply::None };
        (Receipt { accepted: !duplicate, first: false, duplicate, reply }, messages)
    }

    /// With selective repeat each packet has its answer: an ACK of all that has come without a gap, or,
    /// if it came early, what is expected and what has come.
    fn on_data_selective(&mut self, psn: u32, flags: [bool; 2]) -> (Receipt, u32) {
        let params = ResponderParams { nak_repeat: None, ack_duplicates: false };
        let (receipt, messages) = self.on_data(psn, flags, &params);
        let expected = self.kept.expected();
        let reply = match psn < expected {
            true => Reply::Ack(expected - 1),
            false => Reply::Early(expected, psn),
        };
        (Receipt { reply, ..receipt }, messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;

    const PARAMS: ResponderParams = ResponderParams { nak_repeat: None, ack_duplicates: true };

    #[test]
    fn data_of_any_order_is_taken_and_acknowledged_without_gaps() {
        // two messages, PSNs 0 to 3 and 4 to 5; every other packet asks for an ACK
        let mut receiver = OooReceiver::default();
        let mut on = |psn: u32| {
            let last = psn == 3 || psn == 5;
            let (receipt, whole) = receiver.on_data(psn, [psn % 2 == 1, last], &PARAMS);
            (receipt.accepted, receipt.reply, whole)
        };
        assert_eq!(on(0), (true, Reply::None, 0));
        assert_eq!(on(2), (true, Reply::None, 0));
        // the ends of both messages are here, and 1 is not: nobody is told
        assert_eq!(on(5), (true, Reply::None, 0));
        assert_eq!(on(3), (true, Reply::None, 0));
        assert_eq!(on(2), (false, Reply::Ack(0), 0));
        // 1 makes the first one whole
        assert_eq!(on(1), (true, Reply::Ack(3), 1));
        assert_eq!(on(4), (true, Reply::Ack(5), 1));
        assert_eq!(on(4), (false, Reply::Ack(5), 0));
    }

    #[test]
    fn with_selective_repeat_each_packet_is_answered() {
        let mut receiver = OooReceiver::default();
        let mut on = |psn: u32| {
            let (receipt, whole) = receiver.on_data_selective(psn, [true, psn == 3]);
            (receipt.accepted, receipt.reply, whole)
        };
        assert_eq!(on(0), (true, Reply::Ack(0), 0));
        assert_eq!(on(2), (true, Reply::Early(1, 2), 0));
        assert_eq!(on(2), (false, Reply::Early(1, 2), 0));
        assert_eq!(on(3), (true, Reply::Early(1, 3), 0));
        assert_eq!(on(1), (true, Reply::Ack(3), 1));
        assert_eq!(on(0), (false, Reply::Ack(3), 0));
    }

    #[test]
    fn packets_that_a_later_one_has_passed_are_counted_once() {
        let mut early = Early::new(Keeps::Nothing);
        let mut responder = Responder::default();
        let mut on = |psn: u32, again: bool| {
            let mut packet = Packet::new(Kind::Data, 0, psn, 1000);
            if again {
                packet.set_again();
            }
            early.on_data(Time::ZERO, &packet, &mut responder, &PARAMS);
            early.reordered
        };
        // 2 and 1 come after 3; what go-back-N sends again is another matter
        let counts = [(0, false), (3, false), (2, false), (1, false), (2, true), (3, true)];
        assert_eq!(counts.map(|(psn, again)| on(psn, again)), [0, 0, 1, 2, 2, 2]);
    }
}
