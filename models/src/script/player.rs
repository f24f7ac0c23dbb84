//! Runs the script of one rank. Inputs are what has ended, and when; outputs are what begins.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim_core::{Delta, Time};

use super::{CLASSES, Script, TaskId, Work};

/// What a rank begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A computation that ends then: [`Player::due`] is to be called.
    Compute(Time),
    /// An operation of a communicator: when this rank is done with it, [`Player::finished`] is to
    /// be called.
    Collective {
        /// The task.
        task: TaskId,
        /// The communicator.
        comm: u32,
        /// The index of its size.
        size: u32,
    },
    /// A message: when it is acknowledged, [`Player::finished`] is to be called.
    Send {
        /// The task.
        task: TaskId,
        /// The line.
        line: u32,
        /// Payload.
        bytes: u64,
    },
    /// A message that is waited for: when it is there, [`Player::finished`] is to be called.
    Recv {
        /// The task.
        task: TaskId,
        /// The line.
        line: u32,
        /// Which of its messages.
        number: u32,
    },
    /// Nothing: all repetitions are done.
    Done,
}

/// One repetition of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it began.
    pub begin: Time,
    /// When its last task ended.
    pub end: Time,
    /// Time in which a computation ran.
    pub compute: Delta,
    /// The rest, by the class of the task whose end let computing go on, or was the last.
    pub waits: [Delta; CLASSES],
    /// Time from begin to end of tasks, by class; that of tasks at the same time counts twice.
    pub busy: [Delta; CLASSES],
}

/// The state of a script.
#[derive(Clone, Debug)]
pub struct Player {
    script: Script,
    has_begun: bool,
    /// Repetitions that are done: all of them, once it has ended.
    records: Vec<Record>,
    record: Record,
    /// By task: what it still waits for, and when it began.
    needs: Vec<u32>,
    begun: Vec<Time>,
    /// Tasks of this repetition that are not done.
    left: u32,
    /// Computations that run, by their end.
    running: BinaryHeap<Reverse<(Time, TaskId)>>,
    /// Since when something computes, or nothing does.
    since: Time,
    /// Tasks that have all that they need.
    ready: Vec<TaskId>,
}

impl Player {
    /// A rank before its script begins.
    pub fn new(script: Script) -> Self {
        let tasks = script.tasks.len();
        Player {
            records: Vec::with_capacity(script.repeats as usize),
            record: Record::default(),
            needs: vec![0; tasks],
            begun: vec![Time::ZERO; tasks],
            left: 0,
            running: BinaryHeap::new(),
            since: Time::ZERO,
            ready: Vec::new(),
            has_begun: false,
            script,
        }
    }

    /// When it begins.
    pub fn start(&self) -> Time {
        self.script.start
    }

    /// Repetitions that are done, in their order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What is known of the repetition at hand, up to `now`; nothing if all are done.
    pub fn unfinished(&self, now: Time) -> Option<Record> {
        if self.is_done() || !self.has_begun {
            return None;
        }
        let mut record = self.record;
        record.end = now;
        if !self.running.is_empty() {
            record.compute += now.since(self.since);
        }
        Some(record)
    }

    /// True if all repetitions are done.
    pub fn is_done(&self) -> bool {
        self.records.len() as u32 == self.script.repeats
    }

    /// The script begins, or computations end: whatever is due at `now`.
    pub fn due(&mut self, now: Time, out: &mut Vec<Act>) {
        match std::mem::replace(&mut self.has_begun, true) {
            true => self.computed(now, out),
            false => self.repeat(now, out),
        }
    }

    /// Computations that end at `now` have ended.
    fn computed(&mut self, now: Time, out: &mut Vec<Act>) {
        while let Some(Reverse((end, task))) = self.running.peek().copied()
            && end <= now
        {
            self.running.pop();
            if self.running.is_empty() {
                self.record.compute += now.since(self.since);
                self.since = now;
            }
            self.finished(now, task, out);
        }
    }

    /// A task has ended.
    pub fn finished(&mut self, now: Time, task: TaskId, out: &mut Vec<Act>) {
        let class = self.script.tasks[task as usize].class;
        self.record.busy[usize::from(class)] += now.since(self.begun[task as usize]);
        self.left -= 1;
        self.release(task, false);
        self.start_ready(now, class, out);
        if self.left > 0 {
            return;
        }
        // nothing runs any more
        self.record.waits[usize::from(class)] += now.since(self.since);
        self.records.push(Record { end: now, ..self.record });
        self.repeat(now, out);
    }

    /// The next repetition.
    fn repeat(&mut self, now: Time, out: &mut Vec<Act>) {
        // one without tasks is done at once
        while self.script.tasks.is_empty() && !self.is_done() {
            self.records.push(Record { begin: now, end: now, ..Record::default() });
        }
        if self.is_done() {
            return out.push(Act::Done);
        }
        self.record = Record { begin: now, ..Record::default() };
        self.since = now;
        self.left = self.script.tasks.len() as u32;
        for (task, needs) in self.script.tasks.iter().zip(&mut self.needs) {
            *needs = task.needs;
        }
        let tasks = self.script.tasks.iter().enumerate();
        self.ready.extend(tasks.filter(|(_, task)| task.needs == 0).map(|(id, _)| id as TaskId));
        self.ready.reverse();
        self.start_ready(now, 0, out);
    }

    /// Those that wait for a task's end, or its begin, wait for one less.
    fn release(&mut self, task: TaskId, begin: bool) {
        for edge in self.script.edges_of(task).rev() {
            let edge = self.script.edges[edge];
            if edge.begin != begin {
                continue;
            }
            let needs = &mut self.needs[edge.to as usize];
            *needs -= 1;
            if *needs == 0 {
                self.ready.push(edge.to);
            }
        }
    }

    /// Begins all tasks that are ready; `class` is that of the task that has ended.
    fn start_ready(&mut self, now: Time, class: u8, out: &mut Vec<Act>) {
        while let Some(task) = self.ready.pop() {
            self.begun[task as usize] = now;
            match self.script.tasks[task as usize].work {
                Work::Compute(span) => {
                    if self.running.is_empty() {
                        self.record.waits[usize::from(class)] += now.since(self.since);
                        self.since = now;
                    }
                    let end = now + self.paced(span);
                    self.running.push(Reverse((end, task)));
                    out.push(Act::Compute(end));
                }
                Work::Collective { comm, size } => out.push(Act::Collective { task, comm, size }),
                Work::Send { line, bytes } => out.push(Act::Send { task, line, bytes }),
                Work::Recv { line, number } => out.push(Act::Recv { task, line, number }),
            }
            self.release(task, true);
        }
    }

    /// A time of this repetition, rounded to picoseconds.
    fn paced(&self, span: Delta) -> Delta {
        match self.script.pace.get(self.records.len()) {
            Some(pace) => Delta::from_ps((span.ps() as f64 * pace).round() as u64),
            None => span,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ScriptBuilder;
    use super::*;

    fn us(us: u64) -> Delta {
        Delta::from_us(us)
    }

    fn at(time: u64) -> Time {
        Time::ZERO + us(time)
    }

    /// Two computations with a blocking operation between them on stream 0, and another operation
    /// on stream 1 that the last task waits for.
    fn script(pace: Vec<f64>) -> Script {
        let mut builder = ScriptBuilder::default();
        let first = builder.add(0, 0, Work::Compute(us(10)), &[]);
        builder.add(0, 1, Work::Collective { comm: 0, size: 0 }, &[]);
        builder.add(0, 0, Work::Compute(us(20)), &[]);
        let aside = builder.add(1, 2, Work::Collective { comm: 1, size: 3 }, &[first]);
        builder.add(0, 0, Work::Compute(us(5)), &[aside]);
        builder.finish(at(1), 2, pace)
    }

    #[test]
    fn waits_are_due_to_what_ends_them() {
        let mut player = Player::new(script(vec![1.0, 2.0]));
        let mut out = Vec::new();
        player.due(at(1), &mut out);
        assert_eq!(out, [Act::Compute(at(11))]);
        out.clear();
        player.due(at(11), &mut out);
        // both operations begin when the first computation ends
        let begun = |task, comm, size| Act::Collective { task, comm, size };
        assert_eq!(out, [begun(1, 0, 0), begun(3, 1, 3)]);
        out.clear();
        // class 1 lets computing go on after 4 us
        player.finished(at(15), 1, &mut out);
        assert_eq!(out, [Act::Compute(at(35))]);
        out.clear();
        player.due(at(35), &mut out);
        assert_eq!(out, []);
        // class 2 is waited for from 35 to 42
        player.finished(at(42), 3, &mut out);
        assert_eq!(out, [Act::Compute(at(47))]);
        out.clear();
        player.due(at(47), &mut out);
        // the second repetition takes twice as long to compute
        assert_eq!(out, [Act::Compute(at(67))]);
        let record = Record {
            begin: at(1),
            end: at(47),
            compute: us(35),
            waits: [us(0), us(4), us(7), us(0)],
            busy: [us(35), us(4), us(31), us(0)],
        };
        assert_eq!(player.records(), [record]);
        assert!(!player.is_done());
        out.clear();
        player.due(at(67), &mut out);
        player.finished(at(68), 3, &mut out);
        player.finished(at(70), 1, &mut out);
        player.due(at(110), &mut out);
        // nothing was to be waited for but class 1, from 67 to 70
        out.clear();
        player.due(at(120), &mut out);
        assert_eq!(out, [Act::Done]);
        let last = player.records()[1];
        assert_eq!((last.end, last.compute), (at(120), us(70)));
        assert_eq!(last.waits, [us(0), us(3), us(0), us(0)]);
    }

    #[test]
    fn computations_at_the_same_time_count_once() {
        let mut builder = ScriptBuilder::default();
        let long = builder.add(0, 0, Work::Compute(us(10)), &[]);
        // begins with the first, not after it
        builder.add_started(1, 0, Work::Compute(us(4)), &[], &[long]);
        let mut player = Player::new(builder.finish(at(0), 1, vec![]));
        let mut out = Vec::new();
        player.due(at(0), &mut out);
        assert_eq!(out, [Act::Compute(at(10)), Act::Compute(at(4))]);
        player.due(at(4), &mut out);
        player.due(at(10), &mut out);
        assert_eq!(out.last(), Some(&Act::Done));
        let record = player.records()[0];
        assert_eq!((record.compute, record.busy[0]), (us(10), us(14)));
    }

    #[test]
    fn operations_of_a_communicator_keep_their_order() {
        let mut builder = ScriptBuilder::default();
        // on different streams, without a word about each other
        builder.add(0, 1, Work::Collective { comm: 7, size: 0 }, &[]);
        builder.add(1, 1, Work::Collective { comm: 7, size: 1 }, &[]);
        let mut player = Player::new(builder.finish(at(0), 1, vec![]));
        let mut out = Vec::new();
        player.due(at(0), &mut out);
        assert_eq!(out, [Act::Collective { task: 0, comm: 7, size: 0 }]);
        player.finished(at(3), 0, &mut out);
        assert_eq!(out[1], Act::Collective { task: 1, comm: 7, size: 1 });
    }
}
