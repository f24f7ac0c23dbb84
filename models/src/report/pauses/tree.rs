//! The tree of pauses of any time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim_core::{Delta, Time};

use super::trace::Part;
use super::{Pauses, Root, RootKind, queue, slot_port};
use crate::ids::{PRIORITIES, PortId};
use crate::report::Name;

/// Who paused whom in a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PauseTree {
    /// Where pauses began, by the time that they cost.
    pub roots: Vec<PauseRoot>,
    /// Roots beyond these, and the time paused that began there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_roots: u64,
    /// See `more_roots`.
    #[serde(default, skip_serializing_if = "is_none")]
    pub more_paused_s: f64,
    /// From then on pauses were too many to be noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_at_s: Option<f64>,
}

/// A queue or a NIC at which pauses began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PauseRoot {
    /// Its port.
    pub port: Name,
    /// The queue, or the priority of the NIC's pauses.
    pub priority: u8,
    /// What is wrong there.
    pub kind: RootKind,
    /// Time paused that began here, summed over ports.
    pub paused_s: f64,
    /// Ports that it stopped.
    pub ports: u32,
    /// How many ports pauses went through at most: 1 are those that it paused itself.
    pub depth: u32,
    /// From the first such pause
    pub first_s: f64,
    /// to the last one's end.
    pub last_s: f64,
    /// Who paused whom: first those that it paused itself, then those that they did.
    pub edges: Vec<PauseEdge>,
    /// Edges that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_edges: u64,
}

/// One port stopped another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PauseEdge {
    /// The paused port, or the root, whose frames made the peer of the next one send XOFF,
    pub by: Name,
    /// its queue,
    pub by_priority: u8,
    /// the port that could not send,
    pub port: Name,
    /// its queue,
    pub priority: u8,
    /// how many ports lie between it and the root, itself included,
    pub depth: u32,
    /// for how long,
    pub paused_s: f64,
    /// in how many pauses.
    pub episodes: u64,
}

/// Roots that are listed, and edges of each.
const ROOTS_MAX: usize = 50;
const EDGES_MAX: usize = 500;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_none(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl PauseTree {
    /// True if nothing was paused.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.truncated_at_s.is_none()
    }

    /// The ways from a root to where its pauses went: each paused port with how deep it stands,
    /// every one once, under who stopped it longest, and of equals the one that is named first.
    pub fn branches(root: &PauseRoot) -> Vec<(usize, &PauseEdge)> {
        let mut parents: BTreeMap<(&str, u8), &PauseEdge> = BTreeMap::new();
        for edge in &root.edges {
            let known = parents.entry((&edge.port, edge.priority)).or_insert(edge);
            if edge.paused_s > known.paused_s {
                *known = edge;
            }
        }
        let mut branches = Vec::new();
        let mut open = vec![(0, (&*root.port, root.priority))];
        while let Some((depth, at)) = open.pop() {
            if depth > 0 {
                let Some(edge) = parents.remove(&at) else { continue };
                branches.push((depth, edge));
            }
            let mut children: Vec<&PauseEdge> = parents
                .values()
                .filter(|edge| (&*edge.by, edge.by_priority) == at)
                .copied()
                .collect();
            children.sort_by(|a, b| a.paused_s.total_cmp(&b.paused_s).then(b.port.cmp(&a.port)));
            let below = children.into_iter().map(|edge| (depth + 1, (&*edge.port, edge.priority)));
            open.extend(below);
        }
        branches
    }
}

/// What is summed up.
#[derive(Default)]
pub(super) struct Sums {
    sums: Vec<(Root, Sum)>,
    /// Place in `sums` by root.
    places: BTreeMap<u64, u32>,
}

impl Sums {
    fn of(&mut self, root: Root) -> &mut Sum {
        let number = u64::from(slot(root)) << 8 | root.kind as u64;
        let place = *self.places.entry(number).or_insert_with(|| {
            self.sums.push((root, Sum::default()));
            self.sums.len() as u32 - 1
        });
        &mut self.sums[place as usize].1
    }
}

#[derive(Default)]
struct Sum {
    paused: Delta,
    depth: usize,
    span: Option<(Time, Time)>,
    /// By who paused and who was paused.
    edges: BTreeMap<(u32, u32), Edge>,
}

#[derive(Default)]
struct Edge {
    paused: Delta,
    depth: usize,
    episodes: u64,
    /// The last episode that was counted.
    last: Option<u32>,
}

impl Pauses {
    /// Who paused whom between two times.
    pub fn tree(&self, from: Time, to: Time) -> PauseTree {
        let mut sums = Sums::default();
        for (index, episode) in (0..).zip(&self.episodes) {
            let (start, end) = (episode.from.max(from), episode.to.min(to));
            if start >= end {
                continue;
            }
            self.parts(index, start, end, &mut |part| self.count(&mut sums, &part));
        }
        self.tree_of(sums, to)
    }

    /// Adds a part of an episode.
    pub(super) fn count(&self, sums: &mut Sums, part: &Part<'_>) {
        let index = part.way[0];
        let slot_of = |index: u32| self.episodes[index as usize].slot;
        let sum = sums.of(part.root);
        let time = part.to.since(part.from);
        sum.paused += time;
        sum.depth = sum.depth.max(part.way.len());
        let (first, last) = sum.span.get_or_insert((part.from, part.to));
        (*first, *last) = ((*first).min(part.from), (*last).max(part.to));
        let by = part.way.get(1).map_or_else(|| slot(part.root), |by| slot_of(*by));
        let edge = sum.edges.entry((by, slot_of(index))).or_default();
        edge.paused += time;
        edge.depth = edge.depth.max(part.way.len());
        edge.episodes += u64::from(edge.last != Some(index));
        edge.last = Some(index);
    }

    /// The tree of what was added up to a time.
    pub(super) fn tree_of(&self, sums: Sums, to: Time) -> PauseTree {
        let mut sums = sums.sums;
        sums.sort_by_key(|(root, sum)| (std::cmp::Reverse(sum.paused), *root));
        let rest = sums.split_off(sums.len().min(ROOTS_MAX));
        let more = rest.iter().fold(Delta::ZERO, |all, (_, sum)| all + sum.paused);
        PauseTree {
            roots: sums.into_iter().map(|(root, sum)| self.root_report(root, sum)).collect(),
            more_roots: rest.len() as u64,
            more_paused_s: more.as_secs(),
            truncated_at_s: self.truncated_at.filter(|at| *at < to).map(Time::as_secs),
        }
    }

    fn root_report(&self, root: Root, sum: Sum) -> PauseRoot {
        let mut stopped: Vec<usize> = sum.edges.keys().map(|(_, to)| slot_port(*to)).collect();
        stopped.sort_unstable();
        stopped.dedup();
        let mut edges: Vec<((u32, u32), Edge)> = sum.edges.into_iter().collect();
        edges.sort_by_key(|(key, edge)| (edge.depth, std::cmp::Reverse(edge.paused), *key));
        let more_edges = edges.len().saturating_sub(EDGES_MAX) as u64;
        edges.truncate(EDGES_MAX);
        let name = |slot: u32| self.names[slot_port(slot)].clone();
        let edge = |((by, port), edge): ((u32, u32), Edge)| PauseEdge {
            by: name(by),
            by_priority: queue(by),
            port: name(port),
            priority: queue(port),
            depth: edge.depth as u32,
            paused_s: edge.paused.as_secs(),
            episodes: edge.episodes,
        };
        let (first, last) = sum.span.unwrap_or((Time::ZERO, Time::ZERO));
        PauseRoot {
            port: self.name(root.port).clone(),
            priority: root.priority,
            kind: root.kind,
            paused_s: sum.paused.as_secs(),
            ports: stopped.len() as u32,
            depth: sum.depth as u32,
            first_s: first.as_secs(),
            last_s: last.as_secs(),
            edges: edges.into_iter().map(edge).collect(),
            more_edges,
        }
    }

    /// By port from `root` on along the pauses: who paused whom until a port of `way` was stopped,
    /// the root's end first; empty if none was.
    pub fn way_to(&self, root: Root, way: &[PortId]) -> Vec<PortId> {
        let mut most: BTreeMap<Vec<u32>, Delta> = BTreeMap::new();
        for (index, episode) in (0..).zip(&self.episodes) {
            let port = PortId(slot_port(episode.slot) as u32);
            if self.roots[episode.root as usize] != root || !way.contains(&port) {
                continue;
            }
            self.parts(index, episode.from, episode.to, &mut |part| {
                if part.root == root {
                    let ports = part.way.iter().rev();
                    let ports = ports.map(|e| slot_port(self.episodes[*e as usize].slot) as u32);
                    *most.entry(ports.collect()).or_default() += part.to.since(part.from);
                }
            });
        }
        let longest = most.into_iter().max_by_key(|(_, time)| *time);
        longest.map_or(Vec::new(), |(ports, _)| ports.into_iter().map(PortId).collect())
    }
}

fn slot(root: Root) -> u32 {
    root.port.0 * PRIORITIES as u32 + u32::from(root.priority)
}
