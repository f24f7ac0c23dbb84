//! `topology.txt`: nodes and links.

use std::collections::BTreeMap;

use sim_core::{Delta, Rate};

use crate::import::ImportError;
use crate::import::text::{Line, TextFile, counted};

/// The nodes, numbered from 0, and their links.
pub(super) struct Topology {
    /// By node.
    pub(super) is_switch: Vec<bool>,
    pub(super) links: Vec<Link>,
    /// By node: the node at the far end of each port.
    pub(super) ports: Vec<Vec<u32>>,
    /// Whether two nodes have more than one link between them.
    pub(super) has_parallel_links: bool,
}

pub(super) struct Link {
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) rate: Rate,
    pub(super) delay: Delta,
    /// Probability that a frame is lost.
    pub(super) loss: f64,
}

const NODES_MAX: u32 = 1_000_000;
/// Links, and rows of other files.
pub(super) const ROWS_MAX: u32 = 10_000_000;
/// What a scenario may have.
const RATES: [Rate; 2] = [Rate::from_mbps(1), Rate::from_gbps(10_000)];
const DELAY_MAX: Delta = Delta::from_ms(1000);

/// Whose topologies begin with such a line, and what a scenario has not of theirs.
fn fork(first: &[&str]) -> Option<&'static str> {
    let is_number = |word: &&str| word.parse::<f64>().is_ok();
    match first {
        [_, _, _, _, _, gpu, ..] if !is_number(gpu) => Some(
            "SimAI has (nodes gpus_per_server nvswitches switches links gpu_type), whose NVSwitches \
             and flows are not imported",
        ),
        [_, _, _, _] | [_, _, _, _, _, _] if first.iter().all(is_number) => Some(
            "ns3-datacenter has (nodes switches tors links ...), whose buffers are not those of \
             HPCC",
        ),
        _ => None,
    }
}

impl Topology {
    /// Reads the file; a link without losses of its own has those of `default_loss`.
    pub(super) fn read(
        file: &TextFile,
        default_loss: f64,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ImportError> {
        let mut lines = file.lines();
        let names = "nodes switches links";
        let first = lines.next().ok_or_else(|| {
            file.error_at_end(format!("the file is empty; a line `{names}` is expected"))
        })?;
        if let Some(fork) = fork(&first.words) {
            let count = first.words.len();
            let message = format!("{count} columns, as {fork}; 3 are expected: {names}");
            return Err(first.error(message));
        }
        let [nodes, switches, links] = first.columns(names)?;
        let nodes = first.count("nodes", nodes, NODES_MAX)?;
        let switches = first.count("switches", switches, nodes)?;
        let links = first.count("links", links, ROWS_MAX)?;
        let mut topology = Topology {
            is_switch: vec![false; nodes as usize],
            links: Vec::new(),
            ports: vec![Vec::new(); nodes as usize],
            has_parallel_links: false,
        };
        topology.read_switches(file, switches, &mut lines)?;
        for line in lines.by_ref().take(links as usize) {
            let link = topology.link(&line, default_loss)?;
            topology.ports[link.a as usize].push(link.b);
            topology.ports[link.b as usize].push(link.a);
            topology.links.push(link);
        }
        let missing = links as usize - topology.links.len();
        if missing > 0 {
            let message = format!(
                "{} missing; {links} are announced in the first line",
                counted(missing, "link")
            );
            return Err(file.error_at_end(message));
        }
        if let Some(line) = lines.next() {
            let message = format!("what follows the {links} announced links was left out");
            warnings.push(line.note(message));
        }
        topology.check(file)?;
        Ok(topology)
    }

    fn read_switches<'t>(
        &mut self,
        file: &TextFile,
        count: u32,
        lines: &mut impl Iterator<Item = Line<'t>>,
    ) -> Result<(), ImportError> {
        let mut found = 0;
        while found < count {
            let line = lines.next().ok_or_else(|| {
                let missing = counted((count - found) as usize, "switch id");
                file.error_at_end(format!("{missing} missing; {count} are announced"))
            })?;
            for word in &line.words {
                let id = self.node(&line, word)? as usize;
                if std::mem::replace(&mut self.is_switch[id], true) {
                    return Err(line.error(format!("switch {id} is named twice; once is expected")));
                }
                found += 1;
            }
            if found > count {
                let message = format!("{found} switch ids; {count} are announced");
                return Err(line.error(message));
            }
        }
        Ok(())
    }

    fn link(&self, line: &Line<'_>, default_loss: f64) -> Result<Link, ImportError> {
        let [a, b, rate, delay, loss] = line.columns("node node rate delay error_rate")?;
        let (a, b) = (self.node(line, a)?, self.node(line, b)?);
        if a == b {
            let message = format!("both ends are node {a}; two nodes are expected");
            return Err(line.error(message));
        }
        let rate = line.rate("rate", rate)?;
        if !(RATES[0]..=RATES[1]).contains(&rate) {
            let message = format!("{rate} is out of range; 1 Mbps to 10 Tbps is expected");
            return Err(line.error(message));
        }
        let delay = line.delay("delay", delay)?;
        if delay > DELAY_MAX {
            return Err(line.error("the delay is out of range; at most 1 s is expected"));
        }
        let own = line.fraction("error rate", loss)?;
        let loss = if own > 0.0 { own } else { default_loss };
        if loss >= 1.0 {
            return Err(line.error("nothing passes this link; an error rate below 1 is expected"));
        }
        Ok(Link { a, b, rate, delay, loss })
    }

    fn check(&mut self, file: &TextFile) -> Result<(), ImportError> {
        for (node, ports) in self.ports.iter().enumerate() {
            if ports.is_empty() && !self.is_switch[node] {
                let message = format!("host {node} has no link; at least one is expected");
                return Err(file.error_at_end(message));
            }
            let mut far = ports.clone();
            far.sort_unstable();
            self.has_parallel_links |= far.windows(2).any(|pair| pair[0] == pair[1]);
        }
        let Some(first) = self.nodes(false).next() else {
            return Err(file.error_at_end("there is no host; at least one is expected"));
        };
        let distance = self.distances(first);
        match self.nodes(false).find(|host| distance[*host as usize].is_none()) {
            Some(host) => Err(file.error_at_end(format!(
                "no path through switches leads from host {host} to host {first}; one between \
                 all hosts is expected"
            ))),
            None => Ok(()),
        }
    }

    /// The node of this id.
    pub(super) fn node(&self, line: &Line<'_>, word: &str) -> Result<u32, ImportError> {
        let id: u32 = line.number("node id", word)?;
        match (id as usize) < self.is_switch.len() {
            true => Ok(id),
            false => {
                let last = self.is_switch.len().saturating_sub(1);
                Err(line.error(format!("there is no node {id}; 0 to {last} are announced")))
            }
        }
    }

    /// The host of this id.
    pub(super) fn host(&self, line: &Line<'_>, word: &str) -> Result<u32, ImportError> {
        let id = self.node(line, word)?;
        match self.is_switch[id as usize] {
            true => Err(line.error(format!("node {id} is a switch; a host is expected"))),
            false => Ok(id),
        }
    }

    /// All nodes of one kind.
    pub(super) fn nodes(&self, switches: bool) -> impl Iterator<Item = u32> {
        let kinds = self.is_switch.iter().zip(0..);
        kinds.filter(move |(kind, _)| **kind == switches).map(|(_, id)| id)
    }

    /// The rate of the first link of the first host, which ns-3 takes for that of all NICs.
    pub(super) fn nic_rate(&self) -> Rate {
        let host = self.nodes(false).next();
        let first = self.links.iter().find(|link| Some(link.a) == host || Some(link.b) == host);
        first.map_or(Rate::ZERO, |link| link.rate)
    }

    /// The rates of switch ports, ascending.
    pub(super) fn switch_rates(&self) -> Vec<Rate> {
        let at_switch = |link: &&Link| [link.a, link.b].iter().any(|n| self.is_switch[*n as usize]);
        let mut rates: Vec<_> = self.links.iter().filter(at_switch).map(|link| link.rate).collect();
        rates.sort_unstable();
        rates.dedup();
        rates
    }

    /// Hops from every node to `target`, through switches only.
    pub(super) fn distances(&self, target: u32) -> Vec<Option<u32>> {
        let mut distance = vec![None; self.ports.len()];
        distance[target as usize] = Some(0);
        let mut queue = vec![target];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            let hops = distance[node as usize].map(|hops: u32| hops + 1);
            for &far in &self.ports[node as usize] {
                if distance[far as usize].is_none() {
                    distance[far as usize] = hops;
                    if self.is_switch[far as usize] {
                        queue.push(far);
                    }
                }
            }
        }
        distance
    }

    /// Tells `take` source, target and window of all pairs of hosts. The window is what ns-3 calls
    /// the product of bandwidth and delay, in bytes: the delay is that of a round trip and of
    /// storing and forwarding one packet on the way there, on the path that a search from the
    /// target finds first which takes neighbours in the order of their ids.
    pub(super) fn each_window(&self, mtu: u16, mut take: impl FnMut([u32; 2], u64, Delta)) {
        let mut neighbours = vec![BTreeMap::new(); self.ports.len()];
        for link in &self.links {
            // of parallel links, ns-3 knows the last
            neighbours[link.a as usize].insert(link.b, link);
            neighbours[link.b as usize].insert(link.a, link);
        }
        for target in self.nodes(false) {
            self.windows_to(target, &neighbours, mtu, &mut take);
        }
    }

    fn windows_to(
        &self,
        target: u32,
        neighbours: &[BTreeMap<u32, &Link>],
        mtu: u16,
        take: &mut impl FnMut([u32; 2], u64, Delta),
    ) {
        // by node: propagation and sending time of one packet in ns, and the least rate
        let mut paths: Vec<Option<[u64; 3]>> = vec![None; neighbours.len()];
        paths[target as usize] = Some([0, 0, u64::MAX]);
        let (mut queue, mut next) = (vec![target], 0);
        while let Some(&node) = queue.get(next) {
            next += 1;
            let Some([delay, sending, least]) = paths[node as usize] else { continue };
            for (&far, link) in &neighbours[node as usize] {
                if paths[far as usize].is_some() {
                    continue;
                }
                let delay = delay + link.delay.ps() / 1000;
                let sending = sending + u64::from(mtu) * 8_000_000_000 / link.rate.bps();
                let least = least.min(link.rate.bps());
                paths[far as usize] = Some([delay, sending, least]);
                if self.is_switch[far as usize] {
                    queue.push(far);
                } else {
                    let bits = u128::from(2 * delay + sending) * u128::from(least) / 1_000_000_000;
                    let window = u64::try_from(bits / 8).unwrap_or(u64::MAX).max(1);
                    take([far, target], window, Delta::from_ns(2 * delay + sending));
                }
            }
        }
    }
}
