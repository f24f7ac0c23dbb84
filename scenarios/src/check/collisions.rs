//! How well ECMP can be expected to spread what hosts send over the links above them.

use std::collections::BTreeMap;

use models::ids::{NodeId, PortId};
use models::report::Severity;
use models::topology::NodeKind;
use sim_core::rng::{Domain, Stream};

use super::Notes;

/// Numbers that a mean is taken over, divided by those drawn for each.
const DRAWS: usize = 2_000_000;

/// The share of its rate that a job can expect which waits for the slowest link: the mean of
/// 1 / max(1, greatest load), if each of `loads` (in link rates) goes to one of `links` at random.
///
/// By drawing, always the same numbers: within 0.005.
pub fn efficiency(loads: &[f64], links: usize) -> f64 {
    let links = links.max(1);
    let rounds = (DRAWS / loads.len().max(1)).clamp(200, 20_000);
    let mut random = Stream::new(0, Domain::Traffic, links as u64);
    let mut sum = vec![0.0; links];
    let mut total = 0.0;
    for _ in 0..rounds {
        sum.fill(0.0);
        for load in loads {
            sum[random.below(links as u64) as usize] += load;
        }
        total += 1.0 / sum.iter().copied().fold(1.0, f64::max);
    }
    total / rounds as f64
}

/// What leaves a switch over the same links: QPs by the port that they come in by.
type Groups<'a> = BTreeMap<(u32, &'a [u16]), BTreeMap<u32, u64>>;

impl Notes<'_> {
    /// The worst of the switches at hosts.
    pub(super) fn collisions(&mut self) {
        let plan = self.plan;
        let (wiring, topology) = (&plan.wiring, &plan.wiring.topology);
        let mut groups: Groups<'_> = BTreeMap::new();
        for qp in &wiring.qps[..wiring.data_qps as usize] {
            let switch = topology.neighbour(PortId(qp.source_port));
            let hops = wiring.routes.next_hops(switch, NodeId(qp.target), qp.target_address);
            if hops.len() > 1 && !plan.spreads(switch) {
                *groups.entry((switch.0, hops)).or_default().entry(qp.source_port).or_default() +=
                    1;
            }
        }
        let mut known: BTreeMap<(usize, Vec<u64>), f64> = BTreeMap::new();
        let mut worst: Option<(f64, u32, usize, Vec<f64>, usize)> = None;
        for ((switch, hops), sources) in &groups {
            let Some(first) = topology.ports_of(NodeId(*switch)).next() else { continue };
            let uplink = PortId(first.0 + u32::from(hops[0]));
            if topology.node(topology.neighbour(uplink)).kind == NodeKind::Host {
                continue;
            }
            let line = topology.port(uplink).rate.bps() as f64;
            let share = |(port, qps): (&u32, &u64)| {
                let rate = topology.port(PortId(*port)).rate.bps() as f64;
                vec![rate / line / *qps as f64; *qps as usize]
            };
            let mut loads: Vec<f64> = sources.iter().flat_map(share).collect();
            loads.sort_unstable_by(f64::total_cmp);
            if loads.len() < 2 || loads.len() > DRAWS / 200 {
                continue;
            }
            let key = (hops.len(), loads.iter().map(|load| load.to_bits()).collect());
            let share = *known.entry(key).or_insert_with(|| efficiency(&loads, hops.len()));
            if worst.as_ref().is_none_or(|(least, ..)| share < *least) {
                worst = Some((share, *switch, hops.len(), loads, sources.len()));
            }
        }
        let Some((share, switch, links, loads, sources)) = worst.filter(|w| w.0 < 0.95) else {
            return;
        };
        let more = |times: usize| {
            let finer: Vec<f64> =
                loads.iter().flat_map(|l| vec![l / times as f64; times]).collect();
            efficiency(&finer, links) * 100.0
        };
        let text = format!(
            "ECMP: {} QPs of {sources} ports go over {links} links of {}; hashed at random, the \
             busiest link lets {:.0} % of the rate through on average ({:.0} % with 4 times as many \
             QPs, {:.0} % with 32 times)",
            loads.len(),
            topology.node(NodeId(switch)).name,
            share * 100.0,
            more(4),
            more(32)
        );
        self.say(Severity::Info, "switch.ecmp", text);
    }
}

#[cfg(test)]
mod tests {
    use super::efficiency;

    /// Each of `connections` with `qps` of equal rate.
    fn jobs(connections: usize, links: usize, qps: usize) -> f64 {
        efficiency(&vec![1.0 / qps as f64; connections * qps], links)
    }

    #[test]
    fn two_of_two_collide_half_of_the_time() {
        // 1 or 1/2: exactly 0.75
        assert!((jobs(2, 2, 1) - 0.75).abs() < 0.01);
        // one alone never does
        assert!((jobs(1, 8, 1) - 1.0).abs() < 1e-12);
        // 8 over 8: 0.413, 0.584 with 4 QPs, 0.667 with 8; 16 over 16 0.344; half the load 0.440
        for (n, k, qps, expected) in [
            (8, 8, 1, 0.413),
            (8, 8, 4, 0.584),
            (8, 8, 8, 0.667),
            (16, 16, 1, 0.344),
            (16, 32, 1, 0.440),
        ] {
            let found = jobs(n, k, qps);
            assert!((found - expected).abs() < 0.008, "{n}/{k} x {qps}: {found}, not {expected}");
        }
    }
}
