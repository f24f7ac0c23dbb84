//! Which GPUs each job has: all, those of some hosts, a list of ranks, or what a scheduler could
//! have given to it.

mod config;

use std::sync::Arc;

use sim_core::rng::{Domain, Stream};

pub use config::{PlacementConfig, PlacementKind, PlacementOrder, RankRef, Ranks};

use crate::collective::Rank;
use crate::error::BuildError;
use crate::host::HostConfig;
use crate::ids::NodeId;
use crate::topology::Topology;
use crate::traffic::{Directory, Hosts};

/// What a traffic section says about where its ranks are.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its place among the traffic sections.
    pub section: u32,
    /// The hosts, in the order of their ranks; all if absent.
    pub hosts: Option<&'a Hosts>,
    /// GPUs of each host: the first so many; all if absent.
    pub gpus: Option<u32>,
    /// The GPUs one by one.
    pub ranks: Option<&'a Ranks>,
    /// Hosts as a scheduler chooses them, among `hosts`.
    pub placement: Option<&'a PlacementConfig>,
}

/// More ranks than this are refused before memory is taken.
pub(crate) const RANKS_MAX: u32 = 65_536;

/// Gives GPUs to the sections, in their order.
#[derive(Clone, Debug)]
pub struct Seating<'a> {
    directory: Directory<'a>,
    topology: &'a Topology,
    configs: &'a [Option<Arc<HostConfig>>],
    seed: u64,
    /// By node: an earlier section uses it.
    taken: Vec<bool>,
}

impl<'a> Seating<'a> {
    /// All hosts are free. `configs` are the servers, by node.
    pub fn new(
        topology: &'a Topology,
        configs: &'a [Option<Arc<HostConfig>>],
        seed: u64,
    ) -> Seating<'a> {
        let taken = vec![false; topology.nodes().len()];
        Seating { directory: Directory::new(topology), topology, configs, seed, taken }
    }

    /// The GPUs of a section, in the order of ranks; each is there once.
    pub fn seat(&mut self, request: Request<'_>) -> Result<Vec<Rank>, BuildError> {
        let ranks = match request.ranks {
            Some(ranks) => self.listed(request, ranks)?,
            None => self.by_host(request)?,
        };
        for rank in &ranks {
            self.taken[rank.host.index()] = true;
        }
        Ok(ranks)
    }

    fn name(&self, host: NodeId) -> &'a str {
        &self.topology.node(host).name
    }

    fn gpus(&self, host: NodeId, key: &impl Fn(&str) -> String) -> Result<u32, BuildError> {
        match &self.configs[host.index()] {
            Some(config) => Ok(config.gpus),
            None => {
                let message = "a collective runs on GPUs, and no server is described: a section \
                               [host] is expected, such as host.preset = \"dgx-a100\"";
                Err(BuildError::new(key("kind"), message))
            }
        }
    }

    fn by_host(&self, request: Request<'_>) -> Result<Vec<Rank>, BuildError> {
        let key = |field: &str| format!("traffic[{}].{field}", request.section);
        let mut hosts = match request.hosts {
            Some(hosts) => self.directory.find_all(hosts, &key("hosts"))?,
            None => self.directory.hosts().to_vec(),
        };
        let mut seen = vec![false; self.taken.len()];
        for host in &hosts {
            if std::mem::replace(&mut seen[host.index()], true) {
                let message = format!("{} is listed twice", self.name(*host));
                return Err(BuildError::new(key("hosts"), message));
            }
        }
        if let Some(placement) = request.placement {
            hosts = self.place(&hosts, placement, request.section)?;
        }
        let mut ranks = Vec::new();
        for host in hosts {
            let all = self.gpus(host, &key)?;
            let gpus = request.gpus.unwrap_or(all);
            if gpus == 0 || gpus > all {
                let name = self.name(host);
                let message = format!("{gpus} is out of range: {name} has {all} GPUs");
                return Err(BuildError::new(key("gpus"), message));
            }
            ranks.extend((0..gpus).map(|gpu| Rank { host, gpu }));
            if ranks.len() > RANKS_MAX as usize {
                let message = format!("a job can have at most {RANKS_MAX} ranks");
                return Err(BuildError::new(key("hosts"), message));
            }
        }
        Ok(ranks)
    }

    fn listed(&self, request: Request<'_>, ranks: &Ranks) -> Result<Vec<Rank>, BuildError> {
        let key = |field: &str| format!("traffic[{}].{field}", request.section);
        let others = [
            ("hosts", request.hosts.is_some()),
            ("gpus", request.gpus.is_some()),
            ("placement", request.placement.is_some()),
        ];
        if let Some((other, _)) = others.into_iter().find(|(_, given)| *given) {
            let message = format!(
                "`ranks` names each GPU already: one of them is expected, \
                                   `ranks` or `{other}`"
            );
            return Err(BuildError::new(key(other), message));
        }
        let list = match ranks {
            Ranks::List(list) => list,
            // files are read by those who load scenarios
            Ranks::File(name) => {
                let message = format!("the ranks of {name:?} have not been read");
                return Err(BuildError::new(key("ranks"), message));
            }
        };
        if list.len() > RANKS_MAX as usize {
            let message = format!("a job can have at most {RANKS_MAX} ranks");
            return Err(BuildError::new(key("ranks"), message));
        }
        // by node and GPU: who has it
        let mut owners: Vec<Vec<Option<usize>>> = vec![Vec::new(); self.taken.len()];
        let mut places = vec![None; list.len()];
        // those that name their GPU come first, whatever their order
        let named = (0..list.len()).filter(|rank| list[*rank].gpu.is_some());
        let unnamed = (0..list.len()).filter(|rank| list[*rank].gpu.is_none());
        for rank in named.chain(unnamed) {
            let key = |field: &str| format!("traffic[{}].{field}", request.section);
            let at = |_: &str| key(&format!("ranks[{rank}]"));
            let host = self.directory.find(&list[rank].host, &at(""))?;
            let all = self.gpus(host, &key)?;
            let owners = &mut owners[host.index()];
            owners.resize(all as usize, None);
            let refuse = |message: String| Err(BuildError::new(at(""), message));
            let name = self.name(host);
            let free = owners.iter().position(Option::is_none);
            let gpu = match (list[rank].gpu, free) {
                (Some(gpu), _) if gpu >= all => {
                    return refuse(format!("there is no GPU {gpu}: {name} has {all} GPUs"));
                }
                (Some(gpu), _) => match owners[gpu as usize] {
                    Some(other) => {
                        return refuse(format!("GPU {gpu} of {name} is rank {other} already"));
                    }
                    None => gpu,
                },
                (None, Some(free)) => free as u32,
                (None, None) => {
                    return refuse(format!("all {all} GPUs of {name} have a rank already"));
                }
            };
            owners[gpu as usize] = Some(rank);
            places[rank] = Some(Rank { host, gpu });
        }
        Ok(places.into_iter().flatten().collect())
    }

    /// Hosts as `placement` has them, of those in `hosts` that are free.
    fn place(
        &self,
        hosts: &[NodeId],
        placement: &PlacementConfig,
        section: u32,
    ) -> Result<Vec<NodeId>, BuildError> {
        let free: Vec<NodeId> =
            hosts.iter().copied().filter(|host| !self.taken[host.index()]).collect();
        let wanted = placement.hosts as usize;
        if wanted == 0 || wanted > free.len() {
            let message = format!(
                "{wanted} is out of range: {} of {} hosts are free",
                free.len(),
                hosts.len()
            );
            return Err(BuildError::new(format!("traffic[{section}].placement.hosts"), message));
        }
        let mut racks = self.racks(&free);
        let mut chosen: Vec<NodeId> = match placement.kind {
            PlacementKind::Packed => {
                racks.sort_by_key(|rack| std::cmp::Reverse(rack.len()));
                racks.concat()
            }
            PlacementKind::Spread => {
                let most = racks.iter().map(Vec::len).max().unwrap_or(0);
                let turn = |turn: usize| racks.iter().filter_map(move |rack| rack.get(turn));
                (0..most).flat_map(turn).copied().collect()
            }
            PlacementKind::Random => {
                let mut random = Stream::new(self.seed, Domain::Placement, section.into());
                let mut hosts = free;
                for last in (1..hosts.len()).rev() {
                    hosts.swap(last, random.below(last as u64 + 1) as usize);
                }
                hosts
            }
        };
        chosen.truncate(wanted);
        if placement.order == PlacementOrder::Sorted {
            chosen.sort_unstable();
        }
        Ok(chosen)
    }

    /// Hosts by the switches that they hang on.
    fn racks(&self, hosts: &[NodeId]) -> Vec<Vec<NodeId>> {
        let mut racks: Vec<(Vec<NodeId>, Vec<NodeId>)> = Vec::new();
        for host in hosts {
            let ports = self.topology.ports_of(*host);
            let mut switches: Vec<NodeId> =
                ports.map(|port| self.topology.neighbour(port)).collect();
            switches.sort_unstable();
            switches.dedup();
            match racks.iter_mut().find(|(known, _)| *known == switches) {
                Some((_, rack)) => rack.push(*host),
                None => racks.push((switches, vec![*host])),
            }
        }
        racks.into_iter().map(|(_, rack)| rack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{LeafSpineConfig, LinkConfig, TopologyConfig};
    use crate::traffic::HostRef;
    use sim_core::{Delta, Rate};

    /// Three racks of four hosts of two GPUs.
    fn seated<T>(run: impl FnOnce(&mut Seating<'_>, &Topology) -> T) -> T {
        let link = LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };
        let topology = Topology::build(&TopologyConfig::LeafSpine(LeafSpineConfig {
            leaves: 3,
            spines: 1,
            hosts_per_leaf: 4,
            link,
            uplink: None,
            uplinks_per_spine: 1,
            ports_per_host: 1,
        }))
        .unwrap();
        let host = Arc::new(HostConfig { gpus: 2, ..HostConfig::default() });
        let configs = vec![Some(host); topology.nodes().len()];
        run(&mut Seating::new(&topology, &configs, 7), &topology)
    }

    const NOTHING: Request<'static> =
        Request { section: 1, hosts: None, gpus: None, ranks: None, placement: None };

    fn names(ranks: &[Rank], topology: &Topology) -> Vec<String> {
        let name = |rank: &Rank| format!("{}:{}", topology.node(rank.host).name, rank.gpu);
        ranks.iter().map(name).collect()
    }

    #[test]
    fn racks_fill_up_or_take_turns() {
        let hosts = |kind, hosts, order| {
            seated(|seating, topology| {
                // hosts 0 and 5 are in use
                let list = Hosts::List(vec![HostRef::Number(0), HostRef::Number(5)]);
                seating.seat(Request { hosts: Some(&list), ..NOTHING }).unwrap();
                let placement = PlacementConfig { kind, hosts, order };
                let request = Request { placement: Some(&placement), gpus: Some(1), ..NOTHING };
                seating.seat(request).map(|ranks| names(&ranks, topology).join(" "))
            })
        };
        use PlacementKind::{Packed, Random, Spread};
        use PlacementOrder::{Chosen, Sorted};
        // the third rack has four free hosts, the others three
        let packed = hosts(Packed, 5, Chosen).unwrap();
        assert_eq!(packed, "host8:0 host9:0 host10:0 host11:0 host1:0");
        assert_eq!(hosts(Packed, 2, Sorted).unwrap(), "host8:0 host9:0");
        let spread = hosts(Spread, 5, Chosen).unwrap();
        assert_eq!(spread, "host1:0 host4:0 host8:0 host2:0 host6:0");
        assert_eq!(hosts(Spread, 5, Sorted).unwrap(), "host1:0 host2:0 host4:0 host6:0 host8:0");
        let random = hosts(Random, 10, Sorted).unwrap();
        assert_eq!(
            random,
            "host1:0 host2:0 host3:0 host4:0 host6:0 host7:0 host8:0 host9:0 host10:0 host11:0"
        );
        assert_ne!(hosts(Random, 10, Chosen).unwrap(), random);
        let error = hosts(Random, 11, Sorted).unwrap_err();
        assert_eq!(error.key, "traffic[1].placement.hosts");
        assert!(error.message.contains("10 of 12 hosts are free"), "{}", error.message);
    }

    #[test]
    fn ranks_are_seated_one_by_one() {
        let seat = |list: &[&str]| {
            seated(|seating, topology| {
                let list = list.iter().map(|text| text.parse().unwrap()).collect();
                let ranks = Ranks::List(list);
                let ranks = seating.seat(Request { ranks: Some(&ranks), ..NOTHING });
                ranks.map(|ranks| names(&ranks, topology).join(" "))
            })
        };
        // those without a GPU take what is left
        let ranks = seat(&["host3", "1:1", "host3:0", "1"]).unwrap();
        assert_eq!(ranks, "host3:1 host1:1 host3:0 host1:0");
        for (list, key, word) in [
            (&["0:0", "0:0"][..], "ranks[1]", "is rank 0 already"),
            (&["0:2"], "ranks[0]", "host0 has 2 GPUs"),
            (&["0", "0", "0"], "ranks[2]", "all 2 GPUs of host0"),
            (&["leaf0:1"], "ranks[0]", "is a switch"),
        ] {
            let error = seat(list).unwrap_err();
            assert_eq!(error.key, format!("traffic[1].{key}"));
            assert!(error.message.contains(word), "{}", error.message);
        }
    }
}
