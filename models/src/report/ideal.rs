//! The completion time of a flow that is alone in the fabric.

use sim_core::{Delta, Time};

use crate::fabric::Wiring;
use crate::wire::Frames;

/// From the first bit sent to the last payload byte received, store and forward on `ports`.
pub(super) fn fct(wiring: &Wiring, ports: &[u32], bytes: u64, mtu: u16) -> Delta {
    let frames = &wiring.frames;
    let mtu_bytes = u64::from(mtu);
    let packets = bytes.div_ceil(mtu_bytes).max(1);
    let last = (bytes - (packets - 1) * mtu_bytes) as u16;
    // when each link is free again; the frame's arrival at the next one follows
    let mut free = vec![Time::ZERO; ports.len()];
    if packets == 1 {
        return pass(wiring, ports, &mut free, frames.wire_len(frames.data(last, true)))
            - Time::ZERO;
    }
    pass(wiring, ports, &mut free, first_len(frames, mtu));
    let full = frames.wire_len(frames.data(mtu, false));
    let middle = packets - 2;
    let stepped = middle.min(64);
    for _ in 0..stepped {
        pass(wiring, ports, &mut free, full);
    }
    // in steady state every link advances by the time of the slowest
    let slowest = ports.iter().map(|port| wiring.wires[*port as usize].clock.time(full)).max();
    let rest = slowest.unwrap_or(Delta::ZERO) * (middle - stepped);
    free.iter_mut().for_each(|time| *time += rest);
    let last_len = frames.wire_len(frames.data(last, false));
    // the first link is not held back by the slowest one, but the last frame is
    pass(wiring, ports, &mut free, last_len) - Time::ZERO
}

fn first_len(frames: &Frames, mtu: u16) -> u64 {
    frames.wire_len(frames.data(mtu, true))
}

/// Sends one frame along `ports`; returns its arrival.
fn pass(wiring: &Wiring, ports: &[u32], free: &mut [Time], wire_len: u64) -> Time {
    let mut at = Time::ZERO;
    for (slot, port) in ports.iter().enumerate() {
        let wire = &wiring.wires[*port as usize];
        let done = at.max(free[slot]) + wire.clock.time(wire_len);
        free[slot] = done;
        at = done + wire.arrival_delay;
    }
    at
}
