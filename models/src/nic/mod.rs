//! The NIC: transport, congestion control, arbitration between QPs.

mod arbiter;
mod config;
mod dma;
mod early;
mod go_back_n;
mod kept;
mod notify;
mod pacer;
mod read;
mod receive;
mod selective;
mod senders;
mod tcp;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use priority_queue::PriorityQueue;
use sim_core::{Bytes, Rate, Time};

pub use arbiter::Arbiter;
pub use config::{
    CnpScope, Entropy, NicConfig, NicPfcConfig, NicQosConfig, Notify, NpConfig, PauseStormConfig,
    ReceiveConfig, Recovery, TransportConfig, WindowSize, local_ack_timeout,
};
pub use dma::{Dma, Read};
pub use early::{Early, Keeps, OooReceiver};
pub use go_back_n::{
    Framing, Progress, Receipt, Reply, Requester, RequesterParams, Responder, ResponderParams,
    Segment,
};
pub use notify::{NotificationPoint, Spread};
pub use pacer::{Pacer, Pacing};
pub use read::ReadEnd;
pub use receive::{Offered, ReceiveBuffer};
pub use selective::{Selective, SelectiveConfig};
pub use senders::{SenderRecord, Senders};
pub use tcp::TcpReceiver;

use crate::congestion::{
    Ack, CongestionConfig, Marks, RateControl, RateController, Reno, TcpConfig,
};
use crate::counters::NicCounters;
use crate::hash::IdHasher;
use crate::note::Note;

/// A NIC port's configuration, ready for use.
#[derive(Debug)]
pub struct NicParams {
    /// As read.
    pub config: NicConfig,
    /// The congestion control of new QPs.
    pub congestion: Arc<CongestionConfig>,
    /// For the requesters.
    pub requester: RequesterParams,
    /// For the responders.
    pub responder: ResponderParams,
    /// Priority by DSCP.
    pub priority: [u8; 64],
    /// Priorities (a bit each) whose PFC frames are obeyed and sent.
    pub pfc_priorities: u8,
    /// Priorities (a bit each) whose marked packets cause notifications.
    pub np_priorities: u8,
}

impl NicParams {
    /// Derives what the hot path needs.
    pub fn new(config: &NicConfig) -> Self {
        let transport = &config.transport;
        NicParams {
            congestion: Arc::new(config.congestion.clone()),
            requester: RequesterParams {
                mtu: config.mtu,
                ack_every: transport.ack_every.max(1),
                ack_timeout: transport.ack_timeout(),
                retry_cnt: transport.retry_cnt,
                framing: Framing::Write,
                recovery: transport.recovery,
                ect: config.np.notify != Notify::Off,
                wants: None,
                header: 0,
            },
            responder: ResponderParams {
                nak_repeat: transport.nak_repeat,
                ack_duplicates: transport.ack_duplicates,
            },
            priority: std::array::from_fn(|dscp| config.qos.priority(dscp as u8)),
            pfc_priorities: mask(&config.pfc.priorities),
            np_priorities: mask(&config.np.priorities),
            config: config.clone(),
        }
    }
}

/// A bit for each priority.
fn mask(priorities: &[u8]) -> u8 {
    priorities.iter().fold(0, |mask, priority| mask | 1 << priority)
}

/// Where the requester of a QP stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderState {
    /// Not started, or nothing to send.
    Idle,
    /// May send as soon as the port is free.
    Ready,
    /// Waits for its pacer.
    Waiting,
    /// Waits for its window.
    Blocked,
    /// Retries exceeded: the QP is in the error state.
    Failed,
}

/// The requester's end of a QP.
#[derive(Debug)]
pub struct Sender {
    /// Go-back-N,
    pub requester: Requester,
    /// and its constants.
    pub transport: RequesterParams,
    /// Congestion control.
    pub control: RateControl,
    /// When the next packet may leave.
    pub pacer: Pacer,
    /// Where it stands.
    pub state: SenderState,
    /// Rate of its port.
    pub line_rate: Rate,
    /// Unacknowledged payload that it may have.
    pub window: Option<Bytes>,
    /// Its place at the arbiter of its port.
    pub slot: u32,
    /// Its retransmission timer is in the NIC's queue.
    pub timer_armed: bool,
}

impl Sender {
    /// A QP that has not started, with this window if its algorithm has none.
    pub fn new(
        params: &NicParams,
        control: RateControl,
        line_rate: Rate,
        slot: u32,
        window: Option<Bytes>,
    ) -> Self {
        let config = &params.config.transport;
        let mut transport = params.requester;
        let requester = match config.recovery {
            Recovery::SelectiveRepeat => Requester::selective(config.selective),
            _ => Requester::default(),
        };
        transport.ect &= control.marks() != Marks::Unused;
        transport.wants = control.wants();
        transport.header = control.header();
        let window = control.window().or(window);
        let follows = window.is_some() && config.window_follows_rate;
        if control.learns() || follows || config.recovery == Recovery::SelectiveRepeat {
            // each ACK tells something, or: any packet may turn out to be the last one that the window
            // lets out
            transport.ack_every = 1;
        }
        Sender {
            requester,
            transport,
            control,
            pacer: Pacer::new(Time::ZERO),
            state: SenderState::Idle,
            line_rate,
            window,
            slot,
            timer_armed: false,
        }
    }

    /// Tells the congestion control of an answer: what was unacknowledged `before`, whether it echoes a
    /// mark, the PSN that it asks for, and what it brings back.
    #[cold]
    pub fn learn(
        &mut self,
        now: Time,
        pacing: Pacing,
        (before, _): (u32, u32),
        answer: (bool, Option<u32>, Option<&Note>),
    ) {
        let (una, sent) = self.requester.unacknowledged();
        let (echo, missing, note) = answer;
        let ack = Ack {
            bytes: u64::from(una - before) * u64::from(self.transport.mtu),
            una,
            next: self.requester.next(),
            sent,
            in_flight: self.requester.in_flight(&self.transport),
            echo,
            missing,
            note,
        };
        let ready = self.pacer.ready_at();
        self.pacer.react(now, pacing, &mut self.control, |control| control.on_ack(now, &ack));
        self.window = self.control.window().or(self.window);
        if self.state == SenderState::Waiting && self.pacer.ready_at() < ready {
            // it waits for less
            self.state = SenderState::Idle;
        }
    }

    /// Tells the congestion control that the retransmission timer fires.
    pub fn slow_down(&mut self, now: Time) {
        if self.control.learns() {
            let (una, sent) = self.requester.unacknowledged();
            let in_flight = u64::from(sent - una) * u64::from(self.transport.mtu);
            self.pacer.settle(now, &mut self.control);
            self.control.on_timeout(now, sent, in_flight);
            self.window = self.control.window().or(self.window);
        }
    }

    /// Makes it the sender of a TCP flow.
    pub fn speak_tcp(&mut self, config: &TcpConfig, line_rate: Rate) {
        let reno = Reno::new(config, line_rate);
        self.window = reno.window();
        self.control = RateControl::Reno(reno);
        self.requester = Requester::default();
        self.transport = RequesterParams {
            mtu: config.mss,
            // delayed ACKs: every other segment (RFC 1122)
            ack_every: 2,
            ack_timeout: config.rto,
            // tcp_retries2
            retry_cnt: 15,
            framing: Framing::Tcp,
            recovery: Recovery::GoBackN,
            ect: false,
            wants: None,
            header: 0,
        };
    }
}

/// The responder's end of a QP.
#[derive(Debug, Default)]
pub struct Receiver {
    /// Go-back-N,
    pub responder: Responder,
    /// or more than that: packets that come early are counted, or kept.
    pub early: Option<Box<Early>>,
    /// Payload delivered: with go-back-0, that of messages which have come as a whole.
    pub delivered_bytes: u64,
    /// With go-back-0: payload of the message that is being received.
    partial_bytes: u64,
    /// `delivered_bytes` at the edges of the measured window.
    pub measured: [Option<u64>; 2],
    /// When the last payload byte arrived.
    pub last_delivery: Time,
    /// When the last CNP for this QP was sent.
    pub last_cnp: Option<Time>,
    /// It asks for what it receives.
    pub read: Option<Box<ReadEnd>>,
    /// How its marks are told, if its algorithm wants that otherwise than its NIC does,
    pub notifies: Notifies,
    /// and the bytes that what packets bring back takes in ACKs.
    pub header: u16,
}

/// How the receiving end of a QP tells of marks.
#[derive(Clone, Debug, Default)]
pub enum Notifies {
    /// As `nic.np` says.
    #[default]
    AsSet,
    /// In the ACK of the marked packet.
    Echo,
    /// By CNPs that are spread over the QPs.
    Spread(Box<Spread>),
}

impl Notifies {
    /// What the algorithm of a sender wants.
    pub fn wanted_by(control: &RateControl) -> Self {
        match control {
            RateControl::DcqcnPlus(plus) => {
                let (cnp_time, interval) = plus.notifies();
                Notifies::Spread(Box::new(Spread { cnp_time, interval }))
            }
            _ if control.marks() == Marks::Echoed => Notifies::Echo,
            _ => Notifies::AsSet,
        }
    }
}

impl Receiver {
    /// One that has received nothing, of a requester that recovers so.
    pub fn new(recovery: Recovery) -> Self {
        Receiver { responder: Responder::new(recovery), ..Receiver::default() }
    }

    /// The first packet that is missing.
    pub fn expected(&self) -> u32 {
        let early = self.early.as_ref().and_then(|early| early.expected());
        early.unwrap_or(self.responder.expected())
    }

    /// It is no TCP flow's.
    #[inline]
    pub fn is_rc(&self) -> bool {
        self.early.as_ref().is_none_or(|early| !matches!(early.keeps, Keeps::Tcp(_)))
    }

    /// Packets that came after a later one: see [`Early::reordered`].
    pub fn reordered(&self) -> u64 {
        self.early.as_ref().map_or(0, |early| early.reordered)
    }

    /// Counts the payload of a packet that was accepted; returns what is delivered by it.
    #[inline]
    pub fn deliver(&mut self, payload: u16, first: bool, last: bool) -> u64 {
        let mut delivered = u64::from(payload);
        if self.responder.recovery() == Recovery::GoBack0 {
            let before = if first { 0 } else { self.partial_bytes };
            self.partial_bytes = before + delivered;
            delivered = if last { std::mem::take(&mut self.partial_bytes) } else { 0 };
        }
        self.delivered_bytes += delivered;
        delivered
    }
}

/// One port of a NIC.
#[derive(Debug)]
pub struct Nic {
    /// Configuration.
    pub params: Arc<NicParams>,
    /// Which QP sends next.
    pub arbiter: Arbiter,
    /// Flows to start: (start, QP), the next one first.
    pub starts: VecDeque<(Time, u32)>,
    /// When the live `FlowStart` event fires.
    pub start_at: Time,
    /// Retransmission timers by QP; entries may be early, never late.
    pub timers: PriorityQueue<u32, Reverse<Time>, BuildHasherDefault<IdHasher>>,
    /// When the live `Timeout` event fires.
    pub timer_at: Time,
    /// Who was notified when.
    pub notification_point: NotificationPoint,
    /// Between port and memory, if that is slow.
    pub receive: Option<ReceiveBuffer>,
    /// PCIe, if that is slower than the ports.
    pub dma: Option<u32>,
    /// Priorities (a bit each) whose XOFF a fault holds.
    pub storm: u8,
    /// Everything that is counted here.
    pub counters: NicCounters,
}

impl Nic {
    /// A NIC port without QPs.
    pub fn new(params: Arc<NicParams>) -> Self {
        Nic {
            arbiter: Arbiter::default(),
            starts: VecDeque::new(),
            start_at: Time::MAX,
            timers: PriorityQueue::with_default_hasher(),
            timer_at: Time::MAX,
            notification_point: NotificationPoint::default(),
            receive: params.config.receive.map(ReceiveBuffer::new),
            dma: None,
            storm: 0,
            counters: NicCounters::default(),
            params,
        }
    }
}
