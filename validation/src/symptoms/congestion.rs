//! ECN and DCQCN: marks, CNPs, and what becomes of them.

use models::report::Severity;
use sim_core::units::grouped;

use super::{Check, Example, Said, Setting, Symptom, counted, largest, named};
use crate::counters::{Measured, Source};

const NO_CNPS: Example = Example { scenario: "incast", set: &["nic.np.priorities=[]"] };
const NO_REACTION: Example = Example { scenario: "incast", set: &["nic.congestion.priorities=[]"] };
const ECN_LATE: Example = Example { scenario: "allreduce-4x8-a100-congested", set: &[] };

pub(super) const EXAMPLES: &[Example] = &[NO_CNPS, NO_REACTION, ECN_LATE];

pub(super) const CHECKS: &[Check] = &[
    Check { about: "marks without CNPs", needs: &["np_ecn_marked_roce_packets"], find: no_cnps },
    Check {
        about: "CNPs without effect",
        needs: &["rp_cnp_ignored", "rp_cnp_handled"],
        find: ignored,
    },
    Check { about: "ECN before PFC", needs: MARKS, find: silent },
];

const MARKS: &[&str] = &["np_ecn_marked_roce_packets", "ecn_marked_packets"];

fn no_cnps(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let silent = measured.places.iter().filter(|counters| {
        counters.sum("np_ecn_marked_roce_packets") > 0
            && counters.has("np_cnp_sent")
            && counters.sum("np_cnp_sent") == 0
    });
    let places: Vec<(String, u64)> = silent
        .map(|counters| (counters.place.clone(), counters.sum("np_ecn_marked_roce_packets")))
        .collect();
    let marked: u64 = places.iter().map(|(_, marked)| marked).sum();
    if marked == 0 {
        return Vec::new();
    }
    let said = Said {
        kind: "no_cnps",
        severity: Severity::Warning,
        text: format!(
            "{} arrived and no CNP was sent: {}",
            counted(marked, "marked packet"),
            largest(places)
        ),
        means: "the notification point is off for this priority (roce_np/enable, or ROCE_CC_PRIO_MASK): \
                senders never hear of the congestion, and PFC alone holds them",
        example: Some(NO_CNPS),
        next: "cat /sys/class/net/DEV/ecn/roce_np/enable/3; mlxconfig -d DEV q | grep PRIO_MASK",
    };
    vec![said.with(&[("np_ecn_marked_roce_packets", marked), ("np_cnp_sent", 0)])]
}

fn ignored(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let mut found = Vec::new();
    let [sent, handled, ignored] =
        ["np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"].map(|name| measured.sum(name));
    let evidence =
        [("np_cnp_sent", sent), ("rp_cnp_handled", handled), ("rp_cnp_ignored", ignored)];
    if ignored > 0 {
        let said = Said {
            kind: "cnps_ignored",
            severity: Severity::Warning,
            text: format!(
                "{} received and ignored, {} acted on: {}",
                counted(ignored, "CNP"),
                grouped(handled),
                largest(measured.all("rp_cnp_ignored").map(named))
            ),
            means: "the reaction point is off for this priority (roce_rp/enable, or ROCE_CC_PRIO_MASK): \
                    these senders keep line rate into the congestion",
            example: Some(NO_REACTION),
            next: "cat /sys/class/net/DEV/ecn/roce_rp/enable/3",
        };
        found.push(said.with(&evidence));
    }
    let devices = measured.places.iter().filter(|counters| counters.has("rp_cnp_handled")).count();
    // one device alone is a receiver: its CNPs are handled elsewhere
    if devices >= 2 && sent > 0 && (handled + ignored) * 2 < sent {
        let said = Said {
            kind: "cnps_lost",
            severity: Severity::Warning,
            text: format!(
                "of {} that these {devices} devices sent, {} arrived",
                counted(sent, "CNP"),
                grouped(handled + ignored)
            ),
            means: "CNPs are lost on their way (their DSCP is in a class that drops), or their targets are \
                    hosts that were not asked",
            example: None,
            next: "show queue counters (the class of DSCP 48); cat .../ecn/roce_np/cnp_dscp",
        };
        found.push(said.with(&evidence));
    }
    found
}

/// Pauses without marks. Of hosts that pause, ECN cannot know.
fn silent(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let signs = [MARKS, &["np_cnp_sent", "rp_cnp_handled"]].concat();
    let marked: u64 = signs.iter().map(|name| measured.sum(name)).sum();
    let pauses = measured.sum("tx_pause_frames") + measured.sum("rx_pause_frames");
    let hosts = measured.all("tx_pause_frames");
    let by_hosts = hosts.filter(|v| v.counters.source == Source::Ethtool).any(|v| v.value > 0);
    if marked > 0 || pauses == 0 || by_hosts {
        return Vec::new();
    }
    let depth = measured.all("max_queue_bytes").max_by_key(|value| value.value);
    let depth = depth.filter(|depth| depth.value > 0).map_or(String::new(), |depth| {
        let (name, bytes) = named(depth);
        format!("; the deepest queue was {name}, {} B", grouped(bytes))
    });
    let said = Said {
        kind: "ecn_after_pfc",
        severity: Severity::Warning,
        text: format!("{} and not one marked packet{depth}", counted(pauses, "pause frame")),
        means: "ECN is off at the switches (SONiC: wred_green_enable is false by default, ecn_none), its \
                thresholds are above XOFF, or packets are not ECN-capable",
        example: Some(ECN_LATE),
        next: "show ecn   (ecnconfig -l: wred_green_enable true, ecn_all, kmin below XOFF)",
    };
    vec![said.with(&[("pause_frames", pauses), ("marked", 0)])]
}
