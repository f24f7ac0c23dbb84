//! `[switch]`: buffer, PFC, ECN, classes, scheduler, choice of next hops.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta};

use crate::ids::PRIORITIES;
use crate::load_balance::{
    AdaptiveConfig, CongaConfig, DrillConfig, EcmpConfig, FlowletConfig, LoadBalance,
};
use crate::pfc::PfcTiming;
use crate::size::Size;
use crate::switch::bounce::BounceConfig;
use crate::switch::headroom_config::Headroom;
use crate::switch::pipeline::PipelineConfig;
use crate::switch::watchdog::WatchdogConfig;
use crate::switch::wred::WredConfig;

/// A switch. Every key can differ by node or by port through `[[override]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchConfig {
    /// From the last bit of a frame (with cut-through: of its head) to its place in the egress queue.
    pub latency: Delta,
    /// Cut-through: a frame is forwarded when its head has come, where no port of the switch is faster
    /// than the one that it comes by; elsewhere, and if this is false, when all of it has.
    pub cut_through: bool,
    /// Shared packet buffer.
    pub buffer: BufferConfig,
    /// Priority flow control.
    pub pfc: SwitchPfcConfig,
    /// PFC watchdog; if absent, there is none.
    pub pfc_wd: Option<WatchdogConfig>,
    /// ECN marking of each egress queue that has an entry.
    pub ecn: BTreeMap<u8, WredConfig>,
    /// How frames are classified.
    pub qos: SwitchQosConfig,
    /// How an egress port chooses among its queues.
    pub scheduler: SchedulerConfig,
    /// How one of several next hops is chosen.
    pub load_balance: LoadBalance,
    /// `load_balance = "flowlet"`.
    pub flowlet: FlowletConfig,
    /// `load_balance = "adaptive"`.
    pub adaptive: AdaptiveConfig,
    /// `load_balance = "drill"`.
    pub drill: DrillConfig,
    /// `load_balance = "conga"`.
    pub conga: CongaConfig,
    /// The hash.
    pub ecmp: EcmpConfig,
    /// A limit of frames per second; if absent, there is none.
    pub pipeline: Option<PipelineConfig>,
}

impl SwitchConfig {
    /// By received PFC priority: the queue that it pauses; 255 where it is not obeyed.
    pub fn pfc_to_queue(&self) -> [u8; PRIORITIES] {
        std::array::from_fn(|priority| {
            let priority = priority as u8;
            let queue = self.qos.pfc_to_queue.get(&priority).copied().unwrap_or(priority);
            if self.pfc.priorities.contains(&priority) { queue } else { u8::MAX }
        })
    }
}

/// The shared buffer: `[switch.buffer]`. SONiC's words: pools, and profiles that draw on them.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BufferConfig {
    /// All of it.
    pub size: Bytes,
    /// Allocation unit; each frame rounds up to whole cells.
    pub cell: Bytes,
    /// Independent parts, each with its share of pools and ports (Tomahawk 5 has 2).
    pub slices: u32,
    /// Reserved for each port beside its priority groups: for queues and for traffic that is not
    /// simulated. It makes an `ingress` pool smaller that has no `size`.
    pub port_reserve: Size,
    /// Named pools; `ingress` and `egress` exist always.
    pub pools: BTreeMap<String, PoolConfig>,
    /// Priority groups that send PFC.
    pub lossless: ProfileConfig,
    /// All other priority groups.
    pub lossy: ProfileConfig,
    /// Egress queues of the PFC priorities.
    pub lossless_queue: ProfileConfig,
    /// All other egress queues.
    pub lossy_queue: ProfileConfig,
    /// Profiles of single priority groups, instead of the two above.
    pub pg: BTreeMap<u8, ProfileConfig>,
    /// Profiles of single egress queues, instead of the two above.
    pub queue: BTreeMap<u8, ProfileConfig>,
}

impl Default for BufferConfig {
    /// 32 MiB in bytes; PGs share it with alpha 1/8, lossy queues with alpha 1.
    fn default() -> Self {
        let ingress = ProfileConfig { pool: "ingress".into(), ..ProfileConfig::default() };
        let egress = ProfileConfig { pool: "egress".into(), ..ProfileConfig::default() };
        BufferConfig {
            size: Bytes::new(32 << 20),
            cell: Bytes::new(1),
            slices: 1,
            port_reserve: Size::ZERO,
            pools: BTreeMap::new(),
            lossless: ProfileConfig {
                dynamic_th: Some(-3),
                xon_offset: Size::bytes(3072),
                ..ingress.clone()
            },
            lossy: ProfileConfig { dynamic_th: Some(3), ..ingress },
            lossless_queue: ProfileConfig {
                static_th: Some(Size::bytes(1_000_000_000_000_000_000)),
                ..egress.clone()
            },
            lossy_queue: ProfileConfig { dynamic_th: Some(0), ..egress },
            pg: BTreeMap::new(),
            queue: BTreeMap::new(),
        }
    }
}

/// A pool of buffer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolConfig {
    /// Shared part. If absent: what the reserves and headrooms leave of the buffer (ingress), or
    /// the whole buffer (egress).
    pub size: Option<Size>,
    /// Shared headroom pool: headroom of all PGs together, beside `size`. If absent, each PG's
    /// headroom is its own.
    pub xoff: Option<Size>,
}

/// How a priority group or queue draws on a pool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileConfig {
    /// The pool; empty means `ingress` for PGs and `egress` for queues.
    pub pool: String,
    /// Reserved: always available, outside the pool.
    pub reserve: Size,
    /// Limit of the shared part: 2^n times what is free in the pool. Give this or `static_th`.
    #[schemars(range(min = -8, max = 7))]
    pub dynamic_th: Option<i8>,
    /// Fixed limit of the shared part.
    pub static_th: Option<Size>,
    /// XON when the shared part is at most this, or at most the limit less `xon_offset`.
    pub xon: Size,
    /// See `xon`.
    pub xon_offset: Size,
}

impl Default for Size {
    fn default() -> Self {
        Size::ZERO
    }
}

/// `[switch.pfc]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchPfcConfig {
    /// Priorities (and priority groups) that are lossless: PFC is sent and obeyed.
    pub priorities: Vec<u8>,
    /// Buffer for what arrives after XOFF.
    pub headroom: Headroom,
    /// The smallest frame that the `auto` headroom must allow for (small frames waste cells).
    /// If absent: the smallest that a lossless class carries.
    pub smallest_frame: Option<Bytes>,
    /// Pause time of an XOFF frame in quanta of 512 bit times; 0: an XOFF holds until XON.
    pub quanta: u16,
    /// XOFF is repeated after this long while it holds; if absent, after half its pause time.
    pub refresh: Option<Delta>,
    /// From the arrival of a PFC frame to its effect.
    pub response_time: Delta,
}

impl SwitchPfcConfig {
    /// The keys that PFC of a switch and of a NIC share.
    pub fn timing(&self) -> PfcTiming {
        let SwitchPfcConfig { quanta, refresh, response_time, .. } = *self;
        PfcTiming { quanta, refresh, response_time }
    }
}

impl Default for SwitchPfcConfig {
    fn default() -> Self {
        SwitchPfcConfig {
            priorities: vec![3],
            headroom: Headroom::Auto,
            smallest_frame: None,
            quanta: 65535,
            refresh: None,
            response_time: Delta::ZERO,
        }
    }
}

/// Which field of a frame decides its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// The IP header's DSCP.
    #[default]
    Dscp,
    /// The 802.1Q tag's PCP.
    Pcp,
}

/// Classification: `[switch.qos]`. Absent entries: DSCP to TC 0, everything else to itself.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchQosConfig {
    /// DSCP or PCP.
    pub trust: Trust,
    /// DSCP to traffic class.
    pub dscp_to_tc: BTreeMap<u8, u8>,
    /// PCP to traffic class.
    pub pcp_to_tc: BTreeMap<u8, u8>,
    /// Traffic class to egress queue.
    pub tc_to_queue: BTreeMap<u8, u8>,
    /// Traffic class to priority group.
    pub tc_to_pg: BTreeMap<u8, u8>,
    /// Priority of a received PFC frame to the egress queue that it pauses.
    pub pfc_to_queue: BTreeMap<u8, u8>,
    /// Another DSCP for frames that come down and go up again; if absent, none.
    pub bounce: Option<BounceConfig>,
}

impl Default for SwitchQosConfig {
    /// DSCP 26 is RoCE (class 3), DSCP 48 its CNPs (class 6).
    fn default() -> Self {
        SwitchQosConfig {
            trust: Trust::Dscp,
            dscp_to_tc: BTreeMap::from([(26, 3), (48, 6)]),
            pcp_to_tc: BTreeMap::new(),
            tc_to_queue: BTreeMap::new(),
            tc_to_pg: BTreeMap::new(),
            pfc_to_queue: BTreeMap::new(),
            bounce: None,
        }
    }
}

/// `[switch.scheduler]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// Queues served first, the first named above all.
    pub strict: Vec<u8>,
    /// DWRR weights of the others; 1 if absent.
    pub weights: BTreeMap<u8, u32>,
    /// What DWRR counts.
    pub unit: SchedulerUnit,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        let (weights, unit) = (BTreeMap::new(), SchedulerUnit::Bytes);
        SchedulerConfig { strict: vec![7, 6], weights, unit }
    }
}

/// What a round of the scheduler counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerUnit {
    /// Deficit weighted round robin.
    #[default]
    Bytes,
    /// One frame a turn, without weights.
    Packets,
}
