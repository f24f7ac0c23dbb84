//! Looks at a fabric while it runs: samples, and the edges of the measured window.

use std::collections::VecDeque;

use sim_core::{Delta, Rate, Time};

use super::Fabric;
use super::ways::Ways;
use crate::congestion::RateController;
use crate::nic::Arbiter;
use crate::probe::Probe;
use crate::traffic::Transport;

/// The state of the sampled ports and QPs at one instant.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When.
    pub time: Time,
    /// In the order of `Wiring::sampled_ports`.
    pub ports: Vec<PortSample>,
    /// The first QPs.
    pub qps: Vec<QpSample>,
}

/// One port in a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortSample {
    /// Bytes in all queues.
    pub queue_bytes: u64,
    /// Bytes sent so far.
    pub tx_bytes: u64,
    /// Time that any priority was paused so far, summed over priorities.
    pub paused: Delta,
}

/// One QP in a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QpSample {
    /// Rate allowed by congestion control.
    pub rate: Rate,
    /// Rate to return to.
    pub target_rate: Rate,
    /// Congestion estimate.
    pub alpha: f64,
    /// Payload delivered so far.
    pub delivered_bytes: u64,
}

impl<P: Probe> Fabric<P> {
    /// Does what is due at `time`: every event before it has been handled.
    pub(super) fn observe(&mut self, time: Time) {
        for edge in 0..2 {
            if self.wiring.measure[edge] == time {
                self.snapshot(edge, time);
            }
        }
        let sampled = self.wiring.sample_interval.is_some();
        if sampled && time.ps().is_multiple_of(self.sample_every.ps()) {
            let sample = self.sample(time);
            self.samples.push(sample);
            if self.wiring.sample_keep.is_some_and(|keep| self.samples.len() >= keep as usize) {
                self.sample_every = Delta::from_ps(self.sample_every.ps().saturating_mul(2));
                let every = self.sample_every.ps();
                self.samples.retain(|sample| sample.time.ps().is_multiple_of(every));
            }
        }
    }

    /// Remembers queues and deliveries at an edge of the measured window.
    pub(crate) fn snapshot(&mut self, edge: usize, time: Time) {
        let integrals = self
            .ports
            .iter()
            .map(|port| std::array::from_fn(|priority| port.queues[priority].integral(time)));
        self.integrals[edge] = Some(integrals.collect());
        for receiver in &mut self.receivers {
            receiver.measured[edge] = Some(receiver.delivered_bytes);
        }
    }

    fn sample(&mut self, time: Time) -> Sample {
        let ports = self.wiring.sampled_ports.iter().map(|port| {
            let state = &self.ports[*port as usize];
            let paused = (0..8).map(|priority| state.aside.pause.paused_time(time, priority));
            PortSample {
                queue_bytes: state.queued_bytes(),
                tx_bytes: state.tx.bytes,
                paused: paused.fold(Delta::ZERO, std::ops::Add::add),
            }
        });
        let qps = (0..self.wiring.sampled_qps as usize).map(|qp| {
            let sender = &mut self.senders[qp];
            sender.pacer.settle(time, &mut sender.control);
            let gauges = sender.control.gauges(time);
            QpSample {
                rate: sender.control.rate(),
                target_rate: gauges.target_rate,
                alpha: gauges.alpha,
                delivered_bytes: self.receivers[qp].delivered_bytes,
            }
        });
        Sample { time, ports: ports.collect(), qps: qps.collect() }
    }

    /// Frees what only a fabric that runs needs, so that its report finds room.
    pub(super) fn free_state(&mut self) {
        self.ways = Ways::default();
        self.senders.free_state();
        for port in &mut self.ports {
            port.shrink();
        }
        for nic in &mut self.nics {
            nic.arbiter = Arbiter::default();
            nic.starts = VecDeque::new();
            nic.timers.clear();
            nic.timers.shrink_to_fit();
        }
    }

    /// Takes over what `other` owns, after both have run.
    pub(super) fn absorb(&mut self, mut other: Fabric<P>) {
        let wiring = self.wiring.clone();
        let shard = other.shard;
        let owns = |node: u32| wiring.shard_of[node as usize] == shard;
        for (port, wire) in wiring.wires.iter().enumerate().filter(|(_, wire)| owns(wire.node)) {
            std::mem::swap(&mut self.ports[port], &mut other.ports[port]);
            let owner = wire.owner as usize;
            match wire.is_switch {
                true if wire.index == 0 => {
                    for mmu in self.mmus_of(owner) {
                        std::mem::swap(&mut self.mmus[mmu], &mut other.mmus[mmu]);
                    }
                    for pipeline in self.pipelines_of(owner) {
                        std::mem::swap(
                            &mut self.pipelines[pipeline],
                            &mut other.pipelines[pipeline],
                        );
                    }
                }
                true => {}
                false => std::mem::swap(&mut self.nics[owner], &mut other.nics[owner]),
            }
            for edge in 0..2 {
                if let (Some(mine), Some(theirs)) =
                    (&mut self.integrals[edge], &other.integrals[edge])
                {
                    mine[port] = theirs[port];
                }
            }
        }
        for node in (0..wiring.shard_of.len()).filter(|node| owns(*node as u32)) {
            std::mem::swap(&mut self.executors[node], &mut other.executors[node]);
        }
        for (qp, info) in wiring.qps.iter().enumerate() {
            // a READ starts where it is asked for
            let starter = if owns(info.target) { &other.senders } else { &self.senders };
            let asked_at = starter.record(qp).starts_at;
            if owns(info.source) {
                self.senders.take_over(&mut other.senders, qp);
            }
            if info.transport == Transport::RcRead {
                self.senders.record_mut(qp).starts_at = asked_at;
            }
            if owns(info.target) {
                std::mem::swap(&mut self.receivers[qp], &mut other.receivers[qp]);
            }
        }
        for (mine, theirs) in self.samples.iter_mut().zip(&other.samples) {
            for (slot, port) in wiring.sampled_ports.iter().enumerate() {
                if owns(wiring.wires[*port as usize].node) {
                    mine.ports[slot] = theirs.ports[slot];
                }
            }
            for (qp, sample) in theirs.qps.iter().enumerate() {
                let info = &wiring.qps[qp];
                let delivered_bytes = mine.qps[qp].delivered_bytes;
                if owns(info.source) {
                    mine.qps[qp] = QpSample { delivered_bytes, ..*sample };
                }
                if owns(info.target) {
                    mine.qps[qp].delivered_bytes = sample.delivered_bytes;
                }
            }
        }
        self.notes.absorb(&other.notes);
        self.pauses.absorb(other.pauses);
        self.tally = self.tally.merged(other.tally);
    }
}
