//! Headroom: the formula of a vendor against its tables, and `auto` against those of all vendors.

use std::collections::BTreeMap;

use models::switch::{HeadroomInput, MellanoxHeadroom, auto_cells};
use models::wire::{Frames, WireConfig};
use sim_core::{Bytes, Delta, Rate};

use super::setup::{lines, number, reference};
use crate::common::say;
use crate::table::{Row, section};

const PUBLISHED: &str = include_str!("../../../validation/data/headroom_tables.csv");

/// A line of a headroom table; rate in Gb/s, cable in metres, the rest in bytes.
struct Line {
    asic: String,
    cell: u64,
    rate: u64,
    cable: u64,
    xoff: u64,
}

impl Line {
    fn delay(&self) -> Delta {
        // 198,000 km/s, as SONiC has it
        Delta::from_ps((self.cable * 1_000_000).div_ceil(198))
    }

    /// What `auto` gives for frames of at most 4096 B of payload and switches of this kind at both
    /// ends.
    fn auto(&self) -> u64 {
        let rate = Rate::from_gbps(self.rate);
        let nvidia = self.asic.starts_with("Spectrum");
        // the response that IEEE 802.3 31B.3.7 allows, in quanta of 512 bits
        let quanta = match self.rate {
            10 => 67,
            25 => 80,
            40 => 118,
            50 => 147,
            100 => 394,
            200 => 453,
            _ => 905,
        };
        let frames = Frames::new(&WireConfig::default());
        let input = HeadroomInput {
            rate,
            delay: self.delay(),
            latency: Delta::from_ns(if nvidia { 300 } else { 800 }),
            upstream: rate.time_for(Bytes::new(quanta * 64)),
            mtu: 4096,
            smallest: frames.smallest(),
            cell: Bytes::new(self.cell),
            priorities: 2,
        };
        auto_cells(&input, &frames) * self.cell
    }
}

fn table() -> Vec<Line> {
    let line = |line: BTreeMap<String, String>| {
        let at = |key: &str| number(&line[key]).unwrap();
        Line {
            asic: line["asic"].clone(),
            cell: at("cell"),
            rate: at("rate"),
            cable: at("cable"),
            xoff: at("xoff"),
        }
    };
    lines(PUBLISHED, b',').into_iter().map(line).collect()
}

/// The formula's parameters in the table of an ASIC. Before Spectrum-4 tables have 3.8 KiB of peer
/// response at every rate.
fn formula(asic: &str) -> MellanoxHeadroom {
    let mut formula = MellanoxHeadroom::default();
    match asic {
        "Spectrum-4" => formula.tile = Delta::from_ns(120),
        _ => formula.peer_response = Some(Bytes::new(3892)),
    }
    formula
}

fn computed(formula: &MellanoxHeadroom, line: &Line) -> u64 {
    let found = formula.bytes(Rate::from_gbps(line.rate), line.delay(), Bytes::new(line.cell));
    found.unwrap().get()
}

/// The formula against the lines of one table.
fn formula_row(asic: &str, name: &str, formula: &MellanoxHeadroom, lines: &[&Line]) -> Row {
    let off = lines.iter().map(|line| computed(formula, line).abs_diff(line.xoff)).max().unwrap();
    let exact = lines.iter().filter(|line| computed(formula, line) == line.xoff).count();
    let reference = format!("{} entries", lines.len());
    let ours = format!("{exact} equal, the others off by {off} B at most");
    Row::statement([asic, name], &reference, &ours, off <= 1024).differing("", "1 KiB")
}

#[test]
fn headroom_is_what_vendors_publish() {
    let table = table();
    let of = |asic: &str| table.iter().filter(|line| line.asic == asic).collect::<Vec<_>>();
    let mut rows = Vec::new();
    let names = [("Spectrum-4", "SN5600"), ("Spectrum-3", "SN4700"), ("Spectrum", "SN2700")];
    for (asic, sku) in names {
        let case = format!("{asic} ({sku})");
        rows.push(formula_row(&case, "formula = \"mellanox\"", &formula(asic), &of(asic)));
    }
    let mut asics: Vec<&str> = table.iter().map(|line| line.asic.as_str()).collect();
    asics.dedup();
    for asic in asics {
        for rate in [40, 100, 400, 800] {
            let lines: Vec<&Line> = of(asic).into_iter().filter(|line| line.rate == rate).collect();
            if !lines.is_empty() && (rate > 40 || asic == "Trident 2") {
                rows.push(auto_row(asic, rate, &lines));
            }
        }
    }
    section("headroom", &rows);
}

/// `auto` against the table of a vendor, by cable.
fn auto_row(asic: &str, rate: u64, lines: &[&Line]) -> Row {
    let join = |show: &dyn Fn(&Line) -> String| {
        lines.iter().map(|line| show(line)).collect::<Vec<_>>().join(" / ")
    };
    let cables = join(&|line| line.cable.to_string());
    let quantity = format!("auto, {rate} Gb/s; {cables} m");
    let published = join(&|line| line.xoff.to_string());
    let ours = join(&|line| line.auto().to_string());
    let ratios = join(&|line| format!("{:.2}", line.auto() as f64 / line.xoff as f64));
    let enough = lines.iter().filter(|line| line.auto() <= line.xoff).count();
    let verdict = format!("table covers {enough} of {}", lines.len());
    let row = Row::statement([asic, &quantity], &published, &ours, true);
    row.differing(&format!("x {ratios}"), &verdict)
}

/// The same formula explains more tables; they are read from the reference folder.
#[test]
fn the_formula_has_the_tables_of_other_switches_too() {
    if let Some(text) = reference("sonic/headroom_golden.tsv") {
        golden(&text);
    }
    let Some(text) = reference("sonic/pg_profile_all.tsv") else { return };
    let new = MellanoxHeadroom::default();
    let old = formula("Spectrum");
    let half = |formula: MellanoxHeadroom| MellanoxHeadroom { small_packets: 50, ..formula };
    // SKU, cell, formula, longest cable: that of 2000 m has another share of small frames
    let skus = [
        ("nvidia_sn5600-r0/ACS-SN5600", 192, formula("Spectrum-4"), 300),
        ("mlnx_msn4700-r0/ACS-MSN4700", 144, old, 300),
        ("mlnx_msn2700-r0/ACS-MSN2700", 96, old, 300),
        ("mlnx_msn3700-r0/ACS-MSN3700", 144, old, 300),
        ("nvidia_sn2201-r0/ACS-SN2201", 96, old, 300),
        ("nvidia_sn4280_simx-r0/ACS-SN4280", 144, old, 300),
        ("Mellanox-SN2700-D40C8S8", 96, half(old), 300),
        ("Mellanox-SN2700-D48C8", 96, half(old), 300),
        ("Mellanox-SN4600C-D112C8", 144, half(new), 300),
        ("Mellanox-SN4700-C128", 144, half(new), 300),
    ];
    let mut compared = 0;
    for (sku, cell, formula, longest) in skus {
        let before = compared;
        for line in lines(&text, b'\t').iter().filter(|line| line["example_path"].contains(sku)) {
            let at = |key: &str| number(&line[key]).unwrap();
            let (rate, cable) = (at("speed_mbps") / 1000, at("cable_m"));
            let line = Line { asic: String::new(), cell, rate, cable, xoff: at("xoff") };
            if cable > longest {
                continue;
            }
            let ours = computed(&formula, &line);
            assert!(ours.abs_diff(line.xoff) <= 1024, "{sku} {rate}G {cable} m: {ours}");
            compared += 1;
        }
        assert!(compared > before, "pg_profile_all.tsv has no {sku}");
    }
    say(&format!("{compared} entries of the tables of {} switches within 1 KiB", skus.len()));
}

/// Entries that were computed apart: equal to theirs, and within 1 KiB of the table.
fn golden(text: &str) {
    let skus = [
        ("ACS-SN5600", "Spectrum-4", 192),
        ("ACS-MSN4700", "Spectrum-3", 144),
        ("ACS-MSN2700", "Spectrum", 96),
    ];
    let mut compared = 0;
    for line in lines(text, b'\t') {
        let at = |key: &str| number(&line[key]).unwrap();
        let (_, asic, cell) = *skus.iter().find(|(sku, ..)| *sku == line["table"]).unwrap();
        let entry = Line {
            asic: asic.to_owned(),
            cell,
            rate: at("speed_mbps") / 1000,
            cable: at("cable_m"),
            xoff: at("xoff_table"),
        };
        let ours = computed(&formula(asic), &entry);
        assert_eq!(ours, at("xoff_formula"), "{line:?}");
        assert!(ours.abs_diff(entry.xoff) <= 1024, "{line:?}");
        compared += 1;
    }
    say(&format!("headroom_golden.tsv: {compared} entries equal to the formula as computed apart"));
}
