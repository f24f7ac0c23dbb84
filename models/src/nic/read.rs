//! READ (IB specification 9.7): the end that asks. Its request goes to the host that has the data, whose
//! responses are not acknowledged: a gap, or a while without any, makes it ask again from what it
//! expects.

use sim_core::{Delta, Time};

/// The asking end of a READ.
#[derive(Clone, Debug)]
pub struct ReadEnd {
    /// Its requests leave by this port.
    pub port: u32,
    /// When all of the data had come.
    pub finished_at: Option<Time>,
    /// It has asked in vain too often.
    pub failed: bool,
    /// Its timer is in the NIC's queue.
    pub timer_armed: bool,
    timeout: Delta,
    retry_cnt: u8,
    retries: u8,
    timeout_at: Time,
}

impl ReadEnd {
    /// One that has not asked yet.
    pub fn new(port: u32, timeout: Delta, retry_cnt: u8) -> Self {
        ReadEnd {
            port,
            finished_at: None,
            failed: false,
            timer_armed: false,
            timeout,
            retry_cnt,
            retries: 0,
            timeout_at: Time::MAX,
        }
    }

    /// It asks, or something that it expects has come.
    pub fn progress(&mut self, now: Time, came: bool) {
        if came {
            self.retries = 0;
        }
        self.timeout_at = now.saturating_add(self.timeout);
    }

    /// All has come.
    pub fn finish(&mut self, now: Time) {
        self.finished_at = Some(now);
        self.timeout_at = Time::MAX;
    }

    /// How long it waits, and how often at most it asks again.
    pub fn retries(&self) -> (Delta, u8) {
        (self.timeout, self.retry_cnt)
    }

    /// When it asks again if nothing comes.
    pub fn timeout_at(&self) -> Time {
        self.timeout_at
    }

    /// Nothing has come; `false` if it gives up.
    pub fn on_timeout(&mut self, now: Time) -> bool {
        if self.retries >= self.retry_cnt {
            self.failed = true;
            self.finish(now);
            return false;
        }
        self.retries += 1;
        self.progress(now, false);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_again_and_gives_up() {
        let us = |us: u64| Time::from_ps(us * 1_000_000);
        let mut read = ReadEnd::new(0, Delta::from_us(10), 2);
        read.progress(us(0), false);
        assert!(read.on_timeout(us(10)) && read.on_timeout(us(20)));
        read.progress(us(25), true);
        assert_eq!(read.timeout_at(), us(35));
        assert!(read.on_timeout(us(35)) && read.on_timeout(us(45)) && !read.on_timeout(us(55)));
        assert_eq!((read.failed, read.timeout_at()), (true, Time::MAX));
    }
}
