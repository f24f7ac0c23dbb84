//! Collectives as NCCL runs them: what is asked for, which channels it becomes, and the programs and
//! the executor that run it on a host.
//!
//! A collective is a *job* of ranks (GPUs). Each rank runs *lanes*, one a channel or (AllToAll)
//! several: a program of primitives (receive, reduce or copy, send), cut into slices. Lanes are
//! joined by *connections* to those of their *peers*: over NVLink within a host, over QPs between
//! hosts.

mod channels;
mod config;
mod connection;
mod executor;
mod halving_doubling;
mod joins;
mod nccl;
mod p2p;
mod plan;
mod program;
mod ring;

pub use channels::{ChannelPlan, HostView, Route, channels};
pub use config::{AllReduceAlgorithm, CollectiveConfig, DataType, MessageSizes, Op, Step};
pub use connection::{RecvEnd, SendEnd, Striping};
pub use executor::{Executor, LaneInfo, Output, Remote};
pub use halving_doubling::HalvingDoubling;
pub use nccl::{Algorithm, GdrLevel, NcclConfig, Protocol, explain_variable};
pub use p2p::{Leg, PeerToPeer};
pub use plan::{Collective, Connection, Job, Link, Pattern, Rank, Setting, jobs};
pub use program::{Cut, MARKS, Part, Primitive, Program, Steps};
pub use ring::RingAllReduce;
