//! The sizes of a scenario's collectives: each size of a sweep is a run of its own.

use std::sync::Arc;

use models::BuildError;
use models::collective::{Collective, CollectiveConfig};
use models::traffic::TrafficConfig;

/// All collectives, with all their sizes.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// (place among the traffic sections, keys, sizes).
    collectives: Vec<(u32, Arc<CollectiveConfig>, Vec<u64>)>,
}

impl Sweep {
    /// The collectives among `sections`. Those that sweep must have equally many sizes.
    pub fn new(sections: &[TrafficConfig]) -> Result<Self, BuildError> {
        let mut collectives = Vec::new();
        for (index, section) in (0..).zip(sections) {
            let TrafficConfig::Collective(config) = section else { continue };
            let sizes = config.bytes.list(&format!("traffic[{index}].bytes"))?;
            collectives.push((index, Arc::new(config.clone()), sizes));
        }
        let sweep = Sweep { collectives };
        let runs = sweep.runs();
        for (index, _, sizes) in &sweep.collectives {
            if sizes.len() != 1 && sizes.len() != runs {
                let message = format!(
                    "{} sizes, where another collective has {runs}: run i takes the i-th of each",
                    sizes.len()
                );
                return Err(BuildError::new(format!("traffic[{index}].bytes"), message));
            }
        }
        Ok(sweep)
    }

    /// Number of runs: sizes of the longest sweep, at least one.
    pub fn runs(&self) -> usize {
        self.collectives.iter().map(|(.., sizes)| sizes.len()).max().unwrap_or(1)
    }

    /// True if there is a collective.
    pub fn has_collectives(&self) -> bool {
        !self.collectives.is_empty()
    }

    /// The collectives of one run.
    pub fn collectives(&self, run: usize) -> Vec<Collective> {
        let of_run = |(section, config, sizes): &(u32, Arc<CollectiveConfig>, Vec<u64>)| {
            let bytes = sizes[run.min(sizes.len() - 1)];
            Collective { config: config.clone(), bytes, section: *section, cut: None }
        };
        self.collectives.iter().map(of_run).collect()
    }
}
