//! Rings, for all that goes around them.

use std::sync::Arc;

use super::{Joined, Joins, Wires};
use crate::collective::channels::Route;
use crate::collective::job::Pattern;
use crate::error::BuildError;

impl Joins<'_> {
    /// Rings: the ranks host after host, and each joined to the next. With one step for each chunk
    /// where they are pipelines (Broadcast, Reduce).
    pub(in crate::collective) fn rings(&self, pipeline: bool) -> Result<Joined, BuildError> {
        let channels = self.channels(true);
        let routes = self.found.rings(&self.views(), self.setting.nccl, channels);
        let ring = |channel: u32| {
            let within = self.members.iter().zip(&routes).flat_map(|(member, routes)| {
                let gpus = routes[channel as usize].gpus.iter();
                gpus.map(move |gpu| member.first_rank + gpu)
            });
            within.collect()
        };
        let lanes: Vec<Arc<[u32]>> = (0..channels).map(ring).collect();
        self.check_count(u64::from(channels) * self.ranks.len() as u64)?;
        let mut wires = Wires::new(lanes.len(), self.ranks.len());
        for (channel, ring) in (0..).zip(&lanes) {
            let device = |member: usize, of: fn(&Route) -> Option<u32>| {
                of(&routes[member][channel as usize]).unwrap_or(0)
            };
            for (position, from) in (0..).zip(ring.iter()) {
                let next = (position + 1) % ring.len() as u32;
                let to = ring[next as usize];
                let [a, b] = [*from, to].map(|rank| self.member(rank));
                let devices = [device(a, |route| route.leaves), device(b, |route| route.enters)];
                let link = self.link([*from, to], devices, None)?;
                wires.join(channel, [*from, to], [channel; 2], [position, next], link);
            }
        }
        let buffers = match pipeline {
            true => self.protocol.by_steps(self.buffsize()),
            false => self.protocol.on_rings(self.buffsize()),
        };
        let connections = wires.connections;
        Ok(Joined { pattern: Pattern::Ring, channels, lanes, connections, buffers })
    }
}
