//! `[[traffic]]`: from what is asked for to flows with a source, a target, a size and a start.

mod config;
mod hosts;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::rng::{Domain, Stream};
use sim_core::{Delta, Time};

pub use config::{FlowConfig, FlowSize, FlowsConfig, IncastConfig, PermutationConfig};
pub use hosts::{Directory, HostRef, Hosts};

use crate::error::BuildError;
use crate::ids::NodeId;
use crate::topology::Topology;

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
            let name = &self.directory.topology().node(receiver).name;
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
            None => self.directory.hosts().to_vec(),
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
    use sim_core::{Bytes, Rate};

    fn star(hosts: u32) -> Topology {
        let link = LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };
        Topology::build(&TopologyConfig::Star(StarConfig { hosts, link })).unwrap()
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
