//! The two ends of a connection between lanes, as NCCL's network transport has them
//! (transport/net_ib): the receiver grants a slot of its buffer with a CTS message, the sender
//! writes a slice into it by one or several QPs. Four slices of a ring may be under way.

use std::collections::VecDeque;

/// How messages go over the QPs of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// QPs.
    pub qps: u32,
    /// QPs that each message is split over.
    pub parts: u32,
}

impl Striping {
    /// The QP of part `part` of message `number`: messages go round robin.
    fn qp(self, number: u64, part: u32) -> u32 {
        ((number * u64::from(self.parts) + u64::from(part)) % u64::from(self.qps)) as u32
    }

    /// Parts of a message: equal, in units of 128 B; the last ones may be short or empty.
    fn part(self, bytes: u64, part: u32) -> u64 {
        let size = bytes.div_ceil(u64::from(self.parts)).div_ceil(128) * 128;
        bytes.saturating_sub(u64::from(part) * size).min(size)
    }
}

/// Messages whose parts come back by several QPs, each in order.
#[derive(Clone, Debug)]
struct Pending {
    /// Parts still missing of each message, the oldest first.
    missing: VecDeque<u32>,
    /// Number of the oldest.
    first: u64,
    /// By QP: messages that have a part on it, the oldest first.
    on_qp: Vec<VecDeque<u64>>,
}

impl Pending {
    fn new(qps: u32) -> Self {
        Pending { missing: VecDeque::new(), first: 0, on_qp: vec![VecDeque::new(); qps as usize] }
    }

    fn add(&mut self, striping: Striping) -> u64 {
        let number = self.first + self.missing.len() as u64;
        self.missing.push_back(striping.parts);
        for part in 0..striping.parts {
            self.on_qp[striping.qp(number, part) as usize].push_back(number);
        }
        number
    }

    /// A part has come by `qp`; returns how many messages are now complete, in order.
    fn done(&mut self, qp: u32) -> u32 {
        if let Some(number) = self.on_qp[qp as usize].pop_front()
            && let Some(missing) = self.missing.get_mut((number - self.first) as usize)
        {
            *missing -= 1;
        }
        let mut complete = 0;
        while self.missing.front() == Some(&0) {
            self.missing.pop_front();
            self.first += 1;
            complete += 1;
        }
        complete
    }
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct SendEnd {
    /// Free slots of the send buffer.
    pub free: u64,
    striping: Striping,
    pending: Pending,
    /// Sizes of the slices in the send buffer that the proxy has not seen,
    filled: VecDeque<u64>,
    /// and of those that it has seen and not posted.
    ready: VecDeque<u64>,
    /// Number of the next message.
    next: u64,
    /// CTS messages that have come, by QP of theirs; they go round robin.
    granted: Vec<u64>,
    /// QPs of CTS messages that the proxy has not seen.
    coming: VecDeque<u32>,
}

impl SendEnd {
    /// An end with so many slots, and `cts_qps` QPs for CTS messages; none over NVLink.
    pub fn new(striping: Striping, cts_qps: u32, slots: u64) -> Self {
        SendEnd {
            free: slots,
            striping,
            pending: Pending::new(striping.qps),
            filled: VecDeque::new(),
            ready: VecDeque::new(),
            next: 0,
            granted: vec![0; cts_qps as usize],
            coming: VecDeque::new(),
        }
    }

    /// A slice is in the send buffer.
    pub fn fill(&mut self, bytes: u64) {
        self.filled.push_back(bytes);
    }

    /// The proxy sees the next slice that was filled in.
    pub fn see_slice(&mut self) {
        self.ready.extend(self.filled.pop_front());
    }

    /// A CTS has come by this QP.
    pub fn grant(&mut self, qp: u32) {
        self.coming.push_back(qp);
    }

    /// The proxy sees the next CTS that has come.
    pub fn see_grant(&mut self) {
        if let Some(qp) = self.coming.pop_front() {
            self.granted[qp as usize] += 1;
        }
    }

    /// The next message that may be sent, as (QP, bytes) of its parts.
    pub fn post(&mut self) -> Option<impl Iterator<Item = (u32, u64)> + use<>> {
        let qps = self.granted.len() as u64;
        if self.granted[(self.next % qps) as usize] <= self.next / qps {
            return None;
        }
        let bytes = self.ready.pop_front()?;
        let striping = self.striping;
        let number = self.pending.add(striping);
        self.next += 1;
        Some((0..striping.parts).map(move |p| (striping.qp(number, p), striping.part(bytes, p))))
    }

    /// A part has been acknowledged on this QP; returns slots that are free again.
    pub fn acknowledged(&mut self, qp: u32) -> u32 {
        self.pending.done(qp)
    }

    /// Slices that wait for a CTS.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct RecvEnd {
    /// Slices that the lane may take.
    pub available: u64,
    striping: Striping,
    pending: Pending,
    /// Slices that will come in all.
    pub expected: u64,
    /// CTS messages sent.
    posted: u64,
    /// Slices consumed.
    consumed: u64,
    cts_qps: u32,
    slots: u64,
}

impl RecvEnd {
    /// An end with so many slots that sends its CTS messages by `cts_qps` QPs; none over NVLink.
    pub fn new(striping: Striping, cts_qps: u32, slots: u64) -> Self {
        let pending = Pending::new(striping.qps);
        let (available, expected, posted, consumed) = (0, 0, 0, 0);
        RecvEnd { available, striping, pending, expected, posted, consumed, cts_qps, slots }
    }

    /// The lane has emptied a slot.
    pub fn consume(&mut self) {
        self.consumed += 1;
    }

    /// The QP of the next CTS, if a slot is free and a slice is still to come.
    pub fn post_cts(&mut self) -> Option<u32> {
        if self.posted >= self.expected || self.posted >= self.consumed + self.slots {
            return None;
        }
        let qp = (self.posted % u64::from(self.cts_qps)) as u32;
        self.posted += 1;
        self.pending.add(self.striping);
        Some(qp)
    }

    /// A part has come by this QP; returns slices that are now complete.
    pub fn arrived(&mut self, qp: u32) -> u32 {
        self.pending.done(qp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u64 = 4;

    fn fill(end: &mut SendEnd, bytes: u64) {
        end.fill(bytes);
        end.see_slice();
    }

    fn grant(end: &mut SendEnd, qp: u32) {
        end.grant(qp);
        end.see_grant();
    }

    fn posts(end: &mut SendEnd) -> Vec<Vec<(u32, u64)>> {
        std::iter::from_fn(|| end.post().map(Iterator::collect)).collect()
    }

    #[test]
    fn messages_wait_for_their_cts_and_take_turns_on_qps() {
        let striping = Striping { qps: 2, parts: 1 };
        let (mut send, mut recv) =
            (SendEnd::new(striping, 1, SLOTS), RecvEnd::new(striping, 1, SLOTS));
        recv.expected = 6;
        (0..3).for_each(|_| fill(&mut send, 1 << 20));
        assert!(posts(&mut send).is_empty());
        // four slots: four CTS
        assert_eq!(std::iter::from_fn(|| recv.post_cts()).count(), 4);
        send.grant(0);
        assert!(posts(&mut send).is_empty(), "the proxy has not seen it");
        send.see_grant();
        grant(&mut send, 0);
        assert_eq!(posts(&mut send), [[(0, 1 << 20)], [(1, 1 << 20)]]);
        assert_eq!(send.waiting(), 1);
        // the second arrives before the first: both count when the first is there
        assert_eq!((recv.arrived(1), recv.arrived(0)), (0, 2));
        recv.consume();
        assert_eq!(std::iter::from_fn(|| recv.post_cts()).count(), 1);
    }

    #[test]
    fn merged_ports_split_every_message() {
        // two ports, two QPs a port: each message by one QP of each port
        let mut send = SendEnd::new(Striping { qps: 4, parts: 2 }, 2, SLOTS);
        (0..3).for_each(|_| fill(&mut send, 1000));
        grant(&mut send, 0);
        grant(&mut send, 0);
        // 1000 B = 512 + 488; the second message needs the CTS of the other port
        assert_eq!(posts(&mut send), [[(0, 512), (1, 488)]]);
        grant(&mut send, 1);
        assert_eq!(posts(&mut send), [[(2, 512), (3, 488)], [(0, 512), (1, 488)]]);
        assert_eq!(send.acknowledged(0), 0);
        assert_eq!(send.acknowledged(2), 0);
        assert_eq!(send.acknowledged(1), 1);
        assert_eq!(send.acknowledged(3), 1);
    }
}
