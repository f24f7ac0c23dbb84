//! PFC watchdogs of switch ports, and the fault that they are for.
//!
//! A watchdog looks on a grid of its `poll_interval`, and only while there is something to see: from
//! the first pause on until a whole interval was free of pauses and no queue is stormed. While a
//! queue is, none of its switch's groups counts as calm, so that every frame comes by
//! [`Fabric::storm_drops`]; what becomes of it does not depend on that.

use sim_core::Time;

use super::{Cause, Event, Fabric, Queue, What};
use crate::counters::DropReason;
use crate::packet::Packet;
use crate::port::{Port, PortWatchdog, Watched};
use crate::probe::Probe;
use crate::switch::{Look, StormFrames, Verdict, WatchdogAction, WatchdogConfig};

impl<P: Probe> Fabric<P> {
    /// Lets the watchdog of a port look, if it has one and there is a pause.
    #[inline]
    pub(super) fn watch_pauses(&mut self, port: u32, agenda: &mut Queue) {
        let state = &mut self.ports[port as usize].aside;
        if let Some(watchdog) = &mut state.watchdog
            && watchdog.poll_at == Time::MAX
            && state.pause.paused() != 0
        {
            watchdog.poll_at = next_poll(&watchdog.config, agenda.now());
            agenda.at(watchdog.poll_at, Event::Watch(port));
        }
    }

    /// The watchdog of a port looks at its queues.
    pub(super) fn watch_due(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        let state = &mut self.ports[port as usize].aside;
        if state.watchdog.as_ref().is_none_or(|watchdog| watchdog.poll_at != now) {
            return;
        }
        let Some(mut watchdog) = state.watchdog.take() else { return };
        let PortWatchdog { config, poll_at, queues } = &mut *watchdog;
        let mut idle = true;
        for watched in queues {
            let look = look(&self.ports[port as usize], watched, now);
            let before = watched.watch.last();
            match watched.watch.poll(now, config, look) {
                Some(Verdict::Storm) => self.storm_begins(port, watched, config.action, agenda),
                Some(Verdict::Restore) => self.storm_ends(port, watched, agenda),
                None => {}
            }
            if watched.watch.is_idle(before) {
                watched.watch.rest(config);
            } else {
                idle = false;
            }
        }
        *poll_at = Time::MAX;
        if !idle {
            *poll_at = next_poll(config, now);
            agenda.at(*poll_at, Event::Watch(port));
        }
        self.ports[port as usize].aside.watchdog = Some(watchdog);
    }

    fn storm_begins(
        &mut self,
        port: u32,
        watched: &mut Watched,
        action: WatchdogAction,
        agenda: &mut Queue,
    ) {
        self.count_storm(port, 1);
        self.tally.last_activity = agenda.now();
        let queue = watched.queue;
        let waiting = self.ports[port as usize].waiting(queue);
        if action == WatchdogAction::Drop {
            self.discard(port, queue, agenda);
            self.has_moved(port, queue);
            watched.watch.count(|frames| frames.tx_drop += waiting);
        } else {
            watched.watch.count(|frames| frames.tx_ok += waiting);
        }
        if action != WatchdogAction::Alert {
            let state = &mut self.ports[port as usize];
            // no XON: whom it has stopped waits for the pause to run out
            state.aside.pfc.xon(watched.priority);
            state.aside.silent |= 1 << watched.priority;
            state.aside.unheeded |= 1 << queue;
            self.tally.live += self.change_pause(port, agenda.now(), |_| ());
            self.kick(port, agenda);
        }
    }

    fn storm_ends(&mut self, port: u32, watched: &mut Watched, agenda: &mut Queue) {
        self.count_storm(port, -1);
        self.tally.last_activity = agenda.now();
        let (priority, queue) = (watched.priority, watched.queue);
        let state = &mut self.ports[port as usize];
        let waiting = state.waiting(queue);
        watched.watch.count(|frames| frames.tx_ok = frames.tx_ok.saturating_sub(waiting));
        if state.aside.silent & (1 << priority) == 0 {
            return;
        }
        state.aside.silent &= !(1 << priority);
        state.aside.unheeded &= !(1 << queue);
        self.tally.live += self.change_pause(port, agenda.now(), |_| ());
        let rx = &self.ports[port as usize].rx;
        if self.mmus[rx.mmu as usize].xoff(rx.base as usize + usize::from(priority)) {
            self.send_xoff(port, priority, agenda);
        }
    }

    /// Counts the stormed queues of the switch that `port` belongs to.
    fn count_storm(&mut self, port: u32, change: i32) {
        let owner = self.ports[port as usize].rx.owner as usize;
        let storms = &mut self.switches[owner].storms;
        *storms = storms.saturating_add_signed(change);
        let on = *storms > 0;
        for mmu in self.mmus_of(owner) {
            self.mmus[mmu].watch(on);
        }
    }

    /// Throws away what is in a queue.
    fn discard(&mut self, port: u32, queue: u8, agenda: &mut Queue) {
        let now = agenda.now();
        while let Some(packet) = self.ports[port as usize].dequeue(now, 1 << queue) {
            let (xon, ingress) = self.uncharge(port, &packet);
            self.drop(now, port, &packet, DropReason::Watchdog, false);
            if xon {
                self.release_xoff(ingress, packet.pg, agenda);
            }
        }
    }

    /// Drops a frame that came in by `port` for `out` if a watchdog has it so.
    #[cold]
    pub(super) fn storm_drops(
        &mut self,
        port: u32,
        out: u32,
        packet: &Packet,
        agenda: &Queue,
    ) -> bool {
        let now = agenda.now();
        let dropped = |frames: &mut StormFrames| frames.tx_drop += 1;
        if self.count_frame(out, true, packet.queue, WatchdogAction::Drop, dropped) {
            self.drop(now, out, packet, DropReason::Watchdog, false);
            return true;
        }
        let dropped = |frames: &mut StormFrames| frames.rx_drop += 1;
        if self.count_frame(port, false, packet.pg, WatchdogAction::Drop, dropped) {
            self.drop(now, port, packet, DropReason::Watchdog, false);
            return true;
        }
        false
    }

    /// Counts a frame that the buffer has taken.
    #[cold]
    pub(super) fn storm_admits(&mut self, port: u32, out: u32, packet: &Packet) {
        for action in [WatchdogAction::Forward, WatchdogAction::Alert] {
            self.count_frame(out, true, packet.queue, action, |frames| frames.tx_ok += 1);
            self.count_frame(port, false, packet.pg, action, |frames| frames.rx_ok += 1);
        }
    }

    /// Counts a frame at a stormed queue, or at the group of the same priority, of a port whose
    /// watchdog acts so; false if there is none.
    fn count_frame(
        &mut self,
        port: u32,
        egress: bool,
        number: u8,
        action: WatchdogAction,
        change: impl Fn(&mut StormFrames),
    ) -> bool {
        let watchdog = self.ports[port as usize].aside.watchdog.as_mut();
        let Some(watchdog) = watchdog.filter(|watchdog| watchdog.config.action == action) else {
            return false;
        };
        let here = |watched: &&mut Watched| {
            let named = if egress { watched.queue } else { watched.priority };
            watched.watch.stormed() && named == number
        };
        let found = watchdog.queues.iter_mut().find(here);
        found.map(|watched| watched.watch.count(change)).is_some()
    }

    /// Schedules the pause storm of a NIC that will have one.
    pub(super) fn plant_pause_storm(&mut self, port: u32, agenda: &mut Queue) {
        let wire = &self.wiring.wires[port as usize];
        let nic = &self.nics[wire.owner as usize];
        if let Some(storm) = nic.params.config.pause_storm
            && self.wiring.shard_of[wire.node as usize] == self.shard
        {
            agenda.at(Time::ZERO + storm.from, Event::PauseStorm(port));
        }
    }

    /// The pause storm of a NIC begins or ends.
    pub(super) fn pause_storm(&mut self, port: u32, agenda: &mut Queue) {
        let nic = &mut self.nics[self.ports[port as usize].rx.owner as usize];
        let Some(storm) = nic.params.config.pause_storm else { return };
        let (priority, bit) = (storm.priority, 1 << storm.priority);
        let now = agenda.now();
        self.tally.last_activity = now;
        let asserted = self.ports[port as usize].aside.pfc.asserted() & bit != 0;
        if nic.storm & bit == 0 {
            nic.storm |= bit;
            agenda.at(Time::ZERO + storm.until, Event::PauseStorm(port));
            if asserted {
                self.pauses.note(now, port, priority, What::Xoff(Cause::Storm));
            } else {
                self.assert_xoff(port, priority, Cause::Storm, agenda);
            }
        } else {
            nic.storm &= !bit;
            let full = nic.receive.as_ref().is_some_and(|buffer| !buffer.below_xon());
            if asserted && full {
                self.pauses.note(now, port, priority, What::Xoff(Cause::Receiver));
            } else if asserted {
                self.release_xoff(port, priority, agenda);
            }
        }
    }
}

/// The next point of a watchdog's grid.
fn next_poll(config: &WatchdogConfig, now: Time) -> Time {
    let interval = config.poll_interval.ps();
    Time::from_ps((now.ps() / interval).saturating_add(1).saturating_mul(interval))
}

fn look(port: &Port, watched: &Watched, now: Time) -> Look {
    let pause = &port.aside.pause;
    let slot = usize::from(watched.queue);
    let paused = pause.paused() & (1 << watched.queue) != 0;
    Look {
        head: port.queues[slot].mark(),
        paused,
        pauses_ended: pause.episodes(slot) - u32::from(paused),
        paused_time: pause.paused_time(now, slot),
        xoffs: port.aside.counters.rx_pause[usize::from(watched.priority)],
    }
}
