//! The scenario as TOML, its flows as CSV.

use models::topology::{LinkConfig, TopologyConfig};

use super::HtsimOptions;
use super::matrix::Matrix;
use super::order::Waits;
use crate::import::text::exact;

/// The payload of the preset `htsim`.
const PRESET_MTU: u16 = 4096;
/// XOFF above so many packets of payload, and XON below.
const XOFF_PACKETS: u32 = 15;
const XON_PACKETS: u32 = 12;

/// The size as htsim sends it.
pub(super) fn whole_packets(bytes: u64, mtu: u16) -> u64 {
    bytes.next_multiple_of(u64::from(mtu))
}

/// The whole scenario.
pub(super) fn to_toml(
    title: &str,
    topology: &TopologyConfig,
    options: &HtsimOptions,
    is_sorted: bool,
    flows_file: &str,
) -> String {
    let mtu = options.mtu;
    let mut out = format!(
        "# Imported from a connection matrix of htsim.\n\
         # Sizes of flows are rounded up to whole packets of {mtu} bytes, as htsim sends them.\n"
    );
    if !is_sorted {
        out += "# Flows stand in another order than there: each follows those that it waits for.\n";
    }
    out += &format!("title = {}\npreset = \"htsim\"\n", toml::Value::from(title));
    out += &format!("\n[topology]\n{}", shape(topology));
    if mtu != PRESET_MTU {
        let xoff = u32::from(mtu) * XOFF_PACKETS + 1;
        let xon = u32::from(mtu) * XON_PACKETS - 1;
        out += &format!(
            "\n# XOFF above {XOFF_PACKETS} packets of payload at an ingress, XON below {XON_PACKETS}\n\
             [switch.buffer.lossless]\nstatic_th = \"{xoff}B\"\nxon = \"{xon}B\"\n\
             xon_offset = \"{xoff}B\"\n\n[nic]\nmtu = {mtu}\n"
        );
    }
    out += &format!(
        "\n[[traffic]]\nname = \"flows\"\nkind = \"flows\"\nfile = {}\n",
        toml::Value::from(flows_file)
    );
    out
}

fn shape(topology: &TopologyConfig) -> String {
    let cable = |link: &LinkConfig| {
        let (rate, delay) = (exact(link.rate), exact(link.delay));
        format!("link = {{ rate = \"{rate}\", delay = \"{delay}\" }}\n")
    };
    match topology {
        TopologyConfig::FatTree(tree) => {
            format!("kind = \"fat-tree\"\nk = {}\n{}", tree.k, cable(&tree.link))
        }
        TopologyConfig::LeafSpine(clos) => {
            let (leaves, spines, hosts) = (clos.leaves, clos.spines, clos.hosts_per_leaf);
            format!(
                "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
                 hosts_per_leaf = {hosts}\n{}",
                cable(&clos.link)
            )
        }
        TopologyConfig::Star(star) => {
            format!("kind = \"star\"\nhosts = {}\n{}", star.hosts, cable(&star.link))
        }
        _ => unreachable!("no matrix makes another shape"),
    }
}

/// The flows in this order; `after` counts them from 0.
pub(super) fn to_csv(matrix: &Matrix, waits: &Waits, order: &[u32], mtu: u16) -> String {
    let mut place = vec![0; order.len()];
    for (number, flow) in order.iter().enumerate() {
        place[*flow as usize] = number;
    }
    let waiting = waits.iter().any(|others| !others.is_empty());
    let mut csv = "source,target,bytes,start".to_owned();
    csv += if waiting { ",after\n" } else { "\n" };
    for number in order {
        let flow = &matrix.flows[*number as usize];
        let bytes = whole_packets(flow.bytes, mtu);
        csv += &format!("{},{},{bytes}B,{}ps", flow.source, flow.target, flow.start);
        if waiting {
            let mut after: Vec<usize> =
                waits[*number as usize].iter().map(|other| place[*other as usize]).collect();
            after.sort_unstable();
            let after: Vec<String> = after.iter().map(usize::to_string).collect();
            csv += &format!(",{}", after.join(" "));
        }
        csv.push('\n');
    }
    csv
}
