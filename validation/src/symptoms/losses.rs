//! Losses: where packets were dropped, and how senders noticed.

use models::report::Severity;
use sim_core::units::grouped;

use super::{Check, Example, Said, Setting, Symptom, counted, largest, named};
use crate::counters::{Measured, Value};

/// Headroom for half a frame.
const SMALL_HEADROOM: Example =
    Example { scenario: "incast-pfc-only", set: &["switch.pfc.headroom=2KB"] };
/// Data in a class that PFC does not protect, in little buffer.
const LOSSY: Example =
    Example { scenario: "incast-pfc-only", set: &["nic.qos.dscp=0", "traffic.burst.bytes=4MB"] };
const DEADLOCK: Example = Example { scenario: "deadlock-loop", set: &[] };

pub(super) const EXAMPLES: &[Example] = &[SMALL_HEADROOM, LOSSY, DEADLOCK];

pub(super) const CHECKS: &[Check] = &[
    Check { about: "drops", needs: DROPS, find: drops },
    Check { about: "gaps and NAKs", needs: &["out_of_sequence", "packet_seq_err"], find: gaps },
    Check { about: "time-outs", needs: &["local_ack_timeout_err"], find: timeouts },
    Check { about: "adaptive retransmission", needs: &["roce_adp_retrans"], find: adaptive },
    Check { about: "duplicates", needs: &["duplicate_request"], find: duplicates },
    Check { about: "receivers without buffers", needs: &["out_of_buffer"], find: rnr },
    Check { about: "the class of RoCE", needs: CLASS, find: wrong_class },
];

const DROPS: &[&str] = &["drops", "pg_drops", "rx_discards_phy"];
const CLASS: &[&str] = &["rx_vport_rdma_unicast_bytes", "tx_vport_rdma_unicast_bytes"];

fn drops(measured: &Measured, setting: &Setting) -> Vec<Symptom> {
    let all: Vec<Value<'_>> = measured.all("drops").chain(measured.all("pg_drops")).collect();
    let is_lossless = |value: &&Value<'_>| {
        value.value > 0 && value.priority.is_some_and(|p| setting.lossless.contains(&p))
    };
    let lossless: Vec<Value<'_>> = all.iter().filter(is_lossless).copied().collect();
    let lossy: Vec<Value<'_>> =
        all.iter().filter(|v| v.value > 0 && !is_lossless(v)).copied().collect();
    let total = |values: &[Value<'_>]| values.iter().map(|value| value.value).sum::<u64>();
    let list = |values: &[Value<'_>]| largest(values.iter().map(|value| named(*value)));
    let mut found = Vec::new();
    if !lossless.is_empty() {
        let count = total(&lossless);
        let said = Said {
            kind: "lossless_drops",
            severity: Severity::Error,
            text: format!(
                "{} of lossless priorities dropped: {}",
                counted(count, "packet"),
                list(&lossless)
            ),
            means: "PFC did not hold: headroom too small for cable and rate, the other end does not obey \
                    pauses of this priority, or the watchdog drops",
            example: Some(SMALL_HEADROOM),
            next: "show buffer configuration; show pfc priority; rocesim check SCENARIO (headroom)",
        };
        found.push(said.with(&[("drops", count)]));
    }
    if !lossy.is_empty() {
        let count = total(&lossy);
        let said = Said {
            kind: "lossy_drops",
            severity: Severity::Info,
            text: format!(
                "{} of other classes dropped: {}",
                counted(count, "packet"),
                list(&lossy)
            ),
            means: "ordinary for TCP; of RoCE, each costs a go-back-N or a time-out: it would be in the \
                    wrong class",
            example: Some(LOSSY),
            next: "show queue counters; ethtool -S DEV | grep -E 'prio[0-7]_(bytes|packets)'",
        };
        found.push(said.with(&[("drops", count)]));
    }
    let physical = measured.sum("rx_discards_phy");
    if physical > 0 && found.is_empty() {
        let said = Said {
            kind: "nic_drops",
            severity: Severity::Warning,
            text: format!(
                "NICs dropped {} for want of receive buffer: {}",
                counted(physical, "packet"),
                largest(measured.all("rx_discards_phy").map(named))
            ),
            means: "the host takes data more slowly than the link brings it, and no PFC protects the \
                    class that it is in",
            example: Some(LOSSY),
            next: "mlnx_qos -i DEV   (PFC, and receive buffers by priority)",
        };
        found.push(said.with(&[("rx_discards_phy", physical)]));
    }
    found
}

fn gaps(measured: &Measured, setting: &Setting) -> Vec<Symptom> {
    let (gaps, naks) = (measured.sum("out_of_sequence"), measured.sum("packet_seq_err"));
    if gaps + naks == 0 {
        return Vec::new();
    }
    let mut text = Vec::new();
    if gaps > 0 {
        let places = largest(measured.all("out_of_sequence").map(named));
        text.push(format!("receivers missed packets {}: {places}", counted(gaps, "time")));
    }
    if naks > 0 {
        let places = largest(measured.all("packet_seq_err").map(named));
        text.push(format!("senders got {}: {places}", counted(naks, "NAK")));
    }
    let drops: u64 = ["drops", "pg_drops"]
        .iter()
        .flat_map(|name| measured.all(name))
        .filter(|value| value.priority.is_some_and(|p| setting.lossless.contains(&p)))
        .map(|value| value.value)
        .sum();
    let measured_drops = measured.has("drops") || measured.has("pg_drops");
    let means = match (measured_drops, drops) {
        (true, 0) => {
            "packets were lost or came out of order, though no drop of a lossless class was counted \
             here: corrupt frames, a switch that was not asked, or reordering (adaptive routing, packet \
             spraying, a LAG or ECMP that rehashes) that this NIC takes for loss"
        }
        (true, _) => "packets were lost: see the drops",
        (false, _) => {
            "packets were lost or came out of order: drops at a switch or a NIC, corrupt frames, or \
             reordering (adaptive routing, packet spraying)"
        }
    };
    let said = Said {
        kind: "out_of_sequence",
        severity: Severity::Warning,
        text: text.join("; "),
        means,
        example: Some(LOSSY),
        next: "show queue counters; show priority-group drop counters   (each switch of the path)",
    };
    vec![said.with(&[("out_of_sequence", gaps), ("packet_seq_err", naks), ("drops", drops)])]
}

fn timeouts(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let timeouts = measured.sum("local_ack_timeout_err");
    let failed = measured.sum("req_transport_retries_exceeded");
    if timeouts + failed == 0 {
        return Vec::new();
    }
    let mut text = format!(
        "senders got no answer {}: {}",
        counted(timeouts, "time"),
        largest(measured.all("local_ack_timeout_err").map(named))
    );
    if failed > 0 {
        text +=
            &format!("; {} failed for good (status 12, vendor error 129)", counted(failed, "QP"));
    }
    let said = Said {
        kind: "ack_timeouts",
        severity: if failed > 0 { Severity::Error } else { Severity::Warning },
        text,
        means: "the last packet of a message, its ACK or a retransmission was lost, or pauses were longer \
                than the time-out (4.096 us x 2^timeout); each costs that time",
        example: Some(if failed > 0 { DEADLOCK } else { LOSSY }),
        next: "show pfcwd stats; show pfc counters   (NCCL_IB_TIMEOUT must outlast pauses)",
    };
    vec![
        said.with(&[
            ("local_ack_timeout_err", timeouts),
            ("req_transport_retries_exceeded", failed),
        ]),
    ]
}

fn adaptive(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let count = measured.sum("roce_adp_retrans");
    if count == 0 {
        return Vec::new();
    }
    let to = measured.sum("roce_adp_retrans_to");
    let said = Said {
        kind: "adaptive_retransmission",
        severity: Severity::Warning,
        text: format!(
            "adaptive retransmission sent again {}, {} of them after its time-out: {}",
            counted(count, "time"),
            grouped(to),
            largest(measured.all("roce_adp_retrans").map(named))
        ),
        means: "the NIC's own short timers replace NCCL_IB_TIMEOUT: losses, or pauses and round trips \
                longer than these timers, cause them",
        example: Some(LOSSY),
        next: "mlxreg -d DEV --reg_name ROCE_ACCL --get   (adaptive retransmission is on or off)",
    };
    vec![said.with(&[("roce_adp_retrans", count), ("roce_adp_retrans_to", to)])]
}

fn duplicates(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let count = measured.sum("duplicate_request");
    if count == 0 {
        return Vec::new();
    }
    let said = Said {
        kind: "duplicate_requests",
        severity: Severity::Info,
        text: format!(
            "receivers got {} that they had: {}",
            counted(count, "packet"),
            largest(measured.all("duplicate_request").map(named))
        ),
        means: "senders repeated what had arrived: an ACK was lost or late (pauses hold ACKs too), or \
                go-back-N sent more than was missing",
        example: Some(LOSSY),
        next: "rdma statistic | grep -o 'local_ack_timeout_err [0-9]*' on the senders",
    };
    vec![said.with(&[("duplicate_request", count)])]
}

fn rnr(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let count = measured.sum("out_of_buffer");
    let failed = measured.sum("rnr_nak_retry_err") + measured.sum("req_rnr_retries_exceeded");
    if count + failed == 0 {
        return Vec::new();
    }
    let said = Said {
        kind: "receiver_not_ready",
        severity: if failed > 0 { Severity::Error } else { Severity::Warning },
        text: format!(
            "{} found no receive request posted: {}; {} used up their retries",
            counted(count, "message"),
            largest(measured.all("out_of_buffer").map(named)),
            counted(failed, "QP")
        ),
        means: "the application posts receives too late; the network is not the cause",
        example: None,
        next: "look at the receiving application; WRITEs (NCCL's data) need no receive request",
    };
    vec![said.with(&[("out_of_buffer", count), ("retries_exceeded", failed)])]
}

/// RoCE that is not in a lossless priority.
fn wrong_class(measured: &Measured, setting: &Setting) -> Vec<Symptom> {
    let mut found = Vec::new();
    for counters in &measured.places {
        for way in ["rx", "tx"] {
            let rdma = counters.sum(&format!("{way}_vport_rdma_unicast_bytes"));
            let name = format!("{way}_bytes");
            if rdma == 0 || !counters.has(&name) {
                continue;
            }
            let lossless: u64 = setting.lossless.iter().map(|p| counters.get(&name, *p)).sum();
            if lossless * 2 >= rdma {
                continue;
            }
            let by_priority = (0..8).map(|p| (format!("priority {p}"), counters.get(&name, p)));
            let said = Said {
                kind: "wrong_priority",
                severity: Severity::Warning,
                text: format!(
                    "{}: {} B of RoCE ({way}), but {} B in lossless priorities; bytes by priority: {}",
                    counters.place,
                    grouped(rdma),
                    grouped(lossless),
                    largest(by_priority)
                ),
                means: "RoCE goes in a class that PFC does not protect: its DSCP is not the lossless one \
                        (NCCL_IB_TC unset is DSCP 0), or the port does not trust DSCP",
                example: Some(LOSSY),
                next: "mlnx_qos -i DEV --trust dscp; export NCCL_IB_TC=106   (DSCP 26)",
            };
            found.push(said.with(&[("rdma_bytes", rdma), ("lossless_bytes", lossless)]));
        }
    }
    found
}
