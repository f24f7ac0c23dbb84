//! Files of a host, written for these tests.

use std::path::PathBuf;

use models::congestion::CongestionConfig;
use sim_core::{Delta, Rate};
use tempfile::TempDir;

use super::nic;
use crate::import::{ImportError, Imported};
use crate::resolve::{LoadOptions, load};

const MLXCONFIG: &str = "\
Device #1:
----------

Device type:    ConnectX6DX
Name:           a name
Device:         /dev/mst/mt4125_pciconf0

Configurations:                              Next Boot
        NUM_OF_VFS                          8
        SRIOV_EN                            True(1)
        ROCE_CC_PRIO_MASK_P1                8
        ROCE_CC_ALGORITHM_P1                ECN(0)
        ROCE_CC_PRIO_MASK_P2                255
        CLAMP_TGT_RATE_P1                   True(1)
        RPG_TIME_RESET_P1                   300
        RPG_BYTE_RESET_P1                   32767
        RPG_AI_RATE_P1                      5
        RPG_HAI_RATE_P1                     50
        RPG_GD_P1                           11
        RPG_MAX_RATE_P1                     0
        DCE_TCP_G_P1                        1019
        MIN_TIME_BETWEEN_CNPS_P1            4
        CNP_DSCP_P1                         48
";

const LISTING: &str = "\
/sys/class/net/eth2/ecn/roce_rp/enable/0:0
/sys/class/net/eth2/ecn/roce_rp/enable/1:0
/sys/class/net/eth2/ecn/roce_rp/enable/2:0
/sys/class/net/eth2/ecn/roce_rp/enable/3:1
/sys/class/net/eth2/ecn/roce_rp/enable/4:0
/sys/class/net/eth2/ecn/roce_rp/enable/5:0
/sys/class/net/eth2/ecn/roce_rp/enable/6:0
/sys/class/net/eth2/ecn/roce_rp/enable/7:0
/sys/class/net/eth2/ecn/roce_rp/rpg_ai_rate:20
/sys/class/net/eth2/ecn/roce_rp/rpg_max_rate:0
/sys/class/net/eth2/ecn/roce_np/cnp_802p_prio:6
";

const QOS: &str = "\
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
\tprio:3 dscp:31,30,29,28,27,26,25,24,
\tprio:6 dscp:55,54,53,52,51,50,49,48,
default priority:
Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=262032
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0
\tbuffer      0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: vendor
\t priority:  0
tc: 3 ratelimit: unlimited, tsa: ets, bw: 50%
\t priority:  3
";

fn import(texts: &[(&str, &str)]) -> (TempDir, Result<Imported, ImportError>) {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = texts.iter().map(|(name, _)| folder.path().join(name)).collect();
    for (file, (_, text)) in files.iter().zip(texts) {
        std::fs::write(file, text).unwrap();
    }
    let imported = nic(&files);
    (folder, imported)
}

/// A message without the folder of the test.
fn plain(folder: &TempDir, message: &str) -> String {
    message.replace(&format!("{}/", folder.path().display()), "")
}

fn refused(texts: &[(&str, &str)]) -> String {
    let (folder, imported) = import(texts);
    plain(&folder, &imported.unwrap_err().to_string())
}

/// Loads the part over a scenario of the library.
fn loaded(folder: &TempDir, imported: &Imported, scenario: &str) -> crate::resolve::Loaded {
    let part = folder.path().join("nic.toml");
    std::fs::write(&part, &imported.toml).unwrap();
    load(scenario, &LoadOptions { with: vec![part], ..LoadOptions::default() }).unwrap()
}

#[test]
fn three_files_of_a_host_become_the_keys_that_one_would_write() {
    let (folder, imported) =
        import(&[("mlxconfig.txt", MLXCONFIG), ("roce.txt", LISTING), ("qos.txt", QOS)]);
    let imported = imported.unwrap();
    let expected = "\
# A part of a scenario, from mlxconfig.txt, roce.txt, qos.txt:
# rocesim run SCENARIO --with THIS_FILE

[nic]
preset = \"connectx-6-dx\" # mlxconfig.txt:4: Device type

[nic.qos]
cnp_dscp = 48 # mlxconfig.txt:23: CNP_DSCP_P1

[nic.pfc]
priorities = [3] # qos.txt:12: PFC enabled

[nic.np]
min_time_between_cnps = \"4us\" # mlxconfig.txt:22: MIN_TIME_BETWEEN_CNPS_P1
priorities = [3]              # mlxconfig.txt:11: ROCE_CC_PRIO_MASK_P1

[nic.congestion]
algorithm = \"dcqcn\"       # mlxconfig.txt:12: ROCE_CC_ALGORITHM_P1
preset = \"mlx5-default\"   # for what these files do not say
rpg_time_reset = \"300us\"  # mlxconfig.txt:15: RPG_TIME_RESET_P1
rpg_byte_reset = \"32767B\" # mlxconfig.txt:16: RPG_BYTE_RESET_P1
rpg_ai_rate = \"20Mbps\"    # roce.txt:9: rpg_ai_rate
rpg_hai_rate = \"50Mbps\"   # mlxconfig.txt:18: RPG_HAI_RATE_P1
rpg_gd = 11               # mlxconfig.txt:19: RPG_GD_P1
dce_tcp_g = 1019          # mlxconfig.txt:21: DCE_TCP_G_P1
clamp_tgt_rate = true     # mlxconfig.txt:14: CLAMP_TGT_RATE_P1
priorities = [3]          # roce.txt:1: roce_rp/enable
";
    let (keys, rest) = imported.toml.split_once("\n# all of it").unwrap();
    assert_eq!(keys, expected);
    let map: Vec<&str> =
        rest.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')).collect();
    assert_eq!(map.len(), 24, "three priorities of eight DSCPs");
    assert!(map.contains(&"26 = 3") && map.contains(&"0 = 0") && map.contains(&"55 = 6"));
    assert!(rest.contains("# Receive buffer of priority 3: 156096 B (qos.txt:8)"), "{rest}");

    let warnings: Vec<String> = imported.warnings.iter().map(|w| plain(&folder, w)).collect();
    assert_eq!(
        warnings,
        [
            "mlxconfig.txt: 2 lines of other things passed over: NUM_OF_VFS, SRIOV_EN",
            "roce.txt: 1 line of other things passed over: cnp_802p_prio",
            "mlxconfig.txt:13: ROCE_CC_PRIO_MASK_P2 of P2 is [0, 1, 2, 3, 4, 5, 6, 7], but \
             roce_rp/enable of eth2 is [3] (roce.txt:1): what runs is taken, not what is stored",
            "mlxconfig.txt:13: ROCE_CC_PRIO_MASK_P2 of P2 is [0, 1, 2, 3, 4, 5, 6, 7], but \
             ROCE_CC_PRIO_MASK_P1 of P1 is [3] (mlxconfig.txt:11): ports differ, and the first is \
             taken; `[[override]]` can set the other",
            "mlxconfig.txt:17: RPG_AI_RATE_P1 of P1 is \"5Mbps\", but rpg_ai_rate of eth2 is \
             \"20Mbps\" (roce.txt:9): what runs is taken, not what is stored",
        ]
    );

    let nic = loaded(&folder, &imported, "incast").scenario.nic;
    let CongestionConfig::Dcqcn(dcqcn) = &nic.congestion else { panic!("{:?}", nic.congestion) };
    assert_eq!(
        (dcqcn.rpg_ai_rate, dcqcn.rpg_time_reset),
        (Rate::from_mbps(20), Delta::from_us(300))
    );
    assert_eq!((&dcqcn.priorities[..], dcqcn.clamp_tgt_rate), (&[3][..], true));
    assert_eq!(nic.latency, Delta::from_ns(800), "of the preset");
    assert_eq!(nic.qos.priority(31), 3);
}

#[test]
fn three_columns_masks_and_other_spellings() {
    let text = "Configurations:            Default         Current         Next Boot\n\
                *  RPG_AI_RATE_P1     5      10     10\n\
                   ROCE_CC_PRIO_MASK_P1  255  0  0xff\n\
                RO RPG_GD_P1          11     7      7\n";
    let (folder, imported) = import(&[("a.txt", text)]);
    let imported = imported.unwrap();
    assert!(imported.toml.contains("rpg_ai_rate = \"10Mbps\""), "{}", imported.toml);
    assert_eq!(imported.toml.matches("priorities = []").count(), 2, "{}", imported.toml);
    assert!(!imported.toml.contains("rpg_gd"), "{}", imported.toml);
    let warnings: Vec<String> = imported.warnings.iter().map(|w| plain(&folder, w)).collect();
    assert_eq!(
        warnings,
        [
            "a.txt:3: ROCE_CC_PRIO_MASK_P1 is 0 now and 0xff after the next boot: the former is taken",
            "a.txt:4: RPG_GD_P1 is 7, but the model knows 10 to 15: this value is left out",
        ]
    );
    let dcqcn = "/sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/rp_clamp_tgt_rate_ati:0\n\
                 /sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp:46\n";
    let (_folder, imported) = import(&[
        ("cc.txt", dcqcn),
        ("d.txt", "hca_id: mlx5_0\n port: 1\n active_mtu: 1024 (3)\n"),
    ]);
    let toml = imported.unwrap().toml;
    assert!(
        toml.contains("clamp_tgt_rate_after_time_inc = false # cc.txt:1: rp_clamp_tgt_rate_ati"),
        "{toml}"
    );
    assert!(
        toml.contains("cnp_dscp = 46 # cc.txt:2: np_cnp_dscp") && toml.contains("mtu = 1024"),
        "{toml}"
    );
    let names = "NIC statistics:\n rx_packets: 1\n rx_prio4_pause: 0\n tx_prio4_pause: 0\n";
    let (_folder, imported) = import(&[("s.txt", names)]);
    assert!(imported.unwrap().toml.contains("[nic.pfc]\npriorities = [4]"));
}

#[test]
fn what_cannot_be_read_is_said_once_and_with_its_place() {
    let messages = [
        refused(&[("a.txt", "hello\n")]),
        refused(&[("a.txt", "RPG_AI_RATE_P1 5\n"), ("b.txt", "RPG_AI_RATE_P1 50\n")]),
        refused(&[("a.txt", "RPG_AI_RATE_P1 fast\n")]),
        refused(&[("a.txt", "RPG_AI_RATE_P1 5 5 5\n")]),
        refused(&[("a.txt", "roce_rp/enable/9:1\n")]),
        refused(&[("q.txt", "PFC configuration:\n enabled 0 0 0 1\n")]),
        refused(&[("q.txt", "Priority trust state: dscp\n prio:3 dscp:26,99,\n")]),
    ];
    let expected = [
        "a.txt: its kind is not known; expected is one of `mlxconfig query`, a listing of \
         ecn/roce_rp and ecn/roce_np (or of debugfs cc_params) by `grep .`, `mlnx_qos -i`, `ethtool \
         -S`, `ethtool` or `ibv_devinfo`",
        "b.txt:1: RPG_AI_RATE_P1 is \"50Mbps\" here, but \"5Mbps\" at a.txt:1: both are \
         nic.congestion.rpg_ai_rate of one port; leave out the file that does not hold",
        "a.txt:1: RPG_AI_RATE_P1 is \"fast\"; a number, such as 5 or True(1), is expected",
        "a.txt:1: 3 values; 1 are expected, as the header has columns",
        "a.txt:1: \"9\" is no priority; 0 to 7 is expected",
        "q.txt:2: 4 numbers; 8 are expected",
        "q.txt:2: \"99\"; a DSCP of 0 to 63 is expected",
    ];
    assert_eq!(messages, expected);
    let pcp = "Priority trust state: pcp\nPFC configuration:\nenabled 0 0 0 1 0 0 0 0\n\
               buffer 0 0 0 0 0 0 0 0\n";
    let (folder, imported) = import(&[("q.txt", pcp)]);
    let imported = imported.unwrap();
    assert!(!imported.toml.contains("dscp_to_priority"));
    let warnings = plain(&folder, &imported.warnings.join("\n"));
    assert!(warnings.contains("q.txt:1: trust is pcp"), "{warnings}");
    assert!(
        warnings.contains("q.txt:4: priority 3 has PFC but shares receive buffer 0"),
        "{warnings}"
    );
}
