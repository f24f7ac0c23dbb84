//! The thread blocks of an MSCCL algorithm.

use std::sync::Arc;

use super::{Joined, Joins, Wires};
use crate::collective::job::Pattern;
use crate::collective::msccl::MscclAlgorithm;
use crate::error::BuildError;

impl Joins<'_> {
    /// A lane for each thread block, and a connection for each pair that sends and receives.
    pub(in crate::collective) fn blocks(
        &self,
        algorithm: &Arc<MscclAlgorithm>,
    ) -> Result<Joined, BuildError> {
        let joins = algorithm.joins();
        self.check_count(joins.len() as u64)?;
        let blocks = algorithm.gpus.iter().map(|gpu| gpu.blocks.len()).max().unwrap_or(0);
        let lane = |block: usize| -> Arc<[u32]> {
            let ranks = (0..).zip(&algorithm.gpus);
            ranks.filter(|(_, gpu)| gpu.blocks.len() > block).map(|(rank, _)| rank).collect()
        };
        let lanes: Vec<Arc<[u32]>> = (0..blocks).map(lane).collect();
        let mut wires = Wires::new(blocks, self.ranks.len());
        for join in joins {
            let ([from, to], blocks) = ([join.from.0, join.to.0], [join.from.1, join.to.1]);
            let position = |side: usize| {
                let lane: &[u32] = &lanes[blocks[side] as usize];
                lane.partition_point(|rank| *rank < [from, to][side]) as u32
            };
            let link = self.pair([from, to], join.channel)?;
            wires.join(join.channel, [from, to], blocks, [position(0), position(1)], link);
        }
        Ok(Joined {
            pattern: Pattern::Msccl(algorithm.clone()),
            channels: algorithm.channels,
            lanes,
            connections: wires.connections,
            buffers: self.protocol.on_rings(self.buffsize()),
        })
    }
}
