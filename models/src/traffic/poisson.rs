//! `kind = "poisson"`: messages that arrive at random times, as open-loop users send them.

use rand_distr::weighted::WeightedIndex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::rng::Stream;
use sim_core::{Bytes, Delta};

use super::config::{FlowSize, Transport};
use super::hosts::Hosts;
use super::sizes::Sizes;
use super::{FLOWS_MAX, Plan};
use crate::error::BuildError;
use crate::ids::NodeId;

/// `kind = "poisson"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoissonConfig {
    /// A name for `--set` and reports.
    #[serde(default)]
    pub name: String,
    /// Sizes of the messages: `"web-search"`, `"fb-hadoop"`, `"ali-storage"`, `"google-rpc"`, one
    /// size, or points `[size, share of messages up to it]`.
    pub sizes: Sizes,
    /// Payload sent, as a share of the link rate of the sending hosts: above 0, at most 1.
    pub load: f64,
    /// The hosts that send; all if absent.
    pub hosts: Option<Hosts>,
    /// The hosts that receive, all alike; `hosts` if absent. No host sends to itself.
    pub targets: Option<Hosts>,
    /// When the first may arrive.
    #[serde(default)]
    pub start: Delta,
    /// For how long they arrive.
    #[serde(rename = "for")]
    pub duration: Delta,
    /// DSCP, instead of the NIC's.
    pub dscp: Option<u8>,
    /// What carries them.
    #[serde(default)]
    pub transport: Transport,
}

impl Plan<'_> {
    /// One Poisson process for all hosts: each arrival falls to a host with a probability as its
    /// link rate, which is the same as a process of its own for each.
    pub(super) fn poisson(&mut self, poisson: &PoissonConfig) -> Result<(), BuildError> {
        let ends = Ends::new(self, poisson)?;
        let sizes = poisson.sizes.cdf().map_err(|(point, why)| {
            let point = point.map_or(String::new(), |point| format!("[{point}]"));
            BuildError::new(format!("{}{point}", self.key("sizes")), why)
        })?;
        if !(poisson.load > 0.0 && poisson.load <= 1.0) {
            let message =
                format!("{} is out of range: above 0 and at most 1 is expected", poisson.load);
            return Err(BuildError::new(self.key("load"), message));
        }
        if poisson.duration.is_zero() {
            let message = "0 is out of range: a time is expected";
            return Err(BuildError::new(self.key("for"), message));
        }
        let gap = sizes.mean() * 8e12 / (poisson.load * ends.bps);
        let expected = poisson.duration.ps() as f64 / gap;
        if expected >= FLOWS_MAX.saturating_sub(self.flows.len()) as f64 {
            let (expected, most) = (expected / 1e6, FLOWS_MAX / 1_000_000);
            let span = poisson.duration;
            let message = format!(
                "about {expected:.0} million flows arrive in {span}: at most {most} million can be"
            );
            return Err(BuildError::new(self.key("for"), message));
        }
        let mut at = Delta::ZERO;
        loop {
            at = after(at, &mut self.random, gap);
            if at >= poisson.duration {
                return Ok(());
            }
            let [source, target] = ends.draw(&mut self.random);
            let bytes = FlowSize::Bytes(Bytes::new(sizes.draw(&mut self.random)));
            let flow = self.flow([source, target], bytes, poisson.start + at);
            self.flows.push(flow);
        }
    }
}

/// `at`, and an exponential time with the mean `mean_ps` later, to the nearest picosecond.
pub(super) fn after(at: Delta, random: &mut Stream, mean_ps: f64) -> Delta {
    let gap = (random.exponential() * mean_ps + 0.5) as u64;
    Delta::from_ps(at.ps().saturating_add(gap))
}

/// Who sends, how often, and to whom.
struct Ends {
    sources: Vec<NodeId>,
    /// Chooses a source by its link rate, in whole bits per second.
    choice: WeightedIndex<u64>,
    /// Sum of the link rates of all sources.
    bps: f64,
    targets: Vec<NodeId>,
    /// By source: its place among the targets.
    own: Vec<Option<usize>>,
}

impl Ends {
    fn new(plan: &Plan<'_>, poisson: &PoissonConfig) -> Result<Self, BuildError> {
        let topology = plan.directory.topology();
        let distinct = |hosts: &Hosts, key: &str| {
            let hosts = plan.directory.find_all(hosts, &plan.key(key))?;
            let mut sorted = hosts.clone();
            sorted.sort_unstable();
            match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => {
                    let message = format!("{} is named twice", topology.node(pair[0]).name);
                    Err(BuildError::new(plan.key(key), message))
                }
                None => Ok(hosts),
            }
        };
        let sources = match &poisson.hosts {
            Some(hosts) => distinct(hosts, "hosts")?,
            None => topology.hosts().collect(),
        };
        let (targets, key) = match &poisson.targets {
            Some(targets) => (distinct(targets, "targets")?, "targets"),
            None => (sources.clone(), "hosts"),
        };
        let mut place = vec![None; topology.nodes().len()];
        for (index, target) in targets.iter().enumerate() {
            place[target.index()] = Some(index);
        }
        let own: Vec<Option<usize>> = sources.iter().map(|host| place[host.index()]).collect();
        if let ([only], Some(_)) = (&targets[..], own.iter().flatten().next()) {
            let name = &topology.node(*only).name;
            let message = format!("{name} could only send to itself: 2 hosts are needed");
            return Err(BuildError::new(plan.key(key), message));
        }
        let rate = |source: &NodeId| {
            let ports = topology.ports_of(*source);
            ports.map(|port| topology.port(port).rate.bps()).sum::<u64>()
        };
        let rates: Vec<u64> = sources.iter().map(rate).collect();
        let bps = rates.iter().map(|rate| *rate as f64).sum();
        let choice = WeightedIndex::new(rates).map_err(|_| {
            BuildError::new(plan.key("hosts"), "none of these hosts has a link to send by")
        })?;
        Ok(Ends { sources, choice, bps, targets, own })
    }

    /// A random source, and a random target other than it.
    fn draw(&self, random: &mut Stream) -> [NodeId; 2] {
        let source = random.draw(&self.choice);
        let target = match self.own[source] {
            None => random.below(self.targets.len() as u64) as usize,
            Some(own) => {
                let other = random.below(self.targets.len() as u64 - 1) as usize;
                other + usize::from(other >= own)
            }
        };
        [self.sources[source], self.targets[target]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{GraphConfig, GraphLink, LinkConfig, StarConfig};
    use crate::topology::{Topology, TopologyConfig};
    use crate::traffic::{Flow, HostRef, PublishedSizes, TrafficConfig, flows};
    use sim_core::{Rate, Time};

    fn star(hosts: u32) -> Topology {
        let link = LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };
        Topology::build(&TopologyConfig::Star(StarConfig { hosts, link, ports_per_host: 1 }))
            .unwrap()
    }

    /// Three hosts of 100, 100 and 25 Gb/s.
    fn unequal() -> Topology {
        let link = |(host, gbps): (&str, u64)| GraphLink {
            a: host.into(),
            b: "s".into(),
            rate: Rate::from_gbps(gbps),
            delay: Delta::from_us(1),
            loss: 0.0,
        };
        let config = GraphConfig {
            hosts: ["a", "b", "c"].map(String::from).to_vec(),
            switches: vec!["s".into()],
            links: [("a", 100), ("b", 100), ("c", 25)].map(link).to_vec(),
            numbered: false,
            routes: Vec::new(),
        };
        Topology::build(&TopologyConfig::Graph(config)).unwrap()
    }

    fn config(load: f64, duration: Delta) -> PoissonConfig {
        PoissonConfig {
            name: String::new(),
            sizes: Sizes::Published(PublishedSizes::AliStorage),
            load,
            hosts: None,
            targets: None,
            start: Delta::ZERO,
            duration,
            dscp: None,
            transport: Transport::default(),
        }
    }

    fn made(config: PoissonConfig, topology: &Topology) -> Vec<Flow> {
        flows(&[TrafficConfig::Poisson(config)], topology, 7).unwrap()
    }

    /// What makes up a flow, for comparisons.
    fn parts(flow: &Flow) -> (NodeId, NodeId, Option<u64>, Time) {
        (flow.source, flow.target, flow.bytes, flow.start)
    }

    #[test]
    fn the_offered_load_is_what_was_asked_for() {
        // 0.4 x 32 x 12.5 GB/s x 0.2 s = 32 GB, in about 783,000 flows of 40,869.8 B. Their sizes
        // have a standard deviation of 4.8 means: one sigma of the sum is 0.55 %.
        let start = Delta::from_us(10);
        let config = PoissonConfig { start, ..config(0.4, Delta::from_ms(200)) };
        let flows = made(config, &star(32));
        let bytes: u64 = flows.iter().filter_map(|flow| flow.bytes).sum();
        assert!((bytes as f64 / 32e9 - 1.0).abs() < 0.02, "{bytes}");
        // one sigma: 0.11 %
        assert!((flows.len() as f64 / 782_974.0 - 1.0).abs() < 0.005, "{}", flows.len());
        assert!(flows.is_sorted_by_key(|flow| flow.start));
        assert!(flows[0].start >= Time::ZERO + start);
        assert!(flows[flows.len() - 1].start < Time::ZERO + start + Delta::from_ms(200));
    }

    #[test]
    fn arrivals_in_a_window_are_as_random_as_poisson_says() {
        // 2,000 windows of 10 us, each with a mean of 0.3 x 400 Gb/s x 10 us / 6,000 B = 25
        let sizes = Sizes::Fixed(Bytes::new(6000));
        let config = PoissonConfig { sizes, ..config(0.3, Delta::from_ms(20)) };
        let mut counts = vec![0_u32; 2000];
        for flow in made(config, &star(4)) {
            counts[(flow.start.ps() / 10_000_000) as usize] += 1;
        }
        let mean = counts.iter().sum::<u32>() as f64 / 2000.0;
        let squares = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>();
        // the variance is the mean, both within 3.2 % and 0.5 % (one sigma)
        assert!((mean / 25.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((squares / 2000.0 / 25.0 - 1.0).abs() < 0.1, "{squares}");
    }

    #[test]
    fn hosts_send_by_their_rates_to_all_others_alike() {
        let sizes = Sizes::Fixed(Bytes::new(1000));
        let half = PoissonConfig { sizes, ..config(0.5, Delta::from_ms(4)) };
        // 0.5 x 225 Gb/s x 4 ms / 8,000 bit: 56,250 flows, 4 : 4 : 1, half to each other host
        let flows = made(half.clone(), &unequal());
        let count = |flows: &[Flow], source, target| {
            let ends =
                |flow: &&Flow| (flow.source, flow.target) == (NodeId(source), NodeId(target));
            flows.iter().filter(ends).count() as f64
        };
        for (source, target, expected) in [
            (0, 1, 12_500.0),
            (0, 2, 12_500.0),
            (1, 0, 12_500.0),
            (1, 2, 12_500.0),
            (2, 0, 3_125.0),
            (2, 1, 3_125.0),
        ] {
            // one sigma: at most 1.8 %
            let found = count(&flows, source, target);
            assert!((found / expected - 1.0).abs() < 0.06, "{source} to {target}: {found}");
        }
        assert!(flows.iter().all(|flow| flow.source != flow.target));
        let hosts = Some(Hosts::Range(0, 2));
        let targets = Some(Hosts::List(vec![HostRef::Name("b".into()), HostRef::Name("c".into())]));
        let flows = made(PoissonConfig { hosts, targets, ..half }, &unequal());
        // 50,000 flows; a to b and c, b to c alone
        for (source, target, expected) in [(0, 1, 12_500.0), (0, 2, 12_500.0), (1, 2, 25_000.0)] {
            let found = count(&flows, source, target);
            assert!((found / expected - 1.0).abs() < 0.04, "{source} to {target}: {found}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_flows() {
        let short = made(config(0.3, Delta::from_us(500)), &star(8));
        let again = made(config(0.3, Delta::from_us(500)), &star(8));
        let long = made(config(0.3, Delta::from_ms(1)), &star(8));
        assert!(short.len() > 100 && long.len() > short.len());
        assert!(short.iter().map(parts).eq(again.iter().map(parts)));
        // more time adds flows at the end
        assert!(short.iter().map(parts).eq(long[..short.len()].iter().map(parts)));
        // half the load is the same flows in twice the time, to the rounding of each gap
        let half = made(config(0.15, Delta::from_ms(2)), &star(8));
        for (index, (slow, fast)) in half.iter().zip(&long).enumerate() {
            let ends = |flow: &Flow| (flow.source, flow.target, flow.bytes);
            assert_eq!(ends(slow), ends(fast));
            assert!(slow.start.ps().abs_diff(2 * fast.start.ps()) <= 2 * (index as u64 + 1));
        }
        let other = TrafficConfig::Poisson(config(0.3, Delta::from_us(500)));
        let other = flows(&[other], &star(8), 8).unwrap();
        assert!(!short.iter().map(parts).eq(other.iter().map(parts)));
    }

    #[test]
    fn bad_values_name_their_key() {
        let refused = |config| {
            let error = flows(&[TrafficConfig::Poisson(config)], &star(4), 7).unwrap_err();
            (error.key, error.message)
        };
        let good = || config(0.3, Delta::from_ms(1));
        for load in [0.0, -0.5, 3.0, f64::NAN] {
            let (key, message) = refused(PoissonConfig { load, ..good() });
            assert_eq!(key, "traffic[0].load");
            assert!(message.contains("above 0 and at most 1"), "{message}");
        }
        let falling = vec![(Bytes::new(9), 0.5), (Bytes::new(8), 1.0)];
        let (key, _) = refused(PoissonConfig { sizes: Sizes::Points(falling), ..good() });
        assert_eq!(key, "traffic[0].sizes[1]");
        // 0.3 x 400 Gb/s x 1,000 s / 326,958 bit
        let (key, message) = refused(config(0.3, Delta::from_ms(1_000_000)));
        assert_eq!(key, "traffic[0].for");
        assert!(message.starts_with("about 367 million flows"), "{message}");
        assert_eq!(refused(config(0.3, Delta::ZERO)).0, "traffic[0].for");
        let one = || Some(Hosts::List(vec![HostRef::Number(1)]));
        let (key, _) = refused(PoissonConfig { hosts: one(), ..good() });
        assert_eq!(key, "traffic[0].hosts");
        let (key, message) = refused(PoissonConfig { targets: one(), ..good() });
        assert_eq!(key, "traffic[0].targets");
        assert_eq!(message, "host1 could only send to itself: 2 hosts are needed");
        let twice = Some(Hosts::List(vec![HostRef::Number(1), HostRef::Name("host1".into())]));
        let (key, message) = refused(PoissonConfig { hosts: twice, ..good() });
        assert_eq!((key.as_str(), message.as_str()), ("traffic[0].hosts", "host1 is named twice"));
    }
}
