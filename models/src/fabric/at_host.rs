//! A host: its executor is told what its NICs did, and its NICs get what it wants sent.

use sim_core::Time;

use super::{Event, Fabric, Queue, Role};
use crate::collective::Output;
use crate::nic::Nic;
use crate::probe::Probe;

impl<P: Probe> Fabric<P> {
    /// Something that an executor has planned is due.
    pub(super) fn host_due(&mut self, node: u32, agenda: &mut Queue) {
        let now = agenda.now();
        if self.host_at[node as usize] != now {
            return;
        }
        self.host_at[node as usize] = Time::MAX;
        let Some(executor) = &mut self.executors[node as usize] else { return };
        let mut outputs = std::mem::take(&mut self.outputs);
        if executor.advance(now, &mut outputs) {
            self.tally.last_activity = now;
        }
        for output in outputs.drain(..) {
            match output {
                Output::Post { qp, bytes } => self.post(qp, bytes, agenda),
                Output::RankDone => self.tally.count_finished(now, 1),
            }
        }
        self.outputs = outputs;
        self.watch_host(node, agenda);
    }

    /// Keeps one live event for the next thing that a host has planned.
    pub(super) fn watch_host(&mut self, node: u32, agenda: &mut Queue) {
        let Some(executor) = &self.executors[node as usize] else { return };
        let next = executor.next_deadline();
        if next < self.host_at[node as usize] {
            self.host_at[node as usize] = next;
            agenda.at(next, Event::Host(node));
        }
    }

    /// Posts a message on a QP.
    fn post(&mut self, qp: u32, bytes: u64, agenda: &mut Queue) {
        let port = self.wiring.qps[qp as usize].source_port;
        let index = self.nic_of(port);
        let Nic { params, arbiter, .. } = &mut self.nics[index];
        let sender = &mut self.senders[qp as usize];
        sender.requester.post(bytes, &sender.transport);
        self.probe.post(qp, bytes, sender.transport.mtu);
        super::ready::activate(sender, arbiter, agenda.now(), params);
        self.kick(port, agenda);
    }

    /// The last packet of a message of a collective has arrived.
    pub(super) fn message_delivered(&mut self, qp: u32, agenda: &mut Queue) {
        let info = &self.wiring.qps[qp as usize];
        let (node, index, now) = (info.target, info.index, agenda.now());
        let Some(executor) = &mut self.executors[node as usize] else { return };
        match info.role {
            Role::Data { .. } => executor.delivered(now, info.ends[1], index),
            Role::Cts { .. } => executor.granted(now, info.ends[0], index),
            Role::Line { .. } => executor.line_delivered(now, info.ends[1]),
            Role::Flow { .. } => {}
        }
        self.watch_host(node, agenda);
    }

    /// `count` messages of a collective are acknowledged.
    pub(super) fn messages_acknowledged(&mut self, qp: u32, count: u32, agenda: &mut Queue) {
        let info = &self.wiring.qps[qp as usize];
        let is_line = matches!(info.role, Role::Line { .. });
        if !is_line && !matches!(info.role, Role::Data { .. }) {
            return;
        }
        let (node, end, index) = (info.source, info.ends[0], info.index);
        let Some(executor) = &mut self.executors[node as usize] else { return };
        for _ in 0..count {
            match is_line {
                true => executor.line_acknowledged(agenda.now(), end),
                false => executor.acknowledged(agenda.now(), end, index),
            }
        }
        self.watch_host(node, agenda);
    }
}
