//! Slices over TCP connections, one for each QP that the scenario's connections have: what NCCL does
//! without RDMA. Data goes one way, CTS messages come back on the same connection.
//!
//! A message has a head of 16 bytes (kind, slot, offset, length; little endian), and its bytes.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Event;
use crate::replay::error::ReplayError;
use crate::replay::lanes::{Action, Ends, Slots, Wiring};
use crate::replay::rendezvous::Rendezvous;
use crate::replay::secret::{Nonce, PROOF, Token, nonce};

const HEAD: usize = 16;
const DATA: u32 = 1;
const CTS: u32 = 2;
/// Length of the first message of a connection: whose it is, and the proof.
const HELLO: usize = 8 + PROOF;

/// The slots of an end.
struct Room {
    memory: Vec<u8>,
    slot: usize,
}

impl Room {
    fn new(wiring: &Wiring) -> Self {
        Room { memory: vec![0; wiring.slot * wiring.slots], slot: wiring.slot }
    }

    fn slot(&self, slot: usize) -> &[u8] {
        &self.memory[slot * self.slot..][..self.slot]
    }

    fn slot_mut(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory[slot * self.slot..][..self.slot]
    }
}

/// Which end a connection belongs to.
#[derive(Clone, Copy)]
enum End {
    Send(usize),
    Recv(usize),
}

/// A message that waits to be written.
struct Outgoing {
    head: [u8; HEAD],
    /// Of a slot; nothing for a CTS.
    slot: usize,
    offset: usize,
    length: usize,
}

struct Line {
    stream: TcpStream,
    peer: u32,
    end: End,
    qp: u32,
    out: VecDeque<Outgoing>,
    /// Bytes of the first message, head included, that are written.
    written: usize,
    head: [u8; HEAD],
    /// Bytes of the message at hand, head included, that have come.
    read: usize,
}

/// All connections of a rank.
pub(in crate::replay) struct Tcp {
    lines: Vec<Line>,
    /// By end: its first line; the others follow.
    sends: Vec<usize>,
    recvs: Vec<usize>,
    send_rooms: Vec<Room>,
    recv_rooms: Vec<Room>,
    /// What happened while writing.
    events: Vec<Event>,
}

impl Line {
    /// Bytes of data of the message at hand, once its head is there.
    fn length(&self) -> Option<usize> {
        let data = matches!(self.end, End::Recv(_));
        (self.read >= HEAD).then(|| if data { field(&self.head, 3) as usize } else { 0 })
    }
}

fn field(head: &[u8; HEAD], number: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&head[number * 4..][..4]);
    u32::from_le_bytes(bytes)
}

fn head(fields: [u32; 4]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (place, field) in head.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    head
}

/// What a rank tells of its listener.
#[derive(serde::Serialize, serde::Deserialize)]
struct Listening {
    address: SocketAddr,
    nonce: Nonce,
}

impl Tcp {
    /// Connects to all that this rank sends to, and accepts all that it receives from.
    pub(super) fn join(
        address: Option<IpAddr>,
        ends: &Ends,
        token: &Token,
        rendezvous: &mut Rendezvous,
    ) -> Result<Self, ReplayError> {
        let address = address.map_or_else(|| rendezvous.own_address(), Ok)?;
        let listener = TcpListener::bind((address, 0));
        let listener = listener.map_err(ReplayError::io(format!("listening at {address}")))?;
        let own = Listening {
            address: listener.local_addr().map_err(ReplayError::io("listening"))?,
            nonce: nonce()?,
        };
        let peers: Vec<Listening> = rendezvous.gather(&own)?;
        let until = Instant::now() + rendezvous.patience();
        let (send_lines, recv_lines) = thread::scope(|scope| {
            let accept = scope.spawn(|| accept_all(&listener, &own.nonce, token, ends, until));
            let connect = connect_all(&peers, token, ends, until);
            let accepted = accept.join().unwrap_or_else(|_| {
                Err(ReplayError::Protocol("accepting connections failed".into()))
            });
            Ok((connect?, accepted?))
        })
        .map_err(|error: ReplayError| rendezvous.explain(error))?;
        let mut lines: Vec<Line> = Vec::new();
        let mut firsts = |wirings: &[Wiring], streams: Vec<TcpStream>, end: fn(usize) -> End| {
            let mut streams = streams.into_iter();
            let mut firsts = Vec::new();
            for (number, wiring) in wirings.iter().enumerate() {
                firsts.push(lines.len());
                for (qp, stream) in (0..wiring.striping.qps).zip(streams.by_ref()) {
                    let (peer, end) = (wiring.peer, end(number));
                    let (out, head) = (VecDeque::new(), [0; HEAD]);
                    lines.push(Line { stream, peer, end, qp, out, written: 0, head, read: 0 });
                }
            }
            firsts
        };
        let sends = firsts(&ends.sends, send_lines, End::Send);
        let recvs = firsts(&ends.recvs, recv_lines, End::Recv);
        for line in &lines {
            line.stream.set_nodelay(true).map_err(ReplayError::io("TCP_NODELAY"))?;
            line.stream.set_nonblocking(true).map_err(ReplayError::io("O_NONBLOCK"))?;
        }
        let send_rooms = ends.sends.iter().map(Room::new).collect();
        let recv_rooms = ends.recvs.iter().map(Room::new).collect();
        rendezvous.barrier()?;
        Ok(Tcp { lines, sends, recvs, send_rooms, recv_rooms, events: Vec::new() })
    }

    /// Queues a message, and writes what can be written.
    pub(super) fn act(&mut self, action: Action) -> Result<(), ReplayError> {
        let (line, message) = match action {
            Action::Post { send, qp, slot, part } => {
                let (offset, length) = (part.offset as usize, part.bytes as usize);
                let head = head([DATA, slot as u32, offset as u32, length as u32]);
                (self.sends[send] + qp as usize, Outgoing { head, slot, offset, length })
            }
            Action::Grant { recv, qp } => {
                let head = head([CTS, 0, 0, 0]);
                (self.recvs[recv] + qp as usize, Outgoing { head, slot: 0, offset: 0, length: 0 })
            }
        };
        self.lines[line].out.push_back(message);
        self.write(line)
    }

    /// Everything has been written.
    pub(super) fn is_idle(&self) -> bool {
        self.lines.iter().all(|line| line.out.is_empty())
    }

    /// Waits for something to come, or for room to write, and does what can be done.
    pub(super) fn wait(
        &mut self,
        most: Duration,
        events: &mut Vec<Event>,
    ) -> Result<(), ReplayError> {
        if !self.events.is_empty() {
            events.append(&mut self.events);
            return Ok(());
        }
        let wants = |line: &Line| match line.out.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        let ready: Vec<PollFlags> = {
            let lines = self.lines.iter();
            let mut fds: Vec<PollFd<'_>> =
                lines.map(|line| PollFd::new(&line.stream, wants(line))).collect();
            let time =
                Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
            match poll(&mut fds, Some(&time)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(ReplayError::io("poll")(error.into())),
            }
            fds.iter().map(PollFd::revents).collect()
        };
        for (line, ready) in ready.into_iter().enumerate() {
            if ready.contains(PollFlags::OUT) {
                self.write(line)?;
            }
            if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.read(line)?;
            }
        }
        events.append(&mut self.events);
        Ok(())
    }

    fn write(&mut self, number: usize) -> Result<(), ReplayError> {
        let line = &mut self.lines[number];
        while let Some(message) = line.out.front() {
            let whole = HEAD + message.length;
            let data: &[u8] = match line.end {
                End::Send(send) => {
                    &self.send_rooms[send].slot(message.slot)[message.offset..][..message.length]
                }
                End::Recv(_) => &[],
            };
            let done = line.written;
            let parts = [&message.head[done.min(HEAD)..], &data[done.saturating_sub(HEAD)..]];
            match line.stream.write_vectored(&parts.map(IoSlice::new)) {
                Ok(count) => line.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(gone(line.peer, &error)),
            }
            if line.written == whole {
                line.written = 0;
                line.out.pop_front();
                if let End::Send(send) = line.end {
                    self.events.push(Event::Acknowledged { send, qp: line.qp });
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, number: usize) -> Result<(), ReplayError> {
        let line = &mut self.lines[number];
        loop {
            let length = line.length();
            if length.is_some_and(|length| line.read == HEAD + length) {
                line.read = 0;
                let qp = line.qp;
                self.events.push(match line.end {
                    End::Recv(recv) => Event::Arrived { recv, qp },
                    End::Send(send) => Event::Granted { send, qp },
                });
                continue;
            }
            let place: &mut [u8] = match (length, line.end) {
                (Some(length), End::Recv(recv)) => {
                    let [slot, offset] = [1, 2].map(|number| field(&line.head, number) as usize);
                    let slot = self.recv_rooms[recv].slot_mut(slot);
                    &mut slot[offset..][line.read - HEAD..length]
                }
                _ => &mut line.head[line.read..],
            };
            match line.stream.read(place) {
                Ok(0) => return Err(gone(line.peer, &ErrorKind::UnexpectedEof.into())),
                Ok(count) => line.read += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(gone(line.peer, &error)),
            }
            if line.read == HEAD {
                let room = match line.end {
                    End::Recv(recv) => Some(&self.recv_rooms[recv]),
                    End::Send(_) => None,
                };
                check_head(&line.head, room, line.peer)?;
            }
        }
    }
}

impl Slots for Tcp {
    fn received(&self, recv: usize, slot: usize) -> &[u8] {
        self.recv_rooms[recv].slot(slot)
    }

    fn to_send(&mut self, send: usize, slot: usize) -> &mut [u8] {
        self.send_rooms[send].slot_mut(slot)
    }
}

/// Whether a head is what can come here; its data fits into the slot.
fn check_head(head: &[u8; HEAD], room: Option<&Room>, peer: u32) -> Result<(), ReplayError> {
    let [kind, slot, offset, length] = [0, 1, 2, 3].map(|number| field(head, number) as usize);
    let right = match room {
        Some(room) => {
            let slots = room.memory.len() / room.slot.max(1);
            kind == DATA as usize && slot < slots && offset + length <= room.slot
        }
        None => kind == CTS as usize && length == 0,
    };
    match right {
        true => Ok(()),
        false => Err(ReplayError::Protocol(format!("rank {peer} sent what is no message"))),
    }
}

fn gone(rank: u32, error: &std::io::Error) -> ReplayError {
    let why = match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "it closed its TCP connection: it was killed, or crashed".to_owned()
        }
        _ => format!("its TCP connection broke: {error}"),
    };
    ReplayError::Gone { rank, why }
}

fn proof_of(token: &Token, nonce: &Nonce, connection: u32, qp: u32) -> [u8; PROOF] {
    token.prove(&[b"data", nonce, &connection.to_le_bytes(), &qp.to_le_bytes()])
}

/// By sending end and QP.
fn connect_all(
    peers: &[Listening],
    token: &Token,
    ends: &Ends,
    until: Instant,
) -> Result<Vec<TcpStream>, ReplayError> {
    let mut streams = Vec::new();
    for wiring in &ends.sends {
        let Listening { address, nonce } = &peers[wiring.peer as usize];
        for qp in 0..wiring.striping.qps {
            let left = until.saturating_duration_since(Instant::now());
            let stream = TcpStream::connect_timeout(address, left.max(Duration::from_secs(1)));
            let failed =
                ReplayError::io(format!("connecting to rank {} at {address}", wiring.peer));
            let mut stream = stream.map_err(failed)?;
            let mut hello = [0; HELLO];
            hello[..4].copy_from_slice(&wiring.connection.to_le_bytes());
            hello[4..8].copy_from_slice(&qp.to_le_bytes());
            hello[8..].copy_from_slice(&proof_of(token, nonce, wiring.connection, qp));
            stream.write_all(&hello).map_err(|error| gone(wiring.peer, &error))?;
            streams.push(stream);
        }
    }
    Ok(streams)
}

/// By receiving end and QP. Who cannot prove that he is a rank is left alone.
fn accept_all(
    listener: &TcpListener,
    nonce: &Nonce,
    token: &Token,
    ends: &Ends,
    until: Instant,
) -> Result<Vec<TcpStream>, ReplayError> {
    let places: Vec<(u32, u32, u32)> = ends
        .recvs
        .iter()
        .flat_map(|wiring| (0..wiring.striping.qps).map(|qp| (wiring.connection, qp, wiring.peer)))
        .collect();
    let mut streams: Vec<Option<TcpStream>> = places.iter().map(|_| None).collect();
    listener.set_nonblocking(true).map_err(ReplayError::io("O_NONBLOCK"))?;
    while let Some(missing) = streams.iter().position(Option::is_none) {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Some((place, stream)) = introduced(stream, nonce, token, &places) {
                    streams[place] = Some(stream);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if Instant::now() > until {
                    let (_, _, rank) = places[missing];
                    let why = "it has not connected".to_owned();
                    return Err(ReplayError::Gone { rank, why });
                }
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(ReplayError::io("accepting connections")(error)),
        }
    }
    Ok(streams.into_iter().flatten().collect())
}

fn introduced(
    mut stream: TcpStream,
    nonce: &Nonce,
    token: &Token,
    places: &[(u32, u32, u32)],
) -> Option<(usize, TcpStream)> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut hello = [0; HELLO];
    stream.read_exact(&mut hello).ok()?;
    let number =
        |at: usize| u32::from_le_bytes([hello[at], hello[at + 1], hello[at + 2], hello[at + 3]]);
    let (connection, qp) = (number(0), number(4));
    let words: [&[u8]; 4] = [b"data", nonce, &connection.to_le_bytes(), &qp.to_le_bytes()];
    if !token.accepts(&words, &hello[8..]) {
        return None;
    }
    let place = places.iter().position(|place| (place.0, place.1) == (connection, qp))?;
    Some((place, stream))
}
