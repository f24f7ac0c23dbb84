//! Runs whose results are known in closed form.

mod common;

use common::{link, run, spec};
use models::nic::NicConfig;
use models::report::OutcomeKind;
use models::switch::SwitchConfig;
use models::topology::{StarConfig, TopologyConfig};
use models::traffic::{
    After, FlowConfig, FlowSize, FlowsConfig, HostRef, TrafficConfig, Transport,
};
use sim_core::{Bytes, Delta};

fn star(hosts: u32) -> TopologyConfig {
    TopologyConfig::Star(StarConfig { hosts, link: link(100, 1000), ports_per_host: 1 })
}

fn flow(source: u32, target: u32, bytes: u64) -> FlowConfig {
    FlowConfig {
        source: HostRef::Number(source),
        target: HostRef::Number(target),
        bytes: FlowSize::Bytes(Bytes::new(bytes)),
        start: Delta::ZERO,
        after: After::default(),
        window: None,
        rate: None,
        dscp: None,
        source_port: None,
        destination_port: None,
    }
}

fn flows(flows: Vec<FlowConfig>) -> Vec<TrafficConfig> {
    vec![TrafficConfig::Flows(FlowsConfig {
        name: "test".into(),
        flows,
        file: None,
        dscp: None,
        transport: Transport::Rc,
    })]
}

fn fct_ps(bytes: u64, mtu: u16) -> u64 {
    fct_by(Transport::Rc, SwitchConfig::default(), bytes, mtu)
}

fn fct_by(transport: Transport, switch: SwitchConfig, bytes: u64, mtu: u16) -> u64 {
    let nic = NicConfig { mtu, ..NicConfig::default() };
    let mut traffic = flows(vec![flow(0, 1, bytes)]);
    let TrafficConfig::Flows(section) = &mut traffic[0] else { unreachable!() };
    section.transport = transport;
    let (_, report) = run(spec(star(2), switch, nic, &traffic, 1), 1);
    assert_eq!(report.outcome, OutcomeKind::Completed);
    let flow = &report.flows[0];
    assert_eq!(flow.fct_s, flow.ideal_fct_s);
    (flow.fct_s.unwrap() * 1e12).round() as u64
}

#[test]
fn the_first_packet_is_exact_to_the_picosecond() {
    // one packet: 4096 + 62 + RETH 16 + gap 20 = 4194 B, 80 ps each at 100 Gb/s = 335,520 ps;
    // stored and forwarded once, two cables of 1 us
    assert_eq!(fct_ps(4096, 4096), 2 * 335_520 + 2_000_000);
    // 1 B: 1 + 62 + 16 = 79, + 20 = 99 B = 7,920 ps
    assert_eq!(fct_ps(1, 4096), 2 * 7_920 + 2_000_000);
    // two packets: the second has no RETH, 4178 B = 334,240 ps, and waits behind the first, which
    // is longer, at the switch
    assert_eq!(fct_ps(8192, 4096), 2 * 335_520 + 334_240 + 2_000_000);
}

#[test]
fn cut_through_waits_for_the_head_of_a_frame_only() {
    let switch = || SwitchConfig { cut_through: true, ..SwitchConfig::default() };
    // 64 + 20 B of the first frame, 6,720 ps, are stored, and the whole takes its time once
    assert_eq!(fct_by(Transport::Rc, switch(), 4096, 4096), 6_720 + 335_520 + 2_000_000);
    // the second frame follows without a gap
    assert_eq!(fct_by(Transport::Rc, switch(), 8192, 4096), 6_720 + 335_520 + 334_240 + 2_000_000);
}

#[test]
fn sends_and_reads_have_their_own_headers() {
    let fct = |transport| fct_by(transport, SwitchConfig::default(), 4096, 4096);
    // no RETH: 4178 B
    assert_eq!(fct(Transport::RcSend), 2 * 334_240 + 2_000_000);
    // a request of 62 + 16 + 20 = 98 B, 7,840 ps, and one response with an AETH: 4182 B, 334,560 ps
    assert_eq!(fct(Transport::RcRead), 2 * 7_840 + 2 * 334_560 + 4_000_000);
}

#[test]
fn flows_that_wait_start_when_the_last_of_the_others_is_acknowledged() {
    let after = |flows: &[u32], flow: FlowConfig| FlowConfig { after: After(flows.into()), ..flow };
    let traffic = flows(vec![
        flow(0, 1, 4096),
        after(&[0], flow(1, 2, 1)),
        after(&[0, 1], FlowConfig { start: Delta::from_ns(7), ..flow(2, 0, 1) }),
    ]);
    let (_, report) =
        run(spec(star(3), SwitchConfig::default(), NicConfig::default(), &traffic, 1), 1);
    assert_eq!(report.outcome, OutcomeKind::Completed);
    let starts: Vec<u64> =
        report.flows.iter().map(|flow| (flow.start_s.unwrap() * 1e12).round() as u64).collect();
    // 4096 B arrive after 2 x 335,520 ps + 2 us; the ACK (66 + 20 B, 6,880 ps) goes back over two
    // cables: + 2 x 6,880 ps + 2 us. The 1 B flow: 2 x 7,920 ps + 2 us, and its ACK
    let first = 2 * 335_520 + 2 * 6_880 + 4_000_000;
    let second = 2 * 7_920 + 2 * 6_880 + 4_000_000;
    assert_eq!(starts, [0, first, first + second + 7_000]);
    // one packet at a time: the second may leave when the first is acknowledged
    let bytes = Bytes::new(4096);
    let windowed = FlowConfig { window: Some(bytes), ..flow(0, 1, 8192) };
    let (_, report) = run(
        spec(star(2), SwitchConfig::default(), NicConfig::default(), &flows(vec![windowed]), 1),
        1,
    );
    // the second has no RETH: 334,240 ps
    let fct = (report.flows[0].fct_s.unwrap() * 1e12).round() as u64;
    assert_eq!(fct, first + 2 * 334_240 + 2_000_000);
}

#[test]
fn a_long_flow_gets_the_payload_share_of_the_link() {
    let share = |mtu| 100_000_000.0 * 8.0 / (fct_ps(100_000_000, mtu) as f64 / 1e12) / 100e9;
    // 4096 / 4178 and 1024 / 1106, less the latency of the last packet
    assert!((share(4096) - 0.9804).abs() < 0.001, "{}", share(4096));
    assert!((share(1024) - 0.9259).abs() < 0.001, "{}", share(1024));
}

#[test]
fn an_incast_under_pfc_alone_ends_at_the_ideal_time() {
    let list = (0..4).map(|source| flow(source, 4, 1_000_000)).collect();
    let mut switch = SwitchConfig::default();
    switch.buffer.size = Bytes::new(2 << 20);
    let (_, report) = run(spec(star(5), switch, NicConfig::default(), &flows(list), 1), 1);
    assert_eq!(report.totals.lossless_drops, 0);
    assert!(report.totals.pfc_xoff_frames > 0);
    assert_eq!(report.totals.pfc_xoff_frames, report.totals.pfc_xon_frames);
    assert!(report.open_pauses.is_empty());
    // 4 x (245 packets, 1 MB + 245 x 82 B + RETH 16 B) = 4,080,424 B at 80 ps, two cables, and the
    // first packet on the first link
    let last = report.flows.iter().filter_map(|flow| flow.fct_s).fold(0.0, f64::max);
    let ideal = 4_080_424.0 * 80e-12 + 2e-6 + 335_520e-12;
    assert!((last / ideal - 1.0).abs() < 1e-3, "{last} {ideal}");
}
