//! A planned MMU on the bench: frames in until XOFF and loss, frames out until XON, as SONiC's tests
//! do with a switch.

use std::collections::BTreeMap;

use models::size::Size;
use models::switch::{
    BufferConfig, BufferPlan, Headroom, Mmu, PoolConfig, PortPlan, ProfileConfig, SwitchConfig,
    plan_buffer,
};
use models::wire::{Frames, WireConfig};
use sim_core::{Bytes, Delta, Rate};

/// More frames than any switch holds.
const MANY: u64 = 10_000_000;

/// The buffer of a switch as SONiC configures it; all sizes in bytes but `port_reserve`.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) cell: u64,
    pub(super) slices: u32,
    pub(super) size: u64,
    pub(super) pool: Option<u64>,
    pub(super) shared_headroom: Option<u64>,
    pub(super) ports: usize,
    pub(super) lossy_ports: usize,
    /// In cells.
    pub(super) port_reserve: u64,
    pub(super) reserve: u64,
    pub(super) dynamic_th: i8,
    pub(super) xon: u64,
    pub(super) xon_offset: u64,
    pub(super) frame: u64,
    pub(super) pool_frame: u64,
    pub(super) equal: bool,
}

impl Profile {
    /// Cells of a test frame.
    pub(super) fn cells(&self, frame: u64) -> u32 {
        frame.div_ceil(self.cell) as u32
    }

    /// The MMU of one slice with headroom `xoff`. A shared part of `fitted` cells replaces the one
    /// that follows from the configuration.
    pub(super) fn bench(&self, xoff: u64, fitted: Option<u64>) -> Bench {
        // of a switch with more cells than a plan may have one slice is planned
        let alone = fitted.is_some() || self.size / self.cell > u64::from(u32::MAX) / 2;
        let parts = if alone { u64::from(self.slices) } else { 1 };
        let slices = self.slices / parts as u32;
        let shared_headroom = match fitted {
            Some(_) => Some((self.cell << 28) * parts),
            None => self.shared_headroom,
        };
        let pool = match fitted {
            Some(cells) => Some(Size::Cells(cells)),
            None => self.pool.map(|bytes| Size::bytes(bytes / parts)),
        };
        let size = match fitted {
            Some(_) => self.cell * ((1 << 31) - 1),
            None => self.size / parts,
        };
        let xoff_pool = shared_headroom.map(|bytes| Size::bytes(bytes / parts));
        let lossless = self.config(xoff, size, slices, pool, xoff_pool);
        let mut lossy = lossless.clone();
        lossy.pfc.priorities = vec![];
        let count = (self.ports + self.lossy_ports) / parts as usize;
        // lossy ports are spread, the first of each part one of them
        let every = count.checked_div(self.lossy_ports);
        let is_lossy = |index: usize| every.is_some_and(|every| index.is_multiple_of(every));
        let port = |index: usize| PortPlan {
            config: if is_lossy(index) { &lossy } else { &lossless },
            rate: Rate::from_gbps(100),
            delay: Delta::ZERO,
            upstream: Delta::ZERO,
            mtu: 4096,
        };
        let ports: Vec<PortPlan<'_>> = (0..count).map(port).collect();
        let frames = Frames::new(&WireConfig::default());
        let plan = plan_buffer(&lossless, &ports, &frames).unwrap();
        Bench::new(plan, usize::from(self.lossy_ports > 0))
    }

    fn config(
        &self,
        xoff: u64,
        size: u64,
        slices: u32,
        pool: Option<Size>,
        xoff_pool: Option<Size>,
    ) -> SwitchConfig {
        let mut config = SwitchConfig::default();
        config.pfc.priorities = vec![3, 4];
        config.pfc.headroom = Headroom::Size(Size::bytes(xoff));
        let ingress = PoolConfig { size: pool, xoff: xoff_pool };
        config.buffer = BufferConfig {
            size: Bytes::new(size),
            cell: Bytes::new(self.cell),
            slices,
            port_reserve: Size::Cells(self.port_reserve),
            pools: BTreeMap::from([("ingress".to_owned(), ingress)]),
            lossless: ProfileConfig {
                reserve: Size::bytes(self.reserve),
                dynamic_th: Some(self.dynamic_th),
                xon: Size::bytes(self.xon),
                xon_offset: Size::bytes(self.xon_offset),
                ..config.buffer.lossless.clone()
            },
            ..config.buffer
        };
        config
    }

    /// The shared part, in cells, with which the first group sends XOFF at its `frame`-th frame.
    pub(super) fn pool_that_triggers_at(&self, frame: u64) -> u64 {
        let cells = frame * u64::from(self.cells(self.frame));
        let shared = cells - self.reserve.div_ceil(self.cell);
        // (pool - shared) x 2^n = shared
        match self.dynamic_th {
            n if n >= 0 => shared + (shared >> n),
            n => shared + (shared << -n),
        }
    }
}

/// The MMU of one slice and its lossless groups, port by port.
pub(super) struct Bench {
    mmu: Mmu,
    groups: Vec<usize>,
}

impl Bench {
    /// The first slice of a plan, without its first `skip` ports.
    pub(super) fn new(mut plan: BufferPlan, skip: usize) -> Self {
        let first = plan.places.iter().filter(|(slice, _)| *slice == 0).skip(skip);
        let groups = first.flat_map(|(_, base)| [*base as usize + 3, *base as usize + 4]);
        Bench { groups: groups.collect(), mmu: plan.mmus.swap_remove(0) }
    }

    /// Frames of `cells` to group `index` until XOFF: their number.
    pub(super) fn trigger(&mut self, index: usize, cells: u32) -> u64 {
        let group = self.groups[index];
        let xoff = |_: &u64| self.mmu.charge_ingress(group, cells) == Ok(true);
        (1..MANY).find(xoff).unwrap_or(MANY)
    }

    /// The frames after XOFF that fit: headroom.
    pub(super) fn headroom(&mut self, index: usize, cells: u32) -> u64 {
        let group = self.groups[index];
        let refused = |_: &u64| self.mmu.charge_ingress(group, cells).is_err();
        (0..MANY).find(refused).unwrap_or(MANY)
    }

    /// `frames` to one group, and out again until XON: the number that left.
    pub(super) fn dismiss(&mut self, frames: u64, cells: u32) -> u64 {
        let group = self.groups[0];
        let taken = (0..frames).filter(|_| self.mmu.charge_ingress(group, cells).is_ok()).count();
        let xon = |_: &u64| self.mmu.release_ingress(group, cells);
        (1..=taken as u64).find(xon).unwrap_or(MANY)
    }

    /// `frames` to each of `count` groups, one group after another: has the last one sent XOFF?
    pub(super) fn pauses_the_last(&mut self, count: usize, frames: u64, cells: u32) -> bool {
        for group in &self.groups[..count] {
            for _ in 0..frames {
                // a group that has paused goes on into its headroom, which may be full
                let _ = self.mmu.charge_ingress(*group, cells);
            }
        }
        self.mmu.xoff(self.groups[count - 1])
    }
}
