//! What can happen, and to which component.

use sim_core::Code;

/// An event names a component and carries no data. The order of the kinds decides ties, then the
/// number of the component; it is part of the model:
///
/// 1. frames arrive, and come out of where they have waited to be looked up,
/// 2. PFC takes effect, pauses expire,
/// 3. ports that were busy, or waited for a pacer, send,
/// 4. everything else.
///
/// A port that is idle sends at once what an event gives it, as part of that event.
///
/// There is at most one live event per (kind, component). Timers of congestion control are no
/// events (see `congestion`); they come last of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The frame at the head of the pipe has arrived at this port.
    Deliver(u32),
    /// This pipeline of a switch takes the next frame that waits for it.
    Pipeline(u32),
    /// The first pending PFC frame takes effect at this port.
    PfcApply(u32),
    /// The earliest pause of this port expires.
    PauseExpire(u32),
    /// This port is free and has, or will by now have, something to send.
    Depart(u32),
    /// XOFF must be repeated at this port.
    PfcRefresh(u32),
    /// The packet at the head of this NIC's receive buffer is in memory.
    Drain(u32),
    /// The earliest retransmission timer of this NIC fires.
    Timeout(u32),
    /// The next flow of this NIC starts.
    FlowStart(u32),
    /// Something is due in the collectives that this host (by node) runs.
    Host(u32),
    /// The PFC watchdog of this port looks.
    Watch(u32),
    /// The pause storm of this NIC begins or ends.
    PauseStorm(u32),
    /// This change of `Wiring::faults` is due.
    Fault(u32),
}

/// Bits of a code that name the component.
const COMPONENT: u32 = 28;

impl Code for Event {
    #[inline]
    fn code(self) -> u32 {
        let (kind, component) = match self {
            Event::Deliver(port) => (0, port),
            Event::Pipeline(pipeline) => (1, pipeline),
            Event::PfcApply(port) => (2, port),
            Event::PauseExpire(port) => (3, port),
            Event::Depart(port) => (4, port),
            Event::PfcRefresh(port) => (5, port),
            Event::Drain(port) => (6, port),
            Event::Timeout(port) => (7, port),
            Event::FlowStart(port) => (8, port),
            Event::Host(node) => (9, node),
            Event::Watch(port) => (10, port),
            Event::PauseStorm(port) => (11, port),
            Event::Fault(change) => (12, change),
        };
        debug_assert!(component >> COMPONENT == 0);
        kind << COMPONENT | component
    }

    #[inline]
    fn of_code(code: u32) -> Self {
        let component = code & ((1 << COMPONENT) - 1);
        match code >> COMPONENT {
            0 => Event::Deliver(component),
            1 => Event::Pipeline(component),
            2 => Event::PfcApply(component),
            3 => Event::PauseExpire(component),
            4 => Event::Depart(component),
            5 => Event::PfcRefresh(component),
            6 => Event::Drain(component),
            7 => Event::Timeout(component),
            8 => Event::FlowStart(component),
            9 => Event::Host(component),
            10 => Event::Watch(component),
            11 => Event::PauseStorm(component),
            _ => Event::Fault(component),
        }
    }
}
