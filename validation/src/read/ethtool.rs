//! `ethtool -S DEV`: names and values of a NIC's port.

use std::collections::BTreeMap;
use std::path::Path;

use super::text::line_error;
use crate::counters::Counter;
use crate::error::ReadError;

pub(super) fn is(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "NIC statistics:" || pair(line).is_some_and(is_phy))
}

/// `rx_packets_phy: 12`; only ports of NICs have these names.
fn is_phy((name, _): (&str, &str)) -> bool {
    name == "rx_packets_phy" || name == "rx_prio0_bytes"
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().rsplit_once(':')?;
    Some((name.trim(), value.trim()))
}

/// The counters of the port. Those of single rings are left out: there are thousands.
pub(super) fn parse(path: &Path, text: &str) -> Result<BTreeMap<Counter, u64>, ReadError> {
    let mut values = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let Some((name, value)) = pair(line).filter(|(_, value)| !value.is_empty()) else {
            continue;
        };
        // `rx3_packets`, `tx0_nop`, `ch5_poll`
        let ring = name.trim_start_matches(|c: char| c.is_ascii_lowercase());
        if ring.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let value = value.parse().map_err(|_| {
            let message = format!("{name} is `{value}`: a whole number was expected");
            line_error(path, number, message)
        })?;
        values.insert(counter(name), value);
    }
    Ok(values)
}

/// `rx_prio3_pause` is `rx_pause_frames` of priority 3.
fn counter(name: &str) -> Counter {
    by_priority(name).unwrap_or_else(|| Counter::whole(name))
}

fn by_priority(name: &str) -> Option<Counter> {
    let (way, rest) = name.split_once("_prio")?;
    let (priority, what) = rest.split_once('_')?;
    let priority = priority.parse().ok().filter(|priority| *priority < 8)?;
    let name = match (way, what) {
        ("rx", "pause") => "rx_pause_frames",
        ("tx", "pause") => "tx_pause_frames",
        ("rx", "pause_duration") => "paused_us",
        ("tx", "pause_duration") => "pausing_us",
        ("rx", "pause_transition") => "pause_episodes",
        ("rx", "discards" | "buf_discard") => "drops",
        ("rx", "bytes") => "rx_bytes",
        ("tx", "bytes") => "tx_bytes",
        ("rx", "packets") => "rx_packets",
        ("tx", "packets") => "tx_packets",
        _ => return None,
    };
    Some(Counter::of(name, priority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_and_whole_ports() {
        let text = "NIC statistics:\n     rx_packets: 5\n     rx3_packets: 1\n     ch0_poll: 9\n     \
                    rx_prio3_pause: 17\n     rx_prio3_pause_duration: 250\n     rx_discards_phy: 2\n";
        assert!(is(text));
        let values = parse(Path::new("e"), text).unwrap();
        let expected = [
            (Counter::of("paused_us", 3), 250),
            (Counter::whole("rx_discards_phy"), 2),
            (Counter::whole("rx_packets"), 5),
            (Counter::of("rx_pause_frames", 3), 17),
        ];
        assert_eq!(values, BTreeMap::from(expected));
        let error = parse(Path::new("e"), "NIC statistics:\n a_phy: x\n").unwrap_err();
        assert_eq!(error.to_string(), "e, line 2: a_phy is `x`: a whole number was expected");
    }
}
