//! From `[switch.buffer]` and `[switch.pfc]` to the MMU's numbers: pools, profiles, headroom.

use std::collections::BTreeMap;

use sim_core::{Bytes, Delta, Rate};

use super::config::{ProfileConfig, SwitchConfig};
use super::headroom::{HeadroomInput, HeadroomTerms};
use super::headroom_config::Headroom;
use super::mmu::{Mmu, POOLS_MAX, Pool, Profile, Threshold};
use crate::error::BuildError;
use crate::ids::PRIORITIES;
use crate::wire::Frames;

/// What the plan of one port depends on.
#[derive(Clone, Copy, Debug)]
pub struct PortPlan<'a> {
    /// Configuration at this port.
    pub config: &'a SwitchConfig,
    /// Rate of the link.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Delta,
    /// Latency and response time of the device at the other end.
    pub upstream: Delta,
    /// Largest payload that arrives.
    pub mtu: u16,
}

impl PortPlan<'_> {
    /// Whether two ports get the same buffer, as far as can be seen without comparing all keys.
    pub(crate) fn alike(&self, other: &Self) -> bool {
        let PortPlan { config, rate, delay, upstream, mtu } = *self;
        std::ptr::eq(config, other.config)
            && (rate, delay, upstream, mtu) == (other.rate, other.delay, other.upstream, other.mtu)
    }
}

/// The buffer of one switch, planned.
#[derive(Clone, Debug)]
pub struct BufferPlan {
    /// One a slice.
    pub mmus: Vec<Mmu>,
    /// Slice of each port, and the index of its first PG and queue there.
    pub places: Vec<(u8, u32)>,
    /// Headroom of one lossless PG of each port, in bytes.
    pub headroom: Vec<u64>,
    /// What it must be at each port in the worst case: `headroom = "auto"`.
    pub headroom_needed: Vec<u64>,
    /// What that is made of.
    pub headroom_terms: Vec<HeadroomTerms>,
    /// Shared part of the ingress pool, in bytes, by slice.
    pub ingress_pool: Vec<u64>,
}

/// Plans the buffer of a switch.
pub fn plan_buffer(
    node: &SwitchConfig,
    ports: &[PortPlan<'_>],
    frames: &Frames,
) -> Result<BufferPlan, BuildError> {
    check_node(node, ports)?;
    let slices = node.buffer.slices as usize;
    let slice_of = |port: usize| port * slices / ports.len().max(1);
    let mut plan = BufferPlan {
        mmus: Vec::new(),
        places: Vec::new(),
        headroom: Vec::new(),
        headroom_needed: Vec::new(),
        headroom_terms: Vec::new(),
        ingress_pool: Vec::new(),
    };
    for slice in 0..slices {
        let members: Vec<&PortPlan<'_>> =
            (0..ports.len()).filter(|port| slice_of(*port) == slice).map(|p| &ports[p]).collect();
        plan_slice(node, &members, frames, slice, &mut plan)?;
    }
    Ok(plan)
}

fn check_node(node: &SwitchConfig, ports: &[PortPlan<'_>]) -> Result<(), BuildError> {
    let buffer = &node.buffer;
    let refuse = |key: &str, message: String| Err(BuildError::new(key, message));
    if buffer.cell == Bytes::ZERO || buffer.cell.get() > 65536 {
        let message = format!("{} is out of range: 1B to 64KiB is expected", buffer.cell);
        return refuse("switch.buffer.cell", message);
    }
    if buffer.size.get() / buffer.cell.get() > u64::from(u32::MAX) / 2 {
        let message = format!("{} is out of range: at most 2^31 cells can be", buffer.size);
        return refuse("switch.buffer.size", message);
    }
    if buffer.slices == 0 || buffer.slices as usize > ports.len().max(1) {
        let message = format!("{} slices for {} ports", buffer.slices, ports.len());
        return refuse("switch.buffer.slices", message);
    }
    Ok(())
}

/// The pools of one slice, by name, in cells.
struct Pools {
    names: Vec<String>,
    pools: Vec<Pool>,
}

impl Pools {
    fn index(&self, profile: &ProfileConfig, default: &str, key: &str) -> Result<u8, BuildError> {
        let name = if profile.pool.is_empty() { default } else { &profile.pool };
        match self.names.iter().position(|known| known == name) {
            Some(index) => Ok(index as u8),
            None => {
                let names = self.names.join("`, `");
                let message = format!("there is no pool {name:?}: `{names}` are there");
                Err(BuildError::new(format!("{key}.pool"), message))
            }
        }
    }
}

fn plan_slice(
    node: &SwitchConfig,
    ports: &[&PortPlan<'_>],
    frames: &Frames,
    slice: usize,
    plan: &mut BufferPlan,
) -> Result<(), BuildError> {
    let buffer = &node.buffer;
    let cell = buffer.cell;
    let mut pools = Pools { names: vec!["ingress".into(), "egress".into()], pools: vec![] };
    pools.names.extend(
        buffer.pools.keys().filter(|name| !matches!(name.as_str(), "ingress" | "egress")).cloned(),
    );
    if pools.names.len() > POOLS_MAX {
        let message = format!("at most {POOLS_MAX} pools can be");
        return Err(BuildError::new("switch.buffer.pools", message));
    }
    let (mut groups, mut queues) = (Vec::new(), Vec::new());
    for port in ports {
        let headroom = port_headroom(port, frames, cell)?;
        plan.places.push((slice as u8, groups.len() as u32));
        plan.headroom.push(headroom.saturating_mul(cell.get()));
        let terms = headroom_terms(port, frames, cell);
        plan.headroom_needed.push(terms.total());
        plan.headroom_terms.push(terms);
        let pfc = &port.config.pfc;
        for priority in 0..PRIORITIES as u8 {
            let lossless = pfc.priorities.contains(&priority);
            let (pg, pg_key) = pick(&port.config.buffer.pg, priority, "pg", lossless, "");
            let pg = pg.unwrap_or(match lossless {
                true => &port.config.buffer.lossless,
                false => &port.config.buffer.lossy,
            });
            let pool = pools.index(pg, "ingress", &pg_key)?;
            groups.push(profile(pg, pool, lossless, headroom, cell, &pg_key)?);
            let (queue, key) =
                pick(&port.config.buffer.queue, priority, "queue", lossless, "_queue");
            let queue = queue.unwrap_or(match lossless {
                true => &port.config.buffer.lossless_queue,
                false => &port.config.buffer.lossy_queue,
            });
            let pool = pools.index(queue, "egress", &key)?;
            queues.push(profile(queue, pool, lossless, 0, cell, &key)?);
        }
    }
    let slices = u64::from(buffer.slices);
    let total = buffer.size.get() / cell.get() / slices;
    let share = |size: crate::size::Size| size.to_cells(cell) / slices;
    let explicit = |name: &str| buffer.pools.get(name).and_then(|pool| pool.size).map(share);
    let shared_headroom = |name: &str| buffer.pools.get(name).and_then(|pool| pool.xoff).map(share);
    // what the ingress side takes: reserves, headrooms, and the pools that groups draw on
    let reserve = groups.iter().map(|group| u64::from(group.reserve)).sum::<u64>()
        + buffer.port_reserve.to_bytes(cell).div_ceil(cell.get()) * ports.len() as u64;
    let (mut headroom, mut pooled) = (0u64, 0u64);
    for (index, name) in pools.names.iter().enumerate() {
        let members = || groups.iter().filter(|group| usize::from(group.pool) == index);
        if members().next().is_none() {
            continue;
        }
        let private: u64 = members().map(|group| u64::from(group.headroom)).sum();
        headroom = headroom.saturating_add(shared_headroom(name).unwrap_or(private));
        match explicit(name) {
            Some(size) => pooled = pooled.saturating_add(size),
            None if name == "ingress" => {}
            None => {
                let message = "a pool of priority groups needs a size";
                return Err(BuildError::new(format!("switch.buffer.pools.{name}"), message));
            }
        }
    }
    let taken = Taken { reserve, headroom, pooled };
    for name in &pools.names {
        let size = match explicit(name) {
            Some(size) => size,
            None if name == "ingress" => taken.rest_of(total, 1, cell, ports.len())?,
            None => total,
        };
        let narrow = |cells: u64| u32::try_from(cells).unwrap_or(u32::MAX);
        pools.pools.push(Pool::new(narrow(size), shared_headroom(name).map(narrow)));
    }
    taken.rest_of(total, 0, cell, ports.len())?;
    plan.ingress_pool.push(u64::from(pools.pools[0].size) * cell.get());
    let mmu = Mmu::new(pools.pools, groups, queues);
    plan.mmus.push(mmu.of_switch(cell.get() as u32, buffer.slices));
    Ok(())
}

/// What the ingress side takes of a slice's buffer, in cells.
struct Taken {
    reserve: u64,
    headroom: u64,
    pooled: u64,
}

impl Taken {
    /// What is left of the buffer; an error if that is less than `least`.
    fn rest_of(
        &self,
        total: u64,
        least: u64,
        cell: Bytes,
        ports: usize,
    ) -> Result<u64, BuildError> {
        let taken = self.reserve.saturating_add(self.headroom).saturating_add(self.pooled);
        let rest = total.checked_sub(taken).filter(|rest| *rest >= least);
        rest.ok_or_else(|| {
            let bytes = |cells: u64| Bytes::new(cells.saturating_mul(cell.get()));
            let pools = match self.pooled {
                0 => String::new(),
                pooled => format!(", and the pools ({}),", bytes(pooled)),
            };
            let message = format!(
                "the headrooms ({}) and reserves ({}) of {ports} ports{pools} fill the buffer ({}): \
                 nothing is left to share",
                bytes(self.headroom),
                bytes(self.reserve),
                bytes(total),
            );
            let key = if self.pooled > 0 { "switch.buffer.pools" } else { "switch.pfc.headroom" };
            BuildError::new(key, message)
        })
    }
}

/// The profile that `map` has for this priority, and the key of the profile that applies.
fn pick<'a>(
    map: &'a BTreeMap<u8, ProfileConfig>,
    priority: u8,
    name: &str,
    lossless: bool,
    suffix: &str,
) -> (Option<&'a ProfileConfig>, String) {
    match map.get(&priority) {
        Some(profile) => (Some(profile), format!("switch.buffer.{name}.{priority}")),
        None => {
            let class = if lossless { "lossless" } else { "lossy" };
            (None, format!("switch.buffer.{class}{suffix}"))
        }
    }
}

fn profile(
    config: &ProfileConfig,
    pool: u8,
    lossless: bool,
    headroom: u64,
    cell: Bytes,
    key: &str,
) -> Result<Profile, BuildError> {
    let narrow = |cells: u64| u32::try_from(cells).unwrap_or(u32::MAX);
    let threshold = match (config.dynamic_th, config.static_th) {
        (Some(n), None) if (-8..=7).contains(&n) => Threshold::Dynamic(n),
        (Some(n), None) => {
            let message = format!("{n} is out of range: -8 to 7 is expected");
            return Err(BuildError::new(format!("{key}.dynamic_th"), message));
        }
        (None, Some(size)) => Threshold::Static(narrow(size.to_cells(cell))),
        _ => {
            let message = "exactly one of `dynamic_th` and `static_th` is expected";
            return Err(BuildError::new(key, message));
        }
    };
    Ok(Profile {
        pool,
        lossless,
        reserve: narrow(config.reserve.to_bytes(cell).div_ceil(cell.get())),
        threshold,
        headroom: if lossless { narrow(headroom) } else { 0 },
        xon: narrow(config.xon.to_cells(cell)),
        xon_offset: narrow(config.xon_offset.to_cells(cell)),
    })
}

/// Headroom of a lossless PG of this port, in cells.
fn port_headroom(port: &PortPlan<'_>, frames: &Frames, cell: Bytes) -> Result<u64, BuildError> {
    let pfc = &port.config.pfc;
    Ok(match pfc.headroom {
        Headroom::Size(size) => size.to_cells(cell),
        Headroom::RateDelay(factor) => {
            port.rate.bytes_in(port.delay).get().saturating_mul(factor) / cell.get()
        }
        Headroom::Auto => headroom_terms(port, frames, cell).total() / cell.get(),
        Headroom::Mellanox(formula) => {
            let bytes = formula.bytes(port.rate, port.delay, cell).ok_or_else(|| {
                let message = format!("no response time is published for {}", port.rate);
                BuildError::new("switch.pfc.headroom.peer_response", message)
            })?;
            bytes.get() / cell.get()
        }
    })
}

fn headroom_terms(port: &PortPlan<'_>, frames: &Frames, cell: Bytes) -> HeadroomTerms {
    let pfc = &port.config.pfc;
    let smallest = pfc.smallest_frame.map_or(frames.smallest(), |bytes| {
        bytes.get().clamp(1, u64::from(frames.largest(port.mtu))) as u16
    });
    let input = HeadroomInput {
        rate: port.rate,
        delay: port.delay,
        latency: port.config.latency,
        upstream: port.upstream,
        mtu: port.mtu,
        smallest,
        cell,
        priorities: pfc.priorities.len() as u64,
    };
    HeadroomTerms::new(&input, frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::PoolConfig;
    use crate::wire::WireConfig;

    fn config() -> SwitchConfig {
        let mut config = SwitchConfig::default();
        config.pfc.priorities = vec![3];
        config.pfc.headroom = Headroom::RateDelay(3);
        config.buffer.lossless.reserve = crate::size::Size::bytes(4096);
        config
    }

    fn plan(config: &SwitchConfig, ports: usize) -> Result<BufferPlan, BuildError> {
        let port = PortPlan {
            config,
            rate: Rate::from_gbps(100),
            delay: Delta::from_us(1),
            upstream: Delta::ZERO,
            mtu: 1000,
        };
        plan_buffer(config, &vec![port; ports], &Frames::new(&WireConfig::default()))
    }

    #[test]
    fn the_pool_is_what_headrooms_and_reserves_leave() {
        // 3 x 100 Gb/s x 1 us = 37,500 B a port: 32 MiB - 9 x (37,500 + 4096) = 33,180,068
        let plan = plan(&config(), 9).unwrap();
        assert_eq!(plan.headroom, [37_500; 9]);
        assert_eq!(plan.ingress_pool, [33_180_068]);
        // alpha 1/8 of it
        assert_eq!(plan.mmus[0].ingress_limit(3), 33_180_068 / 8);
        // of one sender alone: s = (pool - s) / 8 rounded down, a ninth: 3,686,674; 4096 reserved
        assert_eq!(plan.mmus[0].xoff_alone(3), 3_686_674 + 4096);
    }

    #[test]
    fn what_queues_reserve_is_not_shared() {
        // Tomahawk 5 with 128 ports of 400 Gb/s: 647,660 cells less 86,656 of shared headroom,
        // 128 x 2 x 74 for groups, 128 x 70 for queues: 533,100, of which each half of the ports
        // has half; 266,549 were measured (see the preset)
        let mut config = SwitchConfig::default();
        config.pfc.priorities = vec![3, 4];
        config.pfc.headroom = Headroom::Size(crate::size::Size::bytes(445_770));
        config.buffer.size = Bytes::new(164_505_640);
        config.buffer.cell = Bytes::new(254);
        config.buffer.slices = 2;
        config.buffer.port_reserve = crate::size::Size::Cells(70);
        config.buffer.lossless.reserve = crate::size::Size::bytes(18_796);
        let xoff = Some(crate::size::Size::bytes(22_010_624));
        config.buffer.pools.insert("ingress".into(), PoolConfig { size: None, xoff });
        let plan = plan(&config, 128).unwrap();
        assert_eq!(plan.ingress_pool, [266_550 * 254; 2]);
    }

    #[test]
    fn the_formula_of_a_vendor_is_planned() {
        let mut config = config();
        config.pfc.headroom = Headroom::Mellanox(crate::switch::MellanoxHeadroom::default());
        config.buffer.cell = Bytes::new(144);
        // 100 Gb/s, 1 us: 9100 + 25,000 + 820 + 25,216 = 60,136; x 2.25 = 135,306 + 1024 = 136,330
        // -> 134 KiB, of which 952 cells are whole
        assert_eq!(plan(&config, 2).unwrap().headroom, [952 * 144; 2]);
        let port = PortPlan {
            config: &config,
            rate: Rate::from_gbps(56),
            delay: Delta::ZERO,
            upstream: Delta::ZERO,
            mtu: 1000,
        };
        let refused = plan_buffer(&config, &[port], &Frames::new(&WireConfig::default()));
        assert_eq!(refused.unwrap_err().key, "switch.pfc.headroom.peer_response");
    }

    #[test]
    fn slices_split_ports_and_pools() {
        let mut config = config();
        config.buffer.slices = 2;
        let plan = plan(&config, 8).unwrap();
        assert_eq!(plan.places[3], (0, 24));
        assert_eq!(plan.places[4], (1, 0));
        assert_eq!(plan.ingress_pool, [16 * 1024 * 1024 - 4 * 41_596; 2]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let key = |change: fn(&mut SwitchConfig)| {
            let mut config = config();
            change(&mut config);
            plan(&config, 9).unwrap_err().key
        };
        assert_eq!(key(|c| c.buffer.size = Bytes::new(300_000)), "switch.pfc.headroom");
        assert_eq!(key(|c| c.buffer.cell = Bytes::ZERO), "switch.buffer.cell");
        assert_eq!(key(|c| c.buffer.lossless.dynamic_th = None), "switch.buffer.lossless");
        assert_eq!(
            key(|c| c.buffer.lossless.dynamic_th = Some(9)),
            "switch.buffer.lossless.dynamic_th"
        );
        assert_eq!(
            key(|c| c.buffer.lossy_queue.pool = "x".into()),
            "switch.buffer.lossy_queue.pool"
        );
        assert_eq!(key(|c| c.buffer.slices = 10), "switch.buffer.slices");
        let whole = |c: &mut SwitchConfig| {
            let size = Some(crate::size::Size::Bytes(c.buffer.size));
            c.buffer.pools.insert("ingress".into(), PoolConfig { size, xoff: None });
        };
        assert_eq!(key(whole), "switch.buffer.pools");
    }
}
