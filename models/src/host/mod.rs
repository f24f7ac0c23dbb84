//! A server: GPUs, what joins them (NVLink), and its NICs with the PCIe between.

mod config;
mod devices;

pub use config::{
    Architecture, CpuVendor, HostConfig, HostMemoryConfig, HostNic, HostNicConfig,
    LagPortSelectMode, NicMode, NvlinkConfig, PathType, PcieConfig, ProtocolLatency, SocketConfig,
};
pub use devices::{Device, HcaFilter, NicPlan, devices, nics};
