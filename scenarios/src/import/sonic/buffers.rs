//! Buffers of a switch: BUFFER_POOL, BUFFER_PROFILE, BUFFER_PG, BUFFER_QUEUE, and the lossless
//! profiles that SONiC makes itself, from a table of the SKU or by NVIDIA's formula.

use std::collections::BTreeMap;

use models::size::Size;
use models::switch::{MellanoxHeadroom, ProfileConfig};
use sim_core::{Bytes, Delta};

use super::asic::{Asic, Nvidia};
use super::ports::Port;
use super::sku::SkuTable;
use super::tables::{At, Config, plain};
use crate::import::ImportError;
use crate::import::text::quoted;

/// Priority groups and queues that are simulated.
const PRIORITIES: u8 = 8;
/// `mtu` of LOSSLESS_TRAFFIC_PATTERN, where there is none.
const LOSSLESS_MTU: u64 = 1024;

/// A profile at a priority group or a queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// `BUFFER_PROFILE|..`, or what made it.
    pub(super) name: String,
    pub(super) file: String,
    /// Its pool has the name that it has in SONiC.
    pub(super) profile: ProfileConfig,
    /// Headroom; `None`: a lossy profile.
    pub(super) xoff: Option<u64>,
    /// Computed as the switch does, not read.
    pub(super) is_made: bool,
}

/// The profiles of one port.
#[derive(Clone, Debug, Default)]
pub(super) struct PortBuffers {
    pub(super) groups: BTreeMap<u8, Group>,
    pub(super) queues: BTreeMap<u8, Group>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolEntry {
    pub(super) is_ingress: bool,
    pub(super) size: Option<u64>,
    /// The shared headroom pool.
    pub(super) xoff: Option<u64>,
    pub(super) file: String,
    pub(super) place: String,
}

/// The tables, looked up by port.
pub(super) struct BufferTables<'c> {
    config: &'c Config,
    asic: Option<&'static Asic>,
    sku: Option<&'c SkuTable>,
    pub(super) pools: BTreeMap<String, PoolEntry>,
    groups: BTreeMap<(&'c str, u8), At<'c>>,
    queues: BTreeMap<(&'c str, u8), At<'c>>,
    /// `over_subscribe_ratio`, if headroom is shared by it.
    pub(super) ratio: Option<u64>,
    default_th: i8,
    lossless_mtu: u64,
    small_packets: u8,
    is_dynamic: bool,
}

impl<'c> BufferTables<'c> {
    pub(super) fn new(
        config: &'c Config,
        asic: Option<&'static Asic>,
        sku: Option<&'c SkuTable>,
    ) -> Result<Self, ImportError> {
        let mut default_th = 0;
        let mut ratio = None;
        for at in config.entries("DEFAULT_LOSSLESS_BUFFER_PARAMETER") {
            default_th = at.threshold("default_dynamic_th")?.unwrap_or(0);
            ratio = at.number("over_subscribe_ratio")?.filter(|ratio| *ratio > 0);
        }
        let (mut lossless_mtu, mut small_packets) = (LOSSLESS_MTU, 100);
        for at in config.entries("LOSSLESS_TRAFFIC_PATTERN") {
            lossless_mtu = at.bytes("mtu")?.unwrap_or(LOSSLESS_MTU);
            small_packets = at.number("small_packet_percentage")?.unwrap_or(100);
            if small_packets > 100 {
                let message = format!("small_packet_percentage: {small_packets} is above 100");
                return Err(at.error(message));
            }
        }
        let metadata = config.get("DEVICE_METADATA", "localhost");
        let model = metadata.and_then(|metadata| metadata.field("buffer_model"));
        Ok(BufferTables {
            config,
            asic,
            sku,
            pools: pools(config)?,
            groups: config.by_number("BUFFER_PG")?,
            queues: config.by_number("BUFFER_QUEUE")?,
            ratio,
            default_th,
            lossless_mtu,
            small_packets,
            is_dynamic: model == Some("dynamic"),
        })
    }

    /// Priorities that must be lossless where no file says so: groups with headroom, or queues
    /// with a lossless profile.
    pub(super) fn inferred_pfc(&self, port: &str) -> Result<Vec<u8>, ImportError> {
        let mut found = Vec::new();
        for number in 0..PRIORITIES {
            let group = match self.groups.get(&(port, number)) {
                Some(at) => match at.refers("profile", "BUFFER_PROFILE")? {
                    Some(profile) => profile.field("xoff").is_some(),
                    None => true,
                },
                None => false,
            };
            let queue = self.queues.get(&(port, number)).and_then(|at| at.field("profile"));
            let queue = queue.map(|name| plain(name, "BUFFER_PROFILE"));
            let is_lossless = |name: &str| name.contains("lossless") && !name.contains("zero");
            if group || queue.is_some_and(is_lossless) {
                found.push(number);
            }
        }
        Ok(found)
    }

    /// True if a port has buffers that are not those of an unused one.
    pub(super) fn is_in_use(&self, port: &str) -> bool {
        if self.groups.is_empty() && self.queues.is_empty() {
            return true;
        }
        let used = |map: &BTreeMap<(&str, u8), At<'_>>| {
            let mut all = map.range((port, 0)..=(port, u8::MAX));
            all.any(|(_, at)| !at.field("profile").unwrap_or("").contains("zero"))
        };
        used(&self.groups) || used(&self.queues)
    }

    /// The profiles at a port, of which the groups in `pfc` are lossless.
    pub(super) fn port(&self, port: &Port, pfc: &[u8]) -> Result<PortBuffers, ImportError> {
        let mut found = PortBuffers::default();
        for number in 0..PRIORITIES {
            let key = (port.name.as_str(), number);
            let group = match self.groups.get(&key) {
                Some(at) => match at.refers("profile", "BUFFER_PROFILE")? {
                    Some(profile) => Some(self.profile(&profile)?),
                    None => Some(self.made(port, &at.place(), Some(at))?),
                },
                // SONiC makes these when PFC is switched on
                None if pfc.contains(&number) => self.would_make(port)?,
                None => None,
            };
            found.groups.extend(group.map(|group| (number, group)));
            if let Some(at) = self.queues.get(&key)
                && let Some(profile) = at.refers("profile", "BUFFER_PROFILE")?
            {
                found.queues.insert(number, self.profile(&profile)?);
            }
        }
        Ok(found)
    }

    fn profile(&self, at: &At<'c>) -> Result<Group, ImportError> {
        let pool = plain(at.must("pool")?, "BUFFER_POOL");
        at.refers("pool", "BUFFER_POOL")?;
        let size = at.bytes("size")?.unwrap_or(0);
        let xoff = at.bytes("xoff")?;
        let dynamic_th = at.threshold("dynamic_th")?;
        let static_th: Option<u64> = at.number("static_th")?;
        // as large as a size in a scenario may be: a limit that is none
        if static_th.is_some_and(|size| size > 1_000_000_000_000_000_000) {
            return Err(at.error("static_th: at most 10^18 B are expected"));
        }
        if dynamic_th.is_some() == static_th.is_some() {
            return Err(at.error("exactly one of `dynamic_th` and `static_th` is expected"));
        }
        let [xon, xon_offset] = [at.bytes("xon")?, at.bytes("xon_offset")?];
        let profile = self.fill(pool, size, xoff, xon.unwrap_or(0), xon_offset);
        Ok(Group {
            name: at.place(),
            file: at.file().to_owned(),
            profile: ProfileConfig { dynamic_th, static_th: static_th.map(Size::bytes), ..profile },
            xoff,
            is_made: false,
        })
    }

    /// The reserve is `size` less a headroom that is the group's own. Spectrum compares `xon` with
    /// the group's own buffer, which the reserve stands for: see the presets.
    fn fill(
        &self,
        pool: &str,
        size: u64,
        xoff: Option<u64>,
        xon: u64,
        xon_offset: Option<u64>,
    ) -> ProfileConfig {
        let is_private = !self.shares_headroom(pool);
        let reserve = match xoff {
            Some(xoff) if is_private && size >= xoff => size - xoff,
            _ => size,
        };
        let is_nvidia = self.asic.is_some_and(|asic| asic.nvidia.is_some());
        let (xon, xon_offset) = match xon_offset {
            None if is_nvidia && xoff.is_some() => (0, xon),
            offset => (xon, offset.unwrap_or(0)),
        };
        ProfileConfig {
            pool: pool.to_owned(),
            reserve: Size::bytes(reserve),
            dynamic_th: None,
            static_th: None,
            xon: Size::bytes(xon),
            xon_offset: Size::bytes(xon_offset),
        }
    }

    /// Headroom of this pool is one for all its groups.
    pub(super) fn shares_headroom(&self, pool: &str) -> bool {
        let pool = self.pools.get(pool);
        self.ratio.is_some() || pool.is_some_and(|pool| pool.xoff.is_some_and(|xoff| xoff > 0))
    }

    /// The pool of lossless groups.
    pub(super) fn lossless_pool(&self, is_ingress: bool) -> Option<&str> {
        let pools = || self.pools.iter().filter(|(_, pool)| pool.is_ingress == is_ingress);
        let named = pools().find(|(name, _)| name.contains("lossless"));
        named.or_else(|| pools().next()).map(|(name, _)| name.as_str())
    }

    /// The lossless profile that SONiC makes at a port, if anything says which: the table of the
    /// SKU, or the dynamic model.
    fn would_make(&self, port: &Port) -> Result<Option<Group>, ImportError> {
        if self.is_dynamic || self.sku.is_some_and(|sku| sku.row(port.rate, &port.cable).is_some())
        {
            return self.made(port, &format!("PORT_QOS_MAP|{}", port.name), None).map(Some);
        }
        let Some(sku) = self.sku else { return Ok(None) };
        let mbps = port.rate.bps() / 1_000_000;
        Err(ImportError {
            file: sku.file.clone(),
            line: None,
            message: format!(
                "there is no line for {mbps} Mb/s and {}, which {} has; one is expected",
                port.cable, port.name
            ),
        })
    }

    fn made(&self, port: &Port, place: &str, at: Option<&At<'c>>) -> Result<Group, ImportError> {
        let file = at.map_or_else(|| self.config.files.join(", "), |at| at.file().to_owned());
        let fail = |message: String| ImportError {
            file: file.clone(),
            line: None,
            message: format!("{place}: {message}"),
        };
        let Some(pool) = self.lossless_pool(true) else {
            return Err(fail("there is no ingress pool in BUFFER_POOL; one is expected".into()));
        };
        if !self.is_dynamic
            && let Some(sku) = self.sku
            && let Some(row) = sku.row(port.rate, &port.cable)
        {
            let profile = self.fill(pool, row.size, Some(row.xoff), row.xon, row.xon_offset);
            return Ok(Group {
                name: format!("{}:{}", sku.file, row.line),
                file: sku.file.clone(),
                profile: ProfileConfig { dynamic_th: Some(row.threshold), ..profile },
                xoff: Some(row.xoff),
                is_made: true,
            });
        }
        let Some((asic, nvidia)) = self.asic.and_then(|asic| Some((asic, asic.nvidia?))) else {
            return Err(fail(
                "the switch computes this profile itself, and only NVIDIA's formula is published; \
                 --asic spectrum-2, spectrum-3 .. or --sku-tables is expected"
                    .into(),
            ));
        };
        self.computed(port, pool, asic, nvidia, &file)
            .ok_or_else(|| fail(format!("no response time is published for {}", quoted_rate(port))))
    }

    /// What `buffer_headroom_mellanox.lua` computes.
    fn computed(
        &self,
        port: &Port,
        pool: &str,
        asic: &Asic,
        nvidia: Nvidia,
        file: &str,
    ) -> Option<Group> {
        let formula = formula(port, self.lossless_mtu, self.small_packets, nvidia);
        let xoff = formula.bytes(port.rate, flight(port), Bytes::new(asic.cell))?.get();
        let xoff = xoff + nvidia.extra * 1024;
        let has_eight_lanes = port.lanes == 8;
        let xon = nvidia.pipeline * 1024 * if has_eight_lanes { 2 } else { 1 };
        let own = xon + if has_eight_lanes { port.mtu } else { 0 };
        let size = if self.shares_headroom(pool) { own } else { own + xoff };
        let profile = self.fill(pool, size, Some(xoff), xon, None);
        Some(Group {
            name: format!(
                "NVIDIA's formula for {}, {}, MTU {}",
                quoted_rate(port),
                port.cable,
                port.mtu
            ),
            file: file.to_owned(),
            profile: ProfileConfig { dynamic_th: Some(self.default_th), ..profile },
            xoff: Some(xoff),
            is_made: true,
        })
    }

    /// What NVIDIA's formula gives at a port, for switches of NVIDIA.
    pub(super) fn by_formula(&self, port: &Port) -> Option<u64> {
        let asic = self.asic?;
        let nvidia = asic.nvidia?;
        let formula = formula(port, self.lossless_mtu, self.small_packets, nvidia);
        let xoff = formula.bytes(port.rate, flight(port), Bytes::new(asic.cell))?.get();
        Some(xoff + nvidia.extra * 1024)
    }

    /// The line of the SKU's table for a port.
    pub(super) fn by_table(&self, port: &Port) -> Option<u64> {
        self.sku?.row(port.rate, &port.cable).map(|row| row.xoff)
    }
}

fn formula(port: &Port, mtu: u64, small_packets: u8, nvidia: Nvidia) -> MellanoxHeadroom {
    MellanoxHeadroom {
        lossless_mtu: Bytes::new(mtu),
        port_mtu: Bytes::new(port.mtu),
        small_packets,
        tile: Delta::from_ns(nvidia.tile),
        ..MellanoxHeadroom::default()
    }
}

/// Through the cable at 198,000 km/s, as SONiC has it.
fn flight(port: &Port) -> Delta {
    Delta::from_ps((port.metres() * 1_000_000).div_ceil(198))
}

fn quoted_rate(port: &Port) -> String {
    port.rate.to_string()
}

fn pools(config: &Config) -> Result<BTreeMap<String, PoolEntry>, ImportError> {
    let mut pools = BTreeMap::new();
    for at in config.entries("BUFFER_POOL") {
        let is_ingress = match at.must("type")? {
            "ingress" | "both" => true,
            "egress" => false,
            other => {
                let message = format!("type: {} is none of ingress, egress, both", quoted(other));
                return Err(at.error(message));
            }
        };
        let entry = PoolEntry {
            is_ingress,
            size: at.bytes("size")?,
            xoff: at.bytes("xoff")?,
            file: at.file().to_owned(),
            place: at.place(),
        };
        pools.insert(at.key.to_owned(), entry);
    }
    Ok(pools)
}
