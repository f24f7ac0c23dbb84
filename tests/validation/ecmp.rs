//! ECMP: balls into bins.

use models::load_balance::{Ecmp, EcmpConfig, FiveTuple};

use crate::table::{Row, section};

/// Connections that fill a link each, links, QPs that each connection is spread over, and the mean
/// of 1 / max(1, load of the fullest link) if every QP chose at random.
const TABLE: [(u32, usize, u32, f64); 10] = [
    (8, 8, 1, 0.413),
    (8, 8, 4, 0.584),
    (8, 8, 8, 0.667),
    (8, 8, 32, 0.797),
    (16, 16, 1, 0.344),
    (16, 16, 4, 0.518),
    (16, 16, 8, 0.608),
    (16, 16, 32, 0.756),
    (16, 32, 1, 0.440),
    (16, 32, 4, 0.761),
];

#[test]
fn ecmp() {
    let rows = TABLE.map(|(connections, links, qps, expected)| {
        let trials = (400_000 / (connections * qps)).min(20_000);
        let sum: f64 = (0..trials).map(|trial| efficiency(connections, links, qps, trial)).sum();
        let case = format!("{connections} connections, {links} links, {qps} QPs each");
        let show = |value| format!("{value:.3}");
        let found = sum / f64::from(trials);
        Row::relative([&case, "rate of the slowest"], expected, found, show, 0.02)
    });
    section("ecmp", &rows);
}

/// One switch with the default hash; addresses and source ports are those of RoCEv2 hosts.
fn efficiency(connections: u32, links: usize, qps: u32, trial: u32) -> f64 {
    let ecmp = Ecmp::new(&EcmpConfig::default(), trial);
    let mut loads = vec![0u32; links];
    for connection in 0..connections {
        for qp in 0..qps {
            // neighbouring QPs have neighbouring ports
            let port = 49152 + (trial * 31 + connection * 101 + qp) % 16384;
            let tuple = FiveTuple {
                source: 0x0a00_0001 + 256 * connection,
                destination: 0x0a01_0001 + 256 * connection,
                source_port: port as u16,
                destination_port: 4791,
            };
            loads[ecmp.choose(&tuple, links)] += 1;
        }
    }
    let fullest = f64::from(loads.into_iter().max().unwrap()) / f64::from(qps);
    1.0 / fullest.max(1.0)
}
