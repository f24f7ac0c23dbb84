//! The fabric as a picture: hosts below, tiers of switches above, each direction of a cable coloured
//! by what its port did.

mod build;
mod draw;
mod episodes;
mod layout;

use std::collections::BTreeMap;

pub(crate) use build::build;
pub(crate) use draw::{Picture, legends, svg};
pub(crate) use episodes::{Played, TICKS, played};

/// Width of the picture.
pub(crate) const WIDTH: f64 = 1160.0;

/// A fabric, laid out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Map {
    /// Hosts, or groups of them, and switches.
    pub(crate) spots: Vec<Spot>,
    /// Directions of cables.
    pub(crate) halves: Vec<Half>,
    /// By name of a port: its half.
    pub(crate) of_port: BTreeMap<String, usize>,
    /// Names of the tiers, the hosts' first, and their heights.
    pub(crate) tiers: Vec<(String, f64)>,
    /// Hosts stand together by the switches that they are on.
    pub(crate) grouped: bool,
    /// Height of the picture.
    pub(crate) height: f64,
}

/// A node, or a group of hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spot {
    /// `leaf0`, `host0–host15`.
    pub(crate) name: String,
    /// Below the name: the rail of a switch, or the number of hosts.
    pub(crate) detail: String,
    /// Hosts that it stands for; 0 for a switch.
    pub(crate) hosts: usize,
    /// Cables to the nearest host.
    pub(crate) tier: usize,
    /// Its middle.
    pub(crate) at: (f64, f64),
    /// Size of its box.
    pub(crate) size: (f64, f64),
}

/// What the ports of a spot that lead to another one send.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Half {
    /// The spots.
    pub(crate) ends: [usize; 2],
    /// Its ports, as places in the report.
    pub(crate) ports: Vec<usize>,
    /// From the spot to the middle of the way.
    pub(crate) line: [(f64, f64); 3],
    /// Shares of the run in which it sent, and was paused; share of frames that it marked; frames of
    /// it that were dropped. Of several ports, the greatest.
    pub(crate) values: [f64; 4],
    /// It is in a circle of pauses.
    pub(crate) stuck: bool,
}

/// What halves are coloured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    /// For scripts and files.
    pub(crate) id: &'static str,
    /// As a person reads it.
    pub(crate) name: &'static str,
    /// What each colour stands for, the first for nothing.
    pub(crate) words: [&'static str; 5],
    /// Values up to which the first colours reach; above the last it is the last colour.
    edges: [f64; 4],
}

/// All of them, in the order of [`Half::values`].
pub(crate) const MEASURES: [Measure; 4] = [
    Measure {
        id: "utilisation",
        name: "Utilisation",
        words: ["up to 5 %", "to 35 %", "to 65 %", "to 90 %", "over 90 %"],
        edges: [0.05, 0.35, 0.65, 0.9],
    },
    Measure {
        id: "pauses",
        name: "Time paused",
        words: ["never", "up to 1 %", "to 10 %", "to 30 %", "over 30 %"],
        edges: [0.0, 0.01, 0.1, 0.3],
    },
    Measure {
        id: "marks",
        name: "ECN marks",
        words: ["none", "up to 0.1 % of frames", "to 1 %", "to 10 %", "over 10 %"],
        edges: [0.0, 0.001, 0.01, 0.1],
    },
    Measure {
        id: "drops",
        name: "Drops",
        words: ["none", "up to 10 frames", "to 100", "to 1000", "more"],
        edges: [0.0, 10.0, 100.0, 1000.0],
    },
];

impl Measure {
    /// The colour of a value: 0 to 4.
    pub(crate) fn level(&self, value: f64) -> usize {
        self.edges.iter().position(|edge| value <= *edge).unwrap_or(4)
    }
}

impl Half {
    /// The middle of its line.
    pub(crate) fn middle(&self) -> (f64, f64) {
        let [a, b, c] = self.line;
        ((a.0 + 2.0 * b.0 + c.0) / 4.0, (a.1 + 2.0 * b.1 + c.1) / 4.0)
    }
}
