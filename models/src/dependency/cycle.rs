//! Buffers that can wait for themselves: who closes the circle, and what opens it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::{Buffer, Dependencies, Turn};
use crate::ids::{NodeId, PortId};
use crate::load_balance::Ecmp;
use crate::switch::Classifier;

/// Buffers each of which can wait for all others, and so for itself.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// All of them.
    pub buffers: Vec<Buffer>,
    /// A shortest round among them: each turn begins where the one before ends.
    pub round: Vec<Turn>,
    /// By turn of the round: the QPs that make it by the ports that ECMP chooses for them.
    pub users: Vec<Users>,
    /// What would break all rounds.
    pub cure: Cure,
}

/// QPs that make a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// How many do.
    pub count: u64,
    /// The first ones: their numbers, and whether it is their answers that do.
    pub first: Vec<(u32, bool)>,
}

/// What breaks all rounds among some buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cure {
    /// Without these turns no buffer waits for itself.
    pub turns: Vec<Turn>,
    /// All of them lead down and up again.
    pub valleys: bool,
    /// Lossless priorities that it takes if frames change theirs at each of these turns (Hu et al.,
    /// Tagger, CoNEXT 2017: one more than there are such turns on a way); none if frames go round in
    /// a routing loop.
    pub priorities: Option<u32>,
}

/// Users of a turn that are named.
const NAMED: usize = 3;
/// Buffers from which a shortest round is sought.
const STARTS_MAX: usize = 256;

/// A turn by the numbers of its buffers.
type Pair = (u32, u32);

impl Dependencies<'_> {
    /// Buffers that can wait for themselves, in groups; each group is sorted.
    pub(super) fn components(&self) -> Vec<Vec<u32>> {
        self.components_without(&BTreeSet::new(), |_| true)
    }

    /// The same among those that are `wanted`, without some turns.
    fn components_without(
        &self,
        without: &BTreeSet<Pair>,
        wanted: impl Fn(u32) -> bool,
    ) -> Vec<Vec<u32>> {
        let mut graph = DiGraph::<u32, ()>::new();
        let mut nodes = vec![None; self.on.len()];
        let mut node = |graph: &mut DiGraph<u32, ()>, buffer: u32| -> NodeIndex {
            *nodes[buffer as usize].get_or_insert_with(|| graph.add_node(buffer))
        };
        for (from, on) in (0u32..).zip(&self.on).filter(|(from, _)| wanted(*from)) {
            for to in on.iter().filter(|to| wanted(**to) && !without.contains(&(from, **to))) {
                let ends = [from, *to].map(|buffer| node(&mut graph, buffer));
                graph.add_edge(ends[0], ends[1], ());
            }
        }
        let mut components: Vec<Vec<u32>> = kosaraju_scc(&graph)
            .into_iter()
            .filter(|members| members.len() > 1)
            .map(|members| members.into_iter().map(|member| graph[member]).collect())
            .collect();
        components.iter_mut().for_each(|members| members.sort_unstable());
        components.sort_unstable();
        components
    }

    /// All groups of buffers that can wait for themselves, with what closes and what opens them.
    pub fn cycles(&self) -> Vec<Cycle> {
        let components = self.components();
        if components.is_empty() {
            return Vec::new();
        }
        let users = self.users();
        components.iter().map(|members| self.describe(members, &users)).collect()
    }

    fn describe(&self, members: &[u32], users: &BTreeMap<Pair, Users>) -> Cycle {
        let round = self.shortest_round(members, &BTreeSet::new());
        let turn = |pair: Pair| Turn { from: Buffer::of(pair.0), to: Buffer::of(pair.1) };
        let used = |pair: &Pair| users.get(pair).cloned().unwrap_or_default();
        let (cut, valleys) = self.cut(members, users);
        Cycle {
            buffers: members.iter().map(|member| Buffer::of(*member)).collect(),
            users: round.iter().map(used).collect(),
            round: round.into_iter().map(turn).collect(),
            cure: Cure {
                priorities: self.priorities(&cut),
                turns: cut.into_iter().map(turn).collect(),
                valleys,
            },
        }
    }

    /// Turns without which no member waits for itself: all that lead down and up again if that is
    /// enough; else, one round after the other, the turn that the fewest QPs make.
    fn cut(&self, members: &[u32], users: &BTreeMap<Pair, Users>) -> (BTreeSet<Pair>, bool) {
        let inside = |buffer: u32| members.binary_search(&buffer).is_ok();
        let mut cut = BTreeSet::new();
        for from in members {
            for to in self.on[*from as usize].iter().filter(|to| inside(**to)) {
                if self.is_valley(Turn { from: Buffer::of(*from), to: Buffer::of(*to) }) {
                    cut.insert((*from, *to));
                }
            }
        }
        if !cut.is_empty() && self.components_without(&cut, inside).is_empty() {
            return (cut, true);
        }
        cut.clear();
        while let Some(rest) = self.components_without(&cut, inside).first() {
            let count = |pair: &Pair| users.get(pair).map_or(0, |users| users.count);
            let round = self.shortest_round(rest, &cut);
            let Some(least) = round.into_iter().min_by_key(|pair| (count(pair), *pair)) else {
                break;
            };
            cut.insert(least);
        }
        (cut, false)
    }

    /// A shortest round among buffers that can all wait for each other.
    fn shortest_round(&self, members: &[u32], without: &BTreeSet<Pair>) -> Vec<Pair> {
        let mut best: Vec<Pair> = Vec::new();
        for start in members.iter().take(STARTS_MAX) {
            let round = self.round_from(*start, members, without);
            if !round.is_empty() && (best.is_empty() || round.len() < best.len()) {
                best = round;
            }
        }
        best
    }

    /// A shortest round through `start`.
    fn round_from(&self, start: u32, members: &[u32], without: &BTreeSet<Pair>) -> Vec<Pair> {
        // by member: the one before it on the way from `start`
        let mut before: Vec<Option<u32>> = vec![None; members.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(buffer) = queue.pop_front() {
            for to in &self.on[buffer as usize] {
                let Ok(place) = members.binary_search(to) else { continue };
                if without.contains(&(buffer, *to)) {
                    continue;
                }
                if *to == start {
                    let mut round = vec![(buffer, start)];
                    let mut at = buffer;
                    while at != start {
                        let place = members.binary_search(&at).ok();
                        let Some(earlier) = place.and_then(|place| before[place]) else { break };
                        round.push((earlier, at));
                        at = earlier;
                    }
                    round.reverse();
                    return round;
                }
                if before[place].is_none() {
                    before[place] = Some(buffer);
                    queue.push_back(*to);
                }
            }
        }
        Vec::new()
    }

    /// The QPs that make each turn, by the ports that ECMP chooses for them.
    fn users(&self) -> BTreeMap<Pair, Users> {
        let mut users: BTreeMap<Pair, Users> = BTreeMap::new();
        self.each_way(|qp, back, turns| {
            // a way may go round
            for (place, pair) in turns.iter().enumerate() {
                if turns[..place].contains(pair) {
                    continue;
                }
                let users = users.entry(*pair).or_default();
                users.count += 1;
                if users.first.len() < NAMED {
                    users.first.push((qp, back));
                }
            }
        });
        users
    }

    /// One more than the most of these turns on a way; none if some way goes round.
    fn priorities(&self, cut: &BTreeSet<Pair>) -> Option<u32> {
        let mut most = 0;
        let mut round = false;
        self.each_way(|_, _, turns| {
            let made: Vec<&Pair> = turns.iter().filter(|pair| cut.contains(pair)).collect();
            most = most.max(made.len() as u32);
            let distinct: BTreeSet<&Pair> = made.iter().copied().collect();
            round |= distinct.len() < made.len();
        });
        (!round).then_some(most + 1)
    }

    /// Calls back with the turns that each QP makes there and back, in order.
    fn each_way(&self, mut call: impl FnMut(u32, bool, &[Pair])) {
        let (spec, wiring) = (self.spec, self.wiring);
        let ecmps: Vec<Option<Ecmp>> = (0u32..)
            .zip(&spec.switches)
            .map(|(node, config)| {
                let number = spec.topology.node(NodeId(node)).number;
                config.as_deref().map(|config| Ecmp::new(&config.ecmp, number))
            })
            .collect();
        let ecmp = |node: u32| ecmps[node as usize].clone();
        let mut turns = Vec::new();
        for (qp, info) in wiring.qps.iter().enumerate() {
            for back in [false, true] {
                let sender = if back { info.target } else { info.source };
                let Some(nic) = spec.nics[sender as usize].as_deref() else { continue };
                let dscp = if back { nic.qos.ack_dscp.unwrap_or(info.dscp) } else { info.dscp };
                let pcp = nic.qos.priority(dscp);
                let way = wiring.way_by(qp, back, ecmp, |node| self.routes[node.index()]);
                let mut dscp = dscp;
                let buffers = (0..).zip(&way).filter_map(|(place, egress): (usize, _)| {
                    let port = wiring.wires[*egress as usize].peer;
                    let config = spec.switch_ports[port as usize].as_deref()?;
                    let (_, pg) = Classifier::new(&config.qos).place(dscp, pcp);
                    if let (Some(bounce), Some(out)) =
                        (&self.bounces[port as usize], way.get(place + 1))
                    {
                        dscp = bounce.dscp(dscp, wiring.wires[*out as usize].index);
                    }
                    Some(Buffer { port: PortId(port), pg }.number())
                });
                let buffers: Vec<u32> = buffers.collect();
                turns.clear();
                turns.extend(buffers.windows(2).map(|pair| (pair[0], pair[1])));
                turns.retain(|(from, to)| self.on[*from as usize].binary_search(to).is_ok());
                call(qp as u32, back, &turns);
            }
        }
    }
}
