//! Another priority after a turn, so that no circle of buffers closes.
//!
//! Frames that go up and then down cannot deadlock. Those that come down and go up again, because a
//! link has failed, can: they get another DSCP there, and with it another lossless priority (Hu et
//! al., *Tagger: Practical PFC Deadlock Prevention in Data Center Networks*, CoNEXT 2017). SONiC does
//! the same for traffic that bounces between two ToRs (`TC_TO_DSCP_MAP`, DSCP 3 to 2 and 4 to 6).
//!
//! The group that such a frame is charged to follows from the DSCP with which it came, its queue
//! from the new one: XOFF upstream stays what it was, and XOFF of the next switch is for the new
//! priority.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SwitchConfig, Trust};
use crate::error::BuildError;
use crate::ids::PortId;
use crate::topology::Topology;

/// `[switch.qos.bounce]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BounceConfig {
    /// DSCP of a frame that turns, to the one that it has from there on. Others keep theirs.
    pub dscp: BTreeMap<u8, u8>,
    /// The turns, as pairs of ports of this switch, in and out: `[[0, 2]]`. If absent, all that lead
    /// down (from a switch that is farther from hosts) and up again.
    pub turns: Option<Vec<[u32; 2]>>,
}

impl BounceConfig {
    /// Ranges of a switch port's map.
    pub(crate) fn check(&self, trust: Trust) -> Result<(), BuildError> {
        let refuse = |key: &str, message: String| {
            Err(BuildError::new(format!("switch.qos.bounce{key}"), message))
        };
        if trust != Trust::Dscp {
            let message = "it changes the DSCP: switch.qos.trust = \"dscp\" is expected";
            return refuse("", message.to_owned());
        }
        if self.dscp.is_empty() {
            return refuse(".dscp", "no DSCP is changed: such as { 26 = 27 } is expected".into());
        }
        let mut dscps = self.dscp.iter().flat_map(|(from, to)| [from, to]);
        if let Some(dscp) = dscps.find(|dscp| **dscp > 63) {
            return refuse(".dscp", format!("{dscp} is out of range: 0 to 63 is expected"));
        }
        Ok(())
    }

    /// Whether the turns name ports that `port`'s switch has.
    pub(crate) fn check_ports(&self, topology: &Topology, port: PortId) -> Result<(), BuildError> {
        let node = topology.port(port).node;
        let count = topology.ports_of(node).count() as u32;
        let turns = (0..).zip(self.turns.iter().flatten());
        for (number, wrong) in turns.flat_map(|(n, turn)| turn.map(|port| (n, port))) {
            if wrong >= count {
                let (name, last) = (&topology.node(node).name, count.saturating_sub(1));
                let message = format!("{name} has no port {wrong}: 0 to {last} is expected");
                let key = format!("switch.qos.bounce.turns[{number}]");
                return Err(BuildError::new(key, message));
            }
        }
        Ok(())
    }
}

/// What becomes of frames that come in by one port, if some turn there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounce {
    /// By DSCP.
    dscp: [u8; 64],
    /// By index of the egress port: whether it is a turn.
    turns: Box<[bool]>,
}

impl Bounce {
    /// That of an ingress port with this configuration; `levels` are those of
    /// [`Topology::levels`].
    pub fn at(
        config: &SwitchConfig,
        topology: &Topology,
        levels: &[u32],
        port: PortId,
    ) -> Option<Self> {
        let bounce = config.qos.bounce.as_ref()?;
        let node = topology.port(port).node;
        let level = |node: crate::ids::NodeId| levels[node.index()];
        let above = |port: PortId| level(topology.neighbour(port)) > level(node);
        let index = topology.index_in_node(port);
        let is_turn = |out: PortId| match &bounce.turns {
            Some(turns) => turns.contains(&[index, topology.index_in_node(out)]),
            None => above(port) && above(out),
        };
        let turns: Box<[bool]> = topology.ports_of(node).map(is_turn).collect();
        let of = |dscp: usize| bounce.dscp.get(&(dscp as u8)).copied().unwrap_or(dscp as u8);
        turns.contains(&true).then(|| Bounce { dscp: std::array::from_fn(of), turns })
    }

    /// The DSCP of a frame after it has left by the port with this index.
    pub fn dscp(&self, dscp: u8, out: u16) -> u8 {
        if self.turns[usize::from(out)] { self.dscp[usize::from(dscp & 63)] } else { dscp }
    }

    /// All DSCPs that frames may get.
    pub fn gives(&self) -> impl Iterator<Item = u8> + '_ {
        (0u8..).zip(self.dscp).filter(|(from, to)| from != to).map(|(_, to)| to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{LeafSpineConfig, LinkConfig, TopologyConfig};
    use sim_core::{Delta, Rate};

    #[test]
    fn only_what_came_down_and_goes_up_turns() {
        let link = LinkConfig { rate: Rate::from_gbps(10), delay: Delta::from_us(1), loss: 0.0 };
        let config = LeafSpineConfig {
            leaves: 2,
            spines: 2,
            hosts_per_leaf: 2,
            link,
            uplink: None,
            uplinks_per_spine: 1,
            ports_per_host: 1,
        };
        let topology = Topology::build(&TopologyConfig::LeafSpine(config)).unwrap();
        let levels = topology.levels();
        let mut switch = SwitchConfig::default();
        let at = |switch: &SwitchConfig, name: &str| {
            Bounce::at(switch, &topology, &levels, topology.find_port(name).unwrap())
        };
        assert_eq!(at(&switch, "leaf0:2"), None, "nothing is configured");
        let dscp = BTreeMap::from([(26, 27)]);
        switch.qos.bounce = Some(BounceConfig { dscp, turns: None });
        // ports 0 and 1 of a leaf lead to hosts, 2 and 3 up; a spine has nobody above it
        for port in ["leaf0:0", "spine0:0"] {
            assert_eq!(at(&switch, port), None, "{port}");
        }
        let bounce = at(&switch, "leaf0:2").unwrap();
        assert_eq!([0, 1, 2, 3].map(|out| bounce.dscp(26, out)), [26, 26, 27, 27]);
        assert_eq!(bounce.dscp(48, 3), 48);
        assert_eq!(bounce.gives().collect::<Vec<_>>(), [27]);
        // by number, any turn
        switch.qos.bounce.as_mut().unwrap().turns = Some(vec![[0, 1]]);
        assert_eq!(at(&switch, "leaf0:2"), None);
        let bounce = at(&switch, "spine0:0").unwrap();
        assert_eq!([0, 1].map(|out| bounce.dscp(26, out)), [26, 27]);
    }
}
