//! How an executor gets its lanes, and the ends that join them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use sim_core::{Delta, Time};

use super::{Action, Attached, Executor, JobState, Lane, LaneInfo, Peer, Remote, Seat};
use crate::collective::connection::{RecvEnd, SendEnd, Striping};
use crate::host::HostConfig;

impl Executor {
    /// A host without lanes.
    pub fn new(config: Arc<HostConfig>) -> Self {
        let gpus = config.gpus as usize;
        Executor {
            config,
            lanes: Vec::new(),
            sends: Vec::new(),
            recvs: Vec::new(),
            blocks: Vec::new(),
            nvlink: vec![Time::ZERO; gpus],
            nvls: vec![Time::ZERO; gpus],
            to_host: vec![Time::ZERO; gpus],
            from_host: vec![Time::ZERO; gpus],
            sockets: vec![Time::ZERO; gpus],
            jobs: Vec::new(),
            scripts: Vec::new(),
            outs: Vec::new(),
            ins: Vec::new(),
            acts: Vec::new(),
            agenda: BinaryHeap::new(),
        }
    }

    /// Adds a thread block, which takes the slices of its lanes one after the other; returns its
    /// number.
    pub fn add_block(&mut self) -> u32 {
        self.blocks.push(Time::ZERO);
        self.blocks.len() as u32 - 1
    }

    /// Adds a lane; returns its number.
    pub fn add_lane(&mut self, info: LaneInfo) -> u32 {
        let number = self.lanes.len() as u32;
        let job = info.job as usize;
        if self.jobs.len() <= job {
            self.jobs.resize_with(job + 1, JobState::default);
        }
        let state = &mut self.jobs[job];
        state.ends.resize(info.repeats as usize, Time::ZERO);
        match state.running.iter().position(|(rank, _)| *rank == info.rank) {
            Some(seat) => {
                state.running[seat].1 += 1;
                state.seats[seat].lanes.push(number);
            }
            None => {
                state.running.push((info.rank, 1));
                state.seats.push(Seat { gpu: info.gpu, lanes: vec![number], caller: None });
                state.marks.push(Vec::new());
            }
        }
        if info.sizes.is_empty() {
            let begin = info.start + self.launch(info.channels);
            self.agenda.push(Reverse((begin, Action::Begin(number))));
        }
        self.lanes.push(Lane {
            recvs: Vec::new(),
            sends: Vec::new(),
            repeat: 0,
            size: 0,
            step: 0,
            slice: 0,
            primitive: None,
            alone: false,
            after: None,
            blocks: Vec::new(),
            followers: Vec::new(),
            mark: 0,
            busy: false,
            blocked: None,
            waited: [Delta::ZERO; 2],
            spans: Vec::with_capacity(info.repeats as usize),
            notes: None,
            info,
        });
        number
    }

    /// From the start of a repetition to its first slices, on so many channels.
    pub(super) fn launch(&self, channels: u32) -> Delta {
        self.config.launch_latency + self.config.channel_latency * u64::from(channels)
    }

    /// Makes the steps of a lane wait for those of others of its rank, as its program says; `blocks`
    /// are these by number, and those at `leaders` are waited for.
    pub fn follow(&mut self, lane: u32, blocks: &[u32], leaders: &[u32]) {
        self.lanes[lane as usize].blocks = blocks.to_vec();
        for leader in leaders {
            self.lanes[blocks[*leader as usize] as usize].followers.push(lane);
        }
    }

    /// Joins two lanes of this host over NVLink.
    pub fn join(&mut self, from: u32, to: u32) {
        let striping = Striping { qps: 1, parts: 1 };
        let (send, recv) = (self.sends.len() as u32, self.recvs.len() as u32);
        let slots = self.lanes[from as usize].info.slots;
        let end = SendEnd::new(striping, 0, slots);
        self.sends.push(Attached { end, lane: from, peer: Peer::Local(recv) });
        let end = RecvEnd::new(striping, 0, slots);
        self.recvs.push(Attached { end, lane: to, peer: Peer::Local(send) });
        self.lanes[from as usize].sends.push(send);
        self.lanes[to as usize].recvs.push(recv);
    }

    /// Gives a lane a sending end over QPs, to its next peer; returns its number.
    pub fn add_send(&mut self, lane: u32, remote: Remote) -> u32 {
        let number = self.sends.len() as u32;
        let state = &mut self.lanes[lane as usize];
        let end = SendEnd::new(remote.striping, remote.cts.len() as u32, state.info.slots);
        state.sends.push(number);
        self.sends.push(Attached { end, lane, peer: Peer::Remote(remote) });
        number
    }

    /// Gives a lane a receiving end over QPs, from its next peer; returns its number.
    pub fn add_recv(&mut self, lane: u32, remote: Remote) -> u32 {
        let number = self.recvs.len() as u32;
        let state = &mut self.lanes[lane as usize];
        let end = RecvEnd::new(remote.striping, remote.cts.len() as u32, state.info.slots);
        state.recvs.push(number);
        self.recvs.push(Attached { end, lane, peer: Peer::Remote(remote) });
        number
    }
}
