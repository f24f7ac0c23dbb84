//! What a switch remembers of flows, in a table of fixed size like that of an ASIC.

use sim_core::Time;

/// Entries, as CONGA's ASIC has them. Flows whose numbers differ by this share one.
const ENTRIES: u32 = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Entry {
    flow: u32,
    port: u16,
    last: Time,
}

/// By flow: the port that it took, and when.
#[derive(Clone, Debug, Default)]
pub struct FlowTable {
    entries: Vec<Option<Entry>>,
}

impl FlowTable {
    /// The port of a flow, and when it was last taken.
    pub fn get(&self, flow: u32) -> Option<(u16, Time)> {
        let entry = self.entries.get((flow % ENTRIES) as usize).copied().flatten();
        entry.filter(|entry| entry.flow == flow).map(|entry| (entry.port, entry.last))
    }

    /// A flow takes this port.
    pub fn set(&mut self, flow: u32, port: u16, last: Time) {
        let place = (flow % ENTRIES) as usize;
        if self.entries.len() <= place {
            self.entries.resize(place + 1, None);
        }
        self.entries[place] = Some(Entry { flow, port, last });
    }
}
