//! `ethtool -S`, `ethtool` and `ibv_devinfo`: the little that they say of `[nic]`.

use super::super::text::{Line, quoted};
use super::params::list;
use super::{Found, ImportError, Lines, Place, Rank};

pub(super) fn is_statistics(lines: &Lines<'_>) -> bool {
    lines.iter().any(|line| {
        matches!(line.words.as_slice(), ["NIC", "statistics:"]) || priority_of_pause(line).is_some()
    })
}

pub(super) fn is_settings(lines: &Lines<'_>) -> bool {
    lines.iter().any(|line| matches!(line.words.as_slice(), ["Settings", "for", _]))
}

pub(super) fn is_devinfo(lines: &Lines<'_>) -> bool {
    lines.iter().any(|line| line.words[0] == "hca_id:")
}

/// `3` of `rx_prio3_pause: 17`
fn priority_of_pause(line: &Line<'_>) -> Option<u8> {
    let name = line.words[0].trim_end_matches(':');
    let middle = name.strip_prefix("rx_prio").or_else(|| name.strip_prefix("tx_prio"))?;
    middle.strip_suffix("_pause")?.parse().ok().filter(|priority| *priority < 8)
}

/// Linux mlx5 (`en_stats.c`) lists counters of pauses for the priorities that have PFC, and those
/// of global pauses where that is on.
pub(super) fn statistics(lines: &Lines<'_>) -> Result<Found, ImportError> {
    let mut found = Found::default();
    let mut paused: Vec<(u8, &Line<'_>)> = Vec::new();
    let mut global = None;
    for line in lines {
        match (priority_of_pause(line), line.words[0]) {
            (Some(priority), _) => paused.push((priority, line)),
            (None, "rx_global_pause:") => global = Some(line),
            _ => {}
        }
    }
    if let Some((_, first)) = paused.first() {
        let mut priorities: Vec<u8> = paused.iter().map(|(priority, _)| *priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let (key, name) = ("nic.pfc.priorities", "counters of pauses by priority are there");
        found.push(key, list(priorities), name, None, Rank::Inferred, Place::of(first));
    } else if let Some(line) = global {
        let message = "this port counts global pauses and none by priority: PFC is not on, and \
                       802.3x pauses, which stop all classes, are not modelled";
        found.warnings.push(line.note(message));
    }
    Ok(found)
}

/// `Speed: 100000Mb/s` is that of the cable, a key of the topology.
pub(super) fn settings(lines: &Lines<'_>) -> Result<Found, ImportError> {
    let mut found = Found::default();
    for line in lines {
        if let ["Speed:", speed] = line.words.as_slice() {
            let mbps = speed.strip_suffix("Mb/s").and_then(|mbps| mbps.parse().ok());
            let message = match mbps {
                Some(mbps) => {
                    let rate = sim_core::Rate::from_mbps(mbps);
                    format!("the port runs at {rate}: the rate of its link is a key of [topology]")
                }
                None => format!("the speed is {}: the link is down", quoted(speed)),
            };
            found.warnings.push(line.note(message));
        }
    }
    Ok(found)
}

/// `active_mtu: 4096 (5)` of each device and port.
pub(super) fn devinfo(lines: &Lines<'_>) -> Result<Found, ImportError> {
    let mut found = Found::default();
    let (mut device, mut port) = ("", "");
    for line in lines {
        match line.words.as_slice() {
            ["hca_id:", name] => device = name,
            ["port:", number] => port = number,
            ["active_mtu:", mtu, ..] => {
                let mtu: u16 = line.number("path MTU", mtu)?;
                if !(256..=4096).contains(&mtu) {
                    let message = format!("active_mtu is {mtu}; 256 to 4096 is expected");
                    return Err(line.error(message));
                }
                let at = format!("{device}/{port}");
                let (key, place) = ("nic.mtu", Place::of(line));
                found.push(key, mtu.to_string(), "active_mtu", Some(&at), Rank::Running, place);
            }
            _ => {}
        }
    }
    Ok(found)
}
