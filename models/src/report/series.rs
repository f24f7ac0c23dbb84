//! Time series of a run, from its samples.

use super::timeline::{LaneSpan, timeline};
use crate::fabric::{Outcome, Plan, PortSample, QpSample};
use crate::ids::{NodeId, PortId};
use crate::probe::Probe;

/// Samples as columns. Rates and shares are means over the interval that ends at the sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Sample times in seconds.
    pub time_s: Vec<f64>,
    /// One per sampled port.
    pub ports: Vec<PortSeries>,
    /// One per sampled flow.
    pub flows: Vec<FlowSeries>,
    /// What the lanes of collectives did; always there.
    pub lanes: Vec<LaneSpan>,
}

/// A port over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortSeries {
    /// `leaf0:33`
    pub port: String,
    /// Link rate.
    pub rate_bps: u64,
    /// Bytes in all queues.
    pub queue_bytes: Vec<u64>,
    /// L2 bits sent per second.
    pub tx_bps: Vec<f64>,
    /// Share of the time that the port was paused (sum over priorities).
    pub paused_share: Vec<f64>,
}

/// A flow over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowSeries {
    /// Number.
    pub id: u32,
    /// Sending host.
    pub source: String,
    /// Receiving host.
    pub target: String,
    /// Rate allowed by congestion control.
    pub rate_bps: Vec<u64>,
    /// Rate to return to.
    pub target_rate_bps: Vec<u64>,
    /// Congestion estimate.
    pub alpha: Vec<f64>,
    /// Payload bits delivered per second.
    pub goodput_bps: Vec<f64>,
}

impl Series {
    /// Leaves the ports that have the deepest queues, that are paused most and that send most: so
    /// many in all.
    pub fn keep_leading(&mut self, most: usize) {
        if self.ports.len() <= most {
            return;
        }
        let sum = |values: &[f64]| values.iter().filter(|value| value.is_finite()).sum::<f64>();
        let deepest = |port: &PortSeries| port.queue_bytes.iter().max().copied().unwrap_or(0);
        let measures: [&dyn Fn(&PortSeries) -> f64; 3] =
            [&|port| deepest(port) as f64, &|port| sum(&port.paused_share), &|port| {
                sum(&port.tx_bps)
            }];
        let mut kept = vec![false; self.ports.len()];
        for measure in measures {
            let values: Vec<f64> = self.ports.iter().map(measure).collect();
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
            order.iter().take(most / 3).for_each(|port| kept[*port] = true);
        }
        let mut kept = kept.into_iter();
        self.ports.retain(|_| kept.next().unwrap_or(false));
    }
}

/// The series of a run; only `lanes` if nothing was sampled.
pub fn series<P: Probe>(outcome: &Outcome<P>, plan: &Plan) -> Series {
    let samples = &outcome.fabric.samples;
    let lanes = timeline(outcome, plan);
    let wiring = &plan.wiring;
    let time_s: Vec<f64> = samples.iter().map(|sample| sample.time.as_secs()).collect();
    if samples.is_empty() {
        return Series { lanes, ..Series::default() };
    }
    let per_second = |values: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let step = |i: usize| match i {
            0 => 0.0,
            i => (values(i) - values(i - 1)) / (time_s[i] - time_s[i - 1]),
        };
        (0..time_s.len()).map(step).collect()
    };
    let port = |(slot, port): (usize, &u32)| {
        let of = |i: usize| -> PortSample { samples[i].ports[slot] };
        let id = PortId(*port);
        PortSeries {
            port: wiring.topology.port_name(id),
            rate_bps: wiring.topology.port(id).rate.bps(),
            queue_bytes: (0..samples.len()).map(|i| of(i).queue_bytes).collect(),
            tx_bps: per_second(&|i| of(i).tx_bytes as f64 * 8.0),
            paused_share: per_second(&|i| of(i).paused.as_secs()),
        }
    };
    let flow = |qp: usize| {
        let of = |i: usize| -> QpSample { samples[i].qps[qp] };
        let name = |node: u32| wiring.topology.node(NodeId(node)).name.clone();
        FlowSeries {
            id: qp as u32,
            source: name(wiring.qps[qp].source),
            target: name(wiring.qps[qp].target),
            rate_bps: (0..samples.len()).map(|i| of(i).rate.bps()).collect(),
            target_rate_bps: (0..samples.len()).map(|i| of(i).target_rate.bps()).collect(),
            alpha: (0..samples.len()).map(|i| of(i).alpha).collect(),
            goodput_bps: per_second(&|i| of(i).delivered_bytes as f64 * 8.0),
        }
    };
    let ports = wiring.sampled_ports.iter().enumerate().map(port).collect();
    let flows = (0..wiring.sampled_qps as usize).map(flow).collect();
    Series { time_s, ports, flows, lanes }
}
