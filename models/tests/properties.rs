//! What must hold in every fabric.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{link, spec, watched};
use models::congestion::{
    CongestionConfig, CreditsConfig, DcqcnConfig, DcqcnPlusConfig, DctcpConfig, Feedback,
    HpccConfig, SwiftConfig, TimelyConfig,
};
use models::dependency::Traffic;
use models::fabric::{OnDeadlock, Shards, Spec, plan, run};
use models::fault::{Direction, FaultConfig, LinkDownConfig, RateConfig, SlowReceiverConfig};
use models::ids::PortId;
use models::load_balance::LoadBalance;
use models::nic::{NicConfig, PauseStormConfig, ReceiveConfig, Recovery, WindowSize};
use models::packet::Packet;
use models::probe::Probe;
use models::report::{OutcomeKind, PauseTree, Report, RootKind, Totals};
use models::size::Size;
use models::switch::{BounceConfig, Headroom, MarkAt, PipelineConfig, SwitchConfig, WredConfig};
use models::topology::{
    DumbbellConfig, FatTreeConfig, LeafSpineConfig, RailConfig, StarConfig, Topology,
    TopologyConfig,
};
use models::traffic::{
    After, FlowConfig, FlowSize, FlowsConfig, HostRef, TrafficConfig, Transport,
};
use proptest::prelude::*;
use sim_core::{Bytes, Delta, PacketRate, Rate, Time};

/// Shapes with 6 to 16 hosts whose routes go up and then down, so that none can deadlock.
fn shape(kind: u8, gbps: u64, ns: u64) -> TopologyConfig {
    let link = link(gbps, ns);
    match kind {
        0 => TopologyConfig::Star(StarConfig { hosts: 6, link, ports_per_host: 1 }),
        1 => TopologyConfig::Dumbbell(DumbbellConfig {
            left: 5,
            right: 2,
            link,
            trunk: None,
            trunks: 2,
        }),
        2 => TopologyConfig::LeafSpine(LeafSpineConfig {
            leaves: 3,
            spines: 2,
            hosts_per_leaf: 3,
            link,
            uplink: None,
            uplinks_per_spine: 1,
            ports_per_host: 1,
        }),
        3 => TopologyConfig::Rail(RailConfig {
            hosts: 6,
            rails: 2,
            hosts_per_group: Some(3),
            link,
            spines: 2,
            uplink: None,
            uplinks_per_spine: 1,
        }),
        _ => TopologyConfig::FatTree(FatTreeConfig { k: 4, link, uplink: None }),
    }
}

#[derive(Clone, Debug)]
struct Case {
    kind: u8,
    gbps: u64,
    delay_ns: u64,
    cell: u64,
    mtu: u16,
    response_ns: u64,
    latency_ns: u64,
    dcqcn: bool,
    slow_receiver: bool,
    loss: bool,
    fault: bool,
    tcp: bool,
    bounce: bool,
    /// Cables and receivers that are slower for a while.
    slower: bool,
    /// Switches that forward few frames a second.
    pipeline: bool,
    /// Switches that spray, and NICs that take what comes early or throw it away.
    spray: Spray,
    research: Research,
    flows: Vec<(u32, u32, u64, u64)>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spray {
    Off,
    Placed,
    GoBackN,
    /// Selective repeat.
    Selective,
}

/// What researchers compare.
#[derive(Clone, Copy, Debug)]
struct Research {
    /// The number of a congestion control; 0 for that of the case.
    control: u8,
    /// The number of what spreads packets, where switches do.
    balance: u8,
    cut_through: bool,
    /// WRITE, SEND, or READ.
    verb: Transport,
}

impl Research {
    fn control(&self) -> Option<CongestionConfig> {
        let hpcc = HpccConfig::default();
        Some(match self.control {
            0 => return None,
            1 => CongestionConfig::DcqcnPlus(DcqcnPlusConfig::default()),
            2 => CongestionConfig::Dctcp(DctcpConfig::default()),
            3 => CongestionConfig::Hpcc(hpcc),
            4 => CongestionConfig::Hpcc(HpccConfig { multi_rate: true, ..hpcc }),
            5 => {
                let (feedback, pint_probability) = (Feedback::Pint, 0.5);
                CongestionConfig::Hpcc(HpccConfig { feedback, pint_probability, ..hpcc })
            }
            6 => CongestionConfig::Timely(TimelyConfig::default()),
            7 => CongestionConfig::Swift(SwiftConfig::default()),
            _ => CongestionConfig::Credits(CreditsConfig { slots: 2, slice: Bytes::new(4000) }),
        })
    }

    fn balance(&self, switch: &mut SwitchConfig) {
        let gap = Delta::from_ns(700);
        switch.flowlet.gap = gap;
        switch.conga.gap = gap;
        switch.load_balance = [
            LoadBalance::Spray,
            LoadBalance::Flowlet,
            LoadBalance::Adaptive,
            LoadBalance::Drill,
            LoadBalance::Conga,
        ][usize::from(self.balance)];
    }

    /// READs need no ACKs, and what does cannot use them.
    fn reads(&self) -> bool {
        self.verb == Transport::RcRead && self.control < 2
    }
}

fn case() -> impl Strategy<Value = Case> {
    let flow = (0u32..6, 0u32..6, prop_oneof![1u64..400, 1u64..300_000], 0u64..20_000);
    let device = (0u64..800, 0u64..700, any::<[bool; 3]>(), prop::bool::weighted(0.2));
    let faults = [0.2, 0.4, 0.2, 0.3].map(prop::bool::weighted);
    let spray = prop_oneof![4 => Just(Spray::Off), 1 => Just(Spray::Placed), 1 => Just(Spray::GoBackN),
            2 => Just(Spray::Selective)];
    let verb = prop_oneof![2 => Just(Transport::Rc), 1 => Just(Transport::RcSend),
        1 => Just(Transport::RcRead)];
    let control = prop_oneof![1 => Just(0u8), 2 => 1u8..9];
    let research = (control, 0u8..5, prop::bool::weighted(0.3), verb).prop_map(
        |(control, balance, cut_through, verb)| Research { control, balance, cut_through, verb },
    );
    let sizes = (prop_oneof![Just(1u64), Just(208), Just(254)], 300u16..5000);
    (
        0u8..5,
        prop_oneof![Just(10u64), Just(100), Just(400)],
        0u64..3000,
        sizes,
        device,
        prop::collection::vec(flow, 1..60),
        (any::<u64>(), faults, spray, research),
    )
        .prop_map(
            |(
                kind,
                gbps,
                delay_ns,
                (cell, mtu),
                device,
                flows,
                (seed, [fault, slower, pipeline, tcp], spray, research),
            )| {
                let (response_ns, latency_ns, [dcqcn, slow_receiver, bounce], loss) = device;
                Case {
                    kind,
                    gbps,
                    delay_ns,
                    cell,
                    mtu,
                    response_ns,
                    latency_ns,
                    dcqcn,
                    slow_receiver,
                    loss,
                    fault,
                    slower,
                    pipeline,
                    spray,
                    research,
                    tcp,
                    bounce,
                    flows,
                    seed,
                }
            },
        )
}

fn simulate(case: &Case, headroom: Headroom, shards: usize) -> Report {
    watched::<()>(scenario(case, headroom, shards > 1), shards).1
}

/// Sees each frame when it moves.
#[derive(Debug, Default)]
struct InOrder(Time);

impl InOrder {
    fn sees(&mut self, now: Time) {
        assert!(now >= self.0, "calls come in the order of time");
        self.0 = now;
    }
}

impl Probe for InOrder {
    fn transmit(&mut self, now: Time, _: PortId, _: &Packet) {
        self.sees(now);
    }
    fn receive(&mut self, now: Time, _: PortId, _: &Packet) {
        self.sees(now);
    }
}

fn scenario(case: &Case, headroom: Headroom, cut: bool) -> Spec {
    let mut switch =
        SwitchConfig { latency: Delta::from_ns(case.latency_ns), ..Default::default() };
    switch.buffer.cell = Bytes::new(case.cell);
    switch.buffer.lossless.dynamic_th = Some(-6);
    switch.buffer.lossless.xon_offset = Size::bytes(2 * u64::from(case.mtu));
    switch.pfc.headroom = headroom;
    switch.pfc.response_time = Delta::from_ns(case.response_ns);
    let mut nic = NicConfig { mtu: case.mtu, ..NicConfig::default() };
    nic.latency = Delta::from_ns(case.latency_ns / 2);
    nic.pfc.response_time = Delta::from_ns(case.response_ns / 3);
    nic.transport.ack_every = 4;
    nic.transport.timeout = 8;
    if case.spray != Spray::Off {
        case.research.balance(&mut switch);
        nic.transport.ooo_data_placement = case.spray == Spray::Placed;
    } else if case.seed & 32 != 0 {
        switch.load_balance = LoadBalance::Static;
    }
    if case.spray == Spray::Selective {
        nic.transport.recovery = Recovery::SelectiveRepeat;
        nic.transport.selective.reordering = (case.seed >> 6) as u32 % 9;
        nic.transport.window = (case.seed & 64 != 0).then_some(WindowSize::Bdp);
    }
    switch.cut_through = case.research.cut_through;
    if case.dcqcn || matches!(case.research.control, 1 | 2) {
        let (kmin, kmax) = (Size::bytes(20_000), Size::bytes(80_000));
        let wred = WredConfig { kmin, kmax, pmax: 0.3, mark_at: MarkAt::Dequeue };
        switch.ecn.insert(3, wred);
        nic.congestion = CongestionConfig::Dcqcn(DcqcnConfig::default());
    }
    if let Some(control) = case.research.control() {
        nic.congestion = control;
    }
    if case.pipeline {
        // a frame of 1 KB of a port's rate, in two pipelines
        let packet_rate = PacketRate::from_pps(case.gbps * 1_000_000_000 / 8000);
        let buffer = Bytes::new(if case.seed & 16 == 0 { 1 << 30 } else { 20_000 });
        switch.pipeline = Some(PipelineConfig { packet_rate, count: 2, buffer });
    }
    if case.slow_receiver {
        nic.receive = Some(ReceiveConfig {
            rate: Rate::from_mbps(case.gbps * 600),
            buffer: Bytes::new(4 << 20),
            xoff: Bytes::new(100_000),
            xon: Bytes::new(50_000),
        });
    }
    if case.bounce {
        // some turns that frames take anyhow
        let turns = Some(vec![[0, 1], [2, 0], [1, 2]]);
        switch.qos.bounce = Some(BounceConfig { dscp: BTreeMap::from([(26, 27)]), turns });
        switch.qos.dscp_to_tc.insert(27, 4);
        switch.pfc.priorities = vec![3, 4];
        nic.qos.dscp_to_priority.insert(27, 4);
        nic.pfc.priorities = vec![3, 4];
    }
    // headrooms of 100 to 500 KB a port leave a pool whose 64th part is passed quickly
    switch.buffer.size = Bytes::new(16 << 20);
    let flows = case.flows.iter().filter(|(source, target, ..)| source != target);
    // in a quarter of the cases some flows wait for others, which leaves one shard
    let chained = case.response_ns.is_multiple_of(4);
    nic.transport.window_follows_rate = chained;
    let verb = match case.research.reads() && case.spray != Spray::Selective {
        true => Transport::RcRead,
        false if case.research.verb == Transport::RcRead => Transport::Rc,
        false => case.research.verb,
    };
    // where much is lost it may never end
    let lossless = !case.loss && !case.fault && !case.pipeline && headroom == Headroom::Auto;
    if lossless && case.seed & 8 != 0 && case.spray == Spray::Off && verb != Transport::RcRead {
        nic.transport.recovery = Recovery::GoBack0;
    }
    let flows: Vec<FlowConfig> = (0u32..)
        .zip(flows)
        .map(|(number, (source, target, bytes, start))| FlowConfig {
            source: HostRef::Number(*source),
            target: HostRef::Number(*target),
            bytes: FlowSize::Bytes(Bytes::new(*bytes)),
            start: Delta::from_ns(*start),
            after: After(if chained && number % 3 == 2 { vec![number / 2] } else { vec![] }),
            window: (number % 4 == 1 && verb != Transport::RcRead)
                .then(|| Bytes::new(3 * u64::from(case.mtu))),
            rate: None,
            dscp: None,
            source_port: None,
            destination_port: None,
        })
        .collect();
    let mut topology = shape(case.kind, case.gbps, case.delay_ns.max(u64::from(cut)));
    if case.loss {
        let links = match &mut topology {
            TopologyConfig::Star(star) => &mut star.link,
            TopologyConfig::Dumbbell(dumbbell) => &mut dumbbell.link,
            TopologyConfig::LeafSpine(clos) => &mut clos.link,
            TopologyConfig::Rail(rail) => &mut rail.link,
            TopologyConfig::FatTree(tree) => &mut tree.link,
            _ => unreachable!(),
        };
        links.loss = 0.002;
    }
    // some way back, and in the lossy class
    let back = |flow: &FlowConfig| FlowConfig {
        source: flow.target.clone(),
        target: flow.source.clone(),
        after: After::default(),
        window: None,
        ..flow.clone()
    };
    let tcp: Vec<FlowConfig> = match case.tcp {
        true => flows.iter().take(9).map(back).collect(),
        false => vec![],
    };
    let section = |(flows, transport)| {
        let name = String::new();
        TrafficConfig::Flows(FlowsConfig { name, flows, file: None, dscp: None, transport })
    };
    let sections = [(flows, verb), (tcp, Transport::Tcp)].into_iter();
    let traffic: Vec<TrafficConfig> =
        sections.filter(|(flows, _)| !flows.is_empty()).map(section).collect();
    let mut spec = spec(topology, switch, nic, &traffic, case.seed);
    if case.fault {
        spec.faults.push(flapping(&spec.topology, case.seed));
    }
    if case.slower {
        spec.faults.extend(slower(&spec.topology, case.seed));
    }
    spec
}

/// Some cable goes down twice, some time in the first 50 us; routes learn of it, or they do not.
fn flapping(topology: &Topology, seed: u64) -> FaultConfig {
    let us = |shift: u32, below: u64| Delta::from_us((seed >> shift) % below);
    let port = PortId((seed % topology.ports().len() as u64) as u32);
    let at = us(8, 30);
    FaultConfig::LinkDown(LinkDownConfig {
        link: topology.port_name(port),
        at,
        until: Some(at + us(16, 10) + Delta::from_ns(500)),
        times: 2,
        every: Some(Delta::from_us(12)),
        reroute: (seed & 1 << 40 != 0).then(|| us(24, 5)),
    })
}

/// Some cable has a quarter of its rate for a while, and some NIC drains slowly, or not at all.
fn slower(topology: &Topology, seed: u64) -> [FaultConfig; 2] {
    let us = |shift: u32, below: u64| Delta::from_us(seed.rotate_right(shift) % below);
    let port = PortId((seed / 7 % topology.ports().len() as u64) as u32);
    let full = topology.port(port).rate.bps();
    let cable = FaultConfig::Rate(RateConfig {
        link: topology.port_name(port),
        at: us(11, 30),
        until: Some(us(11, 30) + us(17, 25) + Delta::from_ns(1)),
        // 1/4, and a rate of which no byte takes whole picoseconds
        rate: Rate::from_bps(if seed & 2 == 0 { full / 4 } else { full / 3 - 7 }),
        direction: [Direction::Both, Direction::Tx, Direction::Rx][(seed % 3) as usize],
    });
    let receiver = FaultConfig::SlowReceiver(SlowReceiverConfig {
        nic: format!("host{}", seed / 5 % 6),
        at: us(23, 30),
        until: Some(us(23, 30) + us(29, 40) + Delta::from_ns(1)),
        rate: Rate::from_bps(if seed & 4 == 0 { 0 } else { full / 5 }),
    });
    [cable, receiver]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Conservation is checked in `run`.
    #[test]
    fn auto_headroom_loses_nothing_and_every_pause_ends(case in case()) {
        // what waits for a pipeline when XOFF is sent finds no headroom
        let case = Case { pipeline: false, ..case };
        let report = simulate(&case, Headroom::Auto, 1);
        // where links lose frames, an XOFF may be among them
        let arrived: u64 = report.ports.iter().map(|port| port.rx_pause_frames).sum();
        let xoff_lost = (case.loss || case.fault) && arrived < report.totals.pfc_xoff_frames;
        prop_assert!(report.totals.lossless_drops == 0 || xoff_lost);
        prop_assert_eq!(report.outcome, OutcomeKind::Completed);
        prop_assert!(report.open_pauses.is_empty());
        if case.spray == Spray::Off && !case.fault {
            prop_assert_eq!(report.totals.reordered_packets, 0);
        }
        let orderly = matches!(case.spray, Spray::Off | Spray::Placed);
        if !case.loss && !case.fault && orderly {
            // behind a slow receiver an ACK may take longer than the time-out of 1 ms
            let Totals { retransmitted_packets, timeouts, .. } = report.totals;
            prop_assert!(retransmitted_packets == 0 || timeouts > 0);
            let (xoff, xon) = (report.totals.pfc_xoff_frames, report.totals.pfc_xon_frames);
            prop_assert!(xoff >= xon && report.totals.pause_episodes <= xoff);
        }
    }

    /// Each instant of each pause has one root, and nobody waits for itself where routes go up and
    /// then down.
    #[test]
    fn the_tree_of_pauses_accounts_for_all_of_them(case in case()) {
        let report = simulate(&case, Headroom::Auto, 1);
        let mut paused: BTreeMap<(&str, u8), f64> = BTreeMap::new();
        for root in &report.pauses.roots {
            prop_assert!(root.kind != RootKind::Unknown);
            // where routes change, frames may turn upwards again
            prop_assert!(root.kind != RootKind::Circular || case.fault);
            let sum: f64 = root.edges.iter().map(|edge| edge.paused_s).sum();
            prop_assert!((sum - root.paused_s).abs() < 1e-9);
            for edge in &root.edges {
                *paused.entry((&*edge.port, edge.priority)).or_default() += edge.paused_s;
            }
            // every port hangs from the root
            let reached = PauseTree::branches(root).len();
            let mut ports: Vec<_> = root.edges.iter().map(|e| (&*e.port, e.priority)).collect();
            ports.sort_unstable();
            ports.dedup();
            prop_assert!(reached == ports.len() || case.fault);
        }
        prop_assert_eq!(report.pauses.more_roots, 0);
        for port in &report.ports {
            for queue in &port.priorities {
                let sum = paused.remove(&(&*port.port, queue.priority)).unwrap_or(0.0);
                prop_assert!((sum - queue.paused_s).abs() < 1e-9, "{} {sum}", port.port);
            }
        }
        prop_assert!(paused.is_empty());
        for flow in &report.flows {
            prop_assert!((0.0..=1.0).contains(&flow.paused_share));
            prop_assert!(flow.victim_share <= flow.paused_share);
        }
    }

    /// Too little headroom: frames are lost, and go-back-N brings every byte all the same.
    #[test]
    fn lost_frames_are_sent_again(case in case()) {
        let case = Case { pipeline: false, ..case };
        let report = simulate(&case, Headroom::Size(Size::bytes(100)), 1);
        prop_assert_eq!(report.outcome, OutcomeKind::Completed);
        let drops: u64 = report.totals.drops.values().sum();
        // frames that take a new way may overtake others
        let overtaken = case.fault || matches!(case.spray, Spray::GoBackN | Spray::Selective);
        // behind a slow receiver an ACK may take longer than the time-out of 1 ms
        let Totals { retransmitted_packets, timeouts, .. } = report.totals;
        prop_assert!(drops > 0 || overtaken || retransmitted_packets == 0 || timeouts > 0);
    }

    /// What switches leave undone while nobody looks makes no difference.
    #[test]
    fn departures_without_events_change_nothing(case in case(), tight: bool) {
        let headroom = if tight { Headroom::Size(Size::bytes(100)) } else { Headroom::Auto };
        let lazy = watched::<()>(scenario(&case, headroom, false), 1);
        let exact = watched::<InOrder>(scenario(&case, headroom, false), 1);
        prop_assert_eq!(lazy.1, exact.1);
        prop_assert!(lazy.0.events <= exact.0.events);
    }

    /// Incast, slow receivers and NICs that pause for a while: much stands still for longer than
    /// `stop.stall`, but not in a circle.
    #[test]
    fn congestion_is_no_deadlock(
        case in case(),
        storms in prop::collection::vec((0u32..6, 0u64..40, 1u64..300), 0..3),
        stall_us in 2u64..40,
    ) {
        // routes after a fault may bounce
        let case = Case { fault: false, ..case };
        let mut spec = scenario(&case, Headroom::Auto, true);
        spec.stop.stall = Delta::from_us(stall_us);
        spec.stop.deadlock = OnDeadlock::GoOn;
        spec.stop.limit = Some(Delta::from_ms(500));
        let hosts: Vec<_> = spec.topology.hosts().collect();
        for (host, from, long) in storms {
            let nic = &mut spec.nics[hosts[host as usize].index()];
            let mut stormy = (**nic.as_ref().unwrap()).clone();
            let [from, until] = [from, from + long].map(Delta::from_us);
            stormy.pause_storm = Some(PauseStormConfig { from, until, priority: 3 });
            *nic = Some(Arc::new(stormy));
        }
        let plan = plan(spec, Shards::Exactly(1 + case.flows.len() % 3)).unwrap();
        let traffic = Traffic::new(&plan.spec, &plan.wiring);
        prop_assert!(traffic.dependencies(&plan.wiring.routes).is_acyclic());
        let outcome = run(&plan, |_| true).unwrap();
        prop_assert_eq!(outcome.violations(), Vec::<String>::new());
        prop_assert_eq!(outcome.circles, vec![]);
    }

    #[test]
    fn shards_do_not_change_the_result(case in case()) {
        let alone = simulate(&Case { delay_ns: case.delay_ns.max(1), ..case.clone() }, Headroom::Auto, 1);
        for shards in 2..4 {
            prop_assert_eq!(&simulate(&case, Headroom::Auto, shards), &alone);
        }
    }
}
