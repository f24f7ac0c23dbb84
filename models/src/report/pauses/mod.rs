//! Who paused whom, and where that began.
//!
//! An *episode* is the time in which a queue may not send. It has a cause at the other end of its
//! cable: a receiver, or the queue of a switch in which the frames wait that made it pause others.
//! While that queue is paused itself, or sends what has waited for the end of its pause, the episode
//! is due to that pause; else it is due to the queue: there it *began*. So each instant of each
//! episode has one *root*, and the episodes between the two are its way.

mod held;
mod log;
mod trace;
mod tree;

use serde::{Deserialize, Serialize};
use sim_core::{Delta, Time};

use super::Name;
use crate::fabric::{Outcome, Plan};
use crate::ids::{PRIORITIES, PortId};
use crate::probe::Probe;

pub use held::Held;
pub use tree::{PauseEdge, PauseRoot, PauseTree};

/// What is at the root of pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootKind {
    /// A NIC that takes in less than its link brings.
    SlowReceiver,
    /// A NIC that pauses others whatever it holds.
    PauseStorm,
    /// The port of a switch to a host: more comes for it than its link carries.
    ReceiverLinkFull,
    /// A port between switches, likewise.
    CongestedPort,
    /// Pauses that wait for each other.
    Circular,
    /// It was not seen.
    Unknown,
}

impl RootKind {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            RootKind::SlowReceiver => "slow receiver",
            RootKind::PauseStorm => "pause storm",
            RootKind::ReceiverLinkFull => "receiver's link full",
            RootKind::CongestedPort => "congested port",
            RootKind::Circular => "pauses wait for each other in a circle",
            RootKind::Unknown => "not known",
        }
    }
}

/// A queue, or a NIC that pauses its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    /// Its port.
    pub port: PortId,
    /// The queue, or the priority of the pauses.
    pub priority: u8,
    /// What is wrong with it.
    pub kind: RootKind,
}

/// A queue that may not send for a while.
#[derive(Clone, Debug)]
struct Episode {
    /// Port x 8 + queue.
    slot: u32,
    from: Time,
    to: Time,
    /// Until then it sends what had to wait.
    sent: Time,
    /// It had ended.
    ended: bool,
    /// Its causes in `causes`.
    causes: [u32; 2],
    /// Where most of it began, in `roots`.
    root: u32,
}

/// Why an episode went on, from a time on.
#[derive(Clone, Copy, Debug)]
struct Since {
    from: Time,
    cause: Due,
}

/// What an episode is due to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The queue of a slot.
    Queue(u32),
    Root(Root),
}

/// All pauses of a run.
#[derive(Debug, Default)]
pub struct Pauses {
    /// By port; none if there were no pauses.
    names: Vec<Name>,
    /// By port: the one at the other end, and whether that is a host's.
    peers: Vec<(u32, bool)>,
    /// By slot, then by time.
    episodes: Vec<Episode>,
    /// By slot, and one more: its first episode.
    firsts: Vec<u32>,
    causes: Vec<Since>,
    roots: Vec<Root>,
    whole: PauseTree,
    /// By QP that is reported; none if there were no pauses.
    held: Vec<Held>,
    truncated_at: Option<Time>,
}

/// A row of `pauses.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct PauseRow {
    /// The port that may not send.
    pub port: Name,
    /// Its queue.
    pub priority: u8,
    /// From when,
    pub from_s: f64,
    /// to when; absent if the pause had not ended.
    pub to_s: Option<f64>,
    /// The port that sent XOFF.
    pub by: Name,
    /// At a switch: the queue there that the frames were for.
    pub cause: Option<(Name, u8)>,
    /// Where most of it began,
    pub root: Name,
    /// and what is wrong there.
    pub kind: RootKind,
}

impl Pauses {
    /// The pauses of a run that has ended.
    pub fn new<P: Probe>(outcome: &Outcome<P>, plan: &Plan) -> Self {
        if outcome.fabric.pauses.marks.is_empty() {
            return Pauses::default();
        }
        let mut pauses = log::read(outcome);
        pauses.find_roots();
        pauses.held = held::held(&pauses, outcome, plan);
        pauses
    }

    /// True if there were none.
    pub fn is_empty(&self) -> bool {
        self.episodes.is_empty()
    }

    /// Who paused whom in the whole run.
    pub fn whole(&self) -> &PauseTree {
        &self.whole
    }

    /// From when on pauses were too many to be noted.
    pub fn truncated_at(&self) -> Option<Time> {
        self.truncated_at
    }

    /// What pauses did to a QP; nothing if it was not held.
    pub fn held(&self, qp: usize) -> Option<&Held> {
        self.held.get(qp).filter(|held| !held.time.is_zero())
    }

    /// From the start of a QP to its last byte, or the end of the run; nothing where there were no
    /// pauses.
    pub fn active(&self, qp: usize) -> Delta {
        self.held.get(qp).map_or(Delta::ZERO, |held| held.active)
    }

    /// Where pauses began, by the number that [`Held`] has.
    pub fn root(&self, number: u32) -> Root {
        self.roots[number as usize]
    }

    /// Name of a port; of any that had to do with pauses.
    pub fn name(&self, port: PortId) -> &Name {
        &self.names[port.index()]
    }

    /// All pauses, by port and time.
    pub fn rows(&self) -> impl Iterator<Item = PauseRow> {
        self.episodes.iter().map(|episode| {
            let port = slot_port(episode.slot);
            let root = self.roots[episode.root as usize];
            let cause = match self.causes_of(episode).first().map(|since| since.cause) {
                Some(Due::Queue(slot)) => Some((self.names[slot_port(slot)].clone(), queue(slot))),
                _ => None,
            };
            PauseRow {
                port: self.names[port].clone(),
                priority: queue(episode.slot),
                from_s: episode.from.as_secs(),
                to_s: episode.ended.then(|| episode.to.as_secs()),
                by: self.names[self.peers[port].0 as usize].clone(),
                cause,
                root: self.names[root.port.index()].clone(),
                kind: root.kind,
            }
        })
    }

    /// Time that a queue was paused.
    pub fn paused(&self, port: PortId, priority: u8) -> Delta {
        let slot = port.0 * PRIORITIES as u32 + u32::from(priority);
        let all = self.of_slot(slot).iter().map(|index| index.to.since(index.from));
        all.fold(Delta::ZERO, std::ops::Add::add)
    }

    fn causes_of(&self, episode: &Episode) -> &[Since] {
        &self.causes[episode.causes[0] as usize..episode.causes[1] as usize]
    }

    /// The episodes of a slot.
    fn of_slot(&self, slot: u32) -> &[Episode] {
        let firsts = self.firsts.get(slot as usize..).unwrap_or_default();
        firsts.first_chunk().map_or(&[], |[from, to]| &self.episodes[*from as usize..*to as usize])
    }
}

fn slot_port(slot: u32) -> usize {
    slot as usize / PRIORITIES
}

fn queue(slot: u32) -> u8 {
    (slot as usize % PRIORITIES) as u8
}
