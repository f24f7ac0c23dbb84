//! Links: bad cables, flaps, packets that were changed on their way.

use models::report::Severity;

use super::{Check, Said, Setting, Symptom, counted, largest};
use crate::counters::Measured;

pub(super) const CHECKS: &[Check] = &[
    Check {
        about: "links that go down",
        needs: &["link_down_events_phy", "link_downed"],
        find: flaps,
    },
    Check { about: "bit errors", needs: ERRORS, find: errors },
    Check { about: "broken packets", needs: &["rx_icrc_encapsulated"], find: icrc },
];

/// mlx5's names in `ethtool -S`, and InfiniBand's in `counters`.
const ERRORS: &[&str] = &[
    "rx_crc_errors_phy",
    "rx_symbol_err_phy",
    "symbol_error",
    "port_rcv_errors",
    "rx_in_range_len_errors_phy",
];

/// By place: the sum of these counters.
fn sums(measured: &Measured, names: &[&str]) -> Vec<(String, u64)> {
    let sum = |counters: &crate::counters::Counters| names.iter().map(|n| counters.sum(n)).sum();
    measured.places.iter().map(|counters| (counters.place.clone(), sum(counters))).collect()
}

fn total(places: &[(String, u64)]) -> u64 {
    places.iter().map(|(_, count)| count).sum()
}

/// A driver counts its start as one; more are flaps.
const STARTS: u64 = 1;

fn flaps(measured: &Measured, setting: &Setting) -> Vec<Symptom> {
    let usual = if setting.over.is_some() { 0 } else { STARTS };
    let places = sums(measured, &["link_down_events_phy", "link_downed"]);
    let places: Vec<(String, u64)> = places.into_iter().filter(|(_, n)| *n > usual).collect();
    let count = total(&places);
    if count == 0 {
        return Vec::new();
    }
    let said = Said {
        kind: "link_flaps",
        severity: Severity::Warning,
        text: format!("links went down {}: {}", counted(count, "time"), largest(places)),
        means: "a cable, a transceiver or a reboot at the other end; QPs survive it only while their \
                retries last, and GIDs may change",
        example: None,
        next: "mlxlink -d DEV -m -c; show interfaces transceiver eeprom",
    };
    vec![said.with(&[("link_down_events", count)])]
}

fn errors(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let places = sums(measured, ERRORS);
    let count = total(&places);
    if count == 0 {
        return Vec::new();
    }
    let said = Said {
        kind: "bit_errors",
        severity: Severity::Warning,
        text: format!("{} with errors beyond FEC: {}", counted(count, "frame"), largest(places)),
        means: "a bad cable or transceiver: each such frame is lost, in lossless classes too, and costs a \
                go-back-N",
        example: None,
        next: "mlxlink -d DEV -m -c   (raw and effective BER); clean or replace the cable",
    };
    vec![said.with(&[("errors", count)])]
}

fn icrc(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let places = sums(measured, &["rx_icrc_encapsulated"]);
    let count = total(&places);
    if count == 0 {
        return Vec::new();
    }
    let said = Said {
        kind: "icrc_errors",
        severity: Severity::Warning,
        text: format!("{} with a wrong ICRC: {}", counted(count, "RoCE packet"), largest(places)),
        means: "something between the NICs changed the packets after their ICRC was made: a tunnel, a box \
                that rewrites headers, or memory errors in a switch",
        example: None,
        next: "capture at both ends (tcpdump -i DEV udp port 4791) and compare headers",
    };
    vec![said.with(&[("rx_icrc_encapsulated", count)])]
}
