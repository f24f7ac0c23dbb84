//! The sending ends of all QPs: those in use stand together, and give their places to others when they
//! are done. So a run needs the memory of the flows that are under way, not of all that there will be.

use std::ops::{Index, IndexMut};

use sim_core::{Delta, Time, prefetch};

use super::{Sender, SenderState};

/// What is known of a sending end before it is used, and after.
#[derive(Clone, Debug)]
pub struct SenderRecord {
    /// When its flow starts; never, as long as it waits for others.
    pub starts_at: Time,
    /// When everything was acknowledged, or the QP failed; [`Time::MAX`] before.
    finished_at: Time,
    /// Payload bytes sent again.
    pub retransmitted_bytes: u64,
    /// Its place at the arbiter of its port.
    pub slot: u32,
    /// Priority of its data: as its arbiter has it, which a report does not see.
    pub priority: u8,
    /// Its retries were used up: its local ACK timeout, and the time-outs that it survived.
    pub failed: Option<Box<(Delta, u8)>>,
}

impl SenderRecord {
    /// One that has not started.
    pub fn new(starts_at: Time, slot: u32, priority: u8) -> Self {
        let finished_at = Time::MAX;
        SenderRecord {
            starts_at,
            finished_at,
            retransmitted_bytes: 0,
            slot,
            priority,
            failed: None,
        }
    }

    /// When everything was acknowledged, or the QP failed.
    #[inline]
    pub fn finished_at(&self) -> Option<Time> {
        (self.finished_at < Time::MAX).then_some(self.finished_at)
    }
}

/// By QP.
#[derive(Debug, Default)]
pub struct Senders {
    records: Vec<SenderRecord>,
    /// By QP: its place in `open`, or [`CLOSED`].
    places: Vec<u32>,
    open: Vec<Sender>,
    /// Places that are free.
    free: Vec<u32>,
}

/// Not in use.
const CLOSED: u32 = u32::MAX;

impl Senders {
    /// None, with room for the records of so many.
    pub fn with_capacity(qps: usize) -> Self {
        let (records, places) = (Vec::with_capacity(qps), Vec::with_capacity(qps));
        Senders { records, places, ..Senders::default() }
    }

    /// Adds a QP that is not in use.
    pub fn add(&mut self, record: SenderRecord) {
        self.records.push(record);
        self.places.push(CLOSED);
    }

    /// From now on a QP is in use.
    pub fn open(&mut self, qp: usize, sender: Sender) {
        self.places[qp] = match self.free.pop() {
            Some(place) => {
                self.open[place as usize] = sender;
                place
            }
            None => {
                self.open.push(sender);
                // so that a QP that is done asks for no memory
                self.free.reserve(self.open.len());
                self.open.len() as u32 - 1
            }
        };
    }

    /// Takes a QP out of use.
    pub fn close(&mut self, qp: usize) {
        let place = std::mem::replace(&mut self.places[qp], CLOSED);
        if place != CLOSED {
            self.free.push(place);
        }
    }

    /// A QP has nothing more to do: everything is acknowledged, or it has `failed`.
    pub fn finish(&mut self, qp: usize, now: Time, failed: bool) {
        let transport = self[qp].transport;
        self[qp].state = if failed { SenderState::Failed } else { SenderState::Idle };
        let record = &mut self.records[qp];
        record.finished_at = now;
        record.failed = failed.then(|| Box::new((transport.ack_timeout, transport.retry_cnt)));
    }

    /// A QP, if it is in use.
    #[inline]
    pub fn get_mut(&mut self, qp: usize) -> Option<&mut Sender> {
        self.open.get_mut(self.places[qp] as usize)
    }

    /// What is always known of a QP.
    #[inline]
    pub fn record(&self, qp: usize) -> &SenderRecord {
        &self.records[qp]
    }

    /// The same, to be changed.
    pub fn record_mut(&mut self, qp: usize) -> &mut SenderRecord {
        &mut self.records[qp]
    }

    /// What is always known of all QPs.
    pub fn records(&self) -> &[SenderRecord] {
        &self.records
    }

    /// Takes over what is known of a QP of another shard.
    pub fn take_over(&mut self, other: &mut Senders, qp: usize) {
        std::mem::swap(&mut self.records[qp], &mut other.records[qp]);
    }

    /// Frees what only a fabric that runs needs: all but the records.
    pub fn free_state(&mut self) {
        *self = Senders { records: std::mem::take(&mut self.records), ..Senders::default() };
    }

    /// Asks for the memory of a QP.
    #[inline]
    pub fn prefetch(&self, qp: usize) {
        if let Some(sender) = self.places.get(qp).and_then(|place| self.open.get(*place as usize)) {
            prefetch(sender);
        }
    }
}

impl Index<usize> for Senders {
    type Output = Sender;

    /// A QP that is in use.
    #[inline]
    fn index(&self, qp: usize) -> &Sender {
        &self.open[self.places[qp] as usize]
    }
}

impl IndexMut<usize> for Senders {
    #[inline]
    fn index_mut(&mut self, qp: usize) -> &mut Sender {
        &mut self.open[self.places[qp] as usize]
    }
}
