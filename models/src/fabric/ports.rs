//! The ports of a fabric as they are before anything has happened.

use sim_core::rng::{Domain, Stream};
use sim_core::{Delta, Time};

use super::build::{Device, Plan, device, largest_mtu};
use super::wiring::Wire;
use crate::error::BuildError;
use crate::ids::{NodeId, PRIORITIES, PortId};
use crate::link::Pipe;
use crate::pfc::PfcSender;
use crate::port::{Arrivals, Port, PortWatchdog, Transmitter, Watched};
use crate::scheduler::Scheduler;
use crate::switch::{
    Bounce, Classifier, MarkAt, PortWred, QueueWatch, SchedulerConfig, Switch, SwitchConfig, Wred,
};
use crate::wire::LinkClock;

impl Plan {
    /// Whether a port can be left alone while frames are on their way; so long that the conductor
    /// would think it stuck, it can not.
    fn may_be_lazy(&self, wire: &Wire, slowest: LinkClock) -> bool {
        let longest = slowest.time(self.wiring.frames.wire_len(u16::MAX));
        wire.is_switch
            && !self.balance(NodeId(wire.node)).is_exact()
            // a frame may be noticed at the peer before it has left
            && wire.head == 0
            && !wire.arrival_delay.is_zero()
            && wire.arrival_delay + longest < self.spec.stop.stall
    }

    /// A watchdog must find what has left, and none that should have.
    fn watched(&self, wire: &Wire) -> bool {
        let ports = self.wiring.topology.ports_of(NodeId(wire.node));
        let mut configs = ports.filter_map(|port| self.spec.switch_ports[port.index()].as_deref());
        wire.is_switch && configs.any(|config| config.pfc_wd.is_some())
    }

    pub(super) fn build_ports(
        &self,
        shard: u16,
        switches: &[Switch],
        tables: &mut Tables,
        in_any_order: bool,
    ) -> Result<Vec<Port>, BuildError> {
        let topology = &self.spec.topology;
        let largest = self.wiring.frames.largest(largest_mtu(&self.spec));
        let nic_scheduler =
            SchedulerConfig { strict: (0..8).rev().collect(), ..Default::default() };
        let failing = self.wiring.faults.ports();
        let levels = topology.levels();
        let lowest = self.wiring.faults.lowest_rates();
        let mut ports = Vec::with_capacity(topology.ports().len());
        for id in (0..topology.ports().len() as u32).map(PortId) {
            let wire = &self.wiring.wires[id.index()];
            let random = |domain| Stream::new(self.spec.seed, domain, u64::from(id.0));
            let loss = topology.port(id).loss;
            let may_lose = loss > 0.0 || failing.contains(&id);
            let pipe = Pipe::new(may_lose.then(|| (loss, random(Domain::Loss))));
            let (timing, scheduler, wred, classifier, (mmu, base)) = match device(&self.spec, id) {
                Device::Switch(config) => {
                    let switch = &switches[wire.owner as usize];
                    let (mmu, base) = switch.place(wire.index);
                    let place = (mmu as u32, base as u32);
                    let bounce = Bounce::at(config, topology, &levels, id);
                    let (wred, classifier) = tables.of(config, bounce)?;
                    (config.pfc.timing(), &config.scheduler, wred, classifier, place)
                }
                Device::Nic(config) => {
                    (config.pfc.timing(), &nic_scheduler, 0, super::NO_CLASSIFIER, (0, 0))
                }
            };
            let refresh = match (timing.quanta, timing.refresh) {
                (0, _) => Delta::MAX,
                (_, Some(refresh)) if refresh > Delta::ZERO => refresh,
                (quanta, _) => wire.clock.quanta(quanta) / 2,
            };
            let scheduler = Scheduler::new(scheduler, largest);
            let crosses = wire.peer_shard != shard;
            let slowest = lowest.get(&id).map_or(wire.clock, |rate| wire.clock.at(*rate));
            let may_be_lazy = self.may_be_lazy(wire, slowest) && !self.watched(wire);
            let lazy = in_any_order && !crosses && may_be_lazy;
            let mut tx = Transmitter::new(scheduler.turn(), crosses, lazy);
            tx.arrival_delay = wire.arrival_delay;
            (tx.peer, tx.mmu, tx.base) = (wire.peer, mmu, base);
            tx.set_marking(wred, &tables.wreds[usize::from(wred)]);
            let rx = Arrivals {
                pipe,
                bytes: 0,
                peer: wire.peer,
                owner: wire.owner,
                index: wire.index,
                place: if wire.is_switch { wire.first_port } else { wire.node },
                classifier,
                mmu,
                base,
            };
            let marking = random(Domain::Marking);
            let pfc = PfcSender::new(refresh);
            let mut port = Port::new(tx, rx, scheduler, pfc, marking, wire.clock);
            port.set_head(wire.head);
            if let Device::Switch(config) = device(&self.spec, id) {
                port.aside.watchdog = watchdog(config).map(Box::new);
            }
            ports.push(port);
        }
        Ok(ports)
    }
}

/// What ports share; the first marking marks nothing.
pub(super) struct Tables {
    pub(super) classifiers: Vec<Classifier>,
    pub(super) wreds: Vec<PortWred>,
    /// Configurations that were seen, and what they became.
    known: Vec<(*const SwitchConfig, u16, u16)>,
}

impl Default for Tables {
    fn default() -> Self {
        let wreds = vec![PortWred::default()];
        Tables { classifiers: Vec::new(), wreds, known: Vec::new() }
    }
}

impl Tables {
    /// The numbers of a switch port's marking and classifier.
    fn of(
        &mut self,
        config: &SwitchConfig,
        bounce: Option<Bounce>,
    ) -> Result<(u16, u16), BuildError> {
        if bounce.is_some() {
            let (wred, _) = self.of(config, None)?;
            let classifier = Classifier::new(&config.qos).with_bounce(bounce);
            return Ok((wred, intern(&mut self.classifiers, classifier)?));
        }
        let pointer: *const SwitchConfig = config;
        if let Some((_, wred, classifier)) = self.known.iter().rev().find(|k| k.0 == pointer) {
            return Ok((*wred, *classifier));
        }
        let wred = intern(&mut self.wreds, port_wred(config)?)?;
        let classifier = intern(&mut self.classifiers, Classifier::new(&config.qos))?;
        self.known.push((pointer, wred, classifier));
        Ok((wred, classifier))
    }
}

/// The number of a value among the different ones.
pub(super) fn intern<T: PartialEq>(all: &mut Vec<T>, new: T) -> Result<u16, BuildError> {
    let known = all.iter().position(|known| *known == new);
    let index = known.unwrap_or(all.len());
    if known.is_none() {
        all.push(new);
    }
    match u16::try_from(index) {
        Ok(index) if index < super::NO_CLASSIFIER => Ok(index),
        _ => Err(BuildError::new("switch", "at most 65535 different kinds of port can be")),
    }
}

/// The watchdog of a port, over the queues whose PFC it obeys.
fn watchdog(config: &SwitchConfig) -> Option<PortWatchdog> {
    let watched = config.pfc_wd?;
    let queues = config.pfc_to_queue();
    let obeyed = (0..).zip(queues).filter(|(_, queue)| *queue < PRIORITIES as u8);
    let watch = |(priority, queue)| Watched { priority, queue, watch: QueueWatch::new(&watched) };
    let queues = obeyed.map(watch).collect();
    Some(PortWatchdog { config: watched, poll_at: Time::MAX, queues })
}

pub(super) fn port_wred(config: &SwitchConfig) -> Result<PortWred, BuildError> {
    let mut wred = PortWred::default();
    for (queue, entry) in &config.ecn {
        let key = format!("switch.ecn.{queue}");
        wred.queues[usize::from(*queue)] = Some(Wred::new(entry, config.buffer.cell, &key)?);
        wred.at_enqueue |= entry.mark_at == MarkAt::Enqueue;
    }
    Ok(wred)
}
