//! The time of a slice: what it passes while a lane has it, and who gets it then.

use std::cmp::Reverse;

use sim_core::{Bytes, Delta, Rate, Time};

use super::{Action, Executor, Output, Peer, Remote, latency};
use crate::collective::protocol::Protocol;
use crate::host::ProtocolLatency;

impl Executor {
    /// Begins the next slice of a lane if everything that it needs is there.
    pub(super) fn try_slice(&mut self, now: Time, lane: u32) {
        let state = &self.lanes[lane as usize];
        let waits = state.after.is_some_and(|(leader, steps)| {
            let leader = &self.lanes[leader as usize];
            leader.repeat == state.repeat && leader.step < steps
        });
        let state = &mut self.lanes[lane as usize];
        let Some(primitive) = state.primitive.filter(|_| !state.busy) else { return };
        if let Some((reason, since)) = state.blocked.take() {
            state.waited[reason] += now.since(since);
        }
        if waits {
            state.blocked = Some((0, now));
            return;
        }
        state.after = None;
        let ends = (&state.recvs[primitive.recv.numbers()], &state.sends[primitive.send.numbers()]);
        if ends.0.iter().any(|recv| self.recvs[*recv as usize].end.available == 0) {
            state.blocked = Some((0, now));
            return;
        }
        if ends.1.iter().any(|send| self.sends[*send as usize].end.free == 0) {
            state.blocked = Some((1, now));
            return;
        }
        state.busy = true;
        if let Some(notes) = state.notes.as_mut().filter(|_| state.slice == 0) {
            notes.step_begins(now, state.repeat, state.step);
        }
        let info = &state.info;
        let gpu = info.gpu as usize;
        let slice = |bytes| Bytes::new(info.wire(state.slice, bytes));
        let sent = slice(primitive.sent().bytes);
        let config = &self.config;
        let ProtocolLatency { slice: own, nvlink: fence, rate, .. } =
            latency(config, info.protocol);
        // half of the warps hide nothing of the fence behind other data (see `groups`)
        let mut begun = now + own + if info.groups > 1 { fence } else { Delta::ZERO };
        let mut taken = if primitive.recv.any() { slice(primitive.bytes) } else { Bytes::ZERO };
        if state.alone {
            (begun, taken) = (now, Bytes::new(primitive.bytes));
        }
        let mut done = begun;
        // a resource that several lanes share takes their slices one after the other
        let mut pass = |free: &mut Time, rate: Rate, size: Bytes| {
            *free = begun.max(*free) + rate.time_for(size);
            done = done.max(*free);
        };
        let block = &mut self.blocks[info.block as usize];
        let rate = rate.unwrap_or(config.channel_rate);
        let rate = Rate::from_bps(rate.bps() / u64::from(info.groups));
        pass(block, rate, sent.max(taken));
        if primitive.multicast {
            let own = slice(primitive.bytes).get();
            let turns = u64::from(primitive.reduce) + u64::from(primitive.copy);
            // the rate is one of busbw: (n - 1) / n of what is added up and handed out
            let n = u64::from(info.ranks);
            pass(&mut self.nvls[gpu], config.nvls_rate, Bytes::new(own * turns * (n - 1) / n));
            // what is added up comes from all GPUs, and what is handed out goes to all
            self.jobs[info.job as usize].nvlink_bytes += own * turns * u64::from(config.gpus);
        }
        for recv in ends.0 {
            let recv = &mut self.recvs[*recv as usize];
            recv.end.available -= 1;
            if let Peer::Remote(Remote { gdr: false, sockets, .. }) = recv.peer {
                pass(&mut self.from_host[gpu], config.host_memory.rate, taken);
                if sockets {
                    pass(&mut self.sockets[gpu], config.socket.rate, taken);
                }
            }
        }
        for send in ends.1 {
            let send = &mut self.sends[*send as usize];
            send.end.free -= 1;
            if matches!(send.peer, Peer::Local(_) | Peer::Remote(Remote { pxn: true, .. })) {
                pass(&mut self.nvlink[gpu], config.nvlink.rate, sent);
                self.jobs[info.job as usize].nvlink_bytes += sent.get();
            }
            if let Peer::Remote(Remote { gdr: false, sockets, .. }) = send.peer {
                pass(&mut self.to_host[gpu], config.host_memory.rate, sent);
                if sockets {
                    pass(&mut self.sockets[gpu], config.socket.rate, sent);
                }
            }
        }
        self.agenda.push(Reverse((done, Action::Handled(lane))));
    }

    /// A lane has handled a slice: hands it on, frees its slot, takes the next.
    pub(super) fn handled(&mut self, now: Time, lane: u32, out: &mut Vec<Output>) {
        let state = &mut self.lanes[lane as usize];
        state.busy = false;
        let Some(primitive) = state.primitive else { return };
        let info = &state.info;
        let config = &self.config;
        let ProtocolLatency { nvlink, proxy, .. } = latency(config, info.protocol);
        let across = now + nvlink;
        for recv in &state.recvs[primitive.recv.numbers()] {
            let next = match self.recvs[*recv as usize].peer {
                Peer::Local(send) => (across, Action::Free(send)),
                Peer::Remote(_) => (now + proxy, Action::Grant(*recv)),
            };
            self.agenda.push(Reverse(next));
        }
        let bytes = info.wire(state.slice, primitive.sent().bytes);
        for number in &state.sends[primitive.send.numbers()] {
            let send = &mut self.sends[*number as usize];
            let next = match &send.peer {
                Peer::Local(recv) => (across, Action::Arrive(*recv)),
                Peer::Remote(Remote { gdr, pcie_latency, pxn, .. }) => {
                    send.end.fill(bytes);
                    // LL's buffers to send are in host memory always: its latency knows that
                    let by_host = !*gdr && info.protocol != Protocol::Ll;
                    let way = if by_host { config.host_memory.latency } else { Delta::ZERO };
                    let begin = if *pxn { across } else { now };
                    (begin + proxy + *pcie_latency + way, Action::Send(*number))
                }
            };
            self.agenda.push(Reverse(next));
        }
        state.slice += 1;
        if state.slice == info.program.slices() || state.alone {
            if let Some(notes) = &mut state.notes {
                notes.step_ends(now, state.step);
            }
            (state.slice, state.step) = (0, state.step + 1);
            state.enter_step();
            let done = state.primitive.is_none();
            if state.info.program.mark(state.mark).is_some_and(|step| step <= state.step) {
                self.note_marks(now, lane);
            }
            for follower in 0..self.lanes[lane as usize].followers.len() {
                let follower = self.lanes[lane as usize].followers[follower];
                self.try_slice(now, follower);
            }
            if done {
                return self.lane_done(now, lane, out);
            }
        }
        self.try_slice(now, lane);
    }
}
