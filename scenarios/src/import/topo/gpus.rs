//! What is known of GPUs by their names, PCI identifiers and generations, and the rates of PCIe.

use sim_core::Rate;

/// A GPU that can be told by its PCI identifier, or named by the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Model {
    /// As the option `--gpu` takes it.
    pub(super) name: &'static str,
    /// As tables show it.
    pub(super) gpu: &'static str,
    /// `host.architecture`
    pub(super) architecture: &'static str,
    /// The preset that has what files do not say.
    pub(super) preset: &'static str,
    /// Links to other GPUs (NVLink, xGMI) that it has, 0 for none.
    pub(super) links: u32,
    /// Of one link, each way, in Mb/s.
    pub(super) link_mbps: u64,
    /// It hangs on a Grace CPU, through which it reaches its NICs.
    pub(super) grace: bool,
    /// PCI vendor and devices.
    vendor: u16,
    devices: &'static [u16],
}

const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;

#[rustfmt::skip]
macro_rules! models {
    ($($name:literal $gpu:literal $arch:literal $preset:literal $links:literal x $rate:literal
       grace $grace:literal $vendor:ident $devices:expr;)+) => {
        /// All models. Payload of links: NCCL's constants (graph/topo.h: NVLink 2 and 3 20 GB/s, 4 20.6,
        /// 5 40.1); data sheets (xGMI of MI100 46, MI250X 50, MI300X 64, MI355X 76.8).
        pub(super) const MODELS: &[Model] = &[$(Model {
            name: $name, gpu: $gpu, architecture: $arch, preset: $preset, links: $links,
            link_mbps: $rate, grace: $grace, vendor: $vendor, devices: &$devices,
        }),+];
    };
}

models! {
    "v100" "Tesla V100-SXM2" "volta" "dgx-1" 6 x 160_000 grace false
        NVIDIA [0x1db1, 0x1db3, 0x1db5, 0x1db8];
    "v100-pcie" "Tesla V100-PCIE" "volta" "dgx-1" 0 x 160_000 grace false NVIDIA [0x1db4, 0x1db6];
    "a10g" "NVIDIA A10G" "ampere" "generic" 0 x 160_000 grace false NVIDIA [0x2236, 0x2237];
    "a100" "NVIDIA A100-SXM4" "ampere" "dgx-a100" 12 x 160_000 grace false
        NVIDIA [0x20b0, 0x20b2, 0x20b3, 0x20bd];
    "a100-pcie" "NVIDIA A100-PCIE" "ampere" "dgx-a100" 12 x 160_000 grace false
        NVIDIA [0x20b5, 0x20f1, 0x20b1];
    "h100" "NVIDIA H100 80GB HBM3" "hopper" "hgx-h100" 18 x 164_800 grace false
        NVIDIA [0x2330, 0x2324, 0x2329, 0x2339];
    "h100-pcie" "NVIDIA H100 PCIe" "hopper" "hgx-h100" 12 x 164_800 grace false NVIDIA [0x2331, 0x2321];
    "h200" "NVIDIA H200" "hopper" "hgx-h200" 18 x 164_800 grace false NVIDIA [0x2335];
    "b200" "NVIDIA B200" "blackwell" "hgx-b200" 18 x 320_800 grace false NVIDIA [0x2901];
    "b300" "NVIDIA B300 SXM6 AC" "blackwell" "hgx-b300" 18 x 320_800 grace false NVIDIA [0x3182];
    "gb200" "NVIDIA GB200" "blackwell" "hgx-b200" 18 x 320_800 grace true NVIDIA [0x2941];
    "gb300" "NVIDIA GB300" "blackwell" "hgx-b300" 18 x 320_800 grace true NVIDIA [0x31c2];
    "mi100" "AMD Instinct MI100" "cdna" "generic" 3 x 368_000 grace false AMD [0x738c];
    "mi250x" "AMD Instinct MI250X" "cdna2" "generic" 8 x 400_000 grace false
        AMD [0x7408, 0x740c, 0x740f];
    "mi300x" "AMD Instinct MI300X" "cdna3" "mi300x" 7 x 512_000 grace false
        AMD [0x74a1, 0x74a5, 0x74b5];
    "mi355x" "AMD Instinct MI355X" "cdna4" "mi355x" 7 x 614_400 grace false AMD [0x75a0, 0x75a3];
}

/// Payload of a link of GPUs that nobody names: NVLink 2 or 3.
pub(super) const LINK_MBPS: u64 = 160_000;

/// The model of this name.
pub(super) fn named(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}

/// The model of this PCI vendor and device.
pub(super) fn of_ids(vendor: u16, device: u16) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.vendor == vendor && model.devices.contains(&device))
}

/// The generation, the rate of a link in Mb/s, and the preset, by CUDA's compute capability.
pub(super) fn of_sm(sm: u32) -> Option<(&'static str, u64, &'static str)> {
    match sm {
        70 | 72 => Some(("volta", 160_000, "dgx-1")),
        75 => Some(("volta", 160_000, "generic")),
        80 => Some(("ampere", 160_000, "dgx-a100")),
        86..=89 => Some(("ampere", 160_000, "generic")),
        90 => Some(("hopper", 164_800, "hgx-h100")),
        100 => Some(("blackwell", 320_800, "hgx-b200")),
        103 => Some(("blackwell", 320_800, "hgx-b300")),
        101..=121 => Some(("blackwell", 320_800, "generic")),
        _ => None,
    }
}

/// The same by AMD's gfx number as RCCL writes it: 908, 910 (gfx90a), 942, 950.
pub(super) fn of_gcn(gcn: u32) -> Option<(&'static str, u64, &'static str)> {
    let name = match gcn {
        908 => "mi100",
        910 => "mi250x",
        940..=942 => "mi300x",
        950 => "mi355x",
        _ => return None,
    };
    named(name).map(|model| (model.architecture, model.link_mbps, model.preset))
}

/// A PCIe link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PcieLink {
    /// 1 to 6.
    pub(super) generation: u32,
    pub(super) width: u32,
}

impl PcieLink {
    /// What NCCL takes where a file does not say (graph/topo.cc: 16 lanes of 60 x 100 Mb/s).
    pub(super) const UNKNOWN: PcieLink = PcieLink { generation: 3, width: 16 };

    /// From `16 GT/s` or `32.0 GT/s PCIe`, and the number of lanes; `None` where either is unknown.
    pub(super) fn new(speed: &str, width: u32) -> Option<Self> {
        let speed = speed.trim().split_once("GT/s").map_or("", |(number, _)| number.trim());
        let generation = match speed.trim_end_matches(".0") {
            "2.5" => 1,
            "5" => 2,
            "8" => 3,
            "16" => 4,
            "32" => 5,
            "64" => 6,
            _ => return None,
        };
        (1..=32).contains(&width).then_some(PcieLink { generation, width })
    }

    /// Payload that passes each way: symbols less coding (8b/10b, 128b/130b, flits of 236 of 256 B),
    /// TLPs of 256 B with their headers, and flow control; the figures of the presets.
    pub(super) fn payload(self) -> Rate {
        let mbps_of_lane = match self.generation {
            1 => 1620,
            2 => 3240,
            3 => 6312,
            4 => 12_750,
            5 => 25_500,
            _ => 54_700,
        };
        // to the Gbps, as presets have it
        let gbps = (mbps_of_lane * u64::from(self.width) + 500) / 1000;
        Rate::from_gbps(gbps.max(1))
    }
}

impl std::fmt::Display for PcieLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gen{} x{}", self.generation, self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_pcie_are_those_of_the_presets() {
        let link = |speed, width| PcieLink::new(speed, width);
        let gen4 = link("16.0 GT/s PCIe", 16).unwrap();
        assert_eq!(
            (gen4.to_string(), gen4.payload()),
            ("Gen4 x16".to_owned(), Rate::from_gbps(204))
        );
        assert_eq!(PcieLink::UNKNOWN.payload(), Rate::from_gbps(101));
        assert_eq!(link("32 GT/s", 16).unwrap().payload(), Rate::from_gbps(408));
        assert_eq!(link("2.5 GT/s PCIe", 1).unwrap().payload(), Rate::from_gbps(2));
        assert_eq!(link("64.0 GT/s PCIe", 16).unwrap().payload(), Rate::from_gbps(875));
        assert_eq!((link("", 16), link("Unknown", 16), link("16 GT/s", 0)), (None, None, None));
    }

    #[test]
    fn gpus_are_told_by_their_numbers() {
        assert_eq!(of_ids(0x10de, 0x2330).map(|model| model.name), Some("h100"));
        assert_eq!(of_ids(0x1002, 0x2330), None);
        assert_eq!(of_gcn(910), Some(("cdna2", 400_000, "generic")));
        let presets = crate::library::names(crate::library::Kind::HostPreset);
        for model in MODELS {
            assert!(presets.contains(&model.preset), "{}", model.name);
            assert_eq!(named(model.name), Some(model));
        }
    }
}
