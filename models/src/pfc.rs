//! Priority flow control (IEEE 802.1Qbb; frames as in 802.3 annex 31B): who is told to pause, and
//! who pauses.

use sim_core::{Delta, Time};

use crate::ids::PRIORITIES;

/// Timing of PFC at one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PfcTiming {
    /// Pause time of an XOFF frame in quanta of 512 bit times; 0: it holds until XON.
    pub quanta: u16,
    /// XOFF is repeated after this long; if absent, after half its pause time.
    pub refresh: Option<Delta>,
    /// From the arrival of a PFC frame to its effect.
    pub response_time: Delta,
}

/// The sending side at one port: for which priorities XOFF holds, and when to repeat it.
#[derive(Clone, Debug)]
pub struct PfcSender {
    asserted: u8,
    refresh_every: Delta,
    refresh_at: Time,
}

impl PfcSender {
    /// Repeats XOFF every `refresh_every`; never if that is [`Delta::MAX`].
    pub fn new(refresh_every: Delta) -> Self {
        PfcSender { asserted: 0, refresh_every, refresh_at: Time::MAX }
    }

    /// XOFF begins for `priority`. An XOFF frame is due now.
    pub fn xoff(&mut self, now: Time, priority: u8) {
        if self.asserted == 0 {
            self.refresh_at = now.saturating_add(self.refresh_every);
        }
        self.asserted |= 1 << priority;
    }

    /// XOFF ends for `priority`. An XON frame is due now.
    pub fn xon(&mut self, priority: u8) {
        self.asserted &= !(1 << priority);
        if self.asserted == 0 {
            self.refresh_at = Time::MAX;
        }
    }

    /// When XOFF must be repeated; [`Time::MAX`] for never.
    pub fn next_refresh(&self) -> Time {
        self.refresh_at
    }

    /// The priorities whose XOFF must be repeated now (a bit each); none if it is not time.
    pub fn refresh(&mut self, now: Time) -> u8 {
        if now < self.refresh_at {
            return 0;
        }
        self.refresh_at = now.saturating_add(self.refresh_every);
        self.asserted
    }

    /// The priorities for which XOFF holds (a bit each).
    pub fn asserted(&self) -> u8 {
        self.asserted
    }
}

/// The receiving side at one port: which priorities may not send, and until when.
#[derive(Clone, Debug, Default)]
pub struct PauseState {
    paused: u8,
    until: [Time; PRIORITIES],
    since: [Time; PRIORITIES],
    /// Finished episodes' time.
    total: [Delta; PRIORITIES],
    episodes: [u32; PRIORITIES],
}

impl PauseState {
    /// The paused priorities (a bit each).
    #[inline]
    pub fn paused(&self) -> u8 {
        self.paused
    }

    /// A PFC frame takes effect: pause until `until`, which is `now` for XON.
    pub fn apply(&mut self, now: Time, priority: u8, until: Time) {
        let (bit, slot) = (1 << priority, usize::from(priority));
        if until > now {
            if self.paused & bit == 0 {
                self.paused |= bit;
                self.since[slot] = now;
                self.episodes[slot] += 1;
            }
            self.until[slot] = until;
        } else if self.paused & bit != 0 {
            self.end(now, slot);
        }
    }

    /// The earliest expiry; [`Time::MAX`] for never.
    pub fn next_expiry(&self) -> Time {
        let mut earliest = Time::MAX;
        for slot in (0..PRIORITIES).filter(|slot| self.paused & (1 << slot) != 0) {
            earliest = earliest.min(self.until[slot]);
        }
        earliest
    }

    /// Ends the pauses that expire at `now`.
    pub fn expire(&mut self, now: Time) {
        for slot in 0..PRIORITIES {
            if self.paused & (1 << slot) != 0 && self.until[slot] <= now {
                self.end(now, slot);
            }
        }
    }

    fn end(&mut self, now: Time, slot: usize) {
        self.paused &= !(1 << slot);
        self.total[slot] += now - self.since[slot];
    }

    /// Time paused up to `now`, an open episode included.
    pub fn paused_time(&self, now: Time, priority: usize) -> Delta {
        let open = self.paused & (1 << priority) != 0;
        let running = if open { now.since(self.since[priority]) } else { Delta::ZERO };
        self.total[priority] + running
    }

    /// When the pause that holds a priority began.
    pub fn since(&self, priority: usize) -> Option<Time> {
        (self.paused & (1 << priority) != 0).then(|| self.since[priority])
    }

    /// Episodes begun.
    pub fn episodes(&self, priority: usize) -> u32 {
        self.episodes[priority]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Time {
        Time::from_ps(us * 1_000_000)
    }

    #[test]
    fn an_episode_ends_by_xon_or_expiry_and_refreshes_extend_it() {
        let mut pause = PauseState::default();
        // XOFF at 10 us for 100 us, repeated at 60 us: one episode until 160 us
        pause.apply(us(10), 3, us(110));
        pause.apply(us(60), 3, us(160));
        assert_eq!((pause.paused(), pause.next_expiry()), (0b1000, us(160)));
        pause.expire(us(110));
        assert_eq!(pause.paused(), 0b1000);
        pause.expire(us(160));
        assert_eq!(pause.paused(), 0);
        assert_eq!((pause.episodes(3), pause.paused_time(us(200), 3)), (1, us(150) - us(0)));
        // a second one, ended by XON after 5 us; XON without a pause changes nothing
        pause.apply(us(200), 3, us(300));
        pause.apply(us(205), 3, us(205));
        pause.apply(us(206), 3, us(206));
        assert_eq!((pause.episodes(3), pause.paused_time(us(300), 3)), (2, us(155) - us(0)));
        assert_eq!(pause.next_expiry(), Time::MAX);
    }

    #[test]
    fn xoff_is_repeated_while_it_holds() {
        let mut sender = PfcSender::new(Delta::from_us(50));
        sender.xoff(us(10), 3);
        sender.xoff(us(30), 4);
        assert_eq!(sender.next_refresh(), us(60));
        assert_eq!(sender.refresh(us(59)), 0);
        assert_eq!(sender.refresh(us(60)), 0b1_1000);
        sender.xon(3);
        assert_eq!(sender.refresh(us(110)), 0b1_0000);
        sender.xon(4);
        assert_eq!(sender.next_refresh(), Time::MAX);
    }
}
