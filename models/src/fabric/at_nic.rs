//! A frame at a NIC: sent, received, answered.

use std::cmp::Reverse;

use sim_core::{Delta, Time};

use super::reads::READ;
use super::ready::{activate, next_slot, window_full};
use super::{Cause, Event, Fabric, Queue, Role};
use crate::congestion::{RateControl, RateController};
use crate::counters::DropReason;
use crate::nic::{
    Framing, Nic, Notifies, Notify, Offered, Pacer, Progress, Read, Receipt, Recovery, Reply,
    Segment, Sender, SenderState,
};
use crate::packet::{Kind, Packet};
use crate::probe::Probe;
use crate::wire::Frames;

impl<P: Probe> Fabric<P> {
    pub(super) fn nic_of(&self, port: u32) -> usize {
        self.ports[port as usize].rx.owner as usize
    }

    /// Control frames first, then QPs in turn.
    #[inline(never)]
    pub(super) fn send_from_nic(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let index = self.nic_of(port);
        let paused = self.ports[port as usize].paused();
        let waits = self.nics[index].params.config.pfc.control_waits;
        let allowed = if waits { !paused } else { u8::MAX };
        let control = self.ports[port as usize].dequeue(now, allowed);
        let packet = match control {
            Some(packet) => Some(packet),
            None => {
                let data = self.next_data(index, port, paused, now, agenda);
                self.tally.live += i64::from(data.is_some());
                data
            }
        };
        if let Some(packet) = packet {
            self.tally.injected += 1;
            self.tally.injected_bytes += u64::from(packet.len);
            self.transmit(port, &packet, now, agenda);
        }
        self.wake_for_next(index, port, allowed, paused, agenda);
    }

    /// Makes the port look again when there is something to send.
    fn wake_for_next(
        &mut self,
        nic: usize,
        port: u32,
        allowed: u8,
        paused: u8,
        agenda: &mut Queue,
    ) {
        let state = &self.ports[port as usize];
        let busy_until = state.tx.busy_until;
        let busy = busy_until >= agenda.now();
        let control = state.nonempty() & allowed != 0 || state.pfc_waits();
        let arbiter = &self.nics[nic].arbiter;
        let ready = arbiter.any_ready(paused);
        let dma = self.nics[nic].dma.map(|dma| &self.dmas[dma as usize]);
        let turn = dma.and_then(|dma| dma.turn(port)).unwrap_or(Time::ZERO);
        if busy && control {
            self.wake(port, busy_until, agenda);
        } else if ready && (busy || turn > agenda.now()) {
            self.wake(port, busy_until.max(turn), agenda);
        } else if busy_until > agenda.now() && arbiter.blocked() > 0 {
            self.wake(port, busy_until, agenda);
        } else if let Some(time) = arbiter.next_wake() {
            self.wake(port, time.max(busy_until), agenda);
        }
    }

    /// The next data packet of the QPs of a NIC.
    fn next_data(
        &mut self,
        nic: usize,
        port: u32,
        paused: u8,
        now: Time,
        agenda: &mut Queue,
    ) -> Option<Packet> {
        let Nic { params, arbiter, counters, dma, .. } = &mut self.nics[nic];
        while let Some(slot) = arbiter.due(now) {
            let sender = self.senders.get_mut(arbiter.qp(slot) as usize);
            if let Some(sender) = sender
                && sender.state == SenderState::Waiting
            {
                sender.state = SenderState::Idle;
                activate(sender, arbiter, now, params);
            }
        }
        // windows that follow rates open with them
        for _ in 0..arbiter.blocked() {
            let Some(slot) = arbiter.unblock() else { break };
            if let Some(sender) = self.senders.get_mut(arbiter.qp(slot) as usize) {
                activate(sender, arbiter, now, params);
            }
        }
        let slot = next_slot(&mut self.senders, arbiter, paused, now, params)?;
        let reads = match *dma {
            Some(dma) => self.dmas[dma as usize].ask(now, port, params.requester.mtu),
            None => Read::Turn,
        };
        if let Read::At(_) = reads {
            return None;
        }
        arbiter.served(slot);
        let qp = arbiter.qp(slot);
        let sender = &mut self.senders[qp as usize];
        let segment = sender.requester.take(now, &sender.transport)?;
        let frames = &self.wiring.frames;
        let tcp = sender.transport.is_tcp();
        let len = match sender.transport.framing {
            Framing::Write => frames.data(segment.payload, segment.first),
            framing => {
                if framing == Framing::ReadResponse && !sender.requester.has_work() {
                    // see `asked`
                    self.tally.live -= 1;
                }
                other_len(framing, frames, &segment)
            }
        } + sender.transport.header;
        let config = &params.config;
        let frame_time = self.wiring.wires[port as usize].clock.frame_time();
        let wire_len = frames.wire_len(len);
        sender.pacer.sent(now, wire_len, config.pacing, frame_time, &mut sender.control);
        counters.data_packets += u64::from(!tcp);
        if let (Read::Now, Some(dma)) = (reads, *dma) {
            self.dmas[dma as usize].read(now, segment.payload);
        }
        let dscp = self.wiring.qps[qp as usize].dscp;
        // the last packet that the window lets out must be acknowledged
        let ack_req = segment.ack_req || window_full(sender, params, now);
        let mut packet = Packet::new(Kind::Data, qp, segment.psn, len)
            .with_ttl(self.wiring.frames.ttl)
            .with_ect(sender.transport.ect)
            .with_flags(ack_req, segment.last);
        if segment.again {
            packet.set_again();
            counters.retransmitted_packets += u64::from(!tcp);
        }
        packet.arg = segment.payload;
        packet.dscp = dscp;
        packet.pcp = arbiter.priority(slot);
        arbiter.clear_ready(slot);
        sender.state = SenderState::Idle;
        activate(sender, arbiter, now, params);
        let wants = sender.transport.wants;
        if segment.again {
            let record = self.senders.record_mut(qp as usize);
            record.retransmitted_bytes += u64::from(segment.payload);
        }
        if let Some(wanted) = wants {
            packet.set_note(self.stamp(now, wanted));
        }
        self.arm_timer(nic, port, qp, agenda);
        Some(packet)
    }

    /// Puts a QP's retransmission timer into its NIC's queue if it is not there.
    fn arm_timer(&mut self, nic: usize, port: u32, qp: u32, agenda: &mut Queue) {
        let sender = &mut self.senders[qp as usize];
        let at = sender.requester.timeout_at();
        if sender.timer_armed || at == Time::MAX {
            return;
        }
        sender.timer_armed = true;
        let nic = &mut self.nics[nic];
        nic.timers.push(qp, Reverse(at));
        if at < nic.timer_at {
            nic.timer_at = at;
            agenda.at(at, Event::Timeout(port));
        }
    }

    /// Retransmission timers that are due; most have moved on since they were queued.
    pub(super) fn timeout(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let index = self.nic_of(port);
        if self.nics[index].timer_at != now {
            return;
        }
        self.nics[index].timer_at = Time::MAX;
        let mut fired = false;
        loop {
            let Nic { timers, params, arbiter, counters, .. } = &mut self.nics[index];
            let Some((&qp, &Reverse(queued))) = timers.peek() else { break };
            if queued > now {
                break;
            }
            if qp & READ != 0 {
                self.read_timer(index, qp & !READ, agenda);
                continue;
            }
            let Some(sender) = self.senders.get_mut(qp as usize) else {
                timers.pop();
                continue;
            };
            let at = sender.requester.timeout_at();
            if at > now {
                if at == Time::MAX {
                    timers.pop();
                    sender.timer_armed = false;
                } else {
                    timers.change_priority(&qp, Reverse(at));
                }
                continue;
            }
            if sender.requester.extends_timeout() {
                timers.change_priority(&qp, Reverse(sender.requester.timeout_at()));
                continue;
            }
            fired = true;
            self.tally.last_activity = now;
            match sender.transport.is_tcp() {
                true => counters.tcp_timeouts += 1,
                false => counters.local_ack_timeout_err += 1,
            }
            sender.slow_down(now);
            if sender.requester.on_timeout(now, &sender.transport) {
                let at = sender.requester.timeout_at();
                timers.change_priority(&qp, Reverse(at));
                activate(sender, arbiter, now, params);
            } else {
                timers.pop();
                counters.req_transport_retries_exceeded += 1;
                let of_flow = matches!(self.wiring.qps[qp as usize].role, Role::Flow { .. });
                self.finish(index, qp, now, true);
                self.tally.failed += 1;
                if of_flow {
                    self.tally.count_finished(now, 1);
                } else {
                    self.tally.collective_failed_at = self.tally.collective_failed_at.min(now);
                }
            }
        }
        let nic = &mut self.nics[index];
        if let Some((_, &Reverse(next))) = nic.timers.peek() {
            nic.timer_at = next;
            agenda.at(next, Event::Timeout(port));
        }
        if fired {
            self.kick(port, agenda);
        }
    }

    /// The flows of a NIC that start now.
    pub(super) fn flow_start(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let index = self.nic_of(port);
        if self.nics[index].start_at != now {
            return;
        }
        self.tally.last_activity = now;
        self.nics[index].start_at = Time::MAX;
        let mut reads = Vec::new();
        while let Some(&(start, qp)) = self.nics[index].starts.front()
            && start <= now
        {
            self.nics[index].starts.pop_front();
            if self.receivers[qp as usize].read.is_some() {
                reads.push(qp);
                continue;
            }
            self.open(qp as usize);
            let Nic { params, arbiter, .. } = &mut self.nics[index];
            let sender = &mut self.senders[qp as usize];
            let mtu = u64::from(sender.transport.mtu);
            let bytes = self.wiring.qps[qp as usize].bytes.unwrap_or(mtu << 31);
            sender.requester.post(bytes, &sender.transport);
            self.probe.post(qp, bytes, sender.transport.mtu);
            sender.pacer = Pacer::new(now);
            activate(sender, arbiter, now, params);
        }
        reads.into_iter().for_each(|qp| self.ask(qp, 0, agenda));
        self.watch_starts(port, agenda);
        self.kick(port, agenda);
    }

    /// Keeps one live event for the next flow of a NIC.
    pub(super) fn watch_starts(&mut self, port: u32, agenda: &mut Queue) {
        let index = self.nic_of(port);
        let nic = &mut self.nics[index];
        if let Some(&(start, _)) = nic.starts.front()
            && start < nic.start_at
        {
            nic.start_at = start;
            agenda.at(start, Event::FlowStart(port));
        }
    }

    /// A flow is acknowledged: those that waited for it alone start.
    #[cold]
    pub(super) fn start_followers(&mut self, flow: u32, agenda: &mut Queue) {
        let wiring = self.wiring.clone();
        for &follower in wiring.followers.of(flow) {
            let waits_for = &mut self.waits_for[follower as usize];
            *waits_for -= 1;
            if *waits_for > 0 {
                continue;
            }
            let qp = &wiring.qps[follower as usize];
            let at = agenda.now().saturating_add(qp.start.since(Time::ZERO));
            self.senders.record_mut(follower as usize).starts_at = at;
            let read = self.receivers[follower as usize].read.as_ref();
            let port = read.map_or(qp.source_port, |read| read.port);
            let nic = self.nic_of(port);
            let starts = &mut self.nics[nic].starts;
            starts.insert(starts.partition_point(|(start, _)| *start <= at), (at, follower));
            self.watch_starts(port, agenda);
        }
    }

    /// A frame has reached its host.
    pub(super) fn arrive_at_nic(&mut self, port: u32, packet: Packet, agenda: &mut Queue) {
        let qp = &self.wiring.qps[packet.qp as usize];
        let host = if packet.kind == Kind::Data { qp.target } else { qp.source };
        if host != self.ports[port as usize].rx.place {
            return self.drop(agenda.now(), port, &packet, DropReason::NoRoute, false);
        }
        let index = self.nic_of(port);
        if packet.has_note() && packet.kind == Kind::Data {
            self.note_arrival(agenda.now(), &packet);
        }
        if packet.kind == Kind::Data && self.nics[index].receive.is_some() {
            return self.buffer_data(index, port, packet, agenda);
        }
        self.arrived(&packet);
        match packet.kind {
            Kind::Data => self.receive_data(index, port, &packet, agenda),
            Kind::Ack | Kind::Nak | Kind::Cnp => self.receive_control(packet, agenda),
            Kind::Read => self.asked(&packet, agenda),
            Kind::Pfc => {}
        }
    }

    fn arrived(&mut self, packet: &Packet) {
        self.tally.live -= 1;
        self.tally.arrived += 1;
        self.tally.arrived_bytes += u64::from(packet.len);
    }

    /// Data on its way to memory, where that is slow.
    fn buffer_data(&mut self, nic: usize, port: u32, packet: Packet, agenda: &mut Queue) {
        let now = agenda.now();
        let state = &mut self.nics[nic];
        let priority = state.params.priority[usize::from(packet.dscp & 63)];
        let lossless = state.params.pfc_priorities & (1 << priority) != 0;
        let Some(buffer) = &mut state.receive else { return };
        match buffer.offer(packet) {
            Offered::Full => {
                return self.drop(now, port, &packet, DropReason::NicReceiveFull, lossless);
            }
            Offered::Queued => {}
            Offered::First => self.begin_drain(nic, port, packet.arg, agenda),
        }
        let Some(buffer) = &self.nics[nic].receive else { return };
        let asserted = self.ports[port as usize].aside.pfc.asserted();
        if lossless && buffer.above_xoff() && asserted & (1 << priority) == 0 {
            self.assert_xoff(port, priority, Cause::Receiver, agenda);
        }
    }

    /// Payload begins to drain now.
    fn begin_drain(&mut self, nic: usize, port: u32, payload: u16, agenda: &mut Queue) {
        let now = agenda.now();
        let Nic { receive, dma, .. } = &mut self.nics[nic];
        let Some(buffer) = receive else { return };
        let Some(time) = buffer.begin(payload) else { return buffer.set_drain_at(Time::MAX) };
        let drained = now + time;
        let at = match *dma {
            Some(dma) => drained.max(self.dmas[dma as usize].write(now, payload)),
            None => drained,
        };
        buffer.set_drain_at(at);
        agenda.at(at, Event::Drain(port));
    }

    /// The packet at the head of a receive buffer is in memory.
    pub(super) fn drain(&mut self, port: u32, agenda: &mut Queue) {
        let index = self.nic_of(port);
        let Some(buffer) = &mut self.nics[index].receive else { return };
        if buffer.drain_at() != agenda.now() {
            return;
        }
        buffer.set_drain_at(Time::MAX);
        let Some((packet, next)) = buffer.drained() else { return };
        let below_xon = buffer.below_xon();
        if let Some(next) = next {
            self.begin_drain(index, port, next, agenda);
        }
        self.tally.last_activity = agenda.now();
        self.arrived(&packet);
        self.receive_data(index, port, &packet, agenda);
        let asserted = self.ports[port as usize].aside.pfc.asserted();
        if below_xon {
            let asserted = asserted & !self.nics[index].storm;
            for priority in (0..8).filter(|priority| asserted & (1 << priority) != 0) {
                self.release_xoff(port, priority, agenda);
            }
        }
    }

    /// A data packet reaches the responder.
    fn receive_data(&mut self, nic: usize, port: u32, packet: &Packet, agenda: &mut Queue) {
        let now = agenda.now();
        let Nic { params, notification_point, counters, .. } = &mut self.nics[nic];
        let receiver = &mut self.receivers[packet.qp as usize];
        let (receipt, messages) = match &mut receiver.early {
            None => {
                let flags = [packet.ack_req(), packet.last()];
                let on_data = receiver.responder.on_data(now, packet.psn, flags, &params.responder);
                (on_data, u32::from(on_data.accepted && packet.last()))
            }
            Some(early) => early.on_data(now, packet, &mut receiver.responder, &params.responder),
        };
        let is_rc = receiver.is_rc();
        counters.duplicate_request += u64::from(receipt.duplicate && is_rc);
        if receipt.accepted {
            let delivered = receiver.deliver(packet.arg, receipt.first, packet.last());
            receiver.last_delivery = now;
            self.tally.delivered_bytes += delivered;
        }
        let qp = &self.wiring.qps[packet.qp as usize];
        let config = &params.config;
        let mut echo = false;
        if packet.ce() {
            counters.np_ecn_marked_roce_packets += 1;
            let priority = params.priority[usize::from(packet.dscp)];
            let told = params.np_priorities & (1 << priority) != 0;
            let pause = match (config.np.notify, &receiver.notifies) {
                (Notify::Off, _) => None,
                _ if !told => None,
                (Notify::Echo, Notifies::AsSet) | (_, Notifies::Echo) => {
                    echo = true;
                    None
                }
                (_, Notifies::Spread(spread)) => {
                    let last_cnp = &mut receiver.last_cnp;
                    notification_point.on_marked_spread(now, packet.qp, last_cnp, spread)
                }
                (Notify::Cnp, Notifies::AsSet) => {
                    let last_cnp = &mut receiver.last_cnp;
                    notification_point
                        .on_marked(now, qp.source_address, last_cnp, &config.np)
                        .then_some(Delta::ZERO)
                }
            };
            if let Some(pause) = pause {
                counters.np_cnp_sent += 1;
                let frames = &self.wiring.frames;
                let told = (pause.ps() / 1000) as u32;
                let cnp = Packet::new(Kind::Cnp, packet.qp, told, frames.cnp).with_ttl(frames.ttl);
                self.tally.live += 1;
                let priority = &params.priority;
                self.ports[port as usize]
                    .enqueue(now, &classed(cnp, config.qos.cnp_dscp, priority));
            }
        }
        let of_collective = !matches!(qp.role, Role::Flow { .. });
        let ack_dscp = config.qos.ack_dscp.unwrap_or(qp.dscp);
        let reads = receiver.read.is_some();
        let answer = match receipt.reply {
            // responses are not acknowledged, and what is missing is asked for again
            _ if reads => None,
            Reply::None => None,
            Reply::Ack(psn) => Some((Kind::Ack, psn, 0)),
            Reply::Nak(psn) => {
                counters.out_of_sequence += u64::from(is_rc);
                Some((Kind::Nak, psn, 0))
            }
            Reply::Early(psn, came) => {
                counters.out_of_sequence += 1;
                Some((Kind::Nak, psn, u16::try_from(came - psn).unwrap_or(u16::MAX)))
            }
        };
        if let Some((kind, psn, beyond)) = answer {
            let reply = Packet::new(kind, packet.qp, psn, self.wiring.frames.ack)
                .with_ttl(self.wiring.frames.ttl)
                .with_ect(config.transport.ack_ect)
                .with_echo(echo);
            let mut reply = classed(reply, ack_dscp, &params.priority);
            reply.arg = beyond;
            if packet.has_note() {
                self.note_answered(now, packet, Some(&mut reply));
            }
            self.tally.live += 1;
            self.ports[port as usize].enqueue(now, &reply);
        } else if packet.has_note() {
            self.note_answered(now, packet, None);
        }
        if reads {
            match receipt {
                Receipt { accepted: true, .. } => self.read_progress(packet.qp, agenda),
                Receipt { reply: Reply::Nak(psn), .. } => self.ask(packet.qp, psn, agenda),
                _ => {}
            }
        }
        if messages > 0 && of_collective {
            (0..messages).for_each(|_| self.message_delivered(packet.qp, agenda));
        }
        self.kick(port, agenda);
    }

    /// An ACK, NAK or CNP reaches the requester.
    fn receive_control(&mut self, packet: Packet, agenda: &mut Queue) {
        let now = agenda.now();
        // the QP may send by another port of this host than the one that the frame came in by
        let port = self.wiring.qps[packet.qp as usize].source_port;
        let nic = self.nic_of(port);
        let Nic { params, arbiter, counters, .. } = &mut self.nics[nic];
        let finished = self.senders.record(packet.qp as usize).finished_at().is_some();
        let Some(sender) = self.senders.get_mut(packet.qp as usize).filter(|_| !finished) else {
            return self.notes.free(packet.note());
        };
        let before = sender.requester.unacknowledged();
        let progress = match packet.kind {
            Kind::Ack => sender.requester.on_ack(now, packet.psn, &sender.transport),
            Kind::Nak => {
                match sender.transport.is_tcp() {
                    true => counters.tcp_fast_retrans += 1,
                    false => counters.packet_seq_err += 1,
                }
                let Packet { psn, arg: beyond, .. } = packet;
                match sender.transport.recovery {
                    Recovery::SelectiveRepeat => {
                        let came = psn + u32::from(beyond);
                        sender.requester.on_early(now, psn, came, &sender.transport)
                    }
                    _ => sender.requester.on_nak(now, psn, &sender.transport),
                }
            }
            _ => Progress::Stale,
        };
        if packet.kind != Kind::Cnp && sender.control.learns() {
            let note = (packet.has_note()).then(|| self.notes.get(packet.note()));
            let missing = (packet.kind == Kind::Nak).then_some(packet.psn);
            let answer = (packet.echo(), missing, note);
            sender.learn(now, params.config.pacing, before, answer);
        }
        if packet.has_note() {
            self.notes.free(packet.note());
        }
        let of_flow = matches!(self.wiring.qps[packet.qp as usize].role, Role::Flow { .. });
        let completed = sender.requester.take_completed();
        if progress == Progress::Complete && of_flow {
            self.finish(nic, packet.qp, now, false);
            self.tally.count_finished(now, 1);
            if !self.waits_for.is_empty() {
                self.start_followers(packet.qp, agenda);
            }
        } else {
            if packet.kind == Kind::Cnp || packet.echo() {
                let acts = !matches!(sender.control, RateControl::None(_));
                counters.rp_cnp_handled += u64::from(acts);
                counters.rp_cnp_ignored += u64::from(!acts);
                let pause = Delta::from_ns(packet.psn.into());
                let pause = (packet.kind == Kind::Cnp && !pause.is_zero()).then_some(pause);
                let Sender { pacer, control, .. } = sender;
                let pacing = params.config.pacing;
                pacer.react(now, pacing, control, |control| control.on_cnp(now, pause));
            }
            activate(sender, arbiter, now, params);
        }
        if completed > 0 && !of_flow {
            self.messages_acknowledged(packet.qp, completed, agenda);
        }
        self.kick(port, agenda);
    }
}

/// The length of a data frame that is not part of a WRITE.
#[cold]
fn other_len(framing: Framing, frames: &Frames, segment: &Segment) -> u16 {
    match framing {
        Framing::Write => frames.data(segment.payload, segment.first),
        Framing::Send => frames.data(segment.payload, false),
        Framing::ReadResponse => frames.read(segment.payload, segment.first || segment.last),
        Framing::Tcp => frames.tcp(segment.payload),
    }
}

/// A control frame in its class.
pub(super) fn classed(mut packet: Packet, dscp: u8, priority: &[u8; 64]) -> Packet {
    packet.dscp = dscp;
    packet.pcp = priority[usize::from(dscp & 63)];
    packet.queue = packet.pcp;
    packet
}
