//! What can be said without simulating: [`notes`], and the [`tiers`] of headroom.
//!
//! Each note names a key and the device that it was found at, so that [`Loaded::written`] can say
//! where the key was set: in the file, by an override, by a preset, or nowhere.
//!
//! [`Loaded::written`]: crate::resolve::Loaded::written

mod classes;
mod collisions;
mod deadlock;
mod ecn;
mod headroom;
mod paths;
mod watchdog;

use std::collections::BTreeMap;

use models::fabric::Plan;
use models::ids::{NodeId, PortId};
use models::report::Severity;
use models::switch::{Classifier, SwitchConfig};
use models::topology::NodeKind;
use serde::Serialize;

pub use collisions::efficiency;
pub use deadlock::{deadlock, failures};
pub use headroom::{Pool, Tier, explained, length, pools, tiers};
pub(crate) use watchdog::freed;

/// One thing to know about a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// The key that it is about.
    pub key: String,
    /// In plain words, with the consequence.
    pub text: String,
    /// The numbers behind it, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// The port whose configuration it is about, if it is about one.
    #[serde(skip)]
    pub at: Option<PortId>,
}

/// All notes on a scenario, the worst first. A healthy one has none above `Info`.
pub fn notes(plan: &Plan) -> Vec<Note> {
    let mut notes = Notes { plan, notes: Vec::new(), seen: BTreeMap::new() };
    notes.mtu();
    notes.classes();
    notes.ecn();
    notes.headroom();
    notes.quanta();
    notes.watchdogs();
    notes.ecmp();
    notes.collisions();
    notes.spray();
    notes.oversubscription();
    notes.deadlocks();
    notes.collectives();
    let Notes { mut notes, seen, .. } = notes;
    for (index, more) in seen.values().filter(|(_, more)| *more > 0) {
        notes[*index].text += &format!(" (and {more} more like this)");
    }
    notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
    notes
}

struct Notes<'a> {
    plan: &'a Plan,
    notes: Vec<Note>,
    /// By what a note says of all devices alike: its index, and how often it was said again.
    seen: BTreeMap<String, (usize, u32)>,
}

impl Notes<'_> {
    /// Adds a note; those that say the same, `what`, of other devices are counted only.
    fn add(&mut self, note: Note, what: &str) {
        let what = format!("{} {:?} {what}", note.key, note.severity);
        match self.seen.get_mut(&what) {
            Some((_, more)) => *more += 1,
            None => {
                self.seen.insert(what, (self.notes.len(), 0));
                self.notes.push(note);
            }
        }
    }

    /// Adds a note on the whole fabric, once.
    fn say(&mut self, severity: Severity, key: &str, text: String) {
        if !self.seen.contains_key(&text) {
            self.seen.insert(text.clone(), (self.notes.len(), 0));
            self.notes.push(note(severity, key, text, None));
        }
    }

    fn name(&self, port: PortId) -> String {
        self.plan.wiring.topology.port_name(port)
    }
}

fn note(severity: Severity, key: &str, text: String, at: Option<PortId>) -> Note {
    Note { severity, key: key.to_owned(), text, details: Vec::new(), at }
}

/// The two ends of each cable in turn, with the names that notes give to their keys.
fn cables(plan: &Plan) -> impl Iterator<Item = [PortId; 2]> {
    let topology = &plan.wiring.topology;
    let ports = (0..topology.ports().len() as u32).map(PortId);
    ports.map(|port| [port, topology.port(port).peer])
}

fn is_switch(plan: &Plan, port: PortId) -> bool {
    let topology = &plan.wiring.topology;
    topology.node(topology.port(port).node).kind == NodeKind::Switch
}

/// The priorities for which a port sends and obeys PFC.
fn pfc_priorities(plan: &Plan, port: PortId) -> &[u8] {
    let node = plan.wiring.topology.port(port).node;
    match (&plan.spec.switch_ports[port.index()], &plan.spec.nics[node.index()]) {
        (Some(switch), _) => &switch.pfc.priorities,
        (None, Some(nic)) => &nic.pfc.priorities,
        (None, None) => &[],
    }
}

/// The DSCPs of data, and a host that sends each.
fn data_dscps(plan: &Plan) -> BTreeMap<u8, NodeId> {
    let mut dscps = BTreeMap::new();
    for qp in &plan.wiring.qps {
        dscps.entry(qp.dscp).or_insert(NodeId(qp.source));
    }
    dscps
}

/// The congestion control of some NIC that marks slow down: its name.
pub(crate) fn heeds_marks(plan: &Plan) -> Option<&'static str> {
    let mut configs = plan.spec.nics.iter().flatten().map(|nic| &nic.congestion);
    configs.find(|config| config.heeds_marks()).map(|config| config.name())
}

/// Some NIC runs DCQCN.
pub(crate) fn dcqcn_is_on(plan: &Plan) -> bool {
    heeds_marks(plan).is_some_and(|name| name.starts_with("dcqcn"))
}

/// Queue and priority group of a DSCP at a switch.
fn class_of(switch: &SwitchConfig, dscp: u8) -> (u8, u8) {
    Classifier::new(&switch.qos).place(dscp, 0)
}
