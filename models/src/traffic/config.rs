//! The keys of incast, permutation and lists of flows.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sim_core::{Bytes, Delta, Rate};

use super::hosts::{HostRef, Hosts};

/// `"1MB"`, or `"unlimited"` for as long as the run lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSize {
    /// This much.
    Bytes(Bytes),
    /// Without end.
    Unlimited,
}

impl Serialize for FlowSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FlowSize::Bytes(bytes) => bytes.serialize(serializer),
            FlowSize::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for FlowSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = FlowSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"1MB\", or \"unlimited\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<FlowSize, E> {
                match text {
                    "unlimited" => Ok(FlowSize::Unlimited),
                    text => text.parse().map(FlowSize::Bytes).map_err(E::custom),
                }
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<FlowSize, E> {
                Err(E::custom(format!("{number} has no unit: write \"1MB\" or \"64KiB\"")))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<FlowSize, E> {
                self.visit_i64(number as i64)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for FlowSize {
    fn schema_name() -> Cow<'static, str> {
        "FlowSize".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "a size, or \"unlimited\"" })
    }
}

/// What carries a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// An RC connection, one WRITE.
    #[default]
    Rc,
    /// An RC connection, one SEND; the receiver has always posted a buffer.
    RcSend,
    /// An RC connection, one READ: the target asks, and the source answers.
    RcRead,
    /// A TCP connection (`[nic.tcp]`): a window that grows until frames are lost.
    Tcp,
}

/// `kind = "incast"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IncastConfig {
    /// A name for `--set` and reports.
    #[serde(default)]
    pub name: String,
    /// The senders: a range of host numbers `"0..8"` (0 to 7), or a list.
    pub senders: Hosts,
    /// The receiver.
    pub receiver: HostRef,
    /// Size of each flow.
    pub bytes: FlowSize,
    /// When they start.
    #[serde(default)]
    pub start: Delta,
    /// Each starts up to this much later, at random.
    #[serde(default)]
    pub jitter: Delta,
    /// QPs of each sender, each with a flow of this size.
    #[serde(default = "one")]
    pub qps: u32,
    /// The same again and again; once if absent.
    pub repeat: Option<RepeatConfig>,
    /// DSCP, instead of the NIC's.
    pub dscp: Option<u8>,
    /// What carries them.
    #[serde(default)]
    pub transport: Transport,
}

/// `repeat`: rounds that start one after another, whether or not the one before is done. Each
/// round has QPs of its own.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatConfig {
    /// From the start of one round to the start of the next.
    pub every: Delta,
    /// Number of rounds, the first included; with 0 there is no such traffic, as one value of an
    /// axis of a study may want it.
    pub count: u32,
    /// The times between rounds are random (exponential, with `every` as their mean).
    #[serde(default)]
    pub random: bool,
    /// Senders and receiver of each round stand so many hosts after those of the round before; the
    /// first host follows the last. Without it no host but the one receives, and it alone bears
    /// the load of all rounds.
    #[serde(default)]
    pub shift: u32,
}

/// `kind = "permutation"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermutationConfig {
    /// A name for `--set` and reports.
    #[serde(default)]
    pub name: String,
    /// Size of each flow.
    pub bytes: FlowSize,
    /// Host i sends to host i + `shift`; a random permutation without fixed points if absent.
    pub shift: Option<u32>,
    /// The hosts that take part; all if absent.
    pub hosts: Option<Hosts>,
    /// When they start.
    #[serde(default)]
    pub start: Delta,
    /// Each starts up to this much later, at random.
    #[serde(default)]
    pub jitter: Delta,
    /// DSCP, instead of the NIC's.
    pub dscp: Option<u8>,
    /// What carries them.
    #[serde(default)]
    pub transport: Transport,
}

/// `kind = "flows"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowsConfig {
    /// A name for `--set` and reports.
    #[serde(default)]
    pub name: String,
    /// The flows.
    #[serde(default)]
    pub flows: Vec<FlowConfig>,
    /// A CSV file with a header of these keys (`source,target,bytes,...`), beside the scenario.
    pub file: Option<String>,
    /// DSCP of flows that do not say, instead of the NIC's.
    pub dscp: Option<u8>,
    /// What carries them.
    #[serde(default)]
    pub transport: Transport,
}

/// One flow.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// The sender.
    pub source: HostRef,
    /// The receiver.
    pub target: HostRef,
    /// Size.
    pub bytes: FlowSize,
    /// When it starts; with `after`, how long after that.
    #[serde(default)]
    pub start: Delta,
    /// It starts when all these are acknowledged: earlier flows of the same section, counted from
    /// 0 (those of `file` follow those of `flows`).
    #[serde(default)]
    pub after: After,
    /// Unacknowledged payload at most, instead of `nic.transport.window`.
    pub window: Option<Bytes>,
    /// Wire rate that it never passes, as a rate limiter of the NIC holds it, whatever congestion
    /// control allows; the port's if absent.
    pub rate: Option<Rate>,
    /// DSCP, instead of the NIC's.
    pub dscp: Option<u8>,
    /// UDP source port, instead of the NIC's choice.
    pub source_port: Option<u16>,
    /// UDP destination port, instead of the wire's.
    pub destination_port: Option<u16>,
}

/// Numbers of flows: `3`, `[3, 4]`, or as in a cell of a CSV file `"3 4"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After(pub Vec<u32>);

impl Serialize for After {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = After;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("numbers of earlier flows, such as [3, 4]")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<After, E> {
                let numbers = text.split_whitespace().map(|word| {
                    word.parse().map_err(|_| {
                        E::custom(format!("`{word}` is no number of a flow: `3 4` is expected"))
                    })
                });
                numbers.collect::<Result<_, _>>().map(After)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<After, E> {
                let number = u32::try_from(number);
                number.map(|number| After(vec![number])).map_err(|_| {
                    E::custom("out of range: the number of an earlier flow is expected")
                })
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<After, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(-1))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<After, A::Error> {
                let mut flows = Vec::new();
                while let Some(flow) = sequence.next_element()? {
                    flows.push(flow);
                }
                Ok(After(flows))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for After {
    fn schema_name() -> Cow<'static, str> {
        "After".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["array", "integer", "string"],
            "items": { "type": "integer", "minimum": 0 },
            "minimum": 0,
            "description": "numbers of earlier flows"
        })
    }
}

fn one() -> u32 {
    1
}
