//! From the packets of the simulation to bytes.
//!
//! A packet has no more than the fabric needs. What else a frame shows follows from the plan (addresses,
//! QP numbers), from the messages that were posted (which packet is the first, bytes, MSN), and from
//! counts (IPv4's identification).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use sim_core::Time;

use crate::fabric::{Plan, QpInfo, Role};
use crate::ids::PortId;
use crate::packet::{Kind, Packet};
use crate::traffic::Transport as Carrier;
use crate::wire::frame::{Aeth, Bth, Ethernet, Ip, Pfc, Reth, Roce, Tcp, Transport};
use crate::wire::opcode::{Opcode, Part};

/// The longest message of the IB specification (9.3.3.1), which flows without end are cut to.
const LONGEST: u64 = 1 << 31;

/// QP numbers of a device begin here, as the UDP source ports of the simulation have it.
const FIRST_QP: u32 = 0x11;

/// Makes frames.
#[derive(Default)]
pub(super) struct Framer {
    qps: Vec<Qp>,
    /// By port: its MAC address, and the one at the other end.
    cables: Vec<[[u8; 6]; 2]>,
    /// By port: it belongs to a host.
    of_host: Vec<bool>,
    /// Data packets that have left each host's port.
    sent: Vec<u16>,
    /// Of data packets on their way, by QP and PSN: the identification, and how many there are.
    on_way: BTreeMap<(u32, u32), (u16, u32)>,
    vlan: bool,
}

/// A QP: what its frames say.
struct Qp {
    source: IpAddr,
    target: IpAddr,
    ports: [u16; 2],
    /// QP numbers of the sender and of the receiver of data.
    numbers: [u32; 2],
    carrier: Carrier,
    mtu: u64,
    /// Size of a flow.
    bytes: Option<u64>,
    messages: Vec<Message>,
}

/// A message that was posted.
#[derive(Clone, Copy)]
struct Message {
    first: u32,
    end: u32,
    /// Bytes of all before it.
    before: u64,
    bytes: u64,
}

impl Framer {
    pub(super) fn new(plan: &Plan) -> Self {
        let wiring = &plan.wiring;
        let topology = &wiring.topology;
        let numbers = qp_numbers(&wiring.qps, topology.nodes().len());
        let qp = |(info, numbers): (&QpInfo, [u32; 2])| Qp {
            source: IpAddr::V4(Ipv4Addr::from(info.tuple.source)),
            target: IpAddr::V4(Ipv4Addr::from(info.tuple.destination)),
            ports: [info.tuple.source_port, info.tuple.destination_port],
            numbers,
            carrier: info.transport,
            mtu: plan.spec.nics[info.source as usize].as_ref().map_or(4096, |nic| nic.mtu.into()),
            bytes: info.bytes,
            messages: Vec::new(),
        };
        let mac = |port: usize| {
            let wire = &wiring.wires[port];
            let [_, node @ ..] = wire.node.to_be_bytes();
            let index = wire.index.to_be_bytes();
            // locally administered
            [0x02, node[0], node[1], node[2], index[0], index[1]]
        };
        let ports = 0..wiring.wires.len();
        Framer {
            qps: wiring.qps.iter().zip(numbers).map(qp).collect(),
            cables: ports.map(|port| [port, wiring.wires[port].peer as usize].map(mac)).collect(),
            of_host: wiring.wires.iter().map(|wire| !wire.is_switch).collect(),
            sent: vec![0; wiring.wires.len()],
            on_way: BTreeMap::new(),
            vlan: plan.spec.wire.vlan,
        }
    }

    /// A message is posted on a QP.
    pub(super) fn post(&mut self, qp: u32, bytes: u64, mtu: u16) {
        let qp = &mut self.qps[qp as usize];
        qp.mtu = mtu.into();
        let last = qp.messages.last();
        let (first, before) = last.map_or((0, 0), |last| (last.end, last.before + last.bytes));
        let packets = bytes.div_ceil(qp.mtu).max(1) as u32;
        qp.messages.push(Message { first, end: first.wrapping_add(packets), before, bytes });
    }

    /// A frame leaves a port: a host's port numbers its data packets, those sent again, too.
    pub(super) fn leaves(&mut self, port: PortId, packet: &Packet) {
        if packet.kind == Kind::Data && self.of_host[port.index()] {
            let sent = &mut self.sent[port.index()];
            let (id, copies) = self.on_way.entry((packet.qp, packet.psn)).or_default();
            *id = *sent;
            *copies += 1;
            *sent = sent.wrapping_add(1);
        }
    }

    /// A frame has reached a port.
    pub(super) fn reaches(&mut self, port: PortId, packet: &Packet) {
        if packet.kind == Kind::Data && self.of_host[port.index()] {
            self.is_gone(packet);
        }
    }

    /// A frame is at its end.
    pub(super) fn is_gone(&mut self, packet: &Packet) {
        let key = (packet.qp, packet.psn);
        if packet.kind == Kind::Data
            && let Some((_, copies)) = self.on_way.get_mut(&key)
        {
            *copies -= 1;
            if *copies == 0 {
                self.on_way.remove(&key);
            }
        }
    }

    /// Appends the frame that `sender` puts on its cable.
    pub(super) fn write(&self, sender: PortId, now: Time, packet: &Packet, out: &mut Vec<u8>) {
        let [source, target] = self.cables[sender.index()];
        if packet.kind == Kind::Pfc {
            let mut quanta = [0; 8];
            quanta[usize::from(packet.queue & 7)] = packet.arg;
            return Pfc { source, classes: 1 << (packet.queue & 7), quanta }.write(out);
        }
        let tag = self.vlan.then_some((packet.pcp, 0));
        let ethernet = Ethernet { target, source, tag };
        let qp = &self.qps[packet.qp as usize];
        let ends = match packet.kind {
            Kind::Data => [qp.source, qp.target],
            _ => [qp.target, qp.source],
        };
        let id = match packet.kind {
            Kind::Data => self.on_way.get(&(packet.qp, packet.psn)).map_or(0, |(id, _)| *id),
            _ => 0,
        };
        let ecn = match (packet.ce(), packet.ect()) {
            (true, _) => 3,
            (false, true) => 2,
            (false, false) => 0,
        };
        let [source, target] = ends;
        let ip = Ip { source, target, dscp: packet.dscp, ecn, ttl: packet.ttl, id };
        if qp.carrier == Carrier::Tcp {
            return qp.segment(ethernet, ip, now, packet).write(out);
        }
        let payload = if packet.kind == Kind::Data { packet.arg.into() } else { 0 };
        let transport = qp.transport(packet);
        Roce { ethernet, ip, source_port: qp.ports[0], transport, payload }.write(out);
    }
}

impl Qp {
    /// The message of a packet, and its number from 1 on.
    fn message(&self, psn: u32) -> (Message, u32) {
        let number = self.messages.partition_point(|message| message.first <= psn);
        match number.checked_sub(1) {
            Some(index) => (self.messages[index], number as u32),
            // a READ that is asked for has not been posted where the data is
            None => {
                let bytes = self.bytes.unwrap_or(LONGEST);
                (Message { first: 0, end: u32::MAX, before: 0, bytes }, 1)
            }
        }
    }

    /// Messages that are complete when all before `psn` has come.
    fn complete(&self, psn: u32) -> u32 {
        self.messages.partition_point(|message| message.end <= psn) as u32
    }

    fn transport(&self, packet: &Packet) -> Transport {
        let psn = packet.psn;
        let (message, number) = self.message(psn);
        let part = Part::of(psn == message.first, packet.last());
        let [source, target] = self.numbers;
        let bth = Bth {
            // the state of a path that never migrates, as NICs send it
            migrated: true,
            partition: 0xffff,
            target_qp: source,
            psn: psn & 0xff_ffff,
            becn: packet.echo(),
            ..Bth::default()
        };
        let of = |opcode: Opcode| Transport { bth: Bth { opcode, ..bth }, ..Transport::default() };
        let answer = |syndrome, msn| Some(Aeth { syndrome, msn: msn & 0xff_ffff });
        let skipped = u64::from(psn - message.first) * self.mtu;
        let reth = Some(Reth {
            address: u64::from(source) << 40 | (message.before + skipped),
            key: target,
            length: (message.bytes - skipped.min(message.bytes)).min(LONGEST) as u32,
        });
        match packet.kind {
            Kind::Data => {
                let opcode = match self.carrier {
                    Carrier::RcSend => Opcode::send(part),
                    Carrier::RcRead => Opcode::read(part),
                    Carrier::Rc | Carrier::Tcp => Opcode::write(part),
                };
                let is_read = self.carrier == Carrier::RcRead;
                let ack_req = packet.ack_req() && !is_read;
                Transport {
                    bth: Bth { opcode, target_qp: target, ack_req, ..bth },
                    reth: reth.filter(|_| opcode.reth()),
                    aeth: answer(Aeth::ACK, number).filter(|_| opcode.aeth()),
                    ..Transport::default()
                }
            }
            Kind::Ack => Transport {
                aeth: answer(Aeth::ACK, self.complete(psn.saturating_add(1))),
                ..of(Opcode::ACK)
            },
            Kind::Nak => Transport {
                aeth: answer(Aeth::SEQUENCE_ERROR, self.complete(psn)),
                ..of(Opcode::ACK)
            },
            Kind::Read => {
                let bth = Bth { opcode: Opcode::READ_REQUEST, ack_req: true, ..bth };
                Transport { bth, reth, ..Transport::default() }
            }
            // its PSN has no meaning; what DCQCN+ tells by it goes where there is room
            Kind::Cnp | Kind::Pfc => Transport {
                bth: Bth { opcode: Opcode::CNP, psn: 0, becn: true, ..bth },
                reserved: psn,
                ..Transport::default()
            },
        }
    }

    /// A segment of a TCP connection whose first byte has the number 1 in both directions.
    fn segment(&self, ethernet: Ethernet, ip: Ip, now: Time, packet: &Packet) -> Tcp {
        let is_data = packet.kind == Kind::Data;
        let [source, target] = self.ports;
        let (ports, sequence, acknowledged) = if is_data {
            ([source, target], self.place(packet.psn), 1)
        } else {
            let next = packet.psn.saturating_add(u32::from(packet.kind == Kind::Ack));
            ([target, source], 1, self.place(next))
        };
        Tcp {
            ethernet,
            ip,
            ports,
            sequence,
            acknowledged,
            echo: packet.echo(),
            stamp: (now.ps() / 1_000_000_000) as u32,
            payload: if is_data { packet.arg.into() } else { 0 },
        }
    }

    /// The number of the first byte of a segment.
    fn place(&self, segment: u32) -> u32 {
        let (message, _) = self.message(segment);
        let skipped = u64::from(segment - message.first) * self.mtu;
        (message.before + skipped.min(message.bytes)).wrapping_add(1) as u32
    }
}

/// The numbers of both ends of each QP. A device counts; CTS messages go by the same QPs as the data,
/// the other way.
fn qp_numbers(qps: &[QpInfo], nodes: usize) -> Vec<[u32; 2]> {
    let mut next = vec![FIRST_QP; nodes];
    let mut numbers: Vec<[u32; 2]> = Vec::with_capacity(qps.len());
    let mut of_connection: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    let mut cts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for (index, qp) in qps.iter().enumerate() {
        let forward = match qp.role {
            Role::Cts { job, connection } => {
                let turn = cts.entry((job, connection)).or_default();
                *turn += 1;
                let data = of_connection.get(&(job, connection));
                data.and_then(|data| data.get(*turn - 1)).copied()
            }
            Role::Data { job, connection } => {
                of_connection.entry((job, connection)).or_default().push(index);
                None
            }
            Role::Flow { .. } | Role::Line { .. } => None,
        };
        let ends = match forward {
            Some(forward) => [numbers[forward][1], numbers[forward][0]],
            None => [qp.source, qp.target].map(|node| {
                next[node as usize] += 1;
                next[node as usize] - 1
            }),
        };
        numbers.push(ends);
    }
    numbers
}
