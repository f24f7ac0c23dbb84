//! Headroom: what each kind of switch port needs, has, and why; and the pools that it comes from.

use models::fabric::Plan;
use models::ids::{NodeId, PortId};
use models::report::Severity;
use models::switch::{HeadroomTerms, SwitchConfig};
use models::topology::NodeKind;
use serde::Serialize;
use sim_core::{Bytes, Delta, Rate};

use super::{Notes, note};

/// Ports of switches that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tier {
    /// The name of the first.
    pub port: String,
    /// What is at the other end.
    pub to: &'static str,
    /// How many there are.
    pub count: u32,
    /// Link rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Delta,
    /// Headroom of a lossless group that is needed in the worst case; absent without PFC.
    pub needed_bytes: Option<u64>,
    /// What it has.
    pub configured_bytes: Option<u64>,
    /// Where XOFF of one sender alone is.
    pub xoff_alone_bytes: Option<u64>,
    /// What is shared, in its slice.
    pub shared_bytes: u64,
    /// What `needed_bytes` is made of.
    #[serde(skip)]
    pub terms: HeadroomTerms,
}

/// The headroom of one kind of switch together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pool {
    /// The first switch.
    pub switch: String,
    #[serde(skip)]
    node: NodeId,
    /// How many there are.
    pub count: u32,
    /// Lossless groups of its ports.
    pub groups: u64,
    /// Their headroom together.
    pub sum_bytes: u64,
    /// That of the largest.
    pub largest_bytes: u64,
    /// The pool that they share; absent if each has its own.
    pub pool_bytes: Option<u64>,
}

/// A kind of port for each row of a table, in the order of the ports.
pub fn tiers(plan: &Plan) -> Vec<Tier> {
    let topology = &plan.wiring.topology;
    let mut tiers: Vec<Tier> = Vec::new();
    for (index, switch) in topology.switches().enumerate() {
        let buffer = &plan.buffers[index];
        for (slot, port) in topology.ports_of(switch).enumerate() {
            let Some(config) = plan.spec.switch_ports[port.index()].as_deref() else { continue };
            let info = topology.port(port);
            let (slice, base) = buffer.places[slot];
            let mmu = &buffer.mmus[usize::from(slice)];
            let lossless = config.pfc.priorities.first().copied();
            let alone = |priority: u8| {
                let cells = u64::from(mmu.xoff_alone(base as usize + usize::from(priority)));
                cells.saturating_mul(config.buffer.cell.get())
            };
            let to = match topology.node(topology.neighbour(port)).kind {
                NodeKind::Host => "host",
                NodeKind::Switch => "switch",
            };
            let tier = Tier {
                port: String::new(),
                to,
                count: 1,
                rate: info.rate,
                delay: info.delay,
                needed_bytes: lossless.map(|_| buffer.headroom_needed[slot]),
                configured_bytes: lossless.map(|_| buffer.headroom[slot]),
                xoff_alone_bytes: lossless.map(alone),
                shared_bytes: buffer.ingress_pool[usize::from(slice)],
                terms: buffer.headroom_terms[slot],
            };
            let alike = |known: &&mut Tier| {
                let (port, count) = (String::new(), 1);
                Tier { port, count, ..(*known).clone() } == tier
            };
            match tiers.iter_mut().find(alike) {
                Some(known) => known.count += 1,
                None => tiers.push(Tier { port: topology.port_name(port), ..tier }),
            }
        }
    }
    tiers
}

/// The terms of headroom as lines of a table.
pub fn explained(terms: &HeadroomTerms) -> Vec<String> {
    let HeadroomTerms { cable, response, sending, pfc, begun, cells, over, .. } = *terms;
    let (filled, word) = match cells {
        ..0 => (cells.unsigned_abs(), "less, for gaps between frames"),
        _ => (cells.unsigned_abs(), "small frames in whole cells, and one more begun"),
    };
    let rows = [
        (sending, "the largest frame being sent, which PFC waits for"),
        (pfc, "the PFC frames"),
        (cable, "on the cable, there and back"),
        (response, "latency here, latency and response time there"),
        (begun, "the largest frame that the other end has begun"),
        (filled, word),
        (over, "the frame that passed XOFF"),
        (terms.total(), "needed"),
    ];
    rows.map(|(bytes, what)| format!("{:>10}  {what}", Bytes::new(bytes).to_string())).to_vec()
}

/// The headroom of each kind of switch against its pool.
pub fn pools(plan: &Plan) -> Vec<Pool> {
    let topology = &plan.wiring.topology;
    let mut pools: Vec<Pool> = Vec::new();
    for (index, switch) in topology.switches().enumerate() {
        let pool = pool(plan, index, switch);
        let same = |known: &&mut Pool| {
            (known.groups, known.sum_bytes, known.largest_bytes, known.pool_bytes)
                == (pool.groups, pool.sum_bytes, pool.largest_bytes, pool.pool_bytes)
        };
        match pools.iter_mut().find(same) {
            Some(known) => known.count += 1,
            None if pool.groups > 0 => pools.push(pool),
            None => {}
        }
    }
    pools
}

fn pool(plan: &Plan, index: usize, switch: NodeId) -> Pool {
    let topology = &plan.wiring.topology;
    let buffer = &plan.buffers[index];
    let mut pool = Pool {
        switch: topology.node(switch).name.clone(),
        node: switch,
        count: 1,
        groups: 0,
        sum_bytes: 0,
        largest_bytes: 0,
        pool_bytes: plan.spec.switches[switch.index()].as_deref().and_then(shared),
    };
    for (slot, port) in topology.ports_of(switch).enumerate() {
        let Some(config) = plan.spec.switch_ports[port.index()].as_deref() else { continue };
        let groups = config.pfc.priorities.len() as u64;
        pool.groups += groups;
        pool.sum_bytes += groups * buffer.headroom[slot];
        pool.largest_bytes = pool.largest_bytes.max(buffer.headroom[slot]);
    }
    pool
}

/// The shared headroom pool of the ingress pool.
fn shared(config: &SwitchConfig) -> Option<u64> {
    let pool = config.buffer.pools.get("ingress")?;
    pool.xoff.map(|size| size.to_bytes(config.buffer.cell))
}

impl Notes<'_> {
    pub(super) fn headroom(&mut self) {
        self.short_headroom();
        for pool in pools(self.plan) {
            self.pool(&pool);
        }
    }

    /// Explicit headroom below what the link needs.
    fn short_headroom(&mut self) {
        let plan = self.plan;
        for (index, switch) in plan.wiring.topology.switches().enumerate() {
            for (slot, port) in plan.wiring.topology.ports_of(switch).enumerate() {
                let lossless = plan.spec.switch_ports[port.index()]
                    .as_deref()
                    .is_some_and(|config| !config.pfc.priorities.is_empty());
                let buffer = &plan.buffers[index];
                let (has, needs) = (buffer.headroom[slot], buffer.headroom_needed[slot]);
                if !lossless || has >= needs {
                    continue;
                }
                let info = plan.wiring.topology.port(port);
                let full = buffer.headroom_terms[slot].full_frames;
                let (severity, what) = if has < full {
                    let needs = Bytes::new(needs);
                    (
                        Severity::Warning,
                        format!(
                            "{needs} is needed in the worst case: lossless frames may be dropped"
                        ),
                    )
                } else {
                    let [full, needs] = [full, needs].map(Bytes::new);
                    (
                        Severity::Info,
                        format!(
                            "enough for frames of a whole MTU ({full}), not for small ones ({needs})"
                        ),
                    )
                };
                let text = format!(
                    "headroom is {} at {} ({}, {} of cable); {what}",
                    Bytes::new(has),
                    self.name(port),
                    info.rate,
                    length(info.delay),
                );
                let mut note = note(severity, "switch.pfc.headroom", text, Some(port));
                note.details = explained(&buffer.headroom_terms[slot]);
                self.add(note, &format!("{has} {needs}"));
            }
        }
    }

    /// A shared pool that all groups together can exhaust, or one of them.
    fn pool(&mut self, pool: &Pool) {
        let Some(size) = pool.pool_bytes.filter(|size| *size < pool.sum_bytes) else { return };
        let Pool { switch, groups, sum_bytes, largest_bytes, .. } = pool;
        let sums = format!(
            "{groups} lossless groups of {switch} have {} of headroom together, their pool has {}",
            Bytes::new(*sum_bytes),
            Bytes::new(size)
        );
        let topology = &self.plan.wiring.topology;
        let at = topology.ports_of(pool.node).next();
        let (severity, text) = if size < *largest_bytes {
            let one = Bytes::new(*largest_bytes);
            let text = format!("{sums}: it cannot hold even one ({one}), frames may be dropped");
            (Severity::Warning, text)
        } else {
            let times = *sum_bytes as f64 / size.max(1) as f64;
            let enough = size / (*largest_bytes).max(1);
            let text = format!(
                "{sums}, {times:.1} times less: enough while no more than {enough} of them fill up \
                 at the same time"
            );
            (Severity::Info, text)
        };
        self.add(note(severity, "switch.buffer.pools.ingress.xoff", text, at), switch);
    }

    /// Pauses that expire at one end and not at the other.
    pub(super) fn quanta(&mut self) {
        let plan = self.plan;
        let holds = |quanta: u16| quanta == 0;
        let switches = plan.spec.switch_ports.iter().flatten().map(|port| holds(port.pfc.quanta));
        let nics = plan.spec.nics.iter().flatten().map(|nic| holds(nic.pfc.quanta));
        let kinds: std::collections::BTreeSet<bool> = switches.chain(nics).collect();
        for (id, config) in plan.spec.switch_ports.iter().enumerate() {
            let Some(pfc) = config.as_deref().map(|config| &config.pfc) else { continue };
            let pause = plan.wiring.wires[id].clock.quanta(pfc.quanta);
            if pfc.quanta > 0 && pfc.refresh.is_some_and(|every| every >= pause) {
                let text = format!("pauses expire after {pause}, before they are repeated");
                let at = Some(PortId(id as u32));
                let note = note(Severity::Warning, "switch.pfc.refresh", text, at);
                self.add(note, &format!("{pause}"));
            }
        }
        if kinds.len() > 1 {
            let text = "pfc.quanta is 0 on some devices only: pauses from these are not repeated, \
                        but expire elsewhere"
                .to_owned();
            self.say(Severity::Warning, "switch.pfc.quanta", text);
        }
    }
}

/// The length of cable that a delay stands for, at 5 ns/m.
pub fn length(delay: Delta) -> String {
    let metres = delay.ps() as f64 / 5000.0;
    if metres < 10.0 { format!("{metres:.1} m") } else { format!("{metres:.0} m") }
}
