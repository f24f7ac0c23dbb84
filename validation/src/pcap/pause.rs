//! Pauses, from the frames that ask for them.

use std::collections::BTreeMap;

use super::reader::Interface;
use super::stats::{PauseStats, mac_text, seconds};

/// Ports that are told apart.
const PORTS_MAX: usize = 1 << 16;

/// The pauses of one priority that one port asks for.
#[derive(Clone, Debug, Default)]
struct Pause {
    xoff: u64,
    xon: u64,
    episodes: u64,
    paused: i128,
    since: Option<i128>,
    /// When the quanta are over; none where the rate is not known.
    until: Option<i128>,
}

/// All pauses of a capture.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Frames, of any number of priorities.
    pub(super) frames: u64,
    rate: Option<u64>,
    /// By interface, sender, and priority (none: the whole port).
    pauses: BTreeMap<(usize, [u8; 6], Option<u8>), Pause>,
}

/// The interface, when, and the rate if the file says it.
pub(super) type At = (usize, Option<i128>, Option<u64>);

impl Pauses {
    pub(super) fn new(rate: Option<u64>) -> Self {
        Pauses { rate, ..Pauses::default() }
    }

    /// A frame asks for a pause, or (0) ends it.
    pub(super) fn on(&mut self, at: At, source: [u8; 6], priority: Option<u8>, quanta: u16) {
        let (interface, time, rate) = at;
        let key = (interface, source, priority);
        if self.pauses.len() == PORTS_MAX && !self.pauses.contains_key(&key) {
            return;
        }
        let pause = self.pauses.entry(key).or_default();
        pause.xoff += u64::from(quanta > 0);
        pause.xon += u64::from(quanta == 0);
        let Some(time) = time else { return };
        let expired = pause.until.is_some_and(|until| until < time);
        if quanta == 0 || expired {
            pause.end(time);
        }
        if quanta > 0 {
            if pause.since.is_none() {
                pause.episodes += 1;
                pause.since = Some(time);
            }
            // a quantum is 512 bit times
            let span = |rate: u64| i128::from(quanta) * 512 * 1_000_000_000_000 / i128::from(rate);
            pause.until = rate.or(self.rate).map(|rate| time + span(rate));
        }
    }

    pub(super) fn finish(self, last: Option<i128>, interfaces: &[Interface]) -> Vec<PauseStats> {
        let told = |((interface, source, priority), mut pause): (_, Pause)| {
            let interface: usize = interface;
            let last = last.unwrap_or_default();
            let open = pause.since.is_some() && pause.until.is_none_or(|until| until > last);
            pause.end(last);
            PauseStats {
                interface: interfaces.get(interface).and_then(|interface| interface.name.clone()),
                sender: mac_text(source),
                priority,
                xoff_frames: pause.xoff,
                xon_frames: pause.xon,
                episodes: pause.episodes,
                paused_s: seconds(pause.paused),
                open,
            }
        };
        self.pauses.into_iter().map(told).collect()
    }
}

impl Pause {
    fn end(&mut self, time: i128) {
        if let Some(since) = self.since.take() {
            let end = self.until.map_or(time, |until| until.min(time));
            self.paused += (end - since).max(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i128 = 1_000_000;

    /// Paused time in microseconds, episodes, and whether it is open at 1000 us.
    fn paused(rate: Option<u64>, frames: &[(i128, u16)]) -> (f64, u64, bool) {
        let mut pauses = Pauses::new(rate);
        for (us, quanta) in frames {
            pauses.on((0, Some(us * US), None), [0; 6], Some(3), *quanta);
        }
        let told = pauses.finish(Some(1000 * US), &[]).remove(0);
        ((told.paused_s * 1e9).round() / 1e3, told.episodes, told.open)
    }

    #[test]
    fn a_pause_lasts_until_xon_or_its_quanta() {
        assert_eq!(paused(None, &[(10, 65535), (30, 0)]), (20.0, 1, false));
        // refreshed, then let go, and again without an end
        let frames = [(10, 65535), (20, 65535), (30, 0), (40, 65535)];
        assert_eq!(paused(None, &frames), (980.0, 2, true));
        // 65535 quanta at 100 Gb/s are 335.539 us
        let rate = Some(100_000_000_000);
        assert_eq!(paused(rate, &[(10, 65535)]), (335.539, 1, false));
        assert_eq!(paused(rate, &[(10, 65535), (500, 65535), (600, 0)]), (435.539, 2, false));
        assert_eq!(paused(rate, &[(10, 65535), (110, 65535)]), (435.539, 1, false));
        // XON alone
        assert_eq!(paused(rate, &[(10, 0)]), (0.0, 0, false));
    }
}
