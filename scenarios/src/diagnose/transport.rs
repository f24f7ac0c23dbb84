//! How NCCL carries data where it could do better: by sockets, through host memory, by an algorithm
//! that was forced.

use models::collective::{Link, Protocol};
use models::report::{Finding, Severity};
use serde_json::json;

use super::collective::Job;
use super::finding;

/// What `ALGO` and `PROTO` rule out is worth saying if it takes this share of the time, or less.
const FORCED: f64 = 0.7;

impl Job<'_> {
    /// Slices go through host memory.
    /// NCCL_ALGO and NCCL_PROTO leave only what is slower at this size.
    pub(super) fn forced(&self) -> Option<Finding> {
        let choice = &self.plan.wiring.jobs[self.number as usize].choice;
        let (taken, missed) = (choice.candidates.first()?, choice.missed?);
        if missed.time_us > FORCED * taken.time_us {
            return None;
        }
        let [taken_as, missed_as] =
            [taken, &missed].map(|c| format!("{} {}", c.algorithm.name(), c.protocol.name()));
        let text = format!(
            "{}: ALGO and PROTO leave {taken_as} for {}, {:.0} us by NCCL's own model; it would take \
             {missed_as}, {:.0} us",
            self.name(),
            crate::text::binary(self.collective.bytes),
            taken.time_us,
            missed.time_us
        );
        let evidence = [("taken_us", json!(taken.time_us)), ("missed_us", json!(missed.time_us))];
        let remedy = Some("leave NCCL_ALGO and NCCL_PROTO unset".to_owned());
        let mut found = finding("algorithm_forced", Severity::Warning, text, evidence, remedy);
        let nccl = &self.plan.spec.nccl;
        let (algo, proto) = (missed.algorithm.name(), missed.protocol.name());
        found.set.extend(nccl.algo.is_some().then(|| format!("nccl.ALGO=\"{algo}\"")));
        found.set.extend(nccl.proto.is_some().then(|| format!("nccl.PROTO=\"{proto}\"")));
        Some(found)
    }

    /// NCCL's socket transport.
    pub(super) fn by_sockets(&self) -> Option<Finding> {
        let nccl = &self.plan.spec.nccl;
        let sockets = nccl.sockets()?;
        let (_, config) = self.slowest(|config| config.socket.rate)?;
        let text = format!(
            "{}: data goes over TCP ({sockets} socket{} a connection), not RDMA: a CPU thread for each \
             GPU copies at {}, both ways together, and everything passes host memory",
            self.name(),
            if sockets == 1 { "" } else { "s" },
            config.socket.rate
        );
        let (set, remedy) = match nccl.net {
            Some(_) => ("nccl.NET=\"IB\"", "NET = \"IB\" (or leave it out)"),
            None => ("nccl.IB_DISABLE=0", "IB_DISABLE = 0 (or leave it out)"),
        };
        let remedy = format!("{remedy}, and see in NCCL's log that NET/IB is used, not NET/Socket");
        let evidence = [("sockets", json!(sockets))];
        let mut found = finding("sockets", Severity::Warning, text, evidence, Some(remedy));
        found.set = vec![set.to_owned()];
        Some(found)
    }

    pub(super) fn gdr_off(&self) -> Option<Finding> {
        let job = &self.plan.wiring.jobs[self.number as usize];
        if self.plan.spec.nccl.sockets().is_some() || job.protocol() == Protocol::Ll {
            return None;
        }
        let off = job.connections.iter().filter_map(|connection| match &connection.link {
            Link::Remote { gdr, .. } if *gdr != [true; 2] => Some((connection, *gdr)),
            _ => None,
        });
        let off: Vec<_> = off.collect();
        let (first, gdr) = off.first()?;
        let rank = job.ranks[if gdr[0] { first.to } else { first.from } as usize];
        let config = self.plan.spec.hosts[rank.host.index()].as_deref()?;
        let level = self.plan.spec.nccl.net_gdr_level.0;
        let (why, set, remedy) = if config.gdr {
            let why = format!(
                "the GPU and the NIC are farther apart than NET_GDR_LEVEL = {} allows",
                level.name()
            );
            let remedy = "let data use NICs next to its GPUs (host.nics[].affinity, IB_HCA)";
            (why, None, remedy)
        } else {
            let remedy = "load nvidia-peermem (or use dma-buf): host.gdr = true";
            ("GPUDirect RDMA is off".to_owned(), Some("host.gdr=true"), remedy)
        };
        let text = format!(
            "{}: {} of its {} connections between servers go through host memory at {} a GPU ({} is \
             one end): {why}",
            self.name(),
            off.len(),
            job.connections.iter().filter(|c| matches!(c.link, Link::Remote { .. })).count(),
            config.host_memory.rate,
            self.plan.wiring.topology.node(rank.host).name
        );
        let evidence = [("connections", json!(off.len()))];
        let mut found =
            finding("gdr_off", Severity::Warning, text, evidence, Some(remedy.to_owned()));
        found.set = set.map(str::to_owned).into_iter().collect();
        Some(found)
    }
}
