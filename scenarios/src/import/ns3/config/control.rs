//! What `CC_MODE` and ConWeave's keys say.

use sim_core::{Delta, Rate};

use super::{Config, micros};
use crate::import::ImportError;
use crate::import::text::{Line, quoted};

/// What `LB_MODE`, `ENABLE_PFC` and `ENABLE_IRN` say.
pub(in crate::import::ns3) struct Conweave {
    /// As `switch.load_balance` has it; absent for ECMP.
    pub(in crate::import::ns3) balance: Option<&'static str>,
    pub(in crate::import::ns3) pfc: bool,
    /// Selective repeat.
    pub(in crate::import::ns3) irn: bool,
}

/// Congestion control.
pub(in crate::import::ns3) enum Control {
    /// Rates stay as they are.
    None,
    Dcqcn(Dcqcn),
    Hpcc(Hpcc),
    Timely {
        additive: Rate,
        hyper: Rate,
        min: Rate,
    },
    Dctcp {
        gain: f64,
        additive: Rate,
        min: Rate,
    },
}

/// Settings of HPCC.
pub(in crate::import::ns3) struct Hpcc {
    pub(in crate::import::ns3) target: f64,
    pub(in crate::import::ns3) stages: u32,
    pub(in crate::import::ns3) additive: Rate,
    pub(in crate::import::ns3) min: Rate,
    pub(in crate::import::ns3) fast_react: bool,
    pub(in crate::import::ns3) multi_rate: bool,
    /// Of HPCC-PINT: the base of its logarithm, and the share of ACKs that count.
    pub(in crate::import::ns3) pint: Option<[f64; 2]>,
}

/// Settings of DCQCN.
pub(in crate::import::ns3) struct Dcqcn {
    pub(in crate::import::ns3) alpha_period: Delta,
    pub(in crate::import::ns3) decrease_period: Delta,
    pub(in crate::import::ns3) increase_period: Delta,
    pub(in crate::import::ns3) clamp: bool,
    /// The weight of the old alpha.
    pub(in crate::import::ns3) keep: f64,
    pub(in crate::import::ns3) recoveries: u32,
    pub(in crate::import::ns3) additive: Rate,
    pub(in crate::import::ns3) hyper: Rate,
    pub(in crate::import::ns3) min: Rate,
}

impl Config<'_> {
    /// The keys that ConWeave added.
    pub(super) fn conweave(&self, warnings: &mut Vec<String>) -> Result<Conweave, ImportError> {
        let balance = match self.whole("LB_MODE", 0)? {
            0 => None,
            2 => Some("drill"),
            3 => Some("conga"),
            6 => Some("flowlet"),
            mode => {
                let name = if mode == 9 { " (ConWeave itself)" } else { "" };
                let message = format!(
                    "LB_MODE {mode}{name} is not modelled; 0 (ECMP), 2 (DRILL), 3 (CONGA) or 6 \
                     (LetFlow) is expected"
                );
                return Err(self.error("LB_MODE", message));
            }
        };
        if let Some(line) = self.lines.get("LB_MODE") {
            let paths = match balance {
                None => "",
                Some(_) => ", and each switch chooses, not the first for the whole path",
            };
            warnings.push(line.note(format!(
                "LB_MODE is a key of ConWeave, whose switches share their buffers in another way; \
                 the scenario has those of HPCC{paths}"
            )));
        }
        Ok(Conweave {
            balance,
            pfc: self.flag("ENABLE_PFC", true)?,
            irn: self.flag("ENABLE_IRN", false)?,
        })
    }

    /// What `CC_MODE` says.
    pub(super) fn control(
        &self,
        marks: bool,
        window: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Control, ImportError> {
        let mode = self.whole("CC_MODE", 1)?;
        match mode {
            1 if !marks => Ok(Control::None),
            1 => Ok(Control::Dcqcn(self.dcqcn()?)),
            3 | 10 => Ok(Control::Hpcc(self.hpcc(mode == 10, window, warnings)?)),
            7 => Ok(Control::Timely {
                additive: self.required_rate("RATE_AI", "100Mb/s")?,
                hyper: self.required_rate("RATE_HAI", "500Mb/s")?,
                min: self.min_rate()?,
            }),
            8 => {
                let additive = self.value("DCTCP_RATE_AI")?;
                let additive =
                    additive.map(|(line, word)| line.rate("DCTCP_RATE_AI", word)).transpose()?;
                Ok(Control::Dctcp {
                    gain: self.fraction("EWMA_GAIN", 0.0)?,
                    additive: additive.unwrap_or(Rate::from_gbps(1)),
                    min: self.min_rate()?,
                })
            }
            12 => Ok(Control::None),
            other => {
                let message = format!(
                    "CC_MODE {other} is not modelled; 1 (DCQCN), 3 (HPCC), 7 (TIMELY), 8 (DCTCP), 10 \
                     (HPCC-PINT) or 12 (none) is expected"
                );
                Err(self.error("CC_MODE", message))
            }
        }
    }

    fn hpcc(
        &self,
        pint: bool,
        window: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Hpcc, ImportError> {
        if !window {
            let message = "HPCC divides by its window: HAS_WIN 1 is expected";
            return Err(self.error("HAS_WIN", message));
        }
        self.only("SAMPLE_FEEDBACK", &[0], "ACKs of empty queues that do not count")?;
        if !self.flag("GLOBAL_T", true)? {
            let message = "GLOBAL_T 0: each pair of hosts has a base RTT of its own in ns-3; the \
                           scenario has the longest for all";
            warnings.push(self.error("GLOBAL_T", message).to_string());
        }
        if self.lines.contains_key("INT_MULTI") && !pint {
            let message = "INT_MULTI: ns-3 rounds what switches write to units of 128 B and 80 B \
                           times this; the scenario does not";
            warnings.push(self.error("INT_MULTI", message).to_string());
        }
        let base = |(line, word): (&Line<'_>, &str)| {
            let base = word.parse::<f64>().ok().filter(|base| (1.001..=2.0).contains(base));
            base.ok_or_else(|| {
                let message =
                    format!("{} is no PINT_LOG_BASE; 1.001 to 2 is expected", quoted(word));
                line.error(message)
            })
        };
        let base = self.value("PINT_LOG_BASE")?.map_or(Ok(1.05), base)?;
        Ok(Hpcc {
            target: self.fraction("U_TARGET", 0.95)?,
            stages: self.whole("MI_THRESH", 5)?,
            additive: self.required_rate("RATE_AI", "40Mb/s")?,
            min: self.min_rate()?,
            fast_react: pint || self.flag("FAST_REACT", true)?,
            multi_rate: !pint && self.flag("MULTI_RATE", true)?,
            pint: match pint {
                true => Some([base, self.fraction("PINT_PROB", 1.0)?]),
                false => None,
            },
        })
    }

    fn dcqcn(&self) -> Result<Dcqcn, ImportError> {
        // if absent: the program's 1 / 16 in whole numbers
        let gain = self.fraction("EWMA_GAIN", 0.0)?;
        let min = self.min_rate()?;
        let increase = self.required("RP_TIMER", "300")?;
        Ok(Dcqcn {
            alpha_period: self.micros("ALPHA_RESUME_INTERVAL", 55)?,
            decrease_period: self.micros("RATE_DECREASE_INTERVAL", 4)?,
            increase_period: micros("RP_TIMER", increase)?,
            clamp: self.flag("CLAMP_TARGET_RATE", false)?,
            keep: 1.0 - gain,
            recoveries: self.whole("FAST_RECOVERY_TIMES", 5)?,
            additive: self.required_rate("RATE_AI", "20Mb/s")?,
            hyper: self.required_rate("RATE_HAI", "200Mb/s")?,
            min,
        })
    }
}
