//! Slices over RC QPs, as NCCL's network transport sends them: the receiver grants a slot with a CTS
//! message of 64 bytes, the sender writes the slice into it by WRITE WITH IMMEDIATE.

use std::ops::Range;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Event;
use crate::replay::error::ReplayError;
use crate::replay::lanes::{Action, Ends, Slots, Wiring};
use crate::replay::rendezvous::Rendezvous;
use crate::replay::secret::nonce;
use crate::verbs::{
    Address, Buffer, Completion, CompletionQueue, Device, Gid, Kind, Qp, QpConfig, VerbsError,
    choose,
};

/// Bytes of a CTS (`ncclIbSendFifo` is as long).
const CTS: usize = 64;
/// Larger messages of NCCL are told of by an empty WRITE WITH IMMEDIATE where adaptive routing may
/// reorder their packets (NCCL_IB_AR_THRESHOLD).
const AR_THRESHOLD: u64 = 8192;
/// How often the port is looked at while nothing comes.
const LOOK: Duration = Duration::from_secs(1);

/// How QPs are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::replay) struct QpSetting {
    /// Index of the GID, or what [`choose`] finds.
    pub gid_index: Option<u32>,
    /// Traffic class of data,
    pub traffic_class: u8,
    /// and of CTS messages.
    pub fifo_traffic_class: u8,
    /// Local ACK timeout: 4.096 us x 2^timeout.
    pub timeout: u8,
    /// Retransmissions without progress.
    pub retry_cnt: u8,
    /// Data by WRITE, and an empty WRITE WITH IMMEDIATE after it (NCCL_IB_ADAPTIVE_ROUTING = 1).
    pub adaptive_routing: bool,
}

/// What a rank tells of its end of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Offer {
    connection: u32,
    /// By QP.
    qps: Vec<Address>,
    /// Where the other side may write, and the key.
    address: u64,
    rkey: u32,
}

/// What a rank tells of all of them.
#[derive(Debug, Serialize, Deserialize)]
struct Offers {
    path_mtu: u32,
    device: String,
    sends: Vec<Offer>,
    recvs: Vec<Offer>,
}

/// An end of a connection.
struct End {
    // QPs go before the memory that they use
    qps: Vec<Qp>,
    psns: Vec<u32>,
    wiring: Wiring,
    /// Slices: to be sent, or received.
    slots: Buffer,
    /// CTS messages: received, or to be sent.
    cts: Buffer,
    /// CTS messages sent.
    granted: u64,
    /// Where the other side lets us write, and the key.
    remote: (u64, u32),
}

/// All QPs of a rank.
pub(in crate::replay) struct Rdma {
    sends: Vec<End>,
    recvs: Vec<End>,
    queue: CompletionQueue,
    device: Device,
    completions: Vec<Completion>,
    adaptive_routing: bool,
    looked: Instant,
}

/// The two sides of a connection, in numbers of work requests.
const SEND_SIDE: u64 = 0;
const RECV_SIDE: u64 = 1;

/// A number for a work request: side, end and QP.
fn id(side: u64, end: usize, qp: usize) -> u64 {
    side << 63 | (end as u64) << 16 | qp as u64
}

fn of_id(id: u64) -> (u64, usize, u32) {
    (id >> 63, (id >> 16 & 0xffff_ffff) as usize, (id & 0xffff) as u32)
}

fn verb(error: VerbsError) -> ReplayError {
    ReplayError::Setting(error.to_string())
}

impl End {
    fn new(
        device: &Device,
        queue: &CompletionQueue,
        config: &QpConfig,
        wiring: &Wiring,
        side: u64,
        number: usize,
    ) -> Result<Self, ReplayError> {
        let slots = Buffer::host(device, wiring.slot * wiring.slots).map_err(verb)?;
        let cts = Buffer::host(device, CTS * wiring.slots).map_err(verb)?;
        let (mut qps, mut psns) = (Vec::new(), Vec::new());
        for index in 0..wiring.striping.qps as usize {
            let qp = Qp::new(device, queue, config).map_err(verb)?;
            for _ in 0..config.recvs {
                qp.post_recv(id(side, number, index)).map_err(verb)?;
            }
            qps.push(qp);
            let [a, b, c, ..] = nonce()?;
            psns.push(u32::from_le_bytes([a, b, c, 0]));
        }
        let (wiring, granted, remote) = (*wiring, 0, (0, 0));
        Ok(End { qps, psns, wiring, slots, cts, granted, remote })
    }

    /// What the other side may write to is `memory`.
    fn offer(&self, gid: Gid, memory: &Buffer) -> Offer {
        let qps = self.qps.iter().zip(&self.psns);
        Offer {
            connection: self.wiring.connection,
            qps: qps.map(|(qp, psn)| Address { qp_num: qp.number(), psn: *psn, gid }).collect(),
            address: memory.address(0),
            rkey: memory.rkey(),
        }
    }

    fn connect(
        &mut self,
        device: &Device,
        config: &QpConfig,
        offers: &[Offer],
    ) -> Result<(), ReplayError> {
        let connection = self.wiring.connection;
        let other = offers.iter().find(|offer| offer.connection == connection);
        let peer = self.wiring.peer;
        let missing = || ReplayError::Protocol(format!("rank {peer} has other connections"));
        let other = other.filter(|other| other.qps.len() == self.qps.len()).ok_or_else(missing)?;
        for ((qp, psn), address) in self.qps.iter().zip(&self.psns).zip(&other.qps) {
            qp.connect(device, config, *psn, address).map_err(verb)?;
        }
        self.remote = (other.address, other.rkey);
        Ok(())
    }
}

impl Rdma {
    /// Makes QPs for all connections of this rank, and joins them with those of its peers.
    pub(super) fn join(
        device: &Device,
        setting: &QpSetting,
        ends: &Ends,
        rendezvous: &mut Rendezvous,
    ) -> Result<Self, ReplayError> {
        let port = device.state().map_err(verb)?;
        let name = device.name();
        if !port.active {
            let message =
                format!("port {} of {name} is {}: is its link up?", device.port(), port.name());
            return Err(ReplayError::Setting(message));
        }
        if !port.ethernet {
            let message = format!("{name} is an InfiniBand port, where RoCE is expected");
            return Err(ReplayError::Setting(message));
        }
        let gids = device.gids();
        let gid = choose(name, &gids, setting.gid_index).map_err(ReplayError::Setting)?;
        let slots = ends.sends.iter().chain(&ends.recvs).map(|wiring| wiring.slots).max();
        let slots = slots.unwrap_or(0) as u32;
        let config = |traffic_class| QpConfig {
            gid_index: gid.index as u8,
            path_mtu: port.active_mtu,
            traffic_class,
            timeout: setting.timeout,
            retry_cnt: setting.retry_cnt,
            sends: 2 * slots + 8,
            recvs: slots + 8,
        };
        let [data, fifo] = [setting.traffic_class, setting.fifo_traffic_class].map(config);
        let all = ends.sends.iter().chain(&ends.recvs);
        let qps: u32 = all.map(|wiring| wiring.striping.qps).sum();
        let room = qps * (data.sends + data.recvs);
        let queue = CompletionQueue::new(device, room.max(1)).map_err(verb)?;
        let make = |wirings: &[Wiring], config: &QpConfig, side: u64| {
            let ends = wirings.iter().enumerate();
            let ends =
                ends.map(|(number, wiring)| End::new(device, &queue, config, wiring, side, number));
            ends.collect::<Result<Vec<End>, ReplayError>>()
        };
        let mut sends = make(&ends.sends, &data, SEND_SIDE)?;
        let mut recvs = make(&ends.recvs, &fifo, RECV_SIDE)?;
        let own = Offers {
            path_mtu: port.active_mtu,
            device: format!("{name} of rank {}", rendezvous.rank),
            sends: sends.iter().map(|end| end.offer(gid.gid, &end.cts)).collect(),
            recvs: recvs.iter().map(|end| end.offer(gid.gid, &end.slots)).collect(),
        };
        let offers: Vec<Offers> = rendezvous.gather(&own)?;
        let path_mtu = same_mtu(&offers)?;
        let [data, fifo] = [data, fifo].map(|config| QpConfig { path_mtu, ..config });
        for end in &mut sends {
            let peer = end.wiring.peer as usize;
            end.connect(device, &data, &offers[peer].recvs)?;
        }
        for end in &mut recvs {
            let peer = end.wiring.peer as usize;
            end.connect(device, &fifo, &offers[peer].sends)?;
        }
        // nobody sends before all are ready to receive
        rendezvous.barrier()?;
        let (device, completions, looked) = (device.clone(), Vec::new(), Instant::now());
        let adaptive_routing = setting.adaptive_routing;
        Ok(Rdma { sends, recvs, queue, device, completions, adaptive_routing, looked })
    }

    /// Posts what the lanes want.
    pub(super) fn act(&mut self, action: Action) -> Result<(), ReplayError> {
        match action {
            Action::Post { send, qp, slot, part } => {
                let End { qps, slots, wiring, remote, .. } = &self.sends[send];
                let begin = slot * wiring.slot + part.offset as usize;
                let range = begin..begin + part.bytes as usize;
                let remote = (remote.0 + begin as u64, remote.1);
                let (id, own) = (id(SEND_SIDE, send, qp as usize), &qps[qp as usize]);
                let told = Some(slot as u32);
                if self.adaptive_routing && part.bytes > AR_THRESHOLD {
                    own.write(id, slots, range, remote, None).map_err(verb)?;
                    return own.write(id, slots, begin..begin, remote, told).map_err(verb);
                }
                own.write(id, slots, range, remote, told).map_err(verb)
            }
            Action::Grant { recv, qp } => self.grant(recv, qp),
        }
    }

    /// Writes a CTS: where the slot is, its key, its size, and the number of the CTS.
    fn grant(&mut self, recv: usize, qp: u32) -> Result<(), ReplayError> {
        let End { qps, slots, cts, wiring, granted, remote, .. } = &mut self.recvs[recv];
        let slot = (*granted % wiring.slots as u64) as usize;
        let range: Range<usize> = slot * CTS..(slot + 1) * CTS;
        let mut words = [
            slots.address(slot * wiring.slot),
            u64::from(slots.rkey()),
            wiring.slot as u64,
            *granted,
        ]
        .into_iter();
        for place in cts.get_mut(range.clone()).chunks_exact_mut(8) {
            place.copy_from_slice(&words.next().unwrap_or(0).to_le_bytes());
        }
        *granted += 1;
        let at = (remote.0 + range.start as u64, remote.1);
        let id = id(RECV_SIDE, recv, qp as usize);
        qps[qp as usize].write(id, cts, range, at, Some(slot as u32)).map_err(verb)
    }

    /// Waits for completions.
    pub(super) fn wait(
        &mut self,
        most: Duration,
        events: &mut Vec<Event>,
    ) -> Result<(), ReplayError> {
        let mut completions = std::mem::take(&mut self.completions);
        self.queue.wait(most, &mut completions).map_err(verb)?;
        if completions.is_empty() && self.looked.elapsed() > LOOK {
            self.looked = Instant::now();
            let port = self.device.state().map_err(verb)?;
            if !port.active {
                let (name, state) = (self.device.name(), port.name());
                return Err(ReplayError::Setting(format!("the link of {name} went {state}")));
            }
        }
        // the cause comes before what it flushed, but perhaps from another QP
        let flushed = |done: &&Completion| done.result.as_ref().is_err_and(|why| !why.flushed);
        if let Some(bad) = completions.iter().find(flushed) {
            return Err(self.failure(bad));
        }
        for done in completions.drain(..) {
            let Ok(kind) = done.result else { return Err(self.failure(&done)) };
            let (side, end, qp) = of_id(done.id);
            let ends = if side == SEND_SIDE { &self.sends } else { &self.recvs };
            if kind == Kind::Received {
                ends[end].qps[qp as usize].post_recv(done.id).map_err(verb)?;
            }
            events.extend(match (side, kind) {
                (SEND_SIDE, Kind::Sent) => Some(Event::Acknowledged { send: end, qp }),
                (SEND_SIDE, Kind::Received) => Some(Event::Granted { send: end, qp }),
                (_, Kind::Received) => Some(Event::Arrived { recv: end, qp }),
                // a CTS has been acknowledged
                (_, Kind::Sent) => None,
            });
        }
        self.completions = completions;
        Ok(())
    }

    fn failure(&self, done: &Completion) -> ReplayError {
        let (side, end, _) = of_id(done.id);
        let ends = if side == SEND_SIDE { &self.sends } else { &self.recvs };
        let peer = ends[end].wiring.peer;
        match &done.result {
            Err(why) => {
                let (status, vendor, hint) = (why.status.clone(), why.vendor, why.hint);
                ReplayError::Qp { peer, status, vendor, hint }
            }
            Ok(_) => ReplayError::Protocol("a completion is no failure".into()),
        }
    }
}

/// The MTU of all; NICs whose ports differ are a fault of their configuration, and frames of the
/// larger ones would be lost.
fn same_mtu(offers: &[Offers]) -> Result<u32, ReplayError> {
    let smallest = offers.iter().min_by_key(|offer| offer.path_mtu);
    let largest = offers.iter().max_by_key(|offer| offer.path_mtu);
    let (Some(smallest), Some(largest)) = (smallest, largest) else {
        return Err(ReplayError::Protocol("there are no ranks".into()));
    };
    match smallest.path_mtu == largest.path_mtu {
        true => Ok(smallest.path_mtu),
        false => Err(ReplayError::Setting(format!(
            "MTUs differ: {} has {}, {} has {}; set the MTU of their network devices alike (4200 or \
             more for RoCE's 4096, 1500 for 1024)",
            smallest.device, smallest.path_mtu, largest.device, largest.path_mtu
        ))),
    }
}

impl Slots for Rdma {
    fn received(&self, recv: usize, slot: usize) -> &[u8] {
        let End { slots, wiring, .. } = &self.recvs[recv];
        slots.get(slot * wiring.slot..(slot + 1) * wiring.slot)
    }

    fn to_send(&mut self, send: usize, slot: usize) -> &mut [u8] {
        let End { slots, wiring, .. } = &mut self.sends[send];
        slots.get_mut(slot * wiring.slot..(slot + 1) * wiring.slot)
    }
}
