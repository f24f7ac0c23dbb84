//! Faults take effect.

use sim_core::{Delta, Rate};

use super::ports::intern;
use super::{Event, Fabric, NO_CLASSIFIER, Queue, Wire};
use crate::fault::{Change, PortSetting};
use crate::ids::PRIORITIES;
use crate::probe::Probe;

impl<P: Probe> Fabric<P> {
    /// Puts the changes that concern this shard into the agenda.
    pub(super) fn plant_faults(&self, agenda: &mut Queue) {
        for (index, (time, change)) in (0..).zip(&self.wiring.faults.changes) {
            let concerned = change.port().is_none_or(|port| {
                let node = self.wiring.wires[port.index()].node;
                self.wiring.shard_of[node as usize] == self.shard
            });
            if concerned {
                agenda.at(*time, Event::Fault(index));
            }
        }
    }

    /// A change is due.
    #[cold]
    pub(super) fn fault(&mut self, index: u32, agenda: &mut Queue) {
        match self.wiring.faults.changes[index as usize].1 {
            Change::Link { port, down } => {
                self.ports[port.index()].rx.pipe.set_down(down);
                if down {
                    self.forget_pauses(port.0, agenda);
                }
            }
            Change::Loss { port, loss } => self.ports[port.index()].rx.pipe.set_loss(loss),
            Change::Rate { port, rate } => self.change_rate(port.0, rate, agenda),
            Change::Drain { port, rate } => {
                let nic = self.nic_of(port.0);
                let now = agenda.now();
                if let Some(buffer) = &mut self.nics[nic].receive
                    && buffer.set_rate(now, rate)
                {
                    agenda.at(buffer.drain_at(), Event::Drain(port.0));
                }
            }
            Change::Set { port, number } => self.set(port.0, number as usize, agenda),
            Change::Routes(number) => self.ways.change(number),
        }
    }

    /// A port sends at another rate; the frame on its way keeps the one that it began with.
    fn change_rate(&mut self, port: u32, rate: Option<Rate>, agenda: &mut Queue) {
        self.catch_up_all(port, agenda);
        let clock = self.wiring.wires[port as usize].clock;
        self.ports[port as usize].set_clock(rate.map_or(clock, |rate| clock.at(rate)));
    }

    /// A device takes other settings over.
    fn set(&mut self, port: u32, number: usize, agenda: &mut Queue) {
        let wiring = self.wiring.clone();
        let wire = &wiring.wires[port as usize];
        let settings = &wiring.faults.settings;
        let before = self.obeyed(wire);
        if wire.is_switch {
            self.set_switch_port(port, &settings.ports[number], agenda);
        } else {
            let nic = &mut self.nics[wire.owner as usize];
            nic.params = settings.nics[number].clone();
            let (params, qps) = (nic.params.clone(), nic.arbiter.qps().to_vec());
            for (slot, qp) in (0..).zip(qps) {
                let dscp = usize::from(wiring.qps[qp as usize].dscp);
                self.senders.record_mut(qp as usize).priority = params.priority[dscp];
                nic.arbiter.set_priority(slot, params.priority[dscp]);
            }
            self.silence(port, !params.pfc_priorities, agenda);
        }
        // who no longer obeys a pause is free of it
        let now = agenda.now();
        let ignored = before & !self.obeyed(wire);
        for queue in (0..PRIORITIES as u8).filter(|queue| ignored & (1 << queue) != 0) {
            self.tally.live += self.change_pause(port, now, |pause| pause.apply(now, queue, now));
        }
        self.kick(port, agenda);
    }

    fn set_switch_port(&mut self, port: u32, setting: &PortSetting, agenda: &mut Queue) {
        let rx = &self.ports[port as usize].rx;
        let (owner, index, first) = (rx.owner as usize, rx.index, rx.place);
        // limits are of the whole switch
        let ports = self.switches[owner].places.len() as u32;
        (first..first + ports).for_each(|port| self.catch_up_all(port, agenda));
        let (mmu, base) = self.switches[owner].place(index);
        let slice = mmu - self.switches[owner].first_mmu as usize;
        for group in base..base + PRIORITIES {
            self.mmus[mmu].adopt_limit(group, &setting.buffer.mmus[slice]);
        }
        self.switches[owner].pfc_to_queue[usize::from(index)] = setting.pfc_to_queue;
        // there are no more different ones than the plan has ports
        let wred = intern(&mut self.wreds, setting.wred.clone());
        let classifier = intern(&mut self.classifiers, setting.classifier.clone());
        let state = &mut self.ports[port as usize];
        let wred = wred.unwrap_or(state.tx.wred);
        state.tx.set_marking(wred, &self.wreds[usize::from(wred)]);
        state.rx.classifier = classifier.unwrap_or(state.rx.classifier);
        // the PFC of a port with a watchdog does not change
        if self.ports[port as usize].aside.watchdog.is_none() {
            self.silence(port, setting.silent, agenda);
        }
    }

    /// Of these priorities no PFC is sent from now on, of the others again.
    fn silence(&mut self, port: u32, silent: u8, agenda: &mut Queue) {
        let before = self.ports[port as usize].aside.silent;
        let asserted = self.ports[port as usize].aside.pfc.asserted();
        for priority in (0..PRIORITIES as u8).filter(|p| (before ^ silent) & (1 << p) != 0) {
            let bit = 1 << priority;
            if silent & bit != 0 {
                if asserted & bit != 0 {
                    self.send_xon(port, priority, agenda);
                }
                self.ports[port as usize].aside.silent |= bit;
                continue;
            }
            let state = &mut self.ports[port as usize];
            state.aside.silent &= !bit;
            let rx = &state.rx;
            let is_switch = rx.classifier != NO_CLASSIFIER;
            if is_switch
                && self.mmus[rx.mmu as usize].xoff(rx.base as usize + usize::from(priority))
            {
                self.send_xoff(port, priority, agenda);
            }
        }
    }

    /// The queues (a bit each) that some PFC priority pauses at this port.
    fn obeyed(&self, wire: &Wire) -> u8 {
        let queues = (0..PRIORITIES as u8).filter_map(|priority| self.obeyed_queue(wire, priority));
        queues.fold(0, |mask, queue| mask | 1 << queue)
    }

    /// Departures of this instant come before a change of their port.
    fn catch_up_all(&mut self, port: u32, agenda: &mut Queue) {
        if self.ports[port as usize].tx.lazy() {
            self.catch_up(port, agenda.now() + Delta::from_ps(1), agenda);
        }
    }

    /// A link that is reset pauses nobody.
    fn forget_pauses(&mut self, port: u32, agenda: &mut Queue) {
        let now = agenda.now();
        self.catch_up_all(port, agenda);
        for queue in 0..PRIORITIES as u8 {
            self.tally.live += self.change_pause(port, now, |pause| pause.apply(now, queue, now));
        }
        self.kick(port, agenda);
    }
}
