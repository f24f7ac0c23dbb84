//! Captures of runs, and captures of real devices: what is in them.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use common::{json_report, reference, rocesim, text};
use models::wire::frame::{Aeth, Layer, Seen, SeenRoce, read};
use serde_json::Value;
use validation::pcap::{CaptureStats, Reader};
use validation::read_capture;

/// Runs a scenario with captures; the report without what may differ between repeats.
fn captured(arguments: &[&str], folder: &Path) -> Value {
    json_report(arguments, folder)
}

fn stats(folder: &Path, file: &str) -> CaptureStats {
    let stats = read_capture(&folder.join(file), None).unwrap();
    assert_eq!(stats.warnings, [""; 0], "{file}");
    assert_eq!((stats.malformed_frames, stats.short_frames), (0, 0), "{file}");
    assert_eq!(stats.roce.icrc.wrong, 0, "{file}");
    stats
}

fn port<'a>(report: &'a Value, name: &str) -> &'a Value {
    let ports = report["ports"].as_array().unwrap();
    ports.iter().find(|port| port["port"] == name).unwrap()
}

/// A counter of a NIC; those that are zero are not in the report.
fn nic(report: &Value, name: &str, counter: &str) -> u64 {
    let nics = report["nics"].as_array().unwrap();
    let nic = nics.iter().find(|nic| nic["port"] == name);
    nic.and_then(|nic| nic["counters"][counter].as_u64()).unwrap_or(0)
}

/// Frames of these opcodes.
fn opcodes(stats: &CaptureStats, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| stats.roce.opcodes.get(*name)).sum()
}

const WRITES: [&str; 4] = ["WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_ONLY"];

/// The RoCEv2 frames of a file, with their lengths.
fn frames(file: &Path) -> Vec<(SeenRoce, u32)> {
    let mut reader = Reader::new(BufReader::new(File::open(file).unwrap())).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        if let Seen::Roce(roce) = read(record.frame, Layer::Ethernet) {
            frames.push((roce, record.original));
        }
    }
    frames
}

#[test]
fn a_congested_lossy_run_counts_in_its_captures_as_in_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = "traffic[0].bytes=1MiB";
    let set = ["incast", "--set", "topology.link.loss=0.003", "--set", bytes];
    let pcap = ["--pcap", "host0=0.pcap", "--pcap", "host8=8.pcap", "--pcap", "sw0:*=sw.pcapng"];
    let report = captured(&[&set[..], &pcap].concat(), folder.path());
    let without = json_report(&set, folder.path());
    assert_eq!(report, without, "a capture changes nothing");

    // the receiver: what it sends and gets
    let receiver = stats(folder.path(), "8.pcap");
    let target = &receiver.addresses["10.0.8.1"];
    let naks = receiver.roce.naks["psn_sequence_error"];
    assert!(naks > 0 && receiver.roce.cnps > 0 && receiver.roce.ecn_marked > 0);
    let counted = |name| nic(&report, "host8/nic0", name);
    assert_eq!(target.out_of_sequence, counted("out_of_sequence"));
    assert_eq!(naks, report["totals"]["nak_sent"].as_u64().unwrap());
    assert_eq!(target.np_cnp_sent, counted("np_cnp_sent"));
    assert_eq!(target.np_ecn_marked_roce_packets, counted("np_ecn_marked_roce_packets"));
    assert_eq!(receiver.roce.ecn_marked_data, counted("np_ecn_marked_roce_packets"));
    assert_eq!(target.tx_packets, port(&report, "host8/nic0")["tx_packets"].as_u64().unwrap());
    assert_eq!(target.tx_packets, receiver.roce.acks + naks + receiver.roce.cnps);

    // a sender: what it sends again
    let sender = stats(folder.path(), "0.pcap");
    let source = &sender.addresses["10.0.0.1"];
    assert_eq!(source.tx_packets, port(&report, "host0/nic0")["tx_packets"].as_u64().unwrap());
    assert_eq!(source.data_packets, opcodes(&sender, &WRITES));
    let flow = &report["flows"][0];
    let bytes = |value: &Value| value.as_u64().unwrap();
    let again = bytes(&flow["retransmitted_bytes"]);
    assert!(again > 0 && again == 4096 * source.retransmitted_packets);
    assert_eq!(sender.roce.data_bytes, bytes(&flow["bytes"]) + again);
    assert_eq!(source.packet_seq_err, nic(&report, "host0/nic0", "packet_seq_err"));

    // the switch: each frame as it comes and as it goes
    let switch = stats(folder.path(), "sw.pcapng");
    let packets = |way| {
        let qps = switch.qps.iter().filter(|qp| qp.way == Some(way));
        qps.map(|qp| qp.packets).sum::<u64>()
    };
    let ports = report["ports"].as_array().unwrap();
    let sent = |prefix: &str| {
        let of = ports.iter().filter(|port| port["port"].as_str().unwrap().starts_with(prefix));
        of.map(|port| port["tx_packets"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(packets("out"), sent("sw0"));
    let marked = switch.qps.iter().filter(|qp| qp.way == Some("out"));
    let marked: u64 = marked.map(|qp| qp.ecn_marked).sum();
    assert_eq!(marked, report["totals"]["ecn_marked_packets"].as_u64().unwrap());
    let drops: u64 = ports
        .iter()
        .filter(|port| port["port"].as_str().unwrap().starts_with("sw0"))
        .filter_map(|port| port["drops"]["corrupt"].as_u64())
        .sum();
    assert_eq!(packets("in") + drops, sent("host"));
}

#[test]
fn pauses_count_and_last_as_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let pcap = ["incast-pfc-only", "--pcap", "host0=0.pcapng", "--pcap", "sw0:*=sw.pcapng"];
    let report = captured(&pcap, folder.path());
    let host = stats(folder.path(), "0.pcapng");
    let [pause] = &host.pauses[..] else { panic!("one priority of one port: {:?}", host.pauses) };
    let told = &port(&report, "host0/nic0")["priorities"][0];
    assert_eq!(Some(pause.xoff_frames), told["rx_pause_frames"].as_u64());
    assert_eq!(Some(pause.episodes), told["pause_episodes"].as_u64());
    assert!(pause.episodes > 10 && pause.priority == Some(3));
    let paused_s = told["paused_s"].as_f64().unwrap();
    assert!((pause.paused_s - paused_s).abs() < 1e-12, "{} {paused_s}", pause.paused_s);
    let switch = stats(folder.path(), "sw.pcapng");
    let sum =
        |of: fn(&validation::pcap::PauseStats) -> u64| switch.pauses.iter().map(of).sum::<u64>();
    let totals = &report["totals"];
    assert_eq!(Some(sum(|pause| pause.xoff_frames)), totals["pfc_xoff_frames"].as_u64());
    assert_eq!(Some(sum(|pause| pause.xon_frames)), totals["pfc_xon_frames"].as_u64());
    assert_eq!(Some(switch.pause_frames), totals["pfc_xoff_frames"].as_u64().map(|xoff| 2 * xoff));
}

#[test]
fn captures_are_the_same_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let at = |threads: &str, file: &str| {
        let link = format!("host0={file}");
        let scenario = ["permutation-fat-tree", "--threads", threads, "--pcap", &link];
        captured(&scenario, folder.path());
        std::fs::read(folder.path().join(file)).unwrap()
    };
    let one = at("1", "one.pcap");
    assert!(one.len() > 100_000);
    assert!(one == at("2", "two.pcap"));
}

#[test]
fn a_collective_is_captured_at_its_last_size() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = "traffic[0].bytes={ from = \"1MiB\", to = \"4MiB\", factor = 4 }";
    let scenario = ["run", "allreduce-4x8-a100", "--set", sizes, "--no-out", "--quiet"];
    let output = rocesim(&[&scenario[..], &["--pcap", "host0=0.pcapng"]].concat(), folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("frames of host0, the last size (4 MiB)"), "{told}");
    let host = stats(folder.path(), "0.pcapng");
    assert_eq!((host.roce.psn_gaps, host.roce.repeated_packets, host.roce.late_packets), (0, 0, 0));
    // a CTS is a WRITE of one packet, by the QP that carries the data the other way
    let cts = opcodes(&host, &["WRITE_ONLY"]);
    assert!(cts > 0 && opcodes(&host, &["WRITE_FIRST"]) == opcodes(&host, &["WRITE_LAST"]));
    // MSNs count the messages of a QP one by one
    let mut last: BTreeMap<(std::net::IpAddr, u32), u32> = BTreeMap::new();
    for (roce, _) in frames(&folder.path().join("0.pcapng")) {
        let bth = roce.transport.bth;
        if let (true, Some(aeth)) = (bth.opcode.is_ack(), roce.transport.aeth) {
            let before = last.insert((roce.ip.target, bth.target_qp), aeth.msn).unwrap_or(0);
            assert!(aeth.msn == before || aeth.msn == before + 1, "{} after {before}", aeth.msn);
        }
    }
    assert!(last.values().any(|msn| *msn > 2));
}

#[test]
fn snapped_captures_count_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let pcap = ["incast", "--pcap", "host8=all.pcap"];
    captured(&pcap, folder.path());
    captured(&["incast", "--pcap", "host8=96.pcap", "--snaplen", "96"], folder.path());
    let [mut all, mut snapped] = ["all.pcap", "96.pcap"].map(|file| stats(folder.path(), file));
    assert!(snapped.captured_bytes <= 96 * snapped.frames);
    assert!(snapped.roce.icrc.unchecked > 0 && all.roce.icrc.unchecked == 0);
    all.roce.icrc = snapped.roce.icrc;
    all.captured_bytes = snapped.captured_bytes;
    (all.file, snapped.file) = (String::new(), String::new());
    assert_eq!(all, snapped);
}

#[test]
fn wrong_captures_are_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |pcap: &[&str]| {
        let output = rocesim(&[&["run", "incast", "--no-out"], pcap].concat(), folder.path());
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let near = refused(&["--pcap", "hots3=a.pcap"]);
    assert!(near.contains("--pcap hots3") && near.contains("did you mean `host3`?"), "{near}");
    let none = refused(&["--pcap", "nonsense=a.pcap"]);
    assert!(none.contains("a port such as `sw0:0`, a host such as `host0`"), "{none}");
    let twice = refused(&["--pcap", "host1=a.pcap", "--pcap", "host2=a.pcap"]);
    assert!(twice.contains("two links in one file"), "{twice}");
    let folderless = refused(&["--pcap", "host1=no/such/a.pcap"]);
    assert!(folderless.contains("its folder does not exist"), "{folderless}");
    assert!(refused(&["--pcap", "host1"]).contains("LINK=FILE is expected"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");

    std::fs::write(folder.path().join("junk"), "not a capture").unwrap();
    for file in ["junk", "missing", "."] {
        let output = rocesim(&["pcap-stats", file], folder.path());
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(text(&output.stderr).starts_with("error: "), "{file}");
    }
}

/// Frames by opcode and ECN, as the README of the folder of captures lists them.
#[test]
fn real_captures_have_what_their_list_says() {
    let Some(folder) = reference("pcap") else { return };
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut checked = 0;
    for line in readme.lines().filter(|line| line.contains(".pcap |")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, file, count, kinds, ..] = cells[..] else { panic!("{line}") };
        let stats = read_capture(&folder.join(file), None).unwrap();
        let frames = frames(&folder.join(file));
        assert_eq!(stats.frames.to_string(), count, "{file}");
        assert_eq!(stats.roce.icrc.right, frames.len() as u64, "each ICRC of {file}");
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for (roce, _) in &frames {
            let key = format!("{}:{}", roce.transport.bth.opcode.0, roce.ip.ecn);
            *found.entry(key).or_default() += 1;
        }
        if stats.frames > frames.len() as u64 {
            found.insert("none".to_owned(), stats.frames - frames.len() as u64);
        }
        let listed = kinds.split(' ').map(|kind| {
            let (key, count) = kind.split_once('=').unwrap();
            (key.to_owned(), count.parse().unwrap())
        });
        assert_eq!(found, listed.collect(), "{file}");
        let marked = frames.iter().filter(|(roce, _)| roce.ip.ecn == 3).count() as u64;
        assert_eq!(stats.roce.ecn_marked, marked, "{file}");
        checked += 1;
    }
    assert_eq!(checked, 10);
    let crafted = read_capture(&folder.join("crafted_cnp_imm_nak_rnr_pfc.pcap"), None).unwrap();
    let roce = &crafted.roce;
    assert_eq!((roce.cnps, roce.rnr_naks, roce.naks["psn_sequence_error"]), (1, 1, 1));
    let pause = &crafted.pauses[0];
    assert_eq!((pause.xoff_frames, pause.xon_frames, pause.priority), (1, 1, Some(3)));
}

/// What a message looks like: opcode, step of the PSN, AckReq, bytes of the frame, DMA length, AETH.
fn shape(frames: &[(SeenRoce, u32)]) -> Vec<String> {
    let first = frames[0].0.transport.bth.psn;
    let told = |(roce, len): &(SeenRoce, u32)| {
        let transport = &roce.transport;
        let step = transport.bth.psn.wrapping_sub(first) & 0xff_ffff;
        let length = transport.reth.map_or(0, |reth| reth.length);
        let aeth = transport.aeth.map(|aeth| (aeth.syndrome, aeth.msn));
        let (opcode, ack_req) = (transport.bth.opcode, transport.bth.ack_req);
        format!("{opcode} +{step} {ack_req} {len} B, DMA {length}, {aeth:?}")
    };
    frames.iter().map(told).collect()
}

#[test]
fn messages_look_like_those_of_real_devices() {
    let Some(real) = reference("pcap") else { return };
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("write64k_mtu1024.pcap", 65_536, 1024, "rc", 64),
        ("write64k_mtu4096.pcap", 65_536, 4096, "rc", 16),
        ("send_4k_mtu1024.pcap", 4096, 1024, "rc-send", 5),
    ];
    for (file, bytes, mtu, transport, count) in cases {
        let set = |key: &str| ["--set".to_owned(), key.to_owned()];
        let keys = [
            format!("traffic[0].bytes={bytes}B"),
            format!("nic.mtu={mtu}"),
            format!("traffic[0].transport={transport}"),
            "traffic[0].senders=0..1".to_owned(),
            // Soft-RoCE asks for an ACK of the last packet only
            "nic.transport.ack_every=1000".to_owned(),
        ];
        let keys: Vec<String> = keys.iter().flat_map(|key| set(key)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let link = format!("host0={file}");
        let scenario = ["run", "incast", "--no-out", "--quiet", "--pcap", &link];
        let output = rocesim(&[&scenario[..], &keys].concat(), folder.path());
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        let [real, made] = [real.join(file), folder.path().join(file)].map(|file| frames(&file));
        assert_eq!(shape(&made[..count]), shape(&real[..count]), "{file}");
        let ack = |frames: &[(SeenRoce, u32)]| {
            let ack = frames.iter().position(|(roce, _)| roce.transport.bth.opcode.is_ack());
            let ack = &frames[ack.unwrap()];
            let step = ack.0.transport.bth.psn - frames[0].0.transport.bth.psn;
            (ack.1, step, ack.0.transport.aeth)
        };
        assert_eq!(ack(&made), ack(&real), "{file}");
    }
}

/// After a NAK of a sequence error the sender goes back to the PSN that it names, inside a message with
/// the opcode MIDDLE.
#[test]
fn what_is_lost_is_sent_again_as_real_devices_do() {
    let Some(real) = reference("pcap/drop_data_nak.pcap") else { return };
    let folder = tempfile::tempdir().unwrap();
    let loss = "topology.link.loss=0.003";
    captured(&["incast", "--set", loss, "--pcap", "host0=0.pcap"], folder.path());
    for file in [real, folder.path().join("0.pcap")] {
        let frames = frames(&file);
        let mut answered = 0;
        for (at, (nak, _)) in frames.iter().enumerate() {
            let Some(aeth) = nak.transport.aeth.filter(|aeth| aeth.syndrome != Aeth::ACK) else {
                continue;
            };
            assert_eq!(aeth.syndrome, Aeth::SEQUENCE_ERROR);
            let psn = nak.transport.bth.psn;
            let data = |(roce, _): &&(SeenRoce, u32)| roce.transport.bth.opcode.is_request();
            let before = frames[..at].iter().rfind(data).unwrap().0.transport.bth.psn;
            let back = |roce: &SeenRoce| roce.transport.bth.psn <= before;
            let mut after = frames[at..].iter().filter(data);
            let Some((back, _)) = after.find(|(roce, _)| back(roce)) else { continue };
            // Soft-RoCE overlooks a second NAK of one recovery and waits for its timer
            if back.transport.bth.psn == psn {
                answered += 1;
                assert_ne!(back.transport.bth.opcode.to_string(), "WRITE_ONLY");
            }
        }
        assert!(answered > 0, "{}", file.display());
    }
}
