//! What holds traffic back where nothing is congested: steps that take long, and too little under way
//! for the distance.

use std::collections::BTreeMap;

use models::collective::Protocol;
use models::fabric::{Plan, QpInfo};
use models::ids::NodeId;
use models::nic::WindowSize;
use models::report::{Finding, Report, Severity};
use models::wire::LinkClock;
use serde_json::json;
use sim_core::{Bytes, Delta, Rate};

use super::collective::Job;
use super::finding;
use crate::text;

/// A link that is busy for a larger share of the time is full.
const FULL: f64 = 0.9;
/// A limit explains what is below it by no more than this.
const EXPLAINED: f64 = 0.6;
/// NCCL's default of BUFFSIZE, and the largest that is proposed.
const BUFFSIZE: [u64; 2] = [4 << 20, 64 << 20];

impl Job<'_> {
    /// The finding about what a ring waits for if it is slow and no link, queue or loss is to blame.
    pub(super) fn without_congestion(&self) -> Option<Finding> {
        // what follows is the arithmetic of rings under Simple
        let job = &self.plan.wiring.jobs[self.number as usize];
        if !self.is_ring() || job.config.op.has_root() || job.protocol() != Protocol::Simple {
            return None;
        }
        let [slice, slot] = self.slices();
        // where messages are so small that they fill no slot, it is latency that counts
        if self.share() > 0.9 || slice < slot || !self.is_calm() {
            return None;
        }
        self.window_limited(slice).or_else(|| self.step_limited(slice))
    }

    /// No link on the way is full, nothing was lost, marked or paused for long.
    fn is_calm(&self) -> bool {
        let totals = &self.report.totals;
        let long = 0.02 * self.report.simulated_time_s;
        let calm = |port: u32| {
            let report = self.port(port);
            self.busy(port) < FULL && report.paused_s < long && report.ecn_marked_packets == 0
        };
        totals.drops.is_empty() && totals.timeouts == 0 && self.on_way().into_iter().all(calm)
    }

    /// Bytes of the largest slice of its programs, and those that a slot of NCCL's buffers takes.
    fn slices(&self) -> [u64; 2] {
        let job = &self.plan.wiring.jobs[self.number as usize];
        let program = job.program(0, 0);
        let steps = program.loop_steps().min(program.len());
        let chunk = (0..steps).map(|step| program.step(step).bytes).max().unwrap_or(0);
        let slot = job.buffers.slot;
        [program.slice(chunk, 0, slot), slot]
    }

    /// busbw in GB/s, if a limit, in GB/s, is below the NICs' and explains it.
    fn explained(&self, limit: f64) -> Option<f64> {
        let busbw = self.collective.busbw_gbytes_per_s?;
        (limit < 0.95 * self.ceiling && busbw > EXPLAINED * limit).then_some(busbw)
    }

    /// The fixed cost of each slice counts for much beside its bytes.
    fn step_limited(&self, slice: u64) -> Option<Finding> {
        let channels = self.collective.channels;
        let bytes = Bytes::new(slice);
        let of_step = |config: &models::host::HostConfig| {
            let step = config.slice_latency + config.channel_rate.time_for(bytes);
            (step, Rate::from_bps(speed(slice, step) as u64))
        };
        let (host, config) = self.slowest(|config| of_step(config).1)?;
        let (step, rate) = of_step(config);
        let one = rate.bps() as f64 / 8e9;
        let all = one * f64::from(channels);
        let busbw = self.explained(all)?;
        let text = format!(
            "{}: each step is too small for what it costs: a slice of {} takes {step} on a thread \
             block of {host}, so that {channels} channels carry {all:.0} GB/s, and the NICs {:.0}; \
             no link is full",
            self.name(),
            text::binary(slice),
            self.ceiling
        );
        let evidence = [
            ("slice_bytes", json!(slice)),
            ("step_s", json!(step.as_secs())),
            ("channels", json!(channels)),
            ("channel_gbytes_per_s", json!(one)),
            ("busbw_gbytes_per_s", json!(busbw)),
        ];
        let each = self.ceiling * 1e9 / f64::from(channels);
        let needed = slice_for(1.05 * each, config.slice_latency, config.channel_rate);
        let buffsize = needed.map(|slice| (4 * slice).next_power_of_two().max(BUFFSIZE[0]));
        let buffsize = buffsize.filter(|size| *size <= BUFFSIZE[1]);
        let remedy = match buffsize {
            Some(size) => format!("BUFFSIZE = {size}: slices of {}", text::binary(size / 4)),
            None => "more channels (MIN_NCHANNELS), and look at what makes a step slow".to_owned(),
        };
        let mut found = finding("step_limited", Severity::Warning, text, evidence, Some(remedy));
        found.set = buffsize.map(|size| format!("nccl.BUFFSIZE={size}")).into_iter().collect();
        Some(found)
    }

    /// NCCL's buffers hold less than the longest way of the ring does.
    fn window_limited(&self, slice: u64) -> Option<Finding> {
        let longest = self.qps.iter().copied().max_by_key(|qp| one_way(self.plan, *qp))?;
        let qp = &self.plan.wiring.qps[longest];
        let host = self.plan.spec.hosts[qp.source as usize].as_deref()?;
        let rtt = (one_way(self.plan, longest) + host.proxy_latency) * 2;
        // four slots of each channel
        let (channels, slots) = (u64::from(self.collective.channels), 4);
        let window = channels * slots * slice;
        let full = self.ceiling * 1e9 * rtt.as_secs();
        let limit = window as f64 / rtt.as_secs() / 1e9;
        let busbw = self.explained(limit)?;
        let text = format!(
            "{}: too little is under way for the distance: {channels} channels have {} between {} \
             and {}, and {rtt} at {:.1} GB/s are {}; no link is full",
            self.name(),
            Bytes::new(window),
            self.node(qp.source),
            self.node(qp.target),
            self.ceiling,
            text::bytes(full)
        );
        let evidence = [
            ("rtt_s", json!(rtt.as_secs())),
            ("window_bytes", json!(window)),
            ("bdp_bytes", json!(full as u64)),
            ("busbw_gbytes_per_s", json!(busbw)),
        ];
        // as much again, for the time in which slices are filled and emptied
        let buffsize = (2.0 * full / channels as f64) as u64;
        let buffsize = buffsize.next_power_of_two().min(BUFFSIZE[1]);
        let remedy = Some(format!("BUFFSIZE = {buffsize} (or more channels: MIN_NCHANNELS)"));
        let mut found = finding("window_limited", Severity::Warning, text, evidence, remedy);
        found.set = vec![format!("nccl.BUFFSIZE={buffsize}")];
        Some(found)
    }
}

/// Bits per second of a slice that takes so long.
fn speed(slice: u64, step: Delta) -> f64 {
    slice as f64 * 8.0 / step.as_secs().max(1e-12)
}

/// Bytes of the slice by which a thread block reaches `target` bytes per second: with the latency L
/// and the rate r it takes L + s/r, so s = L t / (1 - t/r). None does if the thread block itself is
/// not faster than that.
fn slice_for(target: f64, latency: Delta, rate: Rate) -> Option<u64> {
    let rest = 1.0 - target * 8.0 / rate.bps() as f64;
    (rest > 0.05).then(|| (latency.as_secs() * target / rest).ceil() as u64)
}

/// From the last bit that the sender of a QP's data sends to its arrival, in an empty fabric of
/// which frames' own lengths are left out.
fn one_way(plan: &Plan, qp: usize) -> Delta {
    let delays =
        plan.path(qp).into_iter().map(|port| plan.wiring.wires[port as usize].arrival_delay);
    delays.fold(Delta::ZERO, |sum, delay| sum + delay)
}

/// What the flows of a port have under way together.
struct Windowed {
    /// One of them.
    qp: usize,
    window: u64,
    /// Windows over round trips, in bit/s: no more is possible,
    limit: f64,
    /// what is left of that where a window is acknowledged as a whole, after its last packet,
    least: f64,
    /// and what was reached.
    goodput: f64,
}

/// Flows whose windows are smaller than rate x round trip, and that reach what their windows allow.
pub(super) fn windows(report: &Report, plan: &Plan) -> Option<Finding> {
    let mut ports: BTreeMap<u32, Option<Windowed>> = BTreeMap::new();
    for (qp, info) in plan.wiring.qps[..plan.wiring.data_qps as usize].iter().enumerate() {
        let windowed = windowed(report, plan, qp, info);
        let none = Windowed { qp, window: 0, limit: 0.0, least: 0.0, goodput: 0.0 };
        match (ports.entry(info.source_port).or_insert(Some(none)), windowed) {
            (Some(sum), Some(one)) => {
                sum.window += one.window;
                sum.limit += one.limit;
                sum.least += one.least;
                sum.goodput += one.goodput;
            }
            // one without a window may take all that others leave
            (sum, _) => *sum = None,
        }
    }
    let rate = |port: &u32| plan.wiring.wires[*port as usize].clock.rate().bps() as f64;
    let short = ports
        .into_iter()
        .filter_map(|(port, sum)| Some((port, sum?)))
        .filter(|(port, sum)| sum.limit < 0.8 * rate(port) && sum.goodput > 0.8 * sum.least);
    let (port, sum) = short.min_by(|(_, a), (_, b)| a.limit.total_cmp(&b.limit))?;
    let info = &plan.wiring.qps[sum.qp];
    let rtt = one_way(plan, sum.qp) * 2;
    let full = rate(&port) / 8.0 * rtt.as_secs();
    let [source, target] = [info.source, info.target]
        .map(|host| plan.wiring.topology.node(NodeId(host)).name.as_str());
    let text = format!(
        "too little is under way for the distance: flows of {} have windows of {} together and reach \
         {}; from {source} to {target} and back it takes {rtt}, which is {} at its rate",
        report.ports[port as usize].port,
        Bytes::new(sum.window),
        text::rate(sum.goodput),
        text::bytes(full)
    );
    let evidence = [
        ("port", json!(report.ports[port as usize].port)),
        ("rtt_s", json!(rtt.as_secs())),
        ("window_bytes", json!(sum.window)),
        ("bdp_bytes", json!(full as u64)),
        ("goodput_bps", json!(sum.goodput)),
    ];
    let remedy = "raise nic.transport.window (or the `window` of flows) to rate x round \
                  trip, or use more QPs";
    Some(finding("window_limited", Severity::Warning, text, evidence, Some(remedy.to_owned())))
}

/// The line of a QP.
fn clock_of<'a>(plan: &'a Plan, info: &QpInfo) -> &'a LinkClock {
    &plan.wiring.wires[info.source_port as usize].clock
}

/// One flow, if it has a window that it used several times.
fn windowed(report: &Report, plan: &Plan, qp: usize, info: &QpInfo) -> Option<Windowed> {
    if info.is_of_collective() || info.is_tcp() || info.rate.is_some() {
        return None;
    }
    let nic = plan.spec.nics[info.source as usize].as_deref()?;
    let of_nic = nic.transport.window.map(|window| match window {
        WindowSize::Bytes(bytes) => bytes,
        WindowSize::Bdp => clock_of(plan, info).rate().bytes_in(plan.wiring.base_rtt),
    });
    let window = info.window.or(of_nic)?.get();
    let flow = &report.flows[qp];
    if flow.delivered_bytes < 8 * window {
        return None;
    }
    let rtt = one_way(plan, qp) * 2;
    let clock = clock_of(plan, info);
    let limit = speed(window, rtt);
    let least = speed(window, rtt + clock.rate().time_for(Bytes::new(window)));
    Some(Windowed { qp, window, limit, least, goodput: flow.goodput_bps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_that_pay_for_their_step() {
        // 7 us and 40 GB/s; for 24.5 GB/s: 7 us x 24.5 GB/s / (1 - 0.6125) = 442,581 B
        let (latency, rate) = (Delta::from_us(7), Rate::from_gbps(320));
        let slice = slice_for(24.5e9, latency, rate).unwrap();
        assert_eq!(slice, 442_581);
        let step = latency + rate.time_for(Bytes::new(slice));
        assert!((speed(slice, step) / 8e9 - 24.5).abs() < 0.001);
        // 128 KiB take 7 + 3.2768 us: 12.754 GB/s
        let step = latency + rate.time_for(Bytes::new(131_072));
        assert!((speed(131_072, step) / 8e9 - 12.754).abs() < 0.001, "{step}");
        // a thread block of 40 GB/s never reaches 40
        assert_eq!(slice_for(40e9, latency, rate), None);
    }
}
