//! What scripts do at a host: they begin collectives, and send and receive messages by lines.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use sim_core::{Bytes, Time};

use super::{Action, Executor, LineIn, LineOut, Output, Scripted, Way};
use crate::collective::comms::Calls;
use crate::script::{Act, Player, Script};

impl Executor {
    /// Adds the script of a workload's rank, which has the GPU `gpu` and finds its communicators
    /// by `calls`.
    pub fn add_script(&mut self, script: Script, of: [u32; 2], gpu: u32, calls: Arc<Calls>) {
        let [workload, rank] = of;
        let number = self.scripts.len() as u32;
        let player = Player::new(script);
        self.agenda.push(Reverse((player.start(), Action::Script(number))));
        let lines = [Vec::new(), Vec::new()];
        self.scripts.push(Scripted { workload, rank, gpu, player, calls, lines });
    }

    /// The script of a workload's rank.
    fn script_of(&self, [workload, rank]: [u32; 2]) -> u32 {
        let is = |script: &Scripted| [script.workload, script.rank] == [workload, rank];
        self.scripts.iter().position(is).unwrap_or(0) as u32
    }

    /// Gives a workload's rank, whose script is here, the receiving end of one of its lines; returns
    /// the end's number.
    pub fn add_line_in(&mut self, of: [u32; 2], line: u32) -> u32 {
        let (number, script) = (self.ins.len() as u32, self.script_of(of));
        self.scripts[script as usize].lines[1].push((line, number));
        self.ins.push(LineIn { script, arrived: 0, waiting: Vec::new() });
        number
    }

    /// The same of the sending end.
    pub fn add_line_out(&mut self, of: [u32; 2], line: u32, way: Way) -> u32 {
        let (number, script) = (self.outs.len() as u32, self.script_of(of));
        self.scripts[script as usize].lines[0].push((line, number));
        self.outs.push(LineOut { script, way, pending: VecDeque::new() });
        number
    }

    /// A message of a line has come.
    pub fn line_delivered(&mut self, now: Time, end: u32) {
        self.agenda.push(Reverse((now, Action::Came(end))));
    }

    /// A message of a line is acknowledged.
    pub fn line_acknowledged(&mut self, now: Time, end: u32) {
        self.agenda.push(Reverse((now, Action::Sent(end))));
    }

    /// The ranks of a workload on this host, with what they have done.
    pub fn players(&self, workload: u32) -> impl Iterator<Item = (u32, &Player)> {
        let own = self.scripts.iter().filter(move |script| script.workload == workload);
        own.map(|script| (script.rank, &script.player))
    }

    /// Begins what a script wants to begin.
    pub(super) fn act(&mut self, now: Time, script: u32, out: &mut Vec<Output>) {
        let acts = std::mem::take(&mut self.acts);
        for act in &acts {
            match *act {
                Act::Compute(end) => self.agenda.push(Reverse((end, Action::Script(script)))),
                Act::Collective { task, comm, size } => {
                    let Scripted { gpu, calls, .. } = &self.scripts[script as usize];
                    let (job, size) = calls.job(comm, size);
                    let state = &mut self.jobs[job as usize];
                    let Some(seat) = state.seats.iter().position(|seat| seat.gpu == *gpu) else {
                        unreachable!("a rank has lanes in its communicators")
                    };
                    state.seats[seat].caller = Some((script, task));
                    for lane in &state.seats[seat].lanes {
                        self.lanes[*lane as usize].size = size;
                    }
                    self.begin_rank(now, job, seat);
                }
                Act::Send { task, line, bytes } => {
                    let end = self.scripts[script as usize].end(0, line);
                    self.outs[end as usize].pending.push_back(task);
                    self.send(now, end, bytes, out);
                }
                Act::Recv { task, line, number } => {
                    let end = self.scripts[script as usize].end(1, line);
                    self.ins[end as usize].waiting.push((number, task));
                    self.agenda.push(Reverse((now, Action::There(end))));
                }
                Act::Done => out.push(Output::RankDone),
            }
        }
        // keeps its memory
        self.acts = acts;
        self.acts.clear();
    }

    /// Sends a message of a line: by its QP at once, over NVLink when the GPU's is free.
    fn send(&mut self, now: Time, end: u32, bytes: u64, out: &mut Vec<Output>) {
        let LineOut { script, way, .. } = &self.outs[end as usize];
        match *way {
            Way::Qp(qp) => out.push(Output::Post { qp, bytes }),
            Way::Local(to) => {
                let gpu = self.scripts[*script as usize].gpu;
                let nvlink = &self.config.nvlink;
                let free = &mut self.nvlink[gpu as usize];
                *free = now.max(*free) + nvlink.rate.time_for(Bytes::new(bytes));
                let at = *free + nvlink.latency;
                self.agenda.push(Reverse((at, Action::Came(to))));
                self.agenda.push(Reverse((at, Action::Sent(end))));
            }
        }
    }

    /// Ends the tasks that wait for messages that have come.
    pub(super) fn receive(&mut self, now: Time, end: u32, out: &mut Vec<Output>) {
        let LineIn { script, arrived, waiting } = &mut self.ins[end as usize];
        let script = *script;
        let Some(place) = waiting.iter().position(|(number, _)| number < arrived) else { return };
        let (_, task) = waiting.remove(place);
        self.scripts[script as usize].player.finished(now, task, &mut self.acts);
        self.act(now, script, out);
        self.receive(now, end, out);
    }

    /// The lanes of a rank begin their next repetition.
    pub(super) fn begin_rank(&mut self, now: Time, job: u32, seat: usize) {
        let lanes = &self.jobs[job as usize].seats[seat].lanes;
        let channels = lanes.first().map_or(0, |lane| self.lanes[*lane as usize].info.channels);
        let at = now + self.launch(channels);
        let job = &mut self.jobs[job as usize];
        let lanes = &job.seats[seat].lanes;
        job.running[seat].1 = lanes.len() as u32;
        for lane in lanes {
            // lanes that wait for others must not see the repetition before
            self.lanes[*lane as usize].step = 0;
            self.agenda.push(Reverse((at, Action::Begin(*lane))));
        }
    }
}
