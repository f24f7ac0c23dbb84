//! The MMU against switches: SONiC's qos tests say with which frame XOFF comes, the first loss, and
//! XON. A count is *predicted* if it follows from the published configuration of the switch; XOFF is
//! *fitted* where the shared pool is taken from it, and then proves nothing.

mod bench;
mod headroom;
mod paper;
mod setup;
mod sonic;

use std::collections::{BTreeMap, BTreeSet};

use self::bench::{Bench, Profile};
use self::setup::{
    Counts, Published, Setup, lines, number, profiles, published, reference, setups,
};
use crate::common::say;
use crate::table::{Row, section};

/// Rows of our table of which no count is left out.
const WHOLE_ROWS: usize = 46;
/// And those with the same counts counted once.
const WHOLE_DISTINCT: usize = 17;

/// One count of a row.
#[derive(Clone, Debug)]
struct Check {
    what: &'static str,
    measured: Vec<u64>,
    rocesim: Vec<u64>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Predicted,
    Fitted,
    LeftOut,
}

impl Check {
    fn worst(&self) -> i64 {
        let differences = self.measured.iter().zip(&self.rocesim);
        let differences = differences.map(|(measured, ours)| *ours as i64 - *measured as i64);
        differences.max_by_key(|difference| difference.abs()).unwrap_or(0)
    }

    fn holds(&self) -> bool {
        self.kind != Kind::Predicted || self.worst().abs() <= 1
    }
}

/// What the model says to each count of a row.
fn checks(setup: &Setup, counts: &Counts, profile: &Profile) -> Vec<Check> {
    let cells = profile.cells(profile.frame);
    let fitted = match counts.trigger {
        Some(trigger) if setup.fitted => Some(profile.pool_that_triggers_at(trigger)),
        _ => None,
    };
    let bench = || profile.bench(setup.xoff, fitted);
    let mut found = Vec::new();
    let mut check = |what: &'static str, measured: Vec<u64>, rocesim: Vec<u64>, from_pool: bool| {
        let kind = match (setup.leaves_out(what), from_pool && setup.fitted) {
            (true, _) => Kind::LeftOut,
            (_, true) => Kind::Fitted,
            _ => Kind::Predicted,
        };
        found.push(Check { what, measured, rocesim, kind });
    };
    let mut first = bench();
    let trigger = first.trigger(0, cells);
    let drop = trigger + first.headroom(0, cells) + 1;
    counts.trigger.into_iter().for_each(|m| check("XOFF", vec![m], vec![trigger], true));
    counts.drop.into_iter().for_each(|m| check("drop", vec![m], vec![drop], false));
    let pool_cells = profile.cells(profile.pool_frame);
    if let Some(measured) = counts.pool {
        let (ours, from_pool) = match counts.pgs {
            Some(groups) if profile.equal => (equal(&bench, groups as usize, pool_cells), false),
            _ => (bench().trigger(0, pool_cells), true),
        };
        check("pool", vec![measured], vec![ours], from_pool);
    }
    if let Some(measured) = counts.headroom_full {
        let mut bench = bench();
        bench.trigger(0, pool_cells);
        check("headroom_full", vec![measured], vec![bench.headroom(0, pool_cells)], false);
    }
    if !counts.series.is_empty() {
        let mut bench = bench();
        let groups = 0..counts.series.len();
        let ours = groups.map(|index| bench.trigger(index, cells)).collect();
        check("series", counts.series.clone(), ours, false);
    }
    found
}

/// The fewest frames to each of `groups` groups with which the last of them sends XOFF.
fn equal(bench: &dyn Fn() -> Bench, groups: usize, cells: u32) -> u64 {
    let (mut low, mut high) = (0, bench().trigger(0, cells));
    while low + 1 < high {
        let middle = low.midpoint(high);
        match bench().pauses_the_last(groups, middle, cells) {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

/// Frames that leave until XON, and after how many it must have come at the latest.
fn xon(setup: &Setup, counts: &Counts, profile: &Profile) -> Option<(u64, u64)> {
    let (trigger, dismiss) = (counts.xon_trigger?, counts.xon_dismiss?);
    if setup.leaves_out("XON") {
        return None;
    }
    let pool = counts.trigger.filter(|_| setup.fitted);
    let pool = pool.map(|frame| profile.pool_that_triggers_at(frame));
    let bench = || profile.bench(setup.xoff, pool);
    let cells = profile.cells(profile.frame);
    // the model's own XOFF, where it is a frame later
    let filled = bench().trigger(0, cells).max(trigger);
    Some((bench().dismiss(filled, cells), dismiss + setup.margin))
}

/// `400 Gb/s, 40 m`.
fn link(text: &str) -> String {
    match text.split_once('_') {
        Some((mbps, cable)) => {
            let gbps = mbps.parse::<u64>().unwrap() / 1000;
            format!("{gbps} Gb/s, {} m", cable.trim_end_matches('m'))
        }
        None => text.to_owned(),
    }
}

fn join<T>(checks: &[Check], show: impl Fn(&Check) -> T) -> String
where
    T: Into<String>,
{
    checks.iter().map(|check| show(check).into()).collect::<Vec<String>>().join(" / ")
}

/// `a`, or the ends of a series.
fn numbers(values: &[u64]) -> String {
    match values {
        [one] => one.to_string(),
        [first, second] => format!("{first}, {second}"),
        [first, .., last] => format!("{first} .. {last} ({})", values.len()),
        [] => String::new(),
    }
}

/// The lines of a setup in the document: its counts, and what is left out of them.
fn setup_rows(setup: &Setup, profile: Option<&Profile>) -> Vec<Row> {
    let topology = match setup.topologies.as_slice() {
        [one] => one.clone(),
        [first, more @ ..] => format!("{first} and {} more", more.len()),
        [] => String::new(),
    };
    let case = format!("{} {topology}: {}", setup.asic, link(&setup.link));
    let left_out = setup.left_out.join(", ").replace("row", "all").replace("_full", "");
    let reason = Row::statement([&case, &format!("left out: {left_out}")], "", &setup.why, true);
    let reason = (!setup.left_out.is_empty()).then(|| reason.differing("", ""));
    let Some(profile) = profile else { return reason.into_iter().collect() };
    let found = checks(setup, &setup.counts, profile);
    let shown = |check: &Check, values: &[u64]| match check.kind {
        Kind::Predicted => numbers(values),
        Kind::Fitted => format!("({})", numbers(values)),
        Kind::LeftOut => format!("[{}]", numbers(values)),
    };
    let mut holds = found.iter().all(Check::holds);
    let mut what = join(&found, |check| check.what.replace("_full", ""));
    let mut measured = join(&found, |check| shown(check, &check.measured));
    let mut ours = join(&found, |check| shown(check, &check.rocesim));
    let mut error = join(&found, |check| match check.kind {
        Kind::Predicted => format!("{:+}", check.worst()).replace("+0", "0"),
        _ => "-".to_owned(),
    });
    if let Some((after, latest)) = xon(setup, &setup.counts, profile) {
        holds &= after <= latest;
        what += " / XON";
        measured += &format!(" / <= {latest}");
        ours += &format!(" / {after}");
        error += " / -";
    }
    let row = Row::statement([&case, &what], &measured, &ours, holds);
    [row.differing(&error, "1 frame")].into_iter().chain(reason).collect()
}

/// How many rows there are and hold.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    rows: usize,
    whole: usize,
    part: usize,
    left_out: usize,
    whole_distinct: BTreeSet<(String, Counts)>,
    distinct: BTreeSet<(String, Counts)>,
    /// Counts by name: predicted, fitted, left out.
    counts: BTreeMap<&'static str, [usize; 3]>,
}

impl Tally {
    fn add(&mut self, setup: &Setup, counts: &Counts, found: Option<&[Check]>, rows: usize) {
        self.rows += rows;
        self.distinct.insert((setup.asic.clone(), counts.clone()));
        match found {
            None => self.left_out += rows,
            Some(_) if setup.left_out.is_empty() => {
                self.whole += rows;
                self.whole_distinct.insert((setup.asic.clone(), counts.clone()));
            }
            Some(_) => self.part += rows,
        }
        for check in found.unwrap_or_default() {
            let kind = match check.kind {
                Kind::Predicted => 0,
                Kind::Fitted => 1,
                Kind::LeftOut => 2,
            };
            self.counts.entry(check.what).or_default()[kind] += rows;
        }
    }

    fn rows(&self) -> Vec<Row> {
        let total = format!("{} rows, {} distinct", self.rows, self.distinct.len());
        let ours = format!(
            "{} whole ({} distinct), {} in part, {} left out",
            self.whole,
            self.whole_distinct.len(),
            self.part,
            self.left_out
        );
        let mut rows =
            vec![Row::statement(["all rows", "reproduced"], &total, &ours, true).differing("", "")];
        for (what, [predicted, fitted, left_out]) in &self.counts {
            let all = (predicted + fitted + left_out).to_string();
            let ours = format!("{predicted} predicted, {fitted} fitted, {left_out} left out");
            let quantity = format!("{}, counts", what.replace("_full", ""));
            let row = Row::statement(["all rows", &quantity], &all, &ours, true);
            rows.push(row.differing("", ""));
        }
        rows
    }
}

#[test]
fn groups_pause_and_drop_where_switches_do() {
    let (profiles, setups) = (profiles(), setups());
    let mut tally = Tally::default();
    let mut rows = Vec::new();
    for setup in &setups {
        let profile = profiles.get(&setup.profile);
        let found = profile.map(|profile| checks(setup, &setup.counts, profile));
        tally.add(setup, &setup.counts, found.as_deref(), setup.topologies.len());
        rows.extend(setup_rows(setup, profile));
    }
    rows.extend(tomahawk_3());
    rows.push(tomahawk_6(&profiles["th6-nh4210"]));
    rows.extend(tally.rows());
    section("hardware thresholds", &rows);
    assert_eq!((tally.whole, tally.whole_distinct.len()), (WHOLE_ROWS, WHOLE_DISTINCT));
}

/// Tomahawk 3 at 400 Gb/s and 300 m, from the configuration of a Dell Z9332F-O32: half of the egress
/// pool, alpha 1/4, 10 cells reserved, 373,888 B of headroom.
fn tomahawk_3() -> Vec<Row> {
    let profile = Profile {
        cell: 254,
        slices: 2,
        size: 66_394_076,
        pool: Some(38_462_204),
        shared_headroom: Some(27_200_352),
        ports: 32,
        lossy_ports: 0,
        port_reserve: 0,
        reserve: 2540,
        dynamic_th: -2,
        xon: 2540,
        xon_offset: 2540,
        frame: 64,
        pool_frame: 64,
        equal: false,
    };
    let mut bench = profile.bench(373_888, None);
    let trigger = bench.trigger(0, 1);
    let headroom = bench.headroom(0, 1);
    let show = |value: f64| value.to_string();
    let case = "th3 t1-lag: 400 Gb/s, 300 m";
    vec![
        Row::absolute([case, "XOFF"], 15_152.0, trigger as f64, show, 1.0),
        Row::absolute([case, "drop"], 16_624.0, (trigger + headroom + 1) as f64, show, 1.0),
        Row::absolute([case, "headroom"], 1472.0, headroom as f64, show, 0.0),
    ]
}

/// What the published configuration of a Tomahawk 6 gives; its rows are rounded and disagree.
fn tomahawk_6(profile: &Profile) -> Row {
    let ours = profile.bench(3_724_140, None).trigger(0, 1);
    let quantity = "XOFF from the published configuration";
    let text = format!("{ours}: the rows are rounded, and their tests allow 500 frames");
    let case = "th6 t0-standalone: all rates and cables";
    Row::statement([case, quantity], "207822, 209000, 210000", &text, true).differing("", "")
}

/// SONiC's own table, read whole: each row has the counts of ours; rows that ours lacks are tried with
/// the headroom tables of their ASIC, and only told.
#[test]
fn the_published_table_says_the_same() {
    let Some(text) = reference("sonic/qos_golden.tsv") else { return };
    let (profiles, setups) = (profiles(), setups());
    let mut tally = Tally::default();
    let (mut unlisted, mut explained) = (0, 0);
    for row in published(&text) {
        let Published { asic, topology, link, counts } = &row;
        let own = setups.iter().find(|setup| {
            setup.asic == *asic && setup.link == *link && setup.topologies.contains(topology)
        });
        let Some(setup) = own else {
            let told = unlisted_row(&row);
            say(&format!("not in our table: {asic} {topology} {link}: {}", told.1));
            unlisted += 1;
            explained += usize::from(told.0);
            continue;
        };
        let found = profiles.get(&setup.profile).map(|profile| checks(setup, counts, profile));
        for check in found.iter().flatten() {
            assert!(check.holds(), "{asic} {topology} {link}: {check:?}");
        }
        if let Some((after, latest)) =
            profiles.get(&setup.profile).and_then(|profile| xon(setup, counts, profile))
        {
            assert!(after <= latest, "{asic} {topology} {link}: XON after {after}, not {latest}");
        }
        tally.add(setup, counts, found.as_deref(), 1);
    }
    say(&format!(
        "qos_golden.tsv: {} rows ({} distinct) in our table: {} whole ({} distinct), {} in part, {} \
         left out; {unlisted} rows not in our table, of which {explained} agree with a headroom table \
         of their ASIC",
        tally.rows,
        tally.distinct.len(),
        tally.whole,
        tally.whole_distinct.len(),
        tally.part,
        tally.left_out
    ));
    assert!(tally.whole >= WHOLE_ROWS, "{} whole rows", tally.whole);
}

/// ASIC, cell in bytes, and the folders of its headroom tables.
const TABLES: [(&str, u64, &[&str]); 8] = [
    ("td2", 208, &["profiles/td2/"]),
    ("th", 208, &["7060_cx32s", "z9100"]),
    ("th2", 208, &["profiles/th2/", "7260cx3", "z9264f"]),
    ("td3", 256, &["7050cx3", "7050sx3"]),
    ("th3", 254, &["z9332f"]),
    ("th4", 254, &["z9664f"]),
    ("th5", 254, &["7060x6", "z9864f"]),
    ("th6", 420, &["nexthop_4210", "ixr7220_h6"]),
];

/// With the pool fitted to XOFF: does a headroom table of the ASIC have the drop, within a frame?
fn unlisted_row(row: &Published) -> (bool, String) {
    let known = TABLES.iter().find(|(asic, ..)| *asic == row.asic);
    let (Some((_, cell, folders)), Some(text)) = (known, reference("sonic/pg_profile_all.tsv"))
    else {
        return (false, "no headroom table is known for this ASIC".to_owned());
    };
    let (Some(trigger), Some(drop)) = (row.counts.trigger, row.counts.drop) else {
        return (false, "no counts".to_owned());
    };
    let mut best: Option<(i64, String)> = None;
    for line in lines(&text, b'\t') {
        let path = &line["example_path"];
        let at = format!("{}_{}m", line["speed_mbps"], line["cable_m"]);
        if at != row.link || !folders.iter().any(|folder| path.contains(folder)) {
            continue;
        }
        let (Some(reserve), Some(xoff)) = (number(&line["size"]), number(&line["xoff"])) else {
            continue;
        };
        let profile = Profile {
            cell: *cell,
            // in tables without a shared headroom pool `size` is reserve and headroom together
            reserve: if reserve > xoff { reserve - xoff } else { reserve },
            dynamic_th: line["threshold_dynamic_th"].parse().unwrap(),
            ..profiles()["th5-o128"].clone()
        };
        let profile = Profile { slices: 1, port_reserve: 0, ..profile };
        let mut bench = profile.bench(xoff, Some(profile.pool_that_triggers_at(trigger)));
        let ours = bench.trigger(0, 1) + bench.headroom(0, 1) + 1;
        let difference = ours as i64 - drop as i64;
        if best.as_ref().is_none_or(|(least, _)| difference.abs() < least.abs()) {
            best = Some((difference, path.replace("/pg_profile_lookup.ini", "")));
        }
    }
    match best {
        Some((off, path)) => (off.abs() <= 1, format!("drop {off:+} from XOFF ({path})")),
        None => (false, "no headroom table has this rate and cable".to_owned()),
    }
}

#[test]
fn a_pool_can_be_fitted_to_its_trigger() {
    for (name, profile) in profiles() {
        for frame in [4703, 6542, 120_117] {
            let pool = profile.pool_that_triggers_at(frame);
            let mut bench: Bench = profile.bench(10_000, Some(pool));
            let found = bench.trigger(0, profile.cells(profile.frame));
            assert!(found.abs_diff(frame) <= 1, "{name}: {found}, not {frame}");
        }
    }
}
