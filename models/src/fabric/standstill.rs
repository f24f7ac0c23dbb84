//! Deadlocks while other traffic goes on: paused queues that wait for each other and do not move.
//!
//! At each multiple of `stop.stall` at which switches hold frames, every shard looks which of its
//! paused queues have sent nothing for that long, and tells the others. All then know who waits for
//! whom, and whether a circle closes.
//!
//! A circle of paused queues alone would be too little: a group of the circle may hold frames of
//! another queue as well, which goes on and sets it free. So a queue counts only if the group that
//! pauses it has all its frames in queues that count. What is left when all others are gone can
//! never move, unless somebody throws frames away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use sim_core::{Delta, Time};

use super::Fabric;
use crate::ids::PRIORITIES;
use crate::packet::Packet;
use crate::probe::Probe;

/// A port's queue or group: port times [`PRIORITIES`], plus its number.
pub(crate) type Slot = u32;

fn slot(port: u32, number: u8) -> Slot {
    port * PRIORITIES as u32 + u32::from(number)
}

/// The paused queues of one shard, as they were at the last look.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    stall: Delta,
    queues: Vec<Still>,
    /// Those that have stood for `stall`, if any has.
    pub(super) found: Option<Arc<Standstill>>,
}

/// A paused queue that holds frames.
#[derive(Debug)]
struct Still {
    slot: Slot,
    /// Its first frame.
    mark: Option<(u32, Packet)>,
    episodes: u32,
    /// The first look that found it so.
    since: Time,
}

/// Queues that have not moved for `stop.stall`, and what shares a switch with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standstill {
    queues: Vec<StuckQueue>,
    /// Groups that have frames in queues which may move.
    free: Vec<Slot>,
}

/// A queue that does not move.
#[derive(Clone, Debug, Default)]
struct StuckQueue {
    slot: Slot,
    /// Groups at the other end of its cable that may have paused it; none at a host.
    waits_for: Vec<Slot>,
    /// Groups that hold XOFF and have frames here.
    holds: Vec<Slot>,
    flows: BTreeSet<u32>,
    bytes: u64,
    since: Time,
}

/// Paused queues that wait for each other for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// When it was found.
    pub found: Time,
    /// The last of its queues has stood still at least since then.
    pub since: Time,
    /// Egress ports and queues of a shortest round: each waits for the next, the last for the first.
    pub chain: Vec<(u32, u8)>,
    /// All queues that can wait for each other, `chain` among them, as numbers
    /// `port * 8 + queue`.
    pub members: Vec<u32>,
    /// Queues beside them that wait for them.
    pub behind: u32,
    /// QPs with frames in `members`.
    pub flows: Vec<u32>,
    /// Frames there, in bytes.
    pub bytes: u64,
}

impl Standing {
    pub(crate) fn new(stall: Delta) -> Self {
        Standing { stall, ..Standing::default() }
    }
}

impl Standstill {
    /// What two parts of a fabric have seen.
    pub(super) fn joined(a: Option<Arc<Self>>, b: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let (Some(a), Some(b)) = (&a, &b) else { return a.or(b) };
        let queues = [&a.queues[..], &b.queues].concat();
        Some(Arc::new(Standstill { queues, free: [&a.free[..], &b.free].concat() }))
    }

    /// The circles that close among queues which can never move.
    pub(super) fn circles(&self, now: Time) -> Vec<Circle> {
        let stuck = self.without_a_way_out();
        let mut holders: BTreeMap<Slot, Vec<usize>> = BTreeMap::new();
        for (number, queue) in stuck.iter().enumerate() {
            queue.holds.iter().for_each(|group| holders.entry(*group).or_default().push(number));
        }
        let next = |number: usize| {
            let groups = stuck[number].waits_for.iter().filter_map(|group| holders.get(group));
            groups.flatten().copied()
        };
        let mut graph = DiGraph::<usize, ()>::new();
        let nodes: Vec<NodeIndex> = (0..stuck.len()).map(|number| graph.add_node(number)).collect();
        for number in 0..stuck.len() {
            for on in next(number) {
                graph.update_edge(nodes[number], nodes[on], ());
            }
        }
        let components = kosaraju_scc(&graph).into_iter().filter(|members| members.len() > 1);
        let mut components: Vec<Vec<usize>> = components
            .map(|members| members.into_iter().map(|member| graph[member]).collect())
            .collect();
        components.iter_mut().for_each(|members| members.sort_unstable());
        components.sort_unstable();
        let in_circles: usize = components.iter().map(Vec::len).sum();
        let circle = |members: Vec<usize>| {
            let queues = || members.iter().map(|member| stuck[*member]);
            let flows: BTreeSet<u32> = queues().flat_map(|queue| &queue.flows).copied().collect();
            let place = |number: &usize| {
                let slot = stuck[*number].slot;
                (slot / PRIORITIES as u32, (slot % PRIORITIES as u32) as u8)
            };
            Circle {
                found: now,
                since: queues().map(|queue| queue.since).max().unwrap_or(now),
                chain: round(&members, next).iter().map(place).collect(),
                members: queues().map(|queue| queue.slot).collect(),
                behind: (stuck.len() - in_circles) as u32,
                flows: flows.into_iter().collect(),
                bytes: queues().map(|queue| queue.bytes).sum(),
            }
        };
        components.into_iter().map(circle).collect()
    }

    /// Queues whose pausing group has all its frames in such queues, sorted.
    fn without_a_way_out(&self) -> Vec<&StuckQueue> {
        let mut free: BTreeSet<Slot> = self.free.iter().copied().collect();
        let mut stuck: Vec<&StuckQueue> = self.queues.iter().collect();
        stuck.sort_unstable_by_key(|queue| queue.slot);
        loop {
            let held: BTreeSet<Slot> =
                stuck.iter().flat_map(|queue| &queue.holds).copied().collect();
            let for_ever = |queue: &StuckQueue| {
                queue.waits_for.iter().any(|group| held.contains(group) && !free.contains(group))
            };
            let (stay, go): (Vec<_>, Vec<_>) = stuck.iter().partition(|queue| for_ever(queue));
            if go.is_empty() {
                return stay;
            }
            free.extend(go.iter().flat_map(|queue| &queue.holds));
            stuck = stay;
        }
    }
}

/// A shortest round among members of which each leads to each, from the first one on.
fn round<I: Iterator<Item = usize>>(members: &[usize], next: impl Fn(usize) -> I) -> Vec<usize> {
    let Some(start) = members.first().copied() else { return Vec::new() };
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for on in next(at) {
            if on == start {
                let mut round = vec![at];
                while let Some(earlier) = before.get(&round[round.len() - 1]) {
                    round.push(*earlier);
                }
                round.reverse();
                return round;
            }
            if members.binary_search(&on).is_ok() && !before.contains_key(&on) {
                before.insert(on, at);
                queue.push_back(on);
            }
        }
    }
    Vec::new()
}

impl<P: Probe> Fabric<P> {
    /// Notes which paused queues stand still, if it is time for that.
    pub(super) fn look_for_standstill(&mut self, now: Time) {
        let stall = self.standing.stall;
        if stall.is_zero() || !now.ps().is_multiple_of(stall.ps()) {
            return;
        }
        let before = std::mem::take(&mut self.standing.queues);
        let mut queues = Vec::new();
        for (port, state) in (0u32..).zip(&self.ports) {
            let waiting = state.paused() & state.nonempty();
            if waiting == 0 || !self.wiring.wires[port as usize].is_switch {
                continue;
            }
            for queue in (0..PRIORITIES as u8).filter(|queue| waiting & (1 << queue) != 0) {
                let mark = state.queues[usize::from(queue)].mark();
                let episodes = state.aside.pause.episodes(usize::from(queue));
                let slot = slot(port, queue);
                let old = before.binary_search_by_key(&slot, |old| old.slot).ok();
                let same = old
                    .map(|place| &before[place])
                    .filter(|old| old.mark == mark && old.episodes == episodes);
                let since = same.map_or(now, |same| same.since);
                queues.push(Still { slot, mark, episodes, since });
            }
        }
        self.standing.found = self.standstill(&queues, now).map(Arc::new);
        self.standing.queues = queues;
    }

    /// A queue has lost its frames: it has not stood still.
    pub(super) fn has_moved(&mut self, port: u32, queue: u8) {
        self.standing.queues.retain(|still| still.slot != slot(port, queue));
    }

    fn standstill(&self, queues: &[Still], now: Time) -> Option<Standstill> {
        let stuck: Vec<&Still> =
            queues.iter().filter(|still| now.since(still.since) >= self.standing.stall).collect();
        if stuck.is_empty() {
            return None;
        }
        let mut standstill = Standstill::default();
        let owner = |port: u32| self.wiring.wires[port as usize].owner;
        let port_of = |still: &&Still| still.slot / PRIORITIES as u32;
        let switches: BTreeSet<u32> = stuck.iter().map(port_of).map(owner).collect();
        let mut free = BTreeSet::new();
        for (port, state) in (0u32..).zip(&self.ports) {
            let wire = &self.wiring.wires[port as usize];
            if state.nonempty() == 0 || !wire.is_switch || !switches.contains(&wire.owner) {
                continue;
            }
            for (number, frames) in (0u8..).zip(&state.queues) {
                let groups = frames.packets().map(|frame| {
                    let ingress = wire.first_port + u32::from(frame.ingress);
                    (ingress, frame.pg)
                });
                let slot = slot(port, number);
                let Some(still) = stuck.iter().find(|still| still.slot == slot) else {
                    free.extend(groups);
                    continue;
                };
                let groups: BTreeSet<(u32, u8)> = groups.collect();
                let holds_xoff = |(ingress, pg): &(u32, u8)| {
                    self.ports[*ingress as usize].aside.pfc.asserted() & (1 << pg) != 0
                };
                standstill.queues.push(StuckQueue {
                    slot,
                    waits_for: self.pausers(port, number),
                    holds: groups.into_iter().filter(holds_xoff).map(self::group).collect(),
                    flows: frames.packets().map(|frame| frame.qp).collect(),
                    bytes: frames.bytes(),
                    since: still.since,
                });
            }
        }
        standstill.free = free.into_iter().map(group).collect();
        Some(standstill)
    }

    /// The groups at the other end of a cable whose XOFF pauses this queue.
    fn pausers(&self, port: u32, queue: u8) -> Vec<Slot> {
        let wire = &self.wiring.wires[port as usize];
        if !self.wiring.wires[wire.peer as usize].is_switch {
            return Vec::new();
        }
        let pauses = |priority: &u8| self.obeyed_queue(wire, *priority) == Some(queue);
        (0..PRIORITIES as u8).filter(pauses).map(|priority| slot(wire.peer, priority)).collect()
    }
}

fn group((port, pg): (u32, u8)) -> Slot {
    slot(port, pg)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queue 3 of some port, which waits for a group and holds frames of others.
    fn queue(port: u32, waits_for: &[Slot], holds: &[Slot]) -> StuckQueue {
        StuckQueue {
            slot: slot(port, 3),
            waits_for: waits_for.to_vec(),
            holds: holds.to_vec(),
            flows: BTreeSet::from([port]),
            bytes: 1000,
            since: Time::from_ps(u64::from(port)),
        }
    }

    fn circles(queues: Vec<StuckQueue>, free: Vec<Slot>) -> Vec<Circle> {
        Standstill { queues, free }.circles(Time::from_ps(99))
    }

    /// Three in a circle (0 waits for group 100, which has its frames in 2, and so on), and one that
    /// waits for them.
    fn three() -> Vec<StuckQueue> {
        vec![
            queue(0, &[100], &[102]),
            queue(1, &[102], &[101, 104]),
            queue(2, &[101], &[100]),
            queue(3, &[104], &[105]),
        ]
    }

    #[test]
    fn a_circle_is_told_in_the_order_of_waiting() {
        let [circle] = &circles(three(), vec![])[..] else { panic!() };
        assert_eq!(circle.chain, [(0, 3), (2, 3), (1, 3)]);
        assert_eq!(circle.members, [3, 11, 19]);
        assert_eq!(
            (circle.flows.as_slice(), circle.bytes, circle.behind),
            (&[0, 1, 2][..], 3000, 1)
        );
        assert_eq!((circle.found, circle.since), (Time::from_ps(99), Time::from_ps(2)));
    }

    #[test]
    fn who_has_frames_that_may_move_is_not_stuck() {
        // group 101 has some in a queue that moves: 2 may be resumed, then 0, then 1
        assert_eq!(circles(three(), vec![101]), []);
        // 104 pauses 3, which is no part of the circle
        assert_eq!(circles(three(), vec![104]).len(), 1);
        // one more queue with frames of 101 waits for a host, which may let it go on
        let mut queues = three();
        queues.push(queue(4, &[], &[101]));
        assert_eq!(circles(queues, vec![]), []);
    }

    #[test]
    fn parts_of_a_fabric_see_what_the_whole_sees() {
        let all = three();
        let part = |range: std::ops::Range<usize>| {
            Some(Arc::new(Standstill { queues: all[range].to_vec(), free: vec![] }))
        };
        let joined = Standstill::joined(part(2..4), part(0..2)).unwrap();
        assert_eq!(joined.circles(Time::from_ps(99)), circles(all.clone(), vec![]));
        assert_eq!(part(0..2).unwrap().circles(Time::ZERO), []);
    }
}
