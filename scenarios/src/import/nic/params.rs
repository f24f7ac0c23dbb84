//! DCQCN's parameters: their names in `mlxconfig`, in sysfs (`ecn/roce_rp`, `ecn/roce_np`) and in
//! debugfs (`cc_params`), their units, and the keys that they are here.
//!
//! Names and units: Linux `drivers/infiniband/hw/mlx5/cong.c`, NVIDIA DOCA "DCQCN CC Parameters".

use std::ops::RangeInclusive;

use sim_core::{Bytes, Delta, Rate};

use super::super::text::exact;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Flag,
    Count,
    Micros,
    Mbps,
    Bytes,
}

/// A parameter that is a key.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) key: &'static str,
    /// Name in sysfs; in capitals, that of `mlxconfig`.
    pub(super) name: &'static str,
    /// Name in debugfs.
    debugfs: &'static str,
    unit: Unit,
    /// What the model knows.
    range: RangeInclusive<u64>,
}

const fn param(
    key: &'static str,
    name: &'static str,
    debugfs: &'static str,
    unit: Unit,
    range: RangeInclusive<u64>,
) -> Param {
    Param { key, name, debugfs, unit, range }
}

/// More than any field holds.
const MOST: u64 = u32::MAX as u64;

#[rustfmt::skip]
const PARAMS: [Param; 18] = [
    param("nic.congestion.rpg_time_reset", "rpg_time_reset", "rp_time_reset", Unit::Micros, 1..=MOST),
    param("nic.congestion.rpg_byte_reset", "rpg_byte_reset", "rp_byte_reset", Unit::Bytes, 0..=MOST),
    param("nic.congestion.rpg_threshold", "rpg_threshold", "rp_threshold", Unit::Count, 0..=MOST),
    param("nic.congestion.rpg_ai_rate", "rpg_ai_rate", "rp_ai_rate", Unit::Mbps, 0..=MOST),
    param("nic.congestion.rpg_hai_rate", "rpg_hai_rate", "rp_hai_rate", Unit::Mbps, 0..=MOST),
    param("nic.congestion.rpg_min_rate", "rpg_min_rate", "rp_min_rate", Unit::Mbps, 1..=MOST),
    param("nic.congestion.rpg_gd", "rpg_gd", "rp_gd", Unit::Count, 10..=15),
    param("nic.congestion.rpg_min_dec_fac", "rpg_min_dec_fac", "rp_min_dec_fac", Unit::Count, 0..=100),
    param("nic.congestion.dce_tcp_g", "dce_tcp_g", "rp_dce_tcp_g", Unit::Count, 0..=1024),
    param("nic.congestion.dce_tcp_rtt", "dce_tcp_rtt", "rp_dce_tcp_rtt", Unit::Micros, 1..=MOST),
    param("nic.congestion.rate_reduce_monitor_period", "rate_reduce_monitor_period", "rp_rate_reduce_monitor_period", Unit::Micros, 0..=MOST),
    param("nic.congestion.initial_alpha_value", "initial_alpha_value", "rp_initial_alpha_value", Unit::Count, 0..=1024),
    param("nic.congestion.rate_to_set_on_first_cnp", "rate_to_set_on_first_cnp", "rp_rate_to_set_on_first_cnp", Unit::Mbps, 0..=MOST),
    param("nic.congestion.clamp_tgt_rate", "clamp_tgt_rate", "rp_clamp_tgt_rate", Unit::Flag, 0..=1),
    param("nic.congestion.clamp_tgt_rate_after_time_inc", "clamp_tgt_rate_after_time_inc", "rp_clamp_tgt_rate_ati", Unit::Flag, 0..=1),
    param("nic.np.min_time_between_cnps", "min_time_between_cnps", "np_min_time_between_cnps", Unit::Micros, 0..=MOST),
    param("nic.qos.cnp_dscp", "cnp_dscp", "np_cnp_dscp", Unit::Count, 0..=63),
    // no key, but only 0 (the port's speed) is what the model does
    param("", "rpg_max_rate", "rp_max_rate", Unit::Mbps, 0..=0),
];

/// The parameter of this name in sysfs or debugfs, or, in small letters, in `mlxconfig`.
pub(super) fn find(name: &str) -> Option<&'static Param> {
    PARAMS.iter().find(|param| param.name == name || param.debugfs == name)
}

impl Param {
    /// The value as it stands in TOML; else what the model knows instead.
    pub(super) fn toml(&self, number: u64) -> Result<String, String> {
        if !self.range.contains(&number) {
            let (from, to) = (self.range.start(), self.range.end());
            return Err(match (from, *to) {
                (from, to) if *from == to => format!("{from}"),
                (from, MOST) => format!("{from} or more"),
                (from, to) => format!("{from} to {to}"),
            });
        }
        let text = |value: String| format!("\"{value}\"");
        Ok(match self.unit {
            Unit::Flag => (number == 1).to_string(),
            Unit::Count => number.to_string(),
            Unit::Micros => text(exact(Delta::from_us(number))),
            Unit::Mbps => text(exact(Rate::from_mbps(number))),
            Unit::Bytes => text(exact(Bytes::new(number))),
        })
    }
}

/// A number as these tools print it: `255`, `0xff`, `True(1)`, `Enable`.
pub(super) fn number(text: &str) -> Option<u64> {
    let inner = text.rsplit_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(text);
    if let Some(digits) = inner.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    match inner.to_ascii_lowercase().as_str() {
        "true" | "enable" | "enabled" => Some(1),
        "false" | "disable" | "disabled" => Some(0),
        digits => digits.parse().ok(),
    }
}

/// `[0, 3]` of a bit mask.
pub(super) fn priorities_of_mask(mask: u64) -> String {
    list((0..8).filter(|priority| mask & (1 << priority) != 0))
}

/// An array of TOML.
pub(super) fn list(numbers: impl IntoIterator<Item = u8>) -> String {
    let words: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    format!("[{}]", words.join(", "))
}
