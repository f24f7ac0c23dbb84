//! A job: the ranks of a collective, their lanes, what joins them, and what each lane does.

use std::sync::Arc;

use sim_core::{Delta, Time};

use super::blocks::{BlockSteps, Cuts};
use super::chain::Chain;
use super::choice::Choice;
use super::comms::Called;
use super::config::{CollectiveConfig, Op};
use super::connection::Striping;
use super::halving_doubling::HalvingDoubling;
use super::hierarchical::{Across, Hierarchical};
use super::joins::Place;
use super::msccl::MscclAlgorithm;
use super::p2p::{Leg, PeerToPeer};
use super::program::{Cut, Part, Program, Steps};
use super::protocol::{Buffers, Protocol};
use super::ring::{Around, Ring};
use super::tree::{Half, TreeHalf};
use crate::ids::{NodeId, PortId};

/// A GPU that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its host.
    pub host: NodeId,
    /// Its number there.
    pub gpu: u32,
}

/// How two lanes are joined.
#[derive(Clone, Debug)]
pub enum Link {
    /// Over NVLink.
    Local,
    /// Over QPs.
    Remote {
        /// The ports by which each QP sends (several for a bond), and the port or ports that it
        /// sends to: the first of them.
        qps: Vec<(Vec<PortId>, PortId)>,
        /// How messages use them.
        striping: Striping,
        /// Ports that they are spread over: so many QPs carry CTS messages back.
        ports: u32,
        /// GPUDirect at the sender and at the receiver.
        gdr: [bool; 2],
        /// Latency of PCIe at the sender and at the receiver.
        pcie_latency: [Delta; 2],
        /// The sender's GPU hands data over NVLink to the one next to the NIC (PXN).
        pxn: bool,
        /// They are no QPs but TCP connections.
        sockets: bool,
    },
}

/// What carries slices from one lane to another.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The channel.
    pub channel: u32,
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// The sender's lane and the receiver's.
    pub lanes: [u32; 2],
    /// Which of those that its lane sends to the receiver is, and which of those that its lane
    /// receives from the sender is.
    pub peers: [u32; 2],
    /// Places of the two ranks on their lanes: see [`Job::lanes`].
    pub positions: [u32; 2],
    /// How.
    pub link: Link,
}

/// Who sends to whom.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// On rings, a lane a channel.
    Ring,
    /// AllReduce on trees: two lanes a channel, upwards and downwards.
    Tree {
        /// By channel and position: what is above and below.
        places: Vec<Vec<Place>>,
    },
    /// AllReduce on trees of the heads of hosts: for each channel and head two lanes.
    NvlsTree {
        /// By pair of lanes and position: what is above and below.
        places: Vec<Vec<Place>>,
        /// Heads of each host.
        heads: u32,
    },
    /// AllReduce within hosts, between them, within them, a lane a channel.
    Hierarchical {
        /// By lane and host: how hosts are joined.
        across: Vec<Vec<Across>>,
        /// GPUs of each host.
        gpus: u32,
    },
    /// AllReduce by halving and doubling, a lane a channel.
    HalvingDoubling,
    /// AllToAll, SendRecv, and one rank that sends to another: pairs of lanes, the first of which
    /// sends.
    PeerToPeer {
        /// What each pair does, and on which channel.
        lines: Vec<(u32, Arc<[Leg]>)>,
    },
    /// A lane for each thread block of an algorithm.
    Msccl(Arc<MscclAlgorithm>),
}

impl Pattern {
    /// What stands in reports for NCCL's algorithm.
    pub fn name(&self) -> &'static str {
        match self {
            Pattern::Ring => "Ring",
            Pattern::Tree { .. } => "Tree",
            Pattern::NvlsTree { .. } => "NVLSTree",
            Pattern::Hierarchical { across, .. } if across[0][0] == Across::Ring => {
                "HierarchicalRing"
            }
            Pattern::Hierarchical { .. } => "HierarchicalTree",
            Pattern::HalvingDoubling => "HalvingDoubling",
            Pattern::PeerToPeer { .. } => "P2P",
            Pattern::Msccl(_) => "MSCCL",
        }
    }
}

/// One collective, planned.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its keys.
    pub config: Arc<CollectiveConfig>,
    /// Elements, as nccl-tests counts them.
    pub count: u64,
    /// Size of the buffer: whole elements, in as many parts as the operation has.
    pub bytes: u64,
    /// Hosts that take part.
    pub nodes: u32,
    /// The GPUs, host by host; hosts, and GPUs of a host, in the order that was asked for.
    pub ranks: Vec<Rank>,
    /// Number of channels.
    pub channels: u32,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// By lane of a rank: the ranks in the order of their positions; of a ring that in which data
    /// passes them.
    pub lanes: Vec<Arc<[u32]>>,
    /// All connections; of rings channel by channel.
    pub connections: Vec<Connection>,
    /// Chunks, slices and slots.
    pub buffers: Buffers,
    /// How it is done, and why so.
    pub choice: Choice,
    /// When it starts.
    pub start: Time,
    /// How much of its programs is run, if not all.
    pub cut: Option<Cut>,
    /// Of a workload: who calls it, and at which sizes.
    pub called: Option<Called>,
}

impl Job {
    /// Repetitions in all, and how many of them are timed.
    pub fn repeats(&self) -> [u32; 2] {
        [self.config.warmup + self.config.iterations, self.config.iterations]
    }

    /// True if data goes around rings.
    pub fn is_ring(&self) -> bool {
        matches!(self.pattern, Pattern::Ring)
    }

    /// The hosts that take part, in the order of their ranks.
    pub fn hosts(&self) -> Vec<NodeId> {
        let mut hosts: Vec<NodeId> = self.ranks.iter().map(|rank| rank.host).collect();
        hosts.dedup();
        hosts
    }

    /// Ranks that run lanes: all but those that an NVSwitch serves.
    pub fn running(&self) -> u32 {
        match &self.pattern {
            Pattern::NvlsTree { heads, .. } => heads * self.nodes,
            Pattern::Msccl(_) => self.lanes.first().map_or(0, |ranks| ranks.len() as u32),
            _ => self.ranks.len() as u32,
        }
    }

    /// The thread block of a lane, among those of its rank: that of its channel. Those that send
    /// and those that receive point to point have one each.
    pub fn block(&self, lane: u32) -> u32 {
        match &self.pattern {
            Pattern::Ring | Pattern::HalvingDoubling | Pattern::Hierarchical { .. } => lane,
            Pattern::Msccl(_) => lane,
            Pattern::Tree { .. } => lane / 2,
            Pattern::NvlsTree { heads, .. } => lane / (2 * heads),
            Pattern::PeerToPeer { lines } => lines[lane as usize / 2].0 * 2 + lane % 2,
        }
    }

    /// Groups of warps of a channel: of SENDs and of RECVs, which run side by side; all other lanes
    /// of a channel share all of it.
    pub fn groups(&self) -> u32 {
        if matches!(self.pattern, Pattern::PeerToPeer { .. }) { 2 } else { 1 }
    }

    /// Thread blocks of a rank.
    pub fn blocks(&self) -> u32 {
        match self.pattern {
            Pattern::Msccl(_) => self.lanes.len() as u32,
            _ => self.groups() * self.channels,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        self.choice.protocol
    }

    /// The program of the rank at `position` of a lane.
    pub fn program(&self, lane: u32, position: u32) -> Program {
        let ranks = self.ranks.len() as u32;
        let Buffers { chunk, slices, .. } = self.buffers;
        let half = |places: &[Vec<Place>], part, nvls| {
            let Place { parent, children } = places[lane as usize / 2][position as usize];
            let half = match (parent, lane % 2) {
                (true, 0) => Half::Up,
                (true, _) => Half::Down,
                (false, _) => Half::Root,
            };
            // a root does all on its first lane
            let part = if half == Half::Root && lane % 2 == 1 { Part::default() } else { part };
            Steps::Tree(TreeHalf { half, children, part, chunk, nvls })
        };
        let steps = match &self.pattern {
            Pattern::Ring => self.around(lane, position),
            Pattern::Tree { places } => half(places, self.share(lane / 2), false),
            Pattern::NvlsTree { places, heads } => {
                let (channel, head) = (lane / 2 / heads, lane / 2 % heads);
                let part = cut(self.share(channel), u64::from(head), u64::from(*heads));
                half(places, part, true)
            }
            Pattern::Hierarchical { across, gpus } => {
                let (host, gpu) = (position / gpus, position % gpus);
                Steps::Hierarchical(Hierarchical {
                    gpu,
                    gpus: *gpus,
                    host,
                    hosts: self.nodes,
                    across: across[lane as usize][host as usize],
                    part: self.share(lane),
                    chunk,
                    slices,
                })
            }
            Pattern::HalvingDoubling => Steps::HalvingDoubling(HalvingDoubling {
                rank: position,
                rounds: ranks.trailing_zeros(),
                part: self.share(lane),
                chunk,
                slices,
            }),
            Pattern::PeerToPeer { lines } => Steps::PeerToPeer(PeerToPeer {
                sends: lane.is_multiple_of(2),
                legs: lines[lane as usize / 2].1.clone(),
                chunk,
            }),
            Pattern::Msccl(algorithm) => {
                let cuts = Cuts::new(self.bytes, algorithm.chunks, chunk, slices);
                let rank = self.lanes[lane as usize][position as usize];
                Steps::Block(BlockSteps::new(algorithm, rank, lane, cuts))
            }
        };
        Program::new(steps, self.cut)
    }

    /// What goes around a ring.
    fn around(&self, lane: u32, position: u32) -> Steps {
        let ring = &self.lanes[lane as usize];
        let ranks = ring.len() as u32;
        let Buffers { chunk, slices, .. } = self.buffers;
        let part = self.share(lane);
        let of_rank = || (ring.clone(), self.bytes / u64::from(ranks));
        let around = match self.config.op {
            Op::AllGather => {
                let (order, size) = of_rank();
                Around::AllGather(order, size)
            }
            Op::ReduceScatter => {
                let (order, size) = of_rank();
                Around::ReduceScatter(order, size)
            }
            op @ (Op::Broadcast | Op::Reduce) => {
                let reduces = op == Op::Reduce;
                let root = ring.iter().position(|rank| *rank == self.config.root).unwrap_or(0);
                let before = Chain::place(reduces, position, root as u32, ranks);
                return Steps::Chain(Chain { reduces, before, ranks, part, chunk });
            }
            Op::AllReduce | Op::AllToAll | Op::SendRecv | Op::Send | Op::Custom => {
                Around::AllReduce
            }
        };
        Steps::Ring(Ring { around, index: position, ranks, part, chunk, slices })
    }

    /// What a channel does of the buffer, or of the part of each rank.
    fn share(&self, channel: u32) -> Part {
        let parts = match self.config.op {
            op @ (Op::AllGather | Op::ReduceScatter) => op.parts(self.ranks.len() as u32),
            _ => 1,
        };
        let whole = Part { offset: 0, bytes: self.bytes / parts };
        cut(whole, u64::from(channel), u64::from(self.channels))
    }

    /// What a connection carries in one repetition, in bytes on the wire and in slices; of rings the
    /// bytes are the mean.
    pub fn load(&self, connection: &Connection) -> (f64, f64) {
        let [sends, receives] = connection.peers;
        let receiver = self.program(connection.lanes[1], connection.positions[1]);
        let slices = receiver.receives(receives) as f64;
        let bytes = match &self.pattern {
            Pattern::Ring => {
                let factor = self.config.op.bus_factor(self.ranks.len() as u32);
                self.bytes as f64 * factor / f64::from(self.channels)
            }
            _ => {
                let sender = self.program(connection.lanes[0], connection.positions[0]);
                sender.sent_to(sends) as f64
            }
        };
        (bytes / self.protocol().efficiency(), slices)
    }
}

/// Piece `number` of `count` equal ones, in units of 16 B.
fn cut(part: Part, number: u64, count: u64) -> Part {
    let units = part.bytes.div_ceil(16);
    let at = |number: u64| {
        let share = u128::from(units) * u128::from(number) / u128::from(count);
        (share as u64 * 16).min(part.bytes)
    };
    let (from, to) = (at(number), at(number + 1));
    Part { offset: part.offset + from, bytes: to - from }
}
