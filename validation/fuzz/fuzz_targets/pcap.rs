//! Captures: pcap and pcapng.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = validation::pcap::count_capture(bytes, None);
});
