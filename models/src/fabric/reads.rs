//! READ: requests, and what becomes of their responses.

use std::cmp::Reverse;

use sim_core::Time;

use super::at_nic::classed;
use super::ready::activate;
use super::{Event, Fabric, Queue};
use crate::nic::{Nic, Pacer};
use crate::packet::{Kind, Packet};
use crate::probe::Probe;

/// The timers of READs are told from those of requesters by this bit of the QP.
pub(super) const READ: u32 = 1 << 31;

impl<P: Probe> Fabric<P> {
    /// The host that reads asks for all from `psn` on.
    #[cold]
    pub(super) fn ask(&mut self, qp: u32, psn: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let Some(read) = &mut self.receivers[qp as usize].read else { return };
        read.progress(now, false);
        let port = read.port;
        let index = self.nic_of(port);
        let params = &self.nics[index].params;
        let frames = &self.wiring.frames;
        let request = Packet::new(Kind::Read, qp, psn, frames.data(0, true)).with_ttl(frames.ttl);
        let request = classed(request, self.wiring.qps[qp as usize].dscp, &params.priority);
        self.tally.live += 1;
        self.ports[port as usize].enqueue(now, &request);
        self.arm_read(index, qp, agenda);
        self.kick(port, agenda);
    }

    /// Puts the timer of a READ into its NIC's queue if it is not there.
    fn arm_read(&mut self, nic: usize, qp: u32, agenda: &mut Queue) {
        let Some(read) = &mut self.receivers[qp as usize].read else { return };
        let at = read.timeout_at();
        if read.timer_armed || at == Time::MAX {
            return;
        }
        read.timer_armed = true;
        let port = read.port;
        let nic = &mut self.nics[nic];
        nic.timers.push(qp | READ, Reverse(at));
        if at < nic.timer_at {
            nic.timer_at = at;
            agenda.at(at, Event::Timeout(port));
        }
    }

    /// The timer of a READ has come to the head of its NIC's queue.
    #[cold]
    pub(super) fn read_timer(&mut self, nic: usize, qp: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let Nic { timers, counters, .. } = &mut self.nics[nic];
        let receiver = &mut self.receivers[qp as usize];
        let Some(read) = &mut receiver.read else { return };
        let at = read.timeout_at();
        if at == Time::MAX {
            timers.remove(&(qp | READ));
            read.timer_armed = false;
        } else if at > now {
            timers.change_priority(&(qp | READ), Reverse(at));
        } else {
            self.tally.last_activity = now;
            counters.local_ack_timeout_err += 1;
            timers.remove(&(qp | READ));
            read.timer_armed = false;
            if read.on_timeout(now) {
                let expected = receiver.expected();
                self.ask(qp, expected, agenda);
            } else {
                counters.req_transport_retries_exceeded += 1;
                self.tally.failed += 1;
                self.tally.count_finished(now, 1);
            }
        }
    }

    /// A request has come to the host that has the data.
    #[cold]
    pub(super) fn asked(&mut self, packet: &Packet, agenda: &mut Queue) {
        let now = agenda.now();
        self.notes.free(packet.note());
        let qp = packet.qp as usize;
        let port = self.wiring.qps[qp].source_port;
        let index = self.nic_of(port);
        self.open(qp);
        let Nic { params, arbiter, counters, .. } = &mut self.nics[index];
        let sender = &mut self.senders[qp];
        let was_idle = !sender.requester.has_work();
        if sender.requester.unacknowledged().1 == 0 && !sender.requester.has_work() {
            let mtu = u64::from(sender.transport.mtu);
            let bytes = self.wiring.qps[qp].bytes.unwrap_or(mtu << 31);
            sender.requester.post(bytes, &sender.transport);
            self.probe.post(packet.qp, bytes, sender.transport.mtu);
            sender.pacer = Pacer::new(now);
        } else {
            counters.packet_seq_err += 1;
            sender.requester.on_nak(now, packet.psn, &sender.transport);
        }
        if was_idle && sender.requester.has_work() {
            // nobody waits for the last responses, if they were sent before: they count as a frame
            self.tally.live += 1;
        }
        activate(sender, arbiter, now, params);
        self.kick(port, agenda);
    }

    /// A response that was expected has come.
    pub(super) fn read_progress(&mut self, qp: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let receiver = &mut self.receivers[qp as usize];
        let Some(read) = &mut receiver.read else { return };
        read.progress(now, true);
        if self.wiring.qps[qp as usize].bytes == Some(receiver.delivered_bytes) {
            read.finish(now);
            self.tally.count_finished(now, 1);
            if !self.waits_for.is_empty() {
                self.start_followers(qp, agenda);
            }
        }
    }
}
