//! What can happen, and to which component.

/// An event names a component and carries no data. The order of the kinds decides ties, then the
/// number of the component; it is part of the model:
///
/// 1. frames arrive,
/// 2. PFC takes effect, pauses expire,
/// 3. ports that were busy, or waited for a pacer, send,
/// 4. everything else.
///
/// A port that is idle sends at once what an event gives it, as part of that event.
///
/// There is at most one live event per (kind, component). Timers of congestion control are no
/// events (see `congestion`); they come last of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The frame at the head of the pipe has arrived at this port.
    Deliver(u32),
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
}

const _: () = assert!(size_of::<(sim_core::Time, Event)>() == 16);
