//! Collectives as NCCL runs them: what is asked for, which rings and channels it becomes, and the
//! programs and the executor that run it on a host.
//!
//! A collective is a *job* of ranks (GPUs). Each rank runs one *lane* a channel: a program of
//! primitives (receive, reduce or copy, send), cut into slices. Lanes are joined by *connections*:
//! over NVLink within a host, over QPs between hosts.

mod channels;
mod config;
mod connection;
mod executor;
mod nccl;
mod plan;
mod program;
mod ring;

pub use channels::{ChannelPlan, HostView, Route, channels};
pub use config::{CollectiveConfig, DataType, MessageSizes, Op, Step};
pub use connection::{RecvEnd, SendEnd, Striping};
pub use executor::{Executor, LaneInfo, Output, Remote};
pub use nccl::{Algorithm, GdrLevel, NcclConfig, Protocol, explain_variable};
pub use plan::{Collective, Connection, Job, Link, Rank, Setting, jobs};
pub use program::{Cut, MARKS, Primitive, Program, Steps};
pub use ring::RingAllReduce;
