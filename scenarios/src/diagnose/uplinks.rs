//! Rings that cross the upper tiers more often than they must.

use std::collections::{BTreeMap, BTreeSet};

use models::collective::Link;
use models::fabric::Role;
use models::ids::NodeId;
use models::report::{Finding, PortReport, Severity};
use models::topology::NodeKind;
use serde_json::json;

use super::collective::Job;
use super::finding;

/// A link between switches is full that is busy for this share of the time, start and end included.
const FULL: f64 = 0.85;
/// Above this a host's link counts as used well: it is not the uplinks alone.
const HOSTS_MOST: f64 = 0.7;
/// Hosts whose order is written down.
const LISTED: usize = 64;

/// How the connections of a ring use the tiers above the leaves.
struct Crossings {
    /// Connections between hosts, in all channels,
    connections: usize,
    /// and those that go over the upper tier although both hosts have a port on one leaf.
    of_rails: usize,
    /// Edges between hosts, of one channel,
    edges: usize,
    /// those whose hosts have no leaf in common,
    of_racks: usize,
    /// and the fewest that any order has.
    least: usize,
    /// The job's hosts, rack by rack.
    sorted: Vec<NodeId>,
}

impl Job<'_> {
    /// Links between switches are full of the ring's data, and hosts' links are not.
    pub(super) fn uplinks_full(&self) -> Option<Finding> {
        if self.share() > 0.9 {
            return None;
        }
        let wires = &self.plan.wiring.wires;
        let between = |port: &u32| {
            let wire = &wires[*port as usize];
            wire.is_switch && wires[wire.peer as usize].is_switch
        };
        let hottest = |a: &u32, b: &u32| self.busy(*a).total_cmp(&self.busy(*b));
        let full = self.on_way().into_iter().max_by(hottest).filter(between)?;
        let of_hosts = self.source_ports().into_iter().map(|port| self.busy(port));
        let hosts = of_hosts.fold(0.0, f64::max);
        if self.busy(full) < FULL || hosts > HOSTS_MOST || self.own_share(full) < 0.5 {
            return None;
        }
        let crossings = self.crossings(&between);
        let (why, remedy, set) = self.crossing_cause(&crossings);
        let severity = if remedy.is_some() { Severity::Warning } else { Severity::Info };
        let port: &PortReport = self.port(full);
        let text = format!(
            "{}: links between switches are the limit: {} is busy {:.0} % of the time, hosts' links at \
             most {:.0} %; {why}",
            self.name(),
            port.port,
            self.busy(full) * 100.0,
            hosts * 100.0
        );
        let evidence = [
            ("port", json!(port.port)),
            ("utilisation", json!(self.busy(full))),
            ("host_utilisation", json!(hosts)),
            ("edges", json!(crossings.edges)),
            ("edges_between_racks", json!(crossings.of_racks)),
            ("least_edges_between_racks", json!(crossings.least)),
            ("connections", json!(crossings.connections)),
            ("connections_between_rails", json!(crossings.of_rails)),
            ("rx_pause_frames", json!(pauses_into(self, full))),
        ];
        let mut found = finding("uplinks_full", severity, text, evidence, remedy);
        found.set = set;
        Some(found)
    }

    /// The part of what a port carries that is the collective's.
    fn own_share(&self, port: u32) -> f64 {
        let flows = self.flows;
        let bytes = |flow: &u32| self.report.flows[*flow as usize].delivered_bytes as f64;
        let all: f64 = flows.of(port as usize).iter().map(bytes).sum();
        let own = |flow: &&u32| self.qps.binary_search(&(**flow as usize)).is_ok();
        let own: f64 = flows.of(port as usize).iter().filter(own).map(bytes).sum();
        own / all.max(1.0)
    }

    fn crossings(&self, between: &dyn Fn(&u32) -> bool) -> Crossings {
        let job = &self.plan.wiring.jobs[self.number as usize];
        let topology = &self.plan.wiring.topology;
        // the ways of the first QP of each connection tell
        let mut crosses: BTreeMap<u32, bool> = BTreeMap::new();
        for qp in &self.qps {
            let Role::Data { connection, .. } = self.plan.wiring.qps[*qp].role else { continue };
            let passes = || self.plan.path(*qp).iter().any(between);
            crosses.entry(connection).or_insert_with(passes);
        }
        let leaves = |host: NodeId| -> BTreeSet<NodeId> {
            let near = topology.ports_of(host).map(|port| topology.neighbour(port));
            near.filter(|near| topology.node(*near).kind == NodeKind::Switch).collect()
        };
        let hosts = job.hosts();
        let leaves: BTreeMap<NodeId, BTreeSet<NodeId>> =
            hosts.iter().map(|host| (*host, leaves(*host))).collect();
        let mut found = Crossings {
            connections: crosses.len(),
            of_rails: 0,
            edges: 0,
            of_racks: 0,
            least: 0,
            sorted: hosts,
        };
        for (number, crosses) in crosses {
            let connection = &job.connections[number as usize];
            let first = connection.channel == 0 && matches!(connection.link, Link::Remote { .. });
            found.edges += usize::from(first);
            let ends = [connection.from, connection.to].map(|rank| job.ranks[rank as usize].host);
            let near = !leaves[&ends[0]].is_disjoint(&leaves[&ends[1]]);
            found.of_rails += usize::from(near && crosses);
            found.of_racks += usize::from(first && !near);
        }
        let rack = |host: &NodeId| leaves[host].first().copied();
        found.sorted.sort_by_key(rack);
        let racks: BTreeSet<Option<NodeId>> = found.sorted.iter().map(rack).collect();
        found.least = if racks.len() > 1 { racks.len() } else { 0 };
        found
    }

    /// Why so much crosses, what helps, and how that is set.
    fn crossing_cause(&self, crossings: &Crossings) -> (String, Option<String>, Vec<String>) {
        if !self.is_ring() {
            let why = "its ranks exchange data with others in other racks, and uplinks are too few for it";
            return (why.to_owned(), None, Vec::new());
        }
        let nccl = &self.plan.spec.nccl;
        let Crossings { edges, of_racks, least, of_rails, connections, .. } = *crossings;
        if of_rails > 0 {
            let why = format!(
                "{of_rails} of {connections} connections leave by one rail and arrive by another, \
                 though their servers share leaves (CROSS_NIC = {})",
                nccl.cross_nic
            );
            let (remedy, set) = match nccl.cross_nic {
                0 => ("let each ring stay on one NIC (IB_HCA, host.nics[].affinity)", vec![]),
                _ => {
                    ("CROSS_NIC = 0 keeps a ring on its rail", vec!["nccl.CROSS_NIC=0".to_owned()])
                }
            };
            return (why, Some(remedy.to_owned()), set);
        }
        let verb = if of_racks == 1 { "leaves its rack" } else { "leave their rack" };
        if of_racks > least {
            let why = format!(
                "{of_racks} of {edges} edges of the ring {verb}; in order of racks {least} would"
            );
            let remedy = "number ranks by rack: a host file in order of leaves".to_owned();
            return (why, Some(remedy), self.order(&crossings.sorted).into_iter().collect());
        }
        let why = format!(
            "{of_racks} of {edges} edges of the ring {verb}, and no order has fewer: uplinks are too \
             few for it"
        );
        (why, None, Vec::new())
    }

    /// The assignment that gives the job its hosts in this order.
    fn order(&self, hosts: &[NodeId]) -> Option<String> {
        let section = self.plan.spec.collectives.get(self.number as usize)?.section;
        let called = self.plan.spec.sections.get(section as usize)?;
        let all: Vec<NodeId> = self.plan.wiring.topology.hosts().collect();
        let number = |host: &NodeId| all.binary_search(host).ok().map(|number| number.to_string());
        let numbers: Option<Vec<String>> = hosts.iter().map(number).collect();
        let numbers = numbers.filter(|numbers| numbers.len() <= LISTED)?;
        Some(format!("traffic{called}.hosts=[{}]", numbers.join(", ")))
    }
}

/// XOFF frames that came to the ports of its way which lead to the switch of a port.
fn pauses_into(job: &Job<'_>, port: u32) -> u64 {
    let wires = &job.plan.wiring.wires;
    let node = wires[port as usize].node;
    let fed = job.on_way().into_iter().filter(|from| {
        let peer = wires[*from as usize].peer;
        wires[peer as usize].node == node
    });
    fed.map(|from| job.port(from).rx_pause_frames).sum()
}
