//! Counters of verbs: `rdma statistic` (text and `-j`), and listings of `hw_counters`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::text::line_error;
use crate::counters::Counter;
use crate::error::ReadError;

/// By device, such as `mlx5_0/1`; without a name if the file has none.
pub(super) type Devices = BTreeMap<Option<String>, BTreeMap<Counter, u64>>;

/// Some of the counters that only RDMA devices have (Linux mlx5, `counters.c`).
const TELLING: [&str; 8] = [
    "np_cnp_sent",
    "rp_cnp_handled",
    "np_ecn_marked_roce_packets",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "out_of_buffer",
    "duplicate_request",
];

/// A format of these.
pub(super) enum Format {
    Json,
    Text,
    Listing,
}

pub(super) fn format(text: &str) -> Option<Format> {
    let start = text.trim_start();
    if start.starts_with('[') {
        return Some(Format::Json);
    }
    if text.lines().any(|line| line.trim_start().starts_with("link ") && line.contains('/')) {
        return Some(Format::Text);
    }
    let telling = |(path, _): (&str, &str)| {
        path.contains("hw_counters/") || TELLING.contains(&path.rsplit('/').next().unwrap_or(path))
    };
    text.lines().filter_map(item).any(telling).then_some(Format::Listing)
}

pub(super) fn parse(path: &Path, text: &str, format: &Format) -> Result<Devices, ReadError> {
    match format {
        Format::Json => parse_json(path, text),
        Format::Text => parse_text(path, text),
        Format::Listing => parse_listing(path, text),
    }
}

/// `[{"ifname": "mlx5_0", "port": 1, "np_cnp_sent": 12, ..}]`
fn parse_json(path: &Path, text: &str) -> Result<Devices, ReadError> {
    let expected = "the array of links that `rdma -j statistic show` prints was expected";
    let links: Vec<serde_json::Map<String, Value>> = serde_json::from_str(text)
        .map_err(|error| line_error(path, error.line() as u64, format!("{error}: {expected}")))?;
    let mut devices = Devices::new();
    for (index, link) in links.iter().enumerate() {
        let Some(name) = link.get("ifname").and_then(Value::as_str) else {
            return Err(line_error(path, 1, format!("[{index}] has no `ifname`: {expected}")));
        };
        let port = link.get("port").map_or(String::new(), |port| format!("/{port}"));
        let values = devices.entry(Some(format!("{name}{port}"))).or_default();
        for (name, value) in link {
            if matches!(name.as_str(), "ifindex" | "ifname" | "port") {
                continue;
            }
            let Some(value) = value.as_u64() else {
                let message = format!("[{index}].{name} is {value}: a whole number was expected");
                return Err(line_error(path, 1, message));
            };
            values.insert(Counter::whole(name), value);
        }
    }
    Ok(devices)
}

/// `link mlx5_0/1 rx_write_requests 0 rx_read_requests 0 ..`, perhaps over several lines.
fn parse_text(path: &Path, text: &str) -> Result<Devices, ReadError> {
    let mut devices = Devices::new();
    let mut device = None;
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace().peekable();
        if words.peek() == Some(&"link") {
            words.next();
            device = words.next().map(str::to_owned);
        }
        while let Some(name) = words.next() {
            let value = words.next().and_then(|value| value.parse().ok());
            let (Some(value), Some(_)) = (value, &device) else {
                let message = format!(
                    "`{name}` without a number; `link mlx5_0/1 NAME NUMBER NAME NUMBER ..` was expected"
                );
                return Err(line_error(path, number, message));
            };
            devices.entry(device.clone()).or_default().insert(Counter::whole(name), value);
        }
    }
    Ok(devices)
}

/// `.../mlx5_0/ports/1/hw_counters/np_cnp_sent:12`, or the name alone.
fn parse_listing(path: &Path, text: &str) -> Result<Devices, ReadError> {
    let mut devices = Devices::new();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let bad = || {
            let message = format!("`{}`: `hw_counters/NAME:NUMBER` was expected", line.trim());
            line_error(path, number, message)
        };
        let (full, value) = item(line).ok_or_else(bad)?;
        let value = value.parse().map_err(|_| bad())?;
        let parts: Vec<&str> = full.split('/').collect();
        let device = match parts.as_slice() {
            [.., device, "ports", port, "hw_counters" | "counters", _] => {
                Some(format!("{device}/{port}"))
            }
            _ => None,
        };
        let name = parts.last().copied().unwrap_or(full);
        devices.entry(device).or_default().insert(Counter::whole(name), value);
    }
    Ok(devices)
}

fn item(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (path, value) = line.rsplit_once(|c: char| c == ':' || c == '=' || c.is_whitespace())?;
    Some((path.trim_end_matches([':', '=', ' ', '\t']), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_of_the_same() {
        let json =
            r#"[{"ifindex":0,"ifname":"mlx5_0","port":1,"np_cnp_sent":12,"out_of_sequence":3}]"#;
        let text = "link mlx5_0/1 np_cnp_sent 12 \n    out_of_sequence 3 \n";
        let listing = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent:12\n\
                       /sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:3\n";
        let values = [(Counter::whole("np_cnp_sent"), 12), (Counter::whole("out_of_sequence"), 3)];
        let expected =
            Devices::from([(Some("mlx5_0/1".to_owned()), BTreeMap::from(values.clone()))]);
        for content in [json, text, listing] {
            let format = format(content).unwrap();
            assert_eq!(parse(Path::new("r"), content, &format).unwrap(), expected, "{content}");
        }
        let bare = "np_cnp_sent 12\nout_of_sequence: 3\n";
        let found = parse(Path::new("r"), bare, &format(bare).unwrap()).unwrap();
        assert_eq!(found, Devices::from([(None, BTreeMap::from(values))]));
    }

    #[test]
    fn broken_files_name_the_line() {
        let error = |text: &str| parse(Path::new("r"), text, &format(text).unwrap()).unwrap_err();
        assert!(error("[{\"port\":1}]").to_string().starts_with("r, line 1: [0] has no `ifname`"));
        assert!(error("[{]").to_string().starts_with("r, line 1: "));
        assert_eq!(
            error("link mlx5_0/1 np_cnp_sent\n").to_string(),
            "r, line 1: `np_cnp_sent` without a number; `link mlx5_0/1 NAME NUMBER NAME NUMBER ..` was \
             expected"
        );
        assert_eq!(
            error("np_cnp_sent:1\nhello\n").to_string(),
            "r, line 2: `hello`: `hw_counters/NAME:NUMBER` was expected"
        );
    }
}
