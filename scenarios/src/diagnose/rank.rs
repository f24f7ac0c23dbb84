//! What findings cost: of equal severity the one that cost most comes first.

use models::report::{Finding, Report};
use serde_json::{Value, json};

/// Puts findings into their order, and what each cost, where that is known, into its evidence: as a
/// share of the bandwidth, or of the time, of all traffic (`lost_share`).
pub(super) fn rank(findings: &mut [Finding], report: &Report) {
    for finding in findings.iter_mut() {
        if let Some(share) = lost_share(finding, report).filter(|share| *share > 0.0) {
            finding.evidence.insert("lost_share".to_owned(), json!(share));
        }
    }
    let lost = |finding: &Finding| number(finding, "lost_share").unwrap_or(0.0);
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(lost(b).total_cmp(&lost(a))));
}

fn number(finding: &Finding, key: &str) -> Option<f64> {
    finding.evidence.get(key).and_then(Value::as_f64)
}

fn lost_share(finding: &Finding, report: &Report) -> Option<f64> {
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    match finding.kind.as_str() {
        "deadlock" | "qp_error" | "stalled" | "unfinished" => undelivered(report),
        // what was sent again took the place of something new
        "lossless_drops" | "lossy_drops" | "link_loss" | "late_acks" | "packet_rate_limited" => {
            share(report.totals.retransmitted_packets, report.totals.data_packets)
        }
        "pause_victims" | "job_paused_by_other" => number(finding, "lost_share_of_all_flows"),
        "paused_by_others" => number(finding, "paused_share"),
        "receiver_limited" => {
            let port = finding.evidence.get("port").and_then(Value::as_str)?;
            let port = report.ports.iter().find(|other| *other.port == *port)?;
            Some((1.0 - number(finding, "rx_bps")? / port.rate_bps as f64).max(0.0))
        }
        _ => None,
    }
}

/// Payload of sized flows that never came.
fn undelivered(report: &Report) -> Option<f64> {
    let sized = report.flows.iter().filter_map(|flow| Some((flow.bytes?, flow.delivered_bytes)));
    let (asked, came) =
        sized.fold((0, 0), |(asked, came), (bytes, delivered)| (asked + bytes, came + delivered));
    (asked > 0).then(|| asked.saturating_sub(came) as f64 / asked as f64)
}
