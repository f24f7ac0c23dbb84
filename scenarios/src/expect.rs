//! `[expect]`: what must hold after a run.
//!
//! A key names a number of the report, a value or bounds what it must be:
//!
//! ```toml
//! [expect]
//! outcome = "completed"
//! lossless_drops = 0                                # any name under `totals`
//! deadlocks = 0                                     # circles that stand still
//! "flows.fct_max" = { below = "1.2ms" }             # a field of flows or ports, and min, max,
//! "flows.slowdown_p99" = { above = 1, below = 4 }   # mean, sum, p50, p95 or p99 over them
//! "ports.sw0:8.max_queue_bytes" = { below = "2MB" } # one port
//! "flows[3].goodput_bps" = { above = "9Gbps" }      # one flow
//! "flows.storage.fct_p99" = { below = "2ms" }       # those of one traffic section,
//! "flows.10KB.slowdown_p99" = { below = 3 }         # of a bin of `slowdown_by_size`, of sizes above
//! "flows.storage.0B-100KB.slowdown_p99" = { below = 5 } # one and up to another, or both
//! queue_p99 = { below = "200KB" }                   # with `sample.interval`, of all switch ports
//! "collectives.busbw_max" = { above = 22 }          # GB/s
//! "collectives[0].time" = { below = "11ms" }        # the first collective of the first size
//! "trainings[0].step_time" = { below = "90ms" }     # the first training job
//! "programs[0].time" = { below = "3ms" }            # the first GOAL schedule
//! "findings.ecn_after_pfc" = 1                      # number of findings of a kind
//! ```

mod which;

use std::fmt;

use models::counters::DropReason;
use models::fabric::Spec;
use models::report::{
    CollectiveReport, FlowReport, FlowStatus, PortReport, ProgramReport, Report, TrainingReport,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};
use sim_core::units::grouped;
use sim_core::{Bytes, Delta, Rate};

use crate::diagnose;
use crate::load::{LoadError, Node, suggestion};
use crate::{stats, text};
use which::Which;

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
    let entries = expect.into_iter();
    entries
        .map(|(key, expected)| {
            let found = look_up(report, key).map_or(Value::Null, |(_, found)| found);
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

/// The end of a field's name, and how its numbers are written.
type Unit = (&'static str, fn(f64) -> String);

const UNITS: [Unit; 4] = [
    ("_gbytes_per_s", |value| format!("{value:.2} GB/s")),
    ("_s", text::span),
    ("_bps", text::rate),
    ("_bytes", text::bytes),
];

/// The value that a key names, as a person reads it: with its unit.
pub fn measured(report: &Report, key: &str) -> String {
    let Some((name, value)) = look_up(report, key) else { return "-".to_owned() };
    let number = match &value {
        Value::Number(number) => number.as_f64().unwrap_or(0.0),
        Value::String(text) => return text.clone(),
        _ => return "-".to_owned(),
    };
    let unit = UNITS.iter().find(|(unit, _)| name.ends_with(unit));
    match (unit, value.as_u64()) {
        (Some((_, written)), _) => written(number),
        (None, Some(count)) => grouped(count),
        (None, None) => format!("{number:.2}"),
    }
}

/// The number that a key names, if it names one.
pub(crate) fn number(report: &Report, key: &str) -> Option<f64> {
    look_up(report, key)?.1.as_f64()
}

/// The unit of what a key names, such as `_bytes`; nothing for plain numbers.
pub(crate) fn unit(key: &str) -> &'static str {
    let field = field_of(key);
    let unit = |name: &&str| UNITS.iter().find(|(unit, _)| name.ends_with(unit));
    let all = [
        names(FLOW_FIELDS),
        names(COLLECTIVE_FIELDS),
        names(PORT_FIELDS),
        names(TRAINING_FIELDS),
        names(PROGRAM_FIELDS),
        names(TOTAL_FIELDS),
    ];
    let list = match key.split(['.', '[']).next() {
        Some("flows") => 0,
        Some("collectives") => 1,
        Some("ports") => 2,
        Some("trainings") => 3,
        Some("programs") => 4,
        _ => 5,
    };
    let named = |name: &&&str| **name == field || without_unit(name) == field;
    let full = all[list].iter().find(named);
    full.and_then(unit).map_or("", |(unit, _)| unit)
}

/// The field of a key, without its list and its aggregate.
fn field_of(key: &str) -> &str {
    let Some((list, _)) = key.split_once(['.', '[']) else { return key };
    let last = key.rsplit('.').next().unwrap_or(key);
    match last.rsplit_once('_') {
        Some((field, how)) if AGGREGATES.contains(&how) && list != "findings" => field,
        _ => last,
    }
}

/// Whether a key names a number.
pub(crate) fn is_number(key: &str) -> bool {
    !matches!(field_of(key), "outcome" | "status" | "fingerprint" | "extrapolated")
}

/// A number with its unit, as a person reads it.
pub(crate) fn written(unit: &str, number: f64) -> String {
    match UNITS.iter().find(|(known, _)| *known == unit) {
        Some((_, written)) => written(number),
        None if number.fract() == 0.0 && number.abs() < 1e15 => {
            let sign = if number < 0.0 { "-" } else { "" };
            format!("{sign}{}", grouped(number.abs() as u64))
        }
        None if (1e-3..1e7).contains(&number.abs()) => {
            let digits = 3 - (number.abs().log10().floor() as i32).min(3);
            format!("{number:.*}", digits as usize)
        }
        None => format!("{number:.3e}"),
    }
}

/// The value that a key names, and the name of its field with the unit.
fn look_up(report: &Report, key: &str) -> Option<(&'static str, Value)> {
    if let Some(kind) = key.strip_prefix("findings.") {
        let count = report.findings.iter().filter(|finding| finding.kind == kind).count();
        return Some(("", count.into()));
    }
    if let Some(reason) = key.strip_prefix("drops.") {
        return Some(("", report.totals.drops.get(reason).copied().unwrap_or(0).into()));
    }
    if let Some((list, rest)) = key.split_once('[') {
        let (number, field) = rest.split_once("].")?;
        let number = number.parse::<usize>().ok()?;
        return match list {
            "flows" => value_of(FLOW_FIELDS, report.flows.get(number)?, field),
            "collectives" => value_of(COLLECTIVE_FIELDS, report.collectives.get(number)?, field),
            "trainings" => value_of(TRAINING_FIELDS, report.trainings.get(number)?, field),
            "programs" => value_of(PROGRAM_FIELDS, report.programs.get(number)?, field),
            _ => None,
        };
    }
    if key == "deadlocks" {
        return Some(("", report.deadlocks.len().into()));
    }
    match key.split_once('.') {
        Some(("flows", "completed")) => Some(completed(report.flows.iter().map(|f| f.status))),
        Some(("collectives", "completed")) => {
            Some(completed(report.collectives.iter().map(|c| c.status)))
        }
        Some(("flows", rest)) => match rest.rsplit_once('.') {
            None => aggregate(FLOW_FIELDS, &report.flows, rest),
            Some((which, field)) => {
                let which = Which::read(which);
                let flows = report.flows.iter().filter(|flow| which.has(flow));
                match field {
                    "completed" => Some(completed(flows.map(|flow| flow.status))),
                    field => aggregate(FLOW_FIELDS, flows, field),
                }
            }
        },
        Some(("collectives", rest)) => aggregate(COLLECTIVE_FIELDS, &report.collectives, rest),
        Some(("trainings", "completed")) => {
            Some(completed(report.trainings.iter().map(|training| training.status)))
        }
        Some(("trainings", rest)) => aggregate(TRAINING_FIELDS, &report.trainings, rest),
        Some(("programs", "completed")) => {
            Some(completed(report.programs.iter().map(|program| program.status)))
        }
        Some(("programs", rest)) => aggregate(PROGRAM_FIELDS, &report.programs, rest),
        Some(("ports", rest)) => match rest.rsplit_once('.') {
            None => aggregate(PORT_FIELDS, &report.ports, rest),
            Some((name, field)) => {
                let port = report.ports.iter().find(|port| port.port == name)?;
                value_of(PORT_FIELDS, port, field)
            }
        },
        _ => value_of(TOTAL_FIELDS, report, key),
    }
}

fn completed(statuses: impl Iterator<Item = FlowStatus>) -> (&'static str, Value) {
    ("", statuses.filter(|status| *status == FlowStatus::Completed).count().into())
}

/// A field by its name, or by its name without the unit.
fn named<'a, T>(fields: &'a [Field<T>], name: &str) -> Option<&'a Field<T>> {
    let whole = fields.iter().find(|field| field.0 == name);
    whole.or_else(|| fields.iter().find(|field| without_unit(field.0) == name))
}

fn value_of<T>(fields: &[Field<T>], entry: &T, name: &str) -> Option<(&'static str, Value)> {
    named(fields, name).map(|(name, of)| (*name, of(entry)))
}

fn aggregate<'a, T: 'a>(
    fields: &[Field<T>],
    list: impl IntoIterator<Item = &'a T>,
    name: &str,
) -> Option<(&'static str, Value)> {
    let (field, how) = name.rsplit_once('_')?;
    let (name, of) = named(fields, field)?;
    let values = stats::sorted(list.into_iter().filter_map(|entry| of(entry).as_f64()));
    if values.is_empty() && how != "sum" {
        return None;
    }
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
    serde_json::Number::from_f64(result).map(|number| (*name, Value::Number(number)))
}

/// Refuses keys that name nothing in a report.
pub(crate) fn check_names(tree: &Node, spec: &Spec) -> Result<(), LoadError> {
    let Some(expect) = tree.get("expect").and_then(Node::as_table) else { return Ok(()) };
    for entry in expect {
        check_name(&entry.key, Some(spec))
            .map_err(|message| LoadError::new(message).within("expect").at(entry.key_origin))?;
    }
    Ok(())
}

/// The message about a key that names nothing in a report; without `spec` any port and any traffic
/// section is taken.
pub(crate) fn check_name(key: &str, spec: Option<&Spec>) -> Result<(), String> {
    let fail = |hint: String| Err(format!("`{key}` names nothing in a report{hint}"));
    if ["flows", "ports", "collectives", "trainings", "programs"].contains(&key) {
        return fail(format!("; a key with a point is quoted: \"{key}.fct_max\""));
    }
    let completed = |list: &str| key.strip_prefix(list) == Some(".completed");
    if ["flows", "collectives", "trainings", "programs"].into_iter().any(completed)
        || key == "deadlocks"
    {
        return Ok(());
    }
    let (list, rest) = key.split_once('.').unwrap_or(("", key));
    let (names, how, last): (Vec<&str>, _, &str) = match list {
        "findings" => (diagnose::KINDS.to_vec(), None, rest),
        "drops" => (DropReason::ALL.map(DropReason::name).to_vec(), None, rest),
        "flows" => match rest.rsplit_once('.') {
            None => (names(FLOW_FIELDS), Some(AGGREGATES), rest),
            Some((which, field)) => {
                if let Some(fault) = spec.and_then(|s| Which::read(which).fault(&s.sections)) {
                    return fail(fault);
                }
                if field == "completed" {
                    return Ok(());
                }
                (names(FLOW_FIELDS), Some(AGGREGATES), field)
            }
        },
        _ if list.starts_with("flows[") => (names(FLOW_FIELDS), None, rest),
        "collectives" => (names(COLLECTIVE_FIELDS), Some(AGGREGATES), rest),
        _ if list.starts_with("collectives[") => (names(COLLECTIVE_FIELDS), None, rest),
        "trainings" => (names(TRAINING_FIELDS), Some(AGGREGATES), rest),
        _ if list.starts_with("trainings[") => (names(TRAINING_FIELDS), None, rest),
        "programs" => (names(PROGRAM_FIELDS), Some(AGGREGATES), rest),
        _ if list.starts_with("programs[") => (names(PROGRAM_FIELDS), None, rest),
        "ports" => match rest.rsplit_once('.') {
            None => (names(PORT_FIELDS), Some(AGGREGATES), rest),
            Some((port, field)) => {
                if spec.is_some_and(|spec| spec.topology.find_port(port).is_none()) {
                    return fail(format!("; there is no port `{port}`"));
                }
                (names(PORT_FIELDS), None, field)
            }
        },
        _ => (names(TOTAL_FIELDS), None, key),
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
    Ok(())
}

/// `fct_s` as it is written in a key: `fct`.
fn without_unit(name: &str) -> &str {
    let units = ["_gbytes_per_s", "_s", "_bytes", "_bps"];
    units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

/// The name of a field, and how it is read.
type Field<T> = (&'static str, fn(&T) -> Value);

fn names<T>(fields: &[Field<T>]) -> Vec<&'static str> {
    fields.iter().map(|field| field.0).collect()
}

/// Fields under their own names; in brackets the parts of a report that have others, and behind
/// `?` a part that may be absent, with the names that its fields have in keys.
macro_rules! fields {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), |entry| json!(entry.$name))),*]
    };
    ([$($own:ident),*], $part:ident: [$($name:ident),* $(,)?],
     $maybe:ident?: [$($key:ident = $field:ident),* $(,)?]) => {
        &[
            $((stringify!($own), |entry| json!(entry.$own)),)*
            $((stringify!($name), |entry| json!(entry.$part.$name)),)*
            $((stringify!($key), |entry| json!(entry.$maybe.as_ref().map(|part| part.$field))),)*
        ]
    };
}

const FLOW_FIELDS: &[Field<FlowReport>] = fields![
    start_s,
    fct_s,
    acked_s,
    ideal_fct_s,
    slowdown,
    delivered_bytes,
    measured_bytes,
    goodput_bps,
    retransmitted_bytes,
    reordered_packets,
    bytes,
    status,
    paused_share,
    victim_share,
];

const COLLECTIVE_FIELDS: &[Field<CollectiveReport>] = fields![
    nodes,
    ranks,
    channels,
    qps,
    count,
    bytes,
    time_s,
    algbw_gbytes_per_s,
    busbw_gbytes_per_s,
    status,
    nvlink_bytes,
    waiting_to_receive,
    waiting_to_send,
    extrapolated,
    estimated_error,
    simulated_share,
];

const TRAINING_FIELDS: &[Field<TrainingReport>] = fields![
    nodes,
    ranks,
    tp,
    pp,
    dp,
    microbatches,
    status,
    steps,
    step_time_s,
    step_time_p50_s,
    step_time_max_s,
    compute_s,
    exposed_s,
    exposed_share,
    tp_wait_s,
    pp_wait_s,
    dp_wait_s,
    dp_busy_s,
];

const PROGRAM_FIELDS: &[Field<ProgramReport>] =
    fields![nodes, ranks, tasks, messages, bytes, lines, status, time_s];

const PORT_FIELDS: &[Field<PortReport>] = fields![
    tx_bytes,
    rx_bytes,
    tx_packets,
    ecn_marked_packets,
    rx_pause_frames,
    tx_pause_frames,
    pause_episodes,
    paused_s,
    max_queue_bytes,
    mean_queue_bytes,
];

const TOTAL_FIELDS: &[Field<Report>] = fields!(
    [outcome, simulated_time_s, packet_hops, fingerprint],
    totals: [
        data_packets,
        ecn_marked_packets,
        pfc_xoff_frames,
        pfc_xon_frames,
        pause_episodes,
        paused_s,
        cnp_sent,
        cnp_handled,
        nak_sent,
        retransmitted_packets,
        reordered_packets,
        timeouts,
        lossless_drops,
    ],
    queue_bytes?: [
        queue_mean_bytes = mean,
        queue_p50_bytes = p50,
        queue_p95_bytes = p95,
        queue_p99_bytes = p99,
        queue_max_bytes = max,
    ]
);
