//! To which assumed figures an answer is sensitive.
//!
//! A figure that nobody vouches for does no harm where it did not matter: buffer thresholds in a
//! run without congestion, say. What happened in a run says which figures mattered.

use models::report::{CollectiveReport, Report};
use models::size::Size;
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use sim_core::{Bytes, Delta};

use crate::provenance::{Figure, assumed, is_below};

/// A figure that matters, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensitive<'a> {
    /// The figure.
    pub figure: &'a Figure,
    /// What happened in the run that makes it matter.
    pub because: &'static str,
}

/// The assumed ones among the figures in use that the answer depends on.
///
/// It is a rule of thumb: what is not listed may still matter a little, or through the paths that
/// were chosen (ECMP) and classes (`qos`), which are choices rather than figures.
pub fn sensitive<'a>(figures: &'a [Figure], report: &Report) -> Vec<Sensitive<'a>> {
    let run = Run { figures, report };
    let holding: Vec<&Rule> = RULES.iter().filter(|rule| (rule.holds)(&run)).collect();
    let matters = |figure: &'a Figure| {
        // the name of a pool is no figure
        if figure.key.ends_with(".pool") {
            return None;
        }
        let applies =
            |rule: &&&Rule| rule.keys.iter().any(|section| is_below(&figure.key, section));
        let rule = holding.iter().find(applies)?;
        Some(Sensitive { figure, because: rule.because })
    };
    assumed(figures).filter_map(matters).collect()
}

/// What a rule looks at.
struct Run<'a> {
    figures: &'a [Figure],
    report: &'a Report,
}

impl Run<'_> {
    fn found(&self, kind: &str) -> bool {
        self.report.findings.iter().any(|finding| finding.kind == kind)
    }
}

/// True if the lanes of some collective hardly ever wait.
fn busy_lanes(run: &Run<'_>) -> bool {
    let waiting = |c: &CollectiveReport| c.waiting_to_receive + c.waiting_to_send;
    run.report.collectives.iter().any(|collective| waiting(collective) < 0.25)
}

/// If `holds`, the figures below `keys` matter.
struct Rule {
    keys: &'static [&'static str],
    because: &'static str,
    holds: fn(&Run<'_>) -> bool,
}

/// What decides when a switch sends PFC.
const XOFF_KEYS: &[&str] = &[
    "switch.buffer.size",
    "switch.buffer.cell",
    "switch.buffer.slices",
    "switch.buffer.pools",
    "switch.buffer.pg",
    "switch.buffer.lossless.reserve",
    "switch.buffer.lossless.dynamic_th",
    "switch.buffer.lossless.static_th",
    "switch.buffer.lossless.xon",
    "switch.buffer.lossless.xon_offset",
    "switch.pfc.headroom",
    "switch.pfc.smallest_frame",
    "nic.receive",
];

/// The first rule that applies to a figure names the reason.
const RULES: &[Rule] = &[
    Rule { keys: &["switch.buffer"], because: "frames found no buffer", holds: dropped },
    Rule { keys: XOFF_KEYS, because: "PFC paused links", holds: paused },
    Rule {
        keys: &[
            "switch.pfc.quanta",
            "switch.pfc.refresh",
            "switch.pfc.response_time",
            "nic.pfc.quanta",
            "nic.pfc.refresh",
            "nic.pfc.response_time",
            "nic.pfc.control_waits",
        ],
        because: "PFC paused links",
        holds: paused,
    },
    Rule { keys: XOFF_KEYS, because: "a queue came near XOFF", holds: near_xoff },
    Rule {
        keys: &["switch.ecn", "nic.congestion", "nic.pacing"],
        because: "ECN marked frames",
        holds: marked,
    },
    Rule {
        keys: &["nic.np"],
        because: "CNPs were sent",
        holds: |run| run.report.totals.cnp_sent > 0,
    },
    Rule { keys: &["nic.transport"], because: "packets were sent again", holds: sent_again },
    Rule {
        keys: &["host.host_memory"],
        because: "slices went through host memory",
        holds: |run| run.found("gdr_off"),
    },
    Rule {
        keys: &["host.nic.pcie"],
        because: "PCIe is slower than the ports",
        holds: |run| run.found("pcie_limited"),
    },
    Rule {
        keys: &["host.channel_rate"],
        because: "the GPUs' channels are busy most of the time",
        holds: |run| run.found("few_channels") || busy_lanes(run),
    },
    Rule {
        keys: &[
            "host.slice_latency",
            "host.launch_latency",
            "host.proxy_latency",
            "host.gdr_flush",
            "host.nvlink",
            "host.channel_rate",
        ],
        because: "the smallest collective takes less than 1 ms",
        holds: |run| run.report.collectives.iter().any(|c| c.time_s.is_some_and(|t| t < 1e-3)),
    },
    Rule {
        keys: &["switch.latency", "nic.latency"],
        because: "latency is a good part of the shortest flow",
        holds: short,
    },
];

fn dropped(run: &Run<'_>) -> bool {
    let buffer = |reason: &str| reason.starts_with("ingress_") || reason.starts_with("egress_");
    run.report.totals.drops.iter().any(|(reason, count)| buffer(reason) && *count > 0)
}

fn paused(run: &Run<'_>) -> bool {
    let totals = &run.report.totals;
    totals.pause_episodes > 0 || totals.pfc_xoff_frames > 0
}

/// True if some queue held half of what one priority group alone may take.
fn near_xoff(run: &Run<'_>) -> bool {
    let deepest = run.report.ports.iter().map(|port| port.max_queue_bytes).max().unwrap_or(0);
    xoff_limit(run.figures).is_some_and(|limit| deepest >= limit / 2)
}

fn marked(run: &Run<'_>) -> bool {
    let totals = &run.report.totals;
    totals.ecn_marked_packets > 0 || totals.cnp_sent > 0 || totals.cnp_handled > 0
}

fn sent_again(run: &Run<'_>) -> bool {
    let totals = &run.report.totals;
    totals.retransmitted_packets > 0 || totals.timeouts > 0 || totals.nak_sent > 0
}

/// True if the assumed latency of a switch or NIC is a hundredth of the shortest flow or more.
fn short(run: &Run<'_>) -> bool {
    let shortest = run.report.flows.iter().filter_map(|flow| flow.fct_s).reduce(f64::min);
    let latencies = assumed(run.figures).filter(|figure| figure.key.ends_with(".latency"));
    let longest =
        latencies.filter_map(|figure| unquoted(&figure.value).parse::<Delta>().ok()).max();
    match (longest.filter(|latency| *latency > Delta::ZERO), shortest) {
        (Some(latency), Some(fct_s)) => latency.as_secs() >= fct_s / 100.0,
        _ => false,
    }
}

/// What one lossless priority group takes of an empty switch before XOFF, in bytes.
fn xoff_limit(figures: &[Figure]) -> Option<u64> {
    let value = |key: &str| {
        let figure = figures.iter().find(|figure| figure.key == key)?;
        Some(unquoted(&figure.value))
    };
    let cell: Bytes = value("switch.buffer.cell")?.parse().ok()?;
    let bytes = |key: &str| {
        let text = StrDeserializer::<Error>::new(value(key)?);
        Some(Size::deserialize(text).ok()?.to_bytes(cell))
    };
    if let Some(limit) = bytes("switch.buffer.lossless.static_th") {
        return Some(limit);
    }
    let slices: u64 = value("switch.buffer.slices")?.parse().ok()?;
    let pool = bytes("switch.buffer.pools.ingress.size").or(bytes("switch.buffer.size"))?;
    let exponent: i32 = value("switch.buffer.lossless.dynamic_th")?.parse().ok()?;
    // use = alpha x (pool - use)
    let alpha = f64::from(exponent.clamp(-8, 7)).exp2();
    Some((pool as f64 / slices.max(1) as f64 * alpha / (1.0 + alpha)) as u64)
}

fn unquoted(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Kind;
    use crate::provenance::in_use;

    #[test]
    fn the_limit_of_a_group_is_that_of_the_switch() {
        let limit = |name| xoff_limit(&in_use(&[(Kind::SwitchPreset, name)], &[]));
        // half of 266549 cells of 254 B
        assert_eq!(limit("tomahawk5"), Some(266_549 * 254 / 2));
        // a fifth of half of 38462204 B
        assert_eq!(limit("tomahawk3"), Some(38_462_204 / 2 / 5));
        // a ninth of 32 MiB
        assert_eq!(limit("generic"), Some((32 << 20) / 9));
        let own = ["switch.buffer.lossless"];
        assert_eq!(xoff_limit(&in_use(&[], &own)), None);
    }
}
