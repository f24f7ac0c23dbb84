//! No congestion control: every QP sends at line rate, or at a rate that it is given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::Rate;

use super::RateController;

/// `algorithm = "none"`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoneConfig {
    /// Wire rate of each QP, as a rate limiter of the NIC holds it; line rate if absent.
    pub rate: Option<Rate>,
}

impl NoneConfig {
    /// Checks ranges.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        match self.rate {
            Some(rate) if rate.bps() < 1_000_000 => {
                Err(("rate", format!("{rate} is out of range: at least 1Mbps is expected")))
            }
            _ => Ok(()),
        }
    }
}

/// A constant rate.
#[derive(Clone, Debug)]
pub struct NoControl {
    rate: Rate,
}

impl NoControl {
    /// Always the rate of `config`, but not more than `line_rate`.
    pub fn new(config: &NoneConfig, line_rate: Rate) -> Self {
        NoControl { rate: config.rate.unwrap_or(line_rate).min(line_rate) }
    }
}

impl RateController for NoControl {
    #[inline]
    fn rate(&self) -> Rate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_its_own_holds_below_line_rate() {
        let at = |gbps: Option<u64>| {
            let config = NoneConfig { rate: gbps.map(Rate::from_gbps) };
            NoControl::new(&config, Rate::from_gbps(40)).rate()
        };
        assert_eq!(at(None), Rate::from_gbps(40));
        assert_eq!(at(Some(2)), Rate::from_gbps(2));
        assert_eq!(at(Some(100)), Rate::from_gbps(40));
        assert!(NoneConfig { rate: Some(Rate::from_mbps(0)) }.check().is_err());
    }
}
