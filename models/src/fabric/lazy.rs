//! Departures without events.
//!
//! What a busy switch port holds leaves at times that follow from what it has sent: as long as a
//! frame is on its way to the peer, nobody need look. The port catches up when a frame comes to be
//! queued, when it is paused or resumed, and when its last frame on the cable arrives; so nearly
//! every hop costs one event instead of one and a half, which is worth 10 % of the time and more.
//!
//! Until then its switch holds frames that have left in truth. What is used is too high, and limits
//! too low, so that whatever is admitted without XOFF or headroom would be in truth as well. Where
//! that test fails the switch becomes *exact*: all its ports catch up, and every departure is an
//! event for as long as some group holds XOFF, and a while longer. Departures commute while no XOFF
//! holds, so the results are those of a switch that is always exact.

use sim_core::{Delta, Time};

use super::{Fabric, NO_CLASSIFIER, Queue};
use crate::probe::Probe;

/// How long a switch stays exact after it was too full not to be.
const EXACT: Delta = Delta::from_us(4);

impl<P: Probe> Fabric<P> {
    /// Sends what a switch port would have sent before `time`.
    #[inline(always)]
    pub(super) fn catch_up(&mut self, port: u32, time: Time, agenda: &mut Queue) {
        if self.ports[port as usize].tx.is_behind(time) {
            self.send_until(port, time, agenda);
        }
    }

    #[inline(never)]
    fn send_until(&mut self, port: u32, time: Time, agenda: &mut Queue) {
        while self.ports[port as usize].tx.is_behind(time) {
            let start = self.ports[port as usize].tx.busy_until;
            self.send_next(port, start, agenda);
        }
    }

    /// The same, where it is not known whether `port` belongs to a switch.
    pub(super) fn catch_up_switch_port(&mut self, port: u32, agenda: &mut Queue) {
        if self.ports[port as usize].tx.lazy() {
            self.catch_up(port, agenda.now(), agenda);
        }
    }

    /// The last frame that `port` had on its way has arrived.
    #[inline]
    pub(super) fn last_in_sight(&mut self, port: u32, agenda: &mut Queue) {
        let tx = &self.ports[port as usize].tx;
        if tx.lazy() && tx.has_next() {
            self.catch_up(port, agenda.now(), agenda);
        }
    }

    /// Makes sure that a busy port with something to send sends it in time.
    #[inline(always)]
    pub(super) fn look_after(&mut self, port: u32, agenda: &mut Queue) {
        let Self { ports, switches, .. } = self;
        let tx = &ports[port as usize].tx;
        let busy_until = tx.busy_until;
        if tx.lazy() {
            // a busy port has a frame on its way, whose arrival will be noticed
            let switch = &switches[ports[port as usize].rx.owner as usize];
            if switch.xoffs == 0 && switch.exact_until <= agenda.now() {
                return;
            }
        }
        self.wake(port, busy_until, agenda);
    }

    /// From now on every departure of a switch is an event; `port` is one of its ports.
    #[cold]
    pub(super) fn make_exact(&mut self, switch: u32, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let state = &mut self.switches[switch as usize];
        if state.xoffs > 0 || state.exact_until > now {
            state.exact_until = now + EXACT;
            return;
        }
        let first = self.ports[port as usize].rx.place;
        let ports = first..first + state.places.len() as u32;
        for port in ports.clone() {
            self.catch_up(port, now, agenda);
        }
        self.switches[switch as usize].exact_until = now + EXACT;
        for port in ports {
            let tx = &self.ports[port as usize].tx;
            if tx.has_next() {
                let busy_until = tx.busy_until;
                self.wake(port, busy_until, agenda);
            }
        }
    }

    /// Counts XOFFs that a switch asserts (1) or releases (-1) at `port`.
    pub(super) fn count_xoff(&mut self, port: u32, change: i32) {
        let rx = &self.ports[port as usize].rx;
        if rx.classifier != NO_CLASSIFIER {
            let switch = &mut self.switches[rx.owner as usize];
            switch.xoffs = switch.xoffs.saturating_add_signed(change);
        }
    }
}
