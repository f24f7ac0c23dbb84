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
    /// Latencies of NCCL's protocol LL.
    #[serde(default = "ProtocolLatency::ll")]
    pub ll: ProtocolLatency,
    /// Latencies of NCCL's protocol LL128.
    #[serde(default = "ProtocolLatency::ll128")]
    pub ll128: ProtocolLatency,
    /// busbw that the NVSwitch gives one GPU, the head of a part of the buffer, by adding up and
    /// handing out (NVLS; from Hopper on).
    pub nvls_rate: Rate,
    /// Maker of the CPUs: NCCL's tuning model asks for it.
    pub cpu: CpuVendor,
    /// From the start of a collective to its first slice: kernel launch.
    pub launch_latency: Delta,
    /// Added to it for each channel of the collective: the CPU writes work for each, and each is a
    /// thread block to be started.
    pub channel_latency: Delta,
    /// The CPU thread that drives the NIC: from a slice that is ready, or a completion, to its
    /// effect.
    pub proxy_latency: Delta,
    /// NICs can read and write GPU memory (GPUDirect RDMA is installed).
    pub gdr: bool,
    /// After a received slice, before the GPU may read it: the flush that GPUDirect needs.
    pub gdr_flush: Delta,
    /// The way through host memory where GPUDirect is not used.
    pub host_memory: HostMemoryConfig,
    /// TCP sockets, where NCCL uses them.
    pub socket: SocketConfig,
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
            ll: ProtocolLatency::ll(),
            ll128: ProtocolLatency::ll128(),
            nvls_rate: Rate::from_mbps(461_600),
            cpu: CpuVendor::Intel,
            launch_latency: Delta::from_ns(8400),
            channel_latency: Delta::ZERO,
            proxy_latency: Delta::from_us(3),
            gdr: true,
            gdr_flush: Delta::from_us(2),
            host_memory: HostMemoryConfig::default(),
            socket: SocketConfig::default(),
            nic: HostNicConfig::default(),
            nics: Vec::new(),
        }
    }
}

impl HostConfig {
    /// GPUs are joined by NVLink: faster than any PCIe.
    pub fn has_nvlink(&self) -> bool {
        self.gpus > 1 && self.nvlink.rate > Rate::from_gbps(520)
    }

    /// They are joined by an NVSwitch that can add up what they have (NVLink SHARP): from Hopper on.
    pub fn has_nvswitch_sums(&self) -> bool {
        self.architecture >= Architecture::Hopper && self.gpus > 4 && self.has_nvlink()
    }
}

/// What takes the place of `host.slice_latency`, `host.nvlink.latency` and `host.proxy_latency`
/// under LL or LL128. A hop over NVLink takes the first two, one between hosts the first, the last
/// twice, and PCIe: 0.6 and 2.7 us, 1.9 and 4 us, as NCCL's tuning model has it (graph/tuning.cc).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtocolLatency {
    /// A channel's thread block.
    pub slice: Delta,
    /// NVLink.
    pub nvlink: Delta,
    /// The CPU thread that drives the NIC.
    pub proxy: Delta,
    /// Most that the thread block of one channel writes, flags and all; `host.channel_rate` if
    /// absent. NCCL's tuning model has 20 GB/s of data for LL128 on A100, 36.7 on H100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

impl ProtocolLatency {
    fn ll() -> Self {
        let [slice, nvlink, proxy] = [400, 200, 650].map(Delta::from_ns);
        ProtocolLatency { slice, nvlink, proxy, rate: None }
    }

    fn ll128() -> Self {
        let [slice, nvlink, proxy] = [1000, 900, 1000].map(Delta::from_ns);
        ProtocolLatency { slice, nvlink, proxy, rate: None }
    }
}

/// Maker of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuVendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Arm, as NVIDIA Grace.
    Arm,
}

impl CpuVendor {
    /// NCCL_NET_OVERHEAD, of a step that goes to the network, in us.
    pub const fn net_overhead_us(self) -> f64 {
        match self {
            CpuVendor::Amd => 2.0,
            CpuVendor::Intel | CpuVendor::Arm => 1.0,
        }
    }
}

/// Generation of GPUs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// MI100. RCCL searches channels as NCCL does before Hopper; that holds for all of AMD's.
    Cdna,
    /// MI210, MI250X (each of its dies is a GPU).
    Cdna2,
    /// MI300X, MI325X.
    Cdna3,
    /// MI350X, MI355X.
    Cdna4,
    /// V100.
    Volta,
    /// A100.
    Ampere,
    /// H100, H200.
    Hopper,
    /// B200, B300.
    Blackwell,
}

/// `[host.nvlink]`: what joins the GPUs of a server.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NvlinkConfig {
    /// Payload of one GPU, each way: all its links together, to a switch or straight to other GPUs
    /// (NVLink, xGMI), as NCCL's constants give them (graph/topo.h: 20 to 20.6 of 25 GB/s a link);
    /// PCIe's where nothing else joins all GPUs.
    pub rate: Rate,
    /// From the end of a transfer to its visibility at the other GPU.
    pub latency: Delta,
}

impl Default for NvlinkConfig {
    fn default() -> Self {
        NvlinkConfig { rate: Rate::from_gbps(1920), latency: Delta::from_ns(1400) }
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

/// `[host.socket]`: the kernel's TCP under NCCL's socket transport.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SocketConfig {
    /// What the thread of one GPU copies into and out of its sockets, both together.
    pub rate: Rate,
    /// System calls and the kernel's way, at each end of a message.
    pub latency: Delta,
}

impl Default for SocketConfig {
    fn default() -> Self {
        SocketConfig { rate: Rate::from_gbps(32), latency: Delta::from_us(15) }
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
    /// How far each GPU is, by number, as `nvidia-smi topo -m` shows it: instead of `affinity`,
    /// `near` and `far`.
    pub paths: Vec<PathType>,
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
