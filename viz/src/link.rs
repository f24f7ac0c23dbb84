//! Directed links and how busy they were, from the reports of the ports at their ends.

use std::collections::BTreeMap;

use models::report::{PortReport, Report};

use sim_core::units::grouped;

use crate::scale::percent;

/// Preamble and inter-frame gap: link time that is not among the bytes of a port.
const GAP_BYTES: f64 = 20.0;

/// The link from a port to its peer.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    /// The port that sends.
    pub(crate) port: &'a PortReport,
    /// Share of the run in which frames and their gaps were on it.
    pub(crate) utilisation: f64,
    /// Share of the run in which the port was paused, summed over priorities.
    pub(crate) paused: f64,
    /// Frames that the peer dropped as they arrived, by reason.
    pub(crate) drops: Vec<(&'a str, u64)>,
}

/// All links, the busiest first; equal ones in the order of the report.
pub(crate) fn links<'a>(report: &'a Report) -> Vec<Link<'a>> {
    let ports: BTreeMap<&str, &PortReport> =
        report.ports.iter().map(|port| (port.port.as_str(), port)).collect();
    let of_run = |span_s: f64| {
        let share = span_s / report.simulated_time_s;
        if share.is_finite() && share > 0.0 { share } else { 0.0 }
    };
    let link = |port: &'a PortReport| {
        let PortReport { tx_bytes, tx_packets, rate_bps, .. } = port;
        let bits = (*tx_bytes as f64 + GAP_BYTES * *tx_packets as f64) * 8.0;
        // a port counts what it drops of the frames that come to it
        let drops = ports.get(port.peer.as_str()).into_iter().flat_map(|peer| &peer.drops);
        let drops = drops.map(|(reason, count)| (reason.as_str(), *count));
        Link {
            port,
            utilisation: of_run(bits / *rate_bps as f64),
            paused: of_run(port.paused_s),
            drops: drops.filter(|(_, count)| *count > 0).collect(),
        }
    };
    let mut links: Vec<Link<'_>> = report.ports.iter().map(link).collect();
    links.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    links
}

impl Link<'_> {
    /// `12.5 %`; nothing if it was never paused.
    pub(crate) fn paused_text(&self) -> String {
        if self.paused > 0.0 { percent(self.paused) } else { String::new() }
    }

    /// `1 234 (5.6 %)`: marks, and their share of the frames; nothing without marks.
    pub(crate) fn marks_text(&self) -> String {
        match self.port.ecn_marked_packets {
            0 => String::new(),
            marks => {
                let share = marks as f64 / self.port.tx_packets.max(marks) as f64;
                format!("{} ({})", grouped(marks), percent(share))
            }
        }
    }

    /// `12 corrupt`, `30 (2 reasons)`; nothing without drops.
    pub(crate) fn drops_text(&self) -> String {
        let counts = self.drops.iter().map(|(_, count)| *count);
        let all = || grouped(counts.clone().fold(0, u64::saturating_add));
        match self.drops.as_slice() {
            [] => String::new(),
            [(reason, _)] => format!("{} {reason}", all()),
            reasons => format!("{} ({} reasons)", all(), reasons.len()),
        }
    }
}

/// What is said of the coolest links, that are not drawn: `and 216 more, at most 12 %`.
pub(crate) fn rest_text(rest: &[Link<'_>]) -> String {
    let greatest = |value: fn(&Link<'_>) -> f64| rest.iter().map(value).fold(0.0, f64::max);
    let count = |what: fn(&Link<'_>) -> bool| rest.iter().filter(|link| what(link)).count();
    let (paused, marked, dropped) = (
        count(|link| link.paused > 0.0),
        count(|link| link.port.ecn_marked_packets > 0),
        count(|link| !link.drops.is_empty()),
    );
    let utilisation = greatest(|link| link.utilisation);
    let mut text =
        format!("and {} more, at most {}", grouped(rest.len() as u64), percent(utilisation));
    if paused > 0 {
        let most = percent(greatest(|link| link.paused));
        text.push_str(&format!(" · {} paused (at most {most})", grouped(paused as u64)));
    }
    if marked > 0 {
        text.push_str(&format!(" · {} with ECN marks", grouped(marked as u64)));
    }
    if dropped > 0 {
        text.push_str(&format!(" · {} with drops", grouped(dropped as u64)));
    }
    text
}
