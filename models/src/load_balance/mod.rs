//! How a switch chooses among equal next hops.

mod ecmp;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ecmp::{Ecmp, EcmpConfig, EcmpFunction, EcmpSeed, FiveTuple, HashField};

/// What chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadBalance {
    /// The hash of `[switch.ecmp]`: one next hop for all packets of a flow.
    #[default]
    Ecmp,
    /// Chance, for each data packet (random packet spraying: Dixit et al., INFOCOM 2013). ACKs, NAKs
    /// and CNPs keep to the hash.
    Spray,
}
