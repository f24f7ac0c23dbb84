//! From what was noted to episodes with their causes.

use sim_core::{Bytes, Time};

use super::{Due, Episode, Pauses, Root, RootKind, Since};
use crate::fabric::{Cause, Fabric, MARKS_MAX, Mark, Outcome, What};
use crate::ids::{PRIORITIES, PortId};
use crate::probe::Probe;

/// XOFF of a priority (port x 8 + priority) from a time on.
type Xoff = (u32, Time, Cause);

/// The episodes of a run, their roots still to be found.
pub(super) fn read<P: Probe>(outcome: &Outcome<P>) -> Pauses {
    let fabric = &outcome.fabric;
    let topology = &fabric.wiring.topology;
    let log = &fabric.pauses;
    let truncated_at =
        log.marks.last().filter(|_| log.count > MARKS_MAX as u64).map(|last| last.time);
    let mut end = outcome.end;
    if let Some(at) = truncated_at {
        end = end.min(at);
    }
    // places of marks: those of a port stay in their order
    let known = log.marks.partition_point(|mark| truncated_at.is_none_or(|at| mark.time < at));
    let marks = &log.marks[..known];
    let mut order: Vec<u32> = (0..known as u32).collect();
    order.sort_by_key(|place| slot(&marks[*place as usize]));
    let order = || order.iter().map(|place| &marks[*place as usize]);
    let is_xoff = |mark: &&Mark| matches!(mark.what, What::Xoff(_));
    let mut xoffs: Vec<Xoff> = Vec::with_capacity(order().filter(is_xoff).count());
    xoffs.extend(order().filter_map(|mark| match mark.what {
        What::Xoff(cause) => Some((slot(mark), mark.time, cause)),
        _ => None,
    }));
    let begins = marks.iter().filter(|mark| mark.what == What::Begin).count();
    let ports = topology.ports();
    let mut pauses = Pauses {
        names: (0..ports.len() as u32).map(|p| topology.port_name(PortId(p)).into()).collect(),
        peers: ports.iter().map(|port| (port.peer.0, is_host(fabric, port.peer.0))).collect(),
        episodes: Vec::with_capacity(begins),
        causes: Vec::with_capacity(begins),
        truncated_at,
        ..Pauses::default()
    };
    let mut marks = order().filter(|mark| !is_xoff(mark)).peekable();
    while let Some(mark) = marks.next() {
        if mark.what != What::Begin {
            continue;
        }
        let slot = slot(mark);
        let last = marks.peek().filter(|next| self::slot(next) == slot);
        let (to, ended, bytes) = match last.map(|next| (next.time, next.what)) {
            Some((to, What::End { bytes })) => (to, true, bytes),
            _ => (end.max(mark.time), false, 0),
        };
        let rate = fabric.wiring.wires[mark.port as usize].clock.rate();
        let sent = to.saturating_add(rate.time_for(Bytes::new(bytes.into())));
        let first = pauses.causes.len() as u32;
        causes(fabric, mark, to, &xoffs, &mut pauses.causes);
        let causes = [first, pauses.causes.len() as u32];
        pauses.episodes.push(Episode { slot, from: mark.time, to, sent, ended, causes, root: 0 });
    }
    for index in 1..pauses.episodes.len() {
        let (slot, from) = (pauses.episodes[index].slot, pauses.episodes[index].from);
        let before = &mut pauses.episodes[index - 1];
        if before.slot == slot {
            before.sent = before.sent.min(from);
        }
    }
    let slots = (ports.len() * PRIORITIES) as u32;
    let mut next = pauses.episodes.iter().zip(0..).peekable();
    pauses.firsts.extend((0..=slots).map(|slot| {
        while next.next_if(|(episode, _)| episode.slot < slot).is_some() {}
        next.peek().map_or(begins as u32, |(_, place)| *place)
    }));
    pauses
}

fn slot(mark: &Mark) -> u32 {
    mark.port * PRIORITIES as u32 + u32::from(mark.number)
}

fn is_host<P: Probe>(fabric: &Fabric<P>, port: u32) -> bool {
    !fabric.wiring.wires[port as usize].is_switch
}

/// Why the pause that begins with `mark` began, and went on until `to`.
fn causes<P: Probe>(
    fabric: &Fabric<P>,
    mark: &Mark,
    to: Time,
    xoffs: &[Xoff],
    causes: &mut Vec<Since>,
) {
    let wire = &fabric.wiring.wires[mark.port as usize];
    let start = causes.len();
    let mut before: Option<(Time, Due)> = None;
    for priority in 0..PRIORITIES as u8 {
        if fabric.obeyed_queue(wire, priority) != Some(mark.number) {
            continue;
        }
        let slot = wire.peer * PRIORITIES as u32 + u32::from(priority);
        let first = xoffs.partition_point(|(of, at, _)| (*of, *at) <= (slot, mark.time));
        let due = |cause: &Cause| due(fabric, wire.peer, priority, *cause);
        if let Some((of, at, cause)) = first.checked_sub(1).map(|last| &xoffs[last])
            && *of == slot
            && before.is_none_or(|(latest, _)| *at > latest)
        {
            before = Some((*at, due(cause)));
        }
        let later = xoffs[first..].iter().take_while(|(of, at, _)| *of == slot && *at < to);
        causes.extend(later.map(|(_, at, cause)| Since { from: *at, cause: due(cause) }));
    }
    let unknown = Root { port: PortId(wire.peer), priority: mark.number, kind: RootKind::Unknown };
    let cause = before.map_or(Due::Root(unknown), |(_, due)| due);
    causes.insert(start, Since { from: mark.time, cause });
    causes[start..].sort_by_key(|since| since.from);
    let mut kept = start;
    for index in start + 1..causes.len() {
        if causes[index].cause != causes[kept].cause {
            kept += 1;
            causes[kept] = causes[index];
        }
    }
    causes.truncate(kept + 1);
}

fn due<P: Probe>(fabric: &Fabric<P>, port: u32, priority: u8, cause: Cause) -> Due {
    let nic = |kind| Due::Root(Root { port: PortId(port), priority, kind });
    match cause {
        Cause::Receiver => nic(RootKind::SlowReceiver),
        Cause::Storm => nic(RootKind::PauseStorm),
        Cause::Queue { port, queue } => {
            debug_assert!(fabric.wiring.wires[port as usize].is_switch);
            Due::Queue(port * PRIORITIES as u32 + u32::from(queue))
        }
    }
}
