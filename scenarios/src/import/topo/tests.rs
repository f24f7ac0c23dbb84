//! Small files of our own.

use super::*;

fn import(text: &str, options: &TopoOptions) -> Result<TopoImport, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topo");
    std::fs::write(&path, text).unwrap();
    let bare = |message: String| message.replace(&format!("{}/", folder.path().display()), "");
    let mut imported = nccl_topo(&path, options).map_err(|error| bare(error.to_string()))?;
    imported.part.warnings = imported.part.warnings.into_iter().map(bare).collect();
    Ok(imported)
}

fn read(text: &str) -> Result<TopoImport, String> {
    import(text, &TopoOptions::default())
}

/// Two GPUs and a NIC of two ports below a switch, one more GPU behind another switch of this
/// socket, one more at the other socket.
const SYSTEM: &str = r#"<system version="1">
<cpu numaid="0" vendor="AuthenticAMD">
  <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
    <pci busid="0000:03:00.0" class="0x030200" vendor="0x10de" device="0x20b2" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:f0:00.0" count="12" tclass="0x068000"/></gpu>
    </pci>
    <pci busid="0000:02:00.0" class="0x030200" vendor="0x10de" device="0x20b2" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:f0:00.0" count="12" tclass="0x068000"/></gpu>
    </pci>
    <pci busid="0000:04:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="8">
      <pci busid="0000:05:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="100000" port="1" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="100000" port="2" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </pci>
  <pci busid="0000:11:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
    <pci busid="0000:12:00.0" class="0x030200" vendor="0x10de" device="0x20b2" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="2" sm="80" rank="2" gdr="1"><nvlink target="0000:f0:00.0" count="12" tclass="0x068000"/></gpu>
    </pci>
  </pci>
</cpu>
<cpu numaid="1">
  <pci busid="0000:80:00.0" class="0x030200" vendor="0x10de" device="0x20b2" link_speed="16.0 GT/s PCIe" link_width="16">
    <gpu dev="3" sm="80" rank="3" gdr="1"><nvlink target="0000:f0:00.0" count="12" tclass="0x068000"/></gpu>
  </pci>
  <pci busid="0000:81:00.0" class="0x0c0330"/>
</cpu>
<lid/>
</system>
"#;

#[test]
fn a_topology_becomes_the_keys_of_a_host() {
    let TopoImport { part, summary } = read(SYSTEM).unwrap();
    let warnings = part.warnings.join("\n");
    insta::assert_snapshot!("system", format!("{}---\n{summary}---\n{warnings}", part.toml));
}

#[test]
fn links_say_what_joins_gpus() {
    let rate = |text: &str| {
        let toml = read(text).unwrap().part.toml;
        let line = toml.lines().find(|line| line.starts_with("nvlink.rate")).unwrap().to_owned();
        line.split_once(" #").unwrap().0.trim_end().to_owned()
    };
    // 12 links of 25 GB/s
    assert_eq!(rate(SYSTEM), "nvlink.rate = \"1920Gbps\"");
    // PCIe alone: Gen4 x16
    assert_eq!(rate(&SYSTEM.replace("<nvlink", "<other")), "nvlink.rate = \"204Gbps\"");
    // pairs: PCIe all of them
    let pairs = |[a, b, c, d]: [&str; 4]| {
        let mut text = SYSTEM.to_owned();
        // in order of the file: GPUs 1, 0, 2, 3
        for target in [a, b, c, d] {
            text = text.replacen("0000:f0:00.0", target, 1);
        }
        text.replace("tclass=\"0x068000\"", "tclass=\"0x030200\"")
    };
    let own = ["0000:02:00.0", "0000:03:00.0", "0000:80:00.0", "0000:12:00.0"];
    assert_eq!(rate(&pairs(own)), "nvlink.rate = \"204Gbps\"");
    // a ring: all are joined, each GPU has 12 links straight to others
    let ring = ["0000:12:00.0", "0000:03:00.0", "0000:80:00.0", "0000:02:00.0"];
    assert_eq!(rate(&pairs(ring)), "nvlink.rate = \"1920Gbps\"");
}

#[test]
fn devices_are_chosen_as_by_nccl_ib_hca() {
    let options = TopoOptions { hca: Some("mlx5_1".to_owned()), gpu: Some("h100".to_owned()) };
    let toml = import(SYSTEM, &options).unwrap().part.toml;
    for line in [
        "ports = 1 ",
        "names = [\"mlx5_1\"]",
        "preset = \"hgx-h100\"",
        // 12 links of 20.6 GB/s
        "nvlink.rate = \"1977600Mbps\"",
    ] {
        assert!(toml.contains(line), "{line}: {toml}");
    }
    let options = TopoOptions { hca: Some("bnxt".to_owned()), gpu: None };
    assert_eq!(
        import(SYSTEM, &options).unwrap_err(),
        "topo: --hca bnxt leaves no NIC of this file"
    );
}

#[test]
fn only_pci_devices_with_classes_will_do() {
    // two functions of a device are two ports; a Grace CPU makes its NICs near
    let text = "<system version=\"1\"><cpu numaid=\"0\">\n\
                <pci busid=\"0000:05:00.1\" class=\"0x020700\"/>\n\
                <pci busid=\"0000:05:00.0\" class=\"0x020700\"/>\n\
                <pci busid=\"0000:06:00.0\" class=\"0x030200\"/></cpu></system>";
    let options = TopoOptions { gpu: Some("gb200".to_owned()), hca: None };
    let imported = import(text, &options).unwrap();
    for line in ["gpus = 1 ", "ports = 2 ", "paths = [\"PHB\"]", "NET_GDR_LEVEL = \"PHB\""] {
        assert!(imported.part.toml.contains(line), "{line}: {}", imported.part.toml);
    }
    assert_eq!(imported.part.warnings, [""; 0]);
    let warnings = read(text).unwrap().part.warnings.join("\n");
    assert!(warnings.contains("it does not say what the GPUs are"), "{warnings}");
    assert!(warnings.contains("no NIC is nearer to a GPU than the host bridge"), "{warnings}");
}

#[test]
fn broken_topologies_say_where_and_what_was_expected() {
    let change = |from: &str, to: &str| read(&SYSTEM.replacen(from, to, 1)).unwrap_err();
    let messages = [
        read(&SYSTEM[..700]).unwrap_err(),
        read("hello\nworld\n").unwrap_err(),
        read("").unwrap_err(),
        read("<html><body/></html>").unwrap_err(),
        read("<systm/>").unwrap_err(),
        read("<system version=\"1\"></system>").unwrap_err(),
        change("busid=\"0000:03:00.0\"", "busid=\"0000:02:00.0\""),
        change("busid=\"0000:03:00.0\"", "busid=\"3:0\""),
        change("busid=\"0000:03:00.0\"", "bus_id=\"0000:03:00.0\""),
        change("class=\"0x030200\"", "class=\"gpu\""),
        change("dev=\"1\"", "dev=\"one\""),
        change("dev=\"1\"", "dev=\"0\""),
        change("count=\"12\"", "count=\"-1\""),
        change("<cpu numaid=\"1\">", "<cpu numaid=\"0\">"),
        change("<cpu numaid=\"1\">", "<cpu numaid=\"1\" host_hash=\"0x1\">"),
        change("name=\"mlx5_1\"", "name=\"mlx5_0\""),
        change("<lid/>", "<net name=\"mlx5_2\"/><cpu numaid=\"2\"><gpu/></cpu>"),
        read(
            &SYSTEM
                .replace("<gpu ", "<!-- ")
                .replace("</gpu>", "-->")
                .replace("0x030200", "0x020000"),
        )
        .unwrap_err(),
        read("<system><cpu numaid=\"0\"><pci busid=\"0000:00:16.0\"/></cpu></system>").unwrap_err(),
    ];
    insta::assert_snapshot!("broken", messages.join("\n"));
}

#[test]
fn a_graph_says_what_it_is() {
    let text = "<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" crossnic=\"2\" nchannels=\"1\" \
                speedintra=\"20\" speedinter=\"24\" typeintra=\"NVL\" typeinter=\"PXB\">\n\
                <channel><net dev=\"0\"/><gpu dev=\"0\"/><gpu dev=\"1\"/><net dev=\"1\"/></channel>\n\
                </graph></graphs>";
    assert_eq!(
        read(text).unwrap_err(),
        "topo:1: this is a graph (NCCL_GRAPH_FILE), no topology: it has the channels that NCCL's \
         search found, not what the server is built of; <system> is expected, as \
         NCCL_TOPO_DUMP_FILE writes it. This one has:\n\
         \x20 ring (id 0, pattern 4: ring): 1 channel of 20 GB/s, 24 between servers\n\
         \x20   paths: NVL between GPUs, PXB to NICs; crossnic 2\n\
         \x20   channel 0: NET 0, GPU 0 1, NET 1"
    );
}

const MATRIX: &str = "user@host:~$ nvidia-smi topo -m
\x1b[4mGPU0\tGPU1\tmlx5_0\tNIC1\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV4\tPIX\tNODE\t0-7,16-23\t0
GPU1\tNV4\t X \tPHB\tSYS\t8-15\t1
mlx5_0\tPIX\tPHB\t X \tSYS
NIC1\tNODE\tSYS\tSYS\t X

Legend:
  X    = Self
NIC Legend:
  NIC1: mlx5_bond_0
";

#[test]
fn a_matrix_becomes_the_keys_of_a_host() {
    let imported = read(MATRIX).unwrap();
    let toml = &imported.part.toml;
    for line in [
        "gpus = 2 ",
        // 4 links of 25 GB/s straight to the other
        "nvlink.rate = \"640Gbps\"",
        "names = [\"mlx5_0\"]",
        "paths = [\"PIX\", \"PHB\"]",
        "names = [\"mlx5_bond_0\"]",
        "mode = \"bond\"",
        "paths = [\"NODE\", \"SYS\"]",
    ] {
        assert!(toml.contains(line), "{line}: {toml}");
    }
    assert!(imported.summary.contains("2 NUMA nodes"), "{}", imported.summary);
    // the same as a table of Markdown
    let table: String = MATRIX
        .lines()
        .map(|line| match line.contains('\t') {
            true => format!("| {} |\n", line.replace('\t', " | ")),
            false => format!("{line}\n"),
        })
        .collect();
    assert_eq!(read(&table).unwrap(), imported);
}

#[test]
fn a_matrix_may_lack_what_its_other_half_says() {
    // the row of GPU0 is missing: its cells are in those of the others
    let without = MATRIX.replace("GPU0\t X \tNV4\tPIX\tNODE\t0-7,16-23\t0\n", "");
    let paths = |text: &str| {
        let toml = read(text).unwrap().part.toml;
        toml.lines()
            .filter(|line| line.starts_with("paths"))
            .map(|line| line.split('#').next().unwrap().trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(&without), paths(MATRIX));
    // cut off in the row of GPU1: SYS is taken for what is missing
    let end = MATRIX.find("\tPHB").unwrap();
    let cut = read(&MATRIX[..end]).unwrap();
    assert!(cut.part.toml.contains("paths = [\"PIX\", \"SYS\"]"), "{}", cut.part.toml);
    let warnings = cut.part.warnings.join("\n");
    assert!(warnings.contains("cut off after row GPU0: SYS is taken"), "{warnings}");
}

#[test]
fn broken_matrices_say_where_and_what_was_expected() {
    let change = |from: &str, to: &str| read(&MATRIX.replacen(from, to, 1)).unwrap_err();
    let end = MATRIX.find("mlx5_0\tPIX").unwrap();
    let upper = &MATRIX[..end];
    let messages = [
        // a row in the middle, and no other half
        read(&upper.replace("GPU0\t X \tNV4\tPIX\tNODE\t0-7,16-23\t0\n", "")).unwrap_err(),
        change("NODE", "NOD"),
        change("NODE", "PIX"),
        change("GPU1\tNV4\t X ", "GPU1\t X \tNV4"),
        change("GPU1\tNV4\t X \tPHB\tSYS\t8-15\t1", "GPU1\tNV4\t X \tPHB"),
        change("GPU1\tNV4", "GPU2\tNV4"),
        change("GPU1\tNV4", "GPU0\tNV4"),
        change("GPU0\tGPU1\tmlx5_0", "GPU0\tGPU0\tmlx5_0"),
        read(&format!("{MATRIX}{MATRIX}")).unwrap_err(),
    ];
    insta::assert_snapshot!("broken-matrices", messages.join("\n"));
}
