//! Where ranks meet: each tells all others what they must know, waits for all, and learns if one
//! fails. A hub listens at one address, and each rank has a connection to it.
//!
//! On the wire: a length of 4 bytes (little endian), and so many bytes of JSON. Who does not prove
//! that he has the token may send one message of at most [`HELLO_MAX`] bytes, within
//! [`HANDSHAKE`].

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::ReplayError;
use super::secret::{Nonce, PROOF, Token, nonce};

/// Most bytes of a message before its sender has proved that he has the token,
const HELLO_MAX: usize = 4 << 10;
/// and after that.
const MESSAGE_MAX: usize = 64 << 20;
/// Time in which a newcomer must have introduced himself.
const HANDSHAKE: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// Hub: prove it.
    Challenge { nonce: Nonce },
    /// Rank: it is me.
    Hello { rank: u32, world: u32, digest: String, nonce: Nonce, proof: [u8; PROOF] },
    /// Hub: and so am I.
    Welcome { proof: [u8; PROOF] },
    /// Hub: you are not.
    Refused { why: String },
    /// Rank: what all are to know in this round.
    Share { round: u64, data: serde_json::Value },
    /// Hub: what all have said, by rank.
    All { round: u64, data: Vec<serde_json::Value> },
    /// A rank has failed, or is gone.
    Abort { rank: u32, gone: bool, why: String },
    /// Rank: I am done.
    Bye,
}

fn send(stream: &mut TcpStream, message: &Message) -> std::io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    stream.write_all(&frame)
}

fn receive(stream: &mut TcpStream, most: usize) -> std::io::Result<Message> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        let message = format!("a message of {length} bytes, where at most {most} are expected");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

fn words<'a>(role: &'a [u8], first: &'a Nonce, second: &'a Nonce, rank: &'a [u8]) -> [&'a [u8]; 4] {
    [role, first, second, rank]
}

/// The hub.
pub struct Hub {
    listener: TcpListener,
    token: Token,
    world: u32,
    digest: String,
}

/// A hub that serves.
pub struct Serving {
    shared: Arc<Shared>,
    world: u32,
}

impl Serving {
    /// Waits until all ranks have left, at most so long: the process of the hub must be the last one.
    pub fn finish(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while self.shared.left.load(Ordering::SeqCst) < self.world && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What the threads of a hub share.
struct Shared {
    /// By rank: where to write.
    ranks: Mutex<Vec<Option<TcpStream>>>,
    /// Ranks that have left, one way or another.
    left: AtomicU32,
    /// What has been said in the round at hand, and its number.
    round: Mutex<(u64, Vec<Option<serde_json::Value>>)>,
}

impl Hub {
    /// Listens at `address`, and nowhere else.
    pub fn bind(
        address: &str,
        token: &Token,
        world: u32,
        digest: &str,
    ) -> Result<Self, ReplayError> {
        let listener = TcpListener::bind(address);
        let listener = listener.map_err(ReplayError::io(format!("rendezvous at {address}")))?;
        Ok(Hub { listener, token: token.clone(), world, digest: digest.to_owned() })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, ReplayError> {
        self.listener.local_addr().map_err(ReplayError::io("rendezvous"))
    }

    /// Serves in threads of its own, until the process ends.
    pub fn serve(self) -> Serving {
        let world = self.world;
        let shared = Shared {
            left: AtomicU32::new(0),
            ranks: Mutex::new((0..self.world).map(|_| None).collect()),
            round: Mutex::new((0, vec![None; self.world as usize])),
        };
        let shared = Arc::new(shared);
        let hub = Arc::new(self);
        let serving = Serving { shared: shared.clone(), world };
        thread::spawn(move || {
            while let Ok((stream, _)) = hub.listener.accept() {
                let (hub, shared) = (hub.clone(), shared.clone());
                thread::spawn(move || hub.attend(stream, &shared));
            }
        });
        serving
    }

    fn attend(&self, mut stream: TcpStream, shared: &Shared) {
        let rank = match self.welcome(&mut stream, shared) {
            Ok(rank) => rank,
            Err(why) => {
                let _ = send(&mut stream, &Message::Refused { why });
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        };
        self.hear(rank, &mut stream, shared);
        shared.left.fetch_add(1, Ordering::SeqCst);
    }

    /// Hears a rank until it leaves.
    fn hear(&self, rank: u32, stream: &mut TcpStream, shared: &Shared) {
        loop {
            match receive(stream, MESSAGE_MAX) {
                Ok(Message::Share { round, data }) => shared.share(rank, round, data),
                Ok(Message::Abort { why, .. }) => {
                    return shared.tell(&Message::Abort { rank, gone: false, why });
                }
                Ok(Message::Bye) => {
                    // another rank that ends later is no loss to this one
                    lock(&shared.ranks)[rank as usize] = None;
                    return;
                }
                Ok(_) => {
                    let why = "it does not keep to the protocol of the rendezvous".to_owned();
                    return shared.tell(&Message::Abort { rank, gone: false, why });
                }
                Err(error) => {
                    let why = match error.kind() {
                        std::io::ErrorKind::UnexpectedEof => {
                            "its connection to the rendezvous closed: it was killed, or crashed"
                                .to_owned()
                        }
                        _ => format!("its connection to the rendezvous broke: {error}"),
                    };
                    return shared.tell(&Message::Abort { rank, gone: true, why });
                }
            }
        }
    }

    /// Lets a newcomer prove who he is; the answer to one who cannot.
    fn welcome(&self, stream: &mut TcpStream, shared: &Shared) -> Result<u32, String> {
        let io = |error: std::io::Error| error.to_string();
        stream.set_read_timeout(Some(HANDSHAKE)).map_err(io)?;
        stream.set_nodelay(true).map_err(io)?;
        let own = nonce().map_err(|error| error.to_string())?;
        send(stream, &Message::Challenge { nonce: own }).map_err(io)?;
        let hello = receive(stream, HELLO_MAX).map_err(io)?;
        let Message::Hello { rank, world, digest, nonce, proof } = hello else {
            return Err("a rank was expected to introduce itself".to_owned());
        };
        let number = rank.to_le_bytes();
        if !self.token.accepts(&words(b"rank", &own, &nonce, &number), &proof) {
            return Err("the token is not that of the rendezvous".to_owned());
        }
        if world != self.world || rank >= world {
            let own = self.world;
            return Err(format!("rank {rank} of {world} is none of the {own} ranks here"));
        }
        if digest != self.digest {
            let what = "another scenario, other settings or another version of rocesim";
            return Err(format!("rank {rank} has {what} than the rendezvous"));
        }
        let proof = self.token.prove(&words(b"hub", &nonce, &own, &number));
        let copy = stream.try_clone().map_err(io)?;
        {
            let mut ranks = lock(&shared.ranks);
            if ranks[rank as usize].is_some() {
                return Err(format!("there is a rank {rank} already"));
            }
            ranks[rank as usize] = Some(copy);
        }
        stream.set_read_timeout(None).map_err(io)?;
        send(stream, &Message::Welcome { proof }).map_err(io)?;
        Ok(rank)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    fn share(&self, rank: u32, round: u64, data: serde_json::Value) {
        let mut now = lock(&self.round);
        if round != now.0 {
            let why = format!("it is at round {round} of the rendezvous, the others at {}", now.0);
            drop(now);
            return self.tell(&Message::Abort { rank, gone: false, why });
        }
        now.1[rank as usize] = Some(data);
        if now.1.iter().all(Option::is_some) {
            let data = now.1.iter_mut().filter_map(Option::take).collect();
            now.0 += 1;
            drop(now);
            self.tell(&Message::All { round, data });
        }
    }

    fn tell(&self, message: &Message) {
        for stream in lock(&self.ranks).iter_mut().flatten() {
            let _ = send(stream, message);
        }
    }
}

/// A rank's connection to the hub.
pub struct Rendezvous {
    /// The rank,
    pub rank: u32,
    /// of so many.
    pub world: u32,
    stream: TcpStream,
    inbox: Receiver<Result<Message, String>>,
    round: u64,
    /// How long the others may take.
    patience: Duration,
    ended: bool,
}

/// How a rank joins.
#[derive(Clone)]
pub struct Joining {
    /// The rank,
    pub rank: u32,
    /// of so many.
    pub world: u32,
    /// Where the hub listens.
    pub address: String,
    /// What proves it.
    pub token: Token,
    /// What all ranks must have in common, as a digest.
    pub digest: String,
    /// How long others may take, and how long nothing may move.
    pub patience: Duration,
}

impl Rendezvous {
    /// Connects to the hub, which may come later, and waits until it has been recognised.
    pub fn join(joining: &Joining) -> Result<Self, ReplayError> {
        let mut stream = connect(&joining.address, joining.patience)?;
        let broken = |error: std::io::Error| ReplayError::Io {
            what: format!("rendezvous at {}", joining.address),
            source: error,
        };
        stream.set_nodelay(true).map_err(broken)?;
        stream.set_read_timeout(Some(HANDSHAKE)).map_err(broken)?;
        let Joining { rank, world, token, digest, patience, .. } = joining;
        let Message::Challenge { nonce: theirs } =
            receive(&mut stream, HELLO_MAX).map_err(broken)?
        else {
            return Err(no_hub(&joining.address));
        };
        let own = nonce()?;
        let number = rank.to_le_bytes();
        let proof = token.prove(&words(b"rank", &theirs, &own, &number));
        let digest = digest.clone();
        let hello = Message::Hello { rank: *rank, world: *world, digest, nonce: own, proof };
        send(&mut stream, &hello).map_err(broken)?;
        match receive(&mut stream, HELLO_MAX).map_err(broken)? {
            Message::Welcome { proof }
                if token.accepts(&words(b"hub", &own, &theirs, &number), &proof) => {}
            Message::Refused { why } => {
                let at = &joining.address;
                return Err(ReplayError::Setting(format!("the rendezvous at {at} refuses: {why}")));
            }
            _ => return Err(no_hub(&joining.address)),
        }
        stream.set_read_timeout(None).map_err(broken)?;
        let (outbox, inbox) = channel();
        let reader = stream.try_clone().map_err(broken)?;
        thread::spawn(move || listen(reader, &outbox));
        let (rank, world, patience) = (*rank, *world, *patience);
        Ok(Rendezvous { rank, world, stream, inbox, round: 0, patience, ended: false })
    }

    /// The address of this machine that the hub was reached by.
    pub fn own_address(&self) -> Result<IpAddr, ReplayError> {
        self.stream.local_addr().map(|at| at.ip()).map_err(ReplayError::io("rendezvous"))
    }

    /// How long others may take.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Tells all ranks something, and returns what they tell, by rank.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &mut self,
        data: &T,
    ) -> Result<Vec<T>, ReplayError> {
        let odd = |error: serde_json::Error| ReplayError::Protocol(format!("rendezvous: {error}"));
        let data = serde_json::to_value(data).map_err(odd)?;
        let round = self.round;
        self.round += 1;
        send(&mut self.stream, &Message::Share { round, data })
            .map_err(ReplayError::io("rendezvous"))?;
        match self.inbox.recv_timeout(self.patience) {
            Ok(Ok(Message::All { round: of, data })) if of == round => {
                let all = data.into_iter().map(serde_json::from_value);
                all.collect::<Result<_, _>>().map_err(odd)
            }
            Ok(other) => Err(self.end(other)),
            Err(RecvTimeoutError::Timeout) => {
                let what = "the other ranks at the rendezvous".to_owned();
                Err(ReplayError::TimeOut { rank: self.rank, waited: self.patience, what })
            }
            Err(RecvTimeoutError::Disconnected) => Err(lost("its reader has ended")),
        }
    }

    /// Waits for all ranks.
    pub fn barrier(&mut self) -> Result<(), ReplayError> {
        self.gather(&()).map(|_| ())
    }

    /// Fails if another rank has.
    pub fn check(&mut self) -> Result<(), ReplayError> {
        match self.inbox.try_recv() {
            Ok(message) => Err(self.end(message)),
            Err(_) => Ok(()),
        }
    }

    /// What the others say of a failure that has just shown here, if they do within half a second:
    /// they may know better.
    pub fn explain(&mut self, error: ReplayError) -> ReplayError {
        if self.ended {
            return error;
        }
        match self.inbox.recv_timeout(Duration::from_millis(500)) {
            Ok(message) => self.end(message),
            Err(_) => error,
        }
    }

    /// Tells the others why this rank ends, and waits until the hub has heard it.
    pub fn abort(&mut self, error: &ReplayError) {
        let (rank, gone, why) = (self.rank, false, error.to_string());
        if send(&mut self.stream, &Message::Abort { rank, gone, why }).is_ok() {
            let until = Instant::now() + Duration::from_secs(1);
            let left = || until.saturating_duration_since(Instant::now());
            while let Ok(Ok(message)) = self.inbox.recv_timeout(left()) {
                if matches!(message, Message::Abort { rank, .. } if rank == self.rank) {
                    break;
                }
            }
        }
    }

    /// Leaves in peace.
    pub fn leave(mut self) {
        let _ = send(&mut self.stream, &Message::Bye);
    }

    fn end(&mut self, message: Result<Message, String>) -> ReplayError {
        self.ended = true;
        match message {
            Ok(Message::Abort { rank, gone: true, why }) => ReplayError::Gone { rank, why },
            Ok(Message::Abort { rank, gone: false, why }) => ReplayError::Other { rank, why },
            Ok(_) => ReplayError::Protocol("the rendezvous does not keep to its protocol".into()),
            Err(why) => lost(&why),
        }
    }
}

fn lost(why: &str) -> ReplayError {
    ReplayError::Gone { rank: 0, why: format!("the rendezvous closed: {why}") }
}

fn no_hub(address: &str) -> ReplayError {
    ReplayError::Setting(format!("what listens at {address} is no rendezvous with this token"))
}

fn listen(mut stream: TcpStream, outbox: &Sender<Result<Message, String>>) {
    loop {
        let message = receive(&mut stream, MESSAGE_MAX).map_err(|error| error.to_string());
        let end = message.is_err();
        if outbox.send(message).is_err() || end {
            return;
        }
    }
}

/// Connects, again and again until that works or the time is over.
fn connect(address: &str, patience: Duration) -> Result<TcpStream, ReplayError> {
    let addresses = address.to_socket_addrs();
    let addresses: Vec<SocketAddr> = addresses
        .map_err(|error| {
            let expected = "HOST:PORT is expected, such as node1:4791";
            ReplayError::Setting(format!("--rendezvous {address}: {error}; {expected}"))
        })?
        .collect();
    let until = Instant::now() + patience;
    loop {
        let mut last = None;
        for address in &addresses {
            match TcpStream::connect_timeout(address, Duration::from_secs(5)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        if Instant::now() >= until {
            let source = last.unwrap_or_else(|| std::io::ErrorKind::AddrNotAvailable.into());
            let what = format!(
                "no rendezvous at {address} within {} s (rank 0 listens there)",
                patience.as_secs()
            );
            return Err(ReplayError::Io { what, source });
        }
        thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joining(rank: u32, address: &str, token: &str) -> Joining {
        Joining {
            rank,
            world: 2,
            address: address.to_owned(),
            token: Token::new(token).unwrap(),
            digest: "same".to_owned(),
            patience: Duration::from_secs(5),
        }
    }

    const TOKEN: &str = "0123456789abcdef";

    fn hub() -> String {
        let token = Token::new(TOKEN).unwrap();
        let hub = Hub::bind("127.0.0.1:0", &token, 2, "same").unwrap();
        let address = hub.address().unwrap().to_string();
        let _serving = hub.serve();
        address
    }

    #[test]
    fn ranks_meet_and_learn_of_each_others_end() {
        let address = hub();
        let at = address.clone();
        let other = thread::spawn(move || {
            let mut other = Rendezvous::join(&joining(1, &at, TOKEN)).unwrap();
            let all = other.gather(&"b".to_owned()).unwrap();
            // it drops dead: its connection closes without a word
            other.stream.shutdown(Shutdown::Both).unwrap();
            all
        });
        let mut own = Rendezvous::join(&joining(0, &address, TOKEN)).unwrap();
        assert_eq!(own.gather(&"a".to_owned()).unwrap(), ["a", "b"]);
        assert_eq!(other.join().unwrap(), ["a", "b"]);
        let error = own.barrier().unwrap_err();
        assert!(matches!(error, ReplayError::Gone { rank: 1, .. }), "{error}");
    }

    #[test]
    fn strangers_are_refused() {
        let address = hub();
        let refusal = |joining: Joining| Rendezvous::join(&joining).err().unwrap().to_string();
        let wrong = refusal(joining(1, &address, "0123456789abcdeX"));
        assert!(wrong.contains("the token is not"), "{wrong}");
        let digest = "other".to_owned();
        let other = refusal(Joining { digest, ..joining(1, &address, TOKEN) });
        assert!(other.contains("another scenario"), "{other}");
        let beyond = refusal(Joining { rank: 2, ..joining(1, &address, TOKEN) });
        assert!(beyond.contains("none of the 2 ranks"), "{beyond}");
        // a message that claims to be huge is not waited for
        let mut stream = TcpStream::connect(&address).unwrap();
        receive(&mut stream, HELLO_MAX).unwrap();
        stream.write_all(&u32::MAX.to_le_bytes()).unwrap();
        let Message::Refused { why } = receive(&mut stream, HELLO_MAX).unwrap() else { panic!() };
        assert!(why.contains("at most 4096"), "{why}");
    }
}
