//! `[[traffic]]`: from what is asked for to flows with a source, a target, a size and a start.

mod cdf;
mod config;
mod hosts;
mod poisson;
mod sizes;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::rng::{Domain, Stream};
use sim_core::{Bytes, Delta, Rate, Time};

pub use config::{
    After, FlowConfig, FlowSize, FlowsConfig, IncastConfig, PermutationConfig, RepeatConfig,
    Transport,
};
pub use hosts::{Directory, HostRef, Hosts};
pub use poisson::PoissonConfig;
pub use sizes::{PublishedSizes, Sizes};

use crate::collective::CollectiveConfig;
use crate::error::BuildError;
use crate::ids::NodeId;
use crate::program::ProgramConfig;
use crate::topology::Topology;
use crate::training::TrainingConfig;

/// More flows than this are refused before they take memory.
pub const FLOWS_MAX: usize = 50_000_000;

/// One traffic section.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind")]
pub enum TrafficConfig {
    /// Many senders to one receiver.
    Incast(IncastConfig),
    /// Every host sends to one other host and receives from one.
    Permutation(PermutationConfig),
    /// Messages of random sizes at random times between random hosts.
    Poisson(PoissonConfig),
    /// Flows one by one.
    Flows(FlowsConfig),
    /// An operation of NCCL's over the GPUs of hosts.
    Collective(CollectiveConfig),
    /// Training steps: compute times, and the collectives between them.
    Training(TrainingConfig),
    /// An algorithm of MSCCL, or a GOAL schedule.
    Program(ProgramConfig),
}

impl TrafficConfig {
    /// Its name; empty if it has none.
    pub fn name(&self) -> &str {
        match self {
            TrafficConfig::Incast(section) => &section.name,
            TrafficConfig::Permutation(section) => &section.name,
            TrafficConfig::Poisson(section) => &section.name,
            TrafficConfig::Flows(section) => &section.name,
            TrafficConfig::Collective(section) => &section.name,
            TrafficConfig::Training(section) => &section.name,
            TrafficConfig::Program(section) => &section.name,
        }
    }

    /// DSCP, if it has one, and transport of its flows.
    fn class(&self) -> (Option<u8>, Transport) {
        match self {
            TrafficConfig::Incast(section) => (section.dscp, section.transport),
            TrafficConfig::Permutation(section) => (section.dscp, section.transport),
            TrafficConfig::Poisson(section) => (section.dscp, section.transport),
            TrafficConfig::Flows(section) => (section.dscp, section.transport),
            TrafficConfig::Collective(_)
            | TrafficConfig::Training(_)
            | TrafficConfig::Program(_) => (None, Transport::Rc),
        }
    }
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
    /// When it starts, or how long after the last of `after` is acknowledged.
    pub start: Time,
    /// Flows (by number, all lower than its own) that must be acknowledged before it starts.
    pub after: Box<[u32]>,
    /// What carries it.
    pub transport: Transport,
    /// Window, instead of the NIC's.
    pub window: Option<Bytes>,
    /// Wire rate that it never passes.
    pub rate: Option<Rate>,
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
        let class = section.class();
        let mut plan = Plan { flows: &mut flows, directory: &directory, random, index, key, class };
        match section {
            TrafficConfig::Incast(incast) => plan.incast(incast)?,
            TrafficConfig::Permutation(permutation) => plan.permutation(permutation)?,
            TrafficConfig::Poisson(poisson) => plan.poisson(poisson)?,
            TrafficConfig::Flows(list) => plan.list(list)?,
            TrafficConfig::Collective(_)
            | TrafficConfig::Training(_)
            | TrafficConfig::Program(_) => {}
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
    /// DSCP and transport of its flows.
    class: (Option<u8>, Transport),
}

impl Plan<'_> {
    fn key(&self, field: &str) -> String {
        format!("{}.{field}", self.key)
    }

    fn flow(&mut self, ends: [NodeId; 2], size: FlowSize, start: Delta) -> Flow {
        let bytes = match size {
            FlowSize::Bytes(bytes) => Some(bytes.get()),
            FlowSize::Unlimited => None,
        };
        Flow {
            source: ends[0],
            target: ends[1],
            bytes,
            start: Time::ZERO + start,
            after: Box::default(),
            transport: self.class.1,
            window: None,
            rate: None,
            dscp: self.class.0,
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
        let moved = self.moved(incast.repeat.as_ref().map_or(0, |repeat| repeat.shift));
        let rounds = self.rounds(incast, senders.len() * incast.qps as usize)?;
        for (number, round) in rounds.into_iter().enumerate() {
            for sender in &senders {
                for _ in 0..incast.qps {
                    let start = self.start(incast.start + round, incast.jitter);
                    let ends = [*sender, receiver].map(|host| moved(host, number));
                    let flow = self.flow(ends, incast.bytes, start);
                    self.flows.push(flow);
                }
            }
        }
        Ok(())
    }

    /// The host in the place of another in a round, if each has those `shift` after the last one's.
    fn moved(&self, shift: u32) -> impl Fn(NodeId, usize) -> NodeId + use<> {
        // most incasts stay where they are
        let hosts = if shift == 0 { Vec::new() } else { self.directory.hosts().to_vec() };
        let places: BTreeMap<NodeId, usize> =
            hosts.iter().enumerate().map(|(place, host)| (*host, place)).collect();
        move |host, round| match places.get(&host) {
            Some(place) => hosts[(place + round * shift as usize) % hosts.len()],
            None => host,
        }
    }

    /// When each round of `flows` flows starts, after the first.
    fn rounds(&mut self, incast: &IncastConfig, flows: usize) -> Result<Vec<Delta>, BuildError> {
        let Some(repeat) = &incast.repeat else { return Ok(vec![Delta::ZERO]) };
        let refuse = |key: &str, message: String| Err(BuildError::new(self.key(key), message));
        if incast.bytes == FlowSize::Unlimited {
            return refuse("bytes", "a flow without end cannot be repeated".into());
        }
        if repeat.every.is_zero() {
            return refuse("repeat.every", "0 is out of range: a time is expected".into());
        }
        let most = FLOWS_MAX.saturating_sub(self.flows.len()) / flows;
        if repeat.count as usize > most {
            let message = format!("{} is out of range: 0 to {most} is expected", repeat.count);
            return refuse("repeat.count", message);
        }
        // as much as any time that can be written
        let longest = Delta::from_ms(1_000_000_000) / u64::from(repeat.count.max(1));
        if repeat.every > longest {
            let message = format!("{} rounds end beyond 1000000s", repeat.count);
            return refuse("repeat.every", message);
        }
        let mean = repeat.every.ps() as f64;
        let mut at = Delta::ZERO;
        let next = |_| {
            let now = at;
            at = match repeat.random {
                true => poisson::after(at, &mut self.random, mean),
                false => at + repeat.every,
            };
            now
        };
        Ok((0..repeat.count).map(next).collect())
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
            let flow = self.flow(ends, permutation.bytes, start);
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
        let first = self.flows.len();
        for (number, config) in list.flows.iter().enumerate() {
            let key = |field: &str| format!("{}.flows[{number}].{field}", self.key);
            let source = self.directory.find(&config.source, &key("source"))?;
            let target = self.directory.find(&config.target, &key("target"))?;
            if source == target {
                return Err(BuildError::new(key("target"), "the flow ends where it starts"));
            }
            if config.window == Some(Bytes::ZERO) {
                return Err(BuildError::new(key("window"), "0 lets nothing through"));
            }
            if config.window.is_some() && list.transport == Transport::Tcp {
                let message = "TCP has a window of its own: set nic.tcp.receive_window";
                return Err(BuildError::new(key("window"), message));
            }
            if let Some(rate) = config.rate.filter(|rate| rate.bps() < 1_000_000) {
                let message = format!("{rate} is out of range: at least 1Mbps is expected");
                return Err(BuildError::new(key("rate"), message));
            }
            if let Some(dscp) = config.dscp.filter(|dscp| *dscp > 63) {
                let message = format!("{dscp} is out of range: 0 to 63 is expected");
                return Err(BuildError::new(key("dscp"), message));
            }
            let after = after(&config.after.0, number, &list.flows)
                .map_err(|message| BuildError::new(key("after"), message))?;
            let flow = self.flow([source, target], config.bytes, config.start);
            self.flows.push(Flow {
                after: after.map(|earlier| (first + earlier as usize) as u32).collect(),
                window: config.window,
                rate: config.rate,
                dscp: config.dscp.or(flow.dscp),
                source_port: config.source_port,
                destination_port: config.destination_port,
                ..flow
            });
        }
        Ok(())
    }
}

/// The flows that flow `number` of a list waits for, each once.
fn after<'a>(
    earlier: &'a [u32],
    number: usize,
    flows: &[FlowConfig],
) -> Result<impl Iterator<Item = u32> + use<'a>, String> {
    for flow in earlier {
        let Some(config) = flows[..number].get(*flow as usize) else {
            let allowed = match number {
                0 => "the first flow of a list waits for none".to_owned(),
                1 => "this one can wait for flow 0".to_owned(),
                _ => format!("this one can wait for flows 0 to {}", number - 1),
            };
            return Err(format!("{flow} is no earlier flow of this list: {allowed}"));
        };
        if config.bytes == FlowSize::Unlimited {
            return Err(format!("flow {flow} has no end"));
        }
    }
    let is_new = |(place, flow): &(usize, &u32)| !earlier[..*place].contains(*flow);
    Ok(earlier.iter().enumerate().filter(is_new).map(|(_, flow)| *flow))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{LinkConfig, StarConfig, TopologyConfig};
    use sim_core::{Bytes, Rate};

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
            transport: Transport::Rc,
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

    fn incast(senders: Hosts, receiver: HostRef) -> IncastConfig {
        IncastConfig {
            name: String::new(),
            senders,
            receiver,
            bytes: FlowSize::Bytes(Bytes::new(1)),
            start: Delta::from_us(5),
            jitter: Delta::ZERO,
            qps: 1,
            repeat: None,
            dscp: None,
            transport: Transport::Rc,
        }
    }

    fn repeated(every: Delta, count: u32, random: bool) -> IncastConfig {
        let repeat = Some(RepeatConfig { every, count, random, shift: 0 });
        IncastConfig { repeat, ..incast(Hosts::Range(0, 3), HostRef::Number(3)) }
    }

    #[test]
    fn a_repeated_incast_starts_anew_after_each_period() {
        let rounds = repeated(Delta::from_us(40), 3, false);
        let flows = flows(&[TrafficConfig::Incast(rounds)], &star(4), 7).unwrap();
        let starts: Vec<u64> = flows.iter().map(|flow| flow.start.ps() / 1_000_000).collect();
        assert_eq!(starts, [5, 5, 5, 45, 45, 45, 85, 85, 85]);
        let sources: Vec<u32> = flows.iter().map(|flow| flow.source.0).collect();
        assert_eq!(sources[..3], sources[6..]);
    }

    #[test]
    fn rounds_of_an_incast_may_move_on() {
        let mut rounds = repeated(Delta::from_us(40), 3, false);
        if let Some(repeat) = &mut rounds.repeat {
            repeat.shift = 3;
        }
        let star = star(5);
        let made = flows(&[TrafficConfig::Incast(rounds)], &star, 7).unwrap();
        let hosts: Vec<NodeId> = star.hosts().collect();
        let place = |host: NodeId| hosts.iter().position(|known| *known == host).unwrap();
        let ends: Vec<(usize, usize)> =
            made.iter().map(|flow| (place(flow.source), place(flow.target))).collect();
        // 0, 1, 2 to 3 of five hosts; then 3 further: 3, 4, 0 to 1; then 1, 2, 3 to 4
        let expected = [(0, 3), (1, 3), (2, 3), (3, 1), (4, 1), (0, 1), (1, 4), (2, 4), (3, 4)];
        assert_eq!(ends, expected);
    }

    #[test]
    fn rounds_at_random_times_are_as_far_apart_on_average() {
        let rounds = repeated(Delta::from_us(40), 10_001, true);
        let flows = flows(&[TrafficConfig::Incast(rounds)], &star(4), 7).unwrap();
        assert_eq!(flows.len(), 30_003);
        let (first, last) = (flows[0].start, flows[30_000].start);
        assert_eq!(first, Time::ZERO + Delta::from_us(5));
        assert_eq!(flows[30_002].start, last);
        // the mean of 10,000 exponential times: one sigma is 1 %
        let mean = last.since(first).as_secs() / 10_000.0;
        assert!((mean / 40e-6 - 1.0).abs() < 0.03, "{mean}");
        let long = |pair: &&[Flow]| pair[1].start.since(pair[0].start) > Delta::from_us(80);
        let firsts: Vec<Flow> = flows.iter().step_by(3).cloned().collect();
        let long = firsts.windows(2).filter(long).count();
        // exp(-2) = 13.5 % are more than twice the mean apart: 1,353 +- 34 (one sigma)
        assert!((1_253..1_453).contains(&long), "{long}");
    }

    #[test]
    fn bad_traffic_names_its_key() {
        let key = |traffic| flows(&[traffic], &star(4), 7).unwrap_err().key;
        assert_eq!(key(permutation(Some(4))), "traffic[0].shift");
        let key = |incast| key(TrafficConfig::Incast(incast));
        assert_eq!(key(incast(Hosts::Range(0, 4), HostRef::Number(2))), "traffic[0].receiver");
        assert_eq!(key(incast(Hosts::Range(0, 5), HostRef::Number(2))), "traffic[0].senders");
        assert_eq!(
            key(incast(Hosts::Range(0, 2), HostRef::Name("sw0".into()))),
            "traffic[0].receiver"
        );
        let us = Delta::from_us(1);
        let none = TrafficConfig::Incast(repeated(us, 0, false));
        assert!(flows(&[none], &star(4), 7).unwrap().is_empty());
        // 3 flows a round: 50 million are reached after 16,666,666
        assert_eq!(key(repeated(us, 16_666_667, true)), "traffic[0].repeat.count");
        assert_eq!(key(repeated(Delta::ZERO, 2, false)), "traffic[0].repeat.every");
        let long = Delta::from_ms(600_000_000);
        assert_eq!(key(repeated(long, 2, false)), "traffic[0].repeat.every");
        let endless = IncastConfig { bytes: FlowSize::Unlimited, ..repeated(us, 2, false) };
        assert_eq!(key(endless), "traffic[0].bytes");
    }
}
