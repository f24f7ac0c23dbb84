//! Observers of single frames, compiled in only where a fabric is built with one.

use sim_core::Time;

use crate::counters::DropReason;
use crate::ids::PortId;
use crate::packet::Packet;

/// Sees frames come and go. Every method does nothing unless it is written.
pub trait Probe: Default + Send {
    /// Calls come in the order of time over all ports; else only those of each port do, and the run
    /// is faster.
    const IN_ORDER: bool = true;
    /// A message of so many bytes is posted on a QP, in packets of at most `mtu`.
    #[inline]
    fn post(&mut self, _qp: u32, _bytes: u64, _mtu: u16) {}
    /// The first bit of a frame leaves `port`.
    #[inline]
    fn transmit(&mut self, _now: Time, _port: PortId, _packet: &Packet) {}
    /// The last bit of a frame has arrived at `port`; its device handles it next.
    #[inline]
    fn receive(&mut self, _now: Time, _port: PortId, _packet: &Packet) {}
    /// A frame that arrived at `port` is dropped.
    #[inline]
    fn dropped(&mut self, _now: Time, _port: PortId, _packet: &Packet, _reason: DropReason) {}
}

impl Probe for () {
    const IN_ORDER: bool = false;
}
