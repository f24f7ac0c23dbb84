//! The completion time of a flow that is alone in the fabric.

use sim_core::{Delta, Time};

use crate::fabric::Wiring;
use crate::traffic::Transport;

/// From the first bit sent to the last payload byte received, on `ports`, in packets of one kind.
pub(super) fn fct(
    wiring: &Wiring,
    ports: &[u32],
    bytes: u64,
    mtu: u16,
    transport: Transport,
) -> Delta {
    let frames = &wiring.frames;
    let mtu_bytes = u64::from(mtu);
    let packets = bytes.div_ceil(mtu_bytes).max(1);
    let last = (bytes - (packets - 1) * mtu_bytes) as u16;
    let wire_len = |payload: u16, first: bool, last: bool| {
        frames.wire_len(match transport {
            Transport::RcSend => frames.data(payload, false),
            Transport::RcRead => frames.read(payload, first || last),
            Transport::Rc | Transport::Tcp => frames.data(payload, first),
        })
    };
    // when each link is free again; the frame's arrival at the next one follows
    let mut free = vec![Time::ZERO; ports.len()];
    if packets == 1 {
        return pass(wiring, ports, &mut free, wire_len(last, true, true)) - Time::ZERO;
    }
    pass(wiring, ports, &mut free, wire_len(mtu, true, false));
    let full = wire_len(mtu, false, false);
    let middle = packets - 2;
    let stepped = middle.min(64);
    for _ in 0..stepped {
        pass(wiring, ports, &mut free, full);
    }
    // in steady state every link advances by the time of the slowest
    let slowest = ports.iter().map(|port| wiring.wires[*port as usize].clock.time(full)).max();
    let rest = slowest.unwrap_or(Delta::ZERO) * (middle - stepped);
    free.iter_mut().for_each(|time| *time += rest);
    // the first link is not held back by the slowest one, but the last frame is
    pass(wiring, ports, &mut free, wire_len(last, false, true)) - Time::ZERO
}

/// Sends one frame along `ports`; returns its arrival.
fn pass(wiring: &Wiring, ports: &[u32], free: &mut [Time], wire_len: u64) -> Time {
    let mut at = Time::ZERO;
    for (slot, port) in ports.iter().enumerate() {
        let wire = &wiring.wires[*port as usize];
        let start = at.max(free[slot]);
        free[slot] = start + wire.clock.time(wire_len);
        at = start + wire.reach(wire_len);
    }
    at
}
