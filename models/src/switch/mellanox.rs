//! The headroom that SONiC computes for NVIDIA's switches (its `buffer_headroom_mellanox.lua`, which
//! the tables of `pg_profile_lookup.ini` follow within 1 KiB):
//!
//! ```text
//! delay  = port MTU + 2 rate x propagation + 2 rate x gearbox + MAC and PHY + peer + rate x tile
//! factor = cell / 64 if cell > 128 else 2 cell / (1 + cell)            cells of smallest frames
//! xoff   = lossless MTU + delay x (100 - s + s factor) / 100           s % of frames are small
//! ```
//!
//! rounded up to 1 KiB. The peer stops after the pause quanta that IEEE 802.3 31B.3.7 allows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta, Rate};

/// Smallest Ethernet frame, in bytes.
const SMALLEST: u64 = 64;

/// Gb/s, and the quanta of 512 bit times after which a port of that rate must have stopped: IEEE
/// 802.3 31B.3.7 as SONiC has it.
const QUANTA: [(u64, u64); 8] =
    [(10, 67), (25, 80), (40, 118), (50, 147), (100, 394), (200, 453), (400, 905), (800, 905)];

/// Which published formula.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Formula {
    /// SONiC's for NVIDIA (Mellanox) Spectrum.
    #[default]
    Mellanox,
}

/// `{ formula = "mellanox" }`: the headroom of SONiC on NVIDIA's switches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MellanoxHeadroom {
    /// The formula's name.
    pub formula: Formula,
    /// MTU of lossless traffic: the frame that passed the limit.
    #[schemars(default)]
    pub lossless_mtu: Bytes,
    /// MTU of the port: the frame that the PFC frame waits for.
    #[schemars(default)]
    pub port_mtu: Bytes,
    /// Percentage of frames that are as small as can be, and so waste most of their cells.
    #[schemars(default, range(min = 0, max = 100))]
    pub small_packets: u8,
    /// Delay of a gearbox between switch and plug; passed twice.
    #[schemars(default)]
    pub gearbox: Delta,
    /// What MAC and PHY hold.
    #[schemars(default)]
    pub mac_phy: Bytes,
    /// What the peer sends until it stops; if absent, the quanta of IEEE 802.3 31B.3.7 at this
    /// rate. Older tables have 3.8 KiB at every rate.
    #[schemars(default)]
    pub peer_response: Option<Bytes>,
    /// Delay between the tiles of the chip (Spectrum-4 and 5: 120 ns).
    #[schemars(default)]
    pub tile: Delta,
}

impl Default for MellanoxHeadroom {
    /// SONiC's values for Spectrum; all frames are small.
    fn default() -> Self {
        MellanoxHeadroom {
            formula: Formula::Mellanox,
            lossless_mtu: Bytes::new(1024),
            port_mtu: Bytes::new(9100),
            small_packets: 100,
            gearbox: Delta::ZERO,
            // 0.8 KiB
            mac_phy: Bytes::new(820),
            peer_response: None,
            tile: Delta::ZERO,
        }
    }
}

impl MellanoxHeadroom {
    /// The keys, as they are written.
    pub(crate) const KEYS: &[&str] = &[
        "formula",
        "lossless_mtu",
        "port_mtu",
        "small_packets",
        "gearbox",
        "mac_phy",
        "peer_response",
        "tile",
    ];

    /// Headroom at a link of this rate and one-way delay, for cells of `cell` bytes; `None` if the
    /// standard has no response time for the rate and `peer_response` gives none.
    pub fn bytes(&self, rate: Rate, delay: Delta, cell: Bytes) -> Option<Bytes> {
        let peer = match self.peer_response {
            Some(bytes) => bytes.get(),
            None => response(rate)?,
        };
        let wire = (delay + self.gearbox) * 2 + self.tile;
        let delayed = self.port_mtu.get() + rate.bytes_in(wire).get() + self.mac_phy.get() + peer;
        // the factor of small frames as a fraction
        let cell = cell.get();
        let (over, under) = match cell {
            cell if cell > 2 * SMALLEST => (cell, SMALLEST),
            cell => (2 * cell, 1 + cell),
        };
        let small = u64::from(self.small_packets.min(100));
        let weighted = u128::from((100 - small) * under + small * over);
        let occupied = (u128::from(delayed) * weighted).div_ceil(u128::from(100 * under));
        let xoff = self.lossless_mtu.get().saturating_add(u64::try_from(occupied).ok()?);
        Some(Bytes::new(xoff.div_ceil(1024).saturating_mul(1024)))
    }
}

/// Bytes that a peer may send before it stops.
fn response(rate: Rate) -> Option<u64> {
    let found = QUANTA.iter().find(|(gbps, _)| Rate::from_gbps(*gbps) == rate);
    found.map(|(_, quanta)| quanta * 512 / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One-way delay of a cable at 198,000 km/s.
    fn cable(metres: u64) -> Delta {
        Delta::from_ps((metres * 1_000_000).div_ceil(198))
    }

    #[test]
    fn spectrum_4_by_hand() {
        let spectrum_4 = MellanoxHeadroom { tile: Delta::from_ns(120), ..Default::default() };
        let at = |gbps, metres| {
            let rate = Rate::from_gbps(gbps);
            spectrum_4.bytes(rate, cable(metres), Bytes::new(192)).unwrap().get()
        };
        // 400 Gb/s, 300 m: 9100 + 2 x 300 m / 1.98e8 x 50 GB/s = 151,515 + 820 + 905 x 64 = 57,920
        // + 120 ns = 6000: 225,355; x 192/64 = 676,065; + 1024 = 677,089 -> 662 KiB
        assert_eq!(at(400, 300), 677_888);
        // 10 Gb/s, 5 m: 9100 + 63 + 820 + 67 x 64 = 4288 + 150 = 14,421; x 3 + 1024 = 44,287
        assert_eq!(at(10, 5), 45_056);
    }

    #[test]
    fn older_tables_have_one_response_for_all_rates() {
        let old = MellanoxHeadroom {
            peer_response: Some(Bytes::new(3892)),
            ..MellanoxHeadroom::default()
        };
        // 100 Gb/s, 300 m: 9100 + 37,878 + 820 + 3892 = 51,690; x 144/64 + 1024 = 117,326.5
        let xoff = old.bytes(Rate::from_gbps(100), cable(300), Bytes::new(144));
        assert_eq!(xoff, Some(Bytes::new(117_760)));
        // cells of 96 B: x 192/97 = 102,314.7 + 1024 = 103,338.7
        let xoff = old.bytes(Rate::from_gbps(100), cable(300), Bytes::new(96));
        assert_eq!(xoff, Some(Bytes::new(103_424)));
        // half of the frames are small: x (100 x 97 + 50 x 95) / 9700 = 77,002.3 + 1024 = 78,026.3
        let half = MellanoxHeadroom { small_packets: 50, ..old };
        let xoff = half.bytes(Rate::from_gbps(100), cable(300), Bytes::new(96));
        assert_eq!(xoff, Some(Bytes::new(78_848)));
    }

    #[test]
    fn a_gearbox_is_passed_twice_and_an_unknown_rate_needs_a_response() {
        let gearbox = MellanoxHeadroom { gearbox: Delta::from_ns(200), ..Default::default() };
        // 100 Gb/s: 9100 + 2 x 200 ns = 5000 + 820 + 394 x 64 = 25,216: 40,136; x 2.25 = 90,306
        // + 1024 = 91,330
        let at = |gbps| gearbox.bytes(Rate::from_gbps(gbps), Delta::ZERO, Bytes::new(144));
        assert_eq!(at(100), Some(Bytes::new(92_160)));
        assert_eq!(at(1600), None);
    }
}
