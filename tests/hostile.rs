//! Readers, on what came out of fuzzing and on good files that are damaged: an answer or a message.
//! The fuzzer itself takes a nightly compiler (CONTRIBUTING.md); this runs its functions over
//! `fuzz/seeds/`, where what it has found is kept.

use std::path::Path;
use std::time::{Duration, Instant};

#[path = "../fuzz/src/lib.rs"]
#[allow(unreachable_pub)] // there it is a crate
mod readers;

/// No reader may take longer for a file of a few kilobytes, in a build without optimisation too.
const LONG: Duration = Duration::from_secs(10);

/// What a fuzzer does first: cuts, bytes left out, doubled, and put in the place of others.
fn damaged(good: &[u8]) -> Vec<Vec<u8>> {
    let all = good.len();
    let places = |count: usize| (1..count).map(move |part| all * part / count);
    let cut = places(8).map(|at| good[..at].to_vec());
    let without = places(16).map(|at| [&good[..at], &good[(at + 7).min(all)..]].concat());
    let doubled = places(8).map(|at| [&good[..at], &good[at / 2..]].concat());
    let others: [&[u8]; 8] =
        [b"\0", b"\xff\xfe", b"18446744073709551616", b"-1", b"NaN", b"\"", b"[[[[", b"1e999"];
    let put = others.iter().flat_map(|other| {
        places(6).map(move |at| [&good[..at], other, &good[(at + other.len()).min(all)..]].concat())
    });
    cut.chain(without).chain(doubled).chain(put).collect()
}

#[test]
fn readers_answer_or_complain() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let mut read = 0;
    for (name, reader) in readers::READERS {
        let folder = seeds.join(name);
        let mut files: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{} has no seed", folder.display());
        for file in files {
            let good = std::fs::read(&file).unwrap();
            for bytes in std::iter::once(good.clone()).chain(damaged(&good)) {
                let start = Instant::now();
                reader(&bytes);
                let took = start.elapsed();
                assert!(took < LONG, "{}: {took:?}: {bytes:?}", file.display());
                read += 1;
            }
        }
    }
    assert!(read > 2000, "{read} files read");
}
