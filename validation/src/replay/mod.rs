//! Replays a collective on real machines: the programs that the simulator runs, over kernel TCP or
//! RDMA, on real data.
//!
//! Each rank is a process. Ranks meet at a [`rendezvous`](Rendezvous), tell each other where they can
//! be reached, and run the programs of the job size by size: [`run`] for one rank.

mod buffers;
mod error;
mod lanes;
mod machine;
mod rendezvous;
mod run;
mod secret;
mod transport;

pub use error::ReplayError;
pub use machine::machine;
pub use rendezvous::{Hub, Joining, Rendezvous, Serving};
pub use run::{Carrier, RdmaSetting, Replay, Row, address_of, replayable, run};
pub use secret::Token;
