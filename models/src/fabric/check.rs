//! Ranges that types do not express.

use sim_core::{Bytes, Delta};

use crate::error::BuildError;
use crate::ids::PRIORITIES;
use crate::load_balance::CongaConfig;
use crate::nic::{NicConfig, Recovery, SelectiveConfig, WindowSize};
use crate::switch::{SwitchConfig, WatchdogConfig, Wred};
use crate::wire::WireConfig;

fn below(key: &str, values: impl IntoIterator<Item = u8>, bound: u8) -> Result<(), BuildError> {
    match values.into_iter().find(|value| *value >= bound) {
        None => Ok(()),
        Some(value) => {
            let message = format!("{value} is out of range: 0 to {} is expected", bound - 1);
            Err(BuildError::new(key, message))
        }
    }
}

const QUEUES: u8 = PRIORITIES as u8;

pub(super) fn switch(config: &SwitchConfig) -> Result<(), BuildError> {
    below("switch.pfc.priorities", config.pfc.priorities.iter().copied(), QUEUES)?;
    below("switch.ecn", config.ecn.keys().copied(), QUEUES)?;
    for (queue, entry) in &config.ecn {
        Wred::new(entry, config.buffer.cell, &format!("switch.ecn.{queue}"))?;
    }
    let qos = &config.qos;
    below("switch.qos.dscp_to_tc", qos.dscp_to_tc.keys().copied(), 64)?;
    for (key, map) in [
        ("switch.qos.dscp_to_tc", &qos.dscp_to_tc),
        ("switch.qos.pcp_to_tc", &qos.pcp_to_tc),
        ("switch.qos.tc_to_queue", &qos.tc_to_queue),
        ("switch.qos.tc_to_pg", &qos.tc_to_pg),
        ("switch.qos.pfc_to_queue", &qos.pfc_to_queue),
    ] {
        below(key, map.values().copied(), QUEUES)?;
        if key != "switch.qos.dscp_to_tc" {
            below(key, map.keys().copied(), QUEUES)?;
        }
    }
    if let Some(bounce) = &qos.bounce {
        bounce.check(qos.trust)?;
    }
    let scheduler = &config.scheduler;
    below("switch.scheduler.strict", scheduler.strict.iter().copied(), QUEUES)?;
    let mut strict = scheduler.strict.clone();
    strict.sort_unstable();
    strict.dedup();
    if strict.len() < scheduler.strict.len() {
        return Err(BuildError::new("switch.scheduler.strict", "a queue is named twice"));
    }
    below("switch.scheduler.weights", scheduler.weights.keys().copied(), QUEUES)?;
    if let Some((queue, weight)) =
        scheduler.weights.iter().find(|(_, weight)| !(1..=1000).contains(*weight))
    {
        let message = format!("{weight} is out of range: 1 to 1000 is expected");
        return Err(BuildError::new(format!("switch.scheduler.weights.{queue}"), message));
    }
    if let Some(pipeline) = &config.pipeline {
        if pipeline.packet_rate.pps() == 0 {
            let message = "0 forwards nothing: packets per second, such as \"600Mpps\"";
            return Err(BuildError::new("switch.pipeline.packet_rate", message));
        }
        if !(1..=64).contains(&pipeline.count) {
            let message = format!("{} is out of range: 1 to 64 is expected", pipeline.count);
            return Err(BuildError::new("switch.pipeline.count", message));
        }
    }
    if let Some(watchdog) = &config.pfc_wd {
        self::watchdog(watchdog, config)?;
    }
    below("switch.ecmp.offset", [config.ecmp.offset], 32)?;
    balancing(config)?;
    below("switch.buffer.pg", config.buffer.pg.keys().copied(), QUEUES)?;
    below("switch.buffer.queue", config.buffer.queue.keys().copied(), QUEUES)
}

fn balancing(config: &SwitchConfig) -> Result<(), BuildError> {
    let refuse = |key: &str, message: &str| Err(BuildError::new(key, message));
    let CongaConfig { period, alpha, .. } = config.conga;
    if config.drill.samples == 0 {
        return refuse("switch.drill.samples", "0 is out of range: at least 1 is expected");
    }
    if config.adaptive.grade == 0 {
        return refuse("switch.adaptive.grade", "0 is out of range: at least 1 is expected");
    }
    if period.is_zero() {
        return refuse("switch.conga.period", "0 is out of range: a time is expected");
    }
    if !(0.001..=0.999).contains(&alpha) {
        let message = format!("{alpha} is out of range: 0.001 to 0.999 is expected");
        return refuse("switch.conga.alpha", &message);
    }
    Ok(())
}

fn watchdog(watchdog: &WatchdogConfig, config: &SwitchConfig) -> Result<(), BuildError> {
    let WatchdogConfig { detection_time, restoration_time, poll_interval, .. } = *watchdog;
    let times = [
        ("detection_time", detection_time),
        ("restoration_time", restoration_time),
        ("poll_interval", poll_interval),
    ];
    for (key, time) in times {
        if time < Delta::from_us(1) {
            let message = format!("{time} is out of range: at least 1us is expected");
            return Err(BuildError::new(format!("switch.pfc_wd.{key}"), message));
        }
    }
    if config.pfc.quanta == 0 {
        let message = "pauses never run out where pfc.quanta is 0: a watchdog needs 1 to 65535";
        return Err(BuildError::new("switch.pfc_wd", message));
    }
    Ok(())
}

pub(super) fn nic(config: &NicConfig) -> Result<(), BuildError> {
    let refuse = |key: &str, message: String| Err(BuildError::new(key, message));
    if !(256..=9216).contains(&config.mtu) {
        let message = format!("{} is out of range: 256 to 9216 bytes of payload", config.mtu);
        return refuse("nic.mtu", message);
    }
    let qos = &config.qos;
    let dscps = [qos.dscp, qos.cnp_dscp, qos.ack_dscp.unwrap_or(0)];
    below("nic.qos", dscps, 64)?;
    below("nic.qos.dscp_to_priority", qos.dscp_to_priority.keys().copied(), 64)?;
    below("nic.qos.dscp_to_priority", qos.dscp_to_priority.values().copied(), QUEUES)?;
    below("nic.pfc.priorities", config.pfc.priorities.iter().copied(), QUEUES)?;
    below("nic.np.priorities", config.np.priorities.iter().copied(), QUEUES)?;
    let transport = &config.transport;
    if transport.ack_every == 0 {
        return refuse("nic.transport.ack_every", "0 is out of range: at least 1".into());
    }
    below("nic.transport.timeout", [transport.timeout], 32)?;
    below("nic.transport.retry_cnt", [transport.retry_cnt], 8)?;
    if transport.window == Some(WindowSize::Bytes(Bytes::ZERO)) {
        return refuse("nic.transport.window", "0 lets nothing through".into());
    }
    let SelectiveConfig { rto_low, rto_high, .. } = transport.selective;
    if rto_low.is_zero() || rto_high < rto_low {
        let message =
            format!("{rto_low} is out of range: more than 0 and at most rto_high is expected");
        return refuse("nic.transport.selective.rto_low", message);
    }
    if transport.ooo_data_placement && transport.recovery == Recovery::GoBack0 {
        let message = "with recovery = \"go-back-0\" a receiver throws away what it has of a message \
                       and can place nothing out of order: \"go-back-n\" is expected with it";
        return refuse("nic.transport.ooo_data_placement", message.into());
    }
    if let Some(storm) = &config.pause_storm {
        below("nic.pause_storm.priority", [storm.priority], QUEUES)?;
        if storm.until <= storm.from {
            let message = format!("the storm ends at {}, before it begins", storm.until);
            return refuse("nic.pause_storm.until", message);
        }
    }
    if let Some(receive) = &config.receive {
        if receive.rate.bps() == 0 {
            return refuse("nic.receive.rate", "0 drains nothing".into());
        }
        if receive.xoff > receive.buffer {
            return refuse("nic.receive.xoff", "xoff is beyond the buffer".into());
        }
        if receive.xon >= receive.xoff {
            return refuse("nic.receive.xon", "xon must be below xoff".into());
        }
    }
    let congestion = config.congestion.check();
    congestion
        .map_err(|(key, message)| BuildError::new(format!("nic.congestion.{key}"), message))?;
    let tcp = config.tcp.check();
    tcp.map_err(|(key, message)| BuildError::new(format!("nic.tcp.{key}"), message))
}

pub(super) fn wire(config: &WireConfig) -> Result<(), BuildError> {
    if config.ttl < 2 {
        let message = format!("{} passes no switch: 2 to 255 is expected", config.ttl);
        return Err(BuildError::new("wire.ttl", message));
    }
    for (key, bytes, most) in [
        ("frame_overhead", config.frame_overhead, 1024),
        ("reth", config.reth, 1024),
        ("ack_frame", config.ack_frame, 4096),
        ("cnp_frame", config.cnp_frame, 4096),
        ("pfc_frame", config.pfc_frame, 4096),
        ("min_frame", config.min_frame, 1024),
        ("gap", config.gap, 1024),
    ] {
        if bytes.get() > most {
            let message = format!("{bytes} is out of range: at most {most} B is expected");
            return Err(BuildError::new(format!("wire.{key}"), message));
        }
    }
    if config.ack_frame.get().min(config.cnp_frame.get()).min(config.pfc_frame.get()) == 0 {
        return Err(BuildError::new("wire.ack_frame", "frames take at least 1 B"));
    }
    Ok(())
}
