//! PFC watchdogs against the times that they have to keep up with.

use models::ids::PortId;
use models::nic::local_ack_timeout;
use models::report::Severity;
use models::switch::{WatchdogAction, WatchdogConfig};
use sim_core::Delta;

use super::{Notes, note};

impl Notes<'_> {
    pub(super) fn watchdogs(&mut self) {
        let plan = self.plan;
        let topology = &plan.wiring.topology;
        for (index, config) in plan.spec.switch_ports.iter().enumerate() {
            let at = PortId(index as u32);
            let Some(watchdog) = config.as_deref().and_then(|config| config.pfc_wd) else {
                continue;
            };
            self.ranges(at, &watchdog);
            self.polls(at, &watchdog);
            if watchdog.action != WatchdogAction::Alert {
                self.retries(at, &watchdog);
                self.refresh(at, topology.port(at).peer, &watchdog);
            }
        }
    }

    /// What SONiC would take.
    fn ranges(&mut self, at: PortId, watchdog: &WatchdogConfig) {
        let WatchdogConfig { detection_time, restoration_time, poll_interval, .. } = *watchdog;
        let ms = Delta::from_ms;
        for (key, time, least, most) in [
            ("detection_time", detection_time, ms(100), ms(5000)),
            ("restoration_time", restoration_time, ms(100), ms(60_000)),
            ("poll_interval", poll_interval, ms(100), ms(1000)),
        ] {
            if time < least || time > most {
                let text = format!(
                    "{time} is for a simulation: SONiC takes {least} to {most}, and its software \
                     cannot look more often"
                );
                let key = format!("switch.pfc_wd.{key}");
                self.add(note(Severity::Info, &key, text, Some(at)), "range");
            }
        }
    }

    fn polls(&mut self, at: PortId, watchdog: &WatchdogConfig) {
        let WatchdogConfig { detection_time, poll_interval, .. } = *watchdog;
        if detection_time < poll_interval {
            let text = format!(
                "detection_time ({detection_time}) is below poll_interval ({poll_interval}): a storm \
                 is found after {poll_interval} at the earliest"
            );
            self.add(
                note(Severity::Warning, "switch.pfc_wd.detection_time", text, Some(at)),
                "poll",
            );
        }
        let found = sum(in_polls(detection_time, poll_interval), poll_interval);
        let stall = self.plan.spec.stop.stall;
        if watchdog.action != WatchdogAction::Alert && found >= stall {
            let text = format!(
                "the run counts as deadlocked after {stall} in which nothing but PFC moves, before \
                 a watchdog acts (up to {found}): storms that stop everything are not seen to end"
            );
            self.add(note(Severity::Warning, "stop.stall", text, None), "stall");
        }
    }

    /// A QP that retries less long than the watchdog takes fails although the watchdog helps.
    fn retries(&mut self, at: PortId, watchdog: &WatchdogConfig) {
        let freed = freed(watchdog);
        let spec = &self.plan.spec;
        let mut waits: Vec<(&str, u32, u32)> = Vec::new();
        if !spec.flows.is_empty() {
            let senders =
                spec.flows.iter().filter_map(|flow| spec.nics[flow.source.index()].as_ref());
            let waited =
                |nic: &&std::sync::Arc<models::nic::NicConfig>| nic.transport.ack_timeout();
            let least = senders.min_by_key(waited).map(|nic| &nic.transport);
            waits.extend(least.map(|transport| {
                ("nic.transport.timeout", transport.timeout.into(), transport.retry_cnt.into())
            }));
        }
        if !spec.collectives.is_empty() || !spec.trainings.is_empty() {
            let nccl = &spec.nccl;
            waits.push(("nccl.IB_TIMEOUT", nccl.ib_timeout, nccl.ib_retry_cnt));
        }
        for (key, timeout, retry_cnt) in waits {
            let each = local_ack_timeout(timeout);
            let all = Delta::from_ps(each.ps().saturating_mul(u64::from(retry_cnt) + 1));
            if each < Delta::MAX && freed >= all {
                let text = format!(
                    "the watchdog is slower than the NICs' retries: detection and restoration take \
                     {freed}, but a QP gives up after {all} (4.096us x 2^{timeout} x {}): it is in \
                     error before its queue is free",
                    retry_cnt + 1
                );
                let slow = "switch.pfc_wd.detection_time";
                let mut note = note(Severity::Warning, slow, text, Some(at));
                note.details.push(format!("the other key: {key}"));
                self.add(note, key);
            }
        }
    }

    /// XOFF is repeated so seldom that the watchdog takes the storm for over.
    fn refresh(&mut self, at: PortId, peer: PortId, watchdog: &WatchdogConfig) {
        let plan = self.plan;
        let node = plan.wiring.topology.port(peer).node;
        let timing = match (&plan.spec.switch_ports[peer.index()], &plan.spec.nics[node.index()]) {
            (Some(switch), _) => switch.pfc.timing(),
            (None, Some(nic)) => nic.pfc.timing(),
            (None, None) => return,
        };
        let pause = plan.wiring.wires[peer.index()].clock.quanta(timing.quanta);
        let every = timing.refresh.unwrap_or(pause / 2);
        let quiet = in_polls(watchdog.restoration_time, watchdog.poll_interval);
        if timing.quanta > 0 && quiet <= every {
            let text = format!(
                "{} repeats XOFF every {every}, restoration takes {quiet} without any: the queue is \
                 restored while the storm lasts",
                self.name(peer)
            );
            let key = "switch.pfc_wd.restoration_time";
            self.add(note(Severity::Warning, key, text, Some(at)), &format!("{every}"));
        }
    }
}

/// From the first pause of a storm to a queue that is free again: detection and restoration.
pub(crate) fn freed(watchdog: &WatchdogConfig) -> Delta {
    let WatchdogConfig { detection_time, restoration_time, poll_interval, .. } = *watchdog;
    let times = [detection_time, restoration_time].map(|time| in_polls(time, poll_interval));
    sum(times[0], times[1])
}

fn sum(a: Delta, b: Delta) -> Delta {
    Delta::from_ps(a.ps().saturating_add(b.ps()))
}

/// A time as polls count it: in whole ones.
fn in_polls(time: Delta, poll: Delta) -> Delta {
    let polls = time.ps().div_ceil(poll.ps().max(1)).max(1);
    Delta::from_ps(polls.saturating_mul(poll.ps()))
}
