//! The PFC watchdog of SONiC: notices a queue that PFC has stopped for too long, and frees it.
//!
//! Every `poll_interval` it looks at each queue whose PFC the port obeys (SONiC's
//! `pfc_detect_broadcom.lua`, `pfc_detect_mellanox.lua`, `pfc_restore.lua`). A queue that meets the
//! rule for `detection_time` is *stormed*; one whose port has received no XOFF for
//! `restoration_time` is restored. Times are counted in polls, as there: a storm is found at the
//! poll that makes it detection / poll (rounded up) polls in a row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Delta, Time};

use crate::packet::Packet;

/// `[switch.pfc_wd]`: the PFC watchdog of each port. Without the section there is none.
///
/// SONiC takes 100 ms to 5 s (detection), 100 ms to 60 s (restoration) and 100 ms to 1 s (poll);
/// shorter times are for short runs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WatchdogConfig {
    /// A queue that is stopped for this long is stormed.
    pub detection_time: Delta,
    /// A stormed queue is restored when no XOFF has come for this long.
    pub restoration_time: Delta,
    /// Time between two looks.
    pub poll_interval: Delta,
    /// What happens to a stormed queue.
    pub action: WatchdogAction,
    /// When a queue counts as stopped.
    pub rule: WatchdogRule,
}

impl Default for WatchdogConfig {
    /// SONiC's `pfcwd start_default`.
    fn default() -> Self {
        let ms_200 = Delta::from_ms(200);
        WatchdogConfig {
            detection_time: ms_200,
            restoration_time: ms_200,
            poll_interval: ms_200,
            action: WatchdogAction::Drop,
            rule: WatchdogRule::Broadcom,
        }
    }
}

/// What happens to a stormed queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchdogAction {
    /// What is in the queue, comes for it, or comes in by this port in its priority is discarded;
    /// the port neither obeys nor sends PFC for the priority.
    #[default]
    Drop,
    /// The port neither obeys nor sends PFC for the priority.
    Forward,
    /// It is counted.
    Alert,
}

/// When a queue counts as stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchdogRule {
    /// It holds frames and has been paused since the last look without a break, so that none left.
    #[default]
    Broadcom,
    /// It holds frames, none left since the last look, and it was paused for more than 99 % of that
    /// time.
    Mellanox,
}

/// What a look at a queue sees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// The frame that leaves next, and its place: as long as these stay, no frame has left.
    pub head: Option<(u32, Packet)>,
    /// It is told to pause.
    pub paused: bool,
    /// Pauses that have ended so far.
    pub pauses_ended: u32,
    /// Time paused so far.
    pub paused_time: Delta,
    /// XOFF frames received so far.
    pub xoffs: u32,
}

/// What a look changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A storm begins.
    Storm,
    /// It is over.
    Restore,
}

/// The watchdog of one queue.
#[derive(Clone, Debug)]
pub struct QueueWatch {
    last: Option<Look>,
    time_left: Delta,
    stormed: bool,
    /// What was counted.
    pub counters: WatchdogCounters,
}

/// What SONiC's `show pfcwd stats` tells of a queue, and when its storms were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchdogCounters {
    /// Storms that were found.
    pub storm_detected: u32,
    /// Those of them that are over.
    pub storm_restored: u32,
    /// Frames during all storms.
    pub total: StormFrames,
    /// Frames during the last one.
    pub last: StormFrames,
    /// When storms were found, and when they were over; the first [`STORMS_KEPT`] of them.
    pub storms: Vec<(Time, Option<Time>)>,
}

/// Storms of a queue whose times are kept.
pub const STORMS_KEPT: usize = 1000;

/// Frames of a queue (tx) and of the priority group of the same priority (rx) during storms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormFrames {
    /// Sent.
    pub tx_ok: u64,
    /// Discarded, in the queue or on their way into it.
    pub tx_drop: u64,
    /// Accepted from the port.
    pub rx_ok: u64,
    /// Discarded as they came in by the port.
    pub rx_drop: u64,
}

impl QueueWatch {
    /// One that has seen nothing.
    pub fn new(config: &WatchdogConfig) -> Self {
        QueueWatch {
            last: None,
            time_left: config.detection_time,
            stormed: false,
            counters: WatchdogCounters::default(),
        }
    }

    /// A storm goes on.
    pub fn stormed(&self) -> bool {
        self.stormed
    }

    /// A look at `now`, one `poll_interval` after the last one unless [`QueueWatch::rest`] was
    /// called in between.
    pub fn poll(&mut self, now: Time, config: &WatchdogConfig, look: Look) -> Option<Verdict> {
        let last = self.last.replace(look)?;
        let acts = config.action != WatchdogAction::Alert;
        let (goes_on, whole) = if self.stormed && acts {
            (look.xoffs == last.xoffs, config.restoration_time)
        } else {
            (stopped(config, &last, &look), config.detection_time)
        };
        if !goes_on {
            self.time_left = whole;
            return (self.stormed && !acts).then(|| self.restored(now, config));
        }
        if self.time_left > config.poll_interval {
            self.time_left = self.time_left.saturating_sub(config.poll_interval);
            return None;
        }
        self.time_left = whole;
        match (self.stormed, acts) {
            (false, _) => Some(self.detected(now, config)),
            (true, true) => Some(self.restored(now, config)),
            (true, false) => None,
        }
    }

    fn detected(&mut self, now: Time, config: &WatchdogConfig) -> Verdict {
        self.stormed = true;
        if config.action != WatchdogAction::Alert {
            self.time_left = config.restoration_time;
        }
        self.counters.storm_detected += 1;
        self.counters.last = StormFrames::default();
        if self.counters.storms.len() < STORMS_KEPT {
            self.counters.storms.push((now, None));
        }
        Verdict::Storm
    }

    fn restored(&mut self, now: Time, config: &WatchdogConfig) -> Verdict {
        self.stormed = false;
        self.time_left = config.detection_time;
        self.counters.storm_restored += 1;
        if let Some((_, over @ None)) = self.counters.storms.last_mut() {
            *over = Some(now);
        }
        Verdict::Restore
    }

    /// Whether there is nothing to watch: it is not stormed, and was not paused since the last look.
    pub fn is_idle(&self, before: Option<Look>) -> bool {
        let Some(look) = self.last else { return true };
        let calm = before.is_none_or(|before| before.paused_time == look.paused_time);
        !self.stormed && !look.paused && calm
    }

    /// What the last look saw.
    pub fn last(&self) -> Option<Look> {
        self.last
    }

    /// The next look will have none to compare with.
    pub fn rest(&mut self, config: &WatchdogConfig) {
        (self.last, self.time_left) = (None, config.detection_time);
    }

    /// Counts a frame during a storm.
    pub fn count(&mut self, change: impl Fn(&mut StormFrames)) {
        change(&mut self.counters.total);
        change(&mut self.counters.last);
    }
}

/// The rule: the queue was stopped from one look to the next.
fn stopped(config: &WatchdogConfig, last: &Look, look: &Look) -> bool {
    if look.head.is_none() {
        return false;
    }
    match config.rule {
        WatchdogRule::Broadcom => {
            last.paused && look.paused && look.pauses_ended == last.pauses_ended
        }
        WatchdogRule::Mellanox => {
            let paused = u128::from(look.paused_time.saturating_sub(last.paused_time).ps());
            // a queue that was empty and is paused for so long has sent nothing either
            let stays = look.head == last.head
                || (look.paused && look.pauses_ended == last.pauses_ended && last.paused);
            stays && paused * 100 > u128::from(config.poll_interval.ps()) * 99
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;

    const fn at(ms: u64) -> Time {
        Time::from_ps(ms * 1_000_000_000)
    }

    fn config(action: WatchdogAction, rule: WatchdogRule) -> WatchdogConfig {
        let ms = Delta::from_ms;
        WatchdogConfig {
            detection_time: ms(250),
            restoration_time: ms(200),
            poll_interval: ms(100),
            action,
            rule,
        }
    }

    /// A queue with this frame at its head, paused since the start, `ms` after it.
    fn paused(psn: u32, ms: u64, xoffs: u32) -> Look {
        let head = Some((0, Packet::new(Kind::Data, 7, psn, 1000)));
        let paused_time = Delta::from_ms(ms);
        Look { head, paused: true, pauses_ended: 0, paused_time, xoffs }
    }

    #[test]
    fn a_storm_is_found_after_whole_polls_and_restored_after_quiet_ones() {
        let config = config(WatchdogAction::Drop, WatchdogRule::Broadcom);
        let mut watch = QueueWatch::new(&config);
        // 0 ms: nothing to compare with; 250 ms are 3 polls of 100 ms: 100, 200, 300
        let verdicts: Vec<_> = (0..4)
            .map(|n| watch.poll(at(100 * n), &config, paused(1, 100 * n, n as u32)))
            .collect();
        assert_eq!(verdicts, [None, None, None, Some(Verdict::Storm)]);
        assert!(watch.stormed());
        // XOFF frames come until 500 ms: 600 and 700 are quiet, 200 ms
        let empty = |xoffs| Look { head: None, ..paused(1, 400, xoffs) };
        let verdicts: Vec<_> = [4, 5, 5, 5]
            .into_iter()
            .zip(4..)
            .map(|(xoffs, n)| watch.poll(at(100 * n), &config, empty(xoffs)))
            .collect();
        assert_eq!(verdicts, [None, None, None, Some(Verdict::Restore)]);
        let counters = &watch.counters;
        assert_eq!((counters.storm_detected, counters.storm_restored), (1, 1));
        assert_eq!(counters.storms, [(at(300), Some(at(700)))]);
        // and again, from the whole detection time on
        let again: Vec<_> =
            (8..11).map(|n| watch.poll(at(100 * n), &config, paused(9, 100 * n, 6))).collect();
        assert_eq!(again, [None, None, Some(Verdict::Storm)]);
    }

    #[test]
    fn a_pause_with_a_break_is_no_storm_for_broadcom() {
        let config = config(WatchdogAction::Drop, WatchdogRule::Broadcom);
        let mut watch = QueueWatch::new(&config);
        for n in 0..20 {
            // every 200 ms the pause ends for a moment
            let look = Look { pauses_ended: n / 2, ..paused(1, 99 * u64::from(n), n) };
            assert_eq!(watch.poll(at(100 * u64::from(n)), &config, look), None, "{n}");
        }
        // nor is a paused queue that holds nothing
        watch.rest(&config);
        for n in 0..20 {
            let look = Look { head: None, ..paused(1, 100 * n, 0) };
            assert_eq!(watch.poll(at(100 * n), &config, look), None, "{n}");
        }
    }

    #[test]
    fn mellanox_wants_more_than_99_percent_and_the_same_frame_at_the_head() {
        let config = config(WatchdogAction::Drop, WatchdogRule::Mellanox);
        let polls = |share_us: u64, moves: bool| {
            let mut watch = QueueWatch::new(&config);
            let look = |n: u64| Look {
                pauses_ended: n as u32,
                paused_time: Delta::from_us(n * share_us),
                ..paused(if moves { n as u32 } else { 1 }, 0, 0)
            };
            (0..4).filter_map(|n| watch.poll(at(100 * n), &config, look(n))).collect::<Vec<_>>()
        };
        // with a break in each poll: 99.1 % is a storm, 99.0 % is not
        assert_eq!(polls(99_100, false), [Verdict::Storm]);
        assert_eq!(polls(99_000, false), []);
        assert_eq!(polls(99_100, true), []);
    }

    #[test]
    fn alert_ends_with_the_first_poll_that_finds_frames_moving() {
        let config = config(WatchdogAction::Alert, WatchdogRule::Broadcom);
        let mut watch = QueueWatch::new(&config);
        // found at 300 ms and, though no XOFF comes, not over at 500
        let verdicts: Vec<_> = (0..6)
            .filter_map(|n| watch.poll(at(100 * n), &config, paused(1, 100 * n, 0)))
            .collect();
        assert_eq!(verdicts, [Verdict::Storm]);
        let free = Look { paused: false, pauses_ended: 1, ..paused(1, 550, 0) };
        assert_eq!(watch.poll(at(600), &config, free), Some(Verdict::Restore));
        assert_eq!(watch.counters.storms, [(at(300), Some(at(600)))]);
    }

    #[test]
    fn it_rests_when_nothing_was_paused_since_the_last_look() {
        let config = config(WatchdogAction::Drop, WatchdogRule::Mellanox);
        let mut watch = QueueWatch::new(&config);
        let free = |ms| Look { paused: false, ..paused(1, ms, 0) };
        watch.poll(at(0), &config, paused(1, 0, 0));
        let before = watch.last();
        watch.poll(at(100), &config, free(30));
        assert!(!watch.is_idle(before), "it was paused for 30 ms");
        let before = watch.last();
        watch.poll(at(200), &config, free(30));
        assert!(watch.is_idle(before));
    }
}
