//! The sizes of a scenario's collectives: each size of a sweep is a run of its own.

use std::sync::Arc;

use models::BuildError;
use models::collective::msccl::MscclAlgorithm;
use models::collective::{Collective, CollectiveConfig};
use models::program::{Content, ProgramConfig};
use models::traffic::TrafficConfig;

/// All collectives, with all their sizes.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    collectives: Vec<Swept>,
}

/// A collective with its sizes.
#[derive(Clone, Debug)]
struct Swept {
    /// Its place among the traffic sections.
    section: u32,
    config: Arc<CollectiveConfig>,
    sizes: Vec<u64>,
    /// What its ranks do, if a program says it.
    algorithm: Option<Arc<MscclAlgorithm>>,
}

/// The collective that an algorithm of MSCCL is, if the program is one.
fn program(config: &ProgramConfig) -> Option<(CollectiveConfig, Arc<MscclAlgorithm>)> {
    let Some(Content::Msccl(algorithm)) = &config.content else { return None };
    let collective = CollectiveConfig {
        name: config.name.clone(),
        op: algorithm.op,
        algorithm: None,
        root: 0,
        bytes: config.bytes?,
        dtype: config.dtype.unwrap_or_default(),
        hosts: config.hosts.clone(),
        gpus: config.gpus,
        ranks: config.ranks.clone(),
        placement: config.placement.clone(),
        iterations: config.iterations.unwrap_or(1),
        warmup: config.warmup.unwrap_or(0),
        start: config.start,
    };
    Some((collective, algorithm.clone()))
}

impl Sweep {
    /// The collectives among `sections`. Those that sweep must have equally many sizes.
    pub fn new(sections: &[TrafficConfig]) -> Result<Self, BuildError> {
        let mut collectives = Vec::new();
        for (index, section) in (0..).zip(sections) {
            let (config, algorithm) = match section {
                TrafficConfig::Collective(config) => (config.clone(), None),
                TrafficConfig::Program(config) => match program(config) {
                    Some((config, algorithm)) => (config, Some(algorithm)),
                    None => continue,
                },
                _ => continue,
            };
            let sizes = config.bytes.list(&format!("traffic[{index}].bytes"))?;
            let config = Arc::new(config);
            collectives.push(Swept { section: index, config, sizes, algorithm });
        }
        let sweep = Sweep { collectives };
        let runs = sweep.runs();
        for Swept { section, sizes, .. } in &sweep.collectives {
            if sizes.len() != 1 && sizes.len() != runs {
                let message = format!(
                    "{} sizes, where another collective has {runs}: run i takes the i-th of each",
                    sizes.len()
                );
                return Err(BuildError::new(format!("traffic[{section}].bytes"), message));
            }
        }
        Ok(sweep)
    }

    /// Number of runs: sizes of the longest sweep, at least one.
    pub fn runs(&self) -> usize {
        self.collectives.iter().map(|swept| swept.sizes.len()).max().unwrap_or(1)
    }

    /// True if there is a collective.
    pub fn has_collectives(&self) -> bool {
        !self.collectives.is_empty()
    }

    /// The keys of all collectives.
    pub fn configs(&self) -> impl Iterator<Item = &CollectiveConfig> {
        self.collectives.iter().map(|swept| &*swept.config)
    }

    /// The collectives of one run.
    pub fn collectives(&self, run: usize) -> Vec<Collective> {
        let of_run = |swept: &Swept| Collective {
            config: swept.config.clone(),
            bytes: swept.sizes[run.min(swept.sizes.len() - 1)],
            section: swept.section,
            cut: None,
            algorithm: swept.algorithm.clone(),
        };
        self.collectives.iter().map(of_run).collect()
    }
}
