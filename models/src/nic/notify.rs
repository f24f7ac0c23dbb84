//! The notification point: when a marked packet causes a CNP.

use std::collections::BTreeMap;

use sim_core::{Delta, Time};

use super::config::{CnpScope, NpConfig};

/// CNP timers of one port.
#[derive(Debug, Default)]
pub struct NotificationPoint {
    port: Option<Time>,
    addresses: BTreeMap<u32, Time>,
    /// DCQCN+: QPs that were marked of late, and when.
    congested: BTreeMap<u32, Time>,
}

/// How a receiver makes the CNPs of DCQCN+.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// At most one in this time,
    pub cnp_time: Delta,
    /// and one for a QP in this time or longer.
    pub interval: Delta,
}

/// A QP counts as congested for so many of its intervals after a mark.
const CONGESTED: u64 = 4;

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

    /// The same for a QP of DCQCN+; the pause between its CNPs, if one is due.
    #[cold]
    pub fn on_marked_spread(
        &mut self,
        now: Time,
        qp: u32,
        last: &mut Option<Time>,
        spread: &Spread,
    ) -> Option<Delta> {
        self.congested.insert(qp, now);
        let since = spread.interval * CONGESTED;
        self.congested.retain(|_, marked| now < marked.saturating_add(since));
        let pause = spread.interval.max(spread.cnp_time * self.congested.len() as u64);
        let early = |last: Option<Time>, pause| {
            last.is_some_and(|last: Time| now < last.saturating_add(pause))
        };
        if early(*last, pause) || early(self.port, spread.cnp_time) {
            return None;
        }
        (*last, self.port) = (Some(now), Some(now));
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_congested_qps_have_longer_pauses() {
        // 10 us between two CNPs, 30 us for a QP: four QPs are told of 40 us
        let spread = Spread { cnp_time: Delta::from_us(10), interval: Delta::from_us(30) };
        let (mut point, mut last) = (NotificationPoint::default(), [None; 4]);
        let mut on = |us: u64, qp: usize| {
            let at = Time::from_ps(us * 1_000_000);
            point
                .on_marked_spread(at, qp as u32, &mut last[qp], &spread)
                .map(|it| it.ps() / 1_000_000)
        };
        assert_eq!(
            [on(0, 0), on(5, 1), on(10, 1), on(20, 2)],
            [Some(30), None, Some(30), Some(30)]
        );
        assert_eq!([on(30, 3), on(35, 0), on(40, 0)], [Some(40), None, Some(40)]);
        // 120 us after its last mark a QP does not count any more
        assert_eq!(on(200, 1), Some(30));
    }

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
