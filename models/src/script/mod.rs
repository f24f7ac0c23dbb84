//! What ranks do beside lanes: scripts of computations and collectives, as a training step or a
//! trace has them.
//!
//! A *workload* is a set of ranks that follow scripts, and the communicators that these use. A
//! *script* is a graph of tasks. It knows neither events nor executors nor the fabric: see
//! [`Player`].

mod player;

use std::collections::BTreeMap;
use std::sync::Arc;

use sim_core::{Delta, Time};

use crate::collective::{CollectiveAlgorithm, DataType, Op, Rank};
use crate::program::Line;

pub use player::{Act, Player, Record};

/// Most classes of tasks that a workload may have.
pub const CLASSES: usize = 4;

/// Ranks that follow scripts.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its place among the traffic sections.
    pub section: u32,
    /// Where the ranks are; each GPU at most once.
    pub ranks: Vec<Rank>,
    /// What each does.
    pub scripts: Vec<Script>,
    /// What scripts call by index.
    pub comms: Vec<Comm>,
    /// Connections by which they send single messages, by index.
    pub lines: Vec<Line>,
    /// DSCP of these, instead of the NIC's.
    pub dscp: Option<u8>,
    /// Names of classes of tasks, for reports; the first is that of computations.
    pub classes: Vec<&'static str>,
}

/// A communicator: ranks that do operations of one kind together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    /// What they do.
    pub op: Op,
    /// How, where it is an AllReduce; NCCL's rings if absent.
    pub algorithm: Option<CollectiveAlgorithm>,
    /// Type of the elements.
    pub dtype: DataType,
    /// The ranks, as numbers within the workload, in the order of their numbers in it.
    pub ranks: Vec<u32>,
    /// Sizes of its operations, as nccl-tests counts them; each once.
    pub sizes: Vec<u64>,
    /// The class of its tasks.
    pub class: u8,
}

/// Number of a task.
pub type TaskId = u32;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The rank computes so long, times its pace.
    Compute(Delta),
    /// The rank takes part in an operation of a communicator. The task is done when this rank is:
    /// of a send, when the last slice has been handed to the NIC.
    Collective {
        /// Which.
        comm: u32,
        /// Its size, as index into [`Comm::sizes`].
        size: u32,
    },
    /// The rank sends the next message of a line. The task is done when it is acknowledged.
    Send {
        /// Which.
        line: u32,
        /// Payload.
        bytes: u64,
    },
    /// The rank receives a message of a line, which may have come before.
    Recv {
        /// Which.
        line: u32,
        /// The message, by its number on the line, from 0.
        number: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Task {
    work: Work,
    class: u8,
    /// Tasks whose end or begin it waits for.
    needs: u32,
    /// Its edges begin here; they end where those of the next task begin.
    edges: u32,
}

/// Another task that waits for this one.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: TaskId,
    to: TaskId,
    /// For its begin, not its end.
    begin: bool,
}

/// What one rank does.
#[derive(Clone, Debug)]
pub struct Script {
    tasks: Arc<[Task]>,
    edges: Arc<[Edge]>,
    /// When it begins.
    pub start: Time,
    /// How often all tasks are done, one repetition after the other.
    pub repeats: u32,
    /// By repetition: what times of computations are multiplied by; 1 beyond the end.
    pub pace: Vec<f64>,
}

impl Script {
    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// True if nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// What all tasks do, in their order.
    pub fn works(&self) -> impl Iterator<Item = Work> + '_ {
        self.tasks.iter().map(|task| task.work)
    }

    fn edges_of(&self, task: TaskId) -> std::ops::Range<usize> {
        let first =
            |task: usize| self.tasks.get(task).map_or(self.edges.len(), |t| t.edges as usize);
        first(task as usize)..first(task as usize + 1)
    }
}

/// Makes a script task by task. A task waits for tasks that were added before it only, so that
/// none can wait for itself.
#[derive(Clone, Debug, Default)]
pub struct ScriptBuilder {
    tasks: Vec<Task>,
    edges: Vec<Edge>,
    last_of_stream: BTreeMap<u32, TaskId>,
    last_of_comm: BTreeMap<u32, TaskId>,
}

impl ScriptBuilder {
    /// Adds a task to the end of a stream, whose tasks run in order; it also waits for the end of
    /// those of `after`. Tasks of a communicator run one after the other, whatever their streams:
    /// all its ranks must add them in the same order.
    pub fn add(&mut self, stream: u32, class: u8, work: Work, after: &[TaskId]) -> TaskId {
        self.add_started(stream, class, work, after, &[])
    }

    /// The same; it also waits for the begin of those of `started`.
    pub fn add_started(
        &mut self,
        stream: u32,
        class: u8,
        work: Work,
        after: &[TaskId],
        started: &[TaskId],
    ) -> TaskId {
        debug_assert!(usize::from(class) < CLASSES);
        let task = self.tasks.len() as TaskId;
        let mut waits: Vec<TaskId> = after.to_vec();
        waits.extend(self.last_of_stream.insert(stream, task));
        if let Work::Collective { comm, .. } = work {
            waits.extend(self.last_of_comm.insert(comm, task));
        }
        waits.sort_unstable();
        waits.dedup();
        let needs = (waits.len() + started.len()) as u32;
        let edge = |from: &TaskId, begin| Edge { from: *from, to: task, begin };
        self.edges.extend(waits.iter().map(|from| edge(from, false)));
        self.edges.extend(started.iter().map(|from| edge(from, true)));
        self.tasks.push(Task { work, class, needs, edges: 0 });
        task
    }

    /// The script.
    pub fn finish(mut self, start: Time, repeats: u32, pace: Vec<f64>) -> Script {
        self.edges.sort_by_key(|edge| edge.from);
        let mut edge = 0;
        for (number, task) in (0..).zip(&mut self.tasks) {
            while self.edges.get(edge).is_some_and(|edge| edge.from < number) {
                edge += 1;
            }
            task.edges = edge as u32;
        }
        Script { tasks: self.tasks.into(), edges: self.edges.into(), start, repeats, pace }
    }
}
