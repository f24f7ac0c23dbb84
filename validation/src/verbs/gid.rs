//! GIDs of RoCE ports, as sysfs lists them, and which one to take.

use std::fmt;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

/// An address of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gid(pub [u8; 16]);

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

/// What an entry of the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// RoCEv2, of an IPv4 address.
    RoceV2Ipv4,
    /// RoCEv2, of an IPv6 address that is routed.
    RoceV2Ipv6,
    /// RoCEv2, of a link-local address.
    RoceV2LinkLocal,
    /// RoCEv1: no IP header, and so no DSCP and no ECN.
    RoceV1,
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GidKind::RoceV2Ipv4 => "RoCEv2, IPv4",
            GidKind::RoceV2Ipv6 => "RoCEv2, IPv6",
            GidKind::RoceV2LinkLocal => "RoCEv2, link-local",
            GidKind::RoceV1 => "RoCEv1",
        })
    }
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// Its index.
    pub index: u32,
    /// The GID.
    pub gid: Gid,
    /// What it is.
    pub kind: GidKind,
    /// The network device that it belongs to.
    pub netdev: Option<String>,
}

/// The entries of a port that are not empty (`/sys/class/infiniband/DEVICE/ports/PORT`).
pub(super) fn table(device: &str, port: u8) -> Vec<GidEntry> {
    let folder =
        Path::new("/sys/class/infiniband").join(device).join("ports").join(port.to_string());
    let read = |path: &str| fs::read_to_string(folder.join(path)).ok();
    let entry = |index: u32| {
        let gid: Ipv6Addr = read(&format!("gids/{index}"))?.trim().parse().ok()?;
        // an empty entry has no type
        let kind = read(&format!("gid_attrs/types/{index}"))?;
        let netdev = read(&format!("gid_attrs/ndevs/{index}")).map(|name| name.trim().to_owned());
        let kind = kind_of(kind.trim(), gid);
        Some(GidEntry { index, gid: Gid(gid.octets()), kind, netdev })
    };
    let length = fs::read_dir(folder.join("gids")).map_or(0, Iterator::count);
    (0..length as u32).filter_map(entry).collect()
}

fn kind_of(kind: &str, gid: Ipv6Addr) -> GidKind {
    match kind {
        "RoCE v2" if gid.to_ipv4_mapped().is_some() => GidKind::RoceV2Ipv4,
        "RoCE v2" if gid.segments()[0] & 0xffc0 == 0xfe80 => GidKind::RoceV2LinkLocal,
        "RoCE v2" => GidKind::RoceV2Ipv6,
        _ => GidKind::RoceV1,
    }
}

/// The entry that was asked for, or else the first that is RoCEv2 of an IPv4 address, or of a routed
/// IPv6 address (as NCCL chooses since 2.21).
pub fn choose<'a>(
    device: &str,
    table: &'a [GidEntry],
    index: Option<u32>,
) -> Result<&'a GidEntry, String> {
    let list = || match table.is_empty() {
        true => "its table of GIDs is empty: has its network device an address, and is it up?"
            .to_owned(),
        false => {
            let line = |entry: &GidEntry| {
                let GidEntry { index, gid, kind, netdev } = entry;
                let netdev = netdev.as_deref().unwrap_or("-");
                format!("\n  {index:>3}  {gid}  ({kind}; {netdev})")
            };
            format!("its GIDs are{}", table.iter().map(line).collect::<String>())
        }
    };
    let of = |kind: GidKind| table.iter().find(|entry| entry.kind == kind);
    match index {
        Some(index) => match table.iter().find(|entry| entry.index == index) {
            None => Err(format!("--gid-index {index}: {device} has no such GID; {}", list())),
            Some(entry) if entry.kind == GidKind::RoceV1 => Err(format!(
                "--gid-index {index} of {device} is RoCEv1, which has no DSCP and is not routed; {}",
                list()
            )),
            Some(entry) => Ok(entry),
        },
        None => of(GidKind::RoceV2Ipv4).or_else(|| of(GidKind::RoceV2Ipv6)).ok_or_else(|| {
            format!("{device} has no GID of RoCEv2 with a routed address; {}", list())
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u32, kind: &str, gid: &str) -> GidEntry {
        let gid: Ipv6Addr = gid.parse().unwrap();
        let netdev = Some("eth2".to_owned());
        GidEntry { index, gid: Gid(gid.octets()), kind: kind_of(kind, gid), netdev }
    }

    #[test]
    fn the_ipv4_mapped_one_of_roce_v2_is_taken() {
        // as mlx5 lists them: v1 and v2 of each address
        let table = [
            entry(0, "IB/RoCE v1", "fe80::a00:ff:fe00:1"),
            entry(1, "RoCE v2", "fe80::a00:ff:fe00:1"),
            entry(2, "IB/RoCE v1", "::ffff:10.0.0.1"),
            entry(3, "RoCE v2", "::ffff:10.0.0.1"),
        ];
        assert_eq!(choose("mlx5_0", &table, None).unwrap().index, 3);
        assert_eq!(choose("mlx5_0", &table, Some(1)).unwrap().kind, GidKind::RoceV2LinkLocal);
        let v1 = choose("mlx5_0", &table, Some(2)).unwrap_err();
        assert!(v1.contains("RoCEv1") && v1.contains("\n    3  ::ffff:10.0.0.1"), "{v1}");
        let none = choose("mlx5_0", &table, Some(9)).unwrap_err();
        assert!(none.contains("no such GID"), "{none}");
        assert!(choose("mlx5_0", &table[..2], None).is_err());
        assert!(choose("mlx5_0", &[], None).unwrap_err().contains("is empty"));
    }
}
