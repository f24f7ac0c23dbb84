//! The mistakes that `lint` must find, each in a copy of a healthy fabric; forms that CONFIG_DB may
//! take; and published configurations, if the folder of reference data is there.

use std::path::{Path, PathBuf};

use models::report::Severity;

use super::*;

/// Two spines, four leaves, eight hosts.
fn fabric() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sonic/fabric")
}

fn hosts() -> SonicOptions {
    SonicOptions { hosts: Some(fabric().join("hosts.csv")), ..SonicOptions::default() }
}

/// A copy of the fabric in which some texts of one file are replaced.
fn broken(file: &str, changes: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fabric()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        if name == file {
            for (from, to) in changes {
                assert!(text.contains(from), "{file} has no {from}");
                text = text.replace(from, to);
            }
        }
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn import(folder: &Path, options: &SonicOptions) -> Result<SonicImport, ImportError> {
    sonic(&[folder.to_owned()], options, "scenario.ports.csv")
}

#[test]
fn a_healthy_fabric_has_no_findings_and_every_cable_once() {
    let found = import(&fabric(), &hosts()).unwrap();
    assert_eq!(found.findings, []);
    assert_eq!(found.scenario.warnings, Vec::<String>::new());
    // 16 to hosts, 4 leaves x 4 uplinks
    assert_eq!(found.scenario.toml.matches("{ a = ").count(), 32);
    // only headroom differs, by cable
    let sets: Vec<_> =
        found.scenario.toml.lines().filter(|line| line.starts_with("set.")).collect();
    assert_eq!(sets.len(), 2, "{sets:?}");
    assert!(sets.iter().all(|line| line.starts_with("set.\"switch.pfc.headroom\" = ")));
    let loopbacks = "LOOPBACK_INTERFACE (12 rows)".to_owned();
    assert!(found.leftover.contains(&loopbacks), "{:?}", found.leftover);
}

/// What is changed in leaf1, and what must be found: the rule, how bad, where, and words of the text.
struct Mistake {
    changes: &'static [(&'static str, &'static str)],
    rule: Rule,
    severity: Severity,
    place: &'static str,
    text: &'static str,
}

const PROFILE_5M: &str = "\"xoff\": \"178562\"";

const MISTAKES: &[Mistake] = &[
    Mistake {
        changes: &[(
            "\"3\": \"3\", \"4\": \"4\", \"5\": \"0\"",
            "\"3\": \"0\", \"4\": \"4\", \"5\": \"0\"",
        )],
        rule: Rule::LosslessInLossyGroup,
        severity: Severity::Error,
        place: "TC_TO_PRIORITY_GROUP_MAP|AZURE (Ethernet0 and 7 more ports)",
        text: "DSCP 3 is in queue 3, which PFC pauses, but in priority group 0",
    },
    Mistake {
        changes: &[(
            "\"xon\": \"2540\", \"xoff\": \"178562\", \"dynamic_th\": \"-2\", \"xon_offset\": \"2540\"",
            "\"dynamic_th\": \"-2\"",
        )],
        rule: Rule::NoXoff,
        severity: Severity::Error,
        place: "BUFFER_PROFILE|pg_lossless_400000_5m_profile (Ethernet0 and 3 more ports)",
        text: "what comes in after XOFF is dropped",
    },
    Mistake {
        changes: &[(PROFILE_5M, "\"xoff\": \"0\"")],
        rule: Rule::HeadroomZero,
        severity: Severity::Error,
        place: "BUFFER_PROFILE|pg_lossless_400000_5m_profile (Ethernet0 and 3 more ports)",
        text: "is 0",
    },
    Mistake {
        // 8 x 178562 + 8 x 201930 = 3,043,936 > 2 x 1,000,000
        changes: &[
            ("\"xoff\": \"27200352\"", "\"xoff\": \"1000000\""),
            (
                "\"BUFFER_PG\": {",
                "\"DEFAULT_LOSSLESS_BUFFER_PARAMETER\": { \"AZURE\": { \"default_dynamic_th\": \
                 \"0\", \"over_subscribe_ratio\": \"2\" } },\n  \"BUFFER_PG\": {",
            ),
        ],
        rule: Rule::HeadroomOversubscribed,
        severity: Severity::Error,
        place: "BUFFER_POOL|ingress_lossless_pool",
        text: "3043936 B, more than xoff 1000000 B x over_subscribe_ratio 2",
    },
    Mistake {
        changes: &[("\"wred_green_enable\": \"true\"", "\"wred_green_enable\": \"false\"")],
        rule: Rule::WredDisabled,
        severity: Severity::Error,
        place: "WRED_PROFILE|AZURE_LOSSLESS",
        text: "marks nothing",
    },
    Mistake {
        // 66,394,076 - 27,200,352 less 8 ports x (2 x 2540 + 70 x 254) = 39,010,844 B in two halves;
        // a fifth of one is 3,901,084, and 2540 reserved
        changes: &[(
            "\"green_max_threshold\": \"2097152\"",
            "\"green_max_threshold\": \"8388608\"",
        )],
        rule: Rule::PfcBeforeEcn,
        severity: Severity::Warning,
        place: "WRED_PROFILE|AZURE_LOSSLESS",
        text: "Kmax is 8388608 B, but a sender alone is paused at 3903624 B",
    },
    Mistake {
        changes: &[("\"mtu\": \"9100\"", "\"mtu\": \"9216\"")],
        rule: Rule::MtuAboveProfile,
        severity: Severity::Warning,
        place: "BUFFER_PROFILE|pg_lossless_400000_40m_profile (Ethernet192 and 3 more ports)",
        text: "frames of 9100 B",
    },
    Mistake {
        changes: &[("\"pfc_enable\": \"3,4\"", "\"pfc_enable\": \"3\"")],
        rule: Rule::PfcAsymmetric,
        severity: Severity::Error,
        place: "PORT_QOS_MAP|Ethernet192",
        text: "pfc_enable is 3 here and 3, 4 at spine1 Ethernet0",
    },
    Mistake {
        changes: &[("\"detection_time\": \"200\"", "\"detection_time\": \"100\"")],
        rule: Rule::WatchdogPoll,
        severity: Severity::Warning,
        place: "PFC_WD|Ethernet0",
        text: "detection_time is 100 ms, but the watchdog looks every 200 ms",
    },
    Mistake {
        changes: &[("\"48\": \"6\"", "\"48\": \"1\"")],
        rule: Rule::CnpBestEffort,
        severity: Severity::Warning,
        place: "DSCP_TO_TC_MAP|AZURE",
        text: "DSCP 48, the CNPs of ConnectX NICs, is in queue 1",
    },
    Mistake {
        changes: &[(", \"wred_profile\": \"AZURE_LOSSLESS\"", "")],
        rule: Rule::EcnUnbound,
        severity: Severity::Error,
        place: "QUEUE|Ethernet0|3 (Ethernet0 and 7 more ports)",
        text: "queue 3 is lossless and has no wred_profile",
    },
    Mistake {
        changes: &[("\"Ethernet0\": \"5m\"", "\"Ethernet0\": \"2000m\"")],
        rule: Rule::HeadroomShort,
        severity: Severity::Error,
        place: "BUFFER_PROFILE|pg_lossless_400000_5m_profile (Ethernet0)",
        // 20 us x 50 GB/s
        text: "a round trip (1000000 B) and two frames of 9100 B are 1018200 B",
    },
    Mistake {
        changes: &[("\"Ethernet0\": \"5m\"", "\"Ethernet0\": \"40m\"")],
        rule: Rule::HeadroomShort,
        severity: Severity::Warning,
        place: "BUFFER_PROFILE|pg_lossless_400000_5m_profile (Ethernet0)",
        text: "the profile is for 5 m, CABLE_LENGTH of the port is 40m",
    },
];

#[test]
fn each_mistake_is_found_where_it_is_and_with_what_comes_of_it() {
    for mistake in MISTAKES {
        let folder = broken("leaf1.json", mistake.changes);
        let options = SonicOptions {
            hosts: Some(folder.path().join("hosts.csv")),
            ..SonicOptions::default()
        };
        let found = import(folder.path(), &options).unwrap().findings;
        let first = found.iter().find(|finding| {
            finding.rule == mistake.rule
                && finding.place.starts_with(mistake.place)
                && finding.text.contains(mistake.text)
        });
        let Some(first) = first else { panic!("{:?}: {found:#?}", mistake.rule) };
        assert_eq!(first.severity, mistake.severity, "{first}");
        assert!(first.file.ends_with("leaf1.json"), "{first}");
        let order: Vec<Severity> = found.iter().map(|finding| finding.severity).collect();
        assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");
        // no mistake but what follows from the change: PFC that is off at one end, or marking of
        // one queue, is seen from several sides
        let others = found.iter().filter(|finding| finding.rule != mistake.rule);
        assert_eq!(others.count(), 0, "{:?}: {found:#?}", mistake.rule);
    }
}

#[test]
fn what_does_not_fit_together_gets_one_message() {
    let spine = "\"Ethernet0\": {\"name\": \"leaf1\", \"port\": \"Ethernet192\"}";
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "spine1.json",
            "    \"Ethernet0\": {\"name\": \"leaf1\", \"port\": \"Ethernet192\"},\n",
            "",
            "leaf1.json: DEVICE_NEIGHBOR|Ethernet192: leaf1 Ethernet192 leads to spine1 Ethernet0, \
             but {}/spine1.json has no DEVICE_NEIGHBOR|Ethernet0: a cable that only one end names; \
             --lldp settles it",
        ),
        (
            "spine1.json",
            spine,
            "\"Ethernet0\": {\"name\": \"leaf1\", \"port\": \"Ethernet200\"}",
            "leaf1.json: DEVICE_NEIGHBOR|Ethernet192: spine1 Ethernet0 is the neighbour of leaf1 \
             Ethernet192, but {}/spine1.json: DEVICE_NEIGHBOR|Ethernet0 has leaf1 Ethernet200 \
             there; both ends must name each other, or --lldp settle it",
        ),
        (
            "spine1.json",
            "\"lanes\": \"1,2,3,4,5,6,7,8\", \"speed\": \"400000\"",
            "\"lanes\": \"1,2,3,4,5,6,7,8\", \"speed\": \"100000\"",
            "leaf1.json: DEVICE_NEIGHBOR|Ethernet192: two speeds on one link: leaf1 Ethernet192 \
             runs at 400 Gbps (PORT|Ethernet192.speed), spine1 Ethernet0 at 100 Gbps \
             (PORT|Ethernet0.speed); one is expected",
        ),
        (
            "leaf1.json",
            "\"Ethernet8\": {\"alias\": \"etp2\"",
            "\"Ethernet0\": {\"alias\": \"etp2\"",
            "leaf1.json:7: the key \"Ethernet0\" stands twice; once is expected",
        ),
        (
            "hosts.csv",
            "gpu2,leaf1,Ethernet8,0",
            "gpu2,leaf1,Ethernet0,0",
            "hosts.csv:4: leaf1 Ethernet0 is named twice, here and in line 2",
        ),
        (
            "leaf1.json",
            "{\"name\": \"gpu1\", \"port\": \"eth0\"}",
            "{\"name\": \"gpu9\", \"port\": \"eth0\"}",
            "hosts.csv:2: gpu1 is said to be at leaf1 Ethernet0, but {}/leaf1.json: \
             DEVICE_NEIGHBOR|Ethernet0 has gpu9 there",
        ),
        (
            "hosts.csv",
            "gpu1,leaf1,Ethernet0,0\n",
            "",
            "leaf1.json: DEVICE_NEIGHBOR|Ethernet0: leaf1 Ethernet0 leads to the host \"gpu1\", but \
             {}/hosts.csv (line 2) has it at other ports only; a row for leaf1 Ethernet0 is expected",
        ),
        (
            "leaf1.json",
            "{\"name\": \"spine2\", \"port\": \"Ethernet0\"}",
            "{\"name\": \"spine22\", \"port\": \"Ethernet0\"}",
            "leaf1.json: DEVICE_NEIGHBOR|Ethernet208: no file is of \"spine22\", the neighbour of \
             leaf1 Ethernet208; did you mean \"spine2\"?",
        ),
        (
            "leaf1.json",
            "\"profile\": \"pg_lossless_400000_5m_profile\"",
            "\"profile\": \"pg_lossless_40000_5m_profile\"",
            "leaf1.json: BUFFER_PG|Ethernet0|3-4: profile: there is no BUFFER_PROFILE \
             \"pg_lossless_40000_5m_profile\"; did you mean \"pg_lossless_400000_5m_profile\"?",
        ),
        (
            "leaf1.json",
            "\"PortChannel1|Ethernet200\": {}",
            "\"PortChannel1|Ethernet200\": {}, \"PortChannel2|Ethernet200\": {}",
            "leaf1.json: PORTCHANNEL_MEMBER|PortChannel2|Ethernet200: there is no PORTCHANNEL \
             \"PortChannel2\"",
        ),
        (
            "leaf2.json",
            "\"hostname\": \"leaf2\"",
            "\"hostname\": \"leaf1\"",
            "leaf2.json: DEVICE_METADATA|localhost.hostname: leaf1 is {}/leaf1.json too; each \
             switch needs a name of its own",
        ),
        (
            "leaf1.json",
            "\"dynamic_th\": \"-2\"",
            "\"dynamic_th\": \"-9\"",
            "leaf1.json: BUFFER_PROFILE|pg_lossless_400000_5m_profile: dynamic_th: -8 to 7 is \
             expected",
        ),
    ];
    for (file, from, to, message) in cases {
        let folder = broken(file, &[(from, to)]);
        let place = folder.path().display().to_string();
        let options = SonicOptions {
            hosts: Some(folder.path().join("hosts.csv")),
            ..SonicOptions::default()
        };
        let error = import(folder.path(), &options).unwrap_err().to_string();
        assert_eq!(error, format!("{place}/{}", message.replace("{}", &place)), "{file}: {to}");
    }
    let error = import(&fabric(), &SonicOptions::default()).unwrap_err().to_string();
    assert!(error.ends_with("hosts are expected in a table: --hosts FILE.csv"), "{error}");
    let asic = SonicOptions { asic: Some("tomahawk-5".into()), ..hosts() };
    let error = import(&fabric(), &asic).unwrap_err().to_string();
    assert_eq!(error, "--asic: there is no ASIC \"tomahawk-5\"; did you mean `tomahawk5`?");
}

#[test]
fn lldp_settles_what_one_end_leaves_open() {
    let line = "    \"Ethernet0\": {\"name\": \"leaf1\", \"port\": \"Ethernet192\"},\n";
    let folder = broken("spine1.json", &[(line, "")]);
    let seen = folder.path().join("seen.txt");
    let text = "admin@spine1:~$ show lldp table\n\
                Capability codes: (R) Router, (B) Bridge, (O) Other\n\
                LocalPort    RemoteDevice    RemotePortID       Capability    RemotePortDescr\n\
                -----------  --------------  -----------------  ------------  ---------------\n\
                Ethernet0    leaf1           etp25              BR            Ethernet192\n\
                eth0         mgmt-switch     Gi0/7              B             port 7\n";
    std::fs::write(&seen, text).unwrap();
    let options = |lldp| SonicOptions {
        hosts: Some(folder.path().join("hosts.csv")),
        lldp,
        ..SonicOptions::default()
    };
    let settled = import(folder.path(), &options(vec![seen.clone()])).unwrap();
    let healthy = import(&fabric(), &hosts()).unwrap();
    let links = |found: &SonicImport| {
        let lines = found.scenario.toml.lines().filter(|line| line.starts_with("    { a = "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(links(&settled), links(&healthy));
    // the same as a table; and what LLDP saw elsewhere replaces what was written
    let table = folder.path().join("seen.csv");
    std::fs::write(&table, "switch,port,peer,peer_port\nspine1,Ethernet0,leaf1,etp25\n").unwrap();
    assert_eq!(
        links(&import(folder.path(), &options(vec![table.clone()])).unwrap()),
        links(&healthy)
    );
    std::fs::write(&table, "switch,port,peer,peer_port\nspine1,Ethernet0,leaf2,Ethernet192\n")
        .unwrap();
    let moved = import(folder.path(), &options(vec![table])).unwrap();
    assert_eq!(moved.scenario.warnings.len(), 2, "{:?}", moved.scenario.warnings);
    assert_eq!(links(&moved).len(), 31);
}

/// Each field of a switch in turn with values that no switch has: an answer or one message.
#[test]
fn no_value_makes_it_panic() {
    let path = fabric().join("leaf1.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leaf1.json");
    let mut refused = 0;
    for (at, _) in text.match_indices("\": \"") {
        let start = text[..at].rfind('"').unwrap() + 1;
        let (name, end) = (&text[start..at], at + 4 + text[at + 4..].find('"').unwrap());
        if !seen.insert(name.trim_end_matches(|c: char| c.is_ascii_digit())) {
            continue;
        }
        for value in ["", "-1", "0", "18446744073709551615", "999999999999999", "x", "NULL", "9"] {
            let changed = format!("{}{value}{}", &text[..at + 4], &text[end..]);
            std::fs::write(&file, changed).unwrap();
            let found = sonic(std::slice::from_ref(&file), &SonicOptions::default(), "p.csv");
            if let Err(error) = found {
                assert!(error.to_string().contains("leaf1.json"), "{name} {value}: {error}");
                refused += 1;
            }
        }
    }
    assert!(seen.len() > 40 && refused > 50, "{} fields, {refused} refused", seen.len());
}

/// Forms of the same: brackets, lists of ports, ranges, numbers, lists of profiles.
#[test]
fn one_switch_in_several_files_and_forms() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let buffers = write(
        "buffers.json",
        r#"{ "BUFFER_POOL": { "in": { "type": "ingress", "mode": "dynamic", "size": 1000000 } },
             "BUFFER_PROFILE": { "p": { "pool": "[BUFFER_POOL|in]", "size": 40000, "xoff": "30000",
                                        "xon": 0, "xon_offset": 2000, "dynamic_th": -1 } },
             "BUFFER_PG": { "Ethernet0,Ethernet4|3-4": { "profile": "[BUFFER_PROFILE|p]" } } }"#,
    );
    let qos = write(
        "qos.json",
        r#"{ "PORT_QOS_MAP": { "Ethernet0,Ethernet4": { "pfc_enable": "3,4",
                                "dscp_to_tc_map": "[DSCP_TO_TC_MAP|A]" } },
             "DSCP_TO_TC_MAP": { "A": { "24": 3, "48": "6" } } }"#,
    );
    let options =
        SonicOptions { speed: Some("50Gbps".parse().unwrap()), ..SonicOptions::default() };
    let found = sonic(&[buffers, qos], &options, "p.csv").unwrap();
    let toml = &found.scenario.toml;
    for line in [
        // the headroom is the group's own: 40,000 - 30,000 are reserved
        "buffer.lossless = { pool = \"ingress\", reserve = \"10000B\", dynamic_th = -1, xon = \
         \"0B\", xon_offset = \"2000B\" } # BUFFER_PROFILE|p\n",
        "pfc.headroom = \"30000B\" # BUFFER_PROFILE|p xoff\n",
        "pfc.priorities = [3, 4] # PORT_QOS_MAP pfc_enable\n",
        "qos.dscp_to_tc = { 24 = 3, 26 = 0, 48 = 6 } # DSCP_TO_TC_MAP|A\n",
        "qos.dscp = 24 ",
        "rate = \"50Gbps\", delay = \"200ns\" }, # host0 NIC 0 - buffers Ethernet0\n",
    ] {
        assert!(toml.contains(line), "{line}\n{toml}");
    }
    assert_eq!(
        found.scenario.files[0].1,
        "switch,port,name\nbuffers,0,Ethernet0\nbuffers,1,Ethernet4\n"
    );
}

/// The dynamic model: NVIDIA's formula, for a rate, a cable and an MTU.
#[test]
fn the_dynamic_model_computes_headroom_as_the_switch_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config_db.json");
    let text = r#"{ "DEVICE_METADATA": { "localhost": { "hostname": "sw", "buffer_model": "dynamic",
                      "hwsku": "ACS-SN5600", "platform": "x86_64-nvidia_sn5600-r0" } },
        "PORT": { "Ethernet0": { "speed": "400000", "lanes": "1,2,3,4", "mtu": "9100" },
                  "Ethernet8": { "speed": "400000", "lanes": "5,6,7,8", "mtu": "9100" } },
        "CABLE_LENGTH": { "AZURE": { "Ethernet0": "300m", "Ethernet8": "40m" } },
        "BUFFER_POOL": { "ingress_lossless_pool": { "type": "ingress", "mode": "dynamic" } },
        "DEFAULT_LOSSLESS_BUFFER_PARAMETER": { "AZURE": { "default_dynamic_th": "1" } },
        "BUFFER_PG": { "Ethernet0|3-4": { "profile": "NULL" }, "Ethernet8|3-4": { "profile": "NULL" } },
        "PORT_QOS_MAP": { "Ethernet0": { "pfc_enable": "3,4" }, "Ethernet8": { "pfc_enable": "3,4" } } }"#;
    std::fs::write(&path, text).unwrap();
    let found = sonic(&[path], &SonicOptions::default(), "p.csv").unwrap();
    let toml = &found.scenario.toml;
    // the table of the SN5600 has 677,888 B at 300 m and 283,648 B at 40 m
    for part in ["\"677888B\"", "\"283648B\"", "preset = \"spectrum-4\"", "dynamic_th = 1"] {
        assert!(toml.contains(part), "{part}\n{toml}");
    }
    // 158,229,504 - 2 x 2 x 19,456 (rounded up to 102 cells) - 2 x 677,888 - 2 x 283,648
    assert!(toml.contains("size = \"156228096B\""), "{toml}");
}

/// What is found in published configurations, and why it is right.
const JUSTIFIED: &[(&[&str], &str, Rule, &str)] = &[
    (
        &["qos-arista7060x6.json"],
        "tomahawk5",
        Rule::CnpBestEffort,
        "DSCP 48 is class 0 there; it has DSCP 44 in class 6 and 46 in class 5",
    ),
    (
        &["buffers-dell6100.json", "qos-dell6100.json"],
        "tomahawk",
        Rule::PfcBeforeEcn,
        "a group alone gets half of a quarter of 10.9 MB, 1.36 MB; Kmax is SONiC's default, 2 MiB",
    ),
];

#[test]
fn published_configurations_are_imported_and_found_as_they_are() {
    let Some(root) = std::env::var_os("ROCESIM_REFERENCE") else {
        eprintln!("*** ROCESIM_REFERENCE IS NOT SET: NO PUBLISHED CONFIGURATION WAS IMPORTED");
        return;
    };
    let root = Path::new(&root).join("sonic");
    let sets: &[(&[&str], &str, Option<&str>)] = &[
        (&["buffer-arista7060-t0.json"], "tomahawk", Some("th1_7060cx_32s_D48C8")),
        (&["buffer-arista7260-dualtor.json"], "tomahawk2", None),
        (&["buffer-frh-b-o128.json"], "tomahawk5", Some("th5_7060x6_64pe_b_O128")),
        (&["buffers-dell6100.json"], "tomahawk", None),
        (&["buffers-mellanox4600c-t1.json"], "spectrum-3", None),
        (&["qos-arista7050cx3-dualtor.json"], "trident3", None),
        (&["qos-arista7060x6.json"], "tomahawk5", None),
        (&["qos-dell6100.json"], "tomahawk", None),
        (&["buffers-dell6100.json", "qos-dell6100.json"], "tomahawk", Some("th1_7060cx_32s_D48C8")),
    ];
    for (files, asic, sku) in sets {
        let paths: Vec<PathBuf> =
            files.iter().map(|file| root.join("rendered").join(file)).collect();
        let options = SonicOptions {
            asic: Some((*asic).to_owned()),
            sku_tables: sku.map(|sku| root.join(sku)),
            ..SonicOptions::default()
        };
        let found = sonic(&paths, &options, "p.csv").unwrap_or_else(|error| panic!("{error}"));
        let scenario = tempfile::tempdir().unwrap();
        let path = scenario.path().join("s.toml");
        std::fs::write(&path, &found.scenario.toml).unwrap();
        let loaded = crate::resolve::load(path.to_str().unwrap(), &Default::default());
        let loaded = loaded.unwrap_or_else(|error| panic!("{files:?}: {error}"));
        let plans = crate::simulate::plans(&loaded, 1);
        let plans = plans.unwrap_or_else(|error| panic!("{files:?}: {error}"));
        for note in crate::check::notes(&plans[0]) {
            // the same as below
            let cnp = files.contains(&"qos-arista7060x6.json") && note.text.contains("DSCP 48");
            // Kmax is SONiC's default, and the buffer that it is set against is assumed
            let kmax = files == &["qos-dell6100.json"] && note.key.ends_with(".kmax");
            let healthy = note.severity == models::report::Severity::Info;
            assert!(healthy || cnp || kmax, "{files:?}: {note:?}");
        }
        for finding in &found.findings {
            let known = JUSTIFIED
                .iter()
                .any(|(of, on, rule, _)| of == files && on == asic && *rule == finding.rule);
            assert!(known, "{files:?}: {finding}");
        }
        let expected = JUSTIFIED.iter().filter(|(of, on, ..)| of == files && on == asic);
        for (.., rule, _) in expected {
            assert!(
                found.findings.iter().any(|finding| finding.rule == *rule),
                "{files:?}: {rule:?}"
            );
        }
    }
}
