//! Reports of rocesim, and whatever else may be a run.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // these readers look for files beside the one that they are given
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let _ = validation::read_run(file.path());
});
