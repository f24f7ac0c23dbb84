//! From the ports of a report to the nodes and cables of a picture.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use models::report::Report;

use super::layout::lay_out;
use super::{Half, Map, Spot};
use crate::link::links;

/// More hosts than these stand in groups.
const HOSTS: usize = 96;

/// A node of the fabric.
struct Node<'a> {
    name: &'a str,
    host: bool,
    tier: usize,
    peers: BTreeSet<usize>,
}

/// The picture of a fabric.
pub(crate) fn build(report: &Report) -> Map {
    let nodes = nodes(report);
    let (mut spots, spot_of) = spots(&nodes);
    let rails = rails(report, &nodes);
    let numbers: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(number, node)| (node.name, number)).collect();
    for (number, rail) in &rails {
        spots[spot_of[*number]].detail = format!("rail {rail}");
    }
    let owner: BTreeMap<&str, usize> = report
        .ports
        .iter()
        .filter_map(|port| Some((port.port.as_str(), *numbers.get(port.node.as_str())?)))
        .collect();
    let values: BTreeMap<&str, [f64; 4]> = links(report)
        .iter()
        .map(|link| {
            let frames = link.port.tx_packets.max(1) as f64;
            let marks = link.port.ecn_marked_packets as f64 / frames;
            let drops: u64 = link.drops.iter().map(|(_, count)| *count).sum();
            (link.port.port.as_str(), [link.utilisation, link.paused, marks, drops as f64])
        })
        .collect();
    let stuck: BTreeSet<&str> =
        report.deadlocks.iter().flat_map(|deadlock| &deadlock.cycle).map(String::as_str).collect();
    let mut halves: Vec<Half> = Vec::new();
    let mut known: BTreeMap<[usize; 2], usize> = BTreeMap::new();
    let mut of_port = BTreeMap::new();
    for (place, port) in report.ports.iter().enumerate() {
        let ends = [port.port.as_str(), port.peer.as_str()].map(|port| owner.get(port));
        let [Some(from), Some(to)] = ends else { continue };
        let ends = [spot_of[*from], spot_of[*to]];
        let index = *known.entry(ends).or_insert_with(|| {
            halves.push(Half { ends, ..Half::default() });
            halves.len() - 1
        });
        let half = &mut halves[index];
        half.ports.push(place);
        half.stuck |= stuck.contains(port.port.as_str());
        for (value, of_port) in half.values.iter_mut().zip(values[port.port.as_str()]) {
            *value = value.max(of_port);
        }
        of_port.insert(port.port.to_string(), index);
    }
    let grouped = spots.iter().any(|spot| spot.hosts > 1);
    let mut map = Map { spots, halves, of_port, grouped, ..Map::default() };
    lay_out(&mut map);
    map
}

/// All nodes, each with how far it is from the nearest host.
fn nodes(report: &Report) -> Vec<Node<'_>> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut owner: BTreeMap<&str, usize> = BTreeMap::new();
    for port in &report.ports {
        let number = *numbers.entry(&port.node).or_insert_with(|| {
            let (name, peers) = (port.node.as_str(), BTreeSet::new());
            nodes.push(Node { name, host: false, tier: usize::MAX, peers });
            nodes.len() - 1
        });
        nodes[number].host |= port.port[port.node.len().min(port.port.len())..].starts_with("/nic");
        owner.insert(&port.port, number);
    }
    for port in &report.ports {
        if let (Some(from), Some(to)) = (owner.get(&*port.port), owner.get(&*port.peer)) {
            nodes[*from].peers.insert(*to);
        }
    }
    let mut queue: VecDeque<usize> = (0..nodes.len()).filter(|node| nodes[*node].host).collect();
    queue.iter().for_each(|node| nodes[*node].tier = 0);
    while let Some(node) = queue.pop_front() {
        for peer in nodes[node].peers.clone() {
            if nodes[peer].tier == usize::MAX {
                nodes[peer].tier = nodes[node].tier + 1;
                queue.push_back(peer);
            }
        }
    }
    let most = nodes.iter().map(|node| node.tier).filter(|tier| *tier < usize::MAX).max();
    // switches that no host reaches stand above all others
    let above = most.unwrap_or(0) + 1;
    nodes.iter_mut().filter(|node| node.tier == usize::MAX).for_each(|node| node.tier = above);
    nodes
}

/// The spots, and by node its spot.
fn spots(nodes: &[Node<'_>]) -> (Vec<Spot>, Vec<usize>) {
    let grouped = nodes.iter().filter(|node| node.host).count() > HOSTS;
    let mut spots: Vec<Spot> = Vec::new();
    let mut spot_of = vec![0; nodes.len()];
    let mut groups: BTreeMap<&BTreeSet<usize>, usize> = BTreeMap::new();
    let mut last: Vec<&str> = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let mut add = || {
            let (name, tier) = (node.name.to_owned(), node.tier);
            spots.push(Spot { name, tier, ..Spot::default() });
            last.push(node.name);
            spots.len() - 1
        };
        let spot = match node.host && grouped {
            true => *groups.entry(&node.peers).or_insert_with(add),
            false => add(),
        };
        spots[spot].hosts += usize::from(node.host);
        last[spot] = node.name;
        spot_of[number] = spot;
    }
    for (spot, last) in spots.iter_mut().zip(last).filter(|(spot, _)| spot.hosts > 1) {
        spot.name = format!("{}–{}", spot.name, rest(&spot.name, last));
        spot.detail = format!("{} hosts", spot.hosts);
    }
    (spots, spot_of)
}

/// What is to be written of a name that follows another of its kind: `31` after `host0`.
fn rest<'a>(first: &str, last: &'a str) -> &'a str {
    let word = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = last.strip_prefix(word).filter(|number| !word.is_empty() && !number.is_empty());
    number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())).unwrap_or(last)
}

/// The rails of switches: all their cables to hosts end at the same NIC of each.
fn rails(report: &Report, nodes: &[Node<'_>]) -> BTreeMap<usize, u32> {
    let numbers: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(number, node)| (node.name, number)).collect();
    let mut nics: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for port in &report.ports {
        let Some((_, nic)) = port.peer.rsplit_once("/nic") else { continue };
        let nic = nic.split(':').next().and_then(|nic| nic.parse().ok());
        if let (Some(nic), Some(node)) = (nic, numbers.get(port.node.as_str())) {
            nics.entry(*node).or_default().insert(nic);
        }
    }
    let all: BTreeSet<u32> = nics.values().flatten().copied().collect();
    if all.len() < 2 || nics.values().any(|nics| nics.len() > 1) {
        return BTreeMap::new();
    }
    nics.into_iter().filter_map(|(node, nics)| Some((node, nics.into_iter().next()?))).collect()
}
