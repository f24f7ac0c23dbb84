//! Which QP of a NIC may send.

use sim_core::Time;

use crate::congestion::RateController;
use crate::nic::{Arbiter, NicParams, Sender, SenderState, Senders};

/// The QP whose turn it is, if one may send: its slot.
#[inline]
pub(super) fn next_slot(
    senders: &mut Senders,
    arbiter: &mut Arbiter,
    paused: u8,
    now: Time,
    params: &NicParams,
) -> Option<u32> {
    loop {
        let slot = arbiter.next(paused)?;
        let sender = &mut senders[arbiter.qp(slot) as usize];
        let closed =
            params.config.transport.window_follows_rate && window_full(sender, params, now);
        if sender.requester.has_work() && !closed {
            return Some(slot);
        }
        // an ACK that came after its time-out has left nothing to send again, or the window has
        // shrunk with the rate
        arbiter.clear_ready(slot);
        sender.state = SenderState::Idle;
        activate(sender, arbiter, now, params);
    }
}

/// Puts a QP where it belongs after something changed: ready, waiting, blocked or idle.
#[inline]
pub(super) fn activate(sender: &mut Sender, arbiter: &mut Arbiter, now: Time, params: &NicParams) {
    match sender.state {
        SenderState::Failed | SenderState::Ready | SenderState::Waiting => return,
        SenderState::Idle | SenderState::Blocked => {}
    }
    if !sender.requester.has_work() {
        sender.state = SenderState::Idle;
    } else if sender.pacer.ready_at() > now {
        sender.state = SenderState::Waiting;
        arbiter.wait(sender.pacer.ready_at(), sender.slot);
    } else if window_full(sender, params, now) {
        sender.state = SenderState::Blocked;
        if params.config.transport.window_follows_rate {
            arbiter.block(sender.slot);
        }
    } else {
        sender.state = SenderState::Ready;
        arbiter.set_ready(sender.slot);
    }
}

#[inline]
pub(super) fn window_full(sender: &mut Sender, params: &NicParams, now: Time) -> bool {
    let Some(window) = sender.window else { return false };
    let mut window = window.get();
    if params.config.transport.window_follows_rate {
        sender.pacer.settle(now, &mut sender.control);
        let (rate, line) = (sender.control.rate().bps(), sender.line_rate.bps());
        window = (u128::from(window) * u128::from(rate) / u128::from(line)).max(1) as u64;
    }
    sender.requester.in_flight(&sender.transport) >= window && !sender.requester.must_repeat()
}
