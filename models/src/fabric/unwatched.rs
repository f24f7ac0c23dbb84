//! A fabric that has run, without its observer.

use super::Fabric;
use crate::probe::Probe;

impl<P: Probe> Fabric<P> {
    /// The same without its observer.
    pub(crate) fn unwatched(self) -> Fabric {
        let Fabric {
            wiring,
            shard,
            large,
            gap,
            ports,
            switches,
            mmus,
            pipelines,
            limited,
            classifiers,
            wreds,
            ways,
            notes,
            smoothed,
            nics,
            dmas,
            executors,
            host_at,
            outputs,
            senders,
            opener,
            receivers,
            waits_for,
            tally,
            standing,
            samples,
            sample_every,
            pauses,
            integrals,
            probe: _,
        } = self;
        Fabric {
            wiring,
            shard,
            large,
            gap,
            ports,
            switches,
            mmus,
            pipelines,
            limited,
            classifiers,
            wreds,
            ways,
            notes,
            smoothed,
            nics,
            dmas,
            executors,
            host_at,
            outputs,
            senders,
            opener,
            receivers,
            waits_for,
            tally,
            standing,
            samples,
            sample_every,
            pauses,
            integrals,
            probe: (),
        }
    }
}
