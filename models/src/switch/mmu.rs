//! The memory management unit of a switch: who may hold how many cells of the shared buffer.
//!
//! Each frame is charged twice: to the priority group (PG) of its ingress port and to the queue of
//! its egress port. A PG fills its reserve, then shares the pool up to its limit, then (lossless)
//! uses headroom; XOFF is due when the limit is reached or headroom is in use. The frame that
//! passes the limit is charged to headroom whole.

use sim_core::prefetch;

/// How far the shared part of a PG or queue may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// 2^n times the free part of the pool (SONiC `dynamic_th`).
    Dynamic(i8),
    /// Cells (SONiC `static_th`).
    Static(u32),
}

/// Parameters of a PG or queue, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Index of its pool.
    pub pool: u8,
    /// It sends PFC and has headroom (PGs).
    pub lossless: bool,
    /// Always available.
    pub reserve: u32,
    /// Limit of the shared part.
    pub threshold: Threshold,
    /// Headroom beyond the limit; a cap on its use of the shared headroom pool where there is one.
    pub headroom: u32,
    /// XON at or below this shared use,
    pub xon: u32,
    /// or at or below the limit less this.
    pub xon_offset: u32,
}

/// A pool, in cells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pool {
    /// Shared part.
    pub size: u32,
    /// Shared headroom; if absent each PG's headroom is private.
    pub headroom: Option<u32>,
    used: u32,
    headroom_used: u32,
}

impl Pool {
    /// An empty pool.
    pub fn new(size: u32, headroom: Option<u32>) -> Self {
        Pool { size, headroom, used: 0, headroom_used: 0 }
    }

    #[inline]
    fn free(&self) -> u32 {
        self.size.saturating_sub(self.used)
    }
}

/// Why a frame was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A lossless PG is over its limit and its headroom is full.
    IngressHeadroomFull,
    /// A lossy PG is over its limit.
    IngressLossyLimit,
    /// A lossy egress queue is over its limit.
    EgressLossyLimit,
    /// A lossless egress queue is over the limit that it was given.
    EgressLosslessLimit,
}

/// Use of one PG or queue, in cells, beside what every frame asks of its profile. The reserve fills
/// first and empties last.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Reserved and shared cells together.
    used: u32,
    headroom_used: u32,
    reserve: u32,
    /// A static limit; 0 if it is dynamic.
    limit: u32,
    /// A dynamic limit is 2^raise / 2^lower of what is free; a static one has [`NOTHING`] of it.
    raise: u8,
    lower: u8,
    pool: u8,
    lossless: bool,
    /// [`XOFF`], [`WATCHED`].
    state: u8,
    /// Index of the whole profile.
    profile: u16,
}

/// See [`Account::lower`].
const NOTHING: u8 = 63;
/// XOFF holds.
const XOFF: u8 = 1;
/// The group counts as not calm, whatever it holds.
const WATCHED: u8 = 2;

impl Account {
    fn new(profile: &Profile, index: usize) -> Self {
        let (limit, raise, lower) = match profile.threshold {
            Threshold::Static(cells) => (cells, 0, NOTHING),
            Threshold::Dynamic(n) => (0, n.max(0) as u8 & 31, (-n).max(0) as u8 & 31),
        };
        Account {
            used: 0,
            headroom_used: 0,
            reserve: profile.reserve,
            limit,
            raise,
            lower,
            pool: profile.pool,
            lossless: profile.lossless,
            state: 0,
            profile: index as u16,
        }
    }

    #[inline]
    fn pool(&self) -> usize {
        usize::from(self.pool) % POOLS_MAX
    }

    #[inline]
    fn shared(&self) -> u32 {
        self.used.saturating_sub(self.reserve)
    }

    /// The limit of its shared part where so many cells of its pool are free.
    #[inline]
    fn limit(&self, free: u32) -> u64 {
        let dynamic = u64::from(free) << (self.raise & 63) >> (self.lower & 63);
        dynamic.max(u64::from(self.limit))
    }
}

/// Pools that an MMU may have.
pub const POOLS_MAX: usize = 16;

/// The MMU of one slice of a switch.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Mmu {
    /// Those that there are; an array, so that no look-up can miss.
    pools: [Pool; POOLS_MAX],
    /// Equal ones stand here once.
    profiles: Box<[Profile]>,
    /// The groups, by port x 8 + priority, and then the queues.
    accounts: Box<[Account]>,
    first_queue: u32,
    /// Bytes of a cell.
    pub cell: u32,
    /// MMUs of its switch.
    pub slices: u32,
}

impl Mmu {
    /// An MMU with these pools, [`POOLS_MAX`] at most; `groups` and `queues` are given port by port,
    /// 8 each.
    pub fn new(pools: Vec<Pool>, groups: Vec<Profile>, queues: Vec<Profile>) -> Self {
        let planned = pools.into_iter();
        let mut pools = [Pool::default(); POOLS_MAX];
        pools.iter_mut().zip(planned).for_each(|(pool, planned)| *pool = planned);
        let mut profiles: Vec<Profile> = Vec::new();
        let mut open = |profile: Profile| {
            let known = profiles.iter().position(|known| *known == profile);
            let index = known.unwrap_or(profiles.len());
            if known.is_none() {
                profiles.push(profile);
            }
            Account::new(&profile, index)
        };
        let first_queue = groups.len() as u32;
        let accounts = groups.into_iter().chain(queues).map(&mut open).collect();
        let profiles = profiles.into();
        Mmu { pools, profiles, accounts, first_queue, cell: 1, slices: 1 }
    }

    /// The same as one of so many in a switch with cells of `cell` bytes.
    pub fn of_switch(self, cell: u32, slices: u32) -> Self {
        Mmu { cell, slices, ..self }
    }

    /// Cells that a frame fills.
    #[inline]
    pub fn cells(&self, len: u16) -> u32 {
        if self.cell == 1 { u32::from(len) } else { u32::from(len).div_ceil(self.cell) }
    }

    fn groups(&self) -> &[Account] {
        &self.accounts[..self.first_queue as usize]
    }

    /// Charges a frame of `cells` to a group and a queue of this MMU if the group is calm and the
    /// queue takes it; the frame is not charged if it `passes`. False if nothing was done.
    #[inline(always)]
    pub fn admit_calm(&mut self, group: usize, queue: usize, cells: u32, passes: bool) -> bool {
        if self.egress_admits(queue, cells).is_err() || !self.is_calm(group, cells) {
            return false;
        }
        if !passes {
            self.charge_calm(group, cells);
            self.charge_egress(queue, cells);
        }
        true
    }

    /// True if ingress group `group`, with a frame of `cells` more, is far from XOFF and from its
    /// limit, so that [`Mmu::charge_calm`] may charge it.
    ///
    /// That releases are still to come does not matter: they lower what is used, and raise limits.
    #[inline]
    pub fn is_calm(&self, group: usize, cells: u32) -> bool {
        let account = &self.accounts[group];
        let shared = (account.used + cells).saturating_sub(account.reserve);
        let growth = shared.min(cells);
        let free = self.pools[account.pool()].free();
        if growth > free || account.state != 0 {
            return false;
        }
        // the limit after this frame, which is the lower one, is that of XOFF
        let limit = account.limit(free - growth);
        let shared = u64::from(shared);
        shared == 0 || shared < limit || (shared == limit && !account.lossless)
    }

    /// Charges a frame of `cells` to ingress group `group`, which is calm.
    #[inline]
    pub fn charge_calm(&mut self, group: usize, cells: u32) {
        let account = &mut self.accounts[group];
        account.used += cells;
        self.pools[account.pool()].used += account.shared().min(cells);
    }

    /// Charges a frame of `cells` to ingress group `group`; `Ok(true)` if XOFF is due now.
    pub fn charge_ingress(&mut self, group: usize, cells: u32) -> Result<bool, Refusal> {
        let account = &mut self.accounts[group];
        let pool = &mut self.pools[account.pool()];
        let limit = account.limit(pool.free());
        let used = account.used + cells;
        let shared = used.saturating_sub(account.reserve);
        let growth = shared.min(cells);
        if shared == 0 || (u64::from(shared) <= limit && growth <= pool.free()) {
            account.used = used;
            pool.used += growth;
        } else if !account.lossless {
            return Err(Refusal::IngressLossyLimit);
        } else {
            let headroom = self.profiles[usize::from(account.profile)].headroom;
            let headroom_used = account.headroom_used + cells;
            let pooled = pool.headroom_used + cells;
            if headroom_used > headroom || pool.headroom.is_some_and(|size| pooled > size) {
                return Err(Refusal::IngressHeadroomFull);
            }
            account.headroom_used = headroom_used;
            pool.headroom_used = pooled;
        }
        if !account.lossless || account.state & XOFF != 0 {
            return Ok(false);
        }
        let shared = account.shared();
        let full = shared > 0 && u64::from(shared) >= account.limit(pool.free());
        let xoff = account.headroom_used > 0 || full;
        account.state |= if xoff { XOFF } else { 0 };
        Ok(xoff)
    }

    /// Releases a frame of `cells` from ingress group `group`; true if XON is due now.
    #[inline]
    pub fn release_ingress(&mut self, group: usize, cells: u32) -> bool {
        let account = &mut self.accounts[group];
        let pool = &mut self.pools[account.pool()];
        if account.state & XOFF == 0 {
            // headroom in use means XOFF
            pool.used -= account.shared().min(cells);
            account.used -= cells;
            return false;
        }
        self.release_paused(group, cells)
    }

    /// The same for a group that holds XOFF.
    fn release_paused(&mut self, group: usize, cells: u32) -> bool {
        let account = &mut self.accounts[group];
        let pool = &mut self.pools[account.pool()];
        let from_headroom = account.headroom_used.min(cells);
        let from_shared = account.shared().min(cells - from_headroom);
        account.headroom_used -= from_headroom;
        pool.headroom_used -= from_headroom;
        account.used -= cells - from_headroom;
        pool.used -= from_shared;
        if account.headroom_used > 0 {
            return false;
        }
        let Profile { xon, xon_offset, .. } = self.profiles[usize::from(account.profile)];
        let below = account.limit(pool.free()).saturating_sub(u64::from(xon_offset));
        let resume = u64::from(account.shared()) <= below.max(u64::from(xon));
        account.state &= if resume { !XOFF } else { u8::MAX };
        resume
    }

    /// True if egress queue `queue` may take a frame of `cells`.
    #[inline]
    pub fn egress_admits(&self, queue: usize, cells: u32) -> Result<(), Refusal> {
        let account = &self.accounts[self.first_queue as usize + queue];
        let shared = (account.used + cells).saturating_sub(account.reserve);
        // (a dynamic limit is not there)
        if shared == 0 || (account.lossless && shared <= account.limit) {
            return Ok(());
        }
        let free = self.pools[account.pool()].free();
        let within = u64::from(shared) <= account.limit(free);
        if account.lossless {
            // what ingress has admitted is in the buffer: only the queue's own limit counts
            return if within { Ok(()) } else { Err(Refusal::EgressLosslessLimit) };
        }
        if within && shared.min(cells) <= free { Ok(()) } else { Err(Refusal::EgressLossyLimit) }
    }

    /// Charges an admitted frame to egress queue `queue`.
    #[inline]
    pub fn charge_egress(&mut self, queue: usize, cells: u32) {
        let account = &mut self.accounts[self.first_queue as usize + queue];
        account.used += cells;
        self.pools[account.pool()].used += account.shared().min(cells);
    }

    /// Releases a frame from egress queue `queue`.
    #[inline]
    pub fn release_egress(&mut self, queue: usize, cells: u32) {
        let account = &mut self.accounts[self.first_queue as usize + queue];
        self.pools[account.pool()].used -= account.shared().min(cells);
        account.used -= cells;
    }

    /// Asks for the memory of an ingress group's account.
    #[inline]
    pub fn prefetch_group(&self, group: usize) {
        self.accounts.get(group).inspect(|account| prefetch(*account));
    }

    /// Asks for the memory of an egress queue's account.
    #[inline]
    pub fn prefetch_queue(&self, queue: usize) {
        self.accounts.get(self.first_queue as usize + queue).inspect(|account| prefetch(*account));
    }

    /// Cells held in ingress group `group`: reserve and shared, headroom.
    pub fn ingress_use(&self, group: usize) -> (u32, u32) {
        (self.groups()[group].used, self.groups()[group].headroom_used)
    }

    /// The limit of the shared part of ingress group `group` as of now.
    pub fn ingress_limit(&self, group: usize) -> u32 {
        let account = &self.groups()[group];
        let limit = account.limit(self.pools[account.pool()].free());
        u32::try_from(limit).unwrap_or(u32::MAX)
    }

    /// Cells that ingress group `group` holds when its XOFF comes, if nobody else draws on its
    /// pool: the reserve, and a static limit or the s for which s = 2^n (pool - s).
    pub fn xoff_alone(&self, group: usize) -> u32 {
        let Profile { pool, reserve, threshold, .. } =
            self.profiles[usize::from(self.groups()[group].profile)];
        let size = self.pools[usize::from(pool)].size;
        let shared = match threshold {
            // the cell that finds the pool full goes into headroom
            Threshold::Static(cells) => cells.min(size.saturating_add(1)),
            Threshold::Dynamic(n) => {
                let (size, times) = (u64::from(size), 1 << n.unsigned_abs());
                let shared = if n >= 0 { size * times } else { size }.div_ceil(times + 1);
                // the limit is rounded down, and may be met a cell earlier
                let earlier = shared.saturating_sub(1);
                let limit =
                    if n >= 0 { (size - earlier) * times } else { (size - earlier) / times };
                if earlier >= limit { earlier as u32 } else { shared as u32 }
            }
        };
        reserve.saturating_add(shared.max(1))
    }

    /// Takes over the limit that a group has in another plan of the same buffer.
    pub fn adopt_limit(&mut self, group: usize, plan: &Mmu) {
        let Account { limit, raise, lower, .. } = plan.groups()[group];
        self.accounts[group] = Account { limit, raise, lower, ..self.accounts[group] };
    }

    /// Whether a group sends PFC.
    pub fn is_lossless(&self, group: usize) -> bool {
        self.groups()[group].lossless
    }

    /// True while XOFF holds for ingress group `group`.
    pub fn xoff(&self, group: usize) -> bool {
        self.groups()[group].state & XOFF != 0
    }

    /// Lets no group count as calm, or ends that: somebody wants to see every frame.
    pub fn watch(&mut self, on: bool) {
        for account in &mut self.accounts[..self.first_queue as usize] {
            account.state = account.state & !WATCHED | if on { WATCHED } else { 0 };
        }
    }

    /// True if nothing is held anywhere: what must hold when the switch has drained.
    pub fn is_empty(&self) -> bool {
        self.pools.iter().all(|pool| pool.used == 0 && pool.headroom_used == 0)
            && self.accounts.iter().all(|a| a.used == 0 && a.headroom_used == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lossless(reserve: u32, threshold: Threshold, headroom: u32) -> Profile {
        Profile { pool: 0, lossless: true, reserve, threshold, headroom, xon: 0, xon_offset: 10 }
    }

    fn mmu(size: u32, groups: &[Profile]) -> Mmu {
        Mmu::new(vec![Pool::new(size, None)], groups.to_vec(), vec![])
    }

    /// Charges frames of one cell until XOFF; the number charged.
    fn fill(mmu: &mut Mmu, group: usize) -> u32 {
        (1..).find(|_| mmu.charge_ingress(group, 1).unwrap()).unwrap()
    }

    #[test]
    fn reserve_then_shared_then_headroom_and_back() {
        // pool 800, alpha 1/8, reserve 4, headroom 5, XON 10 below the limit
        let mut mmu = mmu(800, &[lossless(4, Threshold::Dynamic(-3), 5)]);
        // S shared: limit (800 - S) / 8; S = 88: 712/8 = 89 > 88; S = 89: 711/8 = 88 <= 89 -> XOFF
        // with 4 + 89 = 93 cells
        assert_eq!(fill(&mut mmu, 0), 93);
        assert_eq!(mmu.ingress_use(0), (93, 0));
        // limit 88 < 90: the next frames go to headroom, whole; the sixth cell does not fit
        assert_eq!(mmu.charge_ingress(0, 3), Ok(false));
        assert_eq!(mmu.charge_ingress(0, 2), Ok(false));
        assert_eq!(mmu.charge_ingress(0, 1), Err(Refusal::IngressHeadroomFull));
        // release: headroom first; XON once shared <= limit - 10.
        // shared 80: limit (800-80)/8 = 90, 80 <= 80 -> XON after 5 + 9 cells
        for released in 1..=13 {
            assert!(!mmu.release_ingress(0, 1), "{released}");
        }
        assert_eq!(mmu.ingress_use(0), (85, 0));
        assert!(mmu.release_ingress(0, 1));
        assert!(!mmu.xoff(0));
        assert!(!mmu.release_ingress(0, 84));
        assert!(mmu.is_empty());
    }

    #[test]
    fn a_group_within_its_reserve_never_pauses() {
        let mut mmu = mmu(0, &[lossless(10, Threshold::Static(0), 5)]);
        (0..10).for_each(|_| assert_eq!(mmu.charge_ingress(0, 1), Ok(false)));
        assert_eq!(mmu.charge_ingress(0, 1), Ok(true));
    }

    #[test]
    fn equal_groups_halve_the_rest_at_alpha_one() {
        // Tomahawk 5, alpha 1: the PGs of one port after another trigger at 74 reserved cells and
        // half of what is left: 240,086 cells -> 120,043, 60,021.5, 30,011, 15,005
        let mut mmu = mmu(240_086, &[lossless(74, Threshold::Dynamic(0), 1185); 4]);
        let triggers: Vec<u32> = (0..4).map(|group| fill(&mut mmu, group)).collect();
        // measured on the switch: 120117, 60096, 30085, 15079
        assert_eq!(triggers, [120_117, 60_096, 30_085, 15_079]);
    }

    #[test]
    fn alone_a_group_pauses_where_it_says() {
        let thresholds =
            (-8..=7).map(Threshold::Dynamic).chain([Threshold::Static(70), Threshold::Static(0)]);
        for (threshold, size) in thresholds.flat_map(|t| (1..400).map(move |size| (t, size))) {
            let mut mmu = mmu(size, &[lossless(3, threshold, 5)]);
            let expected = mmu.xoff_alone(0);
            assert_eq!(fill(&mut mmu, 0), expected, "{threshold:?} of {size}");
        }
        // alpha 1/8 of 900: 100 cells, of 800 that are free 1/8
        assert_eq!(mmu(900, &[lossless(0, Threshold::Dynamic(-3), 0)]).xoff_alone(0), 100);
    }

    #[test]
    fn a_static_limit_and_a_shared_headroom_pool() {
        let profile = lossless(0, Threshold::Static(10), 8);
        let mut mmu = Mmu::new(vec![Pool::new(100, Some(12))], vec![profile; 2], vec![]);
        assert_eq!(fill(&mut mmu, 0), 10);
        assert_eq!(fill(&mut mmu, 1), 10);
        // 8 is the cap of one PG, 12 of both
        assert_eq!(mmu.charge_ingress(0, 8), Ok(false));
        assert_eq!(mmu.charge_ingress(0, 1), Err(Refusal::IngressHeadroomFull));
        assert_eq!(mmu.charge_ingress(1, 4), Ok(false));
        assert_eq!(mmu.charge_ingress(1, 1), Err(Refusal::IngressHeadroomFull));
    }

    #[test]
    fn lossy_traffic_is_dropped_at_its_limit() {
        let lossy = Profile { lossless: false, ..lossless(2, Threshold::Dynamic(1), 0) };
        let mut mmu = Mmu::new(
            vec![Pool::new(30, None), Pool::new(12, None)],
            vec![lossy],
            vec![Profile { pool: 1, threshold: Threshold::Dynamic(0), ..lossy }],
        );
        // alpha 2: limit 2 x (30 - S): S = 20 -> 20; 2 + 20 cells
        let taken = (0..).find(|_| mmu.charge_ingress(0, 1).is_err()).unwrap();
        assert_eq!(taken, 22);
        assert_eq!(mmu.charge_ingress(0, 1), Err(Refusal::IngressLossyLimit));
        // egress, alpha 1: the cell S + 1 needs S + 1 <= 12 - S: S = 6 at most; 2 + 6 cells
        let mut queued = 0;
        while mmu.egress_admits(0, 1).is_ok() {
            mmu.charge_egress(0, 1);
            queued += 1;
        }
        assert_eq!(queued, 8);
        (0..8).for_each(|_| mmu.release_egress(0, 1));
        (0..22).for_each(|_| assert!(!mmu.release_ingress(0, 1)));
        assert!(mmu.is_empty());
    }
}
