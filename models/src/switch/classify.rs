//! From the header of a frame to its egress queue and priority group.

use crate::ids::PRIORITIES;
use crate::packet::Packet;
use crate::switch::bounce::Bounce;
use crate::switch::config::{SwitchQosConfig, Trust};

/// The maps of one ingress port, flattened for look-up.
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier {
    trust: Trust,
    /// By DSCP: queue, priority group.
    by_dscp: [(u8, u8); 64],
    by_pcp: [(u8, u8); PRIORITIES],
    /// Where some frames that come in get another DSCP.
    bounce: Option<Box<Bounce>>,
}

impl Classifier {
    /// The maps that `config` describes; its values are known to be in range.
    pub fn new(config: &SwitchQosConfig) -> Self {
        let places = |tc: u8| {
            let queue = config.tc_to_queue.get(&tc).copied().unwrap_or(tc);
            let pg = config.tc_to_pg.get(&tc).copied().unwrap_or(tc);
            (queue, pg)
        };
        let dscp_tc = |dscp| config.dscp_to_tc.get(&dscp).copied().unwrap_or(0);
        let pcp_tc = |pcp| config.pcp_to_tc.get(&pcp).copied().unwrap_or(pcp);
        Classifier {
            trust: config.trust,
            by_dscp: std::array::from_fn(|dscp| places(dscp_tc(dscp as u8))),
            by_pcp: std::array::from_fn(|pcp| places(pcp_tc(pcp as u8))),
            bounce: None,
        }
    }

    /// The same, where frames turn so.
    pub fn with_bounce(self, bounce: Option<Bounce>) -> Self {
        Classifier { bounce: bounce.map(Box::new), ..self }
    }

    /// True if some frames get another DSCP.
    #[inline]
    pub fn turns(&self) -> bool {
        self.bounce.is_some()
    }

    /// Gives a frame the DSCP and the queue that it has if it leaves by the port with this index.
    #[cold]
    pub fn turn(&self, packet: &mut Packet, out: u16) {
        let Some(bounce) = &self.bounce else { return };
        packet.dscp = bounce.dscp(packet.dscp, out);
        packet.queue = self.of(packet).0;
    }

    /// Egress queue and priority group of a frame.
    #[inline]
    pub fn of(&self, packet: &Packet) -> (u8, u8) {
        self.place(packet.dscp, packet.pcp)
    }

    /// The same for a frame with this DSCP and PCP.
    #[inline]
    pub fn place(&self, dscp: u8, pcp: u8) -> (u8, u8) {
        match self.trust {
            Trust::Dscp => self.by_dscp[usize::from(dscp & 63)],
            Trust::Pcp => self.by_pcp[usize::from(pcp & 7)],
        }
    }
}
