//! Which buffers can wait for which: what can be said about deadlocks without running.
//!
//! A *buffer* is a lossless priority group at an ingress port of a switch. It depends on the
//! buffer at the other end of a cable if frames in it may be queued for that cable, and the queue
//! obeys that buffer's pauses. As long as no buffer depends on itself, however many steps away, none
//! waits for ever (Dally and Seitz, IEEE Trans. Computers 1987). A cycle is necessary for a
//! deadlock, and not sufficient: it takes the right amount of traffic too (Hu et al., HotNets 2016).

mod cycle;
mod failure;
mod walk;

pub use cycle::{Cure, Cycle};
pub use failure::{Failure, LinkFailures, link_failures};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fabric::{Spec, Wiring};
use crate::ids::{NodeId, PRIORITIES, PortId};
use crate::nic::Notify;
use crate::routing::Routes;
use crate::switch::{Bounce, Classifier, SwitchConfig};
use walk::{Place, Stream};

/// A lossless priority group at an ingress port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Buffer {
    /// The port.
    pub port: PortId,
    /// The priority group.
    pub pg: u8,
}

impl Buffer {
    fn number(self) -> u32 {
        self.port.0 * PRIORITIES as u32 + u32::from(self.pg)
    }

    fn of(number: u32) -> Self {
        let priorities = PRIORITIES as u32;
        Buffer { port: PortId(number / priorities), pg: (number % priorities) as u8 }
    }
}

/// Frames in buffer `from` that go on to buffer `to`, a cable further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Where they wait.
    pub from: Buffer,
    /// What they wait for.
    pub to: Buffer,
}

/// Frames to a host that come back to a switch by the port by which they came before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoutingLoop {
    /// The host that they never reach this way.
    pub target: NodeId,
    /// The switches that they pass, in turn.
    pub switches: Vec<NodeId>,
}

/// All dependencies of a fabric.
#[derive(Clone, Debug)]
pub struct Dependencies<'a> {
    spec: &'a Spec,
    wiring: &'a Wiring,
    /// By node.
    routes: Vec<&'a Routes>,
    /// By buffer: what it depends on, sorted.
    on: Vec<Vec<u32>>,
    /// By node: cables to the nearest host; of hosts 0.
    level: Vec<u32>,
    /// By ingress port.
    bounces: Arc<[Option<Bounce>]>,
    /// At most a few of each target.
    loops: Vec<RoutingLoop>,
    /// Pairs of a sending port and an address that have no way.
    unreachable: u64,
}

/// The traffic of a scenario, as far as routes tell it apart, and what switches do with it.
#[derive(Clone, Debug)]
pub struct Traffic<'a> {
    spec: &'a Spec,
    wiring: &'a Wiring,
    streams: Vec<Stream>,
    /// By port of a switch: how it classifies, pauses and obeys; equal ones once.
    place_of: Vec<u32>,
    places: Vec<Place>,
    level: Vec<u32>,
    /// By ingress port: where frames get another DSCP.
    bounces: Arc<[Option<Bounce>]>,
    /// All DSCPs that they may get.
    dscps: Vec<u8>,
}

impl<'a> Traffic<'a> {
    /// What the QPs of a planned fabric send, their answers included.
    pub fn new(spec: &'a Spec, wiring: &'a Wiring) -> Self {
        let (place_of, places) = places(spec);
        let level = spec.topology.levels();
        let bounces: Arc<[Option<Bounce>]> = (0..)
            .map(PortId)
            .zip(&spec.switch_ports)
            .map(|(port, config)| Bounce::at(config.as_deref()?, &spec.topology, &level, port))
            .collect();
        let given: BTreeSet<u8> = bounces.iter().flatten().flat_map(Bounce::gives).collect();
        let dscps = given.into_iter().collect();
        Traffic {
            streams: streams(spec, wiring),
            level,
            bounces,
            dscps,
            spec,
            wiring,
            place_of,
            places,
        }
    }

    /// What buffers depend on where all nodes have these routes; whatever ECMP may choose counts.
    pub fn dependencies<'r>(&self, routes: &'r Routes) -> Dependencies<'r>
    where
        'a: 'r,
    {
        self.dependencies_by(|_| routes)
    }

    /// The same where the routes of some nodes are others.
    pub fn dependencies_by<'r>(&self, routes: impl Fn(NodeId) -> &'r Routes) -> Dependencies<'r>
    where
        'a: 'r,
    {
        let nodes = self.spec.topology.nodes().len() as u32;
        let routes: Vec<&'r Routes> = (0..nodes).map(|node| routes(NodeId(node))).collect();
        let walked = walk::walk(self, &routes);
        Dependencies {
            spec: self.spec,
            wiring: self.wiring,
            routes,
            level: self.level.clone(),
            bounces: self.bounces.clone(),
            on: walked.on,
            loops: walked.loops,
            unreachable: walked.unreachable,
        }
    }
}

impl Dependencies<'_> {
    /// True if no buffer can wait for itself.
    pub fn is_acyclic(&self) -> bool {
        self.components().is_empty()
    }

    /// Routing loops that the traffic meets.
    pub fn loops(&self) -> &[RoutingLoop] {
        &self.loops
    }

    /// Pairs of a sending port and a destination between which there is no way.
    pub fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// Number of turns among lossless buffers.
    pub fn len(&self) -> usize {
        self.on.iter().map(Vec::len).sum()
    }

    /// True if no buffer depends on another: nothing is lossless, or there is one switch.
    pub fn is_empty(&self) -> bool {
        self.on.iter().all(Vec::is_empty)
    }

    /// Whether the frames come down to a switch and go up again: against the order that keeps Clos
    /// networks free of cycles.
    pub fn is_valley(&self, turn: Turn) -> bool {
        let topology = &self.spec.topology;
        let level = |node: NodeId| self.level[node.index()];
        let here = level(topology.port(turn.from.port).node);
        level(topology.neighbour(turn.from.port)) > here
            && level(topology.port(turn.to.port).node) > here
    }
}

/// The traffic of all QPs, by what routes and switches tell apart.
fn streams(spec: &Spec, wiring: &Wiring) -> Vec<Stream> {
    let topology = &spec.topology;
    let groups: Vec<_> = (0..topology.addresses().len() as u32)
        .map(|address| wiring.routes.group(topology, address))
        .collect();
    let mut streams: BTreeMap<_, Stream> = BTreeMap::new();
    let mut add = |host: u32, dscp: u8, address: u32, ports: &[PortId]| {
        let Some(nic) = spec.nics[host as usize].as_deref() else { return };
        let pcp = nic.qos.priority(dscp);
        let target = topology.addresses()[address as usize].host;
        let key = (dscp, pcp, &groups[address as usize]);
        let new = || Stream { dscp, pcp, address, target, ports: Vec::new() };
        streams.entry(key).or_insert_with(new).ports.extend(ports.iter().map(|port| port.0));
    };
    for qp in &wiring.qps {
        add(qp.source, qp.dscp, qp.target_address, &[PortId(qp.source_port)]);
        let Some(nic) = spec.nics[qp.target as usize].as_deref() else { continue };
        let ports = &topology.addresses()[qp.target_address as usize].ports;
        add(qp.target, nic.qos.ack_dscp.unwrap_or(qp.dscp), qp.source_address, ports);
        if nic.np.notify == Notify::Cnp {
            add(qp.target, nic.qos.cnp_dscp, qp.source_address, ports);
        }
    }
    let mut streams: Vec<Stream> = streams.into_values().collect();
    for stream in &mut streams {
        stream.ports.sort_unstable();
        stream.ports.dedup();
    }
    streams
}

fn places(spec: &Spec) -> (Vec<u32>, Vec<Place>) {
    let mut known: Vec<(*const SwitchConfig, u32)> = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    let mut place_of = Vec::with_capacity(spec.switch_ports.len());
    for config in &spec.switch_ports {
        let Some(config) = config else {
            place_of.push(u32::MAX);
            continue;
        };
        // neighbours share theirs
        let found = known.iter().rev().find(|known| known.0 == Arc::as_ptr(config));
        let number = found.map(|known| known.1).unwrap_or_else(|| {
            let place = Place::new(config);
            let same = places.iter().position(|known| *known == place);
            let number = same.unwrap_or(places.len()) as u32;
            if same.is_none() {
                places.push(place);
            }
            known.push((Arc::as_ptr(config), number));
            number
        });
        place_of.push(number);
    }
    (place_of, places)
}

impl Place {
    fn new(config: &SwitchConfig) -> Self {
        Place {
            classifier: Classifier::new(&config.qos),
            lossless: config.pfc.priorities.iter().fold(0, |mask, priority| mask | 1 << priority),
            obeys: config.pfc_to_queue(),
        }
    }
}
