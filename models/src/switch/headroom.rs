//! How much may still arrive after a switch has decided to send XOFF.
//!
//! Upstream goes on sending at line rate `r` until the pause takes effect there, and what is on the
//! cable then still arrives:
//!
//! ```text
//! wire bytes = r x (2 x propagation + latency here + latency and response time there)
//!            + the frame that this port is sending, which the PFC frame waits for
//!            + a PFC frame for each lossless priority, since those of others may go first
//!            + the frame that upstream has begun when the pause takes effect
//! ```
//!
//! Small frames waste cells, so these wire bytes may fill more buffer than their number: the
//! expansion is the largest ratio of cell-rounded buffer bytes to wire bytes of the frames that the
//! class carries. The frame that passed the limit, which is charged to headroom too, comes on top.

use sim_core::{Bytes, Delta, Rate};

use crate::wire::Frames;

/// What the headroom of one port depends on.
#[derive(Clone, Copy, Debug)]
pub struct HeadroomInput {
    /// Rate of the link.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Delta,
    /// Latency of the switch itself, before its buffer.
    pub latency: Delta,
    /// Latency and response time of the device upstream.
    pub upstream: Delta,
    /// Largest payload that is sent here.
    pub mtu: u16,
    /// Smallest buffer length that the class carries.
    pub smallest: u16,
    /// Bytes of a buffer cell.
    pub cell: Bytes,
    /// Lossless priorities of the port.
    pub priorities: u64,
}

/// What headroom is made of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadroomTerms {
    /// On the cable, there and back: 2 x propagation x rate.
    pub cable: u64,
    /// Latency here, latency and response time there, x rate.
    pub response: u64,
    /// The largest frame that this port is sending, which the PFC frame waits for.
    pub sending: u64,
    /// PFC frames.
    pub pfc: u64,
    /// The largest frame that upstream has begun.
    pub begun: u64,
    /// What all of it takes in cells beyond its bytes on the wire, a frame begun included; less than
    /// nothing where gaps outweigh that.
    pub cells: i64,
    /// The frame that passed the limit.
    pub over: u64,
    /// The sum if all frames are as large as they can be: small ones waste cells.
    pub full_frames: u64,
}

impl HeadroomTerms {
    /// The terms of one port.
    pub fn new(input: &HeadroomInput, frames: &Frames) -> Self {
        let largest = frames.largest(input.mtu);
        let cell = input.cell.get();
        let cells = |len: u16| u64::from(len).div_ceil(cell);
        let flight = input.delay * 2 + input.latency + input.upstream;
        let in_flight = input.rate.bytes_in(flight).get() + 1;
        let cable = input.rate.bytes_in(input.delay * 2).get().min(in_flight);
        let frame = frames.wire_len(largest);
        let pfc = input.priorities * frames.wire_len(frames.pfc);
        let wire = in_flight + 2 * frame + pfc;
        // cells x wire / wire_len(frame), for the worst frame; and one more for a frame begun
        let expanded = |len: u16| (wire * cells(len)).div_ceil(frames.wire_len(len)) + cells(len);
        let [short, long] = one_byte_over(input.smallest, largest, cell);
        let worst = [input.smallest, short, long, largest].map(expanded).into_iter().max();
        let filled = worst.unwrap_or(0) * cell;
        HeadroomTerms {
            cable,
            response: in_flight - cable,
            sending: frame,
            pfc,
            begun: frame,
            cells: filled as i64 - wire as i64,
            over: cells(largest) * cell,
            full_frames: (expanded(largest) + cells(largest)) * cell,
        }
    }

    /// Their sum: whole cells.
    pub fn total(&self) -> u64 {
        let HeadroomTerms { cable, response, sending, pfc, begun, cells, over, .. } = *self;
        (cable + response + sending + pfc + begun + over).saturating_add_signed(cells)
    }
}

/// Headroom in cells.
pub fn auto_cells(input: &HeadroomInput, frames: &Frames) -> u64 {
    HeadroomTerms::new(input, frames).total() / input.cell.get()
}

/// The frames between `smallest` and `largest` that are one byte longer than whole cells, the first
/// and the last of them: between two such lengths the expansion falls.
fn one_byte_over(smallest: u16, largest: u16, cell: u64) -> [u16; 2] {
    let (smallest, largest) = (u64::from(smallest), u64::from(largest));
    let short = smallest.saturating_sub(1).div_ceil(cell) * cell + 1;
    let long = largest.saturating_sub(1) / cell * cell + 1;
    [short, long].map(|len| len.clamp(1, largest) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WireConfig;

    #[test]
    fn by_hand_at_100g_and_40_m() {
        let frames = Frames::new(&WireConfig::default());
        let input = HeadroomInput {
            rate: Rate::from_gbps(100),
            delay: Delta::from_ns(200),
            latency: Delta::ZERO,
            upstream: Delta::from_ns(500),
            mtu: 4096,
            smallest: 4174,
            cell: Bytes::new(1),
            priorities: 1,
        };
        // in flight: 100 Gb/s x 900 ns = 11,250 (+1); frames 2 x 4194; PFC 84: 19,723 wire bytes;
        // x 4174/4194 = 19,628.9 -> 19,629, + a frame begun 4174 + the frame over the limit 4174
        assert_eq!(auto_cells(&input, &frames), 27_977);
        let terms = HeadroomTerms::new(&input, &frames);
        let HeadroomTerms { cable, response, sending, pfc, begun, cells, over, full_frames } =
            terms;
        assert_eq!(full_frames, 27_977, "of one size");
        // 5000 B in 400 ns of cable; the frame begun is 4174 in the buffer, less 94 of gaps
        assert_eq!((cable, response, sending, pfc), (5000, 6251, 4194, 84));
        assert_eq!((begun, cells, over), (4194, 4080, 4174));
        // 66 B frames in 254 B cells: 19,723 / 86 = 229.3 -> 230 cells, + 1, + 17 for 4174 B
        let cells = HeadroomInput { cell: Bytes::new(254), smallest: 66, ..input };
        assert_eq!(auto_cells(&cells, &frames), 248);
        // in 144 B cells the worst frame is the shortest that needs two: 145 B, 288 for 165 on the
        // wire (66 B: 144 for 86). 19,723 x 2 / 165 = 239.07 -> 240, + 2, + 29 for 4174 B
        let cells = HeadroomInput { cell: Bytes::new(144), smallest: 66, ..input };
        assert_eq!(auto_cells(&cells, &frames), 271);
    }
}
