//! QPs come into use: the ends of all of them as a run begins, and the sender of a flow when it starts.

use std::sync::Arc;

use sim_core::{Delta, Time};

use super::ways::ecmp_of;
use super::wiring::{QpInfo, Role, Wiring};
use super::{Fabric, Queue};
use crate::collective::NcclConfig;
use crate::congestion::{RateControl, Way};
use crate::nic::{
    Early, Framing, NicParams, Notifies, ReadEnd, Receiver, Sender, SenderRecord, WindowSize,
};
use crate::probe::Probe;
use crate::switch::Switch;
use crate::traffic::Transport;

/// What senders are made of.
#[derive(Debug, Default)]
pub(crate) struct Opener {
    /// By NIC, as a run begins.
    params: Vec<Arc<NicParams>>,
    /// Local ACK timeout and retries of QPs of collectives.
    retries: (Delta, u8),
    /// The controllers of new QPs: those of equal NICs and ways share what does not change. The first
    /// number is that of the first NIC among equal ones.
    controls: Vec<(u32, Way, u8, RateControl)>,
    /// By NIC: the first one of its kind.
    kinds: Vec<u32>,
    /// QPs that are open all the time, because they are sampled.
    kept: u32,
}

impl Opener {
    fn new(params: Vec<Arc<NicParams>>, nccl: &NcclConfig, kept: u32) -> Self {
        let mut kinds: Vec<u32> = Vec::with_capacity(params.len());
        for (number, of) in (0..).zip(&params) {
            // neighbours share theirs
            let known = kinds.last().filter(|kind| Arc::ptr_eq(&params[**kind as usize], of));
            kinds.push(known.copied().unwrap_or(number));
        }
        let retries = (nccl.ack_timeout(), nccl.ib_retry_cnt as u8);
        Opener { params, retries, controls: Vec::new(), kinds, kept }
    }

    fn control(&mut self, nic: u32, way: &Way, priority: u8) -> RateControl {
        let asked = (self.kinds[nic as usize], *way, priority);
        let known = self.controls.iter().rev().find(|known| (known.0, known.1, known.2) == asked);
        if let Some((.., control)) = known {
            return control.clone();
        }
        let control = RateControl::new(&self.params[nic as usize].congestion, way, priority);
        self.controls.push((asked.0, *way, priority, control.clone()));
        control
    }

    /// The sender of a QP that has this record.
    fn sender(&mut self, wiring: &Wiring, number: usize, record: &SenderRecord) -> Sender {
        let qp = &wiring.qps[number];
        let wire = &wiring.wires[qp.source_port as usize];
        let params = self.params[wire.owner as usize].clone();
        let rate = wire.clock.rate();
        let way = Way {
            line_rate: qp.rate.map_or(rate, |limit| limit.min(rate)),
            base_rtt: wiring.base_rtt,
            hops: if params.congestion.needs_hops() { hops_of(wiring, number) } else { 0 },
            mtu: params.config.mtu,
        };
        let planned = params.priority[usize::from(qp.dscp)];
        let control = self.control(wire.owner, &way, planned);
        let window = qp.window.or(params.config.transport.window.map(|window| match window {
            WindowSize::Bytes(bytes) => bytes,
            WindowSize::Bdp => rate.bytes_in(wiring.base_rtt),
        }));
        let mut sender = Sender::new(&params, control, rate, record.slot, window);
        if qp.is_tcp() {
            sender.speak_tcp(&params.config.tcp, rate);
        } else if qp.is_of_collective() {
            (sender.transport.ack_timeout, sender.transport.retry_cnt) = self.retries;
        }
        sender.transport.framing = match qp.transport {
            Transport::Rc => Framing::Write,
            Transport::RcSend => Framing::Send,
            Transport::RcRead => Framing::ReadResponse,
            Transport::Tcp => Framing::Tcp,
        };
        if qp.transport == Transport::RcRead {
            // there is nothing to acknowledge: the end that asks has the timer
            sender.transport.ack_timeout = Delta::MAX;
        }
        sender
    }
}

/// The port by which the data of a READ comes to the host that asks, and by which it asks.
fn read_port(wiring: &Wiring, qp: usize, switches: &[Switch]) -> u32 {
    let way = wiring.way(qp, false, |node| ecmp_of(node, wiring, switches));
    way.last().map_or(0, |last| wiring.wires[*last as usize].peer)
}

/// Switches on the way of a QP's data.
fn hops_of(wiring: &Wiring, qp: usize) -> u32 {
    wiring.way(qp, false, |_| None).len() as u32 - 1
}

impl<P: Probe> Fabric<P> {
    /// Gives every QP its ends; flows wait in their NICs, and have no sender before they start.
    pub(super) fn add_qps(&mut self, shard: u16, nccl: &NcclConfig, reordered: bool) {
        let wiring = self.wiring.clone();
        let kept = wiring.sample_interval.map_or(0, |_| wiring.sampled_qps);
        let params: Vec<Arc<NicParams>> = self.nics.iter().map(|nic| nic.params.clone()).collect();
        self.opener = Opener::new(params.clone(), nccl, kept);
        let places = |qp: &QpInfo| {
            let port = wiring.topology.addresses()[qp.target_address as usize].ports[0];
            let owner = wiring.wires[port.index()].owner;
            params[owner as usize].config.transport.ooo_data_placement
        };
        for (index, qp) in wiring.qps.iter().enumerate() {
            let wire = &wiring.wires[qp.source_port as usize];
            let nic = &mut self.nics[wire.owner as usize];
            let priority = nic.params.priority[usize::from(qp.dscp)];
            let slot = nic.arbiter.register(index as u32, priority);
            let waits = wiring.followers.waits(index);
            let starts_at = if waits { Time::MAX } else { qp.start };
            let record = SenderRecord::new(starts_at, slot, priority);
            let sender = self.opener.sender(&wiring, index, &record);
            let mut receiver = Receiver::new(sender.transport.recovery);
            if qp.transport == Transport::RcRead {
                let transport = &params[wire.owner as usize].config.transport;
                let asks = ReadEnd::new(
                    read_port(&wiring, index, &self.switches),
                    transport.ack_timeout(),
                    transport.retry_cnt,
                );
                receiver.read = Some(Box::new(asks));
            }
            receiver.early = Early::needed(&sender.transport, places(qp), reordered);
            if !qp.is_tcp() {
                receiver.notifies = Notifies::wanted_by(&sender.control);
            }
            receiver.header = sender.transport.header;
            let begins = receiver.read.as_ref().map_or(qp.source_port, |read| read.port);
            let begins = &wiring.wires[begins as usize];
            let of_flow = matches!(qp.role, Role::Flow { .. });
            if of_flow && !waits && wiring.shard_of[begins.node as usize] == shard {
                self.nics[begins.owner as usize].starts.push_back((qp.start, index as u32));
            }
            self.receivers.push(receiver);
            self.senders.add(record);
            if !of_flow || (index as u32) < kept {
                self.senders.open(index, sender);
            }
        }
        for nic in &mut self.nics {
            nic.starts.make_contiguous().sort_by_key(|(start, _)| *start);
        }
    }

    /// A QP is to send: it has a sender from now on.
    pub(super) fn open(&mut self, qp: usize) -> &mut Sender {
        if self.senders.get_mut(qp).is_none() {
            let sender = self.opener.sender(&self.wiring, qp, self.senders.record(qp));
            self.senders.open(qp, sender);
        }
        &mut self.senders[qp]
    }

    /// A flow has nothing more to send, or it has `failed`; a QP of a collective stays in use.
    pub(super) fn finish(&mut self, nic: usize, qp: u32, now: Time, failed: bool) {
        let index = qp as usize;
        self.nics[nic].arbiter.clear_ready(self.senders.record(index).slot);
        self.senders.finish(index, now, failed);
        if !self.wiring.qps[index].is_of_collective() && qp >= self.opener.kept {
            self.senders.close(index);
        }
    }

    /// Schedules the first flow of every NIC.
    pub(crate) fn plant(&mut self, agenda: &mut Queue) {
        for port in 0..self.ports.len() as u32 {
            if !self.wiring.wires[port as usize].is_switch {
                self.watch_starts(port, agenda);
                self.plant_pause_storm(port, agenda);
            }
        }
        for node in 0..self.wiring.shard_of.len() {
            if self.wiring.shard_of[node] == self.shard {
                self.watch_host(node as u32, agenda);
            }
        }
        self.plant_faults(agenda);
    }
}
