//! The model of a RoCEv2 fabric: what is simulated, without files or a command line.
//!
//! - [`topology`], [`routing`]: the graph, and the next hops on it
//! - [`packet`], [`wire`]: frames, their lengths and times
//! - [`link`], [`port`], [`scheduler`], [`pfc`]: cables, queues, who sends next, who pauses
//! - [`switch`]: shared buffer (MMU), headroom, ECN marking, classification
//! - [`load_balance`]: choice among next hops
//! - [`nic`], [`congestion`]: reliable connections, pacing, CNPs, DCQCN
//! - [`traffic`]: what is sent
//! - [`host`], [`collective`]: servers with GPUs, and what NCCL runs on them
//! - [`placement`], [`script`], [`training`]: which GPUs jobs have, and ranks that compute too
//! - [`fault`]: what goes wrong while it runs
//! - [`fabric`]: all components together, and the only place where events are told apart
//! - [`dependency`]: which buffers can wait for which; what is seen without running
//! - [`counters`], [`probe`], [`report`]: what is observed
//! - [`capture`]: frames as files of packets

pub mod capture;
pub mod collective;
pub mod congestion;
pub mod counters;
pub mod dependency;
pub mod error;
pub mod fabric;
pub mod fault;
pub mod fifo;
mod hash;
pub mod host;
pub mod ids;
pub mod link;
pub mod load_balance;
pub mod nic;
pub mod note;
pub mod packet;
pub mod pfc;
pub mod placement;
pub mod port;
pub mod probe;
pub mod program;
pub mod report;
pub mod routing;
pub mod scheduler;
pub mod script;
pub mod size;
pub mod switch;
pub mod topology;
pub mod traffic;
pub mod training;
pub mod wire;

pub use error::BuildError;
