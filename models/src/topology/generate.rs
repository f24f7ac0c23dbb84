//! From a [`TopologyConfig`] to a [`Topology`].

use std::collections::BTreeMap;

use super::config::{
    DumbbellConfig, FatTreeConfig, GraphConfig, LeafSpineConfig, LinkConfig, RailConfig,
    RingConfig, StarConfig, ThreeTierConfig, TopologyConfig,
};
use super::{Cable, NodeKind, Topology};
use crate::error::BuildError;

/// More nodes or cables than this are refused before memory is taken.
const NODES_MAX: u64 = 1_000_000;

pub(super) fn generate(config: &TopologyConfig) -> Result<Topology, BuildError> {
    let mut plan = Plan::default();
    match config {
        TopologyConfig::Star(star) => star_plan(&mut plan, star)?,
        TopologyConfig::Dumbbell(dumbbell) => dumbbell_plan(&mut plan, dumbbell)?,
        TopologyConfig::Ring(ring) => ring_plan(&mut plan, ring)?,
        TopologyConfig::LeafSpine(clos) => leaf_spine_plan(&mut plan, clos)?,
        TopologyConfig::Rail(rail) => rail_plan(&mut plan, rail)?,
        TopologyConfig::FatTree(tree) => fat_tree_plan(&mut plan, tree)?,
        TopologyConfig::ThreeTier(clos) => three_tier_plan(&mut plan, clos)?,
        TopologyConfig::Graph(graph) => graph_plan(&mut plan, graph)?,
    }
    Ok(Topology::assemble(plan.nodes, &plan.cables))
}

#[derive(Default)]
struct Plan {
    nodes: Vec<(String, NodeKind, u32)>,
    cables: Vec<Cable>,
}

impl Plan {
    fn node(&mut self, name: String, kind: NodeKind) -> usize {
        let index = self.nodes.len();
        self.nodes.push((name, kind, index as u32));
        index
    }

    fn hosts(&mut self, count: u32) {
        for index in 0..count {
            self.node(format!("host{index}"), NodeKind::Host);
        }
    }

    fn switch(&mut self, name: String) -> usize {
        self.node(name, NodeKind::Switch)
    }

    fn cable(&mut self, a: usize, b: usize, link: &LinkConfig) {
        let LinkConfig { rate, delay, loss } = *link;
        self.cables.push(Cable { ends: [a, b], rate, delay, loss });
    }

    /// Cables `count` hosts from number `first` on to a switch.
    fn attach(&mut self, first: u32, count: u32, switch: usize, link: &LinkConfig) {
        self.attach_by(1, first, count, switch, link);
    }

    /// The same with `ports` parallel cables each; those of a host are neighbours at the switch.
    fn attach_by(&mut self, ports: u32, first: u32, count: u32, switch: usize, link: &LinkConfig) {
        for host in first..first + count {
            for _ in 0..ports {
                self.cable(host as usize, switch, link);
            }
        }
    }

    /// Adds `count` spines, each with `parallel` cables to each of the leaves.
    fn spines(&mut self, count: u32, leaves: &[usize], parallel: u32, uplink: &LinkConfig) {
        for spine in 0..count {
            let switch = self.switch(format!("spine{spine}"));
            for leaf in leaves {
                for _ in 0..parallel {
                    self.cable(*leaf, switch, uplink);
                }
            }
        }
    }
}

fn star_plan(plan: &mut Plan, star: &StarConfig) -> Result<(), BuildError> {
    let StarConfig { hosts, link, ports_per_host } = star;
    positive("topology.hosts", *hosts)?;
    positive("topology.ports_per_host", *ports_per_host)?;
    check_link("topology.link", link)?;
    bounded("topology.hosts", u64::from(*hosts))?;
    bounded("topology.ports_per_host", u64::from(*hosts) * u64::from(*ports_per_host))?;
    plan.hosts(*hosts);
    let switch = plan.switch("sw0".into());
    plan.attach_by(*ports_per_host, 0, *hosts, switch, link);
    Ok(())
}

fn dumbbell_plan(plan: &mut Plan, dumbbell: &DumbbellConfig) -> Result<(), BuildError> {
    let DumbbellConfig { left, right, link, trunk, trunks } = dumbbell;
    positive("topology.left", *left)?;
    positive("topology.right", *right)?;
    positive("topology.trunks", *trunks)?;
    check_link("topology.link", link)?;
    let trunk = optional_link("topology.trunk", trunk, link)?;
    bounded("topology.left", u64::from(*left) + u64::from(*right) + u64::from(*trunks))?;
    plan.hosts(left + right);
    let sides = [plan.switch("sw0".into()), plan.switch("sw1".into())];
    plan.attach(0, *left, sides[0], link);
    plan.attach(*left, *right, sides[1], link);
    for _ in 0..*trunks {
        plan.cable(sides[0], sides[1], &trunk);
    }
    Ok(())
}

fn ring_plan(plan: &mut Plan, ring: &RingConfig) -> Result<(), BuildError> {
    let RingConfig { switches, hosts_per_switch, link, trunk } = ring;
    if *switches < 3 {
        let message = format!("{switches} switches make no ring: at least 3 are expected");
        return Err(BuildError::new("topology.switches", message));
    }
    positive("topology.hosts_per_switch", *hosts_per_switch)?;
    check_link("topology.link", link)?;
    let trunk = optional_link("topology.trunk", trunk, link)?;
    bounded("topology.switches", u64::from(*switches) * (1 + u64::from(*hosts_per_switch)))?;
    plan.hosts(switches * hosts_per_switch);
    let first = plan.nodes.len();
    for index in 0..*switches {
        let switch = plan.switch(format!("sw{index}"));
        plan.attach(index * hosts_per_switch, *hosts_per_switch, switch, link);
    }
    let count = *switches as usize;
    for index in 0..count {
        plan.cable(first + index, first + (index + 1) % count, &trunk);
    }
    Ok(())
}

fn leaf_spine_plan(plan: &mut Plan, clos: &LeafSpineConfig) -> Result<(), BuildError> {
    let LeafSpineConfig { leaves, spines, hosts_per_leaf, link, .. } = clos;
    let LeafSpineConfig { uplink, uplinks_per_spine, ports_per_host, .. } = clos;
    positive("topology.leaves", *leaves)?;
    positive("topology.spines", *spines)?;
    positive("topology.hosts_per_leaf", *hosts_per_leaf)?;
    positive("topology.uplinks_per_spine", *uplinks_per_spine)?;
    positive("topology.ports_per_host", *ports_per_host)?;
    check_link("topology.link", link)?;
    let uplink = optional_link("topology.uplink", uplink, link)?;
    bounded("topology.leaves", product([*leaves, *hosts_per_leaf, 1]))?;
    bounded("topology.ports_per_host", product([*leaves, *hosts_per_leaf, *ports_per_host]))?;
    bounded("topology.spines", product([*leaves, *spines, *uplinks_per_spine]))?;
    plan.hosts(leaves * hosts_per_leaf);
    let leaves: Vec<usize> = (0..*leaves)
        .map(|leaf| {
            let switch = plan.switch(format!("leaf{leaf}"));
            let first = leaf * hosts_per_leaf;
            plan.attach_by(*ports_per_host, first, *hosts_per_leaf, switch, link);
            switch
        })
        .collect();
    plan.spines(*spines, &leaves, *uplinks_per_spine, &uplink);
    Ok(())
}

fn rail_plan(plan: &mut Plan, rail: &RailConfig) -> Result<(), BuildError> {
    let RailConfig { hosts, rails, link, spines, uplink, uplinks_per_spine, .. } = rail;
    let hosts_per_group = rail.hosts_per_group.unwrap_or(*hosts);
    positive("topology.hosts", *hosts)?;
    positive("topology.rails", *rails)?;
    positive("topology.hosts_per_group", hosts_per_group)?;
    positive("topology.uplinks_per_spine", *uplinks_per_spine)?;
    check_link("topology.link", link)?;
    let uplink = optional_link("topology.uplink", uplink, link)?;
    if hosts % hosts_per_group != 0 {
        let message = format!(
            "{hosts} hosts do not divide into groups of {hosts_per_group}: a divisor of {hosts} \
             is expected"
        );
        return Err(BuildError::new("topology.hosts_per_group", message));
    }
    let groups = hosts / hosts_per_group;
    if groups > 1 && *spines == 0 {
        let message = format!("{groups} groups need spines between them: at least 1 is expected");
        return Err(BuildError::new("topology.spines", message));
    }
    bounded("topology.hosts", u64::from(*hosts))?;
    bounded("topology.rails", product([*hosts, *rails, 1]))?;
    bounded("topology.spines", product([groups * rails, *spines, *uplinks_per_spine]))?;
    plan.hosts(*hosts);
    let mut leaves = Vec::new();
    for group in 0..groups {
        // in the order of the rails, so that port r of a host is on rail r
        for _ in 0..*rails {
            let switch = plan.switch(format!("leaf{}", leaves.len()));
            plan.attach(group * hosts_per_group, hosts_per_group, switch, link);
            leaves.push(switch);
        }
    }
    plan.spines(*spines, &leaves, *uplinks_per_spine, &uplink);
    Ok(())
}

fn fat_tree_plan(plan: &mut Plan, tree: &FatTreeConfig) -> Result<(), BuildError> {
    let FatTreeConfig { k, link, uplink } = tree;
    if *k < 2 || *k % 2 != 0 {
        let message = format!("{k} is no even number of ports: 2, 4, 6 ... is expected");
        return Err(BuildError::new("topology.k", message));
    }
    check_link("topology.link", link)?;
    bounded("topology.k", u64::from(*k).saturating_pow(3) / 4 * 3)?;
    let half = k / 2;
    let clos = ThreeTierConfig {
        pods: *k,
        edges_per_pod: half,
        aggregations_per_pod: half,
        cores_per_aggregation: half,
        hosts_per_edge: half,
        link: *link,
        uplink: *uplink,
    };
    three_tier_plan(plan, &clos)
}

fn three_tier_plan(plan: &mut Plan, clos: &ThreeTierConfig) -> Result<(), BuildError> {
    let ThreeTierConfig { pods, hosts_per_edge, link, .. } = clos;
    let (edges, aggregations) = (clos.edges_per_pod, clos.aggregations_per_pod);
    let cores = clos.cores_per_aggregation;
    positive("topology.pods", *pods)?;
    positive("topology.edges_per_pod", edges)?;
    positive("topology.aggregations_per_pod", aggregations)?;
    positive("topology.cores_per_aggregation", cores)?;
    positive("topology.hosts_per_edge", *hosts_per_edge)?;
    check_link("topology.link", link)?;
    let uplink = optional_link("topology.uplink", &clos.uplink, link)?;
    bounded("topology.hosts_per_edge", product([*pods, edges, *hosts_per_edge]))?;
    bounded("topology.aggregations_per_pod", product([*pods, edges, aggregations]))?;
    bounded("topology.cores_per_aggregation", product([*pods, aggregations, cores]))?;
    plan.hosts(pods * edges * hosts_per_edge);
    let edge_switches: Vec<usize> = (0..pods * edges)
        .map(|edge| {
            let switch = plan.switch(format!("edge{edge}"));
            plan.attach(edge * hosts_per_edge, *hosts_per_edge, switch, link);
            switch
        })
        .collect();
    let mut above = Vec::new();
    for of_pod in edge_switches.chunks(edges as usize) {
        for _ in 0..aggregations {
            let switch = plan.switch(format!("agg{}", above.len()));
            for edge in of_pod {
                plan.cable(*edge, switch, &uplink);
            }
            above.push(switch);
        }
    }
    for core in 0..aggregations * cores {
        let switch = plan.switch(format!("core{core}"));
        for of_pod in above.chunks(aggregations as usize) {
            plan.cable(of_pod[(core / cores) as usize], switch, &uplink);
        }
    }
    Ok(())
}

fn graph_plan(plan: &mut Plan, graph: &GraphConfig) -> Result<(), BuildError> {
    let mut names = Vec::new();
    for (key, list, kind) in [
        ("topology.hosts", &graph.hosts, NodeKind::Host),
        ("topology.switches", &graph.switches, NodeKind::Switch),
    ] {
        for pattern in list {
            for name in expand(key, pattern)? {
                bounded(key, names.len() as u64)?;
                names.push((name, kind, key));
            }
        }
    }
    if !names.iter().any(|(_, kind, _)| *kind == NodeKind::Host) {
        return Err(BuildError::new("topology.hosts", "no hosts: at least one is expected"));
    }
    if graph.numbered {
        let mut numbered = Vec::new();
        for (name, kind, key) in names {
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let number: u32 = digits.parse().map_err(|_| {
                let message = format!("`numbered` needs a number at the end of the name {name:?}");
                BuildError::new(key, message)
            })?;
            numbered.push((number, name, kind));
        }
        numbered.sort();
        plan.nodes.extend(numbered.into_iter().map(|(number, name, kind)| (name, kind, number)));
    } else {
        for (name, kind, _) in names {
            plan.node(name, kind);
        }
    }
    let mut index = BTreeMap::new();
    for (position, (name, _, _)) in plan.nodes.iter().enumerate() {
        if index.insert(name.clone(), position).is_some() {
            return Err(BuildError::new("topology", format!("the node {name:?} is named twice")));
        }
    }
    for (number, link) in graph.links.iter().enumerate() {
        let key = format!("topology.links[{number}]");
        let find = |end: &str, name: &str| {
            index.get(name).copied().ok_or_else(|| {
                BuildError::new(format!("{key}.{end}"), format!("there is no node {name:?}"))
            })
        };
        let (a, b) = (find("a", &link.a)?, find("b", &link.b)?);
        if a == b {
            return Err(BuildError::new(format!("{key}.b"), "both ends are the same node"));
        }
        let config = LinkConfig { rate: link.rate, delay: link.delay, loss: link.loss };
        check_link(&key, &config)?;
        plan.cable(a, b, &config);
    }
    Ok(())
}

/// `n[0..3]` is n0, n1, n2; any other text is itself.
fn expand(key: &str, pattern: &str) -> Result<Vec<String>, BuildError> {
    let range = pattern.strip_suffix(']').and_then(|head| head.split_once('['));
    let Some((prefix, range)) = range else { return Ok(vec![pattern.to_owned()]) };
    let bounds = range
        .split_once("..")
        .and_then(|(from, to)| Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?)));
    match bounds {
        Some((from, to)) if from < to && u64::from(to - from) <= NODES_MAX => {
            Ok((from..to).map(|number| format!("{prefix}{number}")).collect())
        }
        _ => {
            let message = format!("{pattern:?} is no range of names: \"n[0..8]\" is n0 to n7");
            Err(BuildError::new(key, message))
        }
    }
}

fn optional_link(
    key: &str,
    link: &Option<LinkConfig>,
    default: &LinkConfig,
) -> Result<LinkConfig, BuildError> {
    if let Some(link) = link {
        check_link(key, link)?;
    }
    Ok(link.unwrap_or(*default))
}

fn check_link(key: &str, link: &LinkConfig) -> Result<(), BuildError> {
    if link.rate.bps() < 1_000_000 || link.rate.bps() > 10_000_000_000_000 {
        let message = format!("{} is out of range: 1Mbps to 10Tbps is expected", link.rate);
        return Err(BuildError::new(format!("{key}.rate"), message));
    }
    if link.delay.ps() > 1_000_000_000_000 {
        let message = format!("{} is out of range: at most 1s is expected", link.delay);
        return Err(BuildError::new(format!("{key}.delay"), message));
    }
    if !(0.0..1.0).contains(&link.loss) {
        let message = format!("{} is no probability below 1", link.loss);
        return Err(BuildError::new(format!("{key}.loss"), message));
    }
    Ok(())
}

fn positive(key: &str, count: u32) -> Result<(), BuildError> {
    if count == 0 {
        return Err(BuildError::new(key, "0 is out of range: at least 1 is expected"));
    }
    Ok(())
}

fn product(counts: [u32; 3]) -> u64 {
    counts.into_iter().map(u64::from).fold(1, u64::saturating_mul)
}

fn bounded(key: &str, count: u64) -> Result<(), BuildError> {
    if count > NODES_MAX {
        let message = format!("this asks for {count} nodes or cables: at most {NODES_MAX} can be");
        return Err(BuildError::new(key, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::Routes;
    use sim_core::{Delta, Rate};

    const LINK: LinkConfig =
        LinkConfig { rate: Rate::from_gbps(100), delay: Delta::from_us(1), loss: 0.0 };

    const RAIL: RailConfig = RailConfig {
        hosts: 4,
        rails: 2,
        hosts_per_group: None,
        link: LINK,
        spines: 0,
        uplink: None,
        uplinks_per_spine: 1,
    };

    #[test]
    fn a_fat_tree_of_4_port_switches() {
        let tree = FatTreeConfig { k: 4, link: LINK, uplink: None };
        let topology = generate(&TopologyConfig::FatTree(tree)).unwrap();
        // 16 hosts, 8 edge + 8 aggregation + 4 core switches; 16 + 16 + 16 cables
        assert_eq!(topology.hosts().count(), 16);
        assert_eq!(topology.switches().count(), 20);
        assert_eq!(topology.ports().len(), 2 * 48);
        for switch in topology.switches() {
            assert_eq!(topology.ports_of(switch).count(), 4);
        }
        assert_eq!(
            topology.port_name(topology.ports_of(topology.find("edge3").unwrap()).nth(2).unwrap()),
            "edge3:2"
        );
    }

    #[test]
    fn cores_stand_above_the_same_aggregation_switch_of_each_pod() {
        let clos = ThreeTierConfig {
            pods: 2,
            edges_per_pod: 3,
            aggregations_per_pod: 2,
            cores_per_aggregation: 4,
            hosts_per_edge: 5,
            link: LINK,
            uplink: None,
        };
        let topology = generate(&TopologyConfig::ThreeTier(clos)).unwrap();
        // 30 hosts; 6 edge, 4 aggregation, 8 core switches; 30 + 12 + 16 cables
        assert_eq!(topology.switches().count(), 18);
        assert_eq!(topology.ports().len(), 2 * 58);
        assert_eq!(peers(&topology, "edge4")[4..], ["host24/nic0", "agg2:1", "agg3:1"]);
        assert_eq!(peers(&topology, "core3"), ["agg0:6", "agg2:6"]);
        assert_eq!(peers(&topology, "core4"), ["agg1:3", "agg3:3"]);
    }

    #[test]
    fn bad_shapes_are_refused_with_their_key() {
        let tree = |k| TopologyConfig::FatTree(FatTreeConfig { k, link: LINK, uplink: None });
        assert_eq!(generate(&tree(3)).unwrap_err().key, "topology.k");
        assert!(generate(&tree(4_000_000)).unwrap_err().message.contains("at most 1000000"));
        let refused = |rail| generate(&TopologyConfig::Rail(rail)).unwrap_err();
        assert_eq!(refused(RailConfig { rails: 0, ..RAIL }).key, "topology.rails");
        assert_eq!(refused(RailConfig { rails: u32::MAX, ..RAIL }).key, "topology.rails");
        let odd = refused(RailConfig { hosts_per_group: Some(3), ..RAIL });
        assert_eq!(odd.key, "topology.hosts_per_group");
        assert!(odd.message.contains("a divisor of 4"));
        let zero = refused(RailConfig { hosts_per_group: Some(0), ..RAIL });
        assert_eq!(zero.key, "topology.hosts_per_group");
        let apart = refused(RailConfig { hosts_per_group: Some(2), ..RAIL });
        assert_eq!(apart.key, "topology.spines");
        assert!(apart.message.contains("2 groups need spines"));
        let many = refused(RailConfig { spines: u32::MAX, ..RAIL });
        assert_eq!(many.key, "topology.spines");
        let star = StarConfig { hosts: 2, link: LINK, ports_per_host: 0 };
        let none = generate(&TopologyConfig::Star(star)).unwrap_err();
        assert_eq!(none.key, "topology.ports_per_host");
    }

    /// The names of the ports at the other ends of a node's cables.
    fn peers(topology: &Topology, node: &str) -> Vec<String> {
        let ports = topology.ports_of(topology.find(node).unwrap());
        ports.map(|port| topology.port_name(topology.port(port).peer)).collect()
    }

    #[test]
    fn hosts_may_have_several_cables_to_their_switch() {
        let star = StarConfig { hosts: 3, link: LINK, ports_per_host: 2 };
        let topology = generate(&TopologyConfig::Star(star)).unwrap();
        assert_eq!(peers(&topology, "host1"), ["sw0:2", "sw0:3"]);
        let clos = LeafSpineConfig {
            leaves: 2,
            spines: 1,
            hosts_per_leaf: 2,
            link: LINK,
            uplink: None,
            uplinks_per_spine: 2,
            ports_per_host: 2,
        };
        let topology = generate(&TopologyConfig::LeafSpine(clos)).unwrap();
        // ports 0 to 3 of a leaf are those of its hosts, 4 and 5 go up
        assert_eq!(peers(&topology, "host3"), ["leaf1:2", "leaf1:3"]);
        assert_eq!(peers(&topology, "spine0"), ["leaf0:4", "leaf0:5", "leaf1:4", "leaf1:5"]);
    }

    #[test]
    fn rails_without_spines_are_islands() {
        let topology = generate(&TopologyConfig::Rail(RAIL)).unwrap();
        assert_eq!(topology.switches().count(), 2);
        assert_eq!(peers(&topology, "host2"), ["leaf0:2", "leaf1:2"]);
        let all = ["host0/nic1", "host1/nic1", "host2/nic1", "host3/nic1"];
        assert_eq!(peers(&topology, "leaf1"), all);
        let routes = Routes::shortest(&topology).unwrap();
        let node = |name: &str| topology.find(name).unwrap();
        let first = |name: &str| topology.addresses_of(node(name)).start;
        assert_eq!(routes.next_hops(node("leaf1"), node("host2"), first("host2")), [2]);
        assert!(!routes.next_hops(node("host0"), node("host3"), first("host3")).is_empty());
    }

    #[test]
    fn spines_join_the_rails_of_all_groups() {
        let rail = RailConfig { hosts_per_group: Some(2), spines: 2, uplinks_per_spine: 2, ..RAIL };
        let topology = generate(&TopologyConfig::Rail(rail)).unwrap();
        // 2 groups of 2 rails: host 2 is the first of group 1, whose rails are leaves 2 and 3
        assert_eq!(peers(&topology, "host2"), ["leaf2:0", "leaf3:0"]);
        // 8 cables to hosts, 4 leaves x 2 spines x 2 up
        assert_eq!(topology.ports().len(), 2 * (8 + 16));
        let up = ["spine0:6", "spine0:7", "spine1:6", "spine1:7"];
        assert_eq!(peers(&topology, "leaf3")[2..], up);
        let routes = Routes::shortest(&topology).unwrap();
        let node = |name: &str| topology.find(name).unwrap();
        let first = |name: &str| topology.addresses_of(node(name)).start;
        assert_eq!(routes.next_hops(node("leaf0"), node("host3"), first("host3")), [2, 3, 4, 5]);
    }
}
