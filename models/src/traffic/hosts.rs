//! Hosts as a scenario names them: by number, by name, or several at once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::error::BuildError;
use crate::ids::NodeId;
use crate::topology::{NodeKind, Topology};

/// A host by number (counted over hosts) or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRef {
    /// The n-th host.
    Number(u32),
    /// By name.
    Name(String),
}

/// Several hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// From the first to before the second number.
    Range(u32, u32),
    /// One by one.
    List(Vec<HostRef>),
}

impl Serialize for HostRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            HostRef::Number(number) => serializer.serialize_u32(*number),
            HostRef::Name(name) => serializer.serialize_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for HostRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = HostRef;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number of a host or its name")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<HostRef, E> {
                Ok(text.parse().map_or_else(|_| HostRef::Name(text.into()), HostRef::Number))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<HostRef, E> {
                let unexpected = de::Unexpected::Signed(number);
                let number = u32::try_from(number);
                number.map(HostRef::Number).map_err(|_| E::invalid_value(unexpected, &self))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<HostRef, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for HostRef {
    fn schema_name() -> Cow<'static, str> {
        "Host".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "description": "host number or name" })
    }
}

impl Serialize for Hosts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Hosts::Range(from, to) => serializer.serialize_str(&format!("{from}..{to}")),
            Hosts::List(list) => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Hosts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Hosts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a range of host numbers such as \"0..8\" (0 to 7), or a list")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hosts, E> {
                let bounds = text.split_once("..").and_then(|(from, to)| {
                    Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
                });
                match bounds {
                    Some((from, to)) if from < to => Ok(Hosts::Range(from, to)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Hosts, A::Error> {
                let mut list = Vec::new();
                while let Some(host) = seq.next_element()? {
                    list.push(host);
                }
                Ok(Hosts::List(list))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for Hosts {
    fn schema_name() -> Cow<'static, str> {
        "Hosts".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let host = generator.subschema_for::<HostRef>();
        json_schema!({ "anyOf": [
            { "type": "string", "pattern": "^[0-9]+\\.\\.[0-9]+$" },
            { "type": "array", "items": host }
        ] })
    }
}

/// The hosts of a topology, by number and name.
#[derive(Clone, Debug)]
pub struct Directory<'a> {
    topology: &'a Topology,
    hosts: Vec<NodeId>,
    by_name: BTreeMap<&'a str, NodeId>,
}

impl<'a> Directory<'a> {
    /// Lists the hosts of `topology`.
    pub fn new(topology: &'a Topology) -> Self {
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let named = topology.nodes().iter().enumerate();
        let by_name = named.map(|(id, node)| (node.name.as_str(), NodeId(id as u32))).collect();
        Directory { topology, hosts, by_name }
    }

    pub(super) fn topology(&self) -> &'a Topology {
        self.topology
    }

    /// All hosts, in order.
    pub(crate) fn hosts(&self) -> &[NodeId] {
        &self.hosts
    }

    pub(crate) fn find(&self, host: &HostRef, key: &str) -> Result<NodeId, BuildError> {
        let refuse = |message: String| Err(BuildError::new(key, message));
        match host {
            HostRef::Number(number) => match self.hosts.get(*number as usize) {
                Some(host) => Ok(*host),
                None => refuse(format!("there is no host {number}: {} are there", self.range())),
            },
            HostRef::Name(name) => match self.by_name.get(name.as_str()) {
                Some(id) if self.topology.node(*id).kind == NodeKind::Host => Ok(*id),
                Some(_) => refuse(format!("{name:?} is a switch: a host is expected")),
                None => refuse(format!("there is no node {name:?}: {} are there", self.range())),
            },
        }
    }

    fn range(&self) -> String {
        format!("hosts 0 to {}", self.hosts.len().saturating_sub(1))
    }

    pub(crate) fn find_all(&self, hosts: &Hosts, key: &str) -> Result<Vec<NodeId>, BuildError> {
        match hosts {
            Hosts::Range(from, to) => {
                self.find(&HostRef::Number(to - 1), key)?;
                Ok(self.hosts[*from as usize..*to as usize].to_vec())
            }
            Hosts::List(list) if list.is_empty() => Err(BuildError::new(key, "no hosts")),
            Hosts::List(list) => list.iter().map(|host| self.find(host, key)).collect(),
        }
    }
}
