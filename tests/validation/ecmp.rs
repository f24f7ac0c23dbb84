//! ECMP: balls into bins, by the ways that planned QPs take.

use std::sync::Arc;

use models::fabric::{Plan, Shards, Spec, plan};
use models::traffic::Flow;
use scenarios::resolve::{LoadOptions, load};

use crate::common::{reference, say};
use crate::table::{Row, section};

/// Connections that fill a link each, links, QPs that each connection is spread over, and the mean
/// of 1 / max(1, load of the fullest link) if every QP chose at random.
const TABLE: [(usize, usize, usize, f64); 10] = [
    (8, 8, 1, 0.413),
    (8, 8, 4, 0.584),
    (8, 8, 8, 0.667),
    (8, 8, 32, 0.797),
    (16, 16, 1, 0.344),
    (16, 16, 4, 0.518),
    (16, 16, 8, 0.608),
    (16, 16, 32, 0.756),
    (16, 32, 1, 0.440),
    (16, 32, 4, 0.761),
];

#[test]
fn ecmp() {
    let mut rows: Vec<Row> = TABLE
        .into_iter()
        .map(|(connections, links, qps, expected)| {
            let found = efficiency(connections, links, qps, "random", draws(connections * qps));
            let case = format!("{connections} connections, {links} links, {qps} QPs each");
            Row::relative([&case, "rate of the slowest"], expected, found, three, 0.02)
        })
        .collect();
    rows.extend(polarised());
    section("ecmp", &rows);
}

/// All rows of the table of the reference: random source ports, and those that follow from the
/// numbers of QPs.
#[test]
fn every_row_of_balls_into_bins() {
    let Some(file) = reference("analytic/ecmp_balls_bins.tsv") else { return };
    let table = std::fs::read_to_string(file).unwrap();
    let mut lines =
        vec!["connections links QPs  computed  random ports  error  by QPN  error".into()];
    let mut bad = Vec::new();
    for row in table.lines().skip(1) {
        let cells: Vec<f64> = row.split('\t').map(|cell| cell.parse().unwrap()).collect();
        let [connections, links, qps] = [0, 1, 2].map(|cell| cells[cell] as usize);
        let expected = cells[3];
        let found = efficiency(connections, links, qps, "random", draws(connections * qps));
        let error = found / expected - 1.0;
        // QPs of one connection whose numbers have equal squares modulo 2^14 share a source port
        let by_qpn =
            (qps == 1).then(|| efficiency(connections, links, 1, "qpn", draws(connections)));
        let qpn_error = by_qpn.map(|by_qpn| by_qpn / expected - 1.0);
        let column = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.3}"));
        lines.push(format!(
            "{connections:11} {links:5} {qps:3} {expected:9.3} {found:13.3} {error:+6.3} {:>7} {:>6}",
            column(by_qpn),
            qpn_error.map_or(String::new(), |error| format!("{error:+.3}")),
        ));
        if error.abs() > 0.02 || qpn_error.is_some_and(|error| error.abs() > 0.02) {
            bad.push(row.to_owned());
        }
    }
    say(&lines.join("\n"));
    assert_eq!(bad, Vec::<String>::new(), "rows that are off by more than 2 %");
    assert!(lines.len() > 50);
}

fn three(value: f64) -> String {
    format!("{value:.3}")
}

/// At least 1000, and more where few QPs make a draw's result scatter more.
fn draws(qps: usize) -> usize {
    (160_000 / qps).clamp(1000, 20_000)
}

/// QPs of one plan; more would take much memory.
const QPS: usize = 100_000;

/// The mean over draws of the rate that the slowest connection has. Each draw has new QPs, so that
/// another source port decides; the switches and their hashes stay.
fn efficiency(connections: usize, links: usize, qps: usize, entropy: &str, draws: usize) -> f64 {
    let hosts = connections;
    let keys = [
        "topology.leaves=2".to_owned(),
        format!("topology.spines={links}"),
        format!("topology.hosts_per_leaf={hosts}"),
        format!("nic.entropy={entropy}"),
    ];
    let mut sum = 0.0;
    let mut left = draws;
    let mut seed = 1;
    while left > 0 {
        let here = (QPS / (connections * qps)).clamp(1, left);
        let mut spec = spec(&keys, seed);
        let name = |host: usize| spec.topology.find(&format!("host{host}")).unwrap();
        let ends: Vec<_> = (0..hosts).map(|host| (name(host), name(hosts + host))).collect();
        let pattern = spec.flows[0].clone();
        let flow = |(source, target)| Flow { source, target, ..pattern.clone() };
        let per_draw = ends.iter().flat_map(|ends| std::iter::repeat_n(*ends, qps));
        let per_draw: Vec<Flow> = per_draw.map(flow).collect();
        spec.flows = per_draw.iter().cycle().take(here * per_draw.len()).cloned().collect();
        let plan = plan(spec, Shards::Exactly(1)).unwrap();
        let uplinks: Vec<u32> = (0..plan.wiring.qps.len()).map(|qp| plan.path(qp)[1]).collect();
        for draw in uplinks.chunks(connections * qps) {
            sum += 1.0 / (fullest(draw) as f64 / qps as f64).max(1.0);
        }
        left -= here;
        seed += 1;
    }
    sum / draws as f64
}

/// How many choose the port of `leaf0` that most choose.
fn fullest(chosen: &[u32]) -> usize {
    let mut chosen = chosen.to_vec();
    chosen.sort_unstable();
    chosen.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0)
}

fn spec(keys: &[String], seed: u64) -> Spec {
    // a pattern for the flows that the caller makes
    let one = "traffic=[{ kind = 'flows', flows = [{ source = 0, target = 1, bytes = '1MB' }] }]";
    let set = [keys, &[one.to_owned()]].concat();
    let options = LoadOptions { set, seed: Some(seed), ..LoadOptions::default() };
    load("ecmp-collisions", &options).unwrap().spec
}

/// Two tiers with the same seed choose alike: of the K uplinks of a switch of the upper tier, all
/// that comes by one of the lower tier takes the same.
fn polarised() -> [Row; 2] {
    let used = |seed: &str| {
        let keys = [
            "topology={ kind = 'fat-tree', k = 8, link = { rate = '10Gbps', delay = '1us' } }"
                .to_owned(),
            format!("switch.ecmp.seed={seed}"),
        ];
        let mut spec = spec(&keys, 1);
        let [source, target] = ["host0", "host127"].map(|name| spec.topology.find(name).unwrap());
        let flow = Flow { source, target, ..spec.flows[0].clone() };
        spec.flows = Arc::from(vec![flow; 1000]);
        let plan: Plan = plan(spec, Shards::Exactly(1)).unwrap();
        // host, edge, then the uplink of a switch of the second tier
        let mut uplinks: Vec<u32> = (0..1000).map(|qp| plan.path(qp)[2]).collect();
        uplinks.sort_unstable();
        uplinks.dedup();
        uplinks.len()
    };
    // four switches with four uplinks each
    [("the same seed on both tiers", "7", 4), ("a seed for each switch", "node", 16)].map(
        |(case, seed, expected)| {
            let found = used(seed);
            let case = format!("fat-tree of k = 8, 1000 QPs, {case}");
            let show = |count: f64| format!("{count:.0} of 16");
            let [expected, found] = [expected, found].map(|count: usize| count as f64);
            Row::relative([&case, "uplinks of the second tier in use"], expected, found, show, 0.0)
        },
    )
}
