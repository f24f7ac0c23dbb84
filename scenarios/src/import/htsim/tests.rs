//! Small matrices, made by hand.

use std::fs;
use std::path::Path;

use models::congestion::CongestionConfig;
use models::topology::{NodeKind, Topology, TopologyConfig};
use sim_core::{Delta, Rate};
use tempfile::TempDir;

use super::{Fabric, HtsimOptions, htsim};
use crate::import::Imported;
use crate::resolve::{LoadOptions, Loaded, load};

const OPTIONS: HtsimOptions = HtsimOptions {
    fabric: Fabric::FatTree,
    link: Rate::from_gbps(100),
    delay: Delta::from_us(1),
    mtu: 4096,
};

fn file(text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.cm"), text).unwrap();
    dir
}

/// The result for a file, messages without the file's folder.
fn try_import(text: &str, options: &HtsimOptions) -> Result<Imported, String> {
    let dir = file(text);
    let plain = |message: String| message.replace(&format!("{}/", dir.path().display()), "");
    let mut imported = htsim(&dir.path().join("a.cm"), options, "a.csv")
        .map_err(|error| plain(error.to_string()))?;
    imported.warnings = imported.warnings.into_iter().map(plain).collect();
    Ok(imported)
}

fn import(text: &str) -> Imported {
    try_import(text, &OPTIONS).unwrap()
}

fn message(text: &str) -> String {
    try_import(text, &OPTIONS).unwrap_err()
}

/// The flows of a matrix of 16 hosts with this body.
fn rows(triggers: usize, body: &str) -> Vec<String> {
    let flows = body.lines().filter(|line| line.contains("->")).count();
    let text = format!("Nodes 16\nConnections {flows}\nTriggers {triggers}\n{body}");
    let imported = import(&text);
    assert!(imported.files[0].0 == "a.csv");
    imported.files[0].1.lines().map(str::to_owned).collect()
}

/// The message for such a matrix.
fn refusal(triggers: usize, body: &str) -> String {
    let flows = body.lines().filter(|line| line.contains("->")).count();
    message(&format!("Nodes 16\nConnections {flows}\nTriggers {triggers}\n{body}"))
}

fn loaded(imported: &Imported) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.toml");
    fs::write(&path, &imported.toml).unwrap();
    for (name, text) in &imported.files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    load(path.to_str().unwrap(), &LoadOptions::default()).unwrap()
}

#[test]
fn words_come_in_any_order_and_lines_may_be_blank_or_comments() {
    let text = "# made by hand\r\n\r\nConnections 2\r\nNodes 16\r\n\r\n\
                3->9 size 4096  start 1.5e6 id 7 prio 3 # the first\r\n  \r\n# more\r\n\
                0->15\tid 2 start 0 size 8192\r\n";
    let imported = import(text);
    let csv = "source,target,bytes,start\n3,9,4096B,1500000ps\n0,15,8192B,0ps\n";
    assert_eq!(imported.files, [("a.csv".to_owned(), csv.to_owned())]);
    assert_eq!(
        imported.warnings,
        [
            "a.cm:6: htsim_roce starts every flow that waits for no trigger at 0, whatever `start` \
             says; the scenario starts it when the file says",
            "a.cm:6: `prio` has no effect in htsim_roce, and is left out",
        ]
    );
    assert!(!imported.toml.contains("another order"), "{}", imported.toml);
}

#[test]
fn sizes_are_rounded_up_to_whole_packets_and_it_is_said() {
    let text = "Nodes 2\nConnections 3\n0->1 start 0 size 4096\n0->1 start 0 size 4097\n\
                1->0 start 0 size 1\n";
    let imported = import(text);
    let csv = &imported.files[0].1;
    assert!(csv.ends_with("0,1,4096B,0ps\n0,1,8192B,0ps\n1,0,4096B,0ps\n"), "{csv}");
    assert_eq!(
        imported.warnings,
        [
            "a.cm:4: htsim sends whole packets, so the scenario's sizes are multiples of 4096 bytes: \
          2 flows changed, such as 4097 to 8192 bytes"
        ]
    );
    assert!(imported.toml.contains("rounded up to whole packets of 4096 bytes"));
    let small = try_import(text, &HtsimOptions { mtu: 1000, ..OPTIONS }).unwrap();
    assert!(small.files[0].1.ends_with("0,1,5000B,0ps\n0,1,5000B,0ps\n1,0,1000B,0ps\n"));
}

#[test]
fn triggers_become_flows_to_wait_for() {
    let chain = "0->1 id 1 start 0 size 4096 send_done_trigger 1\n\
                 1->2 id 2 trigger 1 size 4096\n\
                 1->3 id 3 trigger 1 size 4096\n\
                 trigger id 1 oneshot\n";
    assert_eq!(rows(1, chain)[2..], ["1,2,4096B,0ps,0", "1,3,4096B,0ps,0"]);
    // the two forms of a barrier, and a trigger line above the flows
    for barrier in ["barrier count 2", "count 2 barrier", "barrier 2"] {
        let body = format!(
            "trigger {barrier} id 9\n\
             0->1 id 1 start 0 size 4096 send_done_trigger 9\n\
             1->2 id 2 start 0 size 4096 send_done_trigger 9\n\
             2->3 id 3 trigger 9 size 4096\n"
        );
        assert_eq!(rows(1, &body)[3], "2,3,4096B,0ps,0 1", "{barrier}");
    }
}

#[test]
fn flows_are_sorted_only_as_far_as_they_must_be() {
    // the flow of line 4 waits for that of line 6, which waits for that of line 5
    let body = "0->1 id 1 trigger 2 size 4096\n\
                1->2 id 2 start 0 size 4096 send_done_trigger 1\n\
                2->3 id 3 trigger 1 size 4096 send_done_trigger 2\n\
                3->4 id 4 start 0 size 4096\n\
                trigger id 1 oneshot\ntrigger id 2 oneshot\n";
    let rows = rows(2, body);
    assert_eq!(
        rows[1..],
        ["1,2,4096B,0ps,", "2,3,4096B,0ps,0", "0,1,4096B,0ps,1", "3,4,4096B,0ps,"]
    );
    let imported = import(&format!("Nodes 16\nConnections 4\nTriggers 2\n{body}"));
    assert!(imported.toml.contains("another order"));
    assert_eq!(loaded(&imported).spec.flows[2].after[..], [1]);
}

#[test]
fn a_multishot_starts_one_flow_each_time() {
    // one flow at a time: each starts the next
    let serial = "0->1 id 1 start 0 size 4096 send_done_trigger 5\n\
                  0->2 id 2 trigger 5 size 4096 send_done_trigger 5\n\
                  0->3 id 3 trigger 5 size 4096 send_done_trigger 5\n\
                  trigger id 5 multishot\n";
    assert_eq!(rows(1, serial)[2..], ["0,2,4096B,0ps,0", "0,3,4096B,0ps,1"]);
    let head = "Nodes 16\nConnections 4\nTriggers 1\n";
    assert_eq!(import(&format!("Nodes 16\nConnections 3\nTriggers 1\n{serial}")).warnings.len(), 0);
    // two at a time: which one starts the next depends on the run
    let two = "0->1 id 1 start 0 size 4096 send_done_trigger 5\n\
               0->2 id 2 start 0 size 4096 send_done_trigger 5\n\
               0->3 id 3 trigger 5 size 4096\n\
               0->4 id 4 trigger 5 size 4096\n\
               trigger id 5 multishot\n";
    let imported = import(&format!("{head}{two}"));
    assert!(imported.files[0].1.ends_with("0,3,4096B,0ps,0\n0,4,4096B,0ps,1\n"));
    assert_eq!(
        imported.warnings,
        ["a.cm:8: trigger 5 is a multishot that several flows fire: htsim starts the next flow \
          when any of them is done, the scenario when the next one in the order of the file is"]
    );
    let few = two.replace("0->2 id 2 start 0 size 4096 send_done_trigger 5", "0->2 start 0 size 9");
    assert_eq!(
        refusal(1, &few),
        "a.cm:7: multishot trigger 5 starts one flow each time, but is fired 1 time for 2 flows, \
         so this one never starts; as many are expected"
    );
}

#[test]
fn what_the_model_does_otherwise_is_said() {
    let body = "Nodes 16\nConnections 2\nTriggers 2\n\
                0->1 id 1 start 0 size 4096 recv_done_trigger 1\n\
                1->2 id 2 trigger 1 size 4096\n\
                trigger id 1 oneshot\ntrigger id 2 oneshot\n";
    let imported = import(body);
    assert!(imported.files[0].1.ends_with("1,2,4096B,0ps,0\n"));
    assert_eq!(
        imported.warnings,
        [
            "a.cm:7: trigger 2 starts no flow",
            "a.cm:4: recv_done_trigger fires when the last byte is received; in the scenario what \
             waits for it starts when that is acknowledged, later by the ACK's way back (1 flow; \
             htsim_roce itself never fires it)",
        ]
    );
}

#[test]
fn errors_of_triggers() {
    let of = refusal;
    let first = "0->1 id 1 start 0 size 1 send_done_trigger 1\n";
    let second = "1->2 id 2 trigger 1 size 1\n";
    assert_eq!(
        of(0, first),
        "a.cm:4: there is no trigger 1; a line `trigger id 1 oneshot` is expected"
    );
    assert_eq!(
        of(1, &format!("{second}trigger id 1 oneshot\n")),
        "a.cm:4: nobody fires trigger 1, so this flow never starts; a flow with \
         `send_done_trigger 1` is expected"
    );
    assert_eq!(
        of(1, &format!("{first}{first}{second}trigger id 1 oneshot\n").replacen("id 1", "id 3", 1)),
        "a.cm:7: oneshot trigger 1 is fired 2 times; once is expected (`barrier count 2` waits for \
         all)"
    );
    assert_eq!(
        of(1, &format!("{first}{second}trigger id 1 barrier count 2\n")),
        "a.cm:6: barrier 1 counts 2, but is fired 1 time; as many are expected"
    );
    for (line, expected) in [
        ("trigger oneshot", "a trigger without `id`; `trigger id 1 oneshot` is expected"),
        ("trigger id 1", "a trigger without kind; oneshot, multishot or barrier is expected"),
        ("trigger id 1 barrier", "a barrier without `count`; `barrier count 4` is expected"),
        ("trigger id 1 oneshot count 2", "`oneshot` has no count; only a barrier counts"),
        ("trigger id 1 oneshot barrier", "both `oneshot` and `barrier`; one kind is expected"),
        ("trigger id 0 oneshot", "0 is no trigger id; at least 1 is expected"),
        ("trigger id 1 onshot", "\"onshot\" is unknown; did you mean `oneshot`?"),
        ("trigger id", "`id` has no value; a number is expected"),
    ] {
        assert_eq!(of(1, &format!("{first}{second}{line}\n")), format!("a.cm:6: {expected}"));
    }
    let twice = format!("{first}{second}trigger id 1 oneshot\ntrigger id 1 oneshot\n");
    assert_eq!(of(2, &twice), "a.cm:7: trigger 1 is there already, in line 6; once is expected");
}

#[test]
fn a_barrier_of_too_many_is_refused_before_it_takes_memory() {
    let mut body = String::new();
    for id in 1..=5000 {
        body += &format!("0->1 id {id} start 0 size 4096 send_done_trigger 1\n");
        body += &format!("1->0 id {} trigger 1 size 4096\n", 5000 + id);
    }
    assert_eq!(
        refusal(1, &format!("{body}trigger id 1 barrier count 5000\n")),
        "a.cm:10004: up to trigger 1, flows wait for 25000000 others in all; at most 20000000 can \
         be"
    );
}

#[test]
fn flows_that_wait_for_each_other_are_refused() {
    let own = "0->1 id 1 trigger 1 size 1 send_done_trigger 1\ntrigger id 1 oneshot\n";
    let expected = "a chain of triggers that begins with a `start` is expected";
    assert_eq!(
        refusal(1, own),
        format!("a.cm:4: this flow waits for itself, so it never starts; {expected}")
    );
    // the first flow only follows the circle of the others
    let circle = "0->1 id 1 trigger 3 size 1\n\
                  0->2 id 2 trigger 1 size 1 send_done_trigger 2\n\
                  0->3 id 3 trigger 2 size 1 send_done_trigger 4\n\
                  0->4 id 4 start 0 size 1 send_done_trigger 1\n\
                  0->5 id 5 trigger 4 size 1 send_done_trigger 1\n\
                  0->6 id 6 trigger 2 size 1 send_done_trigger 3\n\
                  trigger id 1 barrier count 2\ntrigger id 2 oneshot\ntrigger id 3 oneshot\n\
                  trigger id 4 oneshot\n";
    assert_eq!(
        refusal(4, circle),
        format!(
            "a.cm:5: this flow and the ones in lines 6, 8 wait for each other, so none ever \
             starts; {expected}"
        )
    );
}

#[test]
fn errors_of_flows() {
    for (line, expected) in [
        ("0->16 start 0 size 1", "there is no host 16; 0 to 15 are announced"),
        ("16->0 start 0 size 1", "there is no host 16; 0 to 15 are announced"),
        ("5->5 start 0 size 1", "host 5 sends to itself; two hosts are expected"),
        (
            "-1->5 start 0 size 1",
            "\"-1->5\" are no ends of a flow; two hosts such as 14->46 are \
          expected",
        ),
        (
            "0-> 5 start 0 size 1",
            "\"0->\" are no ends of a flow; two hosts such as 14->46 are \
          expected",
        ),
        ("0->1 start 0", "there is no `size`; bytes are expected"),
        ("0->1 start 0 size 0", "0 bytes; 1 to 10^18 are expected"),
        ("0->1 start 0 size 2e6", "\"2e6\" is no size in bytes; digits only are expected: 2000000"),
        ("0->1 start -1 size 1", "\"-1\" is no start; picoseconds are expected, 0 to 10^18"),
        ("0->1 start 1e19 size 1", "\"1e19\" is no start; picoseconds are expected, 0 to 10^18"),
        ("0->1 start 0 size 1 size 2", "`size` is there twice; once is expected"),
        ("0->1 start 0 size", "`size` has no value; a number is expected"),
        ("0->1 id 0 start 0 size 1", "0 is no flow id; at least 1 is expected"),
        ("0->1 id 1 size 1", "neither `start` nor `trigger`; one of them is expected"),
        (
            "0->1 id 1 size 1 start 0 trigger 1",
            "both `start` and `trigger`; one of them is \
          expected",
        ),
        ("0->1 trigger 1 size 1", "a flow that a trigger starts has no `id`; one is expected"),
        ("0->1 sise 1", "\"sise\" is unknown; did you mean `size`?"),
        (
            "0->1 start 0 size 1 recv_done 1",
            "\"recv_done\" is unknown; did you mean \
          `recv_done_trigger`?",
        ),
        ("0->1 addon start 0", "\"addon\" is unknown; htsim's `addon` is not understood"),
        (
            "failure switch_type TOR",
            "failed links and switches are not modelled; a matrix without \
          `failure` lines is expected",
        ),
        ("Node 16", "a line begins with \"Node\"; did you mean `Nodes`?"),
        (
            "{ 0",
            "a line begins with \"{\"; Nodes, Connections, Triggers, trigger or 14->46 is expected",
        ),
    ] {
        let text = format!("Nodes 16\nConnections 1\n{line}\n");
        assert_eq!(message(&text), format!("a.cm:3: {expected}"));
    }
    let twice = "0->1 id 4 start 0 size 1\n1->0 id 4 start 0 size 1\n";
    assert_eq!(refusal(0, twice), "a.cm:5: flow 4 is there already, in line 4; once is expected");
}

#[test]
fn errors_of_the_header() {
    let flow = "0->1 id 1 start 0 size 1\n";
    let one_trigger = format!("Nodes 16\nConnections 1\n{flow}trigger id 1 oneshot\n");
    let late = format!("Nodes 16\nConnections 1\n{flow}Triggers 0\n");
    for (text, expected) in [
        ("", "a.cm:1: there is no line `Nodes N`; one is expected at the top"),
        ("Nodes 16\n", "a.cm:1: there is no line `Connections N`; one is expected at the top"),
        ("Nodes 16\nConnections 0\n", "a.cm:2: no flows; at least 1 is expected"),
        ("Nodes 1\nConnections 1\n", "a.cm:1: 1 nodes; at least 2 are expected"),
        (
            "Nodes 16\nConnections 2\n",
            "a.cm:2: Connections announces 2, but no flow follows; as \
          many are expected",
        ),
        (
            "Connections 1\n0->1 start 0 size 1\n",
            "a.cm:2: a flow before the header; a line \
          `Nodes N` is expected first",
        ),
        (
            "Nodes 0\n0->1 start 0 size 1\n",
            "a.cm:2: a flow, but Nodes announces 0; at least 2 are \
          expected",
        ),
        ("Nodes 16\nNodes 16\n", "a.cm:2: Nodes is there already, in line 1; once is expected"),
        ("Nodes\n", "a.cm:1: 1 column; 2 are expected: Nodes number"),
        (
            "Nodes sixteen\n",
            "a.cm:1: \"sixteen\" is no number of nodes; a whole number of at most \
          32 bits is expected",
        ),
        (
            "Nodes 16\nFailures 1\n",
            "a.cm:2: failed links and switches are not modelled; a matrix \
          without `failure` lines is expected",
        ),
        (
            &one_trigger,
            "a.cm:4: 1 line `trigger id`, but no `Triggers 1` at the top; it is \
          expected",
        ),
        (
            &late,
            "a.cm:4: Triggers stands below flows or triggers; the header is expected above \
          them",
        ),
    ] {
        assert_eq!(message(text), expected, "{text}");
    }
    assert_eq!(
        message(&format!("Nodes 16\nConnections 2\n{flow}")),
        "a.cm:2: Connections announces 2, but 1 flow follows; as many are expected"
    );
    assert_eq!(
        message(&format!("Nodes 16\nConnections 1\nTriggers 3\nFailures 0\n{flow}")),
        "a.cm:3: Triggers announces 3, but no trigger follows; as many are expected"
    );
    let missing = htsim(Path::new("nowhere.cm"), &OPTIONS, "a.csv").unwrap_err().to_string();
    let expected = "a connection matrix of htsim is expected, such as a.cm";
    assert_eq!(missing, format!("nowhere.cm: there is no such file; {expected}"));
}

#[test]
fn other_numbers_of_hosts_are_refused_with_those_that_fit() {
    let with = |nodes: u32, fabric, link| {
        let text = format!("Nodes {nodes}\nConnections 1\n0->1 id 1 start 0 size 1\n");
        try_import(&text, &HtsimOptions { fabric, link, ..OPTIONS })
    };
    let link = OPTIONS.link;
    assert_eq!(
        with(100, Fabric::FatTree, link).unwrap_err(),
        "a.cm:1: 100 hosts fill no fat tree of k-port switches; 54 (k = 6) and 128 (k = 8) do: \
         k^3/4 for an even k (2, 16, 54, 128, 250, 432, 686, 1024, ...)"
    );
    assert_eq!(
        with(128, Fabric::LeafSpine, link).unwrap_or_else(|e| panic!("{e}")).warnings.len(),
        1
    );
    assert_eq!(
        with(64, Fabric::LeafSpine, link).unwrap_err(),
        "a.cm:1: 64 hosts fill no leaf-spine of k-port switches; 50 (k = 10) and 72 (k = 12) do: \
         k^2/2 for an even k (2, 8, 18, 32, 50, 72, 98, 128, ...)"
    );
    assert!(with(7, Fabric::Star, link).unwrap().toml.contains("hosts = 7\n"));
    assert_eq!(
        with(16, Fabric::FatTree, Rate::from_bps(5)).unwrap_err(),
        "a.cm:1: link.rate: 5 bps is out of range: 1Mbps to 10Tbps is expected"
    );
    assert_eq!(
        "fattree".parse::<Fabric>().unwrap_err(),
        "a matrix makes no \"fattree\"; did you mean `fat-tree`?"
    );
    let mtu = HtsimOptions { mtu: 64, ..OPTIONS };
    assert_eq!(
        try_import("Nodes 2\nConnections 1\n0->1 start 0 size 1\n", &mtu).unwrap_err(),
        "a.cm: an MTU of 64 bytes is out of range; 256 to 9216 is expected"
    );
}

#[test]
fn hosts_are_numbered_as_in_htsim() {
    let text = "Nodes 128\nConnections 1\n0->127 id 1 start 0 size 1\n";
    let loaded = loaded(&import(text));
    let TopologyConfig::FatTree(tree) = &loaded.scenario.topology else { panic!("no fat tree") };
    assert_eq!(tree.k, 8);
    let topology = Topology::build(&loaded.scenario.topology).unwrap();
    let name = |node| topology.node(node).name.clone();
    let switches = |node| {
        let nodes = topology.ports_of(node).map(|port| topology.neighbour(port));
        nodes.filter(|node| topology.node(*node).kind == NodeKind::Switch).collect::<Vec<_>>()
    };
    for (number, host) in topology.hosts().enumerate() {
        assert_eq!(name(host), format!("host{number}"));
        // host h is on ToR h / (k / 2), in pod h / (k k / 4)
        let [tor] = switches(host)[..] else { panic!("one cable") };
        assert_eq!(name(tor), format!("edge{}", number / 4));
        let pod = number / 16;
        let above: Vec<_> = switches(tor).into_iter().map(name).collect();
        assert_eq!(above, [0, 1, 2, 3].map(|agg| format!("agg{}", 4 * pod + agg)));
    }
}

#[test]
fn thresholds_are_packets_of_the_mtu() {
    let text = "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 1\n";
    for (mtu, xoff, xon) in [(4096, 61_440, 49_152), (1024, 15_360, 12_288)] {
        let imported = try_import(text, &HtsimOptions { mtu, ..OPTIONS }).unwrap();
        let plan = crate::simulate::plan(&loaded(&imported), 1).unwrap();
        let mmu = &mut plan.buffers[0].mmus[0].clone();
        // the group of priority 3 at port 0, byte by byte: XOFF above 15 packets, XON below 12
        let first = (1..).find(|_| mmu.charge_ingress(3, 1).unwrap()).unwrap();
        assert_eq!(first, xoff + 1);
        // a frame more goes to headroom
        assert_eq!(mmu.charge_ingress(3, 4160), Ok(false));
        assert!(!mmu.release_ingress(3, 4160));
        let released = (1..).find(|_| mmu.release_ingress(3, 1)).unwrap();
        assert_eq!(xoff + 1 - released, xon - 1);
    }
}

#[test]
fn the_preset_says_what_htsim_does() {
    let text = "Nodes 16\nConnections 1\n0->9 id 1 start 0 size 1\n";
    let loaded = loaded(&import(text));
    let frames = models::wire::Frames::new(&loaded.scenario.wire);
    let lengths = [frames.data(4096, true), frames.data(4096, false), frames.ack];
    assert_eq!(lengths, [4160, 4160, 64]);
    assert_eq!(frames.wire_len(4160), 4160);
    let nic = &loaded.scenario.nic;
    assert!(matches!(nic.congestion, CongestionConfig::None(_)));
    assert_eq!((nic.transport.ack_every, nic.transport.timeout), (1, 0));
    assert_eq!(loaded.scenario.switch.ecn.len(), 0);
    assert_eq!(crate::check::notes(&crate::simulate::plan(&loaded, 1).unwrap()), []);
}
