//! A GOAL schedule, ready to be run: every task waits for earlier ones only, and every message has
//! its place among those of its line.

/// What all ranks do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// By rank: its tasks.
    pub ranks: Vec<Vec<Task>>,
    /// Who sends to whom: each is a connection, which delivers in order.
    pub lines: Vec<Line>,
}

/// A sending and a receiving rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The rank that sends,
    pub from: u32,
    /// and the one that receives.
    pub to: u32,
    /// The NIC that the sends name.
    pub nic: u32,
}

/// One operation of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it does.
    pub work: Work,
    /// Earlier tasks of the rank that must have ended before it begins (`requires`),
    pub ended: Vec<u32>,
    /// and earlier ones that must have begun (`irequires`).
    pub begun: Vec<u32>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Computes on a processor, for so many units of time.
    Calc {
        /// The processor, which does one thing at a time.
        cpu: u32,
        /// How long.
        units: u64,
    },
    /// Sends the next message of a line.
    Send {
        /// Which.
        line: u32,
        /// Payload.
        bytes: u64,
    },
    /// Receives a message of a line.
    Recv {
        /// Which.
        line: u32,
        /// The message, by its number on the line, from 0.
        number: u32,
        /// Payload.
        bytes: u64,
    },
}

impl Schedule {
    /// Number of messages, and their bytes together.
    pub fn messages(&self) -> (u64, u64) {
        let sizes = self.ranks.iter().flatten().filter_map(|task| match task.work {
            Work::Send { bytes, .. } => Some(bytes),
            _ => None,
        });
        sizes.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    }
}
