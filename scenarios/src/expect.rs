//! `[expect]`: what must hold after a run.
//!
//! A key names a number of the report, a value or bounds what it must be:
//!
//! ```toml
//! [expect]
//! outcome = "completed"
//! lossless_drops = 0                                # any name under `totals`
//! "flows.fct_max" = { below = "1.2ms" }             # a field of flows or ports, and min, max,
//! "flows.slowdown_p99" = { above = 1, below = 4 }   # mean, sum, p50, p95 or p99 over them
//! "ports.sw0:8.max_queue_bytes" = { below = "2MB" } # one port
//! "flows[3].goodput_bps" = { above = "9Gbps" }      # one flow
//! "collectives.busbw_max" = { above = 22 }          # GB/s
//! "collectives[0].time" = { below = "11ms" }        # the first collective of the first size
//! "findings.ecn_after_pfc" = 1                      # number of findings of a kind
//! ```

use std::fmt;

use models::counters::DropReason;
use models::ids::PortId;
use models::report::Report;
use models::topology::Topology;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use sim_core::{Bytes, Delta, Rate};

use crate::diagnose;
use crate::load::{LoadError, Node, suggestion};
use crate::stats;

/// What a value must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    equals: Option<Quantity>,
    below: Option<Quantity>,
    above: Option<Quantity>,
}

/// A value, in seconds, bytes or bits per second where it was written with a unit.
#[derive(Clone, Debug, PartialEq)]
enum Quantity {
    Number(f64, String),
    Text(String),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Number(_, written) => f.write_str(written),
            Quantity::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("", &self.equals), ("above ", &self.above), ("below ", &self.below)];
        let parts = parts.iter().filter_map(|(word, quantity)| {
            quantity.as_ref().map(|quantity| format!("{word}{quantity}"))
        });
        f.write_str(&parts.collect::<Vec<_>>().join(" and "))
    }
}

impl Quantity {
    fn text(text: &str) -> Self {
        let time = || text.parse::<Delta>().ok().map(|span| span.as_secs());
        let rate = || text.parse::<Rate>().ok().map(|rate| rate.bps() as f64);
        let bytes = || text.parse::<Bytes>().ok().map(|bytes| bytes.get() as f64);
        match time().or_else(rate).or_else(bytes) {
            Some(number) => Quantity::Number(number, text.to_owned()),
            None => Quantity::Text(text.to_owned()),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a quantity such as \"1.2ms\", or a word")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_f64(number as f64)
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity::Number(number, number.to_string()))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity::text(text))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl<'de> Deserialize<'de> for Expected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Expected;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, or { above = .., below = .. }")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Expected, E> {
                self.visit_f64(number as f64)
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Expected, E> {
                let equals = Some(Quantity::Number(number, number.to_string()));
                Ok(Expected { equals, ..Expected::default() })
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Expected, E> {
                Ok(Expected { equals: Some(Quantity::text(text)), ..Expected::default() })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Expected, A::Error> {
                let mut expected = Expected::default();
                while let Some(key) = map.next_key::<String>()? {
                    let slot = match key.as_str() {
                        "equals" => &mut expected.equals,
                        "below" => &mut expected.below,
                        "above" => &mut expected.above,
                        other => {
                            let known = &["equals", "below", "above"];
                            return Err(de::Error::unknown_field(other, known));
                        }
                    };
                    *slot = Some(map.next_value()?);
                }
                Ok(expected)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for Expected {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Expected".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["number", "string", "object"] })
    }
}

/// The verdict on one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The entry's key.
    pub key: String,
    /// It holds.
    pub passed: bool,
    /// What was expected and what was found.
    pub text: String,
}

const AGGREGATES: [&str; 7] = ["min", "max", "mean", "sum", "p50", "p95", "p99"];

/// Judges all entries of `[expect]`.
pub fn judge<'a>(
    expect: impl IntoIterator<Item = (&'a String, &'a Expected)>,
    report: &Report,
) -> Vec<Verdict> {
    let report = serde_json::to_value(report).unwrap_or_default();
    let entries = expect.into_iter();
    entries
        .map(|(key, expected)| {
            let found = look_up(&report, key).unwrap_or(Value::Null);
            let passed = holds(expected, &found);
            let text = format!("{key}: {expected} expected, {} found", shown(&found));
            Verdict { key: key.clone(), passed, text }
        })
        .collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.6}", number.as_f64().unwrap_or(0.0))
        }
        other => other.to_string(),
    }
}

fn holds(expected: &Expected, found: &Value) -> bool {
    let compare = |quantity: &Quantity, test: fn(f64, f64) -> bool| match quantity {
        Quantity::Number(number, _) => found.as_f64().is_some_and(|found| test(found, *number)),
        Quantity::Text(text) => found.as_str() == Some(text.as_str()),
    };
    let equal = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    expected.equals.as_ref().is_none_or(|quantity| compare(quantity, equal))
        && expected.below.as_ref().is_none_or(|quantity| compare(quantity, |a, b| a < b))
        && expected.above.as_ref().is_none_or(|quantity| compare(quantity, |a, b| a > b))
}

/// The value that a key names.
fn look_up(report: &Value, key: &str) -> Option<Value> {
    if let Some(kind) = key.strip_prefix("findings.") {
        let findings = report["findings"].as_array()?;
        let count = findings.iter().filter(|finding| finding["kind"] == kind).count();
        return Some(count.into());
    }
    if let Some(field) = key.strip_prefix("drops.") {
        return Some(report["totals"]["drops"].get(field).cloned().unwrap_or(0.into()));
    }
    for list in ["flows", "collectives"] {
        if let Some(rest) = key.strip_prefix(list).and_then(|rest| rest.strip_prefix('[')) {
            let (number, field) = rest.split_once("].")?;
            return field_of(&report[list][number.parse::<usize>().ok()?], field);
        }
    }
    for list in ["flows", "ports", "collectives"] {
        let Some(rest) = key.strip_prefix(list).and_then(|rest| rest.strip_prefix('.')) else {
            continue;
        };
        if let Some((port, field)) = rest.rsplit_once('.') {
            let ports = report["ports"].as_array()?;
            return field_of(ports.iter().find(|entry| entry["port"] == port)?, field);
        }
        return aggregate(report[list].as_array()?, rest);
    }
    field_of(report, key).or_else(|| field_of(&report["totals"], key))
}

/// A field by its name, or by its name without the unit.
fn field_of(object: &Value, name: &str) -> Option<Value> {
    let candidates = ["", "_s", "_bytes", "_bps", "_gbytes_per_s"];
    candidates.iter().find_map(|unit| object.get(format!("{name}{unit}")).cloned())
}

fn aggregate(list: &[Value], name: &str) -> Option<Value> {
    if name == "completed" {
        let completed = list.iter().filter(|entry| entry["status"] == "completed");
        return Some(completed.count().into());
    }
    let (field, how) = name.rsplit_once('_')?;
    let values = list.iter().filter_map(|entry| field_of(entry, field)?.as_f64());
    let values = stats::sorted(values);
    let result = match how {
        "min" => *values.first()?,
        "max" => *values.last()?,
        "mean" => stats::mean(&values),
        "sum" => values.iter().sum(),
        "p50" => stats::quantile(&values, 0.5),
        "p95" => stats::quantile(&values, 0.95),
        "p99" => stats::quantile(&values, 0.99),
        _ => return None,
    };
    serde_json::Number::from_f64(result).map(Value::Number)
}

/// Refuses keys that name nothing in a report.
pub(crate) fn check_names(tree: &Node, topology: &Topology) -> Result<(), LoadError> {
    let Some(expect) = tree.get("expect").and_then(Node::as_table) else { return Ok(()) };
    for entry in expect {
        let key = entry.key.as_str();
        let fail = |hint: String| {
            let message = format!("`{key}` names nothing in a report{hint}");
            Err(LoadError::new(message).within("expect").at(entry.key_origin))
        };
        if ["flows", "ports", "collectives"].contains(&key) {
            return fail(format!("; a key with a point is quoted: \"{key}.fct_max\""));
        }
        if ["flows.completed", "collectives.completed"].contains(&key) {
            continue;
        }
        let (list, rest) = key.split_once('.').unwrap_or(("", key));
        let (names, how, last): (Vec<&str>, _, &str) = match list {
            "findings" => (diagnose::KINDS.to_vec(), None, rest),
            "drops" => (DropReason::ALL.map(DropReason::name).to_vec(), None, rest),
            "flows" => (FLOW_FIELDS.to_vec(), Some(AGGREGATES), rest),
            _ if list.starts_with("flows[") => (FLOW_FIELDS.to_vec(), None, rest),
            "collectives" => (COLLECTIVE_FIELDS.to_vec(), Some(AGGREGATES), rest),
            _ if list.starts_with("collectives[") => (COLLECTIVE_FIELDS.to_vec(), None, rest),
            "ports" => match rest.rsplit_once('.') {
                None => (PORT_FIELDS.to_vec(), Some(AGGREGATES), rest),
                Some((port, field)) => {
                    let mut ports = (0..topology.ports().len() as u32).map(PortId);
                    if !ports.any(|id| topology.port_name(id) == port) {
                        return fail(format!("; there is no port `{port}`"));
                    }
                    (PORT_FIELDS.to_vec(), None, field)
                }
            },
            _ => (TOTAL_FIELDS.to_vec(), None, key),
        };
        let field = match how {
            None => last,
            Some(aggregates) => match last.rsplit_once('_') {
                Some((field, how)) if aggregates.contains(&how) => field,
                _ => {
                    let all = aggregates.join(", ");
                    return fail(format!("; one of _{all} is expected at its end"));
                }
            },
        };
        if !names.iter().any(|name| *name == field || without_unit(name) == field) {
            let short: Vec<&str> = names.iter().map(|name| without_unit(name)).collect();
            return fail(suggestion(field, &short));
        }
    }
    Ok(())
}

/// `fct_s` as it is written in a key: `fct`.
fn without_unit(name: &str) -> &str {
    let units = ["_gbytes_per_s", "_s", "_bytes", "_bps"];
    units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

const FLOW_FIELDS: &[&str] = &[
    "start_s",
    "fct_s",
    "acked_s",
    "ideal_fct_s",
    "slowdown",
    "delivered_bytes",
    "measured_bytes",
    "goodput_bps",
    "retransmitted_bytes",
    "bytes",
    "status",
];

const COLLECTIVE_FIELDS: &[&str] = &[
    "nodes",
    "ranks",
    "channels",
    "qps",
    "count",
    "bytes",
    "time_s",
    "algbw_gbytes_per_s",
    "busbw_gbytes_per_s",
    "status",
    "nvlink_bytes",
    "waiting_to_receive",
    "waiting_to_send",
    "extrapolated",
    "estimated_error",
    "simulated_share",
];

const PORT_FIELDS: &[&str] = &[
    "tx_bytes",
    "rx_bytes",
    "tx_packets",
    "ecn_marked_packets",
    "rx_pause_frames",
    "tx_pause_frames",
    "pause_episodes",
    "paused_s",
    "max_queue_bytes",
    "mean_queue_bytes",
];

const TOTAL_FIELDS: &[&str] = &[
    "outcome",
    "simulated_time_s",
    "packet_hops",
    "fingerprint",
    "data_packets",
    "ecn_marked_packets",
    "pfc_xoff_frames",
    "pfc_xon_frames",
    "pause_episodes",
    "paused_s",
    "cnp_sent",
    "cnp_handled",
    "nak_sent",
    "retransmitted_packets",
    "timeouts",
    "lossless_drops",
];
