//! What CONFIG_DB does not say of a switch, by its ASIC: cells, slices, and what the size of the
//! ingress pool means.

use super::tables::Config;
use crate::import::ImportError;
use crate::load::suggestion;

/// A switch ASIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asic {
    /// Its name here; that of its preset, where there is one.
    pub(super) name: &'static str,
    /// The preset that has its figures.
    pub(super) preset: &'static str,
    /// Bytes of a buffer cell: sonic-mgmt's `qos_params.*.yaml`, SONiC's `asic_table.j2`.
    pub(super) cell: u64,
    /// Independent parts of the buffer, each with its share of ports and pools. Of Tomahawk 3 and
    /// 5 measured, of Tomahawk 1 known, of the others as their kin.
    pub(super) slices: u32,
    pub(super) pool: PoolSize,
    /// Bytes of buffer for packets, where no pool says so.
    pub(super) memory: Option<u64>,
    pub(super) nvidia: Option<Nvidia>,
    /// Gb/s of a port, where neither PORT nor the command line says so.
    pub(super) gbps: u64,
    /// Marking goes by the red thresholds, not by the green ones (Broadcom DNX).
    pub(super) marks_red: bool,
    /// Parts of hardware SKUs and platforms that tell it, in lower case without `-`, `_`.
    names: &'static [&'static str],
}

/// What `size` of the ingress pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolSize {
    /// What groups share.
    Shared,
    /// The whole buffer: headroom, reserves and this many cells a port go off it. Of Tomahawk 3
    /// and 5 it follows from counts of sonic-mgmt to the cell (70: ten lossy queues of 7), of
    /// Trident 3 within 8 cells.
    Whole(u64),
}

/// What SONiC's `buffer_headroom_mellanox.lua` needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nvidia {
    /// KiB: latency of the pipeline, which is `xon`.
    pub(super) pipeline: u64,
    /// Nanoseconds between tiles.
    pub(super) tile: u64,
    /// KiB on top of `xoff`.
    pub(super) extra: u64,
}

const SPECTRUM: Nvidia = Nvidia { pipeline: 19, tile: 0, extra: 0 };

const BROADCOM: Asic = Asic {
    name: "",
    preset: "generic",
    cell: 1,
    slices: 1,
    pool: PoolSize::Shared,
    memory: None,
    nvidia: None,
    gbps: 100,
    marks_red: false,
    names: &[],
};

/// All that are known.
pub(super) const ASICS: &[Asic] = &[
    Asic {
        name: "trident2",
        cell: 208,
        gbps: 40,
        pool: PoolSize::Whole(0),
        names: &["s6000", "7050qx"],
        ..BROADCOM
    },
    Asic {
        name: "trident3",
        preset: "trident3",
        cell: 256,
        pool: PoolSize::Whole(26),
        names: &["7050cx3", "7050sx3", "as7726", "s5232", "s5248", "s5296"],
        ..BROADCOM
    },
    Asic {
        name: "tomahawk",
        cell: 208,
        slices: 4,
        names: &["7060cx", "s6100", "z9100", "as7712"],
        ..BROADCOM
    },
    Asic {
        name: "tomahawk2",
        cell: 208,
        slices: 4,
        names: &["7260cx3", "z9264f", "as7816"],
        ..BROADCOM
    },
    Asic {
        name: "tomahawk3",
        preset: "tomahawk3",
        cell: 254,
        slices: 2,
        pool: PoolSize::Whole(70),
        gbps: 400,
        names: &["z9332f", "7060px4", "7060dx4", "as9716"],
        ..BROADCOM
    },
    Asic {
        name: "tomahawk4",
        preset: "tomahawk4",
        cell: 254,
        slices: 2,
        pool: PoolSize::Whole(70),
        gbps: 400,
        names: &["z9664f", "7060dx5", "7060px5"],
        ..BROADCOM
    },
    Asic {
        name: "tomahawk5",
        preset: "tomahawk5",
        cell: 254,
        slices: 2,
        pool: PoolSize::Whole(70),
        gbps: 400,
        names: &["7060x6", "z9864f", "ixr7220h5", "ds5000"],
        ..BROADCOM
    },
    Asic {
        name: "tomahawk6",
        cell: 420,
        pool: PoolSize::Whole(0),
        gbps: 800,
        names: &["ixr7220h6", "nh4210", "nexthop4210"],
        ..BROADCOM
    },
    Asic {
        name: "jericho2",
        // its thresholds count bytes; 16 of them keep 6 GB within what a plan can count
        cell: 16,
        slices: 2,
        pool: PoolSize::Whole(0),
        marks_red: true,
        names: &["7800r3", "7280cr3"],
        ..BROADCOM
    },
    Asic {
        name: "qumran3d",
        cell: 16,
        slices: 8,
        pool: PoolSize::Whole(0),
        gbps: 400,
        marks_red: true,
        names: &["7280r4", "nh5010"],
        ..BROADCOM
    },
    Asic {
        name: "spectrum",
        cell: 96,
        nvidia: Some(SPECTRUM),
        memory: Some(13_945_824),
        names: &["sn2700", "sn2010", "sn2100", "sn2410", "sn2740", "sn2201"],
        ..BROADCOM
    },
    Asic {
        name: "spectrum-2",
        preset: "spectrum-2",
        cell: 144,
        nvidia: Some(SPECTRUM),
        memory: Some(34_287_552),
        names: &["sn3420", "sn3700", "sn3800"],
        ..BROADCOM
    },
    Asic {
        name: "spectrum-3",
        preset: "spectrum-3",
        cell: 144,
        nvidia: Some(SPECTRUM),
        memory: Some(60_817_392),
        names: &["sn4410", "sn4600", "sn4700", "sn4280", "sn4800"],
        ..BROADCOM
    },
    Asic {
        name: "spectrum-4",
        preset: "spectrum-4",
        cell: 192,
        nvidia: Some(Nvidia { tile: 120, ..SPECTRUM }),
        memory: Some(158_229_504),
        gbps: 400,
        names: &["sn5400", "sn5600", "sn5610"],
        ..BROADCOM
    },
];

impl Asic {
    /// The ASIC of this name, as the command line gives it.
    pub(super) fn named(name: &str) -> Result<&'static Asic, String> {
        let known: Vec<&str> = ASICS.iter().map(|asic| asic.name).collect();
        let found = ASICS.iter().find(|asic| asic.name == name);
        found.ok_or_else(|| format!("there is no ASIC {name:?}{}", suggestion(name, &known)))
    }

    /// The one that a hardware SKU, a platform or a folder is named after.
    fn told_by(text: &str) -> Option<&'static Asic> {
        let plain: String =
            text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let length = |asic: &&Asic| {
            let told = asic.names.iter().filter(|name| plain.contains(**name));
            told.map(|name| name.len()).max()
        };
        ASICS.iter().filter(|asic| length(asic).is_some()).max_by_key(length)
    }

    /// The ASIC of a switch and what told it; `None` if nothing did.
    pub(super) fn of(
        config: &Config,
        named: Option<&str>,
        folder: Option<&str>,
    ) -> Result<Option<(&'static Asic, String)>, ImportError> {
        if let Some(name) = named {
            let asic = Asic::named(name).map_err(|message| ImportError {
                file: "--asic".into(),
                line: None,
                message,
            })?;
            return Ok(Some((asic, format!("--asic {name}"))));
        }
        let metadata = config.get("DEVICE_METADATA", "localhost");
        for field in ["hwsku", "platform"] {
            let text = metadata.and_then(|metadata| metadata.field(field));
            if let Some(asic) = text.and_then(Asic::told_by) {
                let from = format!("DEVICE_METADATA|localhost.{field} {}", text.unwrap_or(""));
                return Ok(Some((asic, from)));
            }
        }
        let told = folder.and_then(|folder| Some((Asic::told_by(folder)?, folder)));
        Ok(told.map(|(asic, folder)| (asic, format!("--sku-tables {folder}"))))
    }

    /// Nanoseconds from the last bit of a frame to its queue, as the presets of the maker have it.
    pub(super) fn latency(&self) -> u64 {
        if self.nvidia.is_some() { 300 } else { 800 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{self, Kind};

    #[test]
    fn presets_and_this_table_agree() {
        for asic in ASICS.iter().filter(|asic| asic.preset != "generic") {
            let preset = library::find(Kind::SwitchPreset, asic.preset).unwrap().text;
            let line = |key: &str| {
                preset.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned()
            };
            assert!(line("cell ").contains(&format!("\"{}B\"", asic.cell)), "{}", asic.name);
            assert!(line("slices ").contains(&format!("= {} ", asic.slices)), "{}", asic.name);
            let latency = format!("\"{}ns\"", asic.latency());
            assert!(line("latency ").contains(&latency), "{}", asic.name);
            if let Some(memory) = asic.memory {
                assert!(line("size ").contains(&format!("\"{memory}B\"")), "{}", asic.name);
            }
        }
    }

    #[test]
    fn skus_are_told_apart() {
        for (sku, asic) in [
            ("Arista-7060X6-64PE-B-O128", "tomahawk5"),
            ("Arista-7060CX-32S-D48C8", "tomahawk"),
            ("Force10-S6100", "tomahawk"),
            ("Arista-7260CX3-D108C8", "tomahawk2"),
            ("DellEMC-Z9332f-O32", "tomahawk3"),
            ("Mellanox-SN4600C-D112C8", "spectrum-3"),
            ("ACS-MSN2700", "spectrum"),
            ("th5_7060x6_64pe_b_O128", "tomahawk5"),
        ] {
            assert_eq!(Asic::told_by(sku).map(|asic| asic.name), Some(asic), "{sku}");
        }
        assert_eq!(Asic::told_by("Seastone-DX010"), None);
    }
}
