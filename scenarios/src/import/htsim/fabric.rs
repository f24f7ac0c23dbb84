//! The topology that holds exactly the hosts of a matrix.

use std::str::FromStr;

use models::topology::{FatTreeConfig, LeafSpineConfig, LinkConfig, StarConfig};
use models::topology::{Topology, TopologyConfig};

use super::HtsimOptions;
use super::matrix::Matrix;
use crate::import::ImportError;
use crate::import::text::TextFile;
use crate::load::suggestion;

/// A shape whose size follows from the number of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Three tiers of k-port switches, without oversubscription: k^3/4 hosts.
    FatTree,
    /// Two tiers of k-port switches, without oversubscription: k^2/2 hosts.
    LeafSpine,
    /// All on one switch.
    Star,
}

impl FromStr for Fabric {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        const NAMES: [&str; 3] = ["fat-tree", "leaf-spine", "star"];
        match word {
            "fat-tree" => Ok(Fabric::FatTree),
            "leaf-spine" => Ok(Fabric::LeafSpine),
            "star" => Ok(Fabric::Star),
            _ => Err(format!("a matrix makes no {word:?}{}", suggestion(word, &NAMES))),
        }
    }
}

impl Fabric {
    /// The hosts of k-port switches.
    fn hosts(self, k: u32) -> u64 {
        let k = u64::from(k);
        match self {
            Fabric::FatTree => k * k * k / 4,
            Fabric::LeafSpine => k * k / 2,
            Fabric::Star => k,
        }
    }

    /// The topology for the hosts of `matrix`, with its text.
    pub(super) fn topology(
        self,
        file: &TextFile,
        matrix: &Matrix,
        options: &HtsimOptions,
    ) -> Result<TopologyConfig, ImportError> {
        let HtsimOptions { link, delay, .. } = *options;
        let link = LinkConfig { rate: link, delay, loss: 0.0 };
        let topology = match self {
            Fabric::FatTree => {
                let k = self.ports(file, matrix)?;
                TopologyConfig::FatTree(FatTreeConfig { k, link, uplink: None })
            }
            Fabric::LeafSpine => {
                let k = self.ports(file, matrix)?;
                TopologyConfig::LeafSpine(LeafSpineConfig {
                    leaves: k,
                    spines: k / 2,
                    hosts_per_leaf: k / 2,
                    link,
                    uplink: None,
                    uplinks_per_spine: 1,
                    ports_per_host: 1,
                })
            }
            Fabric::Star => {
                TopologyConfig::Star(StarConfig { hosts: matrix.nodes, link, ports_per_host: 1 })
            }
        };
        match Topology::build(&topology) {
            Ok(_) => Ok(topology),
            Err(error) => {
                let key = error.key.strip_prefix("topology.").unwrap_or(&error.key);
                Err(file.error_at(matrix.nodes_line, format!("{key}: {}", error.message)))
            }
        }
    }

    /// The even number of ports for which the hosts are as many as the matrix has.
    fn ports(self, file: &TextFile, matrix: &Matrix) -> Result<u32, ImportError> {
        let nodes = u64::from(matrix.nodes);
        let even = || (1..).map(|half| 2 * half);
        let above = even().find(|k| self.hosts(*k) >= nodes).unwrap_or(2);
        if self.hosts(above) == nodes {
            return Ok(above);
        }
        let (name, formula) = match self {
            Fabric::LeafSpine => ("leaf-spine", "k^2/2"),
            _ => ("fat tree", "k^3/4"),
        };
        let near: Vec<String> = [above - 2, above]
            .iter()
            .filter(|k| **k > 0)
            .map(|k| format!("{} (k = {k})", self.hosts(*k)))
            .collect();
        let fit: Vec<String> = even().take(8).map(|k| self.hosts(k).to_string()).collect();
        let message = format!(
            "{nodes} hosts fill no {name} of k-port switches; {} do: {formula} for an even k ({}, \
             ...)",
            near.join(" and "),
            fit.join(", ")
        );
        Err(file.error_at(matrix.nodes_line, message))
    }
}
