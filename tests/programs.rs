//! Programs of other tools that are refused, through the binary; scenarios/tests/programs.rs runs some.

mod common;

use std::fs;
use std::path::Path;

use common::{rocesim, text};

/// Four hosts of one GPU each on a star, with this traffic.
fn scenario(traffic: &str) -> String {
    format!(
        "[topology]\nkind = \"star\"\nhosts = 4\nlink = {{ rate = \"100Gbps\", delay = \"1us\" }}\n\
         [nic]\npreset = \"connectx-6-dx\"\n[switch]\npreset = \"generic-32mb\"\n\
         [host]\npreset = \"generic\"\ngpus = 1\n[nccl]\nIB_TC = 106\n\
         [[traffic]]\nname = \"it\"\n{traffic}"
    )
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program")).unwrap()
    {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

fn msccl(file: &str, bytes: &str) -> String {
    format!(
        "kind = \"program\"\nfile = \"{file}\"\nbytes = \"{bytes}\"\niterations = 2\nwarmup = 1\n"
    )
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = folder();
    let message = |traffic: &str| {
        let path = folder.path().join("s.toml");
        fs::write(&path, scenario(traffic)).unwrap();
        let output = rocesim(&["run", "s.toml", "--no-out"], folder.path());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    let cases = [
        (msccl("ring-5.xml", "1MiB"), "there is no such file"),
        (
            msccl("ring-4.xml", "1MiB") + "hosts = [0, 1, 2]\n",
            "is for 4 GPUs (ngpus), and 3 take part",
        ),
        (msccl("ring-4.xml", "12B"), "are not 4 equal chunks"),
        (msccl("ring-4.xml", "1MiB") + "unit = \"1us\"\n", "this is for GOAL schedules"),
        ("kind = \"program\"\nfile = \"ring-4.xml\"\n".to_owned(), "missing key `bytes`"),
        (msccl("ring-4.xml", "1MiB").replace("file", "fiel"), "did you mean `file`?"),
        (
            "kind = \"program\"\nfile = \"relay.goal\"\n".to_owned(),
            "it is for 3 ranks (num_ranks), and 4 GPUs",
        ),
        (msccl("relay.goal", "1MiB"), "this is for algorithms of MSCCL"),
    ];
    for (traffic, expected) in cases {
        let message = message(&traffic);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
