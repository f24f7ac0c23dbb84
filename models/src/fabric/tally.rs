//! What is summed over a shard.

use sim_core::Time;

/// What is summed over a shard as it runs.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Frames that left a port.
    pub packet_hops: u64,
    /// Frames other than PFC that entered the network at a NIC, and their bytes.
    pub injected: u64,
    /// See `injected`.
    pub injected_bytes: u64,
    /// Frames other than PFC that reached their host.
    pub arrived: u64,
    /// See `arrived`.
    pub arrived_bytes: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// See `dropped`.
    pub dropped_bytes: u64,
    /// Frames that switches hold.
    pub held: u64,
    /// Flows that are acknowledged or have failed, and ranks that are done with their collective.
    pub finished: u64,
    /// When the last of them was.
    pub last_finish: Time,
    /// When the last frame other than PFC left a port.
    pub last_progress: Time,
    /// When something last happened.
    pub last_activity: Time,
    /// Payload delivered.
    pub delivered_bytes: u64,
    /// QPs in the error state.
    pub failed: u64,
    /// When the first QP of a collective failed.
    pub collective_failed_at: Time,
    /// Frames that exist, waiting or on their way (PFC included), and pauses that are open.
    /// A shard's part may be negative: frames are made in one and used up in another.
    pub live: i64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            packet_hops: 0,
            injected: 0,
            injected_bytes: 0,
            arrived: 0,
            arrived_bytes: 0,
            dropped: 0,
            dropped_bytes: 0,
            held: 0,
            finished: 0,
            last_finish: Time::ZERO,
            last_progress: Time::ZERO,
            last_activity: Time::ZERO,
            delivered_bytes: 0,
            failed: 0,
            collective_failed_at: Time::MAX,
            live: 0,
        }
    }
}

impl Tally {
    /// Counts what has finished at `now`.
    pub(super) fn count_finished(&mut self, now: Time, count: u64) {
        self.finished += count;
        self.last_finish = now;
    }

    /// The tally of two parts.
    pub fn merged(self, other: Tally) -> Tally {
        Tally {
            packet_hops: self.packet_hops + other.packet_hops,
            injected: self.injected + other.injected,
            injected_bytes: self.injected_bytes + other.injected_bytes,
            arrived: self.arrived + other.arrived,
            arrived_bytes: self.arrived_bytes + other.arrived_bytes,
            dropped: self.dropped + other.dropped,
            dropped_bytes: self.dropped_bytes + other.dropped_bytes,
            held: self.held + other.held,
            finished: self.finished + other.finished,
            last_finish: self.last_finish.max(other.last_finish),
            last_progress: self.last_progress.max(other.last_progress),
            last_activity: self.last_activity.max(other.last_activity),
            delivered_bytes: self.delivered_bytes + other.delivered_bytes,
            failed: self.failed + other.failed,
            collective_failed_at: self.collective_failed_at.min(other.collective_failed_at),
            live: self.live + other.live,
        }
    }
}
