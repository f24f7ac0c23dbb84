//! Collectives as NCCL runs them: what is asked for, which channels it becomes, and the programs and
//! the executor that run it on a host.
//!
//! A collective is a *job* of ranks (GPUs). Each rank runs *lanes*, one a channel or (AllToAll)
//! several: a program of primitives (receive, reduce or copy, send), cut into slices. Lanes are
//! joined by *connections* to those of their *peers*: over NVLink within a host, over QPs between
//! hosts.

mod allowed;
mod blocks;
mod chain;
mod channels;
mod choice;
mod comms;
mod config;
mod connection;
mod executor;
mod halving_doubling;
mod hierarchical;
mod job;
mod joins;
pub mod msccl;
mod nccl;
mod p2p;
mod plan;
mod program;
mod protocol;
mod ring;
mod tree;
mod tuning;

pub use allowed::Allowed;
pub use blocks::{After, BlockSteps, Cuts};
pub use chain::Chain;
pub use channels::{ChannelPlan, Found, HostView, Route};
pub use choice::Choice;
pub use comms::{Called, Calls, comms};
pub use config::{CollectiveAlgorithm, CollectiveConfig, DataType, MessageSizes, Op, Step};
pub use connection::{RecvEnd, SendEnd, Striping};
pub use executor::{
    Executor, LaneInfo, LaneNotes, Noted, Output, Posted, Remote, Span, StepSpan, Way,
};
pub use halving_doubling::HalvingDoubling;
pub use hierarchical::{Across, Hierarchical};
pub use job::{Connection, Job, Link, Pattern, Rank};
pub use joins::Place;
pub use nccl::{GdrLevel, NcclConfig, TunerRule, explain_variable};
pub use p2p::{Leg, PeerToPeer};
pub use plan::{Collective, Setting, jobs};
pub use program::{Cut, MARKS, Part, Peers, Primitive, Program, Steps};
pub use protocol::{Buffers, Protocol};
pub use ring::{Around, Ring};
pub use tree::{Branch, Half, TreeHalf};
pub use tuning::{Algorithm, Candidate, Cluster};
