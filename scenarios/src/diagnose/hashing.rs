//! Equal-cost links that carry unequal loads, and what the switches hash.

use std::collections::BTreeMap;

use models::fabric::Plan;
use models::ids::NodeId;
use models::load_balance::{EcmpConfig, EcmpFunction, EcmpSeed, HashField};
use models::nic::Entropy;
use models::report::{Finding, Report, Severity};
use models::routing::Choices;
use serde_json::json;

use super::{FlowsByPort, finding, flow_name};
use crate::stats;

/// Equal-cost links that carry very different loads because flows collide.
pub(super) fn ecmp_imbalance(report: &Report, plan: &Plan, flows: &FlowsByPort) -> Option<Finding> {
    let wiring = &plan.wiring;
    let mut targets: Vec<u32> = wiring.qps.iter().map(|qp| qp.target_address).collect();
    targets.sort_unstable();
    targets.dedup();
    let choices = wiring.routes.choices(&targets);
    let mut worst: Option<(f64, usize, f64, usize)> = None;
    for switch in wiring.topology.switches().filter(|switch| !plan.spreads(*switch)) {
        for group in uplink_groups(plan, switch, &choices) {
            let bytes: Vec<f64> = group.iter().map(|p| report.ports[*p].tx_bytes as f64).collect();
            let mean = stats::mean(&bytes);
            for (port, bytes) in group.iter().zip(&bytes) {
                // one flow alone on a link is nobody's fault
                let ratio =
                    if mean > 0.0 && flows.of(*port).len() > 1 { bytes / mean } else { 1.0 };
                if worst.is_none_or(|(most, ..)| ratio > most) {
                    worst = Some((ratio, *port, mean, group.len()));
                }
            }
        }
    }
    let (ratio, hottest, mean, links) = worst?;
    // a link matters only if it was busy
    let port = &report.ports[hottest];
    let busy = port.tx_bytes as f64 * 8.0 / port.rate_bps as f64 / report.simulated_time_s;
    if ratio < 1.3 || busy < 0.25 {
        return None;
    }
    let on_it = flows.of(hottest);
    let names: Vec<String> = on_it.iter().take(4).map(|qp| flow_name(plan, *qp as usize)).collect();
    let more = if on_it.len() > 4 { ", ..." } else { "" };
    let cause = cause(plan, hottest as u32, on_it);
    let text = format!(
        "ECMP is uneven: {} carries {ratio:.1} times the mean of its {links} equal links ({} of {} \
         flows: {}{more}){}",
        port.port,
        on_it.len(),
        report.flows.len(),
        names.join(", "),
        cause.as_ref().map_or(String::new(), |cause| format!("; {}", cause.why))
    );
    let evidence = [
        ("port", json!(port.port)),
        ("max_over_mean", json!(ratio)),
        ("mean_tx_bytes", json!(mean)),
        ("flows", json!(on_it)),
    ];
    let (remedy, set) = match cause {
        Some(cause) => (cause.remedy, cause.set),
        None => {
            let more =
                "give the hash more flows: more QPs per connection with different source ports";
            (more.to_owned(), Vec::new())
        }
    };
    let mut found = finding("ecmp_imbalance", Severity::Warning, text, evidence, Some(remedy));
    found.set = set;
    Some(found)
}

/// Sets of ports among which a switch chooses by hash.
fn uplink_groups(plan: &Plan, switch: NodeId, choices: &Choices<'_>) -> Vec<Vec<usize>> {
    let Some(first) = plan.wiring.topology.ports_of(switch).next() else { return Vec::new() };
    let port = |hop: &u16| first.index() + usize::from(*hop);
    choices.of(switch).into_iter().map(|hops| hops.iter().map(port).collect()).collect()
}

/// Why a hash cannot do better, and what changes that.
struct Cause {
    why: String,
    remedy: String,
    set: Vec<String>,
}

/// What makes the flows of the hottest link choose alike, if it is more than chance.
fn cause(plan: &Plan, hottest: u32, flows: &[u32]) -> Option<Cause> {
    let node = NodeId(plan.wiring.wires[hottest as usize].node);
    let ecmp = &plan.spec.switches[node.index()].as_deref()?.ecmp;
    let switch = &plan.wiring.topology.node(node).name;
    let qps = || flows.iter().map(|flow| &plan.wiring.qps[*flow as usize]);
    let mut pairs: BTreeMap<[u32; 2], u32> = BTreeMap::new();
    qps().for_each(|qp| *pairs.entry([qp.source_address, qp.target_address]).or_default() += 1);
    // without several QPs there is nothing that another hash could tell apart
    let several = pairs.values().any(|qps| *qps > 1);
    let entropy = |host: u32| plan.spec.nics[host as usize].as_deref().map(|nic| nic.entropy);
    let constant = qps().all(|qp| entropy(qp.source) == Some(Entropy::Constant));
    if several && constant {
        return Some(Cause {
            why:
                "all QPs of a NIC have one UDP source port, so that those of two hosts are one flow"
                    .to_owned(),
            remedy: "draw UDP source ports from the QP numbers (nic.entropy = qpn; rdma-core does)"
                .to_owned(),
            set: vec!["nic.entropy=qpn".to_owned()],
        });
    }
    if several && !ecmp.fields.contains(&HashField::SourcePort) {
        return Some(Cause {
            why: format!(
                "{switch} does not hash the UDP source port: all QPs of two hosts are one flow"
            ),
            remedy: "hash the UDP source port as well (switch.ecmp.fields)".to_owned(),
            set: vec![
                "switch.ecmp.fields=[\"source-ip\", \"destination-ip\", \"source-port\", \
                 \"destination-port\"]"
                    .to_owned(),
            ],
        });
    }
    polarised(plan, hottest, flows, ecmp)
}

/// A tier below has made the same choice before, for all of the flows.
fn polarised(plan: &Plan, hottest: u32, flows: &[u32], ecmp: &EcmpConfig) -> Option<Cause> {
    let wiring = &plan.wiring;
    let choice = |port: u32, flow: u32| {
        let (node, qp) = (NodeId(wiring.wires[port as usize].node), &wiring.qps[flow as usize]);
        wiring.routes.next_hops(node, NodeId(qp.target), qp.target_address).len()
    };
    let below = |flow: &u32| {
        let path = plan.path(*flow as usize);
        let links = choice(hottest, *flow);
        let before = path.iter().take_while(|port| **port != hottest).skip(1);
        let alike = before.filter(|port| {
            let node = wiring.wires[**port as usize].node;
            let other = plan.spec.switches[node as usize].as_deref();
            other.is_some_and(|other| alike(ecmp, &other.ecmp, [choice(**port, *flow), links]))
        });
        alike.map(|port| wiring.wires[*port as usize].node).next()
    };
    let below: Option<Vec<u32>> = flows.iter().map(below).collect();
    let lower = NodeId(*below?.first()?);
    let upper = NodeId(wiring.wires[hottest as usize].node);
    let [lower, upper] = [lower, upper].map(|node| wiring.topology.node(node).name.as_str());
    let seed = "switch.ecmp.seed=node".to_owned();
    let (remedy, set) = if ecmp.function == EcmpFunction::Murmur3 {
        ("a seed of its own for each switch, or for each role (switch.ecmp.seed)", vec![seed])
    } else {
        // another seed permutes what a linear hash chooses, and no more
        let function = "switch.ecmp.function=murmur3".to_owned();
        ("another offset for each tier, or a hash that is not linear", vec![function, seed])
    };
    Some(Cause {
        why: format!(
            "{upper} hashes as {lower} below it does, so that of what {lower} sends there all goes by \
             the same links"
        ),
        remedy: remedy.to_owned(),
        set,
    })
}

/// Whether two tiers that choose among so many links each choose alike: the hash modulo a common
/// divisor is the same for all that come by one link of the lower tier.
fn alike(upper: &EcmpConfig, lower: &EcmpConfig, links: [usize; 2]) -> bool {
    let [few, many] = [links[0].min(links[1]), links[0].max(links[1])];
    let common = (2..=few).any(|n| few.is_multiple_of(n) && many.is_multiple_of(n));
    let seeds = match upper.function {
        EcmpFunction::Murmur3 => upper.seed == lower.seed && upper.seed != EcmpSeed::Node,
        // of a linear hash a seed flips bits of all results alike
        _ => few.is_power_of_two() && many.is_power_of_two(),
    };
    let same = (upper.function, &upper.fields, upper.offset)
        == (lower.function, &lower.fields, lower.offset);
    common && seeds && same
}

#[cfg(test)]
mod tests {
    use models::load_balance::{Ecmp, FiveTuple};

    use super::*;

    /// The links of the upper tier that flows take which the lower one sends by its first link.
    fn used(upper: &EcmpConfig, lower: &EcmpConfig, links: [usize; 2]) -> usize {
        let [lower, upper] = [(lower, 7), (upper, 9)].map(|(config, node)| Ecmp::new(config, node));
        let tuples = (0..4000u32).map(|n| FiveTuple {
            source: 0x0a00_0000 + n % 61,
            destination: 0x0a00_0100 + n % 53,
            source_port: (49_152 + n * 7 % 16_384) as u16,
            destination_port: 4791,
        });
        let up = tuples.filter(|tuple| lower.choose(tuple, links[0]) == 0);
        let mut chosen: Vec<usize> = up.map(|tuple| upper.choose(&tuple, links[1])).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen.len()
    }

    #[test]
    fn tiers_that_choose_alike_leave_links_idle_and_others_do_not() {
        let config =
            |function, seed, offset| EcmpConfig { function, seed, offset, ..EcmpConfig::default() };
        use EcmpFunction::{Crc32, Murmur3};
        let fixed = EcmpSeed::Fixed;
        for (upper, lower, links) in [
            (config(Murmur3, fixed(10), 0), config(Murmur3, fixed(10), 0), [2, 2]),
            (config(Murmur3, fixed(10), 0), config(Murmur3, fixed(10), 0), [4, 6]),
            (config(Murmur3, fixed(10), 0), config(Murmur3, fixed(10), 0), [2, 3]),
            (config(Murmur3, fixed(10), 0), config(Murmur3, fixed(25), 0), [4, 4]),
            (config(Murmur3, fixed(10), 3), config(Murmur3, fixed(10), 0), [4, 4]),
            (config(Murmur3, EcmpSeed::Node, 0), config(Murmur3, EcmpSeed::Node, 0), [4, 4]),
            (config(Crc32, EcmpSeed::Node, 0), config(Crc32, EcmpSeed::Node, 0), [4, 4]),
            (config(Crc32, fixed(1), 5), config(Crc32, fixed(1), 0), [4, 4]),
        ] {
            let idle = used(&upper, &lower, links) < links[1];
            assert_eq!(alike(&upper, &lower, links), idle, "{upper:?} {lower:?} {links:?}");
        }
    }
}
