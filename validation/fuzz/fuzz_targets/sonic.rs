//! Tables of SONiC, which begin in several ways.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // so that the reader of this kind is the one that is asked
    let text = [b"".as_slice(), bytes].concat();
    let _ = validation::read_any_bytes(Path::new("fuzz"), text);
});
