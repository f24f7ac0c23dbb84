//! `[host]`: what a server is built of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Delta, Rate};

/// A server with GPUs. Every key can differ by host through `[[override]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// Number of GPUs, numbered from 0.
    #[schemars(range(min = 1, max = 64))]
    pub gpus: u32,
    /// Name of a GPU, as tables show it.
    pub gpu: String,
    /// Generation of the GPUs: it decides which channel speeds NCCL tries.
    pub architecture: Architecture,
    /// Between the GPUs of a server: NVLink, or PCIe where there is none.
    pub nvlink: NvlinkConfig,
    /// Most that the thread block of one channel reduces or copies.
    pub channel_rate: Rate,
    /// A channel's thread block: waiting for a slice and posting the next one.
    pub slice_latency: Delta,
    /// From the start of a collective to its first slice: kernel launch.
    pub launch_latency: Delta,
    /// The CPU thread that drives the NIC: from a slice that is ready, or a completion, to its
    /// effect.
    pub proxy_latency: Delta,
    /// NICs can read and write GPU memory (GPUDirect RDMA is installed).
    pub gdr: bool,
    /// After a received slice, before the GPU may read it: the flush that GPUDirect needs.
    pub gdr_flush: Delta,
    /// The way through host memory where GPUDirect is not used.
    pub host_memory: HostMemoryConfig,
    /// All NICs.
    pub nic: HostNicConfig,
    /// NICs one by one; if absent, as many as the topology has ports for, and the GPUs are split
    /// among them in order.
    pub nics: Vec<HostNic>,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            gpus: 8,
            gpu: "GPU".to_owned(),
            architecture: Architecture::Ampere,
            nvlink: NvlinkConfig::default(),
            channel_rate: Rate::from_gbps(200),
            slice_latency: Delta::from_us(2),
            launch_latency: Delta::from_ns(8400),
            proxy_latency: Delta::from_us(3),
            gdr: true,
            gdr_flush: Delta::from_us(2),
            host_memory: HostMemoryConfig::default(),
            nic: HostNicConfig::default(),
            nics: Vec::new(),
        }
    }
}

/// Generation of GPUs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// V100.
    Volta,
    /// A100.
    Ampere,
    /// H100, H200.
    Hopper,
    /// B200, B300.
    Blackwell,
}

/// `[host.nvlink]`
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NvlinkConfig {
    /// Of one GPU, each way.
    pub rate: Rate,
    /// From the end of a transfer to its visibility at the other GPU.
    pub latency: Delta,
}

impl Default for NvlinkConfig {
    fn default() -> Self {
        NvlinkConfig { rate: Rate::from_gbps(2400), latency: Delta::from_ns(1400) }
    }
}

/// `[host.host_memory]`
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostMemoryConfig {
    /// What one GPU writes to, or reads from, host memory, each way.
    pub rate: Rate,
    /// Added to each slice.
    pub latency: Delta,
}

impl Default for HostMemoryConfig {
    fn default() -> Self {
        HostMemoryConfig { rate: Rate::from_gbps(72), latency: Delta::from_us(1) }
    }
}

/// `[host.nic]`: what holds for all NICs of a host.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostNicConfig {
    /// Ports of a NIC.
    #[schemars(range(min = 1, max = 8))]
    pub ports: u32,
    /// What several ports of a NIC are to NCCL.
    pub mode: NicMode,
    /// Of a bond: how a QP gets its port.
    pub lag_port_select_mode: LagPortSelectMode,
    /// Between the NIC and the memory of the GPUs, or the host.
    pub pcie: PcieConfig,
    /// Path to the GPUs of `affinity`.
    pub near: PathType,
    /// Path to all other GPUs.
    pub far: PathType,
}

impl Default for HostNicConfig {
    fn default() -> Self {
        HostNicConfig {
            ports: 1,
            mode: NicMode::Rails,
            lag_port_select_mode: LagPortSelectMode::QueueAffinity,
            pcie: PcieConfig::default(),
            near: PathType::Pxb,
            far: PathType::Sys,
        }
    }
}

/// `[[host.nics]]`: one NIC. Keys that are absent are those of `host.nic`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostNic {
    /// Names of its RDMA devices, one for each port (one for a bond): `["mlx5_0", "mlx5_1"]`.
    pub names: Vec<String>,
    /// The GPUs on the same PCIe switch; all if absent.
    pub affinity: Vec<u32>,
    /// See `host.nic`.
    pub ports: Option<u32>,
    /// See `host.nic`.
    pub mode: Option<NicMode>,
    /// See `host.nic`.
    pub lag_port_select_mode: Option<LagPortSelectMode>,
    /// See `host.nic`.
    pub pcie: Option<PcieConfig>,
    /// See `host.nic`.
    pub near: Option<PathType>,
    /// See `host.nic`.
    pub far: Option<PathType>,
}

/// What the ports of a NIC are to NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicMode {
    /// Each port is a device of its own.
    Rails,
    /// One device; every message is split over the ports (`NCCL_IB_MERGE_NICS`).
    Merged,
    /// One device with one address; each QP sends by one port, and the network chooses the port
    /// that it receives by.
    Bond,
}

/// How a QP of a bond gets its port; the names are mlx5's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LagPortSelectMode {
    /// In turn, as QPs are made.
    QueueAffinity,
    /// By a hash of its addresses and UDP ports.
    Hash,
}

/// PCIe between NIC and memory.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PcieConfig {
    /// Payload that passes, each way.
    pub rate: Rate,
    /// Added to each message, each way.
    pub latency: Delta,
}

impl Default for PcieConfig {
    fn default() -> Self {
        PcieConfig { rate: Rate::from_bps(1_000_000_000_000_000), latency: Delta::from_ns(500) }
    }
}

/// How far a GPU is from a NIC; the words are `nvidia-smi topo -m`'s, the nearest first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathType {
    /// The same device.
    Loc,
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// A PCIe host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// Between NUMA nodes.
    Sys,
}

impl PathType {
    /// As NCCL sees it: its topology knows NUMA nodes, not the host bridges within one.
    pub const fn of_nccl(self) -> PathType {
        match self {
            PathType::Node => PathType::Phb,
            path => path,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            PathType::Loc => "LOC",
            PathType::Pix => "PIX",
            PathType::Pxb => "PXB",
            PathType::Phb => "PHB",
            PathType::Node => "NODE",
            PathType::Sys => "SYS",
        }
    }
}
