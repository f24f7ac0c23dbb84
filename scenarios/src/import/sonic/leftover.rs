//! What CONFIG_DB says that has no meaning for the simulator.

use std::collections::BTreeMap;

use super::node::Switch;
use crate::import::text::counted;

/// Tables that are read, and the fields of theirs that are; of the first all fields are keys.
const READ: &[(&str, &[&str])] = &[
    ("CABLE_LENGTH", &["*"]),
    ("DSCP_TO_TC_MAP", &["*"]),
    ("DOT1P_TO_TC_MAP", &["*"]),
    ("TC_TO_QUEUE_MAP", &["*"]),
    ("TC_TO_PRIORITY_GROUP_MAP", &["*"]),
    ("MAP_PFC_PRIORITY_TO_QUEUE", &["*"]),
    ("MAP_PFC_PRIORITY_TO_PRIORITY_GROUP", &["*"]),
    ("PORTCHANNEL_MEMBER", &["*"]),
    ("DEVICE_METADATA", &["hostname", "hwsku", "platform", "buffer_model"]),
    ("PORT", &["speed", "mtu", "admin_status", "lanes", "alias"]),
    ("PORTCHANNEL", &[]),
    ("DEVICE_NEIGHBOR", &["name", "port"]),
    ("BUFFER_POOL", &["type", "mode", "size", "xoff"]),
    ("BUFFER_PROFILE", &["pool", "size", "dynamic_th", "static_th", "xoff", "xon", "xon_offset"]),
    ("BUFFER_PG", &["profile"]),
    ("BUFFER_QUEUE", &["profile"]),
    ("DEFAULT_LOSSLESS_BUFFER_PARAMETER", &["default_dynamic_th", "over_subscribe_ratio"]),
    ("LOSSLESS_TRAFFIC_PATTERN", &["mtu", "small_packet_percentage"]),
    (
        "WRED_PROFILE",
        &[
            "ecn",
            "wred_green_enable",
            "green_min_threshold",
            "green_max_threshold",
            "green_drop_probability",
        ],
    ),
    (
        "PORT_QOS_MAP",
        &[
            "pfc_enable",
            "dscp_to_tc_map",
            "dot1p_to_tc_map",
            "tc_to_queue_map",
            "tc_to_pg_map",
            "pfc_to_queue_map",
            "pfc_to_pg_map",
        ],
    ),
    ("SCHEDULER", &["type", "weight"]),
    ("QUEUE", &["scheduler", "wred_profile"]),
    ("PFC_WD", &["detection_time", "restoration_time", "action", "POLL_INTERVAL"]),
];

/// Why a table or a field that people may look for is left out.
const WHY: &[(&str, &str)] = &[
    (
        "TC_TO_DSCP_MAP",
        "remarking in tunnels (dual-ToR) is not read; switch.qos.bounce remarks frames that turn",
    ),
    ("BUFFER_PORT_INGRESS_PROFILE_LIST", "limits of a port as a whole are not simulated"),
    ("BUFFER_PORT_EGRESS_PROFILE_LIST", "limits of a port as a whole are not simulated"),
    ("WRED_PROFILE.yellow_", "RoCE packets are green"),
    ("WRED_PROFILE.red_", "RoCE packets are green"),
    ("WRED_PROFILE.wred_", "RoCE packets are green"),
    ("PORT_QOS_MAP.pfcwd_sw_enable", "PFC_WD says it with its times"),
    ("BUFFER_PROFILE.packet_discard_action", "trimming is not simulated"),
    ("PORT.fec", "FEC is part of no delay here"),
    ("SCHEDULER.", "rates of queues are not limited"),
];

/// One line for each table that is not read, and for each such field of one that is.
pub(super) fn leftover(switches: &[Switch]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for switch in switches {
        for (table, entries) in switch.config.tables() {
            let Some((_, fields)) = READ.iter().find(|(known, _)| known == table) else {
                *counts.entry(table.clone()).or_default() += entries.len();
                continue;
            };
            if *fields == ["*"] {
                continue;
            }
            for name in entries.values().flat_map(|entry| entry.fields.keys()) {
                if !fields.contains(&name.as_str()) && name != "NULL" {
                    *counts.entry(format!("{table}.{name}")).or_default() += 1;
                }
            }
        }
    }
    let line = |(name, count): (String, usize)| {
        let what = if name.contains('.') { "entry" } else { "row" };
        let count = match what {
            "entry" => format!("in {}", counted(count, "row")),
            _ => counted(count, "row"),
        };
        let why = WHY.iter().find(|(start, _)| name.starts_with(start));
        let why = why.map_or(String::new(), |(_, why)| format!(": {why}"));
        format!("{name} ({count}){why}")
    };
    counts.into_iter().map(line).collect()
}
