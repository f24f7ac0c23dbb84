//! `rocesim init`: a commented starting scenario from a few numbers.

mod numbers;
mod shape;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::str::FromStr;

use sim_core::{Bytes, Delta, Rate};

use crate::load::suggestion;
use crate::resolve::Complaint;

/// What is known before there is a scenario; what is absent gets a default.
#[derive(Clone, Debug, PartialEq)]
pub struct InitOptions {
    /// The shape of the fabric.
    pub shape: Shape,
    /// Hosts.
    pub hosts: Option<u32>,
    /// GPUs of each host.
    pub gpus: Option<u32>,
    /// NICs of each host, with one port each.
    pub nics: Option<u32>,
    /// Rate of a NIC port, and of all other links.
    pub nic: Option<Rate>,
    /// For `nic.preset`.
    pub nic_preset: Option<String>,
    /// For `switch.preset`.
    pub switch: Option<String>,
    /// For `host.preset`.
    pub node: Option<String>,
    /// Leaves, or switches of a ring.
    pub leaves: Option<u32>,
    /// Spines.
    pub spines: Option<u32>,
    /// Ports of each switch of a fat tree.
    pub k: Option<u32>,
    /// Most bandwidth down for one up, at each leaf.
    pub oversubscription: Option<f64>,
    /// Length of every cable.
    pub cable: Cable,
    /// Size of each flow, or of the collective.
    pub bytes: Option<Sizes>,
    /// What is sent.
    pub pattern: Option<Pattern>,
}

impl InitOptions {
    /// Nothing but the shape.
    pub fn new(shape: Shape) -> Self {
        InitOptions {
            shape,
            hosts: None,
            gpus: None,
            nics: None,
            nic: None,
            nic_preset: None,
            switch: None,
            node: None,
            leaves: None,
            spines: None,
            k: None,
            oversubscription: None,
            cable: Cable::default(),
            bytes: None,
            pattern: None,
        }
    }
}

/// The scenario as TOML, or why these numbers make none.
pub fn scenario(options: &InitOptions) -> Result<String, Complaint> {
    let numbers = numbers::Numbers::new(options)?;
    let fabric = shape::fabric(options, &numbers)?;
    Ok(write::to_toml(&numbers, &fabric))
}

/// The message about a flag.
fn refuse<T>(flag: &str, message: impl fmt::Display) -> Result<T, Complaint> {
    Err(Complaint(format!("error: {flag}: {message}")))
}

/// Why a word of the command line is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownWord(String);

macro_rules! words {
    ($type:ident: $($variant:ident $name:literal),+) => {
        impl $type {
            /// All names.
            pub const NAMES: &[&str] = &[$($name),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text {
                    $($name => Ok($type::$variant),)+
                    _ => {
                        let hint = suggestion(text, $type::NAMES);
                        Err(UnknownWord(format!("`{text}` is unknown{hint}")))
                    }
                }
            }
        }
    };
}

/// The shapes of which a scenario can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All hosts on one switch.
    Star,
    /// Two-tier Clos.
    LeafSpine,
    /// Three-tier fat tree.
    FatTree,
    /// Each NIC of a host on a leaf of its own.
    Rail,
    /// Two switches and a trunk.
    Dumbbell,
    /// Switches in a circle.
    Ring,
}

words!(Shape: Star "star", LeafSpine "leaf-spine", FatTree "fat-tree", Rail "rail",
    Dumbbell "dumbbell", Ring "ring");

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A collective over all GPUs.
    Allreduce,
    /// All hosts but the last to the last.
    Incast,
    /// Every host to one other.
    Permutation,
}

words!(Pattern: Allreduce "allreduce", Incast "incast", Permutation "permutation");

/// `"1MB"`, or a sweep by doubling: `"128MiB..8GiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One size.
    One(Bytes),
    /// From the first to the last, each twice the one before.
    Sweep(Bytes, Bytes),
}

impl FromStr for Sizes {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let size = |text: &str| match text.parse::<Bytes>() {
            Ok(Bytes::ZERO) => Err(UnknownWord("0 bytes are nothing to send".to_owned())),
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(UnknownWord(error.to_string())),
        };
        let Some((from, to)) = text.split_once("..") else { return size(text).map(Sizes::One) };
        match (size(from)?, size(to)?) {
            (from, to) if from < to => Ok(Sizes::Sweep(from, to)),
            _ => Err(UnknownWord(format!("{text:?} does not grow: write \"128MiB..8GiB\""))),
        }
    }
}

/// A cable by its length, in steps of 1 mm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    mm: u64,
}

impl Default for Cable {
    /// Across a row of racks: 30 m.
    fn default() -> Self {
        Cable { mm: 30_000 }
    }
}

impl Cable {
    /// Light takes 5 ns/m in fibre, and about as long in copper.
    pub fn delay(self) -> Delta {
        Delta::from_ps(self.mm * 5)
    }
}

impl FromStr for Cable {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let metres = match (text.strip_suffix("km"), text.strip_suffix('m')) {
            (Some(number), _) => number.trim().parse::<f64>().map(|km| km * 1000.0),
            (None, Some(number)) => number.trim().parse(),
            (None, None) => "".parse(),
        };
        match metres {
            Ok(metres) if (0.1..=10_000.0).contains(&metres) => {
                Ok(Cable { mm: (metres * 1000.0).round() as u64 })
            }
            _ => Err(UnknownWord(format!("{text:?} is no length of 0.1m to 10km: write \"30m\""))),
        }
    }
}

impl fmt::Display for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} m", self.mm as f64 / 1000.0)
    }
}
