//! The notification point: when a marked packet causes a CNP.

use std::collections::BTreeMap;

use sim_core::Time;

use super::config::{CnpScope, NpConfig};

/// CNP timers of one port.
#[derive(Debug, Default)]
pub struct NotificationPoint {
    port: Option<Time>,
    addresses: BTreeMap<u32, Time>,
}

impl NotificationPoint {
    /// A marked packet from `address` arrives; `qp` is the timer of its QP. True if a CNP is due.
    pub fn on_marked(
        &mut self,
        now: Time,
        address: u32,
        qp: &mut Option<Time>,
        config: &NpConfig,
    ) -> bool {
        let last = match config.cnp_scope {
            CnpScope::Qp => *qp,
            CnpScope::DestinationIp => self.addresses.get(&address).copied(),
            CnpScope::Port => self.port,
        };
        let pause = config.min_time_between_cnps;
        if last.is_some_and(|last| now < last.saturating_add(pause)) {
            return false;
        }
        match config.cnp_scope {
            CnpScope::Qp => *qp = Some(now),
            CnpScope::DestinationIp => drop(self.addresses.insert(address, now)),
            CnpScope::Port => self.port = Some(now),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cnp_in_the_interval_per_scope() {
        let sent = |cnp_scope| {
            let config = NpConfig { cnp_scope, ..NpConfig::default() };
            let mut point = NotificationPoint::default();
            let mut qps = [None; 3];
            // QPs 0 and 1 from host 7, QP 2 from host 8; 4 us apart at least
            let arrivals = [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2), (6, 0)];
            let due = arrivals.map(|(us, qp): (u64, usize)| {
                let host = if qp < 2 { 7 } else { 8 };
                point.on_marked(Time::from_ps(us * 1_000_000), host, &mut qps[qp], &config)
            });
            due.iter().filter(|due| **due).count()
        };
        // by QP: at 0, 1, 2 us, and QP 0 again at 6; by host: 0, 2, 4; by port: 0, 4
        assert_eq!(sent(CnpScope::Qp), 4);
        assert_eq!(sent(CnpScope::DestinationIp), 3);
        assert_eq!(sent(CnpScope::Port), 2);
    }
}
