//! Notes of frames: made at a NIC, written by switches, brought back by acknowledgements.

use sim_core::{Delta, Time};

use super::Fabric;
use crate::note::{Hop, Note, Wanted};
use crate::packet::{Kind, Packet};
use crate::probe::Probe;

/// What a port remembers for HPCC-PINT (SIGCOMM 2020, section 4.3, example 3).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Smoothed {
    /// Its utilisation, smoothed over a base RTT.
    utilisation: f64,
    /// When the last packet left,
    last: Time,
    /// and its wire bytes.
    bytes: u64,
}

impl Smoothed {
    /// A packet of `bytes` leaves at `now` and `queue` bytes behind it, at `rate` in bytes a second.
    fn leaves(&mut self, now: Time, bytes: u64, queue: u64, rate: f64, rtt: Delta) -> f64 {
        let rtt_s = rtt.as_secs();
        let tau = now.since(self.last).min(rtt).as_secs();
        let queued = queue as f64 * tau / (rate * rtt_s * rtt_s);
        let sent = self.bytes as f64 / (rate * rtt_s);
        self.utilisation = queued + sent + self.utilisation * (rtt_s - tau) / rtt_s;
        (self.last, self.bytes) = (now, bytes);
        self.utilisation
    }
}

impl<P: Probe> Fabric<P> {
    /// The number of a note for a data packet that leaves its NIC, of a QP that wants this.
    #[cold]
    pub(super) fn stamp(&mut self, now: Time, wanted: Wanted) -> u32 {
        self.notes.add(Note { wanted: Some(wanted), sent_at: now, ..Note::default() })
    }

    /// A frame with a note leaves a switch by `port` at `start`, and this many bytes behind it.
    #[cold]
    #[inline(never)]
    pub(super) fn write_note(&mut self, port: u32, packet: &Packet, start: Time) {
        let tx = &self.ports[port as usize].tx;
        let queue_bytes = self.ports[port as usize].queued_bytes();
        let clock = &self.wiring.wires[port as usize].clock;
        let note = self.notes.get_mut(packet.note());
        if packet.kind == Kind::Data {
            match note.wanted {
                None | Some(Wanted::Stamp) => {}
                Some(Wanted::Hops) => note.push(Hop {
                    port,
                    at: start,
                    tx_bytes: tx.bytes + tx.packets * self.gap,
                    queue_bytes,
                    rate: clock.rate(),
                }),
                Some(Wanted::Utilisation) => {
                    let wire_len = u64::from(packet.len) + self.gap;
                    let rate = clock.rate().bps() as f64 / 8.0;
                    let rtt = self.wiring.base_rtt;
                    if self.smoothed.is_empty() {
                        self.smoothed.resize(self.ports.len(), Smoothed::default());
                    }
                    let smoothed = &mut self.smoothed[port as usize];
                    let now = smoothed.leaves(start, wire_len, queue_bytes, rate, rtt);
                    note.utilisation = note.utilisation.max(now);
                }
            }
        }
        self.ways.leaves(port, packet, start, &self.wiring, note);
    }

    /// A data packet has reached the NIC of its receiver.
    #[cold]
    pub(super) fn note_arrival(&mut self, now: Time, packet: &Packet) {
        self.notes.get_mut(packet.note()).arrived_at = now;
    }

    /// What becomes of the note of a data packet: `answer`, if there is one, takes it along.
    #[cold]
    pub(super) fn note_answered(
        &mut self,
        now: Time,
        packet: &Packet,
        answer: Option<&mut Packet>,
    ) {
        let number = packet.note();
        let note = self.notes.get_mut(number);
        note.waited = now.since(note.arrived_at);
        note.path = crate::note::PathMarks::default();
        match answer {
            Some(answer) if note.wanted.is_some() => {
                answer.set_note(number);
                answer.len += self.receivers[packet.qp as usize].header;
            }
            _ => self.notes.free(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_always_busy_is_used_to_the_full() {
        // 1250 B at 10 Gb/s: 1 us each, over 10 us
        let mut port = Smoothed::default();
        let at = |us: u64| Time::from_ps(us * 1_000_000);
        let leaves = |port: &mut Smoothed, us, queue| {
            port.leaves(at(us), 1250, queue, 1.25e9, Delta::from_us(10))
        };
        // nothing before the first; then a tenth each: 1 - 0.9^n
        let first: Vec<f64> = (0..3).map(|us| leaves(&mut port, us, 0)).collect();
        assert!((first[0]).abs() < 1e-12 && (first[1] - 0.1).abs() < 1e-12);
        assert!((first[2] - 0.19).abs() < 1e-12);
        (3..200).for_each(|us| _ = leaves(&mut port, us, 0));
        assert!((port.utilisation - 1.0).abs() < 1e-6);
        // a queue of 12,500 B, which takes 10 us, adds as much again
        (200..400).for_each(|us| _ = leaves(&mut port, us, 12_500));
        assert!((port.utilisation - 2.0).abs() < 1e-6);
    }
}
