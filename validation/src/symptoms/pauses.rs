//! Pauses: who causes them, who suffers, and those that should not be.

use models::report::Severity;
use sim_core::Bytes;
use sim_core::units::grouped;

use super::{Check, Example, Said, Setting, Symptom, counted, largest, named};
use crate::counters::{Counters, Measured, Source, Value};

/// A receiver that takes 60 of the 100 Gb/s that its link brings.
const SLOW_RECEIVER: Example = Example {
    scenario: "incast-pfc-only",
    set: &[
        "nic.receive={ rate = \"60Gbps\", buffer = \"1MiB\", xoff = \"512KiB\", xon = \"256KiB\" }",
    ],
};
const INCAST: Example = Example { scenario: "incast-pfc-only", set: &[] };
const VICTIM: Example = Example { scenario: "dumbbell-victim", set: &[] };
const DEADLOCK: Example = Example { scenario: "deadlock-loop", set: &[] };

pub(super) const EXAMPLES: &[Example] = &[SLOW_RECEIVER, INCAST, VICTIM, DEADLOCK];

pub(super) const CHECKS: &[Check] = &[
    Check { about: "pause storms", needs: STORM_COUNTERS, find: storms },
    Check { about: "hosts that pause", needs: &["tx_pause_frames"], find: pausing_hosts },
    Check { about: "hosts that are paused", needs: &["rx_pause_frames"], find: paused_hosts },
    Check { about: "pauses at switches", needs: &["rx_pause_frames"], find: switches },
    Check { about: "priorities of pauses", needs: &["rx_pause_frames"], find: unexpected },
    Check { about: "rates of pauses (with --over)", needs: &["rx_pause_frames"], find: rates },
    Check { about: "global pause", needs: GLOBAL, find: global_pause },
    Check { about: "headroom", needs: &["headroom_watermark_bytes"], find: headroom },
];

const STORM_COUNTERS: &[&str] =
    &["pfcwd_storms", "tx_pause_storm_warning_events", "tx_pause_storm_error_events"];
const GLOBAL: &[&str] = &["rx_global_pause", "tx_global_pause", "rx_pause_ctrl_phy"];

/// The pause frames of ports of NICs, or of switches.
fn frames<'a>(
    measured: &'a Measured,
    source: Source,
    name: &'a str,
) -> impl Iterator<Item = Value<'a>> {
    measured.all(name).filter(move |value| value.counters.source == source)
}

fn storms(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let mut found = Vec::new();
    let (storms, restored) = (measured.sum("pfcwd_storms"), measured.sum("pfcwd_restored"));
    if storms > 0 {
        let now = measured.sum("pfcwd_stormed");
        let drops = measured.sum("pfcwd_tx_drops") + measured.sum("pfcwd_rx_drops");
        let again = match storms >= 10 && restored >= storms - now.min(storms) {
            true => ", over and over: the cause is still there when the watchdog lets go",
            false => "",
        };
        let text = format!(
            "the PFC watchdog saw {} and {} ended{again}; {} in storm now; {} dropped by it: {}",
            counted(storms, "storm"),
            grouped(restored),
            counted(now, "queue"),
            counted(drops, "packet"),
            largest(measured.all("pfcwd_storms").map(named))
        );
        let said = Said {
            kind: "pause_storm",
            severity: Severity::Error,
            text,
            means: "what is behind these ports does not stop pausing: a host that hangs (its NIC pauses \
                    for ever), a receiver far too slow, or a deadlock, if ports between switches storm",
            example: Some(DEADLOCK),
            next: "show pfcwd config; show pfc counters   (what is behind the port with the most Rx)",
        };
        found.push(said.with(&[("storms", storms), ("restored", restored), ("drops", drops)]));
    }
    let errors = measured.sum("tx_pause_storm_error_events");
    let warnings = measured.sum("tx_pause_storm_warning_events");
    if errors + warnings > 0 {
        let text = format!(
            "NICs paused their switch for so long that stall prevention stepped in {}, and nearly \
             {}: {}",
            counted(errors, "time"),
            counted(warnings, "time"),
            largest(measured.places.iter().map(|counters| {
                let sum = |name| counters.sum(name);
                let events =
                    sum("tx_pause_storm_error_events") + sum("tx_pause_storm_warning_events");
                (counters.place.clone(), events)
            }))
        );
        let said = Said {
            kind: "nic_stalled",
            severity: if errors > 0 { Severity::Error } else { Severity::Warning },
            text,
            means: "the host took no data for seconds (or 100 ms): it hung, or PCIe or memory stood still; \
                    meanwhile the pauses spread through the fabric",
            example: Some(SLOW_RECEIVER),
            next: "dmesg; ethtool --show-priv-flags DEV   (and the host's PCIe errors)",
        };
        found.push(said.with(&[("errors", errors), ("warnings", warnings)]));
    }
    found
}

/// More than this is worth an alarm: 10 000 frames a second.
const ALARM_PER_S: f64 = 10_000.0;

fn rates(measured: &Measured, setting: &Setting) -> Vec<Symptom> {
    let Some(over) = setting.over else { return Vec::new() };
    let rate = |value: Value<'_>| {
        let (name, frames) = named(value);
        (name, (frames as f64 / over.as_secs()) as u64)
    };
    let fast = |(_, rate): &(String, u64)| *rate as f64 > ALARM_PER_S;
    let all: Vec<(String, u64)> = measured.all("rx_pause_frames").map(rate).filter(fast).collect();
    let Some(most) = all.iter().map(|(_, rate)| *rate).max() else { return Vec::new() };
    let said = Said {
        kind: "pause_rate",
        severity: Severity::Warning,
        text: format!("more than 10 000 pause frames a second received: {}", largest(all)),
        means: "these ports stand still much of the time",
        example: Some(INCAST),
        next: "show pfc counters on what is at the other end of the cable",
    };
    vec![said.with(&[("frames_per_s", most)])]
}

/// The host itself is slow: it pauses the switch.
fn pausing_hosts(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let hosts: Vec<(String, u64)> =
        frames(measured, Source::Ethtool, "tx_pause_frames").map(named).collect();
    let sent: u64 = hosts.iter().map(|(_, frames)| frames).sum();
    if sent == 0 {
        return Vec::new();
    }
    let nics = || measured.places.iter().filter(|counters| counters.source == Source::Ethtool);
    let sum = |name: &str| nics().map(|nic| nic.sum(name)).sum::<u64>();
    let (received, full) = (sum("rx_pause_frames"), sum("rx_buffer_passed_thres_phy"));
    let stalled = nics().map(|nic| nic.sum("outbound_pci_stalled_wr")).max().unwrap_or(0);
    let mut text = format!("hosts sent {}: {}", counted(sent, "pause frame"), largest(hosts));
    if full > 0 {
        text += &format!("; receive buffers were nearly full {}", counted(full, "time"));
    }
    if stalled > 0 {
        text += &format!("; PCIe writes were stalled for up to {stalled} % of a second");
    }
    let said = Said {
        kind: "receiver_limited",
        severity: Severity::Warning,
        text,
        means: "these hosts take data more slowly than their links bring it: PCIe (width, ordering, ACS), \
                memory, GPUDirect off. They are the cause, not a victim, and ECN does not help: no switch \
                queue is full before the pause",
        example: Some(SLOW_RECEIVER),
        next: "lspci -vv | grep -E 'LnkSta:|ACSCtl'; ethtool -S DEV | grep -E 'pci|passed_thres'",
    };
    vec![said.with(&[("tx_pause_frames", sent), ("rx_pause_frames", received)])]
}

fn paused_hosts(measured: &Measured, setting: &Setting) -> Vec<Symptom> {
    let hosts: Vec<(String, u64)> =
        frames(measured, Source::Ethtool, "rx_pause_frames").map(named).collect();
    let received: u64 = hosts.iter().map(|(_, frames)| frames).sum();
    if received == 0 {
        return Vec::new();
    }
    let mut text =
        format!("hosts were paused by {}: {}", counted(received, "frame"), largest(hosts));
    let longest = measured.all("paused_us").max_by_key(|value| value.value);
    let mut share = 0.0;
    if let Some(longest) = longest.filter(|longest| longest.value > 0) {
        let (name, us) = named(longest);
        text += &format!("; longest {name}, {:.3} s in all", us as f64 / 1e6);
        if let Some(over) = setting.over {
            share = us as f64 / 1e6 / over.as_secs();
            text += &format!(", {:.1} % of the time", share * 100.0);
        }
    }
    let severity = if share > 0.01 { Severity::Warning } else { Severity::Info };
    let said = Said {
        kind: "paused_by_network",
        severity,
        text,
        means: "congestion further on reaches back to these senders; they may be victims of flows that \
                they share a port or a class with",
        example: Some(VICTIM),
        next: "show pfc counters on their switch: a port whose Rx is high leads to the cause",
    };
    vec![said.with(&[("rx_pause_frames", received)])]
}

/// Where the pauses of a switch come from.
fn switches(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let received = |counters: &Counters| counters.sum("rx_pause_frames");
    let sent = |counters: &Counters| counters.sum("tx_pause_frames");
    let ports: Vec<&Counters> =
        measured.places.iter().filter(|counters| counters.source == Source::Switch).collect();
    let (rx, tx): (u64, u64) =
        (ports.iter().map(|p| received(p)).sum(), ports.iter().map(|p| sent(p)).sum());
    let evidence = [("rx_pause_frames", rx), ("tx_pause_frames", tx)];
    let list = |value: &dyn Fn(&Counters) -> u64| {
        largest(ports.iter().map(|port| (port.place.clone(), value(port))))
    };
    if rx > 0 {
        let back = match tx {
            0 => "and passed none on".to_owned(),
            _ => format!("and sent {} on: {}", grouped(tx), list(&sent)),
        };
        let said = Said {
            kind: "paused_from_outside",
            severity: Severity::Warning,
            text: format!(
                "the switch received {}: {}; {back}",
                counted(rx, "pause frame"),
                list(&received)
            ),
            means: "what is behind the ports that receive pauses is the cause, or nearer to it: a host \
                    that takes data too slowly, or a switch that is congested further on",
            example: Some(SLOW_RECEIVER),
            next: "a host there: ethtool -S DEV | grep tx_prio; a switch: show pfc counters on it",
        };
        return vec![said.with(&evidence)];
    }
    if tx == 0 {
        return Vec::new();
    }
    let said = Said {
        kind: "switch_congested",
        severity: Severity::Warning,
        text: format!(
            "the switch sent {} and received none: {}",
            counted(tx, "pause frame"),
            list(&sent)
        ),
        means: "the congestion begins here: more comes in than one of its ports can carry (an incast, or \
                uplinks that ECMP loads unevenly)",
        example: Some(INCAST),
        next: "show queue watermark unicast   (the deepest queue is the port that is too small)",
    };
    vec![said.with(&evidence)]
}

fn unexpected(measured: &Measured, setting: &Setting) -> Vec<Symptom> {
    let strange = |name| {
        measured.all(name).filter(|value| {
            value.priority.is_some_and(|priority| !setting.lossless.contains(&priority))
        })
    };
    let all: Vec<(String, u64)> =
        strange("rx_pause_frames").chain(strange("tx_pause_frames")).map(named).collect();
    let frames: u64 = all.iter().map(|(_, frames)| frames).sum();
    if frames == 0 {
        return Vec::new();
    }
    let lossless: Vec<String> = setting.lossless.iter().map(u8::to_string).collect();
    let said = Said {
        kind: "unexpected_priority",
        severity: Severity::Warning,
        text: format!(
            "{} of priorities other than {}: {}",
            counted(frames, "pause frame"),
            lossless.join(" and "),
            largest(all)
        ),
        means: "PFC is on for a priority that one end does not treat as lossless: trust, DSCP map or \
                pfc_enable differ between host and switch",
        example: None,
        next: "mlnx_qos -i DEV; show pfc priority   (or --lossless, if these are meant to be lossless)",
    };
    vec![said.with(&[("frames", frames)])]
}

fn global_pause(measured: &Measured, _: &Setting) -> Vec<Symptom> {
    let mut found = Vec::new();
    for counters in &measured.places {
        let global = counters.sum("rx_global_pause") + counters.sum("tx_global_pause");
        let control = counters.sum("rx_pause_ctrl_phy") + counters.sum("tx_pause_ctrl_phy");
        let priorities = counters.sum("rx_pause_frames") + counters.sum("tx_pause_frames");
        if global == 0 && (control == 0 || priorities > 0) {
            continue;
        }
        let said = Said {
            kind: "global_pause",
            severity: Severity::Warning,
            text: format!(
                "{} uses pauses of the whole link: {}, none of single priorities",
                counters.place,
                counted(global.max(control), "frame")
            ),
            means: "802.3x flow control is on instead of PFC: each pause stops all classes",
            example: None,
            next: "ethtool -A DEV rx off tx off; mlnx_qos -i DEV --pfc 0,0,0,1,0,0,0,0 --trust dscp",
        };
        found.push(said.with(&[("frames", global.max(control))]));
    }
    found
}

fn headroom(measured: &Measured, setting: &Setting) -> Vec<Symptom> {
    let used: Vec<Value<'_>> =
        measured.all("headroom_watermark_bytes").filter(|value| value.value > 0).collect();
    let Some(most) = used.iter().map(|value| value.value).max() else { return Vec::new() };
    let size = setting.headroom.map(Bytes::get);
    let share = size.map(|size| most as f64 / size.max(1) as f64);
    let mut text = format!(
        "headroom was in use, up to {} B: {}",
        grouped(most),
        largest(used.iter().map(|value| named(*value)))
    );
    if let Some(share) = share {
        text += &format!("; {:.0} % of what there is", share * 100.0);
    }
    let group = used.iter().max_by_key(|value| value.value);
    let shared = group.map_or(0, |group| {
        group.counters.get("shared_watermark_bytes", group.priority.unwrap_or(0))
    });
    if shared > 0 {
        text += &format!("; that group also had {} B of the shared pool", grouped(shared));
    }
    let (severity, means) = match share {
        Some(share) if share >= 1.0 => (
            Severity::Error,
            "the headroom was used up: it is too small for this cable and rate, and \
                               frames were lost or would have been with one more",
        ),
        Some(share) if share >= 0.8 => {
            (Severity::Warning, "little is left: a longer cable or a larger MTU will lose frames")
        }
        Some(_) => (Severity::Info, "PFC works as it should, with headroom to spare"),
        None => (
            Severity::Info,
            "PFC stopped senders here, as it should; whether the headroom is enough needs its size \
             (--headroom)",
        ),
    };
    let said = Said {
        kind: "headroom_used",
        severity,
        text,
        means,
        example: Some(INCAST),
        next: "show buffer configuration   (xoff of the pg_lossless profile); rocesim check SCENARIO",
    };
    vec![said.with(&[("headroom_watermark_bytes", most), ("shared_watermark_bytes", shared)])]
}
