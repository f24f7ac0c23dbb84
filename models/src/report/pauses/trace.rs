//! From an episode to where it began, instant by instant.

use sim_core::{Delta, Time};

use super::tree::Sums;
use super::{Due, Episode, Pauses, Root, RootKind, queue, slot_port};
use crate::ids::PortId;

/// A part of an episode that began at one root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// The episode, the one that caused it, and so on: indices into `episodes`.
    pub(super) way: &'a [u32],
    pub(super) root: Root,
    pub(super) from: Time,
    pub(super) to: Time,
}

/// Episodes that follow each other at most.
const DEPTH_MAX: usize = 64;

const ONE: Delta = Delta::from_ps(1);

impl Pauses {
    /// Finds where most of each episode began, and the tree of the whole run.
    pub(super) fn find_roots(&mut self) {
        let mut sums = Sums::default();
        let mut all = Vec::with_capacity(self.episodes.len());
        let mut times: Vec<(Root, Delta)> = Vec::new();
        for index in 0..self.episodes.len() as u32 {
            times.clear();
            let Episode { from, to, .. } = self.episodes[index as usize];
            // one that took no time began somewhere, too
            self.parts(index, from, to.max(from.saturating_add(ONE)), &mut |part| {
                if from < to {
                    self.count(&mut sums, &part);
                }
                let time = part.to.since(part.from);
                match times.iter_mut().find(|(root, _)| *root == part.root) {
                    Some((_, sum)) => *sum += time,
                    None => times.push((part.root, time)),
                }
            });
            let most =
                times.iter().max_by_key(|(root, time)| (*time, *root)).map(|(root, _)| *root);
            all.push(most.unwrap_or_else(|| self.itself(self.episodes[index as usize].slot)));
        }
        self.whole = self.tree_of(sums, Time::MAX);
        let mut roots = all.clone();
        roots.sort_unstable();
        roots.dedup();
        for (episode, root) in self.episodes.iter_mut().zip(all) {
            episode.root = roots.binary_search(&root).unwrap_or(0) as u32;
        }
        self.roots = roots;
    }

    /// Calls `visit` with the parts of an episode between two times.
    pub(super) fn parts(
        &self,
        episode: u32,
        from: Time,
        to: Time,
        visit: &mut impl FnMut(Part<'_>),
    ) {
        self.follow(episode, from, to, None, &mut Vec::new(), visit);
    }

    /// The same at the end of a way; if there is an `at`, all is as it was then.
    fn follow(
        &self,
        index: u32,
        from: Time,
        to: Time,
        at: Option<Time>,
        way: &mut Vec<u32>,
        visit: &mut impl FnMut(Part<'_>),
    ) {
        let episode = &self.episodes[index as usize];
        if way.contains(&index) || way.len() >= DEPTH_MAX {
            let slots = way.iter().map(|index| self.episodes[*index as usize].slot);
            // a circle has no beginning: its first port stands for it
            let turn = way.iter().position(|other| *other == index).unwrap_or(0);
            let least = slots.skip(turn).min().unwrap_or(episode.slot);
            let root = Root { kind: RootKind::Circular, ..self.itself(least) };
            return visit(Part { way, root, from, to });
        }
        way.push(index);
        let causes = self.causes_of(episode);
        if let Some(at) = at {
            let place = causes.partition_point(|since| since.from <= at).max(1) - 1;
            self.follow_cause(causes[place].cause, from, to, Some(at), way, visit);
        } else {
            let ends = causes[1..].iter().map(|since| since.from).chain([Time::MAX]);
            let mut start = from;
            for (since, end) in causes.iter().zip(ends) {
                let end = end.min(to);
                if start < end {
                    self.follow_cause(since.cause, start, end, None, way, visit);
                    start = end;
                }
            }
        }
        way.pop();
    }

    fn follow_cause(
        &self,
        cause: Due,
        from: Time,
        to: Time,
        at: Option<Time>,
        way: &mut Vec<u32>,
        visit: &mut impl FnMut(Part<'_>),
    ) {
        let slot = match cause {
            Due::Root(root) => return visit(Part { way, root, from, to }),
            Due::Queue(slot) => slot,
        };
        let [look_from, look_to] = at.map_or([from, to], |at| [at, at.saturating_add(ONE)]);
        let all = self.of_slot(slot);
        let first = all.partition_point(|episode| episode.sent <= look_from);
        let mut start = from;
        let place = self.firsts[slot as usize] + first as u32;
        for (index, other) in (place..).zip(&all[first..]) {
            if other.from >= look_to {
                break;
            }
            if other.sent <= look_from {
                continue;
            }
            if let Some(at) = at {
                // while it sends what had to wait, all is as it was when its pause ended
                let at = at.min(last_of(other));
                return self.follow(index, from, to, Some(at), way, visit);
            }
            if start < other.from {
                visit(Part { way, root: self.itself(slot), from: start, to: other.from });
                start = other.from;
            }
            let end = other.to.min(to);
            if start < end {
                self.follow(index, start, end, None, way, visit);
                start = end;
            }
            let end = other.sent.min(to);
            if start < end {
                self.follow(index, start, end, Some(last_of(other)), way, visit);
                start = end;
            }
        }
        if start < to {
            visit(Part { way, root: self.itself(slot), from: start, to });
        }
    }

    /// A queue that is not paused, as the root of others' pauses.
    fn itself(&self, slot: u32) -> Root {
        let port = slot_port(slot);
        let kind = match self.peers[port].1 {
            true => RootKind::ReceiverLinkFull,
            false => RootKind::CongestedPort,
        };
        Root { port: PortId(port as u32), priority: queue(slot), kind }
    }
}

/// The last instant of an episode.
fn last_of(episode: &Episode) -> Time {
    Time::from_ps(episode.to.ps().saturating_sub(1)).max(episode.from)
}
