//! Section 4 of the DCQCN paper (SIGCOMM 2015): how high PFC's and ECN's thresholds may be on a
//! switch with 12 MB, 32 ports of 40 Gb/s, 8 lossless priorities and 22.4 KB of headroom for each.

use std::collections::BTreeMap;

use models::size::Size;
use models::switch::{Headroom, Mmu, PortPlan, SwitchConfig, plan_buffer};
use models::wire::{Frames, WireConfig};
use sim_core::{Bytes, Delta, Rate};

use crate::table::{Row, section};

const PORTS: usize = 32;
const PRIORITIES: usize = 8;
const GROUPS: usize = PORTS * PRIORITIES;

/// The paper's switch, counted in bytes, with this limit for each group.
fn mmu(static_th: Option<u64>, dynamic_th: Option<i8>) -> Mmu {
    let mut config = SwitchConfig::default();
    config.pfc.priorities = (0..8).collect();
    config.pfc.headroom = Headroom::Size(Size::bytes(22_400));
    config.buffer.size = Bytes::new(12_000_000);
    config.buffer.pools = BTreeMap::new();
    config.buffer.lossless.static_th = static_th.map(Size::bytes);
    config.buffer.lossless.dynamic_th = dynamic_th;
    let port = PortPlan {
        config: &config,
        rate: Rate::from_gbps(40),
        delay: Delta::ZERO,
        upstream: Delta::ZERO,
        mtu: 1500,
    };
    let frames = Frames::new(&WireConfig::default());
    plan_buffer(&config, &[port; PORTS], &frames).unwrap().mmus.remove(0)
}

/// True if every group can take `bytes` one by one from the shared part.
fn all_reach(bytes: u64) -> bool {
    let mut mmu = mmu(Some(bytes), None);
    (0..GROUPS).all(|group| {
        // one frame as large as a frame may be, and the rest, stand for many small ones
        (0..bytes).all(|_| mmu.charge_ingress(group, 1).is_ok()) && mmu.ingress_use(group).1 == 0
    })
}

/// The largest number for which `holds`, which it does up to there.
fn largest(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low + 1 < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// True if no group sends XOFF while each egress queue holds `ecn` bytes: one ingress group has fed
/// all 32 queues of its priority, the other groups have brought the rest.
fn ecn_before_pfc(ecn: u64, static_th: Option<u64>, dynamic_th: Option<i8>) -> bool {
    let mut mmu = mmu(static_th, dynamic_th);
    let others = (GROUPS * ecn as usize - PORTS * ecn as usize) / (GROUPS - 1);
    let mut fill =
        |group: usize, bytes: usize| (0..bytes).all(|_| mmu.charge_ingress(group, 1) == Ok(false));
    (1..GROUPS).all(|group| fill(group, others)) && fill(0, PORTS * ecn as usize)
}

#[test]
fn thresholds_are_those_of_the_dcqcn_paper() {
    let kilobytes = |value: f64| format!("{value:.3} KB");
    let case = "DCQCN, section 4";
    let pfc = largest(1, 60_000, all_reach);
    let ecn = largest(1, 60_000, |ecn| ecn_before_pfc(ecn, Some(pfc), None));
    // the paper's t_PFC = beta (B - s) / 8 with beta = 8 is alpha = 1
    let dynamic = largest(1, 60_000, |ecn| ecn_before_pfc(ecn, None, Some(0)));
    let shared = |ecn: u64| ecn as f64 / 1000.0;
    let below = format!(
        "{}: t_PFC / 32 queues; 0.85 does not follow from the paper's own numbers",
        kilobytes(shared(ecn))
    );
    let rows = [
        Row::relative([case, "static t_PFC, at most"], 24.47, shared(pfc), kilobytes, 0.01),
        Row::statement(
            [case, "static t_ECN, less than a frame of 1.5 KB"],
            "< 0.85 KB",
            &below,
            ecn < 850,
        ),
        Row::relative(
            [case, "dynamic t_ECN, beta = 8, less than"],
            21.75,
            shared(dynamic),
            kilobytes,
            0.01,
        ),
    ];
    section("thresholds of the DCQCN paper", &rows);
}
