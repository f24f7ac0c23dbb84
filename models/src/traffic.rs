//! `[[traffic]]`: from what is asked for to flows with a source, a target, a size and a start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::rng::{Domain, Stream};
use sim_core::{Bytes, Delta, Time};

use crate::collective::CollectiveConfig;
use crate::error::BuildError;
use crate::ids::NodeId;
use crate::topology::{NodeKind, Topology};

/// One traffic section.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind")]
pub enum TrafficConfig {
    /// Many senders to one receiver.
    Incast(IncastConfig),
    /// Every host sends to one other host and receives from one.
    Permutation(PermutationConfig),
    /// Flows one by one.
    Flows(FlowsConfig),
    /// An operation of NCCL's over the GPUs of hosts.
    Collective(CollectiveConfig),
}

impl TrafficConfig {
    /// Its name; empty if it has none.
    pub fn name(&self) -> &str {
        match self {
            TrafficConfig::Incast(section) => &section.name,
            TrafficConfig::Permutation(section) => &section.name,
            TrafficConfig::Flows(section) => &section.name,
            TrafficConfig::Collective(section) => &section.name,
        }
    }
}

/// `"1MB"`, or `"unlimited"` for as long as the run lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSize {
    /// This much.
    Bytes(Bytes),
    /// Without end.
    Unlimited,
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
    /// DSCP, instead of the NIC's.
    pub dscp: Option<u8>,
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
    /// When it starts.
    #[serde(default)]
    pub start: Delta,
    /// DSCP, instead of the NIC's.
    pub dscp: Option<u8>,
    /// UDP source port, instead of the NIC's choice.
    pub source_port: Option<u16>,
    /// UDP destination port, instead of the wire's.
    pub destination_port: Option<u16>,
}

/// One RC connection that carries one message.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Sender.
    pub source: NodeId,
    /// Receiver.
    pub target: NodeId,
    /// Size; `None` for unlimited.
    pub bytes: Option<u64>,
    /// When it starts.
    pub start: Time,
    /// DSCP, instead of the NIC's.
    pub dscp: Option<u8>,
    /// UDP source port, instead of the NIC's choice.
    pub source_port: Option<u16>,
    /// UDP destination port, instead of the wire's.
    pub destination_port: Option<u16>,
    /// The traffic section that it belongs to.
    pub section: u32,
}

fn one() -> u32 {
    1
}

mod text {
    //! Serde of the small types.
    use std::borrow::Cow;
    use std::fmt;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde::de::{self, Deserializer, SeqAccess, Visitor};
    use serde::{Deserialize, Serialize, Serializer};

    use super::{FlowSize, HostRef, Hosts};

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
}

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

/// The hosts of a topology, by number and name.
pub struct Directory<'a> {
    topology: &'a Topology,
    hosts: Vec<NodeId>,
    by_name: std::collections::BTreeMap<&'a str, NodeId>,
}

impl<'a> Directory<'a> {
    /// Lists the hosts of `topology`.
    pub fn new(topology: &'a Topology) -> Self {
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let named = topology.nodes().iter().enumerate();
        let by_name = named.map(|(id, node)| (node.name.as_str(), NodeId(id as u32))).collect();
        Directory { topology, hosts, by_name }
    }

    fn find(&self, host: &HostRef, key: &str) -> Result<NodeId, BuildError> {
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

    /// All hosts.
    pub(crate) fn hosts(&self) -> &[NodeId] {
        &self.hosts
    }

    fn range(&self) -> String {
        format!("hosts 0 to {}", self.hosts.len().saturating_sub(1))
    }

    /// The hosts that a list or range names; `key` is its key, for messages.
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

/// All flows of all sections, in their order.
pub fn flows(
    sections: &[TrafficConfig],
    topology: &Topology,
    seed: u64,
) -> Result<Vec<Flow>, BuildError> {
    let directory = Directory::new(topology);
    let mut flows = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let random = Stream::new(seed, Domain::Traffic, index as u64);
        let key = format!("traffic[{index}]");
        let mut plan = Plan { flows: &mut flows, directory: &directory, random, index, key };
        match section {
            TrafficConfig::Incast(incast) => plan.incast(incast)?,
            TrafficConfig::Permutation(permutation) => plan.permutation(permutation)?,
            TrafficConfig::Flows(list) => plan.list(list)?,
            TrafficConfig::Collective(_) => {}
        }
    }
    Ok(flows)
}

struct Plan<'a> {
    flows: &'a mut Vec<Flow>,
    directory: &'a Directory<'a>,
    random: Stream,
    index: usize,
    key: String,
}

impl Plan<'_> {
    fn key(&self, field: &str) -> String {
        format!("{}.{field}", self.key)
    }

    fn flow(&mut self, ends: [NodeId; 2], size: FlowSize, start: Delta, dscp: Option<u8>) -> Flow {
        let bytes = match size {
            FlowSize::Bytes(bytes) => Some(bytes.get()),
            FlowSize::Unlimited => None,
        };
        Flow {
            source: ends[0],
            target: ends[1],
            bytes,
            start: Time::ZERO + start,
            dscp,
            source_port: None,
            destination_port: None,
            section: self.index as u32,
        }
    }

    /// The start of one flow.
    fn start(&mut self, start: Delta, jitter: Delta) -> Delta {
        match jitter {
            Delta::ZERO => start,
            jitter => start + Delta::from_ps(self.random.below(jitter.ps())),
        }
    }

    fn incast(&mut self, incast: &IncastConfig) -> Result<(), BuildError> {
        let receiver = self.directory.find(&incast.receiver, &self.key("receiver"))?;
        let senders = self.directory.find_all(&incast.senders, &self.key("senders"))?;
        if senders.contains(&receiver) {
            let name = &self.directory.topology.node(receiver).name;
            let message = format!("the receiver, {name}, is among the senders");
            return Err(BuildError::new(self.key("receiver"), message));
        }
        if incast.qps == 0 || incast.qps > 4096 {
            let message = format!("{} is out of range: 1 to 4096 is expected", incast.qps);
            return Err(BuildError::new(self.key("qps"), message));
        }
        for sender in senders {
            for _ in 0..incast.qps {
                let start = self.start(incast.start, incast.jitter);
                let flow = self.flow([sender, receiver], incast.bytes, start, incast.dscp);
                self.flows.push(flow);
            }
        }
        Ok(())
    }

    fn permutation(&mut self, permutation: &PermutationConfig) -> Result<(), BuildError> {
        let hosts = match &permutation.hosts {
            Some(hosts) => self.directory.find_all(hosts, &self.key("hosts"))?,
            None => self.directory.hosts.clone(),
        };
        let count = hosts.len();
        if count < 2 {
            let message = "a permutation without fixed points needs at least 2 hosts";
            return Err(BuildError::new(self.key("hosts"), message));
        }
        let targets: Vec<usize> = match permutation.shift {
            Some(shift) if (shift as usize).is_multiple_of(count) => {
                let message = format!("{shift} sends each of {count} hosts to itself");
                return Err(BuildError::new(self.key("shift"), message));
            }
            Some(shift) => (0..count).map(|i| (i + shift as usize) % count).collect(),
            None => self.derangement(count),
        };
        for (source, target) in targets.into_iter().enumerate() {
            let start = self.start(permutation.start, permutation.jitter);
            let ends = [hosts[source], hosts[target]];
            let flow = self.flow(ends, permutation.bytes, start, permutation.dscp);
            self.flows.push(flow);
        }
        Ok(())
    }

    /// One random cycle through all: Sattolo's algorithm, which has no fixed points.
    fn derangement(&mut self, count: usize) -> Vec<usize> {
        let mut targets: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            targets.swap(last, self.random.below(last as u64) as usize);
        }
        targets
    }

    fn list(&mut self, list: &FlowsConfig) -> Result<(), BuildError> {
        if list.flows.is_empty() {
            return Err(BuildError::new(self.key("flows"), "no flows"));
        }
        for (number, config) in list.flows.iter().enumerate() {
            let key = |field: &str| format!("{}.flows[{number}].{field}", self.key);
            let source = self.directory.find(&config.source, &key("source"))?;
            let target = self.directory.find(&config.target, &key("target"))?;
            if source == target {
                return Err(BuildError::new(key("target"), "the flow ends where it starts"));
            }
            let dscp = config.dscp.or(list.dscp);
            let mut flow = self.flow([source, target], config.bytes, config.start, dscp);
            flow.source_port = config.source_port;
            flow.destination_port = config.destination_port;
            self.flows.push(flow);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{LinkConfig, StarConfig, TopologyConfig};
    use sim_core::Rate;

    fn star(hosts: u32) -> Topology {
        let link = LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };
        Topology::build(&TopologyConfig::Star(StarConfig { hosts, link, ports_per_host: 1 }))
            .unwrap()
    }

    fn permutation(shift: Option<u32>) -> TrafficConfig {
        TrafficConfig::Permutation(PermutationConfig {
            name: String::new(),
            bytes: FlowSize::Bytes(Bytes::new(1)),
            shift,
            hosts: None,
            start: Delta::ZERO,
            jitter: Delta::from_us(3),
            dscp: None,
        })
    }

    #[test]
    fn a_random_permutation_has_no_fixed_points() {
        let flows = flows(&[permutation(None)], &star(50), 7).unwrap();
        let mut targets: Vec<_> = flows.iter().map(|flow| flow.target).collect();
        assert!(flows.iter().all(|flow| flow.source != flow.target));
        assert!(flows.iter().all(|flow| flow.start < Time::ZERO + Delta::from_us(3)));
        targets.sort();
        targets.dedup();
        assert_eq!(targets.len(), 50);
    }

    #[test]
    fn bad_traffic_names_its_key() {
        let error = flows(&[permutation(Some(4))], &star(4), 7).unwrap_err();
        assert_eq!(error.key, "traffic[0].shift");
        let incast = |senders, receiver| {
            TrafficConfig::Incast(IncastConfig {
                name: String::new(),
                senders,
                receiver,
                bytes: FlowSize::Unlimited,
                start: Delta::ZERO,
                jitter: Delta::ZERO,
                qps: 1,
                dscp: None,
            })
        };
        let key = |traffic| flows(&[traffic], &star(4), 7).unwrap_err().key;
        assert_eq!(key(incast(Hosts::Range(0, 4), HostRef::Number(2))), "traffic[0].receiver");
        assert_eq!(key(incast(Hosts::Range(0, 5), HostRef::Number(2))), "traffic[0].senders");
        assert_eq!(
            key(incast(Hosts::Range(0, 2), HostRef::Name("sw0".into()))),
            "traffic[0].receiver"
        );
    }
}
