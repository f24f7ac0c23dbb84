//! Pairs the sends and receives of a GOAL schedule, and finds an order in which all of it can be
//! done.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use models::program::{Line, Schedule, Task, Work};

use super::Fault;
use super::goal::{Kind, Rank};

/// A message: the task that sends it and the one that receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    /// Sending rank and task.
    from: (u32, u32),
    /// Receiving rank and task.
    to: (u32, u32),
    nic: u32,
    bytes: u64,
}

/// The schedule: tasks in an order in which they can begin, and messages of a line in an order in
/// which they can be sent. Of tasks that nothing orders, those come first that would begin first if
/// messages took no time.
pub(super) fn schedule(ranks: &[Rank]) -> Result<Schedule, Fault> {
    let mut messages = pairs(ranks)?;
    let place = Order::new(ranks, &messages).run()?;
    let place = |(rank, task): (u32, u32)| place[rank as usize][task as usize];
    messages.sort_by_key(|message| place(message.from));
    // by rank: tasks in their order, and by task its place in that
    let (mut order, mut number) = (Vec::new(), Vec::new());
    for (rank, tasks) in (0..).zip(ranks) {
        let mut own: Vec<u32> = (0..tasks.len() as u32).collect();
        own.sort_by_key(|task| place((rank, *task)));
        let mut back = vec![0; own.len()];
        for (place, task) in (0..).zip(&own) {
            back[*task as usize] = place;
        }
        order.push(own);
        number.push(back);
    }
    let tasks = |rank: usize| {
        let numbers = |list: &[u32]| list.iter().map(|task| number[rank][*task as usize]).collect();
        let one = |task: &u32| {
            let task = &ranks[rank][*task as usize];
            let units = if let Kind::Calc(units) = task.kind { units } else { 0 };
            let work = Work::Calc { cpu: task.cpu, units };
            Task { work, ended: numbers(&task.finished), begun: numbers(&task.begun) }
        };
        order[rank].iter().map(one).collect()
    };
    let mut schedule = Schedule { ranks: (0..ranks.len()).map(tasks).collect(), lines: Vec::new() };
    // by line: its number, its messages, and the task that sent the last one
    let mut lines: BTreeMap<Line, (u32, u32, Option<u32>)> = BTreeMap::new();
    for Message { from, to, nic, bytes } in messages {
        let line = Line { from: from.0, to: to.0, nic };
        let fresh = lines.len() as u32;
        let (line, count, last) = lines.entry(line).or_insert_with(|| {
            schedule.lines.push(line);
            (fresh, 0, None)
        });
        let [send, recv] = [from, to].map(|(rank, task)| number[rank as usize][task as usize]);
        let sender = &mut schedule.ranks[from.0 as usize][send as usize];
        sender.work = Work::Send { line: *line, bytes };
        sender.begun.extend(last.replace(send));
        schedule.ranks[to.0 as usize][recv as usize].work =
            Work::Recv { line: *line, number: *count, bytes };
        *count += 1;
    }
    Ok(schedule)
}

/// By sender, receiver and tag: the first send with the first receive, and so on.
fn pairs(ranks: &[Rank]) -> Result<Vec<Message>, Fault> {
    type Line = (u32, u32, u32);
    let mut found: BTreeMap<Line, [Vec<u32>; 2]> = BTreeMap::new();
    for (rank, tasks) in (0..).zip(ranks) {
        for (number, task) in (0..).zip(tasks) {
            match task.kind {
                Kind::Send(_, to, tag) => {
                    found.entry((rank, to, tag)).or_default()[0].push(number);
                }
                Kind::Recv(_, from, tag) => {
                    found.entry((from, rank, tag)).or_default()[1].push(number);
                }
                Kind::Calc(_) => {}
            }
        }
    }
    let mut messages = Vec::new();
    for ((from, to, tag), [sends, recvs]) in found {
        let task = |rank: u32, task: u32| &ranks[rank as usize][task as usize];
        for (number, (send, recv)) in (1..).zip(sends.iter().zip(&recvs)) {
            let (sent, taken) = (task(from, *send), task(to, *recv));
            let (Kind::Send(bytes, ..), Kind::Recv(room, ..)) = (sent.kind, taken.kind) else {
                continue;
            };
            if bytes != room {
                let message = format!(
                    "send {number} from rank {from} to rank {to} under tag {tag} has {bytes} B, and the \
                     receive of line {} that it meets {room} B; the same size is expected",
                    taken.line
                );
                return Err(Fault::at(sent.line as usize, message));
            }
            messages.push(Message { from: (from, *send), to: (to, *recv), nic: sent.nic, bytes });
        }
        let (a, b) = (sends.len(), recvs.len());
        let alone = match a.cmp(&b) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Greater => (task(from, sends[b]), "send meets no receive"),
            std::cmp::Ordering::Less => (task(to, recvs[a]), "receive meets no send"),
        };
        let message = format!(
            "this {}: rank {from} sends {a} times to rank {to} under tag {tag}, which receives {b} times",
            alone.1
        );
        return Err(Fault::at(alone.0.line as usize, message));
    }
    Ok(messages)
}

/// What can follow a task.
struct Order<'a> {
    ranks: &'a [Rank],
    /// By rank and task: those that wait for it, as (rank, task, its end counts).
    followers: Vec<Vec<Vec<(u32, u32, bool)>>>,
    /// By rank and task: what it waits for before it begins, and (a receive) before it ends.
    missing: Vec<Vec<[u32; 2]>>,
}

impl<'a> Order<'a> {
    fn new(ranks: &'a [Rank], messages: &[Message]) -> Self {
        let mut followers: Vec<Vec<Vec<_>>> =
            ranks.iter().map(|rank| vec![Vec::new(); rank.len()]).collect();
        let mut missing: Vec<Vec<[u32; 2]>> =
            ranks.iter().map(|rank| vec![[0; 2]; rank.len()]).collect();
        for (rank, tasks) in (0..).zip(ranks) {
            for (number, task) in (0..).zip(tasks) {
                missing[rank as usize][number as usize][0] =
                    (task.finished.len() + task.begun.len()) as u32;
                for other in &task.finished {
                    followers[rank as usize][*other as usize].push((rank, number, true));
                }
                for other in &task.begun {
                    followers[rank as usize][*other as usize].push((rank, number, false));
                }
            }
        }
        for message in messages {
            let (rank, task) = message.to;
            missing[rank as usize][task as usize][1] = 1;
            let (from, send) = message.from;
            followers[from as usize][send as usize].push((rank, task, false));
        }
        Order { ranks, followers, missing }
    }

    /// By rank and task: when it begins, as a place in an order of all.
    fn run(mut self) -> Result<Vec<Vec<u64>>, Fault> {
        let mut place: Vec<Vec<u64>> =
            self.ranks.iter().map(|rank| vec![u64::MAX; rank.len()]).collect();
        // (time, rank, task, whether it ends)
        let mut agenda: BinaryHeap<Reverse<(u64, u32, u32, bool)>> = BinaryHeap::new();
        for (rank, tasks) in (0..).zip(&self.missing) {
            for (task, [before, _]) in (0..).zip(tasks) {
                if *before == 0 {
                    agenda.push(Reverse((0, rank, task, false)));
                }
            }
        }
        let (mut next, mut ended) = (0, 0);
        while let Some(Reverse((now, rank, task, ends))) = agenda.pop() {
            let [r, t] = [rank as usize, task as usize];
            let kind = self.ranks[r][t].kind;
            if ends {
                ended += 1;
            } else {
                (place[r][t], next) = (next, next + 1);
                let duration = if let Kind::Calc(units) = kind { units } else { 0 };
                if self.missing[r][t][1] == 0 {
                    agenda.push(Reverse((now.saturating_add(duration), rank, task, true)));
                }
            }
            for (other, number, at_end) in std::mem::take(&mut self.followers[r][t]) {
                if at_end != ends {
                    self.followers[r][t].push((other, number, at_end));
                    continue;
                }
                let [o, n] = [other as usize, number as usize];
                // a message is for the end of its receive
                let within = other != rank;
                let missing = &mut self.missing[o][n];
                missing[usize::from(within)] -= 1;
                match (within, *missing) {
                    (false, [0, _]) => agenda.push(Reverse((now, other, number, false))),
                    (true, [_, 0]) if place[o][n] != u64::MAX => {
                        agenda.push(Reverse((now, other, number, true)));
                    }
                    _ => {}
                }
            }
        }
        match ended == self.ranks.iter().map(|rank| rank.len()).sum::<usize>() {
            true => Ok(place),
            false => Err(self.stuck()),
        }
    }

    /// Says who waits for whom, from a task that never begins or ends.
    fn stuck(&self) -> Fault {
        // what a task waits for: those that list it among their followers
        let mut awaits: BTreeMap<(u32, u32), (u32, u32, bool)> = BTreeMap::new();
        for (rank, tasks) in (0..).zip(&self.followers) {
            for (task, followers) in (0..).zip(tasks) {
                for (other, number, at_end) in followers {
                    awaits.entry((*other, *number)).or_insert((rank, task, *at_end));
                }
            }
        }
        let Some(first) = awaits.keys().next().copied() else {
            return Fault::at(1, "the schedule cannot be done");
        };
        let mut chain = vec![first];
        let circle = loop {
            let last = chain[chain.len() - 1];
            // a receive that has begun waits for its message, whose send has not
            let Some((rank, task, _)) = awaits.get(&last) else { break 0 };
            if let Some(place) = chain.iter().position(|one| *one == (*rank, *task)) {
                break place;
            }
            chain.push((*rank, *task));
        };
        let chain = &chain[circle..];
        let line = |(rank, task): (u32, u32)| self.ranks[rank as usize][task as usize].line;
        const SHOWN: usize = 4;
        let mut text: Vec<String> = chain
            .iter()
            .take(SHOWN)
            .filter_map(|one| {
                let (rank, task, at_end) = awaits.get(one)?;
                let what = match (rank == &one.0, at_end) {
                    (false, _) => "the send",
                    (true, true) => "the end",
                    (true, false) => "the begin",
                };
                let other = line((*rank, *task));
                Some(format!("rank {} line {} waits for {what} of line {other}", one.0, line(*one)))
            })
            .collect();
        if chain.len() > SHOWN {
            text.push(format!("and {} more", chain.len() - SHOWN));
        }
        let message = format!("the schedule would wait for ever: {}", text.join("; "));
        Fault::at(line(chain[0]) as usize, message)
    }
}
