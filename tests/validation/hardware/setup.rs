//! What was measured on which switch: the tables in `validation/data/`, and SONiC's own.

use std::collections::BTreeMap;

use super::bench::Profile;
use crate::common;

const PROFILES: &str = include_str!("../../../validation/data/switch_profiles.csv");
const THRESHOLDS: &str = include_str!("../../../validation/data/switch_thresholds.csv");

/// Frames at which something happens; absent ones are not published.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counts {
    pub(super) trigger: Option<u64>,
    pub(super) drop: Option<u64>,
    pub(super) xon_trigger: Option<u64>,
    pub(super) xon_dismiss: Option<u64>,
    pub(super) pool: Option<u64>,
    pub(super) pgs: Option<u64>,
    pub(super) headroom_full: Option<u64>,
    pub(super) series: Vec<u64>,
}

/// A row: a switch in a topology, with ports of one rate and cable.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) asic: String,
    pub(super) topologies: Vec<String>,
    pub(super) link: String,
    pub(super) profile: String,
    pub(super) xoff: u64,
    pub(super) fitted: bool,
    pub(super) counts: Counts,
    pub(super) margin: u64,
    pub(super) left_out: Vec<String>,
    pub(super) why: String,
}

impl Setup {
    /// True if `what` is not compared.
    pub(super) fn leaves_out(&self, what: &str) -> bool {
        self.left_out.iter().any(|one| one == what || one == "row")
    }
}

/// The lines of a table, by column.
pub(super) fn lines(text: &str, delimiter: u8) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let line = |record: csv::StringRecord| {
        header.iter().zip(&record).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    reader.records().map(|record| line(record.unwrap())).collect()
}

/// A number, if there is one.
pub(super) fn number(text: &str) -> Option<u64> {
    (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| panic!("{text:?} is no number")))
}

/// The profiles by name.
pub(super) fn profiles() -> BTreeMap<String, Profile> {
    let profile = |line: BTreeMap<String, String>| {
        let at = |key: &str| number(&line[key]);
        let must = |key: &str| at(key).unwrap_or_else(|| panic!("{}: {key}", line["name"]));
        let profile = Profile {
            cell: must("cell"),
            slices: must("slices") as u32,
            size: must("size"),
            pool: at("pool"),
            shared_headroom: at("shared_headroom"),
            ports: must("ports") as usize,
            lossy_ports: must("lossy_ports") as usize,
            port_reserve: must("port_reserve"),
            reserve: must("reserve"),
            dynamic_th: line["dynamic_th"].parse().unwrap(),
            xon: must("xon"),
            xon_offset: must("xon_offset"),
            frame: must("frame"),
            pool_frame: must("pool_frame"),
            equal: line["pool_test"] == "equal",
        };
        (line["name"].clone(), profile)
    };
    lines(PROFILES, b',').into_iter().map(profile).collect()
}

/// The rows in our own table; those of topologies with the same counts are one.
pub(super) fn setups() -> Vec<Setup> {
    let split = |text: &str, at: char| -> Vec<String> {
        text.split(at).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let setup = |line: BTreeMap<String, String>| {
        let at = |key: &str| number(&line[key]);
        Setup {
            asic: line["asic"].clone(),
            topologies: split(&line["topologies"], '|'),
            link: line["link"].clone(),
            profile: line["profile"].clone(),
            xoff: at("xoff").unwrap_or(0),
            fitted: line["fit"] == "trigger",
            counts: Counts {
                trigger: at("trigger"),
                drop: at("drop"),
                xon_trigger: at("xon_trigger"),
                xon_dismiss: at("xon_dismiss"),
                pool: at("pool"),
                pgs: at("pgs"),
                headroom_full: at("headroom_full"),
                series: split(&line["series"], ';').iter().filter_map(|n| number(n)).collect(),
            },
            margin: at("margin").unwrap_or(1),
            left_out: split(&line["left_out"], '|'),
            why: line["why"].clone(),
        }
    };
    lines(THRESHOLDS, b',').into_iter().map(setup).collect()
}

/// A file of the reference folder; says so loudly if there is none.
pub(super) fn reference(file: &str) -> Option<String> {
    let path = common::reference(file)?;
    Some(std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
}

/// A row of SONiC's own table: ASIC, topology, link, counts.
pub(super) struct Published {
    pub(super) asic: String,
    pub(super) topology: String,
    pub(super) link: String,
    pub(super) counts: Counts,
}

/// The rows of `qos_golden.tsv`.
pub(super) fn published(text: &str) -> Vec<Published> {
    let row = |line: BTreeMap<String, String>| {
        let at = |key: &str| number(&line[key]).filter(|count| *count > 0);
        let series = line["trig_pfc_multi_first20"].trim_matches(['[', ']']).split(',');
        Published {
            asic: line["asic"].clone(),
            topology: line["topo"].trim_start_matches("topo-").to_owned(),
            link: line["speed_cable"].clone(),
            counts: Counts {
                trigger: at("xoff_trig_pfc_pkts"),
                drop: at("xoff_trig_ingress_drop_pkts"),
                xon_trigger: at("xon_trig_pfc"),
                xon_dismiss: at("xon_dismiss_pfc"),
                pool: at("hdrmpool_first_pg_trig_pfc"),
                pgs: at("pgs_num"),
                headroom_full: at("hdrm_full_pkts"),
                series: series.filter_map(|count| number(count.trim())).collect(),
            },
        }
    };
    lines(text, b'\t').into_iter().map(row).collect()
}
