//! CONGA (Alizadeh et al., "CONGA: Distributed Congestion-aware Load Balancing for Datacenters",
//! SIGCOMM 2014): the leaf that a packet enters by chooses an uplink for each flowlet, by what it knows
//! of the congestion on the way to the leaf of the target.
//!
//! Each port estimates its load with a *discounting rate estimator*: X grows by the bytes of each packet
//! and shrinks by the factor 1 - alpha in each period, so that X / (period / alpha) is the rate. Of
//! that, as share of the port's rate and in 8 steps, a packet takes along the largest on its way. The
//! target's leaf remembers it by leaf and uplink, and sends one such value back with each packet to that
//! leaf, ACKs included. A flowlet takes the uplink whose larger value, its own load or what is known of
//! the way beyond, is least; it keeps the one of the flow before unless another is better.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::rng::Stream;
use sim_core::{Delta, Rate, Time};

use super::{Asked, FlowTable, least};
use crate::note::PathMarks;

/// `[switch.conga]`: with `load_balance = "conga"`, which all switches should have.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CongaConfig {
    /// A flow that pauses for longer than this may take another uplink.
    pub gap: Delta,
    /// Period of the rate estimators,
    pub period: Delta,
    /// and the share that they lose in it.
    #[schemars(range(min = 0.001, max = 0.999))]
    pub alpha: f64,
    /// What was heard of a way is forgotten after this.
    pub ageing: Delta,
}

impl Default for CongaConfig {
    /// A gap of 100 us and periods of 50 us, as ConWeave's model has them for RDMA; the paper has
    /// 500 us and 16 us.
    fn default() -> Self {
        CongaConfig {
            gap: Delta::from_us(100),
            period: Delta::from_us(50),
            alpha: 0.2,
            ageing: Delta::from_ms(10),
        }
    }
}

/// Steps of a load, less one.
const LEVELS: f64 = 8.0;

/// A discounting rate estimator.
#[derive(Clone, Copy, Debug, Default)]
struct Estimator {
    bytes: f64,
    /// The period that `bytes` is of.
    period: u64,
}

impl Estimator {
    fn at(&self, now: Time, config: &CongaConfig) -> Estimator {
        let period = now.ps() / config.period.ps().max(1);
        let mut bytes = self.bytes;
        for _ in self.period..period.min(self.period + 200) {
            bytes *= 1.0 - config.alpha;
        }
        Estimator { bytes: if period > self.period + 200 { 0.0 } else { bytes }, period }
    }

    /// 0 to 7, of a port with this rate.
    fn level(&self, now: Time, rate: Rate, config: &CongaConfig) -> u8 {
        let full = rate.bps() as f64 / 8.0 * config.period.as_secs() / config.alpha;
        ((self.at(now, config).bytes / full * LEVELS) as u8).min(7)
    }
}

/// A value that was heard, and when.
type Heard = Option<(u8, Time)>;

/// The state of one switch.
#[derive(Clone, Debug)]
pub struct Conga {
    config: CongaConfig,
    random: Stream,
    flows: FlowTable,
    /// By port.
    estimators: Vec<Estimator>,
    rates: Vec<Rate>,
    /// By leaf: congestion from here to it by uplink (port),
    to_leaf: Vec<Vec<Heard>>,
    /// that from it to here by its uplink,
    from_leaf: Vec<Vec<Heard>>,
    /// and which of these is told next.
    turn: Vec<usize>,
}

impl Conga {
    /// A switch with so many ports that has heard nothing.
    pub fn new(config: CongaConfig, ports: usize, random: Stream) -> Self {
        Conga {
            config,
            random,
            flows: FlowTable::default(),
            estimators: vec![Estimator::default(); ports],
            rates: vec![Rate::from_gbps(1); ports],
            to_leaf: Vec::new(),
            from_leaf: Vec::new(),
            turn: Vec::new(),
        }
    }

    /// A frame of `bytes` leaves by `port` at `now`; the load of the port then, 0 to 7.
    pub fn leaves(&mut self, now: Time, port: u16, bytes: u64, rate: Rate) -> u8 {
        let estimator = &mut self.estimators[usize::from(port)];
        *estimator = estimator.at(now, &self.config);
        estimator.bytes += bytes as f64;
        self.rates[usize::from(port)] = rate;
        estimator.level(now, rate, &self.config)
    }

    /// The uplink of a packet.
    pub fn choose(&mut self, asked: &Asked<'_>) -> u16 {
        let Asked { now, flow, leaf, hops } = *asked;
        let before = self.flows.get(flow).filter(|(port, _)| hops.contains(port));
        if let Some((port, last)) = before
            && now.since(last) <= self.config.gap
        {
            self.flows.set(flow, port, now);
            return port;
        }
        let known = self.to_leaf.get(leaf as usize);
        let cost = |port: u16| {
            let index = usize::from(port);
            let own = self.estimators[index].level(now, self.rates[index], &self.config);
            let heard = known.and_then(|by_port| by_port.get(index).copied().flatten());
            let beyond = heard.filter(|(_, at)| now.since(*at) <= self.config.ageing);
            u64::from(own.max(beyond.map_or(0, |(level, _)| level)))
        };
        let best = least(hops, &mut self.random, cost);
        let port = match before {
            Some((port, _)) if cost(port) <= cost(best) => port,
            _ => best,
        };
        self.flows.set(flow, port, now);
        port
    }

    /// The marks of a frame that enters here, at the switch with this number, for a host of `leaf`, by
    /// this uplink.
    pub fn enters(&mut self, now: Time, here: u32, leaf: u32, uplink: u16) -> PathMarks {
        PathMarks {
            from: here + 1,
            uplink: uplink.min(255) as u8,
            congestion: 0,
            feedback: self.feedback(now, leaf),
        }
    }

    /// One of the values that `leaf` should hear of, in turn.
    fn feedback(&mut self, now: Time, leaf: u32) -> Option<(u8, u8)> {
        let heard = self.from_leaf.get(leaf as usize)?;
        let turn = &mut self.turn[leaf as usize];
        for _ in 0..heard.len() {
            *turn = (*turn + 1) % heard.len();
            if let Some((level, at)) = heard[*turn]
                && now.since(at) <= self.config.ageing
            {
                return Some((*turn as u8, level));
            }
        }
        None
    }

    /// A frame with these marks has come to the leaf of its target, which is this.
    pub fn exits(&mut self, now: Time, marks: &PathMarks) {
        let from = marks.from.saturating_sub(1) as usize;
        note(&mut self.from_leaf, from, marks.uplink, (marks.congestion, now));
        self.turn.resize(self.from_leaf.len().max(self.turn.len()), 0);
        if let Some((uplink, level)) = marks.feedback {
            note(&mut self.to_leaf, from, uplink, (level, now));
        }
    }
}

/// Remembers a value of a leaf and an uplink.
fn note(table: &mut Vec<Vec<Heard>>, leaf: usize, uplink: u8, heard: (u8, Time)) {
    if table.len() <= leaf {
        table.resize(leaf + 1, Vec::new());
    }
    let by_uplink = &mut table[leaf];
    if by_uplink.len() <= usize::from(uplink) {
        by_uplink.resize(usize::from(uplink) + 1, None);
    }
    by_uplink[usize::from(uplink)] = Some(heard);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, stream};
    use super::*;

    const CONFIG: CongaConfig = CongaConfig {
        gap: Delta::from_us(100),
        period: Delta::from_us(10),
        alpha: 0.5,
        ageing: Delta::from_us(1000),
    };

    const fn us(us: u64) -> Time {
        Time::from_ps(us * 1_000_000)
    }

    #[test]
    fn the_estimator_follows_the_rate_and_forgets() {
        let mut conga = Conga::new(CONFIG, 2, stream());
        let rate = Rate::from_gbps(8);
        // 8 Gb/s: 1000 B each us. Full are 8 Gb/s x 10 us / 0.5 = 20 kB; before the end of the n-th
        // period X = 10 kB (1 + 1/2 + 1/4 + ...)
        let level = |conga: &mut Conga, at: u64| conga.leaves(us(at), 1, 1000, rate);
        let first: Vec<u8> = (0..10).map(|at| level(&mut conga, at)).collect();
        assert_eq!((first[0], first[9]), (0, 4)); // 10 of 20 kB
        (10..100).for_each(|at| _ = level(&mut conga, at));
        assert_eq!(level(&mut conga, 99), 7);
        // two periods later a quarter of 21 kB is left
        assert_eq!(conga.estimators[1].level(us(110), rate, &CONFIG), 2);
        assert_eq!(conga.estimators[1].level(us(10_000), rate, &CONFIG), 0);
    }

    #[test]
    fn a_flowlet_takes_the_least_congested_way_and_stays_where_none_is_better() {
        // leaf 9 sends to leaf 2 by ports 4 and 5; leaf 2 hears of congestion 6 by port 4 ...
        let mut here = Conga::new(CONFIG, 8, stream());
        let mut there = Conga::new(CONFIG, 8, stream());
        let marks = here.enters(us(0), 2, 9, 4);
        there.exits(us(1), &PathMarks { congestion: 6, ..marks });
        // ... and tells it with its next frame to leaf 2
        let back = there.enters(us(2), 9, 2, 7);
        assert_eq!(back.feedback, Some((4, 6)));
        here.exits(us(3), &back);
        (0..20).for_each(|flow| assert_eq!(here.choose(&asked(4, flow, &[4, 5])), 5));
        // in a burst a flow stays whatever it hears; after a gap it moves to what is better
        here.exits(us(50), &PathMarks { feedback: Some((5, 7)), ..back });
        assert_eq!(here.choose(&asked(100, 1, &[4, 5])), 5);
        assert_eq!(here.choose(&asked(201, 1, &[4, 5])), 4);
        // equal ones: it stays
        here.exits(us(250), &PathMarks { feedback: Some((4, 7)), ..back });
        assert_eq!(here.choose(&asked(400, 1, &[4, 5])), 4);
        // what is old is forgotten
        let mut taken: Vec<u16> =
            (100..140).map(|flow| here.choose(&asked(3000, flow, &[4, 5]))).collect();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken, [4, 5]);
    }
}
