//! Flows with `transport = "tcp"`: background that lives with losses.

mod common;

use common::{link, run, spec};
use models::nic::NicConfig;
use models::report::{OutcomeKind, Report};
use models::switch::SwitchConfig;
use models::topology::{StarConfig, TopologyConfig};
use models::traffic::{FlowSize, Hosts, IncastConfig, TrafficConfig, Transport};
use sim_core::{Bytes, Delta};

fn incast(senders: u32, mb: u64, transport: Transport) -> TrafficConfig {
    TrafficConfig::Incast(IncastConfig {
        name: String::new(),
        senders: Hosts::Range(0, senders),
        receiver: models::traffic::HostRef::Number(8),
        bytes: FlowSize::Bytes(Bytes::new(mb * 1_000_000)),
        start: Delta::ZERO,
        jitter: Delta::from_us(100),
        qps: 1,
        repeat: None,
        dscp: None,
        transport,
    })
}

fn simulate(traffic: &[TrafficConfig], shards: usize) -> Report {
    let star = StarConfig { hosts: 9, link: link(10, 5000), ports_per_host: 1 };
    let mut switch = SwitchConfig::default();
    switch.buffer.size = Bytes::new(2_000_000);
    let nic = NicConfig::default();
    run(spec(TopologyConfig::Star(star), switch, nic, traffic, 1), shards).1
}

#[test]
fn one_flow_fills_the_link() {
    let report = simulate(&[incast(1, 20, Transport::Tcp)], 1);
    let flow = &report.flows[0];
    // 20 MB in segments of 1448 B, which take 1448 + 70 + 20 B of link time: 1538 x 0.8 ns each,
    // 16.99 ms; slow start from 10 segments in some 23 us of round-trip time costs a few of those
    let wire = 20e6 / 1448.0 * 1538.0 * 0.8e-9;
    let fct = flow.fct_s.unwrap();
    assert!(fct > wire && fct < wire * 1.01, "{fct} against {wire}");
    assert_eq!((flow.priority, flow.slowdown), (0, None));
    // no marks, no PFC, no RoCE counters
    assert_eq!(report.totals.data_packets, 0);
    assert_eq!(report.totals.pfc_xoff_frames, 0);
}

#[test]
fn eight_flows_share_a_link_by_losses_and_lose_nothing() {
    let tcp = [incast(8, 25, Transport::Tcp)];
    let report = simulate(&tcp, 1);
    assert_eq!(report.outcome, OutcomeKind::Completed);
    assert!(report.flows.iter().all(|flow| flow.delivered_bytes == 25_000_000));
    assert!(report.totals.drops.values().sum::<u64>() > 100, "{:?}", report.totals.drops);
    assert_eq!(report.totals.retransmitted_packets, 0);
    // 200 MB at 10 Gb/s take 170 ms and more; the link is busy 9 parts of 10
    let last = report.flows.iter().filter_map(|flow| flow.fct_s).fold(0.0, f64::max);
    assert!((0.170..0.190).contains(&last), "{last}");
    let repaired: u64 = report.nics.iter().filter_map(|n| n.counters.get("tcp_fast_retrans")).sum();
    assert!(repaired > 10, "{repaired}");
    assert_eq!(simulate(&tcp, 2), report);
}

#[test]
fn rdma_in_its_lossless_class_loses_nothing_beside_tcp() {
    let traffic = [incast(4, 10, Transport::Rc), incast(8, 10, Transport::Tcp)];
    let report = simulate(&traffic, 1);
    assert_eq!(report.outcome, OutcomeKind::Completed);
    assert_eq!(report.totals.retransmitted_packets, 0);
    assert_eq!(report.totals.lossless_drops, 0);
    // two queues of equal weight: RDMA has half of the link, 40 MB take some 64 ms + overhead
    let rdma = report.flows[..4].iter().filter_map(|flow| flow.fct_s).fold(0.0, f64::max);
    assert!((0.064..0.070).contains(&rdma), "{rdma}");
}
