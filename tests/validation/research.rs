//! What papers on congestion control, load balancing and loss recovery report: directions.

use serde_json::Value;

use crate::runs::{flows, mean, port, queue, with, xoff_frames};
use crate::table::{Row, section};

#[test]
fn research() {
    let mut rows = incast();
    rows.extend(fabric());
    rows.extend(swift());
    rows.extend(timely());
    rows.extend(irn());
    rows.extend(spray());
    rows.extend(balance());
    section("research", &rows);
}

fn kb(bytes: f64) -> String {
    format!("{:.1} KB", bytes / 1e3)
}

/// Goodput of all flows, in Gb/s.
fn all(report: &Value) -> f64 {
    flows(report, "goodput_bps").iter().sum::<f64>() / 1e9
}

/// The value below which a share of all is.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// 40 Gb/s; DCTCP marks at 160 KB, as the DCQCN paper has it for the bursts of its NICs,
/// with a window of what a base RTT carries at its rate, or without.
fn incast() -> Vec<Row> {
    let name = "dcqcn-incast";
    let hpcc = ["nic.congestion={preset=\"hpcc-paper\"}"];
    let at = |report: &Value| port(report, "sw0:20", "mean_queue_bytes");
    let [dcqcn, precise] = [&[][..], &hpcc].map(|keys| with(name, keys));
    let (queued, short) = (at(&dcqcn), at(&precise));
    let share = all(&precise) / all(&dcqcn);
    let mut rows = vec![
        Row::statement(
            ["20 to 1, HPCC and DCQCN", "mean queue"],
            "far below DCQCN's",
            &format!("{} of {}", kb(short), kb(queued)),
            short < queued / 10.0,
        ),
        Row::statement(
            ["20 to 1, HPCC and DCQCN", "goodput"],
            "95 %, less 42 B a packet",
            &format!("{:.1} %", share * 100.0),
            // 1106 of 1148 bytes, and eta, of a link that DCQCN keeps full
            (share - 0.95 * 1106.0 / 1148.0).abs() < 0.03,
        ),
    ];
    let depth = |keys: &[&str]| quantile(queue(name, keys, 0.05), 0.9);
    let [open, windowed] = ["false", "true"].map(|window| {
        let keys = format!("nic.congestion={{preset=\"dctcp-paper\",window={window}}}");
        let step = ["switch.ecn.3.kmin=160KB", "switch.ecn.3.kmax=160KB"];
        depth(&[&keys, step[0], step[1]])
    });
    let short = depth(&[]);
    let row = |case: &str, long: f64| {
        Row::statement(
            [case, "queue, p90"],
            "DCQCN's is shorter",
            &format!("{} and {}", kb(long), kb(short)),
            short < long,
        )
    };
    rows.push(row("20 to 1, DCTCP without a window, and DCQCN", open));
    rows.push(row("20 to 1, DCTCP with one, and DCQCN", windowed).recalled());
    let case = ["20 to 1, DCTCP with a window", "queue, p90"];
    rows.push(Row::relative(case, 162.9e3, windowed, kb, 0.2).recalled());
    rows
}

/// The target less what an empty fabric takes: 4 cables of 500 ns, a packet of 1106 B twice and an ACK
/// of 84 B twice at 40 Gb/s: 2.476 us.
fn swift() -> Vec<Row> {
    let row = |us: f64| {
        let report = with("swift-target", &[&format!("nic.congestion.base_target={us}us")]);
        let expected = (us + 1.0 - 2.476) * 1e-6 * 40e9 / 8.0 * 1086.0 / 1106.0;
        let found = port(&report, "sw0:20", "mean_queue_bytes");
        let case = format!("swift-target, {us} us and 1 us a switch");
        Row::relative([&case, "mean queue"], expected, found, kb, 0.1)
    };
    vec![row(30.0), row(60.0)]
}

/// HPCC's own fabric and load, in which DCQCN alone needs PFC.
fn fabric() -> Vec<Row> {
    let run = |preset: &str| {
        with("hpcc-320", &[&format!("nic.congestion={{preset=\"{preset}\"}}"), "nic.pacing=credit"])
    };
    let [dcqcn, hpcc] = ["hpcc-ns3", "hpcc-paper"].map(run);
    let [slow, fast] = [&dcqcn, &hpcc].map(slowdown);
    let [paused, free] = [&dcqcn, &hpcc].map(xoff_frames);
    vec![
        Row::statement(
            ["hpcc-320, HPCC and DCQCN", "PFC"],
            "none, and some",
            &format!("{free} XOFF, and {paused}"),
            free == 0 && paused > 0,
        ),
        Row::statement(
            ["hpcc-320, HPCC and DCQCN", "mean slowdown"],
            "below DCQCN's",
            &format!("{fast:.2} of {slow:.2}"),
            fast < slow,
        ),
    ]
}

fn timely() -> Vec<Row> {
    let name = "timely-unfair";
    let patched = ["nic.congestion.gradient=patched", "nic.congestion.beta=0.008"];
    let share = |keys: &[&str]| {
        let rates = flows(&with(name, keys), "goodput_bps");
        rates[1] / (rates[0] + rates[1])
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let unfair = share(&[]);
    vec![
        Row::statement(
            ["timely-unfair", "the later flow's part"],
            "no half",
            &percent(unfair),
            unfair < 0.25,
        ),
        Row::absolute(
            ["timely-unfair, patched", "the later flow's part"],
            0.5,
            share(&patched),
            percent,
            0.02,
        ),
    ]
}

fn slowdown(report: &Value) -> f64 {
    mean(&flows(report, "slowdown"))
}

fn irn() -> Vec<Row> {
    let name = "irn-fat-tree";
    let repeat = ["nic.transport.recovery=selective-repeat", "nic.transport.window=bdp"];
    let lossy = ["switch.pfc.priorities=[]", "nic.pfc.priorities=[]"];
    let roce = slowdown(&with(name, &[]));
    let irn = slowdown(&with(name, &[lossy, repeat].concat()));
    let go_back = slowdown(&with(name, &lossy));
    let better = (1.0 - irn / roce) * 100.0;
    vec![
        Row::statement(
            ["irn-fat-tree, IRN without PFC", "mean slowdown"],
            "6 to 83 % below RoCE's",
            &format!("{irn:.2} of {roce:.2}: {better:.0} %"),
            (6.0..83.0).contains(&better),
        ),
        Row::statement(
            ["irn-fat-tree, go-back-N without PFC", "mean slowdown"],
            "above RoCE's with PFC",
            &format!("{go_back:.1} of {roce:.2}"),
            go_back > roce,
        ),
    ]
}

fn spray() -> Vec<Row> {
    let name = "spray-recovery";
    let selective = "nic.transport.recovery=selective-repeat";
    let part = |keys: &[&str]| all(&with(name, keys)) / 32.0;
    let row = |case: &str, expected, keys: &[&str], holds: fn(f64) -> bool| {
        let found = part(keys);
        let case = format!("spray-recovery, {case}");
        Row::statement(
            [&case, "goodput a host"],
            expected,
            &format!("{found:.1} Gb/s"),
            holds(found),
        )
    };
    vec![
        row("go-back-N", "collapses", &[], |gbps| gbps < 10.0),
        row("selective repeat", "does not", &[selective], |gbps| gbps > 50.0),
        row(
            "and 64 packets of reordering",
            "near line rate",
            &[selective, "nic.transport.selective.reordering=64"],
            |gbps| gbps > 80.0,
        ),
        row(
            "placement out of order",
            "near line rate",
            &["nic.transport.ooo_data_placement=true"],
            |gbps| gbps > 80.0,
        ),
    ]
}

fn balance() -> Vec<Row> {
    let name = "balance-60";
    let run = |balance: &str| {
        let balance = format!("switch.load_balance={balance}");
        let report = with(name, &[&balance, "nic.transport.ooo_data_placement=true"]);
        (slowdown(&report), quantile(flows(&report, "slowdown"), 0.99))
    };
    let (hash, tail) = run("ecmp");
    let row = |balance: &str| {
        let (found, found_tail) = run(balance);
        Row::statement(
            [&format!("balance-60, {balance}"), "slowdown, mean and p99"],
            &format!("below ECMP's {hash:.2} and {tail:.1}"),
            &format!("{found:.2} and {found_tail:.1}"),
            found < hash && found_tail < tail,
        )
    };
    ["flowlet", "adaptive", "drill", "conga", "static"].map(row).into()
}
