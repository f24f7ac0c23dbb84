//! Flows that start when others are done.

use crate::traffic::Flow;

/// Which flows wait for which.
#[derive(Clone, Debug, Default)]
pub struct Followers {
    /// By flow: where its followers begin in `flows`; empty if no flow waits for another.
    first: Vec<u32>,
    flows: Vec<u32>,
    /// By flow: how many others it waits for.
    waits_for: Vec<u32>,
}

impl Followers {
    /// Of all flows, by their numbers.
    pub(super) fn new(flows: &[Flow]) -> Self {
        if flows.iter().all(|flow| flow.after.is_empty()) {
            return Followers::default();
        }
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for (follower, flow) in (0..).zip(flows) {
            pairs.extend(flow.after.iter().map(|earlier| (*earlier, follower)));
        }
        pairs.sort_unstable();
        let first =
            (0..=flows.len()).map(|flow| pairs.partition_point(|pair| (pair.0 as usize) < flow));
        Followers {
            first: first.map(|place| place as u32).collect(),
            flows: pairs.iter().map(|pair| pair.1).collect(),
            waits_for: flows.iter().map(|flow| flow.after.len() as u32).collect(),
        }
    }

    /// The flows that wait for this one.
    pub(super) fn of(&self, flow: u32) -> &[u32] {
        match self.first.get(flow as usize..flow as usize + 2) {
            Some(&[from, to]) => &self.flows[from as usize..to as usize],
            _ => &[],
        }
    }

    /// By flow: how many others it waits for; empty if that is 0 for all.
    pub(super) fn waits_for(&self) -> &[u32] {
        &self.waits_for
    }

    /// Whether a flow waits for others before it starts.
    pub fn waits(&self, flow: usize) -> bool {
        self.waits_for.get(flow).is_some_and(|count| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;
    use crate::traffic::Transport;
    use sim_core::Time;

    fn flow(after: &[u32]) -> Flow {
        Flow {
            source: NodeId(0),
            target: NodeId(1),
            bytes: Some(1),
            start: Time::ZERO,
            after: after.into(),
            dscp: None,
            transport: Transport::Rc,
            window: None,
            rate: None,
            source_port: None,
            destination_port: None,
            section: 0,
        }
    }

    #[test]
    fn a_flow_may_wait_for_several_and_be_waited_for_by_several() {
        let flows = [flow(&[]), flow(&[0]), flow(&[0]), flow(&[1, 2])];
        let followers = Followers::new(&flows);
        let of: Vec<_> = (0..4).map(|flow| followers.of(flow)).collect();
        assert_eq!(of, [&[1, 2][..], &[3], &[3], &[]]);
        assert_eq!(followers.waits_for(), [0, 1, 1, 2]);
        assert!(!followers.waits(0) && followers.waits(3));
        let none = Followers::new(&flows[..1]);
        assert!(none.of(0).is_empty() && none.waits_for().is_empty() && !none.waits(0));
    }
}
