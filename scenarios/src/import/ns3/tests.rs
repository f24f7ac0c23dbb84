//! Small folders, made by hand.

use std::fs;

use models::congestion::{CongestionConfig, Feedback};
use models::load_balance::LoadBalance;
use models::nic::{NicConfig, Pacing, Recovery, WindowSize};
use models::size::Size;
use models::switch::SwitchConfig;
use models::topology::TopologyConfig;
use models::wire::WireConfig;
use serde::Deserialize;
use sim_core::{Bytes, Delta, Rate};
use tempfile::TempDir;

use crate::import::{ImportError, Imported};
use crate::load::{Node, Path, Sources, from_node, parse};

const PRESET: &str = include_str!("../../../presets/scenario/hpcc-ns3.toml");

const TOPOLOGY: &str = "5 2 5\r\n3 4\r\n\r\n0 3 100Gbps 1000ns 0\r\n1 3 100Gbps 0.001ms 0.001\r\n\
                        2 4 100Gbps 1us 0.0\r\n3 4 400Gbps 1000ns 0\r\n4 3 400Gbps 1000ns 0\r\n";
const FLOWS: &str = "3\n0 2 3 100 1000000 2.000000067\n1 2 3 100 500 2.0\n0 2 3 101 7 2.00001\n";
const CONFIG: &str = "# from run.py\nENABLE_QCN 1\nUSE_DYNAMIC_PFC_THRESHOLD 1\n\
    PACKET_PAYLOAD_SIZE 1000\nSIMULATOR_STOP_TIME 4.00\nCC_MODE 1\nALPHA_RESUME_INTERVAL 50.9\n\
    RATE_DECREASE_INTERVAL 4\nCLAMP_TARGET_RATE 1\nRP_TIMER 55\nEWMA_GAIN 0.0625\n\
    FAST_RECOVERY_TIMES 5 # F\nRATE_AI 40Mb/s\nRATE_HAI 400Mb/s\nMIN_RATE 1000Mb/s\n\
    L2_ACK_INTERVAL 1\nL2_BACK_TO_ZERO 0\nHAS_WIN 1\nGLOBAL_T 1\nVAR_WIN 1\nACK_HIGH_PRIO 0\n\
    LINK_DOWN 0 0 0\nKMAX_MAP 2 100000000000 1600 400000000000 6400\n\
    KMIN_MAP 2 100000000000 400 400000000000 1600\n\
    PMAX_MAP 2 100000000000 0.2 400000000000 0.8\nBUFFER_SIZE 16\nTRACE_OUTPUT_FILE mix.tr\n\
    QLEN_MON_START 0\nU_TARGET 0.95\nPINT_PROB 1.0\nRNG_RUN 7\n";
const ROUTES: &str = "3 0 1\n3 2 4 3\n4 0 2 3\n4 1 3\n";

fn ns3(path: &std::path::Path) -> Result<Imported, ImportError> {
    super::ns3(path, "flows.csv")
}

/// A folder with these files, and others or without some as `changes` say.
fn folder(changes: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let files = [("topology.txt", TOPOLOGY), ("flow.txt", FLOWS), ("config.txt", CONFIG)];
    for (name, text) in files.iter().chain(changes) {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn import(changes: &[(&str, &str)]) -> Imported {
    ns3(folder(changes).path()).unwrap()
}

/// The message for a folder, without the folder's own path.
fn message(changes: &[(&str, &str)]) -> String {
    let dir = folder(changes);
    let error = ns3(dir.path()).unwrap_err().to_string();
    error.replace(&format!("{}/", dir.path().display()), "")
}

/// The scenario above its preset.
fn merged(imported: &Imported) -> Node {
    let mut sources = Sources::default();
    let mut root = parse(&mut sources, "preset", PRESET).unwrap();
    root.overlay(parse(&mut sources, "scenario.toml", &imported.toml).unwrap());
    root
}

fn section<'a, T: Deserialize<'a>>(root: &'a Node, path: &str) -> T {
    let node = root.at(&Path::parse(path).unwrap()).unwrap();
    from_node(node, path).unwrap()
}

#[test]
fn nodes_links_and_routes() {
    let imported = import(&[("routes.txt", ROUTES)]);
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    let root = merged(&imported);
    assert_eq!(root.get("preset").unwrap().as_text(), Some("hpcc-ns3"));
    let TopologyConfig::Graph(graph) = section(&root, "topology") else { panic!("no graph") };
    assert!(graph.numbered);
    assert_eq!(graph.hosts, ["n[0..3]"]);
    assert_eq!(graph.switches, ["n[3..5]"]);
    let link = &graph.links[1];
    assert_eq!((link.a.as_str(), link.b.as_str(), link.loss), ("n1", "n3", 0.001));
    assert_eq!((link.rate, link.delay), (Rate::from_gbps(100), Delta::from_us(1)));
    // 3 -> 0 has one way and 4 -> 0 has the order of ports; 4 -> 1 leaves out a parallel link
    let routes: Vec<_> = graph.routes.iter().map(|r| (r.node.as_str(), &*r.ports)).collect();
    assert_eq!(routes, [("n3", &[3, 2][..]), ("n4", &[2])]);
    models::topology::Topology::build(&TopologyConfig::Graph(graph)).unwrap();
}

#[test]
fn flows_keep_their_order_and_start_from_the_first() {
    let imported = import(&[]);
    assert_eq!(
        imported.files,
        [(
            "flows.csv".to_owned(),
            "source,target,bytes,start,dscp,source_port,destination_port\n\
             n0,n2,1000000B,67ns,3,10000,100\n\
             n1,n2,500B,0ns,3,10000,100\n\
             n0,n2,7B,10000ns,3,10001,101\n"
                .to_owned()
        )]
    );
    let root = merged(&imported);
    let stop: models::fabric::StopConfig = section(&root, "stop");
    assert_eq!(stop.after, Some(Delta::from_ms(2000)));
    assert_eq!(stop.after_last_flow, Some(Delta::from_us(1)));
    assert_eq!(section::<String>(&root, "traffic[0].file"), "flows.csv");
}

#[test]
fn switches_and_nics() {
    let root = merged(&import(&[]));
    let switch: SwitchConfig = section(&root, "switch");
    assert_eq!(switch.buffer.size, Bytes::new(16 << 20));
    let ecn = switch.ecn[&3];
    assert_eq!((ecn.kmin, ecn.kmax), (Size::bytes(400_000), Size::bytes(1_600_000)));
    assert_eq!(section::<String>(&root, "override[0].rate"), "400Gbps");
    let set = root.at(&Path::parse("override[0].set").unwrap()).unwrap();
    let keys = ["kmin", "kmax", "pmax"].map(|key| set.get(&format!("switch.ecn.3.{key}")).unwrap());
    assert_eq!(keys[0].as_text(), Some("1600KB"));
    assert_eq!(keys[1].as_text(), Some("6400KB"));
    assert_eq!(from_node::<f64>(keys[2], "").unwrap(), 0.8);
    // 400G is 4 times as fast as the NICs: alpha 1/8 becomes 1/2
    let alpha = set.get("switch.buffer.lossless.dynamic_th").unwrap();
    assert_eq!(from_node::<i8>(alpha, "").unwrap(), -1);

    let nic: NicConfig = section(&root, "nic");
    assert!(nic.pfc.control_waits);
    assert_eq!(nic.mtu, 1000);
    // n0 to n2: 2 x 3 us + 80 + 20 + 80 ns of 1000 B at 100G and 400G; x 100 Gb/s / 8
    assert_eq!(nic.transport.window, Some(WindowSize::Bytes(Bytes::new(6180 * 100 / 8))));
    assert!(nic.transport.window_follows_rate);
    let CongestionConfig::Dcqcn(dcqcn) = nic.congestion else { panic!("no DCQCN") };
    assert_eq!(dcqcn.dce_tcp_rtt, Delta::from_us(50));
    assert_eq!(dcqcn.rpg_time_reset, Delta::from_us(55));
    assert_eq!(dcqcn.rate_reduce_monitor_period, Delta::from_us(4));
    assert_eq!((dcqcn.dce_tcp_g, dcqcn.rpg_threshold, dcqcn.clamp_tgt_rate), (0.9375, 5, true));
    assert_eq!(dcqcn.rpg_ai_rate, Rate::from_mbps(40));
    assert_eq!(dcqcn.rpg_hai_rate, Rate::from_mbps(400));
    assert_eq!(dcqcn.rpg_min_rate, Rate::from_gbps(1));
    assert_eq!(section::<u64>(&root, "seed"), 7);
}

#[test]
fn the_preset_is_complete_and_known() {
    let mut sources = Sources::default();
    let root = parse(&mut sources, "preset", PRESET).unwrap();
    let wire: WireConfig = section(&root, "wire");
    assert_eq!(models::wire::Frames::new(&wire).data(1000, true), 1048);
    let switch: SwitchConfig = section(&root, "switch");
    assert_eq!(switch.buffer.lossless.dynamic_th, Some(-3));
    let nic: NicConfig = section(&root, "nic");
    assert_eq!(nic.transport.nak_repeat, Some(Delta::from_us(500)));
    assert!(nic.transport.window.is_none());
}

#[test]
fn without_qcn_nothing_is_marked_and_rates_stay() {
    let config = "ENABLE_QCN 0\nHAS_WIN 0\nBUFFER_SIZE 32\n";
    let imported = import(&[("config.txt", config)]);
    assert!(imported.warnings[0].contains("uses the last"), "{:?}", imported.warnings);
    assert!(imported.warnings[1].contains("congestion control is `none`"));
    let root = merged(&imported);
    let nic: NicConfig = section(&root, "nic");
    assert!(matches!(nic.congestion, CongestionConfig::None(_)));
    assert!(nic.transport.window.is_none());
    let switch: SwitchConfig = section(&root, "switch");
    assert_eq!(switch.ecn[&3].kmin, Size::bytes(1_000_000_000_000));
    assert_eq!(section::<String>(&root, "stop.after"), "1010ms");
}

/// The NIC and the switch of the config with these lines instead of `CC_MODE 1`.
fn with_mode(lines: &str) -> (NicConfig, SwitchConfig, Vec<String>) {
    let config = CONFIG.replace("CC_MODE 1", lines);
    let imported = import(&[("config.txt", &config), ("routes.txt", ROUTES)]);
    let root = merged(&imported);
    (section(&root, "nic"), section(&root, "switch"), imported.warnings)
}

#[test]
fn other_congestion_controls() {
    let (nic, _, warnings) = with_mode("CC_MODE 3\nMI_THRESH 0\nMULTI_RATE 0\nINT_MULTI 4");
    assert!(warnings.len() == 1 && warnings[0].contains("INT_MULTI"), "{warnings:?}");
    let CongestionConfig::Hpcc(hpcc) = nic.congestion else { panic!("no HPCC") };
    assert_eq!(
        (hpcc.eta, hpcc.max_stage, hpcc.multi_rate, hpcc.fast_react),
        (0.95, 0, false, true)
    );
    assert_eq!((hpcc.rate_ai, hpcc.min_rate), (Some(Rate::from_mbps(40)), Rate::from_gbps(1)));
    // 2 x 3 us + 80 + 20 + 80 ns
    assert_eq!((hpcc.base_rtt, hpcc.feedback), (Some(Delta::from_ns(6180)), Feedback::Int));
    assert_eq!(nic.pacing, Pacing::Credit);

    let (nic, ..) = with_mode("CC_MODE 10\nPINT_LOG_BASE 1.01");
    let CongestionConfig::Hpcc(hpcc) = nic.congestion else { panic!("no HPCC") };
    assert_eq!((hpcc.feedback, hpcc.pint_base, hpcc.max_stage), (Feedback::Pint, 1.01, 5));

    let (nic, ..) = with_mode("CC_MODE 7");
    let CongestionConfig::Timely(timely) = &nic.congestion else { panic!("no TIMELY") };
    let rates = [Some(Rate::from_mbps(40)), Some(Rate::from_mbps(400)), Some(Rate::from_gbps(1))];
    assert_eq!([timely.delta, timely.hai_delta, timely.min_rate], rates);
    assert!(nic.transport.window_follows_rate);

    let (nic, ..) = with_mode("CC_MODE 8\nDCTCP_RATE_AI 615Mb/s");
    let CongestionConfig::Dctcp(dctcp) = nic.congestion else { panic!("no DCTCP") };
    assert_eq!((dctcp.g, dctcp.rate_ai), (0.0625, Some(Rate::from_mbps(615))));
}

#[test]
fn conweave_balances_and_repeats_selectively() {
    let (nic, switch, warnings) = with_mode("CC_MODE 1\nLB_MODE 3\nENABLE_IRN 1\nENABLE_PFC 0");
    assert!(warnings[0].contains("each switch chooses"), "{warnings:?}");
    assert_eq!(switch.load_balance, LoadBalance::Conga);
    assert_eq!((switch.conga.period, switch.conga.alpha), (Delta::from_us(50), 0.2));
    assert!(switch.pfc.priorities.is_empty() && nic.pfc.priorities.is_empty());
    assert_eq!(nic.transport.recovery, Recovery::SelectiveRepeat);
    assert_eq!(nic.transport.selective.rto_high, Delta::from_us(320));
    assert_eq!(nic.transport.window, Some(WindowSize::Bytes(Bytes::new(6180 * 100 / 8))));
    for (mode, balance) in [(2, LoadBalance::Drill), (6, LoadBalance::Flowlet)] {
        assert_eq!(with_mode(&format!("CC_MODE 1\nLB_MODE {mode}")).1.load_balance, balance);
    }
}

#[test]
fn a_config_file_names_its_neighbours() {
    let dir = folder(&[]);
    fs::rename(dir.path().join("flow.txt"), dir.path().join("l.txt")).unwrap();
    let config = dir.path().join("config_dcqcn.txt");
    fs::write(&config, format!("{CONFIG}FLOW_FILE mix/l.txt\n")).unwrap();
    assert_eq!(ns3(&config).unwrap().files[0].1.lines().count(), 4);
}

#[test]
fn errors_of_the_topology() {
    let of = |text: &str| message(&[("topology.txt", text)]);
    assert_eq!(
        of("3 1 2\n2\n0 2 100Gbps 1us 0\n"),
        "topology.txt:3: 1 link missing; 2 are announced in the first line"
    );
    assert_eq!(
        of("3 1 1\n2\n0 2 100Gbps 1us\n"),
        "topology.txt:3: 4 columns; 5 are expected: node node rate delay error_rate"
    );
    assert_eq!(
        of("3 1 1\n2\n0 9 100Gbps 1us 0\n"),
        "topology.txt:3: there is no node 9; 0 to 2 are announced"
    );
    assert_eq!(
        of("3 1 1\n2\n0 2 100G 1us 0\n"),
        "topology.txt:3: \"100G\" is no rate; a number with its unit is expected, such as 100Gbps \
         or 50Mb/s; did you mean `100Gbps`?"
    );
    assert_eq!(
        of("3 1 1\n2\n0 2 100Gbps 1000 0\n"),
        "topology.txt:3: \"1000\" is no delay; a number with its unit is expected, such as 1000ns \
         or 0.001ms"
    );
    assert_eq!(
        of("3 1 99999999999\n2\n"),
        "topology.txt:1: \"99999999999\" is no number of links; a whole number of at most 32 bits \
         is expected"
    );
    assert_eq!(
        of("3 1 20000000\n2\n"),
        "topology.txt:1: 20000000 links are announced; at most 10000000 can be"
    );
    assert_eq!(of("3 2 1\n2\n"), "topology.txt:2: 1 switch id missing; 2 are announced");
    assert_eq!(
        of(""),
        "topology.txt:1: the file is empty; a line `nodes switches links` is expected"
    );
}

#[test]
fn errors_of_flows_and_routes() {
    let of = |text: &str| message(&[("flow.txt", text)]);
    assert_eq!(
        of("2\n0 1 3 100 1000 2\n"),
        "flow.txt:2: 1 flow missing; 2 are announced in the \
         first line"
    );
    assert_eq!(of("1\n0 3 3 100 1000 2\n"), "flow.txt:2: node 3 is a switch; a host is expected");
    assert_eq!(
        of("1\n\n0 1 3 100 1000 -2\n"),
        "flow.txt:3: \"-2\" is no start; seconds are expected, such as 2.000000067"
    );
    assert_eq!(
        of("1\n0 1 2 100 1000 2\n"),
        "flow.txt:2: priority group 2 is not understood; 3 is expected"
    );
    let late = message(&[("flow.txt", "1\n0 1 3 100 1000 4.5\n")]);
    assert_eq!(
        late,
        "config.txt:5: SIMULATOR_STOP_TIME is 4s, but the first flow starts at 4500ms; a later end \
         is expected"
    );
    let routes = message(&[("routes.txt", "3 0 1\n3 1 5\n")]);
    assert_eq!(routes, "routes.txt:2: there is no port 5; switch 3 has 1 to 4");
    let twice = message(&[("routes.txt", "3 0 1\n3 0 1\n")]);
    assert_eq!(
        twice,
        "routes.txt:2: next hops of switch 3 to host 0 are there twice; once is expected"
    );
}

#[test]
fn numbers_in_other_notation_are_refused_with_what_is_meant() {
    let of = |size: &str| message(&[("flow.txt", &format!("1\n0 1 3 100 {size} 2.0e+00\n"))]);
    let digits = "flow.txt:2: \"1e6\" is no size in bytes; digits only are expected: 1000000";
    assert_eq!(of("1e6"), digits);
    assert!(of("32.0").ends_with("\"32.0\" is no size in bytes; digits only are expected: 32"));
    assert!(of("1.5").ends_with("a whole number of at most 64 bits is expected"));
    let out = "flow.txt:2: 18446744073709551615 bytes; 1 to 10^18 are expected";
    assert_eq!(of("18446744073709551615"), out);
    assert_eq!(of("0"), "flow.txt:2: 0 bytes; 1 to 10^18 are expected");
    let of = |from: &str, to: &str| message(&[("topology.txt", &TOPOLOGY.replace(from, to))]);
    assert!(of("0 3 100Gbps", "0 3 100gbps").ends_with("; did you mean `100Gbps`?"));
    assert!(of("1us", "0.000001").ends_with("; did you mean `0.000001s`?"));
    // ns-3 reads this time
    let topology = TOPOLOGY.replace("1us", "1e-6s");
    let links = |imported: &Imported| imported.toml.matches("delay = \"1us\"").count();
    assert_eq!(links(&import(&[("topology.txt", &topology)])), 5);
}

#[test]
fn hosts_without_a_path_and_files_without_flows() {
    let topology = "4 2 2\n2 3\n0 2 100Gbps 1us 0\n1 3 100Gbps 1us 0\n";
    assert_eq!(
        message(&[("topology.txt", topology)]),
        "topology.txt:4: no path through switches leads from host 1 to host 0; one between all \
         hosts is expected"
    );
    assert_eq!(
        message(&[("flow.txt", "# none\n0\n")]),
        "flow.txt:2: there are no flows; at least 1 is expected (those that astra-sim or SimAI \
         make as they run are in no file)"
    );
    let config = CONFIG.replace("TIME 4.00", "TIME 40000000000000.00");
    let root = merged(&import(&[("config.txt", &config)]));
    assert_eq!(section::<String>(&root, "stop.after"), "999998s");
}

#[test]
fn files_of_other_forks_are_named() {
    let simai = message(&[("topology.txt", "4 2 1 1 4 H100\n2\n3\n")]);
    assert_eq!(
        simai,
        "topology.txt:1: 6 columns, as SimAI has (nodes gpus_per_server nvswitches switches links \
         gpu_type), whose NVSwitches and flows are not imported; 3 are expected: nodes switches \
         links"
    );
    let tors = message(&[("topology.txt", "276 20 8 288\n")]);
    assert!(tors.starts_with("topology.txt:1: 4 columns, as ns3-datacenter has ("), "{tors}");
    let line = 1 + CONFIG.lines().count();
    let config = format!("{CONFIG}LB_MODE 9\n");
    assert_eq!(
        message(&[("config.txt", &config)]),
        format!(
            "config.txt:{line}: LB_MODE 9 (ConWeave itself) is not modelled; 0 (ECMP), 2 (DRILL), 3 \
             (CONGA) or 6 (LetFlow) is expected"
        )
    );
    let config = format!("{CONFIG}LB_MODE 0\nENABLE_PFC 1\nENABLE_IRN 0\nCONWEAVE_PATH 1\n");
    let warnings = import(&[("config.txt", &config), ("routes.txt", ROUTES)]).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(&format!("config.txt:{line}: LB_MODE is a key of ConWeave")));
    let strange = message(&[("config.txt", TOPOLOGY)]);
    assert!(strange.starts_with("config.txt: no line begins with a key of"), "{strange}");
    let utf16 = message(&[("config.txt", "C\0C\0")]);
    assert_eq!(utf16, "config.txt: this is no UTF-8; plain text is expected");
}

#[test]
fn files_are_sought_where_the_config_says() {
    let line = 1 + CONFIG.lines().count();
    let config = format!("{CONFIG}FLOW_FILE mix/f.txt\n");
    let dir = folder(&[("routes.txt", ROUTES)]);
    let inner = dir.path().join("mix");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("config.txt"), &config).unwrap();
    let error = |message: &str| format!("{}:{line}: {message}", inner.join("config.txt").display());
    assert_eq!(
        ns3(&inner).unwrap_err().to_string(),
        error(
            "FLOW_FILE is mix/f.txt, which is not there; f.txt or flow.txt is expected beside the \
             config"
        )
    );
    fs::write(inner.join("other.txt"), config.replace("mix/f.txt", "flow.txt")).unwrap();
    let same = ns3(&inner.join("other.txt")).unwrap_err().message;
    assert_eq!(
        same,
        "FLOW_FILE is flow.txt, which is not there; flow.txt is expected beside the config"
    );
    // as ns-3 sees it, which is started one folder above
    fs::write(inner.join("topology.txt"), TOPOLOGY).unwrap();
    fs::write(inner.join("f.txt"), "1\n0 1 3 100 7 2.0\n").unwrap();
    assert_eq!(ns3(&inner).unwrap().files[0].1.lines().count(), 2);
    fs::rename(inner.join("f.txt"), inner.join("flow.txt")).unwrap();
    fs::write(inner.join("routes.txt"), ROUTES).unwrap();
    assert_eq!(
        ns3(&inner).unwrap().warnings,
        [error("FLOW_FILE is mix/f.txt, which is not there; flow.txt is read")]
    );
}

#[test]
fn warnings_name_file_and_line() {
    let dir = folder(&[
        ("config.txt", &format!("{CONFIG}RNG_RUN 8\nENABLE_QCN 0\n")),
        ("flow.txt", "2\n0 1 3 100 7 2.0\n0 1 3 100 7 9.0\n0 1 3 100 7 2.0\n"),
        ("topology.txt", &format!("{TOPOLOGY}5 6\n")),
    ]);
    let (line, place) = (CONFIG.lines().count(), format!("{}/", dir.path().display()));
    let warnings = ns3(dir.path()).unwrap().warnings.join("\n").replace(&place, "");
    let expected = format!(
        "config.txt:{}: of two lines RNG_RUN, the last holds\n\
         config.txt:{}: of two lines ENABLE_QCN, the last holds\n\
         topology.txt:9: what follows the 5 announced links was left out\n\
         flow.txt:4: what follows the 2 announced flows was left out\n\
         topology.txt: of several links between two nodes ns-3 uses the last; the scenario uses \
         them all\n\
         config.txt:{}: ENABLE_QCN is 0, so switches mark nothing: congestion control is `none`\n\
         flow.txt: 1 flow would start after SIMULATOR_STOP_TIME: nothing is sent",
        line + 1,
        line + 2,
        line + 2
    );
    assert_eq!(warnings, expected);
}

#[test]
fn errors_of_the_config() {
    let with = |line: &str| message(&[("config.txt", &format!("{CONFIG}{line}\n"))]);
    let line = 1 + CONFIG.lines().count();
    for (text, expected) in [
        (
            "CC_MODE 4",
            "CC_MODE 4 is not modelled; 1 (DCQCN), 3 (HPCC), 7 (TIMELY), 8 (DCTCP), 10 (HPCC-PINT) or \
             12 (none) is expected",
        ),
        ("HAS_WIN 0\nCC_MODE 3", "HPCC divides by its window: HAS_WIN 1 is expected"),
        ("RATE_BOUND 0", "RATE_BOUND 0 is not understood (rates that are not kept); 1 is expected"),
        (
            "RING 3 900 0 1",
            "RING announces 3 hosts and names 2 hosts; as many are expected, at least 2",
        ),
        ("RING 2 900 0 3", "node 3 is a switch; a host is expected"),
        ("RING 2 900 1 1", "host 1 is twice in the ring; once is expected"),
        ("RING 2 1 0 1", "a ring of 2 hosts over 1 bytes; at least a byte each is expected"),
        ("QSER 5", "QSER has 1 value; a file and nanoseconds are expected"),
        (
            "LINK_DOWN 2000 0 3",
            "a link that goes down is not understood; `LINK_DOWN 0 0 0` is expected",
        ),
        (
            "KMAX_MAP 1 100000000000 1600",
            "KMAX_MAP has no entry for 400 Gbps (400000000000), the rate of a switch port; one for \
             each rate in topology.txt is expected",
        ),
        (
            "KMIN_MAP 2 100000000000",
            "KMIN_MAP announces 2 rates and has 1 value; a rate and a value of each are expected",
        ),
        ("RP_TIMER 0.9", "\"0.9\" is no RP_TIMER; microseconds are expected, at least 1"),
        ("BUFFER_SIZE 0", "BUFFER_SIZE 0 is out of range; 1 to 2047 is expected"),
        ("EWMA_GAIN", "EWMA_GAIN has no value; one is expected"),
        ("GLOBAL_T yes", "\"yes\" is no GLOBAL_T; 0 or 1 is expected"),
        ("BUFFER_SIZE 32.0", "\"32.0\" is no BUFFER_SIZE; digits only are expected: 32"),
        (
            "KMAX_MAP 2 100000000000 1600 100000000000 6400",
            "KMAX_MAP has 100000000000 twice; once is expected",
        ),
    ] {
        assert_eq!(with(text), format!("config.txt:{line}: {expected}"));
    }
    let without = CONFIG.replace("RATE_AI 40Mb/s\n", "");
    assert_eq!(
        message(&[("config.txt", &without)]),
        format!("config.txt:{}: RATE_AI is missing; a line `RATE_AI 20Mb/s` is expected", line - 2)
    );
}

#[test]
fn unknown_keys_are_named_and_left_out() {
    let config = format!("{CONFIG}RATE_AL 5Mb/s # typo\r\nMY_OWN_KEY\n");
    let dir = folder(&[("config.txt", &config), ("routes.txt", ROUTES)]);
    let warnings = ns3(dir.path()).unwrap().warnings;
    let file = dir.path().join("config.txt").display().to_string();
    let line = 1 + CONFIG.lines().count();
    assert_eq!(
        warnings,
        [
            format!(
                "{file}:{line}: the key \"RATE_AL\" is unknown and was left out; did you mean \
                 `RATE_AI`?"
            ),
            format!("{file}:{}: the key \"MY_OWN_KEY\" is unknown and was left out", line + 1),
        ]
    );
}

#[test]
fn a_ring_becomes_flows_that_wait_for_each_other() {
    let config = format!("{CONFIG}RING 3 3001 2 0 1\nQSER queue.csv 5000\nRATESER rate.csv 1000\n");
    let imported = import(&[("config.txt", &config), ("flow.txt", "1\n2 0 3 100 7 2.0\n")]);
    let rows: Vec<&str> = imported.files[0].1.lines().collect();
    assert_eq!(rows[0], "source,target,bytes,start,dscp,source_port,destination_port,after");
    // 2 x 2 steps of 3 hosts; the pair 2 -> 0 has one flow before
    assert_eq!(rows.len(), 2 + 12);
    assert_eq!(
        rows[2..5],
        [
            "n2,n0,1000B,0ns,3,10001,100,",
            "n0,n1,1000B,0ns,3,10000,100,",
            "n1,n2,1000B,0ns,3,10000,100,"
        ]
    );
    // host 2 waits for what host 1 sent to it: flow 3, since the one of the file is flow 0
    assert_eq!(
        rows[5..8],
        [
            "n2,n0,1000B,0ns,3,10002,100,3",
            "n0,n1,1000B,0ns,3,10001,100,1",
            "n1,n2,1000B,0ns,3,10001,100,2"
        ]
    );
    assert_eq!(section::<String>(&merged(&imported), "sample.interval"), "1us");
}

#[test]
fn windows_of_single_pairs_acks_and_no_control() {
    let config = CONFIG
        .replace("GLOBAL_T 1", "GLOBAL_T 0")
        .replace("L2_ACK_INTERVAL 1", "L2_ACK_INTERVAL 4000")
        .replace("CC_MODE 1", "CC_MODE 12");
    let imported = import(&[("config.txt", &config)]);
    let windows: Vec<_> = imported.files[0].1.lines().map(|row| row.rsplit(',').next()).collect();
    // all go to host 2 over 3 links: see `switches_and_nics`
    assert_eq!(windows, [Some("window"), Some("77250B"), Some("77250B"), Some("77250B")]);
    let nic: NicConfig = section(&merged(&imported), "nic");
    assert_eq!((nic.transport.window, nic.transport.ack_every), (None, 4));
    assert!(matches!(nic.congestion, CongestionConfig::None(_)));
    assert!(imported.warnings.iter().any(|text| text.contains("L2_ACK_INTERVAL 4000")));
}

#[test]
fn compressed_files_are_read() {
    let dir = folder(&[]);
    for (name, text) in [("routes.txt.gz", ROUTES), ("flow.txt.gz", FLOWS)] {
        let file = fs::File::create(dir.path().join(name)).unwrap();
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, text.as_bytes()).unwrap();
        packed.finish().unwrap();
    }
    fs::remove_file(dir.path().join("flow.txt")).unwrap();
    let imported = ns3(dir.path()).unwrap();
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    assert!(imported.toml.contains("routes = ["));
    fs::write(dir.path().join("flow.txt.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    let error = ns3(dir.path()).unwrap_err().to_string();
    assert!(error.contains("flow.txt.gz: cannot be read: "), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = ns3(dir.path()).unwrap_err();
    assert_eq!(error.file, dir.path().join("config.txt").display().to_string());
    assert!(error.to_string().contains("config.txt: there is no such file; "), "{error}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(
        file in 0usize..4,
        text in "[0-9a-zA-Z_ .#\n-]{0,80}",
        cut in 0usize..400,
    ) {
        let good = [
            ("topology.txt", TOPOLOGY),
            ("flow.txt", FLOWS),
            ("config.txt", CONFIG),
            ("routes.txt", ROUTES),
        ];
        let (name, good) = good[file];
        let text = format!("{}{text}", &good[..cut.min(good.len())]);
        let _ = ns3(folder(&[(name, &text)]).path());
    }
}
