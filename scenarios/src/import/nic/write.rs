//! The part of a scenario: keys in the order of the schema, each with the place it is from.

use super::super::text::aligned;
use super::{Place, Rank, Reading};

/// All keys, by section. `dscp_to_priority` is a table, and comes last.
const SECTIONS: [(&str, &[&str]); 5] = [
    ("nic", &["preset", "mtu"]),
    ("nic.qos", &["cnp_dscp"]),
    ("nic.pfc", &["priorities"]),
    ("nic.np", &["min_time_between_cnps", "priorities"]),
    (
        "nic.congestion",
        &[
            "algorithm",
            "preset",
            "rpg_time_reset",
            "rpg_byte_reset",
            "rpg_threshold",
            "rpg_ai_rate",
            "rpg_hai_rate",
            "rpg_min_rate",
            "rpg_gd",
            "rpg_min_dec_fac",
            "dce_tcp_g",
            "dce_tcp_rtt",
            "rate_reduce_monitor_period",
            "initial_alpha_value",
            "rate_to_set_on_first_cnp",
            "clamp_tgt_rate",
            "clamp_tgt_rate_after_time_inc",
            "priorities",
        ],
    ),
];

/// The TOML of what was read from files of these names.
pub(super) fn to_toml(readings: &[Reading], remarks: &[String], files: &[String]) -> String {
    let mut text = format!(
        "# A part of a scenario, from {}:\n# rocesim run SCENARIO --with THIS_FILE\n",
        files.join(", ")
    );
    let readings = with_congestion(readings);
    for (section, keys) in SECTIONS {
        let lines: Vec<(String, String)> = keys
            .iter()
            .filter_map(|key| {
                let full = format!("{section}.{key}");
                let reading = readings.iter().find(|reading| reading.key == full)?;
                Some((format!("{key} = {}", reading.value), comment(reading)))
            })
            .collect();
        if lines.is_empty() {
            continue;
        }
        text += &format!("\n[{section}]\n{}", aligned(&lines));
    }
    if let Some(map) = readings.iter().find(|r| r.key == "nic.qos.dscp_to_priority") {
        let comment = comment(map);
        text +=
            &format!("\n# all of it, so that no other map of the scenario's is left: {comment}\n");
        text += &format!("[nic.qos.dscp_to_priority]\n{}\n", map.value);
    }
    for remark in remarks {
        text.push('\n');
        for line in remark.lines() {
            text += &format!("# {line}\n");
        }
    }
    text
}

fn comment(reading: &Reading) -> String {
    if reading.place.file.is_empty() {
        return reading.name.clone();
    }
    format!("{}: {}", reading.place.short(), reading.name)
}

/// Where parameters of DCQCN are given, the algorithm, and the preset that has those that are not.
fn with_congestion(readings: &[Reading]) -> Vec<Reading> {
    let mut all = readings.to_vec();
    let is_given = |prefix: &str| readings.iter().any(|reading| reading.key.starts_with(prefix));
    if !is_given("nic.congestion.") {
        return all;
    }
    let mut add = |key: &'static str, value: &str, name: &str| {
        let place = Place { file: String::new(), line: 0 };
        let (value, name) = (value.to_owned(), name.to_owned());
        all.push(Reading { key, value, name, port: None, rank: Rank::Inferred, place });
    };
    if !is_given("nic.congestion.algorithm") {
        add("nic.congestion.algorithm", "\"dcqcn\"", "whose parameters these are");
    }
    add("nic.congestion.preset", "\"mlx5-default\"", "for what these files do not say");
    all
}
