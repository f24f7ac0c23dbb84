//! What carries slices between ranks: kernel TCP, or RDMA by libibverbs.

mod rdma;
mod tcp;

use std::net::IpAddr;
use std::time::Duration;

use super::error::ReplayError;
use super::lanes::{Action, Ends, Slots};
use super::rendezvous::Rendezvous;
use super::secret::Token;
use crate::verbs::Device;

pub(super) use rdma::{QpSetting, Rdma};
pub(super) use tcp::Tcp;

/// What a transport has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Data has come by this QP of a receiving end.
    Arrived { recv: usize, qp: u32 },
    /// What was sent by this QP of a sending end is with the receiver (TCP: with the kernel).
    Acknowledged { send: usize, qp: u32 },
    /// A CTS has come by this QP of a sending end.
    Granted { send: usize, qp: u32 },
}

/// What carries slices.
pub(super) enum Transport {
    /// Kernel TCP.
    Tcp(Tcp),
    /// RC QPs.
    Rdma(Box<Rdma>),
}

/// How ranks are to be joined.
pub(super) enum Means<'a> {
    /// By TCP, at this address, or that which the rendezvous is reached by.
    Tcp(Option<IpAddr>),
    /// By QPs of a device.
    Rdma(&'a Device, &'a QpSetting),
}

impl Transport {
    /// Joins this rank with its peers.
    pub(super) fn join(
        means: &Means<'_>,
        ends: &Ends,
        token: &Token,
        rendezvous: &mut Rendezvous,
    ) -> Result<Self, ReplayError> {
        Ok(match means {
            Means::Tcp(address) => Transport::Tcp(Tcp::join(*address, ends, token, rendezvous)?),
            Means::Rdma(device, setting) => {
                Transport::Rdma(Box::new(Rdma::join(device, setting, ends, rendezvous)?))
            }
        })
    }

    /// Carries out what the lanes want.
    pub(super) fn act(&mut self, action: Action) -> Result<(), ReplayError> {
        match self {
            Transport::Tcp(tcp) => tcp.act(action),
            Transport::Rdma(rdma) => rdma.act(action),
        }
    }

    /// Nothing waits to be written: NICs take all at once.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.is_idle(),
            Transport::Rdma(_) => true,
        }
    }

    /// Waits for events, at most so long.
    pub(super) fn wait(
        &mut self,
        most: Duration,
        events: &mut Vec<Event>,
    ) -> Result<(), ReplayError> {
        match self {
            Transport::Tcp(tcp) => tcp.wait(most, events),
            Transport::Rdma(rdma) => rdma.wait(most, events),
        }
    }
}

impl Slots for Transport {
    fn received(&self, recv: usize, slot: usize) -> &[u8] {
        match self {
            Transport::Tcp(tcp) => tcp.received(recv, slot),
            Transport::Rdma(rdma) => rdma.received(recv, slot),
        }
    }

    fn to_send(&mut self, send: usize, slot: usize) -> &mut [u8] {
        match self {
            Transport::Tcp(tcp) => tcp.to_send(send, slot),
            Transport::Rdma(rdma) => rdma.to_send(send, slot),
        }
    }
}
