//! `import nccl-topo` on real files, and the servers that are built in: what they say, and that they
//! run.

mod common;

use std::path::Path;

use common::{json_report, reference, rocesim, text};
use scenarios::library::{Kind, names};

/// What a file is known to hold.
struct Known {
    file: &'static str,
    gpus: usize,
    /// NICs, and ports of all of them.
    nics: [u32; 2],
    /// By NIC, the GPUs at its shortest path, and that path.
    near: &'static str,
    /// Lines of the part, without their comments.
    says: &'static [&'static str],
    /// In warnings.
    warns: &'static [&'static str],
}

const PAIRS: &str = "01 PIX, 01 PIX, 23 PIX, 23 PIX, 45 PIX, 45 PIX, 67 PIX, 67 PIX";
const ONE_TO_ONE: &str = "0 PIX, 1 PIX, 2 PIX, 3 PIX, 4 PIX, 5 PIX, 6 PIX, 7 PIX";
const UNKNOWN: &[&str] =
    &["what the GPUs are", "what joins the GPUs", "how many ports 8 NICs have"];

/// All of the reference but the two that are refused; numbers are those of its index and files.
const FILES: [Known; 16] = [
    Known {
        file: "azure-ndv4-a100-8xhdr-ib.xml",
        gpus: 8,
        nics: [8, 8],
        near: PAIRS,
        says: &["pcie.rate = \"204Gbps\""],
        warns: UNKNOWN,
    },
    Known {
        file: "azure-ndv2-v100.xml",
        gpus: 8,
        nics: [1, 1],
        near: "0123 PHB",
        says: &[],
        warns: &["no NIC is nearer to a GPU than the host bridge"],
    },
    Known {
        file: "azure-ncv4-a100-pcie.xml",
        gpus: 4,
        nics: [1, 1],
        near: "0 PHB",
        says: &["nvlink.rate = \"101Gbps\"", "gdr = false", "names = [\"eth0\"]"],
        warns: &[
            "leads to its own GPU (4 links",
            "Gen3 x16, as NCCL takes it",
            "by which NCCL uses TCP",
        ],
    },
    Known {
        file: "oci-h100-16x200g-roce.xml",
        gpus: 8,
        nics: [8, 16],
        near: ONE_TO_ONE,
        says: &[
            "preset = \"hgx-h100\"",
            "architecture = \"hopper\"",
            "nvlink.rate = \"2966400Mbps\"",
            "gdr = true",
            "ports = 2",
            "mode = \"rails\"",
            "pcie.rate = \"408Gbps\"",
            "names = [\"mlx5_16\", \"mlx5_17\"]",
        ],
        warns: &[],
    },
    Known {
        file: "oci-bmgpub4-a100-16x100g-roce.xml",
        gpus: 8,
        nics: [8, 8],
        near: PAIRS,
        says: &["pcie.rate = \"204Gbps\""],
        warns: UNKNOWN,
    },
    Known {
        file: "oci-bmgpu4-a100-16x100g-roce.xml",
        gpus: 8,
        nics: [8, 8],
        near: PAIRS,
        says: &["pcie.rate = \"204Gbps\""],
        warns: UNKNOWN,
    },
    Known {
        file: "aws-p4d-a100-4x100g-efa.xml",
        gpus: 8,
        nics: [4, 4],
        near: "01 PIX, 23 PIX, 45 PIX, 67 PIX",
        says: &["preset = \"dgx-a100\"", "pcie.rate = \"101Gbps\""],
        warns: &["how many ports 4 NICs have"],
    },
    Known {
        file: "amd-mi250x-8gcd-nic.xml",
        gpus: 8,
        nics: [1, 1],
        near: "01234567 PHB",
        // 3 links of 50 GB/s
        says: &[
            "architecture = \"cdna2\"",
            "nvlink.rate = \"1200Gbps\"",
            "gdr = false",
            "pcie.rate = \"2Gbps\"",
        ],
        warns: &["by which NCCL uses TCP"],
    },
    Known {
        file: "amd-8p-rome-4nic.xml",
        gpus: 8,
        nics: [4, 4],
        near: "01 PXB, 23 PXB, 45 PXB, 67 PXB",
        // xGMI joins two groups of four
        says: &["architecture = \"cdna\"", "nvlink.rate = \"204Gbps\"", "gdr = true"],
        warns: &[],
    },
    Known {
        file: "amd-8p6l-6nic.xml",
        gpus: 8,
        nics: [6, 6],
        near: "0123 PHB, 0123 PHB, 0123 PHB, 4567 PHB, 4567 PHB, 4567 PHB",
        // 6 links of 46 GB/s
        says: &["architecture = \"cdna\"", "nvlink.rate = \"2208Gbps\""],
        warns: &["no NIC is nearer"],
    },
    Known {
        file: "matrices/a100-8gpu-10nic-tabs-pxb-pairs.txt",
        gpus: 8,
        nics: [10, 10],
        near: "01 PXB, 01 PXB, 23 PXB, 23 PXB, 45 PXB, 45 PXB, 67 PXB, 67 PXB, 01234567 SYS, 01234567 SYS",
        says: &["architecture = \"ampere\"", "nvlink.rate = \"1920Gbps\"", "names = [\"mlx5_9\"]"],
        warns: &[
            "A100 is assumed",
            "mlx5_8, mlx5_9: far from every GPU",
            "--hca '^=mlx5_8,mlx5_9'",
        ],
    },
    Known {
        file: "matrices/azure-gb300-4gpu-4nic-node-markdown.txt",
        gpus: 4,
        nics: [4, 4],
        near: "01 NODE, 01 NODE, 23 NODE, 23 NODE",
        says: &["architecture = \"hopper\"", "names = [\"mlx5_3\"]"],
        warns: &["H100 is assumed, or Blackwell", "--gpu gb200 or gb300"],
    },
    Known {
        file: "matrices/gke-a4-b200-8gpu-8nic-pix-pairs.txt",
        gpus: 8,
        nics: [8, 8],
        near: PAIRS,
        says: &["nvlink.rate = \"2966400Mbps\""],
        warns: &["H100 is assumed, or Blackwell"],
    },
    Known {
        file: "matrices/h100-8gpu-6nic-4pix-truncated.txt",
        gpus: 8,
        nics: [6, 6],
        near: "0 PIX, 2 PIX, 4 PIX, 6 PIX, 01234567 SYS, 01234567 SYS",
        says: &["nvlink.rate = \"2966400Mbps\""],
        warns: &[
            "cut off after row GPU6: SYS is taken for what GPU7 would say",
            "NIC4, NIC5: far from every GPU",
            "'^=mlx5_4,mlx5_5'",
        ],
    },
    Known {
        file: "matrices/h100-8gpu-8nic-pix-1to1.txt",
        gpus: 8,
        nics: [8, 8],
        near: ONE_TO_ONE,
        says: &["nvlink.rate = \"2966400Mbps\"", "names = [\"mlx5_7\"]"],
        warns: &["H100 is assumed"],
    },
    Known {
        file: "matrices/v100-4gpu-1nic-tabs.txt",
        gpus: 4,
        nics: [1, 1],
        near: "0123 NODE",
        // two links of 25 GB/s to each of three others
        says: &["architecture = \"volta\"", "nvlink.rate = \"960Gbps\"", "names = [\"mlx5_0\"]"],
        warns: &["V100 is assumed", "no NIC is nearer"],
    },
];

/// Two servers, an AllReduce between them.
fn scenario(host: &str, ports: u32) -> String {
    format!(
        "[topology]\nkind = \"rail\"\nhosts = 2\nrails = {ports}\n\
         link = {{ rate = \"100Gbps\", delay = \"50ns\" }}\n\n[host]\n{host}\n\n\
         [[traffic]]\nname = \"allreduce\"\nkind = \"collective\"\nop = \"all_reduce\"\n\
         bytes = \"2MiB\"\n"
    )
}

/// The lines of a part without their comments.
fn lines(part: &str) -> Vec<&str> {
    part.lines().map(|line| line.split(" #").next().unwrap_or("").trim_end()).collect()
}

/// `01 PIX` for each NIC of a part.
fn near(part: &str) -> String {
    const WORDS: [&str; 5] = ["PIX", "PXB", "PHB", "NODE", "SYS"];
    let of = |line: &str| {
        let paths: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        let nearest = WORDS.into_iter().find(|word| paths.contains(word)).unwrap();
        let gpus = (0..paths.len()).filter(|gpu| paths[*gpu] == nearest);
        format!("{} {nearest}", gpus.map(|gpu| gpu.to_string()).collect::<String>())
    };
    let paths = lines(part).into_iter().filter(|line| line.starts_with("paths = "));
    paths.map(of).collect::<Vec<_>>().join(", ")
}

#[test]
fn each_file_of_the_reference_imports_and_runs() {
    let Some(reference) = reference("topo") else { return };
    let folder = tempfile::tempdir().unwrap();
    for known in &FILES {
        let name = known.file;
        let path = reference.join(name);
        let output = rocesim(&["import", "nccl-topo", path.to_str().unwrap()], folder.path());
        let warnings = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{name}: {warnings}");
        let summary = text(&output.stdout);
        assert!(summary.lines().all(|line| line.chars().count() < 100), "{name}: {summary}");
        assert!(summary.starts_with(&format!("GPUs      {} x ", known.gpus)), "{name}: {summary}");
        let part = std::fs::read_to_string(folder.path().join("host.toml")).unwrap();
        let found = lines(&part);
        assert!(found.contains(&format!("gpus = {}", known.gpus).as_str()), "{name}: {part}");
        let nics = found.iter().filter(|line| **line == "[[host.nics]]").count();
        assert_eq!(nics as u32, known.nics[0], "{name}: {part}");
        let rails = format!("rails = {}", known.nics[1]);
        assert!(part.contains(&rails), "{name}: {part}");
        assert_eq!(near(&part), known.near, "{name}");
        for line in known.says {
            assert!(found.contains(line), "{name}: {line}: {part}");
        }
        for warning in known.warns {
            assert!(warnings.contains(warning), "{name}: {warning}: {warnings}");
        }
        assert!(!known.warns.is_empty() || warnings.is_empty(), "{name}: {warnings}");
        // over a cluster of other servers
        std::fs::write(folder.path().join("s.toml"), scenario("preset = \"dgx-1\"", known.nics[1]))
            .unwrap();
        let check = rocesim(&["check", "s.toml", "--with", "host.toml"], folder.path());
        assert!(matches!(check.status.code(), Some(0 | 1)), "{name}: {}", text(&check.stderr));
        let report = json_report(&["s.toml", "--with", "host.toml"], folder.path());
        assert_eq!(report["outcome"], "completed", "{name}");
        let ranks = report["collectives"][0]["ranks"].as_u64();
        assert_eq!(ranks, Some(2 * known.gpus as u64), "{name}");
        std::fs::remove_file(folder.path().join("host.toml")).unwrap();
    }
}

#[test]
fn what_is_no_topology_is_refused_with_the_reason() {
    let Some(reference) = reference("topo") else { return };
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str| {
        let path = reference.join(name);
        let output = rocesim(&["import", "nccl-topo", path.to_str().unwrap()], folder.path());
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(output.stdout.is_empty(), "{name}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
        text(&output.stderr)
    };
    let graph = refused("azure-ncv4-graph.xml");
    for part in [
        "azure-ncv4-graph.xml:1: this is a graph (NCCL_GRAPH_FILE), no topology",
        "\n  ring (id 0, pattern 4: ring): 2 channels of 12 GB/s, 12 between servers\n",
        "\n    paths: SYS between GPUs, PIX to NICs; crossnic 0\n",
        "\n    channel 1: GPU 0 3 2 1\n",
        "\n  tree (id 1, pattern 1: balanced tree): 4 channels of 12 GB/s",
        "\n  CollNet chain (id 2, pattern 3: tree): 4 channels of 12 GB/s",
    ] {
        assert!(graph.contains(part), "{part}: {graph}");
    }
    let g5 = refused("aws-g5-48xl-8xA10G-100g-efa.xml");
    assert!(
        g5.contains(":14: <pci>: 9 devices of this file without a class: GPUs and NICs"),
        "{g5}"
    );
}

#[test]
fn the_user_says_what_a_matrix_does_not() {
    let Some(reference) = reference("topo/matrices") else { return };
    let folder = tempfile::tempdir().unwrap();
    let import = |name: &str, options: &[&str]| {
        let path = reference.join(name);
        let arguments = ["import", "nccl-topo", path.to_str().unwrap(), "-o", "b.toml"];
        let output = rocesim(&[&arguments[..], options].concat(), folder.path());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let part = std::fs::read_to_string(folder.path().join("b.toml")).unwrap();
        (part, text(&output.stderr))
    };
    let (part, warnings) = import("gke-a4-b200-8gpu-8nic-pix-pairs.txt", &["--gpu", "b200"]);
    let found = lines(&part);
    for line in
        ["preset = \"hgx-b200\"", "architecture = \"blackwell\"", "nvlink.rate = \"5774400Mbps\""]
    {
        assert!(found.contains(&line), "{line}: {part}");
    }
    assert_eq!(warnings, "");
    let (part, warnings) = import("azure-gb300-4gpu-4nic-node-markdown.txt", &["--gpu", "gb300"]);
    assert!(lines(&part).contains(&"NET_GDR_LEVEL = \"PHB\""), "{part}");
    assert_eq!(warnings, "");
    let (part, warnings) = import(
        "a100-8gpu-10nic-tabs-pxb-pairs.txt",
        &["--gpu", "a100", "--hca", "^=mlx5_8,mlx5_9"],
    );
    assert_eq!(part.matches("[[host.nics]]").count(), 8);
    assert_eq!(warnings, "");
    let output = rocesim(&["import", "nccl-topo", "x.xml", "--gpu", "b20"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("b200"), "{}", text(&output.stderr));
}

#[test]
fn a_server_of_each_preset_takes_part_in_an_allreduce() {
    let folder = tempfile::tempdir().unwrap();
    for name in names(Kind::HostPreset) {
        // those that are a whole server have as many ports as that
        let ports = match name {
            "hgx-b300" | "oci-bm-gpu-h100-8" | "oci-bm-gpu4-8" | "oci-bm-gpu-b4-8" => 16,
            "aws-p4d" => 4,
            "h100-dual-port-nic" => 2,
            _ => 8,
        };
        let path = folder.path().join("s.toml");
        std::fs::write(&path, scenario(&format!("preset = \"{name}\""), ports)).unwrap();
        let report = json_report(&["s.toml"], folder.path());
        assert_eq!(report["outcome"], "completed", "{name}");
        assert_eq!(report["collectives"][0]["ranks"], 16, "{name}");
        let shown = rocesim(&["show", name], Path::new("."));
        assert_eq!(shown.status.code(), Some(0), "{name}: {}", text(&shown.stderr));
    }
}
