//! Static placement: a flow takes the port that has the fewest flows when its first packet comes, and
//! keeps it, as switches do that place RDMA queue pairs by themselves.

use super::{Asked, FlowTable};

/// The state of one switch.
#[derive(Clone, Debug)]
pub struct Pinned {
    flows: FlowTable,
    /// By port: the flows that it has.
    count: Vec<u32>,
}

impl Pinned {
    /// A switch with so many ports, and without flows.
    pub fn new(ports: usize) -> Self {
        Pinned { flows: FlowTable::default(), count: vec![0; ports] }
    }

    /// The port of a packet.
    pub fn choose(&mut self, asked: &Asked<'_>) -> u16 {
        let known = self.flows.get(asked.flow).filter(|(port, _)| asked.hops.contains(port));
        if let Some((port, _)) = known {
            return port;
        }
        let fewest = |hop: &&u16| self.count[usize::from(**hop)];
        let port = asked.hops.iter().min_by_key(fewest).copied().unwrap_or(asked.hops[0]);
        self.count[usize::from(port)] += 1;
        self.flows.set(asked.flow, port, asked.now);
        port
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::asked;
    use super::*;

    #[test]
    fn flows_are_spread_evenly_and_stay() {
        let mut pinned = Pinned::new(8);
        let mut port = |flow| pinned.choose(&asked(0, flow, &[4, 5, 6]));
        assert_eq!([1, 2, 3, 4, 1, 2].map(&mut port), [4, 5, 6, 4, 4, 5]);
    }
}
