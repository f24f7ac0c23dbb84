//! Where the ranks of a job are, as a scenario says it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

use crate::traffic::HostRef;

/// `placement`: hosts that a scheduler could have given to the job. Hosts that earlier sections
/// use are not taken.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementConfig {
    /// How hosts are chosen among racks. Hosts are in the same rack if they hang on the same
    /// switches.
    pub kind: PlacementKind,
    /// Number of hosts.
    pub hosts: u32,
    /// In which order they have their ranks.
    #[serde(default)]
    pub order: PlacementOrder,
}

/// How hosts are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementKind {
    /// From as few racks as can be: those with the most free hosts first.
    Packed,
    /// One of each rack in turn.
    Spread,
    /// At random.
    Random,
}

/// The order of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementOrder {
    /// By number, as schedulers sort node lists.
    #[default]
    Sorted,
    /// As they were chosen.
    Chosen,
}

/// A GPU by host and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankRef {
    /// The host.
    pub host: HostRef,
    /// The GPU; the first one of the host that no other rank has if absent.
    pub gpu: Option<u32>,
}

/// `ranks`: GPU by GPU, in the order of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// A file beside the scenario, in the manner of mpirun.
    File(String),
    /// One by one.
    List(Vec<RankRef>),
}

impl std::str::FromStr for RankRef {
    type Err = String;

    /// `host0:3` or `host0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (host, gpu) = match text.split_once(':') {
            Some((host, gpu)) => {
                let number = gpu.parse().map_err(|_| {
                    format!("`{gpu}` is no number of a GPU: `host:gpu` is expected, as in host0:3")
                })?;
                (host, Some(number))
            }
            None => (text, None),
        };
        if host.is_empty() {
            return Err("the host is missing: `host:gpu` is expected, as in host0:3".to_owned());
        }
        let number = host.parse().map(HostRef::Number);
        Ok(RankRef { host: number.unwrap_or_else(|_| HostRef::Name(host.to_owned())), gpu })
    }
}

impl Serialize for RankRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        seq.serialize_element(&self.host)?;
        if let Some(gpu) = self.gpu {
            seq.serialize_element(&gpu)?;
        }
        seq.end()
    }
}

impl<'de> Deserialize<'de> for RankRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = RankRef;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a host and a GPU such as [\"host0\", 3] or \"host0:3\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RankRef, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RankRef, A::Error> {
                let Some(host) = seq.next_element()? else {
                    return Err(de::Error::invalid_length(0, &self));
                };
                let gpu = seq.next_element()?;
                match seq.next_element::<u32>()? {
                    Some(_) => Err(de::Error::invalid_length(3, &self)),
                    None => Ok(RankRef { host, gpu }),
                }
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for RankRef {
    fn schema_name() -> Cow<'static, str> {
        "Rank".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let host = generator.subschema_for::<HostRef>();
        json_schema!({ "anyOf": [
            { "type": "string", "description": "host:gpu" },
            {
                "type": "array",
                "prefixItems": [host, { "type": "integer", "minimum": 0 }],
                "minItems": 1,
                "maxItems": 2
            }
        ] })
    }
}

impl Serialize for Ranks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ranks::File(name) => serializer.serialize_str(name),
            Ranks::List(list) => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ranks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Ranks;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a rank file, or a list such as [[\"host0\", 3], \"host1:3\"]",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Ranks, E> {
                Ok(Ranks::File(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ranks, A::Error> {
                let mut list = Vec::new();
                while let Some(rank) = seq.next_element()? {
                    list.push(rank);
                }
                Ok(Ranks::List(list))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for Ranks {
    fn schema_name() -> Cow<'static, str> {
        "Ranks".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rank = generator.subschema_for::<RankRef>();
        json_schema!({ "anyOf": [
            { "type": "string", "description": "a rank file beside the scenario" },
            { "type": "array", "items": rank }
        ] })
    }
}
